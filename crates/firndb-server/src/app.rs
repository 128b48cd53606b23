//! What all connections share.

use crate::auth::Tokens;
use crate::config::{Config, Limits, duration};
use crate::memory::Memory;
use crate::metrics::{CancelLabels, Metrics};
use crate::stores::Stores;
use arc_swap::ArcSwap;
use firndb::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What all connections share.
pub struct App {
    /// The options.
    pub config: Config,
    /// The open stores.
    pub stores: Stores,
    /// The tokens; replaced on SIGHUP.
    pub tokens: ArcSwap<Tokens>,
    /// Counters of the server.
    pub metrics: Metrics,
    /// The memory of bodies.
    pub memory: Memory,
    /// Called in the thread of each query before it begins: for tests, which cannot provoke a bug
    /// or a slow query otherwise.
    #[doc(hidden)]
    pub before_work: OnceLock<Arc<dyn Fn() + Send + Sync>>,
    phase: AtomicU8,
    /// Permits for queries that run.
    running: Arc<Semaphore>,
    /// Permits for queries that run or wait.
    admitted: Arc<Semaphore>,
    /// Permits for administration.
    administering: Arc<Semaphore>,
}

/// Backups, compactions and the like that run at a time.
pub const ADMINISTERING: usize = 8;

/// What the server is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Stores are being opened.
    Starting = 0,
    /// All stores are open and warm.
    Ready = 1,
    /// The server is about to end: running requests are completed.
    Draining = 2,
}

impl Phase {
    /// The name for figures.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Starting => "starting",
            Phase::Ready => "ready",
            Phase::Draining => "draining",
        }
    }
}

/// The message of the error of a request that has panicked.
pub const PANICKED: &str = "a bug in the server, which its log shows, ended the request";

/// When a query has to end.
#[derive(Clone, Debug)]
pub struct Deadline {
    /// The latest time.
    pub at: Instant,
    /// Set when the request has been dropped: its client has disconnected.
    pub cancelled: Arc<AtomicBool>,
}

impl Deadline {
    /// The earlier one of this deadline and `at`.
    pub fn no_later_than(self, at: Option<Instant>) -> Deadline {
        Deadline { at: at.map_or(self.at, |at| self.at.min(at)), ..self }
    }

    /// An error if the query has to end.
    pub fn check(&self) -> Result<()> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Cancelled, "the client has gone"));
        }
        match Instant::now() < self.at {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Cancelled, "the query exceeded its deadline")),
        }
    }
}

/// The right to run a query; dropping it lets another one run.
pub struct Permits {
    _admitted: OwnedSemaphorePermit,
    _running: OwnedSemaphorePermit,
}

/// Cancels the work of a request whose task is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl App {
    /// The state of a server that has not opened its stores yet.
    pub fn new(config: Config) -> Result<App> {
        let tokens = Tokens::load(&config.auth.tokens)?;
        let Limits { queries, waiting_queries, .. } = config.limits;
        Ok(App {
            stores: Stores::default(),
            tokens: ArcSwap::from_pointee(tokens),
            metrics: Metrics::new(),
            memory: Memory::new(config.limits.total_body_bytes),
            before_work: OnceLock::new(),
            phase: AtomicU8::new(Phase::Starting as u8),
            running: Arc::new(Semaphore::new(queries)),
            admitted: Arc::new(Semaphore::new(queries + waiting_queries)),
            administering: Arc::new(Semaphore::new(ADMINISTERING)),
            config,
        })
    }

    /// The numbers of queries that run and that wait.
    pub fn queries(&self) -> (usize, usize) {
        let Limits { queries, waiting_queries, .. } = self.config.limits;
        let running = queries.saturating_sub(self.running.available_permits());
        let admitted =
            (queries + waiting_queries).saturating_sub(self.admitted.available_permits());
        (running, admitted.saturating_sub(running))
    }

    /// What the server is doing.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Starting,
            1 => Phase::Ready,
            _ => Phase::Draining,
        }
    }

    /// Enters a phase; a server that drains does not become ready again.
    pub fn enter(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::AcqRel);
    }

    /// Runs `work` in a thread where it may block, with the deadline of a query. If the caller is
    /// dropped, because its client has gone, the deadline is marked as cancelled.
    ///
    /// Errors: `Failed` if too many queries wait; `Cancelled` if the deadline passes before the
    /// query begins.
    pub async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(Deadline) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.work_for(duration(self.config.limits.query_seconds), work).await
    }

    /// [`App::work`] with a time limit of its own: for administration, which may take long.
    pub async fn work_for<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl FnOnce(Deadline) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (permits, deadline) = self.admit_for(limit).await?;
        let guard = CancelOnDrop(deadline.cancelled.clone());
        let before = self.before_work.get().cloned();
        let cancelled = deadline.cancelled.clone();
        let counts = self.metrics.queries_cancelled.clone();
        let task = tokio::task::spawn_blocking(move || {
            // Held until the work ends, also after the request has been dropped.
            let _permits = permits;
            if let Some(call) = before {
                call();
            }
            let result = deadline.check().and_then(|()| work(deadline));
            if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Cancelled) {
                let reason = match cancelled.load(Ordering::Relaxed) {
                    true => "client_gone",
                    false => "deadline",
                };
                counts.get_or_create(&CancelLabels { reason }).inc();
                tracing::debug!(reason, "a query was cancelled");
            }
            result
        });
        let result = task.await;
        drop(guard);
        result.unwrap_or_else(|_| {
            self.metrics.panics.inc();
            Err(Error::new(ErrorKind::Failed, PANICKED))
        })
    }

    /// Permits for a query that the caller runs, and its deadline. Errors are those of
    /// [`App::work`].
    pub async fn admit(&self) -> Result<(Permits, Deadline)> {
        self.admit_for(duration(self.config.limits.query_seconds)).await
    }

    async fn admit_for(&self, limit: Duration) -> Result<(Permits, Deadline)> {
        let deadline = Deadline { at: Instant::now() + limit, cancelled: Arc::default() };
        let Ok(admitted) = self.admitted.clone().try_acquire_owned() else {
            self.metrics.queries_refused.inc();
            let message = "too many queries are waiting: try again later";
            return Err(Error::new(ErrorKind::Failed, message));
        };
        let running = tokio::time::timeout(limit, self.running.clone().acquire_owned()).await;
        let Ok(Ok(running)) = running else {
            let message = "the query exceeded its deadline before it could begin";
            return Err(Error::new(ErrorKind::Cancelled, message));
        };
        Ok((Permits { _admitted: admitted, _running: running }, deadline))
    }

    /// Runs `work` of administration in a thread where it may block: without a deadline, and
    /// without a permit of queries. It continues if the caller is dropped.
    ///
    /// Errors: `Failed` if [`ADMINISTERING`] such tasks run already.
    pub async fn administer<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let Ok(permit) = self.administering.clone().try_acquire_owned() else {
            let message = "too many tasks of administration are running: try again later";
            return Err(Error::new(ErrorKind::Failed, message));
        };
        let task = tokio::task::spawn_blocking(move || {
            // Held until the work ends, also after the request has been dropped.
            let _permit = permit;
            work()
        });
        task.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Failed, PANICKED)))
    }
}
