//! Scans of ordered stores beside everything else: threads, forks, snapshots across merges and
//! compaction, readers, promotions and backups.

use super::{DIR, Map, Rng, Steps, options};
use crate::disk::{Disk, DiskRef, HookDisk, SimDisk, in_child};
use crate::log::format::names::key_run_segments;
use crate::log::maintenance::key_order::order_step;
use crate::log::{LogStore, Options, Snapshot};
use crate::{ErrorKind, Result};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn ordered() -> Options {
    Options { ordered: true, ..options() }
}

fn reading() -> Options {
    Options { read_only: true, create: false, ..options() }
}

fn open_in(disk: &Arc<SimDisk>, dir: &str, options: Options) -> Result<LogStore> {
    LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(dir), options)
}

fn open(disk: &Arc<SimDisk>) -> LogStore {
    open_in(disk, DIR, ordered()).unwrap()
}

/// Compares ranges of a snapshot with a map.
#[track_caller]
fn check(view: &Snapshot, map: &Map, label: &str) {
    let expected: Pairs = map.clone().into_iter().collect();
    let found = view.range(..).unwrap().collect::<Result<Pairs>>();
    let found = found.unwrap_or_else(|e| panic!("{label}: {e}"));
    assert!(found == expected, "{label}: {} of {}", found.len(), expected.len());
    let mut found = view.range(..).unwrap().reversed().collect::<Result<Pairs>>().unwrap();
    found.reverse();
    assert!(found == expected, "{label}, reverse: {} of {}", found.len(), expected.len());
}

/// Puts and deletes of random keys.
fn change(store: &LogStore, map: &mut Map, random: &mut Rng, count: usize) {
    for _ in 0..count {
        let key = format!("key {:03}", random.below(300u64)).into_bytes();
        if random.below(4u64) == 0 {
            store.delete(&key).unwrap();
            map.remove(&key);
        } else {
            let value = {
                let length = random.below(120usize);
                random.fill(length)
            };
            store.put(&key, &value).unwrap();
            map.insert(key, value);
        }
    }
}

fn maintain(store: &LogStore) {
    while store.maintain().unwrap() {}
}

fn runs(disk: &SimDisk, dir: &str) -> usize {
    let names = disk.list(Path::new(dir)).unwrap();
    names.iter().filter(|name| key_run_segments(name).is_some()).count()
}

#[test]
fn snapshots_show_their_moment_across_merges_and_compaction() {
    for seed in 0..3 {
        super::choose_access(seed);
        let (disk, mut random, mut map) = (SimDisk::new(), Rng(seed), Map::new());
        let (store, mut held) = (open(&disk), Vec::new());
        let (mut merges, mut before) = (0, 0);
        for round in 0..40 {
            change(&store, &mut map, &mut random, 60);
            held.push((store.snapshot(), map.clone()));
            while store.seal().unwrap() {}
            while order_step(store.writable()).unwrap() {
                let now = store.stats().key_runs;
                merges += u64::from(now < before);
                before = now;
            }
            store.sync().unwrap();
            if round % 5 == 4 {
                store.compact(0.1).unwrap();
            }
            for (snapshot, map) in &held {
                check(snapshot, map, &format!("seed {seed}, round {round}"));
            }
            if held.len() > 6 {
                held.remove(random.below(6u64) as usize);
            }
        }
        assert!(merges > 0 && store.stats().segments_removed > 0, "{merges} merges");
        store.verify().unwrap();
    }
}

/// The value of a key that no thread changes.
fn fixed(n: u32) -> (Vec<u8>, Vec<u8>) {
    (format!("k{n:04}").into_bytes(), n.to_be_bytes().repeat(5))
}

/// A scan is in order and has all keys that no thread changes.
fn scan_beside_writers(store: &LogStore, count: u32, random: &mut Rng) {
    let is_reversed = random.below(2u64) == 0;
    let (from, to) = (random.below(u64::from(count)) as u32, count + 1);
    let range = store.range(fixed(from).0..fixed(to).0).unwrap();
    let range = if is_reversed { range.reversed() } else { range };
    let mut found = range.collect::<Result<Pairs>>().unwrap();
    if is_reversed {
        found.reverse();
    }
    assert!(found.is_sorted_by(|a, b| a.0 < b.0));
    let is_fixed = |(key, _): &(Vec<u8>, Vec<u8>)| key.len() == 5;
    found.retain(is_fixed);
    assert!(found == (from..count).map(fixed).collect::<Pairs>());
}

