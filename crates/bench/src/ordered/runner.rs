//! Runs a part: in each round every engine fills a store or builds a table, and compares all its
//! scans with the generator; then the scans of all engines are measured, interleaved.
//!
//! Figures have names. Of stores `put rate`, `put cpu`, `put p50`, `p99`, `p999`, `max`, `close`;
//! of tables `build wall`, `build cpu`. Of both `disk`, `memory`, and for `ORDER` forward or
//! reverse `prefix ORDER p50`, `p99`, `p999`, `max`, and `scan ORDER rate` (records per second).

use super::Part;
use crate::child::{Child, Launcher, text};
use crate::table::report::Figures;
use firndb_bench_protocol::Result;
use firndb_bench_protocol::ordered::{Answer, GROUP, Records};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Pause after background work, before timed operations.
const REST: Duration = Duration::from_secs(1);
/// Interleaved measurements of scans in each round.
const TURNS: usize = 3;
/// The orders of scans.
pub const ORDERS: [&str; 2] = ["forward", "reverse"];

/// Parameters of a run.
pub struct Options {
    /// Directory for stores and tables.
    pub dir: PathBuf,
    /// The records.
    pub records: Records,
    /// Times that every engine fills or builds; medians count.
    pub rounds: usize,
    /// Milliseconds of each measurement of prefix scans.
    pub millis: u64,
    /// The parts with their engines.
    pub parts: Vec<(Part, Vec<Launcher>)>,
}

/// A part with the figures of all engines.
pub struct Section {
    /// The part.
    pub part: Part,
    /// The engines, in the order they were given.
    pub engines: Vec<Figures>,
}

/// The figures of a run.
pub struct Report {
    /// The records.
    pub records: Records,
    /// The parts.
    pub sections: Vec<Section>,
}

impl Report {
    /// As JSON; times are nanoseconds.
    pub fn json(&self) -> Value {
        let section = |section: &Section| {
            let engines: Vec<Value> = section.engines.iter().map(Figures::json).collect();
            let records = self.records.count();
            json!({ "part": section.part.name(), "records": records, "engines": engines })
        };
        self.sections.iter().map(section).collect()
    }
}

/// Runs all parts.
pub fn run(options: &Options) -> Result<Report> {
    let records = options.records;
    let sections = options.parts.iter().map(|(part, launchers)| {
        run_part(options, *part, launchers).map_err(|e| format!("part {}: {e}", part.name()).into())
    });
    Ok(Report { records, sections: sections.collect::<Result<_>>()? })
}

fn run_part(options: &Options, part: Part, launchers: &[Launcher]) -> Result<Section> {
    let dir = options.dir.join(format!("{}-{}", part.argument(), options.records.count()));
    let mut engines = Vec::new();
    for launcher in launchers {
        let version = launcher.start()?.hello()?;
        engines.push(Figures { name: launcher.name.clone(), version, ..Figures::default() });
    }
    let expected = ORDERS.map(|order| options.records.total(order == "reverse"));
    for round in 0..options.rounds.max(1) {
        eprintln!("{}: round {}", part.name(), round + 1);
        remove(&dir)?;
        let done = run_round(options, part, (launchers, &mut engines), &dir, expected, round);
        remove(&dir)?;
        done?;
    }
    Ok(Section { part, engines })
}

fn remove(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    Ok(())
}

fn run_round(
    options: &Options,
    part: Part,
    (launchers, engines): (&[Launcher], &mut [Figures]),
    dir: &Path,
    expected: [Answer; 2],
    round: usize,
) -> Result<()> {
    let mut runs = Vec::new();
    for place in turn(launchers.len(), round) {
        let (launcher, figures) = (&launchers[place], &mut engines[place]);
        eprintln!("{}: {}", part.name(), launcher.name);
        let named = |e| format!("{}: {e}", launcher.name);
        let place_dir = dir.join(&launcher.name);
        fs::create_dir_all(&place_dir)?;
        let mut run = Run { child: launcher.start()?, place, scans: true };
        run.fill(options.records, part, &place_dir, figures).map_err(named)?;
        if run.scans {
            run.check(expected[0]).map_err(named)?;
        }
        runs.push(run);
    }
    rest();
    for round in 0..TURNS {
        for place in turn(runs.len(), round) {
            let run = &mut runs[place];
            if run.scans {
                let figures = &mut engines[run.place];
                let done = run.scan(options.millis, expected, figures);
                done.map_err(|e| format!("{}: {e}", figures.name))?;
            }
        }
    }
    for mut run in runs {
        if part == Part::Log {
            let nanos = run.numbers(&["close"], "closed", 1)?;
            engines[run.place].add("close", nanos[0]);
        }
    }
    Ok(())
}

