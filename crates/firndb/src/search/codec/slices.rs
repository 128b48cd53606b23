//! The slices of a field: postings lists in the order of keys, each with ascending documents.
//!
//! Documents are packed with a fixed width, or each list is *divided*, that is, Elias-Fano coded
//! (`bytes/elias_fano/`), if this saves an eighth of the space. The values are documents below N,
//! so a list of n documents takes about `log2(N / n) + 2` bits per document:
//!
//! ```text
//! OFFSET  SIZE                   FIELD
//! 0       4                      n, number of documents in the list
//! 4       ceil(n l / 8)          low bits, l = floor(log2(N / n)) per document
//! ..      ceil((n + N') / 8)     high bits, of N' = ceil(N / 2^l) buckets
//! ```
//! The lists follow each other without gaps; 8 zeros follow the last. The section PLACES has the
//! start of each list and the end of the last, as an increasing sequence.

use crate::bytes::elias_fano::{self, EliasFano, Layout, Position};
use crate::bytes::int::{Encoder, u32_at};
use crate::bytes::monotonic::{self, Monotonic};
use crate::bytes::packed::{Packed, PackedWriter, width};
use crate::search::format::limits::has_large_forms;
use crate::search::simd::lists;
use crate::{Error, Result};

/// Documents decoded at a time.
pub(crate) const BLOCK: usize = 1024;
/// Instead of a width: the lists are divided.
pub(crate) const ELIAS_FANO: u8 = u8::MAX;
/// The minimum average length of divided lists. Shorter ones are read faster with a fixed width.
const LONG: usize = 32;
/// Bytes before the high bits of a list, and zeros after the last list.
const HEAD: usize = 4;
const END: usize = 8;

/// The size in bytes of a list of `len` documents.
fn size_of(documents: usize, len: usize) -> usize {
    HEAD + Layout::new(documents, len).size()
}

/// Chooses the encoding for lists of these lengths: a width in bits, or [`ELIAS_FANO`].
pub(crate) fn bits_of(documents: usize, lens: impl Iterator<Item = usize>) -> u8 {
    let whole = width((documents as u64).saturating_sub(1));
    // The start of a list in PLACES takes about two bytes.
    let (keys, entries, size) = lens.fold((0, 0, 0), |(keys, entries, size), len| {
        (keys + 1, entries + len, size + size_of(documents, len) + 2)
    });
    let long = has_large_forms(documents as u32) && entries >= LONG * keys;
    if long && size < entries * usize::from(whole) / 8 * 7 / 8 { ELIAS_FANO } else { whole }
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
        let whole = (bits != ELIAS_FANO).then(|| PackedWriter::new(bits));
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
        let layout = Layout::new(self.documents, docs.len());
        elias_fano::encode(docs.iter().map(|&doc| doc.into()), layout, &mut self.lists.0);
    }

    /// The parts SLICES and PLACES; the latter is empty unless lists are divided.
    pub(crate) fn finish(mut self) -> (Vec<u8>, Vec<u8>) {
        if let Some(whole) = self.whole {
            return (whole.finish(), Vec::new());
        }
        self.places.push(self.lists.0.len() as u64);
        self.lists.u64(0);
        (self.lists.0, monotonic::encode(self.places.into_iter()))
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
        places: Monotonic<'a>,
        entries: usize,
    },
}

/// A read position: the consecutive entries `first..last` that have not been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    first: usize,
    last: usize,
    /// For divided lists: the start of the current list, and the position in it.
    at: usize,
    position: Position,
}

impl Span {
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.last.saturating_sub(self.first)
    }
}

/// A divided list.
struct List<'a> {
    len: usize,
    layout: Layout,
    docs: EliasFano<'a>,
    /// The offset of the next list.
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
            ELIAS_FANO => {
                let places = Monotonic::new(places, keys.saturating_add(1))?;
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
    fn list(&self, lists: &'a [u8], at: usize) -> Option<List<'a>> {
        let start = at.checked_add(HEAD).filter(|start| *start <= lists.len())?;
        let len = u32_at(lists, at) as usize;
        let layout = Layout::new(self.documents as usize, len);
        let docs = EliasFano::new(lists, start, layout);
        let end = start + layout.size();
        (len > 0 && end + END <= lists.len()).then_some(List { len, layout, docs, end })
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
    fn narrow_list(&self, lists: &'a [u8], span: Span, (start, end): (u32, u32)) -> Span {
        let Some(list) = self.list(lists, span.at) else { return Span::default() };
        let skipped = (start >> list.layout.low) as usize;
        let position = list.docs.skip(Position::default(), skipped);
        let index = position.index.min(list.len);
        let position = Position { index, ..position };
        let mut part = Span { first: span.first + index, position, ..span };
        if end < self.documents {
            let wanted = (end.saturating_sub(1) >> list.layout.low) as usize + 1;
            let ends = list.docs.skip(position, wanted.saturating_sub(skipped)).index;
            part.last = span.last.min(span.first + ends.min(list.len));
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
    fn next_of_list(&self, lists: &'a [u8], span: &mut Span, size: usize, out: &mut Vec<u32>) {
        const MOST: usize = 1 << 30;
        let Position { index, mut bit } = span.position;
        let list = self.list(lists, span.at).filter(|list| index < list.len);
        let Some(list) = list else {
            // The file is corrupt.
            span.last = span.first;
            return;
        };
        let left = span.len().min(list.len - index);
        let (from, origin) = (out.len(), bit / 64 * 64);
        let (mut mask, size) = (u64::MAX << (bit % 64), size.min(left));
        while out.len() - from < size && bit - origin < MOST {
            // The words may include bits after the high bits. They come after the last entry and
            // are truncated below.
            let words = list.docs.words(bit / 64, (size - (out.len() - from)).div_ceil(64));
            if words.is_empty() {
                // The list has fewer documents than it claims: the file is corrupt.
                span.last = span.first + (out.len() - from);
                break;
            }
            lists::push_ones(words, mask, (bit / 64 * 64 - origin) as u32, out);
            (mask, bit) = (u64::MAX, bit / 64 * 64 + words.len() * 8);
        }
        out.truncate(from + left);
        // The high bit of entry `index + j` is `origin + out[from + j]`.
        let before = origin.wrapping_sub(index) as u32;
        lists::join(list.docs.lows(list.len), index, before, &mut out[from..]);
        let taken = out.len() - from;
        span.first += taken;
        span.position = Position { index: index + taken, bit };
        if span.position.index == list.len {
            (span.at, span.position) = (list.end, Position::default());
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

#[cfg(test)]
mod tests;
