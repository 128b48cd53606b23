//! A client's session: who it is, which store it has chosen, and running its commands.
//!
//! Commands run in their order. Several gets in a row become one batch of reads, several writes in
//! a row one batch of the log: see [`Session::run`].

use super::codec::{Args, Parser};
use super::commands::{self, COMMANDS, Command, Fail, Run, flags, text};
use super::database::Database;
use super::reply::{Mark, Out};
use super::transaction::{Transaction, Watched, back_off};
use super::unit::{Source, Unit};
use crate::app::{App, Deadline};
use crate::auth::{Role, Tokens};
use crate::net::Peer;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Replies are sent when they have this many bytes.
pub const FLUSH: usize = 64 << 10;
/// Gets that become one batch of reads.
const READS: usize = 64;
/// Writes that become one batch of the log.
const WRITES: usize = 512;
/// Arguments from which on a command counts as one that may take long.
const MANY: usize = 1000;
/// Commands of a transaction from which on it counts as one that may take long.
const MANY_COMMANDS: usize = 100;
/// How often writes run together, and how often one runs alone.
const ATTEMPTS: u32 = 3;
const ATTEMPTS_ALONE: u32 = 1000;
/// The longest name of a client or its library.
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
    /// The name and the version of the client's library.
    library: [String; 2],
    database: usize,
    token: Option<Vec<u8>>,
    /// The tokens with which the role was found.
    tokens: Option<Arc<Tokens>>,
    role: Option<Role>,
    transaction: Option<Transaction>,
    watched: Watched,
    is_closing: bool,
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
            library: Default::default(),
            database: 0,
            token: None,
            tokens: None,
            role: None,
            transaction: None,
            watched: Watched::default(),
            is_closing: false,
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

    /// Names the client's library.
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
        self.library[n] = printable(value).ok_or_else(wrong)?;
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
            self.library[0],
            self.library[1],
        )
    }

    /// Runs commands until all have run, or something else has to be done first. Each command that
    /// has run has written its reply; a write has been made then.
    pub fn run(&mut self, turn: &mut Turn<'_>) -> Step {
        self.update_role(&turn.context);
        while turn.next < turn.parser.count() && !self.is_closing {
            let context = turn.context;
            let Some(database) = context.databases.get(self.database) else {
                turn.fail(&text("ERR the server has no log store and no table"));
                continue;
            };
            let step = database.with(context.app, |source| self.run_on(turn, database, source));
            if step != Step::Done {
                return step;
            }
        }
        Step::Done
    }

    /// Runs commands until all have run, another store was chosen, or something else has to be done
    /// first.
    fn run_on(
        &mut self,
        turn: &mut Turn<'_>,
        database: &Database,
        source: Result<Source<'_>, String>,
    ) -> Step {
        let chosen = self.database;
        while turn.next < turn.parser.count() && !self.is_closing && self.database == chosen {
            if turn.out.len() >= FLUSH {
                return Step::Flush;
            }
            let args = turn.args(turn.next);
            let checked = self.check(args, database, &turn.context);
            let command = match checked {
                Ok(command) => command,
                Err(fail) => {
                    let (mark, wanted) = (turn.out.mark(), self.replies);
                    self.abort();
                    turn.fail(&fail);
                    if wanted != Replies::All {
                        self.hide(turn.out, mark, wanted);
                    }
                    continue;
                }
            };
            if let Some(step) = self.needs(command, args, database, turn.mode) {
                return step;
            }
            let (mark, wanted) = (turn.out.mark(), self.replies);
            match &source {
                Ok(source) if self.transaction.is_none() && is_short_write(command) => {
                    self.write_all(turn, database, *source);
                }
                Ok(source)
                    if self.transaction.is_none()
                        && command == commands::GET
                        && wanted == Replies::All =>
                {
                    self.get_all(turn, database, *source);
                }
                source => {
                    let source = source.as_ref().copied().map_err(String::as_str);
                    self.run_one(turn, command, source);
                }
            }
            if wanted != Replies::All {
                self.hide(turn.out, mark, wanted);
            }
        }
        Step::Done
    }

    /// The place of a command in the table, if the client may run it.
    fn check(
        &mut self,
        args: Args<'_>,
        database: &Database,
        context: &Context<'_>,
    ) -> Result<usize, Fail> {
        let Some(place) = commands::find(args.at(0)) else { return Err(self.unknown(args)) };
        let command = &COMMANDS[place];
        if !command.accepts(args.count()) {
            if matches!(command.run, Run::Exec) {
                (self.transaction, self.watched) = Default::default();
                return Err(text(
                    "EXECABORT Transaction discarded because of: wrong number of arguments for \
                     'exec' command",
                ));
            }
            return Err(Fail::arity(command.name));
        }
        if !command.is(flags::NO_AUTH) {
            self.check_role(command)?;
        }
        let limit = context.app.config.limits.keys;
        if args.count() > limit && commands::count_keys(command, args.count()) > limit {
            return Err(Fail::Text(format!("ERR too many keys: at most {limit}").into()));
        }
        if command.is(flags::NO_MULTI) && self.transaction.is_some() {
            return Err(text("ERR Command not allowed inside a transaction"));
        }
        if command.is(flags::WRITE) && database.is_read_only {
            return Err(text(commands::READ_ONLY));
        }
        Ok(place)
    }

    fn check_role(&self, command: &Command) -> Result<(), Fail> {
        let Some(role) = self.role else {
            return Err(text("NOAUTH Authentication required."));
        };
        let needed = match command.flags {
            flags if flags & flags::ADMIN != 0 => Role::Admin,
            flags if flags & flags::WRITE != 0 => Role::Write,
            _ => Role::Read,
        };
        match role >= needed {
            true => Ok(()),
            false => {
                let name = command.name;
                let message =
                    format!("NOPERM this user has no permissions to run the '{name}' command");
                Err(Fail::Text(message.into()))
            }
        }
    }

    /// The error of a name that is no command's. A request of a web browser ends the connection: a
    /// web page may have sent it, with commands in its body.
    fn unknown(&mut self, args: Args<'_>) -> Fail {
        let name = args.at(0);
        if name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:") {
            self.is_closing = true;
        }
        let show = |bytes: &[u8], most: usize| {
            String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).into_owned()
        };
        let mut shown = String::new();
        for argument in args.from(1) {
            if shown.len() >= 128 {
                break;
            }
            shown += &format!("'{}' ", show(argument, 128 - shown.len()));
        }
        let name = show(name, 128);
        let message = format!("ERR unknown command '{name}', with args beginning with: {shown}");
        Fail::Text(message.into())
    }

    /// What a command needs that the mode does not allow.
    fn needs(
        &self,
        place: usize,
        args: Args<'_>,
        database: &Database,
        mode: Mode<'_>,
    ) -> Option<Step> {
        let command = &COMMANDS[place];
        let (mut is_long, mut writes) = (command.is(flags::LONG), command.is(flags::WRITE));
        is_long |= args.count() > MANY;
        if let Some(transaction) = &self.transaction {
            let runs = matches!(command.run, Run::Exec);
            is_long = runs && transaction.count() > MANY_COMMANDS;
            writes = runs && transaction.writes;
        }
        match mode {
            Mode::Inline | Mode::Synced if is_long => Some(Step::Long),
            Mode::Inline if writes && database.is_synced => Some(Step::Synced),
            _ => None,
        }
    }

    /// A transaction cannot run any more, because one of its commands cannot.
    fn abort(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.is_aborted = true;
        }
    }

    /// Runs the next command.
    fn run_one(&mut self, turn: &mut Turn<'_>, place: usize, source: Result<Source<'_>, &str>) {
        let mark = turn.out.mark();
        let args = turn.args(turn.next);
        let result = self.dispatch(turn, place, args, source);
        if let Err(fail) = result {
            turn.out.rewind(mark);
            fail.write(turn.out);
        }
        turn.context.app.metrics.redis.count(place);
        turn.next += 1;
    }

    /// Drops the reply to a command that the client does not want. `wanted` is what it had asked
    /// for before.
    fn hide(&mut self, out: &mut Out, mark: Mark, wanted: Replies) {
        if wanted == Replies::SkipNext || self.replies == Replies::None {
            out.rewind(mark);
        }
        if wanted == Replies::SkipNext && self.replies == wanted {
            self.replies = Replies::All;
        }
    }

    fn dispatch(
        &mut self,
        turn: &mut Turn<'_>,
        place: usize,
        args: Args<'_>,
        source: Result<Source<'_>, &str>,
    ) -> Result<(), Fail> {
        let context = turn.context;
        match (COMMANDS[place].run, &mut self.transaction) {
            (Run::Session(run), _) => return run(self, &context, args, turn.out),
            (Run::Multi, Some(_)) => return Err(text("ERR MULTI calls can not be nested")),
            (Run::Multi, None) => {
                self.transaction = Some(Transaction::default());
                turn.out.ok();
                return Ok(());
            }
            (Run::Exec, None) => return Err(text("ERR EXEC without MULTI")),
            (Run::Discard, None) => return Err(text("ERR DISCARD without MULTI")),
            (Run::Discard, Some(_)) => {
                self.transaction = None;
                self.watched.clear();
                turn.out.ok();
                return Ok(());
            }
            (Run::Watch, Some(_)) => {
                return Err(text("ERR WATCH inside MULTI is not allowed"));
            }
            (Run::Unwatch, None) => {
                self.watched.clear();
                turn.out.ok();
                return Ok(());
            }
            (Run::Store(_) | Run::Unwatch, Some(transaction)) => {
                let queued = transaction.push(place, args, &context);
                transaction.is_aborted |= queued.is_err();
                queued?;
                turn.out.simple("QUEUED");
                return Ok(());
            }
            (Run::Exec, Some(_)) | (Run::Watch | Run::Store(_), None) => {}
        }
        // A transaction ends even if the store is not there.
        let transaction = self.transaction.take();
        let source = source.map_err(|error| Fail::Text(error.to_string().into()));
        match (COMMANDS[place].run, transaction) {
            (Run::Store(run), _) => {
                let limits = &context.app.config.limits;
                let mut unit = Unit::new(source?, limits, false);
                unit.may_flush = context.app.config.redis.flushdb;
                if let Mode::Long(deadline) = turn.mode {
                    unit.deadline = Some(deadline);
                }
                let result = run(&mut unit, args, turn.out);
                debug_assert!(!unit.writes(), "`write_all` runs commands that write");
                result
            }
            (Run::Watch, _) => {
                self.watched.add(args, source?, self.database, &context)?;
                turn.out.ok();
                Ok(())
            }
            (_, Some(transaction)) => self.exec(&transaction, source, turn),
            (_, None) => Ok(()),
        }
    }

    /// Runs a transaction.
    fn exec(
        &mut self,
        transaction: &Transaction,
        source: Result<Source<'_>, Fail>,
        turn: &mut Turn<'_>,
    ) -> Result<(), Fail> {
        let watched = std::mem::take(&mut self.watched);
        if transaction.is_aborted {
            return Err(text("EXECABORT Transaction discarded because of previous errors."));
        }
        if watched.is_elsewhere(self.database) {
            return Err(text("ERR the watched keys are of another store"));
        }
        // The role may have changed since the commands were queued.
        transaction.commands().try_for_each(|place| self.check_role(&COMMANDS[place]))?;
        transaction.run(source?, &watched, &turn.context, turn.out)?;
        transaction.commands().for_each(|place| turn.context.app.metrics.redis.count(place));
        Ok(())
    }

    /// The number of commands from the next one on, at most `most`, that the client may run and
    /// `is_alike` accepts. The next command is one of them.
    fn alike(
        &mut self,
        turn: &Turn<'_>,
        database: &Database,
        most: usize,
        is_alike: impl Fn(usize) -> bool,
    ) -> usize {
        let mut count = 1;
        while count < most && turn.next + count < turn.parser.count() {
            let args = turn.args(turn.next + count);
            let place = commands::find(args.at(0)).filter(|place| is_alike(*place));
            if place.is_none()
                || args.count() > MANY
                || self.check(args, database, &turn.context).is_err()
            {
                break;
            }
            count += 1;
        }
        count
    }

    /// Runs the gets from the next command on.
    fn get_all(&mut self, turn: &mut Turn<'_>, database: &Database, source: Source<'_>) {
        let count = self.alike(turn, database, READS, |place| place == commands::GET);
        let mut keys = [&[][..]; READS];
        (0..count).for_each(|n| keys[n] = turn.args(turn.next + n).at(1));
        let mut done = 0;
        let read = source.read_many(&keys[..count], |value| {
            turn.out.bulk_or_null(value);
            done += 1;
            match turn.out.len() < FLUSH {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        });
        let metrics = &turn.context.app.metrics.redis;
        (0..done).for_each(|_| metrics.count(commands::GET));
        turn.next += done;
        if let Err(error) = read {
            metrics.count(commands::GET);
            turn.fail(&error.into());
        }
    }

    /// Runs the writes from the next command on, and makes them together.
    fn write_all(&mut self, turn: &mut Turn<'_>, database: &Database, source: Source<'_>) {
        let most = if self.replies == Replies::All { WRITES } else { 1 };
        let mut count = self.alike(turn, database, most, is_short_write);
        let limits = &turn.context.app.config.limits;
        let metrics = &turn.context.app.metrics.redis;
        for attempt in 0..ATTEMPTS + ATTEMPTS_ALONE {
            if attempt == ATTEMPTS {
                // Others change these records all the time.
                count = 1;
            }
            let mark = turn.out.mark();
            let mut unit = Unit::new(source, limits, true);
            let mut done = 0;
            while done < count && turn.out.len() < FLUSH {
                run_write(turn.args(turn.next + done), &mut unit, turn.out);
                done += 1;
            }
            match unit.commit() {
                Ok(true) => {
                    for n in 0..done {
                        commands::find(turn.args(turn.next + n).at(0)).map(|n| metrics.count(n));
                    }
                    turn.next += done;
                    return;
                }
                Ok(false) => {
                    turn.out.rewind(mark);
                    metrics.conflicts.inc();
                    back_off(attempt);
                }
                Err(error) if done > 1 => {
                    // Some of them may be possible: one does not fit, for example.
                    turn.out.rewind(mark);
                    tracing::debug!(%error, "writes are tried one by one");
                    count = 1;
                }
                Err(error) => {
                    turn.out.rewind(mark);
                    return turn.fail(&error.into());
                }
            }
        }
        turn.fail(&text("TRYAGAIN the record changes too often"));
    }
}

/// Whether a command writes through a [`Unit`].
fn is_short_write(place: usize) -> bool {
    let flags = COMMANDS[place].flags;
    flags & flags::WRITE != 0 && flags & flags::LONG == 0
}

/// Runs a command as a part of a unit.
fn run_write<'a>(args: Args<'a>, unit: &mut Unit<'_, 'a>, out: &mut Out) {
    let mark = out.mark();
    let result = match commands::find(args.at(0)).map(|place| COMMANDS[place].run) {
        Some(Run::Store(run)) => run(unit, args, out),
        _ => Err(Fail::Syntax),
    };
    if let Err(fail) = result {
        out.rewind(mark);
        fail.write(out);
    }
}

/// A short text of printable characters without spaces.
fn printable(bytes: &[u8]) -> Option<String> {
    let valid = bytes.len() <= NAME_MAX && bytes.iter().all(|c| (b'!'..=b'~').contains(c));
    valid.then(|| String::from_utf8_lossy(bytes).into_owned())
}
