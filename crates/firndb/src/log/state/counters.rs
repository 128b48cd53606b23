//! The counters behind `LogStore::stats`.

use crate::log::stats::Recovery;
use std::sync::atomic::AtomicU64;

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
    pub(crate) segments_removed: AtomicU64,
    pub(crate) backups: AtomicU64,
    pub(crate) recovery: Recovery,
}
