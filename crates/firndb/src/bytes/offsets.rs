//! Where things that stand one after the other begin and end: `n + 1` offsets of n things.
//!
//! They have one of two forms. The first is an increasing sequence (`increasing.rs`), of offset
//! i plus i, for things may be empty. The second is the steps from one to the next, for 32,768
//! things and more where it takes an eighth less, as it does where all are about as long: payloads
//! of 440 to 560 bytes take 8 bits each instead of 11.
//!
//! ```text
//! OFFSET  SIZE  FIELD
//! 0       6     n
//! 6       1     bits of a step
//! 7       1     2; the first form has 0 or 1 here
//! 8       8     least step
//! 16      8     where the first begins
//! 24      w b   for every 64 things what the steps before them exceed the least by, all together;
//!               and the same of all. u32 where n times `2^bits` fits, else u64
//! ..      ..    steps less the least, packed (`packed.rs`)
//! ```
//! Thing i begins at the first offset, and i least steps, and what the steps before it exceed these
//! by.

use super::increasing::{self, Increasing};
use super::int::{Encoder, u32_at, u64_at};
use super::packed::{Packed, PackedWriter, width};
use super::prefetch::{LINE, prefetch};
use crate::{Error, Result};

/// Things of the fewest that have the second form.
const LONG: usize = 1 << 15;
/// Things for each offset of the second form.
const BLOCK: usize = 64;
const HEAD: usize = 24;
/// What byte 7 says.
const STEPS: u8 = 2;

/// Encodes offsets, which do not descend, in no fewer bytes than [`least_size`] says.
pub(crate) fn encode(offsets: &[u64]) -> Vec<u8> {
    let numbers = offsets.iter().enumerate().map(|(i, offset)| offset + i as u64);
    let first = increasing::encode_vouching(numbers);
    match encode_steps(offsets) {
        Some(steps) if steps.len() < first.len() / 8 * 7 => steps,
        _ => first,
    }
}

/// Bytes that offsets of so many things have at least.
pub(crate) fn least_size(things: usize) -> usize {
    increasing::least_size(things + 1)
}

/// The second form, if it can be taken.
fn encode_steps(offsets: &[u64]) -> Option<Vec<u8>> {
    let things = offsets.len() - 1;
    let steps = || offsets.windows(2).map(|pair| pair[1] - pair[0]);
    let least = steps().min().filter(|_| things >= LONG)?;
    let bits = width(steps().max()? - least);
    if bits > 32 {
        return None;
    }
    let mut packed = PackedWriter::new(bits);
    steps().for_each(|step| packed.push((step - least) as u32));
    let head = things as u64 | u64::from(bits) << 48 | u64::from(STEPS) << 56;
    let starts = (0..things).step_by(BLOCK).chain([things]);
    let mut out = Encoder::default();
    [head, least, offsets[0]].into_iter().for_each(|number| out.u64(number));
    for i in starts {
        let rise = offsets[i] - offsets[0] - least * i as u64;
        if is_short(things, bits) { out.u32(rise as u32) } else { out.u64(rise) }
    }
    out.0.extend(packed.finish());
    (out.0.len() >= least_size(things)).then_some(out.0)
}

/// Whether the sums of so many steps of so many bits fit a u32.
fn is_short(things: usize, bits: u8) -> bool {
    (things as u64).checked_mul(1 << bits.min(32)).is_some_and(|most| most <= 1 << 32)
}

/// Offsets of n things over bytes.
#[derive(Clone, Copy)]
pub(crate) enum Offsets<'a> {
    Sequence(Increasing<'a>),
    Steps(Steps<'a>),
}

/// The second form.
#[derive(Clone, Copy)]
pub(crate) struct Steps<'a> {
    least: u64,
    first: u64,
    /// What the steps before a block exceed the least by, of `width` bytes.
    rises: &'a [u8],
    width: usize,
    steps: Packed<'a>,
}

