//! The share of the machine in the longest operations: delays of threads, and time that the
//! hypervisor takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Nanoseconds of all processors that the hypervisor has taken away since boot, as far as the
/// kernel knows: in ticks of 10 ms (proc_stat(5)).
pub fn stolen() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = text.lines().next().and_then(|all| all.split_whitespace().nth(8)?.parse().ok());
    ticks.unwrap_or(0.0) * 10e6
}

/// A thread that only sleeps: its largest delay is the machine's share in the longest put.
pub struct Sleeper {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Sleeper {
    /// Starts the thread.
    pub fn start() -> Sleeper {
        let is_over = Arc::new(AtomicBool::new(false));
        let its = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            let (nap, mut latest) = (Duration::from_millis(1), Duration::ZERO);
            while !its.load(Ordering::Relaxed) {
                let start = Instant::now();
                std::thread::sleep(nap);
                latest = latest.max(start.elapsed() - nap);
            }
            latest
        });
        Sleeper { is_over, thread }
    }

    /// The largest delay in nanoseconds.
    pub fn stop(self) -> u128 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default().as_nanos()
    }
}
