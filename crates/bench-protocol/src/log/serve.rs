//! The engine's side of the protocol: traits to implement, and the job loop.

use super::histogram::Histogram;
use super::records::{FIRST, Key, Records};
use super::work::{self, Gets, Timed};
use crate::lines::answer_jobs;
use crate::{Result, process};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// An engine: opens stores.
pub trait Engine {
    /// An open store.
    type Store: Store;

    /// Name and version, for the report.
    fn version(&self) -> String;

    /// Opens the store in `dir`, or creates it if the directory is empty. `records` gives its final
    /// size.
    fn open(&self, records: &Records, dir: &Path) -> Result<Self::Store>;
}

/// An open store, shared by threads.
pub trait Store: Sync {
    /// The handle of one thread.
    type Handle<'a>: Handle
    where
        Self: 'a;

    /// A handle for one thread. Unless `changing`, no other thread writes during its gets.
    fn handle(&self, changing: bool) -> Result<Self::Handle<'_>>;

    /// Bytes written to files since the store was opened, including logs and background work, as
    /// counted by the engine.
    fn written(&self) -> Option<u64> {
        None
    }

    /// Closes the store cleanly.
    fn close(self) -> Result<()>;
}

/// The handle of one thread.
pub trait Handle {
    /// Gets one key: passes its value to `found`, or returns false.
    fn get(&mut self, key: &Key, found: impl FnOnce(&[u8])) -> Result<bool>;

    /// Puts one record. It must be visible at once, but need not survive a power cut.
    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()>;

    /// Puts many records; overridden by engines for which single puts would take too long.
    fn load(&mut self, mut records: impl Iterator<Item = (Key, Vec<u8>)>) -> Result<()> {
        records.try_for_each(|(key, value)| self.put(&key, &value))
    }
}

/// A store under test.
struct Open<S> {
    records: Records,
    dir: PathBuf,
    /// The version of each record.
    versions: Vec<u32>,
    /// Memory of the process before the store was opened.
    baseline: u64,
    store: Option<S>,
}

/// Answers jobs from standard input until it ends.
pub fn serve<E: Engine>(engine: &E) -> Result<()> {
    let mut open: Option<Open<E::Store>> = None;
    answer_jobs(|job, out| {
        match *job {
            ["hello"] => writeln!(out, "hello\t{}", engine.version())?,
            ["create", workload, count, dir] => {
                let records = Records { workload: workload.parse()?, count: count.parse()? };
                let versions = vec![FIRST; records.count as usize];
                let baseline = process::anonymous_memory();
                let store = Some(engine.open(&records, dir.as_ref())?);
                open = Some(Open { records, dir: dir.into(), versions, baseline, store });
                writeln!(out, "created")?;
            }
            ref job => {
                let open = open.as_mut().ok_or("a job that needs an open store")?;
                open.perform(engine, job, out)?;
            }
        }
        Ok(())
    })
}

impl<S: Store> Open<S> {
    fn perform<E: Engine<Store = S>>(
        &mut self,
        engine: &E,
        job: &[&str],
        out: &mut impl Write,
    ) -> Result<()> {
        if let ["reopen" | "reopen cold"] = *job {
            let start = Instant::now();
            self.store.take().map_or(Ok(()), Store::close)?;
            let close = start.elapsed().as_nanos();
            if job[0] == "reopen cold" {
                process::forget_pages(&self.dir)?;
            }
            let start = Instant::now();
            self.store = Some(engine.open(&self.records, &self.dir)?);
            writeln!(out, "reopened\t{close}\t{}", start.elapsed().as_nanos())?;
            return Ok(());
        }
        let Open { records, versions, baseline, dir, store } = self;
        let store = store.as_ref().ok_or("the store is closed")?;
        let records = &*records;
        match *job {
            ["fill", time] => {
                let timed = work::fill(records, store, millis(time)?)?;
                writeln!(out, "filled\t{}", fields(&timed))?;
            }
            ["check"] => {
                writeln!(out, "checked\t{}", work::check(records, store, versions)?)?;
            }
            ["size"] => {
                let memory = process::anonymous_memory().saturating_sub(*baseline);
                let written = store.written().map_or("-".into(), |bytes| bytes.to_string());
                writeln!(out, "size\t{}\t{memory}\t{written}", process::disk_allocated(dir)?)?;
            }
            ["update", most, time] => {
                let (time, start) = (millis(time)?, Instant::now());
                let is_over = || start.elapsed() > time;
                let timed = work::update(records, store, versions, most.parse()?, is_over)?;
                writeln!(out, "updated\t{}", fields(&timed))?;
            }
            ["grow", most, time] => {
                let (most, time) = (most.parse()?, millis(time)?);
                let (gets, puts) = work::grow(records, store, versions, most, time)?;
                writeln!(out, "grown\t{}\t{}", quantiles(&gets), fields(&puts))?;
            }
            ["both", time] => {
                let (gets, updates) = work::both(records, store, versions, millis(time)?)?;
                writeln!(out, "both\t{}\t{}", quantiles(&gets), quantiles(&updates.times))?;
            }
            ["latency", what, time] => {
                let times = gets(records, what)?.time(store, millis(time)?)?;
                writeln!(out, "latency\t{}", quantiles(&times))?;
            }
            ["run", what, threads, time] => {
                let before = process::bytes_read();
                let ran = gets(records, what)?.run(store, threads.parse()?, millis(time)?)?;
                let (wall, cpu) = (ran.wall.as_nanos(), ran.cpu.as_nanos());
                let read = process::bytes_read() - before;
                writeln!(out, "ran\t{}\t{wall}\t{cpu}\t{read}", ran.gets)?;
            }
            _ => return Err(format!("there is no job `{}`", job.join(" ")).into()),
        }
        Ok(())
    }
}

fn millis(text: &str) -> Result<Duration> {
    Ok(Duration::from_millis(text.parse()?))
}

fn gets<'a>(records: &'a Records, what: &str) -> Result<Gets<'a>> {
    match what {
        "present" | "absent" => Ok(Gets { records, present: what == "present", changing: false }),
        _ => Err(format!("`{what}` is neither present nor absent").into()),
    }
}

/// Number, sum, median, 99th and 99.9th percentile, maximum.
fn quantiles(times: &Histogram) -> String {
    let quantile = |share| times.quantile(share);
    let [p50, p99, p999, max] = [0.5, 0.99, 0.999, 1.0].map(quantile);
    format!("{}\t{}\t{p50}\t{p99}\t{p999}\t{max}", times.total(), times.sum())
}

fn fields(timed: &Timed) -> String {
    format!("{}\t{}\t{}", quantiles(&timed.times), timed.cpu.as_nanos(), timed.dirty)
}
