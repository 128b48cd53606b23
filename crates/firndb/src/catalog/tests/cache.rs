//! Tests of the cache of a reader: foreign files are kept, unneeded files are removed, and corrupt
//! files are fetched again.

use super::faulty::Faulty;
use super::*;
use crate::ErrorKind;
use crate::catalog::reader::cache_dir::{MARK, MARK_TEXT};
use crate::catalog::{CatalogReader, ReaderOptions};
use crate::search::query::all;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;

const CACHE: &str = "/cache";

fn reader(disk: &Arc<SimDisk>) -> Result<CatalogReader> {
    catalog(disk).reader("docs", CACHE, ReaderOptions::default())
}

/// A reader that reads every byte through the origin, as over a network.
fn far_reader(disk: &Arc<SimDisk>) -> Result<CatalogReader> {
    let far = Catalog { origin: Arc::new(Faulty::new(disk, 1)), disk: disk.clone() as DiskRef };
    far.reader("docs", CACHE, ReaderOptions { threads: 1, ..ReaderOptions::default() })
}

fn files_in(disk: &Arc<SimDisk>, dir: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    disk.files().into_iter().filter(|(path, _)| path.starts_with(dir)).collect()
}

fn published() -> Arc<SimDisk> {
    let disk = SimDisk::new();
    make_collection(&disk);
    publish(&disk, "docs", COLLECTION).unwrap();
    disk
}

#[test]
fn foreign_directories_are_rejected_untouched() {
    let hash = "ab".repeat(32);
    let names = [
        "users.firn".to_string(),
        "lock".to_string(),
        "note.txt".to_string(),
        ".env".to_string(),
        ".a.firndb-tmp".to_string(),
        "upload.part".to_string(),
        // Named like the files of a cache, but without the mark.
        format!("{hash}.firn"),
        format!(".{hash}.part"),
        "version-00000000000000000001.json".to_string(),
        "folder/file".to_string(),
    ];
    for name in names {
        let disk = published();
        disk.write_raw(&Path::new(CACHE).join(&name), b"mine");
        let before = files_in(&disk, CACHE);
        let error = reader(&disk).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{name}: {error}");
        let first = name.split('/').next().unwrap();
        assert!(error.message().contains(first), "{name}: {error}");
        assert_eq!(files_in(&disk, CACHE), before, "{name}");
    }
    // A collection, the directory of a table, and a mark with another content.
    let disk = published();
    make_table(&disk, 1);
    disk.write_raw(&Path::new("/marked").join(MARK), b"mine");
    for dir in [COLLECTION, "/tables", "/marked", CATALOG] {
        let before = files_in(&disk, dir);
        let refused = catalog(&disk).reader("docs", dir, ReaderOptions::default());
        assert_eq!(refused.err().unwrap().kind(), ErrorKind::AlreadyExists, "{dir}");
        assert_eq!(files_in(&disk, dir), before, "{dir}");
    }
}

#[test]
fn foreign_files_in_a_cache_are_kept() {
    let disk = published();
    let reader = reader(&disk).unwrap();
    let mine = ["users.firn", "draft.tmp", "a.part", ".users.firn.firndb-tmp", "AB.firn", "x"];
    mine.iter().for_each(|name| disk.write_raw(&Path::new(CACHE).join(name), b"mine"));
    replace(&disk, "a", 2);
    publish(&disk, "docs", COLLECTION).unwrap();
    assert!(reader.refresh().unwrap());
    drop(reader);
    super::cache::reader(&disk).unwrap();
    let files = disk.files();
    mine.iter().for_each(|name| assert_eq!(files[&Path::new(CACHE).join(name)], b"mine", "{name}"));
    assert_eq!(files[&Path::new(CACHE).join(MARK)], MARK_TEXT);
}

/// Power loss while a cache is created must not leave a directory that counts as foreign.
#[test]
fn power_loss_during_cache_creation_is_recoverable() {
    let base = published().fork();
    base.create_dir_all(Path::new(CACHE)).unwrap();
    let images = base.each_crash(
        20_261_128,
        16,
        |disk| reader(&disk).is_ok(),
        |label, _, image| drop(reader(&image).unwrap_or_else(|e| panic!("{label}: {e:?}"))),
    );
    assert!(images > 20, "{images} images prove little");
}

