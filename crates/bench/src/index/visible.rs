//! Changes one document at a time: the time until it is durable, until it is published, and until a
//! polling reader sees it.

use super::POLL;
use super::prepare::{MILEAGE, Prepared, SOURCE, key};
use firndb::search::Collection;
use firndb::search::query::eq;
use firndb_bench_protocol::Result;
use firndb_bench_protocol::rng::Rng;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Durations of the steps of one change.
pub struct Steps {
    /// `upsert` returned: the change is durable.
    pub upsert: Duration,
    /// From then until `publish` returned.
    pub publish: Duration,
    /// From the return of `upsert` until the reader saw the change.
    pub visible: Duration,
}

/// Times `changes` changes.
pub fn run(prepared: &Prepared, changes: i64) -> Result<Vec<Steps>> {
    let mut indexer = prepared.open()?;
    let collection = Collection::open(prepared.dir.join("collection"))?;
    collection.reader().warm()?;
    let (wanted, stamps) = channel();
    let (seen, answers) = channel();
    let mut rng = Rng::new(7, 1, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let seen = seen;
            watch(&collection, stamps).for_each(|at| _ = seen.send(at));
        });
        let mut steps = Vec::new();
        for change in 0..changes {
            let id = rng.below(prepared.documents);
            // A varying pause, so that changes fall at any point of the reader's polling interval.
            thread::sleep(POLL.mul_f64(rng.unit()));
            let stamp = change + i64::from(std::process::id()) * changes;
            let document = prepared.changed(id, stamp);
            wanted.send(stamp)?;
            let start = Instant::now();
            indexer.upsert(SOURCE, key(id), &document)?;
            let applied = Instant::now();
            let published = indexer.publish()?;
            let done = Instant::now();
            if published.rebuilt.len() != 1 {
                return Err(format!("{} partitions were rebuilt", published.rebuilt.len()).into());
            }
            let seen: Instant = answers.recv()??;
            steps.push(Steps {
                upsert: applied - start,
                publish: done - applied,
                visible: seen.saturating_duration_since(applied),
            });
        }
        drop(wanted);
        indexer.close()?;
        Ok(steps)
    })
}

/// The time at which each change was seen.
fn watch(
    collection: &Collection,
    stamps: Receiver<i64>,
) -> impl Iterator<Item = std::result::Result<Instant, firndb::Error>> {
    stamps.into_iter().map(|stamp| {
        let filter = eq("mileage", MILEAGE + stamp);
        while collection.reader().count(&filter)? == 0 {
            thread::sleep(POLL);
            collection.refresh()?;
        }
        Ok(Instant::now())
    })
}
