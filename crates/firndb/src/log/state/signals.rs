//! Wakes the maintenance threads, each by a signal of its own: with fewer processors than threads,
//! a writer that woke all of them would have to wait for all of them.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long a thread sleeps without a signal.
const PERIOD: Duration = Duration::from_millis(50);

/// What a maintenance thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Prepares the next segment and memory for the index.
    Prepare,
    /// Seals segments and takes checkpoints.
    Seal,
    /// Compacts.
    Compact,
    /// Writes and merges the key runs of an ordered store.
    Order,
}

/// One signal per task.
#[derive(Default)]
pub(crate) struct Signals([Signal; 4]);

#[derive(Default)]
struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    calls: u64,
    is_shutdown: bool,
}

impl Signals {
    /// Wakes the thread of a task.
    pub(crate) fn wake(&self, task: Task) {
        self.0[task as usize].change(|state| state.calls += 1);
    }

    /// Waits until there may be work since call number `seen`. Returns `false` at shutdown.
    pub(crate) fn wait(&self, task: Task, seen: &mut u64) -> bool {
        let Signal { state, changed } = &self.0[task as usize];
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_idle = |state: &mut State| state.calls == *seen && !state.is_shutdown;
        let waited = changed.wait_timeout_while(state, PERIOD, is_idle);
        let state = waited.unwrap_or_else(PoisonError::into_inner).0;
        *seen = state.calls;
        !state.is_shutdown
    }

    /// Ends all threads.
    pub(crate) fn shut_down(&self) {
        self.0.iter().for_each(|signal| signal.change(|state| state.is_shutdown = true));
    }

    /// Allows new threads after all threads have ended.
    pub(crate) fn restart(&self) {
        self.0.iter().for_each(|signal| signal.change(|state| state.is_shutdown = false));
    }

    pub(crate) fn is_shut_down(&self) -> bool {
        self.0[0].state.lock().unwrap_or_else(PoisonError::into_inner).is_shutdown
    }
}

impl Signal {
    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}
