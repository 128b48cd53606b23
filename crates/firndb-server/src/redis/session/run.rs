//! Running commands.
//!
//! Commands run in their order. Several gets in a row become one batch of reads, several writes in
//! a row one batch of the log.

use super::{Context, FLUSH, Mode, Replies, Session, Step, Turn};
use crate::auth::Role;
use crate::redis::codec::Args;
use crate::redis::commands::{self, COMMANDS, Command, Fail, Run, flags, text};
use crate::redis::database::Database;
use crate::redis::reply::{Mark, Out};
use crate::redis::transaction::{Transaction, back_off};
use crate::redis::unit::{Source, Unit};
use firndb::log::LogStore;
use std::ops::ControlFlow;

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

impl Session {
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
            self.places.clear();
            self.places.push(command);
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
    /// `is_alike` accepts. The next command is one of them. Leaves their places in the table in
    /// `self.places`.
    fn alike(
        &mut self,
        turn: &Turn<'_>,
        database: &Database,
        most: usize,
        is_alike: impl Fn(usize) -> bool,
    ) -> usize {
        let mut count = 1;
        self.places.truncate(1);
        while count < most && turn.next + count < turn.parser.count() {
            let args = turn.args(turn.next + count);
            let place = commands::find(args.at(0)).filter(|place| is_alike(*place));
            let Some(place) = place.filter(|_| args.count() <= MANY) else { break };
            if self.check(args, database, &turn.context).is_err() {
                break;
            }
            self.places.push(place);
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

    /// Runs the plain SETs at the beginning of `count` writes, the most frequent ones, without the
    /// detour of a unit. Returns false if there is none. They are not one batch: where no write
    /// waits for the disk, single puts take less time.
    fn put_all(&self, turn: &mut Turn<'_>, store: &LogStore, count: usize) -> bool {
        let start = turn.next;
        for place in &self.places[..count] {
            let args = turn.args(turn.next);
            if *place != commands::SET || args.count() != 3 || turn.out.len() >= FLUSH {
                break;
            }
            turn.context.app.metrics.redis.count(commands::SET);
            match store.put(args.at(1), args.at(2)) {
                Ok(()) => {
                    turn.out.ok();
                    turn.next += 1;
                }
                Err(error) => turn.fail(&error.into()),
            }
        }
        turn.next > start
    }

    /// Runs the writes from the next command on, and makes them together.
    fn write_all(&mut self, turn: &mut Turn<'_>, database: &Database, source: Source<'_>) {
        let most = if self.replies == Replies::All { WRITES } else { 1 };
        let mut count = self.alike(turn, database, most, is_short_write);
        let limits = &turn.context.app.config.limits;
        let metrics = &turn.context.app.metrics.redis;
        if let Source::Log(store) = source
            && (count == 1 || !database.is_synced)
            && self.put_all(turn, store, count)
        {
            return;
        }
        for attempt in 0..ATTEMPTS + ATTEMPTS_ALONE {
            if attempt == ATTEMPTS {
                // Others change these records all the time.
                count = 1;
            }
            let mark = turn.out.mark();
            let mut unit = Unit::new(source, limits, true);
            let mut done = 0;
            while done < count && turn.out.len() < FLUSH {
                let args = turn.args(turn.next + done);
                run_write(self.places[done], args, &mut unit, turn.out);
                done += 1;
            }
            match unit.commit() {
                Ok(true) => {
                    self.places[..done].iter().for_each(|place| metrics.count(*place));
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
fn run_write<'a>(place: usize, args: Args<'a>, unit: &mut Unit<'_, 'a>, out: &mut Out) {
    let mark = out.mark();
    let result = match COMMANDS[place].run {
        Run::Store(run) => run(unit, args, out),
        _ => Err(Fail::Syntax),
    };
    if let Err(fail) = result {
        out.rewind(mark);
        fail.write(out);
    }
}
