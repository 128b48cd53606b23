//! Building a table.

pub(crate) mod builder;
pub(crate) mod ingest;
pub(crate) mod raw;
pub(crate) mod hashing;
pub(crate) mod arena;
pub(crate) mod partitions;
pub(crate) mod gather;
pub(crate) mod sort;
pub(crate) mod reseed;
pub(crate) mod encode;
pub(crate) mod pack;
pub(crate) mod filter_writer;
pub(crate) mod index_writer;
pub(crate) mod table_writer;
