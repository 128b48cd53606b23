//! The entries of a hint: hash bits of a key and offset of its record, sorted, about seven
//! bytes each.
//!
//! ```text
//! OFFSET  SIZE  FIELD
//! 0       8     number of entries
//! 8       1     number of bits of an offset, at most 26
//! 9       1     number of bits of a hash, at most 48; 0 for 38, in files of older versions
//! 10      6     zeros
//! 16      ..    hash bits, Elias-Fano coded (`bytes/elias_fano/`) as values below 2^48 (or 2^38);
//!               the high bits are filled up to a whole u64
//! ..      ..    offsets in units of the segment's alignment, packed
//! ```

use crate::bytes::elias_fano::{self, EliasFano, Layout, Position};
use crate::bytes::int::{Encoder, u64_at};
use crate::bytes::packed::{Packed, PackedWriter, width};
use crate::{Error, Result};

/// Bits of a hash in a hint that is written now: as many as an entry of the index knows at most.
pub(crate) const HASH_BITS: u32 = 48;
/// The same in files of older versions.
const HASH_BITS_OLD: u32 = 38;
/// Offsets, in units of the segment's alignment, are below this.
pub(crate) const OFFSETS: u64 = 1 << 26;

const HEAD: usize = 16;
/// Words of the high bits between two samples.
const STEP: usize = 8;

/// Encodes entries that are sorted by hash and then offset.
pub(crate) fn encode(entries: &[(u64, u32)]) -> Vec<u8> {
    let largest = entries.iter().map(|&(_, offset)| offset).max().unwrap_or(0);
    let offset_bits = width(u64::from(largest));
    let mut offsets = PackedWriter::new(offset_bits);
    entries.iter().for_each(|&(_, offset)| offsets.push(offset));
    let mut out = Encoder::default();
    out.u64(entries.len() as u64);
    out.u64(u64::from(offset_bits) | u64::from(HASH_BITS) << 8);
    elias_fano::encode(
        entries.iter().map(|entry| entry.0),
        layout(entries.len(), HASH_BITS),
        &mut out.0,
    );
    out.0.extend_from_slice(&offsets.finish());
    out.0
}

/// The layout of the hash bits. Samples count the ones of whole words.
fn layout(entries: usize, hash_bits: u32) -> Layout {
    let layout = Layout::new(1 << hash_bits, entries);
    Layout { highs: layout.highs.next_multiple_of(8), ..layout }
}

/// Encoded entries.
#[derive(Clone, Copy)]
pub(crate) struct Entries<'a> {
    len: usize,
    hash_bits: u32,
    hashes: EliasFano<'a>,
    layout: Layout,
    offsets: Packed<'a>,
}

impl<'a> Entries<'a> {
    /// Checks that all parts are there, and their lengths.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Entries<'a>> {
        let corrupt = || Error::corrupt(format!("{} bytes are no entries of a hint", bytes.len()));
        let (head, rest) = bytes.split_at_checked(HEAD).ok_or_else(corrupt)?;
        let (len, offset_bits) = (u64_at(head, 0), head[8]);
        // Each entry takes more than a bit, so no sum below overflows. The index has room for such
        // offsets.
        let hash_bits = match head[9] {
            0 => HASH_BITS_OLD,
            bits => bits.into(),
        };
        let is_possible = offset_bits <= width(OFFSETS - 1)
            && (HASH_BITS_OLD..=HASH_BITS).contains(&hash_bits)
            && head[10..].iter().all(|&b| b == 0);
        if !is_possible || len > 8 * bytes.len() as u64 {
            return Err(corrupt());
        }
        let len = len as usize;
        let layout = layout(len, hash_bits);
        let (_, offsets) = rest.split_at_checked(layout.size()).ok_or_else(corrupt)?;
        let offsets = Packed::new(offsets, offset_bits, len)?;
        Ok(Entries { len, hash_bits, hashes: EliasFano::new(rest, 0, layout), layout, offsets })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Number of the highest bits of a hash that each entry has.
    pub(crate) fn hash_bits(&self) -> u32 {
        self.hash_bits
    }

