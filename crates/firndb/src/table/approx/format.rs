//! The bytes of an approximate table: its sections, the meta section, shards and slots.
//!
//! An approximate table is a frozen file (`disk/envelope.rs`) of kind 6. Keys are identified by
//! their XXH3-128 hash under a seed; `high` and `low` are its halves. The first bits of `high` are
//! the number of the *shard* of a key. Each shard has a minimal perfect hash function (`mphf.rs`)
//! that maps its keys to its slots. Slots of shards are consecutive.
//!
//! ```text
//! SECTION  NAME       CONTENTS
//! 1        meta       see below
//! 2        slots      blocks of 4096 bytes, aligned to 4096; each with its own checksum
//! 3        shards     an entry for each shard, and one for the end
//! 4        pilots     a byte per bucket: of shard 0, of shard 1, ...
//! 5        remapped   a u32 for each slot beyond the number of keys: of shard 0, of shard 1, ...
//! 6        metadata   metadata of the user
//!
//! META     OFFSET  SIZE  FIELD
//!          0       8     records
//!          8       8     shards, a power of two
//!          16      4     bytes of a value, 1 to 16
//!          20      4     bits 0-7: bits of a fingerprint, 0 to 32; bit 31: a seed follows
//!          24      8     seed of the hash, if present; otherwise it is 0
//!
//! SHARD    OFFSET  SIZE  FIELD
//!          0       8     records of earlier shards
//!          8       8     buckets of earlier shards
//!          16      8     remapped slots of earlier shards
//!          24      8     seed of the perfect hash function
//!
//! BLOCK    OFFSET  SIZE  FIELD
//!          0       4     checksum, as in `format/block.rs`
//!          4       ..    slots of w bits each, lowest bit first, none across blocks; zeros
//!
//! SLOT     BIT     BITS  FIELD
//!          0       r     fingerprint: the lowest bits of `high`
//!          r       8 v   value
//! ```
//!
//! w is r + 8 v. A block holds as many slots as fit into 4092 bytes.

use crate::bytes::int::{Decoder, Encoder, u64_at};
use crate::bytes::packed::{bits_at, put_bits};
use crate::table::approx::mphf::Hash;
use crate::table::format::PAGE;
use crate::table::format::block::CHECKSUM;
use crate::{Error, Result};
use xxhash_rust::xxh3::{xxh3_128, xxh3_128_with_seed};

/// Section ids.
pub(crate) mod section {
    pub(crate) const META: u32 = 1;
    pub(crate) const SLOTS: u32 = 2;
    pub(crate) const SHARDS: u32 = 3;
    pub(crate) const PILOTS: u32 = 4;
    pub(crate) const REMAPPED: u32 = 5;
    pub(crate) const METADATA: u32 = 6;
}

/// Bytes of the longest value.
pub(crate) const MAX_WIDTH: usize = 16;
/// Bits of the longest fingerprint.
pub(crate) const MAX_FINGERPRINT: u32 = 32;
/// Bytes of a shard entry.
pub(crate) const ENTRY: usize = 32;
/// Most keys per shard, on average.
const MEAN_KEYS_PER_SHARD: u64 = 1 << 16;

/// Most keys per shard. Uniform hashes do not come near it.
pub(crate) const MAX_KEYS_PER_SHARD: usize = 4 << 16;

/// Shards of a table of this many keys.
pub(crate) fn shards_for(records: u64) -> u64 {
    records.div_ceil(MEAN_KEYS_PER_SHARD).max(1).next_power_of_two()
}

/// The shard of a hash.
#[inline(always)]
pub(crate) fn shard_number(high: u64, shards: u64) -> u64 {
    ((u128::from(high) * u128::from(shards)) >> 64) as u64
}

/// The meta section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) records: u64,
    pub(crate) shards: u64,
    pub(crate) width: u32,
    pub(crate) fingerprint: u32,
    /// Seed of the hash of keys.
    pub(crate) seed: u64,
}

/// The flag that a seed follows.
const SEEDED: u32 = 1 << 31;

