//! Bins of a field that is asked for by ranges: in which of 32 shares, equal and in the order
//! of their keys, each document is. (A binned bit-sliced index: O'Neil & Quass 1997, Wu & Yu 1998.)
//!
//! A range of keys is then the documents of some bins, found by comparing all bins with two numbers
//! 64 documents at a time, and at each end the documents between the bound of a bin and that of the
//! range, half a share at most, one by one.
//!
//! ```text
//! OFFSET  SIZE  FIELD
//! 0       8 n   bounds, ascending: n ordinals
//! 8 n     ..    for every 4096 documents bit 0 of their bins, then bit 1, and so on: 64 words each
//! ```
//! The bin of a document is how many bounds are not above its ordinal. A document without a value
//! has all of them below it: the number of distinct keys is a bound if there are such documents.
//! Documents behind the last have bin 0.
#![expect(unsafe_code, reason = "loads take addresses; features are detected at run time")]

use crate::bytes::int::{Encoder, u64_at};
use crate::bytes::packed::width;
use crate::search::simd::kernels;
use crate::{Error, Result};

/// Bins of a field whose documents all have a value, or one less, so that five bits tell.
const BINS: usize = 32;
/// Words of a plane that stand together.
const ROW: usize = 64;
/// Documents of a row.
const GROUP: usize = ROW * 64;

/// Bytes of the planes.
fn size(bounds: usize, documents: usize) -> usize {
    documents.div_ceil(GROUP) * usize::from(width(bounds as u64)) * ROW * 8
}

/// The bounds and planes of a field: `sums[o]` postings are before those of key o, and `docs` are
/// all of them, one for each document that has a value. Gives the number of bounds, too.
pub(crate) fn encode(sums: &[u32], docs: &[u32], documents: usize) -> (u8, Vec<u8>) {
    let distinct = sums.len() - 1;
    let lacking = docs.len() < documents;
    let shares = BINS - usize::from(lacking);
    let share = |i| sums.partition_point(|&sum| (sum as usize) < docs.len() * i / shares);
    let mut bounds: Vec<usize> = (1..shares).map(share).collect();
    if lacking {
        bounds.push(distinct);
    }
    bounds.dedup();
    let mut out = Encoder::default();
    bounds.iter().for_each(|&bound| out.u64(bound as u64));
    let (head, planes) = (out.0.len(), usize::from(width(bounds.len() as u64)));
    out.0.resize(head + size(bounds.len(), documents), 0);
    let area = &mut out.0[head..];
    let mut bin_of = vec![bounds.len() as u8; documents];
    let ends = bounds.iter().copied().chain([distinct]);
    let mut start = 0;
    for (bin, end) in ends.enumerate().take(bounds.len() + usize::from(!lacking)) {
        let end = sums[end] as usize;
        docs[start..end].iter().for_each(|&doc| bin_of[doc as usize] = bin as u8);
        start = end;
    }
    for (doc, bin) in bin_of.iter().enumerate() {
        for plane in (0..planes).filter(|plane| bin >> plane & 1 == 1) {
            area[place(planes, doc, plane)] |= 1 << (doc % 8);
        }
    }
    (bounds.len() as u8, out.0)
}

/// The byte with a document's bit of a plane.
fn place(planes: usize, doc: usize, plane: usize) -> usize {
    (doc / GROUP * planes + plane) * ROW * 8 + doc % GROUP / 8
}

/// Bins over bytes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Bins<'a> {
    bounds: &'a [u8],
    rows: &'a [u8],
    planes: usize,
    documents: u32,
}

