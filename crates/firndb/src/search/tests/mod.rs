//! The proof that a collection is right: against a naive model, damaged bytes, power cuts, faults.
//!
//! - `model.rs`: random questions about random collections, answered as `naive.rs` answers them
//!   (`world.rs` makes the collections, `ask.rs` the questions);
//! - `bundle.rs`: partitions merged in memory answer as they do one by one;
//! - `compact.rs`: small partitions are merged, and no answer changes;
//! - `change.rs`: merging, replacing, determinism, readers of old sets, threads;
//! - `points.rs`: windows over points of two fields;
//! - `scans.rs`: keys whose documents are in the column alone; `bins.rs` and `bitsets.rs`: other
//!   forms of postings;
//! - `keep.rs`: what changes carry over, and what they leave in the directory;
//! - `files.rs`: partition files without a collection;
//! - `corrupt.rs`: every byte damaged; `hostile.rs`: damage with checksums that fit;
//! - `forged.rs`: forged sections that ask for a panic or for memory without end;
//! - `verify.rs`: files that contradict themselves with checksums that fit;
//! - `refuse.rs`: what must be refused, and the empty collection;
//! - `crash.rs`: power cuts and failing calls at every operation of every change.

mod ask;
mod bins;
mod bitsets;
mod bundle;
mod change;
mod compact;
mod corrupt;
mod crash;
mod files;
mod forged;
mod hostile;
mod keep;
mod model;
mod naive;
mod payloads;
mod points;
mod refuse;
mod scans;
mod shelf;
mod verify;
mod world;

use super::Collection;
use crate::disk::{DiskRef, SimDisk};
use std::path::Path;
use std::sync::Arc;

/// Where collections of tests are on their simulated disks.
const DIR: &str = "/collection";

/// A collection on a simulated disk.
struct Store {
    disk: Arc<SimDisk>,
    collection: Collection,
}

/// A new, empty collection.
fn store() -> Store {
    let disk = SimDisk::new();
    let collection = create(&disk).unwrap();
    Store { disk, collection }
}

fn create(disk: &Arc<SimDisk>) -> crate::Result<Collection> {
    Collection::create_on(disk.clone() as DiskRef, Path::new(DIR))
}

fn open(disk: &Arc<SimDisk>) -> crate::Result<Collection> {
    Collection::open_on(disk.clone() as DiskRef, Path::new(DIR))
}

/// A number of the environment, decimal or `0x...`.
fn number_from_env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    Some(number.unwrap_or_else(|_| panic!("{name}={text} is no number")))
}
