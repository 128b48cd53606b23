//! Scans of ordered stores compared with a `BTreeMap`, while everything that a store does happens
//! between them.

use super::{DIR, Map, Rng, Steps, options};
use crate::bytes::key_range::KeyRange;
use crate::disk::{Disk, DiskRef, Map as Bytes, SimDisk};
use crate::log::format::names::key_run_segments;
use crate::log::format::record::Record;
use crate::log::format::segment_head::HEADER;
use crate::log::maintenance::key_order::order_step;
use crate::log::segments::key_source::{Direction, KeySource};
use crate::log::segments::segment::{Segment, SegmentBytes};
use crate::log::state::frame::Frame;
use crate::log::state::key_order::Sources;
use crate::log::{Batch, LogStore, Options, Range, Snapshot, WriteOptions};
use crate::{ErrorKind, Result};
use std::cell::Cell;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

thread_local!(static NOW: Cell<u64> = const { Cell::new(1000) });

pub(crate) fn open_ordered(disk: &Arc<SimDisk>, read_only: bool) -> Result<LogStore> {
    let ordered = !read_only;
    let options = Options { ordered, read_only, clock: || NOW.get(), ..options() };
    LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(DIR), options)
}

/// The keys and values of a scan.
#[track_caller]
pub(crate) fn pairs(range: Result<Range<'_>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    range.unwrap().collect::<Result<_>>().unwrap()
}

/// Keys that share beginnings of many lengths, with zeros and 0xFF.
fn keys() -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = vec![vec![], vec![0], vec![0, 0], vec![255], vec![255, 255]];
    for n in 0..40u32 {
        keys.push(format!("key {:02}", n % 20 * 5).into_bytes()[..5 + n as usize % 2].to_vec());
        keys.push([&b"a long beginning that all of these share "[..], &n.to_be_bytes()].concat());
        keys.push([&[b'z'; 12][..], &vec![0; n as usize % 9]].concat());
    }
    keys.push(vec![b'k'; 3000]);
    keys.push([vec![b'k'; 3000], vec![0]].concat());
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// A random bound of a range.
fn bound(random: &mut Rng, keys: &[Vec<u8>]) -> Bound<Vec<u8>> {
    let mut key = keys[random.below(keys.len())].clone();
    match random.below(6u64) {
        0 => key.push(random.below(256u64) as u8),
        1 => drop(key.pop()),
        _ => {}
    }
    match random.below(5u64) {
        0 | 1 => Bound::Included(key),
        2 | 3 => Bound::Excluded(key),
        _ => Bound::Unbounded,
    }
}

/// Compares a random range with the model.
#[track_caller]
fn check(view: &Snapshot, model: &Map, keys: &[Vec<u8>], random: &mut Rng, label: &str) {
    let range = match random.below(4u64) {
        0 => KeyRange::prefix(&keys[random.below(keys.len())]),
        1 => KeyRange::from(..),
        _ => KeyRange::new(bound(random, keys), bound(random, keys)),
    };
    let within = |(key, _): &(&Vec<u8>, &Vec<u8>)| range.contains(key);
    let mut expected: Vec<_> =
        model.iter().filter(within).map(|(k, v)| (k.clone(), v.clone())).collect();
    assert_eq!(pairs(view.range(range.clone())), expected, "{label}, {range:?}");
    expected.reverse();
    let reversed = view.range(range.clone()).map(Range::reversed);
    assert_eq!(pairs(reversed), expected, "{label}, {range:?}, reversed");
}

fn runs(disk: &SimDisk) -> usize {
    let names = disk.list(Path::new(DIR)).unwrap();
    names.iter().filter(|name| key_run_segments(name).is_some()).count()
}

/// Changes the store and the model.
fn change(store: &LogStore, model: &mut Map, keys: &[Vec<u8>], random: &mut Rng) {
    let key = &keys[random.below(keys.len())];
    match random.below(20u64) {
        0..11 => {
            let value = vec![random.below(256u64) as u8; random.below(120usize)];
            store.put(key, &value).unwrap();
            model.insert(key.clone(), value);
        }
        11..15 => {
            store.delete(key).unwrap();
            model.remove(key);
        }
        15 => {
            let options = WriteOptions::new().ttl(Duration::from_millis(random.below(3u64)));
            store.put_with(key, b"expires", options).unwrap();
            NOW.set(NOW.get() + 3);
            model.remove(key);
        }
        _ => {
            let mut batch = Batch::new();
            for _ in 0..random.below(6u64) {
                let key = &keys[random.below(keys.len())];
                if random.below(3u64) == 0 {
                    batch.push_delete(key);
                    model.remove(key);
                } else {
                    batch.push_put(key, b"of a batch");
                    model.insert(key.clone(), b"of a batch".to_vec());
                }
            }
            store.write(&batch).unwrap();
        }
    }
}

