//! A store whose directory or lock is moved, replaced or removed under a writer, on a real disk:
//! the writer stops and does not change what is at its path now.

use crate::log::{LogStore, Options};
use crate::{Error, ErrorKind};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// A temporary directory of a test, removed at the end.
struct TestDir(PathBuf);

impl TestDir {
    fn new(name: &str) -> TestDir {
        let path =
            std::env::temp_dir().join(format!("firndb-directory-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        TestDir(path)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn options() -> Options {
    Options { segment_bytes: 4096, background: false, index_bits: 2, ..Options::default() }
}

fn open(path: &Path) -> LogStore {
    LogStore::open_with(path, options()).unwrap()
}

fn fill(store: &LogStore, keys: u32, value: &[u8]) -> Result<(), Error> {
    (0..keys).try_for_each(|n| store.put(n.to_le_bytes(), value))
}

/// Names and bytes of all files.
fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<_> = entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[track_caller]
fn assert_stopped(done: Result<(), Error>) {
    let error = done.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
    assert!(error.to_string().contains("moved, removed or replaced"), "{error}");
}

/// An operation of a writer whose store is no longer at its path.
type Act = fn(&LogStore) -> Result<(), Error>;

const ACTS: [(&str, Act); 5] = [
    ("a segment roll", |store| {
        (0..10_000).try_for_each(|n| store.put(format!("key {n}").as_bytes(), b"old"))
    }),
    ("a sync", |store| store.put(b"not durable yet", b"old").and_then(|()| store.sync())),
    ("compaction", |store| store.compact(0.0).map(|_| ())),
    ("maintenance", |store| {
        store.put(b"not durable yet", b"old")?;
        while store.maintain()? {}
        store.sync()
    }),
    ("a synced put", |store| {
        let options = crate::log::WriteOptions::sync();
        store.put_with(b"key", b"old", options)
    }),
];

#[test]
fn a_writer_whose_directory_was_replaced_stops() {
    for (name, act) in ACTS {
        let dir = TestDir::new("replaced");
        let (path, moved) = (dir.join("store"), dir.join("moved"));
        let old = open(&path);
        fill(&old, 1000, b"old value").unwrap();
        fill(&old, 900, b"newer value").unwrap();
        old.sync().unwrap();
        fs::rename(&path, &moved).unwrap();
        let new = open(&path);
        fill(&new, 100, b"precious").unwrap();
        new.close().unwrap();
        let before = files(&path);
        assert_stopped(act(&old));
        assert!(old.put(b"more", b"x").is_err(), "{name}: nothing is written any more");
        assert_eq!(
            old.get(1u32.to_le_bytes()).unwrap().unwrap(),
            b"newer value",
            "reading continues"
        );
        assert!(old.close().is_err());
        assert_eq!(files(&path), before, "{name}");
        let new = open(&path);
        assert_eq!(new.len(), 100, "{name}");
        // The old store is intact at its new path.
        let old = open(&moved);
        assert_eq!(old.get(1u32.to_le_bytes()).unwrap().unwrap(), b"newer value", "{name}");
        assert_eq!(old.get(950u32.to_le_bytes()).unwrap().unwrap(), b"old value", "{name}");
        old.verify().unwrap();
    }
}

#[test]
fn a_writer_whose_directory_was_moved_stops() {
    for (name, act) in ACTS {
        let dir = TestDir::new("gone");
        let (path, moved) = (dir.join("store"), dir.join("moved"));
        let store = open(&path);
        fill(&store, 1000, b"value").unwrap();
        fs::rename(&path, &moved).unwrap();
        assert_stopped(act(&store));
        assert!(!path.exists(), "{name}");
    }
}

#[test]
fn removing_the_lock_file_does_not_unlock_the_store() {
    let dir = TestDir::new("lock");
    let path = dir.join("store");
    let first = open(&path);
    first.put(b"a", b"1").unwrap();
    fs::remove_file(path.join("lock")).unwrap();
    let second = LogStore::open_with(&path, options()).unwrap_err();
    assert_eq!(second.kind(), ErrorKind::Locked, "the directory is locked as well");
    assert_stopped(first.sync());
    drop(first);
    let store = open(&path);
    assert_eq!(store.get(b"a").unwrap().unwrap(), b"1");
}

#[test]
fn a_reader_finds_the_store_that_replaced_its_own() {
    let dir = TestDir::new("reader");
    let path = dir.join("store");
    open(&path).put(b"key", b"old").unwrap();
    let read_only = Options { read_only: true, ..options() };
    let reader = LogStore::open_with(&path, read_only).unwrap();
    fs::rename(&path, dir.join("moved")).unwrap();
    reader.refresh().unwrap_err(); // There is no store at the path.
    assert_eq!(reader.get(b"key").unwrap().unwrap(), b"old");
    open(&path).put(b"key", b"new").unwrap();
    reader.refresh().unwrap();
    assert_eq!(reader.get(b"key").unwrap().unwrap(), b"new");
}

/// Two paths of one directory are one store.
#[test]
fn a_store_is_locked_under_every_path() {
    let dir = TestDir::new("paths");
    let path = dir.join("store");
    let store = open(&path);
    let link = dir.join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for other in [link, path.join("."), path.join("../store")] {
        let refused = LogStore::open_with(&other, options()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Locked, "{}", other.display());
    }
    store.put(b"a", b"1").unwrap();
    store.close().unwrap();
}

#[test]
fn a_forked_child_reads_and_does_not_write() {
    let dir = TestDir::new("fork");
    let path = dir.join("store");
    let store = LogStore::open_with(&path, Options { background: true, ..options() }).unwrap();
    fill(&store, 100, b"parent").unwrap();
    // The parent's threads continue to create other files.
    let segment = path.join("segment-00000000000000000001.log");
    let before = fs::read(&segment).unwrap();
    // Closed by the child, and later by the parent.
    let other = LogStore::open_with(dir.join("other"), Options { background: true, ..options() });
    let is_right = crate::disk::in_child(|| {
        drop(other);
        let refused = store.put(b"child", b"x").is_err_and(|e| e.kind() == ErrorKind::Failed)
            && store.delete(1u32.to_le_bytes()).is_err()
            && store.sync().is_err()
            && store.compact(0.0).is_err()
            && store.maintain().is_err();
        let reads = store.get(1u32.to_le_bytes()).unwrap().unwrap() == b"parent";
        let counts = !store.is_empty() && store.stats().segments > 0;
        refused && reads && counts && fs::read(&segment).unwrap() == before
    });
    assert!(is_right);
    store.put(b"parent", b"continues").unwrap();
    store.close().unwrap();
}

/// No thread of the child releases the lock.
#[test]
fn a_forked_child_takes_snapshots_while_a_thread_of_the_parent_writes() {
    let dir = TestDir::new("fork-snapshot");
    let store = LogStore::open_with(dir.join("store"), options()).unwrap();
    fill(&store, 100, b"parent").unwrap();
    let earlier = store.snapshot();
    let writer = store.writable().lock_any();
    let is_right = crate::disk::in_child(|| {
        let snapshot = store.snapshot();
        let counts = snapshot.iter().count() == 100 && store.iter().count() == 100;
        let reads = snapshot.get(1u32.to_le_bytes()).unwrap().unwrap() == b"parent";
        drop((snapshot, earlier));
        counts && reads
    });
    assert!(is_right);
    drop(writer);
    store.close().unwrap();
}

#[test]
fn a_store_that_is_to_be_created_must_not_exist() {
    let dir = TestDir::new("create-new");
    let (path, new) = (dir.join("store"), options().create_new(true));
    let store = LogStore::open_with(&path, new.clone()).unwrap();
    store.put(b"key", b"value").unwrap();
    store.close().unwrap();
    let refused = LogStore::open_with(&path, new.clone()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    assert_eq!(refused.file(), Some(path.as_path()));
    assert_eq!(open(&path).get(b"key").unwrap().unwrap(), b"value");
    // An empty directory is no store.
    fs::create_dir(dir.join("empty")).unwrap();
    LogStore::open_with(dir.join("empty"), new).unwrap();
}

#[test]
fn a_shared_iterator_keeps_the_snapshot() {
    let dir = TestDir::new("iter-shared");
    let store = open(&dir.join("store"));
    fill(&store, 100, b"old").unwrap();
    let snapshot = std::sync::Arc::new(store.snapshot());
    let records = snapshot.iter_shared();
    drop(snapshot);
    fill(&store, 100, b"new").unwrap();
    let values: Vec<_> = records.map(|record| record.unwrap().1).collect();
    assert_eq!(values, vec![b"old".to_vec(); 100]);
}

/// A copy by length and modification time (rsync) must see that a segment changed.
#[test]
fn a_sync_changes_the_time_of_modification() {
    let dir = TestDir::new("modified");
    let path = dir.join("store");
    let store = open(&path);
    let segment = path.join("segment-00000000000000000001.log");
    let modified = || fs::metadata(&segment).unwrap().modified().unwrap();
    for n in 0..5u32 {
        let before = modified();
        wait_for_later_mtime(&dir, before);
        store.put(n.to_le_bytes(), b"value").unwrap();
        store.sync().unwrap();
        assert!(modified() > before, "sync {n}");
    }
}

/// Waits until a file that is written now gets a later time of modification than this one.
fn wait_for_later_mtime(dir: &TestDir, before: SystemTime) {
    let probe = dir.join("probe");
    let started = Instant::now();
    loop {
        fs::write(&probe, b"x").unwrap();
        if fs::metadata(&probe).unwrap().modified().unwrap() > before {
            return;
        }
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "the file system's clock stands still"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}
