//! Searches over 1,024 partitions of car offers, at a fixed rate, while one partition per second is
//! replaced through a catalog.
//!
//! The client sends requests by a schedule and counts the time from the scheduled moment, so that a
//! pause of the server delays all requests of the pause. The publisher, which rebuilds partitions,
//! runs in this process.

use super::Options;
use super::gets::median;
use super::http::Client;
use super::process::{Server, firn_serve};
use crate::search::cars::Market;
use crate::search::ours::{cars_schema, document};
use crate::units::quantile;
use firndb::catalog::{Catalog, PublishOptions};
use firndb::search::{Collection, PartitionBuilder};
use firndb_bench_protocol::Result;
use firndb_bench_protocol::rng::Rng;
use firndb_bench_protocol::search::Query;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Partitions of the collection.
pub const PARTITIONS: u64 = 1024;
/// Searches per second.
pub const RATE: u64 = 500;
/// Connections of the client.
pub const CONNECTIONS: u64 = 8;
/// Time from one swap to the next.
const SWAP_EVERY: Duration = Duration::from_secs(1);
const SEED: u64 = 42;
/// Documents on a page.
const PAGE: u64 = 20;

/// Latencies in nanoseconds: median, 99 %, 99.9 % and maximum; medians of the rounds.
pub struct Figures {
    /// Without swaps.
    pub idle: [f64; 4],
    /// With swaps.
    pub busy: [f64; 4],
    /// Requests in each of the two.
    pub requests: [usize; 2],
    /// Versions published.
    pub swaps: u64,
    /// Documents of the collection.
    pub documents: u64,
}

/// Measures searches without and with swaps, interleaved.
pub fn run(options: &Options) -> Result<Figures> {
    let dir = options.dir.join("search");
    let _ = fs::remove_dir_all(&dir); // Fails if there is none.
    fs::create_dir_all(&dir)?;
    let mut publisher = Publisher::new(&dir, options.documents)?;
    let arguments = [
        format!("--catalog=cars={}/cars", dir.join("catalog").display()),
        format!("--cache={}", dir.join("cache").display()),
    ];
    let server = firn_serve(&options.server, &arguments)?;
    let bodies = publisher.bodies()?;
    // The first requests read partitions from the disk.
    requests(server.address, &bodies, Duration::from_secs(2))?;
    let (mut idle, mut busy) = (Vec::new(), Vec::new());
    let mut swaps = 0;
    for _ in 0..options.rounds {
        idle.push(requests(server.address, &bodies, options.seconds)?);
        let done = AtomicBool::new(false);
        let (latencies, published) = thread::scope(|scope| {
            let publishing = scope.spawn(|| publisher.publish_until(&done));
            let latencies = requests(server.address, &bodies, options.seconds);
            done.store(true, Ordering::Relaxed);
            (latencies, publishing.join().map_err(|_| "the publisher panicked"))
        });
        busy.push(latencies?);
        swaps += published??;
    }
    check_version(&server, publisher.version)?;
    let requests = [&idle, &busy].map(|rounds| rounds.iter().map(Vec::len).sum());
    Ok(Figures {
        idle: summary(&idle),
        busy: summary(&busy),
        requests,
        swaps,
        documents: options.documents,
    })
}

/// The median over the rounds of each figure.
fn summary(rounds: &[Vec<f64>]) -> [f64; 4] {
    [0.5, 0.99, 0.999, 1.0].map(|share| {
        let each = rounds.iter().map(|round| {
            let mut sorted = round.clone();
            sorted.sort_by(f64::total_cmp);
            quantile(&sorted, share)
        });
        median(each.collect())
    })
}

/// An error if the server does not get to the newest version.
fn check_version(server: &Server, version: u64) -> Result<()> {
    let mut client = Client::connect(server.address)?;
    let wanted = format!("\"version\":{version}");
    let mut answer = String::new();
    for _ in 0..100 {
        let (_, body) = client.get("/v1/catalogs")?;
        answer = String::from_utf8_lossy(&body).into_owned();
        if answer.replace(' ', "").contains(&wanted) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(100));
    }
    Err(format!("the server does not switch to version {version}: {answer}").into())
}

