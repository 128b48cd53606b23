//! The nibbles of a sparse bitset, spread over the words that they are of: with AVX-512 VBMI2 64 at
//! a time, with `PDEP` or else with the byte shuffle of AVX2 16, elsewhere one by one.
#![expect(unsafe_code, reason = "loads take addresses; features are detected at run time")]

use super::{END, GROUP};
use crate::bytes::int::u64_at;
use crate::search::simd::kernels;

/// How many words of a plain bitset are combined in the time that one takes here.
pub(crate) fn cost() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        if kernels::can_expand_bytes() {
            return 3;
        }
        if kernels::can_deposit_bits() {
            return 8;
        }
        if kernels::can_shuffle_bytes() {
            return 20;
        }
    }
    50
}

/// Combines words with the groups that they are of, as long as there are both. The first nibble is
/// that of the first group.
pub(crate) fn combine(masks: &[[u8; 8]], nibbles: &[u8], words: &mut [[u64; GROUP]], how: How) {
    #[cfg(target_arch = "x86_64")]
    {
        if kernels::can_expand_bytes() {
            // SAFETY: the processor has the features.
            return unsafe { wide::combine(masks, nibbles, words, how) };
        }
        if kernels::can_deposit_bits() {
            // SAFETY: the processor has the features; every version but the portable has POPCNT.
            return unsafe { deposit::combine(masks, nibbles, words, how) };
        }
        if kernels::can_shuffle_bytes() {
            // SAFETY: the processor has the features; every version but the portable has POPCNT.
            return unsafe { narrow::combine(masks, nibbles, words, how) };
        }
    }
    let mut at = 0;
    for (mask, words) in masks.iter().zip(words) {
        let (mask, mut count) = (u64_at(mask, 0), 0);
        for (i, word) in words.iter_mut().enumerate() {
            let (mut ones, mut found) = (mask >> (16 * i) & 0xFFFF, 0);
            while ones != 0 {
                let byte = nibbles.get(at + count / 2).copied().unwrap_or(0);
                let nibble = u64::from(byte >> (count % 2 * 4) & 15);
                found |= nibble << (4 * ones.trailing_zeros());
                ones &= ones - 1;
                count += 1;
            }
            *word = how.of(*word, found);
        }
        at += count.div_ceil(2);
    }
}

/// How words are combined with those of a bitset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Or,
    And,
    AndNot,
}

