//! Collection: documents in immutable partitions, filtered, sorted, counted, faceted and grouped.

mod value;
mod schema;
mod document;
pub mod query;
mod parse;
mod condition;
#[cfg(test)]
mod testing;
mod collection;

pub use collection::*;
pub use document::Document;
pub use parse::{parse_filter, parse_query};
pub use query::{Cursor, Filter, Op, OrderBy, Query};
pub use schema::{Field, MAX_FIELDS, Payload, Roles, Schema, Type};
pub use value::{Value, timestamp_from_text, timestamp_to_text};
