//! Ordered stores with damaged, foreign and overlapping files, and on a full disk: scans have every
//! key or return an error, and nothing but scans depends on the key runs.

use super::{DIR, Map, Rng, Steps, options};
use crate::disk::{Disk, DiskRef, Fault, SimDisk, temporary};
use crate::log::format::names::{key_run_file, key_run_segments, segment_file};
use crate::log::maintenance::key_order::order_step;
use crate::log::segments::key_merge::KeyMerge;
use crate::log::segments::key_run_file::{KeyRun, KeyRunWriter};
use crate::log::segments::key_source::{Direction, KeySource};
use crate::log::segments::reserve::{Need, disk_full};
use crate::log::{Access, LogStore, Options};
use crate::{ErrorKind, Result};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn try_open(disk: &Arc<SimDisk>, options: Options) -> Result<LogStore> {
    LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(DIR), options)
}

fn open(disk: &Arc<SimDisk>) -> LogStore {
    try_open(disk, Options { ordered: true, ..options() }).unwrap()
}

fn at(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

fn runs(disk: &SimDisk) -> Vec<(u64, u64)> {
    disk.list(Path::new(DIR)).unwrap().iter().filter_map(|name| key_run_segments(name)).collect()
}

/// Compares scans in both directions with a map.
#[track_caller]
fn check(store: &LogStore, map: &Map, label: &str) {
    let all = |reverse: bool| -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let range = store.range(..)?;
        if reverse { range.reversed().collect() } else { range.collect() }
    };
    let mut expected: Vec<_> = map.clone().into_iter().collect();
    let found = all(false).unwrap_or_else(|e| panic!("{label}: {e}"));
    assert!(found == expected, "{label}: {} of {}", found.len(), expected.len());
    expected.reverse();
    assert!(all(true).unwrap_or_else(|e| panic!("{label}: {e}")) == expected, "{label}, reverse");
}

fn maintain(store: &LogStore) {
    while store.maintain().unwrap() {}
}

/// A closed store with the runs of `count` segments, each of which has five records, and its
/// content.
fn closed(count: u8) -> (Arc<SimDisk>, Map) {
    let (disk, mut map) = (SimDisk::new(), Map::new());
    let store = open(&disk);
    for n in 0..=count {
        for i in 0..5 {
            store.put([i, n], [n; 100]).unwrap();
            map.insert(vec![i, n], vec![n; 100]);
        }
        store.roll().unwrap();
    }
    maintain(&store);
    store.close().unwrap();
    (disk, map)
}

/// Damages the value of a record.
fn damage(disk: &SimDisk, segment: u64, value: &[u8]) {
    let path = at(&segment_file(segment));
    let bytes = disk.files()[&path].clone();
    disk.damage(&path, bytes.windows(value.len()).position(|part| part == value).unwrap());
}

#[test]
fn maintenance_continues_next_to_a_damaged_record() {
    let (disk, map) = closed(5);
    disk.remove(&at(&key_run_file((2, 2)))).unwrap();
    damage(&disk, 2, &[1; 50]);
    let options = Options { ordered: true, checkpoint_bytes: 4096, ..options() };
    let store = try_open(&disk, options.clone()).unwrap();
    let shared = store.writable();
    let covered = || shared.maintenance.checkpointed.load(Ordering::Relaxed);
    let before = covered();
    for n in 0..200u8 {
        store.put([99], [n; 100]).unwrap();
    }
    let error = loop {
        match store.maintain() {
            Ok(did) => assert!(did, "the damage is reported when everything else is done"),
            Err(e) => break e,
        }
    };
    assert_eq!((error.kind(), error.file()), (ErrorKind::Corrupt, Some(&*at(&segment_file(2)))));
    assert!(covered() > before, "a checkpoint was taken");
    assert!(store.stats().segments_removed > 0, "segments were compacted");
    let sources = shared.order.as_ref().unwrap().sources();
    let active = store.lock().unwrap().segment.number;
    let has_run = |number: u64| number == 2 || number >= active || sources.has_run(number);
    assert!(shared.segments().iter().all(|segment| has_run(segment.number)));
    // Scans and iterations return the same error, before a key could be missing.
    let scanned = store.range(..).unwrap().collect::<Result<Vec<_>>>().unwrap_err();
    let iterated = store.iter().collect::<Result<Vec<_>>>().unwrap_err();
    assert_eq!((scanned.kind(), scanned.file()), (error.kind(), error.file()));
    assert_eq!((scanned.offset(), iterated.offset()), (error.offset(), error.offset()));
    let found = store.get([1, 3]).unwrap();
    assert_eq!(found.as_ref(), map.get(&[1, 3][..]));
    store.close().unwrap();
    let store = try_open(&disk, options).unwrap();
    store.put("more", "x").unwrap();
    store.close().unwrap();
}

