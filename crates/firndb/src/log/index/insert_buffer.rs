//! Entries that come late: the newest of their keys, whose slots in the index are not in the
//! processor's cache yet.
//!
//! To wait for the memory of its slot is most of what a put takes. So the put leaves its entry
//! here, where searches look first, and asks for that memory; a later put, or whoever needs the
//! index as a whole, enters it when it is there. There is one place for each value of the lowest
//! bits, as there is aside (`aside.rs`): a search looks at one, and of entries with the same kept
//! bits one at most is late.
//!
//! An entry is in its shard before it is gone from here, and a search looks here first: so it finds
//! the one or the other.

use super::displaced::{SLOTS, ones};
use super::{Full, Index, IndexWriter, Place};
use crate::log::failpoints::Bug;
use crate::sync::AtomicU64;
use std::sync::atomic::Ordering;

/// An entry that waits to be entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Late {
    pub(crate) hash: u64,
    pub(crate) place: Place,
}

/// The entries that are late. Apart from what other threads read all the time.
#[repr(align(64))]
pub(crate) struct Entries {
    slots: [Slot; SLOTS],
    /// A bit for each slot that is taken.
    taken: AtomicU64,
}

struct Slot {
    hash: AtomicU64,
    /// 0, which is no place, if the slot is free. Written after the hash and read before it.
    place: AtomicU64,
}

impl Default for Entries {
    fn default() -> Entries {
        let zero = || AtomicU64::new(0);
        let slots = std::array::from_fn(|_| Slot { hash: zero(), place: zero() });
        Entries { slots, taken: zero() }
    }
}

impl Index {
    /// The slots of [`Index::late`] that are taken. Exact for the writer, a hint for others.
    pub(crate) fn taken_late(&self) -> impl Iterator<Item = usize> + use<> {
        ones(self.late.taken.load(Ordering::Relaxed))
    }

    /// What is late in this slot. Exact for the writer; for others its parts need not belong
    /// together: then the entry with this hash came after the call began.
    #[inline]
    pub(crate) fn late(&self, slot: usize) -> Option<Late> {
        let slot = &self.late.slots[slot];
        let place = slot.place.load(Ordering::Acquire);
        let hash = slot.hash.load(Ordering::Acquire);
        (place != 0).then_some(Late { hash, place: Place(place) })
    }

    /// The late entry with the kept bits of this hash.
    #[inline]
    pub(crate) fn find_late(&self, hash: u64) -> Option<Place> {
        let late = self.late(self.slot_aside(hash))?;
        (self.split(late.hash) == self.split(hash)).then_some(late.place)
    }
}

impl IndexWriter {
    /// Leaves an entry to be entered later. Its slot, [`Index::slot_aside`], must be free.
    pub(crate) fn leave_late(&mut self, index: &Index, late: Late) {
        let number = index.slot_aside(late.hash);
        let slot = &index.late.slots[number];
        debug_assert_eq!(slot.place.load(Ordering::Relaxed), 0, "the slot is free");
        // Whoever sees it sees that the last one is in its shard.
        slot.hash.store(late.hash, Bug::LateRelaxed.instead_of_release());
        slot.place.store(late.place.0, Ordering::Release);
        let taken = index.late.taken.load(Ordering::Relaxed);
        index.late.taken.store(taken | 1 << number, Ordering::Relaxed);
    }

    /// Enters what is late in a slot: in the place of `over`, which is put aside and whose slot
    /// there must be free; or, without it, beside all others.
    pub(crate) fn enter_late(
        &mut self,
        index: &Index,
        slot: usize,
        over: Option<Place>,
    ) -> Result<(), Full> {
        let Some(late) = index.late(slot) else { return Ok(()) };
        if Bug::LateGoneEarly.is_on() {
            self.drop_late(index, slot);
        }
        match over {
            Some(old) => self.put_aside(index, late.hash, old, late.place),
            None => self.insert(index, late.hash, late.place)?,
        }
        self.drop_late(index, slot);
        Ok(())
    }

    fn drop_late(&mut self, index: &Index, slot: usize) {
        index.late.slots[slot].place.store(0, Ordering::Release);
        let taken = index.late.taken.load(Ordering::Relaxed);
        index.late.taken.store(taken & !(1 << slot), Ordering::Relaxed);
    }
}
