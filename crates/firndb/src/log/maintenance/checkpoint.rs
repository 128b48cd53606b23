//! Taking a checkpoint: see `format/checkpoint.rs`.
//!
//! A checkpoint is taken while writing continues. Each bit may be as it was at any moment between
//! the beginning and the end: a record that changed meanwhile has a newer version in a segment that
//! the checkpoint does not cover, and an opening replays those segments over it.
//!
//! The hints have more bits of each hash than an entry of the index that was added some doublings
//! ago. As a checkpoint looks up each entry in its hint anyway, entries also learn these bits here
//! when the index has doubled twice.

use crate::Result;
use crate::disk::envelope::{EnvelopeWriter, Kind};
use crate::log::failpoints::Failpoint;
use crate::log::format::checkpoint::{BITS, CheckpointEncoder, META};
use crate::log::format::hint_entries;
use crate::log::format::names::CHECKPOINT;
use crate::log::index::slot::RecordLocation;
use crate::log::maintenance::work_slices::WorkSlices;
use crate::log::segments::segment::Segment;
use crate::log::state::shared::Shared;
use crate::log::write::settle::lock_settled;
use crate::log::write::sync::make_durable;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Entries of the index that are processed together, so that the hint of each segment is read in
/// runs: going from hint to hint with each entry would be a cache miss each time.
const RUN: usize = if cfg!(test) { 16 } else { 1 << 17 };
/// An entry of the index costs as much as this many bytes of records, in each of two steps.
const ENTRY: u64 = 32;
/// Entries that learn bits of their hashes before writers get the lock again.
const LESSON: usize = 256;

/// The bits of one segment while a checkpoint is taken.
struct SegmentBits<'a> {
    segment: &'a Segment,
    entries: usize,
    /// Live bytes before the first bit was set. An opening subtracts what it replays over the
    /// checkpoint, so this must not be less than what the bits stand for.
    live_bytes: u64,
    next: std::iter::Peekable<std::iter::Enumerate<hint_entries::Iter<'a>>>,
    bits: Vec<u64>,
    /// Entries of the index whose bits are to be set, as kept bits of the hash and offset.
    pending: Vec<(u64, u64)>,
    /// Number of hash bits in the hint.
    known: u32,
}

/// What entries of the index learn: a hash, how many bits of it are known, the location.
type Lesson = (u64, u32, RecordLocation);

impl SegmentBits<'_> {
    /// Sets the bits of the pending entries. Hashes of later calls are larger. Passes what the hint
    /// says about the entries to `learn`.
    fn set(&mut self, width: u32, mut learn: impl FnMut(Lesson)) {
        let drop = u64::BITS - width;
        self.pending.sort_unstable();
        for &(kept, offset) in &self.pending {
            while self.next.next_if(|(_, (hash, _))| hash >> drop < kept).is_some() {}
            // Usually it is the next one, and no other has its hash.
            let is_it =
                |(_, (hash, at)): &(usize, (u64, u64))| hash >> drop == kept && *at == offset;
            let found = self.next.next_if(is_it).or_else(|| {
                let mut equal = self.next.clone().take_while(|(_, (hash, _))| hash >> drop == kept);
                equal.find(|(_, (_, at))| *at == offset)
            });
            if let Some((i, (hash, _))) = found {
                self.bits[i / 64] |= 1 << (i % 64);
                learn((hash, self.known, RecordLocation::new(self.segment.slot, offset)));
            }
        }
        self.pending.clear();
    }
}

/// Takes a checkpoint when enough was sealed since the last one. Returns whether it did.
pub(crate) fn checkpoint_step(shared: &Shared) -> Result<bool> {
    let covered = shared.maintenance.checkpointed.load(Ordering::Relaxed);
    let segments = shared.segments();
    let sealed = segments.iter().filter(|s| s.number > covered && s.hint.get().is_some());
    let bytes: u64 = sealed.map(|segment| segment.end()).sum();
    let is_due = bytes >= shared.options.checkpoint_bytes || shared.lookup.index.pages.is_vague();
    let is_due = bytes > 0 && is_due;
    if !is_due || !shared.reserve.is_held() {
        return Ok(false);
    }
    write_checkpoint(shared)?;
    Ok(true)
}