/// The numbers below `count`, in alternating direction, so that no engine always follows the same
/// one.
fn turn(count: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |place| if round.is_multiple_of(2) { place } else { count - 1 - place })
}

/// Waits for writeback, so that it does not overlap with timed operations.
fn rest() {
    rustix::fs::sync();
    std::thread::sleep(REST);
}

/// An engine in a round.
struct Run {
    child: Child,
    /// Its number among the engines.
    place: usize,
    /// Whether it can be scanned in order.
    scans: bool,
}

impl Run {
    fn numbers(&mut self, job: &[&str], head: &str, count: usize) -> Result<Vec<f64>> {
        let answer = self.child.request(job, head, count)?;
        answer.iter().map(|field| self.child.number(field)).collect()
    }

    /// Fills a store or builds a table.
    fn fill(
        &mut self,
        records: Records,
        part: Part,
        dir: &Path,
        figures: &mut Figures,
    ) -> Result<()> {
        rest();
        let (groups, dir) = (records.groups.to_string(), text(dir));
        match part {
            Part::Log => {
                self.scans = self.numbers(&["create", &groups, &dir], "created", 1)?[0] == 1.0;
                let put = self.numbers(&["put"], "put", 7)?;
                figures.add("put rate", put[0] / put[1] * 1e9);
                figures.add("put cpu", put[6] / put[0]);
                quantiles("put", &put, figures);
            }
            Part::Table => {
                let built = self.numbers(&["build", &groups, &dir], "built", 2)?;
                figures.add("build wall", built[0]);
                figures.add("build cpu", built[1]);
            }
        }
        self.numbers(&["settle"], "settled", 0)?;
        let size = self.numbers(&["size"], "size", 2)?;
        figures.add("disk", size[0]);
        figures.add("memory", size[1]);
        Ok(())
    }

    /// The engine compares with the generator, and the runner compares engines.
    fn check(&mut self, expected: Answer) -> Result<()> {
        let answer = self.child.request(&["check"], "checked", 2)?;
        self.compare(&answer, expected)
    }

    fn compare(&self, answer: &[String], expected: Answer) -> Result<()> {
        let (count, sum) = (self.child.number(&answer[0])?, self.child.number(&answer[1])?);
        let found = Answer { count, sum };
        if found != expected {
            return Err(format!("a scan returned {found:?}, expected is {expected:?}").into());
        }
        Ok(())
    }

    /// Measures all kinds of scans.
    fn scan(&mut self, millis: u64, expected: [Answer; 2], figures: &mut Figures) -> Result<()> {
        let millis = millis.to_string();
        for (order, expected) in ORDERS.into_iter().zip(expected) {
            let times = self.numbers(&["prefix", order, &millis], "prefix", 6)?;
            quantiles(&format!("prefix {order}"), &times, figures);
            let answer = self.child.request(&["scan", order], "scanned", 3)?;
            self.compare(&answer, expected)?;
            let nanos: f64 = self.child.number(&answer[2])?;
            figures.add(format!("scan {order} rate"), expected.count as f64 / nanos * 1e9);
        }
        Ok(())
    }
}

fn quantiles(what: &str, answer: &[f64], figures: &mut Figures) {
    for (name, nanos) in ["p50", "p99", "p999", "max"].iter().zip(&answer[2..]) {
        figures.add(format!("{what} {name}"), *nanos);
    }
}

/// The records of a run of about this many.
pub fn records(count: u64) -> Records {
    Records { groups: (count / GROUP).max(1) }
}
