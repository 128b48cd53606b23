//! Strictly increasing sequences of u64 with O(1) access and binary search: dictionaries, offsets,
//! prefix sums.
//!
//! Blocks of 64 numbers keep their first number and, for each, the difference to it minus its index
//! in the block, packed to the width the block needs ("frame of reference"). Since the numbers
//! increase by at least 1, a run of consecutive numbers takes no bits at all.
//!
//! ```text
//! OFFSET       SIZE  FIELD
//! 0            8     n, how many numbers
//! 8 + 16 b     8     block b: first number
//! 16 + 16 b    8     block b: offset of its residuals in the area below << 8 | bits of each
//! 8 + 16 B     ..    residuals of all blocks, each block at a byte border (B = ceil(n / 64))
//! end - 8      8     zeros
//! ```
//! A residual has 0 to 56 bits, or 64.

use super::int::u64_at;
use super::packed::width;
use super::prefetch::prefetch;
use crate::{Error, Result};

const BLOCK: usize = 64;

/// Encodes a strictly increasing sequence.
pub(crate) fn encode(values: impl ExactSizeIterator<Item = u64> + Clone) -> Vec<u8> {
    let n = values.len();
    let blocks = n.div_ceil(BLOCK);
    let mut heads = Vec::with_capacity(8 + 16 * blocks);
    heads.extend_from_slice(&(n as u64).to_le_bytes());
    let mut area: Vec<u8> = Vec::new();
    let mut values = values;
    let mut block = Vec::with_capacity(BLOCK);
    for _ in 0..blocks {
        block.clear();
        block.extend(values.by_ref().take(BLOCK));
        debug_assert!(block.is_sorted_by(|a, b| a < b));
        let last = block.len() - 1;
        let bits = match width(block[last] - block[0] - last as u64) {
            bits @ 0..=56 => bits,
            _ => 64,
        };
        heads.extend_from_slice(&block[0].to_le_bytes());
        heads.extend_from_slice(&((area.len() as u64) << 8 | u64::from(bits)).to_le_bytes());
        let start = area.len();
        let end = start + (block.len() * usize::from(bits)).div_ceil(8);
        area.resize(end + 8, 0); // eight bytes more, so that any residual is inside one of u64
        for (i, v) in block.iter().enumerate() {
            let residual = v - block[0] - i as u64;
            // 56 bits and less fit beside up to 7 others; 64 bits begin at a byte.
            let bit = i * usize::from(bits);
            let at = start + (bit >> 3);
            let word = u64_at(&area, at) | residual << (bit & 7);
            area[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        area.truncate(end);
    }
    heads.extend_from_slice(&area);
    heads.extend_from_slice(&[0; 8]);
    heads
}

/// Bytes that a sequence of `len` numbers has at least.
pub(crate) fn least_size(len: usize) -> usize {
    8 + 16 * len.div_ceil(BLOCK) + 8
}

/// A strictly increasing sequence over bytes.
#[derive(Clone, Copy)]
pub(crate) struct Increasing<'a> {
    heads: &'a [u8],
    area: &'a [u8],
    len: usize,
}

impl<'a> Increasing<'a> {
    /// Checks the number of entries and the place of the block heads.
    pub(crate) fn new(bytes: &'a [u8], len: usize) -> Result<Increasing<'a>> {
        let heads_end = least_size(len) - 8;
        if bytes.len() < heads_end + 8 || u64_at(bytes, 0) != len as u64 {
            return Err(Error::corrupt(format!(
                "a sequence says {} numbers in {} bytes, expected {len}",
                u64_at(bytes, 0),
                bytes.len()
            )));
        }
        Ok(Increasing { heads: &bytes[8..heads_end], area: &bytes[heads_end..], len })
    }

    /// A sequence that [`Increasing::new`] accepted before; of other bytes it gives some numbers.
    #[inline(always)]
    pub(crate) fn trusted(bytes: &'a [u8], len: usize) -> Increasing<'a> {
        let heads_end = 8 + 16 * len.div_ceil(BLOCK);
        let heads = bytes.get(8..heads_end).unwrap_or(&[]);
        Increasing { heads, area: bytes.get(heads_end..).unwrap_or(&[]), len }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number `i`; out of bounds it is some number.
    #[inline]
    pub(crate) fn get(&self, i: usize) -> u64 {
        self.block(i / BLOCK).get(i % BLOCK)
    }

    /// Asks for the memory of number `i`.
    #[inline(always)]
    pub(crate) fn fetch(&self, i: usize) {
        let block = self.block(i / BLOCK);
        let at = i % BLOCK * block.bits as usize / 8;
        prefetch(block.area.get(at..).unwrap_or(&[]), 1);
    }

    /// Numbers `i` and `i + 1`, mostly for the price of one.
    #[inline]
    pub(crate) fn pair(&self, i: usize) -> (u64, u64) {
        let (block, at) = (self.block(i / BLOCK), i % BLOCK);
        let next = if at + 1 < BLOCK { block.get(at + 1) } else { self.get(i + 1) };
        (block.get(at), next)
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
        let (first, place) = (self.first(block), u64_at(self.heads, block * 16 + 8));
        let bits = (place & 0xFF) as u32;
        let area = self.area.get((place >> 8) as usize..).unwrap_or(&[]);
        Block { first, bits, mask: u64::MAX >> (64u32.saturating_sub(bits) & 63), area }
    }

    /// How many numbers are below `v`: the index of the first that is at least `v`.
    pub(crate) fn lower_bound(&self, v: u64) -> usize {
        let (mut low, mut size) = (0, self.blocks());
        while size > 1 {
            let half = size / 2;
            low = if self.first(low + half) <= v { low + half } else { low };
            size -= half;
        }
        self.lower_bound_in(low, v)
    }

    /// [`Increasing::lower_bound`] of two numbers, `a <= b`. The second is searched from where the
    /// first was found: most ranges are short.
    pub(crate) fn lower_bounds(&self, a: u64, b: u64) -> (usize, usize) {
        let start = self.lower_bound(a);
        let mut block = start / BLOCK;
        let mut step = 1;
        while block + step < self.blocks() && self.first(block + step) <= b {
            block += step;
            step *= 2;
        }
        while step > 1 {
            step /= 2;
            if block + step < self.blocks() && self.first(block + step) <= b {
                block += step;
            }
        }
        (start, self.lower_bound_in(block, b).max(start))
    }

    fn blocks(&self) -> usize {
        self.heads.len() / 16
    }

    #[inline(always)]
    fn first(&self, block: usize) -> u64 {
        u64_at(self.heads, block * 16)
    }

    /// The lower bound of `v`, which is at or after the first number of `block` and not after the
    /// first number of the block behind it.
    fn lower_bound_in(&self, block: usize, v: u64) -> usize {
        let start = block * BLOCK;
        let numbers = self.block(block);
        if v <= numbers.first || start >= self.len {
            return start.min(self.len);
        }
        let (mut at, mut size) = (0, BLOCK.min(self.len - start));
        while size > 1 {
            let half = size / 2;
            at = if numbers.get(at + half) < v { at + half } else { at };
            size -= half;
        }
        // `at` is the last number below v: number 0 is, since v > first.
        start + at + 1
    }

    /// The index of `v` if it is in the sequence.
    pub(crate) fn find(&self, v: u64) -> Option<usize> {
        let i = self.lower_bound(v);
        (i < self.len && self.get(i) == v).then_some(i)
    }

    /// Checks every number: above the one before it, and where a search looks for it.
    pub(crate) fn verify(&self) -> Result<()> {
        let mut last = None;
        for i in 0..self.len {
            let (value, head) = (self.get(i), i / BLOCK * 16);
            if i % BLOCK == 0 {
                let bits = u64_at(self.heads, head + 8) & 0xFF;
                if value != u64_at(self.heads, head) || (bits > 56 && bits != 64) {
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

/// One block: its first number and its residuals.
struct Block<'a> {
    first: u64,
    bits: u32,
    mask: u64,
    area: &'a [u8],
}

impl Block<'_> {
    #[inline(always)]
    fn get(&self, i: usize) -> u64 {
        let next = self.first.wrapping_add(i as u64);
        if self.bits == 0 {
            return next;
        }
        let bit = i * self.bits as usize;
        next.wrapping_add((u64_at(self.area, bit >> 3) >> (bit & 7)) & self.mask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[u64]) {
        let bytes = encode(values.iter().copied());
        let s = Increasing::new(&bytes, values.len()).unwrap();
        assert_eq!(s.decode(), values);
        for (i, &v) in values.iter().enumerate() {
            assert_eq!(s.get(i), v, "number {i} of {}", values.len());
            assert_eq!(s.find(v), Some(i));
            if let Some(&next) = values.get(i + 1) {
                assert_eq!(s.pair(i), (v, next));
            }
            for probe in [v.saturating_sub(1), v, v.saturating_add(1)] {
                assert_eq!(s.lower_bound(probe), values.partition_point(|&x| x < probe));
            }
        }
        for (i, &a) in values.iter().enumerate().step_by(7) {
            for &b in values[i..].iter().step_by(11) {
                let expected = (i, values.partition_point(|&x| x < b));
                assert_eq!(s.lower_bounds(a, b), expected);
            }
        }
        assert_eq!(s.lower_bound(u64::MAX), values.partition_point(|&x| x < u64::MAX));
        assert_eq!(s.lower_bound(0), 0);
        s.verify().unwrap();
    }

    #[test]
    fn a_sequence_that_does_not_increase_is_found() {
        let good = encode((0..200u32).map(|i| u64::from(i) * 7));
        // Block 1: its first number, a residual in the middle, the first residual, the bits.
        let area = 8 + 16 * 4;
        let place = u64_at(&good, 8 + 16 + 8);
        let block = area + (place >> 8) as usize;
        for (at, xor) in [(8 + 16, 0xFF), (block + 20, 0xFF), (block, 1), (8 + 16 + 8, 0x3F)] {
            let mut bad = good.clone();
            bad[at] ^= xor;
            let s = Increasing::new(&bad, 200).unwrap();
            assert!(s.verify().is_err(), "byte {at}");
        }
    }

    #[test]
    fn bytes_are_as_specified() {
        let expected = [
            3, 0, 0, 0, 0, 0, 0, 0, // n
            5, 0, 0, 0, 0, 0, 0, 0, // first number
            2, 0, 0, 0, 0, 0, 0, 0,          // offset 0, 2 bits each
            0b11_00_00, // residuals of 5, 6, 10: 0, 0, 3
            0, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(encode([5u64, 6, 10].into_iter()), expected);
    }

    #[test]
    fn sequences_round_trip() {
        check(&[]);
        check(&[0]);
        check(&[u64::MAX]);
        check(&[0, u64::MAX]);
        check(&(0..1000).collect::<Vec<_>>());
        check(&(0..63).map(|i| i * (1 << 58)).collect::<Vec<_>>());
        let mut state = 1u64;
        for shift in 0..60 {
            let mut v = 0u64;
            let mut values = Vec::new();
            for _ in 0..200 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                match v.checked_add(1 + (state >> (4 + shift))) {
                    Some(next) => v = next,
                    None => break,
                }
                values.push(v);
            }
            check(&values);
        }
    }
}
