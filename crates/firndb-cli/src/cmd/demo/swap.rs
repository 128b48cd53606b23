//! The end of the demo: a month is replaced while a thread queries, and no answer is wrong.

use super::flights::{self, CORRECTED_CARRIER, CORRECTED_MONTH, CORRECTION};
use super::queries::minutes;
use crate::failure::Result;
use crate::output::{Out, plural, thousands, time};
use firndb::search::{Aggregate, Collection, Filter, query};
use firndb::{Error, ErrorKind};
use firndb_ingest::Row;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What the querying thread saw.
struct Seen {
    /// Each distinct answer in the order of its first appearance, and how often it was given.
    answers: Vec<(Aggregate, u64)>,
    failed: u64,
    slowest: Duration,
}

pub fn run(out: &mut Out, collection: &Collection, rows: &mut [Row], json: bool) -> Result<()> {
    let name = format!("2013-{CORRECTED_MONTH:02}");
    let filter =
        query::and([query::eq("month", CORRECTED_MONTH), query::eq("carrier", CORRECTED_CARRIER)]);
    let kind = |collection: &Collection| collection.reader().aggregate(&filter, "dep_delay");
    let old_reader = collection.reader();
    let old = kind(collection)?;
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    let (replaced, elapsed, seen) = std::thread::scope(|scope| {
        let reading = scope.spawn(|| read_until(&stop, collection, &filter));
        let replaced = flights::replace(collection, &name, rows);
        let elapsed = start.elapsed();
        // Leave time for some answers after the change, so that the thread sees it.
        std::thread::sleep(Duration::from_millis(50));
        stop.store(true, Ordering::Release);
        (replaced, elapsed, reading.join())
    });
    replaced?;
    let seen = seen.map_err(|_| Error::new(ErrorKind::Failed, "the reading thread panicked"))?;
    let new = kind(collection)?;
    let count = |answer: &Aggregate| {
        seen.answers.iter().find(|(seen, _)| seen == answer).map_or(0, |(_, count)| *count)
    };
    let all: u64 = seen.answers.iter().map(|(_, count)| count).sum();
    let wrong = all - count(&old) - count(&new);
    let kept = old_reader.aggregate(&filter, "dep_delay")? == old;
    if json {
        out.json(&json!({
            "replaced": name,
            "elapsed_seconds": elapsed.as_secs_f64(),
            "before_average": old.avg,
            "after_average": new.avg,
            "queries": all + seen.failed,
            "before_answers": count(&old),
            "after_answers": count(&new),
            "wrong": wrong,
            "failed": seen.failed,
            "old_reader_undisturbed": kept,
        }))?;
    } else {
        print(out, &name, elapsed, [&old, &new], [count(&old), count(&new), wrong], &seen)?;
    }
    if seen.failed > 0 || wrong > 0 || !kept || old == new {
        return Err(Error::new(ErrorKind::Failed, "the replacement disturbed the queries").into());
    }
    Ok(())
}

/// Repeats one query until `stop`, each time on the newest set of partitions.
fn read_until(stop: &AtomicBool, collection: &Collection, filter: &Filter) -> Seen {
    let mut seen = Seen { answers: Vec::new(), failed: 0, slowest: Duration::ZERO };
    while !stop.load(Ordering::Acquire) {
        let start = Instant::now();
        let answer = collection.reader().aggregate(filter, "dep_delay");
        seen.slowest = seen.slowest.max(start.elapsed());
        let Ok(answer) = answer else {
            seen.failed += 1;
            continue;
        };
        match seen.answers.iter_mut().find(|(known, _)| *known == answer) {
            Some((_, count)) => *count += 1,
            None => seen.answers.push((answer, 1)),
        }
    }
    seen
}

fn print(
    out: &mut Out,
    name: &str,
    elapsed: Duration,
    [old, new]: [&Aggregate; 2],
    [before, after, wrong]: [u64; 3],
    seen: &Seen,
) -> Result<()> {
    out.line(format!(
        "A correction arrives: {CORRECTED_CARRIER}'s delays of {name} were {CORRECTION} minutes \
         too high. The month is built\nanew and replaced, while a thread goes on asking for \
         {CORRECTED_CARRIER}'s average delay in it.\n"
    ))?;
    out.line(format!("  average delay   {} -> {}", minutes(old.avg), minutes(new.avg)))?;
    out.line(format!("  build, replace  {}", time(elapsed)))?;
    let all = before + after + wrong + seen.failed;
    out.line(format!(
        "  the thread      {}: {} saw the old month, {} the new one, {wrong} anything else, \
         {} failed",
        plural(all, "question").replace("questions", "questions asked"),
        thousands(before),
        thousands(after),
        seen.failed
    ))?;
    out.line(format!("  the slowest     {}", time(seen.slowest)))?;
    out.line("  a reader opened before the change still answers from the old month\n")?;
    Ok(())
}
