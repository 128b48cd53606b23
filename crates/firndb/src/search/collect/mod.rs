//! Collects matches over partitions: the first of an order, facets and groups.

pub(crate) mod count;
pub(crate) mod facet;
pub(crate) mod group;
pub(crate) mod ordered_search;
pub(crate) mod rank;
pub(crate) mod request;
pub(crate) mod topk;
pub(crate) mod topk_heap;
pub(crate) mod unordered;
