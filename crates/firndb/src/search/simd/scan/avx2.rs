//! Column scans with AVX2. Numbers of less than 8 bits are moved to 16-bit lanes, 16 at a time;
//! since AVX2 has no variable shifts of 16-bit lanes, a multiplication moves them to the high end
//! of the lane, and a shift moves them back down. Numbers of 4 bits, two per byte, only need a
//! shift. Wider numbers are moved to 32-bit lanes (`unpack_avx2.rs`).
#![expect(unsafe_code, reason = "loads take addresses")]

use super::ordinal_set::Keys;
use super::whole;
use crate::bytes::packed::Packed;
use crate::search::simd::kernels;
use crate::search::simd::unpack_avx2::{self, Range};
use std::arch::x86_64::*;

/// For each width and each of eight numbers, the source of the two bytes of its lane, and its
/// factor.
static UNPACK_TABLE: [([u8; 16], [i16; 8]); 9] = unpack_table();

const fn unpack_table() -> [([u8; 16], [i16; 8]); 9] {
    let mut cuts = [([0; 16], [0; 8]); 9];
    let mut at = 0;
    while at < cuts.len() * 8 {
        let (bits, i) = (at / 8, at % 8);
        let (byte, bit) = (i * bits / 8, i * bits % 8);
        cuts[bits].0[2 * i] = byte as u8;
        cuts[bits].0[2 * i + 1] = byte as u8 + 1;
        cuts[bits].1[i] = if bits == 0 { 0 } else { 1 << (16 - bits - bit) };
        at += 1;
    }
    cuts
}

/// The constants that unpack twice eight numbers of some width, each from 16 bytes.
struct Unpacker {
    bits: usize,
    places: __m256i,
    factors: __m256i,
    shift: __m128i,
}

impl Unpacker {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(bits: usize) -> Unpacker {
        let (places, factors) = &UNPACK_TABLE[bits];
        // SAFETY: both arrays have 16 bytes; the loads need no alignment.
        let [places, factors] = unsafe {
            [places.as_ptr().cast(), factors.as_ptr().cast()].map(|at| _mm_loadu_si128(at))
        };
        let [places, factors] = [places, factors].map(|of| _mm256_broadcastsi128_si256(of));
        Unpacker { bits, places, factors, shift: _mm_cvtsi32_si128(16 - bits as i32) }
    }

    /// Unpacks the 32 numbers that start at an address to bytes.
    ///
    /// # Safety
    /// 16 bytes must be readable from every eighth number on, and at least the bytes of 32 numbers.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn numbers(&self, at: *const u8) -> __m256i {
        if self.bits == 8 {
            // SAFETY: 32 bytes are readable; the load needs no alignment.
            return unsafe { _mm256_loadu_si256(at.cast()) };
        }
        // Packing interleaves groups of eight numbers of both operands.
        // SAFETY: the caller guarantees it.
        let (even, odd) = unsafe { (self.sixteen(at), self.sixteen(at.add(self.bits))) };
        _mm256_packus_epi16(even, odd)
    }

    /// Unpacks the eight numbers that start at an address, and the eight that start 16 numbers
    /// later, to 16-bit lanes.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn sixteen(&self, at: *const u8) -> __m256i {
        // SAFETY: 16 bytes are readable at both addresses; the loads need no alignment.
        let (low, high) =
            unsafe { (_mm_loadu_si128(at.cast()), _mm_loadu_si128(at.add(2 * self.bits).cast())) };
        let both = _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high);
        let lanes = _mm256_shuffle_epi8(both, self.places);
        _mm256_srl_epi16(_mm256_mullo_epi16(lanes, self.factors), self.shift)
    }
}

/// [`super::fill`] for the words whose bytes can be loaded. Returns their number.
#[target_feature(enable = "avx2")]
pub(crate) fn fill(column: Packed, keys: &Keys, first: usize, out: &mut [u64]) -> usize {
    let bits = column.raw().1;
    if bits == 0 || bits > 8 {
        return 0;
    }
    let (bytes, out) = whole(column, first, out);
    let [a, b, c, d] = keys.0.map(|word| word as i64);
    let (low, high) = (_mm256_set_epi64x(b, a, b, a), _mm256_set_epi64x(d, c, d, c));
    let powers = _mm256_set1_epi64x(0x8040_2010_0804_0201u64 as i64);
    let ends = [7, 15, 31, -128].map(|end| _mm256_set1_epi8(end));
    let holds = |byte, mask| _mm256_cmpeq_epi8(_mm256_and_si256(byte, mask), mask);
    match bits {
        4 => fill_nibbles(bytes, table(keys), out),
        ..=3 => {
            let table = table(keys);
            fill_by(bytes, bits, out, |numbers| _mm256_shuffle_epi8(table, numbers))
        }
        // Look up the byte of the bitset, and test the bit in it.
        5..=7 => fill_by(bytes, bits, out, |numbers| {
            let eighth = _mm256_and_si256(_mm256_srli_epi16::<3>(numbers), ends[1]);
            holds(_mm256_shuffle_epi8(low, eighth), _mm256_shuffle_epi8(powers, numbers))
        }),
        _ => fill_by(bytes, bits, out, |numbers| {
            let eighth = _mm256_and_si256(_mm256_srli_epi16::<3>(numbers), ends[2]);
            let top = _mm256_and_si256(numbers, ends[3]);
            // A shuffle returns 0 for an index with the top bit set, so that only one of the two
            // tables contributes.
            let byte = _mm256_or_si256(
                _mm256_shuffle_epi8(low, _mm256_or_si256(eighth, top)),
                _mm256_shuffle_epi8(high, _mm256_sub_epi8(eighth, _mm256_set1_epi8(16))),
            );
            holds(byte, _mm256_shuffle_epi8(powers, _mm256_and_si256(numbers, ends[0])))
        }),
    }
}

