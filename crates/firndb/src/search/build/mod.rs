//! Builds partition files: from documents, or by merging partitions.

pub(crate) mod builder;
pub(crate) mod interner;
pub(crate) mod join;
pub(crate) mod merge;
pub(crate) mod partition_writer;
pub(crate) mod payload_spill;
