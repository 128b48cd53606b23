//! Reading: single keys, snapshots, and iteration over all records.

pub(crate) mod get;
pub(crate) mod snapshot;
pub(crate) mod scan;
