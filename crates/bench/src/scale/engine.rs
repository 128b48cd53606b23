//! The process that holds the store. It answers jobs like the engines of the other benchmarks, but
//! each answer is one line of named figures. Times are nanoseconds.

use super::formulas::Shape;
use crate::log::noise::{Sleeper, stolen};
use firndb::log::{LogStore, Stats};
use firndb_bench_protocol::log::{Histogram, key};
use firndb_bench_protocol::rng::Rng;
use firndb_bench_protocol::{self as protocol, Result};
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Length of a key in bytes.
pub const KEY_BYTES: usize = 8;
/// Shortest value: number and version.
pub const VALUE_LEAST: usize = 16;
/// A put that takes longer than this is slow.
pub const SLOW: u64 = 20_000_000;
/// Parts of the fill whose rates are compared.
pub const PARTS: u64 = 10;
/// Gets of absent keys have numbers from here.
const ABSENT: u64 = 1 << 48;
/// No two gets from disk read from the same such region of the log.
pub const REGION: f64 = 16384.0;
/// Records that are compared after a kill.
const COMPARED: u64 = 500_000;
/// Seconds between two progress lines.
const PROGRESS: Duration = Duration::from_secs(5);
/// Version of a record that was not updated.
const FIRST: u64 = 1;

type Figures = Vec<(String, f64)>;

fn figure(name: &str, value: impl Into<f64>) -> (String, f64) {
    (name.into(), value.into())
}

/// Answers jobs from standard input until it ends.
pub fn serve() -> Result<()> {
    let mut engine: Option<Engine> = None;
    protocol::answer_jobs(|job, out| {
        let figures = match *job {
            ["start", dir, keys, value] => {
                let shape = Shape { keys: keys.parse()?, value: value.parse()? };
                let (dir, baseline) = (PathBuf::from(dir), protocol::anonymous_memory());
                engine = Some(Engine { dir, shape, baseline, store: None, region: 0 });
                Vec::new()
            }
            ref job => engine.as_mut().ok_or("a job before `start`")?.perform(job)?,
        };
        let fields = figures.iter().map(|(name, value)| format!("\t{name}={value}"));
        Ok(writeln!(out, "figures{}", fields.collect::<String>())?)
    })
}

struct Engine {
    dir: PathBuf,
    shape: Shape,
    /// Anonymous memory of the process without a store.
    baseline: u64,
    store: Option<LogStore>,
    /// Counts the regions that gets from disk have read: the next get reads another one.
    region: u64,
}

impl Engine {
    fn perform(&mut self, job: &[&str]) -> Result<Figures> {
        match *job {
            ["open"] => {
                let start = Instant::now();
                self.store = Some(LogStore::open(&self.dir)?);
                Ok(vec![figure("open", start.elapsed().as_nanos() as f64)])
            }
            ["close"] => {
                let start = Instant::now();
                self.store.take().map_or(Ok(()), |store| store.close())?;
                Ok(vec![figure("close", start.elapsed().as_nanos() as f64)])
            }
            ["evict"] => protocol::forget_pages(&self.dir).map(|()| Vec::new()),
            ["fill"] => fill(self.store()?, self.shape),
            ["size"] => self.size(),
            ["absent", count] => self.absent(count.parse()?),
            ["get", threads, most, millis] => {
                self.gets(threads.parse()?, most.parse()?, Duration::from_millis(millis.parse()?))
            }
            ["check", count] => self.check(count.parse()?, &HashMap::new()),
            ["write", journal] => Err(self.write(journal.as_ref()).unwrap_err()),
            ["recheck", journal] => self.recheck(journal.as_ref()),
            _ => Err(format!("there is no job `{}`", job.join(" ")).into()),
        }
    }

    fn store(&self) -> Result<&LogStore> {
        self.store.as_ref().ok_or_else(|| "the store is closed".into())
    }

    /// Sizes of the open store and of this process.
    fn size(&self) -> Result<Figures> {
        let stats = self.store()?.stats();
        let anonymous = protocol::anonymous_memory().saturating_sub(self.baseline);
        Ok(vec![
            figure("keys", stats.keys as f64),
            figure("segments", stats.segments as f64),
            figure("index", stats.index_bytes as f64),
            figure("anonymous", anonymous as f64),
            figure("mapped", protocol::mapped_memory() as f64),
            figure("disk", protocol::disk_allocated(&self.dir)? as f64),
        ])
    }

