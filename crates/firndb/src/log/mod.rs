//! LogStore: keys and values that change, in a log of segments, with an index in memory.
//!
//! Every write is a record at the end of the log; the index says for each key where its newest
//! record is. Segments are mapped: a put is a copy into memory that belongs to a file, and a get is
//! a search in the index and one look at the record. [`LogStore`] is the store, `format.rs` has the
//! bytes, and `ARCHITECTURE.md` a table of the files.
//!
//! # Write path
//! 1. `Shared::frame` hashes the key, computes the record's checksum and brings the key's old
//!    record into memory: all that needs no lock. `Shared::put`, the way of single puts, waits
//!    neither for the old record nor for the index: a later write sees to both, when they have
//!    arrived (`Writer::enter`, `Writer::settle`).
//! 2. `Writer::make_room` begins a new segment when the active one is full (`Writer::roll`).
//! 3. `Writer::append` copies the record behind the end of the active segment.
//! 4. `Writer::publish` makes the index point to it, or `IndexWriter::buffer_insert` has it found
//!    until the index does: it is visible.
//! 5. `Shared::acknowledge` returns at once, or waits in `GroupCommit::wait` until `Shared::sync_log`
//!    made everything up to it durable, for all writers that wait.
//!
//! # Read path
//! 1. `LogStore::get_with` hashes the key; `table::find` loads the `Table` of segments.
//! 2. `Index::find` gives the places of records whose keys have these bits of the hash: hardly ever
//!    more than one, and none for most absent keys.
//! 3. `Segment::read` checks the record, whose key is then compared.
//!
//! # Opening
//! `recovery::open` finds the end of the log by the links between segments, and fills the index
//! from the checkpoint, from hints, or from the records themselves (`Loader::fill`). `end::check`
//! tells damage from a torn end as far as `end.firn` can say. A store that is open for reading only
//! looks again from there (`Shared::catch_up`).
//!
//! # Upkeep
//! `Shared::maintain` does one step at a time, called by the threads of `Upkeep` or by tests:
//! 1. `Shared::prepare_segment` makes the next segment's file.
//! 2. `Shared::seal` makes a full segment durable and writes its hint.
//! 3. `Shared::checkpoint_step` writes which records are live.
//! 4. `Shared::compact_step` copies the live records of a stale segment forward and removes it.
//!
//! # Around it
//! `snapshot.rs` shows the store at one moment, `update.rs` writes what depends on what is there,
//! `expiry.rs` says when records expire and what clocks do to them, `backup.rs` links a store
//! elsewhere, `backup/restore.rs` makes a store of a backup, `verify.rs` and `repair.rs` check and
//! salvage.

pub(crate) mod options;
pub(crate) mod expiry;
pub(crate) mod stats;
pub(crate) mod failpoints;
pub(crate) mod format;
pub(crate) mod index;
pub(crate) mod segments;
pub(crate) mod write;
pub(crate) mod read;
pub(crate) mod maintenance;
pub(crate) mod open;
pub(crate) mod admin;
#[cfg(test)]
mod tests;

pub use crate::disk::AppendMode;
pub(crate) use admin::backup::check_apart;
pub use admin::backup::{Backup, Restored};
pub use admin::repair::Repaired;
pub use admin::verify::LogVerified;
pub use expiry::{Entry, Expiry};
pub use format::record::{MAX_KEY, MAX_VALUE};
pub use open::store::LogStore;
pub use options::{Access, Durability, Options, WriteOptions};
pub use read::snapshot::{Iter, Snapshot};
pub use stats::{Recovery, Stats};
pub use write::batch::Batch;

/// What the rest of the crate needs besides the public names.
pub(crate) mod internal {
    pub(crate) use super::admin::inspect::{
        begins_segment, describe, describe_segment, is_segment, is_store, open_to_read,
    };
}
