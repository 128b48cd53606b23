//! The approximate table: all keys are found, the false positive rate is the stated one, and damage
//! and power cuts are handled as for the table.

use super::*;
use crate::ErrorKind;
use crate::bytes::int::put_u32;
use crate::bytes::testing::{Forged, damage};
use crate::table::approx::format::section;
use crate::table::format::block::checksum;
use crate::table::{ApproximateBuilder, ApproximateOptions, ApproximateReport, ApproximateTable};
use crate::table::{Duplicates, FixedValue};
use crate::testing::{Rng, memory, run_child};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

const SEED: u64 = 0xA99;

fn build(
    disk: &DiskRef,
    options: &ApproximateOptions,
    records: &Records,
) -> Result<ApproximateReport> {
    let (path, options) = (Path::new(FILE), options.clone());
    let mut builder = ApproximateBuilder::create_on(disk.clone(), path, options)?;
    records.iter().try_for_each(|(key, value)| builder.add(key, value))?;
    builder.finish()
}

fn bytes_of(options: &ApproximateOptions, records: &Records) -> Vec<u8> {
    let disk = SimDisk::new();
    build(&(disk.clone() as DiskRef), options, records).unwrap();
    let mut files = disk.files();
    assert_eq!(files.len(), 1, "temporary files are left: {:?}", files.keys());
    files.remove(Path::new(FILE)).unwrap()
}

fn open(disk: &DiskRef, access: Access) -> Result<ApproximateTable> {
    ApproximateTable::open_on(disk, Path::new(FILE), access)
}

fn options(value_width: usize, fingerprint_bits: u32) -> ApproximateOptions {
    ApproximateOptions { value_width, fingerprint_bits, ..ApproximateOptions::default() }
}

fn records(rng: &mut Rng, n: usize, width: usize) -> Records {
    (0..n).map(|i| (format!("key {i}").into_bytes(), rng.fill(width))).collect()
}

const IN_MEMORY: [Access; 3] = [Access::Map, Access::Resident, Access::Buffered];

fn check(disk: &DiskRef, records: &Records, accesses: &[Access]) {
    for &access in accesses {
        let table = open(disk, access).unwrap();
        assert_eq!(table.len(), records.len() as u64);
        let most = if access == Access::Buffered { 2_000 } else { usize::MAX };
        for (key, value) in records.iter().take(most) {
            assert_eq!(table.get(key).unwrap().as_deref(), Some(&value[..]));
            assert!(table.contains(key).unwrap());
        }
        let keys: Vec<&[u8]> = records.iter().take(most).map(|(key, _)| &key[..]).collect();
        let values = table.get_many(&keys).unwrap();
        assert_eq!(values.len(), keys.len());
        assert!(values.iter().zip(records).all(|(got, (_, v))| got.as_deref() == Some(&v[..])));
        table.verify().unwrap();
    }
}

#[test]
fn random_tables_return_the_added_values() {
    let tables = number_from_env("FIRNDB_MODEL_TABLES", 12);
    for seed in SEED..SEED + tables {
        let rng = &mut Rng(seed);
        let sizes = [0, 1, 2, 3, 50, 98, 99, 100, 1000, 9_000, 30_000, 150_000];
        let n = sizes[(seed % 12) as usize];
        let options = ApproximateOptions {
            memory_limit: *rng.pick(&[1 << 30, 1 << 19]),
            threads: 1 + rng.below(4),
            metadata: rng.fill(n % 5),
            ..options(1 + rng.below(16), rng.below(33) as u32)
        };
        println!("seed {seed:#x}: {n} records, {options:?}");
        let mut records = records(rng, n, options.value_width);
        let bytes = bytes_of(&options, &records);
        let disk = disk_with(&bytes);
        check(&disk, &records, &IN_MEMORY);
        assert_eq!(open(&disk, Access::Map).unwrap().metadata().unwrap(), options.metadata);
        rng.shuffle(&mut records);
        let other = ApproximateOptions { memory_limit: 1 << 18, threads: 3, ..options };
        assert!(bytes_of(&other, &records) == bytes, "other bytes from the same records");
    }
}

