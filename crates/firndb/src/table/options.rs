//! What a caller can choose when a table is built and when it is opened.

use std::path::PathBuf;

/// How values are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// As they are.
    #[default]
    None,
    /// Each value is a zstd frame of its own, under a dictionary trained on a sample of the values:
    /// a get decompresses one value.
    Records {
        /// zstd level, 1 to 19.
        level: i32,
    },
    /// The records of a block are one zstd frame, under a dictionary: smaller, but a get
    /// decompresses a whole block.
    Blocks {
        /// zstd level, 1 to 19.
        level: i32,
    },
}

/// What happens when a key is added twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Duplicates {
    /// The build fails and names the key and both places.
    #[default]
    Error,
    /// The record of the lowest place stays.
    First,
    /// The record of the highest place stays.
    Last,
}

/// A filter that answers for most absent keys without reading a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// None: an absent key costs one block.
    #[default]
    None,
    /// About 9.1 bits a key; 1 absent key in 256 passes.
    Bits8,
    /// About 18.2 bits a key; 1 absent key in 65,536 passes.
    Bits16,
}

/// Choices of a build.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// Bytes of a block: a multiple of 4096, up to 1 MiB. With [`Compression::Blocks`] the bytes
    /// before compression.
    pub block_size: usize,
    /// How values are stored.
    pub compression: Compression,
    /// Whether a filter is added.
    pub filter: Filter,
    /// What happens when a key is added twice.
    pub duplicates: Duplicates,
    /// Bytes of memory for records on their way; what is more goes to a temporary file. At least
    /// 16 MiB. The process takes up to 1.2 times as much, plus 100 MiB; 8 bytes a block of a large
    /// table come on top, and for values that are long beside the memory up to about seven times
    /// the longest for each thread.
    pub memory: usize,
    /// Where that temporary file is made; beside the table if `None`.
    pub temporary: Option<PathBuf>,
    /// Threads that sort and compress, 1 to 1,024. From two on, another one hashes keys and splits
    /// records while they are added.
    pub threads: usize,
    /// Bytes of the user, kept in the file.
    pub metadata: Vec<u8>,
    /// How values are to be read (the text of an Avro schema, say), kept in the file.
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

/// How far the end of a build has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Records written.
    pub done: u64,
    /// Records to write.
    pub total: u64,
}

/// How blocks are read.
///
/// What a disk that fails does depends on it: a page of a map that cannot be read ends the process
/// with SIGBUS; a read by a call is an error of kind [`Io`](crate::ErrorKind::Io). In every mode
/// opening, `metadata`, `value_schema` and `verify` read through a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// From a map of the file; the page cache is the cache. If the disk cannot read a page, the
    /// process ends with SIGBUS. A block's checksum is checked when it is first touched. A file of
    /// large records has an index of them, about 13 bytes a record: gets use it, as those of a
    /// resident table, where blocks were checked before.
    #[default]
    Map,
    /// By reads through the page cache, each checked. If the disk cannot read a block, the get
    /// fails with an error of kind `Io`, and the next one tries again.
    Buffered,
    /// By reads past the page cache (`O_DIRECT`), each checked. A disk that fails is an error, as
    /// with `Buffered`.
    Direct,
    /// From a copy in memory, in huge pages where the system has them; checked when opened. A disk
    /// that fails meanwhile is an error of opening; gets do not need it. The fastest of a
    /// [`crate::table::Table`]: an index of about 13 bytes a record tells where each record is, so
    /// that a get touches a line of it and the record, and no directory or head of a block. There
    /// is none if blocks are compressed whole. By way of blocks go gets of keys that are longer
    /// than 254 bytes, of records of 65,535 bytes or more, of those that stand 128 MiB from where
    /// they are expected, and of keys whose hash some 500 others share.
    Resident,
}

/// What a table is: sizes in bytes unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableStats {
    /// Number of records.
    pub records: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Size at which a block is full, before compression.
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
    /// The index in the file, which one of large records has.
    pub index_bytes: u64,
    /// Memory that the open table holds, mapped pages not counted.
    pub memory: u64,
    /// Whether blocks begin at pages, so that a get touches one page.
    pub paged: bool,
    /// How values are stored.
    pub compression: Compression,
    /// Whether there is a filter.
    pub filter: Filter,
    /// The seed of the hash of keys: 0, unless more than 16 keys shared a place without one, as
    /// only crafted keys do.
    pub seed: u64,
}
