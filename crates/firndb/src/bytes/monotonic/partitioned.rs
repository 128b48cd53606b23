//! Increasing sequences in blocks of Elias-Fano code: the form of long ones.
//!
//! A block holds 128 numbers. The residual of number i is the distance from the line of consecutive
//! numbers that begins with the block's first one; residuals never decrease and are Elias-Fano coded
//! (`elias_fano/`). Each block has low bits of its own, the fewest that leave at most 128 zeros in
//! the high bits, so a wide gap costs only its block and a number is found within four words.
//! (Partitioned Elias-Fano: Ottaviano and Venturini, SIGIR 2014.) Consecutive numbers take only the
//! head of their block, and a sequence of consecutive numbers has no heads.
//!
//! ```text
//! OFFSET          SIZE  FIELD
//! 0               6     n, the number of numbers
//! 6               1     bytes of a start, s | bytes of a location << 4, p; zero if all n numbers are
//!                       consecutive: then only the first of them follows
//! 7               1     1: this form
//! 8               8     first number
//! 16 + (s + p) b  s     block b: start, its first number less the first number of the sequence
//!                       less 128 b
//! ..              p     block b: location, 1 + l (0 if its numbers are consecutive)
//!                       | offset of its code in the area below << 6
//! 16 + (s + p) B  ..    area: for each block the low bits, 16 l bytes, and the high bits up to the
//!                       last one, to a byte border (B = ceil(n / 128))
//! end - 8         8     zeros
//! ```
//! Number i of a block is `first + i + residual[i]`, modulo 2^64.
#![expect(unsafe_code, reason = "calling functions compiled for features that were just detected")]

use crate::bytes::elias_fano::{self, EliasFano, Layout};
use crate::bytes::int::u64_at;
use crate::bytes::monotonic::gallop::gallop;
use crate::bytes::packed::width;
use crate::bytes::prefetch::prefetch;
use crate::bytes::select;
use crate::{Error, Result};
use std::hint::select_unpredictable;

/// Numbers of a block.
pub(super) const BLOCK: usize = 128;
/// The last byte of the first word of this form, and the byte before it.
const FORM: u8 = 1;
const WIDTHS: u64 = 0xFF << 48;
const HEADER: usize = 16;
/// The bits of the first word that hold the number of numbers.
const LEN: u64 = (1 << 48) - 1;

/// Writes a sequence.
pub(super) struct Writer {
    len: usize,
    /// Start and location of each block.
    heads: Vec<(u64, u64)>,
    area: Vec<u8>,
    first: u64,
}

impl Writer {
    /// For `len` numbers.
    pub(super) fn new(len: usize) -> Writer {
        debug_assert!(len < 1 << 48);
        let heads = Vec::with_capacity(len.div_ceil(BLOCK));
        Writer { len, heads, area: Vec::new(), first: 0 }
    }

    /// Adds a block of [`BLOCK`] numbers; only the last block may be shorter.
    pub(super) fn push(&mut self, block: &[u64]) {
        if self.heads.is_empty() {
            self.first = block[0];
        }
        let start = block[0] - self.first - (self.heads.len() * BLOCK) as u64;
        let offset = self.area.len() as u64;
        let location = encode_block(block, &mut self.area) | offset << 6;
        self.heads.push((start, location));
    }

    /// Bytes of the sequence; `usize::MAX` if its offsets do not fit into a location.
    pub(super) fn size(&self) -> usize {
        match self.widths() {
            _ if self.area.len() as u64 >> 58 > 0 => usize::MAX,
            (0, _) => HEADER,
            (s, p) => HEADER + (s + p) * self.heads.len() + self.area.len() + 8,
        }
    }

    /// Bytes of a start and of a location.
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
            for (start, location) in self.heads {
                out.extend_from_slice(&start.to_le_bytes()[..s]);
                out.extend_from_slice(&location.to_le_bytes()[..p]);
            }
            out.extend_from_slice(&self.area);
            out.extend_from_slice(&[0; 8]);
        }
        out
    }
}

/// Bytes of a start and of a location, given the bits that are set in any of them.
fn widths((starts, locations): (u64, u64)) -> (usize, usize) {
    let bytes = |v| usize::from(width(v)).div_ceil(8).max(1);
    if starts | locations == 0 { (0, 0) } else { (bytes(starts), bytes(locations)) }
}

/// Appends the code of a block to the area; returns its location without the offset.
fn encode_block(block: &[u64], area: &mut Vec<u8>) -> u64 {
    debug_assert!(block.is_sorted_by(|a, b| a < b));
    let last = block.len() - 1;
    let most = block[last] - block[0] - last as u64;
    if most == 0 {
        return 0;
    }
    // The fewest that leave at most 128 zeros; at most 57.
    let low = u32::from(width(most).saturating_sub(8));
    let low = low + u32::from(most >> low > BLOCK as u64);
    let highs = ((most >> low) as usize + block.len()).div_ceil(8);
    let residuals = block.iter().enumerate().map(|(i, v)| v - block[0] - i as u64);
    elias_fano::encode(residuals, Layout { highs, ..layout(low) }, area);
    u64::from(low) + 1
}

