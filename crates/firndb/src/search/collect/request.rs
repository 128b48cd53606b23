//! What a search for the first matches of an order is asked for, and how it names them.

use crate::search::collect::rank::SortKey;
use crate::search::model::query::Cursor;

/// A match: partition and document, by the number that it is known by outside.
pub(crate) type DocAddress = (u32, u32);

/// What is asked of an ordered search.
pub(crate) struct PageRequest<'q> {
    pub(crate) order: &'q [SortKey],
    /// Matches to find: skip and limit together.
    pub(crate) k: usize,
    pub(crate) after: Option<&'q Cursor>,
    /// CountSink all matches too.
    pub(crate) count: bool,
}
