//! Runs `fio` to measure the disk: random reads of 4 KiB past the page cache.

use crate::peers::advice;
use firndb_bench_protocol::Result;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The results.
pub struct Disk {
    /// Reads per second.
    pub per_second: f64,
    /// Median and 99th percentile, nanoseconds.
    pub nanos: [f64; 2],
}

/// Whether `fio` is installed.
pub fn is_there() -> bool {
    Command::new("fio").arg("--version").output().is_ok_and(|out| out.status.success())
}

/// Reads files of a folder for `millis`; `more` selects the files and the queue depth.
pub fn read(dir: &Path, millis: u64, more: &[&str]) -> Result<Disk> {
    if !is_there() {
        return Err(advice("there is no fio", &["fio"]).into());
    }
    let mut fio = Command::new("fio");
    fio.current_dir(dir);
    fio.args(["--name=random", "--rw=randread", "--bs=4k", "--direct=1", "--readonly"]);
    fio.args(["--time_based", "--norandommap", "--randrepeat=0", "--output-format=json"]);
    fio.arg(format!("--runtime={millis}ms")).args(more);
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
