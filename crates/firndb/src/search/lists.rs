//! Packed lists of documents against bitsets: counting and setting, many documents at a time;
//! joining low and high bits to documents; and which of 64 packed numbers are in a range.
//!
//! Most of the time of a range query goes into the documents between the bound of a bin and the
//! end of the range: thousands that stand in no order. Unpacking them one by one is half of that.
//! With AVX-512 VBMI one instruction moves the bytes of 16 numbers to their places; a gather looks
//! 16 documents up. Everywhere else `Packed::for_each` does it; the answers are the same.
#![expect(
    unsafe_code,
    reason = "loads and gathers take addresses; features are detected at run time"
)]

use super::kernels;
use crate::bytes::int::u64_at;
use crate::bytes::packed::Packed;

/// Numbers that are unpacked at a time.
#[cfg(target_arch = "x86_64")]
const LANES: usize = 16;

/// What is done to the bits of documents.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bit {
    Set,
    Clear,
}

/// How many of the documents `first..last` of a list are in a bitset.
pub(crate) fn count(list: Packed, first: usize, last: usize, bits: &[u64]) -> u64 {
    let mut total = 0;
    let mut one = |doc: u32| {
        total += bits.get(doc as usize / 64).map_or(0, |word| word >> (doc % 64) & 1);
    };
    #[cfg(target_arch = "x86_64")]
    if let Some((start, end)) = wide::groups(list, first, last) {
        list.for_each(first, start, &mut one);
        list.for_each(end, last, &mut one);
        // SAFETY: `groups` gives nothing on processors without the features.
        return total + unsafe { wide::count(list, start, end, bits) };
    }
    list.for_each(first, last, one);
    total
}

/// Sets the bits of the documents `first..last` of a list.
pub(crate) fn set(list: Packed, first: usize, last: usize, bits: &mut [u64]) {
    change(list, first, last, bits, Bit::Set);
}

/// Clears the bits of the documents `first..last` of a list.
pub(crate) fn clear(list: Packed, first: usize, last: usize, bits: &mut [u64]) {
    change(list, first, last, bits, Bit::Clear);
}

#[inline(always)]
fn change(list: Packed, first: usize, last: usize, bits: &mut [u64], bit: Bit) {
    #[cfg(target_arch = "x86_64")]
    if let Some((start, end)) = wide::groups(list, first, last) {
        list.for_each(first, start, |doc| change_one(bits, doc, bit));
        // SAFETY: `groups` gives nothing on processors without the features.
        unsafe { wide::change(list, start, end, bits, bit) };
        list.for_each(end, last, |doc| change_one(bits, doc, bit));
        return;
    }
    list.for_each(first, last, |doc| change_one(bits, doc, bit));
}

/// Sets the bits of documents.
pub(crate) fn set_each(docs: &[u32], bits: &mut [u64]) {
    docs.iter().for_each(|&doc| change_one(bits, doc, Bit::Set));
}

/// Clears the bits of documents.
pub(crate) fn clear_each(docs: &[u32], bits: &mut [u64]) {
    docs.iter().for_each(|&doc| change_one(bits, doc, Bit::Clear));
}

/// How many documents are in a bitset.
pub(crate) fn count_each(docs: &[u32], bits: &[u64]) -> u64 {
    let bit = |&doc: &u32| bits.get(doc as usize / 64).map_or(0, |word| word >> (doc % 64) & 1);
    docs.iter().map(bit).sum()
}

/// Appends the numbers of the set bits of words, plus `base`; `mask` says which bits of the first
/// word count.
pub(crate) fn push_ones(words: &[u8], mask: u64, base: u32, out: &mut Vec<u32>) {
    #[cfg(target_arch = "x86_64")]
    if kernels::can_move_bytes() {
        // SAFETY: the processor has the features.
        return unsafe { wide::push_ones(words, mask, base, out) };
    }
    let mut mask = mask;
    for (i, word) in words.as_chunks::<8>().0.iter().enumerate() {
        kernels::push_word(u64_at(word, 0) & mask, base + i as u32 * 64, out);
        mask = u64::MAX;
    }
}

