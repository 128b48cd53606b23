//! Target directories of backups.

use super::{BACKUP, FAR, begin, files_in, fill, held, keys, open_at};
use crate::ErrorKind::{self, AlreadyExists, Locked};
use crate::disk::{self, Disk, DiskRef, SimDisk};
use crate::log::format::names::{segment_file, segment_number};
use crate::log::tests::{DIR, content, options};
use crate::log::{LogStore, Options};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory, how it is created, and the result of a backup into it.
type Case = (&'static str, fn(&Arc<SimDisk>, &LogStore), Result<(), ErrorKind>);

/// Stores that a case keeps open.
fn keep(store: LogStore) {
    std::mem::forget(store);
}

fn backed_up(disk: &Arc<SimDisk>, store: &LogStore) -> LogStore {
    store.backup(BACKUP).unwrap();
    fill(store, 2);
    open_at(disk, BACKUP).unwrap()
}

fn segments(disk: &SimDisk, dir: &str) -> Vec<PathBuf> {
    let names = disk.list(Path::new(dir)).unwrap();
    let segments = names.iter().filter(|name| segment_number(name).is_some());
    segments.map(|name| Path::new(dir).join(name)).collect()
}

/// Replaces the first segment of the backup by a copy that `change` modified.
fn replace(disk: &Arc<SimDisk>, store: &LogStore, change: fn(&mut Vec<u8>)) {
    store.backup(BACKUP).unwrap();
    let first = &segments(disk, BACKUP)[0];
    let mut bytes = disk.map(first).unwrap().to_vec();
    change(&mut bytes);
    disk.remove(first).unwrap();
    disk.write_raw(first, &bytes);
}

const CASES: &[Case] = &[
    ("no directory", |_, _| (), Ok(())),
    ("empty", |disk, _| disk.create_dir_all(Path::new(BACKUP)).unwrap(), Ok(())),
    ("an empty lock", |disk, _| disk.write_raw(&Path::new(BACKUP).join("lock"), b""), Ok(())),
    ("a lock of others", |disk, _| disk.write_raw(&Path::new(BACKUP).join("lock"), b"7"), NO),
    ("foreign files", |disk, _| disk.write_raw(&Path::new(BACKUP).join("thesis.tex"), b""), NO),
    ("foreign hidden files", |disk, _| disk.write_raw(&Path::new(BACKUP).join(".rc"), b""), NO),
    ("a folder", |disk, _| disk.create_dir_all(&Path::new(BACKUP).join("x")).unwrap(), NO),
    ("a file", |disk, _| disk.write_raw(Path::new(BACKUP), b"text"), NO),
    ("another store", |disk, _| open_at(disk, BACKUP).unwrap().put(b"k", b"v").unwrap(), NO),
    ("another store that is open", |disk, _| keep(open_at(disk, BACKUP).unwrap()), NO),
    (
        "a backup of another store",
        |disk, _| {
            let other = open_at(disk, "/other").unwrap();
            other.put(b"k", b"v").unwrap();
            other.backup(BACKUP).unwrap();
        },
        NO,
    ),
    ("a backup", |_, store| assert!(store.backup(BACKUP).is_ok()), Ok(())),
    ("a backup that was read", |disk, store| drop(backed_up(disk, store).get(b"k")), Ok(())),
    ("a backup that is open", |disk, store| keep(backed_up(disk, store)), Err(Locked)),
    (
        "a backup with maintenance",
        |disk, store| {
            let copy = backed_up(disk, store);
            while copy.maintain().unwrap() {}
            copy.close().unwrap();
        },
        Ok(()),
    ),
    (
        "a backup with a put",
        |disk, store| {
            backed_up(disk, store).put(b"k", b"v").unwrap();
        },
        NO,
    ),
    (
        "a backup with a delete",
        |disk, store| {
            assert!(backed_up(disk, store).delete(&keys()[1]).unwrap());
        },
        NO,
    ),
    ("a backup with much more", |disk, store| fill(&backed_up(disk, store), 9), NO),
    (
        "a backup that was compacted",
        |disk, store| {
            assert!(backed_up(disk, store).compact(0.0).unwrap() > 0);
        },
        NO,
    ),
    (
        "a backup that was backed up",
        |disk, store| {
            assert!(backed_up(disk, store).backup("/further").is_ok());
        },
        NO,
    ),
    (
        "a backup next to notes",
        |disk, store| {
            store.backup(BACKUP).unwrap();
            disk.write_raw(&Path::new(BACKUP).join("README"), b"do not touch");
        },
        NO,
    ),
    (
        "a backup without a segment",
        |disk, store| {
            store.backup(BACKUP).unwrap();
            disk.remove(&segments(disk, BACKUP)[0]).unwrap();
        },
        NO,
    ),
    ("a backup with a copy of a segment", |disk, store| replace(disk, store, |_| ()), Ok(())),
    ("a backup with a damaged copy", |disk, store| replace(disk, store, |b| b[200] ^= 1), NO),
    (
        "a backup with a damaged manifest",
        |disk, store| {
            store.backup(BACKUP).unwrap();
            disk.damage(&Path::new(BACKUP).join("backup.firn"), 70);
        },
        Err(ErrorKind::Corrupt),
    ),
];

const NO: Result<(), ErrorKind> = Err(AlreadyExists);

#[test]
fn a_backup_overwrites_nothing_foreign() {
    for (name, prepare, expected) in CASES {
        let (disk, store) = begin();
        prepare(&disk, &store);
        fill(&store, 3);
        let model = content(&store, &keys()).unwrap();
        let before = [files_in(&disk, BACKUP), files_in(&disk, DIR)];
        let done = store.backup(BACKUP);
        assert_eq!(done.as_ref().map(drop).map_err(|e| e.kind()), *expected, "{name}: {done:?}");
        match done {
            Ok(_) => assert_eq!(held(&disk, BACKUP).unwrap(), model, "{name}"),
            Err(e) => {
                assert_eq!([files_in(&disk, BACKUP), files_in(&disk, DIR)], before, "{name}");
                let message = e.to_string();
                let says_what = *expected != NO || message.contains("choose a directory");
                assert!(says_what && message.contains(BACKUP), "{name}: {message}");
            }
        }
        assert_eq!(content(&store, &keys()).unwrap(), model, "{name}");
        store.verify().unwrap();
        store.close().unwrap();
        assert_eq!(held(&disk, DIR).unwrap(), model, "{name}");
    }
}

#[test]
fn a_segment_is_shared_only_if_it_is_the_same_file() {
    let (disk, store) = begin();
    replace(&disk, &store, |_| ());
    let copy = segments(&disk, BACKUP)[0].clone();
    let own = Path::new(DIR).join(copy.file_name().unwrap());
    assert_ne!(disk.identity(&copy).unwrap(), disk.identity(&own).unwrap());
    let made = store.backup(BACKUP).unwrap();
    assert_eq!((made.kept, made.copied), (made.segments - 3, 0), "{made:?}");
    assert_eq!(disk.identity(&copy).unwrap(), disk.identity(&own).unwrap());
}

#[test]
fn a_backup_on_another_device_is_made_of_copies() {
    let (disk, store) = begin();
    let made = store.backup(FAR).unwrap();
    assert_eq!((made.kept, made.copied), (0, made.segments - 1), "{made:?}");
    fill(&store, 2);
    let again = store.backup(FAR).unwrap();
    assert_eq!(again.kept, made.segments - 1, "{again:?}");
    assert_eq!(again.copied, again.segments - 1 - again.kept, "{again:?}");
    assert_eq!(held(&disk, FAR).unwrap(), content(&store, &keys()).unwrap());
    // No file is shared.
    for path in segments(&disk, FAR) {
        let own = Path::new(DIR).join(path.file_name().unwrap());
        assert!(
            disk.identity(&own).is_err()
                || disk.identity(&own).unwrap() != disk.identity(&path).unwrap()
        );
    }
}

#[test]
fn numbers_of_backups_are_not_reused() {
    // No file of the store has the number of a backup's own segment, also after the store was
    // reopened.
    let (disk, mut store) = begin();
    for round in 2..8 {
        store.backup(BACKUP).unwrap();
        let own = segments(&disk, BACKUP).pop().unwrap();
        store.close().unwrap();
        store = open_at(&disk, DIR).unwrap();
        fill(&store, round);
        let name = own.file_name().unwrap();
        assert!(!segments(&disk, DIR).iter().any(|path| path.file_name() == Some(name)));
        store.backup(BACKUP).unwrap();
        assert_eq!(held(&disk, BACKUP).unwrap(), content(&store, &keys()).unwrap());
    }
}

#[test]
fn stores_of_one_origin_do_not_overwrite_each_other_in_backups() {
    let copy_dir = |disk: &SimDisk, from: &str, to: &str| {
        for (path, bytes) in files_in(disk, from) {
            disk.write_raw(&Path::new(to).join(path.file_name().unwrap()), &bytes);
        }
    };
    // The store is reset to an older state, as from a copy of the disk.
    let (disk, store) = begin();
    store.close().unwrap();
    copy_dir(&disk, DIR, "/older");
    let store = open_at(&disk, DIR).unwrap();
    fill(&store, 2);
    store.backup(BACKUP).unwrap();
    let model = content(&store, &keys()).unwrap();
    store.close().unwrap();
    let older = open_at(&disk, "/older").unwrap();
    assert_eq!(older.backup(BACKUP).unwrap_err().kind(), AlreadyExists);
    // It was written to since: its segments are not those of the backup.
    (4..9).for_each(|round| fill(&older, round));
    assert_eq!(older.backup(BACKUP).unwrap_err().kind(), AlreadyExists);
    older.close().unwrap();
    // A copy of a backup is used as a store.
    copy_dir(&disk, BACKUP, "/copied");
    let copied = open_at(&disk, "/copied").unwrap();
    fill(&copied, 5);
    assert_eq!(copied.backup(BACKUP).unwrap_err().kind(), AlreadyExists);
    assert_eq!(held(&disk, BACKUP).unwrap(), model);
    // A segment under the name of another one.
    let all = segments(&disk, BACKUP);
    let bytes = disk.map(&all[1]).unwrap().to_vec();
    disk.remove(&all[0]).unwrap();
    disk.write_raw(&all[0], &bytes);
    let store = open_at(&disk, DIR).unwrap();
    assert_eq!(store.backup(BACKUP).unwrap_err().kind(), ErrorKind::Corrupt);
    let number = segment_number(all[0].file_name().unwrap().to_str().unwrap()).unwrap();
    assert!(Path::new(BACKUP).join(segment_file(number)) == all[0]);
}

/// A directory on the real disk that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("firndb-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn real(dir: &Path) -> LogStore {
    let disk: DiskRef = disk::os();
    LogStore::open_on(disk, dir, Options { segment_bytes: 1 << 16, ..options() }).unwrap()
}

