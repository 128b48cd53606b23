//! Where the next refresh of a store that is open for reading only continues.

use crate::log::format::segment_head::LogPosition;
use crate::log::index::writer::IndexWriter;

/// Where the next refresh continues.
pub(crate) struct RefreshPoint {
    /// The sorted names in the directory before the log was read.
    pub(crate) names: Vec<String>,
    /// Where the log ended.
    pub(crate) last: LogPosition,
    pub(crate) index: IndexWriter,
}
