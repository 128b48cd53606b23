//! Table files, including those with approximate lookups.

use crate::mutate::Rng;
use crate::place;
use firndb::table::{Access, ApproximateTable, Table};
use std::ops::ControlFlow;
use xxhash_rust::xxh3::xxh3_64;

/// Maximum number of records whose keys are looked up.
const KEYS: usize = 40;

pub fn run(data: &[u8]) {
    let mut rng = Rng::new(xxh3_64(data));
    let path = place::file("a.table", data);
    let _ = firndb::inspect(&path);
    let access = [Access::Map, Access::Map, Access::Resident, Access::Buffered][rng.below(4)];
    if let Ok(table) = ApproximateTable::open_with(&path, access) {
        let keys: Vec<String> = (0..KEYS).map(|n| format!("key {n}")).collect();
        for key in &keys {
            let _ = (table.get(key.as_bytes()), table.contains(key.as_bytes()));
        }
        let _ = (table.get_many(&keys), table.metadata(), table.verify());
        let _ = (table.len(), table.stats());
    }
    let Ok(table) = Table::open_with(&path, access) else { return };
    let mut keys = vec![Vec::new(), b"Oslo".to_vec()];
    if rng.one_in(2) {
        // Keys found by a scan are looked up with gets.
        let parts = 1 + rng.below(3) as u64;
        for part in 0..parts {
            let _ = table.scan(part, parts, |key, _| {
                keys.push(key.to_vec());
                if keys.len() < KEYS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
        }
    }
    keys.extend((0..KEYS / 4).map(|_| format!("key {}", rng.below(1_500)).into_bytes()));
    // Twice: the second pass uses the index of blocks already checked.
    for key in keys.iter().chain(&keys) {
        let _ = (table.get(key), table.contains(key));
    }
    let _ = table.get_many(&keys);
    let _: firndb::Result<()> = table.read_many(&keys, |_, _| Ok(()));
    for key in keys.iter().take(KEYS / 4) {
        // Errors unless the table is in key order.
        let ranges = [table.range(&key[..]..), table.range(..&key[..]), table.prefix(key)];
        for range in ranges.into_iter().flatten() {
            let range = if rng.one_in(2) { range.reversed() } else { range };
            let _ = range.take(500).filter(|record| record.is_err()).count();
        }
    }
    let _ = table.iter().take(2_000).filter(|record| record.is_err()).count();
    let _ = (table.metadata(), table.value_schema(), table.stats(), table.len());
    if rng.one_in(2) {
        let _ = firndb::verify(&path, |_, _| {});
    }
}