impl<'a> Bins<'a> {
    /// Checks the size.
    pub(crate) fn new(bytes: &'a [u8], bounds: u8, documents: u32) -> Result<Bins<'a>> {
        let head = 8 * usize::from(bounds);
        let size = size(bounds.into(), documents as usize);
        if bytes.len() != head + if bounds > 0 { size } else { 0 } {
            return Err(Error::corrupt("the bins of a field have a wrong size"));
        }
        let (bounds, rows) = bytes.split_at(head);
        Ok(Bins { bounds, rows, planes: usize::from(width(head as u64 / 8)), documents })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bounds.is_empty()
    }

    /// The number of bounds.
    pub(crate) fn len(&self) -> usize {
        self.bounds.len() / 8
    }

    /// The ordinal at which bin `i + 1` begins; of a damaged file anything.
    pub(crate) fn bound(&self, i: usize) -> u64 {
        u64_at(self.bounds, 8 * i)
    }

    /// The bin of a document.
    pub(crate) fn of(&self, doc: u32) -> u32 {
        let bit = |plane| {
            let byte = self.rows.get(place(self.planes, doc as usize, plane)).unwrap_or(&0);
            u32::from(byte >> (doc % 8) & 1) << plane
        };
        (0..self.planes).map(bit).sum()
    }

    /// Whether what stands behind the last document is in bin 0.
    pub(crate) fn ends_in_zeros(&self) -> bool {
        let end = self.documents.next_multiple_of(GROUP as u32);
        (self.documents..end).all(|doc| self.of(doc) == 0)
    }

    /// Sets `bits`, whatever they are, to the documents of the bins `start..end`.
    pub(crate) fn set(&self, bins: (u32, u32), bits: &mut [u64]) {
        self.set_rows(bins, bits);
        // What stands behind the last document has a bin, too.
        if let Some(last) = bits.get_mut(self.documents as usize / 64) {
            *last &= (1 << (self.documents % 64)) - 1;
        }
    }

    fn set_rows(&self, bins: (u32, u32), bits: &mut [u64]) {
        #[cfg(target_arch = "x86_64")]
        if kernels::is_wide() {
            // SAFETY: the processor has the features.
            return unsafe { wide::set(self.rows, self.planes, bins, bits) };
        }
        set(self.rows, self.planes, bins, bits);
    }

    /// How many documents of the bins `start..end` are in a bitset.
    pub(crate) fn count(&self, (start, end): (u32, u32), bits: &[u64]) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if kernels::is_wide() {
            // SAFETY: the processor has the features.
            return unsafe { wide::count(self.rows, self.planes, (start, end), bits) };
        }
        count(self.rows, self.planes, (start, end), bits)
    }
}

kernels::dispatch! {
    set(rows: &[u8], planes: usize, bins: (u32, u32), bits: &mut [u64]) -> () = set_body
}
kernels::dispatch! {
    count(rows: &[u8], planes: usize, bins: (u32, u32), bits: &[u64]) -> u64 = count_body
}

/// A word of each plane for every 64 documents of a group.
type Row = [u64; ROW];

#[inline(always)]
fn set_body(rows: &[u8], planes: usize, (start, end): (u32, u32), bits: &mut [u64]) {
    let (mut low, mut high) = ([0; ROW], [0; ROW]);
    for (bits, group) in bits.chunks_mut(ROW).zip(rows.chunks_exact(planes * ROW * 8)) {
        below(group, start, &mut low);
        below(group, end, &mut high);
        for ((bits, low), high) in bits.iter_mut().zip(&low).zip(&high) {
            *bits = high & !low;
        }
    }
}

#[inline(always)]
fn count_body(rows: &[u8], planes: usize, (start, end): (u32, u32), bits: &[u64]) -> u64 {
    let (mut low, mut high, mut sum) = ([0; ROW], [0; ROW], 0);
    for (bits, group) in bits.chunks(ROW).zip(rows.chunks_exact(planes * ROW * 8)) {
        below(group, start, &mut low);
        below(group, end, &mut high);
        for ((bits, low), high) in bits.iter().zip(&low).zip(&high) {
            sum += u64::from((bits & high & !low).count_ones());
        }
    }
    sum
}

