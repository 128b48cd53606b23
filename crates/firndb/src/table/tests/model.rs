//! Random tables compared with a map: all keys and ten absent ones per key, in every way to read;
//! and equal bytes for any order of records, number of threads and memory.
//!
//! `FIRNDB_MODEL_TABLES=300` builds more tables (with `--release`). `FIRNDB_SEED=...` replays the
//! tables from that seed on. `FIRNDB_TABLE_PROBES=10000000` looks up more absent keys.

use super::*;
use crate::table::simd::Avx2Search;
use crate::table::{Compression, Duplicates, KeyFilter};
use crate::testing::Rng;
use crate::{Error, ErrorKind};
use std::collections::HashMap;
use std::ops::ControlFlow;

const SEED: u64 = 0x7AB1E;
/// Most bytes of keys and values of a table.
const BYTES: usize = 6 << 20;

type Model = HashMap<Vec<u8>, Vec<u8>>;

fn length(rng: &mut Rng, style: usize) -> usize {
    match style {
        0 => 0,
        1 => 8,
        2 => 1 + rng.below(40),
        3 => *rng.pick(&[0, 1, 254, 255, 256, 257, 300]),
        4 => 32,
        5 => rng.below(3000),
        6 if rng.below(50) == 0 => *rng.pick(&[65_535, 65_536]),
        7 if rng.below(200) == 0 => (1 << 20) + rng.below(1 << 19),
        _ => rng.below(60),
    }
}

/// Records with distinct keys; many per block if `small`.
fn records(rng: &mut Rng, small: bool) -> Records {
    let n = match rng.below(12) {
        0 => rng.below(4),
        1..=4 => rng.below(300),
        5..=9 => rng.below(5_000),
        10 => rng.below(20_000),
        _ => rng.below(100_001),
    };
    let (n, keys, values) = match small {
        true => (n + 1000, *rng.pick(&[1, 4]), 8),
        false => (n, rng.below(7), rng.below(9)),
    };
    let (mut seen, mut records, mut bytes) = (Model::new(), Records::new(), 0);
    for _ in 0..n {
        let len = length(rng, keys);
        let key = if keys == 0 { rng.fill(rng.0 as usize % 3) } else { rng.fill(len) };
        let len = length(rng, values);
        // Half of the values are compressible.
        let value = if rng.below(2) == 0 { vec![rng.next() as u8; len] } else { rng.fill(len) };
        bytes += key.len() + value.len();
        if bytes > BYTES {
            break;
        }
        if seen.insert(key.clone(), Vec::new()).is_none() {
            records.push((key, value));
        }
    }
    records
}

fn options(rng: &mut Rng) -> BuildOptions {
    let level = 1 + rng.below(5);
    BuildOptions {
        block_size: 4096 * *rng.pick(&[1, 1, 1, 2, 3, 4, 16]),
        compression: *rng.pick(&[
            Compression::None,
            Compression::None,
            Compression::Records { level },
            Compression::Blocks { level },
        ]),
        filter: *rng.pick(&[KeyFilter::None, KeyFilter::Bits8, KeyFilter::Bits16]),
        threads: 1 + rng.below(4),
        memory_limit: memory(rng),
        metadata: rng.fill(rng.0 as usize % 9),
        value_schema: "any".repeat(rng.below(3)),
        ..BuildOptions::default()
    }
}

/// Sometimes so little that records are spilled and partitions split.
fn memory(rng: &mut Rng) -> usize {
    *rng.pick(&[1 << 30, 1 << 20, 1 << 18, 1 << 16])
}

/// Ten absent keys per present key, many of them similar; fewer for large tables.
fn absent(rng: &mut Rng, model: &Model) -> Vec<Vec<u8>> {
    let mut absent = Vec::new();
    for key in model.keys().take(20_000) {
        for _ in 0..10 {
            let mut other = key.clone();
            match rng.below(4) {
                0 => other.push(rng.next() as u8),
                1 => drop(other.pop()),
                2 if !other.is_empty() => {
                    let at = rng.below(other.len());
                    other[at] ^= 1 << rng.below(8);
                }
                _ => other = rng.fill(1 + key.len().min(40)),
            }
            if !model.contains_key(&other) {
                absent.push(other);
            }
        }
    }
    absent.extend([Vec::new()].into_iter().filter(|key| !model.contains_key(key)));
    absent
}

