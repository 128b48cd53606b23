//! Takes one engine after the other through a workload: build, open, compare, warm, measure.
//!
//! Figures have names: `build wall`, `build cpu`, `build peak`, `disk`, `open`, `warm`, `memory
//! own`, `memory mapped`; for `WHAT` present or absent `WHAT p50`, `p99`, `p999`, `max`; for 1 and
//! 2 threads `WHAT N cpu` and `WHAT N rate`, where `WHAT` may also be `handed` (the first bytes of
//! a value are read, not all), `batch`, `handed batch`, or `read batch` (all is read, and the store
//! is told so). An engine that reads past the page cache has `cold` figures instead of the warm
//! ones.

use super::cold;
use super::jobs::{Getter, Rate};
use super::report::{Figures, Report, Section, records};
use crate::child::Launcher;
use firndb_bench_protocol::Result;
use firndb_bench_protocol::table::{Records, Workload};
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
    /// How often each kind of get is measured; the best counts.
    pub rounds: usize,
    /// Milliseconds of each.
    pub millis: u64,
    /// Milliseconds of each measurement past the page cache.
    pub cold_millis: u64,
    /// Use the figures that earlier runs kept, where the version is the same.
    pub reuse: bool,
    /// The engines.
    pub engines: Vec<Launcher>,
}

/// Keys of one call of a batch, and reads under way at the same time on the disk.
const BATCH: usize = 64;
const DEPTH: usize = 32;
/// Keys of one call of a batch on the disk: the queue stays full but at the end.
const COLD_BATCH: usize = 16 * DEPTH;
/// How often all engines are built and measured, one after the other: what else a machine does,
/// which may take minutes, then hits an engine twice only by chance.
const PASSES: usize = 2;
/// Gets that are timed one by one, at most.
const TIMED: usize = 1_000_000;
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
    let start = Instant::now();
    let (bytes, sum) = records.total();
    let making = start.elapsed();
    let mut expected = Expected { sum, folds: BTreeMap::new() };
    let (mut engines, mut measured) = (Vec::new(), Vec::new());
    for launcher in options.engines.iter().filter(|e| takes_part(&e.name, records.workload)) {
        let version = launcher.start()?.hello()?;
        let kept = Figures::read(&dir.join(format!("{}.json", launcher.name)), &version);
        let kept = kept.filter(|_| options.reuse);
        if kept.is_none() {
            measured.push((engines.len(), launcher));
        }
        let new = || Figures { name: launcher.name.clone(), version, ..Figures::default() };
        engines.push(kept.unwrap_or_else(new));
    }
    for pass in 1..=PASSES {
        for &(number, launcher) in &measured {
            eprintln!("{}, pass {pass} of {PASSES}: {}", records.workload.name(), launcher.name);
            let place = dir.join(&launcher.name);
            // A machine that has just given memory away builds slower.
            if pass == 1 {
                build(&records, launcher, &place, &mut Figures::default())?;
            }
            let figures = run_engine(options, &records, launcher, &place, &mut expected);
            engines[number].join(figures.map_err(|e| format!("{}: {e}", launcher.name))?);
            fs::remove_dir_all(&place)?;
            if pass == PASSES {
                engines[number].write(&dir.join(format!("{}.json", launcher.name)))?;
            }
        }
    }
    Ok(Section { records, bytes, making, engines })
}

/// What every engine must answer.
struct Expected {
    /// Fold of all records.
    sum: u64,
    /// Folds of timed gets by kind and number; the first engine sets them.
    folds: BTreeMap<(&'static str, usize), (u64, String)>,
}

impl Expected {
    fn check_sum(&self, sum: u64) -> Result<()> {
        if sum != self.sum {
            return Err(format!(
                "all values together fold to {sum:016x}, the generator's to {:016x}",
                self.sum
            )
            .into());
        }
        Ok(())
    }

