//! The bits of an index slot: see the table in [`crate::log::index`].

/// Bits of a slot's field.
pub(crate) const FIELD_BITS: u32 = 24;
/// Most bits of the key's hash in a field.
pub(crate) const KNOWN_BITS: u32 = FIELD_BITS - 1;
const OFFSET_BITS: u32 = 26;
/// Bits of a slot of the segment table.
pub(crate) const SEGMENT_BITS: u32 = 14;
/// Bits of a [`RecordLocation`].
pub(crate) const LOCATION_BITS: u32 = SEGMENT_BITS + OFFSET_BITS;
/// Offsets, in units of the segment's alignment, are below this.
pub(crate) const OFFSETS: u64 = 1 << OFFSET_BITS;
/// The location bits of a removed entry.
pub(crate) const REMOVED: u64 = 1 << OFFSET_BITS;

/// Where a record is: slot of its segment and offset in units of the segment's alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RecordLocation(u64);

impl RecordLocation {
    pub(crate) fn new(segment: usize, offset: u64) -> RecordLocation {
        RecordLocation((segment as u64) << OFFSET_BITS | offset)
    }

    /// The location in a slot's word.
    #[inline]
    pub(crate) fn of_slot(word: u64) -> RecordLocation {
        RecordLocation(word & ((1 << LOCATION_BITS) - 1))
    }

    #[inline]
    pub(crate) fn from_bits(bits: u64) -> RecordLocation {
        RecordLocation(bits)
    }

    /// Never 0.
    #[inline]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// The slot of the segment in the segment table.
    #[inline]
    pub(crate) fn segment(self) -> usize {
        (self.0 >> OFFSET_BITS) as usize
    }

    #[inline]
    pub(crate) fn offset(self) -> u64 {
        self.0 & (OFFSETS - 1)
    }
}

/// The field of a slot.
#[inline]
pub(crate) fn field_of(slot: u64) -> u64 {
    slot >> LOCATION_BITS
}

/// The field of an entry of which the `known` highest bits of the hash are known, in a shard of
/// this level: the bits below those that choose the shard, as many as are known and fit, then a
/// one, then zeros.
#[inline]
pub(crate) fn field(hash: u64, known: u32, level: u32) -> u64 {
    let unknown = 63 - known.min(level + KNOWN_BITS);
    ((hash >> unknown | 1) << unknown << level) >> LOCATION_BITS
}

/// Whether a field's known bits are the first ones of `bits`, which has a bit in every place.
#[inline]
pub(crate) fn is_prefix(field: u64, bits: u64) -> bool {
    let marker = field & field.wrapping_neg();
    (field ^ bits) < marker << 1
}

/// Whether a slot holds an entry: it is neither empty nor removed.
#[inline]
pub(crate) fn is_entry(slot: u64) -> bool {
    slot != 0 && slot & ((1 << LOCATION_BITS) - 1) != REMOVED
}
