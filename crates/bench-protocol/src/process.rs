//! Statistics of this process and of directories, from the operating system. Zero where they are
//! not available (not Linux).

use crate::Result;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// CPU time of all threads of this process so far, user and system, to the nearest 10 ms.
pub fn cpu_time() -> Duration {
    // utime and stime.
    let ticks: u64 = stat().iter().skip(11).take(2).sum();
    Duration::from_millis(ticks * 10)
}

/// Page faults of this process so far that waited for a read from disk.
pub fn major_faults() -> u64 {
    stat().get(9).copied().unwrap_or(0)
}

/// The fields of `/proc/self/stat` after the name in parentheses, which may contain any character.
/// What is no number is 0.
fn stat() -> Vec<u64> {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    fields.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect()
}

/// CPU time of this thread so far.
pub fn thread_time() -> Duration {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Bytes that this process has read from disks so far.
pub fn bytes_read() -> u64 {
    io("read_bytes: ")
}

/// Bytes of file pages that this process has dirtied so far; a page written again before writeback
/// counts once.
pub fn bytes_written() -> u64 {
    io("write_bytes: ")
}

fn io(key: &str) -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0)
}

/// Peak resident memory of this process, in bytes.
pub fn peak_memory() -> u64 {
    status("VmHWM:")
}

/// Current anonymous memory of this process, in bytes.
pub fn anonymous_memory() -> u64 {
    status("RssAnon:")
}

/// Current file-backed memory of this process (touched pages of its maps), in bytes.
pub fn mapped_memory() -> u64 {
    status("RssFile:")
}

fn status(key: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().map_or(0, |kib| kib * 1024)
}

/// Bytes of the files in a directory, recursively.
pub fn disk_usage(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        bytes += if meta.is_dir() { disk_usage(&entry.path())? } else { meta.len() };
    }
    Ok(bytes)
}

/// [`disk_usage`] by allocated blocks: holes do not count, preallocated space does.
pub fn disk_allocated(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let meta = match entry.metadata() {
            // Compaction removed the file since the directory was read.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            meta => meta?,
        };
        bytes += if meta.is_dir() { disk_allocated(&entry.path())? } else { allocated(&meta) };
    }
    Ok(bytes)
}

/// Writes back the files in a directory and evicts them from the page cache, except for pages that
/// a process has mapped. Runs `dd`, so that this crate needs no dependencies.
pub fn forget_pages(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        fs::File::open(&path)?.sync_all()?;
        let mut dd = std::process::Command::new("dd");
        let input = format!("if={}", path.display());
        dd.args([input.as_str(), "iflag=nocache", "count=0", "status=none"]);
        if !dd.status()?.success() {
            return Err("dd could not drop the page cache".into());
        }
    }
    Ok(())
}

#[cfg(unix)]
fn allocated(meta: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(meta) * 512
}

#[cfg(not(unix))]
fn allocated(meta: &fs::Metadata) -> u64 {
    meta.len()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn process_statistics_are_available() {
        let block = vec![1u8; 32 << 20];
        assert!(anonymous_memory() >= block.len() as u64);
        assert!(peak_memory() >= anonymous_memory() / 2);
        let busy = std::time::Instant::now();
        while cpu_time() < Duration::from_millis(20) {
            assert!(busy.elapsed() < Duration::from_secs(60), "no CPU time was counted");
        }
    }
}
