//! Takes the engines through a workload: build, open, compare, warm; then measures all that are
//! open in turns.
//!
//! Figures have names: `build wall`, `build cpu`, `build peak`, `disk`, `open`, `warm`, `memory
//! own`, `memory mapped`; for `WHAT` present or absent `WHAT p50`, `p99`, `p999`, `max`; for 1 and
//! 2 threads `WHAT N cpu` and `WHAT N rate`, where `WHAT` may also be `handed` (the first bytes of
//! a value are read, not all), `batch`, `handed batch`, or `read batch` (all is read, and the store
//! is told so). An engine that reads past the page cache has others instead of the warm ones: with
//! 1 and 32 reads at a time `cold N rate`, `cpu` and `read` (bytes a get), and of the disk itself
//! `fio N rate`, `p50` and `p99`; `cold p50`, `p99` and `p999` of gets alone.

use super::cold;
use super::jobs::Getter;
use super::report::{Figures, Report, Section, records};
use super::turns::{Effort, Opened, Turns};
use crate::child::Launcher;
use crate::machine;
use firndb_bench_protocol::Result;
use firndb_bench_protocol::table::{Records, Workload};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What to run.
pub struct Options {
    /// Where engines build, and where figures are kept.
    pub dir: PathBuf,
    /// Which workloads.
    pub workloads: Vec<Workload>,
    /// Records of the workload `small`; the others have fewer in proportion.
    pub records: u64,
    /// How often and how long each kind of get is measured.
    pub effort: Effort,
    /// Bytes of memory for the engines that are open at the same time.
    pub memory: u64,
    /// Use the figures that an earlier run kept of a workload, if it had the same engines in the
    /// same versions and took the same effort.
    pub reuse: bool,
    /// The engines.
    pub engines: Vec<Launcher>,
}

/// How often all engines are built and measured: how the pages of a file lie differs from build to
/// build.
const PASSES: usize = 3;
/// What a build takes besides the records, at most: FirnDB's budget, and something more.
const BUDGET: u64 = 3 << 29;
/// Records of the sample whose whole values are compared.
const SAMPLE: u64 = 20_000;

/// Runs all workloads.
pub fn run(options: &Options) -> Result<Report> {
    let mut report = Report::default();
    for &workload in &options.workloads {
        let records = records(workload, options.records);
        let section = run_workload(options, records)
            .map_err(|e| format!("workload {}: {e}", workload.name()))?;
        report.sections.push(section);
    }
    Ok(report)
}

/// An engine that compresses has nothing to do where nothing can be compressed.
fn takes_part(name: &str, workload: Workload) -> bool {
    workload == Workload::Json || !name.contains("-zstd")
}

fn run_workload(options: &Options, records: Records) -> Result<Section> {
    let dir = options.dir.join(format!("table-{}-{}", records.workload.name(), records.count));
    fs::create_dir_all(&dir)?;
    // A run that was killed leaves gigabytes.
    remove_dirs(&dir)?;
    let start = Instant::now();
    let (bytes, sum) = records.total();
    let making = start.elapsed();
    let (mut engines, mut jobs) = (Vec::new(), Vec::new());
    for launcher in options.engines.iter().filter(|e| takes_part(&e.name, records.workload)) {
        let (index, dir) = (engines.len(), dir.join(&launcher.name));
        let version = launcher.start()?.hello()?;
        engines.push(Figures { name: launcher.name.clone(), version, ..Figures::default() });
        jobs.push(Job { options, records: &records, bytes, launcher, index, dir });
    }
    let path = dir.join("figures.json");
    // What is told beside each other was measured beside each other.
    if options.reuse
        && let Some(engines) = kept(&path, options, &engines)
    {
        return Ok(Section { records, bytes, making, engines });
    }
    let mut expected = Expected { sum, folds: BTreeMap::new() };
    // Who is measured beside whom, as the first pass finds it: the same in all of them.
    let mut groups = vec![(0..jobs.len()).collect()];
    let mut pass = |pass| {
        groups = run_pass(pass, &jobs, &groups, &mut expected, &mut engines)?;
        Ok(())
    };
    let done = (1..=PASSES).try_for_each(&mut pass);
    let removed = remove_dirs(&dir);
    done.and(removed)?;
    keep(&path, options, &engines)?;
    Ok(Section { records, bytes, making, engines })
}

