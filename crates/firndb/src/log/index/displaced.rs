//! Entries put aside: what a write replaced before it knew whether it may.
//!
//! Whether the entry with a key's bits is that key's only the record can say, and to wait for that
//! memory is half of what an update takes. So the new entry may take the slot of an entry with
//! these bits, and that one is put aside: searches show it behind the new one, until the writer has
//! read the record, and drops the entry or gives it back to its shard. There is one place aside for
//! each value of the lowest bits, so a search looks at one.
//!
//! An entry is aside before it leaves its shard. When it comes back, it is in the shard, and the
//! shard's word has changed, before it is not aside any more: a search that saw neither notices the
//! word and starts again, as it does after a rebuild.

use super::{Full, Index, IndexWriter, Place};
use crate::log::failpoints::Bug;
use crate::sync::AtomicU64;
use std::sync::atomic::Ordering;

/// Entries that can be aside at the same time, and as many can be late. On average so many
/// writes come before memory is read that was asked for: enough for the slowest.
pub(crate) const SLOTS: usize = if cfg!(firndb_model) { 2 } else { 32 };

/// What an index has for a key, as far as its bits say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// One entry, which may be another key's.
    One(Place),
    Several,
}

/// An entry that is aside, and the one that took its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replaced {
    hash: u64,
    pub(crate) old: Place,
    pub(crate) new: Place,
}

/// The entries that are aside. Apart from what other threads read all the time.
#[repr(align(64))]
pub(crate) struct Aside {
    /// A bit for each slot that is taken.
    taken: AtomicU64,
    /// The slot that was taken last.
    last: AtomicU64,
    slots: [Slot; SLOTS],
}

struct Slot {
    hash: AtomicU64,
    /// 0, which is no place, if the slot is free. Written after the hash and read before it.
    old: AtomicU64,
    new: AtomicU64,
}

impl Default for Aside {
    fn default() -> Aside {
        let zero = || AtomicU64::new(0);
        let slots = std::array::from_fn(|_| Slot { hash: zero(), old: zero(), new: zero() });
        Aside { taken: zero(), last: zero(), slots }
    }
}

/// The bits that are one.
pub(crate) fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let one = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        one
    })
}

impl Index {
    /// What there is with the kept bits of this hash, with what is aside, without what is late.
    #[inline]
    pub(crate) fn found(&self, hash: u64) -> Found {
        let mut found = Found::Nothing;
        self.find_entered(hash, |place| {
            found = match found {
                Found::Nothing => Found::One(place),
                _ => Found::Several,
            };
            (found == Found::Several).then_some(())
        });
        found
    }

    /// The slot of an entry with this hash, aside and where entries are late.
    pub(crate) fn slot_aside(&self, hash: u64) -> usize {
        self.split(hash).1 as usize % SLOTS
    }

    /// Whether an entry with the kept bits of this hash is late or aside. Exact for the writer.
    pub(crate) fn is_pending(&self, hash: u64) -> bool {
        self.find_late(hash).or_else(|| self.find_aside(hash)).is_some()
    }

    /// The slots aside that are taken. Exact for the writer, a hint for others.
    pub(crate) fn taken_aside(&self) -> impl Iterator<Item = usize> + use<> {
        ones(self.aside.taken.load(Ordering::Relaxed))
    }

    /// What was put aside last, if it still is.
    pub(crate) fn last_aside(&self) -> Option<Replaced> {
        self.aside(self.aside.last.load(Ordering::Relaxed) as usize)
    }

    /// What is aside in this slot. Exact for the writer; for others its parts need not belong
    /// together.
    pub(crate) fn aside(&self, slot: usize) -> Option<Replaced> {
        let slot = &self.aside.slots[slot];
        let old = slot.old.load(Ordering::Acquire);
        let [hash, new] = [&slot.hash, &slot.new].map(|word| word.load(Ordering::Acquire));
        (old != 0).then_some(Replaced { hash, old: Place(old), new: Place(new) })
    }

    /// The entry aside with the kept bits of this hash.
    #[cold]
    pub(crate) fn find_aside(&self, hash: u64) -> Option<Place> {
        let replaced = self.aside(self.slot_aside(hash))?;
        (self.split(replaced.hash) == self.split(hash)).then_some(replaced.old)
    }

    /// The entries of a shard that are aside, with the bits of their hashes.
    pub(crate) fn aside_of(&self, shard: usize) -> impl Iterator<Item = (u64, Place)> {
        let all = (0..SLOTS).filter_map(|slot| self.aside(slot));
        let entries = all.map(|replaced| (self.split(replaced.hash), replaced.old));
        entries.filter(move |(at, _)| at.0 == shard).map(|((_, bits), place)| (bits, place))
    }
}

impl IndexWriter {
    /// Replaces the place of an entry, and puts the entry aside. Its slot aside must be free. Where
    /// there are others with the kept bits of the hash, it must be of the new one's key, or the
    /// first of them: then the new one is found before all that may be of its key.
    pub(crate) fn put_aside(&mut self, index: &Index, hash: u64, old: Place, new: Place) {
        let number = index.slot_aside(hash);
        let slot = &index.aside.slots[number];
        debug_assert_eq!(slot.old.load(Ordering::Relaxed), 0, "the slot aside is free");
        if Bug::AsideTooLate.is_on() {
            self.replace(index, hash, old, new);
        }
        slot.hash.store(hash, Ordering::Release);
        slot.new.store(new.0, Ordering::Release);
        slot.old.store(old.0, Ordering::Release);
        let taken = index.aside.taken.load(Ordering::Relaxed);
        index.aside.taken.store(taken | 1 << number, Ordering::Relaxed);
        index.aside.last.store(number as u64, Ordering::Relaxed);
        self.replace(index, hash, old, new);
    }

    /// Forgets what is aside in a slot.
    pub(crate) fn drop_aside(&mut self, index: &Index, slot: usize) {
        index.aside.slots[slot].old.store(0, Ordering::Release);
        let taken = index.aside.taken.load(Ordering::Relaxed);
        index.aside.taken.store(taken & !(1 << slot), Ordering::Relaxed);
    }

    /// Gives what is aside in a slot back to its shard, behind the entry that took its slot.
    pub(crate) fn give_back(&mut self, index: &Index, slot: usize) -> Result<(), Full> {
        let Some(Replaced { hash, old, .. }) = index.aside(slot) else { return Ok(()) };
        self.insert(index, hash, old)?;
        let word = &index.shards[index.split(hash).0];
        if !Bug::GiveBackQuietly.is_on() {
            word.store(word.load(Ordering::Relaxed).wrapping_add(1 << 48), Ordering::Release);
        }
        self.drop_aside(index, slot);
        Ok(())
    }
}
