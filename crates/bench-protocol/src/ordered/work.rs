//! Operations on an open store or table: puts, scans, comparisons.

use super::records::{Answer, GROUP, Records};
use super::{Reader, Store};
use crate::log::Histogram;
use crate::rng::Rng;
use crate::{Result, process};
use std::time::{Duration, Instant};

/// Prefixes whose records are compared with the generator.
const COMPARED: u64 = 1000;

/// Puts every record, in random order, each timed individually. Returns the times and the CPU time
/// of the process.
pub(super) fn put<S: Store>(records: &Records, store: &S) -> Result<(Histogram, Duration)> {
    let (numbers, mut value, mut times) = (records.shuffled(), Vec::new(), Histogram::new());
    let mut writer = store.reader()?;
    let cpu = process::cpu_time();
    for number in numbers {
        let key = Records::key(number);
        Records::value(number, &mut value);
        let start = Instant::now();
        writer.put(&key, &value)?;
        times.add(start.elapsed().as_nanos() as u64);
    }
    Ok((times, process::cpu_time() - cpu))
}

/// Scans all records: the answer and the time.
pub(super) fn scan<R: Reader>(reader: &mut R, reverse: bool) -> Result<(Answer, Duration)> {
    let (mut answer, start) = (Answer::default(), Instant::now());
    reader.scan(reverse, |key, value| answer.add(key, value))?;
    Ok((answer, start.elapsed()))
}

/// Scans random prefixes until the time is over: their times, each of all records of a group.
pub(super) fn prefixes<R: Reader>(
    records: &Records,
    reader: &mut R,
    reverse: bool,
    time: Duration,
) -> Result<Histogram> {
    let (mut times, mut rng, mut sum) = (Histogram::new(), Rng::new(13, 0, 0), 0);
    let start = Instant::now();
    while start.elapsed() < time {
        let group = rng.below(records.groups);
        let (prefix, mut answer, start) =
            (Records::prefix(group), Answer::default(), Instant::now());
        reader.prefix(&prefix, reverse, |key, value| answer.add(key, value))?;
        times.add(start.elapsed().as_nanos() as u64);
        if answer.count != GROUP {
            return Err(format!("group {group} has {} records", answer.count).into());
        }
        sum ^= answer.sum;
    }
    std::hint::black_box(sum);
    Ok(times)
}

/// Compares everything with the generator: all records in both directions, and random groups,
/// present and absent. Returns the answer of the scan of all records.
pub(super) fn check<R: Reader>(records: &Records, reader: &mut R) -> Result<Answer> {
    for reverse in [true, false] {
        let (found, expected) = (scan(reader, reverse)?.0, records.total(reverse));
        if found != expected {
            let order = if reverse { "reverse" } else { "forward" };
            return Err(format!("a {order} scan: {found:?}, expected {expected:?}").into());
        }
    }
    let mut rng = Rng::new(14, 0, 0);
    for _ in 0..COMPARED.min(records.groups) {
        let group = rng.below(records.groups);
        let (mut found, mut absent) = (Answer::default(), Answer::default());
        reader.prefix(&Records::prefix(group), false, |key, value| found.add(key, value))?;
        if found != records.of_group(group) {
            return Err(format!("group {group}: {found:?}").into());
        }
        let mut backward = 0;
        reader.prefix(&Records::prefix(group), true, |key, _| {
            // Keys of a group end in their number.
            backward += u64::from(key[15] == (GROUP - 1 - backward) as u8);
        })?;
        reader.prefix(&Records::prefix(records.groups + group), false, |key, value| {
            absent.add(key, value);
        })?;
        if (backward, absent.count) != (GROUP, 0) {
            return Err(format!("group {group}: {backward} in reverse, {absent:?}").into());
        }
    }
    Ok(records.total(false))
}
