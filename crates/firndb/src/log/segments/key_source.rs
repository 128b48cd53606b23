//! What all sorted sequences of keys have in common: a key run, a part of a tail, a merge.

use crate::Result;
use std::ops::Bound;

/// The direction of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Ascending.
    Forward,
    /// Descending.
    Reverse,
}

/// A put: its key and where its record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyEntry<'a> {
    pub(crate) key: &'a [u8],
    /// Number of the segment.
    pub(crate) segment: u64,
    /// Offset in the segment in units of its alignment.
    pub(crate) offset: u64,
}

/// A sequence of entries in the order of keys, then segments, then offsets, or in the reverse
/// order.
pub(crate) trait KeySource {
    /// The entry at the current position; `None` at the end, and after an error.
    fn current(&self) -> Option<KeyEntry<'_>>;
    /// Proceeds to the next entry.
    fn advance(&mut self) -> Result<()>;
}

/// The place between entries where an iteration begins. For a descending one the bound is the upper
/// bound of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    /// Before all entries.
    Start,
    /// Before all entries of this key.
    Before(&'a [u8]),
    /// After all entries of this key.
    After(&'a [u8]),
    /// After all entries.
    End,
}

impl<'a> Place<'a> {
    /// Where an iteration begins that is bounded there.
    pub(crate) fn new(bound: Bound<&'a [u8]>, direction: Direction) -> Place<'a> {
        match (bound, direction) {
            (Bound::Unbounded, Direction::Forward) => Place::Start,
            (Bound::Unbounded, Direction::Reverse) => Place::End,
            (Bound::Included(key), Direction::Forward) => Place::Before(key),
            (Bound::Excluded(key), Direction::Reverse) => Place::Before(key),
            (Bound::Excluded(key), Direction::Forward) => Place::After(key),
            (Bound::Included(key), Direction::Reverse) => Place::After(key),
        }
    }

    /// Whether entries of `key` are before this place.
    #[inline]
    pub(crate) fn is_after(&self, key: &[u8]) -> bool {
        match self {
            Place::Start => false,
            Place::Before(place) => key < *place,
            Place::After(place) => key <= *place,
            Place::End => true,
        }
    }
}
