//! Expiry: the time from which on a record counts as deleted. It is part of the record: whatever
//! copies a record copies its expiry.
//!
//! Times are milliseconds since 1970-01-01 UTC. Whether a record has expired is decided when it is
//! read, by the wall clock of the machine; nothing is written at the time of expiry. So if the
//! clock jumps:
//!
//! - Set forward, records expire early. Set back, records live longer, and a record that had
//!   expired is shown again, unless its key was written meanwhile or compaction came across it.
//! - An older version of the key never comes back. While an expired record is in the log it hides
//!   what it replaced, whatever the clock says. Compaction replaces it by a delete while an older
//!   segment may hold a version of its key, and keeps that delete like any other.

use std::time::Duration;

/// When a record expires. From that time on it counts as deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Expiry {
    /// The record does not expire.
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

    /// Whether this time has come.
    pub(crate) fn has_passed(self, now: u64) -> bool {
        self.millis().is_some_and(|at| at <= now)
    }

    pub(crate) fn of(millis: Option<u64>) -> Expiry {
        millis.map_or(Expiry::Never, Expiry::At)
    }
}

/// A record of a store: see [`LogStore::get_entry_with`](crate::log::LogStore::get_entry_with) and
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
    /// Its version: see [`LogStore::get_versioned`](crate::log::LogStore::get_versioned).
    pub version: u64,
}

/// A value that [`LogStore::get_versioned`](crate::log::LogStore::get_versioned) read, and what
/// identifies the write that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Versioned {
    /// The value.
    pub value: Vec<u8>,
    /// The version of the record. Another write of the key has another one.
    pub version: u64,
    /// When the record expires.
    pub expiry: Expiry,
}

/// The expiry that a write sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// None: a put writes a record that does not expire, an update keeps the existing expiry.
    #[default]
    Unspecified,
    /// This long after the write. Times beyond the largest one count as the largest.
    Ttl(Duration),
    /// At this time.
    Until(Expiry),
}

impl Lifetime {
    /// The expiry of a record that is written now; `None` if the write sets none.
    pub(crate) fn expiry(self, now: impl FnOnce() -> u64) -> Option<Expiry> {
        match self {
            Lifetime::Unspecified => None,
            Lifetime::Ttl(ttl) => {
                let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
                Some(Expiry::At(now().saturating_add(ttl)))
            }
            Lifetime::Until(expiry) => Some(expiry),
        }
    }
}
