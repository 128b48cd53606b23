//! Operations on an open store: put, get, update, compare.

use super::histogram::Histogram;
use super::records::{FIRST, GROWTH, Records, key, number_of};
use super::{Handle, Store};
use crate::rng::Rng;
use crate::{Result, process};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Operations between two checks of the deadline.
const STEP: u64 = 64;

/// Cost of operations that were timed individually.
pub(super) struct Timed {
    pub(super) times: Histogram,
    /// CPU time of the whole process, minus that of generating the values.
    pub(super) cpu: Duration,
    /// Bytes of file pages that the process dirtied.
    pub(super) dirty: u64,
}

/// Cost of a run whose operations were not timed individually.
pub(super) struct Ran {
    pub(super) gets: u64,
    pub(super) wall: Duration,
    pub(super) cpu: Duration,
}

/// CPU time and bytes since a start.
struct Meter(Duration, u64);

impl Meter {
    fn start() -> Meter {
        Meter(process::cpu_time(), process::bytes_written())
    }

    fn timed(self, times: Histogram, records: &Records) -> Timed {
        let making = making(records).mul_f64(times.total() as f64);
        let cpu = (process::cpu_time() - self.0).saturating_sub(making);
        Timed { times, cpu, dirty: process::bytes_written() - self.1 }
    }
}

/// Time to generate a value and to read the clock twice.
fn making(records: &Records) -> Duration {
    const ROUNDS: u32 = 200_000;
    let (mut value, mut times) = (Vec::new(), Histogram::new());
    let before = process::thread_time();
    for number in 0..ROUNDS {
        records.value(u64::from(number), FIRST, &mut value);
        let start = Instant::now();
        std::hint::black_box((key(u64::from(number)), &value));
        times.add(start.elapsed().as_nanos() as u64);
    }
    (process::thread_time() - before) / ROUNDS
}

/// Puts records individually until the time is over, and the others with the engine's bulk load.
pub(super) fn fill<S: Store>(records: &Records, store: &S, time: Duration) -> Result<Timed> {
    let mut handle = store.handle(false)?;
    let (mut value, mut times) = (Vec::new(), Histogram::new());
    let (meter, start) = (Meter::start(), Instant::now());
    let mut number = 0;
    while number < records.count && (number % STEP != 0 || start.elapsed() < time) {
        records.value(number, FIRST, &mut value);
        put(&mut handle, number, &value, &mut times)?;
        number += 1;
    }
    let timed = meter.timed(times, records);
    let rest = (number..records.count).map(|number| {
        let mut value = Vec::new();
        records.value(number, FIRST, &mut value);
        (key(number), value)
    });
    handle.load(rest)?;
    Ok(timed)
}

fn put<H: Handle>(handle: &mut H, number: u64, value: &[u8], times: &mut Histogram) -> Result<()> {
    let key = key(number);
    let start = Instant::now();
    handle.put(&key, value)?;
    times.add(start.elapsed().as_nanos() as u64);
    Ok(())
}

/// Updates at most this many random records, and records their versions.
pub(super) fn update<S: Store>(
    records: &Records,
    store: &S,
    versions: &mut [u32],
    most: u64,
    is_over: impl Fn() -> bool,
) -> Result<Timed> {
    let mut handle = store.handle(false)?;
    let (mut value, mut times) = (Vec::new(), Histogram::new());
    // A different random sequence each time.
    let mut rng = Rng::new(11, versions.iter().map(|&version| u64::from(version)).sum(), 0);
    let meter = Meter::start();
    while times.total() < most && (!times.total().is_multiple_of(STEP) || !is_over()) {
        let number = rng.below(records.count);
        let version = versions[number as usize] + 1;
        records.value(number, version, &mut value);
        put(&mut handle, number, &value, &mut times)?;
        versions[number as usize] = version;
    }
    Ok(meter.timed(times, records))
}

/// Reads at most this many random records and writes each with a few bytes appended, and records
/// their versions. Returns the times of the gets, and the cost of the puts.
pub(super) fn grow<S: Store>(
    records: &Records,
    store: &S,
    versions: &mut [u32],
    most: u64,
    time: Duration,
) -> Result<(Histogram, Timed)> {
    let mut handle = store.handle(true)?;
    let (mut old, mut new) = (Vec::new(), Vec::new());
    let (mut gets, mut times) = (Histogram::new(), Histogram::new());
    let mut rng = Rng::new(12, versions.iter().map(|&version| u64::from(version)).sum(), 0);
    let (meter, started) = (Meter::start(), Instant::now());
    while times.total() < most && (!times.total().is_multiple_of(STEP) || started.elapsed() < time)
    {
        let number = rng.below(records.count);
        let version = versions[number as usize] + 1;
        records.value(number, version, &mut new);
        let start = Instant::now();
        let found = handle.get(&key(number), |value| {
            old.clear();
            old.extend_from_slice(value);
        })?;
        gets.add(start.elapsed().as_nanos() as u64);
        if !found || old.len() + GROWTH != new.len() || !new.starts_with(&old) {
            return Err(format!("record {number}: found {found}, not its value").into());
        }
        // The new value is the value read, with bytes appended.
        old.extend_from_slice(&new[old.len()..]);
        put(&mut handle, number, &old, &mut times)?;
        versions[number as usize] = version;
    }
    Ok((gets, meter.timed(times, records)))
}