/// Which of 64 packed numbers are at least `low` and less than `span` above it: bit i says it of
/// number i.
pub(crate) fn inside(bytes: &[u8], bits: u8, low: u32, span: u32) -> u64 {
    let bits = usize::from(bits);
    #[cfg(target_arch = "x86_64")]
    if let Some(bytes) = wide::window_of(bytes, bits) {
        // SAFETY: `window_of` gives nothing on processors without the features.
        return unsafe { wide::inside(bytes, bits, low, span) };
    }
    let mask = (1u64 << bits) - 1;
    (0..64).fold(0, |found, i| {
        let number = (u64_at(bytes, i * bits / 8) >> (i * bits % 8) & mask) as u32;
        found | u64::from(number.wrapping_sub(low) < span) << i
    })
}

/// Makes documents of the bits that tell the buckets of the entries from `first` on: the bit of
/// entry j plus `before - j` is its bucket (modulo 2^32).
pub(crate) fn join(list: Packed, first: usize, before: u32, docs: &mut [u32]) {
    let mut start = 0;
    #[cfg(target_arch = "x86_64")]
    if let Some((from, end)) = wide::groups(list, first, first + docs.len()) {
        join_each(list, first, before, (0, from - first), docs);
        // SAFETY: `groups` gives nothing on processors without the features.
        unsafe { wide::join(list, first, before, (from - first, end - first), docs) };
        start = end - first;
    }
    join_each(list, first, before, (start, docs.len()), docs);
}

/// [`join`] of the entries `from..to`.
#[inline(always)]
fn join_each(
    list: Packed,
    first: usize,
    before: u32,
    (from, to): (usize, usize),
    docs: &mut [u32],
) {
    let bits = list.raw().1;
    for (j, doc) in docs[..to].iter_mut().enumerate().skip(from) {
        let bucket = doc.wrapping_add(before).wrapping_sub(j as u32);
        *doc = bucket << bits | list.get(first + j);
    }
}

