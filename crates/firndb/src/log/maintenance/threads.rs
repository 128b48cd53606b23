//! The maintenance threads. Each does one part, so that none waits for another: preparing the next
//! segment, sealing and checkpoints (which mostly wait for the disk), compaction (which mostly
//! computes), and in an ordered store key runs.

use crate::log::maintenance::compaction::compact_step;
use crate::log::maintenance::key_order::order_step;
use crate::log::maintenance::prepare::prepare_next;
use crate::log::maintenance::steps::{Step, seal_or_checkpoint};
use crate::log::maintenance::thread_priority::use_batch_scheduling;
use crate::log::state::shared::Shared;
use crate::log::state::signals::Task;
use crate::{Error, Result};
use std::sync::Arc;
use std::thread::JoinHandle;

/// The maintenance threads of a store.
pub(crate) struct MaintenanceThreads(Vec<JoinHandle<()>>);

/// Holds the disk space reserve, and starts the threads if the options ask for them. They do
/// nothing while there is no writer.
pub(crate) fn start_maintenance(shared: &Arc<Shared>) -> Result<Option<MaintenanceThreads>> {
    match shared.hold_reserve(0) {
        Err(e) if e.is_disk_full() => {} // The first write that takes space reports it.
        held => held?,
    }
    shared.options.background.then(|| MaintenanceThreads::start(shared)).transpose()
}

impl MaintenanceThreads {
    /// Starts all threads, or none.
    fn start(shared: &Arc<Shared>) -> Result<MaintenanceThreads> {
        let mut threads = MaintenanceThreads(Vec::new());
        for (task, name, step) in [
            (Task::Prepare, "firndb-log-next", prepare_next as Step),
            (Task::Seal, "firndb-log-seal", seal_or_checkpoint),
            (Task::Compact, "firndb-log-move", compact_step),
            (Task::Order, "firndb-log-keys", order_step),
        ] {
            if task == Task::Order && shared.order.is_none() {
                continue;
            }
            let its = Arc::clone(shared);
            let thread = std::thread::Builder::new().name(name.to_string()).spawn(move || {
                use_batch_scheduling();
                let mut seen = u64::MAX; // Checks for work once before it waits.
                while its.maintenance.signals.wait(task, &mut seen) {
                    // An error stops writing, and the next write reports it.
                    while let Ok(true) = step(&its) {}
                }
            });
            match thread {
                Ok(thread) => threads.0.push(thread),
                Err(e) => {
                    threads.stop(shared);
                    shared.maintenance.signals.restart();
                    return Err(Error::io("start a thread of", &shared.dir.path, e));
                }
            }
        }
        Ok(threads)
    }

    pub(crate) fn stop(self, shared: &Shared) {
        shared.maintenance.signals.shut_down();
        // A thread that panicked has nothing left to do.
        self.0.into_iter().for_each(|thread| drop(thread.join()));
    }
}