    /// Gets of absent keys; each read of a record of another key is counted.
    fn absent(&self, count: u64) -> Result<Figures> {
        let store = self.store()?;
        let before = store.stats();
        let start = Instant::now();
        for number in ABSENT..ABSENT + count {
            if store.contains(key(number))? {
                return Err(format!("the absent key {number} was found").into());
            }
        }
        let nanos = start.elapsed().as_nanos() as f64;
        let reads = store.stats().since(&before).false_reads;
        Ok(vec![
            figure("absent get", nanos / count as f64),
            figure("false reads", reads as f64 / count as f64),
        ])
    }

    /// Gets of keys whose records are in different regions of the log, in scattered order: keys
    /// were put in the order of their numbers.
    fn gets(&mut self, threads: u64, most: u64, time: Duration) -> Result<Figures> {
        let (store, shape) = (self.store()?, self.shape);
        let per_region = (REGION / shape.record()).ceil().max(1.0) as u64;
        let regions = (shape.keys / per_region).max(1);
        let stride = (1..).map(|more| regions * 5 / 8 + more).find(|&n| gcd(n, regions) == 1);
        let stride = u128::from(stride.unwrap_or(1));
        let next = AtomicU64::new(self.region);
        let last = self.region + most.min(regions);
        let (read, faults) = (protocol::bytes_read(), protocol::major_faults());
        let start = Instant::now();
        let one = |thread: u64| -> Result<u64> {
            let (mut expected, mut rng, mut gets) = (Vec::new(), Rng::new(5, thread, 0), 0);
            while start.elapsed() < time {
                let turn = next.fetch_add(1, Ordering::Relaxed);
                if turn >= last {
                    break;
                }
                let region = (u128::from(turn) * stride % u128::from(regions)) as u64;
                let number = region * per_region + rng.below(per_region);
                shape.fill(number, FIRST, &mut expected);
                is_value(store, number, &expected)?;
                gets += 1;
            }
            Ok(gets)
        };
        let one = &one;
        let gets: Result<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|n| scope.spawn(move || one(n))).collect();
            threads.into_iter().map(|t| t.join().map_err(|_| "a thread panicked")?).sum()
        });
        let (gets, nanos) = (gets?.max(1) as f64, start.elapsed().as_nanos() as f64);
        let figures = vec![
            figure("gets", gets),
            figure("rate", gets / nanos * 1e9),
            figure("read", (protocol::bytes_read() - read) as f64 / gets),
            figure("faults", (protocol::major_faults() - faults) as f64 / gets),
        ];
        self.region = next.into_inner().min(last);
        Ok(figures)
    }

    /// Compares random records, except those in `changed`.
    fn check(&self, count: u64, changed: &HashMap<u64, u64>) -> Result<Figures> {
        let (mut expected, mut rng) = (Vec::new(), Rng::new(9, 0, 0));
        for _ in 0..count {
            let number = rng.below(self.shape.keys);
            if !changed.contains_key(&number) {
                self.shape.fill(number, FIRST, &mut expected);
                is_value(self.store()?, number, &expected)?;
            }
        }
        Ok(vec![figure("checked", count as f64)])
    }

    /// Writes until the process is killed. The journal holds the number of acknowledged writes.
    fn write(&self, journal: &Path) -> Result<std::convert::Infallible> {
        let (store, journal, mut value) = (self.store()?, File::create(journal)?, Vec::new());
        for turn in 0.. {
            let number = self.written(turn);
            self.shape.fill(number, FIRST + 1 + turn, &mut value);
            store.put(key(number), &value)?;
            journal.write_all_at(&(turn + 1).to_le_bytes(), 0)?;
        }
        Err("there are no more numbers".into())
    }

    /// The record that write number `turn` puts: updates and new keys alternate.
    fn written(&self, turn: u64) -> u64 {
        match turn % 2 {
            0 => Rng::new(7, 0, turn).below(self.shape.keys),
            _ => self.shape.keys + turn / 2,
        }
    }

    /// After a kill: compares the last acknowledged write of each key, and other records.
    fn recheck(&self, journal: &Path) -> Result<Figures> {
        let store = self.store()?;
        let acknowledged = std::fs::read(journal)?;
        let acknowledged = u64::from_le_bytes(*acknowledged.first_chunk().ok_or("no journal")?);
        let mut last: HashMap<u64, u64> = HashMap::new();
        (0..acknowledged).for_each(|turn| {
            last.insert(self.written(turn), turn);
        });
        // One more write may have been done and not acknowledged.
        let pending = self.written(acknowledged);
        let keys = self.shape.keys + acknowledged / 2;
        if ![keys, keys + acknowledged % 2].contains(&store.len()) {
            let found = store.len();
            return Err(format!("{found} keys after the kill, {keys} acknowledged").into());
        }
        let (mut expected, mut compared) = (Vec::new(), 0);
        for (&number, &turn) in last.iter().filter(|&(&number, _)| number != pending) {
            if compared < COMPARED {
                self.shape.fill(number, FIRST + 1 + turn, &mut expected);
                is_value(store, number, &expected)?;
                compared += 1;
            }
        }
        last.insert(pending, acknowledged);
        self.check(COMPARED / 10, &last)?;
        let compared = (compared + COMPARED / 10) as f64;
        Ok(vec![figure("acknowledged", acknowledged as f64), figure("compared", compared)])
    }
}

