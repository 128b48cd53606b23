//! Runs a workload: each engine fills and compares; then gets of all engines are measured,
//! interleaved, because the machine's speed varies over minutes; then each engine updates, compares
//! and reopens. The growing workload, which alternates gets and puts, runs one engine after
//! another.
//!
//! Figures have names. For `WHAT` fill, update, `both get`, `both put`, quiet, present or absent:
//! `WHAT rate` (operations per second), `cpu`, `p50`, `p99`, `p999`, `max`; `present 2 rate` and
//! `cpu` are of two threads; `quiet` are gets right before `both`. For fill and update `WHAT disk`,
//! `WHAT memory`, `WHAT dirty` (bytes per operation), `WHAT written` (bytes so far, as counted by
//! the engine); `steady` is updated again after `update`; `open` and `close`. Of the growing
//! workload: `grow get`, `grow put` (its `cpu` is of both). Of FirnDB, by number of threads:
//! `cold N rate`, `cold N read` (bytes per get), `fio N rate`.

use super::{GROWING_ONLY, cold};
use crate::child::{Child, Launcher, text};
use crate::table::report::Figures;
use crate::units::is_ours;
use firndb_bench_protocol::Result;
use firndb_bench_protocol::log::{Records, Workload};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum number of updates of each record of the growing workload.
const GROWTHS: u64 = 9;

/// Pause between writes and timed operations.
const REST: Duration = Duration::from_secs(1);

/// Rounds of gets from the disk.
const COLD_ROUNDS: usize = 7;

/// Parameters of a run.
pub struct Options {
    /// Directory for the stores of engines and the kept figures.
    pub dir: PathBuf,
    /// The workloads to run.
    pub workloads: Vec<Workload>,
    /// Records of the workload `small`; the others have a fraction of it.
    pub records: u64,
    /// Measurements of each kind of get; the median counts.
    pub rounds: usize,
    /// Milliseconds of each measurement.
    pub millis: u64,
    /// Maximum milliseconds of filling, and of updating.
    pub write_millis: u64,
    /// Reuse the figures of earlier runs of the same version.
    pub reuse: bool,
    /// The engines.
    pub engines: Vec<Launcher>,
}

/// A workload with the figures of all engines.
pub struct Section {
    /// The records.
    pub records: Records,
    /// The engines, in the order they were given.
    pub engines: Vec<Figures>,
}

/// Runs all workloads.
pub fn run(options: &Options) -> Result<Vec<Section>> {
    let small = options.records;
    let workloads = options.workloads.iter().map(|&workload| {
        let count = small * workload.records() / Workload::Small.records();
        let records = Records { workload, count: count.max(1000) };
        run_workload(options, records)
            .map_err(|e| format!("workload {}: {e}", workload.name()).into())
    });
    workloads.collect()
}

/// As JSON; times are nanoseconds.
pub fn json(sections: &[Section]) -> Value {
    let section = |section: &Section| {
        let engines: Vec<Value> = section.engines.iter().map(Figures::json).collect();
        let (workload, records) = (section.records.workload.name(), section.records.count);
        json!({ "workload": workload, "records": records, "engines": engines })
    };
    sections.iter().map(section).collect()
}

fn run_workload(options: &Options, records: Records) -> Result<Section> {
    let name = records.workload.name();
    let dir = options.dir.join(format!("log-{name}-{}", records.count));
    fs::create_dir_all(&dir)?;
    let (sum, mut engines, mut runs) = (records.total(), Vec::new(), Vec::new());
    let takes_part = |launcher: &&Launcher| {
        records.workload == Workload::Growing || !GROWING_ONLY.contains(&launcher.name.as_str())
    };
    for launcher in options.engines.iter().filter(takes_part) {
        let version = launcher.start()?.hello()?;
        let known = Figures::read(&dir.join(format!("{}.json", launcher.name)), &version);
        let known = known.filter(|_| options.reuse);
        if known.is_none() {
            let run = Run::start(options, records, launcher, version, dir.join(&launcher.name))?;
            runs.push((engines.len(), run));
        }
        engines.push(known.unwrap_or_default());
    }
    // FirnDB last, so that leftover background work of the others disturbs only FirnDB.
    for (_, run) in runs.iter_mut().rev() {
        run.tried("fills", |run| run.fill(sum))?;
    }
    if records.workload != Workload::Growing {
        settle();
        for round in 0..options.rounds.max(1) {
            // Alternate the direction, so that no engine always follows the same one.
            for turn in 0..runs.len() {
                let turn = if round % 2 == 0 { turn } else { runs.len() - 1 - turn };
                runs[turn].1.tried("gets", |run| {
                    ["present", "absent"].into_iter().try_for_each(|what| run.gets(what))
                })?;
            }
        }
    }
    for (number, mut run) in runs {
        run.tried("updates", Run::change)?;
        engines[number] = run.end(&dir)?;
    }
    Ok(Section { records, engines })
}

