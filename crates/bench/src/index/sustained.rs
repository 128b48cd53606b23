//! Queries of six kinds, one after the other, with and without changes beside them in turns.

use super::POLL;
use super::prepare::{Prepared, SOURCE, key};
use crate::search::cars::Market;
use crate::search::ours::Opened;
use firndb::indexer::Indexer;
use firndb::search::{Collection, Reader};
use firndb_bench_protocol::Result;
use firndb_bench_protocol::rng::Rng;
use firndb_bench_protocol::search::{Answer, Session};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What to run.
pub struct Options {
    /// Partitions that change in each second.
    pub dirty: usize,
    /// Seconds without changes, and with them, in each turn.
    pub seconds: u64,
    /// How many turns.
    pub turns: u64,
}

/// Nanoseconds of every query: by kind, without changes and with them.
#[derive(Default)]
pub struct Figures {
    /// Names of the kinds.
    pub kinds: Vec<String>,
    /// Without changes.
    pub idle: Vec<Vec<f64>>,
    /// With them.
    pub busy: Vec<Vec<f64>>,
    /// Partitions that were rebuilt, the publishes that did it, and how long those took.
    pub rebuilt: u64,
    /// One entry a publish.
    pub publishes: Vec<Duration>,
    /// Time with changes.
    pub busy_time: Duration,
}

/// A collection of which queries get a new set once everything of it is in memory.
struct Readers {
    collection: Collection,
    current: Mutex<Reader>,
}

impl Readers {
    fn open(dir: &Path) -> Result<Readers> {
        let collection = Collection::open(dir)?;
        let current = collection.reader();
        current.warm()?;
        Ok(Readers { collection, current: Mutex::new(current) })
    }

    fn current(&self) -> Reader {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Switches to new sets until it is over.
    fn watch(&self, over: &AtomicBool) -> Result<()> {
        while !over.load(Ordering::Relaxed) {
            thread::sleep(POLL);
            if self.collection.refresh()? {
                let new = self.collection.reader();
                new.warm()?;
                let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
                let old = std::mem::replace(&mut *current, new);
                drop((current, old)); // Nobody waits for the old set to be freed.
            }
        }
        Ok(())
    }
}

/// Queries of each kind.
const QUERIES: usize = 200;

/// Runs the turns.
pub fn run(prepared: &Prepared, options: &Options) -> Result<Figures> {
    let mut indexer = prepared.open()?;
    let readers = Readers::open(&prepared.dir.join("collection"))?;
    let mut figures = Figures::default();
    let mut stamp = i64::from(std::process::id()) * 1_000_000;
    for turn in 0..=options.turns {
        // The first turn warms everything up: its times are not kept.
        for is_busy in [false, true] {
            let over = AtomicBool::new(false);
            let times = thread::scope(|scope| -> Result<_> {
                let ask = scope.spawn(|| queries(&readers, prepared, &over));
                let watch = scope.spawn(|| readers.watch(&over));
                let wait = Duration::from_secs(if turn == 0 { 5 } else { options.seconds });
                let done = match is_busy {
                    true => change(&mut indexer, prepared, options, wait, &mut stamp).map(Some),
                    false => {
                        thread::sleep(wait);
                        Ok(None)
                    }
                };
                over.store(true, Ordering::Relaxed);
                watch.join().map_err(|_| "the watcher panicked")??;
                let times = ask.join().map_err(|_| "the queries panicked")??;
                if let Some((rebuilt, publishes)) = done?.filter(|_| turn > 0) {
                    figures.rebuilt += rebuilt;
                    figures.publishes.extend(publishes);
                    figures.busy_time += wait;
                }
                Ok(times)
            })?;
            if turn == 0 {
                figures.kinds = (1..=times.len()).map(|n| format!("Q{n}")).collect();
                continue;
            }
            let into = if is_busy { &mut figures.busy } else { &mut figures.idle };
            into.resize(times.len(), Vec::new());
            into.iter_mut().zip(times).for_each(|(all, some)| all.extend(some));
        }
    }
    for times in figures.idle.iter_mut().chain(&mut figures.busy) {
        times.sort_by(f64::total_cmp);
    }
    indexer.close()?;
    Ok(figures)
}

/// Asks queries of each kind in turn, each of the newest set, until it is over; their times.
fn queries(readers: &Readers, prepared: &Prepared, over: &AtomicBool) -> Result<Vec<Vec<f64>>> {
    let all = Market::new(42).queries(prepared.documents, QUERIES, 7);
    let kinds = all.len() / QUERIES;
    let mut session = Opened::of(readers.current());
    let queries = all.iter().map(|query| session.prepare(query)).collect::<Result<Vec<_>>>()?;
    let mut times = vec![Vec::new(); kinds];
    let mut answer = Answer::default();
    for n in (0..).take_while(|_| !over.load(Ordering::Relaxed)) {
        let kind = n % kinds;
        let query = &queries[kind * QUERIES + n / kinds % QUERIES];
        let start = Instant::now();
        session = Opened::of(readers.current());
        answer.clear();
        session.run(query, &mut answer)?;
        times[kind].push(start.elapsed().as_nanos() as f64);
    }
    Ok(times)
}

/// In each second changes documents of as many partitions as the options say, and publishes; how
/// many were rebuilt, and how long the publishes took.
fn change(
    indexer: &mut Indexer,
    prepared: &Prepared,
    options: &Options,
    wait: Duration,
    stamp: &mut i64,
) -> Result<(u64, Vec<Duration>)> {
    let (start, mut rng) = (Instant::now(), Rng::new(3, 1, *stamp as u64));
    let (mut rebuilt, mut publishes) = (0, Vec::new());
    for second in 1..=wait.as_secs() {
        let mut dirty = BTreeSet::new();
        while dirty.len() < options.dirty {
            let mut changes = indexer.changes(SOURCE)?;
            for _ in dirty.len()..options.dirty {
                let id = rng.below(prepared.documents);
                *stamp += 1;
                changes.add(key(id), &prepared.changed(id, *stamp))?;
            }
            dirty.extend(changes.finish()?.dirty);
        }
        let before = Instant::now();
        rebuilt += indexer.publish()?.rebuilt.len() as u64;
        publishes.push(before.elapsed());
        let next = Duration::from_secs(second);
        thread::sleep(next.saturating_sub(start.elapsed()));
    }
    Ok((rebuilt, publishes))
}
