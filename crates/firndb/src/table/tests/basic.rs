//! Tables of many shapes: present and absent keys, batches, and the index.

use super::forged::recompute_checks;
use super::*;
use crate::bytes::prefetch::LINE;
use crate::bytes::testing::Forged;
use crate::table::format::index::CHECKED_PART;
use crate::table::format::index::LAST_ENTRY;
use crate::table::format::section;
use crate::table::read::index_lookup::IndexLookup;
use crate::table::{Compression, Duplicates, KeyFilter};
use crate::testing::Rng;
use crate::{Error, ErrorKind};
use std::borrow::Cow;
use xxhash_rust::xxh3::xxh3_64;

fn records(n: usize, value: usize) -> Records {
    let record = |i: usize| (format!("key-{i}").into_bytes(), vec![i as u8; value + i % 7]);
    (0..n).map(record).collect()
}

#[test]
fn tables_return_the_added_records() {
    for n in [0, 1, 100, 2_000] {
        for value in [0, 32, 900, 10_000] {
            let n = if value == 10_000 { n / 20 } else { n };
            let records = records(n, value);
            for compression in [
                Compression::None,
                Compression::Records { level: 3 },
                Compression::Blocks { level: 3 },
            ] {
                for filter in [KeyFilter::None, KeyFilter::Bits8, KeyFilter::Bits16] {
                    let disk: DiskRef = SimDisk::new();
                    let options = BuildOptions { compression, filter, ..BuildOptions::default() };
                    let report = build(&disk, options, &records).unwrap();
                    assert_eq!(report.records, n as u64);
                    let table = open(&disk, Access::Map).unwrap();
                    table.verify().unwrap();
                    for (key, expected) in &records {
                        assert_eq!(table.get(key).unwrap().as_deref(), Some(&expected[..]));
                    }
                    for i in 0..1000 {
                        assert_eq!(table.get(format!("absent-{i}").as_bytes()).unwrap(), None);
                    }
                }
            }
        }
    }
}

/// The index has valid checksums, but other entries than the blocks.
#[test]
fn verify_compares_the_index_with_the_records() {
    let value = |i: usize| (format!("key {i}").into_bytes(), vec![i as u8; 600 + i]);
    let whole = bytes_of(BuildOptions::default(), &(0..100).map(value).collect());
    open(&disk_with(&whole), Access::Map).unwrap().verify().unwrap();
    let index = Forged(whole.clone()).find(section::INDEX).unwrap();
    let used = |at: &usize| whole[*at..at + 8] != [0; 8];
    for at in index.clone().step_by(8) {
        let mut file = Forged(whole.clone());
        file.0[at + if used(&at) { 3 } else { 0 }] ^= 1;
        recompute_checks(&mut file);
        file.seal();
        let error = open(&disk_with(&file.0), Access::Map).unwrap().verify().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("index") && error.file().is_some(), "{error}");
    }
    assert!(index.step_by(8).filter(used).count() == 100);
}

/// The result of an index lookup, which must be the same on the slow path.
fn found<'a>(table: &'a Table, key: &[u8]) -> IndexLookup<'a> {
    let (index, hash) = (table.reader.index.as_ref().unwrap(), xxh3_64(key));
    let found = index.find(table.reader.all_blocks(), hash, key);
    assert_eq!(found, index.find_anywhere(table.reader.all_blocks(), hash, key));
    found
}

/// Whether the index finds a present key.
fn is_known(table: &Table, key: &[u8]) -> bool {
    match found(table, key) {
        IndexLookup::Value(_) => true,
        IndexLookup::Unknown => false,
        IndexLookup::Absent => panic!("a record is lost"),
    }
}

/// Whether the index proves that a key is absent.
fn is_absent(table: &Table, i: usize) -> bool {
    found(table, format!("no key {i}").as_bytes()) == IndexLookup::Absent
}