#[test]
fn false_positive_rate_is_as_stated() {
    let probes = number_from_env("FIRNDB_TABLE_PROBES", 1_000_000);
    let rng = &mut Rng(SEED);
    for bits in [0, 1, 4, 8, 12, 24] {
        let disk = disk_with(&bytes_of(&options(2, bits), &records(rng, 30_000, 2)));
        let table = open(&disk, Access::Map).unwrap();
        let keys = (0..probes).map(|i| (i << 20).to_le_bytes());
        let answered = keys.filter(|key| table.get(key).unwrap().is_some()).count() as f64;
        let stated = table.stats().false_positives * probes as f64;
        println!("{bits} bits: {answered} of {probes} answered, {stated} stated");
        // Within four standard deviations, and within 5 % where that is stricter.
        assert!((answered - stated).abs() <= 4.0 * stated.sqrt() + 1.0, "{bits} bits");
        assert!(bits > 8 || (answered - stated).abs() <= stated / 20.0 + 4.0 * stated.sqrt());
        assert!(bits < 24 || answered < 3.0);
    }
}

#[test]
fn duplicates_are_detected_by_whole_keys() {
    let rng = &mut Rng(SEED);
    let added: Vec<(u64, Vec<u8>, Vec<u8>)> = (1..=3_000)
        .map(|origin| (origin, format!("{}", rng.below(1000)).into_bytes(), rng.fill(4)))
        .collect();
    for duplicates in [Duplicates::First, Duplicates::Last] {
        let mut model = HashMap::new();
        for (_, key, value) in &added {
            match duplicates {
                Duplicates::First => drop(model.entry(key.clone()).or_insert(value.clone())),
                _ => drop(model.insert(key.clone(), value.clone())),
            }
        }
        let mut files = Vec::new();
        for memory in [1 << 30, 1 << 14] {
            let (disk, mut order) = (SimDisk::new() as DiskRef, added.clone());
            let options = ApproximateOptions { duplicates, memory_limit: memory, ..options(4, 8) };
            let path = Path::new(FILE);
            let mut builder = ApproximateBuilder::create_on(disk.clone(), path, options).unwrap();
            rng.shuffle(&mut order);
            for (origin, key, value) in &order {
                builder.add_from(*origin, key, value).unwrap();
            }
            let report = builder.finish().unwrap();
            assert_eq!(report.records, model.len() as u64);
            assert_eq!(report.duplicates, (added.len() - model.len()) as u64);
            check(&disk, &model.clone().into_iter().collect(), &[Access::Map]);
            files.push(disk.map(path).unwrap().to_vec());
        }
        assert!(files[0] == files[1], "the bytes follow the order of adding");
    }
    let twice = vec![(b"a key".to_vec(), vec![1; 4]), (b"a key".to_vec(), vec![1; 4])];
    let error = build(&(SimDisk::new() as DiskRef), &options(4, 8), &twice).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    for words in ["'a key'", "record 1", "record 2"] {
        assert!(error.message().contains(words), "{error}");
    }
}

