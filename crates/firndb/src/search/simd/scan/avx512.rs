//! Column scans with AVX-512 VBMI: two instructions move and shift numbers into their lanes.
#![expect(unsafe_code, reason = "loads take addresses")]

use super::ordinal_set::Keys;
use super::whole;
use crate::bytes::packed::Packed;
use std::arch::x86_64::*;

/// For each width, the source of the bytes of each of eight 64-bit lanes, which hold eight numbers
/// each, and the bit at which each number starts in its lane.
static UNPACK_TABLE: [[[u8; 64]; 2]; 9] = unpack_table();

const fn unpack_table() -> [[[u8; 64]; 2]; 9] {
    let mut cuts = [[[0; 64]; 2]; 9];
    let mut at = 0;
    while at < cuts.len() * 64 {
        let (bits, lane, i) = (at / 64, at / 8 % 8, at % 8);
        // Indices beyond the load belong to bytes that are not used.
        let place = lane * bits + i;
        cuts[bits][0][at % 64] = if place < 64 { place as u8 } else { 63 };
        cuts[bits][1][at % 64] = (i * bits) as u8;
        at += 1;
    }
    cuts
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: the array has 64 bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// Prefetches the bytes one page ahead. The hardware prefetcher stops at page boundaries, and
/// columns that are scanned one after another do not stay in the upper cache levels.
#[inline]
#[target_feature(enable = "avx512f")]
fn prefetch_ahead(bytes: &[u8], at: usize) {
    _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(at + 4096).cast());
}

/// For each number a byte that is 0xFF if the number is in the set, else 0.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn tables(keys: &Keys, bits: usize) -> [__m512i; 4] {
    let mut tables = [_mm512_setzero_si512(); 4];
    for (table, word) in tables.iter_mut().zip(keys.repeated(bits)) {
        *table = _mm512_movm_epi8(word);
    }
    tables
}

