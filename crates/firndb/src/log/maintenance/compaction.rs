//! Compaction: the live records of a segment are appended to the log again, then its file is
//! removed.
//!
//! 1. [`choose`] picks the sealed, durable segment with the largest share of stale bytes, if that
//!    passes the threshold. Deletes count as stale only if no older segment needs them.
//! 2. [`move_records`] goes through its records. Those that the index points to are appended again,
//!    as ordinary writes: so the order of the log stays the order of writes, and a crash in between
//!    leaves two copies, of which the later one counts. A delete is appended again while an older
//!    segment may hold a version of its key; an expired record, which hides older versions too,
//!    becomes a delete.
//! 3. A `Removed` record says that the segment is no longer part of the store.
//! 4. When the log is durable up to that record, [`remove_files`] removes the file and syncs the
//!    directory: records may be stale only because of writes that were not durable before. Segments
//!    that fill up are synced anyway, so compaction itself syncs only when it has nothing else to
//!    do. Only then may a later compaction rely on the file's absence to drop a delete.
//!
//! Readers that hold the segment keep its map. The writer's lock is never held for more than one
//! record.

use crate::log::failpoints::Failpoint;
use crate::log::format::names::{hint_file, segment_file};
use crate::log::format::record::{Kind, Record};
use crate::log::format::segment_head::{HEADER, LogPosition};
use crate::log::maintenance::seal::seal_with;
use crate::log::maintenance::work_slices::WorkSlices;
use crate::log::segments::counter::add;
use crate::log::segments::reserve::Need;
use crate::log::segments::segment::{Records, Segment};
use crate::log::state::frame::Frame;
use crate::log::state::lookup::GROUP;
use crate::log::state::maintenance_state::DepartedSegment;
use crate::log::state::shared::Shared;
use crate::log::stats::SegmentStats;
use crate::log::write::active_segment::{append, has_slot, make_room, roll};
use crate::log::write::apply::{apply, current, forget};
use crate::log::write::put::lock_for;
use crate::log::write::settle::lock_settled;
use crate::log::write::sync::make_durable;
use crate::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a departed segment's file waits for a sync by a writer, and the largest number of such
/// files: each holds a slot of the segment table.
const SYNC_WAIT: Duration = Duration::from_millis(50);
const DEPARTED_MAX: usize = 16;

/// Compacts every segment of which at least this share is stale: see `LogStore::compact`.
pub(crate) fn compact(shared: &Shared, threshold: f64) -> Result<usize> {
    match seal_active(shared, threshold) {
        Err(e) if e.is_disk_full() => {} // Then the active segment is not compacted.
        sealed => sealed?,
    }
    let position = lock_settled(shared)?.position();
    make_durable(shared, position)?;
    finish_compaction(shared)?; // Files that a pause left.
    let newest = lock_settled(shared)?.durable;
    let mut tried = Vec::new();
    loop {
        let before = tried.len();
        let mut full = if_full(link_stale(shared, threshold, newest))?;
        let last = lock_settled(shared)?.link_durable.min(newest);
        full = full.or(if_full(seal_all(shared))?);
        while let Some(victim) = choose(shared, threshold, last, &tried)? {
            evacuate(shared, &victim)?;
            tried.push(victim.number);
        }
        match full {
            None => return Ok(tried.len()),
            // There was no space for the link or for all hints, and now there is more.
            Some(_) if tried.len() > before => {}
            Some(e) => return Err(e),
        }
    }
}

/// Stops compaction in the background after the current record.
pub(crate) fn pause(shared: &Shared) {
    shared.maintenance.is_compaction_paused.store(true, Ordering::Release);
    drop(departed(shared));
}

fn departed(shared: &Shared) -> MutexGuard<'_, Vec<DepartedSegment>> {
    shared.maintenance.departed.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compacts one segment if one passes the threshold of the options. Returns whether it did