#[test]
fn a_damaged_run_is_written_again() {
    let (disk, map) = closed(3);
    let path = at(&key_run_file((2, 2)));
    // In a block, which an opening does not read: after the header and the section of the owner.
    disk.damage(&path, 130);
    let store = open(&disk);
    let error = store.range(..).unwrap().collect::<Result<Vec<_>>>().unwrap_err();
    assert_eq!((error.kind(), error.file()), (ErrorKind::Corrupt, Some(&*path)));
    assert!(store.range([4u8, 9]..).unwrap().count() <= 1, "a scan ends with an error");
    maintain(&store);
    check(&store, &map, "written again");
    store.verify().unwrap();
    store.close().unwrap();
    check(&open(&disk), &map, "opened again");
}

/// A reader cannot write a run. It sorts the keys of the segments, until it finds a better run.
#[test]
fn a_reader_does_without_a_damaged_run() {
    for access in [Access::Map, Access::Buffered] {
        let (disk, mut map) = closed(3);
        let path = at(&key_run_file((2, 2)));
        disk.damage(&path, 130);
        let reading = Options { read_only: true, create: false, access, ..options() };
        let reader = try_open(&disk, reading).unwrap();
        let (keys, snapshot) = (reader.stats().key_runs, reader.snapshot());
        let error = reader.range(..).unwrap().collect::<Result<Vec<_>>>().unwrap_err();
        assert_eq!((error.kind(), error.file()), (ErrorKind::Corrupt, Some(&*path)));
        check(&reader, &map, "given up");
        assert_eq!(reader.stats().key_runs, keys - 1);
        assert!(snapshot.range(..).unwrap().any(|record| record.is_err()), "as it was");
        drop(snapshot);
        reader.refresh().unwrap();
        // With buffered access it opens the store again, and finds the damage again.
        if access == Access::Map {
            check(&reader, &map, "nothing changed");
        }
        // The writer does not scan, so it does not find the damage.
        let store = open(&disk);
        for round in 0..3u8 {
            store.put([50, round], [round; 10]).unwrap();
            map.insert(vec![50, round], vec![round; 10]);
            if round > 0 {
                store.roll().unwrap();
                maintain(&store);
            }
            reader.refresh().unwrap();
            if access == Access::Map {
                check(&reader, &map, "after a refresh");
            }
        }
        assert!(store.range(..).unwrap().any(|record| record.is_err()));
        maintain(&store);
        reader.refresh().unwrap();
        check(&reader, &map, "written again");
        assert_eq!(reader.stats().key_runs, store.stats().key_runs);
        store.close().unwrap();
    }
}

/// The bytes of a run of segments that have a run each.
fn merged(disk: &SimDisk, store: u64, (first, last): (u64, u64)) -> Vec<u8> {
    let run = |n| KeyRun::open(disk, Access::Map, Path::new(DIR), store, (n, n)).unwrap();
    let all = (first..=last).map(|n| Arc::new(run(n)).seek(Bound::Unbounded, Direction::Forward));
    let mut all = KeyMerge::new(all.collect::<Result<_>>().unwrap(), Direction::Forward);
    let mut bytes = Vec::new();
    let mut writer = KeyRunWriter::new(&mut bytes, store, (first, last)).unwrap();
    while let Some(entry) = all.current() {
        writer.push(entry).unwrap();
        all.advance().unwrap();
    }
    writer.finish().unwrap();
    bytes
}

