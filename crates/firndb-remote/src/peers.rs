//! Readers that help each other: a file comes from a relay nearby rather than from the catalog.
//!
//! Each file belongs to one of the peers, which all readers choose alike: the one whose URL hashes
//! highest together with the file's BLAKE3. A reader asks this peer, which gives the file or has
//! the reader wait until it has it; the peer itself asks the catalog. So the catalog sends each
//! file once, however many readers want it at the same moment. A peer that cannot be reached, or
//! that has nothing to give, is passed over, in an order that is again the same for all; after a
//! few of them a reader asks the catalog.
//!
//! Peers need not be trusted: versions come from the catalog, and their manifests say what the
//! bytes of each file must be. Of a file that turns out to be wrong, nothing is taken again from
//! those who gave of it. A redirect is a failure: a peer must not send a reader anywhere else. And
//! peers have a budget: the time that they let a reader wait in vain, all of them together for all
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

/// Peers that are asked for a file before the catalog is.
const MOST: usize = 3;

/// How long a peer that did not answer is left alone.
const COOL: Duration = Duration::from_secs(5);

/// How long a peer that gave something wrong is left alone.
const BANNED: Duration = Duration::from_secs(300);

/// How often the time of one request peers may take in all without giving something for it, while
/// a reader fetches a version.
const BUDGET: u32 = 3;

/// Bytes per second that a peer gives at least; the time that it takes longer is taken in vain.
const RATE: f64 = (1 << 20) as f64;

/// The shortest pause before a peer that is fetching a file is asked again.
const PAUSE: Duration = Duration::from_millis(20);

/// Files of which is known who failed; when there are more, it is forgotten.
const MAX_KNOWN: usize = 4096;

/// A catalog that is asked for files only if no peer has them.
pub struct Peers {
    origin: Arc<dyn Origin>,
    peers: Vec<Peer>,
    /// The longest time in vain for a version.
    budget: Duration,
    spent: Mutex<Spent>,
    runtime: Runtime,
    files: Mutex<HashMap<String, Tried>>,
}

/// Time in which peers gave nothing.
#[derive(Default)]
struct Spent {
    time: Duration,
    until: Option<Instant>,
}

impl Spent {
    /// Adds the time between two moments, but for what another thread has added of it.
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
    /// This is the reader itself.
    is_self: bool,
    away_until: Mutex<Option<Instant>>,
}

/// What is known of a file. Peers are named by their places in the list.
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
    /// The catalog `origin`, and relays under these URLs. All readers of a place should be given
    /// the same list, in which each that has a relay finds itself: `relay` is its own, already
    /// listening. `patience` is for peers, and should be short: a reader that fetches a version
    /// waits in vain for all of them together no longer than three times `patience.request`, and
    /// then asks `origin` for what is left.
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
            // Neighbours are not behind a proxy, and not where another one says.
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

    /// Patience that fits peers: they are near, and there are others. A second for a connection,
    /// ten for a request, and so half a minute in vain for a version.
    pub fn patience() -> Patience {
        let (connect, request) = (Duration::from_secs(1), Duration::from_secs(10));
        Patience { connect, request, retries: 0 }
    }

    /// The peers in the order in which they are asked for a file.
    fn order(&self, blake3: &str) -> Vec<usize> {
        let weight = |peer: &usize| {
            let url = self.peers[*peer].server.url.as_str();
            std::cmp::Reverse(xxh3_64(format!("{url} {blake3}").as_bytes()))
        };
        let mut order: Vec<usize> = (0..self.peers.len()).collect();
        order.sort_by_key(weight);
        order
    }

    /// Whom to ask for an object now; `None` is the catalog.
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

    /// Notes something about an object.
    fn note<T>(&self, object: &str, note: impl FnOnce(&mut Tried) -> T) -> T {
        let mut files = self.files();
        if files.len() >= MAX_KNOWN && !files.contains_key(object) {
            files.clear();
        }
        note(files.entry(object.to_string()).or_default())
    }

    /// How long peers may still take in vain, for all files and for this one.
    fn left(&self, object: &str) -> Duration {
        let spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner).time;
        let here = self.files().get(object).map_or(Duration::ZERO, |tried| tried.spent.time);
        self.budget.saturating_sub(spent.max(here))
    }

    /// Peers gave nothing of an object since this moment.
    fn spend(&self, object: &str, since: Instant) {
        let now = Instant::now();
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).add(since, now);
        self.note(object, |tried| tried.spent.add(since, now));
    }

    /// The bytes from a peer; `None` if it is of no help.
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
                Some(Ok(_)) => {} // It has not all of the file.
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

    /// One request, which may take so long; `None` if it takes longer.
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

/// The BLAKE3 in the name of a file's object; `None` for what is no file.
fn blake3_of(object: &str) -> Option<&str> {
    let (folder, file) = object.rsplit_once('/')?;
    if !folder.ends_with("/files") {
        return None;
    }
    file.split_once('-').map(|(_, blake3)| blake3)
}

/// Which of the servers is this relay: that one answers at once.
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

    /// None, although the catalog may be on this machine: files come from peers.
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
