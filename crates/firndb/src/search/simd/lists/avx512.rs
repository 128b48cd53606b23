//! Packed lists with AVX-512 VBMI: one instruction moves the bytes of 16 numbers to their lanes.
#![expect(unsafe_code, reason = "loads and gathers take addresses")]

use super::set_one;
use crate::bytes::int::u64_at;
use crate::bytes::packed::Packed;
use crate::search::simd::kernels;
use std::arch::x86_64::*;

/// Numbers unpacked at a time.
const LANES: usize = 16;
/// The maximum width: a wider number may span more than the four bytes moved to its lane.
const MAX_BITS: usize = 25;
/// For fewer numbers the set-up does not pay off.
const MIN_LEN: usize = 64;

/// The part of a list that can be unpacked 16 numbers at a time: from a byte boundary to the last
/// group for which 64 bytes are readable. `None` if the list is too short or the processor lacks
/// AVX-512 VBMI.
pub(crate) fn groups(list: Packed, first: usize, last: usize) -> Option<(usize, usize)> {
    let (bytes, bits) = list.raw();
    if last.saturating_sub(first) < MIN_LEN
        || bits == 0
        || bits > MAX_BITS
        || !kernels::has_avx512_vbmi()
    {
        return None;
    }
    let start = first.next_multiple_of(8);
    let readable = kernels::loads(bytes.len(), start * bits / 8 + 64, 2 * bits);
    (readable > 0).then(|| (start, start + LANES * readable.min((last - start) / LANES)))
}

/// The constants that unpack 16 numbers of some width.
#[derive(Clone, Copy)]
struct Unpacker {
    places: __m512i,
    shifts: __m512i,
    mask: __m512i,
}

/// For each width, the source of the four bytes of each lane, and how far the lane is then shifted
/// right.
static UNPACK_TABLE: [[[u8; 64]; 2]; MAX_BITS + 1] = unpack_table();

const fn unpack_table() -> [[[u8; 64]; 2]; MAX_BITS + 1] {
    let mut cuts = [[[0; 64]; 2]; MAX_BITS + 1];
    let mut at = 0;
    while at < cuts.len() * LANES * 4 {
        let (bits, i, j) = (at / (LANES * 4), at / 4 % LANES, at % 4);
        cuts[bits][0][4 * i + j] = (i * bits / 8 + j) as u8;
        cuts[bits][1][4 * i] = (i * bits % 8) as u8;
        at += 1;
    }
    cuts
}

impl Unpacker {
    /// `bits` is at most [`MAX_BITS`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
    fn new(bits: usize) -> Unpacker {
        let [places, shifts] = &UNPACK_TABLE[bits];
        let mask = _mm512_set1_epi32((1 << bits) - 1);
        Unpacker { places: load(places), shifts: load(shifts), mask }
    }

