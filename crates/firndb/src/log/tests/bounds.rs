//! Numeric guarantees: false reads, and the bytes that compaction writes.

use super::{DIR, Rng, Steps, open, options};
use crate::disk::{DiskRef, SimDisk};
use crate::log::{LogStore, Options};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// 10,000 keys in 26 bits of hash collide as often as 20 million in the default 37.
#[test]
fn a_miss_reads_nothing_in_999_of_1000_cases() {
    let store = open(&SimDisk::new()).unwrap();
    (0..10_000u32).for_each(|n| store.put(n.to_le_bytes(), b"v").unwrap());
    assert!((0..10_000u32).all(|n| store.contains(n.to_le_bytes()).unwrap()));
    let before = store.stats().false_reads;
    assert!((10_000..210_000u32).all(|n| store.get(n.to_le_bytes()).unwrap().is_none()));
    let reads = store.stats().false_reads - before;
    assert!((1..=200).contains(&reads), "{reads} of 200,000 misses read a record");
}

/// Begins with one shard.
fn open_small(disk: &Arc<SimDisk>, read_only: bool) -> LogStore {
    let index = Options { index_bits: 0, index_doublings: 8, ..options() };
    let options = Options { segment_bytes: 1 << 16, read_only, ..index };
    LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(DIR), options).unwrap()
}

#[test]
fn entries_learn_hash_bits_when_a_checkpoint_is_taken() {
    let store = open_small(&SimDisk::new(), false);
    let pages = || &store.writable().lookup.index.pages;
    let misses = || {
        let before = store.stats().false_reads;
        assert!(
            (1 << 30..(1 << 30) + 300_000u32).all(|n| !store.contains(n.to_le_bytes()).unwrap())
        );
        store.stats().false_reads - before
    };
    for n in 0..66_000u32 {
        store.put(n.to_le_bytes(), n.to_be_bytes()).unwrap();
        if n % 1000 == 0 && n < 16_000 {
            while store.maintain().unwrap() {}
            assert!(!pages().is_vague(), "entries have learned");
        }
    }
    assert!(pages().is_vague(), "the index doubled without a checkpoint");
    let before = misses();
    while store.maintain().unwrap() {}
    assert!(!pages().is_vague() && store.writable().maintenance.checkpointed.load(Relaxed) > 0);
    let after = misses();
    assert!(after < before && after <= 130, "{after} of 300,000 misses, {before} before");
    for n in 0..66_000u32 {
        assert_eq!(store.get(n.to_le_bytes()).unwrap().unwrap(), n.to_be_bytes());
    }
}

#[test]
fn a_reader_whose_index_doubled_often_opens_the_store_again() {
    let disk = SimDisk::new();
    let store = open_small(&disk, false);
    let reader = open_small(&disk, true);
    let first = |reader: &LogStore| reader.shared().lookup.index.pages.shape().first;
    for n in 0..140_000u32 {
        store.put(n.to_le_bytes(), n.to_be_bytes()).unwrap();
        if n % 2000 == 0 {
            while store.maintain().unwrap() {}
            assert!(reader.refresh().unwrap());
            let level = reader.shared().lookup.index.pages.base();
            assert!(level <= first(&reader) + 6, "level {level}");
        }
    }
    assert!(reader.refresh().unwrap());
    assert!(first(&reader) > 3, "began anew at level {}", first(&reader));
    for n in 0..140_000u32 {
        assert_eq!(reader.get(n.to_le_bytes()).unwrap().unwrap(), n.to_be_bytes());
    }
}

#[test]
fn write_amplification_stays_within_the_threshold() {
    for threshold in [0.3, 0.5, 0.75] {
        let small = Options { segment_bytes: 1 << 16, ..options() };
        let options = Options { compaction_threshold: threshold, ..small };
        let disk = SimDisk::new() as DiskRef;
        let store = LogStore::open_on(disk, Path::new(DIR), options).unwrap();
        let mut random = Rng(3);
        let update = |n: u32| {
            store.put(n.to_le_bytes(), [7; 100]).unwrap();
            while store.maintain().unwrap() {}
        };
        (0..10_000).for_each(update);
        (0..100_000).for_each(|_| update(random.below(10_000u32)));
        let (stats, most) = (store.stats(), 1.0 / threshold + 0.05);
        assert!(stats.segments_removed > 50, "{} segments", stats.segments_removed);
        let written = stats.write_amplification();
        assert!(
            written > 1.05 && written <= most,
            "{written:.2} at {threshold}, at most {most:.2}"
        );
    }
}

/// Enough entries that several threads load several ranges each.
#[test]
fn a_checkpoint_of_many_keys_is_loaded_whole() {
    const KEYS: u32 = 120_000;
    let disk = SimDisk::new();
    let store = open_small(&disk, false);
    (0..KEYS).for_each(|n| store.put(n.to_le_bytes(), n.to_be_bytes()).unwrap());
    (0..KEYS).step_by(3).for_each(|n| store.put(n.to_le_bytes(), b"new").unwrap());
    (0..KEYS).step_by(7).for_each(|n| assert!(store.delete(n.to_le_bytes()).unwrap()));
    while store.maintain().unwrap() {}
    store.checkpoint().unwrap();
    let (len, live) = (store.len(), store.stats().live_bytes);
    drop(store);
    let store = open_small(&disk, false);
    let recovery = store.stats().recovery;
    let (replayed, segments) = (recovery.hinted_segments, store.stats().segments);
    assert!(replayed * 10 < segments, "hints of {replayed} of {segments} segments were replayed");
    assert_eq!((store.len(), store.stats().live_bytes), (len, live));
    for n in 0..KEYS {
        let expected = match n {
            _ if n % 7 == 0 => None,
            _ if n % 3 == 0 => Some(b"new".to_vec()),
            _ => Some(n.to_be_bytes().to_vec()),
        };
        assert_eq!(store.get(n.to_le_bytes()).unwrap(), expected, "{n}");
    }
    store.verify().unwrap();
}
