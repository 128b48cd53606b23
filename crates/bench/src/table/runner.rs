//! Runs a workload: each engine builds, opens, compares and warms up; then all open engines are
//! measured, interleaved.
//!
//! Figures have names: `build wall`, `build cpu`, `build peak`, `disk`, `open`, `warm`, `memory
//! own`, `memory mapped`; for `WHAT` present or absent `WHAT p50`, `p99`, `p999`, `max`; for 1 and
//! 2 threads `WHAT N cpu` and `WHAT N rate`, where `WHAT` may also be `handed` (only the first
//! bytes of a value are read), `batch`, `handed batch`, or `read batch` (all bytes are read, with a
//! hint to the store). An engine that reads past the page cache has others instead of the warm
//! ones: with 1 and 32 reads at a time `cold N rate`, `cpu` and `read` (bytes per get), and of the
//! disk itself `fio N rate`, `p50` and `p99`; `cold p50`, `p99` and `p999` of gets alone.

use super::cold;
use super::interleaved::{Effort, OpenEngines, Opened};
use super::jobs::Getter;
use super::report::{Figures, Report, Section, records};
use crate::child::Launcher;
use crate::machine;
use firndb_bench_protocol::Result;
use firndb_bench_protocol::table::{Records, Workload};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Parameters of a run.
pub struct Options {
    /// Directory of builds and of kept figures.
    pub dir: PathBuf,
    /// The workloads to run.
    pub workloads: Vec<Workload>,
    /// Records of the workload `small`; the others have fewer in proportion.
    pub records: u64,
    /// Number and duration of the measurements of each kind of get.
    pub effort: Effort,
    /// Memory for engines that are open at the same time, in bytes.
    pub memory: u64,
    /// Reuse the figures of an earlier run of a workload with the same engines, versions and
    /// parameters.
    pub reuse: bool,
    /// The engines.
    pub engines: Vec<Launcher>,
}

/// Number of times all engines are built and measured: the page layout of a file differs from build
/// to build.
const PASSES: usize = 3;
/// Maximum memory of a build besides the records: FirnDB's budget and a margin.
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

/// Compressing engines take part only where values compress.
fn takes_part(name: &str, workload: Workload) -> bool {
    workload == Workload::Json || !name.contains("-zstd")
}

fn run_workload(options: &Options, records: Records) -> Result<Section> {
    let dir = options.dir.join(format!("table-{}-{}", records.workload.name(), records.count));
    fs::create_dir_all(&dir)?;
    // A killed run leaves gigabytes.
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
    // Engines shown in one table were measured at the same time.
    if options.reuse
        && let Some(engines) = kept(&path, options, &engines)
    {
        return Ok(Section { records, bytes, making, engines });
    }
    let mut expected = Expected { sum, folds: BTreeMap::new() };
    // The groups of engines, chosen in the first pass and the same in all passes.
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

/// How the figures of a run are measured. Figures measured differently are not reused.
fn method(options: &Options) -> String {
    let (Effort { rounds, millis }, longer, more) = (options.effort, cold::LONGER, cold::MORE);
    format!(
        "{PASSES} passes of {rounds} measurements of {millis} ms; from the disk {longer} times \
         longer, many reads at a time {more} times as many"
    )
}

fn keep(path: &Path, options: &Options, engines: &[Figures]) -> Result<()> {
    let engines: Vec<Value> = engines.iter().map(Figures::json).collect();
    let kept = json!({ "method": method(options), "engines": engines });
    Ok(fs::write(path, format!("{kept:#}\n"))?)
}

/// The figures that an earlier run with the same engines kept.
fn kept(path: &Path, options: &Options, engines: &[Figures]) -> Option<Vec<Figures>> {
    let kept: Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    let found: Option<Vec<Figures>> =
        kept["engines"].as_array()?.iter().map(Figures::from_json).collect();
    let identity = |figures: &Figures| (figures.name.clone(), figures.version.clone());
    found.filter(|found| {
        kept["method"] == method(options)
            && found.iter().map(identity).eq(engines.iter().map(identity))
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

/// The order of a group of engines in a pass. Each pass starts with another one: the first build
/// finds memory and disk in a different state.
fn order(pass: usize, group: &[usize]) -> impl Iterator<Item = usize> {
    let (end, begin) = group.split_at((pass - 1) * group.len() / PASSES);
    begin.iter().chain(end).copied()
}

/// Builds and measures all engines once, group by group, and adds the measurements to the known
/// ones. Returns the groups, split where one did not fit into memory.
fn run_pass(
    pass: usize,
    jobs: &[Job],
    groups: &[Vec<usize>],
    expected: &mut Expected,
    engines: &mut [Figures],
) -> Result<Vec<Vec<usize>>> {
    let mut found = Vec::new();
    for group in groups {
        let (mut open, mut together) = (OpenEngines::default(), Vec::new());
        for (i, number) in order(pass, group).enumerate() {
            let job = &jobs[number];
            let (workload, name) = (job.records.workload.name(), &job.launcher.name);
            eprintln!("{workload}, pass {pass} of {PASSES}: {name}");
            let named = |e| format!("{name}: {e}");
            match job.run(expected).map_err(named)? {
                Found::Open(opened) => open.push(opened).map_err(named)?,
                Found::Done(figures) => engines[job.index].join(figures),
            }
            together.push(number);
            let more = open.held() + job.memory() as f64;
            if i + 1 == group.len() || more > job.options.memory as f64 {
                let names = open.names().join(", ");
                eprintln!("{workload}, pass {pass} of {PASSES}, interleaved: {names}");
                let open = std::mem::take(&mut open);
                let measured = open.measure(pass, job.options.effort, expected)?;
                measured.into_iter().for_each(|(index, found)| engines[index].join(found));
                found.push(std::mem::take(&mut together));
            }
        }
    }
    Ok(found)
}

/// The answers that every engine must give.
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

    /// Compares with the answers of earlier engines to the same number of keys of a kind.
    pub fn check_fold(&mut self, of: (&'static str, usize), fold: u64, name: &str) -> Result<()> {
        let (known, first) = self.folds.entry(of).or_insert_with(|| (fold, name.into()));
        if *known != fold {
            let (what, gets) = of;
            return Err(format!(
                "the values of {gets} {what} keys fold to {fold:016x}, those of {first} to \
                 {known:016x}"
            )
            .into());
        }
        Ok(())
    }
}

/// An engine to run through a workload.
struct Job<'a> {
    options: &'a Options,
    records: &'a Records,
    /// Bytes of all keys and values.
    bytes: u64,
    launcher: &'a Launcher,
    /// Index of the engine in the list of engines.
    index: usize,
    /// Directory of its build.
    dir: PathBuf,
}

/// An engine that was built.
enum Found {
    /// Open and warm, to be measured interleaved with others.
    Open(Opened),
    /// Only built, or measured past the page cache.
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
        // Before the measurements allocate lists of keys and times.
        let (own, mapped) = engine.memory()?;
        figures.add("memory own", own);
        figures.add("memory mapped", mapped);
        let (name, dir) = (launcher.name.clone(), dir.clone());
        Ok(Found::Open(Opened { index, name, dir, engine, batches, figures }))
    }

    /// Upper bound of its memory during the build and while it is open: a file of the records,
    /// which some engines make twice as large, and the records or its budget.
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
