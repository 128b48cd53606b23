//! When a write returns: backpressure and durability.

use crate::Result;
use crate::log::failpoints::Failpoint;
use crate::log::format::segment_head::LogPosition;
use crate::log::options::{Durability, WriteOptions};
use crate::log::state::shared::Shared;
use crate::log::state::signals::Task;
use crate::log::write::sync::make_durable;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long a write waits for maintenance at most, approximately, and how often it checks.
pub(crate) const WAIT: Duration = Duration::from_millis(2);
const STEP: Duration = Duration::from_micros(500);
/// The same in a store that approaches the largest number of segments.
pub(crate) const CROWDED_WAIT: Duration = Duration::from_secs(1);

/// Returns when a write that ends at `position` is as durable as the options ask for.
#[inline]
pub(crate) fn acknowledge(
    shared: &Shared,
    position: LogPosition,
    options: WriteOptions,
) -> Result<()> {
    if shared.backpressure.is_behind() {
        wait_for_maintenance(shared);
    }
    match options.durability.unwrap_or(shared.options.durability) {
        Durability::Os => Ok(()),
        Durability::Sync if Failpoint::AcknowledgeWithoutSync.is_on() => Ok(()),
        Durability::Sync => make_durable(shared, position),
    }
}

#[cold]
fn wait_for_maintenance(shared: &Shared) {
    if !shared.options.background || shared.dir.failed.get().is_some() {
        return;
    }
    let backpressure = &shared.backpressure;
    if !backpressure.is_wait_due(shared.counters.log_bytes.load(Ordering::Relaxed)) {
        return;
    }
    shared.wake(Task::Seal);
    shared.wake(Task::Compact);
    shared.wake(Task::Order);
    let is_crowded = backpressure.is_crowded.load(Ordering::Relaxed);
    // Measured by the clock, because a thread that sleeps may wake late on busy processors.
    let (started, wait) = (Instant::now(), if is_crowded { CROWDED_WAIT } else { WAIT });
    while started.elapsed() < wait && backpressure.is_behind() {
        std::thread::sleep(STEP);
    }
}
