//! Elias-Fano coding of numbers that never decrease (Elias 1974, Fano 1971): the one encoder behind
//! posting lists, points, hints of the log and monotonic sequences.
//!
//! The low `l` bits of each value are packed. The rest of a value is its bucket, and the buckets
//! are written in unary: for each bucket a 1 per value in it, then a 0. So value i of bucket b has
//! bit `b + i` of the high bits. With `l = floor(log2(N / n))`, n values below N take about
//! `log2(N / n) + 2` bits per value.
//!
//! ```text
//! OFFSET  SIZE   FIELD
//! 0       lows   low bits: value i has bits i*l .. (i+1)*l, lowest bit first; at least ceil(n l / 8)
//!                bytes, zeros after the last value
//! lows    highs  high bits, from the lowest bit of each byte on, zeros after the last one
//! ```
//! A sequence does not say how many values it has, nor its [`Layout`]: what contains it knows. Words
//! are read whole, so 8 more bytes follow the sequence in the file.
//!
//! Every reading function accepts any bytes. Of damaged ones it returns some number.

mod block;

use crate::bytes::int::{put_u64, u64_at};
use crate::bytes::packed::{Packed, width};
use crate::bytes::select;

/// The low bits of a value and the sizes of both parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Low bits of each value, at most 57.
    pub(crate) low: u32,
    /// Bytes of the low bits of all values.
    pub(crate) lows: usize,
    /// Bytes of the high bits.
    pub(crate) highs: usize,
}

impl Layout {
    /// The smallest layout for `len` values below `universe`.
    #[inline]
    pub(crate) fn new(universe: usize, len: usize) -> Layout {
        let low = width((universe / len.max(1)) as u64).saturating_sub(1);
        let buckets = universe.div_ceil(1 << low);
        Layout {
            low: u32::from(low),
            lows: (len * usize::from(low)).div_ceil(8),
            highs: (len + buckets).div_ceil(8),
        }
    }

    /// Bytes of a sequence.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.lows + self.highs
    }
}

/// Appends the sequence of values that never decrease, for which the layout has room.
pub(crate) fn encode(values: impl Iterator<Item = u64>, layout: Layout, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + layout.size(), 0);
    let (lows, highs) = out[start..].split_at_mut(layout.lows);
    let (mut at, mut word, mut filled) = (0, 0, 0);
    for (i, value) in values.enumerate() {
        let low = value & ((1 << layout.low) - 1);
        word |= low << filled;
        filled += layout.low;
        if filled >= 64 {
            put_u64(lows, at, word);
            at += 8;
            filled -= 64;
            word = low >> (layout.low - filled);
        }
        let bit = (value >> layout.low) as usize + i;
        highs[bit >> 3] |= 1 << (bit & 7);
    }
    let rest = filled.div_ceil(8) as usize;
    lows[at..at + rest].copy_from_slice(&word.to_le_bytes()[..rest]);
}

/// A sequence in bytes that go on after it.
#[derive(Clone, Copy)]
pub(crate) struct EliasFano<'a> {
    bytes: &'a [u8],
    /// Where the sequence begins.
    at: usize,
    layout: Layout,
}

/// A position between two values: the index of the next one, and a high bit at or before its own
/// that follows those of all values before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) index: usize,
    pub(crate) bit: usize,
}

impl<'a> EliasFano<'a> {
    /// The sequence that begins at byte `at`.
    #[inline(always)]
    pub(crate) fn new(bytes: &'a [u8], at: usize, layout: Layout) -> EliasFano<'a> {
        EliasFano { bytes, at, layout }
    }

    /// Word `i` of the high bits.
    #[inline(always)]
    fn word(&self, i: usize) -> u64 {
        u64_at(self.bytes, self.at + self.layout.lows + 8 * i)
    }

    /// Value `i`, whose high bit is `bit`.
    #[inline(always)]
    pub(crate) fn value(&self, i: usize, bit: usize) -> u64 {
        (bit.wrapping_sub(i) as u64) << self.layout.low | self.low(i)
    }

    /// The low bits of value `i`.
    #[inline(always)]
    fn low(&self, i: usize) -> u64 {
        let bit = i * self.layout.low as usize;
        u64_at(self.bytes, self.at + (bit >> 3)) >> (bit & 7) & ((1 << self.layout.low) - 1)
    }

    /// The low bits of `len` values.
    #[inline(always)]
    pub(crate) fn lows(&self, len: usize) -> Packed<'a> {
        let bytes = self.bytes.get(self.at..).unwrap_or(&[]);
        Packed::trusted(bytes, self.layout.low as u8, len)
    }

    /// The bytes of up to `count` words of the high bits, from word `first` on. Bits of the last
    /// word that follow the high bits are not zeros.
    #[inline]
    pub(crate) fn words(&self, first: usize, count: usize) -> &'a [u8] {
        let end = self.layout.highs.next_multiple_of(8).min(8 * (first + count));
        let highs = self.at + self.layout.lows;
        self.bytes.get(highs + 8 * first..highs + end).unwrap_or(&[])
    }

    /// The position of the first value that is `buckets` buckets or more after the bucket in which
    /// `from` is; the end if there are not so many.
    #[inline]
    pub(crate) fn skip(&self, from: Position, buckets: usize) -> Position {
        if buckets == 0 {
            return from;
        }
        let (mut word, mut left) = (from.bit / 64, buckets);
        let mut zeros = !self.word(word) & u64::MAX << (from.bit % 64);
        loop {
            let count = zeros.count_ones() as usize;
            if count >= left {
                break;
            }
            left -= count;
            word += 1;
            if word * 8 >= self.layout.highs {
                // There are fewer buckets. Every bit but their zeros is a value's.
                let index = from.index + (word * 64 - from.bit).saturating_sub(buckets - left);
                return Position { index, bit: word * 64 };
            }
            zeros = !self.word(word);
        }
        let bit = word * 64 + select::portable(zeros, left as u64 - 1) + 1;
        Position { index: from.index + bit - from.bit - buckets, bit }
    }

    /// The values from a position on, of `len` in all.
    #[inline(always)]
    pub(crate) fn iter_from(&self, from: Position, len: usize) -> Iter<'a> {
        let word = from.bit / 64;
        let ones = self.word(word) & u64::MAX << (from.bit % 64);
        Iter { sequence: *self, word, ones, index: from.index, len }
    }

    /// All `len` values.
    #[inline(always)]
    pub(crate) fn iter(&self, len: usize) -> Iter<'a> {
        self.iter_from(Position::default(), len)
    }
}

/// Values in order.
#[derive(Clone)]
pub(crate) struct Iter<'a> {
    sequence: EliasFano<'a>,
    /// The word of the high bits that is read, and its bits that were not.
    word: usize,
    ones: u64,
    index: usize,
    len: usize,
}

impl Iter<'_> {
    /// The index of the next value.
    #[inline(always)]
    pub(crate) fn index(&self) -> usize {
        self.index
    }
}

impl Iterator for Iter<'_> {
    type Item = u64;

    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        if self.index >= self.len {
            return None;
        }
        while self.ones == 0 {
            self.word += 1;
            if self.word * 8 >= self.sequence.layout.highs {
                return None;
            }
            self.ones = self.sequence.word(self.word);
        }
        let bit = self.word * 64 + self.ones.trailing_zeros() as usize;
        let value = self.sequence.value(self.index, bit);
        self.ones &= self.ones - 1;
        self.index += 1;
        Some(value)
    }
}

#[cfg(test)]
mod tests;
