//! Versions of records, and writes that depend on them.

use super::{DIR, Rng, open, options};
use crate::disk::{Disk, DiskRef, SimDisk};
use crate::log::failpoints::{Failpoint, active};
use crate::log::format::names::{CHECKPOINT, hint_number};
use crate::log::{Batch, Expiry, LogStore, Options, WriteOptions};
use crate::{ErrorKind, Result};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Values and versions.
type Versions = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

fn keys() -> Vec<Vec<u8>> {
    (0..12).map(|n| vec![b'k', n]).collect()
}

/// All values and versions, which every way of reading agrees on.
fn versions(store: &LogStore) -> Result<Versions> {
    let mut all = Versions::new();
    for key in keys() {
        let version = store.version(&key)?;
        if let Some(found) = store.get_versioned(&key)? {
            assert_eq!(version, Some(found.version));
            assert_eq!(found.expiry, Expiry::Never);
            all.insert(key, (found.value, found.version));
        }
    }
    let (mut listed, mut scanned, mut records) = (Versions::new(), Versions::new(), store.iter());
    while let Some(next) = records.next_entry_with(|entry| {
        listed.insert(entry.key.to_vec(), (entry.value.to_vec(), entry.version));
    }) {
        next?;
    }
    store.scan_from_with(0, 1000, |entry| {
        scanned.insert(entry.key.to_vec(), (entry.value.to_vec(), entry.version));
    })?;
    listed.remove(&b"after"[..]);
    scanned.remove(&b"after"[..]);
    assert_eq!((&listed, &scanned), (&all, &all));
    Ok(all)
}

#[test]
fn versions_stay_in_every_order_of_compactions_and_openings() {
    for seed in 0..6 {
        super::choose_access(seed);
        let (mut random, disk) = (Rng(seed), SimDisk::new());
        let mut store = open(&disk).unwrap();
        let (mut all, mut ever) = (Versions::new(), BTreeSet::new());
        for step in 0..600 {
            let key = &keys()[random.below(12usize)];
            match random.below(12u64) {
                0..6 => {
                    // The same values again and again: versions differ anyway.
                    let value = vec![7; 100 * random.below(3usize)];
                    store.put(key, &value).unwrap();
                    let version = store.version(key).unwrap().unwrap();
                    assert!(ever.insert(version), "seed {seed}, step {step}: a version again");
                    all.insert(key.clone(), (value, version));
                }
                6 => {
                    store.delete(key).unwrap();
                    all.remove(key);
                    assert_eq!(store.version(key).unwrap(), None);
                }
                7 => {
                    store.compact(random.below(10u64) as f64 / 10.0).unwrap();
                }
                8 => {
                    store.maintain().unwrap();
                }
                9 => {
                    store.close().unwrap();
                    if random.below(2u64) == 0 {
                        for name in disk.list(Path::new(DIR)).unwrap() {
                            if name == CHECKPOINT || hint_number(&name).is_some() {
                                disk.remove(&Path::new(DIR).join(name)).unwrap();
                            }
                        }
                    }
                    store = open(&disk).unwrap();
                }
                _ => assert_eq!(versions(&store).unwrap(), all, "seed {seed}, step {step}"),
            }
        }
        store.compact(0.0).unwrap();
        store.compact(0.0).unwrap();
        assert_eq!(versions(&store).unwrap(), all, "compacted twice");
        store.backup(Path::new("/backup")).unwrap();
        let disk = Arc::clone(&disk) as DiskRef;
        let backup = LogStore::open_on(disk.clone(), Path::new("/backup"), options()).unwrap();
        assert_eq!(versions(&backup).unwrap(), all, "a backup");
        backup.close().unwrap();
        let [from, to] = ["/backup", "/restored"].map(Path::new);
        LogStore::restore_on(&disk, from, to, options()).unwrap();
        let restored = LogStore::open_on(disk, to, options()).unwrap();
        assert_eq!(versions(&restored).unwrap(), all, "restored");
        restored.verify().unwrap();
    }
}

#[test]
fn a_forgotten_version_is_noticed() {
    let store = open(&SimDisk::new()).unwrap();
    store.put("key", "value").unwrap();
    let before = store.version("key").unwrap();
    active::FAILPOINT.set(Some(Failpoint::ForgetVersion));
    store.compact(0.0).unwrap();
    active::FAILPOINT.set(None);
    assert_ne!(store.version("key").unwrap(), before);
}

#[test]
fn a_copy_takes_eight_bytes_more_once() {
    let store = open(&SimDisk::new()).unwrap();
    (0..100u8).for_each(|n| store.put([n], [n; 50]).unwrap());
    let sizes = [(); 3].map(|()| {
        let live = store.stats().live_bytes;
        store.compact(0.0).unwrap();
        live
    });
    assert_eq!([sizes[1] - sizes[0], sizes[2] - sizes[1]], [800, 0]);
}

