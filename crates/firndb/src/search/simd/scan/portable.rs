//! Scans without vector instructions: eight numbers at a time in the lanes of one or two 64-bit
//! words (SWAR: Lamport 1975, *Multiple byte processing with full-word instructions*).
//!
//! Numbers of up to 8 bits are moved to lanes of 8 bits, those of up to 16 bits to lanes of 16
//! bits. A subtraction then compares all lanes of a word with a bound, and a multiplication gathers
//! the top bits of the lanes.

use super::ordinal_set::Keys;
use super::whole;
use crate::bytes::int::u64_at;
use crate::bytes::packed::Packed;

/// Runs the body with a constant for the width, so that shifts and masks are constants.
macro_rules! widths {
    ($bits:expr, $($width:literal)*, |$constant:ident| $body:expr) => {
        match $bits {
            $($width => {
                const $constant: usize = $width;
                $body
            })*
            _ => return 0,
        }
    };
}

/// Largest width of the numbers that are scanned in lanes.
const MAX_BITS: usize = 16;

/// Largest number of intervals for which lanes are compared with each of their bounds. More
/// intervals are looked up number by number.
const MOST_INTERVALS: usize = 4;

/// Cost of a pass over 64 documents in tenths of a nanosecond, as [`super::cost`] returns it
/// (measured on x86-64 without AVX; walking a list of every second document takes 270, one of every
/// 16th 23). With it the planner prefers lists to scans wherever they are shorter.
pub(crate) fn cost(bits: usize) -> u64 {
    match bits {
        8 => 120,
        0..=7 | 16 => 240,
        9..=15 => 440,
        _ => 500,
    }
}

/// Sets each word of `out` to the documents whose numbers are in `keys`. Returns the number of
/// words written, from the first on.
pub(crate) fn fill(column: Packed, keys: &Keys, first: usize, out: &mut [u64]) -> usize {
    let bits = column.raw().1;
    if bits > 8 {
        return 0;
    }
    let none = Interval::new::<8>(0, 0);
    let (mut intervals, mut count) = ([none; MOST_INTERVALS], 0);
    let mut end = 0;
    while let Some(start) = next(keys, end, 1 << bits, 0) {
        if count == MOST_INTERVALS {
            return fill_lanes(column, |lanes| lookup(lanes, keys), first, out);
        }
        end = next(keys, start, 1 << bits, u64::MAX).unwrap_or(1 << bits);
        intervals[count] = Interval::new::<8>(start, end);
        count += 1;
    }
    if count <= 1 {
        let [one, ..] = intervals;
        return fill_lanes(column, |lanes| gather8(one.top_bits(lanes)), first, out);
    }
    let any = |lanes| intervals[..count].iter().fold(0, |all, one| all | one.top_bits(lanes));
    fill_lanes(column, |lanes| gather8(any(lanes)), first, out)
}

/// The first number in `from..limit` that is in the set, or, with all bits of `flip` set, is not.
fn next(keys: &Keys, from: u32, limit: u32, flip: u64) -> Option<u32> {
    let mut at = from;
    while at < limit {
        let rest = (keys.0[at as usize / 64] ^ flip) >> (at % 64);
        if rest != 0 {
            return Some(at + rest.trailing_zeros()).filter(|&found| found < limit);
        }
        at = (at / 64 + 1) * 64;
    }
    None
}

/// [`fill`] of the numbers `start..start + len` modulo 2^32.
pub(crate) fn fill_range(
    column: Packed,
    (start, len): (u32, u32),
    first: usize,
    out: &mut [u64],
) -> usize {
    let bits = column.raw().1;
    if bits > MAX_BITS {
        return 0;
    }
    let limit = 1u32 << bits;
    // A range that wraps around is the complement of an interval.
    let (interval, flip) = match start.checked_add(len) {
        Some(end) => ((start, end), 0),
        None => ((start.wrapping_add(len), start), 0xFF),
    };
    let interval = (interval.0.min(limit), interval.1.min(limit));
    if bits <= 8 {
        let one = Interval::new::<8>(interval.0, interval.1);
        return fill_lanes(column, |lanes| gather8(one.top_bits(lanes)) ^ flip, first, out);
    }
    let one = Interval::new::<16>(interval.0, interval.1);
    fill_halves(column, |lanes| gather4(one.top_bits(lanes)) ^ flip & 0xF, first, out)
}

