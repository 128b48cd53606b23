//! Stateless scans, compared with plain maps while the store changes between two pages.

use super::{DIR, Map, Rng, open, options};
use crate::ErrorKind;
use crate::disk::{DiskRef, SimDisk};
use crate::log::failpoints::active;
use crate::log::tests::Steps;
use crate::log::{LogStore, Options, WriteOptions};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

thread_local!(static NOW: Cell<u64> = const { Cell::new(0) });

fn open_with(disk: &Arc<SimDisk>, index_bits: u32, read_only: bool) -> LogStore {
    let options = Options { index_bits, read_only, clock: || NOW.get(), ..options() };
    LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(DIR), options).unwrap()
}

/// The values of a whole scan, and how many pages it took. Each key must come once.
fn scan(store: &LogStore, limit: usize) -> (Map, usize) {
    let (mut all, mut pages, mut cursor) = (Map::new(), 0, Some(0));
    while let Some(at) = cursor {
        let page = store.scan_from(at, limit).unwrap();
        for (key, value) in page.records {
            assert_eq!(all.insert(key.clone(), value), None, "{key:?} came twice");
        }
        assert!(page.next.is_none_or(|next| next > at && next < 1 << 63), "{:?}", page.next);
        (pages, cursor) = (pages + 1, page.next);
    }
    (all, pages)
}

/// Changes a random key.
fn change(store: &LogStore, key: &[u8], model: &mut Map, random: &mut Rng) {
    match random.below(10u64) {
        0..6 => {
            let value = vec![random.below(256u64) as u8; random.below(100usize)];
            store.put(key, &value).unwrap();
            model.insert(key.to_vec(), value);
        }
        6 => {
            store.put_with(key, b"gone", WriteOptions::new().ttl(Duration::ZERO)).unwrap();
            model.remove(key);
        }
        _ => {
            store.delete(key).unwrap();
            model.remove(key);
        }
    }
}

#[test]
fn a_scan_returns_every_key_that_stays() {
    for seed in 0..24 {
        super::choose_access(seed);
        // All bits of the hashes, or so few that keys share kept bits, or even a cursor.
        let bits = [63, 63, 30, 25, 6, 3][seed as usize % 6];
        active::STORE.set(Some(active::coarse(bits, seed)));
        let (mut random, disk, mut index_bits) = (Rng(seed), SimDisk::new(), 2);
        let mut store = open_with(&disk, index_bits, false);
        let keys: Vec<Vec<u8>> = (0..80).map(|n| format!("key {n}").into_bytes()).collect();
        let mut model = Map::new();
        for _ in 0..400 {
            change(&store, &keys[random.below(80usize)], &mut model, &mut random);
        }
        for round in 0..12 {
            let limit = [0, 1, 2, 7, 30, usize::MAX][random.below(6usize)];
            let mut stayed: BTreeSet<Vec<u8>> = model.keys().cloned().collect();
            let (mut returned, mut cursor) = (BTreeMap::new(), Some(0));
            while let Some(at) = cursor {
                let page = store.scan_from(at, limit).unwrap();
                for (key, value) in &page.records {
                    assert_eq!(model.get(key), Some(value), "seed {seed}: the value of its time");
                    *returned.entry(key.clone()).or_insert(0) += 1;
                }
                cursor = page.next;
                for _ in 0..random.below(4u64) {
                    change(&store, &keys[random.below(80usize)], &mut model, &mut random);
                    stayed.retain(|key| model.contains_key(key));
                }
                match random.below(12u64) {
                    0 => assert!(store.compact(0.1).unwrap() < 1000),
                    1 => while store.maintain().unwrap() {},
                    2 => {
                        drop(store);
                        index_bits = random.below(9u64) as u32;
                        store = open_with(&disk, index_bits, false);
                    }
                    _ => {}
                }
            }
            let label = format!("seed {seed}, round {round}, limit {limit}");
            let missing: Vec<_> =
                stayed.iter().filter(|key| !returned.contains_key(*key)).collect();
            assert!(missing.is_empty(), "{label}: {missing:?}");
            assert!(returned.values().all(|&times| times == 1), "{label}: {returned:?}");
        }
        let reader = open_with(&disk, 1, true);
        assert_eq!((scan(&store, 5).0, scan(&reader, 3).0), (model.clone(), model));
    }
}

#[test]
fn pages_have_about_as_many_keys_as_the_limit() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    assert_eq!(scan(&store, 10), (Map::new(), 1), "an empty store");
    (0..1000u32).for_each(|n| store.put(n.to_le_bytes(), n.to_le_bytes()).unwrap());
    for (limit, pages) in [(0, 1000), (1, 1000), (10, 100), (1000, 1), (usize::MAX, 1)] {
        let (all, took) = scan(&store, limit);
        assert_eq!(all.len(), 1000);
        assert!((pages..=pages + 1).contains(&took), "limit {limit}: {took} pages");
    }
    for cursor in [1 << 63, u64::MAX] {
        let refused = store.scan_from(cursor, 10).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(store.scan_from((1 << 63) - 1, 10).unwrap().next, None);
}

