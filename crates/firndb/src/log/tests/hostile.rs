//! Files next to the segments with correct checksums and impossible numbers, as a hostile program
//! could write them. They count as damaged: the store opens without them, unchanged.

use super::{DIR, Map, content, open};
use crate::bytes::testing::Forged;
use crate::disk::{Disk, SimDisk};
use crate::log::format::names::CHECKPOINT;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A closed store with hints and a checkpoint, its keys, and its content.
fn victim() -> (Arc<SimDisk>, Vec<Vec<u8>>, Map) {
    let disk = SimDisk::new();
    let keys: Vec<Vec<u8>> = (0..120).map(|n| format!("key {n}").into_bytes()).collect();
    let store = open(&disk).unwrap();
    keys.iter().for_each(|key| store.put(key, [7; 200]).unwrap());
    keys.iter().step_by(3).for_each(|key| assert!(store.delete(key).unwrap()));
    while store.maintain().unwrap() {}
    let map = content(&store, &keys).unwrap();
    store.close().unwrap();
    (disk.fork(), keys, map)
}

/// Writes a number into section 1 of the file and updates the checksums.
fn forge(disk: &SimDisk, path: &Path, at: usize, number: u64) {
    let mut file = Forged(disk.files()[path].clone());
    let section = file.find(1).unwrap();
    file.0[section][at..at + 8].copy_from_slice(&number.to_le_bytes());
    file.seal();
    disk.write_raw(path, &file.0);
}

/// Numbers that overflow, or whose sums do.
const LARGE: [u64; 4] = [u64::MAX, u64::MAX / 2, 1 << 62, 1 << 61];

#[track_caller]
fn is_as_it_was(disk: &Arc<SimDisk>, keys: &[Vec<u8>], map: &Map) {
    let store = open(disk).unwrap();
    assert_eq!(content(&store, keys).unwrap(), *map);
    let bytes: u64 = disk.files().values().map(|bytes| bytes.len() as u64).sum();
    assert!(store.stats().live_bytes < bytes, "{} live bytes", store.stats().live_bytes);
    store.verify().unwrap();
}

#[test]
fn a_checkpoint_with_impossible_numbers_is_ignored() {
    let (disk, keys, map) = victim();
    let path = Path::new(DIR).join(CHECKPOINT);
    // Per segment: its number, the entries of its hint, its live bytes.
    let segments = (Forged(disk.files()[&path].clone()).find(1).unwrap().len() - 16) / 24;
    assert!(segments > 2, "{segments}");
    for number in LARGE {
        for field in [8, 16] {
            let forged = disk.fork();
            forge(&forged, &path, 16 + field, number);
            is_as_it_was(&forged, &keys, &map);
            for segment in 0..segments {
                forge(&forged, &path, 16 + segment * 24 + field, number);
            }
            is_as_it_was(&forged, &keys, &map);
        }
    }
}

#[test]
fn a_hint_with_impossible_numbers_is_ignored() {
    let (disk, keys, map) = victim();
    let is_hint = |path: &PathBuf| path.extension().is_some_and(|end| end == "hint");
    let hints: Vec<PathBuf> = disk.files().into_keys().filter(is_hint).collect();
    assert!(hints.len() > 2);
    for number in LARGE {
        // The end of the records, the bytes of puts, those of deletes.
        for field in [16, 24, 32] {
            let forged = disk.fork();
            hints.iter().for_each(|path| forge(&forged, path, field, number));
            is_as_it_was(&forged, &keys, &map);
            // Without the checkpoint the hint is read.
            forged.remove(&Path::new(DIR).join(CHECKPOINT)).unwrap();
            is_as_it_was(&forged, &keys, &map);
        }
    }
}

#[test]
fn counts_that_are_too_low_do_not_wrap() {
    let (disk, keys, mut map) = victim();
    let is_hint = |path: &PathBuf| path.extension().is_some_and(|end| end == "hint");
    disk.remove(&Path::new(DIR).join(CHECKPOINT)).unwrap();
    for path in disk.files().into_keys().filter(is_hint) {
        (24..=32).step_by(8).for_each(|field| forge(&disk, &path, field, 0));
    }
    let store = open(&disk).unwrap();
    for key in keys.iter().step_by(2) {
        store.put(key, b"new").unwrap();
        map.insert(key.clone(), b"new".to_vec());
    }
    // Each new segment's link has the sum over all others.
    store.compact(0.01).unwrap();
    while store.maintain().unwrap() {}
    assert_eq!(content(&store, &keys).unwrap(), map);
    assert!(store.stats().live_bytes < 1 << 20, "{} live bytes", store.stats().live_bytes);
}
