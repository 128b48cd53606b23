//! The entries of a hint: hash bits of a key and offset of its record, sorted, about six bytes
//! each.
//!
//! The hashes are an Elias-Fano sequence (Elias 1974, Fano 1971): the high bits in unary, about two
//! bits per entry, the low bits packed.
//!
//! ```text
//! OFFSET  SIZE  FIELD
//! 0       8     number of entries
//! 8       1     number of high bits of a hash
//! 9       1     number of bits of an offset, at most 26
//! 10      6     zeros
//! 16      ..    high bits in unary: for each value, a 1 per entry that has it, then a 0; from the
//!               lowest bit of each u64 on
//! ..      ..    low bits of the hashes, packed
//! ..      ..    offsets in units of the segment's alignment, packed
//! ```

use crate::bytes::int::{Encoder, behind_zeros, u64_at};
use crate::bytes::packed::{Packed, PackedWriter, width};
use crate::{Error, Result};

/// Bits of a hash in a hint.
pub(crate) const HASH_BITS: u32 = 38;
/// Offsets, in units of the segment's alignment, are below this.
pub(crate) const OFFSETS: u64 = 1 << 26;

const HEAD: usize = 16;
/// At most 32 low bits can be packed.
const HIGH_MIN: u32 = HASH_BITS - 32;
const HIGH_MAX: u32 = 30;
/// Words of the unary part between two samples.
const STEP: usize = 8;

/// Encodes entries that are sorted by hash and then offset.
pub(crate) fn encode(entries: &[(u64, u32)]) -> Vec<u8> {
    let high_bits = (entries.len() as u64 | 1).ilog2().clamp(HIGH_MIN, HIGH_MAX);
    let low_bits = HASH_BITS - high_bits;
    let largest = entries.iter().map(|&(_, offset)| offset).max().unwrap_or(0);
    let offset_bits = width(u64::from(largest));
    let mut highs = vec![0u64; words(entries.len(), high_bits)];
    let mut lows = PackedWriter::new(low_bits as u8);
    let mut offsets = PackedWriter::new(offset_bits);
    for (i, &(hash, offset)) in entries.iter().enumerate() {
        let bit = (hash >> low_bits) as usize + i;
        highs[bit / 64] |= 1 << (bit % 64);
        lows.push((hash & ((1 << low_bits) - 1)) as u32);
        offsets.push(offset);
    }
    let mut out = Encoder::default();
    out.u64(entries.len() as u64);
    out.u64(u64::from(high_bits) | u64::from(offset_bits) << 8);
    highs.iter().for_each(|&word| out.u64(word));
    out.0.extend_from_slice(&lows.finish());
    out.0.extend_from_slice(&offsets.finish());
    out.0
}

/// Words of the unary part.
fn words(entries: usize, high_bits: u32) -> usize {
    (entries + (1usize << high_bits)).div_ceil(64)
}

/// Encoded entries.
#[derive(Clone, Copy)]
pub(crate) struct Entries<'a> {
    len: usize,
    high_bits: u32,
    highs: &'a [u8],
    lows: Packed<'a>,
    offsets: Packed<'a>,
}

impl<'a> Entries<'a> {
    /// Checks that the bytes have all parts, with matching lengths.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Entries<'a>> {
        let corrupt = || Error::corrupt(format!("{} bytes are no entries of a hint", bytes.len()));
        let (head, rest) = bytes.split_at_checked(HEAD).ok_or_else(corrupt)?;
        let (len, high_bits, offset_bits) = (u64_at(head, 0), u32::from(head[8]), head[9]);
        // An entry takes more than a bit, so no sum below overflows. Offsets fit into the index.
        let is_possible =
            (HIGH_MIN..=HIGH_MAX).contains(&high_bits) && offset_bits <= width(OFFSETS - 1);
        if !is_possible || len > 8 * bytes.len() as u64 {
            return Err(corrupt());
        }
        let (len, low_bits) = (len as usize, (HASH_BITS - high_bits) as u8);
        let highs = rest.split_at_checked(words(len, high_bits) * 8);
        let (highs, rest) = highs.ok_or_else(corrupt)?;
        let lows = Packed::size(low_bits, len).and_then(|size| rest.split_at_checked(size));
        let (lows, offsets) = lows.ok_or_else(corrupt)?;
        let lows = Packed::new(lows, low_bits, len)?;
        let offsets = Packed::new(offsets, offset_bits, len)?;
        Ok(Entries { len, high_bits, highs, lows, offsets })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// All entries in order.
    pub(crate) fn iter(&self) -> Iter<'a> {
        self.from(0, 0)
    }

    /// Entries from a bit of the unary part on, which `next` entries precede.
    fn from(&self, bit: usize, next: usize) -> Iter<'a> {
        let left = word_at(self.highs, bit / 64) & u64::MAX << (bit % 64);
        Iter { entries: *self, word: bit / 64, left, next }
    }

    /// For [`Entries::contains`]: how many entries precede each group of `STEP` words of the unary
    /// part.
    pub(crate) fn samples(&self) -> Vec<u32> {
        let mut count = 0;
        let pieces = self.highs.chunks(STEP * 8).map(|piece| {
            let before = count;
            count += piece.chunks(8).map(|word| u64_at(word, 0).count_ones()).sum::<u32>();
            before
        });
        pieces.collect()
    }

    /// Whether there is an entry with these hash bits. Binary search over the samples.
    pub(crate) fn contains(&self, hash: u64, samples: &[u32]) -> bool {
        let high = (hash >> (HASH_BITS - self.high_bits)) as usize;
        // The entries with these high bits begin after that many zeros.
        let zeros_before = |piece: usize| piece * STEP * 64 - samples[piece] as usize;
        let (mut from, mut to) = (0, samples.len());
        while to - from > 1 {
            let middle = (from + to) / 2;
            if zeros_before(middle) < high { from = middle } else { to = middle }
        }
        let Some(&ones) = samples.get(from) else { return false };
        let (mut word, mut next, mut left) =
            (from * STEP, ones as usize, high.saturating_sub(zeros_before(from)));
        let mut bits = word_at(self.highs, word);
        while (bits.count_zeros() as usize) < left {
            left -= bits.count_zeros() as usize;
            next += bits.count_ones() as usize;
            word += 1;
            bits = word_at(self.highs, word);
        }
        let start = behind_zeros(bits, left);
        next += bits.checked_shl(64 - start).unwrap_or(0).count_ones() as usize;
        let found = self.from(word * 64 + start as usize, next);
        found.take_while(|entry| entry.0 <= hash).any(|entry| entry.0 == hash)
    }
}

