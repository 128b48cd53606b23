//! The index: maps the hash of a key to its record without reading the header of its block.
//!
//! A search in a block takes two cache misses: the header, and then the record. The index replaces
//! the header by one line of a smaller array, which is mostly in the cache if records are large. It
//! takes about 13 bytes per record. Resident tables build it when they are opened; files of large
//! records contain it.
//!
//! The index is an array of *buckets*, each a cache line of eight entries. Records are inserted in
//! the order of their hashes. Each goes to its home bucket, or to the next one that is not full. A
//! search therefore ends at the first bucket with a free entry. A record is near the position that
//! its bucket predicts, and an entry stores the distance.
//!
//! ```text
//! SECTION       CONTENTS
//! index         the array, up to the last used bucket, or the last home bucket if later
//! index checks  the XXH3-64 of every 64 KiB of the array; the last part may be shorter
//!
//! ENTRY    BITS    FIELD (all zeros: free)
//!          0..28   offset of the record minus the expected offset of its bucket, plus 2^27; 0 if
//!                  it does not fit
//!          28..44  bytes of the record; 2^16 - 1 if it is that long or longer, or if bits 0..28
//!                  do not fit
//!          44..52  bytes of the key, plus 1
//!          52..64  tag: the low bits of the hash
//! ```
//!
//! For r records in b bytes of blocks there are n = max(1, ceil(r / 5)) home buckets. The home
//! bucket of hash h is h n / 2^64. The records of bucket i are expected at byte i (2^16 b / n) /
//! 2^16 of the blocks; quotients are rounded down. The index omits records with keys longer than
//! 254 bytes, and records whose home bucket and the next 63 buckets are full. For these a search
//! answers "unknown".

use crate::Result;
use crate::bytes::int::Encoder;
use crate::bytes::prefetch::LINE;
use crate::table::simd::kernels::EQUAL_ABOVE;

/// Bytes of the array that share one checksum.
pub(crate) const CHECKED_PART: usize = 1 << 16;
/// Bytes of an entry.
pub(crate) const ENTRY: usize = 8;
/// Offset of the last entry of a bucket. If it is free, the search ends at the bucket.
pub(crate) const LAST_ENTRY: usize = LINE - ENTRY;
/// A search compares the key length and the tag of an entry with
/// [`equal_high_bits_mask`](crate::table::simd::kernels::equal_high_bits_mask).
const _: () = assert!(KEY_SHIFT == EQUAL_ABOVE);
/// Average number of used entries per bucket.
const USED_ENTRIES: u64 = 5;
/// Buckets in which the records of one home bucket may be.
pub(crate) const MAX_BUCKETS: u64 = 64;
/// First bits of the fields of an entry.
pub(crate) const LEN_SHIFT: u32 = 28;
const KEY_SHIFT: u32 = 44;
const TAG_SHIFT: u32 = 52;
/// Longest key in the index.
pub(crate) const MAX_INDEXED_KEY: usize = (1 << (TAG_SHIFT - KEY_SHIFT)) - 2;
/// The stored length of a record of this length or more.
pub(crate) const MAX_LEN: u64 = (1 << (KEY_SHIFT - LEN_SHIFT)) - 1;
/// The bias of a stored distance.
pub(crate) const BIAS: u64 = 1 << (LEN_SHIFT - 1);
/// Fraction bits of [`IndexShape::bytes_per_bucket`].
const FRACTION_BITS: u32 = 16;

pub(crate) type Bucket = [u8; LINE];

static FREE: Bucket = [0; LINE];

/// Number of home buckets, and where their records are expected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexShape {
    buckets: u64,
    /// Bytes of blocks per home bucket, a fixed-point number.
    bytes_per_bucket: u64,
}

impl IndexShape {
    /// The shape for `records` records in `bytes` bytes of blocks; `None` if that is impossible.
    pub(crate) fn new(records: u64, bytes: u64) -> Option<IndexShape> {
        let buckets = records.div_ceil(USED_ENTRIES).max(1);
        // Each record takes a byte at least. A forged count must not cause a large allocation.
        let fits = records <= bytes && bytes >> (64 - FRACTION_BITS) == 0;
        fits.then(|| IndexShape { buckets, bytes_per_bucket: (bytes << FRACTION_BITS) / buckets })
    }

    /// Least and most bytes of the array: trailing unused buckets may be absent.
    pub(crate) fn len(self) -> (u64, u64) {
        let (least, most) = (self.buckets, self.buckets + MAX_BUCKETS - 1);
        (least * LINE as u64, most * LINE as u64)
    }

