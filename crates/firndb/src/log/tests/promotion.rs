//! Promotion of readers: after a writer closed the store or died at any operation, on a failing and
//! on a full disk, and while other threads read.
//!
//! Invariant: a promoted store has everything that was acknowledged before, and is a writer like
//! any other. A promotion that fails leaves a reader.

use super::{DIR, Map, Rng, content, options};
use crate::disk::{DiskRef, Fault, SimDisk, in_child};
use crate::log::maintenance::prepare::prepare_segment;
use crate::log::tests::Steps;
use crate::log::{Access, Batch, LogStore, Options, Snapshot, WriteOptions};
use crate::{ErrorKind, Result};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn open_as(disk: &Arc<SimDisk>, options: Options) -> Result<LogStore> {
    LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(DIR), options)
}

fn writer(disk: &Arc<SimDisk>) -> Result<LogStore> {
    open_as(disk, options())
}

fn reader(disk: &Arc<SimDisk>) -> LogStore {
    open_as(disk, Options { read_only: true, ..options() }).unwrap()
}

/// Ends the process of a writer, which keeps its locks and does nothing more otherwise.
fn kill(disk: &SimDisk, store: LogStore) {
    std::mem::forget(store);
    disk.end_process();
}

fn keys() -> Vec<Vec<u8>> {
    (0..16).map(|n| vec![b'k', n]).collect()
}

fn shown(snapshot: &Snapshot) -> Map {
    snapshot.iter().map(Result::unwrap).collect()
}

/// What was written: the content after each write, which of them are durable, and one whose outcome
/// is not known.
struct Written {
    states: Vec<Map>,
    durable: usize,
    last: Option<Map>,
}

impl Written {
    fn new(state: Map) -> Written {
        Written { states: vec![state], durable: 0, last: None }
    }

    fn now(&self) -> &Map {
        self.states.last().unwrap()
    }

    /// Writes and maintains. Ends at the first error. Calls `between` now and then.
    fn work(&mut self, store: &LogStore, seed: u64, steps: u64, between: impl Fn()) -> Result<()> {
        let (mut random, keys) = (Rng(seed), keys());
        for step in 0..steps {
            let mut next = self.now().clone();
            let key = &keys[random.below(keys.len())];
            let is_sync = random.below(5) == 0;
            let options = if is_sync { WriteOptions::sync() } else { WriteOptions::new() };
            let value = vec![(seed + step) as u8; random.below(900usize)];
            let what = random.below(12);
            let done = match what {
                0..5 => {
                    next.insert(key.clone(), value.clone());
                    store.put_with(key, &value, options)
                }
                5..7 => {
                    next.remove(key);
                    store.delete_with(key, options).map(drop)
                }
                7..9 => {
                    let mut batch = Batch::new().delete(&keys[4]);
                    next.remove(&keys[4]);
                    for key in &keys[..3] {
                        batch.push_put(key, &value);
                        next.insert(key.clone(), value.clone());
                    }
                    store.write_with(&batch, options)
                }
                9 => store.compact(0.3).map(drop),
                _ => store.maintain().map(drop),
            };
            if let Err(e) = done {
                self.last = Some(next);
                return Err(e);
            }
            if next != *self.now() {
                self.states.push(next);
                self.durable = if is_sync { self.states.len() - 1 } else { self.durable };
            }
            if random.below(4) == 0 {
                between();
            }
        }
        Ok(())
    }
}

/// A store of some segments that was closed, and its content.
fn base(seed: u64) -> (Arc<SimDisk>, Map) {
    let (disk, mut written) = (SimDisk::new(), Written::new(Map::new()));
    let store = writer(&disk).unwrap();
    written.work(&store, seed, 60, || ()).unwrap();
    store.close().unwrap();
    let content = written.now().clone();
    (disk, content)
}

/// A promoted store does what every writer does, and nothing is lost by it.
#[track_caller]
fn use_on(label: &str, store: &LogStore, disk: &Arc<SimDisk>, expected: &Map) {
    let used = || -> Result<()> {
        assert_eq!(content(store, &keys())?, *expected, "{label}");
        assert_eq!(shown(&store.snapshot()), *expected, "{label}");
        let mut written = Written::new(expected.clone());
        written.work(store, 77, 30, || ())?;
        while store.maintain()? {}
        store.compact(0.0)?;
        store.verify()?;
        assert_eq!(content(store, &keys())?, *written.now(), "{label}, after work");
        store.clone().close()?;
        assert_eq!(content(&writer(disk)?, &keys())?, *written.now(), "{label}, again");
        Ok(())
    };
    used().unwrap_or_else(|e| panic!("{label}: {e}"));
}

