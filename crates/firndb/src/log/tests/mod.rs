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
mod golden;
mod hostile;
mod large;
mod model;
mod proof;
mod refresh;
mod repair;

use crate::Result;
use crate::disk::{DiskRef, SimDisk};
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
}

/// Has the stores of this thread read records one way or the other, by a number.
fn choose_access(n: u64) {
    ACCESS.set(if n % 3 == 1 { Access::Buffered } else { Access::Map });
}

/// Options of a store small enough that everything happens in it.
pub(crate) fn options() -> Options {
    Options {
        segment_bytes: 4096,
        background: false,
        index_bits: 2,
        access: ACCESS.get(),
        ..Options::default()
    }
}

pub(crate) fn open(disk: &Arc<SimDisk>) -> Result<LogStore> {
    let disk: DiskRef = Arc::clone(disk) as DiskRef;
    LogStore::open_on(disk, Path::new(DIR), options())
}

/// What a store holds, looked up key by key among `keys`.
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
