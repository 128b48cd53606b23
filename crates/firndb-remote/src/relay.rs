//! A relay: serves the files of readers over HTTP to nearby readers.
//!
//! It serves only what its readers have fetched and verified: the open version, its files, and
//! those of the next version as soon as each is complete. So a relay is a catalog with one version
//! per name, which other readers can follow. It is also a peer, from which readers of the same
//! catalog request files before they read them from the catalog (`peers.rs`).
//!
//! ```text
//! GET /                            ["NAME/"]; the header `firn-relay` identifies the relay
//! GET /NAME/                       ["files/", "versions/"]
//! GET /NAME/versions/              ["NUMBER.json"]
//! GET /NAME/versions/NUMBER.json   the manifest of the open version
//! GET /NAME/files/                 the files of this version
//! GET /NAME/files/NUMBER-BLAKE3    a file; 503 with `retry-after` while it is being fetched
//! ```
//! `HEAD`, ranges, `ETag` and `If-None-Match` have their usual meaning. Nothing can be modified.

use crate::respond::{self, Body};
use crate::runtime::Runtime;
use firndb::catalog::{Found, Share};
use firndb::{Error, Result, redact};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limits on the use of a relay by clients.
#[derive(Clone, Copy)]
struct Limits {
    /// Concurrent connections. Further ones wait.
    connections: usize,
    /// Concurrent connections per address. Further ones are closed at once.
    per_address: usize,
    /// A connection is closed if the complete header of its next request does not arrive in this
    /// time.
    header: Duration,
}

const LIMITS: Limits =
    Limits { connections: 256, per_address: 64, header: Duration::from_secs(10) };

/// A connection without any progress is closed after this time.
const IDLE: Duration = Duration::from_secs(60);

/// How long a request for a file that is being fetched waits before the client is asked to retry.
const WAIT: Duration = Duration::from_secs(1);

/// Time without progress after which clients are referred elsewhere.
const PATIENCE: Duration = Duration::from_secs(10);

/// The header that contains the identity of a relay.
pub(crate) const RELAY: &str = "firn-relay";

/// Serves the files of readers until it is dropped.
pub struct Relay {
    id: String,
    address: SocketAddr,
    counts: Arc<Counts>,
    /// Dropping this closes the connections.
    _runtime: Runtime,
}

#[derive(Default)]
struct Counts {
    requests: AtomicU64,
    bytes: AtomicU64,
}

/// Counters of a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RelayStats {
    /// Requests that were answered.
    pub requests: u64,
    /// Bytes of files and manifests that were sent.
    pub bytes: u64,
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("address", &self.address).finish_non_exhaustive()
    }
}

/// State shared by all connections.
struct Server {
    id: String,
    shares: Vec<Share>,
    counts: Arc<Counts>,
}

impl Relay {
    /// Listens at `address`, such as `127.0.0.1:7170` (port 0 selects a free port), and serves the
    /// files of these readers. Start the relay before its readers are opened. Every client that can
    /// connect can read all of the files: there is neither a password nor TLS.
    ///
    /// At most 256 connections are served concurrently, of which 64 per address (per /64 network
    /// for IPv6); further ones wait or are closed. A connection that does not send the header of
    /// its next request within 10 seconds is closed.
    pub fn serve(address: &str, shares: Vec<Share>) -> Result<Relay> {
        Relay::serve_within(LIMITS, address, shares)
    }

    fn serve_within(limits: Limits, address: &str, shares: Vec<Share>) -> Result<Relay> {
        let failed = |why: &dyn fmt::Display| {
            let address = redact(address);
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
        runtime.handle().spawn(accept(listener, server, limits));
        Ok(Relay { id, address: bound, counts, _runtime: runtime })
    }

    /// The address at which the relay listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A snapshot of the counters.
    pub fn stats(&self) -> RelayStats {
        let Counts { requests, bytes } = &*self.counts;
        RelayStats { requests: requests.load(Relaxed), bytes: bytes.load(Relaxed) }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }
}

async fn accept(listener: TcpListener, server: Arc<Server>, limits: Limits) {
    let slots = Arc::new(Semaphore::new(limits.connections));
    let callers = Arc::<Callers>::default();
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, from)) => {
                // Dropped here, which closes the connection.
                if let Some(call) = Call::begin(&callers, from.ip(), limits.per_address) {
                    let held = (slot, call);
                    tokio::spawn(serve(stream, server.clone(), limits.header, held));
                }
            }
            // For example too many open files, which other connections will release.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// The number of connections per address.
type Callers = Mutex<HashMap<IpAddr, usize>>;

/// A connection of an address, counted until it is dropped.
struct Call {
    callers: Arc<Callers>,
    address: IpAddr,
}

