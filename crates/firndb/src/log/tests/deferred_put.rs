//! Deferred puts: over records of the same key and of other keys with its hash.

use super::{DIR, Map, content, open, options};
use crate::disk::{Disk, DiskRef, SimDisk};
use crate::log::failpoints::active;
use crate::log::format::names::segment_file;
use crate::log::index::slot::RecordLocation;
use crate::log::tests::Steps;
use crate::log::{LogStore, Options};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A store in which all keys have one of two hashes, and two keys with the same hash.
fn coarse() -> (Arc<SimDisk>, LogStore, [Vec<u8>; 2]) {
    active::STORE.set(Some(active::coarse(1, 5)));
    let disk = SimDisk::new();
    let options = Options { index_doublings: 0, ..options() };
    let store = LogStore::open_on(Arc::clone(&disk) as DiskRef, Path::new(DIR), options).unwrap();
    let keys = (0..20u8).map(|n| vec![n]).filter(|key| store.writable().lookup.hash(key) == 0);
    let keys: Vec<_> = keys.take(2).collect();
    (disk, store, keys.try_into().unwrap())
}

/// The number of buffered inserts and of displaced entries.
fn deferred(store: &LogStore) -> (usize, usize) {
    (
        store.writable().lookup.index.inserts.occupied().count(),
        store.writable().lookup.index.displaced.occupied().count(),
    )
}

/// The number of keys without settling.
fn counted(store: &LogStore) -> u64 {
    store.writable().counters.keys.load(Ordering::Relaxed)
}

/// Begins another segment.
fn roll(store: &LogStore) {
    store.roll().unwrap();
}

#[test]
fn a_key_with_the_same_hash_is_kept_by_every_operation() {
    let steps: [(&str, Step); 10] = [
        ("nothing", |_, _, _| {}),
        ("length", |store, _, _| assert_eq!(store.len(), 2)),
        ("stats", |store, _, _| assert_eq!(store.stats().keys, 2)),
        ("delete the new", |store, [_, b], map| {
            assert!(store.delete(b).unwrap());
            map.remove(b);
        }),
        ("delete the other", |store, [a, _], map| {
            assert!(store.delete(a).unwrap());
            map.remove(a);
        }),
        ("compare and set", |store, [a, _], map| {
            assert!(store.compare_and_set(a, Some(b"a"), Some(b"c")).unwrap());
            map.insert(a.clone(), b"c".to_vec());
        }),
        ("put again", |store, [a, b], map| {
            for key in [b, a, b] {
                store.put(key, b"again").unwrap();
                map.insert(key.clone(), b"again".to_vec());
            }
        }),
        ("snapshot", |store, [a, b], map| {
            let snapshot = store.snapshot();
            assert_eq!(deferred(store), (0, 0));
            store.put(a, b"later").unwrap();
            map.insert(a.clone(), b"later".to_vec());
            assert_eq!(snapshot.get(a).unwrap().unwrap(), b"a");
            assert_eq!(snapshot.get(b).unwrap().unwrap(), b"b");
            assert_eq!(snapshot.iter().count(), 2);
        }),
        ("compaction", |store, _, _| assert!(store.compact(0.0).unwrap() > 0)),
        ("checkpoint", |store, _, _| {
            while store.seal().unwrap() {}
            store.checkpoint().unwrap();
        }),
    ];
    // After one put its entry is buffered. After two, the first entry has displaced the other
    // key's. The third put finds two entries with its hash and has to read their records.
    for (puts, is_deferred, keys) in [(1, (1, 0), 1), (2, (1, 1), 1), (3, (0, 0), 2)] {
        for (name, step) in steps {
            another_key_stays(puts, is_deferred, keys, name, step);
        }
    }
}

type Step = fn(&LogStore, &[Vec<u8>; 2], &mut Map);

fn another_key_stays(puts: usize, is_deferred: (usize, usize), known: u64, name: &str, step: Step) {
    let (disk, store, keys) = coarse();
    let [a, b] = &keys;
    let mut map = Map::from([(a.clone(), b"a".to_vec()), (b.clone(), b"b".to_vec())]);
    store.put(a, b"a").unwrap();
    roll(&store);
    for _ in 0..puts {
        store.put(b, b"b").unwrap();
    }
    assert_eq!((deferred(&store), counted(&store)), (is_deferred, known), "{puts} puts");
    let name = format!("{name} after {puts} puts");
    for key in &keys {
        assert_eq!(store.get(key).unwrap().as_ref(), map.get(key), "{name}");
    }
    step(&store, &keys, &mut map);
    assert_eq!(store.stats().keys, map.len() as u64, "{name}");
    assert_eq!(content(&store, &keys).unwrap(), map, "{name}");
    store.verify().unwrap();
    assert_eq!(store.len(), map.len() as u64, "{name}");
    let live = store.stats().live_bytes;
    store.close().unwrap();
    let store = open(&disk).unwrap();
    assert_eq!(content(&store, &keys).unwrap(), map, "{name}");
    assert_eq!(store.stats().live_bytes, live, "{name}");
}

