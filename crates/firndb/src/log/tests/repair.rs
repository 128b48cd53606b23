//! Repair of segments in which damaged bytes look like the beginnings of long records.

use super::{DIR, options};
use crate::disk::{Disk, DiskRef, SimDisk};
use crate::log::admin::repair::{OF_FOLLOWED, Search};
use crate::log::format::names::segment_file;
use crate::log::{LogStore, Options, Repaired};
use std::path::Path;

/// A value full of record heads, one every ten bytes. Each states a value that ends this many bytes
/// after the beginning of another head.
fn full_of_heads(behind: u64) -> Vec<u8> {
    // Ten bytes precede the value: checksum, flags, length of the key, length of the value, and a
    // key of one byte.
    let length = 100_000 + behind;
    let varint = [0x80 | length as u8, 0x80 | (length >> 7) as u8, (length >> 14) as u8];
    let head = [&[0xAA; 4][..], &[1, 1], &varint, &[0xAA]].concat();
    head.repeat(100_000)
}

/// Repairs a store with one such value, whose head is damaged, followed by intact records.
fn repaired(value: &[u8], whole: &[(&[u8], Vec<u8>)]) -> (LogStore, Repaired) {
    let disk = SimDisk::new();
    let on: DiskRef = disk.clone();
    let wide = Options { segment_bytes: 8 << 20, ..options() };
    let store = LogStore::open_on(on.clone(), Path::new(DIR), wide.clone()).unwrap();
    store.put(b"heads", value).unwrap();
    whole.iter().for_each(|(key, value)| store.put(key, value).unwrap());
    store.close().unwrap();
    // The first segment may have been too small.
    for path in (1..3).map(|n| Path::new(DIR).join(segment_file(n))) {
        let Ok(map) = disk.map(&path) else { continue };
        let mut bytes = map.to_vec();
        if let Some(at) = bytes.windows(5).position(|bytes| bytes == b"heads") {
            bytes[at] ^= 1;
            disk.write_raw(&path, &bytes);
        }
    }
    let (from, to) = (Path::new(DIR), Path::new("/new"));
    let mut seen = (0, 0);
    let report = LogStore::repair_on(&on, from, to, wide.clone(), |done, all| {
        assert!(seen.0 <= done && done <= all, "{done} of {all} after {seen:?}");
        seen = (done, all);
    });
    assert!(seen.0 == seen.1 && seen.1 > value.len() as u64, "{seen:?}");
    (LogStore::open_on(on, to, wide).unwrap(), report.unwrap())
}

fn whole() -> Vec<(&'static [u8], Vec<u8>)> {
    let keys: [&[u8]; 5] = [b"a", b"b", b"c", b"d", b"e"];
    let lengths = [20_000, 3, 9_000, 100_000, 4_000];
    keys.into_iter().zip(lengths.map(|length| vec![7; length])).collect()
}

#[test]
fn repair_finds_all_records_after_bytes_that_look_like_records() {
    for behind in 1..10 {
        let (store, report) = repaired(&full_of_heads(behind), &whole());
        for (key, value) in whole() {
            assert_eq!(store.get(key).unwrap(), Some(value), "{behind}");
        }
        assert_eq!((report.keys, report.dropped.len()), (5, 1));
    }
}

#[test]
fn repair_of_crafted_segments_takes_linear_time() {
    let heads = full_of_heads(0);
    let mut search = Search::new(&heads, 1);
    while search.next().is_some() {}
    let most = OF_FOLLOWED * heads.len() as u64 + 100_020;
    // Without the bound it would be 100 KB for each of most of 100,000 heads.
    assert!((1 << 29..most).contains(&search.wasted), "{} bytes compared", search.wasted);
    let (store, report) = repaired(&heads, &whole());
    assert_eq!(report.dropped.first().map(|lost| lost.2 > 999_000), Some(true), "{report:?}");
    // Short records are found after any bytes.
    for key in ["b", "e"] {
        assert!(store.contains(key.as_bytes()).unwrap(), "{key}");
    }
}

#[test]
fn runs_of_zeros_are_skipped() {
    let (_, report) = repaired(&vec![0; 4 << 20], &whole());
    assert_eq!((report.keys, report.dropped.len()), (5, 1));
}