#[test]
fn a_reader_takes_over_whatever_the_writer_did_last() {
    let (mut died, mut in_place) = (0, 0);
    for seed in 0..6u64 {
        let (base, before) = base(seed);
        for cut in 0.. {
            let disk = base.fork();
            let reader = reader(&disk);
            disk.crash_at(disk.ops() + cut);
            let mut written = Written::new(before.clone());
            let outcome = writer(&disk).and_then(|store| {
                let refresh = || drop(reader.refresh());
                written.work(&store, seed + 100, 25, refresh).and_then(|()| store.close())
            });
            disk.end_process();
            disk.crash_at(usize::MAX);
            if cut % 2 == 0 {
                // As long as it has not changed since, the reader's index is used.
                reader.refresh().unwrap();
            }
            let snapshot = (cut % 3 == 0).then(|| reader.snapshot());
            let old = snapshot.as_ref().map(shown);
            let state = Arc::as_ptr(&reader.shared());
            let label = format!("seed {seed}, died at call {cut}");
            reader.promote().unwrap_or_else(|e| panic!("{label}: {e}"));
            in_place += usize::from(Arc::as_ptr(&reader.shared()) == state);
            let found = content(&reader, &keys()).unwrap();
            let is_allowed = found == *written.now() || Some(&found) == written.last.as_ref();
            assert!(is_allowed, "{label}: {found:?}");
            use_on(&label, &reader, &disk, &found);
            assert_eq!(snapshot.as_ref().map(shown), old, "{label}: the snapshot");
            died += 1;
            if outcome.is_ok() {
                break;
            }
        }
    }
    assert!(died > 300 && in_place * 2 > died, "{in_place} of {died}");
}

#[test]
fn power_loss_after_a_promotion_keeps_what_was_durable() {
    let mut images = 0;
    for seed in 0..3u64 {
        let (base, before) = base(seed);
        let work = |disk: Arc<SimDisk>| {
            let mut written = Written::new(before.clone());
            let Ok(reader) = open_as(&disk, Options { read_only: true, ..options() }) else {
                return written;
            };
            let Ok(store) = writer(&disk) else { return written };
            let refresh = || drop(reader.refresh());
            let worked = written.work(&store, seed + 200, 15, refresh);
            std::mem::forget(store);
            if worked.is_err() {
                return written; // The power was lost before.
            }
            disk.end_process();
            if reader.promote().is_ok() {
                let _ = written.work(&reader, seed + 300, 15, || ());
            }
            written
        };
        images += base.each_crash(seed, 8, work, |label, written, image| {
            let store = writer(&image).unwrap_or_else(|e| panic!("{label}: {e}"));
            let found = content(&store, &keys()).unwrap();
            let mut allowed = written.states[written.durable..].iter().chain(&written.last);
            assert!(allowed.any(|state| *state == found), "seed {seed}, {label}");
            use_on(label, &store, &image, &found);
        });
    }
    assert!(images > 500, "{images}");
}