    /// All entries, in order.
    pub(crate) fn iter(&self) -> Iter<'a> {
        self.iter_from(Position::default())
    }

    /// The entries from this hash on, in order. Counts the buckets before them, 64 bits at a time.
    pub(crate) fn iter_from_hash(&self, hash: u64) -> Iter<'a> {
        let shift = u64::BITS - self.hash_bits;
        let bucket = (hash >> shift >> self.layout.low) as usize;
        let mut iter = self.iter_from(self.hashes.skip(Position::default(), bucket));
        loop {
            let mut after = iter.clone();
            match after.next() {
                Some(entry) if entry.0 < hash => iter = after,
                _ => return iter,
            }
        }
    }

    fn iter_from(&self, from: Position) -> Iter<'a> {
        Iter {
            hashes: self.hashes.iter_from(from, self.len),
            shift: u64::BITS - self.hash_bits,
            offsets: self.offsets,
        }
    }

    /// For [`Entries::contains`]: the number of entries before each `STEP` words of the high bits.
    pub(crate) fn samples(&self) -> Vec<u32> {
        let mut count = 0;
        let highs = self.hashes.words(0, self.layout.highs / 8);
        let pieces = highs.chunks(STEP * 8).map(|piece| {
            let before = count;
            count += piece.chunks(8).map(|word| u64_at(word, 0).count_ones()).sum::<u32>();
            before
        });
        pieces.collect()
    }

    /// Whether there is an entry with the first bits of this hash.
    pub(crate) fn contains(&self, hash: u64, samples: &[u32]) -> bool {
        let shift = u64::BITS - self.hash_bits;
        let (bucket, hash) = ((hash >> shift >> self.layout.low) as usize, hash >> shift << shift);
        // As many zeros precede a bucket as there are buckets before it.
        let zeros_before = |piece: usize| piece * STEP * 64 - samples[piece] as usize;
        let (mut from, mut to) = (0, samples.len());
        while to - from > 1 {
            let middle = (from + to) / 2;
            if zeros_before(middle) < bucket { from = middle } else { to = middle }
        }
        let Some(&before) = samples.get(from) else { return false };
        let sample = Position { index: before as usize, bit: from * STEP * 64 };
        let start = self.hashes.skip(sample, bucket.saturating_sub(zeros_before(from)));
        let found = self.iter_from(start);
        found.take_while(|entry| entry.0 <= hash).any(|entry| entry.0 == hash)
    }
}

/// Entries in order, as the known bits of a hash, then zeros, and offset in units of the alignment.
#[derive(Clone)]
pub(crate) struct Iter<'a> {
    hashes: elias_fano::Iter<'a>,
    /// Unknown bits of a hash.
    shift: u32,
    offsets: Packed<'a>,
}

impl Iter<'_> {
    /// The number of the next entry.
    #[inline]
    pub(crate) fn index(&self) -> usize {
        self.hashes.index()
    }
}

