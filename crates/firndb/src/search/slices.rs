//! The slices of a field: documents of its keys, key after key, each key's ascending.
//!
//! They are whole numbers of `width` bits, or divided, where lists are long enough to gain by it:
//! the low bits are packed, and the high bits say in which of a key's *buckets* a document is. For
//! bucket after bucket `highs` has a 1 for each document in it and a 0 behind them (Elias 1974,
//! Fano 1971). So the 1 of entry i in bucket b is bit `b + i`, buckets counted over all keys, and
//! the entries of a key begin where its first bucket does: no key needs a place in the file that
//! says where its list is.

use super::lists;
use crate::bytes::int::{behind_zeros, u64_at};
use crate::bytes::packed::{Packed, PackedWriter, width};
use crate::{Error, Result};

/// Documents decoded at a time.
pub(crate) const BLOCK: usize = 1024;
/// Lists of fewer documents a key are read faster whole, and small partitions are.
const LONG: usize = 32;
const LARGE: usize = 1 << 12;

/// The buckets of a key, if the low bits are so many.
fn buckets(documents: usize, bits: u8) -> usize {
    documents.div_ceil(1 << bits)
}

/// Bytes of the high bits of some keys with so many entries.
fn size_of_highs(documents: usize, bits: u8, keys: usize, entries: usize) -> Option<usize> {
    let zeros = keys.checked_mul(buckets(documents, bits))?;
    Some(zeros.checked_add(entries)?.div_ceil(64) * 8)
}

/// How many low bits take the least bytes; the whole width if to divide saves less than an eighth.
pub(crate) fn low_bits(documents: usize, keys: usize, entries: usize) -> u8 {
    let whole = width((documents as u64).saturating_sub(1));
    if documents <= LARGE || entries < LONG * keys {
        return whole;
    }
    let size = |bits: u8| {
        let highs = size_of_highs(documents, bits, keys, entries)?;
        highs.checked_add(Packed::size(bits, entries)?)
    };
    let sizes = (0..whole).filter_map(|bits| Some((size(bits)?, bits)));
    match sizes.min() {
        Some((least, bits)) if least < entries * usize::from(whole) / 8 * 7 / 8 => bits,
        _ => whole,
    }
}

/// Writes slices.
pub(crate) struct SlicesWriter {
    lows: PackedWriter,
    highs: Vec<u8>,
    bits: u8,
    /// Buckets of a key; 0 if numbers are whole.
    buckets: usize,
    keys: usize,
    entries: usize,
}

impl SlicesWriter {
    /// For so many keys and entries; `bits` as [`low_bits`] says.
    pub(crate) fn new(documents: usize, bits: u8, keys: usize, entries: usize) -> SlicesWriter {
        let whole = width((documents as u64).saturating_sub(1)) <= bits;
        let size = size_of_highs(documents, bits, keys, entries).filter(|_| !whole).unwrap_or(0);
        SlicesWriter {
            lows: PackedWriter::new(bits),
            highs: vec![0; size],
            bits,
            buckets: if whole { 0 } else { buckets(documents, bits) },
            keys: 0,
            entries: 0,
        }
    }

    /// Adds the documents of the next key.
    pub(crate) fn push(&mut self, docs: &[u32]) {
        for &doc in docs {
            if self.buckets == 0 {
                self.lows.push(doc);
                continue;
            }
            self.lows.push(doc & ((1 << self.bits) - 1));
            let bucket = self.keys * self.buckets + (doc as usize >> self.bits);
            let bit = bucket + self.entries;
            self.highs[bit / 8] |= 1 << (bit % 8);
            self.entries += 1;
        }
        self.keys += 1;
    }

    /// The packed numbers and the high bits; these are empty if numbers are whole.
    pub(crate) fn finish(self) -> (Vec<u8>, Vec<u8>) {
        (self.lows.finish(), self.highs)
    }
}

/// Slices over bytes.
#[derive(Clone, Copy)]
pub(crate) struct Slices<'a> {
    lows: Packed<'a>,
    highs: &'a [u8],
    /// Bits of a low number, and buckets of a key; the latter are 0 if numbers are whole.
    bits: u32,
    buckets: usize,
}

/// Entries that stand together and have not been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    first: usize,
    last: usize,
    /// The high bit to go on at: that of the first entry, or one between it and the entry before.
    bit: usize,
    /// Behind the last bucket of its keys: a damaged file may have no entry before.
    end: usize,
}

