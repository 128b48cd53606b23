//! Segments: append-only files of records. A store has up to 16,384; the last one is active, the
//! others are sealed and have a hint.
//!
//! [`segment::Segment`] reads records, [`segment_table`] finds the segment of an index entry.

pub(crate) mod counter;
pub(crate) mod hint_file;
pub(crate) mod key_source;
pub(crate) mod key_merge;
pub(crate) mod key_run_file;
pub(crate) mod durable_end_file;
pub(crate) mod segment;
pub(crate) mod segment_table;
pub(crate) mod reserve;
