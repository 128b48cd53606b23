//! A thread that looks for changes of a local collection.

use firndb::search::Collection;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The thread. Dropping this stops it and waits for it.
pub struct Refresher {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Refresher {
    /// Starts the thread. `name` is the store's, for the log.
    pub(super) fn start(name: String, collection: Arc<Collection>, every: Duration) -> Refresher {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                match collection.refresh() {
                    Ok(false) => {}
                    Ok(true) => {
                        let version = collection.version();
                        tracing::info!(store = name, version, "switched to a newer version");
                    }
                    Err(error) => {
                        tracing::error!(store = name, %error, "cannot open a newer version");
                    }
                }
            }
        });
        Refresher { stop: Some(stop), thread: Some(thread) }
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
