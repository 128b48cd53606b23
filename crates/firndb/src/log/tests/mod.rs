//! Tests of the store as a whole, on the simulated disk.

mod access;
mod backpressure;
mod backup;
mod basic;
mod bounds;
mod clock;
mod crash;
mod deferred_put;
mod directory;
mod expiry;
mod features;
mod foreign;
mod full_index;
mod full_log;
mod golden;
mod hostile;
mod large;
mod merged_runs;
mod model;
mod ordered;
mod ordered_admin;
mod ordered_beside;
mod ordered_crash;
mod ordered_damage;
mod promotion;
mod proof;
mod refresh;
mod repair;
mod scan_from;
mod small;
mod stats;
mod versions;

use crate::Result;
use crate::disk::{DiskRef, SimDisk};
use crate::log::maintenance::{checkpoint, compaction, seal};
use crate::log::segments::reserve::Need;
use crate::log::segments::segment::Segment;
use crate::log::state::shared::WriterGuard;
use crate::log::write::{active_segment, settle};
use crate::log::{Access, LogStore, Options};
pub(crate) use crate::testing::Rng;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub(crate) const DIR: &str = "/log";

/// Keys and values.
pub(crate) type Map = BTreeMap<Vec<u8>, Vec<u8>>;

thread_local! {
    /// How the stores of this thread read records.
    static ACCESS: Cell<Access> = const { Cell::new(Access::Map) };
    /// Segments of more than 2^this bytes are aligned.
    static OFFSET_BITS: Cell<u32> = const { Cell::new(crate::log::options::OFFSET_BITS) };
}

/// Sets how the stores of this thread read records, and whether records are aligned, by a number.
fn choose_access(n: u64) {
    ACCESS.set(if n % 3 == 1 { Access::Buffered } else { Access::Map });
    OFFSET_BITS.set(if n % 3 == 2 { 10 } else { crate::log::options::OFFSET_BITS });
}

/// Options of a store so small that everything happens in it.
pub(crate) fn options() -> Options {
    Options {
        segment_bytes: 4096,
        background: false,
        index_bits: 2,
        access: ACCESS.get(),
        offset_bits: OFFSET_BITS.get(),
        ..Options::default()
    }
}

pub(crate) fn open(disk: &Arc<SimDisk>) -> Result<LogStore> {
    let disk: DiskRef = Arc::clone(disk) as DiskRef;
    LogStore::open_on(disk, Path::new(DIR), options())
}

/// The content of a store, looked up key by key.
pub(crate) fn content(store: &LogStore, keys: &[Vec<u8>]) -> Result<Map> {
    let mut map = Map::new();
    for key in keys {
        if let Some(value) = store.get(key)? {
            map.insert(key.clone(), value);
        }
    }
    assert_eq!(store.len(), map.len() as u64);
    Ok(map)
}

/// The steps of a store, which tests drive one by one.
pub(crate) trait Steps {
    /// The writer with all puts settled.
    fn lock(&self) -> Result<WriterGuard<'_>>;
    /// Begins a new segment.
    fn roll(&self) -> Result<()>;
    /// Seals the oldest full segment.
    fn seal(&self) -> Result<bool>;
    fn checkpoint(&self) -> Result<()>;
    fn compact_step(&self) -> Result<bool>;
    /// Compacts a segment.
    fn evacuate(&self, segment: &Arc<Segment>) -> Result<()>;
    fn link_stale(&self, threshold: f64, newest: u64) -> Result<()>;
}

impl Steps for LogStore {
    fn lock(&self) -> Result<WriterGuard<'_>> {
        settle::lock_settled(self.writable())
    }

    fn roll(&self) -> Result<()> {
        active_segment::roll(self.writable(), &mut *self.lock()?, (0, 0), Need::Fill)
    }

    fn seal(&self) -> Result<bool> {
        seal::seal(self.writable())
    }

    fn checkpoint(&self) -> Result<()> {
        checkpoint::write_checkpoint(self.writable())
    }

    fn compact_step(&self) -> Result<bool> {
        compaction::compact_step(self.writable())
    }

    fn evacuate(&self, segment: &Arc<Segment>) -> Result<()> {
        compaction::evacuate(self.writable(), segment)
    }

    fn link_stale(&self, threshold: f64, newest: u64) -> Result<()> {
        compaction::link_stale(self.writable(), threshold, newest)
    }
}
