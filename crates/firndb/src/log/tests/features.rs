//! Snapshots, updates, times to live, reading next to a writer, backups, repair, verify.

use super::{DIR, Map, Rng, content, open, options};
use crate::ErrorKind;
use crate::disk::{Disk, DiskRef, SimDisk};
use crate::log::format::names::segment_file;
use crate::log::tests::Steps;
use crate::log::{Batch, Expiry, LogStore, Options, Snapshot, Update, WriteOptions};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

fn shown(snapshot: &Snapshot, keys: &[Vec<u8>]) -> Map {
    let mut map = Map::new();
    for key in keys {
        if let Some(value) = snapshot.get(key).unwrap() {
            map.insert(key.clone(), value);
        }
    }
    let many = snapshot.get_many(keys).unwrap();
    assert_eq!(many.len(), keys.len());
    for (key, value) in keys.iter().zip(many) {
        assert_eq!(value.as_ref(), map.get(key));
        assert_eq!(snapshot.contains(key).unwrap(), value.is_some());
    }
    let listed: Vec<_> = snapshot.iter().map(Result::unwrap).collect();
    assert_eq!(listed.len(), map.len(), "each key once");
    assert_eq!(listed.into_iter().collect::<Map>(), map);
    let parts = snapshot.splits(3);
    assert_eq!(parts.into_iter().flatten().map(Result::unwrap).collect::<Map>(), map);
    assert_eq!(snapshot.keys().count(), map.len());
    map
}

#[test]
fn a_snapshot_is_unchanged_by_later_operations() {
    for seed in 0..6 {
        let mut random = Rng(seed);
        let disk = SimDisk::new();
        let store = open(&disk).unwrap();
        let keys: Vec<Vec<u8>> = (0..40).map(|n| format!("key {n}").into_bytes()).collect();
        let mut model = Map::new();
        let mut snapshots: Vec<(Snapshot, Map)> = Vec::new();
        for step in 0..1500 {
            let key = &keys[random.below(40) as usize];
            match random.below(20) {
                0..10 => {
                    let value = vec![step as u8; random.below(150) as usize];
                    store.put(key, &value).unwrap();
                    model.insert(key.clone(), value);
                }
                10..14 => {
                    store.delete(key).unwrap();
                    model.remove(key);
                }
                14..17 => drop(store.maintain().unwrap()),
                17 => drop(store.compact(0.2).unwrap()),
                18 if snapshots.len() < 4 => snapshots.push((store.snapshot(), model.clone())),
                _ if !snapshots.is_empty() => {
                    let at = random.below(snapshots.len() as u64) as usize;
                    assert_eq!(shown(&snapshots[at].0, &keys), snapshots[at].1, "seed {seed}");
                    if random.below(3) == 0 {
                        snapshots.swap_remove(at);
                    }
                }
                _ => {}
            }
        }
        drop(snapshots);
        assert_eq!(shown(&store.snapshot(), &keys), model);
        store.verify().unwrap();
        assert_eq!(store.len(), model.len() as u64);
    }
}

#[test]
fn files_held_by_a_snapshot_are_counted() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let fill = |round: u8| (0..40).for_each(|n| store.put([n], [round; 300]).unwrap());
    fill(1);
    store.sync().unwrap();
    let snapshot = store.snapshot();
    fill(2);
    assert_eq!(store.stats().held_bytes, 0);
    store.compact(0.2).unwrap();
    let held = store.stats().held_bytes;
    assert!((12_000..50_000).contains(&held), "{held}");
    assert_eq!(snapshot.get([7]).unwrap().unwrap(), [1; 300]);
    drop(snapshot);
    assert_eq!(store.stats().held_bytes, 0);
}

