//! Making the log durable.

use crate::Result;
use crate::log::failpoints::Failpoint;
use crate::log::format::segment_head::LogPosition;
use crate::log::segments::segment::Segment;
use crate::log::state::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Returns when everything before `target` is durable. Writers that wait at the same time share one
/// sync. After an error nothing is written until the store is opened again.
pub(crate) fn make_durable(shared: &Shared, target: LogPosition) -> Result<()> {
    let sync = || sync_log(shared, target).inspect_err(|e| shared.dir.fail(e));
    shared.group_commit.wait(target, sync)
}

/// Syncs all segments in order, up to the end of the log; only up to the last full segment if the
/// target is not after it, because pages that are being written stop the writer and interrupt all
/// processors.
fn sync_log(shared: &Shared, target: LogPosition) -> Result<LogPosition> {
    shared.dir.check_lock()?;
    let (mut segments, active, mut end) = {
        let writer = shared.lock_any();
        let Some(writer) = &*writer else { return Ok((0, 0)) };
        (writer.unsynced.clone(), Arc::clone(&writer.segment), writer.position())
    };
    if Failpoint::SyncActiveOnly.is_on() {
        segments.clear();
    }
    if target > (end.0, 0) {
        segments.push(active);
    } else {
        end = (end.0, 0);
    }
    for segment in &segments {
        let to = if segment.number == end.0 { end.1 } else { segment.end() };
        segment.sync(to)?;
    }
    let is_unnamed = |segment: &Arc<Segment>| !segment.is_named.load(Ordering::Acquire);
    if segments.iter().any(is_unnamed) && !Failpoint::NameWithoutDirectorySync.is_on() {
        shared.dir.sync()?;
        segments.iter().for_each(|segment| segment.is_named.store(true, Ordering::Release));
    }
    shared.counters.syncs.fetch_add(1, Ordering::Relaxed);
    if let Some(writer) = &mut *shared.lock_any() {
        writer.unsynced.retain(|segment| segment.number >= end.0);
        let sealed = if Failpoint::DurableTooFar.is_on() { end.0 } else { end.0 - 1 };
        writer.durable = writer.durable.max(sealed);
    }
    Ok(end)
}
