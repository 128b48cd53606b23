//! Calls that Ctrl-C interrupts, although they wait for disks, networks and threads.

use super::origin::Switch;
use crate::error::Result;
use crate::progress::Reporter;
use pyo3::prelude::*;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// Time between two looks for signals.
const PAUSE: Duration = Duration::from_millis(50);

/// How far a call is. Any thread may count.
#[derive(Default)]
pub struct Counter {
    done: AtomicU64,
    /// 0 while it is unknown.
    total: AtomicU64,
}

impl Counter {
    pub fn set(&self, done: u64, total: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    pub fn set_total(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }

    pub fn add(&self, done: u64) {
        self.done.fetch_add(done, Ordering::Relaxed);
    }

    fn get(&self) -> (u64, Option<u64>) {
        let total = self.total.load(Ordering::Relaxed);
        (self.done.load(Ordering::Relaxed), Some(total).filter(|&total| total > 0))
    }
}

/// Runs `call` without the GIL in a thread of its own. This thread waits, reports the progress and
/// lets signals interrupt the wait: then it turns the switch off, so that the call ends soon, and
/// returns what the signal handler or the callback has raised.
pub fn run<T: Send>(
    py: Python<'_>,
    switch: &Switch,
    progress: Option<Py<PyAny>>,
    call: impl FnOnce(&Counter) -> firndb::Result<T> + Send,
) -> Result<T> {
    let (reporter, counter) = (Reporter::new(progress), Counter::default());
    let (reporter, counter) = (&reporter, &counter);
    py.detach(|| {
        let (raised, outcome) = thread::scope(|scope| {
            let (done, wait) = sync_channel::<()>(1);
            let worker = scope.spawn(move || {
                let _done = done; // Dropped at the end, also by a panic.
                call(counter)
            });
            let mut raised = None;
            while let Err(RecvTimeoutError::Timeout) = wait.recv_timeout(PAUSE) {
                let (done, total) = counter.get();
                if raised.is_none()
                    && let Err(error) = reporter.report(done, total)
                {
                    switch.set(true);
                    raised = Some(error);
                }
            }
            (raised, worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        if let Some(error) = raised {
            return Err(error);
        }
        let result = outcome?;
        let (done, total) = counter.get();
        reporter.report_now(done, total)?;
        Ok(result)
    })
}
