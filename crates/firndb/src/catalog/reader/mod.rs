//! Readers of a catalog: the newest version of a name, open, with its files in a local cache.
//!
//! [`catalog_reader::CatalogReader`] fetches and switches versions, [`generation::Generation`] is
//! one open version, [`cache::Cache`] is the directory of its files, [`share::Share`] gives other
//! machines access to these files, and [`watch::Watch`] refreshes a reader from a thread.

pub(crate) mod cache_dir;
pub(crate) mod share;
pub(crate) mod cache;
pub(crate) mod generation;
pub(crate) mod catalog_reader;
pub(crate) mod watch;
