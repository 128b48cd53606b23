//! What the disk itself can do, measured by `fio` on the file of an engine: random reads of 4 KiB
//! past the page cache.

use crate::peers;
use firndb_bench_protocol::Result;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What `fio` found.
#[derive(Clone, Copy, Debug)]
pub struct Disk {
    /// Reads a second.
    pub per_second: f64,
    /// Median and 99th of 100, nanoseconds.
    pub nanos: [f64; 2],
}

/// Reads the largest file below `dir` for some time, `depth` reads at a time.
pub fn measure(dir: &Path, depth: usize, millis: u64) -> Result<Disk> {
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
