//! Options of builds and of opening, the progress of a build, and the statistics of a table.

use crate::bytes::metric::Metric;
use std::path::PathBuf;

/// Compression of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum Compression {
    /// Values are stored uncompressed.
    #[default]
    None,
    /// One zstd frame per value, with a dictionary trained on a sample of the values. A get
    /// decompresses one value.
    Records {
        /// zstd level, 1 to 19.
        level: i32,
    },
    /// One zstd frame per block, with a dictionary. Smaller, but a get decompresses a whole block.
    Blocks {
        /// zstd level, 1 to 19.
        level: i32,
    },
}

impl Compression {
    /// `none`, `record` or `block`: the name in texts and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Records { .. } => "record",
            Compression::Blocks { .. } => "block",
        }
    }

    /// The zstd level; `None` without compression.
    pub fn level(self) -> Option<i32> {
        match self {
            Compression::None => None,
            Compression::Records { level } | Compression::Blocks { level } => Some(level),
        }
    }
}

/// The order of the records in a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum Order {
    /// By a hash of the key: the fastest gets, and about 3 bytes of memory per block.
    #[default]
    Hash,
    /// By the bytes of the key: [`Table::range`](crate::table::Table::range) and
    /// [`Table::prefix`](crate::table::Table::prefix) work, and iterations go in key order. Gets
    /// still read one block. An open table takes 5 to 10 bytes of memory per block, more if keys
    /// have long common beginnings.
    Key,
}

impl Order {
    /// `hash` or `key`: the name in texts and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Order::Hash => "hash",
            Order::Key => "key",
        }
    }
}

/// What happens if a key is added more than once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Duplicates {
    /// The build fails with `InvalidArgument`, and names the key and two origins.
    #[default]
    Error,
    /// The record of the lowest origin is kept.
    First,
    /// The record of the highest origin is kept.
    Last,
}

/// A filter, which answers most gets of absent keys without reading a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum KeyFilter {
    /// No filter: a get of an absent key reads one block.
    #[default]
    None,
    /// About 9.1 bits per key. 1 in 256 absent keys passes.
    Bits8,
    /// About 18.2 bits per key. 1 in 65,536 absent keys passes.
    Bits16,
}

impl KeyFilter {
    /// Bits of a fingerprint: an absent key passes with probability 2^-bits. 0 without a filter.
    pub fn bits(self) -> u32 {
        match self {
            KeyFilter::None => 0,
            KeyFilter::Bits8 => 8,
            KeyFilter::Bits16 => 16,
        }
    }
}

/// Options of the build of a table. Each setter returns the changed options:
///
/// ```
/// use firndb::table::{BuildOptions, KeyFilter};
///
/// let options = BuildOptions::new().filter(KeyFilter::Bits8).memory_limit(256 << 20);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BuildOptions {
    pub(crate) order: Order,
    pub(crate) block_size: usize,
    pub(crate) compression: Compression,
    pub(crate) filter: KeyFilter,
    pub(crate) duplicates: Duplicates,
    pub(crate) memory_limit: usize,
    pub(crate) temp_dir: Option<PathBuf>,
    pub(crate) threads: usize,
    pub(crate) metadata: Vec<u8>,
    pub(crate) value_schema: String,
}

impl Default for BuildOptions {
    fn default() -> BuildOptions {
        BuildOptions {
            order: Order::Hash,
            block_size: 4096,
            compression: Compression::None,
            filter: KeyFilter::None,
            duplicates: Duplicates::Error,
            memory_limit: 1 << 30,
            temp_dir: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            metadata: Vec::new(),
            value_schema: String::new(),
        }
    }
}

impl BuildOptions {
    /// The defaults.
    pub fn new() -> BuildOptions {
        BuildOptions::default()
    }

    /// The order of the records. Default: [`Order::Hash`]. With [`Order::Key`], input that is
    /// already in key order is written in one pass without temporary files, and other input is
    /// sorted in memory and in temporary files.
    pub fn order(self, order: Order) -> BuildOptions {
        BuildOptions { order, ..self }
    }

    /// Bytes of a block: a multiple of 4096, up to 1 MiB. With [`Compression::Blocks`], bytes
    /// before compression. Default: 4096.
    pub fn block_size(self, bytes: usize) -> BuildOptions {
        BuildOptions { block_size: bytes, ..self }
    }

    /// Compression of values. Default: none.
    pub fn compression(self, compression: Compression) -> BuildOptions {
        BuildOptions { compression, ..self }
    }

    /// Filter for absent keys. Default: none.
    pub fn filter(self, filter: KeyFilter) -> BuildOptions {
        BuildOptions { filter, ..self }
    }

    /// What happens if a key is added more than once. Default: the build fails.
    pub fn duplicates(self, duplicates: Duplicates) -> BuildOptions {
        BuildOptions { duplicates, ..self }
    }

