//! The order of maintenance steps.

use crate::Result;
use crate::log::maintenance::checkpoint::checkpoint_step;
use crate::log::maintenance::compaction::compact_step;
use crate::log::maintenance::key_order::order_step;
use crate::log::maintenance::prepare::prepare_segment;
use crate::log::maintenance::seal::seal;
use crate::log::state::shared::Shared;
use crate::log::state::signals::Task;

/// A maintenance step. Returns whether it did anything.
pub(crate) type Step = fn(&Shared) -> Result<bool>;

/// Does one step of maintenance: see `LogStore::maintain`.
pub(crate) fn maintain(shared: &Shared) -> Result<bool> {
    let mut failed = None;
    let steps: [(Step, bool); 5] = [
        (prepare_segment, true),
        (seal, true),
        (order_step, false),
        (checkpoint_step, true),
        (compact_step, true),
    ];
    for (step, is_needed) in steps {
        match step(shared) {
            Ok(false) => {}
            // Compaction comes last and may free space. Key runs make scans faster, and nothing
            // else depends on them.
            Err(e) if e.is_disk_full() || !is_needed => failed = failed.or(Some(e)),
            done => return done,
        }
    }
    failed.map_or(Ok(false), Err)
}

/// Seals a segment or takes a checkpoint. Compaction and checkpoints work on sealed segments, so
/// sealing comes first.
pub(crate) fn seal_or_checkpoint(shared: &Shared) -> Result<bool> {
    let did = seal(shared)? || checkpoint_step(shared)?;
    if did {
        shared.wake(Task::Compact); // There may be more to compact now.
        shared.wake(Task::Order);
    }
    Ok(did)
}
