//! An origin that fetches files from relays on nearby machines, and otherwise from the catalog.
//!
//! Each file is assigned to one peer by rendezvous hashing (Thaler and Ravishankar, 1998): the peer
//! whose URL, hashed together with the BLAKE3 of the file, gives the highest value. All readers
//! compute the same assignment. A reader requests the file from this peer, which sends it or makes
//! the reader wait until it has fetched the file; the peer itself reads from the catalog. So the
//! catalog sends each file once, however many readers request it at the same time. A peer that is
//! unreachable or has nothing to send is skipped, in an order that is again the same for all
//! readers. After a few peers a reader turns to the catalog.
//!
//! Peers need not be trusted. Manifests come from the catalog and contain the hashes of the files.
//! If a file turns out to be wrong, the peers that sent parts of it are not used for it again.
//! Redirects count as failures, because a peer must not direct a reader elsewhere. Waiting for
//! peers is limited by a budget per version; once it is used up, the remaining files are read from
//! the catalog.
//! files of a version, after which the catalog is asked for what is left.

use crate::Patience;
use crate::http::{Failed, Server};
use crate::place::Place;
use crate::relay::{RELAY, Relay};
use crate::runtime::Runtime;
use firndb::catalog::{Content, Origin};
use firndb::{Error, ErrorKind, Result, redact_url};
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// Peers to try for a file before the catalog.
const MOST: usize = 3;

/// Pause after a peer did not respond.
const COOL: Duration = Duration::from_secs(5);

/// Pause after a peer sent wrong bytes.
const BANNED: Duration = Duration::from_secs(300);

/// The budget for waiting in vain while a version is fetched, in multiples of the limit for one
/// request.
const BUDGET: u32 = 3;

/// Slowest acceptable rate of a peer in bytes per second. Time beyond that counts against the
/// budget.
const RATE: f64 = (1 << 20) as f64;

/// Shortest pause before a peer that is fetching a file is asked again.
const PAUSE: Duration = Duration::from_millis(20);

/// Files whose failures are remembered. Beyond that number all are forgotten.
const MAX_KNOWN: usize = 4096;

/// A catalog whose files are read from peers where possible.
pub struct Peers {
    origin: Arc<dyn Origin>,
    peers: Vec<Peer>,
    /// The budget: how long a reader may wait in vain per version.
    budget: Duration,
    spent: Mutex<Spent>,
    runtime: Runtime,
    files: Mutex<HashMap<String, Tried>>,
}

/// The time in which peers have sent nothing useful.
#[derive(Default)]
struct Spent {
    time: Duration,
    until: Option<Instant>,
}

impl Spent {
    /// Adds the time between two moments, except what another thread has already added.
    fn add(&mut self, from: Instant, to: Instant) {
        let from = self.until.map_or(from, |until| until.max(from));
        if from < to {
            self.time += to - from;
            self.until = Some(to);
        }
    }
}

struct Peer {
    server: Arc<Server>,
    /// The peer is this reader itself.
    is_self: bool,
    away_until: Mutex<Option<Instant>>,
}

/// What is known about a file. Peers are identified by their indexes in the list.
#[derive(Default)]
struct Tried {
    gave: BTreeSet<usize>,
    failed: BTreeSet<usize>,
    spent: Spent,
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let urls: Vec<String> = self.peers.iter().map(|peer| peer.server.shown()).collect();
        f.debug_struct("Peers").field("origin", &self.origin).field("peers", &urls).finish()
    }
}