/// anything.
pub(crate) fn compact_step(shared: &Shared) -> Result<bool> {
    let is_paused = || shared.maintenance.is_compaction_paused.load(Ordering::Acquire);
    let (last, end) = {
        let writer = lock_settled(shared)?;
        (writer.link_durable, writer.position())
    };
    if shared.maintenance.backup_end == Some(end) {
        return Ok(false); // A backup can be updated only while it is as it was made.
    }
    let mut departed = departed(shared);
    if is_paused() {
        return Ok(false); // No file is removed either.
    }
    let removed = remove_files(shared, &mut departed, shared.group_commit.durable())?;
    let Some(victim) = choose(shared, shared.options.compaction_threshold, last, &[])? else {
        let is_new = |departed: &DepartedSegment| departed.since.elapsed() < SYNC_WAIT;
        let may_wait = shared.options.background && shared.reserve.is_held();
        if may_wait && departed.last().is_some_and(is_new) {
            return Ok(removed); // Sealing the next segment makes it durable.
        }
        return Ok(remove_all(shared, &mut departed)? || removed);
    };
    let moved = move_records(shared, &victim, &mut departed, || !is_paused());
    // Files are removed at once on a disk that is full or was full recently.
    let freed = if !shared.reserve.is_held() {
        remove_all(shared, &mut departed)?
    } else if departed.len() >= DEPARTED_MAX {
        sync_and_remove(shared, &mut departed, DEPARTED_MAX / 2)?
    } else {
        false
    };
    match moved {
        Err(e) if e.is_disk_full() && freed => Ok(true),
        moved => moved,
    }
}

/// Removes the files of departed segments, as far as the log is durable. Returns whether there were
/// any.
fn remove_files(
    shared: &Shared,
    departed: &mut Vec<DepartedSegment>,
    durable: LogPosition,
) -> Result<bool> {
    let is_ready = |departed: &DepartedSegment| {
        departed.position <= durable || Failpoint::RemoveBeforeSync.is_on()
    };
    let count = departed.partition_point(is_ready);
    if count > 0 {
        shared.dir.check_lock()?;
    }
    for DepartedSegment { segment, .. } in &departed[..count] {
        shared.dir.remove_if_there(&segment_file(segment.number))?;
        shared.dir.remove_if_there(&hint_file(segment.number))?;
    }
    if count > 0 {
        shared.dir.sync()?;
    }
    departed.drain(..count);
    Ok(count > 0)
}

/// Makes the log durable and removes the files of all departed segments.
fn remove_all(shared: &Shared, departed: &mut Vec<DepartedSegment>) -> Result<bool> {
    sync_and_remove(shared, departed, departed.len())
}

/// The same for the first `count`.
fn sync_and_remove(
    shared: &Shared,
    departed: &mut Vec<DepartedSegment>,
    count: usize,
) -> Result<bool> {
    let Some(last) = departed[..count].last() else { return Ok(false) };
    let position = last.position;
    if !Failpoint::RemoveBeforeSync.is_on() {
        make_durable(shared, position)?;
    }
    remove_files(shared, departed, position)
}

/// Removes the files of all departed segments.
pub(crate) fn finish_compaction(shared: &Shared) -> Result<()> {
    remove_all(shared, &mut departed(shared)).map(|_| ())
}

/// Begins a new segment if the active one passes the threshold, so that its records can be
/// compacted too. (Without the threshold, repeated calls would leave segments of a few records
/// each.)
fn seal_active(shared: &Shared, threshold: f64) -> Result<()> {
    let mut writer = lock_settled(shared)?;
    // The first record is the link.
    let (segment, mut buffer) = (&writer.segment, Vec::new());
    let link = segment.align(HEADER as u64);
    let first = segment.align(link + segment.peek(link, &mut buffer)?.1 as u64);
    let Some(size) = segment.end().checked_sub(first).filter(|&size| size > 0) else {
        return Ok(());
    };
    let live = writer.segment.live.load(Ordering::Relaxed);
    let segments = shared.segments().len();
    if stale_share(size, live, 1.0) >= threshold && has_slot(shared, segments, Need::Fill) {
        roll(shared, &mut writer, (0, 0), Need::Fill)
    } else {
        Ok(())
    }
}