/// Eight numbers of up to 8 bits at a time: `find` maps their lanes to eight bits.
#[inline(always)]
fn fill_lanes(column: Packed, find: impl Fn(u64) -> u64, first: usize, out: &mut [u64]) -> usize {
    let bits = column.raw().1;
    let (bytes, out) = whole(column, first, out);
    widths!(bits, 0 1 2 3 4 5 6 7 8, |BITS| for (i, word) in out.iter_mut().enumerate() {
        let mut found = 0;
        for group in 0..8 {
            let lanes = spread8::<BITS>(u64_at(bytes, (i * 8 + group) * BITS));
            found |= find(lanes) << (8 * group);
        }
        *word = found;
    });
    out.len()
}

/// Four numbers of 9 to 16 bits at a time: `find` maps their lanes to four bits.
#[inline(always)]
fn fill_halves(column: Packed, find: impl Fn(u64) -> u64, first: usize, out: &mut [u64]) -> usize {
    let bits = column.raw().1;
    let (bytes, out) = whole(column, first, out);
    widths!(bits, 9 10 11 12 13 14 15 16, |BITS| for (i, word) in out.iter_mut().enumerate() {
        let mut found = 0;
        for group in 0..16 {
            let at = (i * 16 + group) * 4 * BITS;
            let lanes = spread16::<BITS>(u64_at(bytes, at / 8) >> (at % 8));
            found |= find(lanes) << (4 * group);
        }
        *word = found;
    });
    out.len()
}

/// The lowest bits.
const fn low(bits: usize) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// Moves eight numbers of up to 8 bits to lanes of 8 bits.
#[inline(always)]
fn spread8<const BITS: usize>(word: u64) -> u64 {
    if BITS == 8 {
        return word;
    }
    let word = word & low(4 * BITS) | (word >> (4 * BITS) & low(4 * BITS)) << 32;
    let pairs = low(2 * BITS) * 0x1_0000_0001;
    let word = word & pairs | (word >> (2 * BITS) & pairs) << 16;
    let ones = low(BITS) * 0x0001_0001_0001_0001;
    word & ones | (word >> BITS & ones) << 8
}

/// Moves four numbers of up to 16 bits to lanes of 16 bits.
#[inline(always)]
fn spread16<const BITS: usize>(word: u64) -> u64 {
    if BITS == 16 {
        return word;
    }
    let word = word & low(2 * BITS) | (word >> (2 * BITS) & low(2 * BITS)) << 32;
    let ones = low(BITS) * 0x1_0000_0001;
    word & ones | (word >> BITS & ones) << 16
}

