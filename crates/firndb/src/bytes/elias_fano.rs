//! Increasing sequences in divided blocks: the form of long ones.
//!
//! How far number i of a block of 128 is above the line of consecutive numbers that begins with the
//! first one, its residual, never falls. Its low bits are packed, and the high bits of all are a
//! row of bits in which bit `(residual >> l) + i` is set (Elias 1974, Fano 1971). Each block has an
//! l of its own, the least that leaves at most 128 zeros there: so wide gaps cost only their block,
//! and a number is found within one of four words. Consecutive numbers take no bits but the head of
//! their block, and not even heads if all are.
//!
//! ```text
//! OFFSET          SIZE  FIELD
//! 0               6     n, how many numbers
//! 6               1     bytes of a start, s | bytes of a place << 4, p; zero if all n numbers are
//!                       consecutive, then only the first of them follows
//! 7               1     1: this form
//! 8               8     first number
//! 16 + (s + p) b  s     block b: start, by how much its first number exceeds the sequence's, less
//!                       128 b
//! ..              p     block b: place, 1 + l (0 if its numbers are consecutive)
//!                       | offset of its bits in the area below << 6
//! 16 + (s + p) B  ..    area: for each block the low bits, 16 l bytes, and the high bits up to the
//!                       last that is set, to a byte border (B = ceil(n / 128))
//! end - 8         8     zeros
//! ```
//! Number i of a block is `first + i + residual[i]`, modulo 2^64.
#![expect(unsafe_code, reason = "calling functions compiled for features that were just detected")]

use super::divided::Block;
use super::increasing::gallop;
use super::int::u64_at;
use super::packed::width;
use super::prefetch::prefetch;
use super::select;
use crate::{Error, Result};
use std::hint::select_unpredictable;

/// Numbers of a block.
pub(super) const BLOCK: usize = 128;
/// The last byte of the first word of this form, and the byte before it.
const FORM: u8 = 1;
const WIDTHS: u64 = 0xFF << 48;
const HEADER: usize = 16;
/// The bits of the first word that say how many numbers there are.
const LEN: u64 = (1 << 48) - 1;

/// Writes a sequence.
pub(super) struct Writer {
    len: usize,
    /// Start and place of each block.
    heads: Vec<(u64, u64)>,
    area: Vec<u8>,
    first: u64,
}

impl Writer {
    /// Of so many numbers.
    pub(super) fn new(len: usize) -> Writer {
        debug_assert!(len < 1 << 48);
        let heads = Vec::with_capacity(len.div_ceil(BLOCK));
        Writer { len, heads, area: Vec::new(), first: 0 }
    }

    /// Adds a block of numbers, of which only the last may be shorter than the others.
    pub(super) fn push(&mut self, block: &[u64]) {
        if self.heads.is_empty() {
            self.first = block[0];
        }
        let start = block[0] - self.first - (self.heads.len() * BLOCK) as u64;
        let offset = self.area.len() as u64;
        let place = divide(block, &mut self.area) | offset << 6;
        self.heads.push((start, place));
    }

    /// Bytes of the sequence; too many for anyone if there is no room for its offsets.
    pub(super) fn size(&self) -> usize {
        match self.widths() {
            _ if self.area.len() as u64 >> 58 > 0 => usize::MAX,
            (0, _) => HEADER,
            (s, p) => HEADER + (s + p) * self.heads.len() + self.area.len() + 8,
        }
    }

    /// Bytes of a start and of a place.
    fn widths(&self) -> (usize, usize) {
        widths(self.heads.iter().fold((0, 0), |all, head| (all.0 | head.0, all.1 | head.1)))
    }

    pub(super) fn finish(self) -> Vec<u8> {
        let (s, p) = self.widths();
        let mut out = Vec::with_capacity(self.size());
        let forms = (s | p << 4) as u64 | u64::from(FORM) << 8;
        out.extend_from_slice(&(self.len as u64 | forms << 48).to_le_bytes());
        out.extend_from_slice(&self.first.to_le_bytes());
        if s > 0 {
            for (start, place) in self.heads {
                out.extend_from_slice(&start.to_le_bytes()[..s]);
                out.extend_from_slice(&place.to_le_bytes()[..p]);
            }
            out.extend_from_slice(&self.area);
            out.extend_from_slice(&[0; 8]);
        }
        out
    }
}

