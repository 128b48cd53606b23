//! Engines that are open at the same time and measured in turns: what else the machine does, for a
//! second or for minutes, is the same for all of them.

use super::jobs::{Getter, Rate};
use super::report::Figures;
use super::runner::Expected;
use firndb_bench_protocol::Result;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Keys of one call of a batch.
const BATCH: usize = 64;
/// Bytes a get that may come from the disk all the same, as of a program that is read again: a page
/// for a hundred gets.
const TOLERATED: f64 = 40.0;
/// Gets that are timed one by one in a round, at most.
const TIMED: usize = 500_000;

/// Kinds of gets: their names, what the protocol calls them, and keys of one call.
const KINDS: [(&str, &str, usize); 6] = [
    ("present", "present", 1),
    ("handed", "handed", 1),
    ("absent", "absent", 1),
    ("batch", "present", BATCH),
    ("read batch", "read", BATCH),
    ("handed batch", "handed", BATCH),
];

/// How often and how long each kind of get is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Turns of each kind in a pass.
    pub rounds: usize,
    /// Milliseconds of a turn.
    pub millis: u64,
}

/// An open engine, warm and compared with the generator.
pub struct Opened {
    /// Which of all engines it is.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Where it built.
    pub dir: PathBuf,
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
        let of = |what| opened.figures.get(what).unwrap_or(0.0);
        if of("memory own") >= of("disk") && of("memory mapped") < of("disk") / 2.0 {
            // It holds all of its file itself: the page cache may have others instead.
            forget(&opened.dir)?;
        }
        self.0.push(opened);
        Ok(())
    }

    /// Bytes of memory that they hold, and of files that they map.
    pub fn held(&self) -> f64 {
        let of = |opened: &Opened, what| opened.figures.get(what).unwrap_or(0.0);
        let held = |opened| of(opened, "memory own") + of(opened, "memory mapped");
        self.0.iter().map(held).sum()
    }

    /// Their names.
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|opened| &*opened.name).collect()
    }

    /// Measures all of them, and tells which of all engines each is. An error if one had to read
    /// from the disk.
    pub fn measure(
        mut self,
        pass: usize,
        effort: Effort,
        expected: &mut Expected,
    ) -> Result<Vec<(usize, Figures)>> {
        // What was built since may have taken memory from those that were open before.
        for opened in &mut self.0 {
            let warmed = opened.engine.warm().and_then(|(_, sum)| expected.check_sum(sum));
            warmed.map_err(|e| format!("{}: {e}", opened.name))?;
        }
        for round in 0..effort.rounds.max(1) {
            // There and back, so that none always comes after the same one.
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
                // Batches are shown of one thread.
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

    /// Times gets one by one.
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

/// Lets the page cache forget the files in a folder.
fn forget(dir: &Path) -> Result<()> {
    for entry in dir.read_dir()? {
        let path = entry?.path();
        if path.is_file() {
            rustix::fs::fadvise(&File::open(path)?, 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    Ok(())
}
