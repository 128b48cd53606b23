//! Promotion: a store that is open for reading only becomes the writer, when the last writer has
//! ended or died.
//!
//! 1. The lock of the writer is taken, so the log no longer changes.
//! 2. A refresh shows everything up to the end of the log ([`refresh::catch_up`]).
//! 3. What an opening finds out and a reader does not know is found out: up to where the log is
//!    durable, and which files are not part of it ([`find_log_after`]). The end must be that of the
//!    refresh; then the segments are those of the refresh, too.
//! 4. Segments that are not sealed are opened as by an opening: the reader had copies of them.
//! 5. Files that are not part of the store are removed, and a new segment begins. The last one is
//!    not continued: snapshots, and gets that have begun, hold the reader's copy of it, which does
//!    not grow.
//! 6. Segment table, index and lock become those of a writer.
//!
//! After the refresh only step 6 changes the state in memory, and it cannot fail. On disk, an
//! attempt that fails leaves at most a segment without records. If the index cannot be used on, or
//! the last segment should be continued, the caller opens the store instead.

use crate::Result;
use crate::log::format::names::{BACKUP, BACKUP_UNFINISHED};
use crate::log::maintenance::threads::{MaintenanceThreads, start_maintenance};
use crate::log::open::key_runs::leftover_runs;
use crate::log::open::recovery::{
    LogFiles, ReadBefore, find_log_after, load_segments, lock, prepare_writing,
};
use crate::log::open::refresh::{Refreshed, catch_up, is_replaced};
use crate::log::options::Options;
use crate::log::segments::reserve::Need;
use crate::log::segments::segment::Segment;
use crate::log::segments::segment_table::SegmentTable;
use crate::log::state::refresh_point::RefreshPoint;
use crate::log::state::shared::Shared;
use crate::log::stats::Recovery;
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Instant;

/// What became of a reader.
pub(crate) enum Promoted {
    /// The writer, with its threads if the options ask for them.
    Writer(Option<MaintenanceThreads>),
    /// It is still a reader, without the lock: the store must be opened for writing.
    MustReopen,
}

/// The options of a reader for writing.
pub(crate) fn writer_options(shared: &Shared) -> Options {
    Options { read_only: false, create: false, create_new: false, ..shared.options.clone() }
}

/// Makes a store that is open for reading only the writer. Other threads may read from it
/// meanwhile. Calls must not overlap, nor with a refresh. After an error it is a reader as before.
pub(crate) fn promote(shared: &Arc<Shared>) -> Result<Promoted> {
    let started = Instant::now();
    let dir = &shared.dir;
    if is_replaced(shared)? {
        return Ok(Promoted::MustReopen);
    }
    let lock = lock(&dir.disk, &dir.path)?;
    if catch_up(shared)? == Refreshed::MustReopen {
        return Ok(Promoted::MustReopen);
    }
    let mut point = shared.refresh_point.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(reader) = &*point else { return Ok(Promoted::MustReopen) };
    // A backup counts as written to when a segment begins, and a full disk has no room for one.
    if reader.names.iter().any(|name| [BACKUP, BACKUP_UNFINISHED].contains(&name.as_str())) {
        return Ok(Promoted::MustReopen);
    }
    let options = writer_options(shared);
    let before = shared.lookup.segments.load_full();
    let LogFiles { id, names, chain, known_end } =
        find_log_after(&dir.disk, &dir.path, &options, &read_before(&before))?;
    if id != dir.store || chain.last != reader.last {
        return Ok(Promoted::MustReopen);
    }
    let members: Vec<_> = before.in_order().iter().map(|s| (s.number, s.end())).collect();
    let mut table = SegmentTable::clone(&before);
    let recovered = load_segments((chain, &members), &dir.disk, &dir.path, &mut table, &options)?;
    let recovered = recovered.begin_new(retired(reader, &before, &table));
    let recovered = match &shared.order {
        None => recovered,
        Some(order) => {
            let used = &order.sources().runs;
            recovered.without(leftover_runs(&*dir.disk, &dir.path, id, &names, used))
        }
    };
    let report = recovered.report();
    let start = match prepare_writing(shared, recovered, &mut table, Need::Fill) {
        Err(e) if e.is_disk_full() => return Ok(Promoted::MustReopen),
        prepared => prepared?,
    };
    let threads = start_maintenance(shared)?;
    // No snapshot is taken meanwhile.
    let mut writer = shared.lock_any();
    let index = point.take().expect("it was there before, and is locked").index;
    dir.own(lock, known_end.unwrap_or_default());
    shared.lookup.segments.store(Arc::new(table));
    let mut new = start(index);
    new.tail = shared.order.as_ref().map(|order| order.begin(&new.segment));
    *writer = Some(new);
    let mut recovery = shared.counters.recovery.lock().unwrap_or_else(PoisonError::into_inner);
    *recovery = Recovery { seconds: started.elapsed().as_secs_f64(), ..report };
    Ok(Promoted::Writer(threads))
}

/// What is known of the log from these segments.
fn read_before(table: &SegmentTable<Segment>) -> ReadBefore {
    let is_sealed = |segment: &&Arc<Segment>| segment.hint.get().is_some();
    let mut sealed: BTreeSet<u64> = table.iter().filter(is_sealed).map(|s| s.number).collect();
    sealed.pop_last();
    ReadBefore { sealed, ends: table.iter().map(|s| (s.number, s.end())).collect() }
}

/// The segments that a reader may hold and that are not in the new table, by slot.
fn retired(
    reader: &RefreshPoint,
    before: &SegmentTable<Segment>,
    table: &SegmentTable<Segment>,
) -> Vec<(usize, Weak<Segment>)> {
    let is_kept = |s: &&Arc<Segment>| table.get(s.slot).is_some_and(|now| Arc::ptr_eq(now, s));
    let replaced = before.iter().filter(|segment| !is_kept(segment));
    let replaced = replaced.map(|segment| (segment.slot, Arc::downgrade(segment)));
    reader.retired.iter().cloned().chain(replaced).collect()
}
