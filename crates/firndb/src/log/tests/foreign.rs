//! Foreign entries in a store's directory, on a real disk: an entry of any kind under a name that a
//! store uses loses no record and causes no panic, hang or signal.

use crate::log::format::names::key_run_file;
use crate::log::{LogStore, Options, WriteOptions};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Empty,
    /// An empty file of a terabyte.
    Sparse,
    Text,
    Fifo,
    Dangling,
    /// A symbolic link to a file that must not change.
    Link,
    Directory,
}

const KINDS: [Kind; 7] = [
    Kind::Empty,
    Kind::Sparse,
    Kind::Text,
    Kind::Fifo,
    Kind::Dangling,
    Kind::Link,
    Kind::Directory,
];

impl Kind {
    fn make(self, path: &Path, outside: &Path) {
        match self {
            Kind::Empty => drop(fs::File::create(path).unwrap()),
            Kind::Sparse => fs::File::create(path).unwrap().set_len(1 << 40).unwrap(),
            Kind::Text => fs::write(path, "a user's notes\n").unwrap(),
            Kind::Fifo => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
            Kind::Dangling => symlink("nowhere", path).unwrap(),
            Kind::Link => symlink(outside, path).unwrap(),
            Kind::Directory => {
                fs::create_dir(path).unwrap();
                fs::write(path.join("inside"), "kept").unwrap();
            }
        }
    }
}

/// Names that are in the directory together: those of segments and hints with numbers that no
/// segment of the test's store has (it has about 1 to 3), and each of the other names alone.
fn groups() -> Vec<Vec<String>> {
    let numbers = [0, 20, 21, 22, u64::MAX - 1, u64::MAX];
    let names = |suffix| numbers.map(|n| format!("segment-{n:020}.{suffix}")).to_vec();
    let next = (4..8).map(|n| format!("segment-{n:020}.log")).collect();
    let alone = [
        "checkpoint.firn",
        "durable_end.firn",
        "reserve-delete",
        "reserve-compact",
        ".reserve.tmp",
        ".durable_end.firn.firndb-tmp",
    ];
    let alone = alone.map(|name| vec![name.to_string()]);
    let runs = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (1, 3), (2, 90), (0, u64::MAX)];
    let runs = runs.map(key_run_file).to_vec();
    [names("log"), names("hint"), next, runs].into_iter().chain(alone).collect()
}

fn options(ordered: bool) -> Options {
    Options { segment_bytes: 4096, background: false, index_bits: 2, ordered, ..Options::default() }
}

fn fill(store: &LogStore, round: u8) -> crate::Result<()> {
    (0..20u8).try_for_each(|n| store.put([n], [round; 600]))?;
    store.put_with(b"last", [round], WriteOptions::sync())
}

fn check(store: &LogStore, round: u8, label: &str) {
    assert!((0..20u8).all(|n| store.get([n]).unwrap().unwrap() == [round; 600]), "{label}");
    assert_eq!(store.get(b"last").unwrap().unwrap(), [round], "{label}");
    if store.is_ordered() {
        assert_eq!(store.range(..).unwrap().filter_map(crate::Result::ok).count(), 21, "{label}");
    }
}

fn remove(path: &Path) {
    match path.is_dir() && !path.is_symlink() {
        true => fs::remove_dir_all(path).unwrap(),
        false => fs::remove_file(path).unwrap(),
    }
}

/// Opens a store, writes to it, and reopens it, with foreign entries in its directory. An opening
/// may fail if the error names the entry.
fn live_with(dir: &Path, foreign: &[PathBuf], ordered: bool, label: &str) {
    let options = || options(ordered);
    let mut round = 1;
    if let Err(e) = LogStore::open_with(dir, options()) {
        assert!(foreign.iter().any(|path| e.file() == Some(path)), "{label}: {e}");
        foreign.iter().for_each(|path| remove(path));
    }
    let reader = LogStore::open_with(dir, Options { read_only: true, ..options() });
    check(&reader.unwrap_or_else(|e| panic!("{label}: {e}")), round, label);
    let store = LogStore::open_with(dir, options()).unwrap_or_else(|e| panic!("{label}: {e}"));
    check(&store, round, label);
    round += 1;
    fill(&store, round).unwrap_or_else(|e| panic!("{label}: {e}"));
    for _ in 0..20 {
        if !store.maintain().unwrap_or(false) {
            break;
        }
    }
    let _ = store.compact(0.3);
    if let Err(e) = store.close() {
        assert!(!ordered && foreign.iter().any(|path| e.file() == Some(path)), "{label}: {e}");
    }
    check(&LogStore::open_with(dir, options()).unwrap(), round, label);
}

#[test]
fn foreign_entries_of_a_directory_do_no_harm() {
    let place = std::env::temp_dir().join(format!("firndb-foreign-{}", std::process::id()));
    let _ = fs::remove_dir_all(&place);
    let outside: PathBuf = place.join("outside");
    fs::create_dir_all(&place).unwrap();
    fs::write(&outside, "not of this store").unwrap();
    for (group, kind) in groups().iter().flat_map(|group| KINDS.map(|kind| (group, kind))) {
        let (dir, label) = (place.join("store"), format!("{} is {kind:?}", group[0]));
        let ordered = group[0].starts_with("keys-");
        let store = LogStore::open_with(&dir, options(ordered)).unwrap();
        (0..20u8).for_each(|n| store.put([n], [0; 600]).unwrap());
        fill(&store, 1).unwrap();
        store.close().unwrap();
        let paths = group.iter().map(|name| dir.join(name));
        // Files that the store does not need are replaced; its segments are not.
        let is_free = |path: &PathBuf| !path.exists() || !group[0].starts_with("segment-");
        let paths: Vec<PathBuf> = paths.filter(is_free).collect();
        for path in &paths {
            let _ = fs::remove_file(path);
            kind.make(path, &outside);
        }
        live_with(&dir, &paths, ordered, &label);
        for path in paths.iter().filter(|path| path.is_dir() && !path.is_symlink()) {
            assert_eq!(fs::read(path.join("inside")).unwrap(), b"kept", "{label}");
        }
        for path in paths.iter().filter(|_| ordered && matches!(kind, Kind::Text | Kind::Link)) {
            let kept = if path.is_symlink() { "not of this store" } else { "a user's notes\n" };
            assert_eq!(fs::read(path).unwrap(), kept.as_bytes(), "{label}");
        }
        assert_eq!(fs::read(&outside).unwrap(), b"not of this store", "{label}");
        fs::remove_dir_all(&dir).unwrap();
    }
    fs::remove_dir_all(&place).unwrap();
}
