//! Maintenance of the key runs of an ordered store: a sealed segment gets a run, and runs are
//! merged, so that a scan has few sources.
//!
//! Runs of similar length are merged when there are [`FAN`] of them at the end of the log, like the
//! levels of a log-structured merge tree (O'Neil et al., 1996). All are merged when most of their
//! entries are stale. A merge drops entries that the index does not hold; snapshots keep the runs
//! of their time. Runs are derived from the segments: a lost or damaged one is written again.
//!
//! An entry may be stale because of a write at the end of the log. If a power cut lost that write
//! but not the merged run, the run would miss a current record. So a merge makes the log durable
//! before it publishes its run.
//!
//! A segment with a damaged record gets no run, and scans return the error. A segment whose run
//! would replace a foreign file gets none either, and scans sort its keys in memory. Nothing else
//! depends on runs.

use crate::log::format::names::key_run_file;
use crate::log::maintenance::work_slices::WorkSlices;
use crate::log::segments::key_merge::KeyMerge;
use crate::log::segments::key_run_file::{KeyRun, KeyRunWriter, check_place};
use crate::log::segments::key_source::{Direction, KeyEntry, KeySource};
use crate::log::segments::segment::Segment;
use crate::log::state::key_order::{KeyOrder, Refused, SegmentTail, Source, Sources};
use crate::log::state::lookup::GROUP;
use crate::log::state::shared::Shared;
use crate::log::write::settle::lock_settled;
use crate::log::write::sync::make_durable;
use crate::{Error, ErrorKind, Result};
use std::cell::RefCell;
use std::ops::Bound;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Runs of a similar length that are merged into one.
const FAN: usize = 8;
/// Entries below which lengths do not matter.
const SHORT: u64 = 4096;
/// All runs are merged when they have this many times as many entries as the store has keys.
const STALE_TIMES: u64 = 2;
/// Runs that a close writes for segments that other processes filled.
const OTHERS: usize = 16;

/// Writes the run of a sealed segment, or merges runs, or replaces damaged ones. Returns whether
/// there was anything to do.
pub(crate) fn order_step(shared: &Shared) -> Result<bool> {
    let Some(order) = &shared.order else { return Ok(false) };
    let mut refused = order.working.lock().unwrap_or_else(PoisonError::into_inner);
    if give_up_damaged(shared, order)? {
        return Ok(true);
    }
    match write_run(shared, order, |_| true) {
        Ok(true) => Ok(true),
        // After an error too: a merge may free space.
        written => Ok(merge_runs(shared, order, &mut refused)? || written?),
    }
}

/// Writes the runs of sealed segments at a close: of all that puts of this process filled, except
/// for damaged ones, and of a few others. The next writer writes the rest, so that closing a large
/// store without runs does not take long.
pub(crate) fn write_runs(shared: &Shared) -> Result<()> {
    let Some(order) = &shared.order else { return Ok(()) };
    let _one_at_a_time = order.working.lock().unwrap_or_else(PoisonError::into_inner);
    let mut others = OTHERS;
    loop {
        let is_own = |tail: &SegmentTail| tail.is_of_puts();
        let written = match write_run(shared, order, is_own) {
            Ok(false) if others > 0 => {
                others -= 1;
                write_run(shared, order, |_| true)
            }
            written => written,
        };
        match written {
            Ok(true) => {}
            Err(e) if e.kind() != ErrorKind::Corrupt => return Err(e),
            _ => return Ok(()),
        }
    }
}

/// Writes the run of a sealed segment that has none and a wanted tail. Passes over segments with
/// damaged records, and those whose run would replace a foreign file, and returns the error of the
/// first one if there are no others.
fn write_run(
    shared: &Shared,
    order: &KeyOrder,
    is_wanted: impl Fn(&SegmentTail) -> bool,
) -> Result<bool> {
    drop(shared.lock_writer()?); // Nothing is written after a close or a failure.
    if !shared.reserve.is_held() {
        return Ok(false); // Deletes and compaction may need the space.
    }
    let (sources, table) = (order.sources(), shared.lookup.segments.load_full());
    // Opening the log again may have replaced the segment in the table.
    let is_sealed = |segment: &Segment| {
        let now = table.get(segment.slot).filter(|now| now.number == segment.number);
        now.is_some_and(|now| now.hint.get().is_some())
    };
    let is_due = |tail: &&SegmentTail| is_wanted(tail) && is_sealed(&tail.segment);
    let due = sources.tails.iter().filter(is_due).map(|tail| tail.segment.number);
    let (mut due, mut damage): (Vec<u64>, _) = (due.collect(), None);
    due.dedup();
    for number in due {
        match write_run_of(shared, &sources, number) {
            Ok(run) => {
                order.add_run(run);
                shared.measure_tails();
                return Ok(true);
            }
            Err(e) if matches!(e.kind(), ErrorKind::Corrupt | ErrorKind::AlreadyExists) => {
                order.empty_tails(number..=number);
                damage = damage.or(Some(e));
            }
            Err(e) if e.is_disk_full() => return Err(e), // Then there are hardly any puts.
            Err(e) => {
                // The memory of tails must not grow as long as runs cannot be written.
                let full = shared.backpressure.full.load(Ordering::Relaxed);
                order.empty_tails(number..=full);
                shared.measure_tails();
                return Err(e);
            }
        }
    }
    damage.map_or(Ok(false), Err)
}

