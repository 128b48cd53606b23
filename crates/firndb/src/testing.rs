//! For the tests of all modules: seeded random numbers, and tests that run in a separate process.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit of [`run_child`].
const LIMIT: Duration = Duration::from_secs(300);

/// The SplitMix64 generator (Steele et al. 2014): the same sequence for a seed on every machine.
#[derive(Clone)]
pub(crate) struct Rng(pub u64);

impl Rng {
    /// 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number in `0..n`; `n` is at least 1.
    pub fn below<N: TryInto<u64> + TryFrom<u64>>(&mut self, n: N) -> N {
        let bound = n.try_into().ok().expect("a bound that is not negative");
        N::try_from(self.next() % bound).ok().expect("less than the bound")
    }

    /// True with this probability in percent.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// A random element of `items`.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// Shuffles the items.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        (1..items.len()).rev().for_each(|i| items.swap(i, self.below(i + 1)));
    }

    /// `len` random bytes.
    pub fn fill(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

/// Runs an ignored test in a separate process, which must print "no panic" and end in time.
pub(crate) fn run_child(name: &str) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > LIMIT {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    println!("{output}");
    assert!(status.success() && output.contains("no panic"), "the reader ended with {status}");
}

/// A line of `/proc/self/status` in KiB; `None` where there is no such file.
pub(crate) fn memory(line: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix(line))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}
