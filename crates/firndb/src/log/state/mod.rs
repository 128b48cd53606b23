//! What the parts of an open store share: one struct per responsibility.
//!
//! [`shared::Shared`] is all of them. [`directory`] is the identity and the disk, [`lookup`] the
//! path from a key to its record, [`log_writer`] the end of the log.

pub(crate) mod directory;
pub(crate) mod prefetch_lines;
pub(crate) mod lookup;
pub(crate) mod frame;
pub(crate) mod log_writer;
pub(crate) mod tail;
pub(crate) mod key_order;
pub(crate) mod group_commit;
pub(crate) mod snapshots;
pub(crate) mod counters;
pub(crate) mod signals;
pub(crate) mod backpressure;
pub(crate) mod maintenance_state;
pub(crate) mod refresh_point;
pub(crate) mod shared;