#[test]
fn keys_with_one_cursor_come_in_one_page() {
    active::STORE.set(Some(active::coarse(1, 7)));
    let store = open(&SimDisk::new()).unwrap();
    (0..100u8).for_each(|n| store.put([n], [n]).unwrap());
    let first = store.scan_from(0, 1).unwrap();
    let rest = store.scan_from(first.next.unwrap(), 1).unwrap();
    assert_eq!(first.records.len() + rest.records.len(), 100);
    assert!(!rest.records.is_empty(), "two hashes");
    assert_eq!(scan(&store, 1).0.len(), 100);
}

#[test]
fn expired_records_count_and_are_not_returned() {
    NOW.set(0);
    let store = open_with(&SimDisk::new(), 2, false);
    let second = WriteOptions::new().ttl(Duration::from_secs(1));
    (0..100u8).for_each(|n| store.put_with([n], [n], second).unwrap());
    store.put("stays", "1").unwrap();
    assert_eq!(scan(&store, 10).0.len(), 101);
    NOW.set(1000);
    let (all, pages) = scan(&store, 10);
    assert_eq!(all.keys().collect::<Vec<_>>(), [b"stays"]);
    assert!(pages >= 10, "{pages} pages: work per page is bounded");
}

#[test]
fn large_values_end_a_page() {
    let store = open(&SimDisk::new()).unwrap();
    (0..40u8).for_each(|n| store.put([n], vec![n; 1 << 20]).unwrap());
    assert_eq!(store.scan_from(0, usize::MAX).unwrap().records.len(), 16);
    assert_eq!(scan(&store, usize::MAX).0.len(), 40);
}

#[test]
fn a_damaged_record_is_an_error() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    store.put("key", [7; 100]).unwrap();
    store.roll().unwrap();
    assert!(store.seal().unwrap());
    store.close().unwrap();
    let files = disk.files();
    let value = |bytes: &[u8]| bytes.windows(100).position(|window| window == [7; 100]);
    let (path, at) = files.iter().find_map(|(path, bytes)| Some((path, value(bytes)?))).unwrap();
    let mut bytes = files[path].clone();
    bytes[at] = 8;
    disk.write_raw(path, &bytes);
    let store = open(&disk).unwrap();
    assert_eq!(store.scan_from(0, 10).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn scans_meet_every_key_under_concurrent_writes_and_compaction() {
    let disk = SimDisk::new();
    // So few shards and kept bits that shards are rebuilt and keys displace each other.
    active::STORE.set(Some(active::coarse(12, 3)));
    let store = open_with(&disk, 0, false);
    let stays = |n: u32| format!("stays {n}").into_bytes();
    (0..300).for_each(|n| store.put(stays(n), b"0").unwrap());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Rng(1);
            for n in 0..12_000u32 {
                match random.below(4u64) {
                    0 => store.put(stays(random.below(300u64) as u32), n.to_le_bytes()).unwrap(),
                    1 => {
                        let _ = store.delete(random.below(3000u64).to_le_bytes()).unwrap();
                    }
                    _ => store.put(random.below(3000u64).to_le_bytes(), [1; 20]).unwrap(),
                }
                if n % 3000 == 2999 {
                    store.compact(0.3).unwrap();
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        scope.spawn(|| {
            let mut scans = 0;
            while !is_over.load(Ordering::Relaxed) || scans == 0 {
                let mut cursor = Some(0);
                let mut met = BTreeSet::new();
                while let Some(at) = cursor {
                    let page = store.scan_from(at, 1 + scans % 50).unwrap();
                    let keys = page.records.into_iter().map(|(key, _)| key);
                    met.extend(keys.filter(|key| key.starts_with(b"stays")));
                    cursor = page.next;
                }
                assert_eq!(met.len(), 300, "scan {scans}");
                scans += 1;
            }
        });
    });
    store.roll().unwrap();
    assert_eq!(scan(&store, 100).0.len() as u64, store.len());
}

/// Cursors are positions in the order of whole hashes, so they stay valid while shards split.
#[test]
fn cursors_stay_valid_while_the_store_grows() {
    for is_concurrent in [false, true] {
        let disk = SimDisk::new();
        let index = Options { index_bits: 0, index_doublings: 4, ..options() };
        let options = Options { segment_bytes: 1 << 20, ..index };
        let store =
            LogStore::open_on(Arc::clone(&disk) as DiskRef, Path::new(DIR), options).unwrap();
        let put = |n: u32| store.put(n.to_le_bytes(), n.to_be_bytes()).unwrap();
        (0..2000).for_each(put);
        let (mut seen, mut cursor, mut next) = (BTreeMap::new(), Some(0), 2000);
        let mut page_of = |store: &LogStore| {
            let Some(at) = cursor else { return false };
            let page = store.scan_from(at, 100).unwrap();
            for (key, value) in page.records {
                assert_eq!(seen.insert(key.clone(), value), None, "{key:?} came twice");
            }
            cursor = page.next;
            true
        };
        if is_concurrent {
            std::thread::scope(|scope| {
                scope.spawn(|| (2000..30_000).for_each(put));
                while page_of(&store) {}
            });
        } else {
            while page_of(&store) {
                (next..(next + 2000).min(30_000)).for_each(put);
                next += 2000;
            }
        }
        for n in 0..2000u32 {
            let value = n.to_be_bytes().to_vec();
            assert_eq!(seen.get(&n.to_le_bytes()[..]), Some(&value), "key {n}");
        }
        let growth = &store.writable().lookup.index.pages;
        assert!(growth.leaf(0).depth >= 3, "shards were split");
    }
}
