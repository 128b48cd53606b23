//! A thread that looks for newer versions of a store.

use std::hash::{BuildHasher, RandomState};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The thread. Dropping this stops it and waits for it.
pub struct Refresher {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    looked: Arc<Mutex<Instant>>,
}

impl Refresher {
    /// Starts a thread that calls `refresh` every 0.75 to 1.25 times `every`, so that many servers
    /// do not look at the same moment. `refresh` returns the number of a newer version that it has
    /// switched to. `name` is the store's, for the log.
    pub(super) fn start(
        name: String,
        every: Duration,
        refresh: impl Fn() -> firndb::Result<Option<u64>> + Send + 'static,
    ) -> Refresher {
        let (stop, stopped) = mpsc::channel();
        // The store was opened just now.
        let looked = Arc::new(Mutex::new(Instant::now()));
        let last = looked.clone();
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(jittered(every)) == Err(RecvTimeoutError::Timeout) {
                match refresh() {
                    Ok(newer) => {
                        *last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                        if let Some(version) = newer {
                            tracing::info!(store = name, version, "switched to a newer version");
                        }
                    }
                    Err(error) => {
                        tracing::error!(store = name, %error, "cannot open a newer version");
                    }
                }
            }
        });
        Refresher { stop: Some(stop), thread: Some(thread), looked }
    }

    /// The time since the thread last looked without an error.
    pub(super) fn last_look(&self) -> Duration {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

impl Drop for Refresher {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // The panic hook has reported a panic.
        }
    }
}

/// A random duration from 0.75 to 1.25 times `every`.
fn jittered(every: Duration) -> Duration {
    let random = RandomState::new().hash_one(0u8) as f64 / u64::MAX as f64;
    every.mul_f64(0.75 + random / 2.0)
}