/// A word of the unary part; zeros after its end.
fn word_at(bytes: &[u8], word: usize) -> u64 {
    bytes.get(word * 8..word * 8 + 8).map_or(0, |bytes| u64_at(bytes, 0))
}

/// Entries in order, as hash bits and offset in units of the alignment.
#[derive(Clone)]
pub(crate) struct Iter<'a> {
    entries: Entries<'a>,
    /// The current word of the unary part, and its bits that are left.
    word: usize,
    left: u64,
    next: usize,
}

impl Iterator for Iter<'_> {
    type Item = (u64, u64);

    #[inline]
    fn next(&mut self) -> Option<(u64, u64)> {
        if self.next >= self.entries.len {
            return None;
        }
        while self.left == 0 {
            self.word += 1;
            if self.word * 8 >= self.entries.highs.len() {
                return None;
            }
            self.left = u64_at(self.entries.highs, self.word * 8);
        }
        let bit = self.word * 64 + self.left.trailing_zeros() as usize;
        self.left &= self.left - 1;
        // Damaged bytes may have ones where there should be zeros.
        let high = bit.saturating_sub(self.next) as u64;
        let low_bits = HASH_BITS - self.entries.high_bits;
        let hash = high << low_bits | u64::from(self.entries.lows.get(self.next));
        let offset = self.entries.offsets.get(self.next);
        self.next += 1;
        Some((hash & ((1 << HASH_BITS) - 1), u64::from(offset)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;

    fn check(entries: &[(u64, u32)]) {
        let bytes = encode(entries);
        let read = Entries::new(&bytes).unwrap();
        let expected: Vec<_> = entries.iter().map(|&(hash, at)| (hash, u64::from(at))).collect();
        assert_eq!(read.iter().collect::<Vec<_>>(), expected);
        let samples = read.samples();
        for &(hash, _) in entries {
            for near in [hash, hash.saturating_sub(1), hash + 1] {
                let near = near & ((1 << HASH_BITS) - 1);
                let there = entries.binary_search_by_key(&near, |entry| entry.0).is_ok();
                assert_eq!(read.contains(near, &samples), there, "{near:x} of {}", entries.len());
            }
        }
        for hash in [0, (1 << HASH_BITS) - 1] {
            let there = entries.iter().any(|entry| entry.0 == hash);
            assert_eq!(read.contains(hash, &samples), there);
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
    fn a_random_entry_takes_six_bytes() {
        let mut rng = Rng(8);
        let mut entries: Vec<_> =
            (0..40_000).map(|i| (rng.next() >> (64 - HASH_BITS), i * 115)).collect();
        entries.sort_unstable();
        let bits = encode(&entries).len() * 8 / entries.len();
        assert_eq!(bits, 47, "1.8 in unary, 23 low ones, 23 of the offset");
    }

    #[test]
    fn iteration_over_damaged_bytes_ends() {
        let mut rng = Rng(9);
        let entries: Vec<_> = (0..300).map(|i| (i << 29, i as u32)).collect();
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
                    let _ = read.contains(rng.next() >> (64 - HASH_BITS), &samples);
                }
            }
        }
    }

    #[test]
    fn entries_have_the_documented_bytes() {
        let bytes = encode(&[(1, 3), ((1 << 32) + 2, 1)]);
        #[rustfmt::skip]
        let expected = [
            2, 0, 0, 0, 0, 0, 0, 0,         // entries
            6,                              // high bits of a hash
            2,                              // bits of an offset
            0, 0, 0, 0, 0, 0,
            0b101, 0, 0, 0, 0, 0, 0, 0,     // high bits 0 and 1
            0, 0, 0, 0, 0, 0, 0, 0,
        ];
        assert_eq!(bytes[..expected.len()], expected);
        assert_eq!(bytes[expected.len()..expected.len() + 8], [1, 0, 0, 0, 2, 0, 0, 0]);
    }
}