impl Shape {
    /// Generates a value: number, version, bytes that do not compress.
    fn fill(&self, number: u64, version: u64, value: &mut Vec<u8>) {
        value.clear();
        value.extend_from_slice(&number.to_le_bytes());
        value.extend_from_slice(&version.to_le_bytes());
        let mut rng = Rng::new(44, version, number);
        while value.len() < self.value {
            value.extend_from_slice(&rng.next().to_le_bytes());
        }
        value.truncate(self.value);
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn is_value(store: &LogStore, number: u64, expected: &[u8]) -> Result<()> {
    match store.get_with(key(number), |value| value == expected)? {
        Some(true) => Ok(()),
        Some(false) => Err(format!("record {number} has another value").into()),
        None => Err(format!("record {number} is missing").into()),
    }
}

/// Bytes of index memory relative to the formula for this number of keys.
fn of_formula(stats: &Stats, shape: Shape) -> f64 {
    stats.index_bytes as f64 / Shape { keys: stats.keys, ..shape }.memory()
}

/// Puts every record once, one after another.
fn fill(store: &LogStore, shape: Shape) -> Result<Figures> {
    let (mut value, mut times, mut slow) = (Vec::new(), Histogram::new(), 0);
    let (sleeper, taken) = (Sleeper::start(), stolen());
    let (start, mut shown) = (Instant::now(), Instant::now());
    let (mut largest, mut figures) = (0f64, Vec::new());
    let step = (shape.keys / 200).max(1);
    for part in 0..PARTS {
        let (first, end) = (shape.keys * part / PARTS, shape.keys * (part + 1) / PARTS);
        let began = Instant::now();
        for number in first..end {
            shape.fill(number, FIRST, &mut value);
            let key = key(number);
            let start = Instant::now();
            store.put(key, &value)?;
            let nanos = start.elapsed().as_nanos() as u64;
            times.add(nanos);
            if nanos > SLOW {
                slow += 1;
                eprintln!("put {number} took {} ms", nanos / 1_000_000);
            }
            if number % step == 0 {
                largest = largest.max(of_formula(&store.stats(), shape));
            }
            if number % 4096 == 0 && shown.elapsed() > PROGRESS {
                shown = Instant::now();
                let percent = number as f64 / shape.keys as f64 * 100.0;
                let rate = (number - first) as f64 / began.elapsed().as_secs_f64();
                eprintln!("fill: {percent:.1} %, {:.0} k puts per second", rate / 1e3);
            }
        }
        let rate = (end - first) as f64 / began.elapsed().as_secs_f64();
        figures.push(figure(&format!("tenth {part}"), rate));
    }
    let seconds = start.elapsed().as_secs_f64();
    let (late, taken) = (sleeper.stop() as f64, stolen() - taken);
    figures.extend([
        figure("fill seconds", seconds),
        figure("put p50", times.quantile(0.5) as f64),
        figure("put p999", times.quantile(0.999) as f64),
        figure("put max", times.quantile(1.0) as f64),
        figure("put slow", f64::from(slow)),
        figure("late", late),
        figure("stolen", taken),
        figure("index of formula", largest.max(of_formula(&store.stats(), shape))),
    ]);
    Ok(figures)
}