/// [`super::fill`] for the words whose bytes can be loaded. Returns their number.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
pub(crate) fn fill(column: Packed, keys: &Keys, first: usize, out: &mut [u64]) -> usize {
    let bits = column.raw().1;
    if bits == 0 || bits > 8 {
        return 0;
    }
    let (bytes, out) = whole(column, first, out);
    let tables = tables(keys, bits);
    match bits {
        7 => fill_by(bytes, bits, out, |numbers| {
            _mm512_permutex2var_epi8(tables[0], numbers, tables[1])
        }),
        8 => fill_by(bytes, bits, out, |numbers| {
            let low = _mm512_permutex2var_epi8(tables[0], numbers, tables[1]);
            let high = _mm512_permutex2var_epi8(tables[2], numbers, tables[3]);
            _mm512_mask_blend_epi8(_mm512_movepi8_mask(numbers), low, high)
        }),
        _ => fill_by(bytes, bits, out, |numbers| _mm512_permutexvar_epi8(numbers, tables[0])),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn fill_by(
    bytes: &[u8],
    bits: usize,
    out: &mut [u64],
    look_up: impl Fn(__m512i) -> __m512i,
) -> usize {
    let [places, starts] = &UNPACK_TABLE[bits];
    let (places, starts) = (load(places), load(starts));
    for (i, word) in out.iter_mut().enumerate() {
        prefetch_ahead(bytes, i * 8 * bits);
        let window = bytes.get(i * 8 * bits..).and_then(<[u8]>::first_chunk);
        let Some(window) = window else { return i };
        let lanes = _mm512_permutexvar_epi8(places, load(window));
        let numbers = _mm512_multishift_epi64_epi8(starts, lanes);
        *word = _mm512_movepi8_mask(look_up(numbers));
    }
    out.len()
}

/// Counts the documents whose ordinals are in the sets in both of two 4-bit columns, for all full
/// groups of 128 documents. Returns the number of words of 64 documents, and the count. The order
/// of documents does not matter, so the two numbers of each byte are not moved.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,popcnt")]
pub(crate) fn count_nibbles(a: (Packed, &Keys), b: (Packed, &Keys)) -> (usize, u64) {
    let [of_a, of_b] = [a, b].map(|(_, keys)| tables(keys, 4)[0]);
    let documents = a.0.len().min(b.0.len());
    let [a, b] = [a, b].map(|(column, _)| column.raw().0.chunks_exact(64));
    let (mut word, mut sum) = (0, 0);
    for (a, b) in a.zip(b).take(documents / 128) {
        let (Some(a), Some(b)) = (a.first_chunk(), b.first_chunk()) else { break };
        let (a, b) = (load(a), load(b));
        let low =
            _mm512_and_si512(_mm512_permutexvar_epi8(a, of_a), _mm512_permutexvar_epi8(b, of_b));
        let (a, b) = (_mm512_srli_epi16::<4>(a), _mm512_srli_epi16::<4>(b));
        let high =
            _mm512_and_si512(_mm512_permutexvar_epi8(a, of_a), _mm512_permutexvar_epi8(b, of_b));
        let both = [low, high].map(|found| u64::from(_mm512_movepi8_mask(found).count_ones()));
        sum += both[0] + both[1];
        word += 2;
    }
    (word, sum)
}

/// The maximum width at which numbers are compared in 16-bit lanes, 32 at a time. All ordinals,
/// and the number of a missing value, are then less than 2^16 - 1, as
/// [`super::OrdinalSet::others`] requires.
pub(crate) const HALF_BITS: usize = 15;

/// The maximum width for [`fill_range`]: a wider number may span more than the four bytes moved to
/// its lane.
pub(crate) const RANGE_BITS: usize = 25;

/// For each width above 8, the source of the bytes of each lane, and how far the lane is shifted.
/// Up to [`HALF_BITS`] there are 32 lanes of 16 bits, four of which come from 8 bytes; above, 16
/// lanes of 32 bits.
static RANGE_TABLE: [[[u8; 64]; 2]; RANGE_BITS + 1] = range_table();

const fn range_table() -> [[[u8; 64]; 2]; RANGE_BITS + 1] {
    let mut cuts = [[[0; 64]; 2]; RANGE_BITS + 1];
    let mut at = 0;
    while at < cuts.len() * 64 {
        let (bits, i) = (at / 64, at % 64);
        let [places, shifts] = &mut cuts[bits];
        if bits <= HALF_BITS {
            let (start, number, half) = (i / 8 * 4 * bits, i % 8 / 2, i % 2);
            places[i] = (start / 8 + i % 8) as u8;
            shifts[i] = (start % 8 + number * bits + half * 8) as u8;
        } else {
            let start = i / 4 * bits;
            places[i] = (start / 8 + i % 4) as u8;
            shifts[i] = if i % 4 == 0 { (start % 8) as u8 } else { 0 };
        }
        at += 1;
    }
    cuts
}

/// [`super::fill`] for the `len` ordinals from `first_ord` on, for the words whose bytes can be
/// loaded. Returns their number.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
pub(crate) fn fill_range(
    column: Packed,
    (first_ord, len): (u32, u32),
    first: usize,
    out: &mut [u64],
) -> usize {
    let bits = column.raw().1;
    if bits > RANGE_BITS {
        return 0;
    }
    let (bytes, out) = whole(column, first, out);
    let [places, shifts] = &RANGE_TABLE[bits];
    let (places, shifts) = (load(places), load(shifts));
    let mask = ((1u32 << bits) - 1) as i32;
    if bits <= HALF_BITS {
        let (mask, least, len) = (
            _mm512_set1_epi16(mask as i16),
            _mm512_set1_epi16(first_ord as i16),
            _mm512_set1_epi16(len as i16),
        );
        return fill_parts::<2>(bytes, bits, out, |window| {
            let moved = _mm512_permutexvar_epi8(places, window);
            let numbers = _mm512_and_si512(_mm512_multishift_epi64_epi8(shifts, moved), mask);
            _mm512_cmplt_epu16_mask(_mm512_sub_epi16(numbers, least), len).into()
        });
    }
    let (mask, least, len) = (
        _mm512_set1_epi32(mask),
        _mm512_set1_epi32(first_ord as i32),
        _mm512_set1_epi32(len as i32),
    );
    fill_parts::<4>(bytes, bits, out, |window| {
        let moved = _mm512_permutexvar_epi8(places, window);
        let numbers = _mm512_and_si512(_mm512_srlv_epi32(moved, shifts), mask);
        _mm512_cmplt_epu32_mask(_mm512_sub_epi32(numbers, least), len).into()
    })
}

/// Computes each word in `PARTS` parts with the same number of documents. `test` returns the mask
/// of a part, given 64 bytes from its first number on.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn fill_parts<const PARTS: usize>(
    bytes: &[u8],
    bits: usize,
    out: &mut [u64],
    test: impl Fn(__m512i) -> u64,
) -> usize {
    for (i, word) in out.iter_mut().enumerate() {
        let (start, part) = (i * 8 * bits, 8 / PARTS * bits);
        prefetch_ahead(bytes, start);
        let Some(window) = bytes.get(start..start + 8 * bits - part + 64) else { return i };
        *word = 0;
        for i in 0..PARTS {
            let Some(window) = window[i * part..].first_chunk() else { break };
            *word |= test(load(window)) << (64 / PARTS * i);
        }
    }
    out.len()
}
