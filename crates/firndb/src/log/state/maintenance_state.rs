//! The state of a store's maintenance.

use crate::log::format::segment_head::LogPosition;
use crate::log::segments::segment::Segment;
use crate::log::state::signals::Signals;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

/// A segment that compaction took out of the store. Its file is removed when the log is durable up
/// to `position`.
pub(crate) struct DepartedSegment {
    pub(crate) segment: Arc<Segment>,
    pub(crate) position: LogPosition,
    pub(crate) since: Instant,
}

/// The state of a store's maintenance.
#[derive(Default)]
pub(crate) struct MaintenanceState {
    pub(crate) signals: Signals,
    /// Held by the compaction that runs: segments whose files are still there.
    pub(crate) departed: Mutex<Vec<DepartedSegment>>,
    /// Segments that compaction took out of the store and that readers may still hold.
    removed: Mutex<Vec<Weak<Segment>>>,
    /// Held while a hint or a checkpoint is written.
    pub(crate) sealing: Mutex<()>,
    pub(crate) is_compaction_paused: AtomicBool,
    /// Whether records of a segment are being copied.
    pub(crate) is_compacting: AtomicBool,
    /// The last segment that the checkpoint covers.
    pub(crate) checkpointed: AtomicU64,
    /// In a backup: where the log ends as long as nothing was written to it.
    pub(crate) backup_end: Option<LogPosition>,
}

impl MaintenanceState {
    /// The state after an opening; `checkpointed` is the last segment that the checkpoint covers.
    pub(crate) fn new(checkpointed: u64) -> MaintenanceState {
        MaintenanceState { checkpointed: checkpointed.into(), ..MaintenanceState::default() }
    }

    /// Called when compaction took a segment out of the store.
    pub(crate) fn add_removed(&self, segment: &Arc<Segment>) {
        let mut removed = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
        removed.retain(|segment| segment.strong_count() > 0);
        removed.push(Arc::downgrade(segment));
    }

    /// Bytes of the files of removed segments that are still held.
    pub(crate) fn held_bytes(&self) -> u64 {
        let mut removed = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
        removed.retain(|segment| segment.strong_count() > 0);
        removed.iter().filter_map(Weak::upgrade).map(|segment| segment.capacity()).sum()
    }
}
