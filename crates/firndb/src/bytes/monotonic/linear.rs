//! Increasing sequences as deviations from lines: the form of short sequences, and of those that
//! rise evenly.
//!
//! A block holds 64 numbers: the first one, and for each its residual, the distance from a straight
//! line through the first, packed to the width that the block needs (frame of reference with a
//! slope; Lucene's `DirectMonotonicReader` has the same idea). A run of consecutive numbers takes no
//! bits.
//!
//! ```text
//! OFFSET       SIZE  FIELD
//! 0            8     n, the number of numbers
//! 8 + 16 b     8     block b: first number
//! 16 + 16 b    8     block b: bits of a residual | offset of the residuals in the area below << 8
//!                    | slope << 48
//! 8 + 16 B     ..    area: residuals of all blocks, each block at a byte border (B = ceil(n / 64))
//! end - 8      8     zeros
//! ```
//! Number i of a block is `first + i s + residual[i] - residual[0]`, modulo 2^64, where `s = 1 +
//! (slope >> 5 << (slope & 31))`. A residual has 0 to 56 bits, or 64.

use crate::bytes::int::u64_at;
use crate::bytes::monotonic::gallop::gallop;
use crate::bytes::packed::width;
use crate::bytes::prefetch::prefetch;
use crate::{Error, Result};

/// Numbers of a block.
pub(super) const BLOCK: usize = 64;

/// Writes a sequence.
pub(super) struct Writer {
    heads: Vec<u8>,
    area: Vec<u8>,
    slopes: bool,
}

impl Writer {
    /// For `len` numbers.
    pub(super) fn new(len: usize) -> Writer {
        Writer::with(len, len >= LONG)
    }

    fn with(len: usize, slopes: bool) -> Writer {
        let mut heads = Vec::with_capacity(least_size(len));
        heads.extend_from_slice(&(len as u64).to_le_bytes());
        Writer { heads, area: Vec::new(), slopes }
    }

