//! Verification, statistics, repair, backup and size of ordered stores.

use super::{DIR, Map, Rng, options};
use crate::disk::envelope::{Envelope, Kind};
use crate::disk::{Disk, DiskRef, SimDisk};
use crate::log::format::key_run::{KeyRunMeta, META};
use crate::log::format::names::key_run_segments;
use crate::log::segments::key_run_file::{KeyRun, KeyRunWriter};
use crate::log::segments::key_source::{Direction, KeyEntry, KeySource};
use crate::log::{Access, LogStore, Options};
use crate::{ErrorKind, Result};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn open_in(disk: &Arc<SimDisk>, dir: &str, options: Options) -> Result<LogStore> {
    LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(dir), options)
}

fn ordered() -> Options {
    Options { ordered: true, ..options() }
}

/// A store with replaced and deleted keys in key runs and in tails, and what it has.
fn filled(disk: &Arc<SimDisk>) -> (LogStore, Map) {
    let (store, mut map, mut rng) = (open_in(disk, DIR, ordered()).unwrap(), Map::new(), Rng(7));
    for n in 0..600u32 {
        let key = format!("key/{:03}", rng.below(200)).into_bytes();
        if n % 5 == 4 {
            assert_eq!(store.delete(&key).unwrap(), map.remove(&key).is_some());
        } else {
            store.put(&key, n.to_le_bytes().repeat(10)).unwrap();
            map.insert(key, n.to_le_bytes().repeat(10));
        }
        if n % 100 == 99 && n < 500 {
            while store.maintain().unwrap() {}
        }
    }
    (store, map)
}

fn scan(store: &LogStore) -> Vec<(Vec<u8>, Vec<u8>)> {
    store.range(..).unwrap().map(Result::unwrap).collect()
}

fn runs(disk: &SimDisk, dir: &str) -> Vec<PathBuf> {
    let names = disk.list(Path::new(dir)).unwrap();
    let is_run = |name: &&String| key_run_segments(name).is_some();
    names.iter().filter(is_run).map(|name| Path::new(dir).join(name)).collect()
}

#[test]
fn a_store_with_runs_and_tails_is_verified() {
    for access in [Access::Map, Access::Buffered] {
        let disk = SimDisk::new();
        let (store, map) = filled(&disk);
        assert_eq!(scan(&store), map.into_iter().collect::<Vec<_>>());
        let stats = store.stats();
        assert!(stats.is_ordered && stats.key_runs > 0 && stats.tail_bytes > 0, "{stats:?}");
        let verified = store.verify().unwrap();
        assert_eq!(verified.files, stats.segments + stats.key_runs);
        let used: u64 = stats.segment_stats.iter().map(|segment| segment.used_bytes).sum();
        assert!((stats.key_run_bytes..used + stats.key_run_bytes).contains(&verified.bytes));
        // A snapshot that is open while its keys change does not disturb a verification.
        let snapshot = store.snapshot();
        store.put("key/000", "new").unwrap();
        store.verify().unwrap();
        drop(snapshot);
        store.close().unwrap();
        let options = Options { read_only: true, create: false, access, ..options() };
        let reader = open_in(&disk, DIR, options).unwrap();
        assert!(reader.stats().is_ordered);
        reader.verify().unwrap();
    }
}

#[test]
fn an_unordered_store_has_no_runs() {
    let store = open_in(&SimDisk::new(), DIR, options()).unwrap();
    store.put("a", "b").unwrap();
    let stats = store.stats();
    let counts = (stats.key_runs, stats.key_run_bytes, stats.tail_bytes);
    assert_eq!((stats.is_ordered, counts), (false, (0, 0, 0)));
    assert_eq!(store.verify().unwrap().files, stats.segments);
}

#[test]
fn every_damaged_byte_of_a_run_is_found() {
    let disk = SimDisk::new();
    let (store, _) = filled(&disk);
    store.close().unwrap();
    for path in runs(&disk, DIR) {
        let length = disk.open(&path).unwrap().len().unwrap();
        for at in (0..length).step_by(7) {
            disk.damage(&path, at as usize);
            let options = Options { read_only: true, create: false, ..options() };
            let found = open_in(&disk, DIR, options).and_then(|store| store.verify());
            let error = found.expect_err(&format!("byte {at} of {}", path.display()));
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert!(error.to_string().contains("keys-"), "{error}");
            disk.damage(&path, at as usize);
        }
    }
}

type Entries = Vec<(Vec<u8>, u64, u64)>;
/// Makes entries wrong.
type Change = fn(&mut Entries);

/// Replaces the entries of a run; its checksums are right.
fn change_run(disk: &SimDisk, path: &Path, change: impl FnOnce(&mut Entries)) {
    let segments = key_run_segments(path.file_name().unwrap().to_str().unwrap()).unwrap();
    let dir = path.parent().unwrap();
    let store = KeyRunMeta::decode(meta_section(disk, path).as_slice()).unwrap().store;
    let run = Arc::new(KeyRun::open(disk, Access::Map, dir, store, segments).unwrap());
    let (mut entries, mut iter) =
        (Entries::new(), run.seek(Bound::Unbounded, Direction::Forward).unwrap());
    while let Some(entry) = iter.current() {
        entries.push((entry.key.to_vec(), entry.segment, entry.offset));
        iter.advance().unwrap();
    }
    change(&mut entries);
    let mut bytes = Vec::new();
    let mut writer = KeyRunWriter::new(&mut bytes, store, segments).unwrap();
    for (key, segment, offset) in &entries {
        writer.push(KeyEntry { key, segment: *segment, offset: *offset }).unwrap();
    }
    writer.finish().unwrap();
    disk.write_raw(path, &bytes);
}

