//! Interleaves the engines and compares their answers before any time is reported.

use super::brute::Brute;
use super::jobs::{Opened, Ran, Searcher};
use super::least;
use super::report::{EngineReport, Figures, Report};
use super::workload::Dataset;
use crate::child::{Built, Launcher};
use crate::units::is_peer;
use firndb_bench_protocol::Result;
use firndb_bench_protocol::search::{Kind, Query, Workload, read_queries};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Parameters of a run.
pub struct Options {
    /// Directory of data sets and of what engines build from them.
    pub dir: PathBuf,
    /// Rows of each data set.
    pub size: u64,
    /// Queries of each kind.
    pub per_kind: usize,
    /// Timings of each kind per engine.
    pub rounds: usize,
    /// Time for one engine, kind and round. Slow engines answer a prefix of the queries.
    pub budget: Duration,
    /// Queries of each kind that are also answered by brute force.
    pub brute: usize,
    /// Reuse what FirnDB built in an earlier run. What peers built is always reused, unless they
    /// changed.
    pub reuse: bool,
    /// The engines.
    pub engines: Vec<Launcher>,
}

/// Number of timed opens of FirnDB and of peers. The floor opens once: it reads all the data.
const OPENS: usize = 15;

/// Runs all workloads.
pub fn run(options: &Options) -> Result<Report> {
    let mut report = Report::new(options);
    for workload in Workload::ALL {
        run_workload(options, workload, &mut report)
            .map_err(|e| format!("workload {}: {e}", workload.name()))?;
    }
    Ok(report)
}