/// Sends requests at the fixed rate. Returns their latencies.
fn requests(address: SocketAddr, bodies: &[String], duration: Duration) -> Result<Vec<f64>> {
    let interval = Duration::from_secs(1) / RATE as u32;
    let count = RATE * duration.as_millis() as u64 / 1000;
    let start = Instant::now() + Duration::from_millis(50);
    let connection = |first: u64| -> Result<Vec<f64>> {
        let mut client = Client::connect(address)?;
        let mut latencies = Vec::new();
        for number in (first..count).step_by(CONNECTIONS as usize) {
            let due = start + interval * number as u32;
            thread::sleep(due.saturating_duration_since(Instant::now()));
            let body = &bodies[number as usize % bodies.len()];
            let headers = "content-type: application/json\r\n";
            let path = "/v1/collections/cars:search";
            let (status, answer) = client.send("POST", path, headers, body.as_bytes())?;
            latencies.push(due.elapsed().as_nanos() as f64);
            if status != 200 {
                let answer = String::from_utf8_lossy(&answer);
                return Err(format!("status {status} for {body}: {answer}").into());
            }
        }
        Ok(latencies)
    };
    thread::scope(|scope| {
        let connection = &connection;
        let threads: Vec<_> =
            (0..CONNECTIONS).map(|first| scope.spawn(move || connection(first))).collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().map_err(|_| "a connection panicked")??);
        }
        Ok(all)
    })
}

/// Publishes new versions of a collection of car offers.
struct Publisher {
    market: Market,
    collection: Collection,
    catalog: Catalog,
    dir: std::path::PathBuf,
    documents: u64,
    /// Versions published so far.
    version: u64,
}

impl Publisher {
    fn new(dir: &Path, documents: u64) -> Result<Publisher> {
        let market = Market::new(SEED);
        let collection_dir = dir.join("collection");
        let collection = Collection::create(&collection_dir)?;
        let schema = cars_schema()?;
        let mut change = collection.change()?;
        for partition in 0..PARTITIONS {
            let mut builder = PartitionBuilder::new(schema.clone());
            add(&market, &mut builder, (partition..documents).step_by(PARTITIONS as usize))?;
            change.put(&format!("p{partition:05}"), builder)?;
        }
        change.commit()?;
        let catalog = Catalog::create(dir.join("catalog"))?;
        catalog.publish("cars", &collection_dir, &PublishOptions::new())?;
        let dir = collection_dir;
        Ok(Publisher { market, collection, catalog, dir, documents, version: 1 })
    }

    /// Replaces one partition per second until `done`. Returns how many.
    fn publish_until(&mut self, done: &AtomicBool) -> Result<u64> {
        let mut swaps = 0;
        while !done.load(Ordering::Relaxed) {
            let start = Instant::now();
            // Other offers of the same market, as many as before.
            let partition = self.version * 7919 % PARTITIONS;
            let first = self.documents * (1 + self.version) + partition;
            let end = self.documents * (2 + self.version);
            let mut builder = PartitionBuilder::new(cars_schema()?);
            add(&self.market, &mut builder, (first..end).step_by(PARTITIONS as usize))?;
            let mut change = self.collection.change()?;
            change.put(&format!("p{partition:05}"), builder)?;
            change.commit()?;
            self.catalog.publish("cars", &self.dir, &PublishOptions::new())?;
            self.version += 1;
            swaps += 1;
            thread::sleep(SWAP_EVERY.saturating_sub(start.elapsed()));
        }
        Ok(swaps)
    }

    /// The requests: pages of offers of a region, make and price, and of makes, years and colours.
    fn bodies(&self) -> Result<Vec<String>> {
        let mut bodies = Vec::new();
        for query in self.market.queries(self.documents, 500, SEED) {
            let text = match query {
                Query::Q2 { region, mark, price } => format!(
                    "region_id = {region} and mark = '{mark}' and price between {} and {} \
                     order by date desc limit {PAGE}",
                    price.0, price.1
                ),
                Query::Q3 { marks, year, color } => format!(
                    "mark in ('{}') and year >= {year} and not color = '{color}' \
                     order by price, date desc limit {PAGE}",
                    marks.join("','")
                ),
                _ => continue,
            };
            bodies
                .push(serde_json::json!({ "query": text, "fields": ["id", "price"] }).to_string());
        }
        // The kinds alternate.
        let mut rng = Rng::new(SEED, 9, 0);
        for i in (1..bodies.len()).rev() {
            bodies.swap(i, rng.below(i as u64 + 1) as usize);
        }
        Ok(bodies)
    }
}

fn add(
    market: &Market,
    builder: &mut PartitionBuilder,
    ids: impl Iterator<Item = u64>,
) -> Result<()> {
    let mut payload = String::new();
    for id in ids {
        let offer = market.offer(id);
        builder.add(&document(&market.row(id, &offer, &mut payload)))?;
    }
    Ok(())
}
