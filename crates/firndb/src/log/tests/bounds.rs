//! Numeric guarantees: false reads, and the bytes that compaction writes.

use super::{DIR, Rng, open, options};
use crate::disk::{DiskRef, SimDisk};
use crate::log::{LogStore, Options};
use std::path::Path;

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
