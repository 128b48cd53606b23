//! Segments: their files, their hints and the table of all of them.

pub(crate) mod hint_file;
pub(crate) mod reserve;
pub(crate) mod segment;
pub(crate) mod segment_table;
