//! Group commit: writers that wait for durability at the same time share one sync.
//!
//! The first one to come syncs what is in the log by then (up to the last full segment, if that is
//! all it waits for); those that come meanwhile wait, and one of them syncs for all of them next.
//! The first sync that fails is the last: all that wait get the error, and so does everybody after
//! them, until the store is opened again.

use crate::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a sync waits for those who may share it.
const PATIENCE: Duration = Duration::from_micros(100);

/// A place in the order of writes: number of the segment, and byte in it.
pub(crate) type Position = (u64, u64);

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
    durable: Position,
    /// How many the last sync served.
    group: usize,
    failed: Option<String>,
}

impl GroupCommit {
    /// Returns when everything before `target` is durable. `sync` makes that durable, and returns
    /// up to where everything is: mostly more.
    pub(crate) fn wait(&self, target: Position, sync: impl Fn() -> Result<Position>) -> Result<()> {
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
                Err(_) if crate::log::failpoints::Failpoint::SwallowFailedSync.is_on() => {
                    state.durable = target
                }
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
            // What comes after, a sync that fails too, does not concern this write.
            let is_durable = state.durable >= target;
            // Woken with the lock held, they would all have to wait for it once more.
            drop(state);
            self.changed.notify_all();
            if is_durable {
                return Ok(());
            }
            state = self.lock();
        }
    }

    /// Up to where the log is known to be durable.
    pub(crate) fn durable(&self) -> Position {
        self.lock().durable
    }

    /// Lets others of the last group come first: they were woken together, and are likely to write
    /// again at once. A writer that is alone waits for nobody.
    fn gather(&self, group: usize) {
        let started = Instant::now();
        while self.arrived.load(Ordering::Relaxed) < group && started.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
