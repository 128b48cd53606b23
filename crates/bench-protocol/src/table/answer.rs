//! Operations on an open store: warm up, check answers, measure gets.

use super::fold::fold;
use super::records::key;
use super::{Handle, Key, Records, Store};
use crate::rng::Rng;
use crate::{Result, process};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of distinct keys: far more than caches hold, and no more memory than a small
/// engine uses.
const KEYS: usize = 4_000_000;
const SEED: u64 = 7;

/// The keys to get, and how.
pub struct GetJob {
    present: bool,
    /// Whether every byte of a value is read, or only the first eight, to measure the get alone.
    whole: bool,
    /// Whether the store gets the hint that every byte will be read.
    hinted: bool,
    batch: usize,
    threads: usize,
    time: Duration,
}

impl GetJob {
    /// `what` is `present`, `read`, `handed` or `absent`.
    pub fn new(what: &str, batch: usize, threads: usize, millis: &str) -> Result<GetJob> {
        let (present, whole, hinted) = match what {
            "present" => (true, true, false),
            "read" => (true, true, true),
            "handed" => (true, false, false),
            "absent" => (false, true, false),
            _ => return Err(format!("`{what}` is not present, read, handed or absent").into()),
        };
        let time = Duration::from_millis(millis.parse()?);
        Ok(GetJob {
            present,
            whole,
            hinted,
            batch: batch.clamp(1, KEYS),
            threads: threads.max(1),
            time,
        })
    }

    /// The same with every byte of the values read, so that their folds can be compared.
    pub fn reading_all(self) -> Result<GetJob> {
        if self.whole { Ok(self) } else { Err("the values of these gets are not read".into()) }
    }

    /// Random keys, the same for every engine.
    fn keys(&self, records: &Records, count: usize) -> Vec<Key> {
        let count = count.min((16 * records.count) as usize);
        let mut rng = Rng::new(SEED, u64::from(self.present), 0);
        let first = if self.present { 0 } else { records.count };
        (0..count).map(|_| key(first + rng.below(records.count))).collect()
    }

    /// An error if the engine found an absent key or missed a present one.
    fn found(&self, gets: usize, found: usize) -> Result<()> {
        let expected = if self.present { gets } else { 0 };
        if found != expected {
            return Err(format!("{found} of {gets} keys were found, expected {expected}").into());
        }
        Ok(())
    }
}

/// Gets every record once, with one thread per core, and sums up [`Records::fold_record`].
pub fn warm<S: Store>(records: &Records, store: &S) -> Result<u64> {
    let threads = thread::available_parallelism().map_or(1, usize::from) as u64;
    let part = |first: u64| -> Result<u64> {
        let (mut handle, mut sum) = (store.handle()?, 0u64);
        for number in (first..records.count).step_by(threads as usize) {
            let mut record = 0;
            if !handle.get(&key(number), |v| record = Records::fold_record(number, v))? {
                return Err(format!("record {number} was not found").into());
            }
            sum = sum.wrapping_add(record);
        }
        Ok(sum)
    };
    thread::scope(|scope| {
        let parts = (0..threads).map(|first| scope.spawn(move || part(first)));
        let parts: Vec<_> = parts.collect();
        let sums = parts.into_iter().map(|part| part.join().map_err(|_| "a thread panicked")?);
        sums.sum_wrapping()
    })
}

trait SumWrapping {
    fn sum_wrapping(self) -> Result<u64>;
}

impl<I: Iterator<Item = Result<u64>>> SumWrapping for I {
    fn sum_wrapping(mut self) -> Result<u64> {
        self.try_fold(0u64, |sum, part| Ok(sum.wrapping_add(part?)))
    }
}

/// Compares whole values of a sample with the generator, and gets as many absent keys, individually
/// and in batches.
pub fn check<S: Store>(records: &Records, store: &S, sample: u64) -> Result<()> {
    let mut handle = store.handle()?;
    let mut expected = Vec::new();
    let mut numbers = Vec::new();
    for i in 0..sample.min(records.count) {
        let present = (u128::from(i) * u128::from(records.count) / u128::from(sample)) as u64;
        numbers.extend([present, records.count + present]);
    }
    let wrong = |number: u64, what: &str| {
        let key = key(number);
        Err(format!("record {number} ({}): {what}", key.escape_ascii()).into())
    };
    for &number in &numbers {
        records.value(number, &mut expected);
        let mut equal = false;
        let found = handle.get(&key(number), |value| equal = value == expected)?;
        match (found, number < records.count) {
            (true, true) if equal => {}
            (false, false) => {}
            (true, true) => return wrong(number, "another value"),
            (true, false) => return wrong(number, "found, and is absent"),
            (false, true) => return wrong(number, "not found"),
        }
    }
    for batch in numbers.chunks(64) {
        let keys: Vec<Key> = batch.iter().map(|&number| key(number)).collect();
        for hinted in [false, true] {
            let mut seen = vec![None; keys.len()];
            let each = |place: usize, value: &[u8]| {
                records.value(batch[place], &mut expected);
                seen[place] = Some(value == expected);
            };
            match hinted {
                true => handle.read_many(&keys, each)?,
                false => handle.get_many(&keys, each)?,
            }
            for (&number, seen) in batch.iter().zip(seen) {
                if seen != (number < records.count).then_some(true) {
                    return wrong(number, "a wrong answer in a batch");
                }
            }
        }
    }
    Ok(())
}

