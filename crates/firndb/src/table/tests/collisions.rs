//! Keys whose hashes are equal or share a bin. The hash of these tests is the first eight bytes of
//! the key.

use super::*;
use crate::bytes::int::u64_at;
use crate::table::build::hashing::Hashing;
use crate::table::format::block::tag;
use crate::table::format::directory::{bin_of, slots_for};
use crate::table::{Compression, Duplicates, KeyFilter};
use crate::testing::Rng;
use crate::{Error, ErrorKind};

/// Limit of keys per bin in these tests: never reached.
const CROWD: usize = 1 << 17;

/// Records with chosen hashes, with which their keys start.
type Hashed = Vec<(u64, Vec<u8>, Vec<u8>)>;

fn build_hashed(options: BuildOptions, records: &Hashed) -> Result<DiskRef> {
    let disk: DiskRef = SimDisk::new();
    let hash = Hashing::new(|key, _| u64_at(key, 0));
    let path = Path::new(FILE);
    let mut builder = TableBuilder::create_hashed(disk.clone(), path, options, hash, CROWD)?;
    for (_, key, value) in records {
        builder.add(key, value)?;
    }
    builder.finish()?;
    Ok(disk)
}

fn get(table: &Table, hash: u64, key: &[u8]) -> Option<Vec<u8>> {
    let value = if table.reader.may_contain(hash) {
        table.reader.get_hashed(hash, key).unwrap()
    } else {
        None
    };
    value.map(|value| value.into_owned())
}

/// Builds a table, and checks that all records are found, absent keys of the same hashes are not,
/// and iteration is in order.
fn check(options: BuildOptions, records: &Hashed) -> Table {
    let disk = build_hashed(options.clone(), records).unwrap();
    let bytes = disk.map(Path::new(FILE)).unwrap().to_vec();
    let mut shuffled = records.clone();
    Rng(1).shuffle(&mut shuffled);
    let other = BuildOptions { memory_limit: 1 << 14, threads: 3, ..options };
    let again = build_hashed(other, &shuffled).unwrap().map(Path::new(FILE)).unwrap().to_vec();
    assert!(bytes == again, "other bytes from the same records");
    for access in [Access::Map, Access::Resident, Access::Buffered] {
        let mut table = open(&disk, access).unwrap();
        if access == Access::Resident {
            assert!(table.reader.index.is_none(), "an index by other hashes");
            table.reader.index = table.reader.resident_index(|key| u64_at(key, 0)).unwrap();
            let frames = matches!(options.compression, Compression::Blocks { .. });
            assert_eq!(table.reader.index.is_none(), frames);
        }
        // A get compares all records of its hash, so this takes quadratic time.
        for (hash, key, value) in records.iter().step_by(1 + records.len() / 300) {
            assert_eq!(get(&table, *hash, key).as_ref(), Some(value));
            assert_eq!(get(&table, *hash, &[key, &b"?"[..]].concat()), None);
        }
        for (hash, ..) in records.iter().take(100) {
            assert_eq!(get(&table, *hash, b"absent"), None);
            assert_eq!(get(&table, hash.wrapping_add(1), b"absent"), None);
        }
    }
    let table = open(&disk, Access::Map).unwrap();
    table.reader.directory.verify().unwrap();
    let mut sorted = records.clone();
    sorted.sort();
    let all: Records = table.iter().collect::<Result<_>>().unwrap();
    let expected: Records = sorted.into_iter().map(|(_, key, value)| (key, value)).collect();
    assert!(all == expected, "records are lost or out of order");
    table
}

fn record(i: usize, hash: u64, value: usize) -> (u64, Vec<u8>, Vec<u8>) {
    let key = [&hash.to_le_bytes()[..], format!("key {i}").as_bytes()].concat();
    (hash, key, vec![i as u8; value])
}

fn every_form() -> impl Iterator<Item = BuildOptions> {
    let compressions =
        [Compression::None, Compression::Records { level: 1 }, Compression::Blocks { level: 1 }];
    compressions.into_iter().flat_map(|compression| {
        [KeyFilter::None, KeyFilter::Bits8].map(|filter| BuildOptions {
            compression,
            filter,
            ..BuildOptions::default()
        })
    })
}

#[test]
fn many_keys_with_one_hash() {
    for hash in [0, 1, u64::MAX, 0x8000_0000_0000_0000] {
        for options in every_form() {
            check(options, &(0..500).map(|i| record(i, hash, 5)).collect());
        }
    }
}

/// Gets search in the block if more keys share a hash than the index holds, or if keys are too long
/// for it.
#[test]
fn large_records_with_one_hash() {
    let mut records: Hashed = (0..700).map(|i| record(i, 1 << 50, 600)).collect();
    records.extend((700..900).map(|i| record(i, (i as u64) << 52, 600)));
    records.extend((900..950).map(|i| {
        let (hash, key, value) = record(i, (i as u64) << 52, 600);
        (hash, [key, vec![b'k'; 255]].concat(), value)
    }));
    for options in every_form() {
        let plain = options.compression == Compression::None;
        assert_eq!(check(options, &records).stats().index_bytes > 0, plain);
    }
}