/// Writes the run of a segment from its tails, after a check of each record: a key that is damaged
/// must not get into the run.
fn write_run_of(shared: &Shared, sources: &Sources, number: u64) -> Result<Arc<KeyRun>> {
    check_place(
        &*shared.dir.disk,
        &shared.dir.file(&key_run_file((number, number))),
        shared.dir.store,
    )?;
    let (mut all, mut buffer) = (Vec::new(), Vec::new());
    let mut of_number = sources.tails.iter().filter(|tail| tail.segment.number == number);
    for tail in of_number.clone() {
        let parts = tail.seek(Bound::Unbounded, Direction::Forward)?;
        all.extend(parts.into_iter().map(Source::Tail));
    }
    // The last one has all records.
    let segment = of_number.next_back().map(|tail| Arc::clone(&tail.segment));
    let is_intact = |entry: KeyEntry<'_>| {
        let Some(segment) = &segment else { return Ok(false) };
        let offset = entry.offset << segment.alignment_log2;
        let (record, _) = segment.read(offset, &mut buffer)?;
        if record.key == entry.key { Ok(true) } else { Err(segment.damage(offset)) }
    };
    write(shared, all, (number, number), |_| {}, is_intact, || Ok(()), || Ok(()))
}

/// Merges runs, if some should be. A merge for which there was no space is not tried again before
/// the runs or the reserve change: each attempt fills the disk.
fn merge_runs(shared: &Shared, order: &KeyOrder, refused: &mut Refused) -> Result<bool> {
    let sources = order.sources();
    drop(shared.lock_writer()?);
    if !shared.reserve.is_held() {
        refused.clear();
        return Ok(false); // Deletes and compaction may need the space.
    }
    let count = to_merge(&sources, shared.counters.keys.load(Ordering::Relaxed));
    if count == 0 {
        return Ok(false);
    }
    let old = &sources.runs[sources.runs.len() - count..];
    let segments: Refused = old.iter().map(|run| (run.meta.first, run.meta.last)).collect();
    if *refused == segments {
        return Ok(false);
    }
    refused.clear();
    merge(shared, order, &sources, old).inspect_err(|e| {
        if e.is_disk_full() {
            *refused = segments;
        }
    })?;
    Ok(true)
}

/// Merges these runs of the sources, which are the newest.
fn merge(shared: &Shared, order: &KeyOrder, sources: &Sources, old: &[Arc<KeyRun>]) -> Result<()> {
    let all = old.iter().map(|run| run.seek(Bound::Unbounded, Direction::Forward).map(Source::Run));
    let segments = (old[0].meta.first, old[old.len() - 1].meta.last);
    check_place(&*shared.dir.disk, &shared.dir.file(&key_run_file(segments)), shared.dir.store)?;
    let lookup = &shared.lookup;
    let table = RefCell::new(lookup.segments.load_full());
    let slots = Sources::clone(sources);
    let is_current = |entry: KeyEntry<'_>| {
        let location = slots.location(&table.borrow(), entry);
        Ok(location.is_some_and(|location| lookup.holds(lookup.hash(entry.key), location)))
    };
    let between = || {
        // So that compacted segments do not stay on disk until the end.
        table.replace(lookup.segments.load_full());
        if shared.options.background && shared.maintenance.signals.is_shut_down() {
            return Err(Error::new(ErrorKind::Failed, "the store is being closed"));
        }
        // Otherwise the tails of new segments would grow as long as this takes.
        while write_run(shared, order, |_| true).unwrap_or(false) {}
        Ok(())
    };
    let all = all.collect::<Result<_>>()?;
    let prefetch = |entry: KeyEntry<'_>| lookup.index.prefetch(lookup.hash(entry.key));
    let new = write(shared, all, segments, prefetch, is_current, between, || sync_log(shared))?;
    order.replace_runs(old, new);
    // A power cut must not keep the removal of the old names and lose the new one.
    shared.dir.sync()?;
    for run in old.iter().filter(|run| (run.meta.first, run.meta.last) != segments) {
        shared.dir.remove_if_there(&key_run_file((run.meta.first, run.meta.last)))?;
    }
    Ok(())
}

