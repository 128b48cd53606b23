//! Gets from the disk, and what the disk itself can do, measured by `fio` on the file of the
//! engine: random reads of 4 KiB past the page cache.

use super::jobs::Getter;
use super::report::Figures;
use super::turns::Effort;
use crate::fio;
use firndb_bench_protocol::Result;
use std::path::Path;

/// Reads under way at the same time.
const DEPTH: usize = 32;
/// Keys of one call of a batch: the queue stays full but at the end.
const BATCH: usize = 16 * DEPTH;
/// Gets that are timed one by one, at most.
const TIMED: usize = 1_000_000;
/// How many times longer a turn is than one of gets from memory.
pub const LONGER: u64 = 3;
/// How many times as many turns there are of many reads at a time: one differs from the next by a
/// quarter, where many share the disk.
pub const MORE: usize = 4;

/// Gets by an engine that built in `place`, in turns with the disk itself: it is not the same from
/// second to second.
pub fn measure(
    effort: Effort,
    engine: &mut Getter,
    place: &Path,
    figures: &mut Figures,
) -> Result<()> {
    let (millis, mut has_fio) = (LONGER * effort.millis, true);
    for (depth, more) in [(1, 1), (DEPTH, MORE)] {
        for round in 0..more * effort.rounds.max(1) {
            // Neither of them always comes after the same one.
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

/// Gets random keys for some time, `depth` reads at a time.
fn gets(engine: &mut Getter, depth: usize, millis: u64, figures: &mut Figures) -> Result<()> {
    let rate = engine.run("present", if depth == 1 { 1 } else { BATCH }, 1, millis)?;
    figures.add(format!("cold {depth} rate"), rate.per_second);
    figures.add(format!("cold {depth} cpu"), rate.cpu);
    figures.add(format!("cold {depth} read"), rate.read);
    Ok(())
}

/// Reads the largest file in `dir` for some time, `depth` reads at a time.
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

/// The name of that file.
fn largest(dir: &Path) -> Result<String> {
    let mut files = Vec::new();
    for entry in dir.read_dir()? {
        let entry = entry?;
        files.push((entry.metadata()?.len(), entry.file_name()));
    }
    let (_, name) = files.into_iter().max().ok_or("an engine without files")?;
    Ok(name.to_string_lossy().into_owned())
}
