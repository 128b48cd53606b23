//! Lookup in the index. `format/index.rs` has its layout.

use crate::Result;
use crate::bytes::int::u64_at;
use crate::bytes::prefetch::{LINE, prefetch};
use crate::disk::Map;
use crate::table::format::index::{
    BIAS, Bucket, CHECKED_PART, ENTRY, IndexShape, LAST_ENTRY, LEN_SHIFT, MAX_BUCKETS,
    MAX_INDEXED_KEY, MAX_LEN, bucket, pattern,
};
use crate::table::read::mapped_index::MappedIndex;
use crate::table::simd::block_search::{VALUE_LINES, keys_equal};
use crate::table::simd::kernels::equal_high_bits_mask;
use std::ops::Range;

/// What the index answers for a key.
#[derive(Debug, PartialEq)]
pub(crate) enum IndexLookup<'a> {
    /// The stored value.
    Value(&'a [u8]),
    Absent,
    /// The index cannot tell: the caller must search in the block.
    Unknown,
}

/// An index that can be searched.
pub(crate) struct Index {
    pub(crate) shape: IndexShape,
    pub(crate) array: Map,
    /// What was checked of the array, if it is in a file.
    pub(crate) mapped: Option<MappedIndex>,
}

impl Index {
    /// The index in a file.
    pub(crate) fn mapped(shape: IndexShape, mapped: MappedIndex) -> Index {
        Index { shape, array: mapped.array().clone(), mapped: Some(mapped) }
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.mapped.as_ref().map_or(self.array.len(), MappedIndex::memory)
    }

    /// The range of the record of an entry in the blocks; `None` if the entry does not contain it.
    #[inline(always)]
    pub(crate) fn record_range(&self, bucket: u64, entry: u64) -> Option<Range<usize>> {
        let range = (entry & (2 * BIAS - 1)).wrapping_sub(BIAS);
        let begin = self.shape.expected(bucket).wrapping_add(range) as usize;
        let len = (entry >> LEN_SHIFT & MAX_LEN) as usize;
        (len < MAX_LEN as usize).then(|| begin..begin.saturating_add(len))
    }

    /// Makes the entries of records in `block`, a range of the blocks that was checked, usable, in
    /// all buckets that a search for the hash reads. `Corrupt` if the index is damaged there.
    #[inline(never)]
    pub(crate) fn mark_ready(&self, hash: u64, block: Range<usize>) -> Result<()> {
        let Some(mapped) = &self.mapped else { return Ok(()) };
        let (array, home) = (&self.array, self.shape.home(hash));
        for number in home..home + MAX_BUCKETS {
            mapped.check_once(number as usize * LINE / CHECKED_PART)?;
            let bucket = bucket(array, number);
            let within = |i: &usize| {
                let range = self.record_range(number, u64_at(bucket, i * ENTRY));
                // An entry without a range answers "unknown", so it needs no check.
                range.is_none_or(|range| block.start <= range.start && range.end <= block.end)
            };
            let found = (0..LINE / ENTRY).filter(within).fold(0, |bits, i| bits | 1 << i);
            mapped.set_ready(number as usize, found);
            if u64_at(bucket, LAST_ENTRY) == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Prefetches the home bucket of a hash.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch(bucket(&self.array, self.shape.home(hash)), 1);
    }

    /// Mask of the usable entries of a bucket: those whose part and block were checked. For a free
    /// last entry the check of the part suffices.
    #[inline(always)]
    pub(crate) fn ready(&self, bucket: u64) -> u8 {
        self.mapped.as_ref().map_or(u8::MAX, |mapped| mapped.ready(bucket as usize))
    }

    /// Whether the part of a bucket was checked.
    #[inline(always)]
    fn is_checked(&self, bucket: u64) -> bool {
        self.mapped.as_ref().is_none_or(|mapped| mapped.is_checked(bucket as usize))
    }

    /// Key and value of the most likely record, without reading it. `Some(None)` if the home bucket
    /// has no matching entry; `None` if that is unknown.
    #[inline(always)]
    pub(crate) fn candidate<'a>(
        &self,
        blocks: &'a [u8],
        hash: u64,
        key: usize,
    ) -> Option<Option<(&'a [u8], &'a [u8])>> {
        let home = self.shape.home(hash);
        if key > MAX_INDEXED_KEY || !self.is_checked(home) {
            return None;
        }
        let bucket = bucket(&self.array, home);
        let equal = equal_high_bits_mask(bucket, pattern(hash, key));
        if equal == 0 {
            return Some(None);
        }
        if equal & !self.ready(home) != 0 {
            return None;
        }
        let record = self.record_range(home, first(bucket, equal))?;
        Some(Some(blocks.get(record)?.split_at_checked(key)?))
    }

