//! A client's session: who it is, which store it has chosen, and, in `run.rs`, running its
//! commands.

mod run;

use super::codec::{Args, Parser};
use super::commands::{self, Fail, text};
use super::database::Database;
use super::reply::Out;
use super::transaction::{Transaction, Watched};
use crate::app::{App, Deadline};
use crate::auth::{Role, Tokens};
use crate::net::Peer;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Replies are sent when they have this many bytes.
pub const FLUSH: usize = 64 << 10;
/// The longest name of a client, or name or version of its driver.
const NAME_MAX: usize = 256;

/// What the sessions of a server share.
#[derive(Clone, Copy)]
pub struct Context<'c> {
    /// The server.
    pub app: &'c App,
    /// The stores by number.
    pub databases: &'c [Database],
    /// When the server started.
    pub started: Instant,
    /// The port of the interface.
    pub port: u16,
    /// The number of connections.
    pub clients: &'c AtomicU64,
}

impl Context<'_> {
    /// The number of connections.
    pub fn connected(&self) -> u64 {
        self.clients.load(Ordering::Relaxed)
    }

    /// The most arguments of a command: a key and a value for each key that is allowed.
    pub fn arguments(&self) -> usize {
        self.app.config.limits.keys.saturating_mul(2).saturating_add(1)
    }
}

/// Which replies a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replies {
    /// All.
    All,
    /// All but that to the next command.
    SkipNext,
    /// None.
    None,
}

/// How commands may run.
#[derive(Clone, Copy)]
pub enum Mode<'d> {
    /// In a thread that serves other connections too: nothing may take long.
    Inline,
    /// In a thread where writes may wait for the disk.
    Synced,
    /// In a thread where a query may take long, until a deadline.
    Long(&'d Deadline),
}

/// Why [`Session::run`] has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// All commands have run.
    Done,
    /// Replies should be sent first.
    Flush,
    /// The next command needs [`Mode::Synced`].
    Synced,
    /// The next command needs [`Mode::Long`].
    Long,
}

/// Commands that were parsed, and which of them is next.
pub struct Turn<'t> {
    /// What the sessions share.
    pub context: Context<'t>,
    /// The parsed commands.
    pub parser: &'t Parser,
    /// The bytes of the commands.
    pub input: &'t [u8],
    /// The number of the next command.
    pub next: usize,
    /// The replies.
    pub out: &'t mut Out,
    /// How commands may run.
    pub mode: Mode<'t>,
}

impl<'t> Turn<'t> {
    fn args(&self, n: usize) -> Args<'t> {
        self.parser.args(n, self.input)
    }

    /// The next command has failed.
    fn fail(&mut self, fail: &Fail) {
        fail.write(self.out);
        self.next += 1;
    }
}

/// A client's session.
pub struct Session {
    /// The number of the connection.
    pub id: u64,
    /// Which replies the client wants.
    pub replies: Replies,
    peer: Peer,
    started: Instant,
    name: String,
    /// The name and the version of the client's driver: LIB-NAME and LIB-VER.
    driver: [String; 2],
    database: usize,
    token: Option<Vec<u8>>,
    /// The tokens with which the role was found.
    tokens: Option<Arc<Tokens>>,
    role: Option<Role>,
    transaction: Option<Transaction>,
    watched: Watched,
    is_closing: bool,
    /// The places in the table of commands that run together.
    places: Vec<usize>,
}

impl Session {
    /// A session of a client that has not sent anything.
    pub fn new(id: u64, peer: Peer) -> Session {
        Session {
            id,
            replies: Replies::All,
            peer,
            started: Instant::now(),
            name: String::new(),
            driver: Default::default(),
            database: 0,
            token: None,
            tokens: None,
            role: None,
            transaction: None,
            watched: Watched::default(),
            is_closing: false,
            places: Vec::new(),
        }
    }

    /// Ends the session after the replies so far.
    pub fn close(&mut self) {
        self.is_closing = true;
    }

    /// Whether the session has ended.
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// What the client may do; `None` if it has to authenticate.
    pub fn role(&self) -> Option<Role> {
        self.role
    }

    /// Finds the client's role again if the tokens of the server were replaced.
    pub fn update_role(&mut self, context: &Context<'_>) {
        let tokens = context.app.tokens.load();
        if self.tokens.as_ref().is_some_and(|known| Arc::ptr_eq(known, &tokens)) {
            return;
        }
        let tls = context.app.config.tls.as_ref();
        self.role = tokens.role_of(tls, self.peer.has_certificate, self.token.as_deref());
        self.tokens = Some(Arc::clone(&tokens));
    }

    /// Takes on the role of a token.
    pub fn authenticate(&mut self, context: &Context<'_>, token: &[u8]) -> Result<(), Fail> {
        let tokens = context.app.tokens.load();
        if tokens.is_required() && tokens.role(token).is_none() {
            return Err(text("WRONGPASS invalid username-password pair or user is disabled."));
        }
        self.token = Some(token.to_vec());
        self.tokens = None;
        self.update_role(context);
        Ok(())
    }

    /// Chooses a store by its number.
    pub fn select(&mut self, database: usize) {
        self.database = database;
    }

    /// Puts the session into its first state.
    pub fn reset(&mut self, context: &Context<'_>) {
        let first = Session::new(self.id, self.peer);
        *self = Session { started: self.started, ..first };
        self.update_role(context);
    }

    /// The name that the client has given itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names the client.
    pub fn set_name(&mut self, name: &[u8]) -> Result<(), Fail> {
        let wrong = "ERR Client names cannot contain spaces, newlines or special characters.";
        self.name = printable(name).ok_or_else(|| text(wrong))?;
        Ok(())
    }

    /// Notes the name or the version of the client's driver.
    pub fn set_info(&mut self, attribute: &[u8], value: &[u8]) -> Result<(), Fail> {
        let mut name = [0; 16];
        let (n, name) = match commands::uppercase(attribute, &mut name) {
            b"LIB-NAME" => (0, "lib-name"),
            b"LIB-VER" => (1, "lib-ver"),
            _ => {
                let attribute = String::from_utf8_lossy(attribute).into_owned();
                return Err(Fail::Text(format!("ERR Unrecognized option '{attribute}'").into()));
            }
        };
        let wrong = || {
            let message = "cannot contain spaces, newlines or special characters.";
            Fail::Text(format!("ERR {name} {message}").into())
        };
        self.driver[n] = printable(value).ok_or_else(wrong)?;
        Ok(())
    }

    /// The client in the form of CLIENT INFO.
    pub fn describe(&self, context: &Context<'_>, is_resp3: bool) -> String {
        let commands = self.transaction.as_ref().map_or(-1, |t| t.count() as i64);
        format!(
            "id={} addr={} laddr=*:{} name={} age={} db={} multi={commands} resp={} lib-name={} \
             lib-ver={}\n",
            self.id,
            self.peer.address,
            context.port,
            self.name,
            self.started.elapsed().as_secs(),
            self.database,
            if is_resp3 { 3 } else { 2 },
            self.driver[0],
            self.driver[1],
        )
    }
}

/// A short text of printable characters without spaces.
fn printable(bytes: &[u8]) -> Option<String> {
    let valid = bytes.len() <= NAME_MAX && bytes.iter().all(|c| (b'!'..=b'~').contains(c));
    valid.then(|| String::from_utf8_lossy(bytes).into_owned())
}
