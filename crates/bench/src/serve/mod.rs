//! The benchmark of the server: HTTP beside nginx, the Redis protocol beside redis-server, batches
//! of keys, and searches while partitions are swapped.
//!
//! Clients and servers are processes on this machine and share its cores. Servers that are compared
//! run at the same time and are measured interleaved, with the same client: `wrk` for HTTP,
//! `redis-benchmark` for the Redis protocol. [`mget`] and [`swaps`] have clients of their own.

pub mod gets;
pub mod http;
pub mod markdown;
pub mod mget;
pub mod process;
pub mod redis;
pub mod swaps;

use firndb_bench_protocol::Result;
use std::path::PathBuf;
use std::time::Duration;

/// What to measure, and for how long.
pub struct Options {
    /// The program `firn-serve`.
    pub server: PathBuf,
    /// Directory for stores; its contents are replaced.
    pub dir: PathBuf,
    /// The parts to run: see [`PARTS`].
    pub parts: Vec<String>,
    /// Duration of one measurement of one server.
    pub seconds: Duration,
    /// Rounds, in each of which every server is measured.
    pub rounds: usize,
    /// Documents of the collection.
    pub documents: u64,
}

/// The parts of the benchmark.
pub const PARTS: [&str; 4] = ["get", "mget", "search", "redis"];

/// The figures of a run; parts that were not run, or cannot be, are `None`.
#[derive(Default)]
pub struct Report {
    /// GET requests per second.
    pub gets: Option<gets::Figures>,
    /// Batches of keys.
    pub mget: Option<mget::Figures>,
    /// Searches while partitions are swapped.
    pub swaps: Option<swaps::Figures>,
    /// Commands of the Redis protocol.
    pub redis: Option<redis::Figures>,
}

/// Runs the parts. A part whose programs are missing is left out, with a line that says so.
pub fn run(options: &Options) -> Result<Report> {
    let mut report = Report::default();
    let wanted = |part: &str| options.parts.iter().any(|p| p == part);
    if wanted("get") {
        report.gets = process::if_found("get", &["wrk", "nginx"], || gets::run(options))?;
    }
    if wanted("mget") {
        report.mget = Some(mget::run(options)?);
    }
    if wanted("search") {
        report.swaps = Some(swaps::run(options)?);
    }
    if wanted("redis") {
        let programs = ["redis-server", "redis-benchmark"];
        report.redis = process::if_found("redis", &programs, || redis::run(options))?;
    }
    Ok(report)
}