    /// Unpacks 16 numbers, the first of which starts at a byte boundary.
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
    // SAFETY: the array has 64 bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// The 64 bytes from number `i` on, which contain the numbers `i..i + 16`.
#[inline(always)]
fn window(bytes: &[u8], i: usize, bits: usize) -> Option<&[u8; 64]> {
    bytes.get(i / 8 * bits..)?.first_chunk()
}

/// The bytes that [`inside`] loads for 64 numbers. `None` if there are fewer or the processor
/// lacks AVX-512 VBMI.
#[inline(always)]
pub(crate) fn window_of(bytes: &[u8], bits: usize) -> Option<&[u8]> {
    let bytes = bytes.get(..6 * bits + 64)?;
    (bits <= MAX_BITS && kernels::has_avx512_vbmi()).then_some(bytes)
}

/// [`super::inside`] for bytes from [`window_of`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
pub(crate) fn inside(bytes: &[u8], bits: usize, low: u32, span: u32) -> u64 {
    let cut = Unpacker::new(bits);
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
pub(crate) fn count(list: Packed, start: usize, end: usize, words: &[u64]) -> u64 {
    let (bytes, bits) = list.raw();
    let cut = Unpacker::new(bits);
    let limit = u32::try_from(words.len() * 64).unwrap_or(u32::MAX);
    let limit = _mm512_set1_epi32(limit as i32);
    let (zero, one, low) = (_mm512_setzero_si512(), _mm512_set1_epi32(1), _mm512_set1_epi32(31));
    let mut sums = zero;
    for i in (start..end).step_by(LANES) {
        let Some(window) = window(bytes, i, bits) else { break };
        let docs = cut.unpack(window);
        let inside = _mm512_cmplt_epu32_mask(docs, limit);
        let halves = _mm512_srli_epi32::<5>(docs);
        // SAFETY: the mask limits the gather to documents whose bits are within `words`.
        let found = unsafe {
            _mm512_mask_i32gather_epi32::<4>(zero, inside, halves, words.as_ptr().cast())
        };
        let shifted = _mm512_srlv_epi32(found, _mm512_and_si512(docs, low));
        sums = _mm512_add_epi32(sums, _mm512_and_si512(shifted, one));
    }
    // The sum is less than 2^32, the maximum number of documents.
    u64::from(_mm512_reduce_add_epi32(sums) as u32)
}

/// The numbers 0 to 15.
#[inline]
#[target_feature(enable = "avx512f")]
fn lanes() -> __m512i {
    _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,popcnt")]
pub(crate) fn push_ones(words: &[u8], mask: u64, base: u32, out: &mut Vec<u32>) {
    let words = words.as_chunks::<8>().0;
    // Each store writes 16 lanes, of which only some are kept.
    out.reserve(64 * words.len() + LANES);
    let (mut at, mut mask) = (out.len(), mask);
    for (i, word) in words.iter().enumerate() {
        let word = u64_at(word, 0) & mask;
        mask = u64::MAX;
        for quarter in 0..4 {
            let ones = (word >> (16 * quarter)) as u16;
            let first = _mm512_set1_epi32((base + i as u32 * 64 + 16 * quarter) as i32);
            let found = _mm512_maskz_compress_epi32(ones, _mm512_add_epi32(first, lanes()));
            // SAFETY: at most 64 numbers per word precede `at`, and 16 more lanes are reserved.
            unsafe { _mm512_storeu_si512(out.as_mut_ptr().add(at).cast(), found) };
            at += ones.count_ones() as usize;
        }
    }
    // SAFETY: `at` numbers were written, within the reserved capacity.
    unsafe { out.set_len(at) };
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
pub(crate) fn join(
    list: Packed,
    first: usize,
    before: u32,
    (from, to): (usize, usize),
    docs: &mut [u32],
) {
    let (bytes, bits) = list.raw();
    let (cut, high) = (Unpacker::new(bits), _mm_cvtsi32_si128(bits as i32));
    for j in (from..to).step_by(LANES) {
        let group = docs.get_mut(j..j + LANES);
        let (Some(window), Some(docs)) = (window(bytes, first + j, bits), group) else { break };
        let shift = _mm512_set1_epi32(before.wrapping_sub(j as u32) as i32);
        // SAFETY: `docs` has 16 numbers; neither load nor store needs alignment.
        let ones = unsafe { _mm512_loadu_si512(docs.as_ptr().cast()) };
        let of = _mm512_add_epi32(ones, _mm512_sub_epi32(shift, lanes()));
        let numbers = _mm512_or_si512(_mm512_sll_epi32(of, high), cut.unpack(window));
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(docs.as_mut_ptr().cast(), numbers) };
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
pub(crate) fn set(list: Packed, start: usize, end: usize, words: &mut [u64]) {
    let (bytes, bits) = list.raw();
    let cut = Unpacker::new(bits);
    let mut docs = [0u32; LANES];
    for i in (start..end).step_by(LANES) {
        let Some(window) = window(bytes, i, bits) else { break };
        let numbers = cut.unpack(window);
        // SAFETY: the array has 64 bytes; the store needs no alignment.
        unsafe { _mm512_storeu_si512(docs.as_mut_ptr().cast(), numbers) };
        for doc in docs {
            set_one(words, doc);
        }
    }
}
