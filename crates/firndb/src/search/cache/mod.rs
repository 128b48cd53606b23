//! Structures that queries build in memory from small partitions, within a budget.

pub(crate) mod bundle_view;
pub(crate) mod bundles;
pub(crate) mod cached_set;