/// Gets of present or of absent keys.
pub(super) struct Gets<'a> {
    pub(super) records: &'a Records,
    pub(super) present: bool,
    /// Whether records change meanwhile.
    pub(super) changing: bool,
}

impl Gets<'_> {
    /// A get that checks that the value belongs to the key.
    #[inline]
    fn get<H: Handle>(&self, handle: &mut H, rng: &mut Rng, sum: &mut u64) -> Result<()> {
        let first = if self.present { 0 } else { self.records.count };
        let number = first + rng.below(self.records.count);
        let mut is_right = false;
        let found = handle.get(&key(number), |value| {
            is_right = number_of(value) == Some(number);
            *sum = sum.wrapping_add(Records::fold(number, value));
        })?;
        if found != self.present || is_right != self.present {
            return Err(format!("record {number}: found {found}, its own {is_right}").into());
        }
        Ok(())
    }

    /// Times gets individually.
    pub(super) fn time<S: Store>(&self, store: &S, time: Duration) -> Result<Histogram> {
        let (mut handle, mut rng) = (store.handle(self.changing)?, Rng::new(5, 0, 0));
        let (mut times, mut sum) = (Histogram::new(), 0);
        let start = Instant::now();
        let mut before = start;
        while before - start < time {
            self.get(&mut handle, &mut rng, &mut sum)?;
            let now = Instant::now();
            times.add((now - before).as_nanos() as u64);
            before = now;
        }
        std::hint::black_box(sum);
        Ok(times)
    }

    /// Runs gets until the time is over.
    pub(super) fn run<S: Store>(&self, store: &S, threads: u64, time: Duration) -> Result<Ran> {
        let barrier = Barrier::new(threads as usize);
        let one = |thread: u64| -> Result<Ran> {
            let handle = store.handle(self.changing);
            let (mut rng, mut sum, mut gets) = (Rng::new(6, thread, 0), 0, 0);
            barrier.wait();
            let mut handle = handle?;
            let (cpu, start) = (process::thread_time(), Instant::now());
            while start.elapsed() < time {
                for _ in 0..STEP {
                    self.get(&mut handle, &mut rng, &mut sum)?;
                }
                gets += STEP;
            }
            std::hint::black_box(sum);
            Ok(Ran { gets, wall: start.elapsed(), cpu: process::thread_time() - cpu })
        };
        let ran: Result<Vec<Ran>> = thread::scope(|scope| {
            let one = &one;
            let threads = (0..threads).map(|thread| scope.spawn(move || one(thread)));
            let threads: Vec<_> = threads.collect();
            threads.into_iter().map(|t| t.join().map_err(|_| "a thread panicked")?).collect()
        });
        let ran = ran?;
        Ok(Ran {
            gets: ran.iter().map(|ran| ran.gets).sum(),
            wall: ran.iter().map(|ran| ran.wall).max().unwrap_or_default(),
            cpu: ran.iter().map(|ran| ran.cpu).sum(),
        })
    }
}

/// Runs gets in one thread and updates in another.
pub(super) fn both<S: Store>(
    records: &Records,
    store: &S,
    versions: &mut [u32],
    time: Duration,
) -> Result<(Histogram, Timed)> {
    let is_over = &AtomicBool::new(false);
    thread::scope(|scope| {
        let stop = || is_over.load(Ordering::Relaxed);
        let writer = scope.spawn(move || update(records, store, versions, u64::MAX, stop));
        let gets = Gets { records, present: true, changing: true }.time(store, time);
        is_over.store(true, Ordering::Relaxed);
        let updates = writer.join().map_err(|_| "a thread panicked")?;
        Ok((gets?, updates?))
    })
}

/// Compares every value with the generator, and gets as many absent keys. Returns the sum of the
/// folds of all records.
pub(super) fn check<S: Store>(records: &Records, store: &S, versions: &[u32]) -> Result<u64> {
    let mut handle = store.handle(false)?;
    let (mut expected, mut sum) = (Vec::new(), 0u64);
    for number in 0..records.count {
        records.value(number, versions[number as usize], &mut expected);
        let mut equal = false;
        let found = handle.get(&key(number), |value| {
            equal = value == expected;
            sum = sum.wrapping_add(Records::fold(number, value));
        })?;
        if !found || !equal {
            return Err(format!("record {number}: found {found}, equal {equal}").into());
        }
        if handle.get(&key(records.count + number), |_| ())? {
            return Err(format!("absent record {} was found", records.count + number).into());
        }
    }
    Ok(sum)
}