/// Bytes that hold starts and places, given the bits that occur in them.
fn widths((starts, places): (u64, u64)) -> (usize, usize) {
    let bytes = |v| usize::from(width(v)).div_ceil(8).max(1);
    if starts | places == 0 { (0, 0) } else { (bytes(starts), bytes(places)) }
}

/// Adds the bits of a block to the area; gives its place, without the offset.
fn divide(block: &[u64], area: &mut Vec<u8>) -> u64 {
    debug_assert!(block.is_sorted_by(|a, b| a < b));
    let last = block.len() - 1;
    let most = block[last] - block[0] - last as u64;
    if most == 0 {
        return 0;
    }
    // The least that leaves at most 128 zeros; at most 57.
    let low = usize::from(width(most).saturating_sub(8));
    let low = low + usize::from(most >> low > BLOCK as u64);
    let (lows, highs) = (area.len(), area.len() + 16 * low);
    area.resize(highs + (2 * BLOCK) / 8 + 8, 0); // so that what is written is inside words
    let mut set = |bit: usize, bits: u64| {
        let word = u64_at(area, bit >> 3) | bits << (bit & 7);
        area[bit >> 3..(bit >> 3) + 8].copy_from_slice(&word.to_le_bytes());
    };
    for (i, v) in block.iter().enumerate() {
        let residual = v - block[0] - i as u64;
        set(8 * lows + i * low, residual & ((1 << low) - 1));
        set(8 * highs + (residual >> low) as usize + i, 1);
    }
    area.truncate(highs + ((most >> low) as usize + block.len()).div_ceil(8));
    low as u64 + 1
}

/// A sequence over bytes. No more than a slice, so that it is passed in registers and nothing of
/// it is made before it is known to be of this form: the other one is read far more often.
#[derive(Clone, Copy)]
pub(crate) struct EliasFano<'a>(&'a [u8]);

/// Whether bytes begin as a sequence of `len` numbers in this form does.
#[inline(always)]
pub(super) fn is_divided(bytes: &[u8], len: usize) -> bool {
    u64_at(bytes, 0) & !WIDTHS == len as u64 | u64::from(FORM) << 56
}

