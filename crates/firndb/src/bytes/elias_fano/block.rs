//! Random access to short sequences: those with at most 256 high bits, which are four words.
//!
//! A value is found by counting the ones in the words, then by selecting a bit in one word. The
//! reverse search halves a word by the counts of its parts, without a branch per step.

use crate::bytes::elias_fano::EliasFano;
use std::hint::select_unpredictable;

/// Where the high bit of a value is: the word, the bit in it, and all bits of the word.
type HighBit = (u64, usize, u64);

impl EliasFano<'_> {
    /// The number of ones before each of the four words, a byte for each. After the last word there
    /// are other bytes: then it is the number of values, or more.
    #[inline(always)]
    fn ranks(&self) -> u64 {
        let ones = |word: usize| u64::from(self.word(word).count_ones());
        let first = ones(0);
        let second = first + ones(1);
        first << 8 | second << 16 | (second + ones(2)) << 24
    }

    #[inline(always)]
    fn locate(&self, i: usize, select: impl Fn(u64, u64) -> usize) -> HighBit {
        let (at, ranks) = (i as u64, self.ranks());
        let word: u64 = (1..4).map(|word| u64::from(rank(ranks, word) <= at)).sum();
        let bits = self.word(word as usize);
        (word, select(bits, at.wrapping_sub(rank(ranks, word))), bits)
    }

    /// Value `i` of a short sequence. `select` finds the bit of a rank in a word.
    #[inline(always)]
    pub(crate) fn get(&self, i: usize, select: impl Fn(u64, u64) -> usize) -> u64 {
        let (word, bit, _) = self.locate(i, select);
        self.value(i, 64 * word as usize + bit)
    }

    /// Values `i` and `i + 1` of a short sequence that has both.
    #[inline(always)]
    pub(crate) fn pair(&self, i: usize, select: impl Fn(u64, u64) -> usize) -> (u64, u64) {
        let (mut word, bit, bits) = self.locate(i, select);
        let value = self.value(i, 64 * word as usize + bit);
        let mut rest = bits & u64::MAX << (bit & 63) << 1;
        while rest == 0 && word < 3 {
            word += 1;
            rest = self.word(word as usize);
        }
        let next = 64 * word as usize + rest.trailing_zeros() as usize;
        (value, self.value(i + 1, next))
    }

    /// Calls `each` with those of up to 64 values, in at most 128 high bits, that have a 1 in `mask`.
    #[inline(always)]
    pub(crate) fn for_each_in(&self, mask: u64, each: &mut impl FnMut(u64)) {
        let (mut i, mut mask) = (0, mask);
        for word in 0..2 {
            let mut ones = self.word(word);
            while ones != 0 && mask != 0 {
                if mask & 1 == 1 {
                    each(self.value(i, 64 * word + ones.trailing_zeros() as usize));
                }
                ones &= ones - 1;
                mask >>= 1;
                i += 1;
            }
        }
    }

    /// For `len` values of a short sequence: how many `i` have `value(i) + i < bound`, where `bound`
    /// is at least 1. So many numbers of a strictly increasing sequence are below a bound, if
    /// number i is stored as its value less i.
    #[inline(always)]
    pub(crate) fn count_below(&self, bound: u64, len: usize) -> usize {
        let (end, run, zeros) = self.cross(bound, len as u64);
        // Values before the run are below, those from `end` on are not. In the run all are in one
        // bucket: their low bits decide.
        let rest = bound.wrapping_sub(zeros << self.layout.low);
        let (mut start, end) = (end.saturating_sub(run).min(len), end.min(len));
        let mut count = end.saturating_sub(start);
        let is_below = |i: usize| self.low(i) + (i as u64) < rest;
        if count <= 3 {
            // The common case, without a branch per value.
            let one = |i: usize| usize::from((start + i < end) & is_below(start + i));
            return start + one(0) + one(1) + one(2);
        }
        while count > 0 {
            let half = count / 2;
            if is_below(start + half) {
                start += half + 1;
                count -= half + 1;
            } else {
                count = half;
            }
        }
        start
    }

    /// Finds the first position in the high bits at which the ones and zeros before it reach
    /// `bound`, where a one counts 1 and a zero counts `2^l`. Returns the number of ones before it,
    /// the length of the run of ones that ends there (not counting one zero after it), and the
    /// zeros before that run.
    #[inline(always)]
    fn cross(&self, bound: u64, len: u64) -> (usize, usize, u64) {
        let low = self.layout.low;
        // Whether so many ones and zeros do not reach the bound.
        let less = |ones: u64, zeros: u64| {
            (ones < bound) & (zeros <= (bound - 1).wrapping_sub(ones) >> low)
        };
        // Words after the last one hold other bytes.
        let ranks = self.ranks();
        let word = (1..4).map(|word| {
            let ones = rank(ranks, word);
            u64::from(less(ones, (64 * word).wrapping_sub(ones)) & (ones < len))
        });
        let mut word: u64 = word.sum();
        let bits = self.word(word as usize);
        let mut ones = rank(ranks, word);
        let mut zeros = (64 * word).wrapping_sub(ones);
        // The number of ones in each 2, 4, 8, 16 and 32 bits of the word.
        let pairs = bits - (bits >> 1 & 0x5555_5555_5555_5555);
        let fours = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
        let bytes = (fours + (fours >> 4)) & 0x0F0F_0F0F_0F0F_0F0F;
        let sixteens = (bytes + (bytes >> 8)) & 0x00FF_00FF_00FF_00FF;
        let halves = (sixteens + (sixteens >> 16)) & 0x0000_FFFF_0000_FFFF;
        let mut bit = 0;
        for (counts, half) in
            [(halves, 32), (sixteens, 16), (bytes, 8), (fours, 4), (pairs, 2), (bits, 1)]
        {
            let set = counts >> bit & (2 * half - 1);
            let passes = less(ones.wrapping_add(set), zeros.wrapping_add(half - set));
            ones = select_unpredictable(passes, ones.wrapping_add(set), ones);
            zeros = select_unpredictable(passes, zeros.wrapping_add(half - set), zeros);
            bit += select_unpredictable(passes, half, 0);
        }
        // What is before this bit does not reach the bound, what is before the next one does.
        let rest = bits << (63 - bit);
        let is_one = rest >> 63;
        let mut run = u64::from((rest << (1 - is_one)).leading_ones());
        let mut before = bit + is_one;
        while run == before && word > 0 {
            word -= 1;
            run += u64::from(self.word(word as usize).leading_ones());
            before += 64;
        }
        ((ones.wrapping_add(is_one)) as usize, run as usize, zeros)
    }
}

/// The number of ones before word `word`, 0 to 3, given [`EliasFano::ranks`].
#[inline(always)]
fn rank(ranks: u64, word: u64) -> u64 {
    ranks >> (8 * word) & 0xFF
}
