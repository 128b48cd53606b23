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

/// How much of a relay strangers can take.
#[derive(Clone, Copy)]
struct Limits {
    /// Connections at the same time; more have to wait.
    connections: usize,
    /// Connections of one address at the same time; more are closed at once.
    per_address: usize,
    /// A connection that has not sent the whole header of its next request after so long is closed.
    header: Duration,
}

const LIMITS: Limits =
    Limits { connections: 256, per_address: 64, header: Duration::from_secs(10) };

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
    ///
    /// At most 256 connections are served at the same time, 64 of one address (of one /64 network
    /// of IPv6): what is beyond that is closed. A connection that does not send the header of its
    /// next request within 10 seconds is closed as well.
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

async fn accept(listener: TcpListener, server: Arc<Server>, limits: Limits) {
    let slots = Arc::new(Semaphore::new(limits.connections));
    let callers = Arc::<Callers>::default();
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, from)) => {
                // Without a call the connection is closed here.
                if let Some(call) = Call::begin(&callers, from.ip(), limits.per_address) {
                    let held = (slot, call);
                    tokio::spawn(serve(stream, server.clone(), limits.header, held));
                }
            }
            // Too many open files, say: some are going to be closed.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// The connections of each address.
type Callers = Mutex<HashMap<IpAddr, usize>>;

/// A connection of an address, counted until it is dropped.
struct Call {
    callers: Arc<Callers>,
    address: IpAddr,
}

impl Call {
    /// `None` if there are so many of this address already.
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

/// What counts as one address: a host of IPv6 has a network of them.
fn caller(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
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
    // A client that does not read the answer holds a place for nothing.
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

    /// A connection from an address of the loopback, on which half a header was sent.
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

    /// The end of the header, and the first line of the answer; empty if there is none.
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
    fn one_address_cannot_keep_others_away() {
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
    fn half_a_header_is_not_waited_for() {
        let header = Duration::from_millis(300);
        let relay = serve(Limits { connections: 8, per_address: 8, header });
        let runtime = Runtime::new().unwrap();
        let start = Instant::now();
        let mut held: Vec<Stream> =
            (0..8).map(|n| half(&runtime, &relay, [127, 0, 1, n])).collect();
        // One that sends a byte now and then is no better, nor is one that sends nothing more.
        let mut drips = held.pop().unwrap();
        let dripped = std::thread::spawn(move || {
            (0..100).all(|_| {
                std::thread::sleep(Duration::from_millis(50));
                drips.write_all(b"h").is_ok()
            })
        });
        // All places are taken until the time is over.
        assert_eq!(rest(half(&runtime, &relay, [127, 0, 0, 1])), "HTTP/1.1 200 OK");
        for mut stream in held {
            assert!(!matches!(stream.read_to_end(&mut Vec::new()), Ok(1..)), "it was answered");
        }
        assert!(!dripped.join().unwrap(), "the connection is open after 100 bytes");
        assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
        // An answer does not end the connection, but waiting for the next request does.
        let mut next = half(&runtime, &relay, [127, 0, 0, 1]);
        next.write_all(b"h\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        next.read_to_end(&mut answer).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200 OK"));
    }

    #[test]
    fn addresses_are_told_apart_and_given_back() {
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