/// For each number below 16 a byte that is 0xFF if the number is in the set, else 0; twice.
#[inline]
#[target_feature(enable = "avx2")]
fn table(keys: &Keys) -> __m256i {
    let mut table = [0u8; 16];
    for (ord, byte) in (0..).zip(&mut table) {
        *byte = 0u8.wrapping_sub(keys.bit(ord) as u8);
    }
    // SAFETY: the array has 16 bytes; the load needs no alignment.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(table.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx2")]
fn fill_by(
    bytes: &[u8],
    bits: usize,
    out: &mut [u64],
    look_up: impl Fn(__m256i) -> __m256i,
) -> usize {
    let cut = Unpacker::new(bits);
    // Each load reads 16 bytes, of which the first `bits` are used.
    let words = out.len().min(kernels::loads(bytes.len(), 7 * bits + 16, 8 * bits));
    for (i, word) in out[..words].iter_mut().enumerate() {
        // SAFETY: the bytes of all these words are readable.
        let numbers = unsafe {
            let at = bytes.as_ptr().add(i * 8 * bits);
            [cut.numbers(at), cut.numbers(at.add(4 * bits))]
        };
        let low = _mm256_movemask_epi8(look_up(numbers[0])) as u32;
        let high = _mm256_movemask_epi8(look_up(numbers[1])) as u32;
        *word = u64::from(low) | u64::from(high) << 32;
    }
    words
}

/// The lower and the upper nibbles of bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn nibbles(bytes: &[u8; 32]) -> [__m256i; 2] {
    // SAFETY: the array has 32 bytes; the load needs no alignment.
    let both = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
    let low = _mm256_set1_epi8(15);
    [both, _mm256_srli_epi16::<4>(both)].map(|of| _mm256_and_si256(of, low))
}

/// [`fill`] for numbers of 4 bits; 64 of them are exactly 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn fill_nibbles(bytes: &[u8], table: __m256i, out: &mut [u64]) -> usize {
    let windows = bytes.as_chunks::<32>().0;
    for (window, word) in windows.iter().zip(&mut *out) {
        let [even, odd] = nibbles(window).map(|numbers| _mm256_shuffle_epi8(table, numbers));
        // The first and third 16 numbers, and the second and fourth.
        let [ac, bd] = [_mm256_unpacklo_epi8(even, odd), _mm256_unpackhi_epi8(even, odd)]
            .map(|found| u64::from(_mm256_movemask_epi8(found) as u32));
        *word = ac & 0xFFFF | (bd & 0xFFFF) << 16 | (ac >> 16) << 32 | (bd >> 16) << 48;
    }
    windows.len().min(out.len())
}

/// Counts the documents whose ordinals are in the sets in both of two 4-bit columns, for all full
/// groups of 64 documents. Returns the number of groups, and the count.
#[target_feature(enable = "avx2")]
pub(crate) fn count_nibbles(a: (Packed, &Keys), b: (Packed, &Keys)) -> (usize, u64) {
    let words = a.0.len().min(b.0.len()) / 64;
    let tables = [a, b].map(|(_, keys)| table(keys));
    let [a, b] = [a, b].map(|(column, _)| column.raw().0.as_chunks::<32>().0);
    let words = words.min(a.len()).min(b.len());
    let zero = _mm256_setzero_si256();
    let mut sums = zero;
    // 8-bit lanes count up to 255, and each word adds at most two per lane.
    for (a, b) in a[..words].chunks(127).zip(b[..words].chunks(127)) {
        let mut counts = zero;
        for (a, b) in a.iter().zip(b) {
            let ([a0, a1], [b0, b1]) = (nibbles(a), nibbles(b));
            for (a, b) in [(a0, b0), (a1, b1)] {
                let (a, b) = (_mm256_shuffle_epi8(tables[0], a), _mm256_shuffle_epi8(tables[1], b));
                // A match is all ones, which is -1.
                counts = _mm256_sub_epi8(counts, _mm256_and_si256(a, b));
            }
        }
        sums = _mm256_add_epi64(sums, _mm256_sad_epu8(counts, zero));
    }
    let of = [_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums)];
    let both = _mm_add_epi64(of[0], of[1]);
    (words, (_mm_cvtsi128_si64(both) + _mm_extract_epi64::<1>(both)) as u64)
}

/// [`super::fill`] for the `len` ordinals from `first_ord` on, for the words whose bytes can be
/// loaded. Returns their number.
#[target_feature(enable = "avx2")]
pub(crate) fn fill_range(
    column: Packed,
    (first_ord, len): (u32, u32),
    first: usize,
    out: &mut [u64],
) -> usize {
    let bits = column.raw().1;
    if bits == 0 || bits > unpack_avx2::MAX_BITS {
        return 0;
    }
    let (bytes, out) = whole(column, first, out);
    let range = Range::new(bits, first_ord, len);
    let words = out.len().min(kernels::loads(bytes.len(), Range::loaded(bits), 8 * bits));
    // SAFETY: the bytes of all these words are readable.
    unsafe { range.fill(bytes.as_ptr(), &mut out[..words]) };
    words
}
