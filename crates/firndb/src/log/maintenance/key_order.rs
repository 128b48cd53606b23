//! Maintenance of the key runs of an ordered store: a sealed segment gets a run, and runs are
//! merged, so that a scan has few sources.
//!
//! Runs of similar length are merged when there are [`FAN`] of them at the end of the log, like the
//! levels of a log-structured merge tree (O'Neil et al., 1996). All are merged when most of their
//! entries are stale. A merge drops entries that the index does not hold; snapshots keep the runs
//! of their time. Runs repeat what the segments have: a lost one is written again.
//!
//! An entry may be stale because of a write at the end of the log. If a power cut lost that write
//! but not the merged run, the run would miss a current record. So a merge makes the log durable
//! before it publishes its run.

use crate::log::format::names::key_run_file;
use crate::log::maintenance::work_slices::WorkSlices;
use crate::log::segments::key_merge::KeyMerge;
use crate::log::segments::key_run_file::{KeyRun, KeyRunWriter};
use crate::log::segments::key_source::{Direction, KeyEntry, KeySource};
use crate::log::state::key_order::{KeyOrder, Source, Sources};
use crate::log::state::shared::Shared;
use crate::log::write::settle::lock_settled;
use crate::log::write::sync::make_durable;
use crate::{Error, ErrorKind, Result};
use std::ops::Bound;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Runs of a similar length that are merged into one.
const FAN: usize = 8;
/// Entries below which lengths do not matter.
const SHORT: u64 = 4096;
/// All runs are merged when they have this many times as many entries as the store has keys.
const STALE_TIMES: u64 = 2;

/// Writes the run of a sealed segment, or merges runs. Returns whether there was anything to do.
pub(crate) fn order_step(shared: &Shared) -> Result<bool> {
    let Some(order) = &shared.order else { return Ok(false) };
    let _one_at_a_time = order.working.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(write_run(shared, order)? || merge_runs(shared, order)?)
}

/// Writes the runs of all sealed segments.
pub(crate) fn write_runs(shared: &Shared) -> Result<()> {
    let Some(order) = &shared.order else { return Ok(()) };
    let _one_at_a_time = order.working.lock().unwrap_or_else(PoisonError::into_inner);
    while write_run(shared, order)? {}
    Ok(())
}

/// Writes the run of a sealed segment that has none.
fn write_run(shared: &Shared, order: &KeyOrder) -> Result<bool> {
    let sources = order.sources();
    let segments = shared.segments();
    let sealed = segments.iter().filter(|segment| segment.hint.get().is_some());
    let is_tail = |number: u64| sources.tails.iter().any(|tail| tail.segment.number == number);
    let Some(number) = sealed.map(|segment| segment.number).find(|&number| is_tail(number)) else {
        return Ok(false);
    };
    let mut all = Vec::new();
    for tail in sources.tails.iter().filter(|tail| tail.segment.number == number) {
        let parts = tail.seek(Bound::Unbounded, Direction::Forward)?;
        all.extend(parts.into_iter().map(Source::Tail));
    }
    let run = write(shared, all, (number, number), |_| true, || Ok(()))?;
    order.add_run(run);
    Ok(true)
}

/// Merges runs, if some should be.
fn merge_runs(shared: &Shared, order: &KeyOrder) -> Result<bool> {
    let sources = order.sources();
    let count = to_merge(&sources, shared.counters.keys.load(Ordering::Relaxed));
    if count < 2 {
        return Ok(false);
    }
    let old = &sources.runs[sources.runs.len() - count..];
    let all = old.iter().map(|run| run.seek(Bound::Unbounded, Direction::Forward).map(Source::Run));
    let segments = (old[0].meta.first, old[count - 1].meta.last);
    let (lookup, table) = (&shared.lookup, shared.lookup.segments.load_full());
    let slots = Sources::clone(&sources);
    let is_current = |entry: KeyEntry<'_>| {
        let location = slots.location(&table, entry);
        location.is_some_and(|location| lookup.holds(lookup.hash(entry.key), location))
    };
    let write = |all| write(shared, all, segments, is_current, || sync_log(shared));
    let new = match all.collect::<Result<_>>().and_then(write) {
        Err(e) if e.kind() == ErrorKind::Corrupt => return give_up_damaged(shared, order, old, e),
        written => written?,
    };
    order.replace_runs(old, new);
    // A power cut must not keep the removal of the old names and lose the new one.
    shared.dir.sync()?;
    for run in old {
        shared.dir.remove_if_there(&key_run_file((run.meta.first, run.meta.last)))?;
    }
    Ok(true)
}

/// Stops using the runs that are damaged: their segments get new ones. Returns the error if no run
/// is damaged.
fn give_up_damaged(
    shared: &Shared,
    order: &KeyOrder,
    runs: &[Arc<KeyRun>],
    error: Error,
) -> Result<bool> {
    let damaged: Vec<_> = runs.iter().filter(|run| run.verify().is_err()).cloned().collect();
    if damaged.is_empty() {
        return Err(error);
    }
    // Under the lock, so that no segment is removed meanwhile.
    let writer = lock_settled(shared)?;
    order.give_up(&damaged, &shared.segments());
    drop(writer);
    for run in &damaged {
        shared.dir.remove_if_there(&key_run_file((run.meta.first, run.meta.last)))?;
    }
    Ok(true)
}

/// How many of the newest runs to merge.
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

/// Writes those entries of sources that `is_kept` accepts as the run of these segments. Calls
/// `before` before the run is published.
fn write(
    shared: &Shared,
    all: Vec<Source>,
    segments: (u64, u64),
    is_kept: impl Fn(KeyEntry<'_>) -> bool,
    before: impl FnOnce() -> Result<()>,
) -> Result<Arc<KeyRun>> {
    drop(shared.lock_writer()?); // Nothing is written after a close or a failure.
    shared.dir.check_lock()?;
    let store = shared.dir.store;
    let mut merge = KeyMerge::new(all, Direction::Forward);
    let mut slices = WorkSlices::new(shared);
    shared.dir.stage(&key_run_file(segments), |out| {
        let mut writer = KeyRunWriter::new(out, store, segments)?;
        while let Some(entry) = merge.current() {
            if is_kept(entry) {
                writer.push(entry)?;
            }
            slices.advance(entry.key.len() as u64 + 16);
            merge.advance()?;
        }
        writer.finish()?;
        before()
    })?;
    KeyRun::open(&*shared.dir.disk, shared.options.access, &shared.dir.path, store, segments)
        .map(Arc::new)
}
