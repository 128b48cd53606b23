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

use super::block::{Body, CHECKSUM, check};
use super::index_file::{Mapped, PART};
use super::kernels::EQUAL_ABOVE;
use super::reader::Table;
use crate::Result;
use crate::bytes::int::{Encoder, u64_at};
use crate::bytes::prefetch::LINE;
use crate::disk::{Map, Slab};
use std::ops::{ControlFlow, Range};

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
const LENGTH: u32 = 28;
const KEY: u32 = 44;
const TAG: u32 = 52;
/// A key of more bytes is not in the index.
pub(crate) const LONGEST_KEY: usize = (1 << (TAG - KEY)) - 2;
/// A record of this length or more.
pub(crate) const LONG: u64 = (1 << (KEY - LENGTH)) - 1;
/// What a place in an entry is counted from.
const MIDDLE: u64 = 1 << (LENGTH - 1);
/// Binary digits of [`Shape::bytes_a_bucket`] behind the point.
const POINT: u32 = 16;

pub(crate) type Bucket = [u8; LINE];

static FREE: Bucket = [0; LINE];

/// How many buckets there are, and where their records are expected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    buckets: u64,
    /// Bytes of blocks for each bucket.
    bytes_a_bucket: u64,
}

impl Shape {
    /// Of an index of so many records in so many bytes of blocks; `None` if there can be none.
    pub(crate) fn new(records: u64, bytes: u64) -> Option<Shape> {
        let buckets = records.div_ceil(USED).max(1);
        // Each record takes a byte at least: what claims more is no reason to ask for memory.
        let fits = records <= bytes && bytes >> (64 - POINT) == 0;
        fits.then(|| Shape { buckets, bytes_a_bucket: (bytes << POINT) / buckets })
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
    fn expected(self, bucket: u64) -> u64 {
        bucket.wrapping_mul(self.bytes_a_bucket) >> POINT
    }
}

/// A record as the index is told of it: the hash of its key, where it begins, and the bytes of its
/// key and of all; of lengths above [`LONGEST_KEY`] and [`LONG`] only that they are.
#[derive(Clone, Copy)]
pub(crate) struct Pointer {
    pub(crate) hash: u64,
    pub(crate) begin: u64,
    pub(crate) key: usize,
    pub(crate) len: u64,
}

/// Makes an index of records that come in the order of their hashes. Hands over each bucket that
/// has entries, its number and its bytes, when it is done.
pub(crate) struct IndexWriter {
    shape: Shape,
    bucket: u64,
    entries: Encoder,
}

impl IndexWriter {
    pub(crate) fn new(shape: Shape) -> IndexWriter {
        IndexWriter { shape, bucket: 0, entries: Encoder::default() }
    }

    pub(crate) fn push<T>(&mut self, record: Pointer, done: T) -> Result<()>
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

/// An index that can be searched.
pub(crate) struct Index {
    pub(crate) shape: Shape,
    pub(crate) array: Map,
    /// What is known of the array if it is in a file.
    pub(crate) mapped: Option<Mapped>,
}

impl Index {
    /// The index in a file.
    pub(crate) fn mapped(shape: Shape, mapped: Mapped) -> Index {
        Index { shape, array: mapped.array().clone(), mapped: Some(mapped) }
    }

