//! The index of a resident table: from the hash of a key to its record, past directory and block.
//!
//! A search in a block reads three cache lines of its head and guesses eight around the record. To
//! know where the record is takes one line of the index and the lines of the record: what a hash
//! table in memory takes. It costs about 11 bytes a record, which only a table has that is held in
//! memory anyway.
//!
//! The index is an array of *buckets*, each a cache line of eight entries. Records come in the
//! order of their hashes, and each goes to the bucket that its hash names or, where that is full,
//! to the next one that is not. So a search ends with the first bucket that has a free entry, and
//! records stand nearly where their bucket is in the array: an entry keeps how far they are from
//! there.
//!
//! ```text
//! ENTRY    BITS    FIELD (all zeros: free)
//!          0..28   where the record begins, from where its bucket lets expect it, plus 2^27
//!          28..44  bytes of the record; 2^16 - 1 if it has as many or more
//!          44..52  bytes of the key, plus 1
//!          52..64  tag: the low bits of the hash
//! ```

use super::block::{Body, CHECKSUM, VALUE_LINES, check};
use super::find::is_same;
use super::options::Compression;
use super::reader::Table;
use crate::Result;
use crate::bytes::prefetch::{LINE, prefetch};
use crate::disk::Words;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Entries of a bucket, and how many are in use on average.
const ENTRIES: usize = LINE / size_of::<u64>();
const USED: u64 = 6;
/// Buckets that the records of one hash may be in.
const FARTHEST: u64 = 64;
/// Where the fields of an entry begin.
const LENGTH: u32 = 28;
const KEY: u32 = 44;
const TAG: u32 = 52;
const LONGEST_KEY: usize = (1 << (TAG - KEY)) - 2;
/// A record of this length or more.
const LONG: u64 = (1 << (KEY - LENGTH)) - 1;
/// What a place in an entry is counted from.
const MIDDLE: i64 = 1 << (LENGTH - 1);
/// Binary digits of [`Index::bytes_a_bucket`] behind the point.
const POINT: u32 = 16;

/// The index of a table whose blocks are one piece of memory.
pub(crate) struct Index {
    entries: Words,
    buckets: u64,
    /// Bytes of blocks for each bucket.
    bytes_a_bucket: u64,
}

type Bucket = [AtomicU64; ENTRIES];

static FREE: Bucket = [const { AtomicU64::new(0) }; ENTRIES];

/// What the index knows of a key.
pub(crate) enum Found<'a> {
    /// Its stored value.
    Value(&'a [u8]),
    Absent,
    /// It may be there: the record is too long for an entry.
    Unknown,
}

/// Fills an index with records in the order of their hashes.
struct IndexWriter {
    index: Index,
    /// The bucket that the last record went to, and its entries in use.
    bucket: u64,
    used: usize,
}

impl IndexWriter {
    /// For so many records in so many bytes of blocks; `None` if there can be no index.
    fn new(records: u64, longest_key: u32, bytes: u64) -> Result<Option<IndexWriter>> {
        let buckets = records.div_ceil(USED).max(1);
        // Each record takes a byte at least: what claims more is no reason to ask for memory.
        if longest_key as usize > LONGEST_KEY || bytes >> (64 - POINT) != 0 || records > bytes {
            return Ok(None);
        }
        let len = usize::try_from((buckets + FARTHEST).saturating_mul(LINE as u64));
        let Ok(len) = len else { return Ok(None) };
        // Memory is taken as records come: there may be fewer than the file says.
        let entries = Words::new(len / size_of::<u64>(), false)?;
        entries.expect_random();
        let index = Index { entries, buckets, bytes_a_bucket: (bytes << POINT) / buckets };
        Ok(Some(IndexWriter { index, bucket: 0, used: 0 }))
    }

    /// The next record: the hash of its key, where it begins, and the bytes of its key and of all.
    /// False if it does not fit, because many others have the same hash or lengths differ widely.
    fn push(&mut self, hash: u64, begin: usize, key: usize, len: usize) -> bool {
        let index = &mut self.index;
        let home = index.home(hash);
        if home > self.bucket {
            (self.bucket, self.used) = (home, 0);
        } else if self.used == ENTRIES {
            (self.bucket, self.used) = (self.bucket + 1, 0);
        }
        let place = begin as i64 - index.expected(self.bucket) as i64 + MIDDLE;
        let near = self.bucket - home < FARTHEST && (1..2 * MIDDLE).contains(&place);
        if !near || key > LONGEST_KEY {
            return false;
        }
        let entry = place as u64 | (len as u64).min(LONG) << LENGTH | pattern(hash, key) << KEY;
        index.entries[self.bucket as usize * ENTRIES + self.used].store(entry, Relaxed);
        self.used += 1;
        true
    }
}