impl<'a> EliasFano<'a> {
    /// Bytes that [`is_divided`] accepts, checked for the place of the block heads.
    pub(super) fn new(bytes: &'a [u8]) -> Result<EliasFano<'a>> {
        let view = View::new(bytes);
        let fits = match view.widths {
            (0, 0) => bytes.len() == HEADER,
            (1..=8, 1..=8) => bytes.len() >= view.area + 8,
            _ => false,
        };
        match fits {
            true => Ok(EliasFano(bytes)),
            false => Err(Error::corrupt(format!(
                "{} bytes are no sequence of {} numbers in divided blocks",
                bytes.len(),
                view.len
            ))),
        }
    }

    /// Bytes that [`EliasFano::new`] accepted before; of others that [`is_divided`] accepts it
    /// gives some numbers.
    #[inline(always)]
    pub(super) fn trusted(bytes: &'a [u8]) -> EliasFano<'a> {
        EliasFano(bytes)
    }

    #[inline(always)]
    pub(super) fn len(self) -> usize {
        (u64_at(self.0, 0) & LEN) as usize
    }

    /// Number `i`; out of bounds it is some number.
    #[inline(always)]
    pub(super) fn get(self, i: usize) -> u64 {
        // Consecutive numbers, as those that documents count themselves by.
        if self.0.len() == HEADER {
            return u64_at(self.0, 8).wrapping_add(i as u64);
        }
        self.get_divided(i)
    }

    #[inline(never)]
    fn get_divided(self, i: usize) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if select::can_deposit() {
            #[target_feature(enable = "bmi1,bmi2,popcnt")]
            fn get(bytes: &[u8], i: usize) -> u64 {
                let block = View::new(bytes).block(i / BLOCK);
                block.get(i % BLOCK, |word, rank| select::deposit(word, rank)).0
            }
            // SAFETY: the processor has these features.
            return unsafe { get(self.0, i) };
        }
        self.portable_get(i)
    }

    #[inline(never)]
    fn portable_get(self, i: usize) -> u64 {
        View::new(self.0).block(i / BLOCK).get(i % BLOCK, select::portable).0
    }

    /// Asks for the memory that [`EliasFano::fetch`] of number `i` reads.
    #[inline(never)]
    pub(super) fn fetch_head(self, i: usize) {
        let head = View::new(self.0).head(i / BLOCK);
        prefetch(self.0.get(head..).unwrap_or(&[]), 1);
    }

    /// Asks for the memory of number `i`.
    #[inline(never)]
    pub(super) fn fetch(self, i: usize) {
        let block = View::new(self.0).block(i / BLOCK);
        let Some(low) = block.low() else { return };
        let lows = block.offset() + i % BLOCK * low as usize / 8;
        for at in [lows, block.highs(low)] {
            prefetch(self.0.get(at..).unwrap_or(&[]), 1);
        }
    }

    /// Numbers `i` and `i + 1`, mostly for the price of one.
    #[inline(never)]
    pub(super) fn pair(self, i: usize) -> (u64, u64) {
        if i % BLOCK + 1 == BLOCK {
            return (self.get(i), self.get(i + 1));
        }
        #[cfg(target_arch = "x86_64")]
        if select::can_deposit() {
            #[target_feature(enable = "bmi1,bmi2,popcnt")]
            fn pair(bytes: &[u8], i: usize) -> (u64, u64) {
                let block = View::new(bytes).block(i / BLOCK);
                block.pair(i % BLOCK, |word, rank| select::deposit(word, rank))
            }
            // SAFETY: the processor has these features.
            return unsafe { pair(self.0, i) };
        }
        self.portable_pair(i)
    }

    #[inline(never)]
    fn portable_pair(self, i: usize) -> (u64, u64) {
        View::new(self.0).block(i / BLOCK).pair(i % BLOCK, select::portable)
    }

    /// All numbers.
    pub(super) fn decode(self) -> Vec<u64> {
        let view = View::new(self.0);
        let (mut all, mut numbers) = (Vec::with_capacity(view.len), [0; BLOCK]);
        for block in 0..view.blocks() {
            all.extend_from_slice(view.unpack(block, &mut numbers));
        }
        all
    }

    /// How many numbers are below `v`: the index of the first that is at least `v`.
    #[inline(never)]
    pub(super) fn lower_bound(self, v: u64) -> usize {
        View::new(self.0).lower_bound(v)
    }

    /// [`EliasFano::lower_bound`] of two numbers, `a <= b`. The second is searched from where the
    /// first was found: most ranges are short.
    #[inline(never)]
    pub(super) fn lower_bounds(self, a: u64, b: u64) -> (usize, usize) {
        let view = View::new(self.0);
        let start = view.lower_bound(a);
        let far = b.saturating_sub(view.first);
        let begins = |block: usize| view.rise(block, view.head(block)) <= far;
        let block = gallop(start / BLOCK, view.blocks(), begins);
        (start, view.lower_bound_in(block, b).max(start))
    }

    /// Checks every number: above the one before it, and where a search looks for it; and that
    /// the bytes are the only ones that say so.
    pub(super) fn verify(self) -> Result<()> {
        let view = View::new(self.0);
        if view.widths == (0, 0) {
            let last = view.first.checked_add((view.len as u64).saturating_sub(1));
            return last.map(|_| ()).ok_or_else(|| Error::corrupt("a sequence has no end"));
        }
        if view.block(0).first != view.first {
            return Err(Error::corrupt("a sequence does not begin with its first number"));
        }
        let (mut numbers, mut bits, mut at) = ([0; BLOCK], Vec::new(), view.area);
        let (mut last, mut seen) = (None, (0, 0));
        for block in 0..view.blocks() {
            let numbers = view.unpack(block, &mut numbers);
            for (i, &number) in numbers.iter().enumerate() {
                if last.is_some_and(|last| last >= number) {
                    let i = block * BLOCK + i;
                    let message = format!("number {i} of a sequence does not increase");
                    return Err(Error::corrupt(message));
                }
                last = Some(number);
            }
            bits.clear();
            let place = divide(numbers, &mut bits) | ((at - view.area) as u64) << 6;
            let end = at + bits.len();
            if view.block(block).place != place || self.0.get(at..end) != Some(&bits) {
                let message = format!("block {block} of a sequence contradicts itself");
                return Err(Error::corrupt(message));
            }
            seen = (seen.0 | view.start(view.head(block)), seen.1 | place);
            at = end;
        }
        let (s, p) = widths(seen);
        if (s as u8, p as u8) != view.widths || self.0.get(at..) != Some(&[0; 8]) {
            return Err(Error::corrupt("a sequence has other lengths than its blocks"));
        }
        Ok(())
    }
}

/// What the header says, and where things are.
struct View<'a> {
    bytes: &'a [u8],
    /// Where the area begins.
    area: usize,
    len: usize,
    first: u64,
    /// Bytes of a start and of a place.
    widths: (u8, u8),
}