#[test]
fn a_few_keys_per_hash() {
    let mut rng = Rng(3);
    for options in every_form() {
        let hashes: Vec<u64> = (0..500).map(|_| rng.next()).collect();
        let records = (0..2_000).map(|i| record(i, hashes[i * i % 500], i % 50)).collect();
        check(options, &records);
    }
}

#[test]
fn bin_larger_than_a_block_is_not_split() {
    // One large bin among ordinary records: its block grows, the neighbouring blocks do not.
    let mut rng = Rng(4);
    let (n, crowd) = (5_000, 700);
    let slots = slots_for((n + crowd) as u64);
    let middle = 0x7000_0000_0000_0000u64;
    let mut records: Hashed = (0..n).map(|i| record(i, rng.next(), 20)).collect();
    // Different hashes of one bin.
    let near: Vec<u64> = (0..crowd as u64).map(|i| middle + i).collect();
    let at = bin_of(middle, slots);
    assert!(near.iter().all(|&hash| bin_of(hash, slots) == at));
    records.extend((n..).zip(near).map(|(i, hash)| record(i, hash, 20)));
    for options in every_form() {
        let table = check(options, &records);
        let stats = table.stats();
        assert!(stats.longest_block_bytes > 4096 || stats.compression != Compression::None);
    }
}

#[test]
fn keys_with_one_tag_are_distinguished() {
    let mut rng = Rng(5);
    let hashes = std::iter::repeat_with(|| rng.next()).filter(|&hash| tag(hash) == 77);
    let records = hashes.take(300).enumerate().map(|(i, hash)| record(i, hash, 3)).collect();
    every_form().for_each(|options| drop(check(options, &records)));
}

#[test]
fn block_with_more_than_65536_records() {
    let records = (0..66_000).map(|i| record(i, 42, 0)).collect();
    let table = check(BuildOptions::default(), &records);
    assert_eq!(table.stats().blocks, 1);
    // Four-byte lengths: one long value among short ones.
    let mut records: Hashed = (0..300).map(|i| record(i, 42, 3)).collect();
    records.push(record(300, 42, 70_000));
    check(BuildOptions::default(), &records);
}

/// One key is added many times among other keys, in more bytes than are sorted at once.
#[test]
fn key_added_many_times_stays_within_memory() {
    let mut records: Hashed =
        (0..400).map(|i| record(i, (i as u64 * 0x9e37_79b9) << 20, 30)).collect();
    let hot = |i: u64| (7, record(0, 7, 0).1, i.to_le_bytes().to_vec());
    // Another key of the same hash.
    records.push(record(1_000, 7, 50));
    records.extend((0..3_000).map(hot));
    Rng(3).shuffle(&mut records);
    let values: Vec<u64> =
        records.iter().filter(|r| r.1 == hot(0).1).map(|r| u64_at(&r.2, 0)).collect();
    for memory in [1 << 14, 1 << 16, 1 << 26] {
        let options = |duplicates| BuildOptions {
            duplicates,
            memory_limit: memory,
            threads: 2,
            ..BuildOptions::default()
        };
        for (duplicates, stays) in
            [(Duplicates::First, values[0]), (Duplicates::Last, values[2_999])]
        {
            let disk = build_hashed(options(duplicates), &records).unwrap();
            let table = open(&disk, Access::Map).unwrap();
            table.reader.directory.verify().unwrap();
            assert_eq!(table.len(), 402);
            assert_eq!(get(&table, 7, &hot(0).1), Some(stays.to_le_bytes().to_vec()));
            assert_eq!(get(&table, 7, &record(1_000, 7, 0).1), Some(vec![1_000u64 as u8; 50]));
        }
        let error = build_hashed(options(Duplicates::Error), &records).err().unwrap();
        let at = |nth: usize| records.iter().enumerate().filter(|r| r.1.1 == hot(0).1).nth(nth);
        let (first, second) = (at(0).unwrap().0 + 1, at(1).unwrap().0 + 1);
        let places = format!("by record {first} and by record {second}:");
        assert!(error.to_string().contains(&places), "{error}; {places}");
    }
}

#[test]
fn duplicates_are_equal_keys_not_equal_hashes() {
    let twice: Hashed = [1, 2, 3, 2].map(|i| record(i, 9, i)).into();
    let error: Error = build_hashed(BuildOptions::default(), &twice).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    for words in ["key 2'", "record 2", "record 4"] {
        assert!(error.message().contains(words), "{error}");
    }
    let options = BuildOptions { duplicates: Duplicates::Last, ..BuildOptions::default() };
    let table = open(&build_hashed(options, &twice).unwrap(), Access::Map).unwrap();
    assert_eq!(table.len(), 3);
}
