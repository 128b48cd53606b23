//! Random tables in key order compared with a map: gets, ranges with all bounds in both directions,
//! iterations and pages, in every way to read; and equal bytes for any order of records, number of
//! threads and memory.
//!
//! `FIRNDB_ORDERED_TABLES=300` builds more tables. `FIRNDB_SEED=...` replays the tables from that
//! seed on.

use super::*;
use crate::table::{Compression, Duplicates, KeyFilter};
use crate::testing::Rng;
use crate::{ErrorKind, KeyRange};
use std::collections::BTreeMap;
use std::ops::Bound;

const SEED: u64 = 0x0DE2;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(rng: &mut Rng, style: usize) -> Vec<u8> {
    let len = rng.below(20);
    match style {
        0 => rng.fill(len),
        1 => format!("user:{:07}", rng.below(3_000_000)).into_bytes(),
        2 => (0..len).map(|_| *rng.pick(&[0, 1, 255])).collect(),
        3 => [&[9; 100][..], &rng.fill(len)].concat(),
        4 if rng.below(40) == 0 => vec![255; *rng.pick(&[4_000, 65_535, 65_536])],
        5 => vec![0; rng.below(3_000)],
        _ => rng.fill(8),
    }
}

fn model(rng: &mut Rng) -> Model {
    let n = *rng.pick(&[0, 1, 2, 40, 700, 3_000]);
    let (style, values) = (rng.below(7), rng.below(4));
    let value = |rng: &mut Rng| {
        let len = match values {
            0 => 8,
            1 => rng.below(90),
            2 if rng.below(100) == 0 => 5_000 + rng.below(90_000usize),
            2 => 0,
            _ => rng.below(900),
        };
        if rng.below(2) == 0 { vec![rng.next() as u8; len] } else { rng.fill(len) }
    };
    (0..n).map(|_| (key(rng, style), value(rng))).collect()
}

fn options(rng: &mut Rng) -> BuildOptions {
    let level = 1 + rng.below(4);
    BuildOptions {
        block_size: 4096 * *rng.pick(&[1, 1, 2, 16]),
        compression: *rng.pick(&[
            Compression::None,
            Compression::None,
            Compression::Records { level },
            Compression::Blocks { level },
        ]),
        filter: *rng.pick(&[KeyFilter::None, KeyFilter::Bits8, KeyFilter::Bits16]),
        threads: 1 + rng.below(3),
        memory_limit: *rng.pick(&[1 << 30, 1 << 16]),
        metadata: rng.fill(3),
        ..ordered()
    }
}

/// A key of the table, one close to it, or any key.
fn probe(rng: &mut Rng, keys: &[Vec<u8>]) -> Vec<u8> {
    if keys.is_empty() || rng.below(8) == 0 {
        let len = rng.below(9);
        return rng.fill(len);
    }
    let mut key = rng.pick(keys).clone();
    match rng.below(5) {
        0 => key.push(*rng.pick(&[0, 255])),
        1 => drop(key.pop()),
        2 => {
            let at = key.len().saturating_sub(1);
            key.truncate(at);
            key.push(rng.next() as u8);
        }
        _ => {}
    }
    key
}

fn bound(rng: &mut Rng, keys: &[Vec<u8>]) -> Bound<Vec<u8>> {
    match rng.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(probe(rng, keys)),
        _ => Bound::Excluded(probe(rng, keys)),
    }
}

/// Takes some records, in one direction or while it changes direction, in one go or in pieces, and
/// compares them.
fn check_range(
    rng: &mut Rng,
    (table, range): (&Table, KeyRange),
    mut expected: Vec<(&Vec<u8>, &Vec<u8>)>,
    what: &str,
) {
    let mut is_reversed = rng.below(2) == 0;
    let begin = |range: KeyRange, is_reversed: bool| match table.range(range).unwrap() {
        range if is_reversed => range.reversed(),
        range => range,
    };
    let mut range = begin(range, is_reversed);
    if is_reversed {
        expected.reverse();
    }
    let turn_after = if rng.below(4) == 0 { rng.below(expected.len() + 1) } else { usize::MAX };
    let most = if rng.below(3) == 0 { rng.below(200) } else { usize::MAX };
    let piece = if rng.below(3) == 0 { 1 + rng.below(50) } else { usize::MAX };
    let mut taken = 0;
    while taken < most {
        if taken == turn_after {
            range = range.reversed();
            is_reversed = !is_reversed;
            expected.reverse();
        }
        if taken % piece == piece - 1 {
            range = begin(range.rest(), is_reversed);
        }
        let next = range.next_with(|key, value| (key.to_vec(), value.to_vec()));
        let next = next.map(|next| next.unwrap());
        let wanted = (!expected.is_empty()).then(|| expected.remove(0));
        assert_eq!(next.as_ref().map(|(key, value)| (key, value)), wanted, "{what}");
        if next.is_none() {
            assert!(range.next().is_none());
            return;
        }
        taken += 1;
    }
}