/// Before that, a get checks no more of the file than it would without an index.
#[test]
fn index_is_used_once_blocks_were_checked() {
    let value = |i: usize| (format!("key {i}").into_bytes(), vec![i as u8; 600 + i]);
    let records: Records = (0..100).map(value).collect();
    for block_size in [4096, 1 << 16] {
        let options = BuildOptions { block_size, ..BuildOptions::default() };
        let disk = disk_with(&bytes_of(options, &records));
        let table = open(&disk, Access::Map).unwrap();
        let key = &records[0].0;
        assert!(!(0..200).any(|i| is_absent(&table, i)), "nothing was checked");
        for get in 0..2 {
            table.get(key).unwrap();
            assert_eq!(is_known(&table, key), get == 1, "after get {get} of its block");
        }
        for _ in 0..2 {
            records.iter().for_each(|(key, _)| assert!(table.contains(key).unwrap()));
        }
        assert!(records.iter().all(|(key, _)| is_known(&table, key)));
        assert!((0..200).all(|i| is_absent(&table, i)));
        // A free last entry proves it alone.
        let index = table.reader.index.as_ref().unwrap();
        let ends = index.array.as_chunks::<LINE>().0.iter().zip(0..);
        let ends = ends.filter(|(bucket, _)| bucket[LAST_ENTRY..].iter().all(|&byte| byte == 0));
        assert!(ends.clone().count() > 10);
        assert!(ends.clone().all(|(_, number)| index.ready(number) >> 7 == 1));
        let keys: Vec<&[u8]> = records.iter().map(|(key, _)| &key[..]).collect();
        let values = table.get_many(&keys).unwrap();
        let all = records.iter().zip(values);
        all.for_each(|((_, value), got)| assert_eq!(got.as_deref(), Some(&value[..])));
        assert_eq!(table.get(b"absent").unwrap(), None);
    }
}

/// Batches execute in groups of keys. Tests every number of keys around group boundaries.
#[test]
fn batches_of_any_size_agree_with_gets() {
    let record = |i: usize| (format!("key-{i:03}").into_bytes(), vec![i as u8; 30 + i % 7]);
    let present: Records = (0..400).map(record).collect();
    let keys: Vec<String> = (0..70).map(|i| format!("key-{:03}", (i * 37) % 600)).collect();
    for filter in [KeyFilter::None, KeyFilter::Bits8] {
        let options = BuildOptions { filter, ..BuildOptions::default() };
        let disk = disk_with(&bytes_of(options, &present));
        for access in [Access::Map, Access::Buffered, Access::Resident] {
            let table = open(&disk, access).unwrap();
            let got = keys.iter().map(|key| table.get(key.as_bytes()).unwrap());
            let got: Vec<Option<Vec<u8>>> = got.map(|value| value.map(Cow::into_owned)).collect();
            assert!(got[..16].iter().any(Option::is_some) && got[..16].iter().any(Option::is_none));
            for n in 0..=keys.len() {
                // Blocks that no get has checked, then blocks that were checked.
                for table in [&open(&disk, access).unwrap(), &table] {
                    let many = table.get_many(&keys[..n]).unwrap().into_iter();
                    let many: Vec<_> = many.map(|value| value.map(Cow::into_owned)).collect();
                    assert_eq!(many, got[..n]);
                    let mut read = Vec::new();
                    let done = table.read_many(&keys[..n], |position, value| -> Result<()> {
                        assert_eq!(position, read.len());
                        read.push(value.map(|value| value.to_vec()));
                        Ok(())
                    });
                    assert!(done.is_ok() && read == got[..n]);
                }
            }
        }
    }
}

