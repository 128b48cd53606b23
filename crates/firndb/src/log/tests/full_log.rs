//! A store with all segments that it can have: puts fail before anything is appended, and deletes,
//! compaction and openings go on. The number of segments and the bits of an offset are narrow here.

use super::{DIR, options};
use crate::disk::{Disk, DiskRef, SimDisk};
use crate::log::{Batch, LogStore, Options};
use crate::{ErrorKind, Result};
use std::path::Path;
use std::sync::Arc;

/// As with 14 and 26 bits, the largest segments are 2^7 times as long as unaligned ones.
const SEGMENTS: usize = 64;
const OFFSET_BITS: u32 = 13;

fn open(disk: &Arc<SimDisk>) -> LogStore {
    let segments = Options { segments_max: SEGMENTS, offset_bits: OFFSET_BITS, ..options() };
    let options = Options { segment_bytes: 1 << OFFSET_BITS, index_bits: 4, ..segments };
    LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(DIR), options).unwrap()
}

fn value(n: u32) -> Vec<u8> {
    vec![n as u8; 100 + n as usize % 900]
}

fn put(store: &LogStore, n: u32) -> Result<()> {
    store.put(n.to_le_bytes(), value(n))
}

fn maintain(store: &LogStore) {
    while store.maintain().unwrap() {}
}

/// Some of the records, from `first` on, are those that were put.
fn check(store: &LogStore, first: u32, end: u32) {
    assert_eq!(store.len(), u64::from(end - first));
    for n in (first..end).step_by(37) {
        assert_eq!(store.get(n.to_le_bytes()).unwrap().unwrap(), value(n), "key {n}");
    }
    assert!((0..first).step_by(37).all(|n| !store.contains(n.to_le_bytes()).unwrap()));
}

/// Puts records until one is refused. Returns its number.
fn fill(store: &LogStore, from: u32) -> u32 {
    for n in from.. {
        if n % 500 == 0 {
            maintain(store);
        }
        if let Err(error) = put(store, n) {
            assert_eq!(error.kind(), ErrorKind::Failed);
            assert!(error.to_string().contains("cannot have more"), "{error}");
            return n;
        }
    }
    unreachable!("the loop has no end")
}

#[test]
fn a_store_with_all_its_segments_goes_on() {
    let disk = SimDisk::new();
    let store = open(&disk);
    let end = fill(&store, 0);
    let stats = store.stats();
    // Most segments are of the largest size.
    let largest = 1 << (OFFSET_BITS + 7);
    let large = stats.segment_stats.iter().filter(|segment| segment.disk_bytes == largest).count();
    assert!(large > SEGMENTS / 3 && stats.segments < SEGMENTS as u64, "{large} large segments");
    assert!(stats.live_bytes > SEGMENTS as u64 / 3 * largest, "{} live bytes", stats.live_bytes);
    for n in [end, 0] {
        assert!(put(&store, n).is_err());
        assert!(store.update(n.to_le_bytes(), |_| Some(value(n + 1))).is_err());
    }
    assert_eq!(store.stats().log_bytes, stats.log_bytes, "nothing was appended");
    check(&store, 0, end);
    store.verify().unwrap();
    store.close().unwrap();
    // It can be opened from the checkpoint, from hints and from records.
    for name in ["nothing", "checkpoint.firn", ".hint"] {
        let copy = disk.fork();
        for found in copy.list(Path::new(DIR)).unwrap().iter().filter(|its| its.ends_with(name)) {
            copy.remove(&Path::new(DIR).join(found)).unwrap();
        }
        let store = open(&copy);
        check(&store, 0, end);
        assert!(put(&store, end).is_err());
        assert_eq!(store.stats().live_bytes, stats.live_bytes, "opened without {name}");
        // Deletes make room, which compaction finds although it needs segments too.
        let first = end / 4 * 3;
        for n in 0..first {
            assert!(store.delete(n.to_le_bytes()).unwrap());
            if n % 5000 == 0 {
                maintain(&store);
            }
        }
        maintain(&store);
        check(&store, first, end);
        let more = fill(&store, end);
        assert!(more > end + end / 4, "room for {} more", more - end);
        check(&store, first, more);
        store.verify().unwrap();
    }
}

/// With more records than a segment can address there is no segment for the batch. It was written
/// into one whose header could not be read again.
#[test]
fn a_batch_that_no_segment_can_hold_is_refused() {
    let disk = SimDisk::new();
    let store = open(&disk);
    put(&store, 0).unwrap();
    let before = store.stats().log_bytes;
    let batch =
        (0..(2u32 << OFFSET_BITS)).fold(Batch::new(), |batch, n| batch.put(n.to_le_bytes(), []));
    let error = store.write(&batch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains("divide it"), "{error}");
    assert_eq!(store.stats().log_bytes, before, "nothing was appended");
    put(&store, 1).unwrap();
    store.close().unwrap();
    check(&open(&disk), 0, 2);
}
