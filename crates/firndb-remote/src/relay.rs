//! A relay: a reader's files over HTTP, for readers nearby.
//!
//! It gives away what its reader has fetched and checked, and nothing else: the version that is
//! open, its files, and those of the next one as soon as each is whole. So a relay is a catalog of
//! one name with one version, which other readers can follow; and it is a peer that readers of the
//! same catalog ask for files before they ask the catalog itself (`peers.rs`).
//!
//! ```text
//! GET /                            ["NAME/"]; the header `firn-relay` tells relays apart
//! GET /NAME/                       ["files/", "versions/"]
//! GET /NAME/versions/              ["NUMBER.json"]
//! GET /NAME/versions/NUMBER.json   the manifest of the version that is open
//! GET /NAME/files/                 the files of this version
//! GET /NAME/files/NUMBER-BLAKE3    a file; 503 with `retry-after` while it is being fetched
//! ```
//! `HEAD`, ranges, `ETag` and `If-None-Match` work as everywhere. Nothing can be changed.

use crate::respond::{self, Body};
use crate::runtime::Runtime;
use firndb::catalog::{Found, Share};
use firndb::{Error, Result};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections at the same time; more have to wait.
const MAX_CONNECTIONS: usize = 256;

/// A connection on which nothing moves for so long is closed.
const IDLE: Duration = Duration::from_secs(60);

/// How long a request for a file that is being fetched waits for it before it is told to come
/// again.
const WAIT: Duration = Duration::from_secs(1);

/// How long nothing may come before others are told to go elsewhere.
const PATIENCE: Duration = Duration::from_secs(10);

/// The header in which a relay says which one it is.
pub(crate) const RELAY: &str = "firn-relay";

/// Serves the files of readers until it is dropped.
pub struct Relay {
    id: String,
    address: SocketAddr,
    counts: Arc<Counts>,
    /// Ends the connections when it goes.
    _runtime: Runtime,
}

#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    bytes: AtomicU64,
}

/// What a relay has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayStats {
    /// Requests that were answered.
    pub requests: u64,
    /// Bytes of files and manifests that were given away.
    pub bytes: u64,
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("address", &self.address).finish_non_exhaustive()
    }
}

/// What every connection sees.
struct Server {
    id: String,
    shares: Vec<Share>,
    counts: Arc<Counts>,
}

impl Relay {
    /// Listens at `address`, such as `127.0.0.1:7170` (port 0 takes a free one), and serves what
    /// these readers have, or will have once they are opened: start a relay first, and then open
    /// its readers. Whoever can connect can read all of it: there is neither a password nor TLS.
    pub fn serve(address: &str, shares: Vec<Share>) -> Result<Relay> {
        let failed = |why: &dyn fmt::Display| {
            let message = format!("cannot listen at `{address}`: {why}; write HOST:PORT");
            Error::new(firndb::ErrorKind::Io, message)
        };
        let addresses = address.to_socket_addrs().map_err(|e| failed(&e))?;
        let addresses: Vec<SocketAddr> = addresses.collect();
        let listener = std::net::TcpListener::bind(&addresses[..]).map_err(|e| failed(&e))?;
        listener.set_nonblocking(true).map_err(|e| failed(&e))?;
        let bound = listener.local_addr().map_err(|e| failed(&e))?;
        let runtime = Runtime::new()?;
        let id = format!("{:016x}", RandomState::new().hash_one((bound, std::process::id())));
        let counts = Arc::<Counts>::default();
        let server = Arc::new(Server { id: id.clone(), shares, counts: counts.clone() });
        let listener = {
            let _inside = runtime.handle().enter();
            TcpListener::from_std(listener).map_err(|e| failed(&e))?
        };
        runtime.handle().spawn(accept(listener, server));
        Ok(Relay { id, address: bound, counts, _runtime: runtime })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it has done so far.
    pub fn stats(&self) -> RelayStats {
        let Counts { requests, bytes } = &*self.counts;
        RelayStats { requests: requests.load(Relaxed), bytes: bytes.load(Relaxed) }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }
}

async fn accept(listener: TcpListener, server: Arc<Server>) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve(stream, server.clone(), slot))),
            // Too many open files, say: some are going to be closed.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// When something moved on a connection.
