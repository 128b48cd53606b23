//! Engines that are open at the same time and measured interleaved: interference from the machine,
//! whether for a second or for minutes, affects all of them equally.

use super::jobs::{Getter, Rate};
use super::report::Figures;
use super::runner::Expected;
use firndb_bench_protocol::Result;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Keys per batch.
const BATCH: usize = 64;
/// Bytes per get that may come from the disk all the same, for example for evicted program pages: a
/// page per hundred gets.
const TOLERATED: f64 = 40.0;
/// Maximum number of gets timed individually per round.
const TIMED: usize = 500_000;

/// Kinds of gets: the name, the protocol's name, and the keys per call.
const KINDS: [(&str, &str, usize); 6] = [
    ("present", "present", 1),
    ("handed", "handed", 1),
    ("absent", "absent", 1),
    ("batch", "present", BATCH),
    ("read batch", "read", BATCH),
    ("handed batch", "handed", BATCH),
];

/// Number and duration of the measurements of each kind of get.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Measurements of each kind per pass.
    pub rounds: usize,
    /// Milliseconds per measurement.
    pub millis: u64,
}

/// An open engine, warm and compared with the generator.
pub struct Opened {
    /// Index of the engine in the list of engines.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Directory of its build.
    pub dir: PathBuf,
    /// The process.
    pub engine: Getter,
    /// Whether it supports batches.
    pub batches: bool,
    /// Its figures so far.
    pub figures: Figures,
}

/// The open engines.
#[derive(Default)]
pub struct OpenEngines(Vec<Opened>);

impl OpenEngines {
    /// Adds an engine.
    pub fn push(&mut self, opened: Opened) -> Result<()> {
        let of = |what| opened.figures.get(what).unwrap_or(0.0);
        if of("memory own") >= of("disk") && of("memory mapped") < of("disk") / 2.0 {
            // The engine holds its whole file in memory: the page cache can serve others.
            forget(&opened.dir)?;
        }
        self.0.push(opened);
        Ok(())
    }

    /// Bytes of memory that the engines hold, including files that they map.
    pub fn held(&self) -> f64 {
        let of = |opened: &Opened, what| opened.figures.get(what).unwrap_or(0.0);
        let held = |opened| of(opened, "memory own") + of(opened, "memory mapped");
        self.0.iter().map(held).sum()
    }

    /// Their names.
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|opened| &*opened.name).collect()
    }

    /// Measures all engines and returns their figures by index. An error if one of them had to read
    /// from the disk.
    pub fn measure(
        mut self,
        pass: usize,
        effort: Effort,
        expected: &mut Expected,
    ) -> Result<Vec<(usize, Figures)>> {
        // Builds since then may have evicted pages of engines opened earlier.
        for opened in &mut self.0 {
            let warmed = opened.engine.warm().and_then(|(_, sum)| expected.check_sum(sum));
            warmed.map_err(|e| format!("{}: {e}", opened.name))?;
        }
        for round in 0..effort.rounds.max(1) {
            // Alternate the direction, so that no engine always follows the same one.
            let order: Vec<usize> = match (pass + round) % 2 {
                0 => (0..self.0.len()).rev().collect(),
                _ => (0..self.0.len()).collect(),
            };
            for what in ["present", "absent"] {
                for &i in &order {
                    let opened = &mut self.0[i];
                    let timed = opened.times(what, effort, expected);
                    timed.map_err(|e| format!("{}: {e}", opened.name))?;
                }
            }
            for (name, what, batch) in KINDS {
                // Batches are measured with one thread.
                for threads in 1..=if batch == 1 { 2 } else { 1 } {
                    for &i in &order {
                        let opened = &mut self.0[i];
                        if batch == 1 || opened.batches {
                            let rate = opened.rate(what, batch, threads, effort)?;
                            opened.figures.add(format!("{name} {threads} cpu"), rate.cpu);
                            opened.figures.add(format!("{name} {threads} rate"), rate.per_second);
                        }
                    }
                }
            }
        }
        self.0.into_iter().map(Opened::close).collect()
    }
}

impl Opened {
    fn rate(&mut self, what: &str, batch: usize, threads: usize, effort: Effort) -> Result<Rate> {
        let rate = self.engine.run(what, batch, threads, effort.millis)?;
        if rate.read > TOLERATED {
            let message = "was not in memory: a get read that many bytes from the disk:";
            return Err(format!("{} {message} {:.0}", self.name, rate.read).into());
        }
        Ok(rate)
    }

    /// Times gets individually.
    fn times(&mut self, what: &'static str, effort: Effort, expected: &mut Expected) -> Result<()> {
        let latency = self.engine.latency(what, TIMED, 4 * effort.millis)?;
        expected.check_fold((what, latency.gets), latency.fold, &self.name)?;
        for (name, nanos) in ["p50", "p99", "p999", "max"].iter().zip(latency.nanos) {
            self.figures.add(format!("{what} {name}"), nanos);
        }
        Ok(())
    }

    fn close(self) -> Result<(usize, Figures)> {
        drop(self.engine);
        fs::remove_dir_all(&self.dir)?;
        Ok((self.index, self.figures))
    }
}

/// Evicts the files in a folder from the page cache.
fn forget(dir: &Path) -> Result<()> {
    for entry in dir.read_dir()? {
        let path = entry?.path();
        if path.is_file() {
            rustix::fs::fadvise(&File::open(path)?, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    Ok(())
}
