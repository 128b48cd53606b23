//! The checkpoint of the index: which records of the sealed segments are live, one bit each.
//!
//! Together with the hints it is the index: an opening reads both and no record, except in segments
//! that were sealed later. It is a frozen file of kind 5. Losing it costs time only.
//!
//! ```text
//! SECTION 1  OFFSET  SIZE  FIELD
//!            0       8     store id
//!            8       8     number of segments
//!            16      24 x  number of the segment, number of puts in its hint, live bytes
//! SECTION 2  for each segment a bit per put of its hint, in that order, in whole u64s
//! ```

use crate::bytes::int::{Decoder, Encoder, u64_at};
use crate::{Error, Result};
use std::collections::BTreeMap;

pub(crate) const META: u32 = 1;
pub(crate) const BITS: u32 = 2;

/// A segment that a checkpoint covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CoveredSegment {
    /// Puts in its hint.
    pub(crate) entries: usize,
    pub(crate) live_bytes: u64,
    /// The byte at which its bits begin.
    at: usize,
}

/// A decoded checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) store: u64,
    pub(crate) segments: BTreeMap<u64, CoveredSegment>,
    bits: Vec<u8>,
}

impl Checkpoint {
    /// Decodes the two sections.
    pub(crate) fn decode(meta: &[u8], bits: &[u8]) -> Result<Checkpoint> {
        let mut input = Decoder::new(meta);
        let store = input.u64()?;
        let (mut segments, mut at) = (BTreeMap::new(), 0usize);
        for _ in 0..input.u64()? {
            let (number, entries, live_bytes) = (input.u64()?, input.u64()? as usize, input.u64()?);
            segments.insert(number, CoveredSegment { entries, live_bytes, at });
            let end = at.checked_add(entries.div_ceil(64) * 8);
            at = end.ok_or_else(|| Error::corrupt("the entries of a checkpoint"))?;
        }
        input.finish()?;
        if bits.len() != at {
            return Err(Error::corrupt("the bits of a checkpoint"));
        }
        Ok(Checkpoint { store, segments, bits: bits.to_vec() })
    }

    /// Whether put number `i` of a segment's hint is live.
    #[inline]
    pub(crate) fn is_live(&self, segment: &CoveredSegment, i: usize) -> bool {
        u64_at(&self.bits, segment.at + i / 64 * 8) >> (i % 64) & 1 == 1
    }

    /// Number of live puts of a segment.
    pub(crate) fn count(&self, segment: &CoveredSegment) -> usize {
        let bytes = &self.bits[segment.at..][..segment.entries.div_ceil(64) * 8];
        bytes.iter().map(|byte| byte.count_ones() as usize).sum()
    }

    /// Bytes of bits.
    pub(crate) fn size(&self) -> usize {
        self.bits.len()
    }
}

/// Encodes a checkpoint, segment by segment.
#[derive(Default)]
pub(crate) struct CheckpointEncoder {
    segments: Vec<[u64; 3]>,
    bits: Encoder,
}

impl CheckpointEncoder {
    /// Adds a segment. Numbers must ascend.
    pub(crate) fn segment(&mut self, number: u64, entries: usize, live_bytes: u64, bits: &[u64]) {
        self.segments.push([number, entries as u64, live_bytes]);
        bits.iter().for_each(|&word| self.bits.u64(word));
    }

    /// The two sections.
    pub(crate) fn finish(self, store: u64) -> (Vec<u8>, Vec<u8>) {
        let mut meta = Encoder::default();
        meta.u64(store);
        meta.u64(self.segments.len() as u64);
        self.segments.into_iter().flatten().for_each(|field| meta.u64(field));
        (meta.0, self.bits.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_have_the_documented_bytes() {
        let mut encoder = CheckpointEncoder::default();
        encoder.segment(2, 3, 500, &[0b101]);
        encoder.segment(5, 65, 0, &[0, 1]);
        let (meta, bits) = encoder.finish(0x0102);
        #[rustfmt::skip]
        let expected = [
            2, 1, 0, 0, 0, 0, 0, 0,         // store
            2, 0, 0, 0, 0, 0, 0, 0,         // segments
            2, 0, 0, 0, 0, 0, 0, 0,         // number
            3, 0, 0, 0, 0, 0, 0, 0,         // puts in its hint
            0xF4, 1, 0, 0, 0, 0, 0, 0,      // live bytes
            5, 0, 0, 0, 0, 0, 0, 0,
            65, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(meta, expected);
        #[rustfmt::skip]
        let expected = [
            5, 0, 0, 0, 0, 0, 0, 0,         // segment 2: puts 0 and 2 are live
            0, 0, 0, 0, 0, 0, 0, 0,         // segment 5: put 64 is live
            1, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(bits, expected);
        let checkpoint = Checkpoint::decode(&meta, &bits).unwrap();
        let segment = checkpoint.segments[&2];
        let live = (0..segment.entries).filter(|&i| checkpoint.is_live(&segment, i));
        assert_eq!(live.collect::<Vec<_>>(), [0, 2]);
        assert!(checkpoint.is_live(&checkpoint.segments[&5], 64));
        assert!(Checkpoint::decode(&meta, &bits[8..]).is_err());
        assert!(Checkpoint::decode(&meta[..meta.len() - 1], &bits).is_err());
    }
}
