//! The approximate table: values of a fixed width by key, without the keys. `format.rs` has its
//! bytes, `mphf.rs` the minimal perfect hash function, `builder.rs` and `table.rs` build and read
//! it.

pub(crate) mod format;
pub(crate) mod mphf;
pub(crate) mod builder;
pub(crate) mod table;