impl Meta {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        out.u64(self.records);
        out.u64(self.shards);
        out.u32(self.width);
        match self.seed {
            0 => out.u32(self.fingerprint),
            seed => {
                out.u32(self.fingerprint | SEEDED);
                out.u64(seed);
            }
        }
        out.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Meta> {
        let mut from = Decoder::new(bytes);
        let mut meta = Meta {
            records: from.u64()?,
            shards: from.u64()?,
            width: from.u32()?,
            fingerprint: from.u32()?,
            seed: 0,
        };
        if meta.fingerprint & SEEDED != 0 {
            meta.fingerprint &= !SEEDED;
            meta.seed = from.u64()?;
        }
        from.finish()?;
        let widths = (1..=MAX_WIDTH as u32).contains(&meta.width);
        if !meta.shards.is_power_of_two() || !widths || meta.fingerprint > MAX_FINGERPRINT {
            return Err(Error::corrupt(format!("the meta section is invalid: {meta:?}")));
        }
        Ok(meta)
    }

    /// The layout of slots.
    pub(crate) fn slots(&self) -> Slots {
        let bits = self.fingerprint + 8 * self.width;
        let per_block = (8 * (PAGE - CHECKSUM) as u32) / bits;
        // With this multiplier the quotient of any slot number is exact (Granlund and Montgomery,
        // PLDI 1994): the error is at most one slot in 2^64 / per_block.
        let magic = u64::MAX / u64::from(per_block) + 1;
        Slots { fingerprint: self.fingerprint, width: self.width, bits, per_block, magic }
    }

    /// Number of blocks.
    pub(crate) fn blocks(&self) -> u64 {
        self.records.div_ceil(u64::from(self.slots().per_block))
    }
}

/// The layout of slots in blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots {
    fingerprint: u32,
    width: u32,
    bits: u32,
    per_block: u32,
    magic: u64,
}

/// A value of an approximate table: 1 to 16 bytes, read by dereferencing to a slice.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FixedValue {
    bytes: [u8; MAX_WIDTH],
    width: u8,
}

impl std::ops::Deref for FixedValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.width)]
    }
}

impl std::fmt::Debug for FixedValue {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

impl Slots {
    /// The block of a slot, and its first bit there.
    #[inline(always)]
    pub(crate) fn locate(&self, slot: u64) -> (u64, usize) {
        let block = ((u128::from(slot) * u128::from(self.magic)) >> 64) as u64;
        let within = slot.wrapping_sub(block.wrapping_mul(u64::from(self.per_block))) as usize;
        (block, 8 * CHECKSUM + within * self.bits as usize)
    }

    pub(crate) fn per_block(&self) -> u32 {
        self.per_block
    }

    /// Bits of a slot.
    #[cfg(test)]
    pub(crate) fn bits(&self) -> u32 {
        self.bits
    }

    fn mask(&self) -> u64 {
        (1 << self.fingerprint) - 1
    }

    /// Writes a slot of a zeroed block.
    pub(crate) fn put(&self, block: &mut [u8], bit: usize, high: u64, value: &[u8]) {
        let mut fingerprint = Encoder::default();
        fingerprint.u64(high & self.mask());
        put_bits(block, bit, &fingerprint.0[..self.fingerprint.div_ceil(8) as usize]);
        put_bits(block, bit + self.fingerprint as usize, value);
    }

    /// The value of a slot, if its fingerprint matches the hash.
    #[inline(always)]
    pub(crate) fn get(&self, block: &[u8], bit: usize, high: u64) -> Option<FixedValue> {
        let mut first = [0; 8];
        bits_at(block, bit, &mut first);
        if (u64_at(&first, 0) ^ high) & self.mask() != 0 {
            return None;
        }
        let mut value = FixedValue { bytes: [0; MAX_WIDTH], width: self.width as u8 };
        bits_at(block, bit + self.fingerprint as usize, &mut value.bytes[..self.width as usize]);
        Some(value)
    }
}

/// A shard entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) records: u64,
    pub(crate) buckets: u64,
    pub(crate) remapped: u64,
    pub(crate) seed: u64,
}

impl Shard {
    pub(crate) fn encode(&self, out: &mut Encoder) {
        [self.records, self.buckets, self.remapped, self.seed].into_iter().for_each(|v| out.u64(v));
    }

    /// The entry of shard `number`; zeros if it is out of bounds.
    #[inline(always)]
    pub(crate) fn read(bytes: &[u8], number: u64) -> Shard {
        let at = ENTRY * number as usize;
        let [records, buckets, remapped, seed] = [0, 8, 16, 24].map(|i| u64_at(bytes, at + i));
        Shard { records, buckets, remapped, seed }
    }
}

