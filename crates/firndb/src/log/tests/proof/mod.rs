//! The proof of the store: workloads, an oracle that knows what they wrote, and a disk that loses,
//! keeps, tears and refuses whatever it may.
//!
//! - `work.rs`: a run: a store on a simulated disk, whose history is recorded;
//! - `oracle.rs`: histories, and whether a disk shows a state that a history allows;
//! - `workloads.rs`: more than twenty workloads, each around one feature;
//! - `crash.rs`: power cuts at every operation of each of them, and during recovery;
//! - `failpoints.rs`: planted bugs, each of which must be noticed;
//! - `faults.rs`: every call to the disk fails, once and permanently;
//! - `full.rs`: disks that are full and have room again;
//! - `filesystems.rs`: real file systems that are full or fail, in a child process;
//! - `model.rs`: long random work, compared with a map;
//! - `damage.rs`: every byte of a store changed, every file truncated at every length;
//! - `histories.rs`: what threads saw, checked for linearizability;
//! - `kill.rs`: a process that is killed repeatedly, and power cuts of a real file system.
//!
//! `cargo xtask proof --only log` runs the large version of these tests and prints counts.

mod failpoints;
mod crash;
mod damage;
mod faults;
mod filesystems;
mod full;
mod histories;
mod kill;
mod model;
mod oracle;
mod work;
mod workloads;

use super::{ACCESS, OFFSET_BITS, choose_access};
use crate::log::Options;
use crate::log::failpoints::active;
use crate::testing::Rng;
use std::cell::Cell;

const DIR: &str = "/log";
const BACKUP: &str = "/backup";
/// Number of keys that workloads use.
const KEYS: usize = 8;

thread_local! {
    /// The time of the clock of this thread's stores.
    static NOW: Cell<u64> = const { Cell::new(1_000_000) };
}

fn now() -> u64 {
    NOW.get()
}

/// Segments of a page, no maintenance threads, a clock that stands still.
fn options() -> Options {
    Options {
        segment_bytes: 4096,
        background: false,
        index_bits: 2,
        access: ACCESS.get(),
        offset_bits: OFFSET_BITS.get(),
        clock: now,
        ..Options::default()
    }
}

/// The id of the store of a run. In every second one many keys share hashes.
fn store_id(seed: u64) -> u64 {
    if seed.is_multiple_of(2) { active::coarse(3, seed) } else { seed }
}

fn key(n: usize) -> Vec<u8> {
    format!("key{n}").into_bytes()
}

/// A number from the environment, for runs that are larger than usual.
fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}
