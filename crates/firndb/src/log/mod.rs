//! LogStore: a mutable key-value store in one directory: an append-only log of records and an index
//! in memory.
//!
//! Every put and delete appends a record to the active segment. The index in memory has the
//! location of each key's newest record, at most 10.5 bytes per key at any key length. A put is a
//! copy into a mapped file; a get is a search in the index and one read of the record, whose
//! checksum is verified (`Lookup::find`, `read_at`). Compaction copies the live records of stale
//! segments forward while reading and writing continue.
//!
//! # Usage
//!
//! ```
//! use firndb::log::{Batch, LogStore, WriteOptions};
//!
//! # fn main() -> firndb::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("firndb-log-doc-{}", std::process::id()));
//! let store = LogStore::open(&dir)?; // Creates it if there is none.
//! store.put("key", "value")?;
//! assert_eq!(store.get("key")?.as_deref(), Some(&b"value"[..]));
//!
//! // A batch is applied as a whole or not at all, also after a crash.
//! let batch = Batch::new().put("a", "1").delete("key");
//! store.write_with(&batch, WriteOptions::sync())?;
//!
//! // Atomic read-modify-write.
//! store.update("a", |old| old.map(|old| [old, b"0"].concat()))?;
//! for record in store.iter() {
//!     let (key, value) = record?;
//!     assert_eq!((&key[..], &value[..]), (&b"a"[..], &b"10"[..]));
//! }
//! store.close()?;
//! # std::fs::remove_dir_all(&dir).ok();
//! # Ok(())
//! # }
//! ```
//!
//! # Guarantees
//!
//! - **One order.** Puts, deletes and batches have one total order, that of the log, also across
//!   power loss. A crash loses a suffix of it, never a part in the middle.
//! - **Durability.** A write with [`Durability::Os`] survives a process crash, with
//!   [`Durability::Sync`] a power cut. Concurrent writers share one sync. After a failed sync the
//!   store is read-only until it is reopened.
//! - **One writer process**, which holds a lock on the directory, with any number of threads. Any
//!   number of processes may open the store for reading only and follow it with
//!   [`LogStore::refresh`].
//! - **Versions.** Every write of a key gives it another version, which compaction and reopening
//!   keep. [`LogStore::write_if`] writes a batch if versions are as expected.
//! - **Stateless scans.** [`LogStore::scan_from`] returns every key that exists during a whole
//!   scan, also if the store is compacted or reopened between two pages.
//! - **Readers do not wait** for writers, compaction or syncs.
//! - **Recovery** reads the checkpoint and the hints, and replays the log after them; it is bounded
//!   by [`Options::checkpoint_bytes`].
//!
//! # Limits
//!
//! Keys have at most 65,536 bytes, values 4 GiB - 1. A store has about 230 million keys and 16,384
//! segments at most. Iteration is in the order of the log or of hashes, not of the keys.
//!
//! `format/` defines the bytes; `ARCHITECTURE.md` describes the write path, the read path, recovery
//! and maintenance.

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
pub use admin::verify::LogVerified;
pub use expiry::{Entry, Expiry, Versioned};
pub use format::record::{MAX_KEY, MAX_VALUE};
pub use open::store::LogStore;
pub use options::{Access, Durability, Options, WriteOptions};
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
