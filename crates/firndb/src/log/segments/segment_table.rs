//! The table of segments, and how a place of the index finds its segment.
//!
//! The table is immutable; a reader loads it once for each search and keeps it meanwhile, and with
//! it the maps of all segments in it, whatever compaction removes. A slot of the table is used
//! again only when nobody holds its former segment ([`Slots::take`] sees to that): so a place that
//! was read from the index after the table was loaded cannot mean another segment than the table's.
//! A segment is put into the table before the index has a place in it, and taken out when the index
//! has none any more: so a place without a segment says that the table is old.

use crate::log::failpoints::Failpoint;
use crate::log::index::hash_index::Index;
use crate::log::index::slot::RecordLocation;
use crate::sync::Swap;
use std::sync::{Arc, Weak};

/// The segments of a store by slot, at one moment.
pub(crate) struct Table<S>(Vec<Option<Arc<S>>>);

impl<S> Clone for Table<S> {
    fn clone(&self) -> Table<S> {
        Table(self.0.clone())
    }
}

impl<S> Default for Table<S> {
    fn default() -> Table<S> {
        Table(Vec::new())
    }
}

impl<S> Table<S> {
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

    /// All segments, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<S>> {
        self.0.iter().flatten()
    }
}

/// Which slots are free: for the one writer.
pub(crate) struct Slots<S> {
    next: usize,
    count: usize,
    /// Segments that were taken out of the table, while somebody may still hold them.
    retired: Vec<(usize, Weak<S>)>,
}

impl<S> Slots<S> {
    /// Of so many slots; `next` is looked at first.
    pub(crate) fn new(next: usize, count: usize) -> Slots<S> {
        Slots { next, count, retired: Vec::new() }
    }

    /// A slot of the table that no place still held by anybody can mean; `None` if there is none.
    pub(crate) fn take(&mut self, table: &Table<S>) -> Option<usize> {
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
    pub(crate) fn retire(&mut self, shared: &Swap<Table<S>>, slot: usize) {
        let mut table = Table::clone(&shared.load());
        if let Some(segment) = table.take(slot) {
            self.retired.push((slot, Arc::downgrade(&segment)));
        }
        shared.store(Arc::new(table));
    }
}

/// Shows `accept` the segments and places of all entries with the kept bits of this hash until it
/// wants one: see [`Index::find`].
#[inline]
pub(crate) fn find<S, T>(
    shared: &Swap<Table<S>>,
    index: &Index,
    hash: u64,
    mut accept: impl FnMut(&S, RecordLocation) -> Option<T>,
) -> Option<T> {
    loop {
        let table = shared.load();
        let mut is_old = false;
        let found = index.find(hash, |place| {
            let Some(segment) = table.get(place.segment()) else {
                is_old = !Failpoint::TrustOldTable.is_on();
                return None;
            };
            accept(segment, place)
        });
        if found.is_some() || !is_old {
            return found;
        }
    }
}
