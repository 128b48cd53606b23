//! `firn log bench`: measures a store on this machine, in a directory of its own.
//!
//! Keys and values are computed from numbers, so no copy is kept, and every value is compared
//! before the time of a get is shown. Each operation is timed individually.

use crate::cmd::load::{parse_bytes, progress_bar};
use crate::failure::Result;
use crate::new_dir::{self, Sentences};
use crate::output::{Grid, Out, plural, size, thousands, time};
use crate::target::check_new;
use clap::builder::RangedU64ValueParser;
use firndb::log::{LogStore, WriteOptions};
use firndb::{Error, ErrorKind};
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Measure puts, gets and updates in a new store.
#[derive(clap::Args)]
pub struct Args {
    /// Directory for the store, which is kept. Default: a temporary one, which is removed.
    #[arg(value_name = "STORE")]
    dir: Option<PathBuf>,
    /// Number of records to put.
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = at_least_one())]
    records: u32,
    /// Bytes per value; a number without a unit is bytes.
    #[arg(long, default_value = "100", value_name = "SIZE", value_parser = parse_bytes)]
    value: usize,
    /// Number of gets, and of updates.
    #[arg(long, default_value_t = 500_000, value_name = "N", value_parser = at_least_one())]
    ops: u32,
    /// Number of puts with `sync`, each of which survives a power cut before it returns.
    #[arg(long, default_value_t = 200, value_name = "N")]
    syncs: u32,
    /// Number of threads that run the operations.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = thread_count())]
    threads: u16,
    /// Seed of keys and values.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

fn at_least_one() -> RangedU64ValueParser<u32> {
    RangedU64ValueParser::new().range(1..)
}

fn thread_count() -> RangedU64ValueParser<u16> {
    RangedU64ValueParser::new().range(1..=256)
}

/// Measurements of one kind of operation.
struct Measured {
    name: &'static str,
    count: u64,
    per_second: f64,
    /// Median, 99 %, 99.9 %, maximum.
    times: [Duration; 4],
}

const SENTENCES: Sentences = Sentences {
    absent: "the store of the benchmark was removed",
    unfinished: "the directory holds the store of the benchmark: remove its files",
    complete: "the benchmark is complete",
};

pub fn run(args: &Args, json: bool) -> Result<()> {
    let temporary = std::env::temp_dir().join(format!("firn-log-bench-{}", std::process::id()));
    let dir = args.dir.as_ref().unwrap_or(&temporary);
    check_new(dir)?;
    let bar = progress_bar(None);
    let measured = new_dir::fill(dir, "bench", &SENTENCES, |at| {
        measure(args, at, |what| bar.set_message(what))
    });
    bar.finish_and_clear();
    let (measured, facts) = measured?;
    if args.dir.is_none() {
        std::fs::remove_dir_all(dir).map_err(|e| Error::io("remove", dir, e))?;
    }
    let mut out = Out::new();
    if json {
        for Measured { name, count, per_second, times } in &measured {
            let seconds = times.map(|time| time.as_secs_f64());
            out.json(&json!({
                "operation": name, "count": count, "threads": args.threads,
                "per_second": per_second, "median_seconds": seconds[0], "p99_seconds": seconds[1],
                "p999_seconds": seconds[2], "longest_seconds": seconds[3],
            }))?;
        }
        out.json(&facts.json())?;
        return Ok(out.finish()?);
    }
    let mut grid =
        Grid::new(["what", "count", "per second", "median", "99 %", "99.9 %", "longest"]);
    for Measured { name, count, per_second, times } in &measured {
        let head = [name.to_string(), thousands(*count), thousands(*per_second as u64)];
        grid.row(head.into_iter().chain(times.map(time)));
    }
    out.line(grid)?;
    out.line(facts.text())?;
    let threads = plural(args.threads.into(), "thread");
    out.line(format!("values of {}, {threads}, in {}", size(args.value as u64), dir.display()))?;
    Ok(out.finish()?)
}

/// Facts about the store that are reported with the times.
struct Facts {
    index_per_key: f64,
    disk: u64,
    live: u64,
    reopened: Duration,
}

impl Facts {
    fn json(&self) -> Json {
        json!({ "summary": {
            "index_bytes_per_key": self.index_per_key,
            "disk_bytes": self.disk,
            "live_bytes": self.live,
            "reopen_seconds": self.reopened.as_secs_f64(),
        } })
    }

    fn text(&self) -> String {
        format!(
            "index {:.1} bytes per key; {} live, {} on disk; opened again in {}",
            self.index_per_key,
            size(self.live),
            size(self.disk),
            time(self.reopened)
        )
    }
}

