//! Runs long work in a thread, while the calling thread reports progress and receives signals.

use crate::error::{Failure, Result};
use crate::progress::Reporter;
use pyo3::prelude::*;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// Interval at which the calling thread looks for signals.
const POLL: Duration = Duration::from_millis(20);

/// What was done of a step, and its total.
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

    fn get(&self) -> (u64, Option<u64>) {
        let total = self.total.load(Ordering::Relaxed);
        (self.done.load(Ordering::Relaxed), (total > 0).then_some(total))
    }
}

/// A build that runs: how far it is, and how it is stopped.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// Set if the build is to stop: the readers of inputs look at it.
    pub cancel: Arc<AtomicBool>,
    pub reading: Arc<Meter>,
    pub writing: Arc<Meter>,
}

impl Job {
    pub fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }
}

/// The functions that progress is reported to.
pub struct Reporters {
    pub reading: Reporter,
    pub writing: Reporter,
}

impl Reporters {
    pub fn new(reading: Option<Py<PyAny>>, writing: Option<Py<PyAny>>) -> Reporters {
        Reporters { reading: Reporter::new(reading), writing: Reporter::new(writing) }
    }

    /// Reports the step that runs, and lets signals interrupt the call.
    fn report(&self, job: &Job, end: bool) -> Result<()> {
        let ((read, to_read), (written, to_write)) = (job.reading.get(), job.writing.get());
        if end {
            self.reading.report_now(read, to_read)?;
            return self.writing.report_now(written, to_write);
        }
        match to_write {
            Some(_) => self.writing.report(written, to_write),
            None => self.reading.report(read, to_read),
        }
    }
}

/// Runs `work` in a thread, without the GIL. If a signal handler or a progress function raises an
/// exception, `job` is cancelled, and the exception is the result once the thread has ended.
pub fn interruptible<T: Send>(
    py: Python<'_>,
    job: &Job,
    reporters: &Reporters,
    work: impl FnOnce() -> firndb::Result<T> + Send,
) -> Result<T> {
    py.detach(|| {
        thread::scope(|scope| {
            let (ended, end) = sync_channel::<()>(1);
            let run = move || {
                let result = work();
                drop(ended);
                result
            };
            let worker = thread::Builder::new()
                .name("firn-building".to_string())
                .spawn_scoped(scope, run)
                .map_err(|e| {
                    let message = format!("cannot start a thread: {e}");
                    firndb::Error::new(firndb::ErrorKind::Failed, message)
                })?;
            let mut raised: Option<Failure> = None;
            while end.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
                if raised.is_none()
                    && let Err(failure) = reporters.report(job, false)
                {
                    job.cancel.store(true, Ordering::Relaxed);
                    raised = Some(failure);
                }
            }
            let result = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
            match raised {
                Some(failure) => Err(failure),
                None => {
                    let result = result?;
                    reporters.report(job, true)?;
                    Ok(result)
                }
            }
        })
    })
}
