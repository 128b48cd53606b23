//! Tests of an object store over a faulty network, with a fault at each call.

use super::bad::{Asked, Server};
use super::*;
use firndb::catalog::CleanOptions;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[derive(Clone, Copy, PartialEq)]
enum Ill {
    No,
    /// The request is lost.
    Lost,
    /// The request arrives, and the response is lost.
    Unanswered,
    /// The request arrives twice, and the second response is returned.
    Repeated,
    /// The response is truncated.
    Half,
    /// The response is that of an earlier identical request: lists lag behind.
    Late,
    /// No response before the client's time limit.
    Slow,
}

/// The fault that the network applies to each request.
struct Network {
    store: u16,
    ill: Box<dyn Fn(u64) -> Ill + Send + Sync>,
    requests: AtomicU64,
    lists: Mutex<HashMap<String, Vec<u8>>>,
}

impl Network {
    fn to(store: u16, ill: impl Fn(u64) -> Ill + Send + Sync + 'static) -> (Server, Arc<Network>) {
        let (requests, lists) = (AtomicU64::new(0), Mutex::default());
        let network = Arc::new(Network { store, ill: Box::new(ill), requests, lists });
        let shared = network.clone();
        let server = Server::start(move |asked, stream| {
            let _ = shared.pass(asked, stream);
        });
        (server, network)
    }

    fn pass(&self, asked: &Asked, stream: &mut TcpStream) -> std::io::Result<()> {
        match (self.ill)(self.requests.fetch_add(1, Relaxed)) {
            Ill::Lost => Ok(()),
            Ill::Unanswered => self.forward(asked).map(drop),
            Ill::Repeated => {
                self.forward(asked)?;
                stream.write_all(&self.forward(asked)?)
            }
            Ill::Half => {
                let answer = self.forward(asked)?;
                stream.write_all(&answer[..answer.len() / 2])
            }
            Ill::Slow => {
                std::thread::sleep(Duration::from_secs(1));
                Ok(())
            }
            ill => {
                let answer = self.forward(asked)?;
                if !asked.target().contains("list-type=2") {
                    return stream.write_all(&answer);
                }
                let mut lists = self.lists.lock().unwrap();
                let before = lists.insert(asked.target().to_string(), answer.clone());
                let late = before.filter(|_| ill == Ill::Late);
                stream.write_all(&late.unwrap_or(answer))
            }
        }
    }

    /// Forwards the request to the store, on a new connection.
    fn forward(&self, asked: &Asked) -> std::io::Result<Vec<u8>> {
        let mut store = TcpStream::connect(("127.0.0.1", self.store))?;
        let (line, fields) = asked.head.split_once("\r\n").unwrap();
        let head = format!("{line}\r\nConnection: close\r\n{fields}");
        store.write_all(head.as_bytes())?;
        store.write_all(&asked.body)?;
        let mut answer = Vec::new();
        store.read_to_end(&mut answer)?;
        Ok(answer)
    }
}

/// Opens the catalog through the network, with short time limits.
fn over(server: &Server, bucket: &str, retries: usize) -> Catalog {
    let (connect, request) = (Duration::from_millis(500), Duration::from_millis(500));
    let patience = Patience { connect, request, retries };
    let variables = moto::variables(server.port);
    Catalog::at(Arc::new(ObjectOrigin::s3_with(variables, bucket, "p", patience).unwrap()))
}

/// All versions, after every byte of each was verified.
fn check(catalog: &Catalog) -> Vec<u64> {
    let there = catalog.versions("docs").unwrap_or_default();
    for &number in &there {
        catalog.verify(&catalog.version("docs", number).unwrap(), |_| ()).unwrap();
    }
    there
}