#[test]
fn a_failed_promotion_leaves_a_reader_that_can_try_again() {
    let (mut failed, mut reopened) = (0, 0);
    for seed in 0..4u64 {
        for fault in [Fault::Io, Fault::NoSpace] {
            for n in 0.. {
                let (disk, before) = base(seed);
                let mut written = Written::new(before);
                let store = writer(&disk).unwrap();
                written.work(&store, seed + 1, 20, || ()).unwrap();
                let reader = reader(&disk);
                written.work(&store, seed + 2, 10, || ()).unwrap();
                kill(&disk, store);
                let old = content(&reader, &keys()).unwrap();
                let snapshot = (n % 2 == 0).then(|| reader.snapshot());
                let start = disk.ops();
                disk.fail_at(start + n, fault);
                let promoted = reader.promote();
                let is_over = disk.ops() <= start + n;
                disk.heal();
                let label = format!("seed {seed}, {fault:?} at call {n}");
                if promoted.is_err() {
                    failed += 1;
                    let now = content(&reader, &keys()).unwrap();
                    assert!(now == old || now == *written.now(), "{label}");
                    let error = reader.put(b"k", b"v").unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{label}: {error}");
                    if n % 3 == 0 {
                        // The lock is free.
                        let other = writer(&disk).unwrap_or_else(|e| panic!("{label}: {e}"));
                        written.work(&other, seed + 3, 5, || ()).unwrap();
                        assert_eq!(reader.promote().unwrap_err().kind(), ErrorKind::Locked);
                        kill(&disk, other);
                        reopened += 1;
                    }
                    reader.refresh().unwrap_or_else(|e| panic!("{label}: {e}"));
                    assert_eq!(content(&reader, &keys()).unwrap(), *written.now(), "{label}");
                    reader.promote().unwrap_or_else(|e| panic!("{label}, again: {e}"));
                }
                use_on(&label, &reader, &disk, written.now());
                assert!(snapshot.is_none_or(|snapshot| shown(&snapshot) == old), "{label}");
                if is_over {
                    break;
                }
            }
        }
    }
    assert!(failed > 50 && reopened > 10, "{failed}, {reopened}");
}

#[test]
fn a_full_disk_does_not_prevent_a_promotion() {
    for free in [0, 2000, 8000, 40_000, 1 << 20] {
        let (disk, before) = base(3);
        let mut written = Written::new(before);
        let (store, reader) = (writer(&disk).unwrap(), reader(&disk));
        written.work(&store, 9, 20, || ()).unwrap();
        kill(&disk, store);
        disk.limit(free);
        reader.promote().unwrap();
        assert_eq!(content(&reader, &keys()).unwrap(), *written.now(), "{free} bytes free");
        if let Err(e) = reader.put(b"k\0", b"new") {
            assert!(e.is_disk_full(), "{e}");
        }
        disk.limit(10 << 20);
        reader.put(b"k\0", b"new").unwrap();
        let mut expected = written.now().clone();
        expected.insert(b"k\0".to_vec(), b"new".to_vec());
        use_on(&format!("{free} bytes free"), &reader, &disk, &expected);
    }
}

#[test]
fn a_promotion_waits_for_no_one_and_touches_nothing_while_the_writer_lives() {
    let disk = SimDisk::new();
    let store = writer(&disk).unwrap();
    store.put("k", "v").unwrap();
    let reader = reader(&disk);
    let before = disk.files();
    let error = reader.promote().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert_eq!(error.to_string(), writer(&disk).unwrap_err().to_string());
    assert_eq!(disk.files(), before);
    store.put("k", "w").unwrap();
    assert!(reader.refresh().unwrap());
    assert!(store.promote().is_ok(), "nothing to do");
    store.close().unwrap();
    let clone = reader.clone();
    reader.promote().unwrap();
    reader.promote().unwrap();
    assert!(!clone.refresh().unwrap());
    clone.put("k", "x").unwrap();
    assert_eq!(reader.get("k").unwrap().unwrap(), b"x");
    assert_eq!(writer(&disk).unwrap_err().kind(), ErrorKind::Locked);
    drop((reader, clone));
    assert_eq!(writer(&disk).unwrap().get("k").unwrap().unwrap(), b"x");
}

#[test]
fn a_closed_reader_is_not_promoted() {
    let disk = SimDisk::new();
    writer(&disk).unwrap().close().unwrap();
    let reader = reader(&disk);
    reader.clone().close().unwrap();
    assert_eq!(reader.promote().unwrap_err().kind(), ErrorKind::Failed);
    writer(&disk).unwrap();
}

