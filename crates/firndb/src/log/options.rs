//! How a store is opened, and how a write is made.

use crate::bytes::frozen::{Frozen, Kind};
use crate::disk::{AppendMode, Disk};
use crate::log::expiry::{Expiry, Lifetime};
use crate::{Error, Result};
use std::path::Path;
use std::time::Duration;

/// Largest segment: the index has 26 bits for an offset, and so each byte of it can begin a record.
const SEGMENT_MAX: u64 = 64 << 20;

/// How records are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Through maps of the segments. Fastest. If the disk fails to read a page, the process gets
    /// SIGBUS.
    #[default]
    Map,
    /// With `pread`, and nothing that is read is mapped: if the disk fails, the call that reads
    /// returns an error. A get takes a microsecond more, the store has one file open for each
    /// segment (mind `ulimit -n`), and its hints are in memory: about 6 bytes for each record in
    /// the log. A store that is open for reading only is opened anew by each refresh.
    Buffered,
}

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When the operating system has it: it survives the death of the process at any moment, and
    /// may be lost in a power cut, together with everything written after it.
    #[default]
    Os,
    /// When it survives a power cut, and everything written before it too. Writers that wait at the
    /// same time share one sync.
    Sync,
}

/// How to open a store. `Options::default()` opens or creates one for reading and writing.
///
/// ```
/// let mut options = firndb::log::Options::default();
/// options.segment_bytes = 16 << 20;
/// options.compaction_threshold = 0.3;
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// Create the store if there is none. Default: yes.
    pub create: bool,
    /// Open it for reading beside a writer, and take no lock. Default: no.
    pub read_only: bool,
    /// Durability of writes that do not say otherwise. Default: [`Durability::Os`].
    pub durability: Durability,
    /// Largest size of a segment file in bytes, 4 KiB to 64 MiB; a record that is larger gets one
    /// of its own. Small stores use smaller segments. Default: 64 MiB.
    pub segment_bytes: u64,
    /// How records are appended. Default: [`AppendMode::Auto`], which looks at the file system.
    pub append_mode: AppendMode,
    /// How records are read. Default: [`Access::Map`].
    pub access: Access,
    /// Share of a segment that must be stale for compaction to copy the rest, 0.01 to 0.99. Each
    /// byte put is then written about 1 / threshold times at most. Default: 0.5.
    pub compaction_threshold: f64,
    /// Bytes a second that compaction may copy; 0 is no limit. Default: 0.
    pub compaction_rate: u64,
    /// Bytes of log between two checkpoints: what may have to be read again when the store is
    /// opened after a crash. Default: 256 MiB.
    pub checkpoint_bytes: u64,
    /// Do the upkeep (preparing and sealing segments, checkpoints, compaction) in threads of the
    /// store. Without it the program calls [`LogStore::maintain`](crate::log::LogStore::maintain).
    /// Default: yes.
    pub background: bool,
    /// Number of shards of the index, as a power of two; tests make it small.
    pub(crate) index_bits: u32,
    /// Milliseconds since 1970.
    pub(crate) clock: fn() -> u64,
}

impl Access {
    /// Opens a file beside the segments.
    pub(crate) fn open(self, disk: &dyn Disk, path: &Path, kind: Kind) -> Result<Frozen> {
        match self {
            Access::Map => Frozen::open(disk.map(path)?, path, kind),
            Access::Buffered => Frozen::load(disk, path, kind),
        }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            create: true,
            read_only: false,
            durability: Durability::Os,
            segment_bytes: SEGMENT_MAX,
            append_mode: AppendMode::Auto,
            access: Access::Map,
            compaction_threshold: 0.5,
            compaction_rate: 0,
            checkpoint_bytes: 256 << 20,
            background: true,
            index_bits: 13,
            clock: system_clock,
        }
    }
}

impl Options {
    /// `InvalidArgument` if a value is outside of its limits.
    pub(crate) fn check(&self) -> Result<()> {
        if !(4 << 10..=SEGMENT_MAX).contains(&self.segment_bytes) {
            return Err(Error::invalid(format!(
                "segment_bytes is {}; give 4 KiB to 64 MiB",
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

/// How one write differs from the options of the store.
///
/// ```
/// use firndb::log::{Durability, Expiry, WriteOptions};
/// use std::time::Duration;
///
/// let session = WriteOptions::ttl(Duration::from_secs(3600)).with_durability(Durability::Sync);
/// let until = WriteOptions::sync().with_expiry(Expiry::At(1_800_000_000_000));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriteOptions {
    /// When it is acknowledged; `None`: as the store's options say.
    pub durability: Option<Durability>,
    /// How long until the records expire, from the moment of the write. Goes before `expiry`.
    pub ttl: Option<Duration>,
    /// When the records expire. With `None` here and in `ttl`, a put makes records that stay, and a
    /// write that changes a value (`update`, `compare_and_set`, `append`) keeps the expiry of the
    /// record that it replaces.
    pub expiry: Option<Expiry>,
}

impl WriteOptions {
    /// Acknowledged when it survives a power cut.
    pub fn sync() -> WriteOptions {
        WriteOptions::default().with_durability(Durability::Sync)
    }

    /// Expires after this time.
    pub fn ttl(ttl: Duration) -> WriteOptions {
        WriteOptions::default().with_ttl(ttl)
    }

    /// The same with this durability.
    pub fn with_durability(self, durability: Durability) -> WriteOptions {
        WriteOptions { durability: Some(durability), ..self }
    }

    /// The same for records that expire after this time, in place of any expiry set before.
    pub fn with_ttl(self, ttl: Duration) -> WriteOptions {
        WriteOptions { ttl: Some(ttl), expiry: None, ..self }
    }

    /// The same for records that expire at a given time, or never, in place of any time to live set
    /// before.
    pub fn with_expiry(self, expiry: Expiry) -> WriteOptions {
        WriteOptions { expiry: Some(expiry), ttl: None, ..self }
    }

    pub(crate) fn lifetime(self) -> Lifetime {
        match (self.ttl, self.expiry) {
            (Some(ttl), _) => Lifetime::Ttl(ttl),
            (None, Some(expiry)) => Lifetime::Until(expiry),
            (None, None) => Lifetime::Usual,
        }
    }
}

fn system_clock() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}
