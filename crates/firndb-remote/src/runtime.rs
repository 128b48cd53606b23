//! Runs network I/O on a few threads while callers block.

use std::fmt;
use std::future::Future;
use std::sync::mpsc;
use tokio::runtime::{Builder, Handle};

/// Threads of a runtime. They only forward bytes.
const THREADS: usize = 2;

/// A separate runtime. May be used and dropped anywhere, even in a thread of another runtime.
pub(crate) struct Runtime(Option<tokio::runtime::Runtime>);

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Runtime")
    }
}

impl Runtime {
    pub(crate) fn new() -> firndb::Result<Runtime> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name("firn-remote").enable_io().enable_time();
        let runtime = builder.build().map_err(|e| {
            let message = format!("cannot start threads for the network: {e}");
            firndb::Error::new(firndb::ErrorKind::Io, message)
        })?;
        Ok(Runtime(Some(runtime)))
    }

    pub(crate) fn handle(&self) -> &Handle {
        self.0.as_ref().expect("it is there until it is dropped").handle()
    }

    /// Waits for the result of `work`. An error if it panicked.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = firndb::Result<T>> + Send + 'static,
    ) -> firndb::Result<T> {
        // `block_on` would panic in a thread of another runtime.
        let (send, outcome) = mpsc::sync_channel(1);
        self.handle().spawn(async move {
            let _ = send.send(work.await);
        });
        outcome.recv().unwrap_or_else(|_| Err(died()))
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // Pending work belongs to callers that no longer exist.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// The error of work that panicked.
pub(crate) fn died() -> firndb::Error {
    firndb::Error::new(firndb::ErrorKind::Io, "work on the network ended without an outcome")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn works_inside_another_runtime_and_survives_a_panic() {
        let other = Runtime::new().unwrap();
        let outcome = other.wait(async {
            let runtime = Runtime::new()?;
            let died = runtime.wait::<()>(async { panic!("on purpose") });
            assert_eq!(died.unwrap_err().kind(), firndb::ErrorKind::Io);
            runtime.wait(async { Ok(7) })
        });
        assert_eq!(outcome.unwrap(), 7);
    }
}
