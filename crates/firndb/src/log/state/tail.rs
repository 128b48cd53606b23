//! The sorted keys of a segment that has no key run yet.
//!
//! The writer only appends to a list, so that a put never waits for a sort. A scan takes the list
//! and sorts it into a piece; pieces of similar length are merged, so that there are few. All scans
//! share the pieces.
//!
//! An entry takes 16 bytes: the first 12 bytes of its key and the offset of its record. Other bytes
//! of the key are read from the segment, in a sort only for keys that begin alike.

use crate::Result;
use crate::bytes::varint::long_beginning;
use crate::log::index::slot::RecordLocation;
use crate::log::segments::key_source::{Direction, KeyEntry, KeySource, Place};
use crate::log::segments::segment::Segment;
use std::cmp::Ordering;
use std::mem::take;
use std::ops::{Bound, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a key in an entry.
const PREFIX: usize = 12;
/// An iteration prefetches a record this many entries before it reads it.
const AHEAD: usize = 8;
/// Cache lines of a record that are prefetched.
const RECORD_LINES: usize = 3;
/// A piece is more than this many times as long as the next one.
const RATIO: usize = 4;

/// Reads the keys of records.
pub(crate) trait ReadKey {
    /// The key of the record at this offset, in units of the segment's alignment. It may use the
    /// buffer.
    fn read_key<'a>(&'a self, offset: u32, buffer: &'a mut Vec<u8>) -> Result<&'a [u8]>;
    /// Prefetches a record that is read soon.
    fn prefetch_record(&self, offset: u32);
}

impl ReadKey for Segment {
    fn read_key<'a>(&'a self, offset: u32, buffer: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        let offset = u64::from(offset) << self.alignment_log2;
        Ok(self.peek(offset, buffer)?.0.key)
    }

    #[inline]
    fn prefetch_record(&self, offset: u32) {
        self.prefetch(RecordLocation::new(self.slot, offset.into()), RECORD_LINES);
    }
}

/// The beginning of a key, then the offset of its record: big-endian, so that entries with
/// different beginnings are in the order of their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TailEntry(u128);

impl TailEntry {
    #[inline]
    fn new(key: &[u8], offset: u32) -> TailEntry {
        TailEntry(beginning(key) | u128::from(offset))
    }

    #[inline]
    fn beginning(self) -> u128 {
        self.0 >> 32
    }

    #[inline]
    fn offset(self) -> u32 {
        self.0 as u32
    }
}

/// The first 12 bytes of a key, then 4 zero bytes; a shorter key is padded with zeros.
#[inline]
fn beginning(key: &[u8]) -> u128 {
    long_beginning(key) >> 32 << 32
}

type Piece = Arc<[TailEntry]>;

/// The keys of the puts in a segment.
#[derive(Default)]
pub(crate) struct Tail {
    pending: Mutex<Vec<TailEntry>>,
    sorted: Mutex<Sorted>,
}

#[derive(Default)]
struct Sorted {
    /// Longest first.
    pieces: Vec<Piece>,
    /// No longer pending, and not in a piece yet.
    unsorted: Vec<TailEntry>,
}

impl Tail {
    /// Adds the put at this offset, in units of the segment's alignment. It must be readable.
    #[inline]
    pub(crate) fn push(&self, key: &[u8], offset: u32) {
        lock(&self.pending).push(TailEntry::new(key, offset));
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        let sorted = lock(&self.sorted);
        let entries = sorted.pieces.iter().map(|piece| piece.len()).sum::<usize>();
        let unsorted = sorted.unsorted.capacity() + lock(&self.pending).capacity();
        (entries + unsorted) * size_of::<TailEntry>()
    }