impl Span {
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.last.saturating_sub(self.first)
    }
}

impl<'a> Slices<'a> {
    /// Checks the sizes for so many keys and entries.
    pub(crate) fn new(
        (lows, highs): (&'a [u8], &'a [u8]),
        (documents, bits): (u32, u8),
        keys: usize,
        entries: usize,
    ) -> Result<Slices<'a>> {
        let lows = Packed::new(lows, bits, entries)?;
        let mut buckets = 0;
        let mut size = Some(0);
        if bits < width(u64::from(documents).saturating_sub(1)) {
            buckets = self::buckets(documents as usize, bits);
            size = size_of_highs(documents as usize, bits, keys, entries);
        }
        if size != Some(highs.len()) {
            let message = format!("{} bytes are not the high bits of {keys} keys", highs.len());
            return Err(Error::corrupt(message));
        }
        Ok(Slices { lows, highs, bits: u32::from(bits), buckets })
    }

    /// No entries.
    pub(crate) fn none() -> Slices<'a> {
        Slices { lows: Packed::trusted(&[0; 8], 0, 0), highs: &[], bits: 0, buckets: 0 }
    }

    /// The numbers, if they are whole.
    pub(crate) fn whole(&self) -> Option<Packed<'a>> {
        (self.buckets == 0).then_some(self.lows)
    }

    /// The entries `first..last`, which are those of the keys `keys.0..keys.1`.
    pub(crate) fn span(&self, keys: (usize, usize), first: usize, last: usize) -> Span {
        // Sums of a damaged file may say anything.
        let last = last.min(self.lows.len());
        let first = first.min(last);
        let bit = |key: usize, entry| key.saturating_mul(self.buckets).saturating_add(entry);
        Span { first, last, bit: bit(keys.0, first), end: bit(keys.1, last) }
    }

    /// The part of a span of one key whose documents are in a range, and perhaps some beside them.
    pub(crate) fn narrow(&self, span: Span, (start, end): (u32, u32), documents: u32) -> Span {
        if self.buckets > 0 {
            let mut part = span;
            let skipped = (start >> self.bits) as usize;
            (part.first, part.bit) = self.skip(span, skipped);
            if end < documents {
                let wanted = (end.saturating_sub(1) >> self.bits) as usize + 1;
                part.last = self.skip(part, wanted.saturating_sub(skipped)).0;
            }
            return part;
        }
        let first_at = |from: usize, doc: u32| {
            let (mut low, mut high) = (from, span.last);
            while low < high {
                let mid = (low + high) / 2;
                if self.lows.get(mid) < doc { low = mid + 1 } else { high = mid }
            }
            low
        };
        let first = if start == 0 { span.first } else { first_at(span.first, start) };
        let last = if end >= documents { span.last } else { first_at(first, end) };
        Span { first, last, ..span }
    }

    /// The first entry behind so many buckets, and the bit where its bucket begins.
    fn skip(&self, span: Span, buckets: usize) -> (usize, usize) {
        let (mut bit, mut left) = (span.bit, buckets);
        while left > 0 && bit < span.end && bit / 64 * 8 < self.highs.len() {
            let rest = 64 - bit % 64;
            let zeros = !u64_at(self.highs, bit / 64 * 8) >> (bit % 64);
            let count = zeros.count_ones() as usize;
            if count < left {
                (left, bit) = (left - count, bit + rest);
                continue;
            }
            bit += behind_zeros(!zeros, left) as usize;
            left = 0;
        }
        let entries = (bit - span.bit).saturating_sub(buckets - left);
        ((span.first + entries).min(span.last), bit)
    }

    /// Replaces `out` by the next documents, about `size` of them and at most [`BLOCK`]; false at
    /// the end.
    pub(crate) fn next(&self, span: &mut Span, size: usize, out: &mut Vec<u32>) -> bool {
        out.clear();
        if self.buckets == 0 {
            let end = span.last.min(span.first + size);
            self.lows.decode(span.first, end, out);
            span.first = end.max(span.first);
            return !out.is_empty();
        }
        let size = size.min(BLOCK - 63);
        while out.is_empty() && span.first < span.last {
            self.next_high(span, size, out);
        }
        !out.is_empty()
    }

    /// Takes bits of a span until there are `size` documents, or many bits without one.
    fn next_high(&self, span: &mut Span, size: usize, out: &mut Vec<u32>) {
        const MOST: usize = 1 << 30;
        let (first, origin) = (span.first, span.bit / 64 * 64);
        let size = size.min(span.last - first);
        let last_word = self.highs.len().min(span.end.div_ceil(64).saturating_mul(8));
        let bucket = span.bit.saturating_sub(first);
        let mut mask = u64::MAX << (span.bit % 64);
        while out.len() < size && first + out.len() < span.last && span.bit - origin < MOST {
            let (word, words) = (span.bit / 64, (size - out.len()).div_ceil(64));
            let end = last_word.min((word + words) * 8);
            let Some(bytes) = self.highs.get(word * 8..end).filter(|bytes| !bytes.is_empty())
            else {
                // Not as many as the sums say: the file is damaged.
                span.last = first + out.len();
                break;
            };
            lists::push_ones(bytes, mask, (span.bit / 64 * 64 - origin) as u32, out);
            (mask, span.bit) = (u64::MAX, (word + bytes.len() / 8) * 64);
        }
        out.truncate(span.last - first);
        span.first += out.len();
        // Of entry `first + j` bit `origin + out[j]` is set, which tells its bucket.
        let base = bucket / self.buckets * self.buckets;
        let before = origin.wrapping_sub(first).wrapping_sub(base) as u32;
        lists::join(self.lows, first, (before, self.buckets as u32), out);
    }

    /// Calls `each` with all documents of a span, a block at a time.
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

    /// Clears the bits of a span's documents.
    pub(crate) fn clear(&self, span: Span, bits: &mut [u64]) {
        match self.whole() {
            Some(list) => lists::clear(list, span.first, span.last, bits),
            None => self.each_block(span, |docs| lists::clear_each(docs, bits)),
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
mod tests {
    use super::*;
    use crate::search::kernels::tests::with_each_version;
    use crate::search::testing::Rng;

    /// Lists of some keys, of very different lengths; a few documents stand together.
    fn lists(rng: &mut Rng, documents: usize) -> Vec<Vec<u32>> {
        let keys = 1 + rng.below(12);
        let list = |rng: &mut Rng| {
            let share = [1, 3, 40, 700, documents][rng.below(5)];
            let (from, to) = (rng.below(documents), rng.below(documents + 1));
            (from..to.max(from + 1)).filter(|_| rng.below(share) == 0).map(|d| d as u32).collect()
        };
        (0..keys).map(|_| list(rng)).collect()
    }

    fn bytes(documents: usize, bits: u8, lists: &[Vec<u32>]) -> (Vec<u8>, Vec<u8>) {
        let entries = lists.iter().map(Vec::len).sum();
        let mut w = SlicesWriter::new(documents, bits, lists.len(), entries);
        lists.iter().for_each(|docs| w.push(docs));
        w.finish()
    }

    fn read(slices: &Slices, mut span: Span, size: usize) -> Vec<u32> {
        let (mut all, mut block) = (Vec::new(), Vec::new());
        while slices.next(&mut span, size, &mut block) {
            assert!(block.len() <= BLOCK, "{} documents at a time", block.len());
            all.extend_from_slice(&block);
        }
        all
    }

    #[test]
    fn lists_of_every_division_are_what_was_written() {
        let seed = 0x511_CE5;
        println!("seed {seed:#x}");
        let mut rng = Rng(seed);
        for round in 0..150 {
            let documents = [1, 2, 63, 64, 65, 1000, 5000, 70_000][rng.below(8)];
            let (lists, width) = (lists(&mut rng, documents), width(documents as u64 - 1));
            let bits = rng.below(usize::from(width) + 1) as u8;
            let (lows, highs) = bytes(documents, bits, &lists);
            assert_eq!(highs.is_empty(), bits == width);
            let entries = lists.iter().map(Vec::len).sum();
            let head = ((&*lows, &*highs), (documents as u32, bits), lists.len(), entries);
            let slices = Slices::new(head.0, head.1, head.2, head.3).unwrap();
            let first = rng.below(lists.len());
            let last = first + rng.below(lists.len() - first + 1);
            let before: usize = lists[..first].iter().map(Vec::len).sum();
            let wanted: Vec<u32> = lists[first..last].concat();
            let window = rng.below(documents) as u32;
            let window = (window, window + rng.below(documents) as u32);
            let words: Vec<u64> = (0..documents.div_ceil(64)).map(|_| rng.next()).collect();
            let has = |doc: u32, words: &[u64]| words[doc as usize / 64] >> (doc % 64) & 1;
            with_each_version(|version| {
                let at = format!("{version}, round {round}, {bits} of {width} bits");
                let span = slices.span((first, last), before, before + wanted.len());
                for size in [1, 64, 100, BLOCK] {
                    assert!(read(&slices, span, size) == wanted, "{at}, {size} at a time");
                }
                let (mut set, mut clear) = (words.clone(), words.clone());
                slices.set(span, &mut set);
                slices.clear(span, &mut clear);
                assert!(wanted.iter().all(|&doc| has(doc, &set) == 1 && has(doc, &clear) == 0));
                let count = |words: &[u64]| words.iter().map(|w| w.count_ones()).sum::<u32>();
                let mut distinct: Vec<u32> = wanted.clone();
                distinct.sort_unstable();
                distinct.dedup();
                assert_eq!(count(&set) - count(&clear), distinct.len() as u32, "{at}");
                let found: u64 = wanted.iter().map(|&doc| has(doc, &words)).sum();
                assert_eq!(slices.count(span, &words), found, "{at}");
                if last == first + 1 {
                    let part = read(&slices, slices.narrow(span, window, documents as u32), 100);
                    let inside = |doc: &&u32| (window.0..window.1).contains(doc);
                    assert!(part.iter().filter(inside).eq(wanted.iter().filter(inside)), "{at}");
                    let beside = part.iter().filter(|doc| !inside(doc)).count();
                    assert!(beside <= 2 << bits, "{at}: {beside} beside the window");
                }
            });
        }
    }

    #[test]
    fn long_lists_are_divided_where_that_saves_an_eighth() {
        let of = |documents, keys, per_key| low_bits(documents, keys, keys * per_key);
        assert_eq!(of(1_000_000, 1000, 1000), 9, "2 bits and the high bits instead of 20");
        assert_eq!(of(1_000_000, 100_000, 10), 20, "short lists");
        assert_eq!(of(4096, 10, 400), 12, "a small partition");
        assert_eq!(of(100_000, 10, 0), 17, "nothing");
        assert_eq!(of(1 << 26, 1, 1 << 25), 0, "a bit or two a document");
    }

    #[test]
    fn bytes_are_as_specified() {
        // Ten documents, two low bits: three buckets a key.
        let (lows, highs) = bytes(10, 2, &[vec![1, 2, 9], vec![4, 5]]);
        assert_eq!(lows, [0b00_01_10_01, 0b01, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(highs, [0b1001_0011, 0b001, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn damaged_high_bits_give_some_documents_and_an_end() {
        let mut rng = Rng(7);
        let lists: Vec<Vec<u32>> = (0..3).map(|_| (0..5000).step_by(9).collect()).collect();
        let (lows, highs) = bytes(5000, 4, &lists);
        let entries = 3 * lists[0].len();
        assert!(Slices::new((&lows, &highs[8..]), (5000, 4), 3, entries).is_err());
        assert!(Slices::new((&lows, &highs), (5000, 4), 2, entries).is_err());
        assert!(Slices::new((&lows, &highs), (5000, 13), 3, entries).is_err());
        for round in 0..300 {
            let mut highs = highs.clone();
            match round % 3 {
                0 => highs.fill(0),
                1 => highs.fill(0xFF),
                _ => highs.iter_mut().for_each(|byte| *byte = rng.next() as u8),
            }
            let slices = Slices::new((&lows, &highs), (5000, 4), 3, entries).unwrap();
            let any = |rng: &mut Rng| [rng.below(2000), usize::MAX - rng.below(3)][rng.below(2)];
            let keys = (any(&mut rng), any(&mut rng));
            let span = slices.span(keys, any(&mut rng), any(&mut rng));
            let mut bits = vec![0; 5000 / 64 + 1];
            with_each_version(|_| {
                assert!(read(&slices, span, 64).len() <= entries);
                read(&slices, slices.narrow(span, (70, 4000), 5000), 64);
                slices.set(span, &mut bits);
            });
        }
    }
}
