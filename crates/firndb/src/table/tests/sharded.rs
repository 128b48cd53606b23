//! Tables in several files.

use super::*;
use crate::ErrorKind;
use crate::table::{ShardedTable, shard_of};
use std::path::PathBuf;
use std::sync::Arc;

const SHARDS: usize = 8;

fn path(shard: usize) -> PathBuf {
    format!("/shard-{shard}").into()
}

fn paths() -> Vec<PathBuf> {
    (0..SHARDS).map(path).collect()
}

fn key(n: u32) -> Vec<u8> {
    format!("key {n}").into_bytes()
}

/// Builds shard `shard` of a table of `keys` keys, each with itself as its value.
fn build_shard(disk: &DiskRef, shard: usize, keys: u32, options: BuildOptions) -> BuildReport {
    let options = BuildOptions { threads: 1, ..options };
    let mut builder = TableBuilder::create_on(disk.clone(), &path(shard), options).unwrap();
    for key in (0..keys).map(key).filter(|key| shard_of(key, SHARDS) == shard) {
        builder.add(&key, &key).unwrap();
    }
    builder.finish().unwrap()
}

fn build_all(keys: u32) -> (Arc<SimDisk>, DiskRef) {
    let sim = SimDisk::new();
    let disk = sim.clone() as DiskRef;
    for shard in 0..SHARDS {
        build_shard(&disk, shard, keys, BuildOptions::default());
    }
    (sim, disk)
}

/// The shard of a key is part of the format.
#[test]
fn shards_of_keys_are_stable() {
    let cases: [(&[u8], usize, usize); 10] = [
        (b"", 1000, 124),
        (b"a", 1000, 330),
        (b"key 0", 1000, 1),
        (b"key 1", 1000, 10),
        (b"Oslo", 7, 5),
        (b"Oslo", 100_000, 74123),
        (&[0; 300], 1000, 856),
        (&[255; 17], 1000, 613),
        (&[7; 129], 1000, 681),
        (b"a", 1, 0),
    ];
    for (key, shards, shard) in cases {
        assert_eq!(shard_of(key, shards), shard, "{:?} of {shards}", key.escape_ascii());
    }
    assert_eq!(shard_of("a", 0), 0);
}

#[test]
fn finds_each_key_in_its_shard() {
    let (_, disk) = build_all(4000);
    for access in [Access::Map, Access::Buffered, Access::Resident] {
        let table = ShardedTable::open_on(&disk, &paths(), access).unwrap();
        assert_eq!((table.len(), table.is_empty()), (4000, false));
        // Present and absent keys, repeated, in no order of shards.
        let keys: Vec<Vec<u8>> = (0..9000).map(|n| key(n * 7919 % 4500)).collect();
        let found = table.get_many(&keys).unwrap();
        assert_eq!(found.len(), keys.len());
        for (n, (key, value)) in (0..9000).zip(keys.iter().zip(found)) {
            let expected = (n * 7919 % 4500 < 4000).then_some(&key[..]);
            assert_eq!(value.as_deref(), expected);
            assert_eq!(table.get(key).unwrap().as_deref(), expected);
            assert_eq!(table.contains(key).unwrap(), expected.is_some());
        }
        assert!(table.get_many::<&[u8]>(&[]).unwrap().is_empty());
        let mut all: Vec<_> = table.iter().map(|record| record.unwrap().0).collect();
        all.sort();
        let mut expected: Vec<_> = (0..4000).map(key).collect();
        expected.sort();
        assert!(all == expected);
        let checked = table.verify().unwrap();
        assert_eq!((checked.files, checked.records), (SHARDS as u64, 4000));
        assert_eq!(checked.bytes, table.stats().file_bytes);
    }
}

/// The hash that selects the shard is independent of the one that orders the records of a table.
/// Otherwise all keys of a shard would share a fraction of the bins.
#[test]
fn shards_are_even_and_need_no_seed() {
    let keys = 40_000;
    let (_, disk) = build_all(keys);
    let table = ShardedTable::open_on(&disk, &paths(), Access::Map).unwrap();
    let stats = table.stats();
    assert_eq!((stats.shards, stats.records), (SHARDS as u64, u64::from(keys)));
    let average = stats.records / stats.shards;
    assert!(stats.smallest_shard_records > average * 9 / 10, "{stats:?}");
    assert!(stats.largest_shard_records < average * 11 / 10, "{stats:?}");
    let whole = SimDisk::new() as DiskRef;
    let records = (0..keys).map(|n| (key(n), key(n))).collect();
    build(&whole, BuildOptions { threads: 1, ..BuildOptions::default() }, &records).unwrap();
    let one = open(&whole, Access::Map).unwrap().stats();
    for shard in table.shards() {
        assert_eq!(shard.stats().seed, 0);
    }
    // Blocks are as full as those of one table.
    assert!(stats.blocks <= one.blocks + 2 * stats.shards, "{stats:?}, one table: {one:?}");
}

