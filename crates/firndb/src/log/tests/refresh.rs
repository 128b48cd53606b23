//! Refreshes of a store that is open for reading only: compared with a map, and on a failing disk.

use super::{DIR, Map, Rng, content, open, options};
use crate::disk::{Disk, DiskRef, Fault, HookDisk, SimDisk};
use crate::log::failpoints::active;
use crate::log::format::names::segment_file;
use crate::log::open::refresh::{self, Refreshed};
use crate::log::tests::Steps;
use crate::log::{Access, Batch, LogStore, Options, WriteOptions};
use crate::{ErrorKind, Result};
use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

thread_local!(static NOW: Cell<u64> = const { Cell::new(0) });

fn reader(disk: &Arc<SimDisk>) -> Result<LogStore> {
    let options = Options { read_only: true, clock: || NOW.get(), ..options() };
    LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(DIR), options)
}

fn writer(disk: &Arc<SimDisk>) -> LogStore {
    let options = Options { clock: || NOW.get(), ..options() };
    LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(DIR), options).unwrap()
}

fn keys() -> Vec<Vec<u8>> {
    (0..60).map(|n| vec![b'k', n]).collect()
}

/// Performs a random operation on the store and on the map.
fn step(store: &mut Option<LogStore>, disk: &Arc<SimDisk>, map: &mut Map, random: &mut Rng) {
    let open = store.as_ref().unwrap();
    let (keys, what) = (keys(), random.below(100u64));
    let key = keys[random.below(keys.len())].clone();
    let value = vec![what as u8; 1 + random.below(200usize)];
    match what {
        0..40 => {
            open.put(&key, &value).unwrap();
            map.insert(key, value);
        }
        40..65 => {
            open.delete(&key).unwrap();
            map.remove(&key);
        }
        65..75 => {
            let mut batch = Batch::new();
            for key in &keys[..random.below(12usize)] {
                batch.push_put(key, &value);
                map.insert(key.clone(), value.clone());
            }
            open.write(&batch).unwrap();
        }
        75..80 => {
            // Expires a millisecond later.
            open.put_with(&key, &value, WriteOptions::new().ttl(Duration::from_millis(1))).unwrap();
            NOW.set(NOW.get() + 2);
            map.remove(&key);
        }
        80..94 => drop(open.maintain().unwrap()),
        94..98 => drop(open.compact(0.01 * random.below(100u64) as f64).unwrap()),
        _ => {
            store.take().unwrap().close().unwrap();
            *store = Some(writer(disk));
        }
    }
}

/// The content that a reader shows; `len` counts expired records too.
fn shown(reader: &LogStore) -> Map {
    let found =
        keys().into_iter().filter_map(|key| Some((key.clone(), reader.get(&key).unwrap()?)));
    let found: Map = found.collect();
    assert!(reader.len() >= found.len() as u64);
    assert_eq!(reader.snapshot().iter().count(), found.len());
    found
}

#[test]
fn a_refreshed_reader_equals_a_newly_opened_one() {
    let (mut caught_up, mut opened) = (0, 0);
    for seed in 0..60u64 {
        // In every second store the keys have few different hashes.
        active::STORE.set(Some(if seed % 2 == 0 {
            active::coarse(3, seed)
        } else {
            seed | 1 << 40
        }));
        NOW.set(1_000_000);
        let (disk, mut map, mut random) = (SimDisk::new(), Map::new(), Rng(seed));
        let mut store = Some(writer(&disk));
        store.as_ref().unwrap().put(b"k\0", b"first").unwrap();
        map.insert(b"k\0".to_vec(), b"first".to_vec());
        let reader = reader(&disk).unwrap();
        for _ in 0..60 {
            for _ in 0..random.below(60) {
                step(&mut store, &disk, &mut map, &mut random);
            }
            match refresh::catch_up(&reader.shared()).unwrap() {
                Refreshed::UpToDate { .. } => caught_up += 1,
                Refreshed::MustReopen => {
                    opened += 1;
                    reader.refresh().unwrap();
                }
            }
            assert_eq!(shown(&reader), map, "seed {seed}");
            let fresh = self::reader(&disk).unwrap();
            assert_eq!(reader.len(), fresh.len(), "seed {seed}");
            assert_eq!(reader.stats().live_bytes, fresh.stats().live_bytes, "seed {seed}");
        }
    }
    assert!(caught_up > 50 * opened, "{caught_up} went on, {opened} were opened anew");
}