/// Times gets individually, from one reading of the clock to the next. Returns the sorted
/// nanoseconds and the sum of the folds of all values.
pub fn latency<S: Store>(
    records: &Records,
    store: &S,
    job: &GetJob,
    gets: usize,
) -> Result<(Vec<u32>, u64)> {
    let keys = job.keys(records, gets.min(KEYS));
    let mut handle = store.handle()?;
    let (mut sum, mut found) = (0u64, 0);
    // Touched in advance, so that no timed get includes a page fault.
    let mut nanos = vec![u32::MAX; keys.len()];
    nanos.clear();
    let start = Instant::now();
    let mut before = start;
    for key in &keys {
        found += usize::from(handle.get(key, |value| sum = sum.wrapping_add(fold(value)))?);
        let now = Instant::now();
        nanos.push((now - before).as_nanos() as u32);
        before = now;
        if now - start > job.time {
            break;
        }
    }
    job.found(nanos.len(), found)?;
    nanos.sort_unstable();
    Ok((nanos, sum))
}

/// The cost of a run.
pub struct Ran {
    /// Number of gets of all threads.
    pub gets: usize,
    /// Wall-clock time.
    pub wall: Duration,
    /// CPU time of the threads.
    pub cpu: Duration,
    /// Bytes read from the disk.
    pub read: u64,
}

/// Gets keys until the time is over.
pub fn run<S: Store>(records: &Records, store: &S, job: &GetJob) -> Result<Ran> {
    let keys = job.keys(records, KEYS);
    let barrier = Barrier::new(job.threads);
    let before = process::bytes_read();
    let one = |thread: usize| {
        let handle = store.handle();
        barrier.wait();
        match job.whole {
            true => run_thread(&mut handle?, job, &keys, thread, fold),
            false => run_thread(&mut handle?, job, &keys, thread, first),
        }
    };
    let ran: Result<Vec<(usize, Duration, Duration)>> = thread::scope(|scope| {
        let one = &one;
        let threads = (0..job.threads).map(|thread| scope.spawn(move || one(thread)));
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread panicked")?).collect()
    });
    let ran = ran?;
    Ok(Ran {
        gets: ran.iter().map(|ran| ran.0).sum(),
        wall: ran.iter().map(|ran| ran.1).max().unwrap_or_default(),
        cpu: ran.iter().map(|ran| ran.2).sum(),
        read: process::bytes_read() - before,
    })
}

/// The first bytes of a value.
#[inline]
fn first(value: &[u8]) -> u64 {
    value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn run_thread<H: Handle>(
    handle: &mut H,
    job: &GetJob,
    keys: &[Key],
    thread: usize,
    read: impl Fn(&[u8]) -> u64,
) -> Result<(usize, Duration, Duration)> {
    let (mut gets, mut found, mut sum) = (0, 0, 0u64);
    // The clock is read once per this many keys.
    let step = job.batch.max(64).min(keys.len());
    let mut at = thread * (keys.len() / job.threads);
    let (cpu, start) = (process::thread_time(), Instant::now());
    while start.elapsed() < job.time {
        if at + step > keys.len() {
            at = 0;
        }
        for batch in keys[at..at + step].chunks(job.batch) {
            if job.batch == 1 {
                found += usize::from(handle.get(&batch[0], |v| sum = sum.wrapping_add(read(v)))?);
                continue;
            }
            let take = |_, value: &[u8]| {
                found += 1;
                sum = sum.wrapping_add(read(value));
            };
            match job.hinted {
                true => handle.read_many(batch, take)?,
                false => handle.get_many(batch, take)?,
            }
        }
        at += step;
        gets += step;
    }
    let (wall, cpu) = (start.elapsed(), process::thread_time().saturating_sub(cpu));
    std::hint::black_box(sum);
    job.found(gets, found)?;
    Ok((gets, wall, cpu))
}
