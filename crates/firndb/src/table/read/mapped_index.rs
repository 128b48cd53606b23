//! The index in a mapped file, and what of it was checked.

use crate::bytes::frozen::Frozen;
use crate::bytes::int::u64_at;
use crate::bytes::prefetch::LINE;
use crate::disk::{Map, Words};
use crate::table::format::index::{CHECKED_PART, ENTRY, IndexShape, LAST_ENTRY};
use crate::table::format::section;
use crate::table::read::source::CheckedSet;
use crate::{Error, Result};
use std::sync::atomic::Ordering::Relaxed;
use xxhash_rust::xxh3::xxh3_64;

/// The array of an index in a mapped file.
pub(crate) struct MappedIndex {
    pub(crate) array: Map,
    /// Offset of the array in the file.
    start: usize,
    checks: Box<[u8]>,
    /// Parts of the array that were checked.
    checked: CheckedSet,
    /// One byte per bucket, one bit per entry: the entry is usable, because its part and the block
    /// of its record were checked. For a free last entry the check of the part suffices. The memory
    /// is allocated as it is touched, so opening a large table takes no time.
    ready: Words,
    buckets: usize,
}

impl MappedIndex {
    /// The array of an index of this shape, if the file has one. `Corrupt` if its length is wrong.
    pub(crate) fn open(file: &Frozen, shape: Option<IndexShape>) -> Result<Option<MappedIndex>> {
        let Some(entry) = file.find(section::INDEX).map(|i| file.entry(i)) else { return Ok(None) };
        let checks = file.find(section::INDEX_CHECKS).map(|i| file.section(i)).transpose()?;
        let (least, most) = shape.map_or((1, 0), IndexShape::len);
        let parts = entry.len.div_ceil(CHECKED_PART as u64);
        let fits = (least..=most).contains(&entry.len) && entry.len.is_multiple_of(LINE as u64);
        let checks = checks.filter(|checks| fits && checks.len() as u64 == 8 * parts);
        let checks = checks.ok_or_else(|| Error::corrupt("the index has a wrong size"))?;
        let start = entry.offset as usize;
        let buckets = entry.len as usize / LINE;
        let array = file.map().part(start..start + entry.len as usize);
        Ok(Some(MappedIndex {
            array: array.ok_or_else(|| Error::corrupt("the index is truncated"))?,
            start,
            checks: checks.into(),
            checked: CheckedSet::new(parts),
            ready: Words::new(buckets.div_ceil(8), false)?,
            buckets,
        }))
    }

    /// Bytes of memory, without the map.
    pub(crate) fn memory(&self) -> usize {
        self.checks.len() + self.checked.memory() + size_of_val(&*self.ready)
    }

    #[inline(always)]
    pub(crate) fn array(&self) -> &Map {
        &self.array
    }

    /// Mask of the usable entries of a bucket.
    #[inline(always)]
    pub(crate) fn ready(&self, bucket: usize) -> u8 {
        let word = self.ready.get(bucket / 8).map_or(0, |word| word.load(Relaxed));
        (word >> (8 * (bucket % 8))) as u8
    }

    /// Whether the part of a bucket was checked. Buckets after the array are free and count as
    /// checked.
    #[inline(always)]
    pub(crate) fn is_checked(&self, bucket: usize) -> bool {
        bucket >= self.buckets || self.checked.has((bucket * LINE / CHECKED_PART) as u64)
    }

    pub(crate) fn set_ready(&self, bucket: usize, entries: u8) {
        if bucket < self.buckets {
            self.ready[bucket / 8].fetch_or(u64::from(entries) << (8 * (bucket % 8)), Relaxed);
        }
    }

    /// Checks all parts.
    pub(crate) fn check_all(&self) -> Result<()> {
        (0..self.array.len().div_ceil(CHECKED_PART)).try_for_each(|part| self.check(part))
    }

    /// Checks a part unless that was done before, and makes free last entries of its buckets
    /// usable: they prove that a key is absent. A part after the array is empty.
    pub(crate) fn check_once(&self, part: usize) -> Result<()> {
        self.checked.check_once(part as u64, || {
            self.check(part)?;
            let buckets = part * (CHECKED_PART / LINE)..(part + 1) * (CHECKED_PART / LINE);
            for bucket in buckets.take_while(|&bucket| bucket < self.buckets) {
                if u64_at(&self.array, bucket * LINE + LAST_ENTRY) == 0 {
                    self.set_ready(bucket, 1 << (LAST_ENTRY / ENTRY));
                }
            }
            Ok(())
        })
    }

    fn check(&self, part: usize) -> Result<()> {
        let Some(bytes) = self.array.chunks(CHECKED_PART).nth(part) else { return Ok(()) };
        let (got, expected) = (xxh3_64(bytes), u64_at(&self.checks, 8 * part));
        if got != expected {
            let message =
                format!("checksum of part {part} of the index is {got:016x}, not {expected:016x}");
            return Err(Error::corrupt(message).at((self.start + part * CHECKED_PART) as u64));
        }
        Ok(())
    }

    /// `Corrupt` unless the array continues with free buckets up to `bucket`, and with `bytes`
    /// there. Advances `len`.
    pub(crate) fn compare(&self, len: &mut usize, bucket: u64, bytes: &[u8]) -> Result<()> {
        let (array, at) = (&self.array, bucket as usize * LINE);
        let free = array.get(*len..at).is_some_and(|free| free.iter().all(|&byte| byte == 0));
        if !free || array.get(at..at + LINE) != Some(bytes) {
            return Err(self.other(*len));
        }
        *len = at + LINE;
        Ok(())
    }

    pub(crate) fn other(&self, at: usize) -> Error {
        let message = format!("the index differs from the records at byte {at}");
        Error::corrupt(message).at((self.start + at) as u64)
    }
}
