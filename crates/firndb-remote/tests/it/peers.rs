//! Readers that help each other, and peers that do not help.

use super::bad::Peer;
use super::*;
use firndb::catalog::{Content, Origin, Share, Version};
use firndb_remote::{Peers, Relay};
use std::collections::BTreeMap;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

const READERS: usize = 8;

/// A catalog's place that counts the bytes that are read of each file, and takes its time.
#[derive(Debug)]
struct Counted {
    inner: Arc<dyn Origin>,
    sent: Mutex<BTreeMap<String, u64>>,
    takes: Duration,
}

impl Counted {
    fn new(catalog: &Catalog, takes: Duration) -> Arc<Counted> {
        Arc::new(Counted { inner: catalog.origin().clone(), sent: Mutex::default(), takes })
    }

    /// What was sent of each file since the last call.
    fn sent(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut self.sent.lock().unwrap())
    }
}

impl Origin for Counted {
    fn create(&self, object: &str, bytes: &[u8]) -> Result<()> {
        self.inner.create(object, bytes)
    }
    fn store(&self, objects: &[(String, Content<'_>)], progress: &dyn Fn(u64)) -> Result<()> {
        self.inner.store(objects, progress)
    }
    fn read(&self, object: &str, offset: u64, len: usize) -> Result<Vec<u8>> {
        std::thread::sleep(self.takes);
        let bytes = self.inner.read(object, offset, len)?;
        if object.contains("/files/") {
            *self.sent.lock().unwrap().entry(object.to_string()).or_default() += bytes.len() as u64;
        }
        Ok(bytes)
    }
    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.inner.list(folder)
    }
    fn list_folders(&self, folder: &str) -> Result<Vec<String>> {
        self.inner.list_folders(folder)
    }
    fn remove(&self, objects: &[String]) -> Result<()> {
        self.inner.remove(objects)
    }
}

/// What a catalog has to send of a version that nobody has anything of, or of what is new in it.
fn files(version: &Version) -> BTreeMap<String, u64> {
    let new = version.files.iter().filter(|file| file.since == version.number);
    new.map(|file| (version.object(file), file.bytes)).collect()
}

/// A reader of `docs` with its relay; its peers are to be named.
struct Neighbour {
    relay: Relay,
    share: Share,
}

impl Neighbour {
    fn new() -> Neighbour {
        let share = Share::new("docs");
        Neighbour { relay: Relay::serve("127.0.0.1:0", vec![share.clone()]).unwrap(), share }
    }

    fn url(&self) -> String {
        format!("http://{}", self.relay.address())
    }