/// Begins a new segment if a segment up to number `newest` passes the threshold and no link states
/// its durability yet: only others may be removed.
pub(crate) fn link_stale(shared: &Shared, threshold: f64, newest: u64) -> Result<()> {
    let mut writer = lock_settled(shared)?;
    let unlinked = writer.link_durable + 1..=newest;
    let segments = shared.segments();
    let weight = shared.weight(segments.len());
    let passes = |segment: &Arc<Segment>| {
        let live = segment.live.load(Ordering::Relaxed);
        let share = stale_share(segment.size(), live, weight);
        unlinked.contains(&segment.number) && share >= threshold
    };
    if segments.iter().any(passes) {
        roll(shared, &mut writer, (0, 0), Need::Compact)?;
    }
    Ok(())
}

fn seal_all(shared: &Shared) -> Result<()> {
    while seal_with(shared, Need::Compact)? {}
    Ok(())
}

/// The segment with the largest stale share of at least `threshold` among those up to number `last`
/// whose numbers are not in `tried`.
fn choose(
    shared: &Shared,
    threshold: f64,
    last: u64,
    tried: &[u64],
) -> Result<Option<Arc<Segment>>> {
    let segments = shared.segments();
    let weight = shared.weight(segments.len());
    let mut best: Option<(f64, Arc<Segment>)> = None;
    for (age, segment) in segments.iter().enumerate() {
        let is_ready = segment.number <= last && segment.hint.get().is_some();
        if !is_ready || tried.contains(&segment.number) {
            continue;
        }
        let size = segment.size();
        let live = segment.live.load(Ordering::Relaxed);
        let deletes = segment.deletes.load(Ordering::Relaxed);
        let share = |live: u64| stale_share(size, live, weight);
        let mut stale = share(live + deletes);
        if stale < threshold && share(live) >= threshold && deletes > 0 {
            stale = share(live + needed_deletes(shared, segment, &segments[..age])?);
        }
        if stale >= threshold && best.as_ref().is_none_or(|(most, _)| stale > *most) {
            best = Some((stale, Arc::clone(segment)));
        }
    }
    Ok(best.map(|(_, segment)| segment))
}

/// Bytes of a segment's deletes that hide records in older segments. Counted again only after a
/// segment was removed.
fn needed_deletes(shared: &Shared, segment: &Segment, older: &[Arc<Segment>]) -> Result<u64> {
    let removals = shared.counters.segments_removed.load(Ordering::Relaxed) + 1;
    if segment.deletes_checked.swap(removals, Ordering::Relaxed) == removals {
        return Ok(segment.deletes.load(Ordering::Relaxed));
    }
    let (mut needed, mut slices) = (0, WorkSlices::new(shared));
    for item in segment.records(&segment.contents()?) {
        let (_, record, length) = item?;
        slices.advance(length);
        if record.kind == Kind::Delete && is_needed(shared.lookup.hash(record.key), older)? {
            needed += segment.align(length);
        }
    }
    segment.deletes.store(needed, Ordering::Relaxed);
    Ok(needed)
}

/// Copies the live records of a segment and removes it.
pub(crate) fn evacuate(shared: &Shared, victim: &Arc<Segment>) -> Result<()> {
    span!(INFO, "firndb.log.compact", segment = victim.number);
    let mut departed = departed(shared);
    move_records(shared, victim, &mut departed, || true)?;
    remove_all(shared, &mut departed).map(|_| ())
}

/// Copies the live records of a segment as long as `go_on` returns true, then takes the segment out
/// of the store, except for its file. Returns whether it came to the end.
fn move_records(
    shared: &Shared,
    victim: &Arc<Segment>,
    departed: &mut Vec<DepartedSegment>,
    go_on: impl Fn() -> bool,
) -> Result<bool> {
    let started = Instant::now();
    shared.maintenance.is_compacting.store(true, Ordering::Relaxed);
    let moved = move_records_since(shared, victim, departed, go_on, started);
    shared.maintenance.is_compacting.store(false, Ordering::Relaxed);
    let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    shared.counters.compaction_nanos.fetch_add(nanos, Ordering::Relaxed);
    moved
}

