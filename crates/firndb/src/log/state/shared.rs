//! [`Shared`]: the state of an open store, which its handles and its threads share.

use crate::log::expiry::Expiry;
use crate::log::format::record::{MAX_KEY, Record};
use crate::log::format::segment_head::{LogPosition, head_length};
use crate::log::options::{Options, WriteOptions};
use crate::log::segments::reserve::{Need, Reserve};
use crate::log::segments::segment::{HEAD_SHARE, SEGMENT_MIN, SEGMENT_SMALL, Segment};
use crate::log::state::backpressure::Backpressure;
use crate::log::state::counters::Counters;
use crate::log::state::directory::Directory;
use crate::log::state::group_commit::GroupCommit;
use crate::log::state::key_order::KeyOrder;
use crate::log::state::log_writer::LogWriter;
use crate::log::state::lookup::Lookup;
use crate::log::state::maintenance_state::MaintenanceState;
use crate::log::state::refresh_point::RefreshPoint;
use crate::log::state::signals::Task;
use crate::log::state::snapshots::Snapshots;
use crate::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A store's segments are at most this share of its live bytes, so that space that is reserved and
/// not yet used is a small part of the store.
const SEGMENT_SHARE: u64 = 192;

/// The state of an open store.
pub(crate) struct Shared {
    pub(crate) dir: Directory,
    pub(crate) options: Options,
    pub(crate) lookup: Lookup,
    /// `None` if the store is not ordered.
    pub(crate) order: Option<KeyOrder>,
    /// `None` if the store is open for reading only.
    pub(crate) writer: Mutex<Option<LogWriter>>,
    pub(crate) group_commit: GroupCommit,
    pub(crate) snapshots: Snapshots,
    pub(crate) counters: Counters,
    pub(crate) reserve: Reserve,
    pub(crate) backpressure: Backpressure,
    pub(crate) maintenance: MaintenanceState,
    /// `None` if the store is open for writing, or must be opened again to be refreshed. Locked
    /// before the writer.
    pub(crate) refresh_point: Mutex<Option<RefreshPoint>>,
}

/// The writer, locked.
pub(crate) struct WriterGuard<'a>(MutexGuard<'a, Option<LogWriter>>);

impl std::ops::Deref for WriterGuard<'_> {
    type Target = LogWriter;

    #[inline]
    fn deref(&self) -> &LogWriter {
        self.0.as_ref().expect("`Shared::lock_writer` checked it")
    }
}

impl std::ops::DerefMut for WriterGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut LogWriter {
        self.0.as_mut().expect("`Shared::lock_writer` checked it")
    }
}

