//! The engine's side of the protocol: traits to implement, and the job loop.

use super::records::{Answer, Key, Prefix, Records};
use super::work;
use crate::lines::answer_jobs;
use crate::log::Histogram;
use crate::{Result, process};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// An engine with stores that are filled by puts.
pub trait Engine {
    /// An open store.
    type Store: Store;

    /// Name and version, for the report.
    fn version(&self) -> String;

    /// Whether the stores can be scanned in order. Otherwise only puts are measured.
    fn scans(&self) -> bool {
        true
    }

    /// Creates the store in an empty directory. `records` gives its final size.
    fn create(&self, records: &Records, dir: &Path) -> Result<Self::Store>;
}

/// An engine with tables that are built once.
pub trait TableEngine {
    /// An open table.
    type Store: Store;

    /// Name and version, for the report.
    fn version(&self) -> String;

    /// Builds the table in an empty directory, from records in the order of their keys, and makes
    /// it durable.
    fn build(&self, records: &Records, dir: &Path) -> Result<()>;

    /// Opens the table.
    fn open(&self, dir: &Path) -> Result<Self::Store>;
}

/// An open store or table.
pub trait Store {
    /// Puts and scans of one thread.
    type Reader<'a>: Reader
    where
        Self: 'a;

    /// For puts and scans.
    fn reader(&self) -> Result<Self::Reader<'_>>;

    /// Waits until background work that the puts caused is done.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Closes it cleanly.
    fn close(self) -> Result<()>
    where
        Self: Sized,
    {
        Ok(())
    }
}

/// Puts and scans of one thread. A scan of a store sees all puts that returned before it began. A
/// table does not change, so its scans may share what they need.
pub trait Reader {
    /// Puts one record into a store. It survives a crash of the process, but not necessarily a
    /// power cut.
    fn put(&mut self, _key: &Key, _value: &[u8]) -> Result<()> {
        Err("a table does not change".into())
    }

    /// Passes the records whose keys begin with these bytes to `each`, in the order of the keys.
    fn prefix(
        &mut self,
        prefix: &Prefix,
        reverse: bool,
        each: impl FnMut(&[u8], &[u8]),
    ) -> Result<()>;

    /// Passes all records to `each`, in the order of the keys.
    fn scan(&mut self, reverse: bool, each: impl FnMut(&[u8], &[u8])) -> Result<()>;
}

/// A store or table under test.
struct Open<S> {
    records: Records,
    dir: PathBuf,
    /// Memory of the process before it was opened.
    baseline: u64,
    store: S,
}

/// Answers jobs about stores from standard input until it ends.
pub fn serve<E: Engine>(engine: &E) -> Result<()> {
    let mut open: Option<Open<E::Store>> = None;
    answer_jobs(|job, out| {
        match *job {
            ["hello"] => writeln!(out, "hello\t{}", engine.version())?,
            ["create", groups, dir] => {
                let (records, dir) = (Records { groups: groups.parse()? }, PathBuf::from(dir));
                let baseline = process::anonymous_memory();
                let store = engine.create(&records, &dir)?;
                open = Some(Open { records, dir, baseline, store });
                writeln!(out, "created\t{}", u8::from(engine.scans()))?;
            }
            ["put"] => {
                let open = open.as_ref().ok_or("a job that needs an open store")?;
                let (times, cpu) = work::put(&open.records, &open.store)?;
                writeln!(out, "put\t{}\t{}", quantiles(&times), cpu.as_nanos())?;
            }
            ["close"] => {
                let start = Instant::now();
                open.take().map_or(Ok(()), |open| open.store.close())?;
                writeln!(out, "closed\t{}", start.elapsed().as_nanos())?;
            }
            ref job => perform(open.as_ref(), job, out)?,
        }
        Ok(())
    })
}

/// Answers jobs about tables from standard input until it ends.
pub fn serve_tables<E: TableEngine>(engine: &E) -> Result<()> {
    let mut open: Option<Open<E::Store>> = None;
    answer_jobs(|job, out| {
        match *job {
            ["hello"] => writeln!(out, "hello\t{}", engine.version())?,
            ["build", groups, dir] => {
                let (records, dir) = (Records { groups: groups.parse()? }, PathBuf::from(dir));
                let (cpu, start) = (process::cpu_time(), Instant::now());
                engine.build(&records, &dir)?;
                let (wall, cpu) = (start.elapsed(), process::cpu_time() - cpu);
                let baseline = process::anonymous_memory();
                let store = engine.open(&dir)?;
                open = Some(Open { records, dir, baseline, store });
                writeln!(out, "built\t{}\t{}", wall.as_nanos(), cpu.as_nanos())?;
            }
            ref job => perform(open.as_ref(), job, out)?,
        }
        Ok(())
    })
}

/// The jobs that stores and tables have in common.
fn perform<S: Store>(open: Option<&Open<S>>, job: &[&str], out: &mut impl Write) -> Result<()> {
    let Open { records, dir, baseline, store } = open.ok_or("a job that needs an open store")?;
    match *job {
        ["settle"] => {
            store.settle()?;
            writeln!(out, "settled")?;
        }
        ["check"] => {
            let Answer { count, sum } = work::check(records, &mut store.reader()?)?;
            writeln!(out, "checked\t{count}\t{sum}")?;
        }
        ["size"] => {
            let memory = process::anonymous_memory().saturating_sub(*baseline);
            writeln!(out, "size\t{}\t{memory}", process::disk_allocated(dir)?)?;
        }
        ["prefix", order, millis] => {
            let time = Duration::from_millis(millis.parse()?);
            let reverse = is_reverse(order)?;
            let times = work::prefixes(records, &mut store.reader()?, reverse, time)?;
            writeln!(out, "prefix\t{}", quantiles(&times))?;
        }
        ["scan", order] => {
            let reverse = is_reverse(order)?;
            let (answer, time) = work::scan(&mut store.reader()?, reverse)?;
            let Answer { count, sum } = answer;
            writeln!(out, "scanned\t{count}\t{sum}\t{}", time.as_nanos())?;
        }
        _ => return Err(format!("there is no job `{}`", job.join(" ")).into()),
    }
    Ok(())
}

fn is_reverse(order: &str) -> Result<bool> {
    match order {
        "forward" => Ok(false),
        "reverse" => Ok(true),
        _ => Err(format!("`{order}` is neither forward nor reverse").into()),
    }
}

/// Number, sum, median, 99th and 99.9th percentile, maximum.
fn quantiles(times: &Histogram) -> String {
    let [p50, p99, p999, max] = [0.5, 0.99, 0.999, 1.0].map(|share| times.quantile(share));
    format!("{}\t{}\t{p50}\t{p99}\t{p999}\t{max}", times.total(), times.sum())
}
