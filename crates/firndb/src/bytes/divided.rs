//! A block of a sequence in divided blocks (`elias_fano.rs`): the number of an index, and the index
//! of a number.
//!
//! Row of high bits: the set bit of number i is at `(residual >> l) + i`, so number i is what the
//! zeros before that bit are worth (2^l each), the ones (1 each), and its low bits.

use super::int::u64_at;
use std::hint::select_unpredictable;

/// One block: its first number, and where its bits are.
pub(super) struct Block<'a> {
    pub(super) first: u64,
    pub(super) place: u64,
    /// The whole sequence, and where its area begins.
    pub(super) bytes: &'a [u8],
    pub(super) area: usize,
}

impl Block<'_> {
    /// Low bits of a number; `None` if the numbers are consecutive.
    #[inline(always)]
    pub(super) fn low(&self) -> Option<u32> {
        ((self.place & 63) as u32).checked_sub(1)
    }

    /// Where the low bits begin.
    #[inline(always)]
    pub(super) fn offset(&self) -> usize {
        self.area + (self.place >> 6) as usize
    }

    /// Where the high bits begin.
    #[inline(always)]
    pub(super) fn highs(&self, low: u32) -> usize {
        self.offset() + 16 * low as usize
    }

    /// How many high bits are set before each of the four words, a byte for each. Behind the last
    /// word there are bits of others: then it is as many as there are numbers, or more.
    #[inline(always)]
    fn ranks(&self, low: u32) -> u64 {
        let at = self.highs(low);
        let ones = |word: usize| u64::from(u64_at(self.bytes, at + 8 * word).count_ones());
        let first = ones(0);
        let second = first + ones(1);
        first << 8 | second << 16 | (second + ones(2)) << 24
    }

    /// The low bits of number `i`.
    #[inline(always)]
    fn lows(&self, low: u32, i: usize) -> u64 {
        let bit = i * low as usize;
        u64_at(self.bytes, self.offset() + (bit >> 3)) >> (bit & 7) & ((1 << low) - 1)
    }

    /// Number `i`, whose high bit is `bit`.
    #[inline(always)]
    fn number(&self, low: u32, i: usize, bit: usize) -> u64 {
        let high = (bit.wrapping_sub(i) as u64) << low;
        self.first.wrapping_add(i as u64).wrapping_add(high).wrapping_add(self.lows(low, i))
    }

    /// Number `i`, and its high bit: the word it is in, and where in it. `select` finds the bit of
    /// a rank in a word.
    #[inline(always)]
    pub(super) fn get(
        &self,
        i: usize,
        select: impl Fn(u64, u64) -> usize,
    ) -> (u64, Option<(u64, usize, u64)>) {
        let Some(low) = self.low() else {
            return (self.first.wrapping_add(i as u64), None);
        };
        let at = i as u64;
        let ranks = self.ranks(low);
        let word: u64 = (1..4).map(|word| u64::from(rank(ranks, word) <= at)).sum();
        let bits = u64_at(self.bytes, self.highs(low) + 8 * word as usize);
        let bit = select(bits, at.wrapping_sub(rank(ranks, word)));
        (self.number(low, i, 64 * word as usize + bit), Some((word, bit, bits)))
    }

    /// Numbers `i` and `i + 1` of a block that has both.
    #[inline(always)]
    pub(super) fn pair(&self, i: usize, select: impl Fn(u64, u64) -> usize) -> (u64, u64) {
        let (number, high) = self.get(i, select);
        let (Some(low), Some((mut word, bit, bits))) = (self.low(), high) else {
            return (number, number.wrapping_add(1));
        };
        let mut rest = bits & u64::MAX << (bit & 63) << 1;
        while rest == 0 && word < 3 {
            word += 1;
            rest = u64_at(self.bytes, self.highs(low) + 8 * word as usize);
        }
        let next = 64 * word as usize + rest.trailing_zeros() as usize;
        (number, self.number(low, i + 1, next))
    }

    /// The first numbers of the block, as many as there is room for.
    pub(super) fn unpack(&self, out: &mut [u64]) {
        let mut i = 0;
        if let Some(low) = self.low() {
            for word in 0..4 {
                let mut ones = u64_at(self.bytes, self.highs(low) + 8 * word);
                while ones != 0 && i < out.len() {
                    out[i] = self.number(low, i, 64 * word + ones.trailing_zeros() as usize);
                    ones &= ones - 1;
                    i += 1;
                }
            }
            out[i..].fill(self.first); // What is damaged has too few.
            return;
        }
        out.iter_mut().zip(0..).for_each(|(number, i)| *number = self.first.wrapping_add(i));
    }

    /// How many of the block's `size` numbers are below `first + rise`, a number above the first.
    #[inline(always)]
    pub(super) fn below(&self, rise: u64, size: usize) -> usize {
        let Some(low) = self.low() else { return rise.min(size as u64) as usize };
        let (end, run, zeros) = self.cross(low, rise, size as u64);
        // Those before the run are below, those from `end` on are not, and those of the run are
        // told by their low bits.
        let rest = rise.wrapping_sub(zeros << low);
        let (mut start, end) = (end.saturating_sub(run).min(size), end.min(size));
        let mut count = end.saturating_sub(start);
        let is_below = |i: usize| self.lows(low, i) + (i as u64) < rest;
        if count <= 3 {
            // Mostly: without a branch for each.
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

    /// The first place in the row that is worth `rise` or more: how many ones are before it, how
    /// many of them stand together last (but for one zero behind them), and the zeros that these
    /// have before them.
    #[inline(always)]
    fn cross(&self, low: u32, rise: u64, size: u64) -> (usize, usize, u64) {
        // Whether so many ones and zeros are worth less.
        let less =
            |ones: u64, zeros: u64| (ones < rise) & (zeros <= (rise - 1).wrapping_sub(ones) >> low);
        // In words behind the last one there are bits of others.
        let ranks = self.ranks(low);
        let word = (1..4).map(|word| {
            let ones = rank(ranks, word);
            u64::from(less(ones, (64 * word).wrapping_sub(ones)) & (ones < size))
        });
        let mut word: u64 = word.sum();
        let at = |word: u64| u64_at(self.bytes, self.highs(low) + 8 * word as usize);
        let bits = at(word);
        let mut ones = rank(ranks, word);
        let mut zeros = (64 * word).wrapping_sub(ones);
        // Halves of the word, of its halves, and so on.
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
        // That bit is worth less, and the one behind it is not.
        let rest = bits << (63 - bit);
        let is_one = rest >> 63;
        let mut run = u64::from((rest << (1 - is_one)).leading_ones());
        let mut before = bit + is_one;
        while run == before && word > 0 {
            word -= 1;
            run += u64::from(at(word).leading_ones());
            before += 64;
        }
        ((ones.wrapping_add(is_one)) as usize, run as usize, zeros)
    }
}

/// How many high bits are set before word `word`, 0 to 3, by what [`Block::ranks`] gave.
#[inline(always)]
fn rank(ranks: u64, word: u64) -> u64 {
    ranks >> (8 * word) & 0xFF
}
