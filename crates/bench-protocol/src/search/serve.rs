//! The engine's side of the protocol: runs jobs, times queries, writes answers.

use super::{Answer, Kind, Query, Workload, read_queries};
use crate::lines::answer_jobs;
use crate::{Error, Result, process};
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// An engine: builds and opens its own form of a data set.
pub trait Engine {
    /// An opened data set.
    type Session: Session;

    /// Name and version, for the report.
    fn version(&self) -> String;

    /// Builds the engine's form of `data` in the empty directory `dir`.
    fn build(&self, workload: Workload, data: &Path, dir: &Path) -> Result<()>;

    /// Opens what `build` has built.
    fn open(&self, workload: Workload, dir: &Path) -> Result<Self::Session>;

    /// Allocations of this thread during `work`; zero if the engine does not count them.
    fn allocations(&self, work: &mut dyn FnMut()) -> u64 {
        work();
        0
    }

    /// Additional figures of this engine: names, and times in nanoseconds.
    fn extras(&self, workload: Workload, data: &Path, dir: &Path) -> Result<Vec<(String, f64)>> {
        let _ = (workload, data, dir);
        Ok(Vec::new())
    }
}

/// An opened data set that answers queries.
pub trait Session {
    /// A query in the engine's own form, prepared before the clock starts, like a prepared
    /// statement.
    type Prepared;

    /// Prepares a query.
    fn prepare(&mut self, query: &Query) -> Result<Self::Prepared>;

    /// Runs a query; this is timed. It finds the ids of the hits and reads the requested payloads.
    fn run(&mut self, query: &Self::Prepared, answer: &mut Answer) -> Result<()>;

    /// Fills in the sort keys of the hits that [`Session::run`] has found, outside the timed part.
    /// They are only used to compare answers.
    fn complete(&mut self, query: &Self::Prepared, answer: &mut Answer) -> Result<()> {
        let _ = (query, answer);
        Ok(())
    }
}

/// Answers jobs from standard input until it ends. An error is reported to the runner and ends the
/// process.
pub fn serve<E: Engine>(engine: &E) -> Result<()> {
    let mut session = None;
    answer_jobs(|job, out| perform(engine, &mut session, job, out))
}

fn perform<E: Engine>(
    engine: &E,
    session: &mut Option<E::Session>,
    job: &[&str],
    out: &mut impl Write,
) -> Result<()> {
    match *job {
        ["hello"] => writeln!(out, "hello\t{}", engine.version())?,
        ["build", workload, data, dir] => build(engine, workload.parse()?, data, dir, out)?,
        ["open", workload, dir, times] => {
            *session = Some(open(engine, workload.parse()?, dir, times.parse()?, out)?);
        }
        ["run", kind, queries, repeats, budget] => {
            let session = session.as_mut().ok_or("`run` came before `open`")?;
            let budget = Duration::from_millis(budget.parse()?);
            run(engine, session, &Job::read(kind, queries, repeats.parse()?, budget)?, out)?;
        }
        ["extras", workload, data, dir] => {
            for (name, nanos) in engine.extras(workload.parse()?, data.as_ref(), dir.as_ref())? {
                writeln!(out, "extra\t{name}\t{nanos}")?;
            }
            writeln!(out, "done")?;
        }
        _ => return Err(format!("there is no job `{}`", job.join(" ")).into()),
    }
    Ok(())
}

fn build<E: Engine>(
    engine: &E,
    workload: Workload,
    data: &str,
    dir: &str,
    out: &mut impl Write,
) -> Result<()> {
    let start = Instant::now();
    engine.build(workload, data.as_ref(), dir.as_ref())?;
    let wall = start.elapsed().as_nanos();
    let (cpu, peak) = (process::cpu_time().as_nanos(), process::peak_memory());
    writeln!(out, "built\t{wall}\t{cpu}\t{peak}\t{}", process::disk_usage(dir.as_ref())?)?;
    Ok(())
}

/// Opens the data set `times` times and reports the median; memory is what the first open added.
fn open<E: Engine>(
    engine: &E,
    workload: Workload,
    dir: &str,
    times: usize,
    out: &mut impl Write,
) -> Result<E::Session> {
    let before = process::anonymous_memory();
    let start = Instant::now();
    let session = engine.open(workload, dir.as_ref())?;
    let mut nanos = vec![start.elapsed().as_nanos()];
    let memory = process::anonymous_memory().saturating_sub(before);
    for _ in 1..times {
        let start = Instant::now();
        let again = engine.open(workload, dir.as_ref())?;
        nanos.push(start.elapsed().as_nanos());
        drop(again);
    }
    nanos.sort_unstable();
    writeln!(out, "opened\t{}\t{memory}", nanos[nanos.len() / 2])?;
    Ok(session)
}

/// Queries of one kind to be timed.
struct Job {
    kind: Kind,
    queries: Vec<Query>,
    repeats: u32,
    budget: Duration,
}

impl Job {
    fn read(kind: &str, queries: &str, repeats: u32, budget: Duration) -> Result<Job> {
        let kind = kind.parse()?;
        let queries = read_queries(queries.as_ref(), kind)?;
        Ok(Job { kind, queries, repeats: repeats.max(1), budget })
    }
}

/// Runs every query of the list once to warm up, within a quarter of the budget, and then times
/// them one after another. An engine that exceeds its budget stops after at least 20 queries: it
/// has answered a prefix of the list.
fn run<E: Engine>(
    engine: &E,
    session: &mut E::Session,
    job: &Job,
    out: &mut impl Write,
) -> Result<()> {
    let prepared = job.queries.iter().map(|query| session.prepare(query));
    let prepared = prepared.collect::<Result<Vec<_>>>()?;
    let mut answer = Answer::default();
    let start = Instant::now();
    for query in prepared.iter().take_while(|_| start.elapsed() < job.budget / 4) {
        answer.clear();
        session.run(query, &mut answer)?;
    }
    let start = Instant::now();
    let mut lines = Vec::with_capacity(prepared.len());
    for (i, query) in prepared.iter().enumerate() {
        if i >= 20 && start.elapsed() > job.budget {
            break;
        }
        let nanos = time(session, query, job.repeats, &mut answer)?;
        session.complete(query, &mut answer)?;
        lines.push((nanos, answer.count, answer.checksum(job.kind.limit())));
    }
    let mut failed = Ok(());
    let timed = &prepared[..lines.len()];
    let allocations = engine.allocations(&mut || {
        failed = timed.iter().try_for_each(|query| {
            answer.clear();
            session.run(query, &mut answer)
        });
    });
    failed?;
    for (nanos, count, checksum) in &lines {
        writeln!(out, "{nanos}\t{count}\t{checksum}")?;
    }
    writeln!(out, "done\t{}", allocations as f64 / lines.len().max(1) as f64)?;
    Ok(())
}

/// Nanoseconds of one run, averaged over `repeats` runs of the same query.
fn time<S: Session>(
    session: &mut S,
    query: &S::Prepared,
    repeats: u32,
    answer: &mut Answer,
) -> Result<f64, Error> {
    let start = Instant::now();
    for _ in 0..repeats {
        answer.clear();
        session.run(black_box(query), answer)?;
        black_box(&*answer);
    }
    Ok(start.elapsed().as_nanos() as f64 / f64::from(repeats))
}
