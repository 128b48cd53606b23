//! Expiry: the time from which on a record counts as deleted. It is a part of the record, in the
//! log and everywhere else: whatever copies a record copies its expiry.
//!
//! Times are milliseconds since 1970-01-01 UTC. Whether a record has expired is decided when it is
//! read, by the wall clock of the machine; nothing is written when its time comes. What follows
//! from that when the clock jumps:
//!
//! - Set forward, records expire early. Set back, records live longer, and a record that had
//!   expired already is there again, unless something was written to its key meanwhile or
//!   compaction came across it.
//! - An older version of the key never comes back. As long as an expired record is in the log it
//!   hides what it replaced, whatever the clock says. Compaction replaces it by a delete as long as
//!   an older segment may hold a version of its key (`Shared::move_put`), and that delete is kept
//!   like any other.

use crate::Result;
use crate::log::open::store::{LogStore, Shared};
use crate::log::options::WriteOptions;
use std::time::Duration;

/// When a record expires. From that time on it counts as deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Expiry {
    /// It stays until it is deleted.
    #[default]
    Never,
    /// At this time, in milliseconds since 1970-01-01 UTC. A time that has passed is allowed: then
    /// the record has expired as soon as it is written.
    At(u64),
}

impl Expiry {
    /// The time in milliseconds since 1970-01-01 UTC; `None` for [`Expiry::Never`].
    pub fn millis(self) -> Option<u64> {
        match self {
            Expiry::Never => None,
            Expiry::At(time) => Some(time),
        }
    }

    pub(crate) fn of(millis: Option<u64>) -> Expiry {
        millis.map_or(Expiry::Never, Expiry::At)
    }
}

/// A record of a store: see [`LogStore::get_entry_with`] and
/// [`Iter::next_entry_with`](crate::log::Iter::next_entry_with).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// When it expires.
    pub expiry: Expiry,
}

/// What a write says about the expiry of its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// Nothing: a put makes a record that stays, an update keeps the expiry that there is.
    #[default]
    Usual,
    /// They expire so long after the write. Beyond the largest time it is the largest time.
    Ttl(Duration),
    /// They expire then.
    Until(Expiry),
}

impl Lifetime {
    /// The expiry of a record that is written now; `None` if the write says nothing.
    pub(crate) fn expiry(self, now: impl FnOnce() -> u64) -> Option<Expiry> {
        match self {
            Lifetime::Usual => None,
            Lifetime::Ttl(ttl) => {
                let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
                Some(Expiry::At(now().saturating_add(ttl)))
            }
            Lifetime::Until(expiry) => Some(expiry),
        }
    }
}

impl Shared {
    /// The expiry of records that are written now with these options; `None` if they say nothing.
    pub(crate) fn expiry(&self, options: WriteOptions) -> Option<Expiry> {
        options.lifetime().expiry(|| self.now())
    }
}

impl LogStore {
    /// When the record of a key expires; `None` if the key is absent, which includes a key whose
    /// record has expired.
    ///
    /// A clock that is set back makes records live longer, and may show one again that had expired;
    /// one that is set forward makes them expire early. Neither ever shows an older value of a key
    /// than the newest one.
    pub fn expiry(&self, key: &[u8]) -> Result<Option<Expiry>> {
        self.get_entry_with(key, |entry| entry.expiry)
    }

    /// Calls `read` with the record of a key: its value and its expiry, as one write made them;
    /// `None` if the key is absent.
    pub fn get_entry_with<T>(
        &self,
        key: &[u8],
        read: impl FnOnce(Entry<'_>) -> T,
    ) -> Result<Option<T>> {
        let hash = self.shared.hash(key);
        let mut read = Some(read);
        self.shared.find(key, hash, |_, record| {
            let read = read.take().filter(|_| !self.shared.is_expired(record))?;
            let expiry = Expiry::of(record.expires);
            Some(read(Entry { key, value: record.value, expiry }))
        })
    }

    /// Changes when the record of a key expires, atomically, and leaves its value as it is:
    /// [`Expiry::Never`] removes the expiry, a time that has passed makes the key absent at once.
    /// `false` if the key is absent; then nothing is written.
    ///
    /// The record is written anew, with its value. Errors are those of [`LogStore::put`].
    pub fn set_expiry(&self, key: &[u8], expiry: Expiry) -> Result<bool> {
        self.set_expiry_with(key, WriteOptions::default().with_expiry(expiry))
    }

    /// [`LogStore::set_expiry`] to the time to live or the expiry of `options`, with a durability
    /// of its own. If the options say nothing about the expiry, nothing is written.
    pub fn set_expiry_with(&self, key: &[u8], options: WriteOptions) -> Result<bool> {
        if options.lifetime() == Lifetime::Usual {
            return self.contains(key);
        }
        let same = |old: Option<&[u8]>| old.map(|value| Some(value.to_vec()));
        Ok(self.update_with(key, options, same)?.is_some())
    }
}
