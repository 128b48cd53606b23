//! Builds in key order that write while records are added, and builds that stop doing so: the same
//! bytes as when all records are sorted in memory, the old table or the complete new one after a
//! power cut or a failed call, and no leftovers.

use super::*;
use crate::ErrorKind;
use crate::disk::Disk;
use crate::table::{Compression, Duplicates, KeyFilter};
use crate::testing::Rng;
use std::ops::ControlFlow;
use std::sync::Arc;

const SEED: u64 = 20_261_130;
const DIR: &str = "/tables";
const PATH: &str = "/tables/a.table";
/// Memory that makes builds of these tests write early.
const SMALL: usize = 4_000;

/// Records in key order.
fn records(n: u32) -> Records {
    (0..n).map(|i| (format!("key {i:05}").into_bytes(), vec![i as u8; 60])).collect()
}

fn every_option() -> Vec<BuildOptions> {
    let with = |compression, filter| BuildOptions { compression, filter, threads: 2, ..ordered() };
    vec![
        with(Compression::None, KeyFilter::None),
        with(Compression::Records { level: 1 }, KeyFilter::Bits8),
        with(Compression::Blocks { level: 1 }, KeyFilter::Bits16),
    ]
}

#[test]
fn ascending_keys_are_written_without_temporary_files() {
    for options in every_option() {
        let records = records(3_000);
        let expected = bytes_of(options.clone(), &records);
        let disk = SimDisk::new();
        let filter = options.filter;
        let small = BuildOptions { memory_limit: 1 << 16, ..options };
        let report = build(&(disk.clone() as DiskRef), small, &records).unwrap();
        // The hashes of a filter may go to a temporary file.
        assert!(report.spilled == 0 || filter != KeyFilter::None, "{report:?}");
        assert_eq!(report.records, 3_000);
        assert!(disk.files().remove(Path::new(FILE)).unwrap() == expected);
    }
}

/// One key out of order, at the beginning, in the middle, at the end.
#[test]
fn a_key_out_of_order_ends_direct_writing_without_a_loss() {
    let mut rng = Rng(SEED);
    for options in every_option() {
        let mut all = records(1_500);
        all[700].1 = vec![9; 30_000];
        let expected = bytes_of(options.clone(), &all);
        for late in [0, 30, 60, 61, 300, 701, 1_400] {
            let mut mixed = all.clone();
            let record = mixed.remove(late);
            let at = late + 1 + rng.below(1_499 - late);
            mixed.insert(at, record);
            let disk = SimDisk::new();
            let small = BuildOptions { memory_limit: SMALL, ..options.clone() };
            let report = build(&(disk.clone() as DiskRef), small, &mixed).unwrap();
            let mut files = disk.files();
            assert!(files.remove(Path::new(FILE)).unwrap() == expected, "{late} at {at}");
            assert!(files.is_empty() && report.spilled > 0, "{late} at {at}: {report:?}");
        }
    }
}

/// Duplicates of records that were written before are resolved by origin.
#[test]
fn duplicates_of_written_records_are_resolved() {
    for duplicates in [Duplicates::First, Duplicates::Last] {
        let disk = SimDisk::new();
        let options = BuildOptions { memory_limit: SMALL, duplicates, ..ordered() };
        let shared = disk.clone() as DiskRef;
        let mut builder =
            TableBuilder::create_on(shared.clone(), Path::new(FILE), options).unwrap();
        for i in 0..500u32 {
            // Twice in order, the second one first by origin.
            builder.add_from(u64::from(2_000 - i), i.to_be_bytes(), b"a".repeat(40)).unwrap();
            builder.add_from(u64::from(1_000 - i), i.to_be_bytes(), b"b".repeat(40)).unwrap();
        }
        for i in [7u32, 450] {
            builder.add_from(u64::from(1_500 - i), i.to_be_bytes(), b"c".repeat(40)).unwrap();
            builder.add_from(0, i.to_be_bytes(), b"d".repeat(40)).unwrap();
        }
        let report = builder.finish().unwrap();
        assert_eq!((report.records, report.duplicates), (500, 504));
        let table = open(&shared, Access::Map).unwrap();
        for i in 0..500u32 {
            let late = i == 7 || i == 450;
            let expected = match (duplicates, late) {
                (Duplicates::First, true) => b'd',
                (Duplicates::First, false) => b'b',
                _ => b'a',
            };
            let value = table.get(i.to_be_bytes()).unwrap().unwrap();
            assert_eq!(value[0], expected, "{duplicates:?}, {i}");
        }
    }
}

