//! Refresh: a store that is open for reading only continues from where the log ended at the last
//! look.
//!
//! The log is one order of all changes, and compaction appends what it moves, so all changes since
//! are in the records after that end. They are put into the index as an opening replays records
//! over a checkpoint. A delete may be missing, if compaction found that it hides nothing any more.
//! Then every record that it hid was in segments that are gone, and the entries that the index
//! still has of those are removed too. (A segment that was written and compacted away in between is
//! not missed: its live records were appended again.)
//!
//! Everything is read and checked before the index changes.
//!
//! Usually little happened. If no file came or went, and no segment began that was created in
//! advance, all changes are in the segment in which the log ended: if there are zeros after its end
//! there are none, and otherwise only that segment is read. As each of these facts stays true once
//! it is, the reader then shows a state that existed during the call.

use crate::log::format::names::{segment_file, segment_number};
use crate::log::format::record::Kind;
use crate::log::format::segment_head::{LogPosition, SegmentHeader, scan};
use crate::log::open::chain::{Chain, SegmentFile, survey};
use crate::log::open::durable_end;
use crate::log::open::key_runs::find_runs;
use crate::log::open::loader::Loader;
use crate::log::open::recovery::{LogFiles, find_log, is_transient};
use crate::log::options::Access;
use crate::log::segments::durable_end_file;
use crate::log::segments::key_run_file::KeyRun;
use crate::log::segments::segment::{Segment, SegmentBytes};
use crate::log::segments::segment_table::SegmentTable;
use crate::log::state::refresh_point::RefreshPoint;
use crate::log::state::shared::Shared;
use crate::{ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// If more than this share of the log is new, and it is more than this many bytes, opening the
/// store again is faster, because that reads hints instead of records.
const SHARE: u64 = 4;
const MUCH: u64 = 64 << 20;
/// The same after so many doublings of the index: an index that is filled anew knows more bits of
/// each hash.
const DOUBLINGS: u32 = 5;

/// Bytes at the beginning of a segment, and before and after the end of the log, that are compared
/// to see whether it changed: the fifth byte of a record is never 0.
const LOOK: usize = 64;

/// The changes since the last look.
struct Changes {
    names: Vec<String>,
    /// Where the log ends.
    last: LogPosition,
    /// Segments with new records.
    new: Vec<ChangedSegment>,
    /// Slots of segments that are gone.
    gone: Vec<usize>,
    /// In an ordered store, its key runs, unless they are those of the last look.
    runs: Option<Vec<Arc<KeyRun>>>,
}

/// A segment of the log as it is now.
struct ChangedSegment {
    segment: Arc<Segment>,
    header: SegmentHeader,
    /// Where its new records begin.
    from: u64,
}

/// What a refresh found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refreshed {
    /// The store shows the newest state. Says whether that differs from the state before.
    UpToDate { has_changed: bool },
    /// The store must be opened again.
    MustReopen,
}

/// Brings a store that is open for reading only up to date. Other threads may read from it
/// meanwhile. If it must be opened again, it shows the old state until then, or some of the changes
/// if there was no memory for all of them. Calls must not overlap.
pub(crate) fn catch_up(shared: &Shared) -> Result<Refreshed> {
    let mut point = shared.refresh_point.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(known) = &*point else { return Ok(Refreshed::MustReopen) };
    if shared.options.access == Access::Buffered {
        // The records that were read before are not in memory to compare with.
        return Ok(Refreshed::MustReopen);
    }
    let is_vague = shared.lookup.index.pages.base() >= known.level + DOUBLINGS;
    if is_vague || is_replaced(shared)? {
        return Ok(Refreshed::MustReopen);
    }
    let changes = match changes_of_last(shared, known) {
        Ok(None) => all_changes(shared, known),
        // The writer may have removed a file meanwhile, or a file is damaged.
        Err(e) if is_transient(&e) => all_changes(shared, known),
        changes => changes,
    };
    match changes {
        Ok(Some(changes)) => Ok(apply(shared, &mut point, changes)),
        Ok(None) => Ok(Refreshed::MustReopen),
        // The same may have happened again.
        Err(e) if is_transient(&e) => Ok(Refreshed::MustReopen),
        Err(e) => Err(e),
    }
}

/// Whether another directory is at the path now.
pub(crate) fn is_replaced(shared: &Shared) -> Result<bool> {
    match shared.dir.disk.check_held() {
        Err(e) if e.kind() == ErrorKind::Failed => Ok(true),
        checked => checked.map(|()| false),
    }
}