/// How the figures of a run come about. What was found in another way does not stand beside them.
fn method(options: &Options) -> String {
    let (Effort { rounds, millis }, longer, more) = (options.effort, cold::LONGER, cold::MORE);
    format!(
        "{PASSES} passes of {rounds} turns of {millis} ms; from the disk {longer} times longer, \
         many reads at a time {more} times as many"
    )
}

fn keep(path: &Path, options: &Options, engines: &[Figures]) -> Result<()> {
    let engines: Vec<Value> = engines.iter().map(Figures::json).collect();
    let kept = json!({ "method": method(options), "engines": engines });
    Ok(fs::write(path, format!("{kept:#}\n"))?)
}

/// What an earlier run kept of the same engines.
fn kept(path: &Path, options: &Options, engines: &[Figures]) -> Option<Vec<Figures>> {
    let kept: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let found: Option<Vec<Figures>> =
        kept["engines"].as_array()?.iter().map(Figures::from_json).collect();
    let who = |figures: &Figures| (figures.name.clone(), figures.version.clone());
    found.filter(|found| {
        kept["method"] == method(options) && found.iter().map(who).eq(engines.iter().map(who))
    })
}

fn remove_dirs(dir: &Path) -> Result<()> {
    for entry in dir.read_dir()? {
        let path = entry?.path();
        if path.is_dir() {
            fs::remove_dir_all(path)?;
        }
    }
    Ok(())
}

/// The order of a group of engines in a pass. Each pass begins with another one: what builds first
/// finds the memory and the disk as nobody else does.
fn order(pass: usize, group: &[usize]) -> impl Iterator<Item = usize> {
    let (end, begin) = group.split_at((pass - 1) * group.len() / PASSES);
    begin.iter().chain(end).copied()
}

/// Builds and measures all engines once, group by group, and joins what was found to what is known
/// of them. Gives the groups, smaller ones where memory did not hold one.
fn run_pass(
    pass: usize,
    jobs: &[Job],
    groups: &[Vec<usize>],
    expected: &mut Expected,
    engines: &mut [Figures],
) -> Result<Vec<Vec<usize>>> {
    let mut found = Vec::new();
    for group in groups {
        let (mut turns, mut together) = (Turns::default(), Vec::new());
        for (i, number) in order(pass, group).enumerate() {
            let job = &jobs[number];
            let (workload, name) = (job.records.workload.name(), &job.launcher.name);
            eprintln!("{workload}, pass {pass} of {PASSES}: {name}");
            let named = |e| format!("{name}: {e}");
            match job.run(expected).map_err(named)? {
                Found::Open(opened) => turns.push(opened).map_err(named)?,
                Found::Done(figures) => engines[job.index].join(figures),
            }
            together.push(number);
            let more = turns.held() + job.memory() as f64;
            if i + 1 == group.len() || more > job.options.memory as f64 {
                let names = turns.names().join(", ");
                eprintln!("{workload}, pass {pass} of {PASSES}, in turns: {names}");
                let turns = std::mem::take(&mut turns);
                let measured = turns.measure(pass, job.options.effort, expected)?;
                measured.into_iter().for_each(|(index, found)| engines[index].join(found));
                found.push(std::mem::take(&mut together));
            }
        }
    }
    Ok(found)
}

/// What every engine must answer.
pub struct Expected {
    /// Fold of all records.
    sum: u64,
    /// Folds of timed gets by kind and number; the first engine sets them.
    folds: BTreeMap<(&'static str, usize), (u64, String)>,
}

impl Expected {
    /// Compares with the fold of all records.
    pub fn check_sum(&self, sum: u64) -> Result<()> {
        if sum != self.sum {
            return Err(format!(
                "all values together fold to {sum:016x}, the generator's to {:016x}",
                self.sum
            )
            .into());
        }
        Ok(())
    }

