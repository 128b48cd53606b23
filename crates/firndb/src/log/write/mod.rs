//! Writing: every call becomes records, which are appended and made visible under the writer's
//! lock.
//!
//! Whatever can be done before the lock is taken is done then: hashing, the checksum, reading the
//! key's old record, prefetching the index. Under the lock a write is a copy into the mapped active
//! segment and a change of one slot of the index, in that order, so the order of the log is the
//! order in which writes become visible.

pub(crate) mod sync;
pub(crate) mod settle;
pub(crate) mod active_segment;
pub(crate) mod apply;
pub(crate) mod acknowledge;
pub(crate) mod put;
pub(crate) mod batch;
pub(crate) mod update;