/// Checks a table in every access mode. Returns whether the AVX2 search was used.
fn check(rng: &mut Rng, disk: &DiskRef, model: &Model) -> bool {
    let absent = absent(rng, model);
    // The mapped table also without AVX2.
    let (map, mut fast) = (Access::Map, false);
    for (access, avx2) in
        [(map, true), (map, false), (Access::Resident, true), (Access::Buffered, true)]
    {
        let mut table = open(disk, access).unwrap();
        table.reader.avx2 = table.reader.avx2.filter(|_| avx2);
        fast |= model.keys().next().is_some_and(|key| is_fast(&table, key));
        assert_eq!(table.len(), model.len() as u64);
        assert_eq!(table.is_empty(), model.is_empty());
        let (stats, frames) = (table.stats(), Compression::Blocks { level: 0 });
        let frames = std::mem::discriminant(&stats.compression) == std::mem::discriminant(&frames);
        assert_eq!(
            table.reader.index.is_some(),
            match access {
                Access::Resident => !frames,
                Access::Map => stats.index_bytes > 0,
                _ => false,
            }
        );
        // Buffered reads of the simulated disk are slow.
        let most = if access == Access::Buffered { 2_000 } else { usize::MAX };
        for (key, value) in model.iter().take(most) {
            assert_eq!(table.get(key).unwrap().as_deref(), Some(&value[..]));
            assert!(table.contains(key).unwrap());
        }
        for key in absent.iter().take(most) {
            assert!(table.get(key).unwrap().is_none());
            assert!(!table.contains(key).unwrap());
        }
        let mut keys: Vec<&[u8]> = model.keys().take(most).map(|key| &key[..]).collect();
        keys.extend(absent.iter().take(model.len().min(most)).map(|key| &key[..]));
        keys.extend(keys.first().copied());
        rng.shuffle(&mut keys);
        let values = table.get_many(&keys).unwrap();
        assert_eq!(values.len(), keys.len());
        for (key, value) in keys.iter().zip(values) {
            assert_eq!(value.as_deref(), model.get(*key).map(|value| &value[..]));
        }
        let mut positions = 0..keys.len();
        let read = table.read_many(&keys, |position, value| -> Result<()> {
            assert_eq!(Some(position), positions.next());
            assert_eq!(value, model.get(keys[position]).map(|value| &value[..]));
            Ok(())
        });
        assert!(read.is_ok() && positions.is_empty());
    }
    check_all(rng, &open(disk, Access::Map).unwrap(), model);
    fast
}

/// Checks iteration, scans and statistics.
fn check_all(rng: &mut Rng, table: &Table, model: &Model) {
    table.verify().unwrap();
    let all: Records = table.iter().collect::<Result<_>>().unwrap();
    assert_eq!(all.len(), model.len());
    assert!(all.iter().all(|(key, value)| model.get(key) == Some(value)));
    let parts = 1 + rng.below(7) as u64;
    let mut found = Records::new();
    table
        .splits(parts as usize)
        .into_iter()
        .for_each(|split| found.extend(split.map(|record| record.unwrap())));
    assert_eq!(found, all);
    let mut scanned = 0;
    for part in 0..parts {
        let visit = |key: &[u8], value: &[u8]| {
            assert_eq!((key, value), (&all[scanned].0[..], &all[scanned].1[..]));
            scanned += 1;
            ControlFlow::Continue(())
        };
        assert!(table.scan(part, parts, visit).unwrap());
    }
    assert_eq!(scanned, all.len());
    if !all.is_empty() {
        assert!(!table.scan(0, 1, |_, _| ControlFlow::Break(())).unwrap());
    }
    let (longest, bytes) = all.iter().fold((0, 0), |(longest, bytes), (key, value)| {
        (value.len().max(longest), bytes + key.len() + value.len())
    });
    let stats = table.stats();
    assert_eq!(stats.longest_value_bytes, longest as u64);
    assert_eq!(stats.key_bytes + stats.value_bytes, bytes as u64);
}

