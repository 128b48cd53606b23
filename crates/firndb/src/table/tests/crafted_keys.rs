//! Keys crafted to share one XXH3 hash, or one bin. The build hashes all keys again under a seed,
//! and every way to read the table uses the seed.

use super::*;
use crate::ErrorKind;
use crate::bytes::int::{Encoder, put_u64, u64_at};
use crate::table::build::hashing::{Hashing, MAX_KEYS_PER_BIN, MAX_SEEDS};
use crate::table::format::directory::bin_of;
use crate::table::format::hash::hash_of;
use crate::table::{
    ApproximateBuilder, ApproximateOptions, ApproximateTable, Compression, Duplicates, KeyFilter,
    Progress,
};
use crate::testing::Rng;
use std::ops::ControlFlow;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_128;

const SEED: u64 = 0xC04D;

/// The default secret of XXH3, as far as keys of 64 bytes use it.
#[rustfmt::skip]
const SECRET: [u8; 72] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb,
];

fn words(words: &[u64]) -> Vec<u8> {
    let mut bytes = Encoder::default();
    words.iter().for_each(|&word| bytes.u64(word));
    bytes.0
}

/// Keys with one hash. For keys of this length XXH3 multiplies two words, each xored with a part of
/// the secret. If one factor is 0, the other does not matter.
fn key_of_one_hash(i: u64) -> Vec<u8> {
    words(&[u64_at(&SECRET, 0), i.wrapping_mul(0x9E37_79B9_7F4A_7C15), 1, 2])
}

/// Keys of one bin: different hashes with the same first 44 bits. With one factor 1 the product is
/// the other factor, so a key can be made for each sum, and the final mixing is invertible.
fn key_of_one_bin(i: u64) -> Vec<u8> {
    const PRIME: u64 = 0x1656_6791_9E37_79F9;
    let inverse =
        (0..6).fold(PRIME, |x: u64, _| x.wrapping_mul(2u64.wrapping_sub(PRIME.wrapping_mul(x))));
    let sum_of = |hash: u64| {
        let x = (hash ^ hash >> 32).wrapping_mul(inverse);
        x ^ x >> 37
    };
    let mut key = words(&[u64_at(&SECRET, 0) ^ 1, u64_at(&SECRET, 8), 1, 2]);
    // The sum without the product.
    let rest = sum_of(hash_of(&key, 0));
    let sum = sum_of(0xABC_DEF0_1234 << 20 | i);
    put_u64(&mut key, 8, u64_at(&SECRET, 8) ^ sum.wrapping_sub(rest));
    key
}

/// Keys with one XXH3-128: three products are 0, and the added factors cancel.
fn key_of_one_128_bit_hash(i: u64) -> Vec<u8> {
    let [first, third, fourth] = [0, 48, 16].map(|at| u64_at(&SECRET, at));
    let (sum, other) = (third.wrapping_add(i), third.wrapping_add(i) ^ 0x1234_5678);
    words(&[first, 2, 3, 4, third, sum.wrapping_sub(third), fourth, other.wrapping_sub(fourth)])
}

#[test]
fn crafted_keys_collide() {
    let first = key_of_one_bin(0);
    for i in 1..1000 {
        assert_eq!(hash_of(&key_of_one_hash(i), 0), hash_of(&key_of_one_hash(0), 0));
        assert_eq!(hash_of(&key_of_one_bin(i), 0) >> 20, hash_of(&first, 0) >> 20);
        assert_ne!(hash_of(&key_of_one_bin(i), 0), hash_of(&first, 0));
        assert_eq!(xxh3_128(&key_of_one_128_bit_hash(i)), xxh3_128(&key_of_one_128_bit_hash(0)));
        assert_ne!(key_of_one_128_bit_hash(i), key_of_one_128_bit_hash(0));
    }
}

/// `crafted` crafted keys, and ordinary keys.
fn records(key: fn(u64) -> Vec<u8>, crafted: u64, value: usize) -> Records {
    let others = (0..1_500).map(|i| format!("an ordinary key {i:05}").into_bytes());
    let keys = (0..crafted).map(key).chain(others);
    keys.enumerate().map(|(i, key)| (key, vec![i as u8; value])).collect()
}