#[test]
fn a_refresh_next_to_a_writer_shows_a_consistent_state() {
    struct Beside {
        store: Option<LogStore>,
        map: Map,
        random: Rng,
        /// Every state of the store.
        states: Vec<Map>,
    }
    for seed in 0..30u64 {
        active::STORE.set(Some(seed | 1 << 41));
        NOW.set(1_000_000);
        let disk = SimDisk::new();
        let store = Some(writer(&disk));
        store.as_ref().unwrap().put(b"k\0", b"first").unwrap();
        let map = Map::from([(b"k\0".to_vec(), b"first".to_vec())]);
        let states = vec![map.clone()];
        let beside = Arc::new(Mutex::new(Beside { store, map, random: Rng(seed), states }));
        let (its, its_disk) = (Arc::clone(&beside), Arc::clone(&disk));
        // The writer continues whenever the reader is about to access a file.
        let before = move |_: &Path| {
            let Beside { store, map, random, states } = &mut *its.lock().unwrap();
            for _ in 0..random.below(4) {
                // In every second store no file is created or removed for a while.
                match seed % 2 {
                    0 => step(store, &its_disk, map, random),
                    _ => {
                        let key = keys()[random.below(60usize)].clone();
                        let value = vec![random.below(250u64) as u8; 9];
                        store.as_ref().unwrap().put(&key, &value).unwrap();
                        map.insert(key, value);
                    }
                }
                states.push(map.clone());
            }
        };
        let hook_disk: DiskRef = Arc::new(HookDisk { disk: Arc::clone(&disk), before });
        let options = Options { read_only: true, clock: || NOW.get(), ..options() };
        let reader = LogStore::open_on(hook_disk, Path::new(DIR), options).unwrap();
        let (mut seen, mut refreshed) = (0, 0);
        for round in 0..30 {
            // With a snapshot it opens the store again.
            let _held = (round % 2 == 0).then(|| reader.snapshot());
            seen = beside.lock().unwrap().states.len() - 1;
            // It may give up if files disappear at each attempt.
            if reader.refresh().is_err() {
                continue;
            }
            refreshed += 1;
            let (now, beside) = (shown(&reader), beside.lock().unwrap());
            let later = beside.states[seen..].iter().position(|state| *state == now);
            assert!(later.is_some(), "seed {seed}: none of the states since {seen}");
        }
        assert!(seen > 50 && refreshed > 20, "seed {seed}: {refreshed} to {seen}");
    }
}

const END: &str = "/log/durable_end.firn";

#[test]
fn a_refresh_reads_only_files_that_may_have_changed() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let roll = || {
        store.roll().unwrap();
    };
    for n in 0..20u8 {
        store.put([n], b"first").unwrap();
        roll();
    }
    while store.maintain().unwrap() {}
    store.put(b"k", b"first").unwrap();
    let looks = Arc::new(Mutex::new(Vec::new()));
    let its = Arc::clone(&looks);
    let before = move |path: &Path| its.lock().unwrap().push(path.display().to_string());
    let hook_disk: DiskRef = Arc::new(HookDisk { disk: Arc::clone(&disk), before });
    let options = Options { read_only: true, ..options() };
    let reader = LogStore::open_on(hook_disk, Path::new(DIR), options).unwrap();
    let files = |value: &[u8]| {
        looks.lock().unwrap().clear();
        reader.refresh().unwrap();
        let files = std::mem::take(&mut *looks.lock().unwrap());
        assert_eq!(reader.get(b"k").unwrap().unwrap(), value);
        files
    };
    let last = &*format!("{DIR}/{}", segment_file(store.lock().unwrap().segment.number));
    assert_eq!(files(b"first"), [last], "nothing is new");
    store.put(b"k", b"second").unwrap();
    assert_eq!(files(b"second"), [last, END, last], "it is looked at, and read");
    assert_eq!(files(b"second"), [last], "nothing is new");
    // A segment created in advance: its name is new, then its head is read.
    let active = || store.lock().unwrap().segment.number;
    let has_spare = || {
        let name = segment_file(active() + 1);
        disk.files().keys().any(|path| path.ends_with(&name))
    };
    while !has_spare() {
        store.put(b"filler", [0; 100]).unwrap();
        while store.maintain().unwrap() {}
    }
    store.put(b"k", b"third").unwrap();
    assert!(files(b"third").len() > 20, "all heads");
    assert_eq!(files(b"third").len(), 2);
    store.put(b"k", b"fourth").unwrap();
    assert_eq!(files(b"fourth").len(), 4);
    roll();
    store.put(b"k", b"fifth").unwrap();
    assert!(files(b"fifth").len() > 20, "it has begun");
    // A segment of one record, without room for another.
    store.put(b"k", [6; 50_000]).unwrap();
    assert!(files(&[6; 50_000]).len() > 20);
    assert!(!files(&[6; 50_000]).contains(&END.to_string()), "not read again");
}

