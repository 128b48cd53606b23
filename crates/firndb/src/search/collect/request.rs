//! The request for a page of matches, and the address of a match.

use crate::search::collect::rank::SortKey;
use crate::search::model::query::PageToken;

/// The address of a match: the number of the partition, and the number of the document in it as
/// users see it (`Partition::origin`).
pub(crate) type DocAddress = (u32, u32);

/// A request for the first `k` matches in an order.
pub(crate) struct PageRequest<'q> {
    /// The sort keys, most significant first; empty for document order.
    pub(crate) order: &'q [SortKey],
    /// Matches to find: the sum of skip and limit.
    pub(crate) k: usize,
    /// Return only matches after this page token.
    pub(crate) after: Option<&'q PageToken>,
    /// Whether to count all matches, too.
    pub(crate) count: bool,
}
