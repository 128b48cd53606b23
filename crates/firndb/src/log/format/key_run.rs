//! A key run: the keys of all puts in consecutive segments, in ascending order, and where their
//! records are. An ordered store finds ranges of keys in its runs.
//!
//! A key run is a frozen file of kind 9. It is derived from its segments, and can be built again.
//!
//! ```text
//! SECTION 1  OFFSET  SIZE  FIELD
//!            0       8     store id
//!            8       8     number of the first segment that the run covers
//!            16      8     number of the last one
//!            24      8     number of entries
//!            32      8     number of blocks b
//! SECTION 2  0      16 b   for each block: where it begins in section 3, and where its fence
//!                          begins in the fences
//!            16 b    8     length of section 3
//!            16 b+8  8     length of the fences
//!            16 b+16 ..    fences
//! SECTION 3  blocks of entries, with a checksum each: see `key_block.rs`
//! SECTION 4  0       8     store id again: the first section in the file. A writer removes files
//!                          that are damaged, and no file of another store
//! ```
//! The fence of a block is the shortest prefix of its first key that is greater than all keys
//! before the block, or the whole key if it is also the last key before the block. A longer prefix
//! than 64 bytes is cut: a search then compares with the first key of the block.

use crate::bytes::int::{Decoder, Encoder, u64_at};
use crate::log::format::key_block::common;
use crate::{Error, Result};
use std::cmp::Ordering;

pub(crate) const META: u32 = 1;
pub(crate) const FENCES: u32 = 2;
pub(crate) const BLOCKS: u32 = 3;
pub(crate) const OWNER: u32 = 4;

/// Longest fence.
const FENCE_MAX: usize = 64;
/// Bytes of section 2 per block, without the fence.
const PLACE: usize = 16;

/// Section 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyRunMeta {
    pub(crate) store: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) entries: u64,
    pub(crate) blocks: u64,
}

impl KeyRunMeta {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        [self.store, self.first, self.last, self.entries, self.blocks]
            .into_iter()
            .for_each(|field| out.u64(field));
        out.0
    }

    /// `Corrupt` if this is not a run of a store.
    pub(crate) fn decode(bytes: &[u8]) -> Result<KeyRunMeta> {
        let mut input = Decoder::new(bytes);
        let meta = KeyRunMeta {
            store: input.u64()?,
            first: input.u64()?,
            last: input.u64()?,
            entries: input.u64()?,
            blocks: input.u64()?,
        };
        input.finish()?;
        // A block has 1 to 65,535 entries.
        let is_possible = meta.first <= meta.last
            && meta.blocks <= meta.entries
            && meta.entries.div_ceil(u64::from(u16::MAX)) <= meta.blocks;
        let impossible = || {
            let KeyRunMeta { first, last, entries, blocks, .. } = meta;
            Error::corrupt(format!(
                "the meta section of a key run is impossible: segments {first} to {last}, \
                 {entries} entries, {blocks} blocks"
            ))
        };
        is_possible.then_some(meta).ok_or_else(impossible)
    }
}

/// Section 4.
pub(crate) fn encode_owner(store: u64) -> [u8; 8] {
    store.to_le_bytes()
}

/// Collects section 2.
#[derive(Default)]
pub(crate) struct FenceWriter {
    places: Vec<u64>,
    fences: Vec<u8>,
}

impl FenceWriter {
    /// Adds a block that begins at `offset`; `last` is the last key before it.
    pub(crate) fn push(&mut self, offset: u64, last: &[u8], first: &[u8]) {
        let length = (common(last, first) + 1).min(first.len()).min(FENCE_MAX);
        self.places.extend([offset, self.fences.len() as u64]);
        self.fences.extend_from_slice(&first[..length]);
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.places.len() as u64 / 2
    }

    /// Section 2, for a section 3 of this length.
    pub(crate) fn finish(mut self, end: u64) -> Vec<u8> {
        self.places.extend([end, self.fences.len() as u64]);
        let mut out = Encoder(Vec::with_capacity(self.places.len() * 8 + self.fences.len()));
        self.places.into_iter().for_each(|place| out.u64(place));
        out.0.extend_from_slice(&self.fences);
        out.0
    }
}

/// Section 2.
#[derive(Clone, Copy)]
pub(crate) struct Fences<'a> {
    bytes: &'a [u8],
    blocks: usize,
}

