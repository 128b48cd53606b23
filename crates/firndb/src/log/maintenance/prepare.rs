//! Preparing what writers will need next: the disk space reserve, the next segment, memory for the
//! index.

use crate::Result;
use crate::log::maintenance::work_slices::rest;
use crate::log::segments::reserve::remove_if_there;
use crate::log::state::log_writer::SpareSegment;
use crate::log::state::shared::Shared;
use crate::log::write::active_segment::begin_spare;
use crate::log::write::settle::lock_settled;

/// Bytes of a new segment that are prepared per slice of work.
const SLICE: usize = 256 << 10;
/// Bytes of a new segment that are prepared. Writers prepare the rest piece by piece, so that it
/// does not take memory long before it is needed.
const PREPARED_MAX: usize = 64 << 20;

/// Prepares memory for the index and the next segment. Returns whether it created a segment.
pub(crate) fn prepare_next(shared: &Shared) -> Result<bool> {
    shared.lookup.index.pages.reserve();
    prepare_segment(shared)
}

/// Creates the file of the next segment when it is time, and the disk space reserve. Returns
/// whether it created a segment.
pub(crate) fn prepare_segment(shared: &Shared) -> Result<bool> {
    shared.hold_reserve(0)?;
    let Some(number) = begin_spare(shared, &mut *lock_settled(shared)?)? else { return Ok(false) };
    let created = create(shared, number);
    let (spare, error) = match created {
        Ok(spare) => (Some(spare), None),
        Err(error) => (None, Some(error)),
    };
    let exists = spare.is_some();
    if !lock_settled(shared)?.keep_spare(number, spare) && exists {
        shared.dir.disk.remove(&shared.dir.segment(number))?;
    }
    error.map_or(Ok(true), Err)
}

fn create(shared: &Shared, number: u64) -> Result<SpareSegment> {
    let capacity = shared.capacity_for(shared.segments().len());
    let (path, mode) = (shared.dir.segment(number), shared.options.append_mode);
    let (map, mut writer) = shared.dir.disk.create_append_map(&path, capacity as usize, mode)?;
    shared.dir.sync()?;
    let prepared = (0..PREPARED_MAX.min(capacity as usize)).step_by(SLICE).try_for_each(|start| {
        rest(shared);
        writer.prepare(start + SLICE)
    });
    if let Err(e) = prepared {
        return remove_if_there(&*shared.dir.disk, &path).and(Err(e));
    }
    Ok(SpareSegment { number, map, writer })
}
