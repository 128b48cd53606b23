//! The slices of a field: postings lists in the order of keys, each with ascending documents.
//!
//! Documents are packed with a fixed width, or lists are *divided*, that is, Elias-Fano coded
//! (Elias 1974, Fano 1971), if this saves an eighth of the space. A divided list packs the low bits
//! of its documents. The high bits are the number of a *bucket*: a bit vector has for each bucket a
//! 1 per document in it, then a 0. So entry i in bucket b is bit `b + i`. The number of low bits
//! depends on the length: a list of n of N documents takes about `log2(N / n) + 2` bits per
//! document.
//!
//! ```text
//! OFFSET  SIZE                   FIELD
//! 0       4                      n, number of documents in the list
//! 4       ceil((n + N') / 8)     high bits, of N' = ceil(N / 2^l) buckets
//! ..      ceil(n l / 8)          low bits, l = floor(log2(N / n)) per document
//! ```
//! The lists follow each other without gaps; 8 zeros follow the last. The section PLACES has the
//! start of each list and the end of the last, as an increasing sequence.

use crate::bytes::increasing::{self, Increasing};
use crate::bytes::int::{Encoder, behind_zeros, u32_at, u64_at};
use crate::bytes::packed::{Packed, PackedWriter, width};
use crate::search::format::limits::has_large_forms;
use crate::search::simd::lists;
use crate::{Error, Result};

/// Documents decoded at a time.
pub(crate) const BLOCK: usize = 1024;
/// Instead of a width: the lists are divided.
pub(crate) const DIVIDED: u8 = u8::MAX;
/// The minimum average length of divided lists. Shorter ones are read faster with a fixed width.
const LONG: usize = 32;
/// Bytes before the high bits of a list, and zeros after the last list.
const HEAD: usize = 4;
const END: usize = 8;

/// The number of low bits per document of a list.
fn low_bits(documents: usize, len: usize) -> u8 {
    width((documents / len.max(1)) as u64).saturating_sub(1)
}

/// The size in bytes of the high bits of a list.
fn size_of_highs(documents: usize, len: usize) -> usize {
    (len + documents.div_ceil(1 << low_bits(documents, len))).div_ceil(8)
}

/// The size in bytes of a list.
fn size_of(documents: usize, len: usize) -> usize {
    let lows = (len * usize::from(low_bits(documents, len))).div_ceil(8);
    HEAD + size_of_highs(documents, len) + lows
}

/// Chooses the encoding for lists of these lengths: a width in bits, or [`DIVIDED`].
pub(crate) fn bits_of(documents: usize, lens: impl Iterator<Item = usize>) -> u8 {
    let whole = width((documents as u64).saturating_sub(1));
    // The start of a list in PLACES takes about two bytes.
    let (keys, entries, size) = lens.fold((0, 0, 0), |(keys, entries, size), len| {
        (keys + 1, entries + len, size + size_of(documents, len) + 2)
    });
    let long = has_large_forms(documents as u32) && entries >= LONG * keys;
    if long && size < entries * usize::from(whole) / 8 * 7 / 8 { DIVIDED } else { whole }
}

/// Writes slices.
pub(crate) struct SlicesWriter {
    documents: usize,
    /// The documents, if lists are not divided.
    whole: Option<PackedWriter>,
    lists: Encoder,
    /// The start of each divided list.
    places: Vec<u64>,
}

impl SlicesWriter {
    /// `bits` comes from [`bits_of`].
    pub(crate) fn new(documents: usize, bits: u8) -> SlicesWriter {
        let whole = (bits != DIVIDED).then(|| PackedWriter::new(bits));
        SlicesWriter { documents, whole, lists: Encoder::default(), places: Vec::new() }
    }

    /// Adds the postings list of the next key, which has at least one document.
    pub(crate) fn push(&mut self, docs: &[u32]) {
        debug_assert!(!docs.is_empty());
        if let Some(whole) = &mut self.whole {
            return docs.iter().for_each(|&doc| whole.push(doc));
        }
        self.places.push(self.lists.0.len() as u64);
        self.lists.u32(docs.len() as u32);
        let lists = &mut self.lists.0;
        let (start, bits) = (lists.len(), low_bits(self.documents, docs.len()));
        lists.resize(start + size_of_highs(self.documents, docs.len()), 0);
        let mut lows = PackedWriter::new(bits);
        for (i, &doc) in docs.iter().enumerate() {
            let bit = (doc as usize >> bits) + i;
            lists[start + bit / 8] |= 1 << (bit % 8);
            lows.push(doc & ((1 << bits) - 1));
        }
        let lows = lows.finish();
        lists.extend_from_slice(&lows[..(docs.len() * usize::from(bits)).div_ceil(8)]);
    }

    /// The parts SLICES and PLACES; the latter is empty unless lists are divided.
    pub(crate) fn finish(mut self) -> (Vec<u8>, Vec<u8>) {
        if let Some(whole) = self.whole {
            return (whole.finish(), Vec::new());
        }
        self.places.push(self.lists.0.len() as u64);
        self.lists.u64(0);
        (self.lists.0, increasing::encode(self.places.into_iter()))
    }
}