#[test]
fn scans_agree_with_a_sorted_map() {
    let keys = keys();
    for seed in 0..10 {
        super::choose_access(seed);
        let (mut random, disk, mut model) = (Rng(seed), SimDisk::new(), Map::new());
        let mut store = open_ordered(&disk, false).unwrap();
        let mut held: Vec<(Snapshot, Map)> = Vec::new();
        let mut most = 0;
        for step in 0..1500 {
            let label = format!("seed {seed}, step {step}");
            match random.below(40u64) {
                0..26 => change(&store, &mut model, &keys, &mut random),
                26..30 => drop(store.maintain().unwrap()),
                30 => while order_step(store.writable()).unwrap() {},
                31 if random.below(4u64) == 0 => {
                    held.clear();
                    store.compact(random.below(10u64) as f64 / 10.0).unwrap();
                }
                32 => held.push((store.snapshot(), model.clone())),
                33 => {
                    let n = held.len();
                    drop((n > 0).then(|| held.swap_remove(random.below(n))));
                }
                34 if random.below(3u64) == 0 => {
                    held.clear();
                    match random.below(2u64) {
                        0 => store.close().unwrap(),
                        // As after a process crash.
                        _ => drop(store),
                    }
                    store = open_ordered(&disk, false).unwrap();
                }
                35 => {
                    let reader = open_ordered(&disk, true).unwrap();
                    assert!(reader.is_ordered());
                    check(&reader.snapshot(), &model, &keys, &mut random, &label);
                }
                _ => check(&store.snapshot(), &model, &keys, &mut random, &label),
            }
            for (snapshot, model) in held.iter().filter(|_| step % 7 == 0) {
                check(snapshot, model, &keys, &mut random, &label);
            }
            most = most.max(runs(&disk));
        }
        assert!(most >= 3, "seed {seed}: at most {most} runs at a time");
    }
}

#[test]
fn readers_follow_the_writer() {
    let keys = keys();
    for seed in 0..6 {
        super::choose_access(seed);
        let (mut random, disk, mut model) = (Rng(seed), SimDisk::new(), Map::new());
        let store = open_ordered(&disk, false).unwrap();
        store.put("k", "v").unwrap();
        model.insert(b"k".to_vec(), b"v".to_vec());
        let reader = open_ordered(&disk, true).unwrap();
        let mut held: Option<(Snapshot, Map)> = None;
        for round in 0..60 {
            for _ in 0..random.below(30u64) {
                change(&store, &mut model, &keys, &mut random);
            }
            for _ in 0..random.below(6u64) {
                store.maintain().unwrap();
            }
            let label = format!("seed {seed}, round {round}");
            if let Some((snapshot, model)) = held.take() {
                check(&snapshot, &model, &keys, &mut random, &label);
            }
            reader.refresh().unwrap();
            check(&reader.snapshot(), &model, &keys, &mut random, &label);
            held = (random.below(2u64) == 0).then(|| (reader.snapshot(), model.clone()));
        }
    }
}

#[test]
fn runs_are_merged_and_drop_stale_entries() {
    let disk = SimDisk::new();
    let store = open_ordered(&disk, false).unwrap();
    let (mut model, mut random) = (Map::new(), Rng(3));
    for _ in 0..4000 {
        let key = format!("{:04}", random.below(1000u64)).into_bytes();
        store.put(&key, [7; 40]).unwrap();
        model.insert(key, vec![7; 40]);
        while store.maintain().unwrap() {}
    }
    let sources = store.writable().order.as_ref().unwrap().sources();
    let entries: u64 = sources.runs.iter().map(|run| run.meta.entries).sum();
    assert!(sources.runs.len() < 8, "{} runs", sources.runs.len());
    assert!(entries < 8000, "{entries} entries of {} keys", model.len());
    assert_eq!(runs(&disk), sources.runs.len(), "merged runs are removed");
    let expected: Vec<_> = model.into_iter().collect();
    assert_eq!(pairs(store.range(..)), expected);
}

#[test]
fn a_single_run_with_stale_entries_is_written_again() {
    let disk = SimDisk::new();
    let options = Options { ordered: true, segment_bytes: 1 << 20, ..options() };
    let open = || LogStore::open_on(Arc::clone(&disk) as DiskRef, Path::new(DIR), options.clone());
    let store = open().unwrap();
    let key = |n: u32| n.to_be_bytes();
    for segment in 0..8 {
        (0..750).for_each(|n| store.put(key(segment * 750 + n), b"").unwrap());
        store.roll().unwrap();
    }
    while store.seal().unwrap() {}
    while order_step(store.writable()).unwrap() {}
    let snapshot = store.snapshot();
    let entries = || {
        let sources = store.writable().order.as_ref().unwrap().sources();
        sources.runs.iter().map(|run| run.meta.entries).collect::<Vec<_>>()
    };
    assert_eq!(entries(), [6000]);
    (0..5900).for_each(|n| assert!(store.delete(key(n)).unwrap()));
    assert!(order_step(store.writable()).unwrap());
    assert!(!order_step(store.writable()).unwrap());
    assert_eq!(entries(), [100]);
    assert_eq!(runs(&disk), 1, "under the same name");
    let found: Vec<_> = pairs(store.range(..)).into_iter().map(|(key, _)| key).collect();
    assert_eq!(found, (5900..6000).map(|n| key(n).to_vec()).collect::<Vec<_>>());
    assert_eq!(pairs(snapshot.range(..)).len(), 6000, "of its moment");
    drop(snapshot);
    store.verify().unwrap();
    drop(store);
    assert_eq!(pairs(open().unwrap().range(..)).len(), 100);
}