#[test]
fn snapshots_are_consistent_under_concurrent_writes_and_compaction() {
    let dir = std::env::temp_dir().join(format!("firndb-log-snapshot-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let options = Options { segment_bytes: 64 << 10, index_bits: 4, ..Options::default() };
    let store = LogStore::open_with(&dir, options).unwrap();
    let pair = |n: u64| [format!("a{}", n % 50).into_bytes(), format!("b{}", n % 50).into_bytes()];
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2u64 {
            let (store, is_over) = (&store, &is_over);
            scope.spawn(move || {
                for n in 0..4000u64 {
                    // Both keys of a pair always have the same value.
                    let [a, b] = pair(n * 7 + writer);
                    let value = [n.to_le_bytes(), writer.to_le_bytes()].concat().repeat(8);
                    store.write(&Batch::new().put(&a, &value).put(&b, &value)).unwrap();
                    if n % 2000 == 1999 {
                        store.compact(0.3).unwrap();
                    }
                }
                is_over.store(true, Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            let mut rounds = 0;
            while !is_over.load(Ordering::Relaxed) || rounds == 0 {
                let snapshot = store.snapshot();
                for n in 0..50 {
                    let [a, b] = pair(n);
                    let values = snapshot.get_many(&[&a, &b]).unwrap();
                    assert_eq!(values[0], values[1]);
                    assert_eq!(snapshot.get(&a).unwrap(), values[0]);
                    assert_eq!(snapshot.contains(&b).unwrap(), values[0].is_some());
                    // Possibly written for the first time meanwhile, but never removed.
                    let was_there = store.get(&a).unwrap().is_some();
                    assert!(!was_there || store.contains(&a).unwrap());
                }
                let all: Map = snapshot.iter().map(Result::unwrap).collect();
                assert!(all.len() <= 100 && all.len().is_multiple_of(2));
                rounds += 1;
            }
        });
    });
    store.verify().unwrap();
    assert_eq!(store.len(), 100);
    let stats = store.stats();
    assert!(stats.segments_removed > 0, "{stats:?}");
    store.close().unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn updates_are_atomic_among_threads() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let next = |old: Option<&[u8]>| {
                        let old = old.map_or(0, |old| u64::from_le_bytes(old.try_into().unwrap()));
                        Some((old + 1).to_le_bytes().to_vec())
                    };
                    store.update(b"count", next).unwrap();
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..20 {
                store.compact(0.1).unwrap();
            }
        });
    });
    assert_eq!(store.get(b"count").unwrap().unwrap(), 2000u64.to_le_bytes());
}

#[test]
fn conditional_writes_depend_on_the_current_value() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    assert!(store.put_if_absent(b"k", b"1").unwrap());
    assert!(!store.put_if_absent(b"k", b"2").unwrap());
    assert!(!store.compare_and_set(b"k", Some(b"2"), Some(b"3")).unwrap());
    assert!(!store.compare_and_set(b"k", None, Some(b"3")).unwrap());
    assert!(store.compare_and_set(b"k", Some(b"1"), Some(b"3")).unwrap());
    assert_eq!(store.append(b"k", b"45").unwrap(), 3);
    assert_eq!(store.append(b"new", b"").unwrap(), 0);
    assert_eq!(store.get(b"k").unwrap().unwrap(), b"345");
    assert_eq!((store.value_len(b"k").unwrap(), store.value_len(b"x").unwrap()), (Some(3), None));
    assert_eq!(store.update(b"k", |_| None).unwrap(), None);
    assert!(!store.contains(b"k").unwrap() && store.contains(b"new").unwrap());
    assert!(store.compare_and_set(b"k", None, None).unwrap(), "absent, and stays so");
    let mut buffer = b"old".to_vec();
    assert!(!store.get_into(b"k", &mut buffer).unwrap() && buffer.is_empty());
    assert_eq!(store.get_many(&["new", "k"]).unwrap(), [Some(vec![]), None]);
}

#[test]
fn read_many_passes_values_in_order_and_ends_at_an_error() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    // More keys than are prefetched together; every third is absent, the last one has expired.
    let keys: Vec<String> = (0..50).map(|n| n.to_string()).collect();
    for (n, key) in keys.iter().enumerate().filter(|(n, _)| n % 3 != 0) {
        store.put(key, n.to_string()).unwrap();
    }
    store.put_with("49", "x", WriteOptions::new().expiry(Expiry::At(1))).unwrap();
    let mut seen = Vec::new();
    store
        .read_many(&keys, |n, record| {
            seen.push((n, record.map(|record| record.value.to_vec())));
            Ok::<(), crate::Error>(())
        })
        .unwrap();
    let all = (0..50).zip(store.get_many(&keys).unwrap()).collect::<Vec<_>>();
    assert_eq!(seen, all);
    assert_eq!((&seen[1].1, &seen[48].1, &seen[49].1), (&Some(b"1".to_vec()), &None, &None));
    let mut count = 0;
    let error = store.read_many(&keys, |n, _| {
        count += 1;
        if n < 20 { Ok(()) } else { Err(crate::Error::invalid("enough")) }
    });
    assert_eq!((error.unwrap_err().message(), count), ("enough", 21));
}

static NOW: AtomicU64 = AtomicU64::new(1000);