/// Partial fetches of a version that is no longer the newest are removed, both while the reader
/// runs and after a restart.
#[test]
fn partial_fetches_of_old_versions_are_removed() {
    for is_restarted in [false, true] {
        let disk = SimDisk::new();
        make_collection(&disk);
        let bytes = publish(&disk, "docs", COLLECTION).unwrap().version.bytes() as usize;
        let mut reader = far_reader(&disk).unwrap();
        for name in ["a", "b", "c"] {
            replace(&disk, name, 2);
        }
        let second = publish(&disk, "docs", COLLECTION).unwrap().version;
        let newest = |disk: &Arc<SimDisk>| {
            for name in ["a", "b", "c"] {
                replace(disk, name, 3);
            }
            publish(disk, "docs", COLLECTION).unwrap();
        };
        // A part of version 2 fits. Version 3 fits only without that part.
        let beside = Arc::new(SimDisk::fork(&disk));
        newest(&beside);
        let grown = beside.files().values().map(Vec::len).sum::<usize>()
            - disk.files().values().map(Vec::len).sum::<usize>();
        disk.limit(bytes * 3 / 4);
        let full = reader.refresh().unwrap_err();
        assert!(full.is_disk_full(), "{full}");
        let stats = reader.stats();
        assert_eq!((stats.version, stats.newest, stats.failures), (1, 2, 1));
        let parts = |disk: &Arc<SimDisk>| {
            let files = disk.list(Path::new(CACHE)).unwrap();
            let hashes: Vec<&str> = second.files.iter().map(|file| &file.blake3[..]).collect();
            files.iter().filter(|name| hashes.iter().any(|hash| name.contains(hash))).count()
        };
        assert!(parts(&disk) > 0, "something was begun");
        disk.limit(grown * 2);
        newest(&disk);
        disk.limit(bytes * 3 / 4);
        if is_restarted {
            drop(reader);
            reader = far_reader(&disk).unwrap();
            let stats = reader.stats();
            assert_eq!((stats.version, stats.newest, stats.failures), (1, 3, 1));
            let why = stats.last_error.unwrap();
            assert!(why.contains("cannot append") || why.contains("append"), "{why}");
        } else {
            assert!(reader.refresh().unwrap_err().is_disk_full());
        }
        assert_eq!(parts(&disk), 0, "version 2 has left its space to version 3");
        disk.limit(bytes * 2);
        assert!(reader.refresh().unwrap());
        assert_eq!(reader.current().version().number, 3);
        reader.current().collection().unwrap().verify().unwrap();
    }
}

/// After a restart the cached version counts, too: if the newest does not fit next to it, the
/// reader stays on the cached version and reports the error.
#[test]
fn the_cache_limit_holds_after_a_restart() {
    let disk = SimDisk::new();
    make_collection(&disk);
    let bytes = publish(&disk, "docs", COLLECTION).unwrap().version.bytes();
    let options = ReaderOptions { cache_bytes: bytes + 1, ..ReaderOptions::default() };
    drop(catalog(&disk).reader("docs", CACHE, options.clone()).unwrap());
    replace(&disk, "a", 2);
    publish(&disk, "docs", COLLECTION).unwrap();
    let reader = catalog(&disk).reader("docs", CACHE, options).unwrap();
    let stats = reader.stats();
    assert_eq!((stats.version, stats.newest), (1, 2));
    assert!(stats.last_error.unwrap().contains("are allowed"));
    assert_eq!(reader.current().collection().unwrap().count(&all()).unwrap(), 12);
}

/// The next start fetches corrupt files again, whichever file is corrupt and in whatever way, even
/// if it fetches a newer version.
#[test]
fn corrupt_files_are_fetched_again() {
    let base = published();
    drop(far_reader(&base).unwrap());
    let names = base.list(Path::new(CACHE)).unwrap();
    let names: Vec<_> = names.into_iter().filter(|name| name.ends_with(".firn")).collect();
    assert_eq!(names.len(), 4);
    let damages: [fn(&mut Vec<u8>); 5] = [
        |bytes| bytes.clear(),
        |bytes| bytes.truncate(100),
        |bytes| bytes.truncate(bytes.len() - 1),
        |bytes| bytes.push(0),
        |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        },
    ];
    for (name, (n, damage)) in
        names.iter().flat_map(|name| damages.iter().enumerate().map(move |damage| (name, damage)))
    {
        for (is_newer, open) in [
            (false, far_reader as fn(&Arc<SimDisk>) -> Result<CatalogReader>),
            (true, far_reader),
            (false, reader),
            (true, reader),
        ] {
            let disk = base.fork();
            if is_newer {
                replace(&disk, "c", 2);
                publish(&disk, "docs", COLLECTION).unwrap();
            }
            let path = Path::new(CACHE).join(name);
            let mut bytes = disk.files()[&path].clone();
            damage(&mut bytes);
            disk.write_raw(&path, &bytes);
            let reader = open(&disk).unwrap_or_else(|e| panic!("{name}, damage {n}: {e}"));
            assert_eq!(reader.current().version().number, 1 + u64::from(is_newer));
            reader.current().collection().unwrap().verify().unwrap();
            assert_eq!(reader.stats().last_error, None);
            for (path, bytes) in files_in(&disk, CACHE) {
                if path.extension().is_some_and(|end| end == "firn") {
                    let hash = blake3::hash(&bytes).to_hex();
                    assert_eq!(Some(hash.as_str()), path.file_stem().unwrap().to_str());
                }
            }
        }
    }
}

/// Without the catalog a start with a truncated file fails, and the intact files are kept.
#[test]
fn a_corrupt_cache_without_a_catalog_is_kept_and_reported() {
    let disk = published();
    let far = Arc::new(Faulty::new(&disk, 1));
    let there = Catalog { origin: far.clone(), disk: disk.clone() as DiskRef };
    drop(there.reader("docs", CACHE, ReaderOptions::default()).unwrap());
    let names = disk.list(Path::new(CACHE)).unwrap();
    let name = names.iter().find(|name| name.ends_with(".firn")).unwrap();
    disk.write_raw(&Path::new(CACHE).join(name), b"");
    let before = files_in(&disk, CACHE);
    disk.remove(&Path::new(CATALOG).join("docs/versions/00000000000000000001.json")).unwrap();
    disk.remove(&Path::new(CATALOG).join("docs/newest")).unwrap();
    assert!(there.reader("docs", CACHE, ReaderOptions::default()).is_err());
    assert_eq!(files_in(&disk, CACHE), before);
    assert_eq!(far.one_in.load(Relaxed), 0);
}