/// Stops using runs in which a scan or a merge found damage, so that their segments get new ones.
/// Returns whether there were any.
fn give_up_damaged(shared: &Shared, order: &KeyOrder) -> Result<bool> {
    let mut damaged = order.sources().runs.clone();
    damaged.retain(|run| run.is_damaged());
    if damaged.is_empty() {
        return Ok(false);
    }
    // Under the lock, so that no segment is removed meanwhile.
    let writer = lock_settled(shared)?;
    order.give_up(&damaged, &shared.segments());
    drop(writer);
    shared.dir.check_lock()?;
    for run in &damaged {
        shared.dir.remove_if_there(&key_run_file((run.meta.first, run.meta.last)))?;
    }
    // A power cut must not keep the new runs and a damaged one that covers their segments.
    shared.dir.sync()?;
    Ok(true)
}

/// How many of the newest runs to merge. One that has mostly stale entries is written again.
fn to_merge(sources: &Sources, keys: u64) -> usize {
    // A run would hide the keys of a segment in the middle that has none yet.
    let newest = sources.runs.last().map_or(0, |run| run.meta.first);
    let tails = sources.tails.iter().map(|tail| tail.segment.number);
    let gap = tails.filter(|&number| number < newest).max().unwrap_or(0);
    let runs = &sources.runs[sources.runs.partition_point(|run| run.meta.first <= gap)..];
    let entries: u64 = runs.iter().map(|run| run.meta.entries).sum();
    if entries > STALE_TIMES * keys + SHORT * runs.len() as u64 {
        return runs.len();
    }
    // The runs at the end that are shorter than a limit, for ever larger limits.
    let (mut limit, mut count) = (SHORT, 0);
    while count < runs.len() {
        let lengths = runs.iter().rev().map(|run| run.meta.entries);
        count = lengths.take_while(|&length| length < limit).count();
        if count >= FAN {
            return count;
        }
        limit = limit.saturating_mul(FAN as u64);
    }
    0
}

/// Makes everything durable that was written so far, and records that: a log that ends before is
/// damaged.
fn sync_log(shared: &Shared) -> Result<()> {
    let position = lock_settled(shared)?.position();
    make_durable(shared, position)?;
    shared.dir.record_end(position)
}

/// Writes those entries of sources that `is_kept` accepts as the run of these segments. Passes
/// [`GROUP`] entries to `prefetch` before it passes them to `is_kept`. Calls `between` now and
/// then, and `before` before the run is published.
fn write(
    shared: &Shared,
    all: Vec<Source>,
    segments: (u64, u64),
    prefetch: impl Fn(KeyEntry<'_>),
    mut is_kept: impl FnMut(KeyEntry<'_>) -> Result<bool>,
    between: impl Fn() -> Result<()>,
    before: impl FnOnce() -> Result<()>,
) -> Result<Arc<KeyRun>> {
    shared.dir.check_lock()?;
    let store = shared.dir.store;
    let mut merge = KeyMerge::new(all, Direction::Forward);
    let (mut slices, mut group) = (WorkSlices::new(shared), Group::default());
    shared.dir.stage(&key_run_file(segments), |out| {
        let mut writer = KeyRunWriter::new(out, store, segments)?;
        while group.fill(&mut merge, &prefetch)? {
            for entry in group.entries() {
                if is_kept(entry)? {
                    writer.push(entry)?;
                }
                if slices.advance(entry.key.len() as u64 + 16) {
                    between()?;
                }
            }
        }
        writer.finish()?;
        before()
    })?;
    KeyRun::open(&*shared.dir.disk, shared.options.access, &shared.dir.path, store, segments)
        .map(Arc::new)
}

/// Entries whose memory is prefetched together.
#[derive(Default)]
struct Group {
    keys: Vec<u8>,
    /// End of the key, segment, offset.
    entries: Vec<(usize, u64, u64)>,
}

impl Group {
    /// Takes the next entries of a source and passes each to `prefetch`. Returns whether there are
    /// any.
    fn fill(
        &mut self,
        source: &mut impl KeySource,
        prefetch: impl Fn(KeyEntry<'_>),
    ) -> Result<bool> {
        self.keys.clear();
        self.entries.clear();
        while self.entries.len() < GROUP
            && let Some(entry) = source.current()
        {
            prefetch(entry);
            self.keys.extend_from_slice(entry.key);
            self.entries.push((self.keys.len(), entry.segment, entry.offset));
            source.advance()?;
        }
        Ok(!self.entries.is_empty())
    }

    fn entries(&self) -> impl Iterator<Item = KeyEntry<'_>> {
        self.entries.iter().scan(0, |start, &(end, segment, offset)| {
            let key = &self.keys[std::mem::replace(start, end)..end];
            Some(KeyEntry { key, segment, offset })
        })
    }
}