fn check(rng: &mut Rng, table: &Table, model: &Model, what: &str) {
    let keys: Vec<Vec<u8>> = model.keys().cloned().collect();
    assert!(table.is_ordered() && table.len() == model.len() as u64, "{what}");
    let mut probes: Vec<Vec<u8>> = (0..400).map(|_| probe(rng, &keys)).collect();
    probes.push(Vec::new());
    for key in &probes {
        assert_eq!(table.get(key).unwrap().as_deref(), model.get(key).map(Vec::as_slice), "{what}");
        assert_eq!(table.contains(key).unwrap(), model.contains_key(key), "{what}");
    }
    let found = table.get_many(&probes).unwrap();
    for (key, value) in probes.iter().zip(found) {
        assert_eq!(value.as_deref(), model.get(key).map(Vec::as_slice), "{what}");
    }
    for _ in 0..40 {
        let bounds = (bound(rng, &keys), bound(rng, &keys));
        let range = KeyRange::from(bounds.clone());
        let expected = model.iter().filter(|(key, _)| range.contains(key)).collect();
        let what = format!("{what}, {bounds:?}");
        check_range(rng, (table, range.clone()), expected, &what);
        let mut prefix = probe(rng, &keys);
        prefix.truncate(rng.below(prefix.len() + 1));
        let expected = model.iter().filter(|(key, _)| key.starts_with(&prefix)).collect();
        let what = format!("{what}, prefix {prefix:?}");
        check_range(rng, (table, KeyRange::prefix(&prefix)), expected, &what);
    }
    let all: Vec<(Vec<u8>, Vec<u8>)> = table.iter().map(|record| record.unwrap()).collect();
    assert!(all.iter().map(|(k, v)| (k, v)).eq(model.iter()), "{what}");
    let (mut paged, mut cursor) = (Vec::new(), Some(0));
    let limit = 1 + rng.below(50usize);
    while let Some(at) = cursor {
        let before = paged.len();
        cursor = table.scan_from(at, limit, |k, v| paged.push((k.to_vec(), v.to_vec()))).unwrap();
        assert!(cursor.is_none() || paged.len() - before == limit, "{what}");
    }
    assert!(paged == all, "{what}");
    assert_eq!(table.verify().unwrap().records, table.len(), "{what}");
}

#[test]
fn ordered_tables_equal_a_map() {
    let seed = number_from_env("FIRNDB_SEED", SEED);
    for table in 0..number_from_env("FIRNDB_ORDERED_TABLES", 40) {
        let seed = seed + table;
        let mut rng = Rng(seed);
        let (model, options) = (model(&mut rng), options(&mut rng));
        let what = format!("seed {seed:#x}, {options:?}");
        let mut records: Records = model.clone().into_iter().collect();
        let sorted = bytes_of(options.clone(), &records);
        rng.shuffle(&mut records);
        // The same records in another order, with another memory and number of threads.
        let other = BuildOptions {
            threads: 1 + rng.below(3),
            memory_limit: *rng.pick(&[1 << 30, 1 << 20, 1 << 15]),
            ..options.clone()
        };
        assert!(bytes_of(other, &records) == sorted, "{what}");
        let disk = disk_with(&sorted);
        for access in [Access::Map, Access::Buffered, Access::Resident] {
            check(&mut rng, &open(&disk, access).unwrap(), &model, &what);
        }
    }
}

#[test]
fn a_range_of_an_unordered_table_is_refused() {
    let disk = SimDisk::new() as DiskRef;
    build(&disk, BuildOptions::new(), &vec![(b"k".to_vec(), b"v".to_vec())]).unwrap();
    let table = open(&disk, Access::Map).unwrap();
    let error = table.prefix("k").err().unwrap();
    assert!(!table.is_ordered() && error.kind() == ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("--order key"), "{error}");
}

#[test]
fn duplicates_are_resolved_by_origin() {
    let mut rng = Rng(17);
    for policy in [Duplicates::First, Duplicates::Last] {
        for memory_limit in [1 << 30, 1 << 15] {
            for is_sorted in [true, false] {
                let mut records: Vec<(u64, Vec<u8>, Vec<u8>)> = (0..4_000)
                    .map(|_| {
                        let key = rng.below(1_500u32).to_be_bytes().to_vec();
                        (rng.below(1_000_000u64), key, rng.fill(9))
                    })
                    .collect();
                if is_sorted {
                    records.sort_by(|a, b| a.1.cmp(&b.1));
                }
                let mut expected: BTreeMap<Vec<u8>, (u64, Vec<u8>)> = BTreeMap::new();
                for (origin, key, value) in &records {
                    let this = (*origin, value.clone());
                    let kept = expected.entry(key.clone()).or_insert_with(|| this.clone());
                    let is_better = match policy {
                        Duplicates::First => this < *kept,
                        _ => this > *kept,
                    };
                    if is_better {
                        *kept = this;
                    }
                }
                let disk = SimDisk::new() as DiskRef;
                let options = BuildOptions { memory_limit, duplicates: policy, ..ordered() };
                let mut builder =
                    TableBuilder::create_on(disk.clone(), Path::new(FILE), options).unwrap();
                for (origin, key, value) in &records {
                    builder.add_from(*origin, key, value).unwrap();
                }
                let report = builder.finish().unwrap();
                assert_eq!(report.records, expected.len() as u64);
                assert_eq!(report.duplicates, (records.len() - expected.len()) as u64);
                let table = open(&disk, Access::Map).unwrap();
                let all: BTreeMap<_, _> = table.iter().map(|record| record.unwrap()).collect();
                let expected: BTreeMap<_, _> =
                    expected.into_iter().map(|(key, (_, value))| (key, value)).collect();
                assert!(all == expected, "{policy:?}, {memory_limit}, {is_sorted}");
            }
        }
    }
}

#[test]
fn a_duplicate_key_fails_the_build() {
    for memory_limit in [1 << 30, 1 << 15] {
        for order in [[3u32, 700], [700, 3]] {
            let disk = SimDisk::new();
            let options = BuildOptions { memory_limit, ..ordered() };
            let shared = disk.clone() as DiskRef;
            let mut builder = TableBuilder::create_on(shared, Path::new(FILE), options).unwrap();
            for i in (0..2_000u32).chain(order) {
                builder.add(i.to_be_bytes(), [1; 40]).unwrap();
            }
            let error = builder.finish().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            assert!(error.to_string().contains("record 4 and by record 200"), "{error}");
            assert!(disk.files().is_empty());
        }
    }
}