/// The layout of a block, with the most high bits that it can have.
#[inline(always)]
fn layout(low: u32) -> Layout {
    Layout { low, lows: BLOCK / 8 * low as usize, highs: 2 * BLOCK / 8 }
}

/// A sequence over bytes. It is only a slice, so that it is passed in registers and nothing of it
/// is decoded before its form is known: the other form is read far more often.
#[derive(Clone, Copy)]
pub(crate) struct Partitioned<'a>(&'a [u8]);

/// Whether bytes begin like a sequence of `len` numbers in this form.
#[inline(always)]
pub(super) fn is_partitioned(bytes: &[u8], len: usize) -> bool {
    u64_at(bytes, 0) & !WIDTHS == len as u64 | u64::from(FORM) << 56
}

impl<'a> Partitioned<'a> {
    /// Checks that bytes which [`is_partitioned`] accepts have room for the heads of all blocks.
    pub(super) fn new(bytes: &'a [u8]) -> Result<Partitioned<'a>> {
        let view = View::new(bytes);
        let fits = match view.widths {
            (0, 0) => bytes.len() == HEADER,
            (1..=8, 1..=8) => bytes.len() >= view.area + 8,
            _ => false,
        };
        match fits {
            true => Ok(Partitioned(bytes)),
            false => Err(Error::corrupt(format!(
                "{} bytes are no sequence of {} numbers in Elias-Fano blocks",
                bytes.len(),
                view.len
            ))),
        }
    }

    /// For bytes that [`Partitioned::new`] accepted before. Other bytes that [`is_partitioned`]
    /// accepts yield some numbers.
    #[inline(always)]
    pub(super) fn trusted(bytes: &'a [u8]) -> Partitioned<'a> {
        Partitioned(bytes)
    }

    #[inline(always)]
    pub(super) fn len(self) -> usize {
        (u64_at(self.0, 0) & LEN) as usize
    }

    /// Number `i`; out of bounds it is some number.
    #[inline(always)]
    pub(super) fn get(self, i: usize) -> u64 {
        // Consecutive numbers, for example keys that number the documents.
        if self.0.len() == HEADER {
            return u64_at(self.0, 8).wrapping_add(i as u64);
        }
        self.get_coded(i)
    }

    #[inline(never)]
    fn get_coded(self, i: usize) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if select::can_deposit() {
            #[target_feature(enable = "bmi1,bmi2,popcnt")]
            fn get(bytes: &[u8], i: usize) -> u64 {
                let block = View::new(bytes).block(i / BLOCK);
                block.get(i % BLOCK, |word, rank| select::deposit(word, rank))
            }
            // SAFETY: the processor has these features.
            return unsafe { get(self.0, i) };
        }
        self.portable_get(i)
    }

    #[inline(never)]
    fn portable_get(self, i: usize) -> u64 {
        View::new(self.0).block(i / BLOCK).get(i % BLOCK, select::portable)
    }

    /// Prefetches what [`Partitioned::fetch`] of number `i` reads.
    #[inline(never)]
    pub(super) fn fetch_head(self, i: usize) {
        let head = View::new(self.0).head(i / BLOCK);
        prefetch(self.0.get(head..).unwrap_or(&[]), 1);
    }

    /// Prefetches number `i`.
    #[inline(never)]
    pub(super) fn fetch(self, i: usize) {
        let view = View::new(self.0);
        let (low, offset) = unpack_location(view.location(view.head(i / BLOCK)));
        let Some(low) = low else { return };
        let lows = view.area + offset + i % BLOCK * low as usize / 8;
        for at in [lows, view.area + offset + layout(low).lows] {
            prefetch(self.0.get(at..).unwrap_or(&[]), 1);
        }
    }

    /// Numbers `i` and `i + 1`, in most cases at the cost of one.
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

    /// The number of numbers below `v`, which is the index of the first that is at least `v`.
    #[inline(never)]
    pub(super) fn lower_bound(self, v: u64) -> usize {
        View::new(self.0).lower_bound(v)
    }

    /// [`Partitioned::lower_bound`] of two numbers, `a <= b`. The search for the second starts where
    /// the first was found: most ranges are short.
    #[inline(never)]
    pub(super) fn lower_bounds(self, a: u64, b: u64) -> (usize, usize) {
        let view = View::new(self.0);
        let start = view.lower_bound(a);
        let far = b.saturating_sub(view.first);
        let begins = |block: usize| view.rise(block, view.head(block)) <= far;
        let block = gallop(start / BLOCK, view.blocks(), begins);
        (start, view.lower_bound_in(block, b).max(start))
    }

    /// Checks that every number is above the one before it and is where a search looks for it, and
    /// that the writer would write these bytes.
    pub(super) fn verify(self) -> Result<()> {
        let view = View::new(self.0);
        if view.widths == (0, 0) {
            let last = view.first.checked_add((view.len as u64).saturating_sub(1));
            return last.map(|_| ()).ok_or_else(|| Error::corrupt("a sequence has no end"));
        }
        if view.block(0).first != view.first {
            return Err(Error::corrupt("a sequence does not begin with its first number"));
        }
        let (mut numbers, mut code, mut at) = ([0; BLOCK], Vec::new(), view.area);
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
            code.clear();
            let location = encode_block(numbers, &mut code) | ((at - view.area) as u64) << 6;
            let (head, end) = (view.head(block), at + code.len());
            if view.location(head) != location || self.0.get(at..end) != Some(&code) {
                let message = format!("block {block} of a sequence contradicts itself");
                return Err(Error::corrupt(message));
            }
            seen = (seen.0 | view.start(head), seen.1 | location);
            at = end;
        }
        let (s, p) = widths(seen);
        if (s as u8, p as u8) != view.widths || self.0.get(at..) != Some(&[0; 8]) {
            return Err(Error::corrupt("a sequence has other lengths than its blocks"));
        }
        Ok(())
    }
}