#[inline(always)]
fn change_one(bits: &mut [u64], doc: u32, bit: Bit) {
    if let Some(word) = bits.get_mut(doc as usize / 64) {
        match bit {
            Bit::Set => *word |= 1 << (doc % 64),
            Bit::Clear => *word &= !(1 << (doc % 64)),
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use super::super::kernels;
    use super::{Bit, LANES, change_one};
    use crate::bytes::int::u64_at;
    use crate::bytes::packed::Packed;
    use std::arch::x86_64::*;

    /// A number of more bits does not fit the four bytes that are moved to its lane.
    const MOST_BITS: usize = 25;
    /// Fewer numbers are not worth the preparation.
    const FEW: usize = 64;

    /// The part of a list that can be unpacked 16 numbers at a time: from a byte border on, 64
    /// bytes readable for each 16 numbers. `None` if that is too little, or the processor cannot.
    pub(super) fn groups(list: Packed, first: usize, last: usize) -> Option<(usize, usize)> {
        let (bytes, bits) = list.raw();
        if last.saturating_sub(first) < FEW
            || bits == 0
            || bits > MOST_BITS
            || !kernels::can_move_bytes()
        {
            return None;
        }
        let start = first.next_multiple_of(8);
        let readable = bytes.len().checked_sub(start * bits / 8 + 64)? / (2 * bits) + 1;
        Some((start, start + LANES * readable.min((last - start) / LANES)))
    }

    /// How 16 numbers are cut out of 64 bytes.
    #[derive(Clone, Copy)]
    struct Cut {
        places: __m512i,
        shifts: __m512i,
        mask: __m512i,
    }

    /// For each width where the four bytes of a number's lane come from, and how far they are
    /// shifted down then.
    static CUTS: [[[u8; 64]; 2]; MOST_BITS + 1] = cuts();

    const fn cuts() -> [[[u8; 64]; 2]; MOST_BITS + 1] {
        let mut cuts = [[[0; 64]; 2]; MOST_BITS + 1];
        let mut at = 0;
        while at < cuts.len() * LANES * 4 {
            let (bits, i, j) = (at / (LANES * 4), at / 4 % LANES, at % 4);
            cuts[bits][0][4 * i + j] = (i * bits / 8 + j) as u8;
            cuts[bits][1][4 * i] = (i * bits % 8) as u8;
            at += 1;
        }
        cuts
    }

    impl Cut {
        /// For numbers of at most [`MOST_BITS`] bits.
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
        fn new(bits: usize) -> Cut {
            let [places, shifts] = &CUTS[bits];
            let mask = _mm512_set1_epi32((1 << bits) - 1);
            Cut { places: load(places), shifts: load(shifts), mask }
        }

        /// The 16 numbers whose first begins at a byte.
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
        fn unpack(self, bytes: &[u8; 64]) -> __m512i {
            let lanes = _mm512_permutexvar_epi8(self.places, load(bytes));
            _mm512_and_si512(_mm512_srlv_epi32(lanes, self.shifts), self.mask)
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(bytes: &[u8; 64]) -> __m512i {
        // SAFETY: 64 bytes are there; the load needs no alignment.
        unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
    }

    /// The 64 bytes at the numbers `i..i + 16`.
    #[inline(always)]
    fn window(bytes: &[u8], i: usize, bits: usize) -> Option<&[u8; 64]> {
        bytes.get(i / 8 * bits..)?.first_chunk()
    }

    /// The bytes of 64 numbers and of what is loaded behind them. `None` if there are not as many,
    /// or the processor cannot.
    #[inline(always)]
    pub(super) fn window_of(bytes: &[u8], bits: usize) -> Option<&[u8]> {
        let bytes = bytes.get(..6 * bits + 64)?;
        (bits <= MOST_BITS && kernels::can_move_bytes()).then_some(bytes)
    }

    /// [`super::inside`] of bytes that `window_of` gave.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
    pub(super) fn inside(bytes: &[u8], bits: usize, low: u32, span: u32) -> u64 {
        let cut = Cut::new(bits);
        let (low, span) = (_mm512_set1_epi32(low as i32), _mm512_set1_epi32(span as i32));
        let mut found = 0;
        for i in 0..4 {
            let Some(window) = window(bytes, LANES * i, bits) else { break };
            let above = _mm512_sub_epi32(cut.unpack(window), low);
            found |= u64::from(_mm512_cmplt_epu32_mask(above, span)) << (LANES * i);
        }
        found
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
    pub(super) fn count(list: Packed, start: usize, end: usize, words: &[u64]) -> u64 {
        let (bytes, bits) = list.raw();
        let cut = Cut::new(bits);
        let limit = u32::try_from(words.len() * 64).unwrap_or(u32::MAX);
        let limit = _mm512_set1_epi32(limit as i32);
        let (zero, one, low) =
            (_mm512_setzero_si512(), _mm512_set1_epi32(1), _mm512_set1_epi32(31));
        let mut sums = zero;
        for i in (start..end).step_by(LANES) {
            let Some(window) = window(bytes, i, bits) else { break };
            let docs = cut.unpack(window);
            let inside = _mm512_cmplt_epu32_mask(docs, limit);
            let halves = _mm512_srli_epi32::<5>(docs);
            // SAFETY: only lanes below `limit` are read, whose bits are in `words`.
            let found = unsafe {
                _mm512_mask_i32gather_epi32::<4>(zero, inside, halves, words.as_ptr().cast())
            };
            let shifted = _mm512_srlv_epi32(found, _mm512_and_si512(docs, low));
            sums = _mm512_add_epi32(sums, _mm512_and_si512(shifted, one));
        }
        // A sum of fewer than 2^32 documents.
        u64::from(_mm512_reduce_add_epi32(sums) as u32)
    }

    /// The numbers 0 to 15.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn lanes() -> __m512i {
        _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,popcnt")]
    pub(super) fn push_ones(words: &[u8], mask: u64, base: u32, out: &mut Vec<u32>) {
        let words = words.as_chunks::<8>().0;
        // Each store writes 16 lanes, of which few may count.
        out.reserve(64 * words.len() + LANES);
        let (mut at, mut mask) = (out.len(), mask);
        for (i, word) in words.iter().enumerate() {
            let word = u64_at(word, 0) & mask;
            mask = u64::MAX;
            for quarter in 0..4 {
                let ones = (word >> (16 * quarter)) as u16;
                let first = _mm512_set1_epi32((base + i as u32 * 64 + 16 * quarter) as i32);
                let found = _mm512_maskz_compress_epi32(ones, _mm512_add_epi32(first, lanes()));
                // SAFETY: `at` is below the room that was reserved for all bits, 16 lanes before
                // its end.
                unsafe { _mm512_storeu_si512(out.as_mut_ptr().add(at).cast(), found) };
                at += ones.count_ones() as usize;
            }
        }
        // SAFETY: so many were written, and there is room for them.
        unsafe { out.set_len(at) };
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
    pub(super) fn join(
        list: Packed,
        first: usize,
        before: u32,
        (from, to): (usize, usize),
        docs: &mut [u32],
    ) {
        let (bytes, bits) = list.raw();
        let (cut, high) = (Cut::new(bits), _mm_cvtsi32_si128(bits as i32));
        for j in (from..to).step_by(LANES) {
            let group = docs.get_mut(j..j + LANES);
            let (Some(window), Some(docs)) = (window(bytes, first + j, bits), group) else { break };
            let shift = _mm512_set1_epi32(before.wrapping_sub(j as u32) as i32);
            // SAFETY: 16 numbers are there; neither load nor store needs an alignment.
            let ones = unsafe { _mm512_loadu_si512(docs.as_ptr().cast()) };
            let of = _mm512_add_epi32(ones, _mm512_sub_epi32(shift, lanes()));
            let numbers = _mm512_or_si512(_mm512_sll_epi32(of, high), cut.unpack(window));
            // SAFETY: as above.
            unsafe { _mm512_storeu_si512(docs.as_mut_ptr().cast(), numbers) };
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
    pub(super) fn change(list: Packed, start: usize, end: usize, words: &mut [u64], bit: Bit) {
        let (bytes, bits) = list.raw();
        let cut = Cut::new(bits);
        let mut docs = [0u32; LANES];
        for i in (start..end).step_by(LANES) {
            let Some(window) = window(bytes, i, bits) else { break };
            let numbers = cut.unpack(window);
            // SAFETY: the array has room for 64 bytes; the store needs no alignment.
            unsafe { _mm512_storeu_si512(docs.as_mut_ptr().cast(), numbers) };
            for doc in docs {
                change_one(words, doc, bit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::packed::PackedWriter;
    use crate::search::kernels::tests::with_each_version;
    use crate::search::testing::Rng;

    #[test]
    fn lists_of_every_width_are_those_document_by_document() {
        let seed = 0x5E7_1157;
        println!("seed {seed:#x}");
        let mut rng = Rng(seed);
        for bits in 0..=32u8 {
            for round in 0..20 {
                let len = if round % 4 == 0 { rng.below(80) } else { 64 + rng.below(400) };
                // Some documents are beyond the bitset.
                let words = rng.below(70);
                let most = if bits < 13 { 1 << bits } else { words * 64 + 9 };
                let docs: Vec<u32> = (0..len).map(|_| rng.below(most.max(1)) as u32).collect();
                let mut w = PackedWriter::new(bits);
                let fit = |doc: u32| (u64::from(doc) & ((1 << bits) - 1)) as u32;
                let docs: Vec<u32> = docs.into_iter().map(fit).collect();
                docs.iter().for_each(|&doc| w.push(doc));
                let bytes = w.finish();
                let list = Packed::new(&bytes, bits, len).unwrap();
                let first = rng.below(len + 1);
                let last = first + rng.below(len - first + 1);
                let before: Vec<u64> = (0..words).map(|_| rng.next()).collect();
                let (mut with, mut without) = (before.clone(), before.clone());
                let mut total = 0;
                for &doc in &docs[first..last] {
                    let word = doc as usize / 64;
                    total += before.get(word).map_or(0, |bits| bits >> (doc % 64) & 1);
                    change_one(&mut with, doc, Bit::Set);
                    change_one(&mut without, doc, Bit::Clear);
                }
                with_each_version(|version| {
                    let at = format!("{version}, {bits} bits, {first}..{last} of {len}");
                    assert_eq!(count(list, first, last, &before), total, "{at}");
                    let (mut a, mut b) = (before.clone(), before.clone());
                    set(list, first, last, &mut a);
                    clear(list, first, last, &mut b);
                    assert!(a == with && b == without, "{at}");
                });
            }
        }
    }
}