fn run_workload(options: &Options, workload: Workload, report: &mut Report) -> Result<()> {
    let dataset = Dataset::prepare(&options.dir, workload, options.size, options.per_kind)?;
    let mut children = Vec::new();
    for launcher in &options.engines {
        let (child, engine) = start(options, &dataset, launcher)?;
        children.push(child);
        report.engines.push(engine);
    }
    let queries = dataset.queries(options.per_kind);
    let brute = Brute::read(workload, &dataset.data())?;
    if let Brute::Cars(cars) = &brute {
        report.payload_bytes = cars.payloads.len() as u64;
        report.least_bytes = least::bytes(&dataset.data())?;
    }
    let mut answers = Answers::by_brute_force(&brute, workload, &queries, options.brute)?;
    drop(brute);
    let bar = bar(options.rounds * workload.kinds().len() * children.len());
    for round in 0..options.rounds {
        for &kind in workload.kinds() {
            // Every round starts with another engine, so that none always follows the same one.
            for turn in 0..children.len() {
                let engine = (round + turn) % children.len();
                let name = &options.engines[engine].name;
                bar.set_message(format!(
                    "round {} of {}: {kind} {name}",
                    round + 1,
                    options.rounds
                ));
                let ran = children[engine].run(kind, &queries, options.budget)?;
                answers.check(kind, name, &ran)?;
                report.figures.entry((kind, name.clone())).or_default().add(&ran);
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    // Last, because they may change what is on disk.
    for (child, launcher) in children.iter_mut().zip(&options.engines) {
        let extras = child.extras(workload, &dataset.data(), &place(&dataset, launcher))?;
        let mine = |engine: &&mut EngineReport| {
            engine.workload == workload && engine.name == launcher.name
        };
        report.engines.iter_mut().find(mine).into_iter().for_each(|e| e.extras = extras.clone());
    }
    Ok(())
}

/// The directory of an engine's form of a data set.
fn place(dataset: &Dataset, launcher: &Launcher) -> PathBuf {
    dataset.dir.join(&launcher.name)
}

/// Builds and opens an engine, each in a separate process, so that their memory can be measured
/// separately.
fn start(
    options: &Options,
    dataset: &Dataset,
    launcher: &Launcher,
) -> Result<(Searcher, EngineReport)> {
    let version = launcher.start()?.hello()?;
    let dir = place(dataset, launcher);
    let built = build(options, dataset, launcher, &version, &dir)?;
    let mut child = Searcher(launcher.start()?);
    let times = if launcher.name == "floor" { 1 } else { OPENS };
    let opened = child.open(dataset.workload, &dir, times)?;
    let Opened { time: open_time, memory: open_memory } = opened;
    let report = EngineReport {
        name: launcher.name.clone(),
        version,
        workload: dataset.workload,
        built,
        open_time,
        open_memory,
        extras: Vec::new(),
    };
    Ok((child, report))
}

/// Builds the data set, or returns the figures of an earlier build of the same version.
fn build(
    options: &Options,
    dataset: &Dataset,
    launcher: &Launcher,
    version: &str,
    dir: &Path,
) -> Result<Built> {
    let stamp = dir.with_extension("built");
    let known = fs::read_to_string(&stamp).ok().and_then(|text| read_stamp(&text, version));
    let is_right = || match is_peer(&launcher.name) {
        true => fs::metadata(&stamp)?.modified().map(|built| built > launcher.changed()),
        false => Ok(options.reuse),
    };
    if let Some(built) = known
        && is_right()?
    {
        return Ok(built);
    }
    let bar = bar(0);
    bar.set_message(format!("{}: {} is building", dataset.workload.name(), launcher.name));
    bar.enable_steady_tick(Duration::from_millis(200));
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    fs::create_dir_all(dir)?;
    let built = Searcher(launcher.start()?).build(dataset.workload, &dataset.data(), dir)?;
    let Built { wall, cpu, peak_memory, disk } = built;
    let (wall, cpu) = (wall.as_nanos(), cpu.as_nanos());
    fs::write(&stamp, format!("{wall}\t{cpu}\t{peak_memory}\t{disk}\t{version}"))?;
    bar.finish_and_clear();
    Ok(built)
}

fn read_stamp(text: &str, version: &str) -> Option<Built> {
    let fields: Vec<&str> = text.splitn(5, '\t').collect();
    let [wall, cpu, peak_memory, disk, of] = fields[..] else { return None };
    (of == version).then_some(())?;
    Some(Built {
        wall: Duration::from_nanos(wall.parse().ok()?),
        cpu: Duration::from_nanos(cpu.parse().ok()?),
        peak_memory: peak_memory.parse().ok()?,
        disk: disk.parse().ok()?,
    })
}

/// A progress bar over `steps`; without steps only its message.
fn bar(steps: usize) -> ProgressBar {
    let template = if steps > 0 { "[{bar:30}] {pos}/{len} {msg}" } else { "{spinner} {msg}" };
    let style = ProgressStyle::with_template(template).unwrap_or(ProgressStyle::default_bar());
    ProgressBar::new(steps as u64).with_style(style)
}

/// The answers that all engines must give.
struct Answers {
    queries: BTreeMap<Kind, Vec<Query>>,
    /// Count, checksum, and the engine that first gave them.
    known: BTreeMap<(Kind, usize), (u64, u64, String)>,
}

impl Answers {
    fn by_brute_force(
        brute: &Brute,
        workload: Workload,
        queries: &Path,
        count: usize,
    ) -> Result<Answers> {
        let mut answers = Answers { queries: BTreeMap::new(), known: BTreeMap::new() };
        for &kind in workload.kinds() {
            let list = read_queries(queries, kind)?;
            for (i, query) in list.iter().enumerate().take(count) {
                let answer = brute.answer(query)?;
                let checksum = answer.checksum(kind.limit());
                answers.known.insert((kind, i), (answer.count, checksum, "brute force".into()));
            }
            answers.queries.insert(kind, list);
        }
        Ok(answers)
    }

    /// For a query without a brute-force answer, the first engine's answer is the expected one.
    fn check(&mut self, kind: Kind, engine: &str, ran: &Ran) -> Result<()> {
        for (i, answer) in ran.answers.iter().enumerate() {
            let mine = (answer.count, answer.checksum, engine.to_string());
            let known = self.known.entry((kind, i)).or_insert_with(|| mine.clone());
            if (known.0, known.1) != (mine.0, mine.1) {
                return Err(format!(
                    "answers disagree on query {i} of kind {kind}, `{}`: {} says {} (checksum \
                     {:016x}), {engine} says {} (checksum {:016x})",
                    self.queries[&kind][i], known.2, known.0, known.1, mine.0, mine.1
                )
                .into());
            }
        }
        Ok(())
    }
}

impl Figures {
    fn add(&mut self, ran: &Ran) {
        self.nanos.extend(ran.answers.iter().map(|answer| answer.nanos));
        self.queries = self.queries.max(ran.answers.len());
        self.allocations = ran.allocations;
    }
}