    /// Adds a block of [`BLOCK`] numbers; only the last block may be shorter.
    pub(super) fn push(&mut self, block: &[u64]) {
        debug_assert!(block.is_sorted_by(|a, b| a < b));
        let (bits, slope, least) = fit(block, self.slopes);
        let start = self.area.len();
        debug_assert!(start < 1 << 40);
        let location = u64::from(bits) | (start as u64) << 8 | slope << 48;
        self.heads.extend_from_slice(&block[0].to_le_bytes());
        self.heads.extend_from_slice(&location.to_le_bytes());
        let end = start + (block.len() * usize::from(bits)).div_ceil(8);
        self.area.resize(end + 8, 0); // so that any residual is inside one word
        for (i, v) in block.iter().enumerate() {
            let residual = above(block, slope, i, *v).wrapping_sub(least);
            // Up to 56 bits fit into a word after up to 7 other bits; 64 bits begin at a byte.
            let bit = i * usize::from(bits);
            let at = start + (bit >> 3);
            let word = u64_at(&self.area, at) | residual << (bit & 7);
            self.area[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        self.area.truncate(end);
    }

    /// Bytes of the sequence.
    pub(super) fn size(&self) -> usize {
        self.heads.len() + self.area.len() + 8
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.heads.extend_from_slice(&self.area);
        self.heads.extend_from_slice(&[0; 8]);
        self.heads
    }
}

/// Bits per number that a slope must save: with a slope, reading a number reads two residuals.
const MIN_SAVED: u8 = 2;
/// Shorter sequences have no slopes: they are read often and take few bytes anyway.
const LONG: usize = 1 << 12;

/// Chooses between the line of consecutive numbers and the one to the block's last number. Returns
/// the bits of a residual, the slope, and the distance of the lowest number from the line, modulo
/// 2^64.
fn fit(block: &[u64], slopes: bool) -> (u8, u64, u64) {
    let last = block.len() - 1;
    let rise = (block[last] - block[0]).checked_div(last as u64).map_or(0, |rise| rise - 1);
    // A slope is eleven bits and a shift.
    let shift = u64::from(width(rise).saturating_sub(11)).min(31);
    let slope = (rise >> shift).min(0x7FF) << 5 | shift;
    let line = |slope| {
        let far = block.iter().enumerate().map(|(i, v)| above(block, slope, i, *v) as i64);
        let (least, most) = far.fold((0, 0), |(a, b), v| (v.min(a), v.max(b)));
        (bits_of(most.wrapping_sub(least) as u64), slope, least as u64)
    };
    let flat = bits_of(block[last] - block[0] - last as u64);
    match slopes.then(|| line(slope)) {
        Some(steep) if steep.0 + MIN_SAVED <= flat => steep,
        _ => (flat, 0, 0),
    }
}

/// Bits of a residual, for residuals up to `most`.
fn bits_of(most: u64) -> u8 {
    match width(most) {
        bits @ 0..=56 => bits,
        _ => 64,
    }
}

/// The distance of a number from the line, modulo 2^64.
fn above(block: &[u64], slope: u64, i: usize, v: u64) -> u64 {
    v.wrapping_sub(block[0]).wrapping_sub(step(slope).wrapping_mul(i as u64))
}

/// The rise of a line per number.
#[inline(always)]
fn step(slope: u64) -> u64 {
    1 + (slope >> 5 << (slope & 31))
}

/// The fewest bytes of a sequence of `len` numbers.
pub(super) fn least_size(len: usize) -> usize {
    8 + 16 * len.div_ceil(BLOCK) + 8
}

/// A sequence over bytes.
#[derive(Clone, Copy)]
pub(crate) struct Linear<'a> {
    heads: &'a [u8],
    area: &'a [u8],
    len: usize,
}

impl<'a> Linear<'a> {
    /// Checks the number of numbers, and that there is room for the heads of all blocks.
    pub(crate) fn new(bytes: &'a [u8], len: usize) -> Result<Linear<'a>> {
        let heads_end = least_size(len) - 8;
        if bytes.len() < heads_end + 8 || u64_at(bytes, 0) != len as u64 {
            return Err(Error::corrupt(format!(
                "a sequence says {} numbers in {} bytes, expected {len}",
                u64_at(bytes, 0),
                bytes.len()
            )));
        }
        Ok(Linear { heads: &bytes[8..heads_end], area: &bytes[heads_end..], len })
    }

    /// For bytes that [`Linear::new`] accepted before. Other bytes yield some numbers.
    #[inline(always)]
    pub(crate) fn trusted(bytes: &'a [u8], len: usize) -> Linear<'a> {
        let heads_end = 8 + 16 * len.div_ceil(BLOCK);
        let heads = bytes.get(8..heads_end).unwrap_or(&[]);
        Linear { heads, area: bytes.get(heads_end..).unwrap_or(&[]), len }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number `i`; out of bounds it is some number.
    #[inline]
    pub(crate) fn get(&self, i: usize) -> u64 {
        self.block(i / BLOCK).get(i % BLOCK)
    }

    /// Prefetches what [`Linear::fetch`] of number `i` reads.
    #[inline(always)]
    pub(crate) fn fetch_head(&self, i: usize) {
        prefetch(self.heads.get(i / BLOCK * 16..).unwrap_or(&[]), 1);
    }

    /// Prefetches number `i`.
    #[inline(always)]
    pub(crate) fn fetch(&self, i: usize) {
        let location = self.location(i / BLOCK);
        let at = (location >> 8 & OFFSET) as usize + i % BLOCK * (location & 0xFF) as usize / 8;
        prefetch(self.area.get(at..).unwrap_or(&[]), 1);
    }

    /// Numbers `i` and `i + 1`, in most cases at the cost of one.
    #[inline]
    pub(crate) fn pair(&self, i: usize) -> (u64, u64) {
        let (block, at) = (self.block(i / BLOCK), i % BLOCK);
        if block.slope != 0 || at + 1 == BLOCK {
            return self.distant_pair(i);
        }
        (block.flat(at), block.flat(at + 1))
    }

    #[inline(never)]
    fn distant_pair(&self, i: usize) -> (u64, u64) {
        (self.get(i), self.get(i + 1))
    }

    /// All numbers.
    pub(crate) fn decode(&self) -> Vec<u64> {
        let mut all = Vec::with_capacity(self.len);
        for start in (0..self.len).step_by(BLOCK) {
            let block = self.block(start / BLOCK);
            all.extend((0..BLOCK.min(self.len - start)).map(|i| block.get(i)));
        }
        all
    }

    #[inline(always)]
    fn block(&self, block: usize) -> Block<'a> {
        let (first, location) = (self.first(block), self.location(block));
        let bits = (location & 0xFF) as u32;
        let area = self.area.get((location >> 8 & OFFSET) as usize..).unwrap_or(&[]);
        let mask = u64::MAX >> (64u32.saturating_sub(bits) & 63);
        Block { first, bits, mask, area, slope: location >> 48 }
    }

    #[inline(always)]
    fn location(&self, block: usize) -> u64 {
        u64_at(self.heads, block * 16 + 8)
    }

    /// The number of numbers below `v`, which is the index of the first that is at least `v`.
    pub(crate) fn lower_bound(&self, v: u64) -> usize {
        let (mut low, mut size) = (0, self.blocks());
        while size > 1 {
            let half = size / 2;
            low = if self.first(low + half) <= v { low + half } else { low };
            size -= half;
        }
        self.lower_bound_in(low, v)
    }

    /// [`Linear::lower_bound`] of two numbers, `a <= b`. The search for the second starts where the
    /// first was found: most ranges are short.
    pub(crate) fn lower_bounds(&self, a: u64, b: u64) -> (usize, usize) {
        let start = self.lower_bound(a);
        let block = gallop(start / BLOCK, self.blocks(), |block| self.first(block) <= b);
        (start, self.lower_bound_in(block, b).max(start))
    }

    fn blocks(&self) -> usize {
        self.heads.len() / 16
    }

    #[inline(always)]
    fn first(&self, block: usize) -> u64 {
        u64_at(self.heads, block * 16)
    }

    /// The lower bound of `v`, which is at or above the first number of `block` and not above the
    /// first number of the next block.
    fn lower_bound_in(&self, block: usize, v: u64) -> usize {
        let start = block * BLOCK;
        let numbers = self.block(block);
        if v <= numbers.first || start >= self.len {
            return start.min(self.len);
        }
        let size = BLOCK.min(self.len - start);
        // `v` is above number 0, so the lower bound follows the last number below it.
        start
            + 1
            + match numbers.slope {
                0 => last_below(v, size, |i| numbers.flat(i)),
                _ => last_below(v, size, |i| numbers.get_on_line(i)),
            }
    }

    /// Checks that every number is above the one before it and is where a search looks for it.
    pub(crate) fn verify(&self) -> Result<()> {
        let mut last = None;
        for i in 0..self.len {
            let value = self.get(i);
            if i % BLOCK == 0 {
                let bits = self.location(i / BLOCK) & 0xFF;
                if value != self.first(i / BLOCK) || (bits > 56 && bits != 64) {
                    let message = format!("block {} of a sequence contradicts itself", i / BLOCK);
                    return Err(Error::corrupt(message));
                }
            }
            if last.is_some_and(|last| last >= value) {
                return Err(Error::corrupt(format!("number {i} of a sequence does not increase")));
            }
            last = Some(value);
        }
        Ok(())
    }
}

/// The last of `size` numbers that is below `v`. Number 0 is.
#[inline(always)]
fn last_below(v: u64, mut size: usize, number: impl Fn(usize) -> u64) -> usize {
    let mut at = 0;
    while size > 1 {
        let half = size / 2;
        at = if number(at + half) < v { at + half } else { at };
        size -= half;
    }
    at
}

/// The bits of an offset, after the bits of a residual were shifted out.
const OFFSET: u64 = (1 << 40) - 1;

/// One block: its first number, its residuals, and the slope of its line.
struct Block<'a> {
    first: u64,
    bits: u32,
    mask: u64,
    area: &'a [u8],
    slope: u64,
}

impl Block<'_> {
    #[inline(always)]
    fn get(&self, i: usize) -> u64 {
        match self.slope {
            0 => self.flat(i),
            _ => self.get_on_line(i),
        }
    }

