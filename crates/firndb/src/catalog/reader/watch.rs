//! A thread that refreshes a reader now and then.

use super::reader::{CatalogReader, Generation};
use super::share::Wake;
use crate::Error;
use std::hash::{BuildHasher, RandomState};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A thread that looks for newer versions until this is dropped.
pub struct Watch {
    reader: CatalogReader,
    wake: Sender<Wake>,
    thread: Option<JoinHandle<()>>,
}

impl CatalogReader {
    /// Starts a thread that calls [`CatalogReader::refresh`] about every `every`: a quarter more or
    /// less, so that many readers do not ask at the same moment. `tell` hears of each version that
    /// was opened, and of each failure; the next look comes all the same. Panics if the system has
    /// no thread to give.
    pub fn watch(
        &self,
        every: Duration,
        mut tell: impl FnMut(Result<&Generation, &Error>) + Send + 'static,
    ) -> Watch {
        let (wake, woken) = mpsc::channel();
        let reader = self.clone();
        let thread = thread::spawn(move || {
            while let Ok(Wake::Look) | Err(RecvTimeoutError::Timeout) =
                woken.recv_timeout(jittered(every))
            {
                match reader.refresh() {
                    Ok(true) => tell(Ok(&reader.current())),
                    Ok(false) => {}
                    Err(error) => tell(Err(&error)),
                }
            }
        });
        self.share().iter().for_each(|share| share.wake(Some(wake.clone())));
        Watch { reader: self.clone(), wake, thread: Some(thread) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.reader.share().iter().for_each(|share| share.wake(None));
        let _ = self.wake.send(Wake::Stop); // Nobody hears it if `tell` has panicked.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // A panic of `tell` was reported where it happened.
        }
    }
}

/// Between 0.75 and 1.25 times as long.
fn jittered(every: Duration) -> Duration {
    let random = RandomState::new().hash_one(0u8) as f64 / u64::MAX as f64;
    every.mul_f64(0.75 + random / 2.0)
}