thread_local!(static NOW: Cell<u64> = const { Cell::new(0) });

#[test]
fn conditions_compare_versions() {
    let options = Options { clock: || NOW.get(), ..options() };
    let disk = SimDisk::new();
    let at = Path::new(DIR);
    let store = LogStore::open_on(Arc::clone(&disk) as DiskRef, at, options.clone()).unwrap();
    let put = |value: &str| Batch::new().put("a", value).put("b", value);
    let get = |key: &str| store.get(key).unwrap().map(|value| String::from_utf8(value).unwrap());
    let version = |key: &str| store.version(key).unwrap();
    assert!(store.write_if(&[("a", None), ("x", None)], &put("1")).unwrap());
    assert!(!store.write_if(&[("x", None), ("a", None)], &put("2")).unwrap());
    assert_eq!([get("a"), get("b")], ["1", "1"].map(|value| Some(value.to_string())));
    let old = version("a");
    store.put("a", "1").unwrap();
    assert!(!store.write_if(&[("a", old)], &put("3")).unwrap(), "the same value, written again");
    let conditions = [("a", version("a")), ("b", version("b")), ("a", version("a"))];
    assert!(store.write_if(&conditions, &put("4")).unwrap());
    assert!(!store.write_if(&conditions, &put("5")).unwrap(), "the conditions are old now");
    assert_eq!([get("a"), get("b")], ["4", "4"].map(|value| Some(value.to_string())));
    // Conditions alone, and batches of deletes.
    let none: [(&str, Option<u64>); 0] = [];
    assert!(store.write_if(&none, &Batch::new()).unwrap());
    assert!(store.write_if(&[("a", version("a"))], &Batch::new()).unwrap());
    assert!(!store.write_if(&[("a", None)], &Batch::new()).unwrap());
    assert!(!store.write_if(&[("b", old)], &Batch::new().delete("a")).unwrap());
    assert!(store.write_if(&[("b", version("b"))], &Batch::new().delete("a")).unwrap());
    assert_eq!((get("a"), version("a")), (None, None));
    // Expired is absent; options apply.
    let second = WriteOptions::sync().ttl(Duration::from_secs(1));
    let late = Batch::new().put("late", "1");
    assert!(store.write_if_with(&[("late", None)], &late, second).unwrap());
    let alive = version("late");
    assert!(alive.is_some() && !store.write_if(&[("late", None)], &late).unwrap());
    NOW.set(1000);
    assert_eq!(version("late"), None);
    assert!(!store.write_if(&[("late", alive)], &late).unwrap(), "it has expired");
    assert!(store.write_if(&[("late", None)], &late).unwrap());
    assert_eq!(store.expiry("late").unwrap(), Some(Expiry::Never));
    // Errors.
    let long = vec![0; 65_537];
    let refused = store.write_if(&[(&long, None)], &Batch::new()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let read_only = Options { read_only: true, ..options };
    let reader = LogStore::open_on(disk, Path::new(DIR), read_only).unwrap();
    assert_eq!(reader.version("b").unwrap(), version("b"));
    let refused = reader.write_if(&[("b", old)], &put("6")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "whether or not the conditions hold");
}

#[test]
fn no_increment_of_several_counters_is_lost() {
    let store = open(&SimDisk::new()).unwrap();
    let counters = ["one", "two", "three"];
    let (rounds, is_over) = (400, AtomicBool::new(false));
    let number = |value: &[u8]| u64::from_le_bytes(value.try_into().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                store.compact(0.1).unwrap();
            }
        });
        let writers: [_; 4] = std::array::from_fn(|thread| {
            let store = &store;
            scope.spawn(move || {
                for round in 0..rounds {
                    // Two or three of the counters, in different orders.
                    let first = (thread + round) % 3;
                    let keys: Vec<&str> =
                        (0..2 + round % 2).map(|n| counters[(first + n) % 3]).collect();
                    loop {
                        let (mut batch, mut conditions) = (Batch::new(), Vec::new());
                        for key in &keys {
                            let found = store.get_versioned(key).unwrap();
                            let old = found.as_ref().map_or(0, |found| number(&found.value));
                            batch.push_put(key, (old + 1).to_le_bytes());
                            conditions.push((*key, found.map(|found| found.version)));
                        }
                        if store.write_if(&conditions, &batch).unwrap() {
                            break;
                        }
                    }
                }
            })
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
    });
    let sum: u64 = counters.iter().map(|key| number(&store.get(key).unwrap().unwrap())).sum();
    assert_eq!(sum, 4 * 400 * 5 / 2, "two and three per two rounds");
    store.verify().unwrap();
}

