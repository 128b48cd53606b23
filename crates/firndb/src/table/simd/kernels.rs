//! Inner loops of lookups: which tags of a block match, the total length of the records before one,
//! and which of eight numbers in the directory or in the index match.
//!
//! The loops always process the whole input. Stopping at the record would do less work, but the
//! branch is unpredictable: each search would cost a branch miss, and the processor could not start
//! the next search while this one waits for memory.

/// Tags covered by one mask.
pub(crate) const GROUP: usize = 128;
const STEP: usize = 16;
/// Numbers of 16 bits that [`at_most_mask`] compares: more than most slots have blocks.
pub(crate) const STEP_LANES: usize = 8;
/// Numbers of 64 bits that [`equal_high_bits_mask`] compares, and the lowest bit that it compares.
const QUAD_LANES: usize = 8;
pub(crate) const EQUAL_ABOVE: u32 = 44;

/// Mask of the first `n` bytes, at most 128, that are equal to `tag`. Bytes beyond the slice do not
/// match.
#[inline(always)]
pub(crate) fn equal(bytes: &[u8], n: usize, tag: u8) -> u128 {
    let n = n.min(GROUP);
    match bytes.first_chunk() {
        Some(group) => equal_in_whole(group, n, tag),
        None => equal_at_the_end(bytes, n, tag),
    }
}

/// [`equal`] where at least 128 bytes exist. Compares all 128, so that the trip count is a constant
/// and the loop is unrolled.
#[inline(always)]
fn equal_in_whole(group: &[u8; GROUP], n: usize, tag: u8) -> u128 {
    let steps = group.as_chunks::<STEP>().0;
    let half = |first: usize| -> u64 {
        let bits = |i: usize| u64::from(equal_16(&steps[first + i], tag)) << (i * STEP);
        bits(0) | bits(1) | bits(2) | bits(3)
    };
    let mask = u128::from(half(0)) | u128::from(half(4)) << 64;
    if n >= GROUP { mask } else { mask & !(u128::MAX << n) }
}

#[cold]
fn equal_at_the_end(bytes: &[u8], n: usize, tag: u8) -> u128 {
    let bit = |mask, (i, &byte): (usize, &u8)| mask | u128::from(byte == tag) << i;
    bytes.iter().take(n).enumerate().fold(0, bit)
}

/// Sum of the first `n` bytes of `of` bytes, fewer than 2^24. Takes the time of `of` bytes.
#[inline(always)]
pub(crate) fn prefix_sum(bytes: &[u8], of: usize, n: usize) -> usize {
    // The trip count is a constant, so the loop is unrolled.
    if of <= GROUP
        && let Some(group) = bytes.first_chunk::<GROUP>()
    {
        return sum_of_group(group, n);
    }
    let Some(whole) = bytes.get(..of.next_multiple_of(STEP)) else {
        return sum_at_the_end(bytes, n);
    };
    let groups = whole.chunks(GROUP).enumerate();
    groups.map(|(i, group)| sum_of_group(group, n.saturating_sub(i * GROUP).min(GROUP))).sum()
}

