//! Builds in key order of more records than decide about the layout of a table (8 MiB), so that
//! blocks are written while records are added; and the memory of builds that exceed it, measured in
//! a child process.

use super::*;
use crate::ErrorKind;
use crate::table::tests::corrupt::is_unnamed;
use crate::table::tests::direct::TempDir;
use crate::table::{Compression, Duplicates, KeyFilter};
use crate::testing::{Rng, memory, run_child};

/// 12 MB of records in key order.
fn records() -> Records {
    let mut rng = Rng(3);
    let value = |i: u32, rng: &mut Rng| [&rng.fill(2_000)[..], &vec![i as u8; 4_000]].concat();
    (0..2_000u32).map(|i| (format!("key {i:06}").into_bytes(), value(i, &mut rng))).collect()
}

#[test]
fn blocks_that_were_written_are_taken_back() {
    let sorted = records();
    for (compression, filter) in [
        (Compression::None, KeyFilter::Bits8),
        (Compression::Records { level: 1 }, KeyFilter::None),
        (Compression::Blocks { level: 1 }, KeyFilter::None),
    ] {
        let options = BuildOptions { compression, filter, threads: 2, ..ordered() };
        let expected = bytes_of(options.clone(), &sorted);
        let small = BuildOptions { memory_limit: 1 << 19, ..options };
        assert!(bytes_of(small.clone(), &sorted) == expected, "{compression:?}, in order");
        let mut mixed = sorted.clone();
        let record = mixed.remove(900);
        mixed.insert(1_950, record);
        assert!(bytes_of(small.clone(), &mixed) == expected, "{compression:?}, one late");
        Rng(8).shuffle(&mut mixed);
        assert!(bytes_of(small, &mixed) == expected, "{compression:?}, shuffled");
    }
}

/// Records that are damaged while they are in a file of the build are not lost silently.
#[test]
fn damaged_files_fail_the_build() {
    let sorted = records();
    let small = BuildOptions { memory_limit: 1 << 20, ..ordered() };
    for is_direct in [true, false] {
        let mut records = sorted.clone();
        if !is_direct {
            Rng(4).shuffle(&mut records);
        }
        for at in [6_000, 1 << 18, 700_001] {
            let disk = SimDisk::new();
            let shared = disk.clone() as DiskRef;
            let mut builder =
                TableBuilder::create_on(shared, Path::new(FILE), small.clone()).unwrap();
            records.iter().for_each(|(key, value)| builder.add(key, value).unwrap());
            let files = disk.files();
            let is_written = |path: &Path| is_direct || is_unnamed(path);
            let long = files.iter().find(|(path, file)| is_written(path) && file.len() > at);
            disk.damage(long.expect("a file of the build").0, at);
            // A key out of order, so that what was written is read again.
            let error = match builder.add("", "") {
                Ok(()) => builder.finish().unwrap_err(),
                Err(e) => {
                    drop(builder);
                    e
                }
            };
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{is_direct}, byte {at}: {error}");
            assert!(disk.files().is_empty());
        }
    }
}

const MEMORY: usize = 16 << 20;

/// Asserts that the process has never used more than its memory and `more` bytes.
fn check_peak(what: &str, more: usize) {
    let Some(peak) = memory("VmHWM:") else { return };
    let most = (MEMORY * 12 / 10 + (100 << 20) + more) >> 10;
    println!("{what}: peak {peak} KiB of {most}");
    assert!(peak <= most as u64, "{what}: {peak} KiB");
}

fn build_many(dir: &TempDir) {
    let value = 900;
    let count = 10 * MEMORY as u64 / (value + 10);
    let mut rng = Rng(2);
    for (what, is_sorted, compression, filter) in [
        ("sorted", true, Compression::None, KeyFilter::Bits8),
        ("sorted, compressed", true, Compression::Blocks { level: 1 }, KeyFilter::None),
        ("unsorted", false, Compression::None, KeyFilter::Bits8),
        ("unsorted, compressed", false, Compression::Records { level: 1 }, KeyFilter::None),
    ] {
        let options = BuildOptions { compression, filter, memory_limit: MEMORY, ..ordered() };
        let mut builder = TableBuilder::create_with(dir.0.join(FILE), options).unwrap();
        for i in 0..count {
            let number = if is_sorted { i } else { i * 7_919 % count };
            builder.add(format!("k{number:09}"), rng.fill(value as usize)).unwrap();
        }
        let report = builder.finish().unwrap();
        // The hashes of the filter go to a temporary file, too.
        let (least, most) = if is_sorted { (0, MEMORY / 2) } else { (9 * MEMORY, 13 * MEMORY) };
        assert!((least..most).contains(&(report.spilled as usize)), "{what}: {report:?}");
        assert_eq!(report.records, count, "{what}");
        check_peak(what, 0);
    }
    // One key many times, among others.
    let options = BuildOptions { duplicates: Duplicates::Last, memory_limit: MEMORY, ..ordered() };
    let mut builder = TableBuilder::create_with(dir.0.join(FILE), options).unwrap();
    for i in 0..count {
        let key = if i % 10 == 0 { format!("k{i:09}") } else { String::new() };
        builder.add(key, vec![i as u8; value as usize]).unwrap();
    }
    assert_eq!(builder.finish().unwrap().records, count.div_ceil(10) + 1);
    check_peak("one key", 0);
}

/// Records longer than the memory, several of which are buffered at the same time.
fn build_long(dir: &TempDir) {
    let longest = 40 << 20;
    let options = BuildOptions { memory_limit: MEMORY, threads: 1, ..ordered() };
    for is_sorted in [true, false] {
        let mut builder = TableBuilder::create_with(dir.0.join(FILE), options.clone()).unwrap();
        for i in 0..12u8 {
            let key = if is_sorted { i } else { 12 - i };
            builder.add([key], vec![key; longest]).unwrap();
        }
        let report = builder.finish().unwrap();
        assert_eq!((report.records, report.spilled == 0), (12, is_sorted));
        check_peak("long", 7 * longest);
    }
}

#[test]
#[ignore = "started by builds_stay_within_their_memory"]
fn build_more_than_the_memory_holds() {
    if let Some(dir) = TempDir::new() {
        build_many(&dir);
    }
    println!("no panic");
}

#[test]
#[ignore = "started by builds_stay_within_their_memory"]
fn build_records_longer_than_the_memory() {
    if let Some(dir) = TempDir::new() {
        build_long(&dir);
    }
    println!("no panic");
}

#[test]
fn builds_stay_within_their_memory() {
    run_child("table::tests::ordered::large::build_more_than_the_memory_holds");
    run_child("table::tests::ordered::large::build_records_longer_than_the_memory");
}