/// Reads the slices of a field.
#[derive(Clone, Copy)]
pub(crate) struct Slices<'a> {
    documents: u32,
    form: Form<'a>,
}

#[derive(Clone, Copy)]
enum Form<'a> {
    Whole(Packed<'a>),
    /// `entries` is the total length of all lists.
    Divided {
        lists: &'a [u8],
        places: Increasing<'a>,
        entries: usize,
    },
}

/// A read position: the consecutive entries `first..last` that have not been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    first: usize,
    last: usize,
    /// For divided lists: the start of the current list, the number of its entries already read,
    /// and the high bit at which to continue.
    at: usize,
    entry: usize,
    bit: usize,
}

impl Span {
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.last.saturating_sub(self.first)
    }
}

/// The layout of a divided list, as offsets into the section.
struct List {
    len: usize,
    bits: u8,
    highs: usize,
    lows: usize,
    end: usize,
}

impl<'a> Slices<'a> {
    /// Opens slices with `keys` lists and `entries` documents in total. `Corrupt` if the sizes do
    /// not fit.
    pub(crate) fn new(
        (slices, places): (&'a [u8], &'a [u8]),
        (documents, bits): (u32, u8),
        keys: usize,
        entries: usize,
    ) -> Result<Slices<'a>> {
        let form = match bits {
            DIVIDED => {
                let places = Increasing::new(places, keys.saturating_add(1))?;
                if places.get(keys).checked_add(END as u64) != Some(slices.len() as u64) {
                    let message = format!("{} bytes are not {keys} lists", slices.len());
                    return Err(Error::corrupt(message));
                }
                Form::Divided { lists: slices, places, entries }
            }
            bits if bits == width(u64::from(documents).saturating_sub(1)) => {
                Form::Whole(Packed::new(slices, bits, entries)?)
            }
            bits => {
                let message = format!("{bits} bits are not those of {documents} documents");
                return Err(Error::corrupt(message));
            }
        };
        Ok(Slices { documents, form })
    }

    /// Slices without entries.
    pub(crate) fn none() -> Slices<'a> {
        Slices { documents: 0, form: Form::Whole(Packed::trusted(&[0; 8], 0, 0)) }
    }

    /// The packed documents, unless lists are divided.
    pub(crate) fn whole(&self) -> Option<Packed<'a>> {
        match self.form {
            Form::Whole(numbers) => Some(numbers),
            Form::Divided { .. } => None,
        }
    }

    /// The entries `first..last`, which belong to the lists from number `key` on.
    pub(crate) fn span(&self, key: usize, first: usize, last: usize) -> Span {
        let (entries, places) = match self.form {
            Form::Whole(numbers) => (numbers.len(), None),
            Form::Divided { places, entries, .. } => (entries, Some(places)),
        };
        // The offsets of a corrupt file are arbitrary.
        let last = last.min(entries);
        let span = Span { first: first.min(last), last, ..Span::default() };
        match places.filter(|_| !span.is_empty()) {
            Some(places) => Span { at: places.get(key.min(places.len() - 1)) as usize, ..span },
            None => span,
        }
    }

    /// The list that starts at byte `at`; `None` if the file is corrupt.
    #[inline]
    fn list(&self, lists: &[u8], at: usize) -> Option<List> {
        let highs = at.checked_add(HEAD).filter(|highs| *highs <= lists.len())?;
        let (documents, len) = (self.documents as usize, u32_at(lists, at) as usize);
        let bits = low_bits(documents, len);
        let lows = highs + size_of_highs(documents, len);
        let end = lows + (len * usize::from(bits)).div_ceil(8);
        (len > 0 && end + END <= lists.len()).then_some(List { len, bits, highs, lows, end })
    }

    /// Narrows the span of one key to the documents in a range. It may keep some documents next to
    /// the range.
    pub(crate) fn narrow(&self, span: Span, (start, end): (u32, u32)) -> Span {
        let numbers = match self.form {
            Form::Whole(numbers) => numbers,
            Form::Divided { lists, .. } => return self.narrow_list(lists, span, (start, end)),
        };
        let first_at = |from: usize, doc: u32| {
            let (mut low, mut high) = (from, span.last);
            while low < high {
                let mid = (low + high) / 2;
                if numbers.get(mid) < doc { low = mid + 1 } else { high = mid }
            }
            low
        };
        let first = if start == 0 { span.first } else { first_at(span.first, start) };
        let last = if end >= self.documents { span.last } else { first_at(first, end) };
        Span { first, last, ..span }
    }

    /// [`Slices::narrow`] for a divided list, by its buckets.
    fn narrow_list(&self, lists: &[u8], span: Span, (start, end): (u32, u32)) -> Span {
        let Some(list) = self.list(lists, span.at) else { return Span::default() };
        let skipped = (start >> list.bits) as usize;
        let (entry, bit) = skip(lists, &list, (0, 0), skipped);
        let mut part = Span { first: span.first + entry, entry, bit, ..span };
        if end < self.documents {
            let wanted = (end.saturating_sub(1) >> list.bits) as usize + 1;
            let ends = skip(lists, &list, (entry, bit), wanted.saturating_sub(skipped)).0;
            part.last = span.last.min(span.first + ends);
        }
        part
    }

    /// Replaces `out` by the next documents, about `size` of them and at most [`BLOCK`]. Returns
    /// false at the end.
    pub(crate) fn next(&self, span: &mut Span, size: usize, out: &mut Vec<u32>) -> bool {
        out.clear();
        match self.form {
            Form::Whole(numbers) => {
                let end = span.last.min(span.first + size);
                numbers.decode(span.first, end, out);
                span.first = end.max(span.first);
            }
            Form::Divided { lists, .. } => {
                let size = size.min(BLOCK - 63);
                while out.len() < size && span.first < span.last {
                    self.next_of_list(lists, span, size - out.len(), out);
                }
            }
        }
        !out.is_empty()
    }

    /// Appends the next documents of the current divided list, about `size` of them.
    fn next_of_list(&self, lists: &[u8], span: &mut Span, size: usize, out: &mut Vec<u32>) {
        const MOST: usize = 1 << 30;
        let list = self.list(lists, span.at).filter(|list| span.entry < list.len);
        let Some(list) = list else {
            // The file is corrupt.
            span.last = span.first;
            return;
        };
        let left = span.len().min(list.len - span.entry);
        let (from, origin) = (out.len(), span.bit / 64 * 64);
        let (mut mask, size) = (u64::MAX << (span.bit % 64), size.min(left));
        while out.len() - from < size && span.bit - origin < MOST {
            let (word, words) = (span.bit / 64, (size - (out.len() - from)).div_ceil(64));
            // The last word may include bytes after the high bits; their bits come after the last
            // entry and are truncated below.
            let end = (list.lows - list.highs).next_multiple_of(8).min((word + words) * 8);
            let bytes = lists.get(list.highs + word * 8..list.highs + end);
            let bytes = bytes.filter(|bytes| bytes.len() >= 8);
            let Some(bytes) = bytes else {
                // The list has fewer documents than it claims: the file is corrupt.
                span.last = span.first + (out.len() - from);
                break;
            };
            lists::push_ones(bytes, mask, (span.bit / 64 * 64 - origin) as u32, out);
            (mask, span.bit) = (u64::MAX, (word + bytes.len() / 8) * 64);
        }
        out.truncate(from + left);
        // `out` now has the positions of high bits relative to `origin`; `join` turns them into
        // documents.
        let lows = Packed::trusted(&lists[list.lows..], list.bits, list.len);
        lists::join(lows, span.entry, origin.wrapping_sub(span.entry) as u32, &mut out[from..]);
        let taken = out.len() - from;
        (span.first, span.entry) = (span.first + taken, span.entry + taken);
        if span.entry == list.len {
            (span.at, span.entry, span.bit) = (list.end, 0, 0);
        }
    }

    /// Calls `each` with the documents of a span, one block at a time.
    fn each_block(&self, mut span: Span, mut each: impl FnMut(&[u32])) {
        let mut block = Vec::with_capacity(BLOCK);
        while self.next(&mut span, BLOCK, &mut block) {
            each(&block);
        }
    }

    /// Sets the bits of a span's documents.
    pub(crate) fn set(&self, span: Span, bits: &mut [u64]) {
        match self.whole() {
            Some(list) => lists::set(list, span.first, span.last, bits),
            None => self.each_block(span, |docs| lists::set_each(docs, bits)),
        }
    }

    /// How many of a span's documents are in a bitset.
    pub(crate) fn count(&self, span: Span, bits: &[u64]) -> u64 {
        match self.whole() {
            Some(list) => lists::count(list, span.first, span.last, bits),
            None => {
                let mut total = 0;
                self.each_block(span, |docs| total += lists::count_each(docs, bits));
                total
            }
        }
    }
}

/// Skips `buckets` buckets, starting at an entry and its bit. Returns the first entry after them,
/// and the bit at which its bucket starts.
fn skip(lists: &[u8], list: &List, from: (usize, usize), buckets: usize) -> (usize, usize) {
    let ((entry, start), end) = (from, (list.lows - list.highs) * 8);
    let (mut bit, mut left) = (start, buckets);
    while left > 0 && bit < end {
        let rest = 64 - bit % 64;
        let zeros = !u64_at(lists, list.highs + bit / 64 * 8) >> (bit % 64);
        let count = zeros.count_ones() as usize;
        if count < left {
            (left, bit) = (left - count, bit + rest);
            continue;
        }
        bit += behind_zeros(!zeros, left) as usize;
        left = 0;
    }
    let entries = (bit - start).saturating_sub(buckets - left);
    ((entry + entries).min(list.len), bit)
}

#[cfg(test)]
mod tests;
