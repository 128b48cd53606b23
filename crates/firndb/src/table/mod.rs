//! Table: a static key-value store in one file, built in one go, with one read per get.
//!
//! Records are in the order of the hashes of their keys or, with [`Order::Key`], in key order: then
//! [`Table::range`] and [`Table::prefix`] work.
//!
//! Use it for data that is computed in batches and served until the next batch: dictionaries,
//! features, profiles, links. Records are added in any order. A table never changes: to update it,
//! build a new one under the same path. That replaces the file atomically, and programs that have
//! the old table open keep it. For keys that change one by one, use a
//! [`LogStore`](crate::log::LogStore). If keys need not be stored and an absent key may
//! occasionally get a value, an [`ApproximateTable`] is smaller. If one machine cannot build the
//! table, or if updates change few keys, a [`ShardedTable`] consists of several tables.
//!
//! ```
//! use firndb::table::{BuildOptions, KeyFilter, Table, TableBuilder};
//! # fn main() -> firndb::Result<()> {
//! # let path = std::env::temp_dir().join(format!("firndb-doc-{}.table", std::process::id()));
//! # let result = example(&path);
//! # let _ = std::fs::remove_file(&path);
//! # result }
//!
//! fn example(path: &std::path::Path) -> firndb::Result<()> {
//!     let options = BuildOptions::new().filter(KeyFilter::Bits8); // absent keys cost no read
//!     let mut builder = TableBuilder::create_with(path, options)?;
//!     for (city, position) in [("Oslo", "59.91 N 10.75 E"), ("Bergen", "60.39 N 5.32 E")] {
//!         builder.add(city, position)?;
//!     }
//!     let report = builder.finish()?; // durable, and visible under its path
//!     assert_eq!(report.records, 2);
//!
//!     let table = Table::open(path)?;
//!     let oslo = table.get("Oslo")?; // Option<Cow<'_, [u8]>>
//!     assert_eq!(oslo.as_deref(), Some(&b"59.91 N 10.75 E"[..]));
//!     assert_eq!(table.get("Trondheim")?, None);
//!
//!     // Many keys at once take less time per key: cache misses or reads overlap.
//!     let found = table.get_many(&["Bergen", "Trondheim"])?;
//!     assert!(found[0].is_some() && found[1].is_none());
//!
//!     for record in table.iter() {
//!         let (key, value) = record?; // Vec<u8>, Vec<u8>, in the order of the hashes of the keys
//!         println!("{} {}", String::from_utf8_lossy(&key), String::from_utf8_lossy(&value));
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # Durability
//!
//! Nothing appears under the path before [`TableBuilder::finish`] has written and synced the whole
//! file. Once it returns, the table survives power loss. After an error, a crash or a dropped
//! builder, the old table or nothing is there. The same records give the same bytes, whatever their
//! order, the memory and the number of threads.
//!
//! # Concurrency
//!
//! Any number of processes and threads read a table at the same time; reads take no lock. A
//! [`Table`] is `Send` and `Sync`: share it by reference or in an `Arc`. Other programs must not
//! overwrite or truncate the file in place.
//!
//! # Errors
//!
//! An absent key is `None`, not an error. The kinds of errors:
//!
//! | [`ErrorKind`](crate::ErrorKind) | cause |
//! |---|---|
//! | `InvalidArgument` | an option or a length out of range; a duplicate key ([`Duplicates`]) |
//! | `NotFound` | no file to open, or no directory to build in |
//! | `Locked` | another build is publishing a table at the same path |
//! | `Corrupt` | a damaged file; the error has the file and the offset |
//! | `UnsupportedVersion` | the table was built by a newer release |
//! | `Io` | the operating system reports a failure |
//! | `Failed` | an earlier [`TableBuilder::add`] failed |
//! | `Cancelled` | the callback of [`TableBuilder::finish_with`] stopped the build |
//!
//! With [`Access::Map`], the default, a disk that cannot read a page ends the process with SIGBUS;
//! the other modes return an error of kind `Io`.
//!
//! # Cost
//!
//! For n records. A block has 4 KiB by default ([`BuildOptions::block_size`]).
//!
//! | what | cost |
//! |---|---|
//! | a get | O(1): one block is read, and the records in it searched |
//! | a get of an absent key | the same; with a [`KeyFilter`], 255 of 256 or more read nothing |
//! | an iteration | one pass over the file |
//! | a range, in key order | one block is read for the first record, then each block once |
//! | opening | small sections and the filter; [`Access::Resident`] reads the whole file |
//! | memory of an open table | about 0.04 bytes per record of 45 bytes, and the filter |
//! | in key order | 5 to 10 bytes per block, more if keys have long common beginnings |
//! | with [`Access::Resident`] | the file, and about 13 bytes per record |
//! | a build | O(n log n); memory as [`BuildOptions::memory_limit`] says, 1 GiB by default |
//! | disk space of a build | the file; if memory is exceeded, as much again for a temporary file |
//! | the file | 1.06 times the keys and values, if records have 45 bytes |
//!
//! # Limits
//!
//! A key has at most 65,536 bytes ([`MAX_KEY`]), a value 4 GiB - 1 ([`MAX_VALUE`]); both may be
//! empty. A table has up to 2^64 - 1 records.

// How it works: records are sorted by a hash of the key and packed into blocks. A directory of a
// few bits per block, always in memory, maps a hash to the only block that can hold the key
// (PaCHash). Inside the block an array of one-byte tags selects the record to compare. An index of
// all keys is therefore not needed. Tables of large records, and tables loaded into memory, have
// one nevertheless: there it is small, and saves a get one cache miss. In key order, fences between
// the blocks take the place of the directory, and there is no index.
//
// Imports run one way: `options`, `simd` <- `format` <- `build`, `read` <- `approx` <- `admin`, and
// `read` <- `sharded`.

pub(crate) mod options;
pub(crate) mod simd;
pub(crate) mod format;
pub(crate) mod build;
pub(crate) mod read;
pub(crate) mod approx;
pub(crate) mod admin;
pub(crate) mod sharded;
#[cfg(test)]
mod tests;

pub use approx::builder::{ApproximateBuilder, ApproximateOptions, ApproximateReport};
pub use approx::format::FixedValue;
pub use approx::table::{ApproximateStats, ApproximateTable};
pub use build::builder::TableBuilder;
pub use build::table_writer::BuildReport;
pub use format::{MAX_KEY, MAX_VALUE};
pub use options::{
    Access, BuildOptions, Compression, Duplicates, KeyFilter, Order, Progress, Stats,
};
pub use read::iter::Iter;
pub use read::range::Range;
pub use read::table::Table;
pub use sharded::{MAX_SHARDS, ShardedIter, ShardedStats, ShardedTable, shard_of};