/// The changes since the last look; `None` if it is no longer the same log, or if there
/// are too many.
fn all_changes(shared: &Shared, point: &RefreshPoint) -> Result<Option<Changes>> {
    let (dir, last) = (&shared.dir, point.last);
    let LogFiles { id, names, chain, .. } = find_log(&dir.disk, &dir.path, &shared.options)?;
    let members = chain.members()?;
    if id != dir.store || chain.last < last || is_much(&members, last) {
        return Ok(None);
    }
    let table = shared.lookup.segments.load();
    let mut known: BTreeMap<u64, _> = table.iter().map(|s| (s.number, s)).collect();
    // Slots of segments that are gone are not reused: the index has locations there.
    let is_held = |slot: usize| {
        point.retired.iter().any(|(its, held)| *its == slot && held.strong_count() > 0)
    };
    let slots = 0..shared.options.segments_max;
    let mut free = slots.filter(|&slot| table.get(slot).is_none() && !is_held(slot));
    let mut new = Vec::new();
    for &(number, end) in &members {
        let before = known.remove(&number);
        let slot = before.map(|segment| segment.slot).or_else(|| free.next());
        let is_same_log = match before {
            Some(before) if number == last.0 => {
                before.end() <= end && chain.begins_with(number, before.filled())
            }
            Some(before) => before.end() == end,
            None => number > last.0,
        };
        let (true, Some(slot)) = (is_same_log, slot) else { return Ok(None) };
        // A segment that was copied because a writer appended to it is mapped when it has a hint.
        let is_sealed =
            |before: &Arc<Segment>| before.hint.get().is_none() && chain.hints.contains(&number);
        if before.is_none_or(|before| before.end() < end || is_sealed(before)) {
            new.push(read_again(shared, &chain, (number, end), slot, before)?);
        }
    }
    let gone = known.values().map(|segment| segment.slot).collect();
    let runs = match &shared.order {
        None => None,
        Some(order) => {
            let (disk, known) = ((&*dir.disk, shared.options.access), order.sources());
            Some(find_runs(disk, &dir.path, id, chain.last.0, &names, &known)?)
        }
    };
    Ok(Some(Changes { names, last: chain.last, new, gone, runs }))
}

/// The changes if they can only be in the segment in which the log ended; `None` if there may be
/// others.
fn changes_of_last(shared: &Shared, point: &RefreshPoint) -> Result<Option<Changes>> {
    let dir = &shared.dir;
    let (number, end) = point.last;
    let has_begun = |later: u64| -> Result<bool> {
        let file = dir.disk.open(&dir.segment(later))?;
        let mut head = [0; LOOK];
        if file.len()? >= LOOK as u64 {
            file.read_at(0, &mut head)?;
            return Ok(head != [0; LOOK]);
        }
        Ok(true)
    };
    let table = shared.lookup.segments.load();
    let before = table.iter().find(|segment| segment.number == number);
    let Some(before) = before.filter(|before| before.hint.get().is_none()) else {
        return Ok(None);
    };
    if dir.disk.list(&dir.path)? != point.names {
        return Ok(None);
    }
    let later = point.names.iter().filter_map(|name| segment_number(name)).filter(|&n| n > number);
    for later in later {
        if has_begun(later)? {
            return Ok(None);
        }
    }
    let mut changes = Changes {
        names: point.names.clone(),
        last: point.last,
        new: vec![],
        gone: vec![],
        runs: None,
    };
    if is_unchanged(shared, before, end)? {
        return Ok(Some(changes));
    }
    let known_end = durable_end_file::read(&*dir.disk, &dir.path)?;
    let known_end = known_end.and_then(|end| end.position_in(dir.store));
    let names = [segment_file(number)];
    let files = survey(&dir.disk, &dir.path, &names, &BTreeSet::new(), &shared.options)?;
    let [SegmentFile { map, head: Ok(head), .. }] = &files[..] else { return Ok(None) };
    if !map.starts_with(before.filled()) {
        return Ok(None);
    }
    let mut is_plain = true;
    changes.last.1 = scan(map, &head.header, end, |_, record, _| {
        is_plain &= matches!(record.kind, Kind::Put | Kind::Delete);
        Ok(())
    })?;
    if !is_plain {
        return Ok(None);
    }
    durable_end::check(known_end, changes.last, &dir.path)?;
    if changes.last.1 == end {
        // After the end are bytes of a writer that died or that is writing just now.
        return Ok(Some(changes));
    }
    let bytes = SegmentBytes::Sealed(map.clone(), changes.last.1 as usize);
    let segment =
        Segment::new(number, before.slot, before.alignment_log2, before.path.clone(), bytes);
    segment.inherit(before);
    changes.new.push(ChangedSegment { segment: Arc::new(segment), header: head.header, from: end });
    Ok(Some(changes))
}

