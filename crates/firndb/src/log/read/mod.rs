//! Reading: single keys, snapshots, iteration over all records, and scans in pages.

pub(crate) mod get;
pub(crate) mod snapshot;
pub(crate) mod scan;
pub(crate) mod range;
pub(crate) mod scan_from;
