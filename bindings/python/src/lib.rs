//! The native part of the Python package `firndb`: the module `firndb._native`.
//!
//! It converts between Python and the public API of FirnDB, and has no logic of its own. What is
//! natural in Python (mappings, context managers, builders of queries) is written in Python, in
//! `python/firndb`.
//!
//! - Every handle is in a `handle::Handle`, so that a call after `close` is an error.
//! - Batch calls and calls that read or wait for a disk run without the GIL (`gil::detached`);
//!   single gets in memory keep it, because giving it up takes longer than the get.
//! - No Python code runs, and the GIL is not taken, while the library holds one of its locks.

mod arrow;
mod build;
mod bytes;
mod catalog;
mod error;
mod gil;
mod handle;
mod indexer;
mod interrupt;
mod json;
mod log;
mod logging;
mod progress;
mod search;
mod table;

use pyo3::prelude::*;

/// The module `firndb._native`.
#[pymodule]
mod _native {
    use super::*;

    #[pymodule_export]
    use crate::arrow::values::Array;
    #[pymodule_export]
    use crate::catalog::generation::Generation;
    #[pymodule_export]
    use crate::catalog::reader::CatalogReader;
    #[pymodule_export]
    use crate::catalog::store::Catalog;
    #[pymodule_export]
    use crate::indexer::feed::Feed;
    #[pymodule_export]
    use crate::indexer::index::Indexer;
    #[pymodule_export]
    use crate::log::admin::{repair, restore};
    #[pymodule_export]
    use crate::log::batch::Batch;
    #[pymodule_export]
    use crate::log::iter::RecordIter;
    #[pymodule_export]
    use crate::log::snapshot::Snapshot;
    #[pymodule_export]
    use crate::log::store::LogStore;
    #[pymodule_export]
    use crate::logging::{capture, forked, next, stop};
    #[pymodule_export]
    use crate::search::build::build_collection;
    #[pymodule_export]
    use crate::search::change::Change;
    #[pymodule_export]
    use crate::search::collection::Collection;
    #[pymodule_export]
    use crate::search::condition::{Condition, FieldRef, Order, all_of, any_of};
    #[pymodule_export]
    use crate::search::hits::Hits;
    #[pymodule_export]
    use crate::search::load::infer_schema;
    #[pymodule_export]
    use crate::search::reader::CollectionReader;
    #[pymodule_export]
    use crate::search::schema::Schema;
    #[pymodule_export]
    use crate::table::approximate::ApproximateTable;
    #[pymodule_export]
    use crate::table::build::build_table;
    #[pymodule_export]
    use crate::table::columns::Columns;
    #[pymodule_export]
    use crate::table::iter::TableIter;
    #[pymodule_export]
    use crate::table::store::{ShardedTable, Table, shard_of};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("ERROR_KINDS", error::kinds(module.py())?)
    }
}