#[test]
fn an_opening_removes_unused_runs_and_no_other_file() {
    let (disk, map) = closed(6);
    let before = runs(&disk);
    assert!(before.contains(&(2, 2)) && before.contains(&(3, 3)), "{before:?}");
    let own = disk.files()[&at(&key_run_file((2, 2)))].clone();
    let store_id = u64::from_le_bytes(own[64..72].try_into().unwrap());
    let write = |segments, bytes: &[u8]| disk.write_raw(&at(&key_run_file(segments)), bytes);
    let empty_run = |store, segments| {
        let mut bytes = Vec::new();
        KeyRunWriter::new(&mut bytes, store, segments).unwrap().finish().unwrap();
        bytes
    };
    // Contains the runs of segments 2 and 3.
    write((2, 3), &merged(&disk, store_id, (2, 3)));
    // Overlaps that, behind the end of the log, cut, of other segments, unfinished.
    write((3, 4), &empty_run(store_id, (3, 4)));
    write((6, 900), &empty_run(store_id, (6, 900)));
    write((1, 3), &own[..own.len() - 1]);
    write((1, 4), &own);
    let unfinished = temporary(&at(&key_run_file((1, 5)))).unwrap();
    disk.write_raw(&unfinished, &own[..10]);
    let foreign = [
        ((1, 6), empty_run(store_id ^ 1, (1, 6))),
        ((1, 7), b"a user's notes".repeat(9)),
        ((1, 8), Vec::new()),
    ];
    foreign.iter().for_each(|(segments, bytes)| write(*segments, bytes));
    let all = runs(&disk);
    let reader = Options { read_only: true, create: false, ..options() };
    check(&try_open(&disk, reader).unwrap(), &map, "a reader");
    assert_eq!(runs(&disk), all, "a reader removes nothing");
    for round in 0..2 {
        let store = open(&disk);
        check(&store, &map, "a writer");
        maintain(&store);
        check(&store, &map, "maintained");
        store.close().unwrap();
        let now = runs(&disk);
        for segments in [(2, 2), (3, 3), (3, 4), (6, 900), (1, 3), (1, 4)] {
            assert!(!now.contains(&segments), "round {round}: {segments:?} in {now:?}");
        }
        let files = disk.files();
        assert!(!files.contains_key(&unfinished), "round {round}");
        for (segments, bytes) in &foreign {
            assert_eq!(files.get(&at(&key_run_file(*segments))), Some(bytes), "round {round}");
        }
    }
}

/// If a power cut loses a segment, the one before it gets more records, even if it has a hint and a
/// run.
#[test]
fn a_segment_that_is_continued_after_a_power_cut_keeps_its_keys() {
    for ordered in [false, true] {
        let (disk, mut continued) = (SimDisk::new(), 0);
        let options = Options { ordered, ..options() };
        let store = try_open(&disk, options.clone()).unwrap();
        store.put("a", [1; 50]).unwrap();
        store.put("c", [1; 50]).unwrap();
        store.roll().unwrap();
        assert!(store.seal().unwrap());
        assert!(order_step(store.writable()).is_ok());
        for (label, image) in disk.images(1, 60) {
            let mut map: Map = [b"a", b"c"].map(|key| (key.to_vec(), vec![1; 50])).into();
            let store = try_open(&image, options.clone()).unwrap();
            if store.len() < 2 {
                continue; // Not durable.
            }
            let names = image.list(Path::new(DIR)).unwrap();
            let is_run = |name: &String| key_run_segments(name).is_some();
            continued += usize::from(store.lock().unwrap().segment.number == 1);
            assert!(store.lock().unwrap().segment.number > 1 || !names.iter().any(is_run));
            store.put("b", [2; 50]).unwrap();
            map.insert(b"b".to_vec(), vec![2; 50]);
            store.roll().unwrap();
            store.put("d", "x").unwrap();
            assert!(store.delete("b").unwrap());
            map.insert(b"d".to_vec(), b"x".to_vec());
            map.remove(&b"b"[..]);
            let with_delete = Arc::clone(&store.lock().unwrap().segment);
            store.roll().unwrap();
            store.sync().unwrap();
            store.roll().unwrap();
            while store.seal().unwrap() {}
            assert!(store.lock().unwrap().link_durable >= with_delete.number);
            // The delete must stay as long as the value before it does.
            store.evacuate(&with_delete).unwrap();
            while order_step(store.writable()).unwrap() {}
            let copy = try_open(&image.fork(), options.clone()).unwrap();
            for store in [&store, &copy] {
                assert_eq!(store.iter().map(Result::unwrap).collect::<Map>(), map, "{label}");
                if ordered {
                    check(store, &map, &label);
                }
            }
        }
        assert!(continued > 0, "ordered: {ordered}");
    }
}

/// A closed store with sealed segments without runs.
fn without_runs(count: u8) -> (Arc<SimDisk>, Map) {
    let (disk, map) = closed(count);
    for segments in runs(&disk) {
        disk.remove(&at(&key_run_file(segments))).unwrap();
    }
    disk.sync_dir(Path::new(DIR)).unwrap();
    (disk.fork(), map)
}

