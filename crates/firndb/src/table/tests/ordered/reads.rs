//! Reads of tables in key order in every access mode: their number, counted with direct reads on
//! the real disk, and extreme records.

use super::*;
use crate::KeyRange;
use crate::table::tests::direct::TempDir;
use crate::table::{Compression, KeyFilter, MAX_KEY, Range};
use crate::testing::Rng;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Keys and values.
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Records in key order, with keys between which there are others.
fn records(n: usize, value: usize) -> Records {
    let mut rng = Rng(n as u64);
    (0..n).map(|i| (format!("k{:010}", 2 * i).into_bytes(), rng.fill(value))).collect()
}

fn every_compression() -> [Compression; 3] {
    [Compression::None, Compression::Records { level: 1 }, Compression::Blocks { level: 1 }]
}

/// Number of reads of a table that is read directly.
fn reads(table: &Table) -> u64 {
    table.reader.direct().unwrap().reads().0
}

#[test]
fn a_get_is_one_read() {
    let Some(dir) = TempDir::new() else { return };
    for compression in every_compression() {
        for (n, value) in [(4_000, 30), (600, 300), (40, 9_000)] {
            let records = records(n, value);
            let table = dir.build(BuildOptions { compression, ..ordered() }, &records);
            let before = reads(&table);
            for (key, value) in &records {
                assert_eq!(table.get(key).unwrap().as_deref(), Some(&value[..]));
            }
            assert_eq!(reads(&table) - before, n as u64, "{compression:?}");
            let before = reads(&table);
            for i in 0..n {
                assert_eq!(table.get(format!("k{:010}", 2 * i + 1)).unwrap(), None);
            }
            assert_eq!(reads(&table) - before, n as u64, "{compression:?}, absent");
            let keys: Vec<&[u8]> = records.iter().rev().map(|(key, _)| &key[..]).collect();
            let before = reads(&table);
            let found = table.get_many(&keys).unwrap();
            let expected = records.iter().rev().map(|(_, value)| Some(&value[..]));
            assert!(found.iter().map(|value| value.as_deref()).eq(expected));
            assert_eq!(reads(&table) - before, table.stats().blocks, "{compression:?}");
        }
    }
}

#[test]
fn a_filter_avoids_reads_of_absent_keys() {
    let Some(dir) = TempDir::new() else { return };
    let options = BuildOptions { filter: KeyFilter::Bits8, ..ordered() };
    let table = dir.build(options, &records(4_000, 30));
    let before = reads(&table);
    (0..4_000).for_each(|i| assert!(table.get(format!("k{:010}", 2 * i + 1)).unwrap().is_none()));
    let reads = reads(&table) - before;
    assert!(reads < 40, "{reads} reads");
}

#[test]
fn a_range_reads_each_of_its_blocks_once() {
    let Some(dir) = TempDir::new() else { return };
    for compression in every_compression() {
        for (n, value) in [(4_000, 30), (40, 9_000)] {
            let records = records(n, value);
            let table = dir.build(BuildOptions { compression, ..ordered() }, &records);
            let counted = |range: Result<Range>, expected: &[(Vec<u8>, Vec<u8>)]| {
                let before = reads(&table);
                let range = range.unwrap();
                assert_eq!(reads(&table), before, "making a range reads nothing");
                let found: Records = range.map(|record| record.unwrap()).collect();
                assert!(found == expected, "{compression:?}");
                reads(&table) - before
            };
            assert_eq!(counted(table.range(..), &records), table.stats().blocks);
            let mut reversed = records.clone();
            reversed.reverse();
            let all = table.range(..).map(Range::reversed);
            assert_eq!(counted(all, &reversed), table.stats().blocks);
            for (i, (key, _)) in records.iter().enumerate().step_by(n / 20) {
                let only = &records[i..=i];
                assert_eq!(counted(table.range(&key[..]..=&key[..]), only), 1);
                let first = table.range(&key[..]..).unwrap().next().unwrap().unwrap();
                assert!(first == records[i]);
                // The next key may be the first one of another block.
                assert!(counted(table.prefix(key).map(Range::reversed), only) <= 2);
                let between = Bound::Excluded(&key[..]);
                assert_eq!(counted(table.range((between, between)), &[]), 0);
                let gap = [&key[..], b"-"].concat();
                assert_eq!(counted(table.range(&gap[..]..=&gap[..]), &[]), 1);
            }
            let before = reads(&table);
            assert!(table.range(&records[n / 2].0[..]..).unwrap().next().unwrap().is_ok());
            assert_eq!(reads(&table) - before, 1, "the first record of a range");
            let before = reads(&table);
            assert!(table.range(..).unwrap().reversed().next().unwrap().is_ok());
            assert_eq!(reads(&table) - before, 1, "the last record of a table");
        }
    }
}