/// Whether nothing was appended to a segment whose records ended at `end`. (If the file was
/// replaced by another segment with the same last record, that is noticed when it grows.)
fn is_unchanged(shared: &Shared, before: &Segment, end: u64) -> Result<bool> {
    let file = shared.dir.disk.open(&before.path)?;
    let filled = before.filled();
    let length = usize::try_from(file.len()?).unwrap_or(usize::MAX);
    let after = length.min(before.align(end) as usize + LOOK);
    if after < filled.len() || filled.len() < LOOK {
        return Ok(false);
    }
    let mut tail = vec![0; after - (filled.len() - LOOK)];
    let mut head = [0; LOOK];
    file.read_at(0, &mut head)?;
    file.read_at((filled.len() - LOOK) as u64, &mut tail)?;
    let (known, new) = tail.split_at(LOOK);
    let is_same = filled.starts_with(&head) && filled.ends_with(known);
    Ok(is_same && new.iter().all(|&byte| byte == 0))
}

/// Reads a segment again, which replaces its earlier version `before`. Checks the new records.
fn read_again(
    shared: &Shared,
    chain: &Chain,
    (number, end): LogPosition,
    slot: usize,
    before: Option<&Arc<Segment>>,
) -> Result<ChangedSegment> {
    let dir = &shared.dir;
    let path = dir.segment(number);
    let (file, head) = chain.segment(number, &path)?;
    let bytes = SegmentBytes::Sealed(file.map.clone(), end as usize);
    let segment = Segment::new(number, slot, head.header.alignment_log2, path, bytes);
    chain.set_hint(&*dir.disk, shared.options.access, &dir.path, &segment);
    if let Some(before) = before {
        segment.inherit(before);
    }
    let from = before.map_or(head.end, |before| before.end());
    if from < end {
        segment.expect_all();
    }
    let found = scan(segment.filled(), &head.header, from, |_, _, _| Ok(()))?;
    if found != end {
        return Err(segment.damage(found));
    }
    Ok(ChangedSegment { segment: Arc::new(segment), header: head.header, from })
}

/// Puts changes into the index, which others may search meanwhile: a segment is in the table before
/// the index has a location in it, until the index has none any more. The store must be opened
/// again if a snapshot shows the state before, or if there is no memory for the changes.
fn apply(shared: &Shared, point: &mut Option<RefreshPoint>, changes: Changes) -> Refreshed {
    // No snapshot is taken meanwhile.
    let _quiet = shared.lock_any();
    let is_same = changes.new.is_empty() && changes.gone.is_empty();
    if !is_same && !shared.snapshots.is_empty() {
        return Refreshed::MustReopen;
    }
    let Some(RefreshPoint { last, index, level, mut retired, .. }) = point.take() else {
        return Refreshed::MustReopen;
    };
    let has_changed = last != changes.last;
    let mut table = SegmentTable::clone(&shared.lookup.segments.load());
    retired.retain(|(_, held)| held.strong_count() > 0);
    let replaced = changes.new.iter().filter_map(|new| table.get(new.segment.slot));
    retired.extend(replaced.map(|segment| (segment.slot, Arc::downgrade(segment))));
    changes.new.iter().for_each(|new| table.put(new.segment.slot, Arc::clone(&new.segment)));
    let mut loader = Loader::over(shared.dir.store, &shared.lookup.index, index, table);
    if !is_same {
        shared.lookup.segments.store(Arc::new(loader.table.clone()));
        let scanned = changes.new.iter().try_for_each(|new| {
            let bytes = new.segment.contents()?;
            loader.scan_from(&new.segment, &bytes, &new.header, new.from)
        });
        if scanned.is_err() {
            return Refreshed::MustReopen;
        }
        if !changes.gone.is_empty() {
            let gone = changes.gone.iter().filter_map(|&slot| loader.table.take(slot));
            retired.extend(gone.map(|segment| (segment.slot, Arc::downgrade(&segment))));
            loader.sweep();
            shared.lookup.segments.store(Arc::new(loader.table.clone()));
        }
        shared.counters.keys.store(loader.writer.entries(), Ordering::Relaxed);
        shared.counters.live_bytes.store(loader.live_bytes(), Ordering::Relaxed);
    }
    if let Some(order) = &shared.order {
        let known = order.sources();
        let runs = changes.runs.unwrap_or_else(|| known.intact_runs());
        let Ok(sources) = known.followed_by(runs, &loader.table.in_order()) else {
            return Refreshed::MustReopen;
        };
        order.store(sources);
    }
    let (names, last) = (changes.names, changes.last);
    *point = Some(RefreshPoint { names, last, index: loader.writer, level, retired });
    Refreshed::UpToDate { has_changed }
}

/// Whether so much was written after `last` that opening the store again is faster.
fn is_much(members: &[LogPosition], last: LogPosition) -> bool {
    let before = |&(number, end): &LogPosition| match number.cmp(&last.0) {
        std::cmp::Ordering::Less => end,
        std::cmp::Ordering::Equal => last.1.min(end),
        std::cmp::Ordering::Greater => 0,
    };
    let all: u64 = members.iter().map(|member| member.1).sum();
    let new = all - members.iter().map(before).sum::<u64>();
    new > MUCH && new > all / SHARE
}
