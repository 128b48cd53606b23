//! LogStore: keys and values that change, in a log of segments, with an index in memory.
//!
//! Every write is a record at the end of the log; the index says for each key where its newest
//! record is. Segments are mapped: a put is a copy into memory that belongs to a file, and a get is
//! a search in the index and one look at the record. [`LogStore`] is the store, `format.rs` has the
//! bytes, and `ARCHITECTURE.md` a table of the files.
//!
//! # Write path
//! 1. `Shared::frame` hashes the key, computes the record's checksum and brings the key's old
//!    record into memory: all that needs no lock.
//! 2. `Writer::make_room` begins a new segment when the active one is full (`Writer::roll`).
//! 3. `Writer::append` copies the record behind the end of the active segment.
//! 4. `Writer::publish` makes the index point to it: it is visible.
//! 5. `Shared::acknowledge` returns at once, or waits in `Commit::wait` until `Shared::sync_log`
//!    made everything up to it durable, for all writers that wait.
//!
//! # Read path
//! 1. `LogStore::get_with` hashes the key and loads the `Table` of segments.
//! 2. `Index::find` gives the places of records whose keys have these bits of the hash: hardly ever
//!    more than one, and none for most absent keys.
//! 3. `Segment::read` checks the record, whose key is then compared.
//!
//! # Opening
//! `recovery::open` finds the end of the log by the links between segments and fills the index.

mod options;
mod format;
mod segment;
mod index;
mod commit;
mod writer;
mod batch;
mod write;
mod recovery;
mod stats;
mod upkeep;
mod store;
#[cfg(test)]
mod tests;

pub use batch::Batch;
pub use format::{MAX_KEY, MAX_VALUE};
pub use options::{Durability, Options, WriteOptions};
pub use stats::{Recovery, Stats};
pub use store::LogStore;
