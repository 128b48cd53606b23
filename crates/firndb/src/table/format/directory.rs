//! The directory: maps the hash of a key to the only block that can hold the key.
//!
//! Hashes are uniform, so a hash scaled to the number of *slots* (one per 512 records) nearly says
//! where a record is; the directory corrects the estimate. It stores for each slot the number of
//! blocks that start before it, and for each block the next 16 bits of the scaled hash of its first
//! record, its *step*. Slot and step together are a record's *bin*. The records of a bin are never
//! split between blocks, so the last block that starts at or before the bin of a key is the only
//! one that can hold the key. This is PaCHash (Kurpicz, Lehmann, Sanders, ESA 2023: blocks found by
//! their first bins, a few bits per block) with bins so small that a key never has two candidate
//! blocks.
//!
//! ```text
//! OFFSET         SIZE  FIELD
//! 0              8     blocks that start before slot 0: 0
//! 8 s            8     blocks that start before slot s
//! 8 slots        8     number of blocks
//! 8 (slots + 1)  2     step of block 0, of block 1, ...
//! ```
//!
//! This takes 16 bits per block and 1/8 bit per record: about 27 bits per 4 KiB block of 45-byte
//! records.

use crate::bytes::int::{Encoder, u16_at, u64_at};
use crate::table::simd::kernels::{STEP_LANES, at_most_mask};
use crate::{Error, Result};

/// Records per slot, on average.
const RECORDS_PER_SLOT: u64 = 512;

/// The bin of a hash: its slot, and the step within the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bin {
    pub(crate) slot: u64,
    pub(crate) step: u16,
}

/// Slots for a table of about this many records.
pub(crate) fn slots_for(records: u64) -> u64 {
    records.div_ceil(RECORDS_PER_SLOT).max(1)
}

/// The bin of a hash.
#[inline(always)]
pub(crate) fn bin_of(hash: u64, slots: u64) -> Bin {
    let scaled = u128::from(hash) * u128::from(slots);
    Bin { slot: (scaled >> 64) as u64, step: (scaled >> 48) as u16 }
}

/// Collects the first bin of each block, in order.
pub(crate) struct DirectoryWriter {
    slots: u64,
    before: Vec<u64>,
    steps: Vec<u16>,
}

impl DirectoryWriter {
    pub(crate) fn new(slots: u64) -> DirectoryWriter {
        DirectoryWriter { slots, before: Vec::new(), steps: Vec::new() }
    }

    /// Adds a block whose first record has this bin.
    pub(crate) fn push(&mut self, first: Bin) {
        let blocks = self.steps.len() as u64;
        self.before.resize(first.slot as usize + 1, blocks);
        self.steps.push(first.step);
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        let blocks = self.steps.len() as u64;
        self.before.resize(self.slots as usize + 1, blocks);
        let mut out = Encoder(Vec::with_capacity(8 * self.before.len() + 2 * self.steps.len()));
        self.before.iter().for_each(|&n| out.u64(n));
        self.steps.iter().for_each(|&step| out.u16(step));
        out.0
    }
}

/// A directory in memory.
pub(crate) struct Directory {
    /// Blocks that start before each slot, then the number of blocks.
    before: Box<[u64]>,
    /// The step of each block, then 0 for the end of the last slot.
    steps: Box<[u16]>,
    slots: u64,
}

impl Directory {
    /// The directory of a table without one.
    pub(crate) fn empty() -> Directory {
        Directory { before: Box::new([0; 2]), steps: Box::new([0]), slots: 1 }
    }

