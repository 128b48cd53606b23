//! Describes the machine of a run.

use memmap2::{Advice, MmapMut};
use std::fs;

/// Processor, cores, memory, kernel; "unknown" where the system does not report it.
pub fn describe() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = value(&cpuinfo, "model name").unwrap_or("unknown processor");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let gib = |bytes: u64| format!("{} GiB", (bytes + (1 << 29)) >> 30);
    let memory = memory().map_or("unknown memory".into(), gib);
    let kernel = read("/proc/sys/kernel/osrelease");
    let kernel = kernel.split('-').next().filter(|k| !k.trim().is_empty()).unwrap_or("unknown");
    format!("{model}, {cores} core(s), {memory}, kernel {}", kernel.trim())
}

/// Total memory in bytes, if the system reports it.
fn memory() -> Option<u64> {
    meminfo("MemTotal")
}

/// Available memory in bytes, if the system reports it.
pub fn available_memory() -> Option<u64> {
    meminfo("MemAvailable")
}

fn meminfo(what: &str) -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
    let kib: u64 = value(&meminfo, what)?.split(' ').next()?.parse().ok()?;
    Some(kib << 10)
}

/// Touches this much memory, at most a quarter of all, and frees it. The host of a virtual machine
/// may have reclaimed free memory, and returns it page by page on access. Uses huge pages, the unit
/// in which hosts reclaim.
pub fn fetch_memory(bytes: u64) {
    let most = memory().map_or(0, |all| all / 4);
    // If the allocation fails, the run measures without this step.
    if let Ok(mut map) = MmapMut::map_anon(bytes.min(most) as usize) {
        let _ = map.advise(Advice::HugePage);
        map.fill(1);
    }
}

fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_once(':').map(|(_, value)| value.trim())
}

/// Today's date in UTC, as 2026-01-31.
pub fn today() -> String {
    let now = jiff::Timestamp::now().to_string();
    now.split('T').next().unwrap_or_default().to_string()
}
