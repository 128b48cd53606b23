//! What a merge of key runs may drop.

use super::{DIR, Map, Steps, options};
use crate::Result;
use crate::disk::{Disk, DiskRef, SimDisk};
use crate::log::format::names::{hint_file, key_run_file};
use crate::log::{LogStore, Options};
use std::path::Path;
use std::sync::Arc;

fn try_open(disk: &Arc<SimDisk>) -> Result<LogStore> {
    let disk: DiskRef = Arc::clone(disk) as DiskRef;
    LogStore::open_on(disk, Path::new(DIR), Options { ordered: true, ..options() })
}

fn open(disk: &Arc<SimDisk>) -> LogStore {
    try_open(disk).unwrap()
}

/// Both kinds of scans show the same records.
#[track_caller]
fn check(store: &LogStore, label: &str) {
    let expected: Map = store.iter().map(Result::unwrap).collect();
    let found: Vec<_> = store.range(..).unwrap().map(Result::unwrap).collect();
    assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{label}");
}

fn maintain(store: &LogStore) {
    while store.maintain().unwrap() {}
}

/// A store with the key runs of seven segments, and one segment that is not sealed.
fn seven_runs(disk: &Arc<SimDisk>) -> LogStore {
    let store = open(disk);
    for n in 0..8u8 {
        if n > 0 {
            store.roll().unwrap();
        }
        store.put([n], [n; 100]).unwrap();
        store.put([n, n], [n; 100]).unwrap();
    }
    maintain(&store);
    store
}

/// Writes that make entries stale are followed by a merge of all runs.
fn merge_over_new_writes(disk: &Arc<SimDisk>) -> Result<()> {
    let store = try_open(disk)?;
    store.roll()?;
    (0..8u8).try_for_each(|n| store.put([n], b"again"))?;
    store.delete([3, 3])?;
    while store.maintain()? {}
    Ok(())
}

#[test]
fn a_power_cut_does_not_make_a_dropped_entry_current() {
    let base = SimDisk::new();
    seven_runs(&base).close().unwrap();
    let mut images = 0;
    for seed in 0..4 {
        images += base.each_crash(
            seed,
            8,
            |disk| drop(merge_over_new_writes(&disk)),
            |label, (), image| check(&open(&image), label),
        );
    }
    assert!(images > 100, "{images}");
}

#[test]
fn runs_around_a_segment_without_one_are_not_merged() {
    let disk = SimDisk::new();
    seven_runs(&disk).close().unwrap();
    let gone = |name: String| disk.remove(&Path::new(DIR).join(name)).unwrap();
    gone(key_run_file((3, 3)));
    gone(hint_file(3));
    let store = open(&disk);
    for n in 8..12u8 {
        store.put([n], [n; 100]).unwrap();
        store.roll().unwrap();
        check(&store, "not maintained");
    }
    // Without sealing the third segment.
    while crate::log::maintenance::key_order::order_step(store.writable()).unwrap() {
        check(&store, "runs were written");
    }
    check(&open(&disk.fork()), "opened again");
    maintain(&store);
    check(&open(&disk.fork()), "maintained");
    store.close().unwrap();
    check(&open(&disk), "closed");
}