    /// The index of a resident table, whose blocks are checked on the way. `None` if frames are of
    /// blocks, or if records are out of order, which [`Table::verify`] tells: then gets find
    /// records in blocks.
    pub(crate) fn of(table: &Table, hash: impl Fn(&[u8]) -> u64) -> Result<Option<Index>> {
        let shape = table.index_shape();
        // Memory is taken as records come: there may be fewer than the file says.
        let mut array = Slab::new(shape.map_or(0, |shape| shape.len().1 as usize))?;
        array.expect_random();
        let mut put = |bucket: u64, bytes: &[u8]| {
            let at = bucket as usize * LINE;
            array[at..at + LINE].copy_from_slice(bytes);
            Ok(())
        };
        let (mut writer, mut last) = (shape.map(IndexWriter::new), 0);
        for number in 0..table.meta.blocks {
            let (offset, _) = table.extent(number)?;
            let block = table.memory(number)?;
            let mut add = || -> Result<()> {
                check(block, number)?;
                let Some(index) = &mut writer else { return Ok(()) };
                let body = Body::parse(&block[CHECKSUM..])?;
                let mut begin = offset - table.blocks.0 + (CHECKSUM + body.first()) as u64;
                let end = body.each(|key, value| {
                    let (hash, len) = (hash(key), (key.len() + value.len()) as u64);
                    if hash < last {
                        return Ok(ControlFlow::Break(()));
                    }
                    index.push(Pointer { hash, begin, key: key.len(), len }, &mut put)?;
                    (last, begin) = (hash, begin + len);
                    Ok(ControlFlow::Continue(()))
                })?;
                if end.is_none() {
                    writer = None;
                }
                Ok(())
            };
            add().map_err(|e| e.at(offset))?;
        }
        let Some((mut writer, shape)) = writer.zip(shape) else { return Ok(None) };
        writer.flush(put)?;
        Ok(Some(Index { shape, array: array.freeze()?, mapped: None }))
    }

    /// Bytes of memory it takes.
    pub(crate) fn memory(&self) -> usize {
        self.mapped.as_ref().map_or(self.array.len(), Mapped::memory)
    }

    /// Where the record of an entry is in the blocks; `None` if the entry does not say it.
    #[inline(always)]
    pub(crate) fn place(&self, bucket: u64, entry: u64) -> Option<Range<usize>> {
        let place = (entry & (2 * MIDDLE - 1)).wrapping_sub(MIDDLE);
        let begin = self.shape.expected(bucket).wrapping_add(place) as usize;
        let len = (entry >> LENGTH & LONG) as usize;
        (len < LONG as usize).then(|| begin..begin.saturating_add(len))
    }

    /// Makes the entries for records in `block`, a place in the blocks that was checked, usable, in
    /// the buckets that a search for a hash comes to. `Corrupt` if the index is damaged there.
    #[inline(never)]
    pub(crate) fn settle(&self, hash: u64, block: Range<usize>) -> Result<()> {
        let Some(mapped) = &self.mapped else { return Ok(()) };
        let (array, home) = (&self.array, self.shape.home(hash));
        for number in home..home + FARTHEST {
            mapped.check_once(number as usize * LINE / PART)?;
            let bucket = bucket(array, number);
            let within = |i: &usize| {
                let place = self.place(number, u64_at(bucket, i * ENTRY));
                // What has no place is told to be unknown, wherever it is.
                place.is_none_or(|place| block.start <= place.start && place.end <= block.end)
            };
            let found = (0..LINE / ENTRY).filter(within).fold(0, |bits, i| bits | 1 << i);
            mapped.set_ready(number as usize, found);
            if u64_at(bucket, LAST) == 0 {
                break;
            }
        }
        Ok(())
    }
}

#[inline(always)]
pub(crate) fn bucket(array: &[u8], number: u64) -> &Bucket {
    array.as_chunks().0.get(number as usize).unwrap_or(&FREE)
}

#[cfg(test)]
mod tests {
    use super::super::index_find::Found;
    use super::*;
    use crate::testing::Rng;
    use std::iter::repeat_n;

    type Records = [(u64, Vec<u8>, Vec<u8>)];

    /// The index of these records.
    fn made(shape: Shape, records: impl Iterator<Item = Pointer>) -> Index {
        let mut array = Slab::new(shape.len().1 as usize).unwrap();
        let mut put = |bucket: u64, bytes: &[u8]| {
            array[bucket as usize * LINE..][..LINE].copy_from_slice(bytes);
            Ok(())
        };
        let mut writer = IndexWriter::new(shape);
        records.for_each(|record| writer.push(record, &mut put).unwrap());
        writer.flush(put).unwrap();
        Index { shape, array: array.freeze().unwrap(), mapped: None }
    }

