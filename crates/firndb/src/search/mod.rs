//! Collection: documents in immutable partitions that are filtered, sorted, counted, faceted and
//! grouped.
//!
//! A document has fields, which queries use, and a payload, which queries return unchanged. Use a
//! collection if documents arrive in batches (a feed, a day, a shard), if a batch can be replaced
//! as a whole, and if counts and pages must be exact. There is no full-text search and no ranking.
//! If single documents change all the time, an [`Indexer`](crate::indexer::Indexer) keeps a
//! collection up to date.
//!
//! ```
//! use firndb::search::query::{all, and, asc, eq, lt};
//! use firndb::search::{
//!     Collection, Document, Facet, Field, PartitionBuilder, Query, Roles, Schema, Type, Value,
//!     parse_query,
//! };
//! # fn main() -> firndb::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("firndb-doc-search-{}", std::process::id()));
//! # let result = example(&dir);
//! # let _ = std::fs::remove_dir_all(&dir);
//! # result }
//!
//! fn example(dir: &std::path::Path) -> firndb::Result<()> {
//!     // Roles say what a field is for: to filter by, to sort by, to read back, or FULL for all.
//!     let schema = Schema::new([
//!         Field::new("city", Type::String, Roles::FULL),
//!         Field::new("price", Type::F64, Roles::FULL).nullable(),
//!     ])?;
//!     let mut builder = PartitionBuilder::new(schema);
//!     for (city, price) in [("Oslo", 12.5), ("Bergen", 9.0), ("Oslo", 7.0)] {
//!         let document = Document::new().set("city", city).set("price", price);
//!         builder.add(&document.payload(format!("a room in {city}")))?;
//!     }
//!     let collection = Collection::create(dir)?; // later: Collection::open(dir)?.reader()
//!     let mut change = collection.change()?;
//!     change.put("monday", builder)?; // a later put of the same name replaces the partition
//!     let reader = change.commit()?; // durable, and visible as a whole
//!
//!     // A query is a text or is built from functions.
//!     let query = parse_query("price < 20 order by price limit 2", Some(reader.schema()))?;
//!     assert_eq!(query, Query::new(lt("price", 20)).order_by(asc("price")).limit(2));
//!     let page = reader.search(&query)?;
//!     let cheapest = page.hits[0];
//!     assert_eq!(reader.value(cheapest, "price")?, Some(Value::F64(7.0)));
//!     assert_eq!(&*reader.payload(cheapest)?, b"a room in Oslo"); // Cow<'_, [u8]>
//!
//!     // The next page begins after the last hit of this one.
//!     let token = reader.page_token(&query, page.hits[1])?;
//!     assert_eq!(reader.search(&query.after(token))?.hits.len(), 1);
//!
//!     // Counts, of all matches and by value.
//!     assert_eq!(reader.count(&and([eq("city", "Oslo"), lt("price", 10)]))?, 1);
//!     let facets = reader.facets(&all(), &[Facet::new("city").top(5)])?;
//!     assert_eq!(facets[0].values[0], (Value::from("Oslo"), 2));
//!     Ok(())
//! }
//! ```
//!
//! | to | use |
//! |---|---|
//! | declare fields, document order and compression | [`Schema`], [`Field`], [`Roles`] |
//! | build a partition in bounded memory | [`PartitionBuilder`], [`Document`], [`Value`] |
//! | add, replace, merge and remove partitions | [`Collection::change`], [`Change`] |
//! | write a query | [`parse_query`], [`parse_filter`], or [`Query`] and module [`query`] |
//! | find, count, facet, group, read back | [`Reader`] |
//! | see what a query touched | [`Reader::explain`] |
//! | limit a query in time | [`Reader::with_deadline`], [`Reader::with_cancel`] |
//! | merge small partitions | [`Collection::compact`], [`Change::merge`] |
//!
//! # Durability
//!
//! [`Change::commit`] is atomic. Once it returns, the change survives power loss; a crash before
//! that leaves the old set of partitions. A change that is dropped has no effect.
//!
//! # Concurrency
//!
//! One process at a time changes a collection, and any number of processes read it. A [`Reader`]
//! is one set of partitions: it never changes, clones are cheap, and any number of threads query
//! it. It keeps its files open until the last clone is dropped. [`Collection::reader`] returns the
//! newest set that the handle knows; [`Collection::refresh`] finds what other processes committed.
//! Queries take no lock and start no threads, except with [`Reader::with_threads`].
//!
//! # Errors
//!
//! A missing value is `None`, not an error. The kinds of errors:
//!
//! | [`ErrorKind`](crate::ErrorKind) | cause |
//! |---|---|
//! | `InvalidArgument` | a query or document does not fit the schema; a limit is exceeded |
//! | `NotFound` | no collection in the directory, or no partition of this name |
//! | `AlreadyExists` | the directory is not empty; a name is taken by merged documents |
//! | `Locked` | another process is changing the collection |
//! | `Corrupt` | a damaged file; the error has the file and the offset |
//! | `UnsupportedVersion` | a file was written by a newer release |
//! | `Io` | the operating system reports a failure |
//! | `Failed` | the directory was moved or replaced: open the collection again |
//! | `Cancelled` | the query exceeded its deadline or was cancelled |
//!
//! The error of a query has the span of its text ([`Error::span`](crate::Error::span)), which
//! [`point_at`] marks. Files are mapped: a disk that cannot read a page ends the process with
//! SIGBUS.
//!
//! # Cost
//!
//! | what | cost |
//! |---|---|
//! | a count of `field = value` | O(log n) per partition for n distinct values, or less |
//! | other queries | at most one pass over the column or the lists of each field that they name |
//! | the first k of an order | k entries in memory; a query in document order stops early |
//! | memory of a query | bounded; it does not grow with the number of documents |
//! | a reader | about 3 kB per partition, and bundles ([`Reader::with_bundle_limit`]) |
//! | opening | the footers of the partitions, and no documents |
//! | a change | its new partitions, and about 20 bytes per name of the others |
//! | building a partition | [`PartitionBuilder::memory_limit`], 1 GiB by default |
//!
//! # Limits
//!
//! | what | limit |
//! |---|---|
//! | documents per partition | 67,108,864 ([`MAX_DOCUMENTS`]) |
//! | partitions per collection | 32,000 ([`MAX_PARTITIONS`]) |
//! | name of a partition | 1 to 100 characters of `A-Z a-z 0-9 . _ -`, not a dot first |
//! | fields per schema | 4,096 ([`MAX_FIELDS`]), names of 1 to 255 bytes |
//! | values of a multi-valued field per partition | 4,294,967,295 |
//! | payload | 4 GiB - 1 |
//! | fields of an order; fields to group by | 16 ([`MAX_ORDER`]); 2 |
//! | nesting of conditions in a text | 127 levels, less than [`MAX_DEPTH`] |
//! | values of an `in` in a text | 65,536 ([`MAX_IN`]) |
//! | numbers | integers of 64 bits; `f64` without NaN |
//! | times | microseconds since 1970-01-01 UTC, signed 64 bits |

// Each folder is a concept, and imports go one way: `model` (what callers see), `text` (its text
// forms), `format` (the bytes of files), `simd` (inner loops), `codec` (encodings of sections),
// `partition` (an open file), `build`, `plan`, `stats`, `exec` (a plan on one partition), `collect`
// (matches over partitions), `cache`, `reader`, `collection`, `admin`. `ARCHITECTURE.md` follows a
// query through them.

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
#[cfg(test)]
pub(crate) use format::{part as section_part, section as section_id};
pub use model::document::Document;
pub use model::query;
pub use model::query::{Filter, MAX_DEPTH, Op, OrderBy, PageToken, Query};
pub use model::schema::{Field, MAX_FIELDS, Payload, Roles, Schema};
pub use model::types::Type;
pub use model::value::{Value, timestamp_from_text, timestamp_to_text};
pub(crate) use partition::set::DEFAULT_BUNDLE_LIMIT;
pub use reader::{Explain, FieldReader, Hit, Page, PartitionInfo, Reader};
pub use text::diagnostics::point_at;
pub use text::parse::{MAX_IN, parse_filter, parse_order, parse_query};
