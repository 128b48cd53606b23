//! Reads partitions back for sorting.
//!
//! A partition is passed on whole: its pieces in the temporary file, and its chunks in memory. It
//! is small enough to be sorted in the cache. A partition larger than the limit is split again by
//! the next bits of the hashes. If all its records have one hash, for example because one key was
//! added many times, they are read one by one, and only those that can matter for each key are
//! kept.

use crate::disk::spool::{Piece, TempSpace, spool_corrupt};
use crate::table::build::hashing::CollisionLimit;
use crate::table::build::partitions::{BITS, Partition, Partitions};
use crate::table::build::raw::{Added, Record, read_records, zigzag};
use crate::table::options::Duplicates;
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Bytes read back at once.
const WINDOW: usize = 1 << 20;
/// Bytes that sorting needs per record in addition to the record itself.
const SORT_OVERHEAD: u64 = 80;

/// How to read partitions back.
#[derive(Clone, Copy)]
pub(crate) struct GatherContext<'a> {
    /// Most bytes of records at once.
    pub(crate) limit: usize,
    pub(crate) duplicates: Duplicates,
    /// Set when the build ends; reading then stops.
    pub(crate) stop: &'a AtomicBool,
    /// Limit of keys that share a bin.
    pub(crate) collisions: &'a CollisionLimit,
}

/// Most bytes of records that one thread sorts at once. All threads together stay within the memory
/// of the build: a thread holds records that were read back, their sorted copy, a queued result and
/// one that is being consumed, each a fourth of its share. Records in memory are read in place.
pub(crate) fn limit(memory: usize, threads: usize, records: u64, bytes: u64) -> usize {
    let mean = bytes / records.max(1) + 4;
    let share = (memory / (4 * threads.max(1))) as u64;
    (u128::from(share) * u128::from(mean) / u128::from(mean + SORT_OVERHEAD)) as usize
}

/// Consumes the records of a partition, unsorted: fewer than [`MAX_PIECES`] pieces for
/// [`read_records`], and the number of records that were dropped as duplicates.
pub(crate) type Consume<'a> = dyn FnMut(&[&[u8]], u64) -> Result<()> + 'a;

/// A partition has fewer pieces than this. Chunks have 32 KiB or a long record, so only 512 GiB in
/// memory would exceed it; such a partition is split again.
pub(crate) const MAX_PIECES: usize = 1 << 24;

impl Partitions {
    /// Passes the records of partition `number` to `consume`: once, or several times in ascending
    /// order of hashes if they exceed the limit.
    pub(crate) fn gather(
        &self,
        number: usize,
        context: GatherContext,
        consume: &mut Consume,
    ) -> Result<()> {
        let partition = &self.partitions[number];
        if partition.bytes <= context.limit as u64 && partition.chunks.len() + 1 < MAX_PIECES {
            return self.gather_whole(number, consume);
        }
        if self.is_one_hash(number) || self.depth + BITS >= 60 {
            let (buffer, left_out) = self.gather_reduced(number, context)?;
            consume(&[&buffer], left_out)?;
            self.pools.buffers.give(buffer);
            return Ok(());
        }
        let temp_space = TempSpace { memory: context.limit, ..self.temp_space.clone() };
        let mut finer = Partitions::at(temp_space, self.hash, self.depth + BITS);
        finer.pools = self.pools.clone();
        finer.hash_ranges = vec![(u64::MAX, 0); finer.len()];
        self.each(number, context.stop, &mut |added| {
            let number = finer.number(added.hash);
            let span = &mut finer.hash_ranges[number];
            *span = (span.0.min(added.hash), span.1.max(added.hash));
            finer.push(added)
        })?;
        finer.seal()?;
        let mut full = (0..finer.len()).filter(|&number| !finer.is_empty(number));
        full.try_for_each(|number| finer.gather(number, context, consume))
    }

    fn is_one_hash(&self, number: usize) -> bool {
        self.hash_ranges.get(number).is_some_and(|(low, high)| low == high)
    }

    /// Passes on spilled pieces in a buffer, and chunks in place.
    fn gather_whole(&self, number: usize, consume: &mut Consume) -> Result<()> {
        let partition = &self.partitions[number];
        let spilled = match partition.pieces.is_empty() {
            true => None,
            false => Some(self.read_back(partition)?),
        };
        let slabs = self.arena.slabs_of(number);
        let chunks = partition.chunks.iter().map(|chunk| slabs.bytes(*chunk));
        let pieces: Vec<&[u8]> = spilled.iter().map(Vec::as_slice).chain(chunks).collect();
        consume(&pieces, 0)?;
        spilled.into_iter().for_each(|buffer| self.pools.buffers.give(buffer));
        Ok(())
    }

