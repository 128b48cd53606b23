//! The checkpoint: which records of the sealed segments are live, one bit each.
//!
//! Together with the hints it is the index: opening reads both and no record, except in segments
//! that were sealed since. It is taken while writing goes on. Each bit may be as it was at any
//! moment between its beginning and its end: whatever changed meanwhile has a newer record in a
//! segment that the checkpoint does not cover, and those are replayed over it.
//!
//! `checkpoint.firn` is a frozen file of kind 5. One that is lost or damaged costs time only.
//! ```text
//! SECTION 1  u64 store, u64 segments; each: u64 number, u64 entries of its hint, u64 live bytes
//! SECTION 2  for each segment a bit for each put of its hint, in that order, in whole u64s
//! ```

use crate::bytes::frozen::{FrozenWriter, Kind};
use crate::bytes::int::{Decoder, Encoder, u64_at};
use crate::disk::Disk;
use crate::log::failpoints::Failpoint;
use crate::log::format::hint_entries as entries;
use crate::log::index::hash_index::Index;
use crate::log::index::pages::Full;
use crate::log::index::slot::RecordLocation;
use crate::log::index::writer::IndexWriter;
use crate::log::maintenance::threads::Stretches;
use crate::log::open::store::Shared;
use crate::log::options::Access;
use crate::log::segments::hint_file as hint;
use crate::log::segments::segment::Segment;
use crate::log::write::put::full;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

pub(crate) const FILE: &str = "checkpoint.firn";
const META: u32 = 1;
const BITS: u32 = 2;
/// The hashes are loaded range by range, so that the part of the index being filled stays in the
/// processor's cache.
const RANGES: u64 = 1 << 9;
/// Bytes of bits below which none of that is worth while.
const SMALL: usize = 4096;

/// Entries of the index that a checkpoint takes together, so that it reads the hint of each segment
/// in runs: to go from hint to hint with each entry waits for memory with each.
const RUN: usize = if cfg!(test) { 16 } else { 1 << 17 };
/// An entry of the index takes as long as so many bytes of records, in each of two steps.
const ENTRY: u64 = 32;

/// What a checkpoint says of a segment.
pub(crate) struct Covered {
    entries: usize,
    pub(crate) live: u64,
    /// Where its bits begin, in bytes.
    at: usize,
}

/// An open checkpoint.
pub(crate) struct Checkpoint {
    /// Of which store.
    pub(crate) store: u64,
    pub(crate) segments: BTreeMap<u64, Covered>,
    bits: Vec<u8>,
}

impl Checkpoint {
    /// Opens the checkpoint of a directory. Beside a writer it must be read before the segments
    /// are: a bit may be clear because of a record that was written since.
    pub(crate) fn open(disk: &dyn Disk, access: Access, dir: &Path) -> Result<Checkpoint> {
        let path = dir.join(FILE);
        let file = access.open(disk, &path, Kind::LogCheckpoint)?;
        let section = |id: u32| -> Result<&[u8]> {
            let at = file.find(id).ok_or_else(|| Error::corrupt("a section is missing"))?;
            file.section(at)
        };
        let mut meta = Decoder::new(section(META)?);
        let store = meta.u64()?;
        let (mut segments, mut at) = (BTreeMap::new(), 0usize);
        for _ in 0..meta.u64()? {
            let (number, entries, live) = (meta.u64()?, meta.u64()? as usize, meta.u64()?);
            segments.insert(number, Covered { entries, live, at });
            let end = at.checked_add(entries.div_ceil(64) * 8);
            at = end.ok_or_else(|| Error::corrupt("the entries of a checkpoint").in_file(&path))?;
        }
        meta.finish()?;
        let bits = section(BITS)?.to_vec();
        if bits.len() != at {
            return Err(Error::corrupt("the bits of a checkpoint").in_file(&path));
        }
        Ok(Checkpoint { store, segments, bits })
    }

    /// Puts the live entries of these segments into the index. They must have hints, of the
    /// lengths that the checkpoint knows.
    pub(crate) fn load(
        &self,
        segments: &[Arc<Segment>],
        index: &Index,
        writer: &mut IndexWriter,
    ) -> Result<()> {
        let mut cursors = Vec::new();
        for segment in segments {
            let (Some(covered), Some(hint)) =
                (self.segments.get(&segment.number), segment.hint.get())
            else {
                return Err(Error::corrupt("a segment of the checkpoint has no hint"));
            };
            let puts = hint.puts()?;
            if puts.len() != covered.entries || covered.live > hint.put_bytes {
                return Err(Error::corrupt("a hint and the checkpoint disagree"));
            }
            let numbered = puts.iter().enumerate().peekable();
            cursors.push((segment.slot, numbered, covered.at));
        }
        let drop = hint::HASH_BITS - index.width();
        let mut range = |end: u64| {
            let mut found = Vec::new();
            for (slot, puts, at) in &mut cursors {
                while let Some((i, (hash, offset))) = puts.next_if(|entry| entry.1.0 <= end) {
                    if u64_at(&self.bits, *at + i / 64 * 8) >> (i % 64) & 1 == 1 {
                        found.push((hash >> drop, RecordLocation::new(*slot, offset)));
                    }
                }
            }
            found
        };
        if self.bits.len() < SMALL {
            return writer.fill(index, &range(u64::MAX)).map_err(|Full| full());
        }
        // One thread reads the hints, another fills the index.
        std::thread::scope(|scope| {
            let (send, receive) = std::sync::mpsc::sync_channel(4);
            scope.spawn(move || {
                let ends = (1..=RANGES).map(|n| (n << (hint::HASH_BITS - 9)) - 1);
                // An error says that nobody waits for more.
                ends.map(&mut range).try_for_each(|found| send.send(found))
            });
            receive.into_iter().try_for_each(|found| writer.fill(index, &found))
        })
        .map_err(|Full| full())
    }
}

