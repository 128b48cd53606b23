//! Progress of long calls: callbacks to Python, and Ctrl-C.

use crate::error::Result;
use pyo3::prelude::*;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time between two reports.
const PAUSE: Duration = Duration::from_millis(100);

/// Reports the progress of a call that runs without the GIL.
pub struct Reporter {
    /// Called with what is done and the total, or `None` if that is unknown.
    callback: Option<Py<PyAny>>,
    last: Mutex<Instant>,
}

impl Reporter {
    pub fn new(callback: Option<Py<PyAny>>) -> Reporter {
        Reporter { callback, last: Mutex::new(Instant::now()) }
    }

    /// Calls the callback and lets signals interrupt the call, unless that was done a moment ago.
    /// The error is what the callback or a signal handler raises, such as `KeyboardInterrupt`: the
    /// caller returns it, and leaves nothing behind. Call it without the GIL and without locks.
    pub fn report(&self, done: u64, total: Option<u64>) -> Result<()> {
        {
            let mut last = self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if last.elapsed() < PAUSE {
                return Ok(());
            }
            *last = Instant::now();
        }
        self.report_now(done, total)
    }

    /// Reports without regard to the last report, for the end.
    pub fn report_now(&self, done: u64, total: Option<u64>) -> Result<()> {
        Python::attach(|py| {
            py.check_signals()?;
            if let Some(callback) = &self.callback {
                callback.call1(py, (done, total))?;
            }
            Ok(())
        })
    }
}
