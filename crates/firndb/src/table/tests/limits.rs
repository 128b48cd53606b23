//! Documented limits, measured on built tables: false positives and sizes of filters, sizes of
//! tables, memory of builds, and prefetched lines. The figures for 13,193,787,549 records in
//! `docs/formats.md` come from the same formulas.
//!
//! `FIRNDB_FIGURES=10000000` builds a table of this many records (with `--release`).

use super::direct::TempDir;
use super::*;
use crate::bytes::prefetch::LINE;
use crate::table::read::get::{SMALL_LINES, expected_lines};
use crate::table::{ApproximateBuilder, ApproximateOptions, Compression, Duplicates, KeyFilter};
use crate::testing::{Rng, memory, run_child};
use xxhash_rust::xxh3::xxh3_64;

fn builder(n: u64, key: usize, value: usize, options: BuildOptions) -> (DiskRef, BuildReport) {
    let disk: DiskRef = SimDisk::new();
    let mut builder = TableBuilder::create_on(disk.clone(), Path::new(FILE), options).unwrap();
    let mut rng = Rng(1);
    for i in 0..n {
        builder.add(format!("{i:0key$}").as_bytes(), rng.fill(value)).unwrap();
    }
    let report = builder.finish().unwrap();
    (disk, report)
}

#[test]
fn filter_false_positive_rates_are_as_stated() {
    let n = number_from_env("FIRNDB_FIGURES", 250_000);
    let probes = number_from_env("FIRNDB_TABLE_PROBES", 2_000_000);
    for (filter, bits) in [(KeyFilter::Bits8, 8), (KeyFilter::Bits16, 16)] {
        let options = BuildOptions { filter, ..BuildOptions::default() };
        let (disk, _) = builder(n, 9, 0, options);
        let table = open(&disk, Access::Map).unwrap();
        let absent = (0..probes).map(|i| xxh3_64(&(i << 20 | 1).to_le_bytes()));
        let passed = absent.filter(|&hash| table.reader.may_contain(hash)).count() as f64;
        let stated = probes as f64 / f64::from(1 << bits);
        let a_key = table.stats().filter_bytes as f64 * 8.0 / n as f64;
        println!(
            "{filter:?}: {passed} of {probes} passed, {stated:.0} stated; {a_key:.3} bits a key"
        );
        // Five standard deviations.
        assert!((passed - stated).abs() < 5.0 * stated.sqrt(), "{filter:?}");
        let most = if n >= 1_000_000 { 1.15 } else { 1.2 };
        assert!(a_key / f64::from(bits) < most && a_key > f64::from(bits), "{filter:?}");
    }
}

/// Sizes of a table of records of one length, by the formulas of `docs/formats.md`.
#[derive(Debug)]
struct Figures {
    /// Bytes of all blocks of 4096 bytes.
    blocks: u64,
    /// Bytes of the directory, on disk and in memory.
    directory: u64,
}

fn figures(records: u64, key: u64, value: u64) -> Figures {
    // A block has 16 bytes before its records, and a record one byte in addition to key and value.
    let in_a_block = (4096 - 16) / (1 + key + value);
    let blocks = records.div_ceil(in_a_block);
    Figures { blocks: 4096 * blocks, directory: 8 * (records.div_ceil(512) + 1) + 2 * blocks }
}

#[test]
fn table_sizes_match_the_formulas() {
    let n = number_from_env("FIRNDB_FIGURES", 200_000);
    let (disk, _) = builder(n, 13, 32, BuildOptions::default());
    let table = open(&disk, Access::Buffered).unwrap();
    let (stats, figures) = (table.stats(), figures(n, 13, 32));
    println!("{n} records: {figures:?}, {stats:?}");
    let near = |real: u64, said: u64| real.abs_diff(said) as f64 <= said as f64 / 1000.0;
    assert!(near(stats.block_bytes, figures.blocks), "blocks");
    assert!(near(stats.memory_bytes, figures.directory), "memory");
    assert!(near(stats.file_bytes - 8192, figures.blocks + figures.directory), "file");
}

