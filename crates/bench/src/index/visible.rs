//! One changed document of one partition: until it is durable, until it is published, until a
//! reader that asks again and again has it.

use super::POLL;
use super::prepare::{MILEAGE, Prepared, SOURCE, key};
use firndb::search::Collection;
use firndb::search::query::eq;
use firndb_bench_protocol::Result;
use firndb_bench_protocol::rng::Rng;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long the steps of one change took, each from the end of the step before.
pub struct Steps {
    /// `upsert` returned: the change is durable.
    pub upsert: Duration,
    /// `publish` returned, after `upsert` did.
    pub publish: Duration,
    /// The reader had it, after `upsert` returned.
    pub visible: Duration,
}

/// Times so many changes.
pub fn run(prepared: &Prepared, changes: i64) -> Result<Vec<Steps>> {
    let mut indexer = prepared.open()?;
    let collection = Collection::open(prepared.dir.join("collection"))?;
    collection.reader().warm()?;
    let (wanted, asked) = channel();
    let (seen, answers) = channel();
    let mut rng = Rng::new(7, 1, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let seen = seen;
            watch(&collection, asked).for_each(|at| _ = seen.send(at));
        });
        let mut steps = Vec::new();
        for change in 0..changes {
            let id = rng.below(prepared.documents);
            // Some time later than the one before, so that the watcher is anywhere in its round.
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

/// When each change that is asked for was seen.
fn watch(
    collection: &Collection,
    asked: Receiver<i64>,
) -> impl Iterator<Item = std::result::Result<Instant, firndb::Error>> {
    asked.into_iter().map(|stamp| {
        let filter = eq("mileage", MILEAGE + stamp);
        while collection.reader().count(&filter)? == 0 {
            thread::sleep(POLL);
            collection.refresh()?;
        }
        Ok(Instant::now())
    })
}