#[test]
fn scans_beside_writers_and_maintenance_have_every_key() {
    const FIXED: u32 = 500;
    let options = Options { background: true, segment_bytes: 16 << 10, ..ordered() };
    let (disk, mut all) = (SimDisk::new(), Map::new());
    let store = open_in(&disk, DIR, options).unwrap();
    for (key, value) in (0..FIXED).map(fixed) {
        store.put(&key, &value).unwrap();
        all.insert(key, value);
    }
    let models = [Mutex::new(Map::new()), Mutex::new(Map::new())];
    for round in 0..4u64 {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writers = [0, 1].map(|thread: u64| {
                let (store, model) = (&store, &models[thread as usize]);
                scope.spawn(move || {
                    let mut random = Rng(round * 2 + thread);
                    let mut map = model.lock().unwrap();
                    for n in 0..3000u32 {
                        let key = format!("k{:04}/{thread}", random.below(2000u64)).into_bytes();
                        if n % 4 == 3 {
                            store.delete(&key).unwrap();
                            map.remove(&key);
                        } else {
                            store.put(&key, n.to_be_bytes()).unwrap();
                            map.insert(key, n.to_be_bytes().to_vec());
                        }
                    }
                })
            });
            for thread in 0..2 {
                let (store, is_over) = (&store, &is_over);
                scope.spawn(move || {
                    let mut random = Rng(thread);
                    while !is_over.load(Ordering::Relaxed) {
                        scan_beside_writers(store, FIXED, &mut random);
                    }
                });
            }
            let joined = writers.map(|writer| writer.join());
            is_over.store(true, Ordering::Relaxed);
            joined.into_iter().for_each(|joined| joined.unwrap());
        });
        let mut now = all.clone();
        models.iter().for_each(|model| now.extend(model.lock().unwrap().clone()));
        check(&store.snapshot(), &now, &format!("round {round}"));
    }
    store.close().unwrap();
    assert!(runs(&disk, DIR) > 0);
}

/// Writers wait for key runs, so that the keys in memory are bounded.
#[test]
fn writers_that_are_ahead_of_key_runs_are_behind_in_maintenance() {
    let options = Options { background: true, segment_bytes: 16 << 10, ..ordered() };
    let store = open_in(&SimDisk::new(), DIR, options).unwrap();
    let backpressure = &store.writable().backpressure;
    let order = store.writable().order.as_ref().unwrap();
    let stuck = order.working.lock().unwrap_or_else(PoisonError::into_inner);
    for n in 0..400u32 {
        store.put(n.to_be_bytes(), [1; 4000]).unwrap();
    }
    let started = Instant::now();
    let waits = || started.elapsed() < Duration::from_secs(60);
    let unsealed = || {
        let get = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        get(&backpressure.full).saturating_sub(get(&backpressure.sealed))
    };
    while unsealed() > 0 && waits() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(backpressure.is_behind(), "{} segments behind", backpressure.behind());
    drop(stuck);
    while backpressure.behind() > 2 && waits() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(backpressure.behind() <= 2, "{} segments behind", backpressure.behind());
    assert!(store.stats().tail_bytes < 4 * 16 * 5, "{} bytes", store.stats().tail_bytes);
}

/// Threads of the parent, which do not exist in the child, may hold any lock at the time of a fork.
#[test]
fn a_forked_child_scans_while_threads_of_the_parent_write_and_scan() {
    let dir = std::env::temp_dir().join(format!("firndb-ordered-fork-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let options = Options { background: true, segment_bytes: 16 << 10, ..ordered() };
    let store = LogStore::open_with(&dir, options).unwrap();
    (0..300).map(fixed).for_each(|(key, value)| store.put(key, value).unwrap());
    let (earlier, is_over) = (store.snapshot(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0u32;
            while !is_over.load(Ordering::Relaxed) {
                n += 1;
                store.put(format!("other {}", n % 500), n.to_be_bytes()).unwrap();
            }
        });
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                assert!(store.range("other"..).unwrap().all(|record| record.is_ok()));
            }
        });
        let children = (0..15).map(|_| {
            in_child(|| {
                let expected: Pairs = (0..300).map(fixed).collect();
                let found = store.range(fixed(0).0..fixed(300).0).unwrap();
                let is_right = found.collect::<Result<Pairs>>().unwrap() == expected;
                let others = store.prefix("other").unwrap().map(|record| record.unwrap().0);
                is_right && others.is_sorted() && earlier.prefix("k").unwrap().count() == 300
            })
        });
        let children: Vec<bool> = children.collect();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(children, [true; 15]);
    });
    drop(earlier);
    assert_eq!(store.prefix("k").unwrap().count(), 300, "the parent continues");
    store.close().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
}

