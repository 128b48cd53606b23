//! Turns the matches of a filter into answers: counts, pages, facets and groups, over all
//! partitions.
//!
//! Every collector runs an executor (`exec`) per partition and merges the results. `count` counts.
//! A page in document order comes from `unordered`, a page in another order from `ordered_search`:
//! it visits partitions best first, runs `topk` in each, and merges the hits in a `topk_heap`.
//! `rank` encodes the sort keys of a document as one integer. `facet` counts values, `group`
//! computes aggregates per group. `request` has the types that the page collectors share.

pub(crate) mod count;
pub(crate) mod facet;
pub(crate) mod group;
pub(crate) mod ordered_search;
pub(crate) mod rank;
pub(crate) mod request;
pub(crate) mod topk;
pub(crate) mod topk_heap;
pub(crate) mod unordered;