    /// Compares with what the engines before answered to as many keys of a kind.
    pub fn check_fold(&mut self, of: (&'static str, usize), fold: u64, name: &str) -> Result<()> {
        let (known, who) = self.folds.entry(of).or_insert_with(|| (fold, name.into()));
        if *known != fold {
            let (what, gets) = of;
            return Err(format!(
                "the values of {gets} {what} keys fold to {fold:016x}, those of {who} to \
                 {known:016x}"
            )
            .into());
        }
        Ok(())
    }
}

/// An engine to take through a workload.
struct Job<'a> {
    options: &'a Options,
    records: &'a Records,
    /// Bytes of all keys and values.
    bytes: u64,
    launcher: &'a Launcher,
    /// Which of all engines it is.
    index: usize,
    /// Where it builds.
    dir: PathBuf,
}

/// An engine that was built.
enum Found {
    /// It is open and warm, to be measured in turns with others.
    Open(Opened),
    /// It was only built, or was measured past the page cache.
    Done(Figures),
}

impl Job<'_> {
    fn run(&self, expected: &Expected) -> Result<Found> {
        let Job { options, records, launcher, index, ref dir, .. } = *self;
        let mut figures = self.build()?;
        if launcher.name.ends_with("-tenth") {
            fs::remove_dir_all(dir)?;
            return Ok(Found::Done(figures));
        }
        let mut engine = Getter(launcher.start()?);
        let (open, batches) = engine.open(records, dir)?;
        figures.add("open", open);
        if launcher.name.ends_with("-direct") {
            engine.check(SAMPLE / 20)?;
            cold::measure(options.effort, &mut engine, dir, &mut figures)?;
            fs::remove_dir_all(dir)?;
            return Ok(Found::Done(figures));
        }
        engine.check(SAMPLE)?;
        let (warm, sum) = engine.warm()?;
        expected.check_sum(sum)?;
        figures.add("warm", warm);
        // Before the lists of keys and times that the measurements hold.
        let (own, mapped) = engine.memory()?;
        figures.add("memory own", own);
        figures.add("memory mapped", mapped);
        let (name, dir) = (launcher.name.clone(), dir.clone());
        Ok(Found::Open(Opened { index, name, dir, engine, batches, figures }))
    }

    /// Bytes that it may hold while it builds, and while it is open: a file of the records, which
    /// some make twice as large, and the records or its budget.
    fn memory(&self) -> u64 {
        2 * self.bytes + self.bytes.min(BUDGET)
    }

    fn build(&self) -> Result<Figures> {
        fs::create_dir_all(&self.dir)?;
        let mut child = Getter(self.launcher.start()?);
        machine::fetch_memory(self.memory());
        let built = child.build(self.records, &self.dir)?;
        let found = [
            ("build wall", built.wall.as_nanos() as f64),
            ("build cpu", built.cpu.as_nanos() as f64),
            ("build peak", built.peak_memory as f64),
            ("disk", built.disk as f64),
        ];
        let mut figures = Figures::default();
        found.into_iter().for_each(|(name, value)| figures.add(name, value));
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pass_begins_with_another_engine() {
        for engines in 0..20 {
            let group: Vec<usize> = (100..100 + engines).collect();
            let orders: Vec<Vec<usize>> =
                (1..=PASSES).map(|pass| order(pass, &group).collect()).collect();
            for order in &orders {
                let mut all = order.clone();
                all.sort_unstable();
                assert_eq!(all, group, "{order:?}");
            }
            let mut first: Vec<_> = orders.iter().filter_map(|order| order.first()).collect();
            first.dedup();
            assert_eq!(first.len(), engines.min(PASSES));
        }
    }
}
