//! Tests of the store as a whole, on the simulated disk.

mod basic;
mod crash;
mod features;
mod model;
mod proof;

use super::{LogStore, Options};
use crate::Result;
use crate::disk::{DiskRef, SimDisk};
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

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }
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
