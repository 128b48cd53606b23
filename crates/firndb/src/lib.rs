//! FirnDB: embedded storage for data that is written once or in bursts and read all the time.
//!
//! # Which store to use
//!
//! | store | for | what changes | a read |
//! |---|---|---|---|
//! | [`log::LogStore`] | keys and values that change at any time | a key, a batch | one record |
//! | [`table::Table`] | keys and values computed in batches | the whole file | one block |
//! | [`search::Collection`] | documents: filter, sort, count, facet | a partition | a query |
//!
//! Two parts connect the stores:
//!
//! | part | for |
//! |---|---|
//! | [`indexer::Indexer`] | feeds of documents into a collection; rebuilds only what changed |
//! | [`catalog::Catalog`] | versions of tables and collections, and readers that switch to them |
//!
//! - Data changes one key at a time, or a write must be durable when it returns: **LogStore**.
//! - Data is recomputed as a whole and looked up by key: **Table**. It needs about 0.04 bytes of
//!   memory per record, a LogStore about 10 bytes per key.
//! - Keys need not be stored, and an absent key may occasionally get a wrong value:
//!   **[`table::ApproximateTable`]**.
//! - Documents are searched by their fields: **Collection**, with an **Indexer** if single
//!   documents change.
//! - Data is built in one place and served in others: publish tables and collections to a
//!   **Catalog**.
//!
//! Each module's page has an example, durability, errors, costs and limits.
//!
//! # Example
//!
//! ```
//! use firndb::log::LogStore;
//! use firndb::search::{Collection, Document, Field, PartitionBuilder, Roles, Schema, Type};
//! use firndb::search::query::eq;
//! use firndb::table::{Table, TableBuilder};
//! # fn main() -> firndb::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("firndb-doc-{}", std::process::id()));
//! # std::fs::create_dir_all(&dir).unwrap();
//! # let result = example(&dir);
//! # let _ = std::fs::remove_dir_all(&dir);
//! # result }
//!
//! fn example(dir: &std::path::Path) -> firndb::Result<()> {
//!     // A log store: writes at any time.
//!     let users = LogStore::open(dir.join("users"))?;
//!     users.put("1042", "Ann")?;
//!     assert_eq!(users.get("1042")?.as_deref(), Some(&b"Ann"[..]));
//!
//!     // A table: built once, here from the log store, then only read.
//!     let mut builder = TableBuilder::create(dir.join("users.table"))?;
//!     for record in users.iter() {
//!         let (key, value) = record?;
//!         builder.add(key, value)?;
//!     }
//!     builder.finish()?;
//!     let table = Table::open(dir.join("users.table"))?;
//!     assert_eq!(table.get("1042")?.as_deref(), Some(&b"Ann"[..]));
//!
//!     // A collection: documents in partitions.
//!     let schema = Schema::new([Field::new("city", Type::String, Roles::FULL)])?;
//!     let mut builder = PartitionBuilder::new(schema);
//!     builder.add(&Document::new().set("city", "Oslo").payload("a room"))?;
//!     let collection = Collection::create(dir.join("rooms"))?;
//!     let mut change = collection.change()?;
//!     change.put("monday", builder)?;
//!     let reader = change.commit()?;
//!     assert_eq!(reader.count(&eq("city", "Oslo"))?, 1);
//!     Ok(())
//! }
//! ```
//!
//! # What to rely on
//!
//! - **Errors, never wrong answers.** Everything read from disk is checked. Damaged files give
//!   [`ErrorKind::Corrupt`] with file and offset; they cause no panic. [`verify`] checks every
//!   byte of a file or store, [`inspect()`] describes it.
//! - **Changes are atomic.** `commit`, `finish` and `publish` are durable when they return. A put
//!   of a log store survives a process crash, and with [`log::Durability::Sync`] power loss.
//! - **Published files never change.** They may be copied, linked and backed up while they are
//!   read. They are mapped: other programs must not truncate or overwrite them in place.
//! - **The same input gives the same bytes**, and the same query on the same files the same answer,
//!   on every machine and with any number of threads.
//! - **Any number of processes read, one writes.** The writer holds a file lock, which the kernel
//!   releases with the process. Stores and readers are `Send` and `Sync`.
//! - **Nothing is global.** The only background threads are those of a [`log::LogStore`] that is
//!   open for writing, of [`catalog::CatalogReader::watch`] and of
//!   [`search::Collection::compact_every`]. There is no async runtime.
//!
//! # Errors
//!
//! Every fallible call returns [`Result`]. Branch on [`Error::kind`], never on the message:
//!
//! ```
//! use firndb::{ErrorKind, table::Table};
//!
//! let path = std::env::temp_dir().join("no-such.table");
//! match Table::open(path) {
//!     Ok(table) => println!("{} records", table.len()),
//!     Err(error) if error.kind() == ErrorKind::NotFound => println!("not built yet"),
//!     Err(error) => eprintln!("{error}"), // has the file, the offset and the reason
//! }
//! ```
//!
//! # Units
//!
//! Sizes are in bytes, times to live are a [`std::time::Duration`], times of expiry are in
//! milliseconds since 1970-01-01 UTC, and timestamps of documents in microseconds. Keys and values
//! are bytes: arguments are `impl AsRef<[u8]>`, so `&str`, `String`, `&[u8]`, `Vec<u8>` and arrays
//! are accepted.
//!
//! # Monitoring
//!
//! `stats()` of a store returns its figures, and `metrics()` of them (or of a
//! [`search::Reader`]) returns [`Metric`]s for a monitoring system. With the feature `serde`
//! statistics and reports implement `Serialize`. With the feature `tracing` openings, builds,
//! maintenance and publications are spans of the crate `tracing` at the level `INFO`, queries of
//! collections at `DEBUG`.
//!
//! # Platforms
//!
//! 64-bit little-endian Unix. The CI workflow builds and tests Linux on x86-64 and arm64, and macOS
//! on arm64. AVX2 and AVX-512 are used where the processor has them.

#![cfg_attr(
    not(all(target_arch = "x86_64", target_os = "linux")),
    allow(
        unfulfilled_lint_expectations,
        reason = "unsafe code of some files is for x86-64 or Linux"
    )
)]

/// Enters a span of the crate `tracing` until the end of the block, with the feature `tracing`.
/// Without it, does nothing.
macro_rules! span {
    ($level:ident, $name:literal $($fields:tt)*) => {
        #[cfg(feature = "tracing")]
        let _span = tracing::span!(tracing::Level::$level, $name $($fields)*).entered();
    };
}

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

pub use bytes::key_range::KeyRange;
pub use bytes::metric::{Metric, MetricKind};
pub use error::{Error, ErrorKind, Result};
pub use inspect::{
    InspectedItem, InspectedSection, Inspection, Verification, inspect, recognize, verify,
};
pub use redact::{redact, redact_url};

/// Compiles the programs of README.md with the examples of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;

/// Compiles the program of docs/indexer.md.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/indexer.md")]
pub struct IndexerGuide;
