//! Reads the postings of a field: the documents of an ordinal or of a range of ordinals. `build.rs`
//! lists the forms in which postings are stored.

pub(crate) mod build;

mod iter;

use crate::bytes::int::{u32_at, u64_at};
use crate::bytes::monotonic::Monotonic;
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

/// The sections of a field's postings in the file.
#[derive(Default)]
pub(crate) struct Parts<'a> {
    pub(crate) offsets: &'a [u8],
    pub(crate) slices: &'a [u8],
    pub(crate) places: &'a [u8],
    pub(crate) special_forms: &'a [u8],
    pub(crate) bitsets: &'a [u8],
    pub(crate) runs: &'a [u8],
    /// The column, if documents may be found by a scan of it.
    pub(crate) column: Option<Packed<'a>>,
    /// The points that hold the field, and its side: 0 or 1.
    pub(crate) points: Option<(Points<'a>, usize)>,
    /// If the points hold values: the keys, and the smallest value.
    pub(crate) values: Option<(Monotonic<'a>, u64)>,
}

/// The postings of a field of a partition.
#[derive(Clone, Copy)]
pub(crate) struct Postings<'a> {
    documents: u32,
    present: u32,
    ordered: Ordered,
    pub(crate) offsets: Monotonic<'a>,
    pub(crate) slices: Slices<'a>,
    special_forms: &'a [u8],
    special_form_count: usize,
    bitsets: &'a [u8],
    runs: &'a [u8],
    column: Option<Packed<'a>>,
    /// Ordinals whose documents are only in the column.
    scanned: (u32, u32),
    points: Option<(Points<'a>, usize)>,
    values: Option<(Monotonic<'a>, u64)>,
}

/// The documents of an ordinal that has no slice.
enum SpecialForm<'a> {
    Bitset(Bitset<'a>),
    /// Pairs of u32: first document and length.
    Runs(&'a [u8]),
    /// In the column only.
    Column,
}

/// Where the documents of a range of ordinals are stored: entries of the slices, special forms, a
/// range of documents of an ordered field, ordinals to find in the column, a window over points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PostingsRange {
    slice: Span,
    special_forms: (usize, usize),
    documents: (u32, u32),
    column: (u32, u32),
    window: Option<Window>,
    /// Iteration yields each document once, in ascending order.
    pub(crate) sorted: bool,
}

impl PostingsRange {
    /// The documents of a window over points.
    pub(crate) fn of_window(window: Window) -> PostingsRange {
        PostingsRange { window: Some(window), ..PostingsRange::default() }
    }
}

impl<'a> Postings<'a> {
    pub(crate) fn new(meta: &FieldMeta, documents: u32, parts: Parts<'a>) -> Result<Postings<'a>> {
        let offsets = Monotonic::new(parts.offsets, meta.distinct as usize + 1)?;
        let special_form_count = meta.special_forms as usize;
        let entries = if special_form_count > 0 { special_form_count + 1 } else { 0 };
        if parts.special_forms.len() != entries * SPECIAL_FORM {
            return Err(Error::corrupt("the special forms of a field have the wrong size"));
        }
        let (first, end) = (meta.scanned.0 as usize, meta.scanned.1 as usize);
        let (removed, unsliced) = match special_form_count {
            0 if first == end => (0, 0),
            0 => (offsets.get(end).wrapping_sub(offsets.get(first)), end - first),
            n => (u64_at(parts.special_forms, n * SPECIAL_FORM + 16), n),
        };
        let slices = if meta.has_lists() {
            let len = meta.postings.checked_sub(removed);
            let len =
                len.ok_or_else(|| Error::corrupt("a field has more special forms than postings"))?;
            let keys = (meta.distinct as usize).saturating_sub(unsliced);
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
            special_form_count,
            bitsets: parts.bitsets,
            runs: parts.runs,
            column: parts.column,
            scanned: meta.scanned,
            points: parts.points,
            values: parts.values,
        })
    }

    /// The number of entries of the ordinals `start..end`. It is the number of documents if the
    /// field is single-valued or the range is a single ordinal.
    #[inline]
    pub(crate) fn count(&self, start: u32, end: u32) -> u64 {
        self.offsets.get(end as usize).wrapping_sub(self.offsets.get(start as usize))
    }

    /// The number of the first special form of an ordinal not below `ord`.
    fn first_special_form(&self, ord: u32) -> usize {
        let (mut low, mut high) = (0, self.special_form_count);
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

    /// Locates the documents of the ordinals `start..end`.
    pub(crate) fn range(&self, start: u32, end: u32) -> PostingsRange {
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
            return PostingsRange::of_window(window);
        }
        if self.in_column(start, end) {
            return PostingsRange {
                column: (start, end),
                sorted: true,
                ..PostingsRange::default()
            };
        }
        let (low, high) = (self.offsets.get(start as usize), self.offsets.get(end as usize));
        let sorted = end - start <= 1;
        let nothing = PostingsRange { sorted, ..PostingsRange::default() };
        let all = u64::from(self.present);
        match self.ordered {
            Ordered::Ascending => {
                PostingsRange { documents: (low as u32, high as u32), sorted: true, ..nothing }
            }
            Ordered::Descending => {
                let (first, last) = (all.wrapping_sub(high) as u32, all.wrapping_sub(low) as u32);
                PostingsRange { documents: (first, last), sorted: true, ..nothing }
            }
            Ordered::No if self.special_form_count == 0 => {
                // Scanned ordinals have no slices: those of later ordinals follow directly.
                let (first, last) = self.scanned;
                let skipped = if start >= last { (first, last) } else { (0, 0) };
                let key = (start - (skipped.1 - skipped.0)) as usize;
                let entries = self.count(skipped.0, skipped.1);
                let entry = |offset: u64| offset.wrapping_sub(entries) as usize;
                PostingsRange { slice: self.slices.span(key, entry(low), entry(high)), ..nothing }
            }
            Ordered::No => {
                let (x0, x1) = (self.first_special_form(start), self.first_special_form(end));
                let removed = |x: usize| u64_at(self.special_forms, x * SPECIAL_FORM + 16);
                let slice0 = low.wrapping_sub(removed(x0)) as usize;
                let slice1 = high.wrapping_sub(removed(x1)) as usize;
                // The first ordinal of the range that has a slice.
                let key = (start as usize).saturating_sub(x0);
                let slice = self.slices.span(key, slice0, slice1);
                PostingsRange { slice, special_forms: (x0, x1), ..nothing }
            }
        }
    }

    /// Whether the documents of some of the ordinals `start..end` are only in the column, because
    /// the field is scanned.
    fn in_column(&self, start: u32, end: u32) -> bool {
        start.max(self.scanned.0) < end.min(self.scanned.1)
    }

    /// Limits the documents to the range `docs`. Only a single ascending list is limited exactly;
    /// other forms may keep documents outside.
    pub(crate) fn within(&self, range: PostingsRange, docs: (u32, u32)) -> PostingsRange {
        let cut = range.sorted && !range.slice.is_empty();
        if !cut || range.documents.0 < range.documents.1 {
            return range;
        }
        PostingsRange { slice: self.slices.narrow(range.slice, docs), ..range }
    }

    /// The bitset that holds all documents of a range of ordinals, if there is one.
    pub(crate) fn bitset(&self, range: &PostingsRange) -> Option<Bitset<'a>> {
        let (x0, x1) = range.special_forms;
        if x1 != x0 + 1 || !range.slice.is_empty() {
            return None;
        }
        match self.special_form(x0) {
            SpecialForm::Bitset(bitset) if !bitset.is_empty() => Some(bitset),
            _ => None,
        }
    }

    /// A special form by its number. In a corrupt file it is an empty bitset or has no runs.
    fn special_form(&self, number: usize) -> SpecialForm<'a> {
        let at = number * SPECIAL_FORM;
        let (runs, offset) =
            (u32_at(self.special_forms, at + 4), u64_at(self.special_forms, at + 8));
        let (offset, documents) = (offset as usize, self.documents as usize);
        match runs {
            0 => SpecialForm::Bitset(Bitset::new(self.bitsets, offset, documents)),
            IN_COLUMN => SpecialForm::Column,
            runs => {
                let end = offset.checked_add(runs as usize * 8);
                SpecialForm::Runs(end.and_then(|end| self.runs.get(offset..end)).unwrap_or(&[]))
            }
        }
    }

    /// The ordinals of special forms whose documents are in the column.
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

    /// Whether the documents of some of the ordinals `start..end` are found only by a scan of the
    /// column.
    pub(crate) fn is_scanned(&self, start: u32, end: u32) -> bool {
        if self.in_column(start, end) {
            return true;
        }
        let special_forms = || (self.first_special_form(start), self.first_special_form(end));
        self.column.is_some() && !self.keys_in_column(special_forms()).is_empty()
    }

    /// The work of adding the documents of the ordinals `start..end` to a bitset, without those in
    /// the column: entries to decode, and words to combine.
    pub(crate) fn work(&self, start: u32, end: u32) -> (u64, u64) {
        let range = self.range(start, end);
        let (mut entries, mut words) = (range.slice.len() as u64, 0);
        for x in range.special_forms.0..range.special_forms.1 {
            match self.special_form(x) {
                SpecialForm::Bitset(bitset) => words += bitset.words(),
                SpecialForm::Runs(runs) => {
                    entries += runs.len() as u64 / 8;
                    let removed = |x: usize| u64_at(self.special_forms, x * SPECIAL_FORM + 16);
                    words += removed(x + 1).wrapping_sub(removed(x)).min(self.present.into()) / 64;
                }
                SpecialForm::Column => {}
            }
        }
        (entries, words)
    }

    /// Adds the documents of the ordinals `start..end` to a bitset.
    pub(crate) fn add_to(&self, start: u32, end: u32, bits: &mut [u64]) {
        self.add(self.range(start, end), bits);
    }

    /// Adds the documents of a range to a bitset.
    pub(crate) fn add(&self, range: PostingsRange, bits: &mut [u64]) {
        let (first, last) = range.documents;
        kernels::set_range(bits, first, last.min(self.documents));
        if let (Some(window), Some((points, _))) = (range.window, self.points) {
            points.add(window, bits);
        }
        self.slices.set(range.slice, bits);
        let mut keys = Keys::default();
        for x in range.special_forms.0..range.special_forms.1 {
            match self.special_form(x) {
                SpecialForm::Bitset(bitset) => bitset.or(bits),
                SpecialForm::Runs(runs) => {
                    for at in (0..runs.len()).step_by(8) {
                        let (first, len) = (u32_at(runs, at), u32_at(runs, at + 4));
                        let end = first.saturating_add(len).min(self.documents);
                        kernels::set_range(bits, first, end);
                    }
                }
                SpecialForm::Column => keys.join(&self.keys_in_column((x, x + 1))),
            }
        }
        if let (Some(wanted), Some(column)) =
            (self.scanned_ordinals(range.column, keys), self.column)
        {
            scan::add(column, &wanted, bits);
        }
    }

    /// The ordinals to find in the column: a range of a scanned field, or those of special forms.
    fn scanned_ordinals(&self, (start, end): (u32, u32), keys: Keys) -> Option<OrdinalSet> {
        if start < end {
            return self.column.map(|column| OrdinalSet::new(&[(start, end)], column.raw().1));
        }
        (!keys.is_empty()).then_some(OrdinalSet::Small(keys))
    }

    /// The number of documents of the ordinals `start..end` that are in a bitset.
    pub(crate) fn count_in(&self, start: u32, end: u32, bits: &[u64]) -> u64 {
        let range = self.range(start, end);
        if let Some(bitset) = self.bitset(&range) {
            return bitset.count_and(bits);
        }
        let mut count = 0;
        if let (Some(column), (x0, x1)) = (self.column, range.special_forms) {
            let keys = self.keys_in_column((x0, x1));
            let wanted = self.scanned_ordinals(range.column, keys);
            if let (Some(wanted), true) = (wanted, keys.len() == x1 - x0) {
                return scan::count(column, &wanted, bits) + self.slices.count(range.slice, bits);
            }
        }
        let slice = self.for_each_unsliced(range, |doc| {
            count += bits.get(doc as usize / 64).map_or(0, |word| word >> (doc % 64) & 1);
        });
        count + self.slices.count(slice, bits)
    }

    /// Calls `each` with the documents of a range that are not in the slices, and returns the span
    /// of those that are.
    fn for_each_unsliced(&self, mut range: PostingsRange, mut each: impl FnMut(u32)) -> Span {
        let slice = std::mem::take(&mut range.slice);
        if self.special_form_count > 0 || self.ordered != Ordered::No || self.points.is_some() {
            let (mut iter, mut block) = (PostingsIter::new(range), Vec::with_capacity(BLOCK));
            while iter.next(self, &mut block) {
                block.iter().for_each(|&doc| each(doc));
            }
        }
        slice
    }
}
