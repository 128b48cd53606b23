//! The segment table, and how an index entry finds its segment.
//!
//! The table is immutable. A reader loads it once per search and keeps it until the search ends,
//! and with it the maps of all its segments, whatever compaction removes meanwhile. The writer
//! reuses a slot only when no reader holds its former segment ([`Slots::take`]), so a location that
//! was read from the index after the table was loaded cannot mean a different segment than the
//! table's. A segment is put into the table before the index has a location in it, and taken out
//! when the index has none any more, so a location without a segment means that the loaded table is
//! outdated.

use crate::log::failpoints::Failpoint;
use crate::log::index::hash_index::Index;
use crate::log::index::slot::RecordLocation;
use crate::sync::Swap;
use std::sync::{Arc, Weak};

/// The segments of a store by slot, at one moment.
pub(crate) struct SegmentTable<S>(Vec<Option<Arc<S>>>);

impl<S> Clone for SegmentTable<S> {
    fn clone(&self) -> SegmentTable<S> {
        SegmentTable(self.0.clone())
    }
}

impl<S> Default for SegmentTable<S> {
    fn default() -> SegmentTable<S> {
        SegmentTable(Vec::new())
    }
}

impl<S> SegmentTable<S> {
    #[inline]
    pub(crate) fn get(&self, slot: usize) -> Option<&Arc<S>> {
        self.0.get(slot)?.as_ref()
    }

    pub(crate) fn put(&mut self, slot: usize, segment: Arc<S>) {
        if slot >= self.0.len() {
            self.0.resize(slot + 1, None);
        }
        self.0[slot] = Some(segment);
    }

    /// Takes out the segment of a slot.
    pub(crate) fn take(&mut self, slot: usize) -> Option<Arc<S>> {
        self.0.get_mut(slot).and_then(Option::take)
    }

    /// All segments, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<S>> {
        self.0.iter().flatten()
    }
}

/// The free slots. Owned by the writer.
pub(crate) struct Slots<S> {
    next: usize,
    count: usize,
    /// Segments that were taken out of the table and that readers may still hold.
    retired: Vec<(usize, Weak<S>)>,
}

impl<S> Slots<S> {
    /// Free slots of a table of `count`; `next` is tried first.
    pub(crate) fn new(next: usize, count: usize) -> Slots<S> {
        Slots { next, count, retired: Vec::new() }
    }

    /// These slots, of which the given ones are not free while a reader holds their former segment.
    pub(crate) fn without(mut self, retired: Vec<(usize, Weak<S>)>) -> Slots<S> {
        self.retired.extend(retired);
        self
    }

    /// A free slot that no reader has a location of; `None` if there is none.
    pub(crate) fn take(&mut self, table: &SegmentTable<S>) -> Option<usize> {
        self.retired.retain(|(_, segment)| {
            segment.strong_count() > 0 && !Failpoint::ReuseSlotAtOnce.is_on()
        });
        let is_free = |slot: usize| {
            table.get(slot).is_none() && self.retired.iter().all(|&(retired, _)| retired != slot)
        };
        let mut slots = (0..self.count).map(|i| (self.next + i) % self.count);
        let slot = slots.find(|&slot| is_free(slot))?;
        self.next = slot + 1;
        Some(slot)
    }

    /// Takes the segment of a slot out of the table.
    pub(crate) fn retire(&mut self, shared: &Swap<SegmentTable<S>>, slot: usize) {
        let mut table = SegmentTable::clone(&shared.load());
        if let Some(segment) = table.take(slot) {
            self.retired.push((slot, Arc::downgrade(&segment)));
        }
        shared.store(Arc::new(table));
    }
}

/// Shows `accept` the segments and locations of all entries with the kept bits of this hash until
/// it accepts one: see [`Index::find`].
#[inline]
pub(crate) fn find<S, T>(
    shared: &Swap<SegmentTable<S>>,
    index: &Index,
    hash: u64,
    mut accept: impl FnMut(&Arc<S>, RecordLocation) -> Option<T>,
) -> Option<T> {
    loop {
        let table = shared.load();
        let mut is_outdated = false;
        let found = index.find(hash, |location| {
            let Some(segment) = table.get(location.segment()) else {
                is_outdated = !Failpoint::TrustOldTable.is_on();
                return None;
            };
            accept(segment, location)
        });
        if found.is_some() || !is_outdated {
            return found;
        }
    }
}
