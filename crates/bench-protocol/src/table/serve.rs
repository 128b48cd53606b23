//! The engine's side of the protocol: traits to implement, and the job loop.

use super::answer::{self, GetJob, Ran};
use super::{Key, Records};
use crate::lines::answer_jobs;
use crate::{Result, process};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

/// An engine: builds and opens its own form of the records.
pub trait Engine {
    /// An opened store.
    type Store: Store;

    /// Name and version, for the report.
    fn version(&self) -> String;

    /// Builds the engine's form of the records in the empty directory `dir`.
    fn build(&self, records: &Records, dir: &Path) -> Result<()>;

    /// Opens what `build` has built.
    fn open(&self, records: &Records, dir: &Path) -> Result<Self::Store>;
}

/// An opened store, shared by threads.
pub trait Store: Sync {
    /// The handle of one thread.
    type Handle<'a>: Handle
    where
        Self: 'a;

    /// Whether [`Handle::get_many`] is more than a loop.
    const BATCHES: bool = false;

    /// A handle for one thread, created before the clock starts.
    fn handle(&self) -> Result<Self::Handle<'_>>;
}

/// The handle of one thread.
pub trait Handle {
    /// Gets one key: passes its value to `found`, or returns false.
    fn get(&mut self, key: &Key, found: impl FnOnce(&[u8])) -> Result<bool>;

    /// Gets many keys: passes the values of present keys to `found`, with their indexes in `keys`.
    fn get_many(&mut self, keys: &[Key], mut found: impl FnMut(usize, &[u8])) -> Result<()> {
        for (place, key) in keys.iter().enumerate() {
            self.get(key, |value| found(place, value))?;
        }
        Ok(())
    }

    /// [`Handle::get_many`] with the hint that `found` reads every value in full, for engines that
    /// support it.
    fn read_many(&mut self, keys: &[Key], found: impl FnMut(usize, &[u8])) -> Result<()> {
        self.get_many(keys, found)
    }
}

/// Number of opens of a store; the median is reported.
const OPENS: usize = 5;

/// Answers jobs from standard input until it ends.
pub fn serve<E: Engine>(engine: &E) -> Result<()> {
    let mut open: Option<(Records, E::Store)> = None;
    answer_jobs(|job, out| {
        match *job {
            ["hello"] => writeln!(out, "hello\t{}", engine.version())?,
            ["build", workload, count, dir] => {
                build(engine, &records(workload, count)?, dir.as_ref(), out)?;
            }
            ["open", workload, count, dir] => {
                let records = records(workload, count)?;
                open = Some((records, open_some_times(engine, &records, dir.as_ref(), out)?));
            }
            ref job => {
                let (records, store) = open.as_ref().ok_or("a job that needs an open store")?;
                perform(records, store, job, out)?;
            }
        }
        Ok(())
    })
}

fn records(workload: &str, count: &str) -> Result<Records> {
    Ok(Records { workload: workload.parse()?, count: count.parse()? })
}

fn build<E: Engine>(engine: &E, records: &Records, dir: &Path, out: &mut impl Write) -> Result<()> {
    let start = Instant::now();
    engine.build(records, dir)?;
    let wall = start.elapsed().as_nanos();
    let (cpu, peak) = (process::cpu_time().as_nanos(), process::peak_memory());
    writeln!(out, "built\t{wall}\t{cpu}\t{peak}\t{}", process::disk_usage(dir)?)?;
    Ok(())
}

/// Opens one store after another: not every engine can have a store open twice.
fn open_some_times<E: Engine>(
    engine: &E,
    records: &Records,
    dir: &Path,
    out: &mut impl Write,
) -> Result<E::Store> {
    let mut nanos = Vec::new();
    let store = loop {
        let start = Instant::now();
        let store = engine.open(records, dir)?;
        let took = start.elapsed();
        nanos.push(took.as_nanos());
        if nanos.len() == OPENS || took.as_secs() > 0 {
            break store;
        }
    };
    nanos.sort_unstable();
    let median = nanos[nanos.len() / 2];
    writeln!(out, "opened\t{median}\t{}", u8::from(E::Store::BATCHES))?;
    Ok(store)
}

fn perform<S: Store>(
    records: &Records,
    store: &S,
    job: &[&str],
    out: &mut impl Write,
) -> Result<()> {
    match *job {
        ["warm"] => {
            let (start, sum) = (Instant::now(), answer::warm(records, store)?);
            writeln!(out, "warmed\t{}\t{sum}", start.elapsed().as_nanos())?;
        }
        ["check", sample] => {
            answer::check(records, store, sample.parse()?)?;
            writeln!(out, "checked\t{sample}")?;
        }
        ["latency", what, gets, millis] => {
            let job = GetJob::new(what, 1, 1, millis)?.reading_all()?;
            let (nanos, fold) = answer::latency(records, store, &job, gets.parse()?)?;
            let share = |share: f64| {
                let place = (share * nanos.len() as f64).ceil() as usize;
                nanos.get(place.max(1) - 1).copied().unwrap_or(0)
            };
            let (p50, p99, p999, max) = (share(0.5), share(0.99), share(0.999), share(1.0));
            let n = nanos.len();
            writeln!(out, "latency\t{n}\t{fold}\t{p50}\t{p99}\t{p999}\t{max}")?;
        }
        ["run", what, batch, threads, millis] => {
            let job = GetJob::new(what, batch.parse()?, threads.parse()?, millis)?;
            let Ran { gets, wall, cpu, read } = answer::run(records, store, &job)?;
            writeln!(out, "ran\t{gets}\t{}\t{}\t{read}", wall.as_nanos(), cpu.as_nanos())?;
        }
        ["memory"] => {
            let (anonymous, mapped) = (process::anonymous_memory(), process::mapped_memory());
            writeln!(out, "memory\t{anonymous}\t{mapped}")?;
        }
        _ => return Err(format!("there is no job `{}`", job.join(" ")).into()),
    }
    Ok(())
}
