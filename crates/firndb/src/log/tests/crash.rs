//! Power cuts and failing calls at every operation of a workload.
//!
//! Invariant: the store has the state after some prefix of the writes, which includes all that were
//! acknowledged as durable.

use super::{Map, Rng, content, open};
use crate::disk::SimDisk;
use crate::log::{Batch, WriteOptions};
use crate::{ErrorKind, Result};
use std::sync::Arc;

/// The progress of the workload: the content after 0, 1, 2, ... writes, and the number of writes
/// that are durable.
#[derive(Debug)]
struct Progress {
    states: Vec<Map>,
    durable: usize,
    /// A write that returned an error may have happened or not.
    last: Option<Map>,
}

fn keys() -> Vec<Vec<u8>> {
    (0..12).map(|n| vec![b'k', n]).collect()
}

/// Puts, deletes and batches, some of them durable, with maintenance and compaction in between.
/// Ends at the first error.
fn work(disk: &Arc<SimDisk>, seed: u64, steps: u64) -> Progress {
    let mut random = Rng(seed);
    let mut progress = Progress { states: vec![Map::new()], durable: 0, last: None };
    let Ok(store) = open(disk) else { return progress };
    let keys = keys();
    progress.states = vec![content(&store, &keys).unwrap_or_default()];
    for step in 0..steps {
        let mut next = progress.states.last().unwrap().clone();
        let key = &keys[random.below(12) as usize];
        let options = match random.below(4) {
            0 => WriteOptions::sync(),
            _ => WriteOptions::default(),
        };
        let value = vec![step as u8; random.below(1200) as usize];
        let done: Result<()> = match random.below(10) {
            0..5 => {
                next.insert(key.clone(), value.clone());
                store.put_with(key, &value, options)
            }
            5..7 => {
                next.remove(key);
                store.delete_with(key, options).map(|_| ())
            }
            7 => {
                let mut batch = Batch::new();
                for key in &keys[..3] {
                    batch.push_put(key, [step as u8; 100]);
                    next.insert(key.clone(), vec![step as u8; 100]);
                }
                batch.push_delete(&keys[4]);
                next.remove(&keys[4]);
                store.write_with(&batch, options)
            }
            8 => store.maintain().map(|_| ()),
            _ => store.compact(0.3).map(|_| ()),
        };
        match done {
            Ok(()) => {
                progress.states.push(next);
                if options == WriteOptions::sync() {
                    let is_write = progress.states.len() > 1;
                    let wrote = is_write.then_some(progress.states.len() - 1);
                    let same = |n: usize| progress.states[n] == progress.states[n - 1];
                    // Maintenance and the delete of an absent key are not writes.
                    progress.durable = wrote.filter(|&n| !same(n)).unwrap_or(progress.durable);
                }
            }
            Err(_) => {
                progress.last = Some(next);
                break;
            }
        }
    }
    progress
}

#[track_caller]
fn check(label: &str, progress: &Progress, image: &Arc<SimDisk>) {
    let store = open(image).unwrap_or_else(|e| panic!("{label}: {e}"));
    let found = content(&store, &keys()).unwrap_or_else(|e| panic!("{label}: {e}"));
    let allowed = progress.states[progress.durable..].iter().chain(&progress.last);
    assert!(
        allowed.into_iter().any(|state| *state == found),
        "{label}: not one of the states from {} to {}",
        progress.durable,
        progress.states.len()
    );
    // The store continues from there.
    store.put(b"after", b"wards").unwrap_or_else(|e| panic!("{label}: {e}"));
    store.close().unwrap_or_else(|e| panic!("{label}: {e}"));
    let store = open(image).unwrap_or_else(|e| panic!("{label}, again: {e}"));
    let mut expected = found;
    expected.insert(b"after".to_vec(), b"wards".to_vec());
    let keys: Vec<Vec<u8>> = keys().into_iter().chain([b"after".to_vec()]).collect();
    let found = content(&store, &keys).unwrap();
    assert!(found == expected, "{label}, again: {:?} of {:?}", found.keys(), expected.keys());
}

