//! Options of a store and of a write.

use crate::disk::envelope::{Envelope, Kind};
use crate::disk::{AppendMode, Disk};
use crate::log::expiry::{Expiry, Lifetime};
use crate::{Error, Result};
use std::path::Path;
use std::time::Duration;

/// Bits of an offset. Records begin at any byte of segments of up to this length, 64 MiB, and at
/// aligned bytes of larger ones.
pub(crate) const OFFSET_BITS: u32 = 26;
/// Most segments of a store.
pub(crate) const SEGMENTS_MAX: usize = 1 << 14;
/// The largest alignment of segments that are created without need, as a power of two.
const ALIGNMENT_LOG2: u32 = 7;

/// How records are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Through memory maps of the segments. Fastest. If the disk fails to read a page, the process
    /// gets SIGBUS.
    #[default]
    Map,
    /// With `pread`: if the disk fails, the call that reads returns an error. A get takes a
    /// microsecond more, the store keeps one file open per segment (mind `ulimit -n`) and its hints
    /// in memory, about 7 bytes per record in the log. Each refresh of a store that is open for
    /// reading only opens it again.
    Buffered,
}

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// When the operating system has it. The write survives a process crash at any moment. A power
    /// cut may lose it, together with everything written after it.
    #[default]
    Os,
    /// When it survives a power cut, together with everything written before it. Writers that wait
    /// at the same time share one sync.
    Sync,
}

/// How to open a store. The default opens or creates one for reading and writing.
///
/// ```
/// use firndb::log::Options;
///
/// let options = Options::new().segment_bytes(16 << 20).compaction_threshold(0.3);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    pub(crate) create: bool,
    pub(crate) create_new: bool,
    pub(crate) read_only: bool,
    pub(crate) durability: Durability,
    pub(crate) segment_bytes: u64,
    pub(crate) append_mode: AppendMode,
    pub(crate) access: Access,
    pub(crate) compaction_threshold: f64,
    pub(crate) compaction_rate: u64,
    pub(crate) checkpoint_bytes: u64,
    pub(crate) background: bool,
    pub(crate) ordered: bool,
    /// Number of shards of an empty index, as a power of two; tests make it small.
    pub(crate) index_bits: u32,
    /// How many times that number may double; tests make it small.
    pub(crate) index_doublings: u32,
    /// Most pieces of 2 MiB of the index; tests make it small.
    pub(crate) index_chunks: usize,
    /// Most segments of the store; tests make it small.
    pub(crate) segments_max: usize,
    /// Segments of more than 2^this bytes are aligned; tests make it small.
    pub(crate) offset_bits: u32,
    /// The current time in milliseconds since 1970.
    pub(crate) clock: fn() -> u64,
}

impl Access {
    /// Opens a frozen file of the store.
    pub(crate) fn open(self, disk: &dyn Disk, path: &Path, kind: Kind) -> Result<Envelope> {
        match self {
            Access::Map => Envelope::open(disk.map(path)?, path, kind),
            Access::Buffered => Envelope::load(disk, path, kind),
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            create: true,
            create_new: false,
            read_only: false,
            durability: Durability::Os,
            segment_bytes: 1 << OFFSET_BITS,
            append_mode: AppendMode::Auto,
            access: Access::Map,
            compaction_threshold: 0.5,
            compaction_rate: 0,
            checkpoint_bytes: 256 << 20,
            background: true,
            ordered: false,
            index_bits: 13,
            index_doublings: 12,
            index_chunks: usize::MAX,
            segments_max: SEGMENTS_MAX,
            offset_bits: OFFSET_BITS,
            clock: system_clock,
        }
    }
}

impl Options {
    /// The default options.
    pub fn new() -> Options {
        Options::default()
    }

    /// Create the store if there is none. Default: yes.
    #[must_use]
    pub fn create(mut self, create: bool) -> Options {
        self.create = create;
        self
    }

    /// Create the store, which must not exist: opening one that does is an error of kind
    /// `AlreadyExists`. Of several processes that try, one succeeds. Default: no.
    #[must_use]
    pub fn create_new(mut self, create_new: bool) -> Options {
        self.create_new = create_new;
        self.create |= create_new;
        self
    }