    fn open(&self, origin: Arc<Counted>, peers: &[String], cache: &Path) -> CatalogReader {
        let relay = Some(&self.relay);
        let peers = Peers::new(origin, peers, relay, Peers::patience()).unwrap();
        let options = ReaderOptions { share: Some(self.share.clone()), ..ReaderOptions::default() };
        Catalog::at(Arc::new(peers)).reader("docs", cache, options).unwrap()
    }
}

/// A number of partitions, some of them of more than a piece.
fn publish_docs(place: &Place, catalog: &Catalog, number: u64, partitions: usize) -> Version {
    let names: Vec<String> = (0..partitions).map(|n| format!("p{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let docs = place.collection(&names, number);
    publish(catalog, "docs", &docs).unwrap().version
}

fn within(limit: Duration, what: &str, is_done: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < limit, "{what} did not happen in {limit:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// All start at the same moment with nothing, and then follow: the catalog sends each file once.
#[test]
fn eight_readers_take_each_file_from_the_catalog_once() {
    let place = Place::new();
    let catalog = Catalog::create(place.path("catalog")).unwrap();
    let first = publish_docs(&place, &catalog, 1, 30);
    let origin = Counted::new(&catalog, Duration::from_millis(2));
    let neighbours: Vec<Neighbour> = (0..READERS).map(|_| Neighbour::new()).collect();
    let urls: Vec<String> = neighbours.iter().map(Neighbour::url).collect();
    let begin = Barrier::new(READERS);
    let readers: Vec<CatalogReader> = std::thread::scope(|scope| {
        let all: Vec<_> = neighbours
            .iter()
            .enumerate()
            .map(|(n, neighbour)| {
                let (origin, urls, begin) = (origin.clone(), &urls, &begin);
                let cache = place.path(&format!("cache-{n}"));
                scope.spawn(move || {
                    begin.wait();
                    neighbour.open(origin, urls, &cache)
                })
            })
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(origin.sent(), files(&first));
    for reader in &readers {
        reader.current().collection().unwrap().verify().unwrap();
    }
    // One of them hears of the next version, and wakes those to whom new files belong; who has none
    // looks for itself.
    let hour = Duration::from_secs(3600);
    let watches: Vec<_> = readers.iter().map(|reader| reader.watch(hour, |_| ())).collect();
    let second = publish_docs(&place, &catalog, 2, 29);
    assert!(readers[3].refresh().unwrap());
    let woken = || readers.iter().filter(|reader| reader.current().version().number == 2).count();
    within(Duration::from_secs(20), "waking others", || woken() > 2);
    std::thread::scope(|scope| {
        readers.iter().for_each(|reader| drop(scope.spawn(|| reader.refresh().unwrap())));
    });
    assert_eq!(woken(), READERS);
    assert_eq!(origin.sent(), files(&second));
    for (reader, neighbour) in readers.iter().zip(&neighbours) {
        reader.current().collection().unwrap().verify().unwrap();
        assert!(neighbour.relay.stats().bytes > 0);
    }
    drop(watches);
}

/// Every reader gets what it should, whatever its peers do; those that lie or are slow are asked
/// once or twice, and not for each file.
#[test]
fn bad_peers_cost_time_and_never_a_byte() {
    let place = Place::new();
    let catalog = Catalog::create(place.path("catalog")).unwrap();
    let version = publish_docs(&place, &catalog, 1, 12);
    let patience = Patience {
        connect: Duration::from_millis(200),
        request: Duration::from_millis(300),
        retries: 0,
    };
    std::thread::scope(|scope| {
        for bad in Peer::ALL {
            let (place, catalog, version) = (&place, &catalog, &version);
            scope.spawn(move || {
                let origin = Counted::new(catalog, Duration::ZERO);
                let server = bad.start();
                let peers = Peers::new(origin.clone(), &[server.url()], None, patience).unwrap();
                let start = Instant::now();
                let cache = place.path(&format!("{bad:?}"));
                let reader = read(&Catalog::at(Arc::new(peers)), "docs", &cache).unwrap();
                reader.current().collection().unwrap().verify().unwrap();
                assert!(start.elapsed() < Duration::from_secs(60), "{bad:?}");
                assert_eq!(origin.sent(), files(version), "{bad:?}");
                let asked = server.requests.load(Ordering::Relaxed);
                assert!(asked > 0, "{bad:?} was not asked");
                let limit = if bad == Peer::Promises { 10_000 } else { 30 };
                assert!(asked < limit, "{bad:?} was asked {asked} times");
            });
        }
    });
}

/// A liar among good ones, and one that is gone.
#[test]
fn good_peers_make_up_for_bad_ones() {
    let place = Place::new();
    let catalog = Catalog::create(place.path("catalog")).unwrap();
    let version = publish_docs(&place, &catalog, 1, 20);
    let origin = Counted::new(&catalog, Duration::ZERO);
    let (good, gone, liar) = (Neighbour::new(), Neighbour::new(), Peer::Lies.start());
    let urls = [good.url(), gone.url(), liar.url()];
    drop(gone);
    let first = good.open(origin.clone(), &urls, &place.path("first"));
    first.current().collection().unwrap().verify().unwrap();
    assert_eq!(origin.sent(), files(&version), "the first has it from the catalog");
    let peers = Peers::new(origin.clone(), &urls, None, Peers::patience()).unwrap();
    let second = read(&Catalog::at(Arc::new(peers)), "docs", &place.path("second")).unwrap();
    second.current().collection().unwrap().verify().unwrap();
    let again: u64 = origin.sent().values().sum();
    assert!(again < version.bytes() / 2, "{again} of {} from the catalog", version.bytes());
}

#[test]
fn a_peer_that_is_none_is_refused() {
    let place = Place::new();
    let catalog = Catalog::create(place.path("catalog")).unwrap();
    let peers = |url: &str| {
        Peers::new(catalog.origin().clone(), &[url.to_string()], None, Peers::patience())
    };
    for url in ["s3://a/b", "directory", "http://"] {
        let error = peers(url).unwrap_err();
        assert_eq!(error.kind(), firndb::ErrorKind::InvalidArgument, "{error}");
    }
    assert!(format!("{:?}", peers("http://host:1").unwrap()).contains("http://host:1/"));
}
