//! `firn table bench`: measures gets on this table and this machine.
//!
//! Keys are sampled from the whole table, and every value is compared before anything is timed. The
//! page cache is left as it is: a second run is a warm one.

use super::Source;
use crate::failure::Result;
use crate::output::{Grid, Out, plural, thousands, time};
use clap::value_parser;
use firndb::table::Table;
use firndb::{Error, ErrorKind};
use serde_json::{Value as Json, json};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

/// Measure gets of random present and absent keys.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// Number of gets of each kind.
    #[arg(
        long, default_value_t = 100_000, value_name = "N",
        value_parser = value_parser!(u32).range(1..),
    )]
    gets: u32,
    /// Number of threads.
    #[arg(
        long, default_value_t = 1, value_name = "N",
        value_parser = value_parser!(u16).range(1..=256),
    )]
    threads: u16,
    /// Seed: the same number selects the same keys.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// Maximum number of different keys; more gets repeat them.
const SAMPLE: usize = 200_000;
/// Keys per `get_many`.
const AT_ONCE: usize = 256;

/// Measurements of one kind of gets.
struct Measured {
    name: &'static str,
    per_second: f64,
    /// Median, 99 %, 99.9 %, maximum; none for batches.
    times: Option<[Duration; 4]>,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let table = args.source.open()?;
    if table.is_empty() {
        return Err(Error::invalid("the table is empty").in_file(table.path()).into());
    }
    let mut random = Random(args.seed);
    let (present, hashes) = sample(&table, args.gets as usize, &mut random)?;
    let absent = absent(&table, &present, &mut random)?;
    compare(&table, &present, &hashes)?;
    let measured = [
        one_by_one(&table, "present", &present, args)?,
        one_by_one(&table, "absent", &absent, args)?,
        many(&table, "present, get_many", &present, args)?,
        many(&table, "absent, get_many", &absent, args)?,
    ];
    let mut out = Out::new();
    if json {
        for measured in &measured {
            out.json(&as_json(measured, args))?;
        }
        return Ok(out.finish()?);
    }
    let mut grid = Grid::new(["gets", "per second", "median", "99 %", "99.9 %", "longest"]);
    for Measured { name, per_second, times } in &measured {
        let times = times.map(|times| times.map(time).to_vec());
        let head = [name.to_string(), thousands(*per_second as u64)];
        grid.row(head.into_iter().chain(times.unwrap_or_default()));
    }
    out.line(grid)?;
    let threads = plural(args.threads.into(), "thread");
    let keys = plural(present.len() as u64, "key");
    out.line(format!("{} of each kind, of {keys}, in {threads}", plural(args.gets.into(), "get")))?;
    Ok(out.finish()?)
}

fn as_json(measured: &Measured, args: &Args) -> Json {
    let seconds = |i: usize| measured.times.map(|times| times[i].as_secs_f64());
    json!({
        "operation": measured.name,
        "count": args.gets,
        "threads": args.threads,
        "per_second": measured.per_second,
        "median_seconds": seconds(0),
        "p99_seconds": seconds(1),
        "p999_seconds": seconds(2),
        "longest_seconds": seconds(3),
    })
}

