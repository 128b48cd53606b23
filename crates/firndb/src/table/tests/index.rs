//! Lookups in the index.

use crate::bytes::prefetch::LINE;
use crate::disk::Slab;
use crate::table::format::index::{IndexEncoder, IndexShape, RecordPointer};
use crate::table::read::index_lookup::{Index, IndexLookup};
use crate::testing::Rng;
use std::iter::repeat_n;

type Records = [(u64, Vec<u8>, Vec<u8>)];

/// An index of these records.
fn made(shape: IndexShape, records: impl Iterator<Item = RecordPointer>) -> Index {
    let mut array = Slab::new(shape.len().1 as usize).unwrap();
    let mut put = |bucket: u64, bytes: &[u8]| {
        array[bucket as usize * LINE..][..LINE].copy_from_slice(bytes);
        Ok(())
    };
    let mut writer = IndexEncoder::new(shape);
    records.for_each(|record| writer.push(record, &mut put).unwrap());
    writer.flush(put).unwrap();
    Index { shape, array: array.freeze().unwrap(), mapped: None }
}

/// An index of records that are appended to `blocks`.
fn filled(records: &Records, blocks: &mut Vec<u8>) -> Index {
    let bytes: usize = records.iter().map(|(_, key, value)| key.len() + value.len()).sum();
    let shape = IndexShape::new(records.len() as u64, bytes as u64).unwrap();
    let pointers = records.iter().map(|(hash, key, value)| {
        let (begin, len) = (blocks.len() as u64, (key.len() + value.len()) as u64);
        blocks.extend_from_slice(key);
        blocks.extend_from_slice(value);
        RecordPointer { hash: *hash, begin, key: key.len(), len }
    });
    made(shape, pointers)
}

#[test]
fn finds_records_with_equal_hashes_and_tags() {
    let mut rng = Rng(0x1DE);
    for (n, hashes, longest) in [(1, 1, 9), (5, 2, 0), (3000, 3000, 40), (3000, 400, 70_000)] {
        let hashes: Vec<u64> = (0..hashes).map(|_| rng.next() & !(rng.next() >> 50)).collect();
        let mut records: Vec<(u64, Vec<u8>, Vec<u8>)> = (0..n)
            .map(|i| {
                let key = format!("{}{i}", "k".repeat(rng.below(240)));
                let value = repeat_n(i as u8, if longest > 0 { rng.below(longest) } else { 0 });
                (*rng.pick(&hashes), key.into_bytes(), value.collect())
            })
            .collect();
        records.sort();
        let mut blocks = Vec::new();
        let index = filled(&records, &mut blocks);
        let find = |hash, key: &[u8]| {
            let found = index.find(&blocks, hash, key);
            assert_eq!(found, index.find_anywhere(&blocks, hash, key));
            found
        };
        let (mut found, mut unknown) = (0, 0);
        for (hash, key, value) in &records {
            match find(*hash, key) {
                IndexLookup::Value(got) => found += usize::from(got == value),
                IndexLookup::Unknown => unknown += 1,
                IndexLookup::Absent => panic!("a record is lost"),
            }
            let absent = [&key[..key.len() - 1], b"?"].concat();
            assert!(!matches!(find(*hash, &absent), IndexLookup::Value(_)));
            let first = index.candidate(&blocks, *hash, key.len()).flatten();
            assert!(first.is_none_or(|(found, _)| found.len() == key.len()));
        }
        assert_eq!(found + unknown, n);
        assert!(unknown == 0 || longest > 65_000 && unknown < n / 5, "{unknown} unknown");
        assert!(matches!(find(hashes[0], &[0; 300]), IndexLookup::Unknown));
        assert!(index.candidate(&blocks, hashes[0], 300).is_none());
    }
}

/// The numbers of records that the index finds, and for which it answers "unknown".
fn known(records: &Records) -> (usize, usize) {
    let mut blocks = Vec::new();
    let index = filled(records, &mut blocks);
    records.iter().fold((0, 0), |(found, unknown), (hash, key, value)| {
        match index.find(&blocks, *hash, key) {
            IndexLookup::Value(got) => (found + usize::from(got == value), unknown),
            IndexLookup::Unknown => (found, unknown + 1),
            IndexLookup::Absent => panic!("a record is lost"),
        }
    })
}

#[test]
fn omitted_records_are_unknown() {
    let record = |hash: u64, i: usize| (hash, format!("{hash}-{i}").into_bytes(), vec![0; 4]);
    let crowd = |n: usize| (0..n).map(|i| record(7 << 40, i)).collect::<Vec<_>>();
    assert_eq!(known(&crowd(512)), (512, 0));
    assert_eq!(known(&crowd(513)), (512, 1), "more of one hash than may be");
    // Other records displaced by these are found.
    let mut more = crowd(600);
    more.extend((0..900u64).map(|i| record(8 << 40 | i << 54, i as usize)));
    more.sort();
    let (found, unknown) = known(&more);
    assert!(found > 1390 && unknown > 88, "{found} found, {unknown} unknown");
    let long = |len: usize| [(1, vec![1; len], vec![2]), (2, vec![3; 5], vec![4])];
    assert_eq!((known(&long(254)), known(&long(255))), ((2, 0), (1, 1)));
    assert!(IndexShape::new(1001, 1000).is_none(), "more records than bytes");
}

#[test]
fn record_far_from_its_expected_offset_is_unknown() {
    // The first half of the hashes has a thousandth of the bytes.
    let shape = IndexShape::new(1000, 1 << 28).unwrap();
    let places = (0..500).map(|i| (i << 54, i * 4)).chain([(u64::MAX, 2000)]);
    let index =
        made(shape, places.map(|(hash, begin)| RecordPointer { hash, begin, key: 3, len: 4 }));
    let blocks = vec![9; 2004];
    let is_unknown = |hash| matches!(index.find(&blocks, hash, b"abc"), IndexLookup::Unknown);
    assert!(is_unknown(u64::MAX) && !is_unknown(0));
}