/// The top bits of eight lanes.
#[inline(always)]
fn gather8(tops: u64) -> u64 {
    (tops >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

/// The top bits of four lanes.
#[inline(always)]
fn gather4(tops: u64) -> u64 {
    (tops >> 15).wrapping_mul(1 << 45 | 1 << 30 | 1 << 15 | 1) >> 45 & 0xF
}

/// Which of eight lanes are in a set.
#[inline(always)]
fn lookup(lanes: u64, keys: &Keys) -> u64 {
    (0..8).fold(0, |found, i| found | keys.bit((lanes >> (8 * i)) as u8 as u32) << i)
}

/// An interval of numbers, for lanes of some width.
#[derive(Clone, Copy)]
struct Interval {
    start: Bound,
    end: Bound,
    /// The top bits of all lanes.
    tops: u64,
}

/// A number that all lanes are compared with.
#[derive(Clone, Copy)]
struct Bound {
    /// The number without its top bit, in each lane.
    low: u64,
    /// All bits if the top bit of the number is not set.
    is_low: u64,
    /// All bits if the number fits into a lane; no lane can reach a larger one.
    fits: u64,
}

impl Interval {
    fn new<const LANE: u32>(start: u32, end: u32) -> Interval {
        let ones = u64::MAX / ((1 << LANE) - 1);
        let bound = |number: u32| {
            let top = 1u32 << (LANE - 1);
            let all = |condition: bool| if condition { u64::MAX } else { 0 };
            Bound {
                low: u64::from(number & (top - 1)) * ones,
                is_low: all(number & top == 0),
                fits: all(number < 1 << LANE),
            }
        };
        Interval { start: bound(start), end: bound(end), tops: ones << (LANE - 1) }
    }

    /// The top bit of each lane whose number is in the interval.
    #[inline(always)]
    fn top_bits(&self, lanes: u64) -> u64 {
        let reaches = |bound: &Bound| {
            // No borrow leaves a lane, since its top bit is set.
            let differences = (lanes | self.tops) - bound.low;
            // Without top bits, the difference decides. A number with a top bit is larger than a
            // bound without one, and the difference decides if both have one.
            (lanes & differences | (lanes | differences) & bound.is_low) & bound.fits
        };
        reaches(&self.start) & !reaches(&self.end) & self.tops
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::packed::PackedWriter;
    use crate::search::simd::kernels::tests::with_each_version;
    use crate::search::simd::scan::{self, OrdinalSet};
    use crate::search::testing::Rng;
    use std::hint::black_box;
    use std::time::Instant;

    #[test]
    fn lanes_are_compared_with_every_bound() {
        for (start, end) in (0..=256).flat_map(|start| (0..=256).map(move |end| (start, end))) {
            let interval = Interval::new::<8>(start, end);
            for base in (0..256).step_by(8) {
                let lanes = u64::from_le_bytes(std::array::from_fn(|i| (base + i) as u8));
                let expected = (0..8u32).filter(|i| (start..end).contains(&(base as u32 + i)));
                let expected = expected.fold(0, |bits, i| bits | 1 << i);
                assert_eq!(gather8(interval.top_bits(lanes)), expected, "{start}..{end}, {base}");
            }
        }
        for number in [0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF] {
            for (start, end) in [(0, 0x1_0000), (1, 0x8000), (0x8000, 0xFFFF), (0x7FFF, 0x8001)] {
                let lanes = spread16::<16>(number);
                let is_inside = gather4(Interval::new::<16>(start, end).top_bits(lanes)) & 1 == 1;
                assert_eq!(is_inside, (start..end).contains(&(number as u32)), "{number:x}");
            }
        }
    }

    /// Prints the time per 64 documents of a scan and of decoding the list of the same documents.
    /// Run it in release mode: `cargo test --release -p firndb --lib -- --ignored --nocapture
    /// portable_scans_and_lists`.
    #[test]
    #[ignore = "a measurement"]
    fn portable_scans_and_lists() {
        const DOCUMENTS: usize = 1 << 20;
        let mut rng = Rng(1);
        for bits in [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16] {
            let ords: Vec<u32> = (0..DOCUMENTS).map(|_| rng.below(1 << bits)).collect();
            let mut writer = PackedWriter::new(bits);
            ords.iter().for_each(|&ord| writer.push(ord));
            let bytes = writer.finish();
            let column = Packed::new(&bytes, bits, DOCUMENTS).unwrap();
            // The documents of one key as a packed list.
            let docs: Vec<u32> = (0..DOCUMENTS as u32).filter(|&d| ords[d as usize] == 1).collect();
            let mut writer = PackedWriter::new(20);
            docs.iter().for_each(|&doc| writer.push(doc));
            let list = writer.finish();
            let list = Packed::new(&list, 20, docs.len()).unwrap();
            let mut out = vec![0u64; DOCUMENTS / 64];
            let mut time = |work: &mut dyn FnMut(&mut [u64])| {
                let run = |_| {
                    let start = Instant::now();
                    work(black_box(&mut out));
                    start.elapsed().as_nanos() as f64 / (DOCUMENTS / 64) as f64
                };
                (0..15).map(run).fold(f64::MAX, f64::min)
            };
            let walk = time(&mut |out| {
                list.for_each(0, docs.len(), |doc| out[doc as usize / 64] |= 1 << (doc % 64));
            });
            let several = [(1, 2), (3, 4), (5, 6), (7, 8), (9, 10), (11, 12)];
            for intervals in [&several[..1], &several] {
                let wanted = OrdinalSet::new(intervals, bits.into());
                with_each_version(|version| {
                    let scan = time(&mut |out| scan::fill(column, &wanted, 0, out));
                    println!(
                        "{bits} bits, {} intervals, {version}: {scan:.1} ns, list: {walk:.1} ns",
                        intervals.len()
                    );
                });
            }
        }
    }
}