/// Bits of one segment while a checkpoint is taken.
struct Marks<'a> {
    segment: &'a Segment,
    entries: usize,
    /// Bytes of live records before the first bit was set: what is replayed over the checkpoint is
    /// taken off again, so it must not be less than what the bits stand for.
    live: u64,
    next: std::iter::Peekable<std::iter::Enumerate<entries::Iter<'a>>>,
    bits: Vec<u64>,
    /// Entries of the index whose bits are to be set, as kept bits of the hash and offset.
    live_ones: Vec<(u64, u64)>,
}

impl Marks<'_> {
    /// Sets the bits of the entries in `live_ones`. Hashes of later calls are larger.
    fn set(&mut self, width: u32) {
        let drop = hint::HASH_BITS - width;
        self.live_ones.sort_unstable();
        for &(kept, offset) in &self.live_ones {
            while self.next.next_if(|(_, (hash, _))| hash >> drop < kept).is_some() {}
            // As a rule it is the next one, and nobody else's.
            let is_it =
                |(_, (hash, at)): &(usize, (u64, u64))| hash >> drop == kept && *at == offset;
            if let Some((i, _)) = self.next.next_if(is_it) {
                self.bits[i / 64] |= 1 << (i % 64);
                continue;
            }
            let equal = self.next.clone().take_while(|(_, (hash, _))| hash >> drop == kept);
            for (i, _) in equal.filter(|(_, (_, at))| *at == offset) {
                self.bits[i / 64] |= 1 << (i % 64);
            }
        }
        self.live_ones.clear();
    }
}

impl Shared {
    /// Takes a checkpoint when enough was sealed since the last one; whether it did.
    pub(crate) fn checkpoint_step(&self) -> Result<bool> {
        let covered = self.checkpointed.load(Ordering::Relaxed);
        let sealed = self.table.load().in_order();
        let sealed = sealed.iter().filter(|s| s.number > covered && s.hint.get().is_some());
        let bytes: u64 = sealed.map(|segment| segment.end()).sum();
        let is_due = bytes > 0 && bytes >= self.options.checkpoint_bytes;
        if !is_due || !self.reserve.is_held() {
            return Ok(false);
        }
        self.write_checkpoint()?;
        Ok(true)
    }

    /// Takes a checkpoint of all segments that have hints.
    pub(crate) fn write_checkpoint(&self) -> Result<()> {
        let _one_at_a_time = self.sealing.lock().unwrap_or_else(PoisonError::into_inner);
        let segments = self.table.load().in_order();
        let mut marks: Vec<Option<Marks>> = Vec::new(); // By the slot of the segment.
        // Under the lock no write is between its count and its change of the index.
        let quiet = self.writer()?;
        for segment in &segments {
            let Some(hint) = segment.hint.get() else { break };
            let puts = hint.puts()?;
            let bits = vec![0; puts.len().div_ceil(64)];
            let live = segment.live.load(Ordering::Relaxed);
            let next = puts.iter().enumerate().peekable();
            if marks.len() <= segment.slot {
                marks.resize_with(segment.slot + 1, || None);
            }
            let (entries, live_ones) = (puts.len(), Vec::new());
            marks[segment.slot] = Some(Marks { segment, entries, live, next, bits, live_ones });
        }
        drop(quiet);
        let (mut entries, mut waiting) = (Vec::new(), 0);
        let mut stretches = Stretches::of(self);
        for shard in 0..self.index.shards() {
            self.index.entries_of(shard, &mut entries);
            for &(kept, place) in &entries {
                if let Some(Some(marks)) = marks.get_mut(place.segment()) {
                    marks.live_ones.push((kept, place.offset()));
                }
            }
            stretches.went_through(ENTRY * entries.len() as u64);
            waiting += entries.len();
            if waiting >= RUN || shard + 1 == self.index.shards() {
                waiting = 0;
                for marks in marks.iter_mut().flatten() {
                    stretches.went_through(ENTRY * marks.live_ones.len() as u64);
                    marks.set(self.index.width());
                }
            }
        }
        let mut marks: Vec<Marks> = marks.into_iter().flatten().collect();
        marks.sort_unstable_by_key(|marks| marks.segment.number);
        let mut meta = Encoder::default();
        meta.u64(self.id);
        meta.u64(marks.len() as u64);
        let mut bits = Encoder::default();
        for marks in &marks {
            meta.u64(marks.segment.number);
            meta.u64(marks.entries as u64);
            meta.u64(marks.live);
            marks.bits.iter().for_each(|&word| bits.u64(word));
        }
        // A bit may be clear because of a write at the end of the log. Were that lost in a power
        // cut while the checkpoint stays, the key would have neither its old value nor the new.
        if !Failpoint::CheckpointBeforeSync.is_on() {
            let position = self.writer()?.position();
            self.make_durable(position)?;
            self.record_end(position)?;
        }
        self.publish(FILE, |out| {
            let mut w = FrozenWriter::new(out, Kind::LogCheckpoint)?;
            w.section(META, &meta.0)?;
            w.section(BITS, &bits.0)?;
            w.finish().map(|_| ())
        })?;
        let last = marks.last().map_or(0, |marks| marks.segment.number);
        self.checkpointed.store(last, Ordering::Relaxed);
        Ok(())
    }
}