/// Tag and key length as an entry has them.
#[inline(always)]
fn pattern(hash: u64, key: usize) -> u64 {
    (hash << TAG >> KEY) | (key as u64 + 1)
}

impl Index {
    /// The index of a resident table, whose blocks are checked on the way. `None` if frames are of
    /// blocks, if keys are longer than 254 bytes, if a record does not fit into an entry, or if
    /// records are out of order, which [`Table::verify`] tells: then gets find records in blocks.
    pub(crate) fn of(table: &Table, hash: impl Fn(&[u8]) -> u64) -> Result<Option<Index>> {
        let meta = &table.meta;
        let mut writer = match meta.compression {
            Compression::None | Compression::Records { .. } => {
                IndexWriter::new(meta.records, meta.longest_key, table.blocks.1)?
            }
            Compression::Blocks { .. } => None,
        };
        let mut last = 0;
        for number in 0..meta.blocks {
            let (offset, _) = table.extent(number)?;
            let block = table.memory(number)?;
            let mut add = || -> Result<()> {
                check(block, number)?;
                let Some(index) = &mut writer else { return Ok(()) };
                let body = Body::parse(&block[CHECKSUM..])?;
                let mut begin = (offset - table.blocks.0) as usize + CHECKSUM + body.first();
                let end = body.each(|key, value| {
                    let (hash, len) = (hash(key), key.len() + value.len());
                    let fits = hash >= last && index.push(hash, begin, key.len(), len);
                    (last, begin) = (hash, begin + len);
                    Ok(if fits { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
                })?;
                if end.is_none() {
                    writer = None;
                }
                Ok(())
            };
            add().map_err(|e| e.at(offset))?;
        }
        Ok(writer.map(|writer| writer.index))
    }

    /// Bytes of memory it takes.
    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.entries)
    }

    #[inline(always)]
    fn home(&self, hash: u64) -> u64 {
        ((u128::from(hash) * u128::from(self.buckets)) >> 64) as u64
    }

    /// Where the records of a bucket are expected.
    #[inline(always)]
    fn expected(&self, bucket: u64) -> u64 {
        bucket.wrapping_mul(self.bytes_a_bucket) >> POINT
    }

    #[inline(always)]
    fn bucket(&self, bucket: u64) -> &Bucket {
        let entries = self.entries.get(bucket as usize * ENTRIES..);
        entries.and_then(<[_]>::first_chunk).unwrap_or(&FREE)
    }

    /// Asks for the bucket of a hash.
    #[inline(always)]
    pub(crate) fn fetch(&self, hash: u64) {
        prefetch(self.bucket(self.home(hash)), 1);
    }

    /// Key and value of the record that is most likely that of a key, unread; `None` if there is
    /// none in the bucket of its hash.
    #[inline(always)]
    pub(crate) fn candidate<'a>(
        &self,
        blocks: &'a [u8],
        hash: u64,
        key: usize,
    ) -> Option<(&'a [u8], &'a [u8])> {
        if key > LONGEST_KEY {
            return None;
        }
        let home = self.home(hash);
        let bucket = self.bucket(home);
        let equal = equal(bucket, pattern(hash, key));
        if equal == 0 {
            return None;
        }
        self.record(blocks, home, first(bucket, equal), key)
    }

    /// The record of an entry; `None` if it is too long for one.
    #[inline(always)]
    fn record<'a>(
        &self,
        blocks: &'a [u8],
        bucket: u64,
        entry: u64,
        key: usize,
    ) -> Option<(&'a [u8], &'a [u8])> {
        let place = (entry & (2 * MIDDLE as u64 - 1)).wrapping_sub(MIDDLE as u64);
        let begin = self.expected(bucket).wrapping_add(place) as usize;
        let len = (entry >> LENGTH & LONG) as usize;
        let record = blocks.get(begin..)?.get(..len).filter(|_| len < LONG as usize)?;
        record.split_at_checked(key)
    }

    /// Looks a key up.
    #[inline(always)]
    pub(crate) fn find<'a>(&self, blocks: &'a [u8], hash: u64, key: &[u8]) -> Found<'a> {
        if key.len() > LONGEST_KEY {
            return Found::Absent;
        }
        let (home, wanted) = (self.home(hash), pattern(hash, key.len()));
        for number in home..home + FARTHEST {
            let bucket = self.bucket(number);
            let mut equal = equal(bucket, wanted);
            while equal != 0 {
                let entry = first(bucket, equal);
                let Some((found, value)) = self.record(blocks, number, entry, key.len()) else {
                    return Found::Unknown;
                };
                // Most likely the right one: its value is waited for together with its key.
                if value.len() > LINE {
                    prefetch(value, VALUE_LINES);
                }
                if is_same(found, key) {
                    return Found::Value(value);
                }
                equal &= equal - 1;
            }
            if bucket[ENTRIES - 1].load(Relaxed) == 0 {
                break;
            }
        }
        Found::Absent
    }
}

