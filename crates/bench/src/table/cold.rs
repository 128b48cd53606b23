//! Gets from the disk, and the disk's own speed, measured by `fio` on the engine's file: random
//! reads of 4 KiB past the page cache.

use super::interleaved::Effort;
use super::jobs::Getter;
use super::report::Figures;
use crate::fio;
use firndb_bench_protocol::Result;
use std::path::Path;

/// Numbers of concurrent reads.
const DEPTH: usize = 32;
/// Keys per batch: the queue stays full except at the end.
const BATCH: usize = 16 * DEPTH;
/// Maximum number of gets timed individually.
const TIMED: usize = 1_000_000;
/// Duration of a measurement, relative to one of gets from memory.
pub const LONGER: u64 = 3;
/// Additional measurements with many concurrent reads, relative to those with one: on a shared disk
/// they vary by a quarter.
pub const MORE: usize = 4;

/// Measures gets of an engine that built in `place`, alternating with the disk itself, whose speed
/// varies over seconds.
pub fn measure(
    effort: Effort,
    engine: &mut Getter,
    place: &Path,
    figures: &mut Figures,
) -> Result<()> {
    let (millis, mut has_fio) = (LONGER * effort.millis, true);
    for (depth, more) in [(1, 1), (DEPTH, MORE)] {
        for round in 0..more * effort.rounds.max(1) {
            // Alternate which of the two comes first.
            for is_disk in [round % 2 == 0, round % 2 == 1] {
                if !is_disk {
                    gets(engine, depth, millis, figures)?;
                } else if has_fio && let Err(error) = disk(place, depth, millis, figures) {
                    eprintln!("there are no figures of the disk itself: {error}");
                    has_fio = false;
                }
            }
        }
    }
    let latency = engine.latency("present", TIMED, 2 * millis)?;
    for (name, nanos) in ["p50", "p99", "p999"].iter().zip(latency.nanos) {
        figures.add(format!("cold {name}"), nanos);
    }
    Ok(())
}

/// Gets random keys for `millis`, `depth` reads at a time.
fn gets(engine: &mut Getter, depth: usize, millis: u64, figures: &mut Figures) -> Result<()> {
    let rate = engine.run("present", if depth == 1 { 1 } else { BATCH }, 1, millis)?;
    figures.add(format!("cold {depth} rate"), rate.per_second);
    figures.add(format!("cold {depth} cpu"), rate.cpu);
    figures.add(format!("cold {depth} read"), rate.read);
    Ok(())
}

/// Reads the largest file in `dir` for `millis`, `depth` reads at a time.
fn disk(dir: &Path, depth: usize, millis: u64, figures: &mut Figures) -> Result<()> {
    let engine = if depth == 1 { "psync" } else { "io_uring" };
    let (engine, depth_text) = (format!("--ioengine={engine}"), format!("--iodepth={depth}"));
    let file = format!("--filename={}", largest(dir)?);
    let disk = fio::read(dir, millis, &[&engine, &depth_text, &file])?;
    figures.add(format!("fio {depth} rate"), disk.per_second);
    figures.add(format!("fio {depth} p50"), disk.nanos[0]);
    figures.add(format!("fio {depth} p99"), disk.nanos[1]);
    Ok(())
}

/// The name of the largest file.
fn largest(dir: &Path) -> Result<String> {
    let mut files = Vec::new();
    for entry in dir.read_dir()? {
        let entry = entry?;
        files.push((entry.metadata()?.len(), entry.file_name()));
    }
    let (_, name) = files.into_iter().max().ok_or("an engine without files")?;
    Ok(name.to_string_lossy().into_owned())
}