#[test]
fn paths_that_lead_to_the_store_are_recognised() {
    let scratch = Scratch::new("backup-places");
    let place = |name: &str| scratch.0.join(name);
    let store = real(&place("s"));
    fill(&store, 1);
    let model = content(&store, &keys()).unwrap();
    symlink(place("s"), place("link")).unwrap();
    symlink("s", place("relative")).unwrap();
    symlink(place("nowhere"), place("dangling")).unwrap();
    symlink(&scratch.0, place("up")).unwrap();
    std::fs::create_dir_all(place("s/inside")).unwrap();
    std::fs::create_dir_all(place("odd")).unwrap();
    symlink(place("s/lock"), place("odd/segment-00000000000000000001.log")).unwrap();
    std::fs::write(place("file"), "text").unwrap();
    let cases = [
        "s",
        "s/",
        "s/.",
        "./s",
        "s/../s",
        "up/s",
        "up/up/s",
        "link",
        "link/",
        "relative",
        ".",
        "",
        "s/new",
        "s/inside",
        "s/inside/new/er",
        "link/new",
        "s/inside/..",
        "s/new/../newer",
        "new/../s/newer",
        "dangling",
        "file",
        "file/new",
        "odd",
    ];
    let before: Vec<_> = disk::os().list(&place("s")).unwrap();
    for to in cases {
        let e = store.backup(place(to)).map(|made| panic!("{to}: {made:?}")).unwrap_err();
        // The message for a file that is not a directory is the system's.
        let expected = if to == "file/new" { ErrorKind::Io } else { AlreadyExists };
        assert_eq!(e.kind(), expected, "{to}: {e}");
        assert_eq!(disk::os().list(&place("s")).unwrap(), before, "{to}");
        assert_eq!(disk::os().list_dirs(&place("s")).unwrap(), ["inside"], "{to}");
    }
    assert_eq!(content(&store, &keys()).unwrap(), model);
    store.verify().unwrap();
    // A link to another directory is followed, each time.
    std::fs::create_dir(place("elsewhere")).unwrap();
    symlink("elsewhere", place("there")).unwrap();
    for round in 2..4 {
        fill(&store, round);
        store.backup(place("there")).unwrap();
        let copy = real(&place("elsewhere"));
        assert_eq!(content(&copy, &keys()).unwrap(), content(&store, &keys()).unwrap());
    }
    assert!(place("there").is_symlink());
}

#[test]
fn a_backup_goes_to_another_file_system() {
    let scratch = Scratch::new("backup-far");
    let far = Path::new("/dev/shm").join(format!("firndb-backup-far-{}", std::process::id()));
    let id = |path: &Path| disk::os().identity(path).map(|id| id.device).ok();
    if std::fs::create_dir(&far).is_err() || id(&far) == id(&scratch.0) {
        println!("skipped: a_backup_goes_to_another_file_system: no second file system");
        return;
    }
    let far = Scratch(far);
    let store = real(&scratch.0.join("s"));
    for round in 1..4 {
        fill(&store, round);
        let made = store.backup(&far.0).unwrap();
        assert!(made.copied > 0 && (made.kept > 0 || round == 1), "{made:?}");
        let copy = real(&far.0);
        copy.verify().unwrap();
        assert_eq!(content(&copy, &keys()).unwrap(), content(&store, &keys()).unwrap());
    }
}
