//! FirnDB: embedded storage for data that is written once or in bursts and read all the time.
//!
//! This release holds the **Collection**: documents in immutable partitions that are filtered,
//! sorted, counted, faceted and grouped, and of which one can be replaced while queries run;
//! the **Table**: static keys and values, built in a batch and served with one read per get; the
//! **LogStore**: mutable keys and values; the **Indexer**, which turns feeds of documents into a
//! collection and rebuilds only what changed; and the **Catalog**, which distributes versions of
//! tables and collections to readers that switch between them without a failed query.
//!
//! # Overview
//!
//! | type | purpose |
//! |---|---|
//! | [`search::Schema`], [`search::Field`] | named fields, their types and roles |
//! | [`search::Document`] | values of fields, and a payload of any bytes |
//! | [`search::PartitionBuilder`] | builds a partition in bounded memory |
//! | [`search::Collection`] | a directory of partitions: open it, refresh it, change it |
//! | [`search::Change`] | puts, removes and merges partitions; `commit` publishes all changes at
//! once |
//! | [`search::Reader`] | one set of partitions: search, count, facets, groups, payloads, values |
//! | [`search::Query`], [`search::Filter`] | a query, parsed from text or built with
//! [`search::query`] |
//! | [`table::TableBuilder`] | builds a table from records in any order |
//! | [`table::Table`] | an open table: get, get many, iterate, verify |
//! | [`table::ApproximateTable`] | values of a few bytes by key, without the keys |
//! | [`log::LogStore`] | mutable keys and values: a log on disk, an index in memory |
//! | [`indexer::Indexer`] | feeds of documents -> a log -> a collection; rebuilds what changed |
//! | [`catalog::Catalog`] | versions under names: publish, compare, roll back |
//! | [`catalog::CatalogReader`] | the newest version, open, and replaced when a newer one is
//! published |
//! | [`Error`] | a kind to branch on, a message, and a location in a file or in a text |
//!
//! # Example
//!
//! ```
//! use firndb::search::query::{and, asc, eq, lt};
//! use firndb::search::{
//!     Collection, Document, Facet, Field, PartitionBuilder, Query, Roles, Schema, Type, Value,
//!     parse_query,
//! };
//! # fn main() -> firndb::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("firndb-guide-{}", std::process::id()));
//! # let result = guide(&dir);
//! # let _ = std::fs::remove_dir_all(&dir);
//! # result }
//! # fn guide(dir: &std::path::Path) -> firndb::Result<()> {
//!
//! // A schema says what each field is for: to filter by, to sort by, to read back.
//! let city = Field::new("city", Type::String, Roles::FILTERABLE);
//! let price = Field::new("price", Type::F64, Roles::FULL);
//! let schema = Schema::new([city, price])?;
//!
//! // Documents go into a partition, partitions into a collection.
//! let rooms = |offers: &[(&str, f64)]| -> firndb::Result<PartitionBuilder> {
//!     let mut builder = PartitionBuilder::new(schema.clone());
//!     for (city, price) in offers {
//!         let document = Document::new().set("city", *city).set("price", *price);
//!         builder.add(&document.payload(format!("a room in {city}")))?;
//!     }
//!     Ok(builder)
//! };
//! let collection = Collection::create(dir)?;
//! let mut change = collection.change()?;
//! change.put("monday", rooms(&[("Oslo", 12.5), ("Bergen", 9.0)])?)?;
//! change.put("tuesday", rooms(&[("Oslo", 7.0)])?)?;
//! let reader = change.commit()?; // durable, and visible as a whole
//!
//! // Queries come as text or from functions.
//! let text = parse_query("city = 'Oslo' order by price limit 10", Some(reader.schema()))?;
//! let page = reader.search(&text)?;
//! assert_eq!(page.hits.len(), 2);
//! assert_eq!(reader.value(page.hits[0], "price")?, Some(Value::F64(7.0)));
//! assert_eq!(&*reader.payload(page.hits[0])?, b"a room in Oslo");
//! let cheap = and([eq("city", "Oslo"), lt("price", 10)]);
//! assert_eq!(reader.count(&cheap)?, 1);
//! assert_eq!(reader.search(&Query::new(cheap).order_by(asc("price")))?.hits.len(), 1);
//!
//! // Counts by value, here of all documents.
//! let by_city = Facet::new("city").top(10);
//! let facets = reader.facets(&firndb::search::query::all(), &[by_city])?;
//! assert_eq!(facets[0].values[0], (Value::from("Oslo"), 2));
//!
//! // A replaced partition is seen by new readers; a reader keeps the set that it has.
//! let mut change = collection.change()?;
//! change.put("monday", rooms(&[("Bergen", 8.0)])?)?;
//! change.commit()?;
//! assert_eq!(reader.count(&eq("city", "Oslo"))?, 2);
//! assert_eq!(collection.reader().count(&eq("city", "Oslo"))?, 1);
//! # Ok(()) }
//! ```
//!
//! A table is a file. Its path names either the complete new table or the previous one:
//!
//! ```
//! use firndb::table::{BuildOptions, KeyFilter, Table, TableBuilder};
//! # fn main() -> firndb::Result<()> {
//! # let path = std::env::temp_dir().join(format!("firndb-guide-{}.table", std::process::id()));
//! # let result = guide(&path);
//! # let _ = std::fs::remove_file(&path);
//! # result }
//! # fn guide(path: &std::path::Path) -> firndb::Result<()> {
//!
//! let options = BuildOptions::new().filter(KeyFilter::Bits8);
//! let mut builder = TableBuilder::create_with(path, options)?;
//! builder.add("Oslo", "59.91 N 10.75 E")?;
//! builder.add("Bergen", "60.39 N 5.32 E")?;
//! builder.finish()?; // durable and visible
//!
//! let table = Table::open(path)?;
//! assert_eq!(table.get("Bergen")?.as_deref(), Some(&b"60.39 N 5.32 E"[..]));
//! assert_eq!(table.get("Trondheim")?, None);
//! # Ok(()) }
//! ```
//!
//! # What to rely on
//!
//! - Answers are exact, and the same for the same files on every machine. Damaged files give
//!   [`ErrorKind::Corrupt`], never a wrong answer; [`search::Reader::verify`] searches for damage.
//! - `commit` is atomic, also across power loss. Published files never change.
//! - A [`search::Reader`] is cheap to clone and may be used by any number of threads. It keeps its
//!   files mapped until the last clone is dropped.
//! - The only background threads are those that [`catalog::CatalogReader::watch`] and
//!   [`search::Collection::compact_every`] start, and the three threads of a [`log::LogStore`] that
//!   is open for writing ([`log::Options::background`]). Queries never wait for changes.
//! - Published files are mapped: other programs must not truncate or overwrite them in place.
//!
//! # Limits
//!
//! | of | limit |
//! |---|---|
//! | documents in a partition | 67,108,864 ([`search::MAX_DOCUMENTS`]); partitions are many |
//! | fields of a schema | 4096 ([`search::MAX_FIELDS`]), names of 1 to 255 bytes |
//! | values of a multi-valued field in a partition | 4,294,967,295 |
//! | a payload | 4 GiB - 1 |
//! | memory of a partition's build | 1 GiB, or [`search::PartitionBuilder::memory_limit`] |
//! | name of a partition | 1 to 100 characters of `A-Z a-z 0-9 . _ -`, not a dot first |
//! | fields of an order | 16 ([`search::MAX_ORDER`]) |
//! | fields to group by | 2 |
//! | nesting of a condition | 128 levels ([`search::MAX_DEPTH`]) |
//! | values of an `in` in a text | 65,536 ([`search::MAX_IN`]) |
//! | a key, a value of a table | 65,536 bytes ([`table::MAX_KEY`]), 4 GiB - 1 |
//! | records of a table | 2^64 - 1; memory to build it as [`table::BuildOptions`] says |
//! | a log store | 16,384 segments, about 230 million keys; keys and values as in a table |
//! | partitions of an index | 32,000 ([`indexer::MAX_PARTITIONS`]) |
//! | numbers | integers of 64 bits, `f64` without NaN; timestamps in microseconds |
//! | systems | Linux, macOS and other Unix systems with 64-bit addresses |

#![cfg_attr(
    not(all(target_arch = "x86_64", target_os = "linux")),
    allow(
        unfulfilled_lint_expectations,
        reason = "unsafe code of some files is for x86-64 or Linux"
    )
)]

mod error;
mod redact;
mod bytes;
mod disk;
mod sync;
mod inspect;
pub mod catalog;
pub mod indexer;
pub mod log;
pub mod search;
pub mod table;
#[cfg(test)]
mod testing;

pub use error::{Error, ErrorKind, Result};
pub use inspect::{
    InspectedItem, InspectedSection, Inspection, Verification, inspect, recognize, verify,
};
pub use redact::{redact, redact_url};
