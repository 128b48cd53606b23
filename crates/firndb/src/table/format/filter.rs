//! The filter: binary fuse filters (Graf and Lemire, "Binary Fuse Filters", 2022) over the hashes
//! of the keys. The range of hashes is divided into equal parts with one filter each, so that the
//! memory of a build is bounded.
//!
//! ```text
//! OFFSET  SIZE  FIELD
//! 0       8     parts, a power of two: the first bits of a hash are the number of its part
//! 8       8     bytes of the fingerprints of all parts
//! 16      ..    fingerprints of part 0, of part 1, ...: 8 or 16 bits each
//! end     32    one entry per part:
//!
//! ENTRY   OFFSET  SIZE  FIELD
//!         0       8     seed
//!         8       8     offset of its fingerprints, from byte 16 of the section
//!         16      8     number of its fingerprints; 0 if the part has no keys
//!         24      4     segment length L, a power of two
//!         28      4     length C of all first segments
//! ```
//!
//! With x = murmur3_mix64(h + seed) and f = x ^ x >> 32, a key of hash h may be present if the low
//! bits of f are the exclusive-or of three fingerprints: number a = x C / 2^64, a + L ^ (x >> 18 &
//! L - 1), and a + 2 L ^ (x & L - 1).

use crate::bytes::int::{Encoder, u16_at, u32_at, u64_at};
use crate::bytes::prefetch::prefetch;
use crate::table::options::KeyFilter;
use crate::{Error, Result};

const HEAD: usize = 16;
const ENTRY: usize = 32;
/// Most keys per part, on average.
pub(crate) const KEYS_PER_PART: u64 = 1 << 21;

/// Parts for a table of this many records.
pub(crate) fn parts_for(records: u64) -> u64 {
    records.div_ceil(KEYS_PER_PART).max(1).next_power_of_two()
}

#[inline(always)]
pub(crate) fn part_of(hash: u64, parts: u64) -> u64 {
    ((u128::from(hash) * u128::from(parts)) >> 64) as u64
}

/// Encodes the header of the section.
pub(crate) fn encode_header(parts: u64, fingerprint_bytes: u64) -> Vec<u8> {
    let mut out = Encoder::default();
    out.u64(parts);
    out.u64(fingerprint_bytes);
    out.0
}

/// The entry of a part as it is stored.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PartEntry {
    pub(crate) seed: u64,
    pub(crate) start: u64,
    pub(crate) fingerprints: u64,
    pub(crate) segment: u32,
    pub(crate) count: u32,
}

impl PartEntry {
    pub(crate) fn encode(&self, out: &mut Encoder) {
        [self.seed, self.start, self.fingerprints].into_iter().for_each(|v| out.u64(v));
        [self.segment, self.count].into_iter().for_each(|v| out.u32(v));
    }
}

/// A parsed filter: the bounds of each part have been checked.
#[derive(Clone, Debug)]
pub(crate) struct FilterReader {
    parts: Box<[FilterPart]>,
    bits: u8,
}

/// One part. It has no keys if the segment length is 0.
#[derive(Clone, Copy, Debug)]
struct FilterPart {
    seed: u64,
    /// Offset of its fingerprints in the section.
    start: usize,
    segment: u32,
    /// Length of all first segments.
    count: u32,
}

impl FilterReader {
    pub(crate) fn parse(bytes: &[u8], filter: KeyFilter) -> Result<FilterReader> {
        let (parts, fingerprints) = (u64_at(bytes, 0), u64_at(bytes, 8));
        let len = parts.checked_mul(ENTRY as u64).and_then(|n| n.checked_add(fingerprints));
        let len = len.and_then(|n| n.checked_add(HEAD as u64));
        if !parts.is_power_of_two() || len != Some(bytes.len() as u64) {
            return Err(Error::corrupt(format!(
                "a filter of {parts} parts and {fingerprints} bytes does not have {} bytes",
                bytes.len()
            )));
        }
        let bits = filter.bits() as u8;
        let entries = HEAD + fingerprints as usize;
        let part = |part: usize| {
            let entry = &bytes[entries + ENTRY * part..][..ENTRY];
            FilterPart::parse(entry, fingerprints, bits)
                .ok_or_else(|| Error::corrupt(format!("part {part} of the filter is invalid")))
        };
        let parts = (0..parts as usize).map(part).collect::<Result<_>>()?;
        Ok(FilterReader { parts, bits })
    }

    /// The offsets of the three fingerprints of a hash, and the value that their exclusive-or has
    /// if the key is present. `None` if the part has no keys.
    #[inline(always)]
    fn locate(&self, hash: u64) -> Option<([usize; 3], u64)> {
        let number = part_of(hash, self.parts.len() as u64) as usize;
        let part = self.parts.get(number).filter(|part| part.segment > 0)?;
        let mixed = murmur3_mix64(hash.wrapping_add(part.seed));
        let first = ((u128::from(mixed) * u128::from(part.count)) >> 64) as u32;
        let mask = part.segment - 1;
        let second = first.wrapping_add(part.segment);
        let third = second.wrapping_add(part.segment) ^ (mixed as u32 & mask);
        let second = second ^ ((mixed >> 18) as u32 & mask);
        let at = |i: u32| part.start + i as usize * usize::from(self.bits / 8);
        Some(([at(first), at(second), at(third)], mixed ^ mixed >> 32))
    }

