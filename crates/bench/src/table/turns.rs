//! Engines that are open at the same time and measured in turns: what else the machine does, for a
//! second or for minutes, is the same for all of them.

use super::jobs::{Getter, Rate};
use super::report::Figures;
use super::runner::Expected;
use crate::machine;
use firndb_bench_protocol::Result;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Keys of one call of a batch.
const BATCH: usize = 64;
/// Gets that are timed one by one, at most.
const TIMED: usize = 1_000_000;

/// How often and how long each kind of get is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Turns; the best counts.
    pub rounds: usize,
    /// Milliseconds of one.
    pub millis: u64,
}

/// An open engine, warm and compared with the generator.
pub struct Opened {
    /// Its place among all engines.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// Where it built.
    pub place: PathBuf,
    /// The process.
    pub engine: Getter,
    /// Whether it takes batches.
    pub batches: bool,
    /// What is known of it.
    pub figures: Figures,
}

/// The engines that are open.
#[derive(Default)]
pub struct Turns(Vec<Opened>);

impl Turns {
    /// One more.
    pub fn push(&mut self, opened: Opened) -> Result<()> {
        let own = opened.figures.get("memory own");
        if own >= opened.figures.get("disk") {
            // It holds all of its file itself, so that the page cache may have others instead.
            forget(&opened.place)?;
        }
        self.0.push(opened);
        Ok(())
    }

    /// Whether so many bytes more than what these engines hold would crowd the memory.
    pub fn full(&self, more: f64) -> bool {
        let of = |opened: &Opened, what| opened.figures.get(what).unwrap_or(0.0);
        let held = |opened: &Opened| of(opened, "memory own") + of(opened, "memory mapped");
        let held: f64 = self.0.iter().map(held).sum();
        machine::memory().is_some_and(|all| held + more > 0.85 * all as f64)
    }

    /// Measures all of them, and gives the figures with the engines' places among all.
    pub fn measure(
        mut self,
        effort: Effort,
        expected: &mut Expected,
    ) -> Result<Vec<(usize, Figures)>> {
        for opened in &mut self.0 {
            opened.times(effort, expected).map_err(|e| format!("{}: {e}", opened.name))?;
        }
        let kinds = [
            ("present", "present", 1),
            ("handed", "handed", 1),
            ("absent", "absent", 1),
            ("batch", "present", BATCH),
            ("read batch", "read", BATCH),
            ("handed batch", "handed", BATCH),
        ];
        let mut rates: BTreeMap<(usize, String), Vec<Rate>> = BTreeMap::new();
        for _ in 0..effort.rounds.max(1) {
            for (name, what, batch) in kinds {
                // Batches are shown of one thread.
                for threads in 1..=if batch == 1 { 2 } else { 1 } {
                    for (place, opened) in self.0.iter_mut().enumerate() {
                        if batch == 1 || opened.batches {
                            let rate = opened.engine.run(what, batch, threads, effort.millis)?;
                            let of = (place, format!("{name} {threads}"));
                            rates.entry(of).or_default().push(rate);
                        }
                    }
                }
            }
        }
        for ((place, name), rates) in rates {
            // What disturbs a turn only ever makes it slower.
            let least = rates.iter().map(|rate| rate.cpu).fold(f64::INFINITY, f64::min);
            let most = rates.iter().map(|rate| rate.per_second).fold(0.0, f64::max);
            let figures = &mut self.0[place].figures;
            figures.set(format!("{name} cpu"), least);
            figures.set(format!("{name} rate"), most);
        }
        self.0.into_iter().map(Opened::close).collect()
    }
}

impl Opened {
    /// Times gets one by one.
    fn times(&mut self, effort: Effort, expected: &mut Expected) -> Result<()> {
        for what in ["present", "absent"] {
            let latency = self.engine.latency(what, TIMED, 4 * effort.millis)?;
            expected.check_fold((what, latency.gets), latency.fold, &self.name)?;
            for (name, nanos) in ["p50", "p99", "p999", "max"].iter().zip(latency.nanos) {
                self.figures.set(format!("{what} {name}"), nanos);
            }
        }
        Ok(())
    }

    fn close(self) -> Result<(usize, Figures)> {
        drop(self.engine);
        fs::remove_dir_all(&self.place)?;
        Ok((self.number, self.figures))
    }
}

/// Lets the page cache forget the files in a folder.
fn forget(dir: &Path) -> Result<()> {
    for entry in dir.read_dir()? {
        let file = File::open(entry?.path())?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}