/// Takes a checkpoint of all sealed segments.
pub(crate) fn write_checkpoint(shared: &Shared) -> Result<()> {
    span!(INFO, "firndb.log.checkpoint");
    let sealing = &shared.maintenance.sealing;
    let _one_at_a_time = sealing.lock().unwrap_or_else(PoisonError::into_inner);
    let segments = shared.segments();
    let mut all = begin(shared, &segments)?;
    mark(shared, &mut all);
    let mut all: Vec<SegmentBits> = all.into_iter().flatten().collect();
    all.sort_unstable_by_key(|its| its.segment.number);
    let mut encoder = CheckpointEncoder::default();
    for its in &all {
        encoder.segment(its.segment.number, its.entries, its.live_bytes, &its.bits);
    }
    let (meta, bits) = encoder.finish(shared.dir.store);
    // A bit may be clear because of a write at the end of the log. If a power cut lost that write
    // but not the checkpoint, the key would have neither its old value nor the new one.
    if !Failpoint::CheckpointBeforeSync.is_on() {
        let position = lock_settled(shared)?.position();
        make_durable(shared, position)?;
        shared.dir.record_end(position)?;
    }
    shared.dir.publish(CHECKPOINT, |out| {
        let mut file = EnvelopeWriter::new(out, Kind::LogCheckpoint)?;
        file.section(META, &meta)?;
        file.section(BITS, &bits)?;
        file.finish().map(|_| ())
    })?;
    let last = all.last().map_or(0, |its| its.segment.number);
    shared.maintenance.checkpointed.store(last, Ordering::Relaxed);
    Ok(())
}

/// Clear bits of all sealed segments, by the slot of the segment.
fn begin<'a>(
    shared: &Shared,
    segments: &'a [Arc<Segment>],
) -> Result<Vec<Option<SegmentBits<'a>>>> {
    let mut all: Vec<Option<SegmentBits>> = Vec::new();
    // Reads each hint before it takes the lock: the disk may have to be read for that.
    for segment in segments {
        let Some(hint) = segment.hint.get() else { break };
        let puts = hint.puts()?;
        if all.len() <= segment.slot {
            all.resize_with(segment.slot + 1, || None);
        }
        all[segment.slot] = Some(SegmentBits {
            segment,
            entries: puts.len(),
            live_bytes: 0,
            next: puts.iter().enumerate().peekable(),
            bits: vec![0; puts.len().div_ceil(64)],
            pending: Vec::new(),
            known: puts.hash_bits(),
        });
    }
    // Under the lock no write is between its count and its change of the index.
    let _quiet = lock_settled(shared)?;
    for its in all.iter_mut().flatten() {
        its.live_bytes = its.segment.live.load(Ordering::Relaxed);
    }
    Ok(all)
}

/// Sets the bits of all entries of the index.
fn mark(shared: &Shared, all: &mut [Option<SegmentBits>]) {
    let index = &shared.lookup.index;
    let (mut entries, mut waiting) = (Vec::new(), 0);
    let mut slices = WorkSlices::new(shared);
    let (is_vague, level) = (index.pages.is_vague(), index.pages.base());
    let mut lessons = Vec::new();
    let mut next = 0;
    while next < index.end() {
        next = index.entries_from(next, usize::MAX, &mut entries);
        for &(kept, location) in &entries {
            if let Some(Some(its)) = all.get_mut(location.segment()) {
                its.pending.push((kept, location.offset()));
            }
        }
        slices.advance(ENTRY * entries.len() as u64);
        waiting += entries.len();
        if waiting >= RUN || next == index.end() {
            waiting = 0;
            for its in all.iter_mut().flatten() {
                slices.advance(ENTRY * its.pending.len() as u64);
                its.set(index.width(), |lesson| {
                    if is_vague {
                        lessons.push(lesson);
                    }
                });
            }
            learn(shared, &mut lessons, &mut slices);
        }
    }
    if is_vague {
        index.pages.set_learned(level);
    }
}

/// Lets entries of the index learn bits of their hashes.
fn learn(shared: &Shared, lessons: &mut Vec<Lesson>, slices: &mut WorkSlices) {
    let index = &shared.lookup.index;
    lessons.sort_unstable(); // By shard.
    for some in lessons.chunks(LESSON) {
        slices.advance(ENTRY * some.len() as u64);
        // A store that cannot be written to goes on without.
        let Ok(mut writer) = shared.lock_writer() else { break };
        for &(hash, known, location) in some {
            writer.index.learn(index, hash, known, location);
        }
    }
    lessons.clear();
}
