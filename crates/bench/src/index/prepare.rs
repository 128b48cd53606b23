//! An index of car offers: one feed, partitioned by hash. The index of an earlier run is reused.

use crate::search::cars::Market;
use crate::search::ours::{cars_schema, document};
use firndb::indexer::{Indexer, Options, Partitioning};
use firndb::search::Document;
use firndb_bench_protocol::Result;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SEED: u64 = 42;
/// The source of all offers.
pub const SOURCE: &str = "offers";

/// An index on disk.
pub struct Prepared {
    /// Its directory.
    pub dir: PathBuf,
    /// Number of documents.
    pub documents: u64,
    /// Number of partitions.
    pub partitions: u32,
    /// Duration of the feed and its publication, if the index was built in this run.
    pub took: Option<(Duration, Duration)>,
    /// Duration of opening the complete index.
    pub open: Duration,
    /// Bytes of the partition files and of the log.
    pub bytes: (u64, u64),
    market: Market,
}

impl Prepared {
    /// The index of `size` offers below `root`; built if it is missing.
    pub fn new(root: &Path, documents: u64, partitions: u32) -> Result<Prepared> {
        let dir = root.join(format!("index-{documents}-{partitions}-s{SEED}-v1"));
        let market = Market::new(SEED);
        let mut took = None;
        let mut indexer = open(&dir, partitions)?;
        if indexer.status()?.documents != documents {
            let start = Instant::now();
            let mut feed = indexer.feed(SOURCE)?;
            for id in 0..documents {
                feed.add(key(id), &offer(&market, id))?;
            }
            feed.finish()?;
            let applied = start.elapsed();
            indexer.publish()?;
            took = Some((applied, start.elapsed() - applied));
        }
        let status = indexer.status()?;
        indexer.close()?;
        let start = Instant::now();
        open(&dir, partitions)?.close()?;
        let open = start.elapsed();
        let bytes = (status.bytes, status.log_bytes);
        Ok(Prepared { dir, documents, partitions, took, open, bytes, market })
    }

    /// Opens the index with one building thread: the other processor is for queries.
    pub fn open(&self) -> Result<Indexer> {
        open(&self.dir, self.partitions)
    }

    /// Offer `id` with a mileage that no other offer has, which encodes the time of the change.
    pub fn changed(&self, id: u64, stamp: i64) -> Document {
        let offer = offer(&self.market, id);
        let mut changed = Document::new().payload(offer.payload_bytes());
        for (name, value) in offer.fields() {
            match name {
                "mileage" => changed.push(name, MILEAGE + stamp),
                _ => changed.push(name, value.clone()),
            }
        }
        changed
    }
}

/// Larger than the mileage of any offer.
pub const MILEAGE: i64 = 10_000_000;

fn open(dir: &Path, partitions: u32) -> Result<Indexer> {
    let by = Partitioning::by_hash(partitions);
    let options = Options::new().threads(1);
    Ok(Indexer::open(dir, cars_schema()?, by, options)?)
}

fn offer(market: &Market, id: u64) -> Document {
    let mut payload = String::new();
    let offer = market.offer(id);
    document(&market.row(id, &offer, &mut payload))
}

/// The key of an offer.
pub fn key(id: u64) -> String {
    format!("offer-{id}")
}
