//! Damaged tables with valid checksums, as an attacker would make them: no panic, no hang, no huge
//! allocation. The answers are unspecified.
//!
//! The tables are read in a child process, so that its memory can be measured and its duration
//! limited.

use super::*;
use crate::bytes::int::{Encoder, put_u32};
use crate::bytes::testing::{Forged, damage};
use crate::table::format::block::checksum;
use crate::table::format::index::CHECKED_PART;
use crate::table::format::section;
use crate::table::{Compression, KeyFilter, Order};
use crate::testing::{Rng, memory, run_child};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

const SEED: u64 = 0x0905_7AB1;
/// Most memory that reading a damaged table may take in addition to an undamaged one.
const MEMORY_KIB: u64 = 128 << 10;
fn tables() -> Vec<(&'static str, Records, Vec<u8>)> {
    let build = |order, name, n: usize, value: usize, compression, filter| {
        let record = |i: usize| {
            (format!("key {i:04}").into_bytes(), format!("value {i} ").repeat(value).into_bytes())
        };
        let records: Records = (0..n).map(record).collect();
        let options = BuildOptions { order, compression, filter, ..BuildOptions::default() };
        let bytes = bytes_of(options, &records);
        assert_fast(name, &bytes, &records);
        (name, records, bytes)
    };
    let level = 1;
    let table = |name, n, value, compression, filter| {
        build(Order::Hash, name, n, value, compression, filter)
    };
    vec![
        build(Order::Key, "ordered", 1500, 3, Compression::None, KeyFilter::Bits8),
        build(
            Order::Key,
            "ordered blocks",
            900,
            30,
            Compression::Blocks { level },
            KeyFilter::None,
        ),
        table("paged", 1500, 3, Compression::None, KeyFilter::Bits16),
        table("packed", 200, 30, Compression::None, KeyFilter::None),
        table("indexed", 90, 70, Compression::None, KeyFilter::None),
        table("records", 200, 30, Compression::Records { level }, KeyFilter::Bits8),
        table("blocks", 300, 30, Compression::Blocks { level }, KeyFilter::None),
    ]
}

/// Offset and length of each block of an undamaged table.
fn extents(bytes: &[u8]) -> Vec<(usize, usize)> {
    let table = open(&disk_with(bytes), Access::Map).unwrap();
    let extent = |block| table.reader.extent(block).unwrap();
    (0..table.reader.meta.blocks).map(|n| (extent(n).0 as usize, extent(n).1)).collect()
}

/// Recomputes the checksums of an index.
pub(crate) fn recompute_checks(file: &mut Forged) {
    let (index, checks) = (file.find(section::INDEX), file.find(section::INDEX_CHECKS));
    let (Some(index), Some(checks)) = (index, checks) else { panic!("there is no index") };
    let mut sums = Encoder::default();
    file.0[index].chunks(CHECKED_PART).for_each(|part| sums.u64(xxh3_64(part)));
    file.0[checks].copy_from_slice(&sums.0);
}

/// A table with one damaged section, and with all checksums recomputed.
fn forge(rng: &mut Rng, whole: &[u8], blocks: &[(usize, usize)]) -> (Vec<u8>, String) {
    let mut file = Forged(whole.to_vec());
    let i = rng.below(file.entries());
    let id = file.id(i);
    let mut range = file.section(i);
    if id == section::BLOCKS {
        // Headers are a small part of the bytes of a block, but damage to them has more effects.
        let (at, len) = *rng.pick(blocks);
        let len = if rng.below(2) == 0 { len.min(120) } else { len };
        range = at..at + len;
    }
    damage(rng, &mut file.0[range.clone()]);
    for (number, &(at, len)) in (0..).zip(blocks) {
        if id == section::BLOCKS && range.start == at {
            let sum = checksum(&file.0[at..at + len], number);
            put_u32(&mut file.0, at, sum);
        }
    }
    if id == section::INDEX {
        recompute_checks(&mut file);
    }
    file.seal();
    (file.0, format!("section {id}, bytes {range:?}"))
}

/// Reads a table in every way. Returns the numbers of answers and of errors.
fn ask(bytes: &[u8], records: &Records, access: Access) -> (usize, usize) {
    let (mut answered, mut refused) = (0, 0);
    let mut count = |ok: bool| if ok { answered += 1 } else { refused += 1 };
    let table = match open(&disk_with(bytes), access) {
        Ok(table) => table,
        Err(_) => return (0, 1),
    };
    // Twice, because the index is used once blocks were checked.
    for (key, _) in [records, records].into_iter().flatten().step_by(1 + records.len() / 60) {
        count(table.get(key).is_ok());
        count(table.contains(&key[1..]).is_ok());
    }
    let keys: Vec<&[u8]> = records.iter().map(|(key, _)| &key[..]).collect();
    count(table.get_many(&keys).is_ok());
    count(table.read_many(&keys, |_, _| -> Result<()> { Ok(()) }).is_ok());
    count(table.iter().all(|record| record.is_ok()));
    if table.is_ordered() {
        for (key, _) in records.iter().step_by(1 + records.len() / 9) {
            let all = |range: crate::table::Range| range.take(4_000).all(|record| record.is_ok());
            count(table.range(&key[..]..).is_ok_and(all));
            count(table.prefix(&key[..6]).is_ok_and(|range| all(range.reversed())));
        }
    }
    count(table.verify().is_ok());
    count(table.metadata().is_ok() && table.value_schema().is_ok());
    table.stats();
    (answered, refused)
}

/// The child process of `forged_tables_are_safe_to_read`.
#[test]
#[ignore = "started by forged_tables_are_safe_to_read"]
fn read_forged_tables() {
    let rng = &mut Rng(SEED);
    let (mut answered, mut refused, mut longest) = (0, 0, Duration::ZERO);
    let damages = number_from_env("FIRNDB_DAMAGES", 2_500);
    for (name, records, whole) in tables() {
        let mut same = Forged(whole.clone());
        let (old, new) = same.seal();
        assert!(old == new && same.0 == whole, "the seal of an undamaged table is its own");
        let blocks = extents(&whole);
        for access in [Access::Map, Access::Resident, Access::Buffered] {
            assert_eq!(ask(&whole, &records, access).1, 0);
        }
        let before = memory("VmPeak:");
        for n in 0..damages {
            let (bytes, what) = forge(rng, &whole, &blocks);
            let access = *rng.pick(&[Access::Map, Access::Resident, Access::Buffered]);
            let label = format!("{name}, {access:?}, damage {n} of {SEED:#x}: {what}");
            let start = cpu_time();
            let done = catch_unwind(AssertUnwindSafe(|| ask(&bytes, &records, access)));
            let (ok, errors) = done.unwrap_or_else(|_| panic!("{label}"));
            (answered, refused) = (answered + ok, refused + errors);
            longest = longest.max(cpu_time().saturating_sub(start));
            assert!(longest < Duration::from_secs(10), "{label}: too much work");
            let grown = memory("VmPeak:").zip(before).map_or(0, |(now, before)| now - before);
            assert!(grown < MEMORY_KIB, "{label}: {grown} KiB");
        }
    }
    println!("{answered} answers, {refused} errors, longest {longest:?}, no panic");
    assert!(answered > 0 && refused > 0);
}

#[test]
fn forged_tables_are_safe_to_read() {
    run_child("table::tests::forged::read_forged_tables");
}
