//! The two inner loops of a search in a block: which tags are equal, and how long the records are
//! that stand before one.
//!
//! Both go over all of a block's bytes whatever they find. A loop that ends where the record is
//! would be shorter, but nobody can foretell where that is: the processor would guess wrong once a
//! search, and could not begin the next search while this one waits for memory.

use crate::bytes::int::u64_at;

/// Tags that one mask covers.
pub(crate) const GROUP: usize = 128;
const STEP: usize = 16;

/// Bit `i` says whether byte `i` is `tag`, for the first `n` bytes, at most 128. Bytes that are not
/// there are not equal.
#[inline(always)]
pub(crate) fn equal(bytes: &[u8], n: usize, tag: u8) -> u128 {
    let n = n.min(GROUP);
    let steps = n.div_ceil(STEP);
    let Some(whole) = bytes.get(..steps * STEP) else { return equal_at_the_end(bytes, n, tag) };
    let mut mask = 0;
    for i in 0..steps {
        let (low, high) = (u64_at(whole, i * STEP), u64_at(whole, i * STEP + 8));
        mask |= u128::from(equal_16(low, high, tag)) << (i * STEP);
    }
    if n == GROUP { mask } else { mask & ((1 << n) - 1) }
}

#[cold]
fn equal_at_the_end(bytes: &[u8], n: usize, tag: u8) -> u128 {
    let bit = |mask, (i, &byte): (usize, &u8)| mask | u128::from(byte == tag) << i;
    bytes.iter().take(n).enumerate().fold(0, bit)
}

/// Sum of the first `n` bytes of `of`, which are fewer than 2^24; the work is that of `of` bytes.
#[inline(always)]
pub(crate) fn sum_of_first(bytes: &[u8], of: usize, n: usize) -> usize {
    let steps = of.div_ceil(STEP);
    let Some(whole) = bytes.get(..steps * STEP) else { return sum_at_the_end(bytes, n) };
    let mut sum = 0;
    for i in 0..steps {
        let keep = n.saturating_sub(i * STEP).min(STEP);
        let (low, high) = (u64_at(&KEEP, STEP - keep), u64_at(&KEEP, STEP + 8 - keep));
        let (a, b) = (u64_at(whole, i * STEP), u64_at(whole, i * STEP + 8));
        sum += sum_of_16(a & low, b & high);
    }
    sum
}

#[cold]
fn sum_at_the_end(bytes: &[u8], n: usize) -> usize {
    bytes.iter().take(n).map(|&byte| usize::from(byte)).sum()
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
            let differs = word ^ (u64::from(tag) * LOW);
            // The highest bit of each byte, if any bit of the byte differs.
            let any = (((differs & !HIGH) + !HIGH) | differs) & HIGH;
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
        (0..n as u64).map(|i| mix(i) % if seed.is_multiple_of(2) { 255 } else { 3 }).collect()
    }

    #[test]
    fn masks_and_sums_are_those_of_plain_loops() {
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
                assert_eq!(sum_of_first(&bytes, n, first), plain);
                assert_eq!(sum_of_first(&[&bytes[..], &[7; 99]].concat(), n, first), plain);
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
