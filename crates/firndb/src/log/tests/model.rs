//! Random operations on a store and on a plain map, with reopening, maintenance, compaction, and
//! removal of the files that an opening does not need.

use super::{DIR, Map, Rng, content, open};
use crate::disk::{Disk, SimDisk};
use crate::log::Batch;
use crate::log::LogStore;
use crate::log::format::names::CHECKPOINT;
use crate::log::format::names::hint_number;
use crate::log::format::names::{segment_file, segment_number};
use crate::log::format::record::Kind;
use crate::log::tests::Steps;
use std::path::Path;

/// Reopens until only the segments are left to open from. The store is the same each time.
#[track_caller]
fn reopen_in_every_way(disk: &SimDisk, keys: &[Vec<u8>], model: &Map, label: &str) {
    let disk = disk.fork();
    for way in ["as it is", "no checkpoint", "no hints"] {
        for name in disk.list(Path::new(DIR)).unwrap() {
            let goes = match way {
                "no checkpoint" => name == CHECKPOINT,
                "no hints" => name == CHECKPOINT || hint_number(&name).is_some(),
                _ => false,
            };
            if goes {
                disk.remove(&Path::new(DIR).join(name)).unwrap();
            }
        }
        let store = open(&disk.fork()).unwrap_or_else(|e| panic!("{label}, {way}: {e}"));
        assert_eq!(content(&store, keys).unwrap(), *model, "{label}, {way}");
    }
}

#[test]
fn a_store_behaves_like_a_map() {
    for seed in 0..8 {
        super::choose_access(seed);
        let mut random = Rng(seed);
        let disk = SimDisk::new();
        let keys: Vec<Vec<u8>> = (0..60).map(|n| format!("key {n}").into_bytes()).collect();
        let mut model = Map::new();
        let mut store = open(&disk).unwrap();
        for step in 0..2500 {
            let label = format!("seed {seed}, step {step}");
            let key = &keys[random.below(60) as usize];
            match random.below(100) {
                0..55 => {
                    let value = vec![step as u8; random.below(200) as usize];
                    store.put(key, &value).unwrap();
                    model.insert(key.clone(), value);
                }
                55..75 => {
                    let was = store.delete(key).unwrap();
                    assert_eq!(was, model.remove(key).is_some(), "{label}");
                }
                75..85 => {
                    let mut batch = Batch::new();
                    for _ in 0..random.below(10) {
                        let key = &keys[random.below(60) as usize];
                        if random.below(3) == 0 {
                            batch.push_delete(key);
                            model.remove(key);
                        } else {
                            batch.push_put(key, b"of a batch");
                            model.insert(key.clone(), b"of a batch".to_vec());
                        }
                    }
                    store.write(&batch).unwrap();
                }
                85..95 => {
                    store.maintain().unwrap();
                }
                95 => {
                    store.compact(random.below(10) as f64 / 10.0).unwrap();
                }
                96 => {
                    store.close().unwrap();
                    store = open(&disk).unwrap();
                }
                97 => {
                    // As after a process crash.
                    drop(std::mem::replace(&mut store, open(&SimDisk::new()).unwrap()));
                    store = open(&disk).unwrap();
                }
                _ => assert_eq!(content(&store, &keys).unwrap(), model, "{label}"),
            }
            assert_eq!(store.get(key).unwrap(), model.get(key).cloned(), "{label}");
            if step % 500 == 499 {
                reopen_in_every_way(&disk, &keys, &model, &label);
            }
        }
    }
}

/// Begins a new segment.
fn roll(store: &LogStore) {
    store.roll().unwrap();
}

/// Number of records of this kind in all segments.
fn records(store: &LogStore, kind: Kind) -> u64 {
    let segments = store.writable().segments();
    let of = |segment: &std::sync::Arc<crate::log::segments::segment::Segment>| {
        let contents = segment.contents().unwrap();
        segment.records(&contents).filter(|item| item.as_ref().unwrap().1.kind == kind).count()
            as u64
    };
    segments.iter().map(of).sum()
}

#[test]
fn deleted_keys_stay_deleted_in_every_order_of_compactions() {
    // The value of a key in one segment, its delete in another, other segments between and around
    // them. Every order of compacting them, with a reopening from the segments alone after each.
    let mut orders = vec![vec![]];
    for n in 1..=5u64 {
        orders = orders
            .iter()
            .flat_map(|order: &Vec<u64>| {
                (0..=order.len()).map(move |at| {
                    let mut longer = order.clone();
                    longer.insert(at, n);
                    longer
                })
            })
            .collect();
    }
    assert_eq!(orders.len(), 120);
    let keys: Vec<Vec<u8>> = (0..8).map(|n| vec![b'k', n]).collect();
    for order in orders {
        let disk = SimDisk::new();
        let store = open(&disk).unwrap();
        let mut model = Map::new();
        for (n, key) in keys.iter().enumerate() {
            store.put(key, [1]).unwrap();
            model.insert(key.clone(), vec![1]);
            roll(&store);
            if n % 2 == 1 {
                store.delete(&keys[n - 1]).unwrap();
                model.remove(&keys[n - 1]);
                roll(&store);
            }
        }
        while store.seal().unwrap() {}
        roll(&store);
        for number in order {
            let segments = store.writable().segments();
            if let Some(victim) = segments.iter().find(|segment| segment.number == number) {
                store.evacuate(victim).unwrap();
            }
            reopen_in_every_way(&disk, &keys, &model, "an order");
        }
        store.compact(0.0).unwrap();
        store.compact(0.0).unwrap();
        let deletes: u64 = records(&store, Kind::Delete);
        assert_eq!(deletes, 0, "nothing is left for a delete to hide");
        assert_eq!(records(&store, Kind::Put), 4);
    }
}

