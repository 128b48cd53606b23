//! Sharded tables: published from a directory, followed, and pulled.

use super::*;
use crate::ErrorKind;
use crate::catalog::{CatalogReader, ReaderOptions, VersionKind};

const DIR: &str = "/shards";
const SHARDS: usize = 4;

fn path(shard: usize) -> std::path::PathBuf {
    Path::new(DIR).join(format!("shard-{shard:05}.table"))
}

/// A disk with the shards of version 1.
fn base() -> Arc<SimDisk> {
    let disk = SimDisk::new();
    for shard in 0..SHARDS {
        make_shard(&disk, &path(shard), (shard, SHARDS), 1);
    }
    disk
}

/// The keys whose value is `version`; panics if a key is absent.
pub(super) fn count(reader: &CatalogReader, version: u32) -> u32 {
    let current = reader.current();
    let table = current.sharded_table().unwrap();
    let keys: Vec<String> = (0..KEYS).map(|n| format!("key {n}")).collect();
    let values = table.get_many(&keys).unwrap();
    let is_version = |value: Vec<u8>| value == version.to_string().as_bytes();
    values.into_iter().map(|value| u32::from(is_version(value.unwrap().into_owned()))).sum()
}

#[test]
fn a_reader_opens_only_changed_shards() {
    let disk = base();
    let first = publish(&disk, "words", DIR).unwrap();
    assert_eq!(first.version.kind, VersionKind::ShardedTable);
    assert_eq!(first.version.statistics["shards"], SHARDS as u64);
    assert_eq!(first.version.statistics["records"], u64::from(KEYS));
    assert_eq!(first.files_sent, SHARDS as u64);
    let cache = Path::new("/cache");
    let reader = catalog(&disk).reader("words", cache, ReaderOptions::default()).unwrap();
    assert_eq!(count(&reader, 1), KEYS);
    assert_eq!(reader.current().table().err().unwrap().kind(), ErrorKind::InvalidArgument);

    make_shard(&disk, &path(2), (2, SHARDS), 2);
    let second = publish(&disk, "words", DIR).unwrap();
    assert_eq!((second.files_sent, second.version.number), (1, 2));
    let (old, before) = (reader.current(), disk.ops());
    assert!(reader.refresh().unwrap());
    let log = disk.log().split_off(before);
    let hash = &second.version.files[2].blake3;
    let opened: Vec<_> = log.iter().filter(|line| line.contains("map /cache/")).collect();
    assert!(!opened.is_empty() && opened.iter().all(|line| line.contains(hash)), "{opened:?}");
    let of_shard = old.sharded_table().unwrap().shards()[2].len() as u32;
    assert_eq!((count(&reader, 2), count(&reader, 1)), (of_shard, KEYS - of_shard));
    for shard in 0..SHARDS {
        let current = reader.current();
        let tables = [&old, &current].map(|open| &open.sharded_table().unwrap().shards()[shard]);
        assert_eq!(Arc::ptr_eq(tables[0], tables[1]), shard != 2, "shard {shard}");
    }
    reader.current().sharded_table().unwrap().verify().unwrap();
    assert_eq!(check_all(&disk, "words").unwrap(), [1, 2]);
    // Nothing is examined but the new shards: the others are known.
    let same = catalog(&disk).publish_if_changed("words", DIR, &PublishOptions::default());
    assert_eq!(same.unwrap(), None);
}

#[test]
fn a_pull_gives_the_directory_back() {
    let disk = base();
    let version = publish(&disk, "words", DIR).unwrap().version;
    catalog(&disk).pull(&version, Path::new("/pulled"), 2, &|_| ()).unwrap();
    let files = disk.files();
    for shard in 0..SHARDS {
        let pulled = Path::new("/pulled").join(path(shard).file_name().unwrap());
        assert_eq!(files[&pulled], files[&path(shard)]);
    }
    assert_eq!(disk.list(Path::new("/pulled")).unwrap().len(), SHARDS);
    let again = publish(&disk, "words", "/pulled").unwrap();
    assert_eq!((again.version.kind, again.files_sent), (VersionKind::ShardedTable, 0));
}

/// Publishing is refused, with this in the message.
fn refused(disk: &Arc<SimDisk>, message: &str) {
    let error = publish(disk, "words", DIR).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.to_string().contains(message), "{message}: {error}");
    assert_eq!(check_all(disk, "words").unwrap(), [0u64; 0]);
}

#[test]
fn incomplete_and_mixed_directories_are_refused() {
    let disk = base();
    disk.remove(&path(1)).unwrap();
    refused(&disk, "`shard-00001.table` is missing");
    let disk = base();
    disk.remove(&path(0)).unwrap();
    refused(&disk, "`shard-00000.table` is missing");
    let disk = base();
    disk.write_raw(&Path::new(DIR).join("notes.txt"), b"mine");
    refused(&disk, "`notes.txt`");
    let disk = base();
    disk.create_dir_all(&Path::new(DIR).join("more")).unwrap();
    refused(&disk, "`more`");
    let disk = base();
    disk.remove(&path(3)).unwrap();
    disk.create_dir_all(&path(3)).unwrap();
    refused(&disk, "not a regular file");
}

#[test]
fn shards_that_do_not_belong_together_are_refused() {
    // Files in a wrong order, and one shard too few: a get would not find their keys.
    let disk = base();
    make_shard(&disk, &path(0), (1, SHARDS), 1);
    make_shard(&disk, &path(1), (0, SHARDS), 1);
    refused(&disk, "is in the file of shard 0 of 4, not 1");
    let disk = base();
    disk.remove(&path(3)).unwrap();
    refused(&disk, "of 3, not");
    let disk = base();
    let options = BuildOptions { threads: 1, ..BuildOptions::default() }.value_schema("\"long\"");
    disk.remove(&path(3)).unwrap();
    let builder = TableBuilder::create_on(disk.clone() as DiskRef, &path(3), options).unwrap();
    builder.finish().unwrap();
    refused(&disk, "value schema");
    // A wrong shard is found although the parent version has all files, in other places.
    let disk = base();
    publish(&disk, "words", DIR).unwrap();
    make_shard(&disk, &path(2), (3, SHARDS), 1);
    make_shard(&disk, &path(3), (2, SHARDS), 1);
    let error = publish(&disk, "words", DIR).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert_eq!(check_all(&disk, "words").unwrap(), [1]);
}

#[test]
fn versions_with_other_shards_are_corrupt() {
    let disk = base();
    let version = publish(&disk, "words", DIR).unwrap().version;
    let mut forged = Version { number: 2, ..version };
    forged.files.remove(1);
    crate::catalog::publish::commit(&catalog(&disk), forged).unwrap();
    let cache = Path::new("/cache");
    let opened = catalog(&disk).reader("words", cache, ReaderOptions::default());
    let error = opened.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    assert!(error.message().contains("lacks shard 1"), "{error}");
}
