//! Bundles: small partitions that are merged in memory when queries would benefit, within a memory
//! limit.
//!
//! `cached_set` is a partition set with its statistics and bundles; readers share it. `bundles`
//! chooses the partitions to merge, and decides when to build a bundle. `bundle_view` builds
//! bundles, and presents a set in which bundles replace their partitions; it translates document
//! addresses between this view and the set.

pub(crate) mod bundle_view;
pub(crate) mod bundles;
pub(crate) mod cached_set;
