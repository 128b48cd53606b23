//! Random reads of 4 KiB past the page cache: what the disk itself can do. Works without `fio`.

use firndb_bench_protocol::Result;
use firndb_bench_protocol::rng::Rng;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a read, and their alignment.
const PAGE: usize = 4096;

/// Maximum number of files that are read.
const FILES: usize = 500;

/// Reads per second from the segments in `dir`, by threads that each wait for one read at a time.
/// Errors: there is no segment; the file system does not support direct reads.
pub fn reads(dir: &Path, threads: u64, millis: u64) -> Result<f64> {
    let files = segments(dir)?;
    let pages: Vec<u64> = files.iter().map(|(_, pages)| *pages).collect();
    let all: u64 = pages.iter().sum();
    if all == 0 {
        return Err("there is no segment to read from".into());
    }
    let (done, start) = (AtomicU64::new(0), Instant::now());
    let time = Duration::from_millis(millis);
    let one = |thread: u64| -> Result<()> {
        let (mut memory, mut rng) = (vec![0u8; 2 * PAGE], Rng::new(8, thread, 0));
        let at = memory.as_ptr().align_offset(PAGE);
        while start.elapsed() < time {
            let mut page = rng.below(all);
            let file = pages.iter().position(|&pages| {
                let is_here = page < pages;
                page -= if is_here { 0 } else { pages };
                is_here
            });
            let (file, _) = &files[file.unwrap_or(0)];
            file.read_exact_at(&mut memory[at..at + PAGE], page * PAGE as u64)?;
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let one = &one;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|n| scope.spawn(move || one(n))).collect();
        threads.into_iter().try_for_each(|t| t.join().map_err(|_| "a thread panicked")?)
    })?;
    Ok(done.into_inner() as f64 / start.elapsed().as_secs_f64())
}

/// The segments, opened for direct reads, with their numbers of whole pages.
fn segments(dir: &Path) -> Result<Vec<(File, u64)>> {
    let mut files = Vec::new();
    for entry in dir.read_dir()? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") && files.len() < FILES {
            let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
            let file = File::options().read(true).custom_flags(direct).open(&path)?;
            let pages = file.metadata()?.len() / PAGE as u64;
            files.push((file, pages));
        }
    }
    Ok(files)
}
