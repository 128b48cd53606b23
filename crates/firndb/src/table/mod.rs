//! Table: a static key-value store. Built once from records in any order, then served with one read
//! a get; a newer table takes its place by taking its name.
//!
//! Records stand in the order of the hashes of their keys, in blocks of about 4 KiB. A directory of
//! a few bits a block, always in memory, says which one block can hold a key; a few tags in the
//! block say which record. No index of keys is needed; large records, beside which it is small,
//! have one for gets in a map, and so has a table in memory.
//!
//! # Build path
//! 1. `TableBuilder::add` leaves the record in a batch (`Ingest::push`); a thread, if the build may
//!    have several, hashes the keys of full ones and appends each record to one of 1,024 partitions
//!    (`Partitions::push`). When memory is full, all of them go to a temporary file.
//! 2. `TableBuilder::finish` trains the dictionary, if values are compressed (`train`).
//! 3. `sort_every`, in a few threads: a partition is gathered, sorted and freed of duplicates
//!    (`sort`), and copied in the order of the table, with its values packed (`in_order`).
//! 4. `BlockWriter::push` fills blocks in order; `encode_body` makes their bytes,
//!    `DirectoryWriter::push` notes where each begins, `FilterWriter::push` collects hashes, and
//!    `IndexSpool::push`, if records are large, what an index needs.
//! 5. If too many keys share a place, `CollisionCheck::check` ends this, and `Partitions::reseeded` splits
//!    all records anew by a hash with a seed.
//! 6. `disk::write_behind` appends full pieces in a thread of its own; `write_rest` adds the small
//!    sections, and `disk::publish` gives the file its name.
//!
//! # Read path
//! 1. `Table::get`: `hash_of`, under the seed of the table -> filter, if there is one ->
//!    `directory::place` -> `Directory::find`: the block, without touching it.
//! 2. `Table::block`: the block from the map, from memory, or by one read; its checksum.
//! 3. `Body::find`, or `Avx2Search::find` where records are small: tags, then keys -> the stored value.
//! 4. `Decompressor::unpack`, if values are compressed.
//!    With an index, in a map once blocks were checked: from the filter to the stored value by
//!    `Index::find`; where neither filter nor compression is in between, first by `Table::hit`.
//! 5. `Table::get_many` and `Table::read_many` do these steps for several keys in turn, so that
//!    memory for the one comes while another is looked for, or read.

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
pub use options::{Access, BuildOptions, Compression, Duplicates, Filter, Progress, TableStats};
pub use read::iter::Iter;
pub use read::table::Table;