#[test]
fn random_tables_agree_with_a_map() {
    let tables = number_from_env("FIRNDB_MODEL_TABLES", 10);
    let first = number_from_env("FIRNDB_SEED", SEED);
    let (mut total, mut spilled, mut fast) = (0, 0, 0);
    for seed in first..first + tables {
        let rng = &mut Rng(seed);
        let small = seed % 3 == 0;
        let (records, mut options) = (records(rng, small), options(rng));
        if small {
            (options.compression, options.block_size) = (Compression::None, 4096);
        }
        println!("seed {seed:#x}: {} records, {options:?}", records.len());
        let disk = SimDisk::new();
        let report = build(&(disk.clone() as DiskRef), options.clone(), &records).unwrap();
        assert_eq!((report.records, report.duplicates), (records.len() as u64, 0));
        assert_eq!(disk.files().len(), 1, "a temporary file is left");
        total += records.len();
        spilled += usize::from(report.spilled > 0);
        let model = records.iter().cloned().collect();
        fast += usize::from(check(rng, &(disk.clone() as DiskRef), &model));

        let mut shuffled = records;
        rng.shuffle(&mut shuffled);
        let other = BuildOptions {
            threads: 1 + rng.below(4),
            memory_limit: memory(rng),
            ..options.clone()
        };
        let bytes = disk.files().remove(Path::new(FILE)).unwrap();
        assert!(bytes == bytes_of(other, &shuffled), "other bytes from the same records");
    }
    println!("{total} records in {tables} tables, {spilled} of them larger than their memory");
    println!("{fast} of them with small records that are searched fast");
    assert!(spilled > 0 || tables < 10);
    assert!(fast > 0 || tables < 10 || Avx2Search::detect().is_none());
}

#[test]
fn partitions_larger_than_the_memory_are_split() {
    let rng = &mut Rng(SEED);
    let records: Records =
        (0..20_000).map(|i| (format!("key {i}").into_bytes(), rng.fill(100))).collect();
    let large = bytes_of(BuildOptions { threads: 1, ..BuildOptions::default() }, &records);
    for (memory, threads) in [(20_000, 1), (40_000, 2)] {
        let small = BuildOptions { memory_limit: memory, threads, ..BuildOptions::default() };
        assert!(bytes_of(small, &records) == large, "memory {memory}");
    }
}

#[test]
fn duplicate_policies_keep_the_right_record() {
    for seed in SEED..SEED + 6 {
        let rng = &mut Rng(seed);
        let mut added: Vec<(u64, Vec<u8>, Vec<u8>)> = (1..=4_000)
            .map(|origin| (origin, format!("{}", rng.below(1500)).into_bytes(), rng.fill(9)))
            .collect();
        for duplicates in [Duplicates::First, Duplicates::Last] {
            let mut model = Model::new();
            for (_, key, value) in &added {
                match duplicates {
                    Duplicates::First => drop(model.entry(key.clone()).or_insert(value.clone())),
                    _ => drop(model.insert(key.clone(), value.clone())),
                }
            }
            let mut files = Vec::new();
            for (memory, threads) in [(1 << 30, 1), (1 << 15, 3)] {
                let disk: DiskRef = SimDisk::new();
                let options = BuildOptions {
                    duplicates,
                    memory_limit: memory,
                    threads,
                    ..BuildOptions::default()
                };
                let mut builder =
                    TableBuilder::create_on(disk.clone(), Path::new(FILE), options).unwrap();
                let mut order = added.clone();
                rng.shuffle(&mut order);
                for (origin, key, value) in &order {
                    builder.add_from(*origin, key, value).unwrap();
                }
                let report = builder.finish().unwrap();
                assert_eq!(report.records, model.len() as u64);
                assert_eq!(report.duplicates, (added.len() - model.len()) as u64);
                check(rng, &disk, &model);
                files.push(disk.map(Path::new(FILE)).unwrap().to_vec());
            }
            assert!(files[0] == files[1], "the bytes follow the order of adding");
        }
        // A duplicate fails the build, and the error names both origins.
        added.truncate(1);
        let disk: DiskRef = SimDisk::new();
        let mut builder =
            TableBuilder::create_on(disk, Path::new(FILE), BuildOptions::default()).unwrap();
        builder.name_origins(|origin| format!("line {origin}"));
        for origin in [17, 4] {
            builder.add_from(origin, &added[0].1, b"value").unwrap();
        }
        let error: Error = builder.finish().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let key = String::from_utf8(added[0].1.clone()).unwrap();
        for word in [&*key, "line 4", "line 17"] {
            assert!(error.message().contains(word), "{error}");
        }
    }
}

#[test]
fn absent_keys_are_never_found() {
    let probes = number_from_env("FIRNDB_TABLE_PROBES", 400_000);
    for filter in [KeyFilter::None, KeyFilter::Bits8] {
        let records: Records =
            (0..50_000u64).map(|i| (i.to_le_bytes().to_vec(), vec![1; 20])).collect();
        let options = BuildOptions { filter, ..BuildOptions::default() };
        let disk = disk_with(&bytes_of(options, &records));
        let table = open(&disk, Access::Map).unwrap();
        let wrong = (0..probes / 2)
            .filter(|probe| table.get((1u64 << 32 | probe).to_le_bytes()).unwrap().is_some());
        assert_eq!(wrong.count(), 0);
    }
}
