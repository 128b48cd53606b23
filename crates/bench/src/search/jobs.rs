//! The jobs of the search benchmark, as the runner sends them to an engine.

use crate::child::{Built, Child, text};
use firndb_bench_protocol::Result;
use firndb_bench_protocol::search::{Kind, Workload};
use std::path::Path;
use std::time::Duration;

/// Cost of opening.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// Median time of repeated opens.
    pub time: Duration,
    /// Anonymous memory that the first open added, in bytes.
    pub memory: u64,
}

/// An answer with its time.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// Nanoseconds.
    pub nanos: f64,
    /// Matches, or hits of the page.
    pub count: u64,
    /// Checksum of the whole answer.
    pub checksum: u64,
}

/// Answers to a prefix of the queries of a kind.
#[derive(Clone, Debug)]
pub struct Ran {
    /// In the order of the queries.
    pub answers: Vec<Timed>,
    /// Allocations per query; zero if the engine does not count them.
    pub allocations: f64,
}

/// An engine that runs these jobs.
pub struct Searcher(pub Child);

impl Searcher {
    /// Builds the engine's form of `data` in `dir`.
    pub fn build(&mut self, workload: Workload, data: &Path, dir: &Path) -> Result<Built> {
        self.0.build(&["build", workload.name(), &text(data), &text(dir)])
    }

    /// Opens the data set several times.
    pub fn open(&mut self, workload: Workload, dir: &Path, times: usize) -> Result<Opened> {
        let job = ["open", workload.name(), &text(dir), &times.to_string()];
        let answer = self.0.request(&job, "opened", 2)?;
        let time = Duration::from_nanos(self.0.number(&answer[0])?);
        Ok(Opened { time, memory: self.0.number(&answer[1])? })
    }

    /// Answers the queries of a kind, as many as fit the budget.
    pub fn run(&mut self, kind: Kind, queries: &Path, budget: Duration) -> Result<Ran> {
        let (repeats, budget) = (kind.repeats().to_string(), budget.as_millis().to_string());
        self.0.send(&["run", &kind.to_string(), &text(queries), &repeats, &budget])?;
        let mut answers = Vec::new();
        loop {
            let line = self.0.line()?;
            match line.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["done", allocations] => {
                    return Ok(Ran { answers, allocations: self.0.number(allocations)? });
                }
                [nanos, count, checksum] => answers.push(Timed {
                    nanos: self.0.number(nanos)?,
                    count: self.0.number(count)?,
                    checksum: self.0.number(checksum)?,
                }),
                _ => return Err(self.0.unexpected(&line)),
            }
        }
    }

    /// Additional figures of this engine, in nanoseconds.
    pub fn extras(
        &mut self,
        workload: Workload,
        data: &Path,
        dir: &Path,
    ) -> Result<Vec<(String, f64)>> {
        self.0.send(&["extras", workload.name(), &text(data), &text(dir)])?;
        let mut extras = Vec::new();
        loop {
            let line = self.0.line()?;
            match line.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["done"] => return Ok(extras),
                ["extra", name, nanos] => extras.push((name.into(), nanos.parse()?)),
                _ => return Err(self.0.unexpected(&line)),
            }
        }
    }
}
