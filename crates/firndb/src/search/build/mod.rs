//! Builds partition files, from documents or by merging partitions.
//!
//! `builder` collects documents; `interner` assigns numbers to distinct keys, and `payload_spill`
//! moves payloads to a temporary file once they exceed their budget. `merge` combines existing
//! partitions and uses `join` to merge the keys and ordinals of each field. Both end in
//! `partition_writer`, which chooses the encodings and writes the file. Bundles
//! (`search::cache`) use `join` and `partition_writer` too.

pub(crate) mod builder;
pub(crate) mod interner;
pub(crate) mod join;
pub(crate) mod merge;
pub(crate) mod partition_writer;
pub(crate) mod payload_spill;
