//! Buffered inserts: index entries of recent puts that are not in their shard yet.
//!
//! Waiting for the cache miss on its slot is most of what a put costs. So a put stores its entry
//! here, where searches look first, and prefetches the slot. A later put, or an operation that
//! needs the whole index, moves the entry into its shard. The buffer has one slot per value of the
//! lowest hash bits, like `displaced.rs`: a search looks at one slot, and of entries with the same
//! kept bits at most one is buffered.
//!
//! The writer stores an entry in its shard before it drops it here, and a search looks here first,
//! so it finds the entry in one of the two.

use crate::log::failpoints::Failpoint;
use crate::log::index::slot::RecordLocation;
use crate::sync::AtomicU64;
use std::sync::atomic::Ordering;

/// Slots of this buffer and of `displaced.rs`. A buffered entry waits for this many puts on
/// average, which is enough for the slowest prefetch.
pub(crate) const BUFFER_SLOTS: usize = if cfg!(firndb_model) { 2 } else { 32 };

/// An entry that is not in its shard yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferedInsert {
    pub(crate) hash: u64,
    pub(crate) location: RecordLocation,
}

/// The buffer. Aligned so that it shares no cache line with what other threads read all the time.
#[repr(align(64))]
pub(crate) struct InsertBuffer {
    slots: [Slot; BUFFER_SLOTS],
    /// A bit per occupied slot.
    occupied: AtomicU64,
}

struct Slot {
    hash: AtomicU64,
    /// 0, which is no location, if the slot is free. Written after the hash and read before it.
    location: AtomicU64,
}

impl Default for InsertBuffer {
    fn default() -> InsertBuffer {
        let zero = || AtomicU64::new(0);
        let slots = std::array::from_fn(|_| Slot { hash: zero(), location: zero() });
        InsertBuffer { slots, occupied: zero() }
    }
}

impl InsertBuffer {
    /// The occupied slots. Exact for the writer, approximate for other threads.
    pub(crate) fn occupied(&self) -> impl Iterator<Item = usize> + use<> {
        ones(self.occupied.load(Ordering::Relaxed))
    }

    /// The entry in a slot. Exact for the writer. For other threads hash and location may belong to
    /// different entries; then the entry with this hash came after the call began.
    #[inline]
    pub(crate) fn get(&self, slot: usize) -> Option<BufferedInsert> {
        let slot = &self.slots[slot];
        let location = slot.location.load(Ordering::Acquire);
        let hash = slot.hash.load(Ordering::Acquire);
        let location = RecordLocation::from_bits(location);
        (location.bits() != 0).then_some(BufferedInsert { hash, location })
    }

    /// Stores an entry in a slot, which must be free. For the writer.
    pub(crate) fn store(&self, number: usize, insert: BufferedInsert) {
        let slot = &self.slots[number];
        debug_assert_eq!(slot.location.load(Ordering::Relaxed), 0, "the slot is free");
        // A reader that sees this hash also sees the slot's previous entry in its shard.
        slot.hash.store(insert.hash, Failpoint::BufferRelaxed.instead_of_release());
        slot.location.store(insert.location.bits(), Ordering::Release);
        let occupied = self.occupied.load(Ordering::Relaxed);
        self.occupied.store(occupied | 1 << number, Ordering::Relaxed);
    }

    /// Frees a slot. For the writer.
    pub(crate) fn clear(&self, slot: usize) {
        self.slots[slot].location.store(0, Ordering::Release);
        let occupied = self.occupied.load(Ordering::Relaxed);
        self.occupied.store(occupied & !(1 << slot), Ordering::Relaxed);
    }
}

/// The positions of the bits that are set.
pub(crate) fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let one = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        one
    })
}
