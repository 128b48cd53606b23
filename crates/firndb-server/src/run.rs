//! Starts the server, handles signals, drains and closes.

use crate::app::{App, Phase};
use crate::auth::Tokens;
use crate::config::{Config, duration};
use crate::http::Http;
use crate::net::{Gate, Listener, ServerTls};
use crate::redis::Redis;
use crate::stores::Entry;
use crate::{logging, stores};
use firndb::{Error, ErrorKind, Result};
use sd_notify::NotifyState;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Runs a server until SIGTERM or SIGINT. Returns once running requests have been completed and
/// all stores are closed. A second signal ends the process at once, with the exit code 128 and the
/// number of the signal: stores survive that like a crash.
pub fn run(config: Config) -> Result<()> {
    logging::init(&config.log)?;
    let runtime = runtime(&config)?;
    let result = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let mut server = Server::start(config).await?;
        let outcome = server.until_signal(&mut signals).await;
        notify(&[NotifyState::Stopping]);
        tokio::select! {
            stopped = server.stop() => outcome.and(stopped),
            signal = signals.stop() => {
                tracing::warn!("ends at once because of a second signal");
                std::process::exit(128 + signal.as_raw_value());
            }
        }
    });
    // Work that exceeded the time for draining is left alone.
    runtime.shutdown_background();
    result
}

/// Sends a message to systemd, if it has started this process.
fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot notify systemd");
    }
}

/// Tells systemd regularly that the server is alive, if the unit has `WatchdogSec=`.
fn feed_watchdog() {
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(limit / 3);
        loop {
            ticks.tick().await;
            notify(&[NotifyState::Watchdog]);
        }
    });
}

fn runtime(config: &Config) -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all().thread_name("firn-serve");
    builder.max_blocking_threads(config.limits.queries + 16);
    if let Some(threads) = config.threads {
        builder.worker_threads(threads);
    }
    builder.build().map_err(|e| {
        Error::new(ErrorKind::Io, format!("cannot start the threads of the server: {e}"))
    })
}

/// A server: its listeners and its stores.
pub struct Server {
    app: Arc<App>,
    http: SocketAddr,
    redis: Option<SocketAddr>,
    tls: Option<Arc<ServerTls>>,
    drain: watch::Sender<bool>,
    listeners: Vec<JoinHandle<()>>,
}

impl Server {
    /// Binds the addresses and begins to answer; `/readyz` says that the server is not ready
    /// until [`Server::open_stores`] has returned.
    pub async fn start(config: Config) -> Result<Server> {
        let app = Arc::new(App::new(config)?);
        let limits = &app.config.limits;
        let gate = Gate::new(limits.connections, limits.connections_per_address);
        let tls = app.config.tls.as_ref().map(ServerTls::load).transpose()?.map(Arc::new);
        let (drain, draining) = watch::channel(false);
        let (listener, http) = bind(app.config.http.address).await?;
        let listener = Listener::new(app.clone(), listener, gate.clone(), tls.clone());
        let protocol = Arc::new(Http::new(app.clone()));
        let mut listeners = vec![tokio::spawn(listener.run(protocol, draining.clone()))];
        tracing::info!(address = %http, tls = tls.is_some(), "listening for HTTP");
        let mut redis = None;
        if let Some(address) = app.config.redis.address {
            let (listener, address) = bind(address).await?;
            let listener = Listener::new(app.clone(), listener, gate, tls.clone());
            let protocol = Arc::new(Redis::new(app.clone(), address.port()));
            listeners.push(tokio::spawn(listener.run(protocol, draining)));
            tracing::info!(%address, tls = tls.is_some(), "listening for Redis");
            redis = Some(address);
        }
        Ok(Server { app, http, redis, tls, drain, listeners })
    }

    /// The address of the HTTP interface.
    pub fn http_address(&self) -> SocketAddr {
        self.http
    }

    /// The address of the Redis interface, if it is on.
    pub fn redis_address(&self) -> Option<SocketAddr> {
        self.redis
    }

    /// What all connections share.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Opens and warms all stores; then the server is ready.
    pub async fn open_stores(&self) -> Result<()> {
        let app = self.app.clone();
        let task = tokio::task::spawn_blocking(move || open_all(&app));
        task.await.map_err(|_| Error::new(ErrorKind::Failed, "opening the stores panicked"))??;
        self.app.enter(Phase::Ready);
        tracing::info!("ready");
        Ok(())
    }

