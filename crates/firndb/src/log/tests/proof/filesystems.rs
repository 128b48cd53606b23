//! Real file systems that are full or fail: every call returns an error or succeeds, and no signal
//! ends the process. Each case runs in a child process, so that a signal is detected.
//!
//! Needs root, loop devices and the program that creates the file system; skipped without them.

use super::kill::{Mount, shut_down, system};
use crate::log::{Access, AppendMode, LogStore, Options, WriteOptions};
use crate::{Error, ErrorKind};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PLACE: &str = "FIRNDB_TEST_FILE_SYSTEM";
const CASE: &str = "FIRNDB_TEST_CASE";

struct FileSystem {
    name: &'static str,
    mkfs: &'static [&'static str],
    bytes: u64,
    mode: AppendMode,
}

const EXT4: FileSystem = FileSystem {
    name: "ext4",
    mkfs: &["mkfs.ext4", "-q", "-F"],
    bytes: 64 << 20,
    mode: AppendMode::Map,
};
const EXT4_BLOCKS: FileSystem = FileSystem {
    name: "ext4 without extents",
    mkfs: &["mkfs.ext4", "-q", "-F", "-O", "^extent,^64bit"],
    bytes: 64 << 20,
    mode: AppendMode::Write,
};
const XFS: FileSystem = FileSystem {
    name: "xfs",
    mkfs: &["mkfs.xfs", "-q", "-f"],
    bytes: 320 << 20,
    mode: AppendMode::Write,
};
const BTRFS: FileSystem = FileSystem {
    name: "btrfs",
    mkfs: &["mkfs.btrfs", "-q", "-f"],
    bytes: 256 << 20,
    mode: AppendMode::Write,
};

impl FileSystem {
    /// Runs a case in a child on a new file system of this kind. `None` if it cannot be created
    /// here.
    fn run(&self, test: &str, case: &str) -> Option<Mount> {
        let id = format!("firndb-{}-{case}-{}", self.name.replace(' ', "-"), std::process::id());
        let dir = std::env::temp_dir().join(id);
        let mount = match Mount::made_by(self.mkfs, self.bytes, &dir) {
            Ok(mount) => mount,
            Err(e) => {
                println!("skipped: {test}: no {} here: {e}", self.name);
                let _ = std::fs::remove_dir_all(&dir);
                return None;
            }
        };
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--ignored", "--exact", "log::tests::proof::filesystems::child"]);
        let output = child.env(PLACE, &mount.at).env(CASE, case).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let said =
            format!("{}, {case}: {said}{}", self.name, String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.signal(), None, "{said}");
        assert!(output.status.success(), "{said}");
        Some(mount)
    }

    fn end(&self, mount: Mount) {
        let dir = mount.at.parent().unwrap().to_path_buf();
        drop(mount);
        std::fs::remove_dir_all(dir).unwrap();
    }
}

fn key(n: usize) -> Vec<u8> {
    format!("key {n}").into_bytes()
}

fn options() -> Options {
    Options { segment_bytes: 1 << 20, ..Options::default() }
}

#[test]
#[ignore = "started by the tests of this file"]
fn child() {
    let place = PathBuf::from(std::env::var_os(PLACE).unwrap());
    match std::env::var(CASE).unwrap().as_str() {
        "full" => fill(&place, false),
        "full with a reflink copy" => fill(&place, true),
        "shut down" => lose(&place),
        "reads after a shutdown" => lose_before_reads(&place),
        case => panic!("no case {case}"),
    }
}

/// Uses all space that is left.
fn take_space(place: &Path) -> Vec<PathBuf> {
    let mut made = Vec::new();
    for (n, piece) in [64 << 10, 4 << 10, 512].into_iter().enumerate() {
        let path = place.join(format!("junk {n}"));
        let Ok(mut file) = std::fs::File::create(&path) else { break };
        made.push(path);
        // Incompressible bytes.
        let mut random = super::Rng(n as u64 + 1);
        let piece: Vec<u8> = (0..piece).map(|_| random.next() as u8).collect();
        while file.write_all(&piece).is_ok() {}
        let _ = file.sync_all();
    }
    made
}

fn is_full(error: &Error) -> bool {
    error.kind() == ErrorKind::Io && error.is_disk_full()
}