#[test]
fn a_refresh_without_memory_leaves_old_and_new_values() {
    let disk = SimDisk::new();
    let at = |bits, read_only| {
        let index = Options { index_bits: bits, index_doublings: 3, ..options() };
        let options = Options { segment_bytes: 1 << 16, read_only, ..index };
        LogStore::open_on(Arc::clone(&disk) as DiskRef, Path::new(DIR), options)
    };
    let store = at(4, false).unwrap();
    let key = |n: u32| n.to_le_bytes();
    (0..20_000).for_each(|n| store.put(key(n), b"old").unwrap());
    let reader = at(0, true).unwrap();
    // Moves all records, deletes some, then adds more than an index of eight shards can hold.
    (0..20_000).step_by(3).for_each(|n| assert!(store.delete(key(n)).unwrap()));
    assert!(store.compact(0.0).unwrap() > 0);
    (0..40_000).for_each(|n| store.put(key(n), b"new").unwrap());
    for _ in 0..2 {
        let error = reader.refresh().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
        for n in 0..40_000 {
            let value = reader.get(key(n)).unwrap();
            let is_old = value.as_deref() == Some(b"old") && n < 20_000;
            let is_deleted = value.is_none() && (n >= 20_000 || n % 3 == 0);
            assert!(is_old || is_deleted || value.as_deref() == Some(b"new"), "{n}: {value:?}");
        }
    }
    (15_000..40_000).for_each(|n| assert!(store.delete(key(n)).unwrap()));
    assert!(store.compact(0.0).unwrap() > 0);
    reader.refresh().unwrap();
    assert_eq!((reader.len(), reader.get(key(7)).unwrap().unwrap()), (15_000, b"new".to_vec()));
}

#[test]
fn a_reader_notices_a_replaced_log() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let put = |store: &LogStore, byte: u8| {
        keys().iter().for_each(|key| store.put(key, [byte; 30]).unwrap());
    };
    put(&store, 1);
    store.close().unwrap();
    let before = disk.files();
    // Two stores with the same beginning, which continue with different records of the same
    // lengths.
    let other = disk.fork();
    for (disk, byte) in [(&disk, 2), (&other, 3)] {
        put(&open(disk).unwrap(), byte);
    }
    let reader = reader(&disk).unwrap();
    assert_eq!(reader.get(&keys()[5]).unwrap().unwrap(), [2; 30]);
    put(&open(&other).unwrap(), 4);
    for path in disk.files().keys().filter(|path| !before.contains_key(*path)) {
        disk.remove(path).unwrap();
    }
    for (path, bytes) in other.files() {
        if bytes != disk.files().get(&path).cloned().unwrap_or_default() {
            let _ = disk.remove(&path);
            disk.write_raw(&path, &bytes);
        }
    }
    reader.refresh().unwrap();
    assert_eq!(
        content(&reader, &keys()).unwrap(),
        content(&self::reader(&disk).unwrap(), &keys()).unwrap()
    );
    assert_eq!(reader.get(&keys()[5]).unwrap().unwrap(), [4; 30]);
}

#[test]
fn copied_segments_are_mapped_once_they_have_hints() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let reader = {
        store.put(b"k", b"v").unwrap();
        reader(&disk).unwrap()
    };
    let unhinted = |reader: &LogStore| {
        let segments = reader.shared().segments();
        segments.iter().filter(|segment| segment.hint.get().is_none()).count()
    };
    for n in 0..100u8 {
        store.put([n], [n; 200]).unwrap();
        reader.refresh().unwrap();
    }
    assert!(unhinted(&reader) > 3, "they are not sealed");
    while store.maintain().unwrap() {}
    reader.refresh().unwrap();
    assert_eq!(unhinted(&reader), 1, "the active one");
    assert!((0..100).all(|n| reader.get([n]).unwrap().unwrap() == [n; 200]));
}

#[test]
fn a_snapshot_of_a_reader_outlives_a_refresh() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    store.put(b"k", b"old").unwrap();
    let reader = reader(&disk).unwrap();
    let snapshot = reader.snapshot();
    store.put(b"k", b"new").unwrap();
    store.compact(0.0).unwrap();
    reader.refresh().unwrap();
    assert_eq!(reader.get(b"k").unwrap().unwrap(), b"new");
    assert_eq!(snapshot.get(b"k").unwrap().unwrap(), b"old");
}