#[test]
fn invalid_options_and_values_are_refused() {
    for (width, bits) in [(0, 8), (17, 8), (8, 33)] {
        let disk = SimDisk::new() as DiskRef;
        let refused = build(&disk, &options(width, bits), &Vec::new()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    }
    let wrong = vec![(b"key".to_vec(), b"123".to_vec())];
    let refused = build(&(SimDisk::new() as DiskRef), &options(4, 8), &wrong).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let little = ApproximateOptions { memory_limit: 1 << 20, ..options(4, 8) };
    assert!(ApproximateBuilder::create_with("nowhere.table", little).is_err());
}

#[test]
fn direct_get_reads_one_page() {
    let Some(dir) = super::direct::TempDir::new() else { return };
    let records = records(&mut Rng(SEED), 20_000, 5);
    let path = dir.0.join(FILE);
    let mut builder = ApproximateBuilder::create_with(&path, options(5, 11)).unwrap();
    records.iter().for_each(|(key, value)| builder.add(key, value).unwrap());
    builder.finish().unwrap();
    let table = ApproximateTable::open_with(&path, Access::Direct).unwrap();
    let before = table.direct().unwrap().reads();
    for (key, value) in &records {
        assert_eq!(table.get(key).unwrap().as_deref(), Some(&value[..]));
    }
    let reads = table.direct().unwrap().reads();
    assert_eq!((reads.0 - before.0, reads.1 - before.1), (20_000, 20_000));
    let keys: Vec<&[u8]> = records.iter().map(|(key, _)| &key[..]).collect();
    let values: Vec<Option<FixedValue>> = table.get_many(&keys).unwrap();
    assert!(values.iter().zip(&records).all(|(got, (_, v))| got.as_deref() == Some(&v[..])));
    let blocks = table.direct().unwrap().reads().0 - reads.0;
    assert_eq!(blocks, table.stats().slot_bytes / 4096, "each block is read once");
    table.verify().unwrap();
}

/// Asserts that each answer of a damaged table is right or an error of a fitting kind. Returns the
/// number of each.
fn check_damaged(bytes: &[u8], records: &Records, access: Access, label: &str) -> (usize, usize) {
    let (mut right, mut errors) = (0, 0);
    let mut accept = |answer: Result<bool>| match answer {
        Ok(is_right) => {
            assert!(is_right, "{label}, {access:?}: wrong answer");
            right += 1;
        }
        Err(e) => {
            let apt = [ErrorKind::Corrupt, ErrorKind::UnsupportedVersion];
            assert!(apt.contains(&e.kind()) && e.file().is_some(), "{label}: {e:?}");
            errors += 1;
        }
    };
    let table = match open(&disk_with(bytes), access) {
        Ok(table) => table,
        Err(e) => {
            accept(Err(e));
            return (0, 1);
        }
    };
    for (key, value) in records {
        accept(table.get(key).map(|got| got.as_deref() == Some(&value[..])));
    }
    let keys: Vec<&[u8]> = records.iter().map(|(key, _)| &key[..]).collect();
    let all = |got: Vec<Option<FixedValue>>| {
        got.iter().zip(records).all(|(got, (_, value))| got.as_deref() == Some(&value[..]))
    };
    accept(table.get_many(&keys).map(all));
    accept(table.verify().map(|_| true));
    (right, errors)
}

#[test]
fn damaged_and_truncated_tables_never_answer_wrongly() {
    let rng = &mut Rng(SEED);
    // Enough keys to have remapped slots.
    let records: Records = records(rng, 230, 3);
    let whole = bytes_of(&ApproximateOptions { metadata: vec![9; 9], ..options(3, 6) }, &records);
    let few: Records = records.iter().step_by(29).cloned().collect();
    let (mut right, mut errors) = (0, 0);
    let mut damaged = whole.clone();
    for at in 0..whole.len() {
        for new in [whole[at] ^ 0xFF, 0, whole[at] ^ 1 << rng.below(8)] {
            damaged[at] = new;
            if new != whole[at] {
                let access = *rng.pick(&IN_MEMORY);
                let (r, e) = check_damaged(&damaged, &few, access, &format!("byte {at}: {new}"));
                (right, errors) = (right + r, errors + e);
            }
        }
        damaged[at] = whole[at];
        let cut = check_damaged(&whole[..at], &few, IN_MEMORY[at % 3], &format!("cut to {at}"));
        assert_eq!(cut, (0, 1));
    }
    println!("{} bytes: {right} right answers, {errors} errors", whole.len());
    assert!(right > 0 && errors > 0);
}

/// The child process of `forged_approximate_tables_are_safe_to_read`.
#[test]
#[ignore = "started by forged_approximate_tables_are_safe_to_read"]
fn read_forged_tables() {
    let rng = &mut Rng(SEED);
    let records = records(rng, 2_000, 6);
    let whole = bytes_of(&options(6, 9), &records);
    assert_eq!(check_damaged(&whole, &records, Access::Map, "whole").1, 0);
    let before = memory("VmPeak:");
    let (mut opened, mut refused) = (0, 0);
    for n in 0..number_from_env("FIRNDB_DAMAGES", 3_000) {
        let mut file = Forged(whole.clone());
        let i = rng.below(file.entries());
        let (id, range) = (file.id(i), file.section(i));
        damage(rng, &mut file.0[range.clone()]);
        if id == section::SLOTS {
            for (number, at) in (0..).zip(range.clone().step_by(4096)) {
                let sum = checksum(&file.0[at..at + 4096], number);
                put_u32(&mut file.0, at, sum);
            }
        }
        file.seal();
        let access = *rng.pick(&IN_MEMORY);
        let label = format!("{access:?}, damage {n} of {SEED:#x}: section {id}");
        let start = cpu_time();
        let done = catch_unwind(AssertUnwindSafe(|| {
            let table = open(&disk_with(&file.0), access)?;
            for (key, _) in records.iter().step_by(9) {
                let _ = table.get(key);
            }
            let keys: Vec<&[u8]> = records.iter().map(|(key, _)| &key[..]).collect();
            let _ = table.get_many(&keys);
            let _ = table.verify();
            table.stats();
            table.metadata().map(|_| ())
        }));
        match done.unwrap_or_else(|_| panic!("{label}")) {
            Ok(()) => opened += 1,
            Err(_) => refused += 1,
        }
        let used = cpu_time().saturating_sub(start);
        assert!(used < Duration::from_secs(10), "{label}: too much work");
        let grown = memory("VmPeak:").zip(before).map_or(0, |(now, before)| now - before);
        assert!(grown < 128 << 10, "{label}: {grown} KiB");
    }
    println!("{opened} opened, {refused} refused, no panic");
    assert!(opened > 0 && refused > 0);
}

#[test]
fn forged_approximate_tables_are_safe_to_read() {
    run_child("table::tests::approx::read_forged_tables");
}

#[test]
fn power_cut_or_failed_call_leaves_a_complete_table() {
    let (old, new) = (records(&mut Rng(1), 30, 4), records(&mut Rng(2), 40, 4));
    let small = ApproximateOptions { memory_limit: 1_000, threads: 1, ..options(4, 20) };
    let base = SimDisk::new();
    build(&(base.clone() as DiskRef), &small, &old).unwrap();
    let base = base.fork();
    let work = |disk: Arc<SimDisk>| {
        let report = build(&(disk as DiskRef), &small, &new)?;
        assert!(report.spilled > 0);
        Ok::<_, crate::Error>(())
    };
    let check_damaged = |disk: &Arc<SimDisk>, done: bool, label: &str| {
        let table = open(&(disk.clone() as DiskRef), Access::Map).expect(label);
        table.verify().expect(label);
        let records = if done || table.len() == 40 { &new } else { &old };
        check(&(disk.clone() as DiskRef), records, &[Access::Map]);
    };
    let crash = |seed| {
        base.each_crash(seed, 5, work, |label, done, image| {
            check_damaged(&image, done.is_ok(), label)
        })
    };
    let images = crash(SEED) + crash(SEED + 1);
    let mut failures = 0;
    let runs = base.each_fault(work, |label, done, disk| {
        failures += usize::from(done.is_err());
        check_damaged(&disk, done.is_ok(), label);
        build(&(disk.clone() as DiskRef), &small, &new).unwrap();
        assert_eq!(disk.files().len(), 1, "{label}: leftovers");
    });
    println!("{images} images, {runs} runs, {failures} reported");
    assert!(images > 100 && failures > 50);
}
