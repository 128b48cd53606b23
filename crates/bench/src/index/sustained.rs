//! Queries of six kinds, alternately with and without concurrent changes.

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
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Parameters of a run.
pub struct Options {
    /// Partitions that change per second.
    pub dirty: usize,
    /// Seconds of a warm-up round before the first, whose times are discarded.
    pub first: u64,
    /// Seconds without changes, and with them, in each round.
    pub seconds: u64,
    /// Number of rounds.
    pub rounds: u64,
}

/// Latencies of all queries, in nanoseconds.
#[derive(Default)]
pub struct Times {
    /// By kind, from the call to the answer.
    pub all: Vec<Vec<f64>>,
    /// Of all kinds, minus the time that the thread was runnable but had no processor.
    pub ran: Vec<f64>,
}

impl Times {
    fn add(&mut self, other: Times) {
        self.all.resize(other.all.len(), Vec::new());
        self.all.iter_mut().zip(other.all).for_each(|(all, more)| all.extend(more));
        self.ran.extend(other.ran);
    }

    fn sort(&mut self) {
        let all = self.all.iter_mut().chain([&mut self.ran]);
        all.for_each(|times| times.sort_by(f64::total_cmp));
    }
}

/// Query latencies without and with changes.
#[derive(Default)]
pub struct Figures {
    /// Names of the kinds.
    pub kinds: Vec<String>,
    /// Without changes.
    pub idle: Times,
    /// With changes.
    pub busy: Times,
    /// Partitions rebuilt, the publications that did it, and their durations.
    pub rebuilt: u64,
    /// One entry per publication.
    pub publishes: Vec<Duration>,
    /// Total time with changes.
    pub busy_time: Duration,
}

/// A collection whose queries move to a new set once all of it is in memory.
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

    /// Switches to new sets until `over`.
    fn watch(&self, over: &AtomicBool) -> Result<()> {
        background()?;
        while !over.load(Ordering::Relaxed) {
            thread::sleep(POLL);
            if self.collection.refresh()? {
                let new = self.collection.reader();
                new.warm()?;
                let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
                let old = std::mem::replace(&mut *current, new);
                drop((current, old)); // Frees the old set outside of the queries.
            }
        }
        Ok(())
    }
}

/// Queries of each kind.
const QUERIES: usize = 200;

/// Runs all rounds.
pub fn run(prepared: &Prepared, options: &Options) -> Result<Figures> {
    let mut indexer = prepared.open()?;
    let readers = Readers::open(&prepared.dir.join("collection"))?;
    let mut figures = Figures::default();
    let mut stamp = i64::from(std::process::id()) * 1_000_000;
    for round in 0..=options.rounds {
        for is_busy in [false, true] {
            let wait =
                Duration::from_secs(if round == 0 { options.first } else { options.seconds });
            let over = AtomicBool::new(false);
            let (times, done) = thread::scope(|scope| -> Result<_> {
                let query_thread = scope.spawn(|| queries(&readers, prepared, &over));
                let watch = scope.spawn(|| readers.watch(&over));
                let done = match is_busy {
                    true => {
                        let changes = || change(&mut indexer, prepared, options, wait, &mut stamp);
                        scope.spawn(changes).join().map_err(|_| "the changes panicked")?.map(Some)
                    }
                    false => {
                        thread::sleep(wait);
                        Ok(None)
                    }
                };
                over.store(true, Ordering::Relaxed);
                watch.join().map_err(|_| "the watcher panicked")??;
                Ok((query_thread.join().map_err(|_| "the queries panicked")??, done?))
            })?;
            if round == 0 {
                figures.kinds = (1..=times.all.len()).map(|n| format!("Q{n}")).collect();
                continue;
            }
            if let Some((rebuilt, publishes, took)) = done {
                figures.rebuilt += rebuilt;
                figures.publishes.extend(publishes);
                figures.busy_time += took;
            }
            if is_busy { &mut figures.busy } else { &mut figures.idle }.add(times);
        }
    }
    figures.idle.sort();
    figures.busy.sort();
    indexer.close()?;
    Ok(figures)
}

/// Lowers the priority of the calling thread below that of the query threads, as applications
/// should do for background work.
fn background() -> Result<()> {
    // On Linux a priority belongs to a thread.
    rustix::process::nice(5)?;
    Ok(())
}

/// How long the calling thread was runnable but had no processor.
pub struct Waiting(Option<File>);

impl Waiting {
    /// 0 on systems that do not report it.
    #[expect(clippy::new_without_default, reason = "it belongs to the calling thread")]
    pub fn new() -> Waiting {
        Waiting(File::open("/proc/thread-self/schedstat").ok())
    }

    /// Nanoseconds so far.
    pub fn so_far(&self) -> f64 {
        let mut text = [0; 64];
        let read = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        let mut words = std::str::from_utf8(&text[..read]).unwrap_or("").split_whitespace();
        words.nth(1).and_then(|word| word.parse().ok()).unwrap_or(0.0)
    }
}

/// Runs queries of each kind one after another, each on the newest set, until `over`; returns their
/// times.
fn queries(readers: &Readers, prepared: &Prepared, over: &AtomicBool) -> Result<Times> {
    let all = Market::new(42).queries(prepared.documents, QUERIES, 7);
    let kinds = all.len() / QUERIES;
    let mut session = Opened::of(readers.current());
    let queries = all.iter().map(|query| session.prepare(query)).collect::<Result<Vec<_>>>()?;
    let mut times = Times { all: vec![Vec::new(); kinds], ran: Vec::new() };
    let mut answer = Answer::default();
    let waiting = Waiting::new();
    let mut waited = waiting.so_far();
    for n in (0..).take_while(|_| !over.load(Ordering::Relaxed)) {
        let kind = n % kinds;
        let query = &queries[kind * QUERIES + n / kinds % QUERIES];
        let start = Instant::now();
        session = Opened::of(readers.current());
        answer.clear();
        session.run(query, &mut answer)?;
        let took = start.elapsed().as_nanos() as f64;
        let before = std::mem::replace(&mut waited, waiting.so_far());
        times.all[kind].push(took);
        times.ran.push((took - (waited - before)).max(0.0));
    }
    Ok(times)
}

/// In each second, changes documents of as many partitions as the options say, and publishes.
/// Returns the number of rebuilt partitions, the durations of the publications, and the total time.
fn change(
    indexer: &mut Indexer,
    prepared: &Prepared,
    options: &Options,
    wait: Duration,
    stamp: &mut i64,
) -> Result<(u64, Vec<Duration>, Duration)> {
    background()?;
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
    Ok((rebuilt, publishes, start.elapsed()))
}