#[test]
fn dropped_cancelled_and_failed_builds_leave_nothing() {
    let disk = SimDisk::new();
    let options = BuildOptions { memory_limit: SMALL, ..ordered() };
    let start = || {
        let shared = disk.clone() as DiskRef;
        let mut builder =
            TableBuilder::create_on(shared, Path::new(FILE), options.clone()).unwrap();
        for (key, value) in records(900) {
            builder.add(key, value).unwrap();
        }
        builder
    };
    drop(start());
    assert!(disk.files().is_empty());
    let error = start().finish_with(|_| ControlFlow::Break(())).unwrap_err();
    assert!(error.kind() == ErrorKind::Cancelled && disk.files().is_empty());
    let mut twice = start();
    twice.add("key 00899", "again").unwrap();
    for i in 0..5_000 {
        twice.add(format!("later {i:06}"), [1; 90]).unwrap(); // `finish` reports the duplicate.
    }
    twice.add("earlier", "").unwrap();
    let error = twice.finish().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("by record 900 and by record 901"), "{error}");
    assert!(disk.files().is_empty());
}

/// Builds a table of 150 records while they are added; with `late`, one comes out of order.
fn run(disk: Arc<SimDisk>, late: bool) -> Result<BuildReport> {
    let options = BuildOptions { memory_limit: SMALL, threads: 1, ..ordered() };
    let mut builder = TableBuilder::create_on(disk, Path::new(PATH), options)?;
    let mut all = records(150);
    if late {
        all.swap(100, 101);
    }
    for (key, value) in &all {
        builder.add(key, value)?;
    }
    builder.finish()
}

/// Number of records of the table at the path, which is complete; 0 if there is none.
fn standing(disk: &Arc<SimDisk>, label: &str) -> u64 {
    if !disk.files().contains_key(Path::new(PATH)) {
        return 0;
    }
    let shared = disk.clone() as DiskRef;
    let table = Table::open_on(&shared, Path::new(PATH), Access::Map).unwrap();
    table.verify().unwrap();
    let all: Records = table.range(..).unwrap().collect::<Result<_>>().unwrap();
    assert!(all == records(150), "{label}");
    table.len()
}

fn base() -> Arc<SimDisk> {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    disk.fork()
}

#[test]
fn power_cuts_leave_no_table_or_the_whole_table() {
    for late in [false, true] {
        let work = |disk: Arc<SimDisk>| run(disk, late);
        let images = base().each_crash(SEED, 4, work, |label, done, image| {
            assert!(standing(&image, label) == 150 || done.is_err(), "{label}");
            run(image.clone(), late).unwrap();
            let left: Vec<_> = image.files().into_keys().collect();
            assert_eq!(left, [Path::new(PATH)], "{label}: leftovers");
        });
        assert!(images >= 10, "{images} images");
    }
}

#[test]
fn failed_calls_and_full_disks_are_reported() {
    for late in [false, true] {
        let mut failures = 0;
        let work = |disk: Arc<SimDisk>| run(disk, late);
        base().each_fault(work, |label, done, disk| {
            failures += usize::from(done.is_err());
            assert!(standing(&disk, label) == 150 || done.is_err(), "{label}");
            let temporary = disk.files().into_keys().filter(|path| path != Path::new(PATH));
            let temporary: Vec<_> = temporary.collect();
            // A failed removal leaves a file, which the next build removes.
            run(disk.clone(), late).unwrap_or_else(|e| panic!("{label}: {e}, {temporary:?}"));
            assert_eq!(disk.files().len(), 1, "{label}");
        });
        assert!(failures > 10, "{failures}");
    }
}
