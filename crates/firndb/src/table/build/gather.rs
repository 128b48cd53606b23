//! Reads partitions back for sorting.
//!
//! A partition comes whole, from its piece of each run and from memory, and is small enough to be
//! sorted in a cache. One that is larger than the caller's limit is split again by the next bits of
//! its hashes. Where one hash is all that is left, as of a key that was added again and again, no
//! bits divide it: then records are read one by one, and of each key only those stay that matter.

use crate::disk::spool::{Piece, TempSpace, spool_corrupt};
use crate::table::build::hashing::CollisionLimit;
use crate::table::build::partitions::{BITS, Partition, Partitions};
use crate::table::build::raw::{Added, Record, read_records, zigzag};
use crate::table::options::Duplicates;
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Bytes that are read back at once.
const WINDOW: usize = 1 << 20;
/// Bytes that sorting takes for a record beside its own, in all buffers on their way.
const SORTING: u64 = 80;

/// How partitions are to be read.
#[derive(Clone, Copy)]
pub(crate) struct GatherContext<'a> {
    /// Most bytes of records at once.
    pub(crate) limit: usize,
    pub(crate) duplicates: Duplicates,
    /// Whether to give up.
    pub(crate) stop: &'a AtomicBool,
    /// Of keys that share a place.
    pub(crate) collisions: &'a CollisionLimit,
}

/// Most bytes of records that are sorted at once, so that all threads of a build together stay
/// within its memory, a fourth of its share each: what a thread has read back, what it makes of
/// that, what waits, and what is taken. In memory records are read where they are.
pub(crate) fn limit(memory: usize, threads: usize, records: u64, bytes: u64) -> usize {
    let mean = bytes / records.max(1) + 4;
    let share = (memory / (4 * threads.max(1))) as u64;
    (u128::from(share) * u128::from(mean) / u128::from(mean + SORTING)) as usize
}

/// The records of a partition, unsorted: pieces for [`read`], one after the other, fewer than
/// [`MAX_PIECES`]. And the number of records that were left out because others of the same key
/// stay.
pub(crate) type Consume<'a> = dyn FnMut(&[&[u8]], u64) -> Result<()> + 'a;

/// Pieces that a partition has less of. Only 512 GiB and more in memory would have them, since
/// chunks have 32 KiB or a long record: such a partition is split again.
pub(crate) const MAX_PIECES: usize = 1 << 24;

impl Partitions {
    /// Gives `use_it` the records of partition `number`; several times if they are more than the
    /// limit, in ascending order of hashes.
    pub(crate) fn gather(
        &self,
        number: usize,
        context: GatherContext,
        consume: &mut Consume,
    ) -> Result<()> {
        let part = &self.partitions[number];
        if part.bytes <= context.limit as u64 && part.chunks.len() + 1 < MAX_PIECES {
            return self.whole(number, consume);
        }
        if self.is_one_hash(number) || self.depth + BITS >= 60 {
            let (buffer, left_out) = self.reduced(number, context)?;
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

    /// What was spilled, in a buffer, and what is in memory, where it is.
    fn whole(&self, number: usize, consume: &mut Consume) -> Result<()> {
        let part = &self.partitions[number];
        let spilled = match part.pieces.is_empty() {
            true => None,
            false => Some(self.read_back(part)?),
        };
        let slabs = self.arena.slabs_of(number);
        let chunks = part.chunks.iter().map(|chunk| slabs.bytes(*chunk));
        let pieces: Vec<&[u8]> = spilled.iter().map(Vec::as_slice).chain(chunks).collect();
        consume(&pieces, 0)?;
        spilled.into_iter().for_each(|buffer| self.pools.buffers.give(buffer));
        Ok(())
    }

    fn read_back(&self, part: &Partition) -> Result<Vec<u8>> {
        let mut buffer = self.pools.buffers.take();
        buffer.reserve_exact(part.pieces.iter().map(|piece| piece.len as usize).sum());
        for piece in &part.pieces {
            let at = buffer.len();
            buffer.resize(at + piece.len as usize, 0);
            self.read_at(piece.offset, &mut buffer[at..])?;
            piece.check(xxh3_64(&buffer[at..]))?;
        }
        Ok(buffer)
    }

    /// The records of a partition that matter: of those with one key the first, the last, or two to
    /// complain of.
    fn reduced(&self, number: usize, context: GatherContext) -> Result<(Vec<u8>, u64)> {
        let mut kept: BTreeMap<Vec<u8>, Vec<(u64, Vec<u8>)>> = BTreeMap::new();
        let (mut seen, mut stay) = (0, 0);
        self.each(number, context.stop, &mut |Added { origin, record, .. }| {
            let (key, value) = (record.key(), record.value());
            seen += 1;
            let is_full = kept.len() >= 2 * context.collisions.max_keys;
            match kept.get_mut(key) {
                Some(same) => stay += u64::from(keep(same, (origin, value), context.duplicates)),
                // These hashes have one place, or two that are neighbours.
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

    /// Shows all records of a partition, reading a few at a time.
    pub(crate) fn each(
        &self,
        number: usize,
        stop: &AtomicBool,
        visit: &mut dyn FnMut(Added) -> Result<()>,
    ) -> Result<()> {
        let (part, mut origin) = (&self.partitions[number], 0);
        for piece in &part.pieces {
            self.each_of_piece(piece, stop, &mut origin, visit)?;
        }
        let slabs = self.arena.slabs_of(number);
        for &chunk in &part.chunks {
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
            // A record that is longer than the window needs a longer one.
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

/// Puts a record among those of its key, of which one stays, or two of the lowest origins where
/// they are an error. Whether there is one more than before.
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
