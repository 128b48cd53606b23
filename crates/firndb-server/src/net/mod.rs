//! Listeners: limits on connections, TLS, and clients that are too slow.
//!
//! [`Listener::run`] accepts connections until the server drains. Each connection takes a place of
//! the [`Gate`], makes its TLS handshake within a deadline, and is then served by a [`Protocol`].

mod gate;
mod stream;
mod tls;

pub use gate::{Gate, Place};
pub use stream::Stream;
pub use tls::{ServerTls, install_provider};

use crate::app::App;
use crate::config::duration;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What a listener does with a connection.
pub trait Protocol: Send + Sync + 'static {
    /// Serves a connection until it ends, or until the server drains and no request is running.
    fn serve(
        self: Arc<Self>,
        stream: Stream,
        peer: Peer,
        draining: watch::Receiver<bool>,
    ) -> impl Future<Output = ()> + Send;
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// Whether it has presented a client certificate that was verified.
    pub has_certificate: bool,
}

/// A socket that accepts connections.
pub struct Listener {
    app: Arc<App>,
    listener: TcpListener,
    gate: Arc<Gate>,
    tls: Option<Arc<ServerTls>>,
}

/// How long to wait after an error that is not about one connection, such as too many open files.
const PAUSE: Duration = Duration::from_millis(50);

impl Listener {
    /// Listens on a socket. `gate` may be shared with other listeners.
    pub fn new(
        app: Arc<App>,
        listener: TcpListener,
        gate: Arc<Gate>,
        tls: Option<Arc<ServerTls>>,
    ) -> Listener {
        Listener { app, listener, gate, tls }
    }

    /// Accepts connections until `draining` is set, then waits until they have ended.
    pub async fn run<P: Protocol>(self, protocol: Arc<P>, mut draining: watch::Receiver<bool>) {
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = draining.wait_for(|draining| *draining) => break,
                Some(_) = connections.join_next() => continue,
            };
            match accepted {
                Ok((socket, address)) => match self.gate.enter(address.ip()) {
                    Some(place) => {
                        self.app.metrics.connections_open.inc();
                        let connection = Connection {
                            app: self.app.clone(),
                            tls: self.tls.clone(),
                            _place: place,
                        };
                        let protocol = protocol.clone();
                        let draining = draining.clone();
                        connections.spawn(connection.run(socket, address, protocol, draining));
                    }
                    None => {
                        self.app.metrics.connections_refused.inc();
                        tracing::debug!(%address, "too many connections");
                    }
                },
                Err(error) => {
                    if !is_about_one_connection(&error) {
                        tracing::error!(%error, "cannot accept a connection");
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        }
        drop(self.listener);
        while connections.join_next().await.is_some() {}
    }
}

/// Whether accepting failed because the client has gone already.
fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

struct Connection {
    app: Arc<App>,
    tls: Option<Arc<ServerTls>>,
    _place: Place,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.app.metrics.connections_open.dec();
    }
}

impl Connection {
    async fn run<P: Protocol>(
        self,
        socket: TcpStream,
        address: SocketAddr,
        protocol: Arc<P>,
        draining: watch::Receiver<bool>,
    ) {
        let limits = &self.app.config.limits;
        let _ = socket.set_nodelay(true); // Fails if the client has gone.
        let stall = duration(limits.write_seconds);
        self.app.metrics.connections_accepted.inc();
        let (stream, has_certificate) = match &self.tls {
            None => (Stream::plain(socket, stall), false),
            Some(tls) => {
                let handshake = tls.accept(socket);
                match tokio::time::timeout(duration(limits.handshake_seconds), handshake).await {
                    Ok(Ok((socket, has_certificate))) => {
                        (Stream::tls(socket, stall), has_certificate)
                    }
                    Ok(Err(error)) => {
                        self.app.metrics.handshakes_failed.inc();
                        tracing::debug!(%address, %error, "the TLS handshake failed");
                        return;
                    }
                    Err(_) => {
                        self.app.metrics.handshakes_failed.inc();
                        tracing::debug!(%address, "the TLS handshake took too long");
                        return;
                    }
                }
            }
        };
        protocol.serve(stream, Peer { address, has_certificate }, draining).await;
    }
}