/// A bit for each entry that has this pattern.
#[inline(always)]
fn equal(bucket: &Bucket, pattern: u64) -> u32 {
    bucket
        .iter()
        .enumerate()
        .fold(0, |mask, (i, entry)| mask | u32::from(entry.load(Relaxed) >> KEY == pattern) << i)
}

/// The entry of the lowest bit, of which there must be one.
#[inline(always)]
fn first(bucket: &Bucket, equal: u32) -> u64 {
    bucket[equal.trailing_zeros() as usize % ENTRIES].load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;
    use std::iter::repeat_n;

    fn filled(records: &[(u64, Vec<u8>, Vec<u8>)], blocks: &mut Vec<u8>) -> Option<Index> {
        let bytes: usize = records.iter().map(|(_, key, value)| key.len() + value.len()).sum();
        let mut writer = IndexWriter::new(records.len() as u64, 254, bytes as u64).unwrap()?;
        for (hash, key, value) in records {
            let begin = blocks.len();
            blocks.extend_from_slice(key);
            blocks.extend_from_slice(value);
            if !writer.push(*hash, begin, key.len(), key.len() + value.len()) {
                return None;
            }
        }
        Some(writer.index)
    }

    #[test]
    fn finds_records_of_equal_hashes_and_tags_and_no_others() {
        let mut rng = Rng(0x1DE);
        for (n, hashes, longest) in [(1, 1, 9), (5, 2, 0), (3000, 3000, 40), (3000, 400, 70_000)] {
            let hashes: Vec<u64> = (0..hashes).map(|_| rng.next() & !(rng.next() >> 50)).collect();
            let mut records: Vec<(u64, Vec<u8>, Vec<u8>)> = (0..n)
                .map(|i| {
                    let key = format!("{}{i}", "k".repeat(rng.below(240)));
                    let value = repeat_n(i as u8, if longest > 0 { rng.below(longest) } else { 0 });
                    (*rng.pick(&hashes), key.into_bytes(), value.collect())
                })
                .collect();
            records.sort();
            let mut blocks = Vec::new();
            let index = filled(&records, &mut blocks).unwrap();
            let (mut found, mut unknown) = (0, 0);
            for (hash, key, value) in &records {
                match index.find(&blocks, *hash, key) {
                    Found::Value(got) => found += usize::from(got == value),
                    Found::Unknown => unknown += 1,
                    Found::Absent => panic!("a record is lost"),
                }
                let absent = [&key[..key.len() - 1], b"?"].concat();
                assert!(!matches!(index.find(&blocks, *hash, &absent), Found::Value(_)));
                let first = index.candidate(&blocks, *hash, key.len());
                assert!(first.is_none_or(|(found, _)| found.len() == key.len()));
            }
            assert_eq!(found + unknown, n);
            assert!(unknown == 0 || longest > 65_000 && unknown < n / 5, "{unknown} unknown");
            assert!(matches!(index.find(&blocks, hashes[0], &[0; 300]), Found::Absent));
            assert!(index.candidate(&blocks, hashes[0], 300).is_none());
        }
    }

    #[test]
    fn what_does_not_fit_makes_no_index() {
        let record = |hash: u64, value: usize| (hash, b"key".to_vec(), vec![0; value]);
        let crowd = |n: usize| (0..n).map(|_| record(7 << 40, 1)).collect::<Vec<_>>();
        let mut blocks = Vec::new();
        assert!(filled(&crowd(512), &mut blocks).is_some());
        assert!(filled(&crowd(513), &mut blocks).is_none(), "more of one hash than may be");
        // The first half of the hashes has a thousandth of the bytes.
        let half = 1 << 27;
        let mut writer = IndexWriter::new(1000, 3, 2 * half).unwrap().unwrap();
        assert!((0..500).all(|i| writer.push(i << 54, i as usize, 3, 4)));
        assert!(!writer.push(500 << 54, 600, 300, 304), "a key that is longer than stated");
        assert!(!writer.push(u64::MAX, 600, 3, 4), "too far from where it is expected");
        assert!(IndexWriter::new(10, 255, 1000).unwrap().is_none(), "keys of 255 bytes");
        assert!(IndexWriter::new(1001, 5, 1000).unwrap().is_none(), "more records than bytes");
    }
}