impl Peers {
    /// Wraps the catalog `origin` with relays at these URLs. All readers of a location should use
    /// the same list. If this reader has a relay, the list must contain it, and `relay` must be
    /// that relay, already listening. `patience` applies to requests to peers and should be short:
    /// while it fetches a version, a reader waits in vain for peers no longer than three times
    /// `patience.request` in total, and then reads the remaining files from `origin`.
    pub fn new(
        origin: Arc<dyn Origin>,
        urls: &[String],
        relay: Option<&Relay>,
        patience: Patience,
    ) -> Result<Peers> {
        let runtime = Runtime::new()?;
        let mut peers = Vec::with_capacity(urls.len());
        for url in urls {
            let Place::Http(url) = Place::parse(url)? else {
                let shown = redact_url(url);
                let message = format!("`{shown}` is no URL of a peer: write http://HOST:PORT");
                return Err(Error::invalid(message));
            };
            // Peers are nearby: without proxies, and without redirects.
            let redirect = reqwest::redirect::Policy::none();
            let client = reqwest::Client::builder().no_proxy().redirect(redirect);
            let server = Arc::new(Server::new(&url, patience, client)?);
            peers.push(Peer { server, is_self: false, away_until: Mutex::new(None) });
        }
        if let Some(relay) = relay {
            let id = relay.id().to_string();
            let servers: Vec<_> = peers.iter().map(|peer| peer.server.clone()).collect();
            let asked = async move { Ok(which_is(&servers, &id).await) };
            if let Some(own) = runtime.wait(asked)? {
                peers[own].is_self = true;
            }
        }
        let budget = patience.request.saturating_mul(BUDGET);
        let (spent, files) = Default::default();
        Ok(Peers { origin, peers, budget, spent, runtime, files })
    }

    /// Limits for nearby peers: 1 second to connect and 10 seconds per request, hence a budget of
    /// 30 seconds per version.
    pub fn patience() -> Patience {
        let (connect, request) = (Duration::from_secs(1), Duration::from_secs(10));
        Patience { connect, request, retries: 0 }
    }

    /// The peers, in the order in which they are tried for a file.
    fn order(&self, blake3: &str) -> Vec<usize> {
        let weight = |peer: &usize| {
            let url = self.peers[*peer].server.url.as_str();
            std::cmp::Reverse(xxh3_64(format!("{url} {blake3}").as_bytes()))
        };
        let mut order: Vec<usize> = (0..self.peers.len()).collect();
        order.sort_by_key(weight);
        order
    }

    /// The next peer to try for an object; `None` is the catalog.
    fn next(&self, object: &str, blake3: &str) -> Option<usize> {
        if self.left(object).is_zero() {
            return None;
        }
        let files = self.files();
        let failed = files.get(object).map(|tried| &tried.failed);
        if failed.is_some_and(|failed| failed.len() >= MOST) {
            return None;
        }
        let is_there = |peer: &usize| {
            failed.is_none_or(|failed| !failed.contains(peer)) && !self.peers[*peer].is_away()
        };
        let first = self.order(blake3).into_iter().find(is_there)?;
        (!self.peers[first].is_self).then_some(first)
    }

    fn files(&self) -> MutexGuard<'_, HashMap<String, Tried>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event about an object.
    fn note<T>(&self, object: &str, note: impl FnOnce(&mut Tried) -> T) -> T {
        let mut files = self.files();
        if files.len() >= MAX_KNOWN && !files.contains_key(object) {
            files.clear();
        }
        note(files.entry(object.to_string()).or_default())
    }

    /// The remaining budget, for all files and for this one.
    fn left(&self, object: &str) -> Duration {
        let spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner).time;
        let here = self.files().get(object).map_or(Duration::ZERO, |tried| tried.spent.time);
        self.budget.saturating_sub(spent.max(here))
    }

    /// Records that peers have sent nothing of an object since this moment.
    fn spend(&self, object: &str, since: Instant) {
        let now = Instant::now();
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).add(since, now);
        self.note(object, |tried| tried.spent.add(since, now));
    }

    /// The bytes as sent by a peer; `None` if it could not help.
    fn ask(&self, peer: usize, object: &str, offset: u64, len: usize) -> Option<Vec<u8>> {
        let mut has_waited = false;
        loop {
            let (asked, left) = (Instant::now(), self.left(object));
            match self.ask_once(peer, object, offset, len, left) {
                Some(Ok(bytes)) if bytes.len() == len => {
                    self.note(object, |tried| tried.gave.insert(peer));
                    self.spend(object, asked + Duration::from_secs_f64(len as f64 / RATE));
                    return Some(bytes);
                }
                Some(Ok(_)) => {} // The peer does not have the complete file.
                Some(Err(Failed { retry_after: Some(pause), .. })) => {
                    let pause = pause.max(PAUSE);
                    if pause <= left.saturating_sub(asked.elapsed()) {
                        has_waited = true;
                        std::thread::sleep(pause);
                        self.spend(object, asked);
                        continue;
                    }
                    self.peers[peer].leave_for(pause.clamp(COOL, BANNED));
                }
                Some(Err(failed)) if failed.is_missing() && !has_waited => {}
                Some(Err(_)) | None => self.peers[peer].leave_for(COOL),
            }
            self.spend(object, asked);
            self.note(object, |tried| tried.failed.insert(peer));
            return None;
        }
    }

    /// One request with a time limit; `None` if it takes longer.
    fn ask_once(
        &self,
        peer: usize,
        object: &str,
        offset: u64,
        len: usize,
        limit: Duration,
    ) -> Option<Result<Vec<u8>, Failed>> {
        let (server, name) = (self.peers[peer].server.clone(), object.to_string());
        let read = async move {
            let read = server.read_once(&name, offset, len);
            Ok(tokio::time::timeout(limit, read).await.ok())
        };
        self.runtime.wait(read).ok().flatten()
    }
}