#[test]
fn read_many_stops_at_an_error_of_the_callback() {
    let disk = disk_with(&bytes_of(BuildOptions::default(), &records(200, 900)));
    for access in [Access::Map, Access::Buffered, Access::Resident] {
        let (table, mut seen) = (open(&disk, access).unwrap(), 0);
        let keys: Vec<String> = (0..200).map(|i| format!("key-{i}")).collect();
        let ended = table.read_many(&keys, |position, value| {
            assert_eq!(value.map(|value| value.len()), Some(900 + position % 7));
            seen += 1;
            if position < 77 { Ok(()) } else { Err(Error::invalid("enough")) }
        });
        assert_eq!((ended.unwrap_err().message(), seen), ("enough", 78));
    }
}

/// One of several parts of the index is damaged: gets of its keys fail, and all others succeed.
#[test]
fn damaged_index_part_affects_only_its_own_keys() {
    let mut rng = Rng(0x1DE);
    let records: Records =
        (0..14_000).map(|i| (format!("key {i}").into_bytes(), rng.fill(505 + i % 30))).collect();
    for compression in [Compression::None, Compression::Records { level: 1 }] {
        let whole = bytes_of(BuildOptions { compression, ..BuildOptions::default() }, &records);
        let index = Forged(whole.clone()).find(section::INDEX).unwrap();
        let parts = index.len().div_ceil(CHECKED_PART);
        assert!(parts == 3, "{parts} parts");
        for damaged in 0..=parts {
            let mut bytes = whole.clone();
            if damaged < parts {
                bytes[index.start + damaged * CHECKED_PART + 77] ^= 1;
            }
            let table = open(&disk_with(&bytes), Access::Map).unwrap();
            let mut errors = 0;
            // The first get reads the block, the second one the index.
            for _ in 0..2 {
                errors = 0;
                for (key, value) in &records {
                    match table.get(key) {
                        Ok(got) => assert_eq!(got.as_deref(), Some(&value[..])),
                        Err(e) => {
                            assert_eq!(e.kind(), ErrorKind::Corrupt);
                            errors += 1;
                        }
                    }
                }
            }
            let most = records.len() * CHECKED_PART / index.len();
            assert!(errors <= most + 100 && (errors > most / 2 || damaged > 1), "{errors} errors");
            assert_eq!(errors > 0, damaged < parts);
            let keys: Vec<&[u8]> = records.iter().map(|(key, _)| &key[..]).collect();
            let known = keys.iter().filter(|key| is_known(&table, key)).count();
            assert!(known + errors == records.len(), "{known} known, {errors} errors");
            assert_eq!(table.get_many(&keys).is_err(), damaged < parts);
            assert_eq!(table.verify().is_err(), damaged < parts);
        }
    }
}

/// The checksum section is wrong, with a valid checksum of its own.
#[test]
fn verify_reports_wrong_index_checksums() {
    let value = |i: usize| (format!("key {i}").into_bytes(), vec![i as u8; 600]);
    let whole = bytes_of(BuildOptions::default(), &(0..20).map(value).collect());
    let mut file = Forged(whole);
    let checks = file.find(section::INDEX_CHECKS).unwrap();
    file.0[checks.start] ^= 1;
    file.seal();
    let error = open(&disk_with(&file.0), Access::Map).unwrap().verify().unwrap_err();
    assert!(error.to_string().contains("part 0 of the index"), "{error}");
}

/// Stored records decide whether a table has an index, not added ones.
#[test]
fn stored_record_sizes_decide_on_an_index() {
    let options = |duplicates| BuildOptions { duplicates, ..BuildOptions::default() };
    let mut records: Records = (0..300).map(|i| (vec![7], vec![i as u8; 5_000])).collect();
    records.extend((0..2_000).map(|i| (format!("key {i}").into_bytes(), vec![1; 20])));
    let small = disk_with(&bytes_of(options(Duplicates::Last), &records));
    assert_eq!(open(&small, Access::Map).unwrap().stats().index_bytes, 0);
    records.truncate(301);
    let large = disk_with(&bytes_of(options(Duplicates::First), &records));
    assert!(open(&large, Access::Map).unwrap().stats().index_bytes > 0);
}