    /// Bytes of memory for collected records, at least 16 MiB; more records go to a temporary file.
    /// The process may use up to 1.2 times as much, plus 100 MiB. In addition a large table needs 8
    /// bytes per block, and long values up to about seven times the longest value per thread.
    /// Default: 1 GiB.
    pub fn memory_limit(self, bytes: usize) -> BuildOptions {
        BuildOptions { memory_limit: bytes, ..self }
    }

    /// Directory of the temporary file. Default: the directory of the table.
    pub fn temp_dir(self, dir: impl Into<PathBuf>) -> BuildOptions {
        BuildOptions { temp_dir: Some(dir.into()), ..self }
    }

    /// Threads that sort and compress, 1 to 1,024. With two or more, another thread hashes and
    /// partitions records while they are added. Default: all processors.
    pub fn threads(self, threads: usize) -> BuildOptions {
        BuildOptions { threads, ..self }
    }

    /// Metadata of the user, stored in the file. Default: empty.
    pub fn metadata(self, bytes: impl Into<Vec<u8>>) -> BuildOptions {
        BuildOptions { metadata: bytes.into(), ..self }
    }

    /// How to read values, for example an Avro schema as text, stored in the file. Default: empty.
    pub fn value_schema(self, schema: impl Into<String>) -> BuildOptions {
        BuildOptions { value_schema: schema.into(), ..self }
    }
}

/// Progress of [`TableBuilder::finish_with`](crate::table::TableBuilder::finish_with).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Records written.
    pub done: u64,
    /// Records to write.
    pub total: u64,
}

/// How blocks are read.
///
/// The modes differ in what a failing disk causes. A page of a map that cannot be read ends the
/// process with SIGBUS; a failed read is an error of kind [`Io`](crate::ErrorKind::Io). In every
/// mode, opening, `metadata`, `value_schema` and `verify` read through a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// From a map of the file, cached by the page cache. The checksum of a block is checked when it
    /// is first used. An unreadable page ends the process with SIGBUS. Files of large records
    /// contain an index of about 13 bytes per record, which gets use for blocks that were checked.
    #[default]
    Map,
    /// With reads through the page cache; each block is checked. If a block cannot be read, the get
    /// fails with `Io`, and the next get tries again.
    Buffered,
    /// With reads that bypass the page cache (`O_DIRECT`); each block is checked. Errors as with
    /// `Buffered`.
    Direct,
    /// From a copy in memory, in huge pages if the system has them. Opening reads and checks all
    /// blocks, and gets need no disk. This is the fastest mode of a [`Table`](crate::table::Table):
    /// an index of about 13 bytes per record gives the position of each record, so that a get reads
    /// one cache line of it and the record. There is no index with [`Compression::Blocks`]. Gets
    /// search in the block instead for keys longer than 254 bytes, for records of 65,535 bytes or
    /// more, for records more than 128 MiB from their expected position, and for a hash shared by
    /// more than about 500 keys.
    Resident,
}

/// Counts, sizes and options of a table. Sizes are in bytes unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Stats {
    /// Number of records.
    pub records: u64,
    /// The order of the records.
    pub order: Order,
    /// Number of blocks.
    pub blocks: u64,
    /// The block size option: bytes of a full block, before compression.
    pub block_size: u64,
    /// All blocks.
    pub block_bytes: u64,
    /// The longest block.
    pub longest_block_bytes: u64,
    /// All keys.
    pub key_bytes: u64,
    /// All values, before compression.
    pub value_bytes: u64,
    /// The longest key.
    pub longest_key_bytes: u64,
    /// The longest value, before compression.
    pub longest_value_bytes: u64,
    /// The file.
    pub file_bytes: u64,
    /// The filter.
    pub filter_bytes: u64,
    /// The index in the file, which tables of large records have.
    pub index_bytes: u64,
    /// Memory that the open table uses, without mapped pages.
    pub memory_bytes: u64,
    /// Whether blocks are aligned to pages, so that a get touches one page.
    pub paged: bool,
    /// Compression of values.
    pub compression: Compression,
    /// The filter.
    pub filter: KeyFilter,
    /// Seed of the hash of keys: 0, unless more than 16 keys shared a bin without one, as only
    /// crafted keys do.
    pub seed: u64,
}

impl Stats {
    /// The figures for monitoring.
    pub fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::gauge("firndb_table_records", "Records of the table", self.records),
            Metric::gauge("firndb_table_file_bytes", "Bytes of the file", self.file_bytes),
            Metric::gauge("firndb_table_key_bytes", "Bytes of all keys", self.key_bytes),
            Metric::gauge("firndb_table_value_bytes", "Bytes of all values", self.value_bytes),
            Metric::gauge("firndb_table_memory_bytes", "Memory of the table", self.memory_bytes),
        ]
    }
}
