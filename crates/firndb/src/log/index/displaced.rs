//! Displaced entries: entries that a write replaced before the writer compared the keys.
//!
//! Only the record can say whether an entry with a key's bits is that key's, and waiting for that
//! cache miss is half of what an update costs. So the new entry takes the slot of the entry with
//! these bits, and the old entry is displaced: searches still show it, after the new one, until the
//! writer has read the record and either drops the entry or restores it to its shard. There is one
//! slot per value of the lowest hash bits, so a search looks at one.
//!
//! The writer stores an entry here before it leaves its shard. To restore it, the writer first puts
//! it back into the shard, then changes the shard's word, then frees the slot here: a search that
//! saw the entry in neither notices the changed word and starts again, as it does after a rebuild.

use crate::log::index::insert_buffer::{BUFFER_SLOTS, ones};
use crate::log::index::slot::RecordLocation;
use crate::sync::AtomicU64;
use std::sync::atomic::Ordering;

/// A displaced entry, and the entry that took its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Displacement {
    /// The bits of the hash that the old entry knows, then a one, then zeros.
    pub(crate) hash: u64,
    pub(crate) old: RecordLocation,
    pub(crate) new: RecordLocation,
}

/// The displaced entries. Aligned so that they share no cache line with what other threads read all
/// the time.
#[repr(align(64))]
pub(crate) struct Displaced {
    /// A bit per occupied slot.
    occupied: AtomicU64,
    /// The slot that was filled last.
    last: AtomicU64,
    slots: [Slot; BUFFER_SLOTS],
}

struct Slot {
    hash: AtomicU64,
    /// 0, which is no location, if the slot is free. Written after the hash and read before it.
    old: AtomicU64,
    new: AtomicU64,
}

impl Default for Displaced {
    fn default() -> Displaced {
        let zero = || AtomicU64::new(0);
        let slots = std::array::from_fn(|_| Slot { hash: zero(), old: zero(), new: zero() });
        Displaced { occupied: zero(), last: zero(), slots }
    }
}

impl Displaced {
    /// The occupied slots. Exact for the writer, approximate for other threads.
    pub(crate) fn occupied(&self) -> impl Iterator<Item = usize> + use<> {
        ones(self.occupied.load(Ordering::Relaxed))
    }

    /// The entry that was displaced last, if it still is.
    pub(crate) fn last(&self) -> Option<Displacement> {
        self.get(self.last.load(Ordering::Relaxed) as usize)
    }

    /// The entry in a slot. Exact for the writer; for other threads its parts may belong to
    /// different entries.
    pub(crate) fn get(&self, slot: usize) -> Option<Displacement> {
        let slot = &self.slots[slot];
        let old = slot.old.load(Ordering::Acquire);
        let [hash, new] = [&slot.hash, &slot.new].map(|word| word.load(Ordering::Acquire));
        let [old, new] = [old, new].map(RecordLocation::from_bits);
        (old.bits() != 0).then_some(Displacement { hash, old, new })
    }

    /// Stores an entry in a slot, which must be free. For the writer.
    pub(crate) fn store(&self, number: usize, displacement: Displacement) {
        let slot = &self.slots[number];
        debug_assert_eq!(slot.old.load(Ordering::Relaxed), 0, "the slot is free");
        slot.hash.store(displacement.hash, Ordering::Release);
        slot.new.store(displacement.new.bits(), Ordering::Release);
        slot.old.store(displacement.old.bits(), Ordering::Release);
        let occupied = self.occupied.load(Ordering::Relaxed);
        self.occupied.store(occupied | 1 << number, Ordering::Relaxed);
        self.last.store(number as u64, Ordering::Relaxed);
    }

    /// Frees a slot. For the writer.
    pub(crate) fn clear(&self, slot: usize) {
        self.slots[slot].old.store(0, Ordering::Release);
        let occupied = self.occupied.load(Ordering::Relaxed);
        self.occupied.store(occupied & !(1 << slot), Ordering::Relaxed);
    }
}
