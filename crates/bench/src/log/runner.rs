//! Takes one engine after the other through a workload: fill, compare, measure, compare, reopen.
//!
//! Figures have names. For `WHAT` fill, update, `both get`, `both put`, present or absent: `WHAT
//! rate` (operations a second), `cpu`, `p50`, `p99`, `p999`, `max`; `present 2 rate` and `cpu` are
//! of two threads. For fill and update `WHAT disk`, `WHAT memory`, `WHAT dirty` (bytes an
//! operation), `told` (bytes written so far, as the engine tells); `steady` is updated again after
//! `update`; `open` and `close`. Of the growing workload: `grow get`, `grow put` (its `cpu` is of
//! both). Of FirnDB: for so many threads `cold N rate`, `cold N read` (bytes a get), `fio N rate`.

use super::{GROWING_ONLY, cold};
use crate::child::{Child, Launcher, text};
use crate::table::report::Figures;
use crate::units::is_ours;
use firndb_bench_protocol::Result;
use firndb_bench_protocol::log::{Records, Workload};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Updates of each record of the growing workload, at most.
const GROWTHS: u64 = 9;

/// Turns of gets from the disk.
const COLD_TURNS: usize = 7;

/// What to run.
pub struct Options {
    /// Where engines put their stores, and where figures are kept.
    pub dir: PathBuf,
    /// Which workloads.
    pub workloads: Vec<Workload>,
    /// Records of the workload `small`; the others have a share of it.
    pub records: u64,
    /// How often each kind of get is measured; the best counts.
    pub rounds: usize,
    /// Milliseconds of each.
    pub millis: u64,
    /// Milliseconds of filling and of updating, at most.
    pub write_millis: u64,
    /// Use the figures that earlier runs kept, where the version is the same.
    pub reuse: bool,
    /// The engines.
    pub engines: Vec<Launcher>,
}

/// A workload with all engines.
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
    let sum = records.total();
    let mut engines = Vec::new();
    let takes_part = |launcher: &&Launcher| {
        records.workload == Workload::Growing || !GROWING_ONLY.contains(&launcher.name.as_str())
    };
    for launcher in options.engines.iter().filter(takes_part) {
        let version = launcher.start()?.hello()?;
        let kept = dir.join(format!("{}.json", launcher.name));
        if let Some(figures) = Figures::read(&kept, &version).filter(|_| options.reuse) {
            engines.push(figures);
            continue;
        }
        eprintln!("{name}: {}", launcher.name);
        let place = dir.join(&launcher.name);
        if place.exists() {
            fs::remove_dir_all(&place)?;
        }
        fs::create_dir_all(&place)?;
        let mut run =
            Run { options, records, child: launcher.start()?, figures: Figures::default() };
        run.figures.name = launcher.name.clone();
        run.all(&place, sum).map_err(|e| format!("{}: {e}", launcher.name))?;
        let mut figures = run.figures;
        (figures.name, figures.version) = (launcher.name.clone(), version);
        figures.write(&kept)?;
        engines.push(figures);
        fs::remove_dir_all(&place)?;
    }
    Ok(Section { records, engines })
}

/// One engine with one workload.
struct Run<'a> {
    options: &'a Options,
    records: Records,
    child: Child,
    figures: Figures,
}

