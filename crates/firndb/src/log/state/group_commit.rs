//! Group commit: writers that wait for durability at the same time share one sync.
//!
//! The first writer to arrive syncs the log as it is then (up to the last full segment if that is
//! all it waits for). Writers that arrive meanwhile wait, and one of them syncs for all of them
//! next. The first sync that fails is the last: every writer that waits, and every later one, gets
//! the error until the store is opened again.

use crate::log::failpoints::Failpoint;
use crate::log::format::segment_head::LogPosition;
use crate::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a sync waits for writers that may share it.
const GATHER_TIME: Duration = Duration::from_micros(100);

/// The group commit of a store.
#[derive(Default)]
pub(crate) struct GroupCommit {
    state: Mutex<State>,
    changed: Condvar,
    /// Number of calls of [`GroupCommit::wait`] since the last sync began.
    arrived: AtomicUsize,
}

#[derive(Default)]
struct State {
    is_running: bool,
    durable: LogPosition,
    /// Number of writers that the last sync served.
    group: usize,
    failed: Option<String>,
}

impl GroupCommit {
    /// Returns when everything before `target` is durable. `sync` makes that durable and returns
    /// the position up to which everything is, which is usually later.
    pub(crate) fn wait(
        &self,
        target: LogPosition,
        sync: impl Fn() -> Result<LogPosition>,
    ) -> Result<()> {
        self.arrived.fetch_add(1, Ordering::Relaxed);
        let mut state = self.lock();
        loop {
            if let Some(message) = &state.failed {
                return Err(Error::new(ErrorKind::Failed, message.clone()));
            }
            if state.durable >= target {
                return Ok(());
            }
            if state.is_running {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.is_running = true;
            let group = state.group;
            drop(state);
            self.gather(group);
            let served = self.arrived.swap(0, Ordering::Relaxed);
            let synced = sync();
            state = self.lock();
            state.is_running = false;
            state.group = served;
            match synced {
                Err(_) if Failpoint::SwallowFailedSync.is_on() => state.durable = target,
                Ok(position) => state.durable = state.durable.max(position),
                Err(error) => {
                    state.failed = Some(format!(
                        "a sync failed ({error}); nothing more is written: find the cause, then \
                         open the store again"
                    ));
                    self.changed.notify_all();
                    return Err(error);
                }
            }
            // A later sync that fails does not affect this write.
            let is_durable = state.durable >= target;
            // Waking the writers under the lock would make them wait for it again.
            drop(state);
            self.changed.notify_all();
            if is_durable {
                return Ok(());
            }
            state = self.lock();
        }
    }

    /// The position up to which the log is known to be durable.
    pub(crate) fn durable(&self) -> LogPosition {
        self.lock().durable
    }

    /// Waits briefly for the other writers of the last group: they were woken together and are
    /// likely to write again at once. A single writer does not wait.
    fn gather(&self, group: usize) {
        let started = Instant::now();
        while self.arrived.load(Ordering::Relaxed) < group && started.elapsed() < GATHER_TIME {
            std::thread::yield_now();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
