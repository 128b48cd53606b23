//! Entries that are sorted by shard and field, so that the writer can lay out whole shards: see
//! `IndexWriter::fill`. Any thread can sort.

use crate::log::index::hash_index::Index;
use crate::log::index::slot::{LOCATION_BITS, RecordLocation, field};

/// Entries are distributed over buckets of about so many, which are then sorted. That is faster
/// than to sort a shard at once.
const BUCKET: usize = 8;

/// Sorted entries of consecutive shards.
pub(crate) struct SortedEntries {
    /// The level of the shards.
    pub(crate) level: u32,
    /// The number of the first shard.
    first: usize,
    /// Words of slots.
    slots: Vec<u64>,
    /// Where the words of each shard end.
    ends: Vec<usize>,
}

impl SortedEntries {
    /// Sorts entries, given by hash and location. They know the bits of the hash that every entry
    /// of the index knows.
    pub(crate) fn new(index: &Index, entries: &[(u64, RecordLocation)]) -> SortedEntries {
        let (level, width) = (index.pages.base(), index.width());
        let hashes = || entries.iter().map(|entry| entry.0);
        let (Some(least), Some(most)) = (hashes().min(), hashes().max()) else {
            return SortedEntries { level, first: 0, slots: Vec::new(), ends: Vec::new() };
        };
        let shard_of = |hash: u64| (hash >> 32 >> (32 - level)) as usize;
        let (first, shards) = (shard_of(least), shard_of(most) - shard_of(least) + 1);
        let finer = (entries.len() / shards / BUCKET).max(1).ilog2().min(width - level);
        let bucket_of = |hash: u64| {
            let bucket = hash >> (32 - finer) >> (32 - level);
            bucket as usize - (first << finer)
        };
        let mut ends = vec![0; shards << finer];
        hashes().for_each(|hash| ends[bucket_of(hash)] += 1);
        let mut sum = 0;
        ends.iter_mut().for_each(|end| sum += std::mem::replace(end, sum));
        let mut slots = vec![0; entries.len()];
        for &(hash, location) in entries {
            let end = &mut ends[bucket_of(hash)];
            slots[*end] = field(hash, width, level) << LOCATION_BITS | location.bits();
            *end += 1;
        }
        let mut start = 0;
        for &end in &ends {
            slots[std::mem::replace(&mut start, end)..end].sort_unstable();
        }
        let ends = ends.chunks(1 << finer).map(|ends| ends[ends.len() - 1]).collect();
        SortedEntries { level, first, slots, ends }
    }

    /// The number of each shard, and its sorted slots.
    pub(crate) fn shards(&self) -> impl Iterator<Item = (usize, &[u64])> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let parts = starts.zip(&self.ends).map(|(start, &end)| &self.slots[start..end]);
        (self.first..).zip(parts)
    }
}