impl Call {
    /// `None` if the address has too many connections already.
    fn begin(callers: &Arc<Callers>, address: IpAddr, most: usize) -> Option<Call> {
        let address = caller(address);
        let mut counts = callers.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        if *count >= most {
            return None;
        }
        *count += 1;
        drop(counts);
        Some(Call { callers: callers.clone(), address })
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        let mut counts = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

/// The unit that counts as one address: an IPv6 host has a /64 network.
fn caller(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

/// When a connection last made progress.
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

async fn serve(
    stream: TcpStream,
    server: Arc<Server>,
    header: Duration,
    held: (OwnedSemaphorePermit, Call),
) {
    let _held = held;
    let _ = stream.set_nodelay(true);
    let moved = Moved::new();
    let service = service_fn(|request| {
        moved.now();
        let (server, moved) = (server.clone(), moved.clone());
        async move { Ok::<_, Infallible>(server.answer(request, moved).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(header);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // A client that does not read the response must not occupy a connection.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpStream as Stream};
    use tokio::net::TcpSocket;

    /// A connection from a loopback address that has sent half a header.
    fn half(runtime: &Runtime, relay: &Relay, from: [u8; 4]) -> Stream {
        let to = relay.address();
        let connected = runtime.wait(async move {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind((Ipv4Addr::from(from), 0).into()).unwrap();
            Ok(socket.connect(to).await.unwrap().into_std().unwrap())
        });
        let mut stream: Stream = connected.unwrap();
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: ");
        stream
    }

    /// The end of the header is sent; returns the first line of the response, empty if there is
    /// none.
    fn rest(mut stream: Stream) -> String {
        let mut answer = Vec::new();
        let sent = stream.write_all(b"h\r\nConnection: close\r\n\r\n");
        let _ = sent.and_then(|()| stream.read_to_end(&mut answer));
        String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_string()
    }

    fn serve(limits: Limits) -> Relay {
        Relay::serve_within(limits, "127.0.0.1:0", Vec::new()).unwrap()
    }

    #[test]
    fn one_address_cannot_block_others() {
        let (relay, runtime) = (serve(LIMITS), Runtime::new().unwrap());
        let start = Instant::now();
        let held: Vec<Stream> = (0..256).map(|_| half(&runtime, &relay, [127, 0, 0, 2])).collect();
        assert_eq!(rest(half(&runtime, &relay, [127, 0, 0, 1])), "HTTP/1.1 200 OK");
        assert!(start.elapsed() < LIMITS.header, "{:?}", start.elapsed());
        let answered = held.into_iter().map(rest);
        let answered = answered.filter(|answer| answer == "HTTP/1.1 200 OK").count();
        assert!(answered <= LIMITS.per_address, "{answered} of 256 were served");
        assert!(answered > 0 || start.elapsed() > LIMITS.header);
    }

    #[test]
    fn incomplete_headers_time_out() {
        let header = Duration::from_millis(300);
        let relay = serve(Limits { connections: 8, per_address: 8, header });
        let runtime = Runtime::new().unwrap();
        let start = Instant::now();
        let mut held: Vec<Stream> =
            (0..8).map(|n| half(&runtime, &relay, [127, 0, 1, n])).collect();
        // Sending a byte now and then does not extend the time, nor does sending nothing.
        let mut drips = held.pop().unwrap();
        let dripped = std::thread::spawn(move || {
            (0..100).all(|_| {
                std::thread::sleep(Duration::from_millis(50));
                drips.write_all(b"h").is_ok()
            })
        });
        // All connections are occupied until the time limit.
        assert_eq!(rest(half(&runtime, &relay, [127, 0, 0, 1])), "HTTP/1.1 200 OK");
        for mut stream in held {
            assert!(!matches!(stream.read_to_end(&mut Vec::new()), Ok(1..)), "it was answered");
        }
        assert!(!dripped.join().unwrap(), "the connection is open after 100 bytes");
        assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
        // A response does not close the connection, but waiting too long for the next request does.
        let mut next = half(&runtime, &relay, [127, 0, 0, 1]);
        next.write_all(b"h\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        next.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200 OK"));
    }

    #[test]
    fn connections_are_counted_per_address() {
        let callers = Arc::<Callers>::default();
        let call = |text: &str| Call::begin(&callers, text.parse().unwrap(), 2);
        let first = call("10.0.0.1");
        let mapped = call("::ffff:10.0.0.1");
        assert!(first.is_some() && mapped.is_some() && call("10.0.0.1").is_none());
        assert!(call("10.0.0.2").is_some());
        let network = [call("2001:db8::1"), call("2001:db8::2:0:0:1")];
        assert!(network.iter().all(Option::is_some) && call("2001:db8::3").is_none());
        assert!(call("2001:db8:0:1::1").is_some());
        drop((first, mapped, network));
        assert!(callers.lock().unwrap().is_empty());
    }
}