    /// [`Block::get`] of a block without a slope.
    #[inline(always)]
    fn flat(&self, i: usize) -> u64 {
        self.first.wrapping_add(i as u64).wrapping_add(self.residual(i))
    }

    /// [`Block::get`] of a block with a slope. Not inlined: most blocks have none, and reading those
    /// is faster then.
    #[inline(never)]
    fn get_on_line(&self, i: usize) -> u64 {
        let on_line = self.first.wrapping_add(step(self.slope).wrapping_mul(i as u64));
        on_line.wrapping_add(self.residual(i)).wrapping_sub(self.residual(0))
    }

    #[inline(always)]
    fn residual(&self, i: usize) -> u64 {
        if self.bits == 0 {
            return 0; // These bytes belong to another block.
        }
        let bit = i * self.bits as usize;
        (u64_at(self.area, bit >> 3) >> (bit & 7)) & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::monotonic::Increasing;
    use crate::bytes::monotonic::tests::{check_sequence, shapes};

    fn encode_with(values: &[u64], slopes: bool) -> Vec<u8> {
        let mut writer = Writer::with(values.len(), slopes);
        values.chunks(BLOCK).for_each(|block| writer.push(block));
        assert_eq!(writer.size(), writer.heads.len() + writer.area.len() + 8);
        writer.finish()
    }

    #[test]
    fn sequences_round_trip() {
        for values in shapes() {
            for slopes in [false, true] {
                let bytes = encode_with(&values, slopes);
                let sequence = Linear::new(&bytes, values.len()).unwrap();
                check_sequence(Increasing::Linear(sequence), &values);
            }
        }
    }

    #[test]
    fn verify_rejects_a_sequence_that_does_not_increase() {
        let values: Vec<u64> = (0..200u32).map(|i| u64::from(i * i) * 1000).collect();
        let good = encode_with(&values, true);
        // Of block 1: its first number, a residual, the width of residuals, the slope.
        let area = 8 + 16 * 4;
        let location = u64_at(&good, 8 + 16 + 8);
        let block = area + (location >> 8 & OFFSET) as usize;
        let places = [(10, 0xFF), (block + 20 - 8 - 16, 0xFF), (8 + 8, 0x3F), (8 + 14, 0x10)];
        for (at, xor) in places.map(|(at, xor)| (at + 16, xor)) {
            let mut bad = good.clone();
            bad[at] ^= xor;
            let s = Linear::new(&bad, 200).unwrap();
            assert!(s.verify().is_err(), "byte {at}");
        }
    }

    #[test]
    fn bytes_match_the_specification() {
        let expected = [
            3, 0, 0, 0, 0, 0, 0, 0, // n
            5, 0, 0, 0, 0, 0, 0, 0, // first number
            2, 0, 0, 0, 0, 0, 0, 0,          // offset 0, 2 bits each
            0b11_00_00, // residuals of 5, 6, 10: 0, 0, 3
            0, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(encode_with(&[5, 6, 10], false), expected);
        #[rustfmt::skip]
        let sloping = [
            4, 0, 0, 0, 0, 0, 0, 0, // n
            100, 0, 0, 0, 0, 0, 0, 0, // first number
            3, 0, 0, 0, 0, 0, 0x20, 0x01, // 3 bits each, offset 0, 1 + (9 << 0) per number
            0b0100_0101, 0b1101, // residuals of 100, 105, 120, 131: 5, 0, 5, 6
            0, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(encode_with(&[100, 105, 120, 131], true), sloping);
    }

    #[test]
    fn evenly_rising_numbers_take_few_bits() {
        // Offsets of documents of 440 to 560 bytes: within some hundreds of a line.
        let values: Vec<u64> = (0..6400u32).map(|i| u64::from(i * 500 + i * i % 61)).collect();
        let size = |n: usize| {
            let mut writer = Writer::new(n);
            values[..n].chunks(BLOCK).for_each(|block| writer.push(block));
            writer.size()
        };
        assert!(size(6400) < 7000, "{} bytes", size(6400));
        assert!(size(640) > 1100, "short sequences have no slopes: {}", size(640));
    }
}