#[derive(Clone)]
pub(crate) struct Moved(Arc<(Instant, AtomicU64)>);

impl Moved {
    fn new() -> Moved {
        Moved(Arc::new((Instant::now(), AtomicU64::new(0))))
    }

    pub(crate) fn now(&self) {
        let millis = self.0.0.elapsed().as_millis();
        self.0.1.store(u64::try_from(millis).unwrap_or(u64::MAX), Relaxed);
    }

    fn idle(&self) -> Duration {
        self.0.0.elapsed().saturating_sub(Duration::from_millis(self.0.1.load(Relaxed)))
    }
}

async fn serve(stream: TcpStream, server: Arc<Server>, slot: OwnedSemaphorePermit) {
    let _slot = slot;
    let _ = stream.set_nodelay(true);
    let moved = Moved::new();
    let service = service_fn(|request| {
        moved.now();
        let (server, moved) = (server.clone(), moved.clone());
        async move { Ok::<_, Infallible>(server.answer(request, moved).await) }
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // Somebody who sends half a request, or does not read the answer, holds a place for nothing.
    while tokio::time::timeout(IDLE / 4, connection.as_mut()).await.is_err() {
        if moved.idle() > IDLE {
            return;
        }
    }
}

impl Server {
    async fn answer(&self, request: Request<Incoming>, moved: Moved) -> Response<Body> {
        self.counts.requests.fetch_add(1, Relaxed);
        let answer = match *request.method() {
            Method::GET | Method::HEAD => self.find(&request, moved).await,
            _ => respond::status(StatusCode::METHOD_NOT_ALLOWED),
        };
        let mut answer = answer;
        if let Ok(id) = self.id.parse() {
            answer.headers_mut().insert(RELAY, id);
        }
        let given = respond::length(&answer).filter(|_| request.method() == Method::GET);
        self.counts.bytes.fetch_add(given.unwrap_or(0), Relaxed);
        answer
    }

    async fn find(&self, request: &Request<Incoming>, moved: Moved) -> Response<Body> {
        let path = request.uri().path().trim_start_matches('/');
        let parts: Vec<&str> = path.split('/').collect();
        let share = self.shares.iter().find(|share| share.name() == parts[0]);
        let version = share.and_then(Share::version);
        match (&parts[..], share, version) {
            ([""], ..) => {
                let names = self.shares.iter().filter(|share| share.version().is_some());
                respond::list(request, names.map(|share| format!("{}/", share.name())))
            }
            ([_, ""], Some(_), _) => {
                respond::list(request, ["files/", "versions/"].into_iter().map(str::to_string))
            }
            ([_, "versions", ""], Some(_), version) => {
                respond::list(request, version.iter().map(|v| manifest_name(v.number)))
            }
            ([_, "versions", name], _, Some(version)) if *name == manifest_name(version.number) => {
                respond::text(request, &version.id, version.manifest())
            }
            ([_, "files", ""], _, Some(version)) => {
                let objects = version.files.iter().map(|file| version.object(file));
                let name = |object: String| object.rsplit('/').next().unwrap_or("").to_string();
                respond::list(request, objects.map(name))
            }
            ([_, "files", file], Some(share), _) => file_of(share, file, request, moved).await,
            _ => respond::status(StatusCode::NOT_FOUND),
        }
    }
}

fn manifest_name(number: u64) -> String {
    format!("{number:020}.json")
}

async fn file_of(
    share: &Share,
    file: &str,
    request: &Request<Incoming>,
    moved: Moved,
) -> Response<Body> {
    let start = Instant::now();
    loop {
        match share.find(file, start) {
            Ok(Found::Here(shared)) => return respond::file(request, file, shared, moved),
            Ok(Found::Coming(idle)) if idle < PATIENCE && start.elapsed() < WAIT => {
                moved.now();
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok(Found::Coming(idle)) if idle < PATIENCE => return respond::later(),
            Ok(Found::Coming(_) | Found::Missing) => return respond::status(StatusCode::NOT_FOUND),
            Err(_) => return respond::status(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }
}
