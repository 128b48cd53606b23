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
//! those who gave of it.

use crate::Patience;
use crate::http::{Failed, Server};
use crate::place::Place;
use crate::relay::{RELAY, Relay};
use crate::runtime::Runtime;
use firndb::catalog::{Content, Origin};
use firndb::{Error, ErrorKind, Result};
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

/// How often the time of one request a reader waits in all for a peer that says it is fetching a
/// file.
const LONGEST: u32 = 30;

/// Files of which is known who failed; when there are more, it is forgotten.
const MAX_KNOWN: usize = 4096;

/// A catalog that is asked for files only if no peer has them.
pub struct Peers {
    origin: Arc<dyn Origin>,
    peers: Vec<Peer>,
    /// The longest wait for a file.
    longest: Duration,
    runtime: Runtime,
    files: Mutex<HashMap<String, Tried>>,
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
    asked: Option<Instant>,
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let urls: Vec<&str> = self.peers.iter().map(|peer| peer.server.url.as_str()).collect();
        f.debug_struct("Peers").field("origin", &self.origin).field("peers", &urls).finish()
    }
}

impl Peers {
    /// The catalog `origin`, and relays under these URLs. All readers of a place should be given
    /// the same list, in which each that has a relay finds itself: `relay` is its own, already
    /// listening. `patience` is for peers, and should be short.
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
                let message = format!("`{url}` is no URL of a peer: write http://HOST:PORT");
                return Err(Error::invalid(message));
            };
            // Neighbours are not behind a proxy.
            let client = reqwest::Client::builder().no_proxy();
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
        let longest = patience.request.saturating_mul(LONGEST);
        Ok(Peers { origin, peers, longest, runtime, files: Mutex::default() })
    }

    /// Patience that fits peers: they are near, and there are others.
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

    /// The bytes from a peer; `None` if it is of no help.
    fn ask(&self, peer: usize, object: &str, offset: u64, len: usize) -> Option<Vec<u8>> {
        let asked = self.note(object, |tried| *tried.asked.get_or_insert_with(Instant::now));
        let mut has_waited = false;
        loop {
            let (server, name) = (self.peers[peer].server.clone(), object.to_string());
            let once = async move { Ok(server.read_once(&name, offset, len).await) };
            let outcome = match self.runtime.wait(once) {
                Ok(outcome) => outcome,
                Err(_) => return None,
            };
            match outcome {
                Ok(bytes) if bytes.len() == len => {
                    self.note(object, |tried| tried.gave.insert(peer));
                    return Some(bytes);
                }
                Ok(_) => break, // It has not all of the file.
                Err(failed) if failed.is_busy && asked.elapsed() < self.longest => {
                    has_waited = true;
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(failed) => {
                    if has_waited || !failed.is_missing() {
                        self.peers[peer].leave_for(COOL);
                    }
                    break;
                }
            }
        }
        self.note(object, |tried| tried.failed.insert(peer));
        None
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
