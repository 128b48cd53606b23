//! Gets from the disk, and what the disk itself can do, measured by `fio` on the file of the
//! engine: random reads of 4 KiB past the page cache.

use super::jobs::Getter;
use super::report::Figures;
use super::turns::Effort;
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
/// How many times longer a turn is than one of gets from memory.
pub const LONGER: u64 = 3;

/// Gets by an engine that built in `place`, in turns with the disk itself: it is not the same from
/// second to second.
pub fn measure(
    effort: Effort,
    engine: &mut Getter,
    place: &Path,
    figures: &mut Figures,
) -> Result<()> {
    let (millis, mut fio) = (LONGER * effort.millis, true);
    for depth in [1, DEPTH] {
        let batch = if depth == 1 { 1 } else { BATCH };
        // Neither of them always comes after the same one.
        for turn in (0..effort.rounds.max(1)).flat_map(|round| [round, round + 1]) {
            if turn % 2 == 0 {
                if fio && let Err(error) = disk(place, depth, millis, figures) {
                    eprintln!("there are no figures of the disk itself: {error}");
                    fio = false;
                }
                continue;
            }
            let rate = engine.run("present", batch, 1, millis)?;
            figures.add(format!("cold {depth} rate"), rate.per_second);
            figures.add(format!("cold {depth} cpu"), rate.cpu);
            figures.add(format!("cold {depth} read"), rate.read);
        }
    }
    let latency = engine.latency("present", TIMED, 2 * millis)?;
    for (name, nanos) in ["p50", "p99", "p999"].iter().zip(latency.nanos) {
        figures.add(format!("cold {name}"), nanos);
    }
    Ok(())
}

/// Reads the largest file below `dir` for some time, `depth` reads at a time.
fn disk(dir: &Path, depth: usize, millis: u64, figures: &mut Figures) -> Result<()> {
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
    let quantiles = &read["clat_ns"]["percentile"];
    let found = [
        ("rate", &read["iops"]),
        ("p50", &quantiles["50.000000"]),
        ("p99", &quantiles["99.000000"]),
    ];
    for (name, value) in found {
        let value = value.as_f64().ok_or("fio left a figure out")?;
        figures.add(format!("fio {depth} {name}"), value);
    }
    Ok(())
}

fn largest(dir: &Path) -> Result<PathBuf> {
    let mut files = Vec::new();
    for entry in dir.read_dir()? {
        let entry = entry?;
        files.push((entry.metadata()?.len(), entry.path()));
    }
    Ok(files.into_iter().max().ok_or("an engine without files")?.1)
}