    /// The value of a key, if the first matching entry of its home bucket is its record.
    #[inline(always)]
    pub(crate) fn first<'a>(&self, blocks: &'a [u8], hash: u64, key: &[u8]) -> Option<&'a [u8]> {
        let home = self.shape.home(hash);
        let bucket = bucket(&self.array, home);
        let equal = equal_high_bits_mask(bucket, pattern(hash, key.len())) & self.ready(home);
        if equal == 0 || key.len() > MAX_INDEXED_KEY {
            return None;
        }
        let record = blocks.get(self.record_range(home, first(bucket, equal))?)?;
        let (found, value) = record.split_at_checked(key.len())?;
        keys_equal(found, key).then_some(value)
    }

    /// Looks a key up. Usually the first matching entry is the record, or the home bucket proves
    /// that there is none; otherwise calls [`Index::find_anywhere`].
    #[inline(always)]
    pub(crate) fn find<'a>(&self, blocks: &'a [u8], hash: u64, key: &[u8]) -> IndexLookup<'a> {
        if let Some(value) = self.first(blocks, hash, key) {
            return IndexLookup::Value(value);
        }
        let home = self.shape.home(hash);
        let bucket = bucket(&self.array, home);
        let ends = self.ready(home) >> (LAST_ENTRY / ENTRY) != 0 && u64_at(bucket, LAST_ENTRY) == 0;
        if ends
            && key.len() <= MAX_INDEXED_KEY
            && equal_high_bits_mask(bucket, pattern(hash, key.len())) == 0
        {
            return IndexLookup::Absent;
        }
        self.find_anywhere(blocks, hash, key)
    }

    /// [`Index::find`] in all buckets that can hold the record.
    #[inline(never)]
    pub(crate) fn find_anywhere<'a>(
        &self,
        blocks: &'a [u8],
        hash: u64,
        key: &[u8],
    ) -> IndexLookup<'a> {
        if key.len() > MAX_INDEXED_KEY {
            return IndexLookup::Unknown;
        }
        let array = &self.array;
        let (home, wanted) = (self.shape.home(hash), pattern(hash, key.len()));
        for number in home..home + MAX_BUCKETS {
            let bucket = bucket(array, number);
            let mut equal = equal_high_bits_mask(bucket, wanted);
            if equal & !self.ready(number) != 0 || !self.is_checked(number) {
                return IndexLookup::Unknown;
            }
            while equal != 0 {
                let range = self.record_range(number, first(bucket, equal));
                let record = range.and_then(|range| split(blocks, range, key.len()));
                let Some((found, value)) = record else { return IndexLookup::Unknown };
                if keys_equal(found, key) {
                    return IndexLookup::Value(value);
                }
                equal &= equal - 1;
            }
            if u64_at(bucket, LAST_ENTRY) == 0 {
                return IndexLookup::Absent;
            }
        }
        IndexLookup::Unknown
    }
}

/// Key and value of a record. Prefetches the value, because it is probably the right one.
#[inline(always)]
fn split(blocks: &[u8], record: Range<usize>, key: usize) -> Option<(&[u8], &[u8])> {
    let (key, value) = blocks.get(record)?.split_at_checked(key)?;
    if value.len() > LINE {
        prefetch(value, VALUE_LINES);
    }
    Some((key, value))
}

/// The entry of the lowest bit of a mask that is not zero.
#[inline(always)]
fn first(bucket: &Bucket, equal: u8) -> u64 {
    u64_at(bucket, equal.trailing_zeros() as usize % (LINE / ENTRY) * ENTRY)
}
