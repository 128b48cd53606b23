//! Gets from the disk, and what the disk itself can do, measured by `fio` on the file of the
//! engine: random reads of 4 KiB past the page cache.

use super::jobs::Getter;
use super::report::Figures;
use crate::peers;
use firndb_bench_protocol::Result;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Reads under way at the same time.
const DEPTH: usize = 32;
/// Keys of one call of a batch: the queue stays full but at the end.
const BATCH: usize = 16 * DEPTH;
/// Gets that are timed one by one, at most.
const TIMED: usize = 1_000_000;

/// Gets by an engine that built in `place`. The disk is asked right before it: it is not the same
/// from minute to minute.
pub fn measure(
    millis: u64,
    engine: &mut Getter,
    place: &Path,
    figures: &mut Figures,
) -> Result<()> {
    for depth in [1, DEPTH] {
        match disk(place, depth, millis) {
            Ok(disk) => {
                figures.add(format!("fio {depth} rate"), disk.per_second);
                figures.add(format!("fio {depth} p50"), disk.nanos[0]);
                figures.add(format!("fio {depth} p99"), disk.nanos[1]);
            }
            Err(error) => eprintln!("there are no figures of the disk itself: {error}"),
        }
        let batch = if depth == 1 { 1 } else { BATCH };
        let rate = engine.run("present", batch, 1, millis)?;
        figures.add(format!("cold {depth} rate"), rate.per_second);
        figures.add(format!("cold {depth} cpu"), rate.cpu);
        figures.add(format!("cold {depth} read"), rate.read);
    }
    let latency = engine.latency("present", TIMED, millis)?;
    for (name, nanos) in ["p50", "p99", "p999"].iter().zip(latency.nanos) {
        figures.add(format!("cold {name}"), nanos);
    }
    Ok(())
}

/// What `fio` found.
struct Disk {
    /// Reads a second.
    per_second: f64,
    /// Median and 99th of 100, nanoseconds.
    nanos: [f64; 2],
}

/// Reads the largest file below `dir` for some time, `depth` reads at a time.
fn disk(dir: &Path, depth: usize, millis: u64) -> Result<Disk> {
    let file = largest(dir)?;
    let engine = if depth == 1 { "psync" } else { "io_uring" };
    let mut fio = peers::fio()?;
    fio.args(["--name=random", "--rw=randread", "--bs=4k", "--direct=1", "--readonly"]);
    fio.args(["--time_based", "--norandommap", "--randrepeat=0", "--output-format=json"]);
    fio.arg(format!("--runtime={millis}ms")).arg(format!("--iodepth={depth}"));
    fio.arg(format!("--ioengine={engine}")).arg(format!("--filename={}", file.display()));
    let out = fio.output().map_err(|e| format!("cannot start fio: {e}"))?;
    if !out.status.success() {
        return Err(format!("fio: {}", String::from_utf8_lossy(&out.stderr).trim()).into());
    }
    let report: Value = serde_json::from_slice(&out.stdout)?;
    let read = &report["jobs"][0]["read"];
    let number = |value: &Value| value.as_f64().ok_or("fio left a figure out");
    let quantiles = &read["clat_ns"]["percentile"];
    Ok(Disk {
        per_second: number(&read["iops"])?,
        nanos: [number(&quantiles["50.000000"])?, number(&quantiles["99.000000"])?],
    })
}

fn largest(dir: &Path) -> Result<PathBuf> {
    let mut files = Vec::new();
    for entry in dir.read_dir()? {
        let entry = entry?;
        files.push((entry.metadata()?.len(), entry.path()));
    }
    Ok(files.into_iter().max().ok_or("an engine without files")?.1)
}
