//! Restores, and dry runs of repair.

use super::{BACKUP, FAR, begin, files_in, fill, held, keys, open_at, refused};
use crate::disk::{Disk, DiskRef, SimDisk};
use crate::log::LogStore;
use crate::log::admin::backup::restore::Restored;
use crate::log::tests::{DIR, Map, content, open, options};
use crate::{ErrorKind, Result};
use std::path::Path;
use std::sync::Arc;

const NEW: &str = "/new";

fn restore(disk: &Arc<SimDisk>, from: &str, to: &str) -> Result<Restored> {
    let disk = Arc::clone(disk) as DiskRef;
    LogStore::restore_on(&disk, Path::new(from), Path::new(to), options())
}

/// A disk with a backup that was made twice, and its content.
fn prepared(to: &str) -> (Arc<SimDisk>, Map) {
    let (disk, store) = begin();
    store.backup(to).unwrap();
    fill(&store, 2);
    store.compact(0.1).unwrap();
    store.backup(to).unwrap();
    let model = content(&store, &keys()).unwrap();
    fill(&store, 3);
    store.close().unwrap();
    (disk, model)
}

#[test]
fn a_restored_store_equals_the_backup_and_shares_no_file() {
    for from in [BACKUP, FAR] {
        let (disk, model) = prepared(from);
        let before = files_in(&disk, from);
        let restored = restore(&disk, from, NEW).unwrap();
        assert_eq!(restored.keys, model.len() as u64);
        assert_eq!(held(&disk, NEW).unwrap(), model);
        for (label, image) in disk.images(7, 8) {
            assert_eq!(held(&image, NEW).unwrap(), model, "{label}");
        }
        let names = |dir: &str| disk.list(Path::new(dir)).unwrap();
        for name in names(NEW).iter().filter(|name| names(from).contains(name)) {
            let id = |dir: &str| disk.identity(&Path::new(dir).join(name)).unwrap();
            assert_ne!(id(NEW), id(from), "{name}");
        }
        // It is an ordinary store, and the backup is unchanged.
        let store = open_at(&disk, NEW).unwrap();
        (4..7).for_each(|round| fill(&store, round));
        store.compact(0.0).unwrap();
        let newer = content(&store, &keys()).unwrap();
        assert_eq!(files_in(&disk, from), before);
        // The store continues where the old one ended, and so does the backup.
        store.backup(from).unwrap();
        assert_eq!(held(&disk, from).unwrap(), newer);
        store.close().unwrap();
        // The old store does not: its later writes are not those of the backup.
        let old = open(&disk).unwrap();
        assert_eq!(old.backup(from).unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(held(&disk, from).unwrap(), newer);
    }
}

#[test]
fn any_closed_store_can_be_restored_from() {
    let (disk, model) = prepared(BACKUP);
    let backup = open_at(&disk, BACKUP).unwrap();
    assert_eq!(restore(&disk, BACKUP, NEW).unwrap_err().kind(), ErrorKind::Locked);
    fill(&backup, 9);
    let written = content(&backup, &keys()).unwrap();
    assert_ne!(written, model);
    drop(backup);
    restore(&disk, BACKUP, NEW).unwrap();
    assert_eq!(held(&disk, NEW).unwrap(), written);
    restore(&disk, NEW, "/newer").unwrap();
    assert_eq!(held(&disk, "/newer").unwrap(), written);
}

#[test]
fn a_restore_overwrites_nothing() {
    let file = |name: &str, bytes: &[u8]| {
        let (disk, _) = prepared(BACKUP);
        disk.write_raw(&Path::new(NEW).join(name), bytes);
        disk
    };
    let store = || {
        let (disk, _) = prepared(BACKUP);
        open_at(&disk, NEW).unwrap().put(b"k", b"v").unwrap();
        disk
    };
    let exists = ErrorKind::AlreadyExists;
    let cases = [
        ("a file", file("x", b""), BACKUP, NEW, exists),
        ("a hidden file", file(".x", b""), BACKUP, NEW, exists),
        ("a foreign lock", file("lock", b"9"), BACKUP, NEW, exists),
        ("a folder", file("x/y", b""), BACKUP, NEW, exists),
        ("not a directory", file("x", b""), BACKUP, "/new/x", exists),
        ("a store", store(), BACKUP, NEW, exists),
        ("itself", store(), BACKUP, BACKUP, exists),
        ("the store", store(), BACKUP, DIR, exists),
        ("in itself", store(), BACKUP, "/backup/new", exists),
        ("no backup", file("x", b""), NEW, "/newer", ErrorKind::NotFound),
        ("nothing", store(), "/nothing", "/newer", ErrorKind::NotFound),
    ];
    for (name, disk, from, to, expected) in cases {
        let before = disk.files();
        let e = restore(&disk, from, to).unwrap_err();
        assert_eq!(e.kind(), expected, "{name}: {e}");
        assert_eq!(disk.files(), before, "{name}");
    }
    // An empty directory, and one with an empty lock, are free.
    for lock in [false, true] {
        let (disk, model) = prepared(BACKUP);
        disk.create_dir_all(Path::new(NEW)).unwrap();
        if lock {
            disk.write_raw(&Path::new(NEW).join("lock"), b"");
        }
        restore(&disk, BACKUP, NEW).unwrap();
        assert_eq!(held(&disk, NEW).unwrap(), model);
    }
}

#[test]
fn a_damaged_backup_is_not_restored() {
    let (disk, model) = prepared(BACKUP);
    let paths: Vec<_> = files_in(&disk, BACKUP).into_keys().collect();
    let mut refused = 0;
    for path in paths {
        for at in [3, 70, 200, 2000] {
            let damaged = disk.fork();
            let bytes = disk.map(&path).unwrap().to_vec();
            let Some(byte) = bytes.get(at) else { continue };
            let mut bytes = bytes.clone();
            bytes[at] = !byte;
            damaged.remove(&path).unwrap();
            damaged.write_raw(&path, &bytes);
            match restore(&damaged, BACKUP, NEW) {
                Ok(_) => assert_eq!(held(&damaged, NEW).unwrap(), model, "{path:?} {at}"),
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Corrupt, "{path:?} {at}: {e}");
                    assert!(files_in(&damaged, NEW).is_empty(), "{path:?} {at}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 10, "{refused}");
}

#[test]
fn an_interrupted_restore_leaves_no_store_that_opens() {
    let (disk, model) = prepared(BACKUP);
    let base = disk.fork();
    let mut whole = 0;
    base.each_crash(
        5,
        12,
        |disk| restore(&disk, BACKUP, NEW).is_ok(),
        |label, &done, image| {
            match refused(held(&image, NEW), &model, done, label) {
                None => whole += 1,
                Some(ErrorKind::Corrupt) => {
                    assert!(open_at(&image, NEW).is_err(), "{label}");
                    let again = restore(&image, BACKUP, NEW).unwrap_err();
                    assert_eq!(again.kind(), ErrorKind::AlreadyExists, "{label}");
                    assert!(again.message().contains("interrupted"), "{label}: {again}");
                }
                Some(_) => {}
            }
            assert_eq!(held(&image, BACKUP).unwrap(), model, "{label}");
        },
    );
    assert!(whole > 2, "{whole}");
}

#[test]
fn a_failed_restore_leaves_nothing_or_a_complete_store() {
    let (disk, model) = prepared(BACKUP);
    let base = disk.fork();
    base.each_fault(
        |disk| restore(&disk, BACKUP, NEW).is_ok(),
        |label, &done, disk| {
            match held(&disk, NEW) {
                Ok(found) => assert_eq!(found, model, "{label}"),
                Err(e) => assert!(!done, "{label}: {e}"),
            }
            for (cut, image) in disk.images(5, 3) {
                match held(&image, NEW) {
                    Ok(found) => assert_eq!(found, model, "{label}, {cut}"),
                    Err(e) => assert!(!done, "{label}, {cut}: {e}"),
                }
            }
            assert_eq!(held(&disk, BACKUP).unwrap(), model, "{label}");
        },
    );
}

#[test]
fn a_dry_run_of_repair_finds_what_repair_finds_and_writes_nothing() {
    let (disk, _) = prepared(BACKUP);
    for at in [100, 333, 1500, 3000] {
        let damaged = disk.fork();
        for path in files_in(&disk, DIR).into_keys().filter(|path| path.ends_with("log")) {
            let mut bytes = disk.map(&path).unwrap().to_vec();
            bytes[at] ^= 0x11;
            damaged.write_raw(&path, &bytes);
        }
        let damaged_ref: DiskRef = damaged.clone();
        let lock = Path::new(DIR).join("lock");
        damaged.remove(&lock).unwrap();
        let (before, operations) = (damaged.files(), damaged.ops());
        let dry = LogStore::repair_dry_run_on(&damaged_ref, Path::new(DIR), |_, _| ()).unwrap();
        assert_eq!(damaged.files(), before);
        let log = &damaged.log()[operations..];
        let reads = [": list", ": open", ": map"];
        let is_read = |op: &String| reads.iter().any(|read| op.contains(read));
        assert!(log.iter().all(is_read), "{log:?}");
        let (from, to) = (Path::new(DIR), Path::new(NEW));
        let done = LogStore::repair_on(&damaged_ref, from, to, options(), |_, _| ()).unwrap();
        assert_eq!(dry, done);
        // Existing files are never overwritten.
        let before = files_in(&damaged, NEW);
        let again = LogStore::repair_on(&damaged_ref, from, to, options(), |_, _| ());
        assert_eq!(again.unwrap_err().kind(), ErrorKind::AlreadyExists);
        assert_eq!(files_in(&damaged, NEW), before);
    }
    let store = open(&disk).unwrap();
    let disk: DiskRef = disk.clone();
    let locked = LogStore::repair_dry_run_on(&disk, Path::new(DIR), |_, _| ()).unwrap_err();
    assert_eq!(locked.kind(), ErrorKind::Locked);
    drop(store);
    let nothing = LogStore::repair_dry_run_on(&disk, Path::new("/nothing"), |_, _| ()).unwrap_err();
    assert_eq!(nothing.kind(), ErrorKind::NotFound);
}