impl Iterator for Iter<'_> {
    type Item = (u64, u64);

    #[inline]
    fn next(&mut self) -> Option<(u64, u64)> {
        let i = self.hashes.index();
        let hash = self.hashes.next()?;
        // Damaged bytes may yield more bits, which this drops.
        Some((hash << self.shift, u64::from(self.offsets.get(i))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::testing::print_nanoseconds;
    use crate::testing::Rng;

    fn check(entries: &[(u64, u32)]) {
        let bytes = encode(entries);
        let read = Entries::new(&bytes).unwrap();
        let expected: Vec<_> =
            entries.iter().map(|&(hash, at)| (hash << (64 - HASH_BITS), u64::from(at))).collect();
        assert_eq!(read.iter().collect::<Vec<_>>(), expected);
        let samples = read.samples();
        for &(hash, _) in entries {
            for near in [hash, hash.saturating_sub(1), hash + 1] {
                let near = near & ((1 << HASH_BITS) - 1);
                let there = entries.binary_search_by_key(&near, |entry| entry.0).is_ok();
                assert_eq!(
                    read.contains(near << (64 - HASH_BITS), &samples),
                    there,
                    "{near:x} of {}",
                    entries.len()
                );
            }
        }
        for &(hash, _) in entries.iter().step_by(7) {
            for near in [hash, hash.saturating_sub(1), hash + 1] {
                let near = near.min((1 << HASH_BITS) - 1) << (64 - HASH_BITS);
                let rest = read.iter_from_hash(near);
                let first = expected.partition_point(|entry| entry.0 < near);
                assert_eq!(rest.index(), first);
                assert!(rest.take(50).eq(expected[first..].iter().copied().take(50)));
            }
        }
        for hash in [0, (1 << HASH_BITS) - 1] {
            let there = entries.iter().any(|entry| entry.0 == hash);
            assert_eq!(read.contains(hash << (64 - HASH_BITS), &samples), there);
        }
        for length in 0..bytes.len().min(200) {
            assert!(Entries::new(&bytes[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn entries_round_trip_and_are_found() {
        let mut rng = Rng(7);
        for n in [0, 1, 2, 3, 60, 64, 65, 1000, 40_000] {
            for spread in [HASH_BITS, 20, 3] {
                let hash =
                    |rng: &mut Rng| rng.next() >> (64 - spread) << (HASH_BITS - spread) >> (n % 3);
                let mut entries: Vec<_> = (0..n).map(|i| (hash(&mut rng), i as u32 * 7)).collect();
                entries.sort_unstable();
                check(&entries);
            }
        }
        let largest = (OFFSETS - 1) as u32;
        check(&[((1 << HASH_BITS) - 1, largest); 3]);
    }

    #[test]
    fn offsets_that_do_not_fit_the_index_are_rejected() {
        assert!(Entries::new(&encode(&[(7, OFFSETS as u32)])).is_err());
    }

    #[test]
    fn a_random_entry_takes_seven_bytes() {
        let mut rng = Rng(8);
        let mut entries: Vec<_> =
            (0..40_000).map(|i| (rng.next() >> (64 - HASH_BITS), i * 115)).collect();
        entries.sort_unstable();
        let bits = encode(&entries).len() * 8 / entries.len();
        assert_eq!(bits, 57, "2.6 high bits, 32 low bits, 23 of the offset");
    }

    #[test]
    fn iteration_over_damaged_bytes_ends() {
        let mut rng = Rng(9);
        let entries: Vec<_> = (0..300).map(|i| (i << 39, i as u32)).collect();
        let bytes = encode(&entries);
        for _ in 0..20_000 {
            let mut damaged = bytes.clone();
            for _ in 0..1 + rng.below(4) {
                damaged[rng.below(bytes.len())] = rng.next() as u8;
            }
            if let Ok(read) = Entries::new(&damaged) {
                let samples = read.samples();
                assert!(read.iter().count() <= read.len());
                for _ in 0..4 {
                    let _ = read.contains(rng.next(), &samples);
                }
            }
        }
    }

    #[test]
    fn entries_have_the_documented_bytes() {
        let bytes = encode(&[(1, 3), ((1 << 32) + 2, 1)]);
        #[rustfmt::skip]
        let expected = [
            2, 0, 0, 0, 0, 0, 0, 0, // entries
            2,                      // bits of an offset
            48,                     // bits of a hash
            0, 0, 0, 0, 0, 0,
            1, 0, 0, 0, 0, 0, 1, 0, 0, 0x80, 0, 0, // low bits, 47 per hash: 1, then 2^32 + 2
            3, 0, 0, 0, 0, 0, 0, 0, // high bits: both hashes are in the first bucket
            7, 0, 0, 0, 0, 0, 0, 0, 0, // offsets 3 and 1, 2 bits each, and 8 zeros
        ];
        assert_eq!(bytes, expected);
        // A reader rejects what it does not know: the reserved bytes are zeros.
        for at in 10..HEAD {
            let mut reserved = bytes.clone();
            reserved[at] = 1;
            assert!(Entries::new(&reserved).is_err(), "byte {at}");
        }
    }

    #[test]
    #[ignore = "prints times"]
    fn times_of_entries() {
        let mut rng = Rng(9);
        let mut entries: Vec<_> =
            (0..500_000).map(|i| (rng.next() >> (64 - HASH_BITS), i * 115)).collect();
        entries.sort_unstable();
        let bytes = encode(&entries);
        println!("{} bytes of {} entries", bytes.len(), entries.len());
        let read = Entries::new(&bytes).unwrap();
        let samples = read.samples();
        let order: Vec<u64> =
            (0..100_000).map(|i| entries[rng.below(entries.len())].0 ^ (i & 1)).collect();
        print_nanoseconds("entries: encode", || (entries.len(), encode(&entries).len() as u64));
        print_nanoseconds("entries: iter", || {
            (entries.len(), read.iter().fold(0, |a, e| a ^ e.0 ^ e.1))
        });
        print_nanoseconds("entries: samples, per entry", || {
            (entries.len(), read.samples().len() as u64)
        });
        print_nanoseconds("entries: contains", || {
            (
                order.len(),
                order
                    .iter()
                    .filter(|hash| read.contains(**hash << (64 - HASH_BITS), &samples))
                    .count() as u64,
            )
        });
    }
}
