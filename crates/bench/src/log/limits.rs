//! One large store compared with its limits.
//!
//! 1. A child process fills a store; a fifth of the puts are updates of earlier records, so that
//!    compaction runs meanwhile. It closes the store and opens it again.
//! 2. It continues with updates and is killed; the parent process opens the store.
//! 3. A child process puts slowly and is killed, while the parent process follows it as a reader
//!    that refreshes ten times per second. The reader is promoted. Several rounds.
//! 4. One writer and sixteen writers put with `sync`, alternately.

use super::noise::{Sleeper, stolen};
use crate::units::time;
use firndb::log::{LogStore, WriteOptions};
use firndb_bench_protocol::Result;
use firndb_bench_protocol::log::{Histogram, Records, Workload, key};
use firndb_bench_protocol::rng::Rng;
use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Parameters of a run.
pub struct Options {
    /// The path of this program.
    pub program: PathBuf,
    /// Directory of the store; removed afterwards.
    pub dir: PathBuf,
    /// Records of 100 bytes.
    pub records: u64,
    /// Seconds of updates before the process is killed.
    pub seconds: u64,
    /// Seconds of each round of synced puts.
    pub sync_seconds: u64,
}

/// One in this many puts of the fill is an update.
const UPDATES: u64 = 5;
/// Rounds per number of writers.
const ROUNDS: usize = 3;
/// Rounds of promotions, and puts per second before each.
const PROMOTIONS: usize = 9;
const SLOW_PUTS: u64 = 1000;

/// A row of the report.
struct Line {
    what: &'static str,
    limit: String,
    measured: String,
    is_met: bool,
}

fn at_most(what: &'static str, nanos: f64, most: f64) -> Line {
    let limit = format!("<= {}", time(most));
    Line { what, limit, measured: time(nanos), is_met: nanos <= most }
}

/// Lets a child process fill the store, and kills it during the updates. Returns its figures.
fn fill(options: &Options) -> Result<Vec<f64>> {
    let mut child = Command::new(&options.program)
        .args(["engine", "log-limits", &options.dir.to_string_lossy()])
        .arg(options.records.to_string())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = BufReader::new(child.stdout.take().ok_or("a child without output")?);
    let mut figures = Vec::new();
    for line in output.lines() {
        let line = line?;
        if line == "updating" {
            break;
        }
        figures = line.split('\t').map(str::parse).collect::<Result<Vec<f64>, _>>()?;
    }
    std::thread::sleep(Duration::from_secs(options.seconds));
    child.kill()?;
    child.wait()?;
    Ok(figures)
}

/// Runs the measurements; returns the report as a Markdown table.
pub fn run(options: &Options) -> Result<String> {
    if options.dir.exists() {
        std::fs::remove_dir_all(&options.dir)?;
    }
    let figures = fill(options)?;
    let [rate, p999, max, late, taken, removed, key_bytes, reopen] = figures[..] else {
        return Err("the filling process reported nothing".into());
    };
    let start = Instant::now();
    let store = LogStore::open(&options.dir)?;
    let killed = start.elapsed().as_nanos() as f64;
    if store.len() != options.records {
        return Err(format!("{} keys after the kill", store.len()).into());
    }
    store.close()?;
    let promotion = promotion(options)?;
    let store = LogStore::open(&options.dir)?;
    let (one, many) = sync_rates(&store, options)?;
    store.close()?;
    std::fs::remove_dir_all(&options.dir)?;
    let lines = [
        at_most("put, p99.9, during compaction", p999, 50e3),
        at_most("put, maximum", max, 10e6),
        at_most("open after a clean close", reopen, 1e9),
        at_most("open after kill -9", killed, 3e9),
        at_most("promotion of a reader after kill -9, median", promotion, 10e6),
        Line {
            what: "index memory per key",
            limit: "<= 10.5 B".into(),
            measured: format!("{key_bytes:.2} B"),
            is_met: key_bytes <= 10.5,
        },
        Line {
            what: "synced puts per second, 16 writers relative to 1",
            limit: ">= 6 times".into(),
            measured: format!("{:.1} times ({many:.0}/s, {one:.0}/s)", many / one),
            is_met: many / one >= 6.0,
        },
    ];
    let mut out = format!(
        "{} records of 100 bytes were put at {:.0} k puts per second, while {removed} segments \
         were compacted. Meanwhile, a thread that sleeps for one millisecond at a time woke up at \
         most {} late, and the hypervisor took {} of processor time.\n\n\
         | limit of | bound | measured | |\n|---|---:|---:|---|\n",
        options.records,
        rate / 1e3,
        time(late),
        time(taken)
    );
    for line in lines {
        let verdict = if line.is_met { "met" } else { "**missed**" };
        writeln!(out, "| {} | {} | {} | {verdict} |", line.what, line.limit, line.measured)?;
    }
    Ok(out)
}