/// Records of a very large segment begin at multiples of a number that exceeds the length of a
/// small one.
#[test]
fn a_tail_has_the_last_record_of_a_segment_with_an_alignment() {
    let mut bytes = vec![0; HEADER];
    for key in [b"b", b"a"] {
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        let frame = Frame::new(Record::put(key, b""), 0, None);
        let head = frame.head_at(1, bytes.len() as u64);
        bytes.extend_from_slice(&head[..frame.head_length]);
        bytes.extend_from_slice(key);
    }
    let end = bytes.len();
    let sealed = SegmentBytes::Sealed(Bytes::from_vec(bytes), end);
    let segment = Arc::new(Segment::new(1, 0, 6, "segment".into(), sealed));
    let sources = Sources::of(Vec::new(), &[segment]);
    let mut all = sources.scan(Bound::Unbounded, Direction::Forward).unwrap();
    for key in [b"a", b"b"] {
        assert_eq!(all.current().map(|entry| entry.key), Some(&key[..]));
        all.advance().unwrap();
    }
    assert!(all.current().is_none());
}

/// A key of 64 bytes, the length of the longest fence, begins keys in several blocks of a run.
#[test]
fn keys_that_begin_with_a_key_of_64_bytes_are_found() {
    let disk = SimDisk::new();
    let options = Options { ordered: true, segment_bytes: 1 << 20, ..options() };
    let store = LogStore::open_on(Arc::clone(&disk) as DiskRef, Path::new(DIR), options).unwrap();
    let directory = vec![b'd'; 64];
    store.put(&directory, b"").unwrap();
    for n in 0..3000u32 {
        store.put([&directory[..], format!("/{n:04}").as_bytes()].concat(), b"").unwrap();
    }
    store.roll().unwrap();
    while store.maintain().unwrap() {}
    let sources = store.writable().order.as_ref().unwrap().sources();
    assert!(sources.runs.iter().any(|run| run.meta.blocks > 3));
    const END: Bound<Vec<u8>> = Bound::Unbounded;
    let from = |bound: Bound<Vec<u8>>| pairs(store.range(KeyRange::new(bound, END)));
    let to = |bound: Bound<Vec<u8>>| {
        let range = store.range(KeyRange::new(END, bound));
        pairs(range.map(Range::reversed)).len()
    };
    assert_eq!(from(Bound::Included(directory.clone())).len(), 3001);
    let inside = from(Bound::Excluded(directory.clone()));
    assert_eq!((inside.len(), &inside[0].0[64..]), (3000, &b"/0000"[..]));
    assert_eq!(to(Bound::Included(directory.clone())), 1);
    assert_eq!(to(Bound::Excluded(directory)), 0);
}

#[test]
fn a_store_keeps_its_kind() {
    let disk = SimDisk::new();
    drop(super::open(&disk).unwrap().put("k", "v"));
    let error = open_ordered(&disk, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let store = super::open(&disk).unwrap();
    assert!(!store.is_ordered());
    let error = store.range("a".."b").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(store.get("k").unwrap().as_deref(), Some(&b"v"[..]));

    let disk = SimDisk::new();
    open_ordered(&disk, false).unwrap().put("k", "v").unwrap();
    let store = super::open(&disk).unwrap();
    assert!(store.is_ordered(), "without the option too");
    assert_eq!(pairs(store.prefix("k")), [(b"k".to_vec(), b"v".to_vec())]);
    assert_eq!(pairs(store.range("k".to_string()..="k".to_string())).len(), 1);
    assert!(pairs(store.range("l"..)).is_empty() && pairs(store.range("l".."a")).is_empty());
}

#[test]
fn a_scan_can_begin_again_in_the_other_direction() {
    let disk = SimDisk::new();
    let store = open_ordered(&disk, false).unwrap();
    (0..200u8).for_each(|n| store.put([n], [n]).unwrap());
    let mut range = store.range(..).unwrap();
    assert_eq!(range.next().unwrap().unwrap().0, [0]);
    let mut range = range.reversed();
    assert_eq!(range.next().unwrap().unwrap().0, [199]);
    assert_eq!(range.by_ref().count(), 199);
    assert!(range.next().is_none());
}