/// Checks that all records are found in every way, that absent keys of the same hash are not, and
/// that no block is unusually long.
fn check(disk: &DiskRef, records: &Records, absent: &[Vec<u8>], accesses: &[Access]) -> u64 {
    let mut seed = 0;
    for &access in accesses {
        let table = open(disk, access).unwrap();
        seed = table.stats().seed;
        assert!(table.stats().longest_block_bytes <= 3 * 4096, "{:?}", table.stats());
        for _ in 0..2 {
            for (key, value) in records.iter().step_by(1 + records.len() / 1000) {
                assert_eq!(table.get(key).unwrap().as_deref(), Some(&value[..]));
                assert!(table.contains(key).unwrap());
            }
            for key in absent {
                assert_eq!(table.get(key).unwrap(), None);
            }
        }
        let keys: Vec<&[u8]> = records.iter().map(|record| &record.0[..]).take(5_000).collect();
        let values = table.get_many(&keys).unwrap();
        assert!(values.iter().zip(records).all(|(v, record)| v.as_deref() == Some(&record.1[..])));
        table.verify().unwrap();
    }
    seed
}

const IN_MEMORY: [Access; 3] = [Access::Map, Access::Resident, Access::Buffered];

#[test]
fn crafted_keys_cause_reseeding() {
    let level = 1;
    let forms = [
        (Compression::None, KeyFilter::None, 20),
        (Compression::None, KeyFilter::Bits8, 600),
        (Compression::Records { level }, KeyFilter::Bits16, 90),
        (Compression::Blocks { level }, KeyFilter::None, 90),
    ];
    for key in [key_of_one_hash, key_of_one_bin] {
        for (compression, filter, value) in forms {
            let mut records = records(key, 1_500, value);
            let absent: Vec<Vec<u8>> = (2_000..2_100).map(key).collect();
            let options = BuildOptions { compression, filter, ..BuildOptions::default() };
            let bytes = bytes_of(options.clone(), &records);
            let seed = check(&disk_with(&bytes), &records, &absent, &IN_MEMORY);
            assert_ne!(seed, 0);
            // In any order, with any memory and any number of threads.
            for (memory, threads) in [(1 << 30, 1), (1 << 16, 3), (1 << 13, 1)] {
                Rng(SEED + memory as u64).shuffle(&mut records);
                let other = BuildOptions { memory_limit: memory, threads, ..options.clone() };
                assert!(bytes_of(other, &records) == bytes, "{memory} bytes, {threads} threads");
            }
            // Other keys give another seed.
            let (last, _) = records.pop().unwrap();
            let less = bytes_of(options, &records);
            let table = open(&disk_with(&less), Access::Map).unwrap();
            assert!(![0, seed].contains(&table.stats().seed));
            assert_eq!(table.get(&last).unwrap(), None);
        }
    }
}

/// `FIRNDB_CRAFTED=94000` builds a table with more keys.
#[test]
fn many_crafted_keys_build_a_normal_table() {
    let crafted = number_from_env("FIRNDB_CRAFTED", 20_000);
    let records: Records = (0..crafted).map(|i| (key_of_one_hash(i), vec![i as u8; 8])).collect();
    let disk = disk_with(&bytes_of(BuildOptions::default(), &records));
    let absent: Vec<Vec<u8>> = (crafted..crafted + 1000).map(key_of_one_hash).collect();
    assert_ne!(check(&disk, &records, &absent, &[Access::Map]), 0);
    let table = open(&disk, Access::Map).unwrap();
    assert_eq!(table.stats().longest_block_bytes, 4096);
}

#[test]
fn reseeding_happens_only_above_the_limit() {
    for key in [key_of_one_hash, key_of_one_bin] {
        for (crafted, is_seeded) in
            [(MAX_KEYS_PER_BIN as u64, false), (MAX_KEYS_PER_BIN as u64 + 1, true)]
        {
            let records = records(key, crafted, 4);
            for memory in [1 << 30, 1 << 13] {
                let options = BuildOptions { memory_limit: memory, ..BuildOptions::default() };
                let disk = disk_with(&bytes_of(options, &records));
                let seed = check(&disk, &records, &[], &[Access::Map]);
                assert_eq!(seed != 0, is_seeded, "{crafted} keys, {memory} bytes");
            }
        }
    }
}

