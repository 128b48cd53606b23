//! Transactions: MULTI, EXEC, DISCARD and WATCH.
//!
//! The commands between MULTI and EXEC are copied. EXEC runs them as one [`Unit`]: they take effect
//! together, and only if no record that they read, or that WATCH named, was changed meanwhile. If a
//! watched record was changed the reply is null, as in Redis. If another one was, they run again;
//! the client does not notice.
//!
//! WATCH remembers the versions of records. A key that is absent, created and removed again is
//! absent, so EXEC runs, while Redis would not run it. What the transaction relies on holds.

use super::codec::Args;
use super::commands::{COMMANDS, Fail, Run, flags, text};
use super::reply::Out;
use super::session::Context;
use super::unit::{Condition, Source, Unit};
use std::borrow::Cow;
use std::time::Duration;

/// How often a transaction runs.
const ATTEMPTS: u32 = 1000;

/// The commands of a transaction.
#[derive(Debug, Default)]
pub struct Transaction {
    /// All arguments.
    bytes: Vec<u8>,
    spans: Vec<(usize, usize)>,
    /// For each command its place in the table, and the number of spans up to its end.
    commands: Vec<(usize, usize)>,
    /// Whether a command could not be queued.
    pub is_aborted: bool,
    /// Whether a command writes.
    pub writes: bool,
}

/// The keys of WATCH.
#[derive(Debug, Default)]
pub struct Watched {
    database: usize,
    conditions: Vec<Condition<'static>>,
}

impl Transaction {
    /// Adds a command.
    pub fn push(
        &mut self,
        command: usize,
        args: Args<'_>,
        context: &Context<'_>,
    ) -> Result<(), Fail> {
        let limits = &context.app.config.limits;
        let bytes = self.bytes.len() + args.bytes();
        let spans = self.spans.len() + args.count();
        if bytes > limits.body_bytes || spans > context.arguments() {
            return Err(text("ERR the transaction is too large"));
        }
        for argument in args.from(0) {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(argument);
            self.spans.push((start, self.bytes.len()));
        }
        self.commands.push((command, self.spans.len()));
        self.writes |= COMMANDS[command].is(flags::WRITE);
        Ok(())
    }

    /// The number of commands.
    pub fn count(&self) -> usize {
        self.commands.len()
    }

    /// The commands by their places in the table.
    pub fn commands(&self) -> impl Iterator<Item = usize> + '_ {
        self.commands.iter().map(|(command, _)| *command)
    }

    /// Runs the commands, and writes their replies.
    pub fn run(
        &self,
        source: Source<'_>,
        watched: &Watched,
        context: &Context<'_>,
        out: &mut Out,
    ) -> Result<(), Fail> {
        let limits = &context.app.config.limits;
        for attempt in 0..ATTEMPTS {
            if !watched.hold(source)? {
                out.null_array();
                return Ok(());
            }
            let mark = out.mark();
            let most = out.len().saturating_add(limits.response_bytes);
            let mut unit = Unit::new(source, limits, true);
            unit.require(&watched.conditions);
            out.array(self.commands.len());
            let mut first = 0;
            for (command, end) in &self.commands {
                let args = Args::new(&self.bytes, &self.spans[first..*end]);
                first = *end;
                let Run::Store(run) = COMMANDS[*command].run else {
                    out.ok(); // UNWATCH, which has no effect here.
                    continue;
                };
                let mark = out.mark();
                if let Err(fail) = run(&mut unit, args, out) {
                    out.rewind(mark);
                    fail.write(out);
                }
                if out.len() > most {
                    return Err(Fail::TooLarge);
                }
            }
            if unit.commit()? {
                return Ok(());
            }
            out.rewind(mark);
            context.app.metrics.redis.conflicts.inc();
            back_off(attempt);
        }
        Err(text("TRYAGAIN the records of the transaction change too often"))
    }
}

/// Lets other threads go first, longer after many attempts.
pub fn back_off(attempt: u32) {
    match attempt {
        0..20 => std::thread::yield_now(),
        _ => std::thread::sleep(Duration::from_micros(50)),
    }
}

impl Watched {
    /// Adds the keys of a WATCH.
    pub fn add(
        &mut self,
        keys: Args<'_>,
        source: Source<'_>,
        database: usize,
        context: &Context<'_>,
    ) -> Result<(), Fail> {
        if !self.is_empty() && self.database != database {
            return Err(text("ERR keys of two stores cannot be watched at a time"));
        }
        if self.conditions.len() + keys.count() - 1 > context.app.config.limits.keys {
            return Err(text("ERR too many watched keys"));
        }
        self.database = database;
        for key in keys.from(1) {
            let version = match source {
                Source::Log(store) => store.version(key)?,
                Source::Table(_, version, _) => Some(version),
            };
            self.conditions.push((Cow::Owned(key.to_vec()), version));
        }
        Ok(())
    }

    /// Whether nothing is watched.
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Forgets all keys.
    pub fn clear(&mut self) {
        self.conditions = Vec::new();
    }

    /// Whether keys of another store are watched.
    pub fn is_elsewhere(&self, database: usize) -> bool {
        !self.is_empty() && self.database != database
    }

    /// Whether no watched record was changed.
    fn hold(&self, source: Source<'_>) -> Result<bool, Fail> {
        for (key, version) in &self.conditions {
            let now = match source {
                Source::Log(store) => store.version(key)?,
                Source::Table(_, version, _) => Some(version),
            };
            if now != *version {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