fn measure(args: &Args, dir: &Path, say: impl Fn(&'static str)) -> Result<(Vec<Measured>, Facts)> {
    let store = LogStore::open(dir)?;
    let bench = Bench { args, store: &store };
    let records = u64::from(args.records);
    let mut measured = Vec::new();
    let mut phase = |name, count: u64, op: &Op| -> Result<()> {
        say(name);
        measured.push(bench.timed(name, count, op)?);
        Ok(())
    };
    let ops = u64::from(args.ops);
    phase("put", records, &|b: &Bench, n, value: &mut Vec<u8>| b.put(n, 0, value))?;
    say("comparing");
    bench.compare()?;
    phase("get", ops, &|b: &Bench, n, value: &mut Vec<u8>| b.get(random(n, records), true, value))?;
    phase("get, absent", ops, &|b: &Bench, n, value: &mut Vec<u8>| {
        b.get(records + n, false, value)
    })?;
    phase("update", ops, &|b: &Bench, n, value: &mut Vec<u8>| b.put(random(n, records), 1, value))?;
    if args.syncs > 0 {
        let put = |b: &Bench, n, value: &mut Vec<u8>| {
            b.fill(random(n, records), 2, value);
            b.store.put_with(b.key(random(n, records)), value, WriteOptions::sync())
        };
        phase("put, --sync", args.syncs.into(), &put)?;
    }
    let stats = store.stats();
    store.close()?;
    let start = Instant::now();
    let again = LogStore::open(dir)?;
    let reopened = start.elapsed();
    if again.len() != records {
        return Err(wrong("the store that was opened again has another number of keys"));
    }
    again.close()?;
    let index_per_key = stats.index_bytes as f64 / stats.keys as f64;
    Ok((
        measured,
        Facts { index_per_key, disk: stats.disk_bytes, live: stats.live_bytes, reopened },
    ))
}

/// An operation, given its number and a buffer for values.
type Op<'a> = dyn Fn(&Bench, u64, &mut Vec<u8>) -> firndb::Result<()> + Sync + 'a;

struct Bench<'a> {
    args: &'a Args,
    store: &'a LogStore,
}

impl Bench<'_> {
    /// Key number `n`: 16 digits in no order.
    fn key(&self, n: u64) -> [u8; 16] {
        let mixed = mix(n ^ self.args.seed << 40);
        std::array::from_fn(|i| b"0123456789abcdef"[(mixed >> (4 * i) & 15) as usize])
    }

    /// The value of key number `n` after this many updates.
    fn fill(&self, n: u64, version: u64, value: &mut Vec<u8>) {
        value.clear();
        let mut state = mix(n.wrapping_add(version << 48) ^ self.args.seed);
        while value.len() < self.args.value {
            state = mix(state);
            value.extend_from_slice(&state.to_be_bytes());
        }
        value.truncate(self.args.value);
    }

    fn put(&self, n: u64, version: u64, value: &mut Vec<u8>) -> firndb::Result<()> {
        self.fill(n, version, value);
        self.store.put(self.key(n), value)
    }

    fn get(&self, n: u64, is_there: bool, value: &mut Vec<u8>) -> firndb::Result<()> {
        match self.store.get_into(self.key(n), value)? == is_there {
            true => Ok(()),
            false => {
                Err(Error::new(ErrorKind::Corrupt, "a get found what is not there, or nothing"))
            }
        }
    }

    /// Fails unless every key has its value.
    fn compare(&self) -> Result<()> {
        let (mut value, mut wanted) = (Vec::new(), Vec::new());
        for n in 0..self.args.records.into() {
            self.get(n, true, &mut value)?;
            self.fill(n, 0, &mut wanted);
            if value != wanted {
                return Err(wrong("a get gives a wrong value"));
            }
        }
        Ok(())
    }

    /// Runs an operation `count` times, spread over all threads.
    fn timed(&self, name: &'static str, count: u64, op: &Op) -> Result<Measured> {
        let next = AtomicU64::new(0);
        let start = Instant::now();
        let times = std::thread::scope(|scope| {
            let worker = || {
                let mut times = Vec::with_capacity((count / u64::from(self.args.threads)) as usize);
                let mut buffer = Vec::with_capacity(self.args.value);
                loop {
                    let from = next.fetch_add(STRIDE, Ordering::Relaxed);
                    for n in from..(from + STRIDE).min(count) {
                        let start = Instant::now();
                        op(self, n, &mut buffer)?;
                        times.push(start.elapsed().as_nanos() as u64);
                    }
                    if from >= count {
                        return Ok(times);
                    }
                }
            };
            let running: Vec<_> = (0..self.args.threads).map(|_| scope.spawn(worker)).collect();
            let stopped = || Error::new(ErrorKind::Failed, "a thread stopped");
            running.into_iter().map(|r| r.join().map_err(|_| stopped())?).collect()
        });
        let took = start.elapsed();
        let times: firndb::Result<Vec<Vec<u64>>> = times;
        let mut times = times?.concat();
        times.sort_unstable();
        let at = |share: f64| {
            let nanos = times.get(((times.len() - 1) as f64 * share) as usize);
            Duration::from_nanos(nanos.copied().unwrap_or_default())
        };
        let per_second = count as f64 / took.as_secs_f64().max(1e-9);
        let times = [at(0.5), at(0.99), at(0.999), at(1.0)];
        Ok(Measured { name, count, per_second, times })
    }
}

/// Operations that a thread claims at once.
const STRIDE: u64 = 64;

fn wrong(message: &str) -> crate::failure::Failure {
    Error::new(ErrorKind::Corrupt, message).into()
}

/// A pseudorandom number below `end`, a function of `n`.
fn random(n: u64, end: u64) -> u64 {
    mix(n) % end
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014), a bijection.
fn mix(n: u64) -> u64 {
    let z = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
