//! Packed lists with AVX2: eight numbers at a time.
#![expect(unsafe_code, reason = "loads and stores take addresses")]

use crate::bytes::int::u64_at;
use crate::bytes::packed::Packed;
use crate::search::simd::kernels;
use crate::search::simd::unpack_avx2::{self, Range, Unpacker};
use std::arch::x86_64::*;

/// Numbers unpacked at a time.
const LANES: usize = 8;
/// For fewer numbers the set-up does not pay off.
const MIN_LEN: usize = 32;

/// The part of a list that can be unpacked eight numbers at a time: from a byte boundary to the
/// last group whose loads stay within the bytes. `None` if the list is too short or the processor
/// lacks AVX2.
pub(crate) fn groups(list: Packed, first: usize, last: usize) -> Option<(usize, usize)> {
    let (bytes, bits) = list.raw();
    let few = last.saturating_sub(first) < MIN_LEN;
    if few || bits == 0 || bits > unpack_avx2::MAX_BITS || !kernels::has_avx2() {
        return None;
    }
    let start = first.next_multiple_of(LANES);
    let readable = kernels::loads(bytes.len(), start * bits / 8 + unpack_avx2::loaded(bits), bits);
    (readable > 0).then(|| (start, start + LANES * readable.min((last - start) / LANES)))
}

/// The bytes that [`inside`] loads for 64 numbers. `None` if there are fewer or the processor
/// lacks AVX2.
#[inline(always)]
pub(crate) fn window_of(bytes: &[u8], bits: usize) -> Option<&[u8]> {
    let bytes = bytes.get(..Range::loaded(bits))?;
    (bits <= unpack_avx2::MAX_BITS && kernels::has_avx2()).then_some(bytes)
}

/// [`super::inside`] for bytes from [`window_of`].
#[target_feature(enable = "avx2")]
pub(crate) fn inside(bytes: &[u8], bits: usize, low: u32, span: u32) -> u64 {
    assert!(bytes.len() >= Range::loaded(bits));
    let mut found = [0];
    // SAFETY: the length was just checked.
    unsafe { Range::new(bits, low, span).fill(bytes.as_ptr(), &mut found) };
    found[0]
}

/// The numbers 0 to 7.
#[inline]
#[target_feature(enable = "avx2")]
fn lanes() -> __m256i {
    _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)
}

/// For each byte, the positions of its set bits in ascending order.
static SET_BITS: [[u8; 8]; 256] = set_bits_of_bytes();

const fn set_bits_of_bytes() -> [[u8; 8]; 256] {
    let mut ones = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut found) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                ones[byte][found] = bit as u8;
                found += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    ones
}

#[target_feature(enable = "avx2,popcnt")]
pub(crate) fn push_ones(words: &[u8], mask: u64, base: u32, out: &mut Vec<u32>) {
    let words = words.as_chunks::<8>().0;
    // Each store writes eight lanes, of which only some are kept.
    out.reserve(64 * words.len() + LANES);
    let (mut at, mut mask, mut first) = (out.len(), mask, base);
    for word in words {
        let word = u64_at(word, 0) & mask;
        mask = u64::MAX;
        for byte in (0..64).step_by(8).map(|at| (word >> at) as u8) {
            // SAFETY: each entry of the table has eight bytes; the load needs no alignment.
            let ones = unsafe { _mm_loadl_epi64(SET_BITS[usize::from(byte)].as_ptr().cast()) };
            let found =
                _mm256_add_epi32(_mm256_cvtepu8_epi32(ones), _mm256_set1_epi32(first as i32));
            // SAFETY: at most 64 numbers per word precede `at`, and eight more lanes are reserved.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().add(at).cast(), found) };
            at += byte.count_ones() as usize;
            first = first.wrapping_add(8);
        }
    }
    // SAFETY: `at` numbers were written, within the reserved capacity.
    unsafe { out.set_len(at) };
}

/// [`super::join`] for the entries `from..to`, which come from [`groups`].
#[target_feature(enable = "avx2")]
pub(crate) fn join(
    list: Packed,
    first: usize,
    before: u32,
    (from, to): (usize, usize),
    docs: &mut [u32],
) {
    let (bytes, bits) = list.raw();
    let (cut, high) = (Unpacker::new(bits), _mm_cvtsi32_si128(bits as i32));
    let (groups, start) = (docs[from..to].as_chunks_mut::<LANES>().0, (first + from) / 8 * bits);
    assert!(bytes.len() + bits >= start + groups.len() * bits + unpack_avx2::loaded(bits));
    for (i, group) in groups.iter_mut().enumerate() {
        let shift = _mm256_set1_epi32(before.wrapping_sub((from + i * LANES) as u32) as i32);
        // SAFETY: the bytes of all groups are readable, as was just checked, and a group has eight
        // documents. Neither loads nor stores need alignment.
        unsafe {
            let at = group.as_mut_ptr().cast::<__m256i>();
            let of = _mm256_add_epi32(_mm256_loadu_si256(at), _mm256_sub_epi32(shift, lanes()));
            let low = cut.numbers(bytes.as_ptr().add(start + i * bits));
            _mm256_storeu_si256(at, _mm256_or_si256(_mm256_sll_epi32(of, high), low));
        }
    }
}
