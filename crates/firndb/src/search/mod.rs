//! Collection: documents in immutable partitions, filtered, sorted, counted, faceted and grouped.

mod value;
mod schema;
mod schema_toml;
mod document;
pub mod query;
mod lexer;
mod parse;
mod hint;
mod cursor;
mod condition;
mod format;
mod dictionary;
mod postings_build;
mod postings;
mod column;
mod payload;
mod intern;
mod spill;
mod write;
mod builder;
mod merge;
mod partition;
mod set;
mod catalogue;
mod kernels;
mod plan;
mod clause;
mod execute;
mod small;
mod rank;
mod topk;
mod facet;
mod group;
mod reader;
mod explain;
mod manifest;
mod collection;
pub(crate) mod internal;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use builder::PartitionBuilder;
pub use collection::{Change, Collection, PartitionInfo};
pub use document::Document;
pub use explain::Explain;
pub use facet::{Facet, FacetCounts};
pub use format::MAX_DOCUMENTS;
pub use group::{Aggregate, Group, GroupBy, Number};
pub use hint::point_at;
pub use parse::{MAX_DEPTH, MAX_IN, parse_filter, parse_order, parse_query};
pub use query::{Cursor, Filter, Op, OrderBy, Query};
pub use rank::MAX_ORDER;
pub use reader::{Hit, Page, Reader};
pub use schema::{Field, MAX_FIELDS, Payload, Roles, Schema, Type};
pub use value::{Value, timestamp_from_text, timestamp_to_text};