/// The hash of a key in an approximate table with this seed.
#[inline(always)]
pub(crate) fn hash_of(key: &[u8], seed: u64) -> Hash {
    let hash = if seed == 0 { xxh3_128(key) } else { xxh3_128_with_seed(key, seed) };
    Hash { high: (hash >> 64) as u64, low: hash as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_and_slot_encoding() {
        let meta = Meta { records: 5, shards: 1, width: 2, fingerprint: 12, seed: 0 };
        let bytes = meta.encode();
        #[rustfmt::skip]
        assert_eq!(bytes, [
            5, 0, 0, 0, 0, 0, 0, 0,
            1, 0, 0, 0, 0, 0, 0, 0,
            2, 0, 0, 0, 12, 0, 0, 0,
        ]);
        assert_eq!(Meta::decode(&bytes).unwrap(), meta);
        assert!((0..bytes.len()).all(|cut| Meta::decode(&bytes[..cut]).is_err()));
        let seeded = Meta { seed: 7, ..meta }.encode();
        assert_eq!(seeded[20..], [12, 0, 0, 128, 7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Meta::decode(&seeded).unwrap(), Meta { seed: 7, ..meta });
        assert!((0..seeded.len()).all(|cut| Meta::decode(&seeded[..cut]).is_err()));
        let slots = meta.slots();
        assert_eq!((slots.bits(), slots.per_block()), (28, 4092 * 8 / 28));
        assert_eq!(slots.locate(1), (0, 32 + 28));
        let mut block = [0; 12];
        slots.put(&mut block, 32 + 28, 0xFFFF_FABC, &[0x12, 0x34]);
        // Fingerprint ABC from bit 28 on, then the bytes 12 34.
        assert_eq!(block[4..], [0, 0, 0, 0xC0, 0xAB, 0x12, 0x34, 0]);
        assert_eq!(&*slots.get(&block, 60, 0xABC).unwrap(), [0x12, 0x34]);
        assert_eq!(slots.get(&block, 60, 0xABD), None);
    }

    #[test]
    fn shard_encoding() {
        let shard = Shard { records: 5, buckets: 6, remapped: 7, seed: 0x0102 };
        let mut out = Encoder::default();
        Shard::default().encode(&mut out);
        shard.encode(&mut out);
        assert_eq!(out.0[..ENTRY], [0; ENTRY]);
        #[rustfmt::skip]
        assert_eq!(out.0[ENTRY..], [
            5, 0, 0, 0, 0, 0, 0, 0, // records of earlier shards
            6, 0, 0, 0, 0, 0, 0, 0, // buckets of earlier shards
            7, 0, 0, 0, 0, 0, 0, 0, // remapped slots of earlier shards
            2, 1, 0, 0, 0, 0, 0, 0, // seed
        ]);
        assert_eq!(Shard::read(&out.0, 1), shard);
    }

    #[test]
    fn slot_location_equals_division() {
        for (width, fingerprint) in [(1, 0), (1, 7), (3, 8), (8, 16), (16, 32)] {
            let meta = Meta { records: 0, shards: 1, width, fingerprint, seed: 0 };
            let (slots, per) = (meta.slots(), u64::from(meta.slots().per_block()));
            for block in [0, 1, 2, 1000, 1 << 20, (1 << 36) - 1] {
                for slot in [block * per, block * per + 1, block * per + per - 1] {
                    assert_eq!(slots.locate(slot).0, slot / per);
                    let bit = 32 + (slot % per) as usize * slots.bits() as usize;
                    assert_eq!(slots.locate(slot).1, bit);
                }
            }
        }
    }

    #[test]
    fn all_widths_round_trip() {
        for width in 1..=16 {
            for fingerprint in 0..=32 {
                let meta = Meta { records: 0, shards: 1, width, fingerprint, seed: 0 };
                let (slots, mut block) = (meta.slots(), vec![0; PAGE]);
                let value = |i: u64| (0..width).map(move |b| (i as u32 * 7 + b * 31) as u8);
                let last = u64::from(slots.per_block()) - 1;
                for i in [0, 1, 2, 3, last - 1, last] {
                    let (high, bytes) = (i.wrapping_mul(0xDEAD_BEEF_CAFE), value(i));
                    let bytes: Vec<u8> = bytes.collect();
                    slots.put(&mut block, slots.locate(i).1, high, &bytes);
                }
                for i in [0, 1, 2, 3, last - 1, last] {
                    let high = i.wrapping_mul(0xDEAD_BEEF_CAFE);
                    let got = slots.get(&block, slots.locate(i).1, high).unwrap();
                    assert!(got.iter().copied().eq(value(i)), "{width} {fingerprint} {i}");
                }
            }
        }
    }
}