#[test]
fn a_full_disk_at_any_write_of_runs_stops_nothing_else() {
    let (base, map) = without_runs(8);
    let work = |disk: Arc<SimDisk>| {
        let store = open(&disk);
        let mut refused = 0;
        for _ in 0..30 {
            match order_step(store.writable()) {
                Ok(_) => {}
                Err(e) => {
                    assert!(e.is_disk_full() || e.kind() == ErrorKind::Failed, "{e}");
                    refused += 1;
                }
            }
        }
        (store, refused)
    };
    let whole = base.fork();
    let (store, refused) = work(Arc::clone(&whole));
    assert_eq!((refused, runs(&whole).len()), (0, 1), "all runs were merged");
    drop(store);
    let is_run = |(_, line): &(usize, String)| line.contains("keys-") && !line.contains("remove");
    let steps: Vec<usize> =
        whole.log().into_iter().enumerate().filter(is_run).map(|s| s.0).collect();
    assert!(steps.len() > 30, "{steps:?}");
    let mut all = 0;
    for (n, fault) in steps.iter().flat_map(|&n| [(n, Fault::NoSpace), (n, Fault::Short)]) {
        for forever in [false, true] {
            let label = format!("{fault:?} at {n}, for ever: {forever}");
            let disk = base.fork();
            if forever {
                disk.fail_from(n, fault)
            } else {
                disk.fail_at(n, fault)
            }
            let (store, refused) = work(Arc::clone(&disk));
            all += refused;
            check(&store, &map, &label);
            assert_eq!(store.get([1, 1]).unwrap().as_ref(), map.get(&[1, 1][..]), "{label}");
            disk.heal();
            if store.writable().dir.failed.get().is_some() {
                drop(store); // The log could not be synced, as if there were no runs.
                check(&open(&disk), &map, &label);
                continue;
            }
            store.put([1, 1], [1; 100]).unwrap();
            maintain(&store);
            check(&store, &map, &label);
            assert!(!disk.files().keys().any(|path| path.to_str().unwrap().contains("tmp")));
            store.close().unwrap_or_else(|e| panic!("{label}: {e}"));
            check(&open(&disk), &map, &label);
        }
    }
    assert!(all > 50, "{all}");
}

/// A merge that fills the disk is not tried again and again.
#[test]
fn a_merge_without_space_waits_for_a_change() {
    let (disk, map) = without_runs(8);
    let store = open(&disk);
    let shared = store.writable();
    let merge_fails = || {
        disk.limit(0);
        let error = order_step(shared).unwrap_err();
        assert!(error.is_disk_full(), "{error}");
        disk.limit(1 << 20);
    };
    let sealed = || shared.segments().iter().filter(|its| its.hint.get().is_some()).count();
    while store.stats().key_runs < sealed() as u64 {
        assert!(order_step(shared).unwrap());
    }
    merge_fails();
    let ops = disk.ops();
    (0..3).for_each(|_| assert!(!order_step(shared).unwrap()));
    assert_eq!(disk.ops(), ops, "no attempt");
    // Without the reserve there is no attempt either, and with a new one there is.
    let full = || Err::<(), _>(disk_full(Path::new(DIR), 1));
    assert!(shared.spend_reserve(Need::Compact, full).is_err());
    assert!(!order_step(shared).unwrap());
    shared.hold_reserve(0).unwrap();
    merge_fails();
    assert!(!order_step(shared).unwrap());
    // There is an attempt after a new run, too.
    store.roll().unwrap();
    maintain(&store);
    assert!(store.stats().key_runs < 3);
    check(&store, &map, "merged");
}

/// A store that was restored has no runs, and a writer with a short life does not write all.
#[test]
fn a_store_without_runs_is_scanned_written_and_closed() {
    let (disk, mut map) = without_runs(40);
    let store = open(&disk);
    check(&store, &map, "from the segments");
    store.put([60], b"new").unwrap();
    map.insert(vec![60], b"new".to_vec());
    store.roll().unwrap();
    let tails = store.writable().backpressure.tails.load(Ordering::Relaxed);
    assert_eq!(tails, 1, "puts do not wait for the keys that the scan needed");
    check(&store, &map, "with a put");
    store.close().unwrap();
    let now = runs(&disk).len();
    assert!((1..20).contains(&now), "{now} runs");
    let store = open(&disk);
    check(&store, &map, "partly with runs");
    maintain(&store);
    check(&store, &map, "maintained");
    store.verify().unwrap();
    store.close().unwrap();
}