/// Segments that are full and not sealed, a segment created in advance, and a torn record.
#[test]
fn what_the_writer_left_is_used_or_removed() {
    for is_torn in [false, true] {
        let disk = SimDisk::new();
        let store = writer(&disk).unwrap();
        let mut expected = Map::new();
        for n in 0..200u8 {
            store.put([n], [n; 90]).unwrap();
            expected.insert(vec![n], vec![n; 90]);
            if n == 60 {
                while store.maintain().unwrap() {}
            }
        }
        while store.lock().unwrap().spare.is_none() {
            store.put(b"filler", [1; 90]).unwrap();
            expected.insert(b"filler".to_vec(), vec![1; 90]);
            prepare_segment(store.writable()).unwrap();
        }
        let (spare, last, end) = {
            let writer = store.lock().unwrap();
            let path = |number| store.writable().dir.segment(number);
            let (number, end) = writer.position();
            (path(writer.spare.as_ref().unwrap().number), path(number), end as usize)
        };
        let reader = reader(&disk);
        kill(&disk, store);
        if is_torn {
            let mut bytes = disk.files()[&last].clone();
            bytes[end + 3..end + 20].fill(7);
            disk.write_raw(&last, &bytes);
        }
        let copied = reader.shared().segments();
        let state = Arc::as_ptr(&reader.shared());
        reader.promote().unwrap();
        assert_eq!(Arc::as_ptr(&reader.shared()), state, "the index is used on");
        let recovery = reader.stats().recovery;
        assert_eq!((recovery.dropped_files, recovery.dropped_bytes > 0), (1, is_torn));
        assert!(!disk.files().contains_key(&spare) || disk.files()[&spare][0] != 0);
        let locked = reader.lock().unwrap();
        let unsealed = copied.iter().filter(|segment| segment.hint.get().is_none());
        let unsealed: Vec<u64> = unsealed.map(|segment| segment.number).collect();
        assert!(unsealed.len() > 2);
        assert!(locked.unsynced.iter().all(|segment| unsealed.contains(&segment.number)));
        assert!(locked.unsynced.iter().any(|segment| segment.path == last));
        drop(locked);
        let keys: Vec<Vec<u8>> = expected.keys().cloned().collect();
        assert_eq!(content(&reader, &keys).unwrap(), expected);
        while reader.maintain().unwrap() {}
        reader.sync().unwrap();
        assert_eq!(content(&reader, &keys).unwrap(), expected);
        reader.close().unwrap();
        assert_eq!(content(&writer(&disk).unwrap(), &keys).unwrap(), expected);
    }
}

#[test]
fn readers_take_over_one_after_the_other() {
    for access in [Access::Map, Access::Buffered] {
        let disk = SimDisk::new();
        let as_reader = || open_as(&disk, Options { read_only: true, access, ..options() });
        let mut written = Written::new(Map::new());
        let mut store = open_as(&disk, Options { access, ..options() }).unwrap();
        store.put(b"k\0", b"first").unwrap();
        written.states.push(Map::from([(b"k\0".to_vec(), b"first".to_vec())]));
        let mut standby = as_reader().unwrap();
        for round in 0..20 {
            written.work(&store, round, 30, || ()).unwrap();
            let next = as_reader().unwrap();
            if round % 3 == 0 {
                standby.refresh().unwrap();
            }
            match round % 2 {
                0 => kill(&disk, store),
                _ => store.close().unwrap(),
            }
            standby.promote().unwrap();
            assert_eq!(content(&standby, &keys()).unwrap(), *written.now(), "round {round}");
            (store, standby) = (standby, next);
        }
        use_on("the last", &store, &disk, written.now());
    }
}

#[test]
fn a_backup_does_not_count_as_written_to_because_it_was_promoted() {
    let disk = SimDisk::new();
    let store = writer(&disk).unwrap();
    store.put("k", "v").unwrap();
    let to = Path::new("/backup");
    store.backup(to).unwrap();
    let options = Options { read_only: true, ..options() };
    let backup = LogStore::open_on(Arc::clone(&disk) as DiskRef, to, options).unwrap();
    backup.promote().unwrap();
    while backup.maintain().unwrap() {}
    backup.close().unwrap();
    store.put("k", "w").unwrap();
    store.backup(to).unwrap();
}

