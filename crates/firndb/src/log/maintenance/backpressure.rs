//! Pacing: writers that are far ahead of the upkeep wait for it now and then, a little, so that the
//! store's size and the work after a crash stay bounded on a slow disk too.
//!
//! A store can have only so many segments. Where it comes near that, and the upkeep can do
//! something about it, writers wait for as long as that takes.
//!
//! How far is counted in segments: full ones that are not sealed yet, and what the files take
//! beyond live bytes, with the heads they need, / (1 - threshold), which is where compaction has
//! nothing left to do.

use crate::log::maintenance::threads::Task;
use crate::log::open::store::Shared;
use crate::log::segments::segment::{SEGMENTS_MAX, Segment};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Segments that the upkeep may be behind before writers wait: more than fill up during a
/// checkpoint of a large store.
const BEHIND: u64 = 16;
/// Bytes of small ones, what a disk takes in a fraction of a second; but not more than so many, for
/// a store can only have a number of them.
const BEHIND_BYTES: u64 = 32 << 20;
const BEHIND_SMALL: u64 = 64;
/// So many times as far behind they wait four times as often.
const FAR: u64 = 4;
/// Powers of two of the bytes of log between two waits: many writes, but of records that are large
/// themselves, each of which waits.
const STRETCH: u32 = 18;
const SHORT_STRETCH: u32 = 16;
/// How long one write waits at most, about, and how often it looks.
pub(crate) const PATIENCE: Duration = Duration::from_millis(2);
const STEP: Duration = Duration::from_micros(500);

/// The same where the segments get too many.
const LONG_PATIENCE: Duration = Duration::from_secs(1);
/// That is so from this number on.
const CROWDED: usize = SEGMENTS_MAX / 2;

/// How far the upkeep has come.
#[derive(Default)]
pub(crate) struct Pace {
    /// The last segment that is full, and the last that was sealed.
    pub(crate) full: AtomicU64,
    pub(crate) sealed: AtomicU64,
    /// Segments that compaction should have freed.
    excess: AtomicU64,
    /// Segments that the upkeep may be behind; 0 for [`BEHIND`].
    allowed: AtomicU64,
    /// The segments get too many.
    pub(crate) is_crowded: AtomicBool,
    /// The stretch of the log in which somebody waited last.
    pub(crate) waited: AtomicU64,
}

impl Shared {
    /// Called by writers after a write.
    #[inline]
    pub(crate) fn keep_pace(&self) {
        if self.behind() > self.allowed() {
            self.wait_for_upkeep();
        }
    }

    #[inline]
    pub(crate) fn allowed(&self) -> u64 {
        self.pace.allowed.load(Ordering::Relaxed).max(BEHIND)
    }

    /// How many segments the upkeep is behind.
    #[inline]
    pub(crate) fn behind(&self) -> u64 {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Pace { full, sealed, excess, .. } = &self.pace;
        get(full).saturating_sub(get(sealed)) + get(excess)
    }

    #[cold]
    fn wait_for_upkeep(&self) {
        if !self.options.background || self.failed.get().is_some() {
            return;
        }
        let far = self.behind() > FAR * self.allowed();
        let written = self.counters.log_bytes.load(Ordering::Relaxed);
        let stretch = written >> if far { SHORT_STRETCH } else { STRETCH };
        let is_crowded = self.pace.is_crowded.load(Ordering::Relaxed);
        if self.pace.waited.swap(stretch, Ordering::Relaxed) == stretch && !is_crowded {
            return;
        }
        self.wake(Task::Seal);
        self.wake(Task::Compact);
        // By the clock, for who sleeps may wake late where the processors are busy.
        let (started, patience) =
            (Instant::now(), if is_crowded { LONG_PATIENCE } else { PATIENCE });
        while started.elapsed() < patience && self.behind() > self.allowed() {
            std::thread::sleep(STEP);
        }
    }

    /// Compares the size of the segments that compaction may go to, which are those up to number
    /// `last`, with what it shall keep them at. For the holder of the writer's lock, whenever there
    /// is one segment more or less.
    pub(crate) fn look_at_space(&self, last: u64) {
        // A limit on compaction's rate, or a pause, is somebody's wish to use more space.
        let is_limited = self.options.compaction_rate > 0 || self.is_paused.load(Ordering::Acquire);
        let mut ready = self.table.load().in_order();
        self.pace.is_crowded.store(ready.len() > CROWDED, Ordering::Relaxed);
        ready.retain(|segment| segment.number <= last && segment.hint.get().is_some());
        let sum = |of: fn(&Segment) -> u64| ready.iter().map(|segment| of(segment)).sum::<u64>();
        let size = sum(Segment::size);
        let kept = sum(|s| s.live.load(Ordering::Relaxed) + s.deletes.load(Ordering::Relaxed));
        let largest = (kept as f64 * self.weight(ready.len())
            / (1.0 - self.options.compaction_threshold)) as u64;
        let each = size / ready.len().max(1) as u64;
        let excess = size.saturating_sub(largest) / each.max(1);
        let next = self.capacity_for(ready.len());
        let allowed = (BEHIND_BYTES / next.max(1)).min(BEHIND_SMALL);
        self.pace.allowed.store(allowed, Ordering::Relaxed);
        self.pace.excess.store(if is_limited { 0 } else { excess }, Ordering::Relaxed);
    }
}