    pub(crate) fn new(bytes: &[u8], slots: u64, blocks: u64) -> Result<Directory> {
        let steps = slots.checked_add(1).and_then(|n| n.checked_mul(8));
        let len = steps.and_then(|at| at.checked_add(blocks.checked_mul(2)?));
        if len != Some(bytes.len() as u64) {
            return Err(Error::corrupt(format!(
                "a directory of {slots} slots and {blocks} blocks does not have {} bytes",
                bytes.len()
            )));
        }
        let (before, steps) = bytes.split_at(steps.unwrap_or(0) as usize);
        let before = before.chunks(8).map(|bytes| u64_at(bytes, 0)).collect();
        let steps = steps.chunks(2).map(|bytes| u16_at(bytes, 0)).chain([0]).collect();
        let directory = Directory { before, steps, slots };
        let mut last = 0;
        for slot in 0..=slots {
            let before = directory.before(slot);
            if before < last || before > blocks {
                return Err(Error::corrupt(format!(
                    "slot {slot} of the directory is out of order"
                )));
            }
            last = before;
        }
        if directory.before(0) != 0 || last != blocks {
            return Err(Error::corrupt("the directory does not cover all blocks"));
        }
        Ok(directory)
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.before) + size_of_val(&*self.steps)
    }

    #[inline(always)]
    fn before(&self, slot: u64) -> u64 {
        self.before.get(slot as usize).copied().unwrap_or(0)
    }

    #[inline(always)]
    fn step(&self, block: u64) -> u16 {
        self.steps.get(block as usize).copied().unwrap_or(0)
    }

    /// The block that can hold a key of this bin: the last one that starts at or before it. `None`
    /// if all blocks start after it.
    #[inline(always)]
    pub(crate) fn find(&self, bin: Bin) -> Option<u64> {
        let (first, end) = self.slot(bin.slot);
        self.first_after(first, end, bin.step).checked_sub(1)
    }

    /// An estimate of [`Directory::find`] that reads no step.
    #[inline(always)]
    pub(crate) fn expected(&self, bin: Bin) -> u64 {
        let (first, end) = self.slot(bin.slot);
        between(first, end, bin.step)
    }

    /// The first block that starts in a slot, and the first that starts in a later slot.
    #[inline(always)]
    fn slot(&self, slot: u64) -> (u64, u64) {
        match self.before.get(slot as usize..).and_then(<[u64]>::first_chunk) {
            Some(&[first, end]) => (first, end),
            None => (0, 0),
        }
    }

    /// The expected position of the records of a bin in their block, as a fraction of `whole`. Bins
    /// are uniform, so the position is that of the bin between the first bins of this block and the
    /// next. Steps suffice to compute it if a block does not span a whole slot.
    #[inline(always)]
    pub(crate) fn fraction(&self, bin: Bin, block: u64, whole: usize) -> usize {
        let Some(&[begin, end]) = self.steps.get(block as usize..).and_then(<[u16]>::first_chunk)
        else {
            return 0;
        };
        let span = u32::from(end.wrapping_sub(begin)).max(1);
        let into = u32::from(bin.step.wrapping_sub(begin)).min(span);
        (u64::from(into) * whole as u64) as usize / span as usize
    }

    /// The first of the blocks `first..end` of a slot that starts after `step`.
    #[inline(always)]
    fn first_after(&self, first: u64, end: u64, step: u16) -> u64 {
        let (mut low, mut high) = (first, end);
        if high.saturating_sub(low) > STEP_LANES as u64 {
            (low, high) = self.narrow(first, end, step);
        }
        // Compares all steps at once, because a branch on a step would be unpredictable.
        let left = high.saturating_sub(low);
        let Some(few) = self.steps.get(low as usize..).and_then(<[u16]>::first_chunk) else {
            return (low..high).find(|&block| self.step(block) > step).unwrap_or(high);
        };
        low + u64::from(at_most_mask(few, step).trailing_ones()).min(left)
    }

    /// Narrows `first..end` to at most [`STEP_LANES`] blocks, such that the first one that starts
    /// after `step` is among them or follows them. Usually two probes around the expected block
    /// suffice; a binary search alone would take a cache miss and a branch miss at each step.
    #[inline(always)]
    fn narrow(&self, first: u64, end: u64, step: u16) -> (u64, u64) {
        let (mut low, mut high) = (first, end);
        let middle = between(first, end, step);
        for probe in [middle.saturating_sub(STEP_LANES as u64 / 2), middle + STEP_LANES as u64 / 2]
        {
            if low < probe && probe < high {
                if self.step(probe) <= step { low = probe } else { high = probe }
            }
        }
        while high - low > STEP_LANES as u64 {
            let middle = (low + high) / 2;
            if self.step(middle) <= step { low = middle } else { high = middle }
        }
        (low, high)
    }

    /// `Corrupt` unless every block starts in a later bin than the block before it.
    pub(crate) fn verify(&self) -> Result<()> {
        for slot in 0..self.slots {
            let blocks = self.before(slot)..self.before(slot + 1);
            if let Some(bad) = blocks.clone().skip(1).find(|&b| self.step(b) <= self.step(b - 1)) {
                return Err(Error::corrupt(format!("step {bad} of the directory is out of order")));
            }
        }
        Ok(())
    }

    /// The bin of the first record of a block.
    pub(crate) fn first(&self, block: u64) -> Bin {
        let (mut low, mut high) = (0, self.slots);
        while low + 1 < high {
            let middle = (low + high) / 2;
            if self.before(middle) <= block { low = middle } else { high = middle }
        }
        Bin { slot: low, step: self.step(block) }
    }
}

