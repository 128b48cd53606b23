//! A thread that refreshes a reader periodically.

use super::catalog_reader::CatalogReader;
use super::generation::Generation;
use super::share::Wake;
use crate::Error;
use std::hash::{BuildHasher, RandomState};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The thread of [`CatalogReader::watch`]. Dropping this stops the thread and waits for it.
pub struct Watch {
    reader: CatalogReader,
    wake: Sender<Wake>,
    thread: Option<JoinHandle<()>>,
}

impl CatalogReader {
    /// Starts a thread that calls [`CatalogReader::refresh`] periodically, every 0.75 to 1.25 times
    /// `every`, so that many readers do not access the origin at the same moment. Calls `report`
    /// with each version that was opened and with each error; after an error the thread continues.
    /// Panics if the system cannot start a thread.
    pub fn watch(
        &self,
        every: Duration,
        mut report: impl FnMut(Result<&Generation, &Error>) + Send + 'static,
    ) -> Watch {
        let (wake, woken) = mpsc::channel();
        let reader = self.clone();
        let thread = thread::spawn(move || {
            while let Ok(Wake::Look) | Err(RecvTimeoutError::Timeout) =
                woken.recv_timeout(jittered(every))
            {
                match reader.refresh() {
                    Ok(true) => report(Ok(&reader.current())),
                    Ok(false) => {}
                    Err(error) => report(Err(&error)),
                }
            }
        });
        self.share().iter().for_each(|share| share.set_waker(Some(wake.clone())));
        Watch { reader: self.clone(), wake, thread: Some(thread) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.reader.share().iter().for_each(|share| share.set_waker(None));
        let _ = self.wake.send(Wake::Stop); // Fails if `report` has panicked.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // The panic hook has reported a panic of `report`.
        }
    }
}

/// A random duration from 0.75 to 1.25 times `every`.
fn jittered(every: Duration) -> Duration {
    let random = RandomState::new().hash_one(0u8) as f64 / u64::MAX as f64;
    every.mul_f64(0.75 + random / 2.0)
}