    /// Iterates over all entries with an offset below `end` from a bound on, in a few parts. For a
    /// descending iteration the bound is the upper one. `segment` is the one with this number.
    /// Entries that are pushed meanwhile may be included.
    pub(crate) fn seek<S: ReadKey>(
        &self,
        segment: &Arc<S>,
        number: u64,
        end: u64,
        bound: Bound<&[u8]>,
        direction: Direction,
    ) -> Result<Vec<TailIter<S>>> {
        let pieces = self.sort(&**segment)?;
        let open = |piece| TailIter::new(segment, number, piece, end, bound, direction);
        pieces.into_iter().map(open).collect()
    }

    /// Sorts what is pending; returns all entries.
    fn sort(&self, segment: &impl ReadKey) -> Result<Vec<Piece>> {
        let mut sorted = lock(&self.sorted);
        let Sorted { pieces, unsorted } = &mut *sorted;
        let mut pending = take(&mut *lock(&self.pending));
        if unsorted.is_empty() {
            *unsorted = pending;
        } else {
            unsorted.append(&mut pending); // Reading keys failed before.
        }
        if !unsorted.is_empty() {
            sort_entries(segment, unsorted)?;
            pieces.push(take(unsorted).into());
        }
        while let [.., before, last] = &pieces[..]
            && before.len() <= RATIO * last.len()
        {
            let merged = merge(segment, before, last)?;
            pieces.truncate(pieces.len() - 2);
            pieces.push(merged.into());
        }
        Ok(pieces.clone())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sorts entries by key, then offset.
fn sort_entries(segment: &impl ReadKey, entries: &mut [TailEntry]) -> Result<()> {
    entries.sort_unstable();
    let mut groups = Vec::new();
    add_groups(entries, 0, PREFIX, |entry| Some(entry.beginning()), &mut groups);
    let (mut buffer, mut rows) = (Vec::new(), Vec::new());
    // Keys that agree so far are sorted by their next 8 bytes, so that each sort reads a key once.
    while let Some((range, depth)) = groups.pop() {
        let start = range.start;
        let entries = &mut entries[range];
        rows.clear();
        for entry in entries.iter() {
            let key = segment.read_key(entry.offset(), &mut buffer)?;
            let mut word = [0; 8];
            let rest = key.get(depth..).unwrap_or(&[]);
            let length = rest.len().min(8);
            word[..length].copy_from_slice(&rest[..length]);
            // Among keys that agree but for zeros at the end, the shorter one is first.
            let lengths = (key.len().min(depth), key.len().min(depth + 8));
            rows.push((lengths.0, u64::from_be_bytes(word), lengths.1, *entry));
        }
        rows.sort_unstable();
        entries.iter_mut().zip(&rows).for_each(|(entry, row)| *entry = row.3);
        let next = depth + 8;
        // Keys that end before are equal.
        let agrees = |row: &Row| (row.2 == next).then_some((row.0, row.1));
        add_groups(&rows, start, next, agrees, &mut groups);
    }
    Ok(())
}

/// Length of a key up to some byte, its next 8 bytes, and its length up to the end of these.
type Row = (usize, u64, usize, TailEntry);

/// Adds the ranges of two or more items with the same value, which is not `None`.
fn add_groups<T, V: PartialEq>(
    items: &[T],
    start: usize,
    depth: usize,
    value: impl Fn(&T) -> Option<V>,
    groups: &mut Vec<(Range<usize>, usize)>,
) {
    let mut at = start;
    for group in items.chunk_by(|a, b| value(a) == value(b)) {
        if group.len() > 1 && value(&group[0]).is_some() {
            groups.push((at..at + group.len(), depth));
        }
        at += group.len();
    }
}

/// Merges two sorted pieces.
fn merge(segment: &impl ReadKey, a: &[TailEntry], b: &[TailEntry]) -> Result<Vec<TailEntry>> {
    let mut out = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    let (mut key_a, mut key_b) = (LastKey::default(), LastKey::default());
    while let (Some(&x), Some(&y)) = (a.get(i), b.get(j)) {
        let mut order = x.beginning().cmp(&y.beginning());
        if order == Ordering::Equal {
            let keys = (key_a.read(segment, x)?, key_b.read(segment, y)?);
            order = keys.0.cmp(keys.1).then(x.cmp(&y));
        }
        if order == Ordering::Less {
            out.push(x);
            i += 1;
        } else {
            out.push(y);
            j += 1;
        }
    }
    out.extend_from_slice(&a[i..]);
    out.extend_from_slice(&b[j..]);
    Ok(out)
}

/// The key of the entry that was read last.
#[derive(Default)]
struct LastKey {
    of: Option<TailEntry>,
    key: Vec<u8>,
    buffer: Vec<u8>,
}

impl LastKey {
    fn read(&mut self, segment: &impl ReadKey, entry: TailEntry) -> Result<&[u8]> {
        if self.of != Some(entry) {
            self.of = None;
            self.key.clear();
            let key = segment.read_key(entry.offset(), &mut self.buffer)?;
            self.key.extend_from_slice(key);
            self.of = Some(entry);
        }
        Ok(&self.key)
    }
}

/// Iterates over a part of the entries of a tail.
pub(crate) struct TailIter<S> {
    segment: Arc<S>,
    number: u64,
    piece: Piece,
    end: u64,
    direction: Direction,
    /// The entries that are left, the current one included.
    left: Range<usize>,
    current: LastKey,
}

impl<S: ReadKey> TailIter<S> {
    fn new(
        segment: &Arc<S>,
        number: u64,
        piece: Piece,
        end: u64,
        bound: Bound<&[u8]>,
        direction: Direction,
    ) -> Result<TailIter<S>> {
        let place = Place::new(bound, direction);
        let (segment, mut current) = (Arc::clone(segment), LastKey::default());
        let at = entries_before(&*segment, &piece, place, &mut current)?;
        let left = match direction {
            Direction::Forward => at..piece.len(),
            Direction::Reverse => 0..at,
        };
        let mut iter = TailIter { segment, number, piece, end, direction, left, current };
        iter.read()?;
        Ok(iter)
    }

    /// Reads the key of the first entry that is left, after those from `end` on.
    fn read(&mut self) -> Result<()> {
        loop {
            let next = match self.direction {
                Direction::Forward => self.left.start,
                Direction::Reverse => self.left.end.wrapping_sub(1),
            };
            let later = match self.direction {
                Direction::Forward => next + AHEAD,
                Direction::Reverse => next.wrapping_sub(AHEAD),
            };
            if let Some(entry) = self.piece.get(later) {
                self.segment.prefetch_record(entry.offset());
            }
            let Some(&entry) = self.piece.get(next).filter(|_| !self.left.is_empty()) else {
                self.current.of = None;
                return Ok(());
            };
            if u64::from(entry.offset()) < self.end {
                return self.current.read(&*self.segment, entry).map(|_| ());
            }
            self.skip();
        }
    }

    fn skip(&mut self) {
        match self.direction {
            Direction::Forward => self.left.start += 1,
            Direction::Reverse => self.left.end -= 1,
        }
    }
}

/// Number of entries of a piece before a place.
fn entries_before(
    segment: &impl ReadKey,
    piece: &[TailEntry],
    place: Place<'_>,
    buffer: &mut LastKey,
) -> Result<usize> {
    let wanted = match place {
        Place::Start => return Ok(0),
        Place::End => return Ok(piece.len()),
        Place::Before(key) | Place::After(key) => beginning(key) >> 32,
    };
    let (mut low, mut high) = (0, piece.len());
    while low < high {
        let middle = (low + high) / 2;
        let is_before = match piece[middle].beginning().cmp(&wanted) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => place.is_after(buffer.read(segment, piece[middle])?),
        };
        if is_before { low = middle + 1 } else { high = middle }
    }
    Ok(low)
}

impl<S: ReadKey> KeySource for TailIter<S> {
    #[inline]
    fn current(&self) -> Option<KeyEntry<'_>> {
        let offset = self.current.of?.offset().into();
        Some(KeyEntry { key: &self.current.key, segment: self.number, offset })
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        if self.current.of.take().is_some() {
            self.skip();
            self.read()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