/// Interpolates between two block numbers by the step within a slot.
#[inline(always)]
fn between(first: u64, end: u64, step: u16) -> u64 {
    first + (end.saturating_sub(first).wrapping_mul(u64::from(step)) >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;

    #[test]
    fn bin_is_the_scaled_hash() {
        assert_eq!(bin_of(0, 7), Bin { slot: 0, step: 0 });
        assert_eq!(bin_of(u64::MAX, 7), Bin { slot: 6, step: u16::MAX });
        assert_eq!(bin_of(1 << 63, 3), Bin { slot: 1, step: 0x8000 });
    }

    #[test]
    fn directory_encoding() {
        let mut writer = DirectoryWriter::new(3);
        let firsts = [(0, 5), (0, 9), (2, 0x0102)];
        firsts.into_iter().for_each(|(slot, step)| writer.push(Bin { slot, step }));
        #[rustfmt::skip]
        assert_eq!(writer.finish(), [
            0, 0, 0, 0, 0, 0, 0, 0, // no block starts before slot 0
            2, 0, 0, 0, 0, 0, 0, 0, // two start in slot 0
            2, 0, 0, 0, 0, 0, 0, 0, // none in slot 1
            3, 0, 0, 0, 0, 0, 0, 0, // one in slot 2: three blocks
            5, 0,                   // step of block 0
            9, 0,                   // step of block 1
            2, 1,                   // step of block 2
        ]);
    }

    #[test]
    fn find_returns_the_last_block_at_or_before_the_bin() {
        let firsts = [(0, 5), (0, 9), (2, 1), (2, 2), (2, 700), (3, 0), (9, 9)];
        let firsts = firsts.map(|(slot, step)| Bin { slot, step });
        let mut writer = DirectoryWriter::new(12);
        firsts.iter().for_each(|&first| writer.push(first));
        let bytes = writer.finish();
        let directory = Directory::new(&bytes, 12, firsts.len() as u64).unwrap();
        directory.verify().unwrap();
        for slot in 0..12 {
            for step in (0..1000).chain([65535]) {
                let bin = Bin { slot, step };
                let expected = firsts.iter().rposition(|&first| first <= bin);
                let found = directory.find(bin).map(|block| block as usize);
                assert_eq!(found, expected, "{bin:?}");
            }
        }
        for (block, &first) in firsts.iter().enumerate() {
            assert_eq!(directory.first(block as u64), first);
        }
        let share = |slot, step, block| directory.fraction(Bin { slot, step }, block, 4080);
        assert_eq!([share(2, 2, 3), share(2, 351, 3), share(2, 699, 3)], [0, 2040, 4074]);
        assert_eq!(share(2, 33_118, 4), 2040, "half way to the first step of slot 3");
        assert_eq!(
            [share(9, 9, 6), share(9, 32_773, 6)],
            [0, 2040],
            "half way to the end of slot 9"
        );
        assert!(Directory::new(&bytes, 11, 7).is_err());
        assert!(Directory::new(&bytes[1..], 12, 7).is_err());
    }

    #[test]
    fn find_in_slots_with_many_blocks() {
        let mut rng = Rng(5);
        let even: Vec<u16> = (0..128).map(|i| i * 512 + rng.below(400u16)).collect();
        let first: Vec<u16> = (0..300).collect();
        let last: Vec<u16> = (0..300).map(|i| 65_000 + i).collect();
        for steps in [even, first, last, vec![65_535], (0..9).collect()] {
            let mut writer = DirectoryWriter::new(2);
            steps.iter().for_each(|&step| writer.push(Bin { slot: 1, step }));
            let directory = Directory::new(&writer.finish(), 2, steps.len() as u64).unwrap();
            for step in 0..=65_535 {
                let bin = Bin { slot: 1, step };
                let expected = steps.iter().rposition(|&first| first <= step);
                assert_eq!(directory.find(bin).map(|block| block as usize), expected);
                assert!(directory.expected(bin) <= steps.len() as u64);
            }
        }
    }
}