impl Run<'_> {
    fn all(&mut self, place: &Path, sum: u64) -> Result<()> {
        let write = self.options.write_millis.to_string();
        let count = self.records.count.to_string();
        let workload = self.records.workload.name();
        self.child.ask(&["create", workload, &count, &text(place)], "created", 0)?;
        self.written("fill", &["fill", &write], "filled")?;
        self.size("fill")?;
        let checked = self.child.ask(&["check"], "checked", 1)?;
        if self.child.number::<u64>(&checked[0])? != sum {
            return Err("the values are not those of the generator".into());
        }
        if self.records.workload == Workload::Growing {
            self.grow(&write)?;
            return self.reopen();
        }
        for what in ["present", "absent"] {
            self.gets(what)?;
        }
        // Compaction has all it does only once there is as much stale as it leaves.
        for what in ["update", "steady"] {
            self.written(what, &["update", &count, &write], "updated")?;
            self.size(what)?;
        }
        let millis = (4 * self.options.millis).to_string();
        let both = self.number(&["both", &millis], "both", 12)?;
        self.quantiles("both get", &both[..6]);
        self.quantiles("both put", &both[6..]);
        self.reopen()?;
        if is_ours(&self.figures.name) { self.cold(place) } else { Ok(()) }
    }

    /// Gets of which each needs the disk, and `fio`, in turns: the median turn of each counts.
    fn cold(&mut self, place: &Path) -> Result<()> {
        let millis = self.options.millis;
        for threads in cold::THREADS {
            let mut turns = [const { Vec::new() }; 3];
            for _ in 0..COLD_TURNS {
                match cold::disk(place, threads, millis) {
                    Ok(rate) => turns[0].push(rate),
                    Err(error) => eprintln!("there are no figures of the disk itself: {error}"),
                }
                self.child.ask(&["reopen cold"], "reopened", 2)?;
                let job = ["run", "present", &threads.to_string(), &millis.to_string()];
                let ran = self.number(&job, "ran", 4)?;
                turns[1].push(ran[0] / ran[1] * 1e9);
                turns[2].push(ran[3] / ran[0]);
            }
            let names = [
                format!("fio {threads} rate"),
                format!("cold {threads} rate"),
                format!("cold {threads} read"),
            ];
            for (name, turns) in
                names.into_iter().zip(&mut turns).filter(|(_, all)| !all.is_empty())
            {
                turns.sort_by(f64::total_cmp);
                self.figures.set(name, turns[turns.len() / 2]);
            }
        }
        Ok(())
    }

    /// Nine updates of each record, each a get and a put of a few bytes more.
    fn grow(&mut self, write: &str) -> Result<()> {
        let most = (GROWTHS * self.records.count).to_string();
        let answer = self.number(&["grow", &most, write], "grown", 14)?;
        self.quantiles("grow get", &answer[..6]);
        self.quantiles("grow put", &answer[6..]);
        self.figures.set("grow put cpu", answer[12] / answer[6]);
        self.figures.set("update count", answer[6]);
        self.figures.set("update dirty", answer[13] / answer[6]);
        self.size("update")
    }

    /// Compares, closes and opens; what was updated last must be there after it was opened.
    fn reopen(&mut self) -> Result<()> {
        self.child.ask(&["check"], "checked", 1)?;
        let took = self.number(&["reopen"], "reopened", 2)?;
        self.figures.set("close", took[0]);
        self.figures.set("open", took[1]);
        self.child.ask(&["check"], "checked", 1)?;
        Ok(())
    }

    fn number(&mut self, job: &[&str], head: &str, count: usize) -> Result<Vec<f64>> {
        let answer = self.child.ask(job, head, count)?;
        answer.iter().map(|field| self.child.number(field)).collect()
    }

    /// Puts that were timed one by one.
    fn written(&mut self, what: &str, job: &[&str], head: &str) -> Result<()> {
        let answer = self.number(job, head, 8)?;
        self.quantiles(what, &answer);
        self.figures.set(format!("{what} cpu"), answer[6] / answer[0]);
        self.figures.set(format!("{what} dirty"), answer[7] / answer[0]);
        Ok(())
    }

    /// Number, sum and quantiles of times.
    fn quantiles(&mut self, what: &str, answer: &[f64]) {
        self.figures.set(format!("{what} rate"), answer[0] / answer[1] * 1e9);
        self.figures.set(format!("{what} count"), answer[0]);
        for (name, nanos) in ["p50", "p99", "p999", "max"].iter().zip(&answer[2..]) {
            self.figures.set(format!("{what} {name}"), *nanos);
        }
    }

    fn size(&mut self, what: &str) -> Result<()> {
        let answer = self.child.ask(&["size"], "size", 3)?;
        let disk = self.child.number(&answer[0])?;
        let memory = self.child.number(&answer[1])?;
        self.figures.set(format!("{what} disk"), disk);
        self.figures.set(format!("{what} memory"), memory);
        if answer[2] != "-" {
            let told = self.child.number(&answer[2])?;
            self.figures.set(format!("{what} told"), told);
        }
        Ok(())
    }

    fn gets(&mut self, what: &str) -> Result<()> {
        let millis = self.options.millis.to_string();
        let answer = self.number(&["latency", what, &millis], "latency", 6)?;
        self.quantiles(what, &answer);
        for threads in ["1", "2"] {
            let (mut rate, mut cpu) = (0f64, f64::INFINITY);
            for _ in 0..self.options.rounds.max(1) {
                let ran = self.number(&["run", what, threads, &millis], "ran", 4)?;
                rate = rate.max(ran[0] / ran[1] * 1e9);
                cpu = cpu.min(ran[2] / ran[0]);
            }
            let name = if threads == "1" { what.to_string() } else { format!("{what} 2") };
            self.figures.set(format!("{name} rate"), rate);
            self.figures.set(format!("{name} cpu"), cpu);
        }
        Ok(())
    }
}
