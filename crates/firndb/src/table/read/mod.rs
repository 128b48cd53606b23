//! Reading a table. `table.rs` has the public type. `reader.rs` opens a file, `source.rs` reads its
//! blocks, `get.rs` looks up one key and `batch.rs` many, `iter.rs` visits all records,
//! and `scan_from.rs` those of a page. `mapped_index.rs` and `index_lookup.rs` use the index, where
//! there is one.

pub(crate) mod table;
pub(crate) mod reader;
pub(crate) mod source;
pub(crate) mod mapped_index;
pub(crate) mod index_lookup;
pub(crate) mod get;
pub(crate) mod batch;
pub(crate) mod iter;
pub(crate) mod range;
pub(crate) mod scan_from;