fn move_records_since(
    shared: &Shared,
    victim: &Arc<Segment>,
    departed: &mut Vec<DepartedSegment>,
    go_on: impl Fn() -> bool,
    started: Instant,
) -> Result<bool> {
    let mut older = shared.segments();
    if !older.iter().any(|segment| Arc::ptr_eq(segment, victim)) {
        return Ok(false);
    }
    older.extend(departed.iter().map(|departed| Arc::clone(&departed.segment)));
    older.retain(|segment| segment.number < victim.number);
    let older = &older[..];
    let mut copied = 0;
    let mut slices = WorkSlices::new(shared);
    let contents = victim.contents()?;
    let mut records = victim.records(&contents);
    loop {
        let group = next_group(shared, &mut records)?;
        if group.is_empty() {
            break;
        }
        for (offset, record, length, hash) in group {
            if !go_on() {
                return Ok(false);
            }
            slices.advance(length);
            if matches!(record.kind, Kind::Put | Kind::Delete) {
                // Only one compaction runs at a time.
                add(&shared.counters.scanned_records, 1);
            }
            let moved = match record.kind {
                Kind::Put => move_put(shared, victim, offset, (&record, hash), older)?,
                Kind::Delete => move_delete(shared, (&record, hash), older)?,
                Kind::Link | Kind::Removed => false,
            };
            if moved {
                copied += length;
                limit_rate(shared, started, copied);
            }
        }
    }
    departed.push(remove_from_store(shared, victim)?);
    Ok(true)
}

/// Appends the `Removed` record of a segment and takes the segment out of the segment table.
fn remove_from_store(shared: &Shared, victim: &Arc<Segment>) -> Result<DepartedSegment> {
    let mut writer = lock_settled(shared)?;
    let number = Record::removed_value(victim.number);
    let frame = Frame::new(Record::internal(Kind::Removed, &number), 0, None);
    make_room(shared, &mut writer, (frame.length() as u64, 1), Need::Compact)?;
    if !Failpoint::ForgetRemoval.is_on() {
        append(shared, &mut writer, &frame, Need::Compact)?;
    }
    writer.slots.retire(&shared.lookup.segments, victim.slot);
    shared.order.iter().for_each(|order| order.forget(victim.number));
    shared.measure_backpressure(writer.link_durable);
    shared.maintenance.add_removed(victim);
    let (segment, position) = (Arc::clone(victim), writer.position());
    shared.counters.segments_removed.fetch_add(1, Ordering::Relaxed);
    shared.counters.removed_bytes.fetch_add(victim.capacity(), Ordering::Relaxed);
    Ok(DepartedSegment { segment, position, since: Instant::now() })
}

/// The next records, each with its offset, its length and the hash of its key. Prefetches their
/// slots of the index.
fn next_group<'a>(
    shared: &Shared,
    records: &mut Records<'a>,
) -> Result<Vec<(u64, Record<'a>, u64, u64)>> {
    let with_hash = |item: Result<(u64, Record<'a>, u64)>| {
        let (offset, record, length) = item?;
        let hash = shared.lookup.hash(record.key);
        shared.lookup.index.prefetch(hash);
        Ok((offset, record, length, hash))
    };
    records.take(GROUP).map(with_hash).collect()
}