/// Tables of extreme records.
fn extremes() -> Vec<(&'static str, Model)> {
    let one = |key: &[u8], value: &[u8]| BTreeMap::from([(key.to_vec(), value.to_vec())]);
    let mut rng = Rng(5);
    let mut long = one(b"", b"of the empty key");
    for last in [0, 1, 254, 255] {
        // They differ in the last byte only.
        long.insert([&[255; MAX_KEY - 1][..], &[last]].concat(), vec![last; 10]);
    }
    long.insert(vec![255; MAX_KEY - 1], Vec::new());
    long.insert(vec![0], vec![7; 200_000]);
    long.insert(vec![0, 0], rng.fill(70_000));
    let mut mixed: BTreeMap<_, _> =
        (0..200u32).map(|i| (i.to_be_bytes().to_vec(), rng.fill(40))).collect();
    mixed.extend((0..200u32).step_by(19).map(|i| (i.to_be_bytes().to_vec(), rng.fill(20_000))));
    vec![
        ("empty", BTreeMap::new()),
        ("the empty record", one(b"", b"")),
        ("the longest key", one(&[9; MAX_KEY], b"value")),
        ("a long value", one(b"key", &rng.fill(300_000))),
        ("long keys and values", long),
        ("long and short values", mixed),
    ]
}

#[test]
fn extreme_records_are_found_in_every_access_mode() {
    let Some(dir) = TempDir::new() else { return };
    for (name, model) in extremes() {
        for compression in every_compression() {
            for filter in [KeyFilter::None, KeyFilter::Bits16] {
                let records = model.clone().into_iter().collect();
                let options = BuildOptions { compression, filter, ..ordered() };
                let path = dir.build(options, &records).path().to_path_buf();
                for access in [Access::Map, Access::Buffered, Access::Direct, Access::Resident] {
                    let label = format!("{name}, {compression:?}, {filter:?}, {access:?}");
                    let table = Table::open_with(&path, access).unwrap();
                    // Before and after the blocks were checked.
                    (0..2).for_each(|_| check_extremes(&table, &model, &label));
                    table.verify().unwrap();
                }
            }
        }
    }
}

fn check_extremes(table: &Table, model: &BTreeMap<Vec<u8>, Vec<u8>>, label: &str) {
    assert_eq!((table.len(), table.is_empty()), (model.len() as u64, model.is_empty()), "{label}");
    let mut bounds: Vec<Vec<u8>> = model.keys().step_by(1 + model.len() / 12).cloned().collect();
    bounds.extend([vec![], vec![0], vec![128], vec![255; MAX_KEY + 9]]);
    for key in &bounds {
        let expected = model.get(key).map(Vec::as_slice);
        assert_eq!(table.get(key).unwrap().as_deref(), expected, "{label}");
        for range in [
            KeyRange::from(&key[..]..),
            KeyRange::from(..&key[..]),
            KeyRange::from(..=&key[..]),
            KeyRange::prefix(key),
        ] {
            let inside = model.iter().filter(|(key, _)| range.contains(key));
            let found = table.range(range.clone()).unwrap().map(|record| record.unwrap());
            assert!(found.eq(inside.clone().map(|(k, v)| (k.clone(), v.clone()))), "{label}");
            let found = table.range(range.clone()).unwrap().reversed().map(|found| found.unwrap());
            assert!(found.eq(inside.rev().map(|(k, v)| (k.clone(), v.clone()))), "{label}");
        }
    }
}