/// Copies of one key do not count as collisions.
#[test]
fn copies_of_one_key_do_not_cause_reseeding() {
    let added = |i: u64| (key_of_one_hash(i % 5), i.to_le_bytes().to_vec());
    let records: Records = (0..5_000).map(added).collect();
    for duplicates in [Duplicates::First, Duplicates::Last] {
        for memory in [1 << 30, 1 << 13] {
            let options = BuildOptions {
                duplicates,
                memory_limit: memory,
                threads: 1,
                ..BuildOptions::default()
            };
            let disk: DiskRef = SimDisk::new();
            assert_eq!(build(&disk, options, &records).unwrap().duplicates, 4_995);
            let table = open(&disk, Access::Map).unwrap();
            assert_eq!((table.len(), table.stats().seed), (5, 0));
            let i = if duplicates == Duplicates::First { 3 } else { 4_998 };
            assert_eq!(table.get(key_of_one_hash(3)).unwrap().as_deref(), Some(&added(i).1[..]));
        }
    }
    // With reseeding, duplicates are handled as without it.
    let added = |i: u64| (key_of_one_hash(i % 50), i.to_le_bytes().to_vec());
    let mut records: Records = (0..2_000).map(added).collect();
    for duplicates in [Duplicates::First, Duplicates::Last] {
        let options =
            |memory| BuildOptions { duplicates, memory_limit: memory, ..BuildOptions::default() };
        let disk: DiskRef = SimDisk::new();
        let report = build(&disk, options(1 << 13), &records).unwrap();
        assert_eq!((report.records, report.duplicates), (50, 1_950));
        let table = open(&disk, Access::Map).unwrap();
        assert_ne!(table.stats().seed, 0);
        let i = if duplicates == Duplicates::First { 7 } else { 1_957 };
        assert_eq!(table.get(key_of_one_hash(7)).unwrap().as_deref(), Some(&added(i).1[..]));
        assert!(bytes_of(options(1 << 30), &records) == disk.map(Path::new(FILE)).unwrap()[..]);
    }
    records.truncate(51);
    let disk: DiskRef = SimDisk::new();
    let error = build(&disk, BuildOptions::default(), &records).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("added twice, by record 1 and by record 51"), "{error}");
}

/// Runs may end anywhere; a bin may span two of them.
#[test]
fn collision_check_is_independent_of_run_boundaries() {
    use crate::table::build::encode::Item;
    use crate::table::build::hashing::CollisionLimit;
    use crate::table::build::reseed::CollisionCheck;
    let rng = &mut Rng(SEED);
    let (mut found, slots) = (0, 3);
    for round in 0..3_000 {
        let most = 1 + rng.below(5);
        let mut hashes: Vec<u64> = (0..rng.below(40)).map(|_| rng.next()).collect();
        let base = rng.next();
        hashes.extend((0..rng.below(8)).map(|_| base.wrapping_add(rng.next() >> 17)));
        hashes.sort_unstable();
        let at = |hash: &u64| bin_of(*hash, slots);
        let expected = hashes.chunk_by(|a, b| at(a) == at(b)).any(|same| same.len() > most);
        let limit = CollisionLimit::new(most);
        let mut check = CollisionCheck::new(&limit, slots);
        let items: Vec<Item> =
            hashes.iter().map(|&hash| Item { hash, ..Item::default() }).collect();
        let (mut left, mut result) = (&items[..], Ok(()));
        while !left.is_empty() && result.is_ok() {
            let (run, rest) = left.split_at(rng.below(left.len() + 1));
            (left, result) = (rest, check.check(run));
        }
        assert_eq!(result.is_err(), expected, "round {round} of seed {SEED:#x}");
        assert_eq!(limit.is_exceeded(), expected);
        found += usize::from(expected);
    }
    assert!((300..2_700).contains(&found), "{found} crowds prove little");
}

/// If the seeds can be predicted, the build fails after a stated number of attempts.
#[test]
fn build_fails_after_the_last_seed() {
    let disk = SimDisk::new();
    let mut starts = 0;
    let path = Path::new(FILE);
    let constant = Hashing::new(|_, _| 7);
    let options = BuildOptions { threads: 1, ..BuildOptions::default() };
    let mut builder =
        TableBuilder::create_hashed(disk.clone(), path, options, constant, MAX_KEYS_PER_BIN)
            .unwrap();
    records(key_of_one_hash, 100, 4)
        .iter()
        .for_each(|(key, value)| builder.add(key, value).unwrap());
    let error = builder.finish_with(|Progress { done, total }| {
        starts += u64::from(done == total);
        ControlFlow::Continue(())
    });
    let error = error.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("equal hashes"), "{error}");
    assert!(disk.files().is_empty());
    let created = disk.log().iter().filter(|call| call.contains(": create ")).count() as u64;
    assert_eq!((created, starts), (1 + MAX_SEEDS, 0));
}