/// The states after 0, 1, 2, ... writes, how many of them are durable, and the values that a write
/// which returned an error would have set: their versions are not known.
struct Progress {
    states: Vec<Versions>,
    durable: usize,
    last: Option<BTreeMap<Vec<u8>, Vec<u8>>>,
}

/// Conditional writes of several keys, with compaction and reopening. Ends at the first error.
fn work(disk: &Arc<SimDisk>, seed: u64, steps: u64) -> Progress {
    let (mut random, keys) = (Rng(seed), keys());
    let mut progress = Progress { states: vec![Versions::new()], durable: 0, last: None };
    let Ok(mut store) = open(disk) else { return progress };
    for step in 0..steps {
        let state = progress.states.last().unwrap().clone();
        let some: BTreeSet<usize> = (0..3).map(|_| random.below(12usize)).collect();
        let options = [WriteOptions::new(), WriteOptions::sync()][random.below(2usize)];
        let (mut conditions, mut batch) = (Vec::new(), Batch::new());
        let mut next: BTreeMap<_, _> =
            state.iter().map(|(key, (value, _))| (key.clone(), value.clone())).collect();
        for &n in &some {
            conditions.push((&keys[n], state.get(&keys[n]).map(|(_, version)| *version)));
            if random.below(4u64) == 0 {
                batch.push_delete(&keys[n]);
                next.remove(&keys[n]);
            } else {
                batch.push_put(&keys[n], [step as u8; 300]);
                next.insert(keys[n].clone(), vec![step as u8; 300]);
            }
        }
        let done = match random.below(8u64) {
            0 => store.compact(0.2).map(|_| false),
            1 => store.maintain().map(|_| false),
            2 => {
                match store.close().and_then(|()| open(disk)) {
                    Ok(opened) => store = opened,
                    Err(_) => return progress,
                }
                Ok(false)
            }
            _ => store.write_if_with(&conditions, &batch, options),
        };
        match done.and_then(|wrote| Ok(wrote.then_some(versions(&store)?))) {
            Ok(None) => {}
            Ok(Some(found)) => {
                let values = found.iter().map(|(key, (value, _))| (key.clone(), value.clone()));
                assert_eq!(values.collect::<BTreeMap<_, _>>(), next);
                progress.states.push(found);
                if options == WriteOptions::sync() {
                    progress.durable = progress.states.len() - 1;
                }
            }
            Err(_) => {
                progress.last = Some(next);
                break;
            }
        }
    }
    progress
}

#[track_caller]
fn check(label: &str, progress: &Progress, image: &Arc<SimDisk>) {
    let store = open(image).unwrap_or_else(|e| panic!("{label}: {e}"));
    let found = versions(&store).unwrap_or_else(|e| panic!("{label}: {e}"));
    let values: BTreeMap<_, _> =
        found.iter().map(|(key, (value, _))| (key.clone(), value.clone())).collect();
    assert!(
        progress.states[progress.durable..].contains(&found) || progress.last == Some(values),
        "{label}: not one of the states from {} to {}",
        progress.durable,
        progress.states.len()
    );
    // Conditions hold or fail as before the crash, and versions stay when the store goes on.
    let conditions: Vec<(Vec<u8>, Option<u64>)> = keys()
        .into_iter()
        .map(|key| (key.clone(), found.get(&key).map(|(_, version)| *version)))
        .collect();
    let after = Batch::new().put("after", "wards");
    assert!(store.write_if_with(&conditions, &after, WriteOptions::sync()).unwrap(), "{label}");
    store.compact(0.0).unwrap_or_else(|e| panic!("{label}: {e}"));
    drop(store);
    let store = open(image).unwrap_or_else(|e| panic!("{label}, again: {e}"));
    assert_eq!(versions(&store).unwrap(), found, "{label}, again");
}

#[test]
fn a_power_cut_leaves_whole_conditional_writes_and_their_versions() {
    let mut images = 0;
    for seed in 0..3 {
        images += SimDisk::new().each_crash(
            seed,
            6,
            |disk| work(&disk, seed, 30),
            |label, progress, image| check(&format!("seed {seed}, {label}"), progress, &image),
        );
    }
    assert!(images > 1000, "{images}");
}

#[test]
fn a_failing_call_leaves_whole_conditional_writes() {
    let runs = SimDisk::new().each_fault(
        |disk| work(&disk, 9, 30),
        |label, progress, disk| check(&format!("{label}, reopened"), progress, &disk.fork()),
    );
    assert!(runs > 100, "{runs}");
}
