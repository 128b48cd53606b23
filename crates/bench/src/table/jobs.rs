//! The jobs of the table benchmark, as the runner sends them to an engine.

use crate::child::{Built, Child, text};
use firndb_bench_protocol::Result;
use firndb_bench_protocol::table::Records;
use std::path::Path;

/// Cost of one kind of get.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// CPU time per get, in nanoseconds.
    pub cpu: f64,
    /// Gets per second, all threads together.
    pub per_second: f64,
    /// Bytes read from the disk per get.
    pub read: f64,
}

/// Times of gets that were timed individually.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// Number of gets.
    pub gets: usize,
    /// Fold of all their values.
    pub fold: u64,
    /// Median, 99th and 99.9th percentile, maximum; nanoseconds.
    pub nanos: [f64; 4],
}

/// An engine that runs these jobs.
pub struct Getter(pub Child);

impl Getter {
    /// Builds the engine's form of the records in `dir`.
    pub fn build(&mut self, records: &Records, dir: &Path) -> Result<Built> {
        let count = records.count.to_string();
        self.0.build(&["build", records.workload.name(), &count, &text(dir)])
    }

    /// Opens what was built: median nanoseconds, and whether the engine supports batches.
    pub fn open(&mut self, records: &Records, dir: &Path) -> Result<(f64, bool)> {
        let count = records.count.to_string();
        let job = ["open", records.workload.name(), &count, &text(dir)];
        let answer = self.0.request(&job, "opened", 2)?;
        Ok((self.0.number(&answer[0])?, answer[1] == "1"))
    }

    /// Gets every record once: nanoseconds, and the fold of all values.
    pub fn warm(&mut self) -> Result<(f64, u64)> {
        let answer = self.0.request(&["warm"], "warmed", 2)?;
        Ok((self.0.number(&answer[0])?, self.0.number(&answer[1])?))
    }

    /// Makes the engine compare a sample with the generator.
    pub fn check(&mut self, sample: u64) -> Result<()> {
        self.0.request(&["check", &sample.to_string()], "checked", 1).map(drop)
    }

    /// Times gets individually.
    pub fn latency(&mut self, what: &str, gets: usize, millis: u64) -> Result<Latency> {
        let job = ["latency", what, &gets.to_string(), &millis.to_string()];
        let answer = self.0.request(&job, "latency", 6)?;
        let number = |place: usize| self.0.number(&answer[place]);
        Ok(Latency {
            gets: self.0.number(&answer[0])?,
            fold: self.0.number(&answer[1])?,
            nanos: [number(2)?, number(3)?, number(4)?, number(5)?],
        })
    }

    /// Runs gets until the time is over.
    pub fn run(&mut self, what: &str, batch: usize, threads: usize, millis: u64) -> Result<Rate> {
        let [batch, threads_text, millis] =
            [batch.to_string(), threads.to_string(), millis.to_string()];
        let answer = self.0.request(&["run", what, &batch, &threads_text, &millis], "ran", 4)?;
        let number = |place: usize| self.0.number::<f64>(&answer[place]);
        let (gets, wall, cpu, read) = (number(0)?, number(1)?, number(2)?, number(3)?);
        Ok(Rate { cpu: cpu / gets, per_second: gets / wall * 1e9, read: read / gets })
    }

    /// Current memory: anonymous bytes, and file-backed bytes.
    pub fn memory(&mut self) -> Result<(f64, f64)> {
        let answer = self.0.request(&["memory"], "memory", 2)?;
        Ok((self.0.number(&answer[0])?, self.0.number(&answer[1])?))
    }
}