impl Shared {
    /// Locks the writer. Puts may be deferred: see `write/settle.rs`. Errors: `Failed` after a
    /// failed write or sync, in a forked child and after a close; `InvalidArgument` if the store is
    /// open for reading only.
    pub(crate) fn lock_writer(&self) -> Result<WriterGuard<'_>> {
        self.dir.check_writable()?;
        let writer = self.lock_any();
        match &*writer {
            Some(open) if !open.is_closed => Ok(WriterGuard(writer)),
            Some(_) => Err(Error::new(ErrorKind::Failed, "the store is closed")),
            None => {
                Err(Error::invalid("the store is open for reading only").in_file(&self.dir.path))
            }
        }
    }

    /// Locks the writer, if there is one, whether or not anything can be written.
    pub(crate) fn lock_any(&self) -> MutexGuard<'_, Option<LogWriter>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the log ended at the last look of a store that is open for reading only.
    pub(crate) fn seen_end(&self) -> Option<LogPosition> {
        let point = self.refresh_point.lock().unwrap_or_else(PoisonError::into_inner);
        point.as_ref().map(|point| point.last)
    }

    /// Milliseconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        (self.options.clock)()
    }

    #[inline]
    pub(crate) fn is_expired(&self, record: &Record) -> bool {
        record.expires.is_some() && record.is_expired(self.now())
    }

    /// The expiry of records that are written now with these options; `None` if they do not set
    /// one.
    pub(crate) fn expiry(&self, options: WriteOptions) -> Option<Expiry> {
        options.lifetime().expiry(|| self.now())
    }

    pub(crate) fn wake(&self, task: Task) {
        self.maintenance.signals.wake(task);
    }

    /// All segments, ordered by number.
    pub(crate) fn segments(&self) -> Vec<Arc<Segment>> {
        self.lookup.segments.load().in_order()
    }

    /// Length of the next segment's file in a store of this many segments.
    pub(crate) fn capacity_for(&self, segments: usize) -> u64 {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let written = get(&self.counters.log_bytes) + get(&self.counters.moved_bytes);
        capacity(&self.options, get(&self.counters.live_bytes), written, segments)
    }

    /// Bytes that a live byte takes in a segment that is created now and filled. More than 1,
    /// because the new segment has a head too.
    pub(crate) fn weight(&self, segments: usize) -> f64 {
        let capacity = self.capacity_for(segments) as f64;
        capacity / (capacity - head_length(segments) as f64)
    }

    /// Creates or enlarges the disk space reserve if necessary. The next segment will have at least
    /// `bytes`.
    pub(crate) fn hold_reserve(&self, bytes: u64) -> Result<()> {
        let segments = self.segments();
        let ordinary = SEGMENT_MIN.min(self.options.segment_bytes);
        let next = self.capacity_for(segments.len()).max(bytes);
        let mut left = ordinary.checked_sub(next);
        for segment in &segments {
            let Some(bytes) = left else { break };
            left = bytes.checked_sub(segment.capacity());
        }
        if left.is_some() {
            self.reserve.waive();
            return Ok(());
        }
        // As large as the segments that deletes and compaction create on a full disk, after the
        // next.
        let segment = self.capacity_for(segments.len() + 3).max(ordinary);
        self.reserve.hold(&*self.dir.disk, &self.dir.path, segment)
    }

    /// Calls `act`. If the disk is full, gives up reserved space and calls it again.
    pub(crate) fn spend_reserve<T>(&self, need: Need, act: impl FnMut() -> Result<T>) -> Result<T> {
        self.reserve.spend(&*self.dir.disk, &self.dir.path, need, act)
    }

    /// Updates backpressure after a segment of an ordered store became full or got its key run.
    pub(crate) fn measure_tails(&self) {
        let Some(order) = &self.order else { return };
        let full = self.backpressure.full.load(Ordering::Relaxed);
        let sources = order.sources();
        let tails = sources.tails.iter().filter(|tail| tail.segment.number <= full);
        // Writers do not wait for keys that a scan needs, such as those of a restored store.
        let count = tails.filter(|tail| tail.is_of_puts() && tail.is_filled()).count();
        self.backpressure.tails.store(count as u64, Ordering::Relaxed);
    }

    /// Updates backpressure after the number of segments changed. `last` is the last segment that
    /// compaction may remove. The caller holds the writer's lock.
    pub(crate) fn measure_backpressure(&self, last: u64) {
        // A limit on compaction's rate, or a pause, is a decision to use more space.
        let is_limited = self.options.compaction_rate > 0
            || self.maintenance.is_compaction_paused.load(Ordering::Acquire);
        let mut ready = self.segments();
        let all = ready.len();
        ready.retain(|segment| segment.number <= last && segment.hint.get().is_some());
        let sum = |of: fn(&Segment) -> u64| ready.iter().map(|segment| of(segment)).sum::<u64>();
        let size = sum(Segment::size);
        let kept = sum(|s| s.live.load(Ordering::Relaxed) + s.deletes.load(Ordering::Relaxed));
        let largest = (kept as f64 * self.weight(ready.len())
            / (1.0 - self.options.compaction_threshold)) as u64;
        let each = size / ready.len().max(1) as u64;
        let excess = size.saturating_sub(largest) / each.max(1);
        let next = self.capacity_for(ready.len());
        let is_crowded = all > self.options.segments_max / 8 * 7;
        self.backpressure.measure(is_crowded, next, if is_limited { 0 } else { excess });
    }
}

/// Length of the next segment's file in a store of this many live bytes and segments, after this
/// many bytes were written.
fn capacity(options: &Options, live: u64, written: u64, segments: usize) -> u64 {
    let largest = options.largest_segment(live);
    // Segments grow with the log while that is small, and with their number, which is limited.
    let steps = segments / options.segments_per_step();
    let least = match live.max(written).max(SEGMENT_SMALL) {
        small if small < SEGMENT_MIN && steps == 0 => small,
        _ => SEGMENT_MIN << steps.min(10),
    };
    let least = least.min(largest);
    let head = HEAD_SHARE * head_length(segments) as u64;
    (live / SEGMENT_SHARE).clamp(least, largest).max(head).next_multiple_of(4096)
}

/// `InvalidArgument` if a key is too long.
#[inline]
pub(crate) fn check_key(key: &[u8]) -> Result<()> {
    if key.len() <= MAX_KEY {
        return Ok(());
    }
    Err(Error::invalid(format!("a key of {} bytes; at most {MAX_KEY}", key.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_has_segments_for_64_tib() {
        assert!(bytes_of_all_segments(&Options::default()) >= 64 << 40);
        // Growing from 1 GiB to 64 GiB takes 4,000 segments more.
        assert!(bytes_of_all_segments(&Options::new().segment_bytes(1 << 20)) >= 48 << 40);
        let options = Options::default();
        assert_eq!(
            [1, 1 << 26, (1 << 26) + 1, 8 << 30].map(|n| options.alignment_log2(n)),
            [0, 0, 1, 7]
        );
    }

    /// Fills a store, segment by segment, without writing anything.
    fn bytes_of_all_segments(options: &Options) -> u64 {
        let (mut bytes, mut segments) = (0, 0);
        while segments < options.segments_max - 256 {
            let next = capacity(options, bytes, bytes, segments);
            assert!(next <= 64 << 20 || next <= bytes / 1024 + 4096, "{next} at {bytes}");
            assert!(next <= (1 << 26) << options.alignment_log2(next), "offsets have 26 bits");
            bytes += next;
            segments += 1;
        }
        bytes
    }
}