impl<'a> Fences<'a> {
    /// `Corrupt` if this is not section 2 for so many blocks, in a section 3 of this length.
    pub(crate) fn new(bytes: &'a [u8], blocks: u64, end: u64) -> Result<Fences<'a>> {
        let count = usize::try_from(blocks).ok().filter(|count| *count <= bytes.len() / PLACE);
        let fences = count.map(|blocks| Fences { bytes, blocks });
        let is_right = |fences: &Fences| {
            let start = PLACE * (fences.blocks + 1);
            let lengths = (u64_at(bytes, start - PLACE), u64_at(bytes, start - PLACE + 8));
            bytes.len() >= start && lengths == (end, (bytes.len() - start) as u64)
        };
        fences.filter(is_right).ok_or_else(|| {
            let length = bytes.len();
            Error::corrupt(format!(
                "a fence section of {length} bytes does not fit {blocks} blocks"
            ))
        })
    }

    /// Where a block is in section 3: offset and length.
    pub(crate) fn block(&self, i: usize) -> Result<(u64, usize)> {
        let (start, end) = (u64_at(self.bytes, PLACE * i), u64_at(self.bytes, PLACE * (i + 1)));
        let last = u64_at(self.bytes, PLACE * self.blocks);
        if i >= self.blocks || start > end || end > last {
            return Err(Error::corrupt(format!("block {i} of keys is from {start} to {end}")));
        }
        Ok((start, (end - start) as usize))
    }

    /// The fence of a block.
    fn fence(&self, i: usize) -> &'a [u8] {
        let fences = self.bytes.get(PLACE * (self.blocks + 1)..).unwrap_or(&[]);
        let at = |i: usize| u64_at(self.bytes, PLACE * i + 8) as usize;
        fences.get(at(i)..at(i + 1)).unwrap_or(&[])
    }

    /// Number of blocks that begin before a place among the keys: the place before the first key
    /// `>= key`, or with `after` before the first key `> key`. It is in the last of these blocks or
    /// at its end. `compare_first(i, key)` compares the first key of block i with `key`.
    pub(crate) fn blocks_before(
        &self,
        key: &[u8],
        after: bool,
        mut compare_first: impl FnMut(usize, &[u8]) -> Result<Ordering>,
    ) -> Result<usize> {
        let (mut low, mut high) = (0, self.blocks);
        while low < high {
            let middle = low + (high - low) / 2;
            let fence = self.fence(middle);
            let order = match fence.cmp(key) {
                // The fence may be a part of the first key only.
                Ordering::Less | Ordering::Equal
                    if fence.len() == FENCE_MAX && key.starts_with(fence) =>
                {
                    compare_first(middle, key)?
                }
                order => order,
            };
            let is_before = order == Ordering::Less || after && order == Ordering::Equal;
            if is_before { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sections_have_the_documented_bytes() {
        let meta = KeyRunMeta { store: 0x0102, first: 3, last: 5, entries: 300, blocks: 2 };
        #[rustfmt::skip]
        let expected = [
            2, 1, 0, 0, 0, 0, 0, 0,         // store
            3, 0, 0, 0, 0, 0, 0, 0,         // first segment
            5, 0, 0, 0, 0, 0, 0, 0,         // last segment
            0x2C, 1, 0, 0, 0, 0, 0, 0,      // entries
            2, 0, 0, 0, 0, 0, 0, 0,         // blocks
        ];
        assert_eq!(meta.encode(), expected);
        assert_eq!(encode_owner(meta.store), expected[..8]);
        assert_eq!(KeyRunMeta::decode(&expected).unwrap(), meta);
        for length in 0..expected.len() {
            assert!(KeyRunMeta::decode(&expected[..length]).is_err(), "{length} bytes");
        }
        for wrong in [
            KeyRunMeta { first: 6, ..meta },
            KeyRunMeta { entries: 1, ..meta },
            KeyRunMeta { entries: 2 * 65_535 + 1, ..meta },
            KeyRunMeta { blocks: 0, ..meta },
        ] {
            assert!(KeyRunMeta::decode(&wrong.encode()).is_err(), "{wrong:?}");
        }

        let mut fences = FenceWriter::default();
        fences.push(0, b"", b"bear");
        fences.push(256, b"cat", b"cow");
        #[rustfmt::skip]
        let expected = [
            0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0, // block 0 and its fence
            0, 1, 0, 0, 0, 0, 0, 0,  1, 0, 0, 0, 0, 0, 0, 0, // block 1 and its fence
            0, 2, 0, 0, 0, 0, 0, 0,  3, 0, 0, 0, 0, 0, 0, 0, // length of the blocks and the fences
            b'b', b'c', b'o',
        ];
        assert_eq!(fences.finish(512), expected);
        assert!(Fences::new(&expected, 1, 512).is_err());
        assert!(Fences::new(&expected, u64::MAX, 512).is_err());
        assert!(Fences::new(&expected, 2, 511).is_err());
        for length in 0..expected.len() {
            assert!(Fences::new(&expected[..length], 2, 512).is_err(), "{length} bytes");
        }
        let read = Fences::new(&expected, 2, 512).unwrap();
        assert_eq!(read.block(1).unwrap(), (256, 256));
        assert!(read.block(2).is_err());
        for (key, blocks) in [("a", 0), ("b", 0), ("bear", 1), ("cat", 1), ("co", 1), ("cow", 2)] {
            let never = |_, _: &[u8]| panic!("fences are short");
            assert_eq!(read.blocks_before(key.as_bytes(), false, never).unwrap(), blocks, "{key}");
        }
    }
}