#[test]
fn deferred_updates_are_counted_when_settled() {
    let store = open(&SimDisk::new()).unwrap();
    let keys: Vec<Vec<u8>> = (0..200u8).map(|n| vec![n]).collect();
    let mut most = (0, 0);
    for round in 0..5u8 {
        for (n, key) in (1..).zip(&keys) {
            store.put(key, [round; 10]).unwrap();
            let (late, aside) = deferred(&store);
            match round {
                0 => assert_eq!((counted(&store) + late as u64, aside), (n, 0)),
                1 => {} // Some buffered inserts have not displaced an entry yet.
                _ => assert_eq!(counted(&store), 200),
            }
            assert_eq!(store.get(key).unwrap().unwrap(), [round; 10]);
            most = (most.0.max(late), most.1.max(aside));
        }
    }
    assert!((8..=32).contains(&most.0.min(most.1)), "{most:?} at the same time");
    let stats = store.stats();
    assert_eq!((deferred(&store), stats.keys, stats.puts), ((0, 0), 200, 1000));
    assert_eq!(stats.live_bytes * 5, stats.log_bytes, "all records are of one length");
    let snapshot = store.snapshot();
    store.put(&keys[0], b"new").unwrap();
    assert_eq!(deferred(&store), (0, 0), "with a snapshot the index changes at once");
    assert_eq!(snapshot.get(&keys[0]).unwrap().unwrap(), [4; 10]);
}

/// Closes the store, damages a key in its first segment, and reopens it.
fn with_damage(disk: &Arc<SimDisk>, store: LogStore, key: &[u8]) -> LogStore {
    roll(&store);
    store.close().unwrap();
    let path = Path::new(DIR).join(segment_file(1));
    let mut bytes = disk.map(&path).unwrap().to_vec();
    let at = bytes.windows(key.len()).position(|window| window == key).unwrap();
    bytes[at] ^= 0x80;
    disk.write_raw(&path, &bytes);
    let store = LogStore::open_on(disk.clone(), Path::new(DIR), options()).unwrap();
    assert!(store.get(key).is_err());
    store
}

#[test]
fn a_put_over_a_damaged_record_is_read_back() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    for key in [b"damaged", b"another"] {
        store.put(key, [7; 30]).unwrap();
    }
    let store = with_damage(&disk, store, b"damaged");
    store.put(b"damaged", b"whole").unwrap();
    for _ in 0..2 {
        assert_eq!(store.get(b"damaged").unwrap().unwrap(), b"whole");
        assert_eq!(store.get(b"another").unwrap().unwrap(), [7; 30]);
        let _settled = store.stats();
    }
}

#[test]
fn a_put_over_a_damaged_record_may_begin_a_segment() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    store.put(b"damaged", [7; 30]).unwrap();
    let store = with_damage(&disk, store, b"damaged");
    let before = store.stats().segments;
    store.put(b"damaged", [8; 100_000]).unwrap();
    assert_eq!(store.stats().segments, before + 1);
    assert_eq!(store.get(b"damaged").unwrap().unwrap(), [8; 100_000]);
}

#[test]
fn a_put_over_a_damaged_record_that_shares_its_hash_is_read_back() {
    active::STORE.set(Some(active::coarse(1, 5)));
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let keys = (0..40u8)
        .map(|n| [b'k', b'e', b'y', n])
        .filter(|key| store.writable().lookup.hash(key) == 0);
    let keys: Vec<_> = keys.take(3).collect();
    for key in &keys {
        store.put(key, [7; 30]).unwrap();
    }
    let store = with_damage(&disk, store, &keys[0]);
    store.put(keys[0], b"whole").unwrap();
    for _ in 0..2 {
        assert_eq!(store.get(keys[0]).unwrap().unwrap(), b"whole");
        let _settled = store.stats();
    }
    // The key of the damaged record is unknown, so its entry comes after all others now.
    for key in &keys[1..] {
        assert_eq!(store.get(key).unwrap().unwrap(), [7; 30]);
    }
}

/// Fills the first shard of the index. Returns the number of entries of the index then.
fn fill_shard(store: &LogStore) -> u64 {
    let mut writer = store.writable().lock_writer().unwrap();
    let (index, mut kept) = (&store.writable().lookup.index, 1..1 << 24);
    let mut insert =
        |n: u64| writer.index.insert(index, n << (64 - index.width()), RecordLocation::new(0, n));
    assert!(kept.any(|n| insert(n).is_err()));
    writer.index.entries()
}

#[test]
fn a_put_that_does_not_fit_the_index_stays_and_the_next_one_fails() {
    let (disk, store, [a, b]) = coarse();
    store.put(&a, b"a").unwrap();
    assert_eq!(deferred(&store), (1, 0));
    let entries = fill_shard(&store);
    let error = store.put(&b, b"b").unwrap_err();
    assert!(error.to_string().contains("the index is full"), "{error}");
    assert!(store.put(&a, b"later").is_err());
    assert_eq!((store.len(), deferred(&store)), (entries + 1, (1, 0)));
    assert_eq!(store.get(&a).unwrap().unwrap(), b"a");
    assert_eq!(store.get(&b).unwrap(), None);
    assert!(store.close().is_err());
    let store = open(&disk).unwrap();
    assert_eq!(store.get(&a).unwrap().unwrap(), b"a");
    assert_eq!(store.get(&b).unwrap(), None);
    store.put(&b, b"b").unwrap();
    assert_eq!(store.len(), 2);
}

#[test]
fn closing_with_a_put_that_does_not_fit_the_index_keeps_it_and_fails() {
    let (disk, store, [a, _]) = coarse();
    store.put(&a, b"a").unwrap();
    fill_shard(&store);
    let error = store.close().unwrap_err();
    assert!(error.to_string().contains("the index is full"), "{error}");
    for (cut, disk) in disk.images(1, 50) {
        assert_eq!(
            open(&disk).unwrap().get(&a).unwrap().unwrap(),
            b"a",
            "after a power cut, {cut}"
        );
    }
}