    /// Whether a key of this hash may be present.
    #[inline(always)]
    pub(crate) fn contains(&self, bytes: &[u8], hash: u64) -> bool {
        let Some((offsets, print)) = self.locate(hash) else { return false };
        if self.bits == 8 {
            let get = |at: usize| bytes.get(at).copied().unwrap_or(0);
            return print as u8 == offsets.into_iter().fold(0, |all, at| all ^ get(at));
        }
        print as u16 == offsets.into_iter().fold(0, |all, at| all ^ u16_at(bytes, at))
    }

    /// Prefetches the lines that [`FilterReader::contains`] reads.
    #[inline(always)]
    pub(crate) fn prefetch(&self, bytes: &[u8], hash: u64) {
        if let Some((offsets, _)) = self.locate(hash) {
            offsets.into_iter().for_each(|at| prefetch(bytes.get(at..).unwrap_or(&[]), 1));
        }
    }
}

impl FilterPart {
    /// `None` if the entry is inconsistent.
    fn parse(entry: &[u8], fingerprints: u64, bits: u8) -> Option<FilterPart> {
        let (start, number) = (u64_at(entry, 8), u64_at(entry, 16));
        let (segment, count) = (u32_at(entry, 24), u32_at(entry, 28));
        let len = number.checked_mul(u64::from(bits / 8))?;
        let inside = len.checked_add(start)? <= fingerprints;
        // All segments have the same length, so no fingerprint is outside of the last segment.
        let whole = segment.is_power_of_two()
            && count.is_multiple_of(segment)
            && u64::from(count) + 2 * u64::from(segment) == number;
        if !inside || (number > 0 && !whole) {
            return None;
        }
        let start = HEAD + start as usize;
        let segment = if number > 0 { segment } else { 0 };
        Some(FilterPart { seed: u64_at(entry, 0), start, segment, count })
    }
}

/// The finaliser of MurmurHash3 (Appleby, public domain).
#[inline(always)]
fn murmur3_mix64(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ x >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_encoding() {
        let mut entry = Encoder::default();
        PartEntry { seed: 0x0102, start: 0, fingerprints: 3, segment: 1, count: 1 }
            .encode(&mut entry);
        let bytes = [&encode_header(1, 3)[..], &[0xAA, 0xBB, 0xCC], &entry.0].concat();
        #[rustfmt::skip]
        assert_eq!(bytes, [
            1, 0, 0, 0, 0, 0, 0, 0, // one part
            3, 0, 0, 0, 0, 0, 0, 0, // bytes of fingerprints
            0xAA, 0xBB, 0xCC,       // three segments of one fingerprint
            2, 1, 0, 0, 0, 0, 0, 0, // seed
            0, 0, 0, 0, 0, 0, 0, 0, // start of the fingerprints
            3, 0, 0, 0, 0, 0, 0, 0, // number of fingerprints
            1, 0, 0, 0,             // segment length
            1, 0, 0, 0,             // length of all first segments
        ]);
        let reader = FilterReader::parse(&bytes, KeyFilter::Bits8).unwrap();
        let expected = |hash: u64| {
            let mixed = murmur3_mix64(hash + 0x0102);
            (mixed ^ mixed >> 32) as u8 == 0xAA ^ 0xBB ^ 0xCC
        };
        assert!((0..2_000).all(|hash| reader.contains(&bytes, hash) == expected(hash)));
        assert!((0..2_000).any(expected));
        for len in 0..bytes.len() {
            assert!(FilterReader::parse(&bytes[..len], KeyFilter::Bits8).is_err());
        }
    }

    #[test]
    fn inconsistent_part_entries_are_refused() {
        let parse = |start: u64, number: u64, segment: u32, count: u32| {
            let mut entry = Encoder::default();
            PartEntry { seed: 7, start, fingerprints: number, segment, count }.encode(&mut entry);
            FilterPart::parse(&entry.0, 100, 8)
        };
        assert!(parse(4, 96, 32, 32).is_some() && parse(100, 0, 0, 0).is_some());
        assert!(parse(5, 96, 32, 32).is_none(), "more than there is");
        assert!(parse(0, 95, 32, 32).is_none(), "other segments than it has");
        assert!(parse(0, 72, 24, 24).is_none(), "not a power of two");
        assert!(parse(0, 80, 32, 16).is_none(), "half a segment");
        let part = parse(4, 96, 32, 32).unwrap();
        let shape = FilterReader { parts: Box::new([part]), bits: 8 };
        let mut offsets = (0..2000u64).flat_map(|i| shape.locate(i << 40 | i).unwrap().0);
        assert!(offsets.all(|at| (HEAD + 4..HEAD + 100).contains(&at)));
    }
}