/// The child process that fills the store and is killed: prints its figures in a line, and another
/// line when it starts to update.
pub fn fill_and_update(dir: &Path, count: u64) -> Result<()> {
    let records = Records { workload: Workload::Small, count };
    let store = LogStore::open(dir)?;
    let (mut value, mut times, mut rng) = (Vec::new(), Histogram::new(), Rng::new(3, 0, 0));
    let (sleeper, taken) = (Sleeper::start(), stolen());
    let mut put = |store: &LogStore, number, version, times: &mut Histogram| -> Result<()> {
        records.value(number, version, &mut value);
        let start = Instant::now();
        store.put(key(number), &value)?;
        times.add(start.elapsed().as_nanos() as u64);
        Ok(())
    };
    for number in 0..count {
        put(&store, number, 1, &mut times)?;
        if number % (UPDATES - 1) == 0 {
            put(&store, rng.below(number + 1), 2, &mut times)?;
        }
    }
    let rate = times.total() as f64 / times.sum() as f64 * 1e9;
    let (late, taken) = (sleeper.stop(), stolen() - taken);
    let stats = store.stats();
    let key_bytes = stats.index_bytes as f64 / stats.keys as f64;
    store.close()?;
    let start = Instant::now();
    let store = LogStore::open(dir)?;
    let reopen = start.elapsed().as_nanos();
    let (p999, max, removed) = (times.quantile(0.999), times.quantile(1.0), stats.segments_removed);
    println!("{rate}\t{p999}\t{max}\t{late}\t{taken}\t{removed}\t{key_bytes}\t{reopen}\nupdating");
    loop {
        put(&store, rng.below(count), 3, &mut times)?;
    }
}

/// The child process that puts slowly and is killed: prints a line when it starts, and the number
/// of each put that was acknowledged.
pub fn put_slowly(dir: &Path, count: u64) -> Result<()> {
    let records = Records { workload: Workload::Small, count };
    let store = LogStore::open(dir)?;
    let (mut value, mut rng) = (Vec::new(), Rng::new(5, u64::from(std::process::id()), 0));
    println!("putting");
    loop {
        let number = rng.below(count);
        records.value(number, 5, &mut value);
        store.put(key(number), &value)?;
        println!("{number}");
        std::thread::sleep(Duration::from_micros(1_000_000 / SLOW_PUTS));
    }
}

/// Nanoseconds that the promotion of a reader takes: the median of the rounds. Each checks the puts
/// that were acknowledged.
fn promotion(options: &Options) -> Result<f64> {
    let records = Records { workload: Workload::Small, count: options.records };
    let (mut nanos, mut value) = (Vec::new(), Vec::new());
    for _ in 0..PROMOTIONS {
        let mut child = Command::new(&options.program)
            .args(["engine", "log-slow-puts", &options.dir.to_string_lossy()])
            .arg(options.records.to_string())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut output = BufReader::new(child.stdout.take().ok_or("a child without output")?);
        output.read_line(&mut String::new())?;
        let reader = LogStore::open_read_only(&options.dir)?;
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(100));
            reader.refresh()?;
        }
        std::thread::sleep(Duration::from_millis(50));
        child.kill()?;
        child.wait()?;
        let start = Instant::now();
        reader.promote()?;
        nanos.push(start.elapsed().as_nanos() as f64);
        for number in output.lines() {
            let number = number?.parse()?;
            records.value(number, 5, &mut value);
            if reader.get(key(number))?.as_ref() != Some(&value) {
                return Err(format!("the put of record {number} was acknowledged and lost").into());
            }
        }
        if reader.len() != options.records {
            return Err(format!("{} keys after the promotion", reader.len()).into());
        }
        reader.close()?;
    }
    nanos.sort_by(f64::total_cmp);
    eprintln!("promotions in ms: {:?}", nanos.iter().map(|n| n / 1e6).collect::<Vec<_>>());
    Ok(nanos[PROMOTIONS / 2])
}

/// Synced puts per second, of one writer and of sixteen.
fn sync_rates(store: &LogStore, options: &Options) -> Result<(f64, f64)> {
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (writers, rates) in [1u64, 16].into_iter().zip(&mut rates) {
            rates.push(sync_rate(store, writers, options)?);
        }
    }
    let [one, many] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[ROUNDS / 2]
    });
    Ok((one, many))
}

fn sync_rate(store: &LogStore, writers: u64, options: &Options) -> Result<f64> {
    let (puts, start) = (AtomicU64::new(0), Instant::now());
    let time = Duration::from_secs(options.sync_seconds);
    let records = Records { workload: Workload::Small, count: options.records };
    let one = |writer: u64| -> Result<()> {
        let (mut value, mut rng) = (Vec::new(), Rng::new(4, writer, 0));
        while start.elapsed() < time {
            let number = rng.below(records.count);
            records.value(number, 4, &mut value);
            store.put_with(key(number), &value, WriteOptions::sync())?;
            puts.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let one = &one;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers).map(|n| scope.spawn(move || one(n))).collect();
        threads.into_iter().try_for_each(|t| t.join().map_err(|_| "a thread panicked")?)
    })?;
    Ok(puts.into_inner() as f64 / start.elapsed().as_secs_f64())
}