    /// The index of records that are put behind each other.
    fn filled(records: &Records, blocks: &mut Vec<u8>) -> Index {
        let bytes: usize = records.iter().map(|(_, key, value)| key.len() + value.len()).sum();
        let shape = Shape::new(records.len() as u64, bytes as u64).unwrap();
        let pointers = records.iter().map(|(hash, key, value)| {
            let (begin, len) = (blocks.len() as u64, (key.len() + value.len()) as u64);
            blocks.extend_from_slice(key);
            blocks.extend_from_slice(value);
            Pointer { hash: *hash, begin, key: key.len(), len }
        });
        made(shape, pointers)
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
            let index = filled(&records, &mut blocks);
            let find = |hash, key: &[u8]| {
                let found = index.find(&blocks, hash, key);
                assert_eq!(found, index.find_any(&blocks, hash, key));
                found
            };
            let (mut found, mut unknown) = (0, 0);
            for (hash, key, value) in &records {
                match find(*hash, key) {
                    Found::Value(got) => found += usize::from(got == value),
                    Found::Unknown => unknown += 1,
                    Found::Absent => panic!("a record is lost"),
                }
                let absent = [&key[..key.len() - 1], b"?"].concat();
                assert!(!matches!(find(*hash, &absent), Found::Value(_)));
                let first = index.candidate(&blocks, *hash, key.len()).flatten();
                assert!(first.is_none_or(|(found, _)| found.len() == key.len()));
            }
            assert_eq!(found + unknown, n);
            assert!(unknown == 0 || longest > 65_000 && unknown < n / 5, "{unknown} unknown");
            assert!(matches!(find(hashes[0], &[0; 300]), Found::Unknown));
            assert!(index.candidate(&blocks, hashes[0], 300).is_none());
        }
    }

    /// How many of some records an index finds, and of how many it knows nothing.
    fn known(records: &Records) -> (usize, usize) {
        let mut blocks = Vec::new();
        let index = filled(records, &mut blocks);
        records.iter().fold((0, 0), |(found, unknown), (hash, key, value)| {
            match index.find(&blocks, *hash, key) {
                Found::Value(got) => (found + usize::from(got == value), unknown),
                Found::Unknown => (found, unknown + 1),
                Found::Absent => panic!("a record is lost"),
            }
        })
    }

    #[test]
    fn of_what_does_not_fit_nothing_is_known() {
        let record = |hash: u64, i: usize| (hash, format!("{hash}-{i}").into_bytes(), vec![0; 4]);
        let crowd = |n: usize| (0..n).map(|i| record(7 << 40, i)).collect::<Vec<_>>();
        assert_eq!(known(&crowd(512)), (512, 0));
        assert_eq!(known(&crowd(513)), (512, 1), "more of one hash than may be");
        // Others behind the crowd find their places.
        let mut more = crowd(600);
        more.extend((0..900u64).map(|i| record(8 << 40 | i << 54, i as usize)));
        more.sort();
        let (found, unknown) = known(&more);
        assert!(found > 1390 && unknown > 88, "{found} found, {unknown} unknown");
        let long = |len: usize| [(1, vec![1; len], vec![2]), (2, vec![3; 5], vec![4])];
        assert_eq!((known(&long(254)), known(&long(255))), ((2, 0), (1, 1)));
        assert!(Shape::new(1001, 1000).is_none(), "more records than bytes");
    }

    #[test]
    fn a_record_far_from_where_it_is_expected_is_unknown() {
        // The first half of the hashes has a thousandth of the bytes.
        let shape = Shape::new(1000, 1 << 28).unwrap();
        let places = (0..500).map(|i| (i << 54, i * 4)).chain([(u64::MAX, 2000)]);
        let index =
            made(shape, places.map(|(hash, begin)| Pointer { hash, begin, key: 3, len: 4 }));
        let blocks = vec![9; 2004];
        let is_unknown = |hash| matches!(index.find(&blocks, hash, b"abc"), Found::Unknown);
        assert!(is_unknown(u64::MAX) && !is_unknown(0));
    }
}