    #[inline(always)]
    pub(crate) fn home(self, hash: u64) -> u64 {
        ((u128::from(hash) * u128::from(self.buckets)) >> 64) as u64
    }

    /// Expected offset of the records of a bucket.
    #[inline(always)]
    pub(crate) fn expected(self, bucket: u64) -> u64 {
        bucket.wrapping_mul(self.bytes_per_bucket) >> FRACTION_BITS
    }
}

/// What the index stores of a record: the hash of its key, its offset in the blocks, and the
/// lengths of its key and of all of it. Lengths above [`MAX_INDEXED_KEY`] and [`MAX_LEN`] need not
/// be exact.
#[derive(Clone, Copy)]
pub(crate) struct RecordPointer {
    pub(crate) hash: u64,
    pub(crate) begin: u64,
    pub(crate) key: usize,
    pub(crate) len: u64,
}

/// Encodes an index from records in the order of their hashes. Passes each used bucket, with its
/// number, to a callback once it is complete.
pub(crate) struct IndexEncoder {
    shape: IndexShape,
    bucket: u64,
    entries: Encoder,
}

impl IndexEncoder {
    pub(crate) fn new(shape: IndexShape) -> IndexEncoder {
        IndexEncoder { shape, bucket: 0, entries: Encoder::default() }
    }

    pub(crate) fn push<T>(&mut self, record: RecordPointer, done: T) -> Result<()>
    where
        T: FnMut(u64, &[u8]) -> Result<()>,
    {
        let home = self.shape.home(record.hash);
        if record.key > MAX_INDEXED_KEY {
            return Ok(());
        }
        let is_full = self.entries.0.len() == LINE;
        if home <= self.bucket && is_full && self.bucket + 1 - home >= MAX_BUCKETS {
            return Ok(());
        }
        if home > self.bucket || is_full {
            self.flush(done)?;
            self.bucket = home.max(self.bucket + u64::from(is_full));
        }
        let place = (record.begin + BIAS).wrapping_sub(self.shape.expected(self.bucket));
        let (place, len) = if place < 2 * BIAS { (place, record.len) } else { (0, MAX_LEN) };
        let pattern = pattern(record.hash, record.key);
        self.entries.u64(place | len.min(MAX_LEN) << LEN_SHIFT | pattern);
        Ok(())
    }

    /// Passes on the last bucket.
    pub(crate) fn flush<T>(&mut self, mut done: T) -> Result<()>
    where
        T: FnMut(u64, &[u8]) -> Result<()>,
    {
        if !self.entries.0.is_empty() {
            self.entries.0.resize(LINE, 0);
            done(self.bucket, &self.entries.0)?;
            self.entries.0.clear();
        }
        Ok(())
    }
}

/// The bits of an entry that hold tag and key length.
#[inline(always)]
pub(crate) fn pattern(hash: u64, key: usize) -> u64 {
    hash << TAG_SHIFT | (key as u64 + 1) << KEY_SHIFT
}

#[inline(always)]
pub(crate) fn bucket(array: &[u8], number: u64) -> &Bucket {
    array.as_chunks().0.get(number as usize).unwrap_or(&FREE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_encoding() {
        let shape = IndexShape::new(2, 80_000).unwrap();
        assert_eq!(shape.len(), (64, 64 * 64));
        let (mut encoder, mut buckets) = (IndexEncoder::new(shape), Vec::new());
        let mut done = |number: u64, bytes: &[u8]| {
            buckets.push((number, bytes.to_vec()));
            Ok(())
        };
        for (hash, begin, key, len) in [(1, 16, 1, 10), (0xABC, 26, 254, 70_000)] {
            encoder.push(RecordPointer { hash, begin, key, len }, &mut done).unwrap();
        }
        encoder.flush(&mut done).unwrap();
        #[rustfmt::skip]
        let entries = [
            // Offset 16 + 2^27 in 28 bits, length 10 in 16, key length 1 + 1 in 8, tag 1 in 12.
            0x10, 0x00, 0x00, 0xA8, 0x00, 0x20, 0x10, 0x00,
            // Offset 26 + 2^27, a length of 2^16 - 1 or more, key length 254 + 1, tag 0xABC.
            0x1A, 0x00, 0x00, 0xF8, 0xFF, 0xFF, 0xCF, 0xAB,
        ];
        // Six free entries.
        assert_eq!(buckets, [(0, [&entries[..], &[0; 48]].concat())]);
    }
}