#[test]
fn a_power_cut_leaves_a_prefix_with_all_durable_writes() {
    let mut images = 0;
    for seed in 0..4 {
        let base = SimDisk::new();
        images += base.each_crash(
            seed,
            12,
            |disk| work(&disk, seed, 40),
            |label, progress, image| check(&format!("seed {seed}, {label}"), progress, &image),
        );
    }
    assert!(images > 5000, "{images}");
}

#[test]
fn a_power_cut_during_recovery_does_no_harm() {
    let mut images = 0;
    for seed in 10..13 {
        let whole = SimDisk::new();
        work(&whole, seed, 40);
        for cut in (0..whole.ops()).step_by(23) {
            let disk = SimDisk::new();
            disk.crash_at(cut);
            let progress = work(&disk, seed, 40);
            for (label, image) in disk.images(seed, 4) {
                images += image.each_crash(
                    seed,
                    3,
                    |disk| drop(open(&disk)),
                    |again, _, image| check(&format!("{label}, then {again}"), &progress, &image),
                );
            }
        }
    }
    assert!(images > 1000, "{images}");
}

#[test]
fn a_failing_call_is_reported_and_leaves_a_prefix() {
    let mut runs = 0;
    for seed in 20..22 {
        runs += SimDisk::new().each_fault(
            |disk| work(&disk, seed, 30),
            |label, progress, disk| {
                check(&format!("{label}, reopened"), progress, &disk.fork());
                for (cut, image) in disk.images(seed, 4) {
                    check(&format!("{label}, then {cut}"), progress, &image);
                }
            },
        );
    }
    assert!(runs > 500, "{runs}");
}

#[test]
fn after_a_failed_sync_nothing_is_written_until_reopened() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    store.put_with(b"a", b"1", WriteOptions::sync()).unwrap();
    disk.fail_at(disk.ops() + 3, crate::disk::Fault::Io);
    let error = store.put_with(b"b", b"2", WriteOptions::sync()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    for error in [
        store.put(b"c", b"3").unwrap_err(),
        store.delete(b"a").map(|_| ()).unwrap_err(),
        store.sync().unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
        assert!(error.message().contains("open the store again"), "{error}");
    }
    assert_eq!(store.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    let syncs = disk.log().iter().filter(|line| line.contains(": sync ")).count();
    drop(store);
    let after = disk.log().iter().filter(|line| line.contains(": sync ")).count();
    assert_eq!(syncs, after, "a failed sync is not repeated");
    assert_eq!(open(&disk).unwrap().get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
}

/// A log that appends to a sector cannot survive a drive that destroys the sector while rewriting
/// it. Such a loss is an error where the end of the log is known, and never a wrong value.
#[test]
fn a_destroyed_sector_never_gives_a_wrong_value() {
    let (mut lost, mut reported) = (0, 0);
    for seed in 0..40u64 {
        let disk = SimDisk::new();
        let mut store = open(&disk).unwrap();
        (0..seed as u8 % 20).for_each(|n| store.put([n], [n; 90]).unwrap());
        store.put(b"synced", b"value").unwrap();
        store.sync().unwrap();
        let is_known = seed % 2 == 0;
        if is_known {
            store.close().unwrap(); // Records the durable end.
            store = open(&disk).unwrap();
        }
        store.put(b"later", b"value").unwrap();
        match open(&disk.spoiled_sectors(seed)) {
            Ok(found) => {
                let value = found.get(b"synced").unwrap();
                assert!(!is_known || value.is_some(), "seed {seed}: a loss that is known of");
                assert!(value.is_none_or(|value| value == b"value"), "seed {seed}");
                let right = |n: u8| found.get([n]).unwrap().is_none_or(|value| value == [n; 90]);
                assert!((0..20).all(right), "seed {seed}");
                lost += 1;
            }
            Err(e) => {
                assert_eq!(e.kind(), crate::ErrorKind::Corrupt, "seed {seed}: {e}");
                reported += 1;
            }
        }
    }
    println!("destroyed sectors: {lost} openings without a record, {reported} errors");
    assert!(lost > 0 && reported > 10);
}