#[test]
fn versions_are_atomic_over_a_faulty_network() {
    let test = "versions_are_atomic_over_a_faulty_network";
    let Some(moto) = Moto::shared(test) else { return };
    moto.bucket("network");
    let place = Place::new();
    let direct = Catalog::at(Arc::new(origin(&moto, "network", "p")));
    let docs = place.collection(&["a", "b", "c"], 1);
    publish(&direct, "docs", &docs).unwrap();
    let ill = AtomicU64::new(0);
    let random = Mutex::new(Random(std::env::var("FIRNDB_SEED").map_or(5, |n| n.parse().unwrap())));
    let (server, _network) = Network::to(moto.port, move |_| {
        let draw = random.lock().unwrap().next() >> 20;
        if !draw.is_multiple_of(6) {
            return Ill::No;
        }
        ill.fetch_add(1, Relaxed);
        let ills =
            [Ill::Lost, Ill::Unanswered, Ill::Repeated, Ill::Half, Ill::Late, Ill::Late, Ill::Slow];
        ills[(draw / 6 % 7) as usize]
    });
    // Without retries, to expose faults; with one retry, to repeat requests.
    let (rash, patient) = (over(&server, "network", 0), over(&server, "network", 1));
    let reader = loop {
        if let Ok(reader) = read(&rash, "docs", &place.path("cache")) {
            break reader;
        }
    };
    let (mut failures, mut seen) = (0, 1);
    for round in 2..22 {
        place.collection(&[["a", "b", "c"][round as usize % 3]], round);
        let publisher = if round % 2 == 0 { &rash } else { &patient };
        let published = publish(publisher, "docs", &docs);
        failures += usize::from(published.is_err());
        let clean = CleanOptions::new().keep(4).grace(Duration::ZERO);
        let _ = publisher.clean("docs", &clean);
        failures += usize::from(reader.refresh().is_err());
        let now = reader.current();
        assert!(now.version().number >= seen, "back to an older version");
        seen = now.version().number;
        now.collection().unwrap().verify().unwrap();
        let there = check(&direct);
        if let Ok(published) = published {
            assert!(there.contains(&published.version.number), "round {round}: {there:?}");
        }
    }
    assert!(failures > 3, "{failures} failures prove little");
    let last = Catalog::at(Arc::new(origin(&moto, "network", "p")));
    publish(&last, "docs", &docs).unwrap();
    while reader.refresh().is_err() {}
    while reader.current().version().number < last.newest("docs").unwrap().number {
        let _ = reader.refresh();
    }
}

/// Interrupts a publication at every request. Afterwards the version does not exist, or it exists
/// and is complete; and the next attempt succeeds without sending complete files again.
#[test]
fn interrupted_publications_are_atomic() {
    let Some(moto) = Moto::shared("interrupted_publications_are_atomic") else { return };
    moto.bucket("cut");
    let place = Place::new();
    let (docs, direct) =
        (place.collection(&["a", "b"], 1), Catalog::at(Arc::new(origin(&moto, "cut", "p"))));
    publish(&direct, "docs", &docs).unwrap();
    let (mut number, mut failed, mut unnoticed) = (1, 0, 0);
    for cut in 0.. {
        for way in [Ill::Lost, Ill::Unanswered] {
            place.collection(&["a", "b"], 2 + number);
            let ill = move |n| if n >= cut { way } else { Ill::No };
            let (server, network) = Network::to(moto.port, ill);
            let published = publish(&over(&server, "cut", 0), "docs", &docs);
            let is_whole = network.requests.load(Relaxed) <= cut;
            assert!(published.is_ok() || !is_whole, "cut at {cut}");
            let there = check(&direct);
            match published {
                Ok(published) => {
                    assert_eq!(published.version.number, number + 1);
                    assert_eq!(there.last(), Some(&published.version.number));
                    if is_whole {
                        assert!(failed > 8 && unnoticed > 0, "{failed}, {unnoticed}");
                        return;
                    }
                    // The version existed already; the interrupted request was the hint.
                    unnoticed += 1;
                    assert!(unnoticed <= 4, "two requests in two ways");
                }
                // The manifest may have been stored. Then the version exists and must be complete.
                Err(_) => {
                    assert!(there.len() as u64 - number <= 1, "{there:?}");
                    failed += 1;
                }
            }
            number = publish(&direct, "docs", &docs).unwrap().version.number;
        }
    }
}