#[test]
fn verify_finds_keys_in_wrong_shards() {
    let (_, disk) = build_all(400);
    let mut swapped = paths();
    swapped.swap(2, 5);
    let table = ShardedTable::open_on(&disk, &swapped, Access::Map).unwrap();
    let error = table.verify().unwrap_err();
    assert_eq!((error.kind(), error.file()), (ErrorKind::Corrupt, Some(path(5).as_path())));
    assert!(error.message().contains("is in the file of shard 2 of 8, not 5"), "{error}");
    let fewer = ShardedTable::open_on(&disk, &paths()[..SHARDS - 1], Access::Map).unwrap();
    assert_eq!(fewer.verify().unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_damaged_shard_is_reported() {
    let (sim, disk) = build_all(400);
    let mut bytes = sim.files()[&path(3)].clone();
    let (start, _) = Table::open_on(&disk, &path(3), Access::Map).unwrap().reader.blocks;
    bytes[start as usize + CHECKSUM + 4] ^= 1;
    sim.write_raw(&path(3), &bytes);
    let table = ShardedTable::open_on(&disk, &paths(), Access::Buffered).unwrap();
    let error = table.verify().unwrap_err();
    assert_eq!((error.kind(), error.file()), (ErrorKind::Corrupt, Some(path(3).as_path())));
    // An iteration ends after the error, and does not continue with the next shard.
    let mut records = table.iter();
    let before: u64 = table.shards()[..3].iter().map(|shard| shard.len()).sum();
    for _ in 0..before {
        records.next().unwrap().unwrap();
    }
    assert_eq!(records.next().unwrap().unwrap_err().kind(), ErrorKind::Corrupt);
    assert!(records.next().is_none());
    assert!(records.next().is_none());
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let (_, disk) = build_all(100);
    let open = |paths: &[PathBuf]| ShardedTable::open_on(&disk, paths, Access::Map).err().unwrap();
    assert_eq!(open(&[]).kind(), ErrorKind::InvalidArgument);
    assert_eq!(open(&["/missing".into()]).kind(), ErrorKind::NotFound);
    let many = vec![path(0); crate::table::MAX_SHARDS + 1];
    assert_eq!(open(&many).kind(), ErrorKind::InvalidArgument);
    build_shard(&disk, 4, 100, BuildOptions::default().value_schema("\"long\""));
    let error = open(&paths());
    assert_eq!((error.kind(), error.file()), (ErrorKind::InvalidArgument, Some(path(4).as_path())));
    assert!(error.message().contains("value schema"), "{error}");
}

#[test]
fn a_directory_of_shards_is_opened_if_it_is_complete() {
    let (sim, _) = build_all(400);
    let files: Vec<Vec<u8>> = paths().iter().map(|path| sim.files()[path].clone()).collect();
    let open = |names: &[(String, usize)]| {
        let sim = SimDisk::new();
        let disk = sim.clone() as DiskRef;
        disk.create_dir_all(Path::new("/t")).unwrap();
        for (name, file) in names {
            sim.write_raw(&Path::new("/t").join(name), &files[*file]);
        }
        ShardedTable::open_dir_on(&disk, Path::new("/t"), Access::Map)
    };
    let mut names: Vec<_> = (0..SHARDS).map(|i| (format!("shard-{i:05}.table"), i)).collect();
    let table = open(&names).unwrap();
    assert_eq!((table.len(), table.shards().len()), (400, SHARDS));
    assert_eq!(table.get(key(7)).unwrap().as_deref(), Some(&key(7)[..]));
    let refused = |names: &[(String, usize)], words: &str| {
        let error = open(names).err().expect("the directory is refused");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    };
    refused(&[], "has 1 to 100000 shards, not 0");
    refused(&names[..SHARDS - 1], "is in the file of shard");
    refused(&names[1..], "`shard-00000.table` is missing");
    let other = ("notes.txt".to_string(), 0);
    refused(&[&names[..], &[other]].concat(), "`notes.txt`");
    names[0].1 = 1;
    names[1].1 = 0;
    refused(&names, "is in the file of shard");
}
