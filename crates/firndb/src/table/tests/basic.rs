//! Tables of many shapes, each asked for all it has and much that it has not.

use super::hostile::fit_checks;
use super::*;
use crate::ErrorKind;
use crate::bytes::testing::Forged;
use crate::table::format::section;
use crate::table::{Compression, Filter};

fn records(n: usize, value: usize) -> Records {
    let record = |i: usize| (format!("key-{i}").into_bytes(), vec![i as u8; value + i % 7]);
    (0..n).map(record).collect()
}

#[test]
fn a_table_gives_back_what_was_added() {
    for n in [0, 1, 100, 2_000] {
        for value in [0, 32, 900, 10_000] {
            let n = if value == 10_000 { n / 20 } else { n };
            let records = records(n, value);
            for compression in [
                Compression::None,
                Compression::Records { level: 3 },
                Compression::Blocks { level: 3 },
            ] {
                for filter in [Filter::None, Filter::Bits8, Filter::Bits16] {
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

/// An index with checksums that fit, but of other records than those in the blocks.
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
        fit_checks(&mut file);
        file.seal();
        let error = open(&disk_with(&file.0), Access::Map).unwrap().verify().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("index") && error.file().is_some(), "{error}");
    }
    assert!(index.step_by(8).filter(used).count() == 100);
}
