//! Builds that run in a thread, with their two steps: reading the input, and writing the table.

use crate::error::Result;
use crate::interrupt::{self, Meter};
use crate::progress::Reporter;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
    interrupt::interruptible(py, &job.cancel, |is_end| reporters.report(job, is_end), work)
}