    /// Opens all stores and waits for SIGTERM or SIGINT. Reads tokens and certificates again on
    /// SIGHUP.
    ///
    /// A signal while stores are being opened is obeyed before the next one is opened.
    async fn until_signal(&self, signals: &mut Signals) -> Result<()> {
        feed_watchdog();
        let mut opening = pin!(self.open_stores());
        let mut is_open = false;
        loop {
            tokio::select! {
                opened = &mut opening, if !is_open => {
                    opened?;
                    is_open = true;
                    notify(&[NotifyState::Ready]);
                }
                signal = signals.next() => match signal == SignalKind::hangup() {
                    true => self.reload_for_systemd(is_open),
                    false => break,
                },
            }
        }
        tracing::info!("draining");
        self.app.enter(Phase::Draining);
        if !is_open {
            let limit = duration(self.app.config.limits.drain_seconds);
            match tokio::time::timeout(limit, opening).await {
                // The opening ends early because the server drains.
                Ok(Ok(())) => {}
                Ok(Err(error)) if error.kind() == ErrorKind::Cancelled => {}
                Ok(Err(error)) => return Err(error),
                Err(_) => tracing::warn!("a store is still being opened: it is left alone"),
            }
        }
        Ok(())
    }

    fn reload_for_systemd(&self, is_open: bool) {
        let now = NotifyState::monotonic_usec_now();
        notify(&[&[NotifyState::Reloading][..], now.ok().as_slice()].concat());
        self.reload();
        if is_open {
            notify(&[NotifyState::Ready]);
        }
    }

    /// Reads tokens and certificates again. What cannot be read stays as it is.
    pub fn reload(&self) {
        match Tokens::load(&self.app.config.auth.tokens) {
            Ok(tokens) => {
                self.app.tokens.store(Arc::new(tokens));
                tracing::info!("reloaded the tokens");
            }
            Err(error) => {
                tracing::error!(%error, "cannot reload the tokens: the old ones stay valid");
            }
        }
        match self.tls.as_ref().map(|tls| tls.reload()) {
            Some(Err(error)) => {
                tracing::error!(%error, "cannot reload the certificates: the old ones stay in use");
            }
            Some(Ok(())) => tracing::info!("reloaded the certificates"),
            None => {}
        }
    }

    /// Completes running requests, within the limit for draining, and closes the stores.
    pub async fn stop(&mut self) -> Result<()> {
        self.app.enter(Phase::Draining);
        let _ = self.drain.send(true); // Fails if all listeners have ended.
        let limit = duration(self.app.config.limits.drain_seconds);
        let until = tokio::time::Instant::now() + limit;
        for mut listener in self.listeners.drain(..) {
            if tokio::time::timeout_at(until, &mut listener).await.is_err() {
                tracing::warn!("requests were cut off: they exceeded the time for draining");
                listener.abort();
            }
        }
        let app = self.app.clone();
        let closed = tokio::task::spawn_blocking(move || app.stores.close()).await;
        let errors = closed.unwrap_or_default();
        for (name, error) in &errors {
            tracing::error!(store = name, %error, "cannot close the store");
        }
        tracing::info!("stopped");
        errors.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
    }
}

/// The signals that the server handles.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    /// Handles the signals from now on.
    fn new() -> Result<Signals> {
        let handle = |kind| {
            let failed = |e| Error::new(ErrorKind::Io, format!("cannot handle signals: {e}"));
            signal(kind).map_err(failed)
        };
        Ok(Signals {
            terminate: handle(SignalKind::terminate())?,
            interrupt: handle(SignalKind::interrupt())?,
            hangup: handle(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal.
    async fn next(&mut self) -> SignalKind {
        tokio::select! {
            _ = self.terminate.recv() => SignalKind::terminate(),
            _ = self.interrupt.recv() => SignalKind::interrupt(),
            _ = self.hangup.recv() => SignalKind::hangup(),
        }
    }

    /// Waits for a signal to end.
    async fn stop(&mut self) -> SignalKind {
        loop {
            match self.next().await {
                signal if signal == SignalKind::hangup() => {}
                signal => return signal,
            }
        }
    }
}

/// Listens at an address. Also returns the address with the port that the system chose.
async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let failed = |e| Error::new(ErrorKind::Io, format!("cannot listen on {address}: {e}"));
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

fn open_all(app: &App) -> Result<()> {
    let config = &app.config;
    for (name, options) in &config.logs {
        add(app, name, || stores::open_log(name, options))?;
    }
    for (name, options) in &config.tables {
        add(app, name, || stores::open_table(name, options))?;
    }
    for (name, options) in &config.collections {
        add(app, name, || stores::open_collection(name, options))?;
    }
    for (name, options) in &config.catalogs {
        add(app, name, || stores::open_catalog(name, options, config))?;
    }
    Ok(())
}

/// Opens a store, unless the server has been told to end. Errors name the store.
fn add(app: &App, name: &str, open: impl FnOnce() -> Result<Entry>) -> Result<()> {
    if app.phase() == Phase::Draining {
        return Err(Error::new(ErrorKind::Cancelled, "the server ends"));
    }
    let start = Instant::now();
    let entry = open().and_then(|entry| app.stores.add(entry)).map_err(|error| {
        Error::new(error.kind(), format!("cannot open the store `{name}`: {error}"))
    })?;
    let (kind, seconds) = (entry.kind().name(), start.elapsed().as_secs_f64());
    tracing::info!(store = name, kind, location = entry.location, seconds, "opened");
    Ok(())
}