fn meta_section(disk: &SimDisk, path: &Path) -> Vec<u8> {
    let file = Envelope::open(disk.map(path).unwrap(), path, Kind::LogKeyRun).unwrap();
    file.section(file.find(META).unwrap()).unwrap().to_vec()
}

#[test]
fn wrong_entries_with_right_checksums_are_found() {
    let changes: [(&str, Change); 4] = [
        ("one is missing", |entries| drop(entries.remove(0))),
        ("one is there twice", |entries| entries.insert(0, entries[0].clone())),
        ("two are exchanged", |entries| {
            let (a, b) = (entries[0].clone(), entries[1].clone());
            (entries[0].1, entries[0].2, entries[1].1, entries[1].2) = (b.1, b.2, a.1, a.2);
        }),
        ("one is behind the end", |entries| entries[0].2 = (1 << 26) - 1),
    ];
    for (what, change) in changes {
        let disk = SimDisk::new();
        let store = open_in(&disk, DIR, ordered()).unwrap();
        (0..200u8).for_each(|n| store.put([n], [n; 100]).unwrap());
        while store.maintain().unwrap() {}
        store.close().unwrap();
        change_run(&disk, &runs(&disk, DIR)[0], change);
        let options = Options { read_only: true, create: false, ..options() };
        let error = open_in(&disk, DIR, options).unwrap().verify().expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
    }
}

#[test]
fn repaired_and_restored_stores_stay_ordered() {
    let disk = SimDisk::new();
    let (store, map) = filled(&disk);
    let records: Vec<_> = map.into_iter().collect();
    store.backup("/backup").unwrap();
    store.close().unwrap();
    assert_eq!(runs(&disk, "/backup"), Vec::<PathBuf>::new(), "runs are not copied");
    let at = |dir: &'static str| Path::new(dir);
    let shared = Arc::clone(&disk) as DiskRef;
    LogStore::restore_on(&shared, at("/backup"), at("/restored"), options()).unwrap();
    // The header of the first segment is damaged: the next one says it.
    let first = disk.list(at(DIR)).unwrap().into_iter().find(|name| name.ends_with(".log"));
    // The backup has the same file, so the damage is undone afterwards.
    let first = at(DIR).join(first.unwrap());
    disk.damage(&first, 20);
    LogStore::repair_on(&shared, at(DIR), at("/repaired"), options(), |_, _| ()).unwrap();
    disk.damage(&first, 20);
    for dir in ["/backup", "/restored", "/repaired"] {
        let reader = Options { read_only: true, create: false, ..options() };
        let read = open_in(&disk, dir, reader).unwrap();
        assert_eq!(scan(&read), records, "{dir}");
        read.verify().unwrap();
        let store = open_in(&disk, dir, options()).unwrap();
        assert!(store.is_ordered());
        while store.maintain().unwrap() {}
        assert_eq!(scan(&store), records, "{dir}");
        store.verify().unwrap();
        store.close().unwrap();
        assert!(!runs(&disk, dir).is_empty(), "the writer has written the runs of {dir}");
    }
}

#[test]
fn an_ordered_store_takes_at_most_1_3_times_its_keys_and_values() {
    const RECORDS: u64 = 100_000;
    const BYTES: u64 = RECORDS * (16 + 100);
    let disk = SimDisk::new();
    let options = Options { ordered: true, background: false, ..Options::default() };
    let (store, mut rng) = (open_in(&disk, DIR, options).unwrap(), Rng(5));
    for n in 0..RECORDS {
        // Keys of equal length in no order, as a user's hashes or UUIDs are.
        let key = [rng.next(), n].map(u64::to_be_bytes).concat();
        store.put(key, rng.fill(100)).unwrap();
        if n % 1000 == 999 {
            while store.maintain().unwrap() {}
        }
    }
    while store.maintain().unwrap() {}
    let stats = store.stats();
    store.close().unwrap();
    let mut sizes = [0; 4];
    for (path, bytes) in disk.files() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let kind = ["keys-", ".hint", ".log", ".firn"].iter().position(|part| name.contains(part));
        // What is left is the space that is reserved for a full disk, which does not grow.
        if let Some(kind) = kind {
            sizes[kind] += bytes.len() as u64;
        }
    }
    let unused: u64 = stats.segment_stats.iter().map(|s| s.disk_bytes - s.used_bytes).sum();
    sizes[2] -= unused;
    let [runs, hints, records, others] = sizes.map(|bytes| bytes as f64 / BYTES as f64);
    println!("runs {runs:.3}, hints {hints:.3}, records {records:.3}, others {others:.3}");
    assert!(stats.key_run_bytes > 0 && runs + hints + records + others <= 1.3);
}
