//! Pages of a scan, compared with the iteration.

use super::*;
use crate::ErrorKind;
use crate::table::Compression;

fn records(n: usize, value: usize) -> Records {
    (0..n).map(|i| (format!("key-{i}").into_bytes(), vec![i as u8; value + i % 7])).collect()
}

/// The pages of a whole scan.
fn pages(table: &Table, limit: usize) -> Vec<Records> {
    let (mut pages, mut cursor) = (Vec::new(), Some(0));
    while let Some(at) = cursor {
        let mut page = Vec::new();
        let next = table
            .scan_from(at, limit, |key, value| page.push((key.to_vec(), value.to_vec())))
            .unwrap();
        assert!(next.is_none_or(|next| next > at && next < 1 << 63), "{at} {next:?}");
        pages.push(page);
        cursor = next;
    }
    pages
}

#[test]
fn the_pages_of_a_scan_are_the_iteration() {
    let forms =
        [Compression::None, Compression::Records { level: 1 }, Compression::Blocks { level: 1 }];
    for (n, value) in [(0, 10), (1, 10), (1000, 10), (700, 300), (40, 9000)] {
        for compression in forms {
            let disk = SimDisk::new() as DiskRef;
            let options = BuildOptions { compression, ..BuildOptions::default() };
            build(&disk, options, &records(n, value)).unwrap();
            for access in [Access::Map, Access::Buffered, Access::Resident] {
                let table = open(&disk, access).unwrap();
                let all: Records = table.iter().map(Result::unwrap).collect();
                assert_eq!(all.len(), n);
                for limit in [0, 1, 7, 999, 1000, usize::MAX] {
                    let pages = pages(&table, limit);
                    let (last, full) = pages.split_last().unwrap();
                    assert!(full.iter().all(|page| page.len() == limit.max(1)), "{limit}");
                    assert!(last.len() <= limit.max(1) && (n == 0 || !last.is_empty()));
                    assert!(pages.concat() == all, "{n} {value} {limit}");
                }
            }
        }
    }
}

#[test]
fn a_page_ends_after_16_mib() {
    let disk = SimDisk::new() as DiskRef;
    build(&disk, BuildOptions::default(), &records(5, 9 << 20)).unwrap();
    let table = open(&disk, Access::Map).unwrap();
    let lens: Vec<usize> = pages(&table, 100).iter().map(Vec::len).collect();
    assert_eq!(lens, [2, 2, 1]);
}

#[test]
fn a_cursor_depends_on_the_contents_only() {
    let ids = [(100, 1), (100, 1), (100, 2), (101, 1)].map(|(n, value)| {
        let disk = SimDisk::new() as DiskRef;
        build(&disk, BuildOptions::default(), &records(n, value)).unwrap();
        open(&disk, Access::Map).unwrap().content_id()
    });
    assert_eq!(ids[0], ids[1]);
    assert!(ids[0] != ids[2] && ids[0] != ids[3]);
}

#[test]
fn wrong_cursors_and_damaged_blocks_are_errors() {
    let bytes = bytes_of(BuildOptions::default(), &records(1000, 10));
    let table = open(&disk_with(&bytes), Access::Map).unwrap();
    for cursor in [1 << 63, u64::MAX] {
        let error = table.scan_from(cursor, 1, |_, _| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    // Nothing has a position so large.
    assert_eq!(table.scan_from((1 << 63) - 1, 1, |_, _| panic!()).unwrap(), None);
    let mut damaged = bytes.clone();
    let at = bytes.windows(6).position(|window| window == b"key-77").unwrap();
    damaged[at] ^= 1;
    let table = open(&disk_with(&damaged), Access::Map).unwrap();
    let mut cursor = Some(0);
    let error = loop {
        match table.scan_from(cursor.expect("the damage is noticed"), 10, |_, _| ()) {
            Ok(next) => cursor = next,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.file().is_some() && error.offset().is_some(), "{error}");
}