impl Peer {
    fn is_away(&self) -> bool {
        let until = *self.away_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| until > Instant::now())
    }

    fn leave_for(&self, time: Duration) {
        let mut until = self.away_until.lock().unwrap_or_else(PoisonError::into_inner);
        *until = (*until).max(Some(Instant::now() + time));
    }
}

/// The BLAKE3 in the name of a file's object; `None` for other objects.
fn blake3_of(object: &str) -> Option<&str> {
    let (folder, file) = object.rsplit_once('/')?;
    if !folder.ends_with("/files") {
        return None;
    }
    file.split_once('-').map(|(_, blake3)| blake3)
}

/// The peer that is this relay. It responds immediately.
async fn which_is(servers: &[Arc<Server>], id: &str) -> Option<usize> {
    let asked = servers.iter().enumerate().map(|(n, server)| async move {
        let asked = server.client.get(server.url.clone()).send();
        let answer = tokio::time::timeout(Duration::from_secs(5), asked).await;
        let Ok(Ok(answer)) = answer else { return None };
        answer.headers().get(RELAY).is_some_and(|said| said == id).then_some(n)
    });
    let answers = asked.collect::<FuturesUnordered<_>>().filter_map(|found| async move { found });
    pin!(answers).next().await
}

impl Origin for Peers {
    fn create(&self, object: &str, bytes: &[u8]) -> Result<()> {
        self.origin.create(object, bytes)
    }

    fn store(&self, objects: &[(String, Content<'_>)], progress: &dyn Fn(u64)) -> Result<()> {
        self.origin.store(objects, progress)
    }

    fn hint(&self, object: &str, bytes: &[u8]) -> Result<()> {
        self.origin.hint(object, bytes)
    }

    fn read(&self, object: &str, offset: u64, len: usize) -> Result<Vec<u8>> {
        if let Some(blake3) = blake3_of(object) {
            while let Some(peer) = self.next(object, blake3) {
                if let Some(bytes) = self.ask(peer, object, offset, len) {
                    return Ok(bytes);
                }
            }
        }
        self.origin.read(object, offset, len)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.origin.list(folder)
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>> {
        self.origin.list_folders(folder)
    }

    fn remove(&self, objects: &[String]) -> Result<()> {
        self.origin.remove(objects)
    }

    fn are_intact(&self, objects: &[(String, u64)]) -> Result<Vec<bool>> {
        self.origin.are_intact(objects)
    }

    fn begin(&self) {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner) = Spent::default();
        self.files().values_mut().for_each(|tried| tried.spent = Spent::default());
        self.origin.begin();
    }

    /// `None` even if the catalog is on this machine: files come from peers.
    fn file(&self, _: &str) -> Option<PathBuf> {
        None
    }

    fn is_awaited(&self, object: &str) -> bool {
        let first = blake3_of(object).and_then(|blake3| self.order(blake3).into_iter().next());
        first.is_some_and(|first| self.peers[first].is_self)
    }

    fn reject(&self, object: &str) -> bool {
        let gave = self.note(object, |tried| {
            let gave = std::mem::take(&mut tried.gave);
            tried.failed.extend(&gave);
            gave
        });
        gave.iter().for_each(|&peer| self.peers[peer].leave_for(BANNED));
        !gave.is_empty() || self.origin.reject(object)
    }

    fn sweep(&self, folder: &str) -> Result<()> {
        self.origin.sweep(folder)
    }
}

impl Failed {
    fn is_missing(&self) -> bool {
        self.error.kind() == ErrorKind::NotFound
    }
}