/// The documents of a group whose bins are below `bin`. From the lowest bit on: a bin is below if
/// its bit is and the other's is not, or if the bits are alike and what is below them is.
#[inline(always)]
fn below(group: &[u8], bin: u32, out: &mut Row) {
    let (rows, _) = group.as_chunks::<{ ROW * 8 }>();
    *out = [if bin >> rows.len() == 0 { 0 } else { u64::MAX }; ROW];
    if bin >> rows.len() != 0 {
        return;
    }
    for (plane, row) in rows.iter().enumerate() {
        let (words, _) = row.as_chunks::<8>();
        if bin >> plane & 1 == 1 {
            for (out, word) in out.iter_mut().zip(words) {
                *out |= !u64_at(word, 0);
            }
        } else {
            for (out, word) in out.iter_mut().zip(words) {
                *out &= !u64_at(word, 0);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use super::ROW;
    use std::arch::x86_64::*;

    /// Words of a vector.
    const LANES: usize = 8;
    /// As many planes as a number of bounds can ask for.
    const PLANES: usize = 8;

    /// The bits of a number of a bin, each in all lanes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn spread(bin: u32) -> [__m512i; PLANES] {
        let mut lanes = [_mm512_setzero_si512(); PLANES];
        for (plane, lanes) in lanes.iter_mut().enumerate() {
            *lanes = _mm512_set1_epi64(-i64::from(bin >> plane & 1));
        }
        lanes
    }

    /// Calls `each` with the number of the first word, how many words there are, and the documents
    /// whose bins are in `start..end`, for each vector of a bitset.
    #[inline]
    #[target_feature(enable = "avx512f,avx512vpopcntdq")]
    fn each(
        rows: &[u8],
        planes: usize,
        (start, end): (u32, u32),
        words: usize,
        mut each: impl FnMut(usize, __mmask8, __m512i),
    ) {
        let all = |bin: u32| _mm512_set1_epi64(-i64::from(bin >> planes != 0));
        let (no_low, all_high) = (all(start), all(end));
        let (start, end) = (spread(start), spread(end));
        let groups = rows.chunks_exact(planes * ROW * 8).enumerate();
        for (first, group) in groups.map(|(i, group)| (i * ROW, group)) {
            let (vectors, _) = group.as_chunks::<{ LANES * 8 }>();
            for at in (0..ROW).step_by(LANES) {
                let Some(left @ 1..) = words.checked_sub(first + at) else { return };
                let (mut low, mut high) = (_mm512_setzero_si512(), _mm512_setzero_si512());
                for plane in 0..planes.min(PLANES) {
                    let vector = &vectors[(plane * ROW + at) / LANES];
                    // SAFETY: 64 bytes are there; the load needs no alignment.
                    let bits = unsafe { _mm512_loadu_si512(vector.as_ptr().cast()) };
                    // (!bits & (below | of)) | (below & of): the majority of the three.
                    low = _mm512_ternarylogic_epi64::<0b1000_1110>(bits, low, start[plane]);
                    high = _mm512_ternarylogic_epi64::<0b1000_1110>(bits, high, end[plane]);
                }
                (low, high) = (_mm512_or_si512(low, no_low), _mm512_or_si512(high, all_high));
                let mask = if left < LANES { (1 << left) - 1 } else { __mmask8::MAX };
                each(first + at, mask, _mm512_andnot_si512(low, high));
            }
        }
    }

    #[target_feature(enable = "avx512f,avx512vpopcntdq")]
    pub(super) fn set(rows: &[u8], planes: usize, bins: (u32, u32), bits: &mut [u64]) {
        let words = bits.len();
        each(rows, planes, bins, words, |first, mask, found| {
            let to = bits[first..].as_mut_ptr();
            // SAFETY: `mask` has the lanes that are in `bits`.
            unsafe { _mm512_mask_storeu_epi64(to.cast(), mask, found) };
        });
    }

    #[target_feature(enable = "avx512f,avx512vpopcntdq")]
    pub(super) fn count(rows: &[u8], planes: usize, bins: (u32, u32), bits: &[u64]) -> u64 {
        let mut sums = _mm512_setzero_si512();
        each(rows, planes, bins, bits.len(), |first, mask, found| {
            let from = bits[first..].as_ptr();
            // SAFETY: `mask` has the lanes that are in `bits`.
            let bits = unsafe { _mm512_maskz_loadu_epi64(mask, from.cast()) };
            let both = _mm512_and_si512(bits, found);
            sums = _mm512_add_epi64(sums, _mm512_popcnt_epi64(both));
        });
        _mm512_reduce_add_epi64(sums) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::simd::kernels::tests::with_each_version;
    use crate::search::testing::Rng;

    /// Sums and documents of keys that lie at random; some documents may have none.
    fn field(rng: &mut Rng, documents: usize, keys: usize, lacking: bool) -> (Vec<u32>, Vec<u32>) {
        let mut of: Vec<Vec<u32>> = vec![Vec::new(); keys];
        for doc in (0..documents).filter(|doc| !lacking || doc % 7 != 3) {
            of[rng.below(keys)].push(doc as u32);
        }
        let mut sums = vec![0];
        of.iter().for_each(|docs| sums.push(sums.last().unwrap() + docs.len() as u32));
        (sums, of.concat())
    }

    #[test]
    fn bins_are_shares_of_the_keys_and_ranges_of_them_their_documents() {
        let seed = 0xB1_5EED;
        println!("seed {seed:#x}");
        let mut rng = Rng(seed);
        for round in 0..40 {
            let documents = [1, 64, 100, 4095, 4096, 4097, 8192, 9000][rng.below(8)];
            let (keys, lacking) = (1 + rng.below(300), round % 2 == 1);
            let (sums, docs) = field(&mut rng, documents, keys, lacking);
            let (bounds, bytes) = encode(&sums, &docs, documents);
            assert!(bounds < 32, "five planes: {bounds} bounds");
            assert!(Bins::new(&bytes[1..], bounds, documents as u32).is_err());
            let bins = Bins::new(&bytes, bounds, documents as u32).unwrap();
            let mut bin_of = vec![bins.len() as u32; documents];
            for ord in 0..keys {
                let bin = (0..bins.len()).filter(|&i| bins.bound(i) <= ord as u64).count();
                let of = &docs[sums[ord] as usize..sums[ord + 1] as usize];
                of.iter().for_each(|&doc| bin_of[doc as usize] = bin as u32);
            }
            assert!((0..documents).all(|doc| bins.of(doc as u32) == bin_of[doc]));
            let (start, end) = (rng.below(34) as u32, rng.below(34) as u32);
            let before: Vec<u64> = (0..documents.div_ceil(64)).map(|_| rng.next()).collect();
            with_each_version(|version| {
                let mut bits = before.clone();
                bins.set((start, end), &mut bits);
                let has = |bits: &[u64], doc: usize| bits[doc / 64] >> (doc % 64) & 1 == 1;
                let inside =
                    |doc: &usize| bin_of.get(*doc).is_some_and(|bin| (start..end).contains(bin));
                let at = format!("{version}, round {round}, bins {start}..{end} of {bounds}");
                assert!((0..bits.len() * 64).all(|doc| has(&bits, doc) == inside(&doc)), "{at}");
                let both = (0..documents).filter(inside).filter(|&doc| has(&before, doc)).count();
                let mut clean = before.clone();
                if documents % 64 != 0 {
                    *clean.last_mut().unwrap() &= (1 << (documents % 64)) - 1;
                }
                assert_eq!(bins.count((start, end), &clean), both as u64, "{at}");
            });
        }
    }

    #[test]
    fn shares_are_equal() {
        let mut rng = Rng(5);
        let (sums, docs) = field(&mut rng, 64_000, 20_000, false);
        let (bounds, bytes) = encode(&sums, &docs, 64_000);
        assert_eq!(bounds, 31);
        let bins = Bins::new(&bytes, bounds, 64_000).unwrap();
        let mut sizes = [0; 32];
        (0..64_000).for_each(|doc| sizes[bins.of(doc) as usize] += 1);
        assert!(sizes.iter().all(|size| (1_950..2_050).contains(size)), "{sizes:?}");
    }
}