impl How {
    #[inline(always)]
    fn of(self, word: u64, found: u64) -> u64 {
        match self {
            How::Or => word | found,
            How::And => word & found,
            How::AndNot => word & !found,
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use super::{END, GROUP, How, u64_at};
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,popcnt")]
    pub(super) fn combine(masks: &[[u8; 8]], nibbles: &[u8], words: &mut [[u64; GROUP]], how: How) {
        let (low, pairs) = (_mm512_set1_epi8(15), _mm512_set1_epi16(0x1001));
        let mut at = 0;
        for (mask, words) in masks.iter().zip(words) {
            let mask = u64_at(mask, 0);
            let end = at + mask.count_ones().div_ceil(2) as usize;
            // A damaged file may not have them.
            let bytes = nibbles.get(at..at + END).unwrap_or(&[0; END]);
            // SAFETY: 32 bytes are there; the load needs no alignment.
            let bytes = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
            let both = _mm512_cvtepu8_epi16(bytes);
            let each = _mm512_and_si512(_mm512_or_si512(both, _mm512_slli_epi16::<4>(both)), low);
            let placed = _mm512_maskz_expand_epi8(mask, each);
            // Of a pair of nibbles the second is the higher.
            let found = _mm512_cvtepi16_epi8(_mm512_maddubs_epi16(placed, pairs));
            let to = words.as_mut_ptr().cast::<__m256i>();
            // SAFETY: four words are there; neither load nor store needs an alignment.
            unsafe {
                let word = _mm256_loadu_si256(to);
                let combined = match how {
                    How::Or => _mm256_or_si256(word, found),
                    How::And => _mm256_and_si256(word, found),
                    How::AndNot => _mm256_andnot_si256(found, word),
                };
                _mm256_storeu_si256(to, combined);
            }
            at = end;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod deposit {
    use super::{GROUP, How, u64_at};
    use std::arch::x86_64::*;

    /// Bytes that are looked at of a group: 48 nibbles, and the words that the others begin in.
    const WINDOW: usize = 48 / 2 + 8 + 1;

    #[target_feature(enable = "bmi2,popcnt")]
    pub(super) fn combine(masks: &[[u8; 8]], nibbles: &[u8], words: &mut [[u64; GROUP]], how: How) {
        let mut at = 0;
        for (mask, words) in masks.iter().zip(words) {
            let mask = u64_at(mask, 0);
            let rest = nibbles.get(at..).unwrap_or(&[]);
            // Few may be behind the last group, and of a damaged file less.
            let mut padded = [0; WINDOW];
            let window = match rest.first_chunk::<WINDOW>() {
                Some(window) => window,
                None => {
                    padded[..rest.len()].copy_from_slice(rest);
                    &padded
                }
            };
            for (i, word) in words.iter_mut().enumerate() {
                let (own, before) = (mask >> (16 * i) & 0xFFFF, mask & ((1 << (16 * i)) - 1));
                let before = before.count_ones() as usize;
                // They may begin within a byte.
                let (byte, odd) = (before / 2, before % 2 * 4);
                let next = u64_at(window, byte) >> odd | u64_at(window, byte + 1) << (8 - odd);
                // The first bit of each nibble that is there, and from it all four.
                let first = _pdep_u64(own, 0x1111_1111_1111_1111);
                *word = how.of(*word, _pdep_u64(next, (first << 4).wrapping_sub(first)));
            }
            at += mask.count_ones().div_ceil(2) as usize;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod narrow {
    use super::{GROUP, How, u64_at};
    use std::arch::x86_64::*;

    /// For each mask of eight nibbles which of those that are there each is; none: 0x80.
    static RANKS: [u64; 256] = ranks();

    const fn ranks() -> [u64; 256] {
        let mut ranks = [0u64; 256];
        let mut at = 0;
        while at < 256 * 8 {
            let (mask, bit) = ((at / 8) as u32, at % 8);
            let before = (mask & ((1 << bit) - 1)).count_ones() as u64;
            let rank = if mask >> bit & 1 == 1 { before } else { 0x80 };
            ranks[at / 8] |= rank << (8 * bit);
            at += 1;
        }
        ranks
    }

    #[target_feature(enable = "avx2,popcnt")]
    pub(super) fn combine(masks: &[[u8; 8]], nibbles: &[u8], words: &mut [[u64; GROUP]], how: How) {
        const UPPER: u64 = 0x0808_0808_0808_0808;
        let (low, pairs) = (_mm_set1_epi8(15), _mm_set1_epi16(0x1001));
        let mut at = 0;
        // The eight nibbles from number `i` on.
        let eight = |at: usize, i: usize| u64_at(nibbles, at + i / 2) >> (i % 2 * 4) & 0xFFFF_FFFF;
        for (mask, words) in masks.iter().zip(words) {
            let (mask, mut count) = (u64_at(mask, 0), 0);
            for (i, word) in words.iter_mut().enumerate() {
                let [a, b] = [0, 8].map(|up| (mask >> (16 * i + up)) as u8);
                let first = eight(at, count);
                count += a.count_ones() as usize;
                let both = _mm_cvtsi64_si128((first | eight(at, count) << 32) as i64);
                count += b.count_ones() as usize;
                let each = _mm_unpacklo_epi8(both, _mm_srli_epi16::<4>(both));
                let (a, b) = (RANKS[usize::from(a)], RANKS[usize::from(b)] + UPPER);
                let ranks = _mm_set_epi64x(b as i64, a as i64);
                let placed = _mm_shuffle_epi8(_mm_and_si128(each, low), ranks);
                let found = _mm_maddubs_epi16(placed, pairs);
                let found = _mm_cvtsi128_si64(_mm_packus_epi16(found, found)) as u64;
                *word = how.of(*word, found);
            }
            at += count.div_ceil(2);
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::bytes::int::Encoder;
    use crate::search::testing::Rng;

    /// `kernels::tests::with_each_version` gets to one of the two that AVX2 has.
    #[test]
    fn bits_that_are_deposited_are_those_that_are_shuffled() {
        if !kernels::can_deposit_bits() || !kernels::can_shuffle_bytes() {
            return println!("this processor cannot do both");
        }
        let mut rng = Rng(11);
        for round in 0..500 {
            // Dense, sparse, and full.
            let mut masks = Encoder::default();
            for _ in 0..1 + rng.below(9) {
                masks.u64(match round % 3 {
                    0 => rng.next(),
                    1 => rng.next() & rng.next() & rng.next(),
                    _ => u64::MAX,
                });
            }
            let masks = masks.0.as_chunks::<8>().0;
            let bytes = |mask: &[u8; 8]| u64_at(mask, 0).count_ones().div_ceil(2) as usize;
            let whole = masks.iter().map(bytes).sum::<usize>() + END;
            // Every fourth time the file is damaged: some are missing.
            let there = if round % 4 == 3 { rng.below(whole) } else { whole };
            let nibbles: Vec<u8> = (0..there).map(|_| rng.next() as u8).collect();
            let before: Vec<[u64; GROUP]> =
                masks.iter().map(|_| [0; GROUP].map(|_| rng.next())).collect();
            for how in [How::Or, How::And, How::AndNot] {
                let (mut a, mut b) = (before.clone(), before.clone());
                // SAFETY: the processor has the features, which was just found.
                unsafe {
                    deposit::combine(masks, &nibbles, &mut a, how);
                    narrow::combine(masks, &nibbles, &mut b, how);
                }
                // Of what is missing any answer will do.
                assert!(a == b || there < whole, "{how:?}, round {round}");
            }
        }
    }
}
