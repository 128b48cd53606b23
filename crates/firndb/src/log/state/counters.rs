//! The counters behind `LogStore::stats`.

use crate::log::stats::Recovery;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// Counters of an open store.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) keys: AtomicU64,
    pub(crate) live_bytes: AtomicU64,
    pub(crate) puts: AtomicU64,
    pub(crate) deletes: AtomicU64,
    pub(crate) user_bytes: AtomicU64,
    pub(crate) log_bytes: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) moved_bytes: AtomicU64,
    pub(crate) moved_records: AtomicU64,
    pub(crate) scanned_records: AtomicU64,
    pub(crate) removed_bytes: AtomicU64,
    pub(crate) compaction_nanos: AtomicU64,
    pub(crate) segments_removed: AtomicU64,
    pub(crate) backups: AtomicU64,
    /// What the opening did, or the promotion.
    pub(crate) recovery: Mutex<Recovery>,
    pub(crate) opened: Opened,
}

/// When a store was opened.
pub(crate) struct Opened(Instant);

impl Default for Opened {
    fn default() -> Opened {
        Opened(Instant::now())
    }
}

impl Opened {
    /// Seconds since then.
    pub(crate) fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
