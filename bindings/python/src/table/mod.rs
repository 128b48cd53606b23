//! Tables.
//!
//! - [`store`]: the class of tables in one file and of sharded tables; [`approximate`].
//! - [`build`]: builds a table from files, Arrow data, another store ([`sink`] receives the
//!   records) or Python objects ([`objects`], [`dicts`]).
//! - [`rows`]: values that are records of columns; [`columns`]: many of them as Arrow data.

pub mod approximate;
pub mod build;
pub mod columns;
pub mod dicts;
pub mod files;
pub mod handle;
pub mod iter;
pub mod objects;
pub mod rows;
pub mod sink;
pub mod store;
