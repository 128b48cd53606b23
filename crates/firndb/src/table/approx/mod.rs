//! The approximate table.

pub(crate) mod format;
pub(crate) mod mphf;
pub(crate) mod builder;
pub(crate) mod table;