/// The writer merges runs between any two calls of a reader that is opened or refreshed.
#[test]
fn a_reader_is_refreshed_beside_merges() {
    let (disk, mut random) = (SimDisk::new(), Rng(5));
    let (store, mut map) = (open(&disk), Map::new());
    change(&store, &mut map, &mut random, 200);
    maintain(&store);
    // The content after each change, the newest last.
    let beside = Arc::new(Mutex::new((store, vec![map], random)));
    let before = {
        let beside = Arc::clone(&beside);
        move |_: &Path| {
            let mut beside = beside.lock().unwrap();
            let (store, maps, random) = &mut *beside;
            if random.below(4u64) == 0 {
                let mut map = maps.last().unwrap().clone();
                change(store, &mut map, random, 1);
                maps.push(map);
            }
            // Fewer segments begin than a refresh opens files.
            match random.below(100u64) {
                0 => store.roll().unwrap(),
                1..10 => assert!(store.seal().is_ok()),
                10..20 => while order_step(store.writable()).unwrap() {},
                20..40 => assert!(store.maintain().is_ok()),
                _ => {}
            }
        }
    };
    let hooked: DiskRef = Arc::new(HookDisk { disk: Arc::clone(&disk), before });
    let reader = LogStore::open_on(hooked, Path::new(DIR), reading()).unwrap();
    let (mut seen, mut refreshed) = (0, 0);
    for round in 0..40 {
        let _held = (round % 4 == 0).then(|| reader.snapshot());
        let least = beside.lock().unwrap().1.len() - 1;
        // It may give up if files disappear at each attempt.
        if reader.refresh().is_err() {
            continue;
        }
        refreshed += 1;
        seen = least.max(seen);
        let view = reader.snapshot();
        let shown = view.iter().collect::<Result<Map>>().unwrap();
        let maps = &beside.lock().unwrap().1;
        let found = maps[seen..].iter().position(|map| *map == shown);
        seen += found.unwrap_or_else(|| panic!("round {round}: not a state since {seen}"));
        check(&view, &maps[seen], &format!("round {round}"));
    }
    assert!(refreshed > 20, "{refreshed}");
}

#[test]
fn a_promoted_reader_of_an_ordered_store_scans_and_writes() {
    for (seed, is_closed) in [(1, false), (2, true), (3, false), (4, true)] {
        let label = format!("seed {seed}, closed: {is_closed}");
        let (disk, mut random, mut map) = (SimDisk::new(), Rng(seed), Map::new());
        let store = open(&disk);
        change(&store, &mut map, &mut random, 300);
        maintain(&store);
        let reader = open_in(&disk, DIR, Options { ordered: seed < 3, ..reading() }).unwrap();
        check(&reader.snapshot(), &map, &label);
        assert_eq!(reader.promote().unwrap_err().kind(), ErrorKind::Locked);
        change(&store, &mut map, &mut random, 100);
        while order_step(store.writable()).unwrap() {}
        change(&store, &mut map, &mut random, 20);
        if is_closed {
            store.close().unwrap();
        } else {
            std::mem::forget(store);
            disk.end_process();
        }
        let earlier = (seed > 2).then(|| reader.snapshot());
        let (shown, before) = (reader.iter().map(Result::unwrap).collect::<Map>(), map.clone());
        reader.promote().unwrap();
        assert!(reader.is_ordered(), "{label}");
        check(&reader.snapshot(), &before, &label);
        change(&reader, &mut map, &mut random, 300);
        check(&reader.snapshot(), &map, &label);
        maintain(&reader);
        reader.compact(0.1).unwrap();
        maintain(&reader);
        check(&reader.snapshot(), &map, &label);
        if let Some(earlier) = earlier {
            check(&earlier, &shown, &label);
        }
        reader.verify().unwrap();
        reader.close().unwrap();
        check(&open(&disk).snapshot(), &map, &label);
    }
}

/// Runs that a writer of a backup wrote stay right when the backup is updated.
#[test]
fn updated_backups_and_restored_stores_are_scanned() {
    let (disk, mut random, mut map) = (SimDisk::new(), Rng(9), Map::new());
    let store = open(&disk);
    for round in 0..4 {
        let label = format!("round {round}");
        change(&store, &mut map, &mut random, 400);
        maintain(&store);
        if round % 2 == 1 {
            store.compact(0.3).unwrap();
        }
        store.backup("/backup").unwrap();
        let restored = format!("/restored-{round}");
        let shared = Arc::clone(&disk) as DiskRef;
        LogStore::restore_on(&shared, Path::new("/backup"), Path::new(&restored), options())
            .unwrap();
        for dir in ["/backup", &restored] {
            check(&open_in(&disk, dir, reading()).unwrap().snapshot(), &map, &label);
            // This writes runs and merges them, and no record.
            let writer = open_in(&disk, dir, options()).unwrap();
            check(&writer.snapshot(), &map, &label);
            maintain(&writer);
            check(&writer.snapshot(), &map, &label);
            writer.verify().unwrap();
            writer.close().unwrap();
            assert!(runs(&disk, dir) > 0, "{label}, {dir}");
            check(&open_in(&disk, dir, reading()).unwrap().snapshot(), &map, &label);
        }
        let writer = open_in(&disk, &restored, options()).unwrap();
        let mut other = map.clone();
        change(&writer, &mut other, &mut random, 100);
        check(&writer.snapshot(), &other, &label);
    }
    check(&store.snapshot(), &map, "the store itself");
}
