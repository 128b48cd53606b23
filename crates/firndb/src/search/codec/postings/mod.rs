//! Reads the postings of a field: the documents of a key or of a range of keys. See
//! `postings_build.rs` for forms.

pub(crate) mod build;

mod iter;

use crate::bytes::increasing::Increasing;
use crate::bytes::int::{u32_at, u64_at};
use crate::bytes::packed::Packed;
use crate::search::codec::bitset::Bitset;
use crate::search::codec::points::{EVERYTHING, Points, Window};
use crate::search::codec::postings::build::{IN_COLUMN, SPECIAL_FORM};
pub(crate) use crate::search::codec::postings::iter::PostingsIter;
pub(crate) use crate::search::codec::slices::BLOCK;
use crate::search::codec::slices::{Slices, Span};
use crate::search::format::{FieldMeta, Ordered};
use crate::search::simd::kernels;
use crate::search::simd::scan::{self, Keys, OrdinalSet};
use crate::{Error, Result};

/// The sections of a field's postings, as they are in the file.
#[derive(Default)]
pub(crate) struct Parts<'a> {
    pub(crate) offsets: &'a [u8],
    pub(crate) slices: &'a [u8],
    pub(crate) places: &'a [u8],
    pub(crate) special_forms: &'a [u8],
    pub(crate) bitsets: &'a [u8],
    pub(crate) runs: &'a [u8],
    /// If it is one that is scanned.
    pub(crate) column: Option<Packed<'a>>,
    /// The points that the field is part of, and which part: 0 or 1.
    pub(crate) points: Option<(Points<'a>, usize)>,
    /// If these hold values: the keys, and the least of them.
    pub(crate) values: Option<(Increasing<'a>, u64)>,
}

/// The postings of a field of a partition.
#[derive(Clone, Copy)]
pub(crate) struct Postings<'a> {
    documents: u32,
    present: u32,
    ordered: Ordered,
    pub(crate) offsets: Increasing<'a>,
    pub(crate) slices: Slices<'a>,
    special_forms: &'a [u8],
    exception_count: usize,
    bitsets: &'a [u8],
    runs: &'a [u8],
    column: Option<Packed<'a>>,
    /// Ordinals that have no lists, but are in the column.
    scanned: (u32, u32),
    points: Option<(Points<'a>, usize)>,
    values: Option<(Increasing<'a>, u64)>,
}

/// How the documents of a special form are kept.
enum Kept<'a> {
    Bitset(Bitset<'a>),
    /// Pairs of u32.
    Runs(&'a [u8]),
    Column,
}

/// Where the documents of a range of ordinals are: entries of the slices, special forms, documents of
/// an ordered field, ordinals of a field that is scanned, a window over points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pieces {
    slice: Span,
    special_forms: (usize, usize),
    documents: (u32, u32),
    column: (u32, u32),
    window: Option<Window>,
    /// Only one key, or a scan: the documents come in ascending order, each once.
    pub(crate) sorted: bool,
}

impl Pieces {
    /// The documents of a window over points.
    pub(crate) fn of(window: Window) -> Pieces {
        Pieces { window: Some(window), ..Pieces::default() }
    }
}

impl<'a> Postings<'a> {
    pub(crate) fn new(meta: &FieldMeta, documents: u32, parts: Parts<'a>) -> Result<Postings<'a>> {
        let offsets = Increasing::new(parts.offsets, meta.distinct as usize + 1)?;
        let exception_count = meta.special_forms as usize;
        let entries = if exception_count > 0 { exception_count + 1 } else { 0 };
        if parts.special_forms.len() != entries * SPECIAL_FORM {
            return Err(Error::corrupt("the special_forms of a field have a wrong size"));
        }
        let (first, end) = (meta.scanned.0 as usize, meta.scanned.1 as usize);
        let (removed, gone) = match exception_count {
            0 if first == end => (0, 0),
            0 => (offsets.get(end).wrapping_sub(offsets.get(first)), end - first),
            n => (u64_at(parts.special_forms, n * SPECIAL_FORM + 16), n),
        };
        let slices = if meta.has_lists() {
            let len = meta.postings.checked_sub(removed);
            let len =
                len.ok_or_else(|| Error::corrupt("a field has more special_forms than postings"))?;
            let keys = (meta.distinct as usize).saturating_sub(gone);
            let bytes = (parts.slices, parts.places);
            Slices::new(bytes, (documents, meta.slice_bits), keys, len as usize)?
        } else {
            Slices::none()
        };
        Ok(Postings {
            documents,
            present: meta.present,
            ordered: meta.ordered,
            offsets,
            slices,
            special_forms: parts.special_forms,
            exception_count,
            bitsets: parts.bitsets,
            runs: parts.runs,
            column: parts.column,
            scanned: meta.scanned,
            points: parts.points,
            values: parts.values,
        })
    }

    /// Of points alone: for windows over these.
    pub(crate) fn of_point(documents: u32, points: Option<(Points<'a>, usize)>) -> Postings<'a> {
        Postings {
            documents,
            present: 0,
            ordered: Ordered::No,
            offsets: Increasing::trusted(&[], 0),
            slices: Slices::none(),
            special_forms: &[],
            exception_count: 0,
            bitsets: &[],
            runs: &[],
            column: None,
            scanned: (0, 0),
            points,
            values: None,
        }
    }

    /// Postings of the ordinals `start..end`: the number of documents for a single-valued field or
    /// a single key.
    #[inline]
    pub(crate) fn count(&self, start: u32, end: u32) -> u64 {
        self.offsets.get(end as usize).wrapping_sub(self.offsets.get(start as usize))
    }

    /// The number of the first special form at or after `ord`.
    fn special_form(&self, ord: u32) -> usize {
        let (mut low, mut high) = (0, self.exception_count);
        while low < high {
            let mid = (low + high) / 2;
            if u32_at(self.special_forms, mid * SPECIAL_FORM) < ord {
                low = mid + 1
            } else {
                high = mid
            }
        }
        low
    }

    /// Where the documents of the ordinals `start..end` are.
    pub(crate) fn pieces(&self, start: u32, end: u32) -> Pieces {
        if let Some((_, part)) = self.points {
            let mut window = [EVERYTHING; 2];
            window[part] = match self.values {
                None => (start, end),
                Some((keys, least)) if start < end => {
                    let value = |ord: u32| keys.get(ord as usize).wrapping_sub(least) as u32;
                    (value(start), value(end - 1).saturating_add(1))
                }
                Some(_) => (0, 0),
            };
            return Pieces::of(window);
        }
        if self.in_column(start, end) {
            return Pieces { column: (start, end), sorted: true, ..Pieces::default() };
        }
        let (low, high) = (self.offsets.get(start as usize), self.offsets.get(end as usize));
        let sorted = end - start <= 1;
        let nothing = Pieces { sorted, ..Pieces::default() };
        let all = u64::from(self.present);
        match self.ordered {
            Ordered::Ascending => {
                Pieces { documents: (low as u32, high as u32), sorted: true, ..nothing }
            }
            Ordered::Descending => {
                let (first, last) = (all.wrapping_sub(high) as u32, all.wrapping_sub(low) as u32);
                Pieces { documents: (first, last), sorted: true, ..nothing }
            }
            Ordered::No if self.exception_count == 0 => {
                // Those behind the keys that are scanned follow those before.
                let (first, last) = self.scanned;
                let behind = if start >= last { (first, last) } else { (0, 0) };
                let key = (start - (behind.1 - behind.0)) as usize;
                let entries = self.count(behind.0, behind.1);
                let place = |sum: u64| sum.wrapping_sub(entries) as usize;
                Pieces { slice: self.slices.span(key, place(low), place(high)), ..nothing }
            }
            Ordered::No => {
                let (x0, x1) = (self.special_form(start), self.special_form(end));
                let removed = |x: usize| u64_at(self.special_forms, x * SPECIAL_FORM + 16);
                let slice0 = low.wrapping_sub(removed(x0)) as usize;
                let slice1 = high.wrapping_sub(removed(x1)) as usize;
                // The first key of the range that is no special form.
                let key = (start as usize).saturating_sub(x0);
                let slice = self.slices.span(key, slice0, slice1);
                Pieces { slice, special_forms: (x0, x1), ..nothing }
            }
        }
    }

    /// Whether some of the ordinals `start..end` are in the column alone.
    fn in_column(&self, start: u32, end: u32) -> bool {
        start.max(self.scanned.0) < end.min(self.scanned.1)
    }

    /// The pieces whose documents are in a range; they may have others if they are not one list
    /// that ascends.
    pub(crate) fn within(&self, pieces: Pieces, docs: (u32, u32)) -> Pieces {
        let cut = pieces.sorted && !pieces.slice.is_empty();
        if !cut || pieces.documents.0 < pieces.documents.1 {
            return pieces;
        }
        Pieces { slice: self.slices.narrow(pieces.slice, docs), ..pieces }
    }

    /// The bitset of the pieces, if they are one bitset.
    pub(crate) fn bitset(&self, pieces: &Pieces) -> Option<Bitset<'a>> {
        let (x0, x1) = pieces.special_forms;
        if x1 != x0 + 1 || !pieces.slice.is_empty() {
            return None;
        }
        match self.kept(x0) {
            Kept::Bitset(bitset) if !bitset.is_empty() => Some(bitset),
            _ => None,
        }
    }

    /// How a special form is kept; of a damaged file an empty bitset or no runs.
    fn kept(&self, special_form: usize) -> Kept<'a> {
        let at = special_form * SPECIAL_FORM;
        let (runs, offset) =
            (u32_at(self.special_forms, at + 4), u64_at(self.special_forms, at + 8));
        let (offset, documents) = (offset as usize, self.documents as usize);
        match runs {
            0 => Kept::Bitset(Bitset::new(self.bitsets, offset, documents)),
            IN_COLUMN => Kept::Column,
            runs => {
                let end = offset.checked_add(runs as usize * 8);
                Kept::Runs(end.and_then(|end| self.runs.get(offset..end)).unwrap_or(&[]))
            }
        }
    }

    /// Those of some special forms that are in the column.
    fn keys_in_column(&self, (x0, x1): (usize, usize)) -> Keys {
        let mut keys = Keys::default();
        for at in (x0..x1).map(|x| x * SPECIAL_FORM) {
            if u32_at(self.special_forms, at + 4) == IN_COLUMN {
                let ord = u32_at(self.special_forms, at);
                keys.insert(ord, ord.saturating_add(1));
            }
        }
        keys
    }

    /// Whether the documents of some of the ordinals `start..end` must be found in the column.
    pub(crate) fn is_scanned(&self, start: u32, end: u32) -> bool {
        if self.in_column(start, end) {
            return true;
        }
        let special_forms = || (self.special_form(start), self.special_form(end));
        self.column.is_some() && !self.keys_in_column(special_forms()).is_empty()
    }

    /// What it takes to set the bits of the documents of the ordinals `start..end`, but of those
    /// that are in the column: entries that are read one by one, and words.
    pub(crate) fn work(&self, start: u32, end: u32) -> (u64, u64) {
        let pieces = self.pieces(start, end);
        let (mut entries, mut words) = (pieces.slice.len() as u64, 0);
        for x in pieces.special_forms.0..pieces.special_forms.1 {
            match self.kept(x) {
                Kept::Bitset(bitset) => words += bitset.words(),
                Kept::Runs(runs) => {
                    entries += runs.len() as u64 / 8;
                    let removed = |x: usize| u64_at(self.special_forms, x * SPECIAL_FORM + 16);
                    words += removed(x + 1).wrapping_sub(removed(x)).min(self.present.into()) / 64;
                }
                Kept::Column => {}
            }
        }
        (entries, words)
    }

    /// Adds the documents of the ordinals `start..end` to a bitset of the partition.
    pub(crate) fn add_to(&self, start: u32, end: u32, bits: &mut [u64]) {
        self.add(self.pieces(start, end), bits);
    }

    /// Adds the documents of some pieces to a bitset of the partition.
    pub(crate) fn add(&self, pieces: Pieces, bits: &mut [u64]) {
        let (first, last) = pieces.documents;
        kernels::set_range(bits, first, last.min(self.documents));
        if let (Some(window), Some((points, _))) = (pieces.window, self.points) {
            points.add(window, bits);
        }
        self.slices.set(pieces.slice, bits);
        let mut keys = Keys::default();
        for x in pieces.special_forms.0..pieces.special_forms.1 {
            match self.kept(x) {
                Kept::Bitset(bitset) => bitset.or(bits),
                Kept::Runs(runs) => {
                    for at in (0..runs.len()).step_by(8) {
                        let (first, len) = (u32_at(runs, at), u32_at(runs, at + 4));
                        let end = first.saturating_add(len).min(self.documents);
                        kernels::set_range(bits, first, end);
                    }
                }
                Kept::Column => keys.join(&self.keys_in_column((x, x + 1))),
            }
        }
        if let (Some(wanted), Some(column)) = (self.wanted(pieces.column, keys), self.column) {
            scan::add(column, &wanted, bits);
        }
    }

    /// What is to be found in the column: ordinals of a field that has nothing else, or some keys.
    fn wanted(&self, (start, end): (u32, u32), keys: Keys) -> Option<OrdinalSet> {
        if start < end {
            return self.column.map(|column| OrdinalSet::new(&[(start, end)], column.raw().1));
        }
        (!keys.is_empty()).then_some(OrdinalSet::Keys(keys))
    }

    /// The number of documents of the ordinals `start..end` that are in a bitset.
    pub(crate) fn probe(&self, start: u32, end: u32, bits: &[u64]) -> u64 {
        let pieces = self.pieces(start, end);
        let mut count = 0;
        if let (Some(column), (x0, x1)) = (self.column, pieces.special_forms) {
            let keys = self.keys_in_column((x0, x1));
            let wanted = self.wanted(pieces.column, keys);
            if let (Some(wanted), true) = (wanted, keys.len() == x1 - x0) {
                return scan::count(column, &wanted, bits) + self.slices.count(pieces.slice, bits);
            }
        }
        let slice = self.each_exception(start, end, |doc| {
            count += bits.get(doc as usize / 64).map_or(0, |word| word >> (doc % 64) & 1);
        });
        count + self.slices.count(slice, bits)
    }

    /// Calls `each` with the documents of the ordinals `start..end` that are not in the slices.
    /// Gives those that are.
    fn each_exception(&self, start: u32, end: u32, mut each: impl FnMut(u32)) -> Span {
        let mut pieces = self.pieces(start, end);
        let slice = std::mem::take(&mut pieces.slice);
        if self.exception_count > 0 || self.ordered != Ordered::No || self.points.is_some() {
            let (mut cursor, mut block) = (PostingsIter::new(pieces), Vec::with_capacity(BLOCK));
            while cursor.next(self, &mut block) {
                block.iter().for_each(|&doc| each(doc));
            }
        }
        slice
    }
}
