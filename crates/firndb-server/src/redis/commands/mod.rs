//! The commands: one table with their names, arguments and functions, which also answers COMMAND.

mod connection;
mod counters;
mod expiry;
mod info;
mod keys;
mod list;
mod scan;
mod strings;
mod table;

pub use list::count_keys;
pub use scan::READ_ONLY;
pub use table::{COMMANDS, GET, SET, find};

use super::codec::Args;
use super::reply::Out;
use super::session::{Context, Session};
use super::unit::Unit;
use firndb::log::MAX_KEY;
use firndb::{Error, ErrorKind};
use std::borrow::Cow;

/// A command.
#[derive(Debug)]
pub struct Command {
    /// Its name in lower case.
    pub name: &'static str,
    /// The number of arguments with the name; a negative number is the least one.
    pub arity: i32,
    /// What it does: a sum of [`flags`].
    pub flags: u16,
    /// The positions of the first and the last key, negative from the end, and the step between
    /// two keys; all 0 if it has none.
    pub keys: (i32, i32, i32),
    /// What runs it.
    pub run: Run,
    /// The group in the documentation.
    pub group: &'static str,
    /// The version of Redis that had it first.
    pub since: &'static str,
    /// What it does, for people.
    pub summary: &'static str,
}

/// What commands do.
pub mod flags {
    /// Reads keys.
    pub const READ: u16 = 1;
    /// Writes keys.
    pub const WRITE: u16 = 2;
    /// Takes about as long for any store.
    pub const FAST: u16 = 4;
    /// May take long: it runs in a thread where it may block, and few at a time.
    pub const LONG: u16 = 8;
    /// Needs no credentials.
    pub const NO_AUTH: u16 = 16;
    /// Cannot be part of a transaction.
    pub const NO_MULTI: u16 = 32;
    /// Needs the role `admin`.
    pub const ADMIN: u16 = 64;
}

/// A command on a store.
pub type StoreCommand = for<'s, 'a> fn(&mut Unit<'s, 'a>, Args<'a>, &mut Out) -> Outcome;
/// A command about the connection or the server.
pub type SessionCommand = fn(&mut Session, &Context<'_>, Args<'_>, &mut Out) -> Outcome;

/// What runs a command.
#[derive(Clone, Copy, Debug)]
pub enum Run {
    /// A function on a store, which may run again.
    Store(StoreCommand),
    /// A function on the connection.
    Session(SessionCommand),
    /// MULTI.
    Multi,
    /// EXEC.
    Exec,
    /// DISCARD.
    Discard,
    /// WATCH.
    Watch,
    /// UNWATCH.
    Unwatch,
}

impl Command {
    /// Whether the command has all of these flags.
    #[inline]
    pub fn is(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }

    /// Whether it may have this many arguments, with its name.
    #[inline]
    pub fn accepts(&self, count: usize) -> bool {
        match usize::try_from(self.arity) {
            Ok(exactly) => count == exactly,
            Err(_) => count >= self.arity.unsigned_abs() as usize,
        }
    }
}

/// Whether a command has succeeded; it has then written its reply.
pub type Outcome = Result<(), Fail>;

/// Why a command has failed.
#[derive(Debug)]
pub enum Fail {
    /// The error's text, which begins with its kind.
    Text(Cow<'static, str>),
    /// An unknown option.
    Syntax,
    /// An argument, or a value, is not an integer.
    NotAnInteger,
    /// An argument, or a value, is not a number.
    NotAFloat,
    /// The reply exceeds the limit.
    TooLarge,
    /// The store's error.
    Store(Error),
}

impl From<Error> for Fail {
    fn from(error: Error) -> Fail {
        Fail::Store(error)
    }
}

/// A failure with a fixed text.
pub fn text(text: &'static str) -> Fail {
    Fail::Text(Cow::Borrowed(text))
}

impl Fail {
    /// A wrong number of arguments.
    pub fn arity(command: &str) -> Fail {
        let text = format!("ERR wrong number of arguments for '{command}' command");
        Fail::Text(Cow::Owned(text))
    }

    /// A word after the name of a command that is not known there.
    pub fn subcommand(command: &str, word: &[u8]) -> Fail {
        let word = String::from_utf8_lossy(&word[..word.len().min(128)]).into_owned();
        let text = format!("ERR unknown subcommand '{word}'. Try {command} HELP.");
        Fail::Text(Cow::Owned(text))
    }

    /// Writes the error.
    pub fn write(&self, out: &mut Out) {
        match self {
            Fail::Text(text) => out.error(text),
            Fail::Syntax => out.error("ERR syntax error"),
            Fail::NotAnInteger => out.error("ERR value is not an integer or out of range"),
            Fail::NotAFloat => out.error("ERR value is not a valid float"),
            Fail::TooLarge => out.error("ERR the reply exceeds the limit of the server"),
            Fail::Store(error) => {
                // The reply has no path of the server; its log has.
                let kind = error.kind();
                if matches!(kind, ErrorKind::Io | ErrorKind::Failed | ErrorKind::Corrupt) {
                    tracing::error!(%error, "a command failed");
                }
                out.error(&format!("{} {}", kind.redis_prefix(), error.message()));
            }
        }
    }
}

/// A word in upper case; empty if it is longer than the buffer.
#[inline]
pub fn uppercase<'b, const N: usize>(word: &[u8], buffer: &'b mut [u8; N]) -> &'b [u8] {
    let Some(upper) = buffer.get_mut(..word.len()) else { return &[] };
    upper.copy_from_slice(word);
    upper.make_ascii_uppercase();
    upper
}

/// An error if a key is too long to be written.
fn check_key(key: &[u8]) -> Outcome {
    match key.len() <= MAX_KEY {
        true => Ok(()),
        false => Err(Error::invalid(format!("a key has more than {MAX_KEY} bytes")).into()),
    }
}