impl<'a> View<'a> {
    #[inline(always)]
    fn new(bytes: &'a [u8]) -> View<'a> {
        let word = u64_at(bytes, 0);
        let widths = ((word >> 48 & 15) as u8, (word >> 52 & 15) as u8);
        let len = (word & LEN) as usize;
        let mut view = View { bytes, area: 0, len, first: u64_at(bytes, 8), widths };
        view.area = view.head(view.blocks());
        view
    }

    #[inline(always)]
    fn blocks(&self) -> usize {
        self.len.div_ceil(BLOCK)
    }

    /// Bytes of a head.
    #[inline(always)]
    fn stride(&self) -> usize {
        usize::from(self.widths.0) + usize::from(self.widths.1)
    }

    /// Where the head of a block begins.
    #[inline(always)]
    fn head(&self, block: usize) -> usize {
        HEADER + block * self.stride()
    }

    /// The start in the head at a byte.
    #[inline(always)]
    fn start(&self, at: usize) -> u64 {
        number_at(self.bytes, at, self.widths.0)
    }

    /// By how much the first number of a block exceeds that of the sequence; its head is at `at`.
    #[inline(always)]
    fn rise(&self, block: usize, at: usize) -> u64 {
        self.start(at).wrapping_add((block * BLOCK) as u64)
    }

    #[inline(always)]
    fn block(&self, block: usize) -> Block<'a> {
        let at = self.head(block);
        let first = self.first.wrapping_add(self.rise(block, at));
        let place = number_at(self.bytes, at + usize::from(self.widths.0), self.widths.1);
        Block { first, place, bytes: self.bytes, area: self.area }
    }

    /// The numbers of a block.
    fn unpack<'b>(&self, block: usize, out: &'b mut [u64; BLOCK]) -> &'b [u64] {
        let out = &mut out[..BLOCK.min(self.len - block * BLOCK)];
        self.block(block).unpack(out);
        out
    }

    #[inline(always)]
    fn lower_bound(&self, v: u64) -> usize {
        let far = v.saturating_sub(self.first);
        let (mut block, mut at, mut size) = (0, HEADER, self.blocks());
        while size > 1 {
            let half = size / 2;
            let (next, next_at) = (block + half, at + half * self.stride());
            let begins = self.rise(next, next_at) <= far;
            block = select_unpredictable(begins, next, block);
            at = select_unpredictable(begins, next_at, at);
            size -= half;
        }
        self.lower_bound_in(block, v)
    }

    /// The lower bound of `v`, which is at or after the first number of `block` and not after the
    /// first number of the block behind it.
    #[inline(always)]
    fn lower_bound_in(&self, block: usize, v: u64) -> usize {
        let start = block * BLOCK;
        let numbers = self.block(block);
        if v <= numbers.first || start >= self.len {
            return start.min(self.len);
        }
        let size = BLOCK.min(self.len - start);
        start + numbers.below(v - numbers.first, size)
    }
}

/// The number in the bytes from `at` on. There are no bytes where it has none: then it is 0.
#[inline(always)]
fn number_at(bytes: &[u8], at: usize, width: u8) -> u64 {
    let rest = 64u32.wrapping_sub(8 * u32::from(width)) & 63;
    u64_at(bytes, at) << rest >> rest
}

#[cfg(test)]
mod tests;
