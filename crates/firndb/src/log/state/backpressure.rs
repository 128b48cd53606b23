//! Backpressure: how far maintenance is behind the writers. Writers that are far ahead wait a
//! little now and then, so that the store's size and the work after a crash stay bounded on a slow
//! disk too.
//!
//! The distance is counted in segments: full segments that are not sealed yet, plus those that
//! compaction should have freed. Compaction has nothing left to do when the files take live bytes /
//! (1 - threshold), including the heads that these need. In an ordered store the first part is at
//! least the number of full segments whose keys puts left in memory because they have no key run
//! yet.
//!
//! A store can have a limited number of segments. When it approaches that number and maintenance
//! can free some, writers wait as long as that takes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Segments that maintenance may be behind before writers wait: more than are filled during a
/// checkpoint of a large store.
const BEHIND: u64 = 16;
/// The same for small segments: bytes that a disk writes in a fraction of a second, up to a number,
/// because the number of segments is limited.
const BEHIND_BYTES: u64 = 32 << 20;
const BEHIND_SMALL: u64 = 64;
/// The same for segments of more than 64 MiB, so that an opening after a crash does not have to
/// read more records; but at least two segments.
const BEHIND_MAX_BYTES: u64 = 1 << 30;
/// This many times as far behind, writers wait four times as often.
const FAR: u64 = 4;
/// A writer waits once per interval of the log, which has 2^this bytes. Many small writes share an
/// interval; each very large write waits.
const INTERVAL: u32 = 18;
const SHORT_INTERVAL: u32 = 16;

/// How far maintenance has come.
#[derive(Default)]
pub(crate) struct Backpressure {
    /// The last segment that is full, and the last one that was sealed.
    pub(crate) full: AtomicU64,
    pub(crate) sealed: AtomicU64,
    /// Full segments whose keys puts left in memory.
    pub(crate) tails: AtomicU64,
    /// Segments that compaction should have freed.
    excess: AtomicU64,
    /// Segments that maintenance may be behind; 0 for [`BEHIND`].
    allowed: AtomicU64,
    /// Whether the store approaches the largest number of segments.
    pub(crate) is_crowded: AtomicBool,
    /// The interval of the log in which a writer waited last.
    pub(crate) waited: AtomicU64,
}

impl Backpressure {
    /// Segments that maintenance may be behind before writers wait.
    #[inline]
    pub(crate) fn allowed(&self) -> u64 {
        match self.allowed.load(Ordering::Relaxed) {
            0 => BEHIND,
            allowed => allowed,
        }
    }

    /// Segments that maintenance is behind.
    #[inline]
    pub(crate) fn behind(&self) -> u64 {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let unfinished = get(&self.full).saturating_sub(get(&self.sealed)).max(get(&self.tails));
        unfinished + get(&self.excess)
    }

    #[inline]
    pub(crate) fn is_behind(&self) -> bool {
        self.behind() > self.allowed()
    }

    /// Whether a writer should wait now, at a log of this many bytes: one does per interval.
    pub(crate) fn is_wait_due(&self, log_bytes: u64) -> bool {
        let far = self.behind() > FAR * self.allowed();
        let interval = log_bytes >> if far { SHORT_INTERVAL } else { INTERVAL };
        let is_crowded = self.is_crowded.load(Ordering::Relaxed);
        self.waited.swap(interval, Ordering::Relaxed) != interval || is_crowded
    }

    /// Sets the limits after the number of segments changed. The next one will have `next` bytes,
    /// and `excess` segments should have been freed.
    pub(crate) fn measure(&self, is_crowded: bool, next: u64, excess: u64) {
        self.is_crowded.store(is_crowded, Ordering::Relaxed);
        let next = next.max(1);
        let small = (BEHIND_BYTES / next).min(BEHIND_SMALL);
        let allowed = small.max((BEHIND_MAX_BYTES / next).clamp(2, BEHIND));
        self.allowed.store(allowed, Ordering::Relaxed);
        self.excess.store(excess, Ordering::Relaxed);
    }
}