    fn check_fold(&mut self, of: (&'static str, usize), fold: u64, name: &str) -> Result<()> {
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

fn run_engine(
    options: &Options,
    records: &Records,
    launcher: &Launcher,
    place: &Path,
    expected: &mut Expected,
) -> Result<Figures> {
    let mut figures = Figures::default();
    build(records, launcher, place, &mut figures)?;
    if launcher.name.ends_with("-tenth") {
        return Ok(figures);
    }
    let mut engine = Getter(launcher.start()?);
    let (open, batches) = engine.open(records, place)?;
    figures.set("open", open);
    if launcher.name.ends_with("-direct") {
        engine.check(SAMPLE / 20)?;
        measure_cold(options.cold_millis, &mut engine, place, &mut figures)?;
        return Ok(figures);
    }
    engine.check(SAMPLE)?;
    let (warm, sum) = engine.warm()?;
    expected.check_sum(sum)?;
    figures.set("warm", warm);
    // Before the lists of keys and times that the measurements hold.
    let (own, mapped) = engine.memory()?;
    figures.set("memory own", own);
    figures.set("memory mapped", mapped);
    for what in ["present", "absent"] {
        let latency = engine.latency(what, TIMED, 4 * options.millis)?;
        expected.check_fold((what, latency.gets), latency.fold, &launcher.name)?;
        for (name, nanos) in ["p50", "p99", "p999", "max"].iter().zip(latency.nanos) {
            figures.set(format!("{what} {name}"), nanos);
        }
    }
    measure_warm(options, &mut engine, batches, &mut figures)?;
    Ok(figures)
}

fn build(
    records: &Records,
    launcher: &Launcher,
    place: &Path,
    figures: &mut Figures,
) -> Result<()> {
    if place.exists() {
        fs::remove_dir_all(place)?;
    }
    fs::create_dir_all(place)?;
    let built = Getter(launcher.start()?).build(records, place)?;
    let found = [
        ("build wall", built.wall.as_nanos() as f64),
        ("build cpu", built.cpu.as_nanos() as f64),
        ("build peak", built.peak_memory as f64),
        ("disk", built.disk as f64),
    ];
    found.into_iter().for_each(|(name, value)| figures.set(name, value));
    Ok(())
}

fn measure_warm(
    options: &Options,
    engine: &mut Getter,
    batches: bool,
    figures: &mut Figures,
) -> Result<()> {
    let kinds = [
        ("present", "present", 1),
        ("handed", "handed", 1),
        ("absent", "absent", 1),
        ("batch", "present", BATCH),
        ("read batch", "read", BATCH),
        ("handed batch", "handed", BATCH),
    ];
    let mut rates: BTreeMap<String, Vec<Rate>> = BTreeMap::new();
    for _ in 0..options.rounds.max(1) {
        for (name, what, batch) in kinds.iter().filter(|kind| batches || kind.2 == 1) {
            // Batches are shown of one thread.
            let most = if *batch == 1 { 2 } else { 1 };
            for threads in 1..=most {
                let rate = engine.run(what, *batch, threads, options.millis)?;
                rates.entry(format!("{name} {threads}")).or_default().push(rate);
            }
        }
    }
    for (name, rates) in rates {
        // What disturbs a round only ever makes it slower.
        let least = rates.iter().map(|rate| rate.cpu).fold(f64::INFINITY, f64::min);
        let most = rates.iter().map(|rate| rate.per_second).fold(0.0, f64::max);
        figures.set(format!("{name} cpu"), least);
        figures.set(format!("{name} rate"), most);
    }
    Ok(())
}

/// The disk is asked right before and after the engine: it is not the same from minute to minute.
fn measure_cold(
    millis: u64,
    engine: &mut Getter,
    place: &Path,
    figures: &mut Figures,
) -> Result<()> {
    for depth in [1, DEPTH] {
        match cold::measure(place, depth, millis) {
            Ok(disk) => {
                figures.set(format!("fio {depth} rate"), disk.per_second);
                figures.set(format!("fio {depth} p50"), disk.nanos[0]);
                figures.set(format!("fio {depth} p99"), disk.nanos[1]);
            }
            Err(error) => eprintln!("there are no figures of the disk itself: {error}"),
        }
        let batch = if depth == 1 { 1 } else { COLD_BATCH };
        let rate = engine.run("present", batch, 1, millis)?;
        figures.set(format!("cold {depth} rate"), rate.per_second);
        figures.set(format!("cold {depth} cpu"), rate.cpu);
        figures.set(format!("cold {depth} read"), rate.read);
    }
    let latency = engine.latency("present", TIMED, millis)?;
    for (name, nanos) in ["p50", "p99", "p999"].iter().zip(latency.nanos) {
        figures.set(format!("cold {name}"), nanos);
    }
    Ok(())
}
