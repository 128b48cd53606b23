//! Sealing: making a full segment durable and writing its hint.

use crate::Result;
use crate::log::failpoints::Failpoint;
use crate::log::format::hint::{HintMeta, hash_bits};
use crate::log::format::names;
use crate::log::format::record::Kind;
use crate::log::maintenance::work_slices::{WorkSlices, rest};
use crate::log::segments::hint_file::{self, Hint};
use crate::log::segments::reserve::Need;
use crate::log::segments::segment::Segment;
use crate::log::state::shared::Shared;
use crate::log::write::settle::lock_settled;
use crate::log::write::sync::make_durable;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Makes the oldest full segment durable that is not sealed yet, and writes its hint. Returns
/// whether there was one.
pub(crate) fn seal(shared: &Shared) -> Result<bool> {
    seal_with(shared, Need::Hint)
}

/// [`seal`] with another part of the disk space reserve.
pub(crate) fn seal_with(shared: &Shared, need: Need) -> Result<bool> {
    let sealing = &shared.maintenance.sealing;
    let _one_at_a_time = sealing.lock().unwrap_or_else(PoisonError::into_inner);
    let (active, durable) = {
        let writer = lock_settled(shared)?;
        (writer.segment.number, writer.durable)
    };
    let segments = shared.segments();
    let is_due = |s: &&Arc<Segment>| s.number < active && s.hint.get().is_none();
    let sealed = &shared.backpressure.sealed;
    let Some(segment) = segments.iter().find(is_due) else {
        sealed.store(active.saturating_sub(1), Ordering::Relaxed);
        return Ok(false);
    };
    if segment.number > durable && !Failpoint::HintBeforeSync.is_on() {
        make_durable(shared, (segment.number, segment.end()))?;
    }
    let hint = shared.spend_reserve(need, || write_hint(shared, segment))?;
    let _ = segment.hint.set(hint);
    segment.seal();
    sealed.store(segment.number, Ordering::Relaxed);
    Ok(true)
}

/// Writes the hint of a segment, all of which is durable, and opens it.
fn write_hint(shared: &Shared, segment: &Segment) -> Result<Hint> {
    let (store, number) = (shared.dir.store, segment.number);
    let mut meta =
        HintMeta { store, segment: number, end: segment.end(), put_bytes: 0, delete_bytes: 0 };
    let (mut puts, mut deletes) = (Vec::new(), Vec::new());
    let mut slices = WorkSlices::new(shared);
    for item in segment.records(&segment.contents()?) {
        let (offset, record, length) = item?;
        slices.advance(length);
        let bytes = segment.align(length);
        let entry = |key: &[u8]| {
            (hash_bits(shared.lookup.hash(key)), (offset >> segment.alignment_log2) as u32)
        };
        match record.kind {
            Kind::Put => {
                puts.push(entry(record.key));
                meta.put_bytes += bytes;
            }
            Kind::Delete => {
                deletes.push(entry(record.key));
                meta.delete_bytes += bytes;
            }
            Kind::Link | Kind::Removed => {}
        }
    }
    for entries in [&mut puts, &mut deletes] {
        rest(shared);
        entries.sort_unstable();
    }
    rest(shared);
    // The next sync of the directory makes its name durable; until then the hint only saves time.
    shared
        .dir
        .stage(&names::hint_file(number), |out| hint_file::write(out, &meta, &puts, &deletes))?;
    Hint::open(&*shared.dir.disk, shared.options.access, &shared.dir.path, store, number)
}