#[test]
fn a_reader_whose_directory_was_replaced_takes_over_the_store_at_its_path() {
    let disk = SimDisk::new();
    let store = writer(&disk).unwrap();
    store.put("k", "old").unwrap();
    let reader = reader(&disk);
    store.close().unwrap();
    disk.move_dirs(&[(Path::new(DIR), Path::new("/moved"))]);
    assert_eq!(reader.promote().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(reader.get("k").unwrap().unwrap(), b"old");
    let new = writer(&disk).unwrap();
    new.put("k", "new").unwrap();
    assert_eq!(reader.promote().unwrap_err().kind(), ErrorKind::Locked);
    new.close().unwrap();
    reader.promote().unwrap();
    assert_eq!(reader.get("k").unwrap().unwrap(), b"new");
    reader.put("k", "newer").unwrap();
}

/// Keys of the test with threads.
const KEYS: u64 = 100;

fn number(value: Vec<u8>) -> u64 {
    u64::from_le_bytes(value.try_into().unwrap())
}

/// What the threads of a round share.
#[derive(Default)]
struct Round {
    is_over: AtomicBool,
    /// Number of gets so far.
    gets: AtomicU64,
}

impl Round {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Waits for this many gets.
    fn wait(&self, gets: u64) {
        let until = self.gets.load(Ordering::Relaxed) + gets;
        while self.gets.load(Ordering::Relaxed) < until && !self.is_over() {
            std::thread::yield_now();
        }
    }

    /// No value becomes older.
    fn get(&self, reader: &LogStore, seed: u64) {
        let (mut random, mut newest) = (Rng(seed), [0; KEYS as usize]);
        while !self.is_over() {
            let key = random.below(KEYS as usize);
            let value = number(reader.get((key as u64).to_le_bytes()).unwrap().unwrap());
            assert!(value >= newest[key], "{value} after {}", newest[key]);
            newest[key] = value;
            self.gets.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Snapshots do not change.
    fn take_snapshots(&self, reader: &LogStore) {
        while !self.is_over() {
            let snapshot = reader.snapshot();
            let first = shown(&snapshot);
            assert_eq!(first.len() as u64, KEYS);
            self.wait(50);
            assert_eq!(shown(&snapshot), first);
            for (key, value) in first {
                assert_eq!(snapshot.get(key).unwrap().unwrap(), value);
            }
        }
    }
}

/// Writes the numbers from `from` on; returns the next one.
fn write_numbers(store: &LogStore, from: u64) -> u64 {
    for n in from..from + 300 {
        store.put((n % KEYS).to_le_bytes(), n.to_le_bytes()).unwrap();
        if n % 16 == 0 {
            store.maintain().unwrap();
        }
    }
    from + 300
}

/// Gets and snapshots of other threads see every key, never an older value than before, and no
/// error, while a reader is promoted and written to.
#[test]
fn gets_and_snapshots_continue_during_a_promotion() {
    let disk = SimDisk::new();
    let mut store = writer(&disk).unwrap();
    for key in 0..KEYS {
        store.put(key.to_le_bytes(), 0u64.to_le_bytes()).unwrap();
    }
    let mut next = KEYS;
    for round in 0..12 {
        let options = Options { read_only: true, background: round % 2 == 0, ..options() };
        let reader = open_as(&disk, options).unwrap();
        let beside = Round::default();
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (reader, beside) = (reader.clone(), &beside);
                scope.spawn(move || beside.get(&reader, thread));
            }
            scope.spawn(|| beside.take_snapshots(&reader));
            next = write_numbers(&store, next);
            reader.refresh().unwrap();
            next = write_numbers(&store, next);
            kill(&disk, std::mem::replace(&mut store, reader.clone()));
            store.promote().unwrap();
            for n in next - KEYS..next {
                let value = store.get((n % KEYS).to_le_bytes()).unwrap().unwrap();
                assert_eq!(number(value), n, "round {round}");
            }
            next = write_numbers(&store, next);
            store.compact(0.0).unwrap();
            beside.wait(1000);
            beside.is_over.store(true, Ordering::Relaxed);
        });
    }
    store.verify().unwrap();
}

#[test]
fn a_forked_child_is_not_promoted() {
    let dir = std::env::temp_dir().join(format!("firndb-promote-fork-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let store = LogStore::open_with(&dir, options()).unwrap();
    store.put("k", "v").unwrap();
    let reader = LogStore::open_with(&dir, options().read_only(true)).unwrap();
    store.close().unwrap();
    assert!(in_child(|| reader.promote().unwrap_err().kind() == ErrorKind::Failed));
    reader.promote().unwrap();
    reader.put("k", "w").unwrap();
    let refused = || {
        let error = reader.put("k", "x").unwrap_err();
        reader.promote().is_ok() && error.kind() == ErrorKind::Failed
    };
    assert!(in_child(refused), "it is the parent that writes");
    assert_eq!(reader.get("k").unwrap().unwrap(), b"w");
    drop(reader);
    std::fs::remove_dir_all(&dir).unwrap();
}
