//! Gets from the disk, compared with the disk's own speed: `fio` reads 4 KiB at random offsets of
//! the same files, past the page cache, with as many threads, alternating with the gets.

use crate::fio;
use crate::table::report::Figures;
use firndb_bench_protocol::Result;
use std::path::Path;

/// Numbers of threads measured: each thread waits for one read at a time.
pub const THREADS: [u32; 2] = [1, 16];

/// Maximum number of segments that `fio` reads: their names are one argument, whose length is
/// limited.
const FILES: usize = 100;

fn entry_name(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_str()?.to_string())
}

/// Reads per second that `fio` gets from the segments in `dir`.
pub fn disk(dir: &Path, threads: u32, millis: u64) -> Result<f64> {
    let mut files = Vec::new();
    for entry in dir.read_dir()? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            files.extend(entry_name(&path));
        }
    }
    files.truncate(FILES);
    let (jobs, names) = (format!("--numjobs={threads}"), format!("--filename={}", files.join(":")));
    let how = ["--ioengine=psync", "--group_reporting", "--file_service_type=random"];
    Ok(fio::read(dir, millis, &[&how[..], &[&jobs, &names]].concat())?.per_second)
}

/// Pages of 4 KiB per second that an engine read for its gets.
pub fn pages(engine: &Figures, threads: u32) -> Option<f64> {
    let each = engine.get(&format!("cold {threads} read"))?;
    Some(engine.get(&format!("cold {threads} rate"))? * each / 4096.0)
}

/// The same as a share of what `fio` read.
pub fn share(engine: &Figures, threads: u32) -> Option<f64> {
    Some(pages(engine, threads)? / engine.get(&format!("fio {threads} rate"))?)
}
