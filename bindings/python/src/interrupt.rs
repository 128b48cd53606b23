//! Long calls of the library that Ctrl-C interrupts: the work runs in a thread of its own, and the
//! calling thread reports its progress and receives signals. So no Python code runs while the work
//! holds a lock of the library.

use crate::error::{Failure, Result};
use pyo3::prelude::*;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// Time between two looks at the progress and at signals.
const PAUSE: Duration = Duration::from_millis(20);

/// How far a call is. Any thread may count.
#[derive(Debug, Default)]
pub struct Meter {
    done: AtomicU64,
    /// 0 if it is unknown.
    total: AtomicU64,
}

impl Meter {
    pub fn add(&self, more: u64) {
        self.done.fetch_add(more, Ordering::Relaxed);
    }

    pub fn set(&self, done: u64, total: u64) {
        self.total.store(total, Ordering::Relaxed);
        self.done.store(done, Ordering::Relaxed);
    }

    pub fn set_total(&self, total: Option<u64>) {
        self.total.store(total.unwrap_or(0), Ordering::Relaxed);
    }

    /// What is done, and the total if it is known.
    pub fn get(&self) -> (u64, Option<u64>) {
        let total = self.total.load(Ordering::Relaxed);
        (self.done.load(Ordering::Relaxed), (total > 0).then_some(total))
    }
}

/// Runs `work` in a thread, without the GIL. Meanwhile it calls `report`, at the end with `true`.
/// If `report` raises an exception, because of a signal or in a function of the program, this sets
/// `cancel`, waits for the end of the thread, and returns the exception.
pub fn interruptible<T: Send>(
    py: Python<'_>,
    cancel: &AtomicBool,
    report: impl Fn(bool) -> Result<()> + Sync,
    work: impl FnOnce() -> firndb::Result<T> + Send,
) -> Result<T> {
    py.detach(|| {
        thread::scope(|scope| {
            let (ended, end) = sync_channel::<()>(1);
            let run = move || {
                let _ended = ended; // Dropped at the end, also by a panic.
                work()
            };
            let worker = thread::Builder::new().name("firndb-call".to_string());
            let worker = worker.spawn_scoped(scope, run).map_err(|e| {
                let message = format!("cannot start a thread: {e}");
                firndb::Error::new(firndb::ErrorKind::Failed, message)
            })?;
            let mut raised: Option<Failure> = None;
            while end.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
                if raised.is_none()
                    && let Err(failure) = report(false)
                {
                    cancel.store(true, Ordering::Relaxed);
                    raised = Some(failure);
                }
            }
            let result = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
            if let Some(failure) = raised {
                return Err(failure);
            }
            let result = result?;
            report(true)?;
            Ok(result)
        })
    })
}