/// The header, and where the blocks are.
struct View<'a> {
    bytes: &'a [u8],
    /// Where the area begins.
    area: usize,
    len: usize,
    first: u64,
    /// Bytes of a start and of a location.
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

    /// The start in the head at byte `at`.
    #[inline(always)]
    fn start(&self, at: usize) -> u64 {
        number_at(self.bytes, at, self.widths.0)
    }

    /// The location in the head at byte `at`.
    #[inline(always)]
    fn location(&self, at: usize) -> u64 {
        number_at(self.bytes, at + usize::from(self.widths.0), self.widths.1)
    }

    /// The first number of a block less that of the sequence; the block's head is at byte `at`.
    #[inline(always)]
    fn rise(&self, block: usize, at: usize) -> u64 {
        self.start(at).wrapping_add((block * BLOCK) as u64)
    }

    #[inline(always)]
    fn block(&self, block: usize) -> Block<'a> {
        let at = self.head(block);
        let first = self.first.wrapping_add(self.rise(block, at));
        let (low, offset) = unpack_location(self.location(at));
        let code = |low| EliasFano::new(self.bytes, self.area + offset, layout(low));
        Block { first, residuals: low.map(code) }
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

    /// The lower bound of `v`, which is at or above the first number of `block` and not above the
    /// first number of the next block.
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

/// The low bits of a block's code, `None` if its numbers are consecutive, and its offset.
#[inline(always)]
fn unpack_location(location: u64) -> (Option<u32>, usize) {
    (((location & 63) as u32).checked_sub(1), (location >> 6) as usize)
}

/// The number in `width` bytes from `at` on; 0 if they are not there.
#[inline(always)]
fn number_at(bytes: &[u8], at: usize, width: u8) -> u64 {
    let rest = 64u32.wrapping_sub(8 * u32::from(width)) & 63;
    u64_at(bytes, at) << rest >> rest
}

/// A block: its first number and the residuals, `None` if its numbers are consecutive.
struct Block<'a> {
    first: u64,
    residuals: Option<EliasFano<'a>>,
}

impl Block<'_> {
    /// Number `i`, given its residual.
    #[inline(always)]
    fn number(&self, i: usize, residual: u64) -> u64 {
        self.first.wrapping_add(i as u64).wrapping_add(residual)
    }

    /// Number `i`. `select` finds the bit of a rank in a word.
    #[inline(always)]
    fn get(&self, i: usize, select: impl Fn(u64, u64) -> usize) -> u64 {
        match &self.residuals {
            Some(residuals) => self.number(i, residuals.get(i, select)),
            None => self.number(i, 0),
        }
    }

    /// Numbers `i` and `i + 1` of a block that has both.
    #[inline(always)]
    fn pair(&self, i: usize, select: impl Fn(u64, u64) -> usize) -> (u64, u64) {
        let (a, b) = match &self.residuals {
            Some(residuals) => residuals.pair(i, select),
            None => (0, 0),
        };
        (self.number(i, a), self.number(i + 1, b))
    }

    /// The first numbers of the block, as many as `out` has room for.
    fn unpack(&self, out: &mut [u64]) {
        let mut residuals = self.residuals.map(|residuals| residuals.iter(out.len()));
        for (i, number) in out.iter_mut().enumerate() {
            // A damaged block may have too few.
            let residual = residuals.as_mut().and_then(|residuals| residuals.next());
            *number = self.number(i, residual.unwrap_or(0));
        }
    }

    /// How many of the block's `len` numbers are below `first + rise`; `rise` is at least 1.
    #[inline(always)]
    fn below(&self, rise: u64, len: usize) -> usize {
        match &self.residuals {
            Some(residuals) => residuals.count_below(rise, len),
            None => rise.min(len as u64) as usize,
        }
    }
}

#[cfg(test)]
mod tests;