/// A store on a disk that becomes full and has room again.
fn fill(place: &Path, reflink: bool) {
    let dir = place.join("store");
    let store = LogStore::open_with(&dir, options()).unwrap();
    let right = |store: &LogStore, count: usize| {
        assert!((0..count).all(|n| store.get(key(n)).unwrap().unwrap() == [n as u8; 100]));
    };
    (0..100).for_each(|n| store.put(key(n), [n as u8; 100]).unwrap());
    store.sync().unwrap();
    if reflink {
        let copy = place.join("copy");
        let arguments = ["--reflink=always".as_ref(), "-r".as_ref(), dir.as_ref(), copy.as_ref()];
        system("cp", &arguments).unwrap();
    }
    let junk = take_space(place);
    let mut count = 100;
    let refused = loop {
        match store.put(key(count), [count as u8; 100]) {
            Ok(()) => count += 1,
            Err(e) => break e,
        }
    };
    println!("{count} records, then {refused}");
    assert!(is_full(&refused) && refused.to_string().contains("free"), "{refused}");
    right(&store, count);
    // Whether there is space for these depends on the file system.
    let mut left = count;
    for n in (count / 2..count).rev() {
        match store.delete_with(key(n), WriteOptions::sync()) {
            Ok(was_there) => assert!(was_there),
            Err(e) => {
                println!("delete {n}: {e}");
                break;
            }
        }
        left = n;
    }
    println!("{left} records left; compaction: {:?}", store.compact(0.2));
    right(&store, left);
    // With room again an opening finds everything, as does the store that stayed open if no sync
    // failed.
    junk.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    system("sync", &[]).unwrap();
    match store.put_with(b"new", b"1", WriteOptions::sync()) {
        Ok(()) => right(&store, left),
        Err(e) => assert!(is_full(&e) || e.kind() == ErrorKind::Failed, "{e}"),
    }
    drop(store);
    let store = LogStore::open_with(&dir, options()).unwrap();
    right(&store, left);
    store.put_with(b"new", b"2", WriteOptions::sync()).unwrap();
    store.compact(0.1).unwrap();
    right(&store, left);
    store.verify().unwrap();
    store.close().unwrap();
}

/// A store on a file system that fails permanently.
fn lose(place: &Path) {
    let store = LogStore::open_with(place.join("store"), options()).unwrap();
    (0..2000).for_each(|n| store.put(key(n), [n as u8; 1000]).unwrap());
    store.sync().unwrap();
    shut_down(place).unwrap();
    let mut errors = 0;
    for n in 0..3000 {
        errors += usize::from(store.put(key(n), [1; 1000]).is_err());
        errors += usize::from(store.delete(key(n + 1)).is_err());
        let _ = store.get(key(n));
    }
    assert!(store.put_with(b"k", b"v", WriteOptions::sync()).is_err());
    assert!(store.sync().is_err());
    assert!(store.compact(0.0).is_err());
    println!("{errors} errors");
    assert!(store.close().is_err());
}

/// A file system that fails when it reads records that are not in the page cache.
fn lose_before_reads(place: &Path) {
    let dir = place.join("store");
    let store = LogStore::open_with(&dir, options()).unwrap();
    (0..5000).for_each(|n| store.put(key(n), [n as u8; 1000]).unwrap());
    store.close().unwrap();
    let buffered = Options { access: Access::Buffered, background: false, ..options() };
    let store = LogStore::open_with(&dir, buffered).unwrap();
    for entry in std::fs::read_dir(&dir).unwrap() {
        // Drops the page cache.
        let file = std::fs::File::open(entry.unwrap().path()).unwrap();
        file.sync_all().unwrap();
        #[cfg(target_os = "linux")]
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
    shut_down(place).unwrap();
    let errors = (0..5000).filter(|&n| store.get(key(n)).is_err()).count();
    println!("{errors} of 5000 gets were errors");
    assert!(errors > 1000);
    assert!(store.update(key(1), |_| Some(vec![1])).is_err() || store.sync().is_err());
    assert!(store.compact(0.0).is_err());
}

#[test]
fn buffered_reads_of_a_failing_file_system_are_errors() {
    let test = "buffered_reads_of_a_failing_file_system_are_errors";
    for system in [EXT4, XFS] {
        if let Some(mount) = system.run(test, "reads after a shutdown") {
            system.end(mount);
        }
    }
}

#[test]
fn a_full_file_system_gives_errors_and_no_signal() {
    let test = "a_full_file_system_gives_errors_and_no_signal";
    for system in [EXT4, EXT4_BLOCKS, XFS, BTRFS] {
        if let Some(mount) = system.run(test, "full") {
            // The store chooses the mode that was shown to be safe.
            let store = LogStore::open_with(mount.at.join("store"), options()).unwrap();
            store.put(b"again", b"1").unwrap();
            assert_eq!(store.stats().append_mode, system.mode, "{}", system.name);
            drop(store);
            system.end(mount);
        }
    }
    for system in [XFS, BTRFS] {
        if let Some(mount) = system.run(test, "full with a reflink copy") {
            system.end(mount);
        }
    }
}

#[test]
fn a_failing_file_system_gives_errors_and_no_signal() {
    for system in [EXT4, EXT4_BLOCKS, XFS] {
        let test = "a_failing_file_system_gives_errors_and_no_signal";
        if let Some(mount) = system.run(test, "shut down") {
            mount.unmount().unwrap();
            mount.mount().unwrap();
            let store = LogStore::open_with(mount.at.join("store"), options()).unwrap();
            for n in 0..2000 {
                let found = store.get(key(n)).unwrap();
                // Writes after the shutdown may or may not have reached the disk.
                assert!(found.is_none_or(|value| value == [n as u8; 1000] || value == [1; 1000]));
            }
            drop(store);
            system.end(mount);
        }
    }
}