#[test]
fn expired_records_are_absent_and_still_hide_older_ones() {
    let options = Options { clock: || NOW.load(Ordering::Relaxed), ..options() };
    let disk = SimDisk::new();
    let at = |d: &Arc<SimDisk>| {
        LogStore::open_on(d.clone() as DiskRef, Path::new(DIR), options.clone()).unwrap()
    };
    let store = at(&disk);
    store.put(b"k", b"old").unwrap();
    store.roll().unwrap();
    let second = WriteOptions::new().ttl(Duration::from_secs(1));
    store.put_with(b"k", b"new", second).unwrap();
    store.put_with(b"alone", b"x", second).unwrap();
    store.put(b"stays", b"y").unwrap();
    let snapshot = store.snapshot();
    assert_eq!(store.get(b"k").unwrap().unwrap(), b"new");
    NOW.store(2000, Ordering::Relaxed);
    assert_eq!((store.get(b"k").unwrap(), store.contains(b"alone").unwrap()), (None, false));
    assert!(!store.delete(b"alone").unwrap(), "gone already");
    assert!(store.put_if_absent(b"alone", b"again").unwrap());
    assert_eq!(snapshot.get(b"k").unwrap().unwrap(), b"new", "at the time of the snapshot");
    drop(snapshot);
    // Compacts the segment with the expired record, then the one with the value before it.
    store.roll().unwrap();
    while store.seal().unwrap() {}
    store.roll().unwrap();
    for number in [2, 1] {
        let segments = store.writable().segments();
        let victim = segments.iter().find(|segment| segment.number == number).unwrap();
        store.evacuate(victim).unwrap();
        let copy = at(&disk.fork());
        assert_eq!(copy.get(b"k").unwrap(), None, "after segment {number}");
        assert_eq!(copy.get(b"stays").unwrap().unwrap(), b"y");
        assert_eq!(copy.get(b"alone").unwrap().unwrap(), b"again");
    }
}

#[test]
fn a_reader_next_to_a_writer_sees_a_recent_state() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let options = Options { read_only: true, ..options() };
    let keys: Vec<Vec<u8>> = (0..30).map(|n| vec![n]).collect();
    let mut model = Map::new();
    let read = |options: &Options| {
        LogStore::open_on(disk.clone() as DiskRef, Path::new(DIR), options.clone())
    };
    let reader = read(&options).unwrap();
    let mut random = Rng(1);
    for step in 0..600 {
        let key = &keys[random.below(30) as usize];
        store.put(key, [step as u8; 90]).unwrap();
        model.insert(key.clone(), vec![step as u8; 90]);
        if step % 7 == 0 {
            store.maintain().unwrap();
        }
        if step % 40 == 0 {
            store.compact(0.3).unwrap();
            let before = content(&reader, &keys).unwrap();
            assert_eq!(content(&reader, &keys).unwrap(), before, "files that went stay readable");
            reader.refresh().unwrap();
            assert_eq!(content(&reader, &keys).unwrap(), model);
            assert_eq!(shown(&reader.snapshot(), &keys), model);
        }
    }
    assert_eq!(reader.put(b"k", b"v").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(open(&disk).unwrap_err().kind(), ErrorKind::Locked);
    store.close().unwrap();
    let none = read(&Options { read_only: true, ..options.clone() }).map(drop);
    none.unwrap();
    let nowhere = LogStore::open_on(SimDisk::new(), Path::new("/no"), options);
    assert_eq!(nowhere.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn backups_are_independent_stores() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let keys: Vec<Vec<u8>> = (0..60).map(|n| vec![n]).collect();
    let backup = |path: &str| {
        LogStore::open_on(disk.clone() as DiskRef, Path::new(path), options()).unwrap()
    };
    let mut model = Map::new();
    for round in 0..4u8 {
        for key in &keys[usize::from(round) * 10..] {
            store.put(key, [round; 100]).unwrap();
            model.insert(key.clone(), vec![round; 100]);
        }
        store.compact(0.5).unwrap();
        let own = format!("/backup-{round}");
        let made = store.backup(Path::new(&own)).unwrap();
        assert!(made.segments > 1 && made.kept == 0, "{made:?}");
        let again = store.backup(Path::new("/backup")).unwrap();
        let once_more = store.backup(Path::new("/backup")).unwrap();
        assert!(once_more.kept >= again.segments - 1, "{again:?} {once_more:?}");
        for path in [own.as_str(), "/backup"] {
            // The backup is durable: no image of a power cut lacks a record.
            for (label, image) in disk.images(u64::from(round), 6) {
                let copy = LogStore::open_on(image, Path::new(path), options()).unwrap();
                assert_eq!(content(&copy, &keys).unwrap(), model, "{label}");
            }
        }
        // Writing to a backup changes neither the store nor other backups.
        backup(&own).put(&keys[0], b"elsewhere").unwrap();
        assert_eq!(content(&store, &keys).unwrap(), model);
        assert_eq!(content(&backup("/backup"), &keys).unwrap(), model);
    }
}

#[test]
fn a_damaged_record_is_an_error_and_repair_recovers_the_others() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let keys: Vec<Vec<u8>> = (0..20).map(|n| vec![b'k', n]).collect();
    for key in &keys {
        store.put(key, [key[1]; 50]).unwrap();
    }
    store.delete(&keys[3]).unwrap();
    store.close().unwrap();
    let path = Path::new(DIR).join(segment_file(1));
    let whole = disk.map(&path).unwrap().to_vec();
    let at = whole.windows(50).position(|w| w == [7; 50]).unwrap();
    for byte in [at, at - 3, at - 8, at + 49] {
        let mut bytes = whole.clone();
        bytes[byte] ^= 0x40;
        let damaged = disk.fork();
        damaged.write_raw(&path, &bytes);
        let damaged_ref: DiskRef = damaged.clone();
        let to = Path::new("/new");
        let report =
            LogStore::repair_on(&damaged_ref, Path::new(DIR), to, options(), |_, _| ()).unwrap();
        assert_eq!((report.keys, report.dropped.len()), (18, 1), "{report:?}");
        let (file, from, length) = &report.dropped[0];
        assert!(*file == segment_file(1) && (*from..from + length).contains(&(byte as u64)));
        let repaired = LogStore::open_on(damaged_ref, to, options()).unwrap();
        for key in &keys {
            let expected = ![3, 7].contains(&key[1]);
            assert_eq!(repaired.contains(key).unwrap(), expected, "{key:?}");
        }
    }
}

