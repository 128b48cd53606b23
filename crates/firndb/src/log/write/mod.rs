//! Writing to the log.

pub(crate) mod batch;
pub(crate) mod deferred_put;
pub(crate) mod group_commit;
pub(crate) mod put;
pub(crate) mod update;
pub(crate) mod writer;
