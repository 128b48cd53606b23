//! The data model: values, documents, schemas and queries. Plain data without file access.
//!
//! `types` lists the field types, `value` holds a value and its order-preserving key. `schema`
//! describes fields, `document` is what a builder takes. `query` is the tree that callers build
//! and the parser in `text/` produces; `condition` turns one of its leaves into bounds of keys.
//! `names` has helpers for field names in messages, `key_map` the hash map keyed by field keys.
//! Nothing here depends on other folders of `search/`.

pub(crate) mod condition;
pub(crate) mod document;
pub mod query;
pub(crate) mod key_map;
pub(crate) mod names;
pub(crate) mod schema;
pub(crate) mod types;
pub(crate) mod value;
