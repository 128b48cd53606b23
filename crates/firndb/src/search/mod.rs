//! Collection: documents in immutable partitions, filtered, sorted, counted, faceted and grouped.

mod value;
mod condition;
mod schema;
mod schema_toml;
mod document;
pub mod query;
mod lexer;
mod parse;
mod hint;
mod cursor;
mod condition;
#[cfg(test)]
mod testing;
mod collection;

pub use collection::*;
pub use document::Document;
pub use hint::point_at;
pub use parse::{MAX_DEPTH, MAX_IN, parse_filter, parse_order, parse_query};
pub use query::{Cursor, Filter, Op, OrderBy, Query};
pub use schema::{Field, MAX_FIELDS, Payload, Roles, Schema, Type};
pub use value::{Value, timestamp_from_text, timestamp_to_text};
