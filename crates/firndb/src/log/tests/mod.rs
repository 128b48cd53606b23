//! Tests of the store as a whole, on the simulated disk.

mod basic;
mod bounds;
mod clock;
mod crash;
mod expiry;
mod features;
mod golden;
mod large;
mod model;
mod pace;
mod pending;
mod proof;
mod refresh;

use super::{LogStore, Options};
use crate::Result;
use crate::disk::{DiskRef, SimDisk};
pub(crate) use crate::testing::Rng;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub(crate) const DIR: &str = "/log";

/// Keys and values.
pub(crate) type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Options of a store small enough that everything happens in it.
pub(crate) fn options() -> Options {
    Options { segment_bytes: 4096, background: false, index_bits: 2, ..Options::default() }
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