#[test]
fn a_failed_refresh_changes_nothing() {
    let (mut failed, keys) = (0, keys());
    for n in 0.. {
        let disk = SimDisk::new();
        let store = open(&disk).unwrap();
        let put = |range: std::ops::Range<usize>, byte: u8| {
            keys[range].iter().for_each(|key| store.put(key, [byte; 300]).unwrap());
        };
        put(0..40, 1);
        let reader = reader(&disk).unwrap();
        let old = content(&reader, &keys).unwrap();
        put(20..60, 2);
        assert!(keys[..5].iter().all(|key| store.delete(key).unwrap()));
        store.compact(0.2).unwrap();
        let new = content(&store, &keys).unwrap();
        let before = disk.ops();
        disk.fail_at(before + n, Fault::Io);
        let refreshed = reader.refresh();
        let is_over = disk.ops() <= before + n;
        disk.heal();
        failed += usize::from(refreshed.is_err());
        let expected = if refreshed.is_ok() { &new } else { &old };
        assert_eq!(content(&reader, &keys).unwrap(), *expected, "call {n} fails");
        reader.refresh().unwrap();
        assert_eq!(content(&reader, &keys).unwrap(), new, "after call {n} failed");
        if is_over {
            break;
        }
    }
    assert!(failed > 5, "{failed} calls failed");
}

#[test]
fn a_refresh_reports_changes_and_is_seen_by_clones() {
    for access in [Access::Map, Access::Buffered] {
        let disk = SimDisk::new();
        let store = writer(&disk);
        store.put("a", "1").unwrap();
        let options = Options { read_only: true, access, ..options() };
        let on = Arc::clone(&disk) as DiskRef;
        let reader = LogStore::open_on(on, Path::new(DIR), options).unwrap();
        let clone = reader.clone();
        assert!(!reader.refresh().unwrap(), "nothing changed");
        store.put("a", "2").unwrap();
        let snapshot = clone.snapshot();
        assert!(reader.refresh().unwrap());
        assert!(!clone.refresh().unwrap(), "its clone did that");
        assert_eq!(clone.get("a").unwrap().unwrap(), b"2");
        assert_eq!(snapshot.get("a").unwrap().unwrap(), b"1");
        assert_eq!(clone.put("a", "3").unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert!(!store.refresh().unwrap(), "a writer is always up to date");
    }
}

/// Every key always has a value, which never becomes older, while one thread writes and compacts
/// and others refresh.
#[test]
fn gets_continue_during_refreshes() {
    const KEYS: u64 = 200;
    let disk = SimDisk::new();
    let store = writer(&disk);
    for key in 0..KEYS {
        store.put(key.to_le_bytes(), 0u64.to_le_bytes()).unwrap();
    }
    let reader = reader(&disk).unwrap();
    let is_over = AtomicBool::new(false);
    let refreshed = std::thread::scope(|scope| {
        for thread in 0..2 {
            let (reader, is_over) = (reader.clone(), &is_over);
            scope.spawn(move || {
                let (mut random, mut newest) = (Rng(thread), vec![0; KEYS as usize]);
                while !is_over.load(Ordering::Relaxed) {
                    let key = random.below(KEYS as usize);
                    let value = reader.get((key as u64).to_le_bytes()).unwrap().unwrap();
                    let value = u64::from_le_bytes(value.try_into().unwrap());
                    assert!(value >= newest[key], "{value} after {}", newest[key]);
                    newest[key] = value;
                }
            });
        }
        let refresher = scope.spawn(|| {
            let mut count = 0;
            while !is_over.load(Ordering::Relaxed) {
                count += u64::from(reader.refresh().unwrap());
            }
            count
        });
        let mut random = Rng(7);
        for n in 1..6000u64 {
            let key = random.below(KEYS as usize) as u64;
            store.put(key.to_le_bytes(), n.to_le_bytes()).unwrap();
            if n % 16 == 0 {
                store.maintain().unwrap();
            }
        }
        is_over.store(true, Ordering::Relaxed);
        refresher.join().unwrap()
    });
    assert!(refreshed > 0 && store.stats().segments_removed > 0);
    reader.refresh().unwrap();
    let all = |store: &LogStore| store.iter().map(Result::unwrap).collect::<Map>();
    assert_eq!(all(&reader), all(&store));
}
