//! The findings in a HaloDB directory.

use std::path::PathBuf;

/// The kind of a file with entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FileKind {
    /// Records (`N.data`).
    Data,
    /// Records that HaloDB's compaction wrote (`N.datac`).
    Compacted,
    /// Tombstones of deleted keys (`N.tombstone`).
    Tombstones,
    /// Locations of the records of a data file (`N.index`).
    Index,
}

impl FileKind {
    /// Whether the file holds records.
    pub fn is_data(self) -> bool {
        matches!(self, FileKind::Data | FileKind::Compacted)
    }
}

/// How HaloDB stopped, and the state of its file META.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct State {
    /// How HaloDB stopped.
    pub shutdown: Shutdown,
    /// The checksum of META does not match. HaloDB does not check it, so META is used anyway.
    pub is_meta_altered: bool,
}

impl State {
    pub(crate) fn new(shutdown: Shutdown, is_meta_altered: bool) -> State {
        State { shutdown, is_meta_altered }
    }
}

/// How HaloDB stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shutdown {
    /// It closed the directory.
    Clean,
    /// It did not close the directory, or had an I/O error: its last writes may be torn.
    Crashed,
    /// There is no META. Snapshots have none; their files are complete.
    Unknown,
    /// META has the wrong length.
    MetaDamaged,
}

/// The findings in a directory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// How HaloDB stopped.
    pub state: State,
    /// Number of data and tombstone files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Records in the files, live or not.
    pub records: u64,
    /// Tombstones in the files.
    pub tombstones: u64,
    /// Keys that have a value.
    pub live: u64,
    /// Keys that were deleted.
    pub deleted: u64,
    /// Byte ranges of data and tombstone files that are not intact entries, and damage in index
    /// files whose data files are missing.
    pub dropped: Vec<Dropped>,
    /// Damage in index files whose data files exist. It loses no record.
    pub index_damage: Vec<Dropped>,
    /// Data files with lost records that are the newest of their keys.
    pub lost: Vec<Lost>,
    /// Records that index files list in the torn tails of the newest files. Older versions of their
    /// keys are live, as in HaloDB after a crash.
    pub torn: KeyList,
}

impl Report {
    /// Keys whose newest record is lost. They are not among the live records.
    pub fn lost_keys(&self) -> u64 {
        self.lost.iter().map(|lost| lost.keys.count).sum()
    }

    /// Whether something is missing that a crash does not explain, or nothing could be read.
    pub fn is_incomplete(&self) -> bool {
        let is_torn = |dropped: &Dropped| dropped.cause == Cause::Torn;
        let is_unreadable = self.records + self.tombstones == 0 && !self.dropped.is_empty();
        !self.lost.is_empty() || !self.dropped.iter().all(is_torn) || is_unreadable
    }
}

/// A byte range of a file that contains no intact entry.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Dropped {
    /// The file.
    pub path: PathBuf,
    /// Its kind.
    pub kind: FileKind,
    /// Offset of the range.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
    /// The cause of the damage.
    pub cause: Cause,
    /// Records that the index file lists in the range.
    pub listed: u64,
}

impl Dropped {
    /// A range in which the index file lists nothing so far.
    pub(crate) fn new(
        path: PathBuf,
        kind: FileKind,
        offset: u64,
        bytes: u64,
        cause: Cause,
    ) -> Dropped {
        Dropped { path, kind, offset, bytes, cause, listed: 0 }
    }
}

/// Why bytes were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The end of the newest file after a crash: an interrupted write.
    Torn,
    /// The file ends within an entry, and no crash explains it.
    Truncated,
    /// The checksum does not match, or the bytes are not an entry.
    Damaged,
    /// An intact entry with a key longer than a LogStore accepts ([`firndb::log::MAX_KEY`]).
    LongKey,
}

/// Records that an index file lists and no data file contains.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Lost {
    /// The data file.
    pub data: PathBuf,
    /// The index file.
    pub index: PathBuf,
    /// Whether the data file exists.
    pub has_data: bool,
    /// The keys of the records.
    pub keys: KeyList,
}

impl Lost {
    pub(crate) fn new(data: PathBuf, index: PathBuf, has_data: bool, keys: KeyList) -> Lost {
        Lost { data, index, has_data, keys }
    }
}

/// The number of some keys, and the first of them.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct KeyList {
    /// Number of keys.
    pub count: u64,
    /// The first keys, at most 1,000.
    pub sample: Vec<Vec<u8>>,
}

/// Maximum number of keys in a sample.
const SAMPLE_MAX: usize = 1000;

impl KeyList {
    /// `count` keys, of which none is in the sample yet.
    pub(crate) fn of(count: u64) -> KeyList {
        KeyList { count, sample: Vec::new() }
    }

    /// Whether the sample is full.
    pub(crate) fn is_full(&self) -> bool {
        self.sample.len() == SAMPLE_MAX
    }

    /// Counts a key, and adds it to the sample.
    pub(crate) fn add(&mut self, key: &[u8]) {
        self.count += 1;
        if !self.is_full() {
            self.sample.push(key.to_vec());
        }
    }
}
