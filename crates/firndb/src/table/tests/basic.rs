//! Tables of many shapes, each asked for all it has and much that it has not.

use super::*;
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
