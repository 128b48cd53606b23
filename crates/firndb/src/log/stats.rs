//! What a store counts, and [`Stats`], which shows it.

use crate::disk::AppendMode;
use crate::log::open::store::{LogStore, Shared};
use crate::log::segments::segment::Segment;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, Weak};

/// How the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Recovery {
    /// Bytes behind the end of the log that were no whole records: a write that was torn.
    pub dropped_bytes: u64,
    /// Files that were not part of the store and were removed.
    pub dropped_files: u64,
    /// Segments of which only the hints were read, because the checkpoint did not cover them.
    pub hinted_segments: u64,
    /// Segments whose records were read one by one.
    pub scanned_segments: u64,
    /// How long it took.
    pub seconds: f64,
}

/// Facts about a store at one moment; counts begin when it is opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    /// Number of keys. Those whose records have expired count until a write or compaction removes
    /// the records.
    pub keys: u64,
    /// Segments, the active one included.
    pub segments: u64,
    /// Bytes of the segments' files, space included that is reserved and not used yet.
    pub disk_bytes: u64,
    /// Bytes of the files of segments that compaction took out of the store and that are on the
    /// disk still, beside `disk_bytes`: a [`Snapshot`](crate::log::Snapshot) or an iterator of this
    /// handle reads them, or their removal waits for a sync. What readers in other processes hold
    /// is not known.
    pub held_bytes: u64,
    /// Bytes of the newest records of these keys.
    pub live_bytes: u64,
    /// How records are appended: [`AppendMode::Map`] or [`AppendMode::Write`]; or would be, if the
    /// store were open for writing. `Auto` if the file system does not say.
    pub append_mode: AppendMode,
    /// Bytes of memory that the index takes.
    pub index_bytes: u64,
    /// Records put.
    pub puts: u64,
    /// Records of deletes.
    pub deletes: u64,
    /// Bytes of keys and values in both.
    pub user_bytes: u64,
    /// Bytes appended to the log for both.
    pub log_bytes: u64,
    /// Syncs of the log, each shared by all writers that waited.
    pub syncs: u64,
    /// Reads of a record that turned out to belong to another key.
    pub false_reads: u64,
    /// Bytes that compaction appended again.
    pub moved_bytes: u64,
    /// Bytes of hints, checkpoints and the like.
    pub upkeep_bytes: u64,
    /// Backups made.
    pub backups: u64,
    /// Segments that compaction removed.
    pub segments_removed: u64,
    /// How it was opened.
    pub recovery: Recovery,
}

/// The counters behind [`Stats`].
pub(crate) struct Counters {
    pub(crate) keys: AtomicU64,
    pub(crate) live_bytes: AtomicU64,
    pub(crate) puts: AtomicU64,
    pub(crate) deletes: AtomicU64,
    pub(crate) user_bytes: AtomicU64,
    pub(crate) log_bytes: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) false_reads: AtomicU64,
    pub(crate) moved_bytes: AtomicU64,
    pub(crate) upkeep_bytes: AtomicU64,
    pub(crate) segments_removed: AtomicU64,
    pub(crate) backups: AtomicU64,
    recovery: Recovery,
}

impl Counters {
    pub(crate) fn new(recovery: Recovery) -> Counters {
        let zero = || AtomicU64::new(0);
        Counters {
            keys: zero(),
            live_bytes: zero(),
            puts: zero(),
            deletes: zero(),
            user_bytes: zero(),
            log_bytes: zero(),
            syncs: zero(),
            false_reads: zero(),
            moved_bytes: zero(),
            upkeep_bytes: zero(),
            segments_removed: zero(),
            backups: zero(),
            recovery,
        }
    }
}

/// Adds to a count that only the holder of the writer's lock changes: so it takes no locked
/// instruction, of which each write would have seven.
#[inline]
pub(crate) fn add(count: &AtomicU64, n: u64) {
    count.store(count.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

/// [`add`], the other way, and no further than 0: what a hint or a checkpoint counted may be less
/// than what is there, and a count that wraps would pass for a store of 2^64 live bytes.
#[inline]
pub(crate) fn subtract(count: &AtomicU64, n: u64) {
    count.store(count.load(Ordering::Relaxed).saturating_sub(n), Ordering::Relaxed);
}

impl Stats {
    /// Bytes appended to the log for each byte of records written: 1 without compaction.
    pub fn write_amplification(&self) -> f64 {
        (self.log_bytes + self.moved_bytes) as f64 / (self.log_bytes as f64).max(1.0)
    }
}

impl Shared {
    fn append_mode(&self, active: Option<&Arc<Segment>>) -> AppendMode {
        let Some(segment) = active else { return self.options.append_mode };
        match (segment.append_mode(), self.options.append_mode) {
            (AppendMode::Auto, AppendMode::Auto) => {
                self.disk.append_mode(&segment.path).unwrap_or_default()
            }
            (AppendMode::Auto, chosen) => chosen,
            (known, _) => known,
        }
    }
}

impl Shared {
    fn held_bytes(&self) -> u64 {
        let mut removed = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
        removed.retain(|segment| segment.strong_count() > 0);
        removed.iter().filter_map(Weak::upgrade).map(|segment| segment.capacity()).sum()
    }
}

impl LogStore {
    /// What the store holds and did.
    pub fn stats(&self) -> Stats {
        self.shared.settle_counts();
        let counters = &self.shared.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let segments = self.shared.table.load().in_order();
        Stats {
            keys: get(&counters.keys),
            segments: segments.len() as u64,
            disk_bytes: segments.iter().map(|segment| segment.capacity()).sum(),
            held_bytes: self.shared.held_bytes(),
            live_bytes: get(&counters.live_bytes),
            append_mode: self.shared.append_mode(segments.last()),
            index_bytes: self.shared.index.memory(),
            puts: get(&counters.puts),
            deletes: get(&counters.deletes),
            user_bytes: get(&counters.user_bytes),
            log_bytes: get(&counters.log_bytes),
            syncs: get(&counters.syncs),
            false_reads: get(&counters.false_reads),
            moved_bytes: get(&counters.moved_bytes),
            upkeep_bytes: get(&counters.upkeep_bytes),
            backups: get(&counters.backups),
            segments_removed: get(&counters.segments_removed),
            recovery: counters.recovery,
        }
    }
}
