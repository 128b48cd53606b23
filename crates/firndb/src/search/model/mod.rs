//! What callers see: values, documents, schemas and queries. Plain data, without any file access.

pub(crate) mod condition;
pub(crate) mod document;
pub mod query;
pub(crate) mod key_map;
pub(crate) mod names;
pub(crate) mod schema;
pub(crate) mod types;
pub(crate) mod value;
