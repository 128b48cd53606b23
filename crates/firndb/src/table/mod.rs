//! Table: a static key-value store. A table is built once, from records in any order, and is
//! immutable. A get reads one block. To update a table, build a new one under the same path:
//! publishing replaces the file atomically, and open tables keep the old one.
//!
//! # Building
//!
//! [`TableBuilder::create`] starts a build, [`TableBuilder::add`] adds records in any order, and
//! [`TableBuilder::finish`] sorts them, writes the file and publishes it. A build needs bounded
//! memory ([`BuildOptions::memory_limit`]); what does not fit goes to a temporary file. The same
//! records give the same bytes, whatever their order, the memory and the number of threads.
//!
//! # Reading
//!
//! [`Table::open`] reads the footer and small sections. [`Access`] chooses how blocks are read:
//! from a map, by buffered or direct reads, or from a copy in memory. [`Table::get`] looks one key
//! up, [`Table::get_many`] and [`Table::read_many`] look up many with overlapping cache misses or
//! reads, [`Table::iter`] and [`Table::scan`] visit all records, and [`Table::verify`] checks every
//! byte.
//!
//! # How it works
//!
//! Records are sorted by a hash of the key and packed into blocks of about 4 KiB. A directory of a
//! few bits per block, always in memory, maps a hash to the only block that can hold the key
//! (PaCHash). Inside the block an array of one-byte tags selects the record to compare. An index of
//! all keys is therefore not needed. Tables of large records, and tables loaded into memory, have
//! one nevertheless: there it is small, and saves a get one cache miss.
//!
//! [`ApproximateTable`] stores values of a fixed width without their keys.
//!
//! # Modules
//!
//! Imports run one way: `options`, `simd` <- `format` <- `build`, `read` <- `approx` <- `admin`.

pub(crate) mod options;
pub(crate) mod simd;
pub(crate) mod format;
pub(crate) mod build;
pub(crate) mod read;
pub(crate) mod approx;
pub(crate) mod admin;
#[cfg(test)]
mod tests;

pub use approx::builder::{ApproximateBuilder, ApproximateOptions, ApproximateReport};
pub use approx::format::FixedValue;
pub use approx::table::{ApproximateStats, ApproximateTable};
pub use build::builder::TableBuilder;
pub use build::table_writer::BuildReport;
pub use format::{MAX_KEY, MAX_VALUE};
pub use options::{Access, BuildOptions, Compression, Duplicates, KeyFilter, Progress, Stats};
pub use read::iter::Iter;
pub use read::table::Table;
