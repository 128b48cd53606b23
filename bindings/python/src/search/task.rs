//! Long calls of collections, which Ctrl-C interrupts.

use crate::error::Result;
use crate::interrupt::{Meter, interruptible};
use crate::progress::Reporter;
use firndb::{Error, ErrorKind};
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the thread that does the work and the one that waits for it share.
#[derive(Default)]
pub struct Task {
    /// Whether the work is to end.
    pub cancel: Arc<AtomicBool>,
    pub meter: Meter,
}

impl Task {
    /// Fails if the work is to end.
    pub fn check(&self) -> firndb::Result<()> {
        match self.cancel.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Cancelled, "interrupted")),
            false => Ok(()),
        }
    }
}

/// Runs `work` in a thread of its own, which a signal or the callback cancels.
pub fn run<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&Arc<Task>) -> firndb::Result<T> + Send,
) -> Result<T> {
    let (reporter, task) = (Reporter::new(progress), Arc::new(Task::default()));
    let report = |_| {
        let (done, total) = task.meter.get();
        reporter.report_now(done, total)
    };
    interruptible(py, &task.cancel, report, || work(&task))
}
