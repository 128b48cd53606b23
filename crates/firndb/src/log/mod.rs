//! LogStore: a mutable key-value store in a directory, for keys and values that change at any time.
//!
//! Every write appends a record to a log. An index in memory has the location of the newest record
//! of each key, so a get reads one record. Compaction in the background frees the space of replaced
//! and deleted records. An ordered store ([`Options::ordered`]) also reads keys in their byte order
//! ([`LogStore::range`], [`LogStore::prefix`]). For data that is built in one go and then only
//! read, a [`Table`](crate::table::Table) needs less memory.
//!
//! ```
//! use firndb::log::{Batch, LogStore, WriteOptions};
//! use std::time::Duration;
//! # fn main() -> firndb::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("firndb-doc-log-{}", std::process::id()));
//! # let result = example(&dir);
//! # let _ = std::fs::remove_dir_all(&dir);
//! # result }
//!
//! fn example(dir: &std::path::Path) -> firndb::Result<()> {
//!     let store = LogStore::open(dir)?; // creates the store if there is none
//!     store.put("user/1", "Ann")?;
//!     assert_eq!(store.get("user/1")?.as_deref(), Some(&b"Ann"[..])); // Option<Vec<u8>>
//!
//!     // A batch is applied as a whole or not at all. With `sync` it also survives power loss.
//!     let batch = Batch::new().put("user/2", "Bob").put("visits", "41").delete("user/1");
//!     store.write_with(&batch, WriteOptions::sync())?;
//!
//!     // Atomic read-modify-write. `None` stands for an absent key.
//!     let count = |old: Option<&[u8]>| -> u64 {
//!         old.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok()).unwrap_or(0)
//!     };
//!     store.update("visits", |old| Some((count(old) + 1).to_string().into_bytes()))?;
//!     assert_eq!(store.get("visits")?.as_deref(), Some(&b"42"[..]));
//!
//!     // A record that expires after an hour, and a snapshot that later writes do not change.
//!     store.put_with("session/7", "user/2", WriteOptions::new().ttl(Duration::from_secs(3600)))?;
//!     let snapshot = store.snapshot();
//!     store.delete("session/7")?;
//!     assert!(snapshot.get("session/7")?.is_some() && !store.contains("session/7")?);
//!
//!     for record in store.iter() {
//!         let (key, value) = record?; // Vec<u8>, Vec<u8>
//!         println!("{} has {} bytes", String::from_utf8_lossy(&key), value.len());
//!     }
//!     store.close()?; // dropping the store closes it too, but cannot report an error
//!     Ok(())
//! }
//! ```
//!
//! # Durability
//!
//! - A write with [`Durability::Os`], the default, survives a process crash as soon as it returns.
//!   With [`Durability::Sync`] it also survives power loss; writers that wait at the same time
//!   share one sync. [`LogStore::sync`] and [`LogStore::close`] make all earlier writes durable.
//! - Puts, deletes and batches have one total order, that of the log. Power loss removes a suffix
//!   of it, which contains no write that was acknowledged as durable, and never a part of a batch.
//! - After a failed sync nothing is written until the store is reopened; reads continue.
//!
//! # Concurrency
//!
//! One process writes, with any number of threads; it holds a lock on the directory. Any number of
//! other processes read the store meanwhile ([`LogStore::open_read_only`]) and see later writes
//! after [`LogStore::refresh`]. When the writer has ended or died, [`LogStore::promote`] makes a
//! reader the writer, in milliseconds. A [`LogStore`] is `Send` and `Sync`, and clones are cheap.
//! Gets do not wait for writers, compaction or syncs. Three threads (four in an ordered
//! store) do the maintenance, unless
//! [`Options::background`] is off.
//!
//! # Versions and scans
//!
//! Every write of a key gives its record another version, which compaction and reopening keep
//! ([`LogStore::get_versioned`]). [`LogStore::write_if`] writes a batch if the versions of some
//! keys are as expected. [`LogStore::scan_from`] continues at a number: it returns every key that
//! exists during the whole scan, also if the store is compacted or reopened between two pages.
//!
//! In an ordered store, [`LogStore::range`] and [`LogStore::prefix`] read keys in byte order,
//! forward or reverse, as they are at the time of the call. Whether a store is ordered is decided
//! when it is created. It has its keys in sorted files next to the segments, which maintenance
//! writes and merges, and those of unsealed segments in memory.
//!
//! # Errors
//!
//! An absent or expired key is `None`, not an error. The kinds of errors:
//!
//! | [`ErrorKind`](crate::ErrorKind) | cause |
//! |---|---|
//! | `InvalidArgument` | an option or a length out of range; a write to a read-only handle |
//! | | a range of a store that is not ordered |
//! | `NotFound` | [`LogStore::open_read_only`] of a directory without a store |
//! | `Locked` | another process or handle has the store open for writing |
//! | `Corrupt` | a damaged record or file; the error has the file and the offset |
//! | `UnsupportedVersion` | the store was written by a newer release |
//! | `Io` | the operating system reports a failure; on a full disk the store stays open |
//! | `Failed` | an earlier sync failed, the store is closed, or the index is full |
//!
//! # Cost
//!
//! | what | cost |
//! |---|---|
//! | a put | one copy of the record into the log |
//! | a get | one search of the index and one read; of an absent key, hardly ever a read |
//! | an update | a get and a put; repeated if another write changes the key meanwhile |
//! | an iteration | one pass over the segments, in the order of the log |
//! | a range | a search in usually 10 to 20 sorted sources; then per key a lookup and a read |
//! | memory | about 10 bytes per key of any length in a large store, 17 MB for a million keys |
//! | disk | live bytes / (1 - [`Options::compaction_threshold`]), plus two segments |
//! | order: disk | the keys once more, about 19 bytes per key of 16 bytes |
//! | order: memory | 16 bytes per record of the segments that have no key run yet |
//! | opening | reads a checkpoint, and replays the log after it (below) |
//!
//! The log after a checkpoint has at most [`Options::checkpoint_bytes`], or the last few segments
//! where these are larger, in stores of more than 64 GiB.
//!
//! While a snapshot or an iterator exists, segments that it needs stay on disk. [`LogStore::stats`]
//! reports sizes and counts.
//!
//! # Limits
//!
//! A key has at most 65,536 bytes ([`MAX_KEY`]), a value 4 GiB - 1 ([`MAX_VALUE`]); both may be
//! empty. Memory limits the number of keys, up to 2^36. A store has at most 16,384 segments. Their
//! length grows with the store up to 8 GiB, which is enough for 64 TiB of records; in a store of
//! more than 64 GiB records begin at multiples of 2 to 128 bytes. At a limit a write fails before
//! anything is appended; reading, deleting and opening go on. Times of expiry are milliseconds
//! since 1970-01-01 UTC. Writing needs a local file system.

