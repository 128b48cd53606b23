//! Long calls of the library, which Ctrl-C interrupts.

use crate::error::Result;
use crate::progress::Reporter;
use firndb::{Error, ErrorKind};
use pyo3::prelude::*;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Time between two looks at the progress and at signals.
const PAUSE: Duration = Duration::from_millis(50);

/// What the thread that does the work and the one that waits for it share.
#[derive(Default)]
pub struct Task {
    /// Whether the work is to end.
    pub cancel: Arc<AtomicBool>,
    done: AtomicU64,
    /// 0 if it is unknown.
    total: AtomicU64,
}

impl Task {
    /// Fails if the work is to end.
    pub fn check(&self) -> firndb::Result<()> {
        match self.cancel.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Cancelled, "interrupted")),
            false => Ok(()),
        }
    }

    pub fn advance(&self, by: u64) {
        self.done.fetch_add(by, Ordering::Relaxed);
    }

    pub fn set_total(&self, total: u64) {
        self.total.store(total, Ordering::Relaxed);
    }
}

/// Sets a flag when the work ends, also by a panic.
struct Finished<'a>(&'a (Mutex<bool>, Condvar));

impl Drop for Finished<'_> {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }
}

/// Runs `work` in a thread of its own. Meanwhile this thread reports the progress and handles
/// signals: if that raises an exception, the work is cancelled, and the exception is returned. So
/// Python code never runs while the work holds a lock of the library.
pub fn run<T: Send>(
    py: Python<'_>,
    progress: Option<Py<PyAny>>,
    work: impl FnOnce(&Arc<Task>) -> firndb::Result<T> + Send,
) -> Result<T> {
    let (task, finished) = (Arc::new(Task::default()), (Mutex::new(false), Condvar::new()));
    let reporter = Reporter::new(progress);
    let report = || {
        let total = task.total.load(Ordering::Relaxed);
        reporter.report_now(task.done.load(Ordering::Relaxed), (total > 0).then_some(total))
    };
    py.detach(|| {
        thread::scope(|scope| {
            let (task, finished) = (&task, &finished);
            let worker = thread::Builder::new().name("firndb-task".to_string());
            let worker = worker.spawn_scoped(scope, move || {
                let _finished = Finished(finished);
                work(task)
            });
            let worker = worker.map_err(|e| Error::io("start a thread", "".as_ref(), e))?;
            let mut interrupted = Ok(());
            loop {
                let done = finished.0.lock().unwrap_or_else(PoisonError::into_inner);
                let waited = finished.1.wait_timeout_while(done, PAUSE, |done| !*done);
                let is_done = *waited.unwrap_or_else(PoisonError::into_inner).0;
                if interrupted.is_ok() {
                    interrupted = report();
                    if interrupted.is_err() && !is_done {
                        task.cancel.store(true, Ordering::Relaxed);
                    }
                }
                if is_done {
                    break;
                }
            }
            let result = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
            interrupted?;
            Ok(result?)
        })
    })
}