#[test]
fn paused_compaction_does_nothing_until_resumed() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    let removed = || {
        for n in 0..2000u32 {
            store.put(format!("key {}", n % 20).as_bytes(), [n as u8; 40]).unwrap();
            store.maintain().unwrap();
        }
        store.stats().segments_removed
    };
    store.pause_compaction();
    assert_eq!(removed(), 0);
    store.resume_compaction();
    assert!(removed() > 0);
    assert_eq!(store.len(), 20);
}

#[test]
fn clones_share_a_store_and_its_close() {
    let disk = SimDisk::new();
    let (store, read) = (open(&disk).unwrap(), |store: &LogStore| store.get("k").unwrap());
    let (clone, last) = (store.clone(), store.clone());
    clone.put("k", "1").unwrap();
    drop(clone);
    assert_eq!(read(&store).as_deref(), Some(&b"1"[..]));
    assert_eq!(open(&disk).unwrap_err().kind(), ErrorKind::Locked);
    store.close().unwrap();
    let other = open(&disk).expect("the lock is released, though there is a clone");
    for error in [last.put("k", "2").unwrap_err(), last.compact(0.5).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Failed);
    }
    other.put("k", "3").unwrap();
    assert_eq!(read(&last).as_deref(), Some(&b"1"[..]), "the state at the close");
    last.close().unwrap();
    drop(other);
    assert_eq!(read(&open(&disk).unwrap()).as_deref(), Some(&b"3"[..]));
}

#[test]
fn a_batch_is_built_by_value_and_in_place() {
    let store = open(&SimDisk::new()).unwrap();
    let mut batch = Batch::new().put("a", "1").delete("b").put_expiring("c", "3", Expiry::Never);
    for n in 0..3u8 {
        batch.push_put([n], vec![n; 3]);
    }
    batch.push_delete("a");
    store.write(&batch).unwrap();
    let all: Map = store.iter().map(Result::unwrap).collect();
    let expected = [(&b"c"[..], &b"3"[..]), (&[0], &[0; 3]), (&[1], &[1; 3]), (&[2], &[2; 3])];
    assert_eq!(all, expected.iter().map(|(k, v)| (k.to_vec(), v.to_vec())).collect());
    let keep = store.update_with("c", WriteOptions::new(), |_| Update::Keep).unwrap();
    assert_eq!((keep, store.stats().puts), (Update::Keep, 5));
    let deleted = store.update_with("c", WriteOptions::new(), |_| Update::Delete).unwrap();
    assert_eq!((deleted, store.contains("c").unwrap()), (Update::Delete, false));
}

#[test]
fn records_of_many_keys_are_read_in_order() {
    let store = LogStore::open_on(SimDisk::new(), Path::new("/db"), options()).unwrap();
    let keys: Vec<String> = (0..100).map(|n| format!("key {}", n % 70)).collect();
    (0..50).for_each(|n| store.put(format!("key {n}"), format!("value {n}")).unwrap());
    let mut seen = Vec::new();
    let all = store.read_many(&keys, |position, record| {
        assert_eq!(position, seen.len());
        assert_eq!(record.map(|record| record.version), store.version(&keys[position])?);
        seen.push(record.map(|record| (record.key.to_vec(), record.value.to_vec())));
        Ok::<_, crate::Error>(())
    });
    all.unwrap();
    for (key, found) in keys.iter().zip(seen) {
        let value = store.get(key).unwrap().map(|value| (key.as_bytes().to_vec(), value));
        assert_eq!(found, value);
    }
    // Stops at the first error of the caller.
    let stopped = store.read_many(&keys, |position, _| {
        assert!(position <= 9, "{position}");
        if position == 9 { Err(crate::Error::invalid("enough")) } else { Ok(()) }
    });
    assert_eq!(stopped.unwrap_err().message(), "enough");
}
