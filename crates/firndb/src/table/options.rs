//! Options of builds and of opening, the progress of a build, and the statistics of a table.

use std::path::PathBuf;

/// Compression of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// What happens if a key is added more than once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
pub enum Filter {
    /// No filter: a get of an absent key reads one block.
    #[default]
    None,
    /// About 9.1 bits per key. 1 in 256 absent keys passes.
    Bits8,
    /// About 18.2 bits per key. 1 in 65,536 absent keys passes.
    Bits16,
}

/// Options of the build of a table.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// Bytes of a block: a multiple of 4096, up to 1 MiB. With [`Compression::Blocks`], bytes
    /// before compression. Default: 4096.
    pub block_size: usize,
    /// Compression of values.
    pub compression: Compression,
    /// Filter for absent keys.
    pub filter: Filter,
    /// What happens if a key is added more than once.
    pub duplicates: Duplicates,
    /// Bytes of memory for collected records, at least 16 MiB; more records go to a temporary file.
    /// The process may use up to 1.2 times as much, plus 100 MiB. In addition a large table needs 8
    /// bytes per block, and long values up to about seven times the longest value per thread.
    /// Default: 1 GiB.
    pub memory: usize,
    /// Directory of the temporary file. Default: the directory of the table.
    pub temporary: Option<PathBuf>,
    /// Threads that sort and compress, 1 to 1,024. With two or more, another thread hashes and
    /// partitions records while they are added. Default: all processors.
    pub threads: usize,
    /// Metadata of the user, stored in the file.
    pub metadata: Vec<u8>,
    /// How to read values, for example an Avro schema as text, stored in the file.
    pub value_schema: String,
}

impl Default for BuildOptions {
    fn default() -> BuildOptions {
        BuildOptions {
            block_size: 4096,
            compression: Compression::None,
            filter: Filter::None,
            duplicates: Duplicates::Error,
            memory: 1 << 30,
            temporary: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            metadata: Vec::new(),
            value_schema: String::new(),
        }
    }
}

/// Progress of [`TableBuilder::finish_with`](crate::table::TableBuilder::finish_with).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
pub struct TableStats {
    /// Number of records.
    pub records: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// The block size option: bytes of a full block, before compression.
    pub block_size: u64,
    /// All blocks.
    pub block_bytes: u64,
    /// The longest block.
    pub longest_block: u64,
    /// All keys.
    pub key_bytes: u64,
    /// All values, before compression.
    pub value_bytes: u64,
    /// The longest key.
    pub longest_key: u64,
    /// The longest value, before compression.
    pub longest_value: u64,
    /// The file.
    pub file_bytes: u64,
    /// The filter.
    pub filter_bytes: u64,
    /// The index in the file, which tables of large records have.
    pub index_bytes: u64,
    /// Memory that the open table uses, without mapped pages.
    pub memory: u64,
    /// Whether blocks are aligned to pages, so that a get touches one page.
    pub paged: bool,
    /// Compression of values.
    pub compression: Compression,
    /// The filter.
    pub filter: Filter,
    /// Seed of the hash of keys: 0, unless more than 16 keys shared a bin without one, as only
    /// crafted keys do.
    pub seed: u64,
}