/// Waits for writeback and for background work of engines, so that neither overlaps with the next
/// timed operations.
fn settle() {
    rustix::fs::sync();
    std::thread::sleep(REST);
}

/// A directory that is removed when this is dropped.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        if let Err(e) = fs::remove_dir_all(&self.0) {
            eprintln!("{} is left: {e}", self.0.display());
        }
    }
}

/// An engine running a workload.
struct Run<'a> {
    options: &'a Options,
    records: Records,
    name: String,
    version: String,
    child: Child,
    /// Directory of its store, until the engine has ended.
    place: Place,
    /// Measurements by figure, one per round.
    found: BTreeMap<String, Vec<f64>>,
}

impl<'a> Run<'a> {
    fn start(
        options: &'a Options,
        records: Records,
        launcher: &Launcher,
        version: String,
        place: PathBuf,
    ) -> Result<Run<'a>> {
        if place.exists() {
            fs::remove_dir_all(&place)?;
        }
        fs::create_dir_all(&place)?;
        let (child, name) = (launcher.start()?, launcher.name.clone());
        let (place, found) = (Place(place), BTreeMap::new());
        Ok(Run { options, records, name, version, child, place, found })
    }

    /// Runs a part; progress messages and errors name the engine.
    fn tried(&mut self, part: &str, what: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        eprintln!("{}: {} {part}", self.records.workload.name(), self.name);
        what(self).map_err(|e| format!("{}: {e}", self.name).into())
    }

    fn fill(&mut self, sum: u64) -> Result<()> {
        settle();
        let write = self.options.write_millis.to_string();
        let count = self.records.count.to_string();
        let workload = self.records.workload.name();
        self.child.request(&["create", workload, &count, &text(&self.place.0)], "created", 0)?;
        self.written("fill", &["fill", &write], "filled")?;
        self.size("fill")?;
        let checked = self.child.request(&["check"], "checked", 1)?;
        if self.child.number::<u64>(&checked[0])? != sum {
            return Err("the values are not those of the generator".into());
        }
        Ok(())
    }

    /// All parts that change the store.
    fn change(&mut self) -> Result<()> {
        settle();
        let write = self.options.write_millis.to_string();
        if self.records.workload == Workload::Growing {
            self.grow(&write)?;
            return self.reopen();
        }
        let count = self.records.count.to_string();
        // Compaction reaches its steady state only after enough data is stale.
        for what in ["update", "steady"] {
            self.written(what, &["update", &count, &write], "updated")?;
            self.size(what)?;
        }
        let millis = self.options.millis.to_string();
        for _ in 0..self.options.rounds.max(1) {
            settle();
            let quiet = self.number(&["latency", "present", &millis], "latency", 6)?;
            self.timed("quiet", &quiet);
            let both = self.number(&["both", &millis], "both", 12)?;
            self.timed("both get", &both[..6]);
            self.timed("both put", &both[6..]);
        }
        self.reopen()?;
        if is_ours(&self.name) { self.cold() } else { Ok(()) }
    }

    /// Ends the engine. Keeps the median of each figure over the rounds; of maxima the largest.
    fn end(self, dir: &Path) -> Result<Figures> {
        let mut figures = Figures { name: self.name, version: self.version, ..Figures::default() };
        for (what, mut rounds) in self.found {
            rounds.sort_by(f64::total_cmp);
            let place = if what.ends_with(" max") { rounds.len() - 1 } else { rounds.len() / 2 };
            figures.add(what, rounds[place]);
        }
        figures.write(&dir.join(format!("{}.json", figures.name)))?;
        Ok(figures)
    }

    fn found(&mut self, what: impl Into<String>, value: f64) {
        self.found.entry(what.into()).or_default().push(value);
    }

    /// Gets that each read from the disk, alternating with `fio`.
    fn cold(&mut self) -> Result<()> {
        let millis = self.options.millis;
        for threads in cold::THREADS {
            for _ in 0..COLD_ROUNDS {
                match cold::disk(&self.place.0, threads, millis) {
                    Ok(rate) => self.found(format!("fio {threads} rate"), rate),
                    Err(error) => eprintln!("there are no figures of the disk itself: {error}"),
                }
                self.child.request(&["reopen cold"], "reopened", 2)?;
                let job = ["run", "present", &threads.to_string(), &millis.to_string()];
                let ran = self.number(&job, "ran", 4)?;
                self.found(format!("cold {threads} rate"), ran[0] / ran[1] * 1e9);
                self.found(format!("cold {threads} read"), ran[3] / ran[0]);
            }
        }
        Ok(())
    }

    /// Nine updates of each record, each a get and a put with a few bytes appended.
    fn grow(&mut self, write: &str) -> Result<()> {
        let most = (GROWTHS * self.records.count).to_string();
        let answer = self.number(&["grow", &most, write], "grown", 14)?;
        self.timed("grow get", &answer[..6]);
        self.timed("grow put", &answer[6..]);
        self.found("grow put cpu", answer[12] / answer[6]);
        self.found("update count", answer[6]);
        self.found("update dirty", answer[13] / answer[6]);
        self.size("update")
    }

    /// Compares, closes and reopens; the last update must be present afterwards.
    fn reopen(&mut self) -> Result<()> {
        self.child.request(&["check"], "checked", 1)?;
        let took = self.number(&["reopen"], "reopened", 2)?;
        self.found("close", took[0]);
        self.found("open", took[1]);
        self.child.request(&["check"], "checked", 1)?;
        Ok(())
    }

    fn number(&mut self, job: &[&str], head: &str, count: usize) -> Result<Vec<f64>> {
        let answer = self.child.request(job, head, count)?;
        answer.iter().map(|field| self.child.number(field)).collect()
    }

    /// Puts that were timed individually.
    fn written(&mut self, what: &str, job: &[&str], head: &str) -> Result<()> {
        let answer = self.number(job, head, 8)?;
        self.timed(what, &answer);
        self.found(format!("{what} cpu"), answer[6] / answer[0]);
        self.found(format!("{what} dirty"), answer[7] / answer[0]);
        Ok(())
    }

    /// Number, sum and quantiles of times.
    fn timed(&mut self, what: &str, answer: &[f64]) {
        self.found(format!("{what} rate"), answer[0] / answer[1] * 1e9);
        self.found(format!("{what} count"), answer[0]);
        self.quantiles(what, answer);
    }

    fn quantiles(&mut self, what: &str, answer: &[f64]) {
        for (name, nanos) in ["p50", "p99", "p999", "max"].iter().zip(&answer[2..]) {
            self.found(format!("{what} {name}"), *nanos);
        }
    }

    fn size(&mut self, what: &str) -> Result<()> {
        let answer = self.child.request(&["size"], "size", 3)?;
        let disk = self.child.number(&answer[0])?;
        let memory = self.child.number(&answer[1])?;
        self.found(format!("{what} disk"), disk);
        self.found(format!("{what} memory"), memory);
        if answer[2] != "-" {
            let bytes = self.child.number(&answer[2])?;
            self.found(format!("{what} written"), bytes);
        }
        Ok(())
    }

    fn gets(&mut self, what: &str) -> Result<()> {
        let millis = self.options.millis.to_string();
        let answer = self.number(&["latency", what, &millis], "latency", 6)?;
        self.quantiles(what, &answer);
        for threads in ["1", "2"] {
            let ran = self.number(&["run", what, threads, &millis], "ran", 4)?;
            let name = if threads == "1" { what.to_string() } else { format!("{what} 2") };
            self.found(format!("{name} rate"), ran[0] / ran[1] * 1e9);
            self.found(format!("{name} cpu"), ran[2] / ran[0]);
        }
        Ok(())
    }
}
