//! Runs commands on a store as one unit: all of their writes take effect together, or none.
//!
//! Commands read from the store, and from the writes of the unit so far. A unit remembers the
//! versions of the records that its writes depend on. It is written if they are still the same,
//! otherwise the caller runs the commands again. So no client ever waits for another one, and a
//! single increment, a pipeline of writes and a transaction are the same code.

use super::codec::Args;
use crate::app::Deadline;
use crate::config::Limits;
use crate::stores::TableRef;
use firndb::log::{Batch, Entry, Expiry, LogStore, MAX_KEY, WriteOptions};
use firndb::{Error, Result};
use firndb_ingest::Shown;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::{SystemTime, UNIX_EPOCH};

/// Keys that are read together.
const GROUP: usize = 64;

/// Where commands read and write.
#[derive(Clone, Copy)]
pub enum Source<'s> {
    /// A log store.
    Log(&'s LogStore),
    /// A table, its version, and how its values are shown: rows as JSON.
    Table(TableRef<'s>, u64, &'s Shown),
}

impl Source<'_> {
    /// The number of keys.
    pub fn len(&self) -> u64 {
        match self {
            Source::Log(store) => store.len(),
            Source::Table(table, ..) => table.len(),
        }
    }

    /// Passes the values of keys to `read`, in order, until it says that it has enough. The cache
    /// misses and reads of all keys overlap.
    pub fn read_many(
        &self,
        keys: &[&[u8]],
        mut read: impl FnMut(Option<&[u8]>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let mut each = |_: usize, value: Option<&[u8]>| match read(value) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Halt::Enough),
        };
        let result = match self {
            Source::Log(store) => store.read_many(keys, |position, record| {
                each(position, record.map(|record| record.value))
            }),
            Source::Table(TableRef::Exact(table), _, shown) if !shown.is_json() => {
                table.read_many(keys, each)
            }
            Source::Table(table, _, shown) => each_value(table, shown, keys, each),
        };
        match result {
            Ok(()) => Ok(ControlFlow::Continue(())),
            Err(Halt::Enough) => Ok(ControlFlow::Break(())),
            Err(Halt::Error(error)) => Err(error),
        }
    }
}

/// Why a batch of reads has ended early.
enum Halt {
    Enough,
    Error(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Halt {
        Halt::Error(error)
    }
}

/// The value of a key, as clients get it.
fn shown_value(table: &TableRef<'_>, shown: &Shown, key: &[u8]) -> Result<Option<Vec<u8>>> {
    match table.get(key)? {
        Some(value) if shown.is_json() => Ok(Some(shown.text(key, &value)?.into_owned())),
        value => Ok(value),
    }
}

fn each_value(
    table: &TableRef<'_>,
    shown: &Shown,
    keys: &[&[u8]],
    mut read: impl FnMut(usize, Option<&[u8]>) -> std::result::Result<(), Halt>,
) -> std::result::Result<(), Halt> {
    for (n, key) in keys.iter().enumerate() {
        read(n, shown_value(table, shown, key)?.as_deref())?;
    }
    Ok(())
}

/// A record that a command read.
#[derive(Clone, Copy)]
pub struct Found<'f> {
    /// Its value.
    pub value: &'f [u8],
    /// When it expires, in milliseconds since 1970.
    pub expires: Option<u64>,
}

/// What the versions of records have to be.
pub type Condition<'a> = (Cow<'a, [u8]>, Option<u64>);

/// A write that was not made yet.
enum Pending<'a> {
    Put { value: Cow<'a, [u8]>, expires: Option<u64> },
    Delete,
}

/// Commands that run together.
pub struct Unit<'s, 'a> {
    /// The store.
    pub source: Source<'s>,
    /// Limits of the server.
    pub limits: &'s Limits,
    /// Whether the store may be emptied.
    pub may_flush: bool,
    /// When commands that take long have to end.
    pub deadline: Option<&'s Deadline>,
    /// Whether reads are conditions of the writes.
    is_tracked: bool,
    now: Option<u64>,
    conditions: Vec<Condition<'a>>,
    pending: Vec<(&'a [u8], Pending<'a>)>,
    /// The last write of each key among the first `indexed` ones.
    index: HashMap<&'a [u8], usize>,
    indexed: usize,
}

impl<'s, 'a> Unit<'s, 'a> {
    /// A unit without commands. If `is_tracked` is not set it must not write.
    pub fn new(source: Source<'s>, limits: &'s Limits, is_tracked: bool) -> Unit<'s, 'a> {
        Unit {
            source,
            limits,
            may_flush: false,
            deadline: None,
            is_tracked,
            now: None,
            conditions: Vec::new(),
            pending: Vec::new(),
            index: HashMap::new(),
            indexed: 0,
        }
    }

    /// The current time in milliseconds since 1970; the same for the whole unit.
    pub fn now(&mut self) -> u64 {
        *self.now.get_or_insert_with(now)
    }