// `format/` defines the bytes. `ARCHITECTURE.md` describes put, get, recovery and maintenance.

pub(crate) mod options;
pub(crate) mod expiry;
pub(crate) mod stats;
pub(crate) mod failpoints;
pub(crate) mod format;
pub(crate) mod index;
pub(crate) mod segments;
pub(crate) mod state;
pub(crate) mod write;
pub(crate) mod read;
pub(crate) mod maintenance;
pub(crate) mod open;
pub(crate) mod admin;
#[cfg(test)]
mod tests;

pub use crate::disk::AppendMode;
pub use admin::backup::restore::Restored;
pub(crate) use admin::backup::target::check_apart;
pub use admin::backup::update::Backup;
pub use admin::repair::Repaired;
pub use expiry::{Entry, Expiry, Versioned};
pub use format::record::{MAX_KEY, MAX_VALUE};
pub use open::store::LogStore;
pub use options::{Access, Durability, Options, WriteOptions};
pub use read::range::Range;
pub use read::scan::Iter;
pub use read::scan_from::ScanPage;
pub use read::snapshot::Snapshot;
pub use stats::{Recovery, SegmentStats, Stats};
pub use write::batch::Batch;
pub use write::update::Update;

/// What the rest of the crate needs in addition to the public names.
pub(crate) mod internal {
    pub(crate) use super::admin::inspect::{
        begins_segment, describe, describe_segment, is_segment, is_store, open_to_read,
    };
}
