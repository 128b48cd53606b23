//! Where the next refresh of a store that is open for reading only continues.

use crate::log::format::segment_head::LogPosition;
use crate::log::index::writer::IndexWriter;
use crate::log::segments::segment::Segment;
use std::sync::Weak;

/// Where the next refresh continues.
pub(crate) struct RefreshPoint {
    /// The sorted names in the directory before the log was read.
    pub(crate) names: Vec<String>,
    /// Where the log ended.
    pub(crate) last: LogPosition,
    pub(crate) index: IndexWriter,
    /// The level at which searches began when the store was opened.
    pub(crate) level: u32,
    /// Segments that earlier refreshes took out of the table or replaced, by slot. A slot is used
    /// again when no search holds its former segment: see `segments/segment_table.rs`.
    pub(crate) retired: Vec<(usize, Weak<Segment>)>,
}