impl<'a> Offsets<'a> {
    /// Checks that they are of so many things.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], things: usize) -> Result<Offsets<'a>> {
        if things < LONG || bytes.get(7) != Some(&STEPS) {
            return Ok(Offsets::Sequence(Increasing::new(bytes, things + 1)?));
        }
        let head = u64_at(bytes, 0);
        let bits = (head >> 48) as u8;
        let width = if is_short(things, bits) { 4 } else { 8 };
        let end = HEAD + width * (things.div_ceil(BLOCK) + 1);
        if head << 16 >> 16 != things as u64 || bytes.len() < end {
            return Err(Error::corrupt(format!("offsets of {things} things are of others")));
        }
        let (rises, steps) = (&bytes[HEAD..end], Packed::new(&bytes[end..], bits, things)?);
        let (least, first) = (u64_at(bytes, 8), u64_at(bytes, 16));
        Ok(Offsets::Steps(Steps { least, first, rises, width, steps }))
    }

    /// Where thing `i` begins; of n things thing n begins where all end.
    #[inline]
    pub(crate) fn start(&self, i: usize) -> u64 {
        match self {
            Offsets::Sequence(numbers) => numbers.get(i).wrapping_sub(i as u64),
            Offsets::Steps(steps) => steps.start(i),
        }
    }

    /// Where thing `i` begins and ends.
    #[inline]
    pub(crate) fn range(&self, i: usize) -> (u64, u64) {
        match self {
            Offsets::Sequence(numbers) => {
                let (start, end) = numbers.pair(i);
                (start.wrapping_sub(i as u64), end.wrapping_sub(i as u64 + 1))
            }
            Offsets::Steps(steps) => {
                let start = steps.start(i);
                (start, start.wrapping_add(steps.step(i)))
            }
        }
    }

    /// Asks for the memory that [`Offsets::fetch`] of thing `i` reads.
    #[inline(always)]
    pub(crate) fn fetch_head(&self, i: usize) {
        if let Offsets::Sequence(numbers) = self {
            numbers.fetch_head(i);
        }
    }

    /// Asks for the memory of what thing `i` is found by.
    #[inline(always)]
    pub(crate) fn fetch(&self, i: usize) {
        match self {
            Offsets::Sequence(numbers) => numbers.fetch(i),
            Offsets::Steps(Steps { rises, width, steps, .. }) => {
                let (bytes, bits) = steps.raw();
                let block = i / BLOCK;
                prefetch(rises.get(width * block..).unwrap_or(&[]), 1);
                // One line more: a block may begin anywhere in its first.
                let end = bytes.len().min((block + 1) * BLOCK / 8 * bits + LINE - 1);
                prefetch(bytes.get(block * BLOCK / 8 * bits..end).unwrap_or(&[]), 5);
            }
        }
    }

    /// Checks every offset: not before the last one, and all where they are looked for.
    pub(crate) fn verify(&self) -> Result<()> {
        match self {
            Offsets::Sequence(numbers) => numbers.verify(),
            Offsets::Steps(steps) => steps.verify(),
        }
    }
}

