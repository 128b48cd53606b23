//! Stores of at most 1 MiB: they take little disk space, and get their reserve when they grow.

use super::{DIR, Map};
use crate::ErrorKind;
use crate::disk::{DiskRef, SimDisk};
use crate::log::format::names::{is_reserve, segment_number};
use crate::log::{LogStore, Options};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Segments as large as they are by default.
fn open(disk: &Arc<SimDisk>) -> LogStore {
    let options = Options { background: false, ..Options::default() };
    LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(DIR), options).unwrap()
}

/// Bytes of the segments, and the number of reserve files.
fn sizes(disk: &SimDisk) -> (usize, usize) {
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    let files = disk.files();
    let segments = files.iter().filter(|(path, _)| segment_number(&name(path)).is_some());
    let reserves = files.keys().filter(|path| is_reserve(&name(path))).count();
    (segments.map(|(_, bytes)| bytes.len()).sum(), reserves)
}

/// Bytes that the files of a directory take on disk, and the directory.
fn allocated(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let paths = entries.chain([dir.to_path_buf()]);
    paths.map(|path| std::fs::metadata(path).map_or(0, |file| file.blocks() * 512)).sum()
}

#[test]
fn an_empty_store_takes_less_than_100_kb() {
    let dir = std::env::temp_dir().join(format!("firndb-log-small-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    for round in 0..3u8 {
        let store = LogStore::open(&dir).unwrap();
        store.put("a key", [round]).unwrap();
        store.sync().unwrap();
        let open = allocated(&dir);
        store.close().unwrap();
        let closed = allocated(&dir);
        assert!(open < 100_000 && closed < 100_000, "round {round}: {open}, {closed} bytes");
        assert!(open > 4096, "{open}: the files are somewhere");
    }
    let store = LogStore::open(&dir).unwrap();
    let backup = dir.with_extension("backup");
    store.backup(&backup).unwrap();
    let taken = allocated(&backup);
    assert!(taken < 200_000, "a backup: {taken} bytes");
    drop(store);
    for dir in [dir, backup] {
        std::fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn a_store_gets_its_reserve_before_it_has_a_mebibyte() {
    for length in [100, 10_000, 200_000, 3_000_000] {
        let disk = SimDisk::new();
        let store = open(&disk);
        assert_eq!(sizes(&disk), (64 << 10, 0));
        let (mut written, mut without) = (0, 0);
        for n in 0.. {
            store.put(format!("key {n}"), vec![n as u8; length]).unwrap();
            written += length;
            if n % (20_000 / length).max(1) > 0 {
                continue;
            }
            let (bytes, reserves) = sizes(&disk);
            assert!(bytes <= 1 << 20 || reserves == 2, "{bytes} bytes, {reserves} reserve files");
            without = if reserves == 0 { bytes } else { without };
            if written > 4 << 20 {
                break;
            }
        }
        assert!(length > 200_000 || without > 400_000, "a reserve at {without} bytes already");
        let segments = store.stats().segments;
        assert!(length > 100_000 || segments < 16, "{segments} segments for 4 MiB");
        // A store that has become small keeps what it has, and works without it.
        for n in 0..store.len() {
            store.delete(format!("key {n}")).unwrap();
        }
        store.compact(0.0).unwrap();
        store.close().unwrap();
        let store = open(&disk);
        assert!(store.is_empty());
        store.put("key", "value").unwrap();
    }
}

/// Puts values of 3 KB until the disk is full.
fn fill(store: &LogStore, model: &mut Map, label: &str) {
    for n in 0..10_000 {
        let (key, value) = (format!("key {n}").into_bytes(), vec![n as u8; 3000]);
        match store.put(&key, &value) {
            Ok(()) => drop(model.insert(key, value)),
            Err(e) => {
                assert!(e.kind() == ErrorKind::Io && e.is_disk_full(), "{label}: {e}");
                assert!(e.to_string().contains("free"), "{label}: says what to do: {e}");
                return;
            }
        }
        while n % 7 == 0 && store.maintain().is_ok_and(|did| did) {}
    }
    panic!("{label}: the disk is never full");
}

#[track_caller]
fn compare(store: &LogStore, model: &Map, label: &str) {
    assert_eq!(store.len(), model.len() as u64, "{label}");
    for (key, value) in model {
        assert_eq!(store.get(key).unwrap().as_ref(), Some(value), "{label}");
    }
}

#[test]
fn a_larger_store_can_always_be_reduced_on_a_full_disk() {
    // With fewer segments the reserve takes most of the disk.
    for free in (10 << 20..13 << 20).step_by(448 << 10) {
        let (label, disk, mut model) = (format!("{free} bytes"), SimDisk::new(), Map::new());
        let mut store = open(&disk);
        disk.limit(free);
        fill(&store, &mut model, &label);
        assert!(sizes(&disk).0 > 1 << 20, "{label}");
        if free / (448 << 10) % 2 == 0 {
            store.close().unwrap_or_else(|e| panic!("{label}: {e}"));
            store = open(&disk);
        }
        let names: Vec<Vec<u8>> = model.keys().cloned().collect();
        for (_, key) in names.iter().enumerate().filter(|(n, _)| n % 3 > 0) {
            assert!(store.delete(key).unwrap_or_else(|e| panic!("{label}: {e}")));
            model.remove(key);
        }
        store.compact(0.2).unwrap_or_else(|e| panic!("{label}: {e}"));
        store.compact(0.2).unwrap_or_else(|e| panic!("{label}: {e}"));
        compare(&store, &model, &label);
        for n in 0..names.len() / 8 {
            let (key, value) = (format!("new {n}").into_bytes(), vec![1; 3000]);
            store.put(&key, &value).unwrap_or_else(|e| panic!("{label}, put {n}: {e}"));
            model.insert(key, value);
        }
        drop(store);
        compare(&open(&disk), &model, &label);
    }
}

#[test]
fn a_small_store_on_a_full_disk_loses_nothing_and_goes_on_when_there_is_space() {
    for free in (100 << 10..4608 << 10).step_by(160 << 10) {
        let (label, disk, mut model) = (format!("{free} bytes"), SimDisk::new(), Map::new());
        let store = open(&disk);
        disk.limit(free);
        fill(&store, &mut model, &label);
        compare(&store, &model, &label);
        drop(store);
        let store = open(&disk);
        compare(&store, &model, &label);
        let first = b"key 0";
        match store.delete(first) {
            Ok(was) => assert_eq!(was, model.remove(&first[..]).is_some(), "{label}"),
            Err(e) => assert!(e.is_disk_full(), "{label}: {e}"),
        }
        disk.limit(usize::MAX / 2);
        store.put("more", "space").unwrap_or_else(|e| panic!("{label}: {e}"));
        model.insert(b"more".to_vec(), b"space".to_vec());
        store.compact(0.1).unwrap();
        store.close().unwrap();
        compare(&open(&disk), &model, &label);
    }
}