/// Keys from the whole table in a random order, with the hashes of their values.
fn sample(table: &Table, gets: usize, random: &mut Random) -> Result<(Vec<Vec<u8>>, Vec<u64>)> {
    let wanted = gets.min(SAMPLE).min(usize::try_from(table.len()).unwrap_or(usize::MAX));
    let splits = table.splits(table.stats().blocks.clamp(1, 4096) as usize);
    let each = wanted.div_ceil(splits.len());
    let mut records = Vec::with_capacity(wanted);
    for split in splits {
        for record in split.take(each) {
            let (key, value) = record?;
            records.push((key, hash(&value)));
        }
    }
    for i in (1..records.len()).rev() {
        records.swap(i, random.below(i as u64 + 1) as usize);
    }
    records.truncate(wanted);
    Ok(records.into_iter().unzip())
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// The same number of keys, of the same lengths, that are not in the table.
fn absent(table: &Table, present: &[Vec<u8>], random: &mut Random) -> Result<Vec<Vec<u8>>> {
    let mut absent = Vec::with_capacity(present.len());
    for key in present {
        let mut other = key.clone();
        loop {
            // A short key may have no absent neighbour of its length.
            match other.len() {
                len if len < 8 => other.push(random.below(256) as u8),
                len => other[random.below(len as u64) as usize] = random.below(256) as u8,
            }
            if !table.contains(&other)? {
                break;
            }
        }
        absent.push(other);
    }
    Ok(absent)
}

/// Fails unless gets return the values that a scan returned.
fn compare(table: &Table, keys: &[Vec<u8>], hashes: &[u64]) -> Result<()> {
    let right = |value: &[u8], wanted: &u64| hash(value) == *wanted;
    for (keys, wanted) in keys.chunks(AT_ONCE).zip(hashes.chunks(AT_ONCE)) {
        for ((key, many), wanted) in keys.iter().zip(table.get_many(keys)?).zip(wanted) {
            let one = table.get(key)?;
            if ![one, many].iter().all(|found| found.as_ref().is_some_and(|v| right(v, wanted))) {
                let message = format!("a get of {} gives a wrong answer", super::shown_key(key));
                return Err(Error::new(ErrorKind::Corrupt, message).in_file(table.path()).into());
            }
        }
    }
    Ok(())
}

/// Runs `work` in each thread with its share of the gets and its start; returns the duration.
fn in_threads<T: Send>(
    args: &Args,
    keys: &[Vec<u8>],
    work: impl Fn(usize, usize) -> firndb::Result<T> + Sync,
) -> Result<(Vec<T>, Duration)> {
    let threads = usize::from(args.threads);
    let share = (args.gets as usize).div_ceil(threads);
    let start = Instant::now();
    let results = std::thread::scope(|scope| {
        let work = &work;
        let spawn = |i| scope.spawn(move || work(i * keys.len() / threads, share));
        let running: Vec<_> = (0..threads).map(spawn).collect();
        let stopped = || Error::new(ErrorKind::Failed, "a thread stopped");
        running.into_iter().map(|r| r.join().map_err(|_| stopped())?).collect()
    });
    let results: firndb::Result<Vec<T>> = results;
    Ok((results?, start.elapsed()))
}

fn one_by_one(
    table: &Table,
    name: &'static str,
    keys: &[Vec<u8>],
    args: &Args,
) -> Result<Measured> {
    let get_all = |from: usize, share: usize| {
        let mut found = 0;
        for key in keys.iter().cycle().skip(from).take(share) {
            found += table.get(key)?.map_or(0, |value| value.len());
        }
        Ok(std::hint::black_box(found))
    };
    let (_, took) = in_threads(args, keys, get_all)?;
    // A second run, with the clock read around each get.
    let time_all = |from: usize, share: usize| {
        let mut times = Vec::with_capacity(share);
        for key in keys.iter().cycle().skip(from).take(share) {
            let start = Instant::now();
            std::hint::black_box(table.get(key)?);
            times.push(start.elapsed());
        }
        Ok(times)
    };
    let (times, _) = in_threads(args, keys, time_all)?;
    let mut times = times.concat();
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let times = [at(0.5), at(0.99), at(0.999), at(1.0)];
    Ok(Measured { name, per_second: rate(args, took), times: Some(times) })
}

fn many(table: &Table, name: &'static str, keys: &[Vec<u8>], args: &Args) -> Result<Measured> {
    let get_all = |from: usize, share: usize| {
        let (mut done, mut found) = (0, 0);
        for chunk in keys.chunks(AT_ONCE).cycle().skip(from / AT_ONCE) {
            let chunk = &chunk[..chunk.len().min(share - done)];
            found +=
                table.get_many(chunk)?.iter().flatten().map(|value| value.len()).sum::<usize>();
            done += chunk.len();
            if done == share {
                break;
            }
        }
        Ok(std::hint::black_box(found))
    };
    let (_, took) = in_threads(args, keys, get_all)?;
    Ok(Measured { name, per_second: rate(args, took), times: None })
}

fn rate(args: &Args, took: Duration) -> f64 {
    let threads = u32::from(args.threads);
    f64::from(args.gets.div_ceil(threads) * threads) / took.as_secs_f64().max(1e-9)
}

/// SplitMix64 (Steele, Lea and Flood 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % end
    }
}
