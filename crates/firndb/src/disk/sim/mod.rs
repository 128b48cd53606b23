//! A disk in memory that fails and loses data as a real one may.
//!
//! It keeps two views: what a running process sees, and what would survive power loss. `sync` moves
//! bytes to the second view, `sync_dir` moves names, and nothing else does. Calls are numbered
//! operations, starting at 0. A test can fail any operation ([`Fault`]), or cut the power before it
//! and inspect the states in which the disk may be after the reboot ([`SimDisk::images`]). The
//! sweeps in `sweep.rs` do this for all operations one after another:
//!
//! ```text
//! let base = SimDisk::new();                      // prepare the initial state
//! base.each_crash(SEED, 20, |disk| workload(disk), |label, acknowledged, image| ...);
//! ```

mod append_map;
mod calls;
mod held_dir;
mod hook_disk;
mod image;
mod state;
mod sweep;
mod tests;

pub(crate) use hook_disk::HookDisk;
pub(crate) use state::{Fault, SimDisk};
