//! Tests of readers that fetch from each other, and of faulty peers.

use super::bad::{Peer, Server};
use super::*;
use firndb::catalog::{Content, Origin, Share, Version};
use firndb_remote::{Peers, Relay};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

const READERS: usize = 8;

/// An origin that counts the bytes read of each file, and delays reads.
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

    /// The bytes read of each file since the last call.
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

/// What the catalog has to send of a version, to readers with or without the previous version.
fn files(version: &Version) -> BTreeMap<String, u64> {
    let new = version.files.iter().filter(|file| file.since == version.number);
    new.map(|file| (version.object(file), file.bytes)).collect()
}

/// A reader of `docs` with its relay; its peers are set later.
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
        let options = ReaderOptions::new().share(self.share.clone());
        Catalog::at(Arc::new(peers)).reader("docs", cache, options).unwrap()
    }
}

/// Creates partitions, some of which are longer than a piece.
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

/// All readers start at the same moment with empty caches, and then refresh. The catalog sends each
/// file once.
#[test]
fn eight_readers_fetch_each_file_from_the_catalog_once() {
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
    // One reader learns of the next version and wakes the readers to which new files are assigned.
    // A reader without new files polls.
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

/// Every reader gets correct files, whatever its peers do. Peers that lie or are slow are asked
/// once or twice, and not for each file.
#[test]
fn bad_peers_cost_time_but_never_correctness() {
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

/// One lying peer among good ones, and one that is unreachable.
#[test]
fn good_peers_compensate_for_bad_ones() {
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

/// Whatever peers do, the time that they make a reader wait for a version is bounded by the budget.
/// A promised waiting time is accepted only within the budget.
#[test]
fn delay_by_peers_is_bounded_by_the_budget() {
    let place = Place::new();
    let catalog = Catalog::create(place.path("catalog")).unwrap();
    publish_docs(&place, &catalog, 1, 40);
    let request = Duration::from_millis(400);
    let patience = Patience { connect: request, request, retries: 0 };
    let answer = |seconds: &'static str| {
        Server::start(move |_, stream| {
            let head = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close";
            let _ = write!(stream, "{head}\r\nRetry-After: {seconds}\r\n\r\n");
        })
    };
    let later = ["300", "18446744073709551615", "Fri, 31 Dec 2100 23:59:59 GMT", "0", "1", "-1"];
    std::thread::scope(|scope| {
        for (n, seconds) in later.into_iter().enumerate() {
            let (place, catalog) = (&place, &catalog);
            scope.spawn(move || {
                let servers = [answer(seconds), Peer::Hangs.start(), Peer::Drips.start()];
                let urls = servers.each_ref().map(Server::url);
                let origin = Counted::new(catalog, Duration::ZERO);
                let peers = Peers::new(origin, &urls, None, patience).unwrap();
                let catalog = Catalog::at(Arc::new(peers));
                let options = ReaderOptions::new().threads(2);
                let start = Instant::now();
                let cache = place.path(&format!("later-{n}"));
                let reader = catalog.reader("docs", &cache, options).unwrap();
                let took = start.elapsed();
                reader.current().collection().unwrap().verify().unwrap();
                // The budget is 1.2 seconds; the rest is tolerance for a loaded machine.
                assert!(took < Duration::from_secs(8), "{seconds}: {took:?}");
            });
        }
    });
}

/// A redirect counts as a failure: the other address is not contacted.
#[test]
fn redirects_are_not_followed() {
    let place = Place::new();
    let catalog = Catalog::create(place.path("catalog")).unwrap();
    let version = publish_docs(&place, &catalog, 1, 3);
    let origin = Counted::new(&catalog, Duration::ZERO);
    // The other server has all of the files.
    let elsewhere = Neighbour::new();
    let _reader = elsewhere.open(origin.clone(), &[], &place.path("elsewhere"));
    origin.sent();
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 x"] {
        let to = elsewhere.url();
        let server = Server::start(move |asked, stream| {
            let target = asked.target();
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nLocation: {to}{target}\r\nContent-Length: 0\r\n\
                 Connection: close\r\n\r\n"
            );
        });
        let before = elsewhere.relay.stats().requests;
        let relay = Neighbour::new();
        let peers = [server.url()];
        let reader = relay.open(origin.clone(), &peers, &place.path(&status[..3]));
        reader.current().collection().unwrap().verify().unwrap();
        assert!(server.requests.load(Ordering::Relaxed) > 1, "{status}: it was not asked");
        assert_eq!(elsewhere.relay.stats().requests, before, "{status}");
        assert_eq!(origin.sent(), files(&version), "{status}");
    }
}

#[test]
fn messages_contain_no_credentials() {
    let place = Place::new();
    let catalog = Catalog::create(place.path("catalog")).unwrap();
    let url = "http://user:secret@127.0.0.1:9/".to_string();
    let peers =
        Peers::new(catalog.origin().clone(), std::slice::from_ref(&url), None, Peers::patience());
    let far = firndb_remote::open(&url).unwrap();
    let mut shown = vec![format!("{:?} {far:?}", peers.unwrap())];
    shown.push(format!("{:?}", firndb_remote::Place::parse(&url).unwrap()));
    let errors = [
        far.names().map(drop),
        far.newest("docs").map(drop),
        publish(&far, "docs", &place.table(1, 10)).map(drop),
        firndb_remote::open("s3://KEY:secret@bucket/a").map(drop),
        firndb_remote::open("ftp://user:secret@host/a").map(drop),
    ];
    for error in errors.map(Result::unwrap_err) {
        shown.push(format!("{error} {error:?}"));
    }
    for text in shown {
        assert!(!text.contains("secret") && text.contains("://***@"), "{text}");
    }
}

#[test]
fn invalid_peer_urls_are_rejected() {
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