/// Appends a put again if the index points to it. Returns whether a record was appended.
fn move_put(
    shared: &Shared,
    victim: &Segment,
    offset: u64,
    (record, hash): (&Record, u64),
    older: &[Arc<Segment>],
) -> Result<bool> {
    let location = victim.location(offset);
    if !shared.lookup.holds(hash, location) {
        return Ok(false);
    }
    let is_expired = shared.is_expired(record);
    if is_expired && (Failpoint::ForgetExpired.is_on() || !is_needed(hash, older)?) {
        let mut writer = lock_settled(shared)?;
        return forget(shared, &mut writer, hash, location).map(|()| false);
    }
    let copy_of_put = || match Failpoint::ForgetVersion.is_on() {
        false => record.copy_of_put(victim.number, offset),
        true => record.copy_of_put(victim.number, offset + 1),
    };
    let copy = match is_expired {
        true => Record { moved: true, ..Record::delete(record.key) },
        false if Failpoint::ForgetExpiry.is_on() => Record { expires: None, ..copy_of_put() },
        false => copy_of_put(),
    };
    let frame = Frame::new(copy, hash, Some(location));
    let mut writer = lock_for(shared, hash, frame.length() as u64)?;
    if !shared.lookup.holds(hash, location) {
        return Ok(false); // Overwritten meanwhile.
    }
    make_room(shared, &mut writer, (frame.length() as u64, 1), Need::Compact)?;
    apply(shared, &mut writer, &frame, Need::Compact)?;
    Ok(true)
}

/// Appends a delete again if it may hide an older record. Returns whether it did.
fn move_delete(
    shared: &Shared,
    (record, hash): (&Record, u64),
    older: &[Arc<Segment>],
) -> Result<bool> {
    if Failpoint::ForgetTombstone.is_on() || !is_needed(hash, older)? {
        return Ok(false);
    }
    let copy = Record { moved: true, more: false, ..*record };
    let frame = Frame::new(copy, hash, None);
    let mut writer = lock_settled(shared)?;
    if current(shared, &frame)?.is_some() {
        return Ok(false); // A later put hides the same records.
    }
    make_room(shared, &mut writer, (frame.length() as u64, 1), Need::Compact)?;
    apply(shared, &mut writer, &frame, Need::Compact)?;
    Ok(true)
}

/// Sleeps as long as the rate limit requires.
fn limit_rate(shared: &Shared, started: Instant, copied: u64) {
    if shared.options.compaction_rate == 0 {
        return;
    }
    let due = Duration::from_secs_f64(copied as f64 / shared.options.compaction_rate as f64);
    let early = due.saturating_sub(started.elapsed());
    if early > Duration::from_millis(1) {
        std::thread::sleep(early);
    }
}

/// The error of a full disk, if it is that one; other errors are returned at once.
fn if_full(done: Result<()>) -> Result<Option<Error>> {
    match done {
        Err(e) if e.is_disk_full() => Ok(Some(e)),
        done => done.map(|()| None),
    }
}

/// The state of all segments, and how many of them wait for compaction.
pub(crate) fn segment_stats(shared: &Shared) -> (Vec<SegmentStats>, u64) {
    let segments = shared.segments();
    let weight = shared.weight(segments.len());
    let stats = segments.iter().map(|segment| {
        let get = |bytes: &AtomicU64| bytes.load(Ordering::Relaxed);
        let (live_bytes, delete_bytes) = (get(&segment.live), get(&segment.deletes));
        SegmentStats {
            number: segment.number,
            disk_bytes: segment.capacity(),
            used_bytes: segment.end(),
            live_bytes,
            delete_bytes,
            stale_share: stale_share(segment.size(), live_bytes + delete_bytes, weight),
            is_sealed: segment.hint.get().is_some(),
        }
    });
    let stats: Vec<SegmentStats> = stats.collect();
    let threshold = shared.options.compaction_threshold;
    let waits = |stats: &&SegmentStats| stats.is_sealed && stats.stale_share >= threshold;
    let pending = stats.iter().filter(waits).count() as u64;
    (stats, pending)
}

/// The share of a segment that is freed when its live bytes are moved elsewhere, where each takes
/// [`Shared::weight`].
fn stale_share(size: u64, live: u64, weight: f64) -> f64 {
    (1.0 - live as f64 * weight / size as f64).max(0.0)
}

/// Whether one of these segments may contain a value of a key with this hash.
fn is_needed(hash: u64, older: &[Arc<Segment>]) -> Result<bool> {
    for segment in older {
        match segment.hint.get() {
            Some(hint) if !hint.may_contain(hash)? => {}
            _ => return Ok(true),
        }
    }
    Ok(false)
}
