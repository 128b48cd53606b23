//! What the statistics say of compaction.

use super::{DIR, open, options};
use crate::disk::{DiskRef, SimDisk};
use crate::log::tests::Steps;
use crate::log::{LogStore, Options, SegmentStats, Stats};
use std::path::Path;

/// Puts 60 keys into two segments or more, seals them, and begins another one.
fn filled(store: &LogStore) -> Stats {
    (0..60u8).for_each(|n| store.put([n], [n; 100]).unwrap());
    store.sync().unwrap();
    store.roll().unwrap();
    while store.seal().unwrap() {}
    store.roll().unwrap();
    // Compaction may take a segment when a link states that it is durable.
    store.sync().unwrap();
    store.roll().unwrap();
    store.stats()
}

#[test]
fn segments_report_what_compaction_would_free() {
    let store = open(&SimDisk::new()).unwrap();
    let stats = filled(&store);
    assert_eq!(stats.segment_stats.len() as u64, stats.segments);
    assert!(stats.segment_stats.is_sorted_by_key(|segment| segment.number));
    let sum = |of: fn(&SegmentStats) -> u64| stats.segment_stats.iter().map(of).sum::<u64>();
    assert_eq!(sum(|segment| segment.disk_bytes), stats.disk_bytes);
    assert_eq!(sum(|segment| segment.live_bytes), stats.live_bytes);
    let full: Vec<_> = stats.segment_stats.iter().filter(|s| s.live_bytes > 3000).collect();
    assert!(!full.is_empty() && full.iter().all(|s| s.is_sealed && s.stale_share < 0.1));
    let active = stats.segment_stats.last().unwrap();
    assert!(!active.is_sealed && active.used_bytes < active.disk_bytes);
    // Two thirds of the first segments become stale; deletes are counted.
    (0..20u8).for_each(|n| store.put([n], [1; 10]).unwrap());
    (20..40u8).for_each(|n| assert!(store.delete([n]).unwrap()));
    let after = store.stats();
    let first = after.segment_stats[0];
    assert!(first.is_sealed && first.stale_share > 0.9, "{first:?}");
    let deletes: u64 = after.segment_stats.iter().map(|segment| segment.delete_bytes).sum();
    assert!((20 * 6..20 * 10).contains(&deletes), "{deletes} bytes of deletes");
    let stale = |s: &&SegmentStats| s.is_sealed && s.stale_share >= 0.5;
    let pending = after.segment_stats.iter().filter(stale).count() as u64;
    assert!(pending > 0 && after.pending_segments == pending, "{after:?}");
}

#[test]
fn compaction_counts_what_it_did() {
    let options = Options { compaction_threshold: 0.3, ..options() };
    let disk = SimDisk::new() as DiskRef;
    let store = LogStore::open_on(disk, Path::new(DIR), options).unwrap();
    filled(&store);
    (0..60u8).step_by(2).for_each(|n| store.put([n], [1; 10]).unwrap());
    let before = store.stats();
    assert_eq!((before.moved_records, before.scanned_records, before.removed_bytes), (0, 0, 0));
    let pending = before.pending_segments;
    assert!(pending > 0);
    while store.compact_step().unwrap() {}
    let after = store.stats();
    assert_eq!(after.segments_removed, pending);
    assert_eq!((after.scanned_records, after.moved_records), (60, 30), "half of them are stale");
    assert!(after.removed_bytes > after.moved_bytes && after.moved_bytes > 30 * 100);
    assert!(after.compaction_seconds > 0.0 && after.compaction_seconds < after.seconds);
    assert_eq!((after.pending_segments, after.is_compacting), (0, false));
}

#[test]
fn an_interval_has_the_counts_between_two_states() {
    let store = open(&SimDisk::new()).unwrap();
    let before = filled(&store);
    (0..10u8).for_each(|n| store.put([n], [1; 10]).unwrap());
    store.delete([50]).unwrap();
    store.compact(0.0).unwrap();
    let after = store.stats();
    let interval = after.since(&before);
    assert_eq!((interval.puts, interval.deletes, after.puts), (10, 1, 70));
    assert_eq!(interval.moved_records, after.moved_records);
    assert_eq!((interval.keys, interval.segments), (after.keys, after.segments), "not counts");
    assert!(interval.seconds > 0.0 && interval.seconds < after.seconds);
    assert_eq!(interval.write_rate(), 11.0 / interval.seconds);
    assert_eq!(interval.compaction_rate(), after.moved_bytes as f64 / interval.seconds);
    assert_eq!(interval.log_rate(), interval.log_bytes as f64 / interval.seconds);
    let none = after.since(&after);
    assert_eq!((none.puts, none.log_bytes, none.seconds, none.write_rate()), (0, 0, 0.0, 0.0));
}