impl Steps<'_> {
    #[inline]
    fn step(&self, i: usize) -> u64 {
        self.least.wrapping_add(self.steps.get(i).into())
    }

    #[inline]
    fn start(&self, i: usize) -> u64 {
        let mut rise = self.rise(i);
        if i < self.steps.len() {
            let step = |step| rise = rise.wrapping_add(u64::from(step));
            self.steps.for_each(i / BLOCK * BLOCK, i, step);
        }
        self.first.wrapping_add(rise).wrapping_add(self.least.wrapping_mul(i as u64))
    }

    /// What the steps before thing `i`'s block exceed the least by; of n things thing n says the
    /// same of all.
    #[inline]
    fn rise(&self, i: usize) -> u64 {
        let block = if i < self.steps.len() { i / BLOCK } else { self.steps.len().div_ceil(BLOCK) };
        match self.width {
            4 => u32_at(self.rises, 4 * block).into(),
            _ => u64_at(self.rises, 8 * block),
        }
    }

    fn verify(&self) -> Result<()> {
        let wrong =
            |i: usize| Error::corrupt(format!("offset {i} is not where the last step ends"));
        let (things, mut rise) = (self.steps.len(), 0u64);
        for i in 0..=things {
            if (i % BLOCK == 0 || i == things) && self.rise(i) != rise {
                return Err(wrong(i));
            }
            if i < things {
                let step = self.steps.get(i).into();
                rise = rise.checked_add(step).ok_or_else(|| wrong(i))?;
            }
        }
        let end = self.least.checked_mul(things as u64).and_then(|end| end.checked_add(rise));
        let end = end.and_then(|end| end.checked_add(self.first));
        end.map(|_| ()).ok_or_else(|| wrong(things))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;
    use xxhash_rust::xxh3::xxh3_64;

    /// Offsets of so many things of `least` to `most` bytes.
    fn offsets(rng: &mut Rng, things: usize, (least, most): (u64, u64)) -> Vec<u64> {
        let mut at = 5;
        let next = |_| {
            let start = at;
            at += least + rng.below(most - least + 1);
            start
        };
        (0..=things).map(next).collect()
    }

    fn is_steps(bytes: &[u8], things: usize) -> bool {
        matches!(Offsets::new(bytes, things).unwrap(), Offsets::Steps(_))
    }

    #[test]
    fn things_begin_and_end_where_they_did() {
        let mut rng = Rng(0x0FF_5E7);
        for things in [0, 1, 63, 64, 1_000, LONG - 1, LONG, LONG + 1, LONG + 70] {
            for lengths in [(440, 560), (0, 0), (7, 7), (0, 1), (0, 9), (0, 1 << 30), (0, 1 << 33)]
            {
                let offsets = offsets(&mut rng, things, lengths);
                let bytes = encode(&offsets);
                assert!(bytes.len() >= least_size(things));
                let read = Offsets::new(&bytes, things).unwrap();
                read.verify().unwrap();
                for (i, pair) in offsets.windows(2).enumerate() {
                    assert_eq!(read.range(i), (pair[0], pair[1]), "{i} of {things}: {lengths:?}");
                    assert_eq!(read.start(i), pair[0]);
                    read.fetch_head(i);
                    read.fetch(i);
                }
                assert_eq!(read.start(things), offsets[things]);
                assert!(Offsets::new(&bytes, things + 1).is_err());
                assert!(things == 0 || Offsets::new(&bytes, things - 1).is_err());
                match lengths {
                    _ if things < LONG => assert!(!is_steps(&bytes, things)),
                    (440, 560) => assert!(is_steps(&bytes, things)),
                    (0, most) if most > 1 << 20 => assert!(!is_steps(&bytes, things)),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn sums_of_steps_have_the_bytes_that_they_need() {
        let mut rng = Rng(0x0FF_5E8);
        for (bits, width) in [(4, 4), (16, 4), (17, 4), (18, 8), (20, 8), (32, 8)] {
            // The largest steps there are, and all alike but a few: so sums are as large as can be.
            let most = (1 << bits) - 1;
            let step = |i: usize| if i % 4_096 == 9 { rng.below(most) } else { most };
            let steps: Vec<u64> = (0..LONG).map(step).collect();
            let mut offsets = vec![1_000_003];
            for step in [0].iter().chain(&steps[1..]) {
                offsets.push(offsets.last().unwrap() + step);
            }
            let bytes = encode_steps(&offsets).unwrap();
            let read = Offsets::new(&bytes, LONG).unwrap();
            read.verify().unwrap();
            assert!(matches!(read, Offsets::Steps(Steps { width: found, .. }) if found == width));
            for (i, pair) in offsets.windows(2).enumerate() {
                assert_eq!(read.range(i), (pair[0], pair[1]), "{i}, {bits} bits");
                read.fetch(i);
            }
            assert_eq!(read.start(LONG), offsets[LONG]);
        }
    }

    #[test]
    fn wrong_steps_are_caught() {
        let bytes = encode(&offsets(&mut Rng(3), LONG, (440, 560)));
        assert!(is_steps(&bytes, LONG));
        let caught = |edit: &dyn Fn(&mut Vec<u8>)| {
            let mut damaged = bytes.clone();
            edit(&mut damaged);
            let found = Offsets::new(&damaged, LONG).and_then(|offsets| offsets.verify());
            assert!(found.is_err());
        };
        let last = HEAD + LONG / BLOCK * 4;
        for at in [0, 6, 7, HEAD, HEAD + 4, last, last + 4, last + 5_000] {
            caught(&|bytes| bytes[at] ^= 1);
        }
        caught(&|bytes| bytes[15] = 0xFF);
        caught(&|bytes| bytes[16..24].fill(0xFF));
        caught(&|bytes| bytes.truncate(last));
        caught(&|bytes| bytes.truncate(bytes.len() - 1));
        // Whatever the bytes are, some number comes back.
        let mut rng = Rng(4);
        for _ in 0..1_000 {
            let mut damaged = bytes.clone();
            let at = rng.below(last);
            damaged[at] ^= 1 << rng.below(8);
            if let Ok(offsets) = Offsets::new(&damaged, LONG) {
                for i in [0, 77, LONG - 1] {
                    offsets.fetch(i);
                    let _ = (offsets.range(i), offsets.start(LONG));
                }
                let _ = offsets.verify();
            }
        }
    }

    #[test]
    fn bytes_do_not_change() {
        let bytes = encode(&offsets(&mut Rng(5), 40_000, (440, 560)));
        assert_eq!((bytes.len(), xxh3_64(&bytes)), (37_536, 0x7726_842B_D84F_1610));
    }
}
