//! The two inner loops of a search in a block: which tags are equal, and how long the records before
//! one are.
//!
//! Both go over all of a block's bytes whatever they find. A loop that ends where the record is
//! would be shorter, but nobody can foretell where that is: the processor would guess wrong once a
//! search, and could not begin the next search while this one waits for memory.

use crate::bytes::int::u64_at;

/// Tags that one mask covers.
pub(crate) const GROUP: usize = 128;
const STEP: usize = 16;

/// Bit `i` says whether `tags[i]` is `tag`, for the first 128 tags.
#[inline(always)]
pub(crate) fn equal(tags: &[u8], tag: u8) -> u128 {
    let tags = &tags[..tags.len().min(GROUP)];
    let mut mask = 0;
    let mut at = 0;
    while at + STEP <= tags.len() {
        mask |= u128::from(equal_16(u64_at(tags, at), u64_at(tags, at + 8), tag)) << at;
        at += STEP;
    }
    for (i, &other) in tags.iter().enumerate().skip(at) {
        mask |= u128::from(other == tag) << i;
    }
    mask
}

/// Sum of the first `n` bytes, which must be fewer than 2^24.
#[inline(always)]
pub(crate) fn sum_of_first(bytes: &[u8], n: usize) -> usize {
    let mut sum = 0;
    let mut at = 0;
    while at + STEP <= bytes.len() {
        let keep = n.saturating_sub(at).min(STEP);
        let (low, high) = (u64_at(&KEEP, STEP - keep), u64_at(&KEEP, STEP + 8 - keep));
        sum += sum_of_16(u64_at(bytes, at) & low, u64_at(bytes, at + 8) & high);
        at += STEP;
    }
    for (i, &byte) in bytes.iter().enumerate().skip(at) {
        sum += if i < n { usize::from(byte) } else { 0 };
    }
    sum
}

/// Read from `16 - n` on, the first `n` of 16 bytes are ones.
const KEEP: [u8; 2 * STEP] = {
    let mut bytes = [0; 2 * STEP];
    let mut i = 0;
    while i < STEP {
        bytes[i] = 0xff;
        i += 1;
    }
    bytes
};

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "instructions of SSE2: see the SAFETY notes")]
mod fast {
    use std::arch::x86_64::*;

    #[inline(always)]
    pub(super) fn equal_16(low: u64, high: u64, tag: u8) -> u16 {
        // SAFETY: every x86-64 has SSE2, and these instructions touch no memory.
        unsafe {
            let tags = _mm_set_epi64x(high as i64, low as i64);
            _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(tag as i8))) as u16
        }
    }

    #[inline(always)]
    pub(super) fn sum_of_16(low: u64, high: u64) -> usize {
        // SAFETY: every x86-64 has SSE2, and these instructions touch no memory.
        unsafe {
            let bytes = _mm_set_epi64x(high as i64, low as i64);
            let halves = _mm_sad_epu8(bytes, _mm_setzero_si128());
            let upper = _mm_cvtsi128_si64(_mm_unpackhi_epi64(halves, halves));
            (_mm_cvtsi128_si64(halves) + upper) as usize
        }
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;

    pub(super) fn equal_16(low: u64, high: u64, tag: u8) -> u16 {
        let equal_8 = |word: u64| -> u16 {
            let differs = word ^ u64::from(tag) * LOW;
            // The highest bit of each byte, if any bit of the byte differs.
            let any = ((differs & !HIGH) + !HIGH | differs) & HIGH;
            ((any ^ HIGH) >> 7).wrapping_mul(0x0102_0408_1020_4080).wrapping_shr(56) as u16
        };
        equal_8(low) | equal_8(high) << 8
    }

    pub(super) fn sum_of_16(low: u64, high: u64) -> usize {
        let mask = 0x00ff_00ff_00ff_00ff;
        let sum_8 = |word: u64| (word & mask) + (word >> 8 & mask);
        let both = sum_8(low) + sum_8(high);
        (both.wrapping_mul(0x0001_0001_0001_0001) >> 48) as usize
    }
}

#[cfg(target_arch = "x86_64")]
use fast::{equal_16, sum_of_16};
#[cfg(not(target_arch = "x86_64"))]
use portable::{equal_16, sum_of_16};

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(seed: u64, n: usize) -> Vec<u8> {
        let mix = |i: u64| (i ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) as u8;
        (0..n as u64).map(|i| mix(i) % if seed % 2 == 0 { 255 } else { 3 }).collect()
    }

    #[test]
    fn masks_and_sums_are_those_of_plain_loops() {
        for n in (0..200).chain([255, 1000]) {
            let bytes = bytes(n as u64, n);
            for tag in [0, 1, 2, 7, 254] {
                let plain = |mask, (i, &b): (usize, &u8)| mask | u128::from(b == tag) << i;
                let plain = bytes.iter().take(GROUP).enumerate().fold(0, plain);
                assert_eq!(equal(&bytes, tag), plain);
            }
            for first in 0..=n {
                let plain: usize = bytes[..first].iter().map(|&b| usize::from(b)).sum();
                assert_eq!(sum_of_first(&bytes, first), plain);
            }
        }
    }

    #[test]
    fn the_portable_kernels_agree() {
        for seed in 0..2000u64 {
            let word = |i: u64| (seed * 2 + i).wrapping_mul(0xd134_2543_de82_ef95).rotate_left(9);
            let (low, high) = (word(0) & word(5), word(1) | word(6));
            for tag in [0, 0x80, 0xff, low as u8, (high >> 40) as u8] {
                assert_eq!(portable::equal_16(low, high, tag), equal_16(low, high, tag));
            }
            assert_eq!(portable::sum_of_16(low, high), sum_of_16(low, high));
        }
    }
}