#[test]
fn a_file_is_removed_once_another_sync_made_the_log_durable() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let keys: Vec<Vec<u8>> = (0..4).map(|n| vec![n]).collect();
    let mut model = Map::new();
    for round in 0..2 {
        for key in &keys {
            store.put(key, [round; 100]).unwrap();
            model.insert(key.clone(), vec![round; 100]);
            roll(&store);
        }
        while store.seal().unwrap() {}
        roll(&store);
    }
    let path = |number| Path::new(DIR).join(segment_file(number));
    for number in 1..=4 {
        assert!(store.compact_step().unwrap(), "segment {number} is stale");
        disk.open(&path(number)).unwrap();
        reopen_in_every_way(&disk, &keys, &model, "a segment that left");
    }
    roll(&store);
    while store.seal().unwrap() {}
    let syncs = store.stats().syncs;
    assert!(store.compact_step().unwrap());
    assert_eq!(store.stats().syncs, syncs, "nothing was synced for it");
    assert!((1..=4).all(|number| disk.open(&path(number)).is_err()));
    reopen_in_every_way(&disk, &keys, &model, "files that went");
    // Files of segments that departed meanwhile are removed when the store closes.
    store.delete(&keys[0]).unwrap();
    model.remove(&keys[0]);
    roll(&store);
    while store.seal().unwrap() {}
    roll(&store);
    assert!(store.compact_step().unwrap());
    let left =
        |number: &u64| !store.writable().segments().iter().any(|segment| segment.number == *number);
    let names = disk.list(Path::new(DIR)).unwrap();
    let mut left: Vec<u64> =
        names.iter().filter_map(|name| segment_number(name)).filter(left).collect();
    left.retain(|&number| number < store.lock().unwrap().segment.number);
    assert_eq!(left.len(), 1, "{left:?} among {names:?}");
    store.close().unwrap();
    assert!(disk.open(&path(left[0])).is_err());
    reopen_in_every_way(&disk, &keys, &model, "a closed store");
}

#[test]
fn links_of_many_small_segments_do_not_count_as_stale() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    for n in 0..4000u32 {
        store.put(n.to_le_bytes(), [n as u8; 1000]).unwrap();
    }
    while store.maintain().unwrap() {}
    let made = store.stats().segments;
    assert!((200..700).contains(&made), "{made} segments for 4 MB, 4 KiB and larger");
    assert_eq!(store.compact(0.05).unwrap(), 0, "all is live");
    for n in (0..4000u32).step_by(2) {
        store.put(n.to_le_bytes(), [1; 10]).unwrap();
    }
    assert!(store.compact(0.45).unwrap() > 100, "half of it is stale");
}

#[test]
fn the_first_segment_after_a_torn_one_links_all_others() {
    let mut disk = SimDisk::new();
    let mut store = open(&disk).unwrap();
    for n in 0..4000u32 {
        store.put(n.to_le_bytes(), [n as u8; 1000]).unwrap();
    }
    let mut segments = store.stats().segments;
    for _ in 0..3 {
        let active = store.lock().unwrap().segment.clone();
        let (number, end) = (active.number, active.end() as usize);
        disk = disk.fork(); // The state after a process crash.
        let path = Path::new(DIR).join(segment_file(number));
        let mut bytes = disk.files()[&path].clone();
        bytes[end + 8] = 1;
        disk.write_raw(&path, &bytes);
        store = open(&disk).unwrap();
        segments += 1;
        assert_eq!(store.stats().segments, segments, "after the torn one");
        store.put(b"more", b"after it").unwrap();
        assert_eq!(store.get(7u32.to_le_bytes()).unwrap(), Some(vec![7; 1000]));
    }
}

#[test]
fn repeated_compaction_does_not_add_segments() {
    let [store, plain] = [(); 2].map(|()| open(&SimDisk::new()).unwrap());
    for n in 0..200u8 {
        store.put([n], [n; 40]).unwrap();
        plain.put([n], [n; 40]).unwrap();
        store.compact(0.5).unwrap();
    }
    let [segments, least] = [&store, &plain].map(|store| store.stats().segments);
    assert!(segments <= 2 * least, "{segments} segments where {least} are enough");
    for _ in 0..3 {
        store.put([0], [1; 1000]).unwrap();
    }
    assert!(store.compact(0.5).unwrap() > 0, "the active one, too, once it is stale");
}
