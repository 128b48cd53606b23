//! Collection: documents in immutable partitions that are filtered, sorted, counted, faceted and
//! grouped.
//!
//! A [`PartitionBuilder`] turns documents into a partition: one file that is published whole and
//! never changed. A [`Collection`] is a directory of partitions. Its [`Change`] adds, replaces,
//! merges and removes partitions; a set file names the partitions that make up the collection, so
//! `commit` makes all of a change visible at once. A [`Reader`] is one such set, opened. Clones are
//! cheap, any number of threads query one reader, and it keeps its files open until the last clone
//! is dropped.
//!
//! ```
//! use firndb::search::{Collection, Document, Field, PartitionBuilder, Roles, Schema, Type};
//! use firndb::search::parse_query;
//! # fn main() -> firndb::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("firndb-search-{}", std::process::id()));
//! # let result = example(&dir);
//! # let _ = std::fs::remove_dir_all(&dir);
//! # result }
//! # fn example(dir: &std::path::Path) -> firndb::Result<()> {
//! let schema = Schema::new([Field::new("price", Type::F64, Roles::FULL)])?;
//! let mut builder = PartitionBuilder::new(schema);
//! builder.add(&Document::new().set("price", 12.5).payload("a room"))?;
//!
//! let collection = Collection::create(dir)?;
//! let mut change = collection.change()?;
//! change.put("monday", builder)?;
//! let reader = change.commit()?;
//!
//! let query = parse_query("price < 20 order by price limit 10", Some(reader.schema()))?;
//! let page = reader.search(&query)?;
//! assert_eq!(&*reader.payload(page.hits[0])?, b"a room");
//! # Ok(()) }
//! ```
//!
//! Each folder is a concept, and imports go one way: `model` (what callers see), `text` (its text
//! forms), `format` (the bytes of files), `simd` (inner loops), `codec` (encodings of sections),
//! `partition` (an open file), `build`, `plan`, `stats`, `exec` (a plan on one partition),
//! `collect` (matches over partitions), `cache`, `reader`, `collection`, `admin`. `ARCHITECTURE.md`
//! follows a query through them.

mod model;
mod text;
mod format;
mod simd;
mod codec;
mod partition;
mod build;
mod plan;
mod stats;
mod exec;
mod collect;
mod cache;
mod reader;
mod collection;
pub(crate) mod admin;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub(crate) use build::builder::Built;
pub use build::builder::PartitionBuilder;
pub use collect::facet::{Facet, FacetCounts};
pub use collect::group::{Aggregate, Group, GroupBy, Number};
pub use collect::rank::MAX_ORDER;
pub use collection::compact::{Compaction, Merge, MergePolicy};
pub(crate) use collection::current::{OpenSet, newest as newest_set};
pub use collection::{Change, Collection, MAX_PARTITIONS};
pub use format::MAX_DOCUMENTS;
#[cfg(test)]
pub(crate) use format::manifest::file_name as set_file;
pub(crate) use format::manifest::number as set_number;
pub use model::document::Document;
pub use model::query;
pub use model::query::{Filter, MAX_DEPTH, Op, OrderBy, PageToken, Query};
pub use model::schema::{Field, MAX_FIELDS, Payload, Roles, Schema};
pub use model::types::Type;
pub use model::value::{Value, timestamp_from_text, timestamp_to_text};
pub use reader::{Explain, FieldReader, Hit, Page, PartitionInfo, Reader};
pub use text::diagnostics::point_at;
pub use text::parse::{MAX_IN, parse_filter, parse_order, parse_query};