#[test]
fn formats_page_matches_the_formulas() {
    let page = include_str!("../../../../../docs/formats.md");
    let figures = figures(13_193_787_549, 13, 32);
    let with_commas = |n: u64| {
        let digits = n.to_string();
        let comma = |(i, c): (usize, char)| {
            let comma = i > 0 && (digits.len() - i).is_multiple_of(3);
            [comma.then_some(','), Some(c)].into_iter().flatten()
        };
        digits.chars().enumerate().flat_map(comma).collect::<String>()
    };
    for bytes in [figures.blocks, figures.directory] {
        let bytes = with_commas(bytes);
        assert!(page.contains(&bytes), "docs/formats.md does not say {bytes}");
    }
}

/// Builds larger than their memory, with different options.
fn more_than_the_memory_holds(dir: &TempDir) {
    let (memory_limit, value) = (16 << 20, 900usize);
    let records = 10 * memory_limit as u64 / (value as u64 + 10);
    let most = (memory_limit as u64 * 12 / 10 + (100 << 20)) >> 10;
    let peak = |what: &str| {
        let Some(peak) = memory("VmHWM:") else { return };
        println!("{what}: peak {peak} KiB of {most}");
        assert!(peak <= most, "{what}: {peak} KiB");
    };
    let mut rng = Rng(2);
    for (what, compression, filter) in [
        ("plain", Compression::None, KeyFilter::Bits8),
        ("compressed", Compression::Records { level: 1 }, KeyFilter::None),
    ] {
        let options = BuildOptions { compression, filter, memory_limit, ..BuildOptions::default() };
        let mut builder = TableBuilder::create_with(dir.0.join(FILE), options).unwrap();
        for i in 0..records {
            builder.add(format!("k{i:09}").as_bytes(), rng.fill(value)).unwrap();
        }
        let report = builder.finish().unwrap();
        assert!(report.spilled >= 9 * memory_limit as u64, "{report:?}");
        peak(what);
    }
    let options = ApproximateOptions { memory_limit, ..ApproximateOptions::default() };
    let mut builder = ApproximateBuilder::create_with(dir.0.join(FILE), options).unwrap();
    for i in 0..records {
        let key = format!("k{i:0900}");
        builder.add(key.as_bytes(), i.to_le_bytes()).unwrap();
    }
    assert!(builder.finish().unwrap().spilled >= 9 * memory_limit as u64);
    peak("approximate");
    // Longer and longer records, each in its own slab.
    let options = BuildOptions { memory_limit, threads: 1, ..BuildOptions::default() };
    let mut builder = TableBuilder::create_with(dir.0.join(FILE), options.clone()).unwrap();
    for i in 0..12 {
        builder.add([i], vec![i; (20 + usize::from(i)) << 20]).unwrap();
    }
    peak("long records");
    drop(builder);
    // One key many times, among others.
    let duplicates = Duplicates::Last;
    let options = BuildOptions { duplicates, threads: 2, ..options };
    let mut builder = TableBuilder::create_with(dir.0.join(FILE), options).unwrap();
    for i in 0..records * 2 {
        let key = if i % 10 == 0 { format!("k{i:09}") } else { String::new() };
        builder.add(key.as_bytes(), vec![i as u8; value]).unwrap();
    }
    assert_eq!(builder.finish().unwrap().records, (records * 2).div_ceil(10) + 1);
    peak("one key");
    // So many threads that every partition is split again.
    let options = BuildOptions { memory_limit, threads: 64, ..BuildOptions::default() };
    let mut builder = TableBuilder::create_with(dir.0.join(FILE), options).unwrap();
    for i in 0..records {
        builder.add(format!("k{i:09}").as_bytes(), rng.fill(value)).unwrap();
    }
    assert_eq!(builder.finish().unwrap().records, records);
    peak("split again");
}

/// Records longer than the memory, several of which are buffered at the same time.
fn records_longer_than_the_memory(dir: &TempDir) {
    let (memory_limit, longest) = (16 << 20, 40 << 20);
    let options = BuildOptions { memory_limit, threads: 1, ..BuildOptions::default() };
    let mut builder = TableBuilder::create_with(dir.0.join(FILE), options).unwrap();
    for i in 0..12 {
        builder.add([i], vec![i; longest]).unwrap();
    }
    assert_eq!(builder.finish().unwrap().records, 12);
    if let Some(peak) = memory("VmHWM:") {
        let most = (memory_limit * 12 / 10 + (100 << 20) + 7 * longest) >> 10;
        println!("peak {peak} KiB of {most}");
        assert!(peak <= most as u64, "{peak} KiB");
    }
}

