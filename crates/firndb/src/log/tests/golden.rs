//! Golden files: a store of an older format can be opened and read forever.
//!
//! `tests/golden/v1/log/` holds the directory of a store: segments, hints, a checkpoint and the end
//! of the log. `tests/golden/v2/log/` is the same store with 48 instead of 38 bits of each hash in
//! its hints. One test reads both; another writes the store again and compares it with the newest
//! one byte by byte, so that no change of the format goes unnoticed. New golden files are made with
//! `cargo test -p firndb --lib log::tests::golden -- --ignored`.

use super::options;
use crate::log::failpoints::active;
use crate::log::format::names::is_reserve;
use crate::log::{Batch, LogStore, Options, WriteOptions};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const CHANGED: &str = "the bytes of the format changed: raise its version, leave \
    tests/golden/v2/log as it is, and add tests/golden/v3/log (the head of golden.rs says how)";

/// Versions in the golden store, of which the last one is computed from where compaction found the
/// record: byte 224 of segment 1.
const VERSIONS: [u64; 3] =
    [9_207_537_535_086_018_382, 12_853_883_273_611_580_170, 2_636_291_699_527_994_484];

fn golden(version: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(version).join("log")
}

/// A clock that stands still.
fn noon() -> u64 {
    1_380_000_000_000
}

fn key(n: usize) -> Vec<u8> {
    format!("key {n}").into_bytes()
}

fn value(n: usize) -> Vec<u8> {
    vec![b'a' + (n % 26) as u8; n * n % 300]
}

/// Writes a store with puts, deletes, a batch, a time to live and a large record, and closes it.
fn write(dir: &Path) {
    active::STORE.set(Some(0x0123_4567_89AB_CDEF));
    let store = LogStore::open_with(dir, Options { clock: noon, ..options() }).unwrap();
    store.put(b"", b"of the empty key").unwrap();
    (0..80).for_each(|n| store.put(key(n), value(n)).unwrap());
    (0..80).step_by(3).for_each(|n| assert!(store.delete(key(n)).unwrap()));
    (1..80).step_by(3).for_each(|n| store.put(key(n), value(n + 1)).unwrap());
    store.sync().unwrap();
    while store.maintain().unwrap() {}
    let mut batch = Batch::new();
    batch.push_put(b"together", b"1");
    batch.push_delete(key(2));
    batch.push_put(b"apart", b"");
    store.write(&batch).unwrap();
    let hour = WriteOptions::new().ttl(Duration::from_secs(3600));
    store.put_with(b"for an hour", b"sand", hour).unwrap();
    assert!(store.compact(0.3).unwrap() > 0, "some records are copies");
    store.put(b"large", [7; 5000]).unwrap();
    store.close().unwrap();
}

/// The content that [`write`] leaves.
fn expected() -> BTreeMap<Vec<u8>, Vec<u8>> {
    let changed = (0..80).filter(|n| n % 3 != 0 && *n != 2);
    let changed = changed.map(|n| (key(n), value(if n % 3 == 1 { n + 1 } else { n })));
    let mut all: BTreeMap<_, _> = changed.collect();
    for (key, value) in [
        (&b""[..], &b"of the empty key"[..]),
        (b"together", b"1"),
        (b"apart", b""),
        (b"for an hour", b"sand"),
        (b"large", &[7; 5000]),
    ] {
        all.insert(key.to_vec(), value.to_vec());
    }
    all
}

/// Names and bytes of the files of a store, except the lock and the reserve, which are empty.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.path()));
    let kept = named.filter(|(name, _)| name != "lock" && !is_reserve(name));
    kept.map(|(name, path)| (name, fs::read(path).unwrap())).collect()
}

#[test]
fn the_golden_store_has_the_expected_content() {
    for version in ["v1", "v2"] {
        let read = Options { read_only: true, clock: noon, ..options() };
        let store = LogStore::open_with(golden(version), read).unwrap();
        check(&store);
    }
}

fn check(store: &LogStore) {
    assert_eq!(store.stats().recovery.dropped_bytes, 0);
    let expected = expected();
    store.verify().unwrap();
    assert_eq!(store.len(), expected.len() as u64);
    for (key, value) in &expected {
        assert_eq!(store.get(key).unwrap().as_ref(), Some(value), "{key:?}");
    }
    for n in (0..80).step_by(3).chain([2]) {
        assert_eq!(store.get(key(n)).unwrap(), None, "key {n}");
    }
    let version = |key: &[u8]| store.version(key).unwrap().unwrap();
    let versions = [version(b"for an hour"), version(b"large"), version(&key(5))];
    assert_eq!(versions, VERSIONS, "the last one is of a copy");
}

/// The files of a newly written store.
fn written(name: &str) -> BTreeMap<String, Vec<u8>> {
    let dir = std::env::temp_dir().join(format!("firndb-log-{name}-{}", std::process::id()));
    write(&dir);
    let written = files(&dir);
    fs::remove_dir_all(&dir).unwrap();
    written
}

#[test]
fn the_golden_store_is_byte_identical_to_a_new_one() {
    let (old, new) = (files(&golden("v2")), written("golden"));
    assert_eq!(old.keys().collect::<Vec<_>>(), new.keys().collect::<Vec<_>>(), "{CHANGED}");
    for (name, bytes) in &old {
        assert!(new[name] == *bytes, "{name}: {CHANGED}");
    }
}

#[test]
#[ignore = "writes new golden files"]
fn write_golden() {
    fs::create_dir_all(golden("v2")).unwrap();
    for (name, bytes) in written("new-golden") {
        fs::write(golden("v2").join(name), bytes).unwrap();
    }
}
