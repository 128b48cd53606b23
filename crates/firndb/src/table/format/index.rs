//! The index of a table: from the hash of a key to its record, past the head of its block.
//!
//! A search in a block reads the head of the block and then the record, which the head tells the
//! place of. Where the record is, a line of the index tells: a small array where records are large,
//! so that most of it is in the cache. It costs about 13 bytes a record, which a table has that is
//! held in memory anyway, and a file of large records (`index_file.rs`).
//!
//! The index is an array of *buckets*, each a cache line of eight entries. Records come in the
//! order of their hashes, and each goes to the bucket that its hash names or, where that is full,
//! to the next one that is not. So a search ends with the first bucket that has a free entry, and
//! records stand nearly where their bucket is in the array: an entry keeps how far they are from
//! there.
//!
//! ```text
//! ENTRY    BITS    FIELD (all zeros: free)
//!          0..28   where the record begins, from where the bucket it is in lets expect it, plus
//!                  2^27; 0 if these bits cannot tell
//!          28..44  bytes of the record; 2^16 - 1 if it has as many or more, or if bits 0..28
//!                  cannot tell where it begins
//!          44..52  bytes of the key, plus 1
//!          52..64  tag: the low bits of the hash
//! ```
//! With r records in b bytes of blocks there are n = max(1, ceil(r / 5)) buckets. A hash h names
//! bucket h n / 2^64, and the records of bucket i are expected at byte i (2^16 b / n) / 2^16 of the
//! blocks, quotients rounded down. Records with keys of more than 254 bytes are not in the index,
//! nor are those whose bucket and the 63 behind it are full: of these a search learns nothing.

use crate::Result;
use crate::bytes::int::Encoder;
use crate::bytes::prefetch::LINE;
use crate::table::simd::kernels::EQUAL_ABOVE;

/// Bytes of the array that have one checksum.
pub(crate) const PART: usize = 1 << 16;
/// Bytes of an entry.
pub(crate) const ENTRY: usize = 8;
/// Where the last entry of a bucket begins: if it is free, the search ends there.
pub(crate) const LAST: usize = LINE - ENTRY;
/// The bits of an entry from its key's length on are what [`equal_above`] compares.
const _: () = assert!(KEY == EQUAL_ABOVE);
/// How many of the eight entries of a bucket are in use on average.
const USED: u64 = 5;
/// Buckets that the records of one hash may be in.
pub(crate) const FARTHEST: u64 = 64;
/// Where the fields of an entry begin.
pub(crate) const LENGTH: u32 = 28;
const KEY: u32 = 44;
const TAG: u32 = 52;
/// A key of more bytes is not in the index.
pub(crate) const LONGEST_KEY: usize = (1 << (TAG - KEY)) - 2;
/// A record of this length or more.
pub(crate) const LONG: u64 = (1 << (KEY - LENGTH)) - 1;
/// What a place in an entry is counted from.
pub(crate) const MIDDLE: u64 = 1 << (LENGTH - 1);
/// Binary digits of [`IndexShape::bytes_a_bucket`] behind the point.
const POINT: u32 = 16;

pub(crate) type Bucket = [u8; LINE];

static FREE: Bucket = [0; LINE];

/// How many buckets there are, and where their records are expected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexShape {
    buckets: u64,
    /// Bytes of blocks for each bucket.
    bytes_per_bucket: u64,
}

impl IndexShape {
    /// Of an index of so many records in so many bytes of blocks; `None` if there can be none.
    pub(crate) fn new(records: u64, bytes: u64) -> Option<IndexShape> {
        let buckets = records.div_ceil(USED).max(1);
        // Each record takes a byte at least: what claims more is no reason to ask for memory.
        let fits = records <= bytes && bytes >> (64 - POINT) == 0;
        fits.then(|| IndexShape { buckets, bytes_per_bucket: (bytes << POINT) / buckets })
    }

    /// Bytes of the array, at least and at most: buckets behind the last one in use may be absent.
    pub(crate) fn len(self) -> (u64, u64) {
        let (least, most) = (self.buckets, self.buckets + FARTHEST - 1);
        (least * LINE as u64, most * LINE as u64)
    }

    #[inline(always)]
    pub(crate) fn home(self, hash: u64) -> u64 {
        ((u128::from(hash) * u128::from(self.buckets)) >> 64) as u64
    }

    /// Where the records of a bucket are expected.
    #[inline(always)]
    pub(crate) fn expected(self, bucket: u64) -> u64 {
        bucket.wrapping_mul(self.bytes_per_bucket) >> POINT
    }
}

/// A record as the index is told of it: the hash of its key, where it begins, and the bytes of its
/// key and of all; of lengths above [`LONGEST_KEY`] and [`LONG`] only that they are.
#[derive(Clone, Copy)]
pub(crate) struct RecordPointer {
    pub(crate) hash: u64,
    pub(crate) begin: u64,
    pub(crate) key: usize,
    pub(crate) len: u64,
}

/// Makes an index of records that come in the order of their hashes. Hands over each bucket that
/// has entries, its number and its bytes, when it is done.
pub(crate) struct IndexWriter {
    shape: IndexShape,
    bucket: u64,
    entries: Encoder,
}

impl IndexWriter {
    pub(crate) fn new(shape: IndexShape) -> IndexWriter {
        IndexWriter { shape, bucket: 0, entries: Encoder::default() }
    }

    pub(crate) fn push<T>(&mut self, record: RecordPointer, done: T) -> Result<()>
    where
        T: FnMut(u64, &[u8]) -> Result<()>,
    {
        let home = self.shape.home(record.hash);
        if record.key > LONGEST_KEY {
            return Ok(());
        }
        let is_full = self.entries.0.len() == LINE;
        if home <= self.bucket && is_full && self.bucket + 1 - home >= FARTHEST {
            return Ok(());
        }
        if home > self.bucket || is_full {
            self.flush(done)?;
            self.bucket = home.max(self.bucket + u64::from(is_full));
        }
        let place = (record.begin + MIDDLE).wrapping_sub(self.shape.expected(self.bucket));
        let (place, len) = if place < 2 * MIDDLE { (place, record.len) } else { (0, LONG) };
        let pattern = pattern(record.hash, record.key);
        self.entries.u64(place | len.min(LONG) << LENGTH | pattern);
        Ok(())
    }

    /// Hands over the last bucket.
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

/// An entry that has tag and key length and nothing else.
#[inline(always)]
pub(crate) fn pattern(hash: u64, key: usize) -> u64 {
    hash << TAG | (key as u64 + 1) << KEY
}

#[inline(always)]
pub(crate) fn bucket(array: &[u8], number: u64) -> &Bucket {
    array.as_chunks().0.get(number as usize).unwrap_or(&FREE)
}
