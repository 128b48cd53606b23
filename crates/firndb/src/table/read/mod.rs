//! Reading a table.

pub(crate) mod table;
pub(crate) mod reader;
pub(crate) mod source;
pub(crate) mod mapped_index;
pub(crate) mod index_lookup;
pub(crate) mod get;
pub(crate) mod batch;
pub(crate) mod iter;