/// A build with enough memory to allocate slabs ahead.
fn with_slabs_allocated_ahead(dir: &TempDir) {
    let memory_limit = 128 << 20;
    let most = (memory_limit as u64 * 12 / 10 + (100 << 20)) >> 10;
    let options = BuildOptions { memory_limit, threads: 2, ..BuildOptions::default() };
    // Almost all of the memory; half as much again; and long records after the memory was filled.
    for (small, long) in [(110_000u64, 0), (190_000, 0), (130_000, 60)] {
        let mut builder = TableBuilder::create_with(dir.0.join(FILE), options.clone()).unwrap();
        for i in 0..small {
            builder.add(format!("k{i:09}").as_bytes(), vec![i as u8; 1000]).unwrap();
        }
        for i in 0..long {
            builder.add(format!("long {i}").as_bytes(), vec![i as u8; 2 << 20]).unwrap();
        }
        let report = builder.finish().unwrap();
        assert_eq!((report.records, report.spilled > 0), (small + long, small > 110_000));
        let table = Table::open_with(dir.0.join(FILE), Access::Buffered).unwrap();
        for i in (0..small).step_by(997) {
            let value = table.get(format!("k{i:09}").as_bytes()).unwrap();
            assert!(value.is_some_and(|value| *value == [i as u8; 1000]), "record {i}");
        }
        drop(table);
        let Some(peak) = memory("VmHWM:") else { continue };
        println!("{small} + {long}: peak {peak} KiB of {most}");
        assert!(peak <= most, "{small} + {long}: {peak} KiB");
    }
}

/// Runs `build` in a directory, if there is one with direct reads. Called in a child process.
fn in_temp_dir(build: fn(&TempDir)) {
    if let Some(dir) = TempDir::new() {
        build(&dir);
    }
    println!("no panic");
}

#[test]
#[ignore = "started by builds_stay_within_their_memory"]
fn build_more_than_the_memory_holds() {
    in_temp_dir(more_than_the_memory_holds);
}

#[test]
#[ignore = "started by builds_stay_within_their_memory"]
fn build_with_slabs_allocated_ahead() {
    in_temp_dir(with_slabs_allocated_ahead);
}

#[test]
#[ignore = "started by builds_stay_within_their_memory"]
fn build_records_longer_than_the_memory() {
    in_temp_dir(records_longer_than_the_memory);
}

#[test]
fn builds_stay_within_their_memory() {
    run_child("table::tests::limits::build_more_than_the_memory_holds");
    run_child("table::tests::limits::build_records_longer_than_the_memory");
    run_child("table::tests::limits::build_with_slabs_allocated_ahead");
}

/// The claim of decisions/0007 about gets of small records.
#[test]
fn prefetched_lines_usually_contain_the_record() {
    let mut rng = Rng(5);
    let mut record = |i: usize| {
        let key = format!("k{:012x}", (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16);
        (key.into_bytes(), vec![7; 28 + rng.below(9usize)])
    };
    let records: Records = (0..50_000).map(&mut record).collect();
    let table =
        open(&disk_with(&bytes_of(BuildOptions::default(), &records)), Access::Map).unwrap();
    assert!(table.reader.small_records);
    let held = |(key, value): &&(Vec<u8>, Vec<u8>)| {
        let at = table.reader.locate(xxh3_64(key), key).unwrap();
        let body = &table.reader.memory(at.block).unwrap()[CHECKSUM..];
        let offset = |part: &[u8]| CHECKSUM + part.as_ptr().addr() - body.as_ptr().addr();
        let asked = offset(expected_lines(body, table.reader.fraction(at))) / LINE;
        let end = offset(&table.get(key).unwrap().unwrap()) + value.len();
        (end - value.len() - key.len()) / LINE >= asked && (end - 1) / LINE < asked + SMALL_LINES
    };
    let share = records.iter().filter(held).count() as f64 / records.len() as f64;
    println!("{share:.3} of the records in the lines asked for");
    assert!(share >= 0.9, "{share}");
}
