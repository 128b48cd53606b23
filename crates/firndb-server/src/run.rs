//! Starts the server, handles signals, drains and closes.

use crate::app::{App, Phase};
use crate::auth::Tokens;
use crate::config::{Config, duration};
use crate::http::Http;
use crate::net::{Gate, Listener, ServerTls};
use crate::redis::Redis;
use crate::{logging, stores};
use firndb::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Runs a server until SIGTERM or SIGINT. Returns once running requests have been completed and
/// all stores are closed.
pub fn run(config: Config) -> Result<()> {
    logging::init(&config.log)?;
    let runtime = runtime(&config)?;
    let result = runtime.block_on(async {
        let mut server = Server::start(config).await?;
        let outcome = server.open_stores().await;
        let outcome = match outcome {
            Ok(()) => {
                let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
                server.until_signal().await
            }
            Err(error) => Err(error),
        };
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        server.stop().await?;
        outcome
    });
    // Work that exceeded the time for draining is left alone.
    runtime.shutdown_background();
    result
}

fn runtime(config: &Config) -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.enable_all().thread_name("firn-serve");
    builder.max_blocking_threads(config.limits.queries + 16);
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

    /// Waits for SIGTERM or SIGINT. Reads tokens and certificates again on SIGHUP.
    pub async fn until_signal(&self) -> Result<()> {
        let failed = |e| Error::new(ErrorKind::Io, format!("cannot handle signals: {e}"));
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hangup.recv() => self.reload(),
            }
        }
        tracing::info!("draining");
        Ok(())
    }

    /// Reads tokens and certificates again. What cannot be read stays as it is.
    pub fn reload(&self) {
        match Tokens::load(&self.app.config.auth.tokens) {
            Ok(tokens) => self.app.tokens.store(Arc::new(tokens)),
            Err(error) => tracing::error!(%error, "cannot reload the tokens"),
        }
        match self.tls.as_ref().map(|tls| tls.reload()) {
            Some(Err(error)) => tracing::error!(%error, "cannot reload the certificates"),
            Some(Ok(())) | None => tracing::info!("reloaded tokens and certificates"),
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
        app.stores.add(stores::open_log(name, options)?)?;
    }
    for (name, options) in &config.tables {
        app.stores.add(stores::open_table(name, options)?)?;
    }
    for (name, options) in &config.collections {
        app.stores.add(stores::open_collection(name, options)?)?;
    }
    for (name, options) in &config.catalogs {
        app.stores.add(stores::open_catalog(name, options, config)?)?;
    }
    Ok(())
}
