//! The open snapshots of a store, and what writers preserve for them.
//!
//! A snapshot is a position in the log, the segment table of that moment, and a list of locations
//! that the index has lost since. A record before the position that the index still points to is
//! part of the snapshot; for other keys the list has it. Writers add to the list before they change
//! the index, so a reader that looks at the index first and then at the list misses nothing.

use crate::log::format::segment_head::LogPosition;
use crate::log::index::slot::RecordLocation;
use crate::log::segments::segment::Segment;
use crate::log::segments::segment_table::SegmentTable;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a snapshot shows.
pub(crate) struct SnapshotView {
    pub(crate) segments: Arc<SegmentTable<Segment>>,
    end: LogPosition,
    /// Locations that the index lost, by hash of the key.
    replaced: Mutex<HashMap<u64, Vec<RecordLocation>>>,
}

impl SnapshotView {
    pub(crate) fn new(segments: Arc<SegmentTable<Segment>>, end: LogPosition) -> SnapshotView {
        SnapshotView { segments, end, replaced: Mutex::default() }
    }

    /// The segment of a location, if the record was in the log when the snapshot was taken.
    pub(crate) fn segment(&self, location: RecordLocation) -> Option<&Arc<Segment>> {
        let segment = self.segments.get(location.segment())?;
        let position = (segment.number, segment.offset(location));
        (position < self.end).then_some(segment)
    }

    /// Whether no record of the snapshot was replaced since.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.locked().is_empty()
    }

    /// The locations with this hash that the index lost.
    pub(crate) fn replaced(&self, hash: u64) -> Vec<RecordLocation> {
        self.locked().get(&hash).cloned().unwrap_or_default()
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<u64, Vec<RecordLocation>>> {
        self.replaced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The open snapshots.
#[derive(Default)]
pub(crate) struct Snapshots {
    views: Mutex<Vec<Arc<SnapshotView>>>,
    count: AtomicUsize,
}

impl Snapshots {
    /// Whether there are none. Exact for the holder of the writer's lock.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Adds a snapshot. The caller holds the writer's lock.
    pub(crate) fn add(&self, view: Arc<SnapshotView>) {
        self.views().push(view);
        self.count.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn remove(&self, view: &Arc<SnapshotView>) {
        self.views().retain(|open| !Arc::ptr_eq(open, view));
        self.count.fetch_sub(1, Ordering::Release);
    }

    /// Preserves a location that the index is about to lose in all snapshots that show it. The
    /// caller holds the writer's lock.
    #[inline]
    pub(crate) fn preserve(&self, hash: u64, location: RecordLocation) {
        if !self.is_empty() {
            self.preserve_in_views(hash, location);
        }
    }

    fn preserve_in_views(&self, hash: u64, location: RecordLocation) {
        for view in self.views().iter().filter(|view| view.segment(location).is_some()) {
            view.locked().entry(hash).or_default().push(location);
        }
    }

    fn views(&self) -> MutexGuard<'_, Vec<Arc<SnapshotView>>> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