    /// Open for reading only, without a lock; another process may write. Default: no.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Options {
        self.read_only = read_only;
        self
    }

    /// Durability of writes that do not set one. Default: [`Durability::Os`].
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = durability;
        self
    }

    /// Size of the largest segment files in bytes, 4 KiB to 8 GiB, in a store of up to 1,024 times
    /// as many live bytes. In a larger store they grow to a 1,024th of the live bytes, up to 8 GiB,
    /// because the number of segments is limited. A larger record gets a segment of its own. Small
    /// stores use smaller segments. Default: 64 MiB.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Options {
        self.segment_bytes = bytes;
        self
    }

    /// How records are appended. Default: [`AppendMode::Auto`], which depends on the file system.
    #[must_use]
    pub fn append_mode(mut self, mode: AppendMode) -> Options {
        self.append_mode = mode;
        self
    }

    /// How records are read. Default: [`Access::Map`].
    #[must_use]
    pub fn access(mut self, access: Access) -> Options {
        self.access = access;
        self
    }

    /// Share of a segment that must be stale for compaction to copy the rest, 0.01 to 0.99. Write
    /// amplification is at most about 1 / threshold. Default: 0.5.
    #[must_use]
    pub fn compaction_threshold(mut self, share: f64) -> Options {
        self.compaction_threshold = share;
        self
    }

    /// Bytes per second that compaction may copy; 0 is no limit. Default: 0.
    #[must_use]
    pub fn compaction_rate(mut self, bytes_per_second: u64) -> Options {
        self.compaction_rate = bytes_per_second;
        self
    }

    /// Bytes of log between two checkpoints, which bounds what an opening after a crash has to
    /// replay. Default: 256 MiB.
    #[must_use]
    pub fn checkpoint_bytes(mut self, bytes: u64) -> Options {
        self.checkpoint_bytes = bytes;
        self
    }

    /// Create the store as an ordered one, whose keys can be read in byte order with
    /// [`LogStore::range`](crate::log::LogStore::range) and
    /// [`LogStore::prefix`](crate::log::LogStore::prefix). A store keeps its kind: an existing
    /// ordered store is opened as one with either value, and opening one that is not ordered with
    /// `true` is an error. An ordered store takes about 19 bytes more per key of 16 random bytes,
    /// and puts are somewhat slower. Default: no.
    #[must_use]
    pub fn ordered(mut self, ordered: bool) -> Options {
        self.ordered = ordered;
        self
    }

    /// Do maintenance (preparing and sealing segments, checkpoints, compaction) in threads of the
    /// store. Otherwise the program calls [`LogStore::maintain`](crate::log::LogStore::maintain).
    /// Default: yes.
    #[must_use]
    pub fn background(mut self, background: bool) -> Options {
        self.background = background;
        self
    }

    /// Largest segment that is created unless a record or batch needs a larger one.
    fn segment_max(&self) -> u64 {
        1 << (self.offset_bits + ALIGNMENT_LOG2)
    }

    /// The alignment of a segment of this length, as a power of two: the least one with which
    /// offsets of all its records fit into the index.
    pub(crate) fn alignment_log2(&self, capacity: u64) -> u32 {
        (capacity.max(1) - 1)
            .checked_ilog2()
            .map_or(0, |log2| (log2 + 1).saturating_sub(self.offset_bits))
    }

    /// Number of segments after which their least length doubles: a 16th of all.
    pub(crate) fn segments_per_step(&self) -> usize {
        self.segments_max / 16
    }

    /// Largest segment that is created in a store of this many live bytes, unless a record or batch
    /// needs a larger one: a 1,024th of them, so that the store never has more segments than it
    /// can, or [`Options::segment_bytes`] if that is more.
    pub(crate) fn largest_segment(&self, live: u64) -> u64 {
        let share = live / self.segments_per_step() as u64;
        share.min(self.segment_max()).max(self.segment_bytes)
    }

    /// `InvalidArgument` if a value is out of range.
    pub(crate) fn check(&self) -> Result<()> {
        if !(4 << 10..=self.segment_max()).contains(&self.segment_bytes) {
            return Err(Error::invalid(format!(
                "segment_bytes is {}; give 4 KiB to 8 GiB",
                self.segment_bytes
            )));
        }
        if !(0.01..=0.99).contains(&self.compaction_threshold) {
            return Err(Error::invalid(format!(
                "compaction_threshold is {}; give 0.01 to 0.99",
                self.compaction_threshold
            )));
        }
        Ok(())
    }
}

/// Options of one write.
///
/// ```
/// use firndb::log::{Durability, Expiry, WriteOptions};
/// use std::time::Duration;
///
/// let session = WriteOptions::new().durability(Durability::Sync).ttl(Duration::from_secs(3600));
/// let until = WriteOptions::sync().expiry(Expiry::At(1_800_000_000_000));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteOptions {
    pub(crate) durability: Option<Durability>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) expiry: Option<Expiry>,
}

impl WriteOptions {
    /// The default options: the durability of the store, and no expiry. Then a put writes records
    /// that do not expire, and a write that changes a value (`update`, `compare_and_set`, `append`)
    /// keeps the expiry of the record that it replaces.
    pub fn new() -> WriteOptions {
        WriteOptions::default()
    }

    /// A write that is acknowledged when it survives a power cut.
    pub fn sync() -> WriteOptions {
        WriteOptions::new().durability(Durability::Sync)
    }

    /// When the write is acknowledged. Default: as in the store's options.
    #[must_use]
    pub fn durability(self, durability: Durability) -> WriteOptions {
        WriteOptions { durability: Some(durability), ..self }
    }

    /// Time to live of the records, from the moment of the write. Replaces an expiry set before.
    #[must_use]
    pub fn ttl(self, ttl: Duration) -> WriteOptions {
        WriteOptions { ttl: Some(ttl), expiry: None, ..self }
    }

    /// When the records expire. Replaces a time to live set before.
    #[must_use]
    pub fn expiry(self, expiry: Expiry) -> WriteOptions {
        WriteOptions { expiry: Some(expiry), ttl: None, ..self }
    }

    pub(crate) fn lifetime(self) -> Lifetime {
        match (self.ttl, self.expiry) {
            (Some(ttl), _) => Lifetime::Ttl(ttl),
            (None, Some(expiry)) => Lifetime::Until(expiry),
            (None, None) => Lifetime::Unspecified,
        }
    }
}

fn system_clock() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}