#[test]
fn reseeding_can_be_cancelled() {
    let disk = SimDisk::new();
    let options = BuildOptions { threads: 1, ..BuildOptions::default() };
    for most in 0..2_000 {
        let path = Path::new(FILE);
        let mut builder = TableBuilder::create_on(disk.clone(), path, options.clone()).unwrap();
        for (key, value) in records(key_of_one_hash, 100, 4) {
            builder.add(&key, &value).unwrap();
        }
        let mut calls = 0;
        let built = builder.finish_with(|_| {
            calls += 1;
            if calls > 61 * most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match built {
            Err(e) => assert_eq!(e.kind(), ErrorKind::Cancelled),
            Ok(report) => {
                assert_eq!(report.records, 1_600);
                assert!(most > 40, "{most} places to cancel");
                return;
            }
        }
        assert!(disk.files().is_empty());
    }
    panic!("no build ended");
}

/// Power cuts and failing calls at every operation of a build that reseeds.
#[test]
fn power_cut_during_reseeding_leaves_a_complete_table() {
    let records: Records = (0..40).map(|i| (key_of_one_hash(i), vec![i as u8; 100])).collect();
    let base = SimDisk::new();
    let old = BuildOptions { threads: 1, ..BuildOptions::default() };
    let few = &records[..3].to_vec();
    build(&(base.clone() as DiskRef), old.clone(), few).unwrap();
    let options = BuildOptions { memory_limit: 1_000, ..old };
    let work = |disk: Arc<SimDisk>| build(&(disk as DiskRef), options.clone(), &records);
    let report = work(base.fork()).unwrap();
    assert!(report.spilled > 3 * 4_000, "{report:?}: three times all records");
    let standing = |disk: Arc<SimDisk>, done: bool, label: &str| {
        let table = open(&(disk as DiskRef), Access::Map).unwrap();
        table.verify().unwrap_or_else(|e| panic!("{label}: {e:?}"));
        let len = table.len();
        assert!(len == 40 || len == 3 && !done, "{label}: {len} records");
        assert_eq!(table.stats().seed != 0, len == 40);
    };
    let images = base.fork().each_crash(SEED, 3, work, |label, done, image| {
        standing(image, done.is_ok(), label);
    });
    let mut failures = 0;
    let runs = base.fork().each_fault(work, |label, done, disk| {
        failures += usize::from(done.is_err());
        let names: Vec<_> = disk.files().into_keys().collect();
        standing(disk, done.is_ok(), label);
        // A temporary file that could not be removed is removed by the next build.
        assert!(names.len() <= 2, "{label}: {names:?}");
    });
    println!("{images} images, {failures} of {runs} runs failed");
    assert!(images > 100 && failures > 50);
}

/// An approximate table cannot distinguish keys with equal hashes at all.
#[test]
fn crafted_keys_cause_reseeding_of_approximate_tables() {
    let path = Path::new(FILE);
    let bytes_of = |memory: usize, threads: usize, records: &Records| {
        let disk = SimDisk::new();
        let options = ApproximateOptions {
            memory_limit: memory,
            threads,
            duplicates: Duplicates::Last,
            value_width: 4,
            ..ApproximateOptions::default()
        };
        let mut builder =
            ApproximateBuilder::create_on(disk.clone() as DiskRef, path, options).unwrap();
        for (key, value) in records {
            builder.add(key, value).unwrap();
        }
        assert_eq!(builder.finish().unwrap().records, records.len() as u64);
        assert_eq!(disk.files().len(), 1);
        disk.files().remove(path).unwrap()
    };
    for (crafted, is_seeded) in [(1, false), (2, true), (2_000, true)] {
        let mut records = records(key_of_one_128_bit_hash, crafted, 4);
        let bytes = bytes_of(1 << 30, 2, &records);
        for access in IN_MEMORY {
            let disk = disk_with(&bytes);
            let table = ApproximateTable::open_on(&disk, path, access).unwrap();
            assert_eq!(table.stats().seed != 0, is_seeded);
            for (key, value) in records.iter().step_by(7) {
                assert_eq!(table.get(key).unwrap().as_deref(), Some(&value[..]));
            }
            let keys: Vec<&[u8]> = records.iter().map(|record| &record.0[..]).collect();
            let values = table.get_many(&keys).unwrap();
            assert!(values.iter().zip(&records).all(|(v, r)| v.as_deref() == Some(&r.1[..])));
            table.verify().unwrap();
        }
        Rng(SEED).shuffle(&mut records);
        assert!(bytes_of(1 << 16, 3, &records) == bytes, "other bytes from the same records");
    }
}