    /// Calls `read` with the record of a key; `None` if it is absent or has expired.
    pub fn read<T>(
        &mut self,
        key: &'a [u8],
        read: impl FnOnce(Option<Found<'_>>) -> T,
    ) -> Result<T> {
        if let Some(n) = self.pending_write(key) {
            let now = self.now();
            return Ok(read(match &self.pending[n].1 {
                Pending::Put { value, expires } if expires.is_none_or(|at| at > now) => {
                    Some(Found { value, expires: *expires })
                }
                _ => None,
            }));
        }
        match self.source {
            Source::Table(table, _, shown) => {
                let value = shown_value(&table, shown, key)?;
                Ok(read(value.as_deref().map(|value| Found { value, expires: None })))
            }
            Source::Log(store) => {
                if self.is_tracked {
                    check_key(key)?;
                }
                let (mut read, mut version) = (Some(read), None);
                let found = store.get_entry_with(key, |entry: Entry<'_>| {
                    version = Some(entry.version);
                    let found = Found { value: entry.value, expires: entry.expiry.millis() };
                    read.take().map(|read| read(Some(found)))
                })?;
                if self.is_tracked {
                    self.conditions.push((Cow::Borrowed(key), version));
                }
                match (found.flatten(), read) {
                    (Some(result), _) => Ok(result),
                    (None, Some(read)) => Ok(read(None)),
                    (None, None) => Err(Error::invalid("a record was read twice")),
                }
            }
        }
    }

    /// Passes the values of the keys from argument `first` on to `read`, until it returns false.
    pub fn read_many(
        &mut self,
        args: Args<'a>,
        first: usize,
        mut read: impl FnMut(Option<&[u8]>) -> bool,
    ) -> Result<()> {
        if self.is_tracked || self.writes() {
            for key in args.from(first) {
                if !self.read(key, |found| read(found.map(|found| found.value)))? {
                    break;
                }
            }
            return Ok(());
        }
        let mut keys = [&[][..]; GROUP];
        for start in (first..args.count()).step_by(GROUP) {
            let count = GROUP.min(args.count() - start);
            (0..count).for_each(|n| keys[n] = args.at(start + n));
            let goes_on = self.source.read_many(&keys[..count], |value| match read(value) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            })?;
            if goes_on.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Sets the value of a key.
    pub fn put(
        &mut self,
        key: &'a [u8],
        value: impl Into<Cow<'a, [u8]>>,
        expires: Option<u64>,
    ) -> Result<()> {
        check_key(key)?;
        self.pending.push((key, Pending::Put { value: value.into(), expires }));
        Ok(())
    }

    /// Removes a key.
    pub fn delete(&mut self, key: &'a [u8]) -> Result<()> {
        check_key(key)?;
        self.pending.push((key, Pending::Delete));
        Ok(())
    }

    /// Whether the unit writes.
    pub fn writes(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Adds conditions of a transaction.
    pub fn require(&mut self, conditions: &[Condition<'a>]) {
        self.conditions.extend(conditions.iter().cloned());
    }

    /// Makes the writes. Returns false, and writes nothing, if a record that they depend on was
    /// changed.
    pub fn commit(self) -> Result<bool> {
        let Source::Log(store) = self.source else { return Ok(true) };
        if self.pending.is_empty() {
            return unchanged(store, &self.conditions);
        }
        if let ([(key, Pending::Put { value, expires })], []) =
            (&self.pending[..], &self.conditions[..])
        {
            store.put_with(
                key,
                value,
                WriteOptions::new().expiry(expires.map_or(Expiry::Never, Expiry::At)),
            )?;
            return Ok(true);
        }
        let mut batch = Batch::new();
        for (key, write) in &self.pending {
            match write {
                Pending::Put { value, expires: None } => batch.push_put(key, value),
                Pending::Put { value, expires: Some(at) } => {
                    batch = batch.put_expiring(key, value, Expiry::At(*at));
                }
                Pending::Delete => batch.push_delete(key),
            }
        }
        match self.conditions.is_empty() {
            true => store.write(&batch).map(|()| true),
            false => store.write_if(&self.conditions, &batch),
        }
    }

    /// The number of the newest write of a key.
    fn pending_write(&mut self, key: &[u8]) -> Option<usize> {
        if self.pending.is_empty() {
            return None;
        }
        for n in self.indexed..self.pending.len() {
            self.index.insert(self.pending[n].0, n);
        }
        self.indexed = self.pending.len();
        self.index.get(key).copied()
    }
}

/// Whether records have these versions, all at one moment between the reading of the versions and
/// now.
///
/// Looks at them under the lock of the writer, by a batch without changes: the records of another
/// batch become visible one after the other while it is held.
fn unchanged(store: &LogStore, conditions: &[Condition<'_>]) -> Result<bool> {
    if conditions.len() <= 1 {
        return Ok(true);
    }
    if let Ok(unchanged) = store.write_if(conditions, &Batch::new()) {
        return Ok(unchanged);
    }
    // A store that is read-only, or has failed: no batch is being written.
    for (key, version) in conditions {
        if store.version(key)? != *version {
            return Ok(false);
        }
    }
    Ok(true)
}

fn check_key(key: &[u8]) -> Result<()> {
    match key.len() <= MAX_KEY {
        true => Ok(()),
        false => Err(Error::invalid(format!("a key has more than {MAX_KEY} bytes"))),
    }
}

/// The time in milliseconds since 1970.
pub fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}
