//! The machine a run was made on, in a line for people.

use std::fs;

/// Processor, cores, memory, kernel; "unknown" where the system does not tell.
pub fn describe() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = value(&cpuinfo, "model name").unwrap_or("unknown processor");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let meminfo = read("/proc/meminfo");
    let kib =
        value(&meminfo, "MemTotal").and_then(|kib| kib.split(' ').next()?.parse::<u64>().ok());
    let memory =
        kib.map_or("unknown memory".into(), |kib| format!("{} GiB", (kib + (1 << 19)) >> 20));
    let kernel = read("/proc/sys/kernel/osrelease");
    let kernel = kernel.split('-').next().filter(|k| !k.trim().is_empty()).unwrap_or("unknown");
    format!("{model}, {cores} core(s), {memory}, kernel {}", kernel.trim())
}

fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_once(':').map(|(_, value)| value.trim())
}

/// Today in UTC, as 2026-01-31.
pub fn today() -> String {
    let now = jiff::Timestamp::now().to_string();
    now.split('T').next().unwrap_or_default().to_string()
}