#[test]
fn a_key_that_is_damaged_after_its_put_gets_into_no_run() {
    let disk = SimDisk::new();
    let options = Options { ordered: true, access: Access::Buffered, ..options() };
    let store = try_open(&disk, options).unwrap();
    let key = |n: u8| [&[b'k'; 20][..], &[n]].concat();
    (0..5).for_each(|n| store.put(key(n), [n; 50]).unwrap());
    store.roll().unwrap();
    assert!(store.seal().unwrap());
    let path = at(&segment_file(1));
    let bytes = disk.files()[&path].clone();
    disk.damage(&path, bytes.windows(21).position(|part| part == key(3)).unwrap() + 18);
    let error = order_step(store.writable()).unwrap_err();
    assert_eq!((error.kind(), error.file()), (ErrorKind::Corrupt, Some(&*path)));
    assert!(runs(&disk).is_empty());
    let scanned = store.range(..).unwrap().collect::<Result<Vec<_>>>().unwrap_err();
    assert_eq!(scanned.kind(), ErrorKind::Corrupt);
    store.close().unwrap();
}

/// A failing disk leaves no keys in memory that are in the segments.
#[test]
fn tails_are_not_kept_if_their_runs_cannot_be_written() {
    let disk = SimDisk::new();
    let (store, mut map) = (open(&disk), Map::new());
    for n in 0..300u32 {
        store.put(n.to_be_bytes(), [1; 100]).unwrap();
        map.insert(n.to_be_bytes().to_vec(), vec![1; 100]);
    }
    while store.seal().unwrap() {}
    let before = store.stats().tail_bytes;
    let sealed = store.writable().segments().len() - 1;
    disk.fail_from(disk.ops(), Fault::Io);
    (0..2 * sealed).for_each(|_| assert!(order_step(store.writable()).is_err()));
    disk.heal();
    assert!(store.stats().tail_bytes < before, "{} bytes", store.stats().tail_bytes);
    check(&store, &map, "filled again");
    maintain(&store);
    check(&store, &map, "with runs");
}

/// One store on one disk: filled, reduced, written again, with scans all the time.
fn live_through(free: usize, all_steps: bool) {
    let label = format!("{free} bytes, all steps: {all_steps}");
    let disk = SimDisk::new();
    let options = Options { ordered: true, checkpoint_bytes: 8 << 10, ..options() };
    let mut store = try_open(&disk, options.clone()).unwrap();
    let (mut map, mut random) = (Map::new(), Rng(free as u64));
    disk.limit(free);
    let step = |store: &LogStore, n: usize| {
        let steps = if all_steps { usize::MAX } else { usize::from(n.is_multiple_of(7)) };
        for _ in 0..steps {
            match store.maintain() {
                Ok(true) => {}
                Ok(false) => return,
                Err(e) => return assert!(e.is_disk_full(), "{label}: {e}"),
            }
        }
    };
    for n in 0.. {
        let (key, value) = (format!("key {n}").into_bytes(), vec![n as u8; random.below(600usize)]);
        match store.put(&key, &value) {
            Ok(()) => drop(map.insert(key, value)),
            Err(e) => {
                assert!(e.is_disk_full(), "{label}: {e}");
                break;
            }
        }
        step(&store, n);
    }
    check(&store, &map, &label);
    if free.is_multiple_of(1024) {
        store.close().unwrap_or_else(|e| panic!("{label}: {e}"));
        store = try_open(&disk, options.clone()).unwrap();
        check(&store, &map, &label);
    }
    let names: Vec<Vec<u8>> = map.keys().cloned().collect();
    for (n, key) in names.iter().enumerate().filter(|(n, _)| n % 3 > 0) {
        assert!(store.delete(key).unwrap_or_else(|e| panic!("{label}: {e}")));
        map.remove(key);
        step(&store, n);
    }
    check(&store, &map, &label);
    for _ in 0..2 {
        store.compact(0.2).unwrap_or_else(|e| panic!("{label}: {e}"));
    }
    check(&store, &map, &label);
    for n in 0..names.len() / 8 {
        let (key, value) = (format!("new {n}").into_bytes(), vec![1; n * 53 % 600]);
        store.put(&key, &value).unwrap_or_else(|e| panic!("{label}, put {n}: {e}"));
        map.insert(key, value);
        step(&store, n);
    }
    check(&store, &map, &label);
    store.close().unwrap_or_else(|e| panic!("{label}: {e}"));
    check(&try_open(&disk, options).unwrap(), &map, &label);
}

#[test]
fn deletes_and_compaction_make_room_in_an_ordered_store() {
    for free in (40 << 10..72 << 10).step_by(1536) {
        [false, true].into_iter().for_each(|all_steps| live_through(free, all_steps));
    }
}