#[cold]
fn sum_at_the_end(bytes: &[u8], n: usize) -> usize {
    bytes.iter().take(n).map(|&byte| usize::from(byte)).sum()
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions of SSE2: see the SAFETY notes")]
mod fast {
    use super::{EQUAL_ABOVE, QUAD_LANES, STEP, STEP_LANES};
    use std::arch::x86_64::*;

    const LANES: [u8; STEP] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

    #[inline(always)]
    pub(crate) fn equal_16(bytes: &[u8; STEP], tag: u8) -> u16 {
        // SAFETY: every x86-64 has SSE2; reads 16 bytes from an array of 16.
        unsafe {
            let tags = _mm_loadu_si128(bytes.as_ptr().cast());
            _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(tag as i8))) as u16
        }
    }

    /// Mask of the numbers that are at most `bound`.
    #[inline(always)]
    pub(crate) fn at_most_mask(numbers: &[u16; STEP_LANES], bound: u16) -> u8 {
        // SAFETY: every x86-64 has SSE2; reads 16 bytes from an array of 16.
        unsafe {
            let numbers = _mm_loadu_si128(numbers.as_ptr().cast());
            let above = _mm_subs_epu16(numbers, _mm_set1_epi16(bound as i16));
            let not = _mm_cmpeq_epi16(above, _mm_setzero_si128());
            _mm_movemask_epi8(_mm_packs_epi16(not, not)) as u8
        }
    }

    /// Mask of the [`QUAD_LANES`] numbers that equal `number` in bits [`EQUAL_ABOVE`] and up.
    #[inline(always)]
    pub(crate) fn equal_high_bits_mask(numbers: &[u8; 8 * QUAD_LANES], number: u64) -> u8 {
        let four = numbers.as_chunks::<STEP>().0;
        // SAFETY: every x86-64 has SSE2; each load reads 16 bytes from an array of 16.
        unsafe {
            let wanted = _mm_set1_epi32((number >> 32) as i32);
            let differs = |first: usize| {
                let two = |i: usize| _mm_castsi128_ps(_mm_loadu_si128(four[i].as_ptr().cast()));
                let upper = _mm_shuffle_ps::<0b11_01_11_01>(two(first), two(first + 1));
                let differ = _mm_xor_si128(_mm_castps_si128(upper), wanted);
                _mm_cmpeq_epi32(
                    _mm_srli_epi32::<{ EQUAL_ABOVE as i32 - 32 }>(differ),
                    _mm_setzero_si128(),
                )
            };
            let equal = _mm_packs_epi32(differs(0), differs(2));
            _mm_movemask_epi8(_mm_packs_epi16(equal, equal)) as u8
        }
    }

    /// Sum of the first `n` bytes of a group; `n` is at most 128.
    #[inline(always)]
    pub(crate) fn sum_of_group(group: &[u8], n: usize) -> usize {
        // SAFETY: every x86-64 has SSE2; each load reads 16 bytes from an array of 16.
        unsafe {
            let (zero, lanes) = (_mm_setzero_si128(), _mm_loadu_si128(LANES.as_ptr().cast()));
            let step = _mm_set1_epi8(STEP as i8);
            // How many bytes are left to sum, in every lane.
            let (mut left, mut sums) = (_mm_set1_epi8(n as i8), zero);
            for bytes in group.as_chunks::<STEP>().0 {
                let beyond = _mm_cmpeq_epi8(_mm_subs_epu8(left, lanes), zero);
                let bytes = _mm_loadu_si128(bytes.as_ptr().cast());
                sums = _mm_add_epi64(sums, _mm_sad_epu8(_mm_andnot_si128(beyond, bytes), zero));
                left = _mm_subs_epu8(left, step);
            }
            let upper = _mm_cvtsi128_si64(_mm_unpackhi_epi64(sums, sums));
            (_mm_cvtsi128_si64(sums) + upper) as usize
        }
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable {
    use super::{EQUAL_ABOVE, QUAD_LANES, STEP, STEP_LANES};
    use crate::bytes::int::u64_at;

    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;

    pub(crate) fn equal_16(bytes: &[u8; STEP], tag: u8) -> u16 {
        let equal_8 = |word: u64| -> u16 {
            let differs = word ^ (u64::from(tag) * LOW);
            // The highest bit of each byte, set if any bit of the byte differs.
            let any = (((differs & !HIGH) + !HIGH) | differs) & HIGH;
            ((any ^ HIGH) >> 7).wrapping_mul(0x0102_0408_1020_4080).wrapping_shr(56) as u16
        };
        equal_8(u64_at(bytes, 0)) | equal_8(u64_at(bytes, 8)) << 8
    }

    /// Mask of the numbers that are at most `bound`.
    pub(crate) fn at_most_mask(numbers: &[u16; STEP_LANES], bound: u16) -> u8 {
        let bit = |mask, (i, &number): (usize, &u16)| mask | u8::from(number <= bound) << i;
        numbers.iter().enumerate().fold(0, bit)
    }

    /// Mask of the [`QUAD_LANES`] numbers that equal `number` in bits [`EQUAL_ABOVE`] and up.
    #[inline(always)]
    pub(crate) fn equal_high_bits_mask(numbers: &[u8; 8 * QUAD_LANES], number: u64) -> u8 {
        let is_equal = |i: usize| (u64_at(numbers, 8 * i) ^ number) < 1 << EQUAL_ABOVE;
        (0..QUAD_LANES).fold(0, |mask, i| mask | u8::from(is_equal(i)) << i)
    }

    /// Sum of the first `n` bytes of a group; `n` is at most 128.
    pub(crate) fn sum_of_group(group: &[u8], n: usize) -> usize {
        let keep = |(i, &byte): (usize, &u8)| if i < n { usize::from(byte) } else { 0 };
        group.iter().enumerate().map(keep).sum()
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use fast::{at_most_mask, equal_high_bits_mask};
#[cfg(target_arch = "x86_64")]
use fast::{equal_16, sum_of_group};
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use portable::{at_most_mask, equal_high_bits_mask};
#[cfg(not(target_arch = "x86_64"))]
use portable::{equal_16, sum_of_group};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::int::{u16_at, u64_at};

    fn bytes(seed: u64, n: usize) -> Vec<u8> {
        let mix = |i: u64| (i ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) as u8;
        (0..n as u64).map(|i| mix(i) % if seed.is_multiple_of(2) { 255 } else { 3 }).collect()
    }

    #[test]
    fn kernels_agree_with_plain_loops() {
        for n in (0..200).chain([255, 1000]) {
            let bytes = bytes(n as u64, n);
            for tag in [0, 1, 2, 7, 254] {
                let plain = |mask, (i, &b): (usize, &u8)| mask | u128::from(b == tag) << i;
                let plain = bytes.iter().take(GROUP.min(n)).enumerate().fold(0, plain);
                assert_eq!(equal(&bytes, n, tag), plain);
                assert_eq!(equal(&[&bytes[..], &[tag; 99]].concat(), n, tag), plain);
            }
            for first in 0..=n {
                let plain: usize = bytes[..first].iter().map(|&b| usize::from(b)).sum();
                assert_eq!(prefix_sum(&bytes, n, first), plain);
                assert_eq!(prefix_sum(&[&bytes[..], &[7; 99]].concat(), n, first), plain);
            }
        }
    }

    #[test]
    fn portable_kernels_agree_with_simd() {
        for seed in 0..2000u64 {
            let word = |i: u64| (seed * 2 + i).wrapping_mul(0xd134_2543_de82_ef95).rotate_left(9);
            let (low, high) = (word(0) & word(5), word(1) | word(6));
            let bytes = (u128::from(high) << 64 | u128::from(low)).to_le_bytes();
            for tag in [0, 0x80, 0xff, low as u8, (high >> 40) as u8] {
                assert_eq!(portable::equal_16(&bytes, tag), equal_16(&bytes, tag));
            }
            let halves = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| u16_at(&bytes, 2 * i));
            for bound in [0, 1, word(3) as u16, 0x7fff, 0x8000, u16::MAX] {
                assert_eq!(portable::at_most_mask(&halves, bound), at_most_mask(&halves, bound));
            }
            let turned = |i: u32| u128::from_le_bytes(bytes).rotate_left(17 * i).to_le_bytes();
            let group = [0, 1, 2, 3, 4, 5, 6, 7].map(turned).concat();
            let numbers = group.first_chunk().unwrap();
            let same = u64_at(numbers, 8 * (seed as usize % QUAD_LANES)) ^ seed.wrapping_mul(seed);
            for number in [low, high, same, same ^ 1 << 44, same ^ 1 << 43, same ^ 1 << 63] {
                assert_eq!(
                    portable::equal_high_bits_mask(numbers, number),
                    equal_high_bits_mask(numbers, number)
                );
            }
            let n = seed as usize % (GROUP + 1);
            assert_eq!(portable::sum_of_group(&group, n), sum_of_group(&group, n));
        }
    }
}