    fn read_back(&self, partition: &Partition) -> Result<Vec<u8>> {
        let mut buffer = self.pools.buffers.take();
        buffer.reserve_exact(partition.pieces.iter().map(|piece| piece.len as usize).sum());
        for piece in &partition.pieces {
            let at = buffer.len();
            buffer.resize(at + piece.len as usize, 0);
            self.read_at(piece.offset, &mut buffer[at..])?;
            piece.check(xxh3_64(&buffer[at..]))?;
        }
        Ok(buffer)
    }

    /// Reads a partition of one hash, and keeps of each key the first record, the last one, or the
    /// two that an error names.
    fn gather_reduced(&self, number: usize, context: GatherContext) -> Result<(Vec<u8>, u64)> {
        let mut kept: BTreeMap<Vec<u8>, Vec<(u64, Vec<u8>)>> = BTreeMap::new();
        let (mut seen, mut stay) = (0, 0);
        self.each(number, context.stop, &mut |Added { origin, record, .. }| {
            let (key, value) = (record.key(), record.value());
            seen += 1;
            let is_full = kept.len() >= 2 * context.collisions.max_keys;
            match kept.get_mut(key) {
                Some(same) => stay += u64::from(keep(same, (origin, value), context.duplicates)),
                // More keys than fit into two neighbouring bins.
                None if is_full => return Err(context.collisions.exceed()),
                None => {
                    stay += 1;
                    kept.insert(key.to_vec(), vec![(origin, value.to_vec())]);
                }
            }
            Ok(())
        })?;
        let (mut buffer, mut before) = (self.pools.buffers.take(), 0);
        for (key, same) in &kept {
            for (origin, value) in same {
                Record::new(key, value).append(zigzag(before, *origin), &mut buffer);
                before = *origin;
            }
        }
        Ok((buffer, seen - stay))
    }

    /// Calls `visit` with all records of a partition, a window at a time.
    pub(crate) fn each(
        &self,
        number: usize,
        stop: &AtomicBool,
        visit: &mut dyn FnMut(Added) -> Result<()>,
    ) -> Result<()> {
        let (partition, mut origin) = (&self.partitions[number], 0);
        for piece in &partition.pieces {
            self.each_of_piece(piece, stop, &mut origin, visit)?;
        }
        let slabs = self.arena.slabs_of(number);
        for &chunk in &partition.chunks {
            check(stop)?;
            read_records(slabs.bytes(chunk), self.hash, &mut origin, |record, _| visit(record))?;
        }
        Ok(())
    }

    fn each_of_piece(
        &self,
        piece: &Piece,
        stop: &AtomicBool,
        origin: &mut u64,
        visit: &mut dyn FnMut(Added) -> Result<()>,
    ) -> Result<()> {
        let (mut offset, end, mut size) = (piece.offset, piece.offset + piece.len, WINDOW);
        let (mut window, mut sum) = (Vec::new(), Xxh3::new());
        while offset < end {
            check(stop)?;
            window.resize(((end - offset) as usize).min(size), 0);
            self.read_at(offset, &mut window)?;
            let whole = read_records(&window, self.hash, origin, |record, _| visit(record))?;
            // Doubles the window for a record that is longer.
            size = if whole == 0 { 2 * window.len() } else { WINDOW };
            if whole == 0 && window.len() as u64 == end - offset {
                return Err(spool_corrupt());
            }
            sum.update(&window[..whole]);
            offset += whole as u64;
        }
        piece.check(sum.digest())
    }
}

fn check(stop: &AtomicBool) -> Result<()> {
    match stop.load(Ordering::Relaxed) {
        true => Err(Error::new(ErrorKind::Cancelled, "the build ended")),
        false => Ok(()),
    }
}

/// Adds a record to those of its key. One is kept, or the two of the lowest origins if duplicates
/// are errors. Returns whether one more is kept than before.
fn keep(same: &mut Vec<(u64, Vec<u8>)>, this: (u64, &[u8]), duplicates: Duplicates) -> bool {
    let before = |other: &(u64, Vec<u8>)| this < (other.0, &*other.1);
    match duplicates {
        Duplicates::First if !before(&same[0]) => false,
        Duplicates::Last if before(&same[0]) => false,
        Duplicates::First | Duplicates::Last => {
            same[0].0 = this.0;
            same[0].1.clear();
            same[0].1.extend_from_slice(this.1);
            false
        }
        Duplicates::Error => {
            let at = same.iter().position(before).unwrap_or(same.len());
            let more = same.len() < 2;
            if at < 2 {
                same.insert(at, (this.0, this.1.to_vec()));
                same.truncate(2);
            }
            more
        }
    }
}
