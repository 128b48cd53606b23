//! Tests of the table. `model.rs` compares random tables with a map. `collisions.rs` has keys with
//! equal hashes, `crafted_keys.rs` keys crafted to collide. `corrupt.rs` and `forged.rs` damage
//! files, without and with valid checksums. `crash.rs` cuts the power and fails calls during
//! builds. `direct.rs` counts reads. `limits.rs` measures documented sizes and memory. `approx.rs`
//! tests the approximate table in all of these ways, `sharded.rs` tables in several files,
//! `scan_from.rs` pages, `ordered/` tables in key order.

mod approx;
mod basic;
mod block_search;
mod collisions;
mod corrupt;
mod crash;
mod crafted_keys;
mod direct;
mod forged;
mod index;
mod limits;
mod model;
mod ordered;
mod scan_from;
mod sharded;

use crate::Result;
use crate::disk::{DiskRef, SimDisk};
use crate::table::format::block::CHECKSUM;
use crate::table::simd::Avx2Search;
use crate::table::{Access, BuildOptions, BuildReport, Table, TableBuilder};
use std::path::Path;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// Path of a table.
const FILE: &str = "a.table";

/// Keys and values.
type Records = Vec<(Vec<u8>, Vec<u8>)>;

fn build(disk: &DiskRef, options: BuildOptions, records: &Records) -> Result<BuildReport> {
    let mut builder = TableBuilder::create_on(disk.clone(), Path::new(FILE), options)?;
    for (key, value) in records {
        builder.add(key, value)?;
    }
    builder.finish()
}

fn open(disk: &DiskRef, access: Access) -> Result<Table> {
    Table::open_on(disk, Path::new(FILE), access)
}

/// The bytes of a table of these records.
fn bytes_of(options: BuildOptions, records: &Records) -> Vec<u8> {
    let disk = SimDisk::new();
    build(&(disk.clone() as DiskRef), options, records).unwrap();
    let mut files = disk.files();
    assert_eq!(files.len(), 1, "temporary files are left: {:?}", files.keys());
    files.remove(Path::new(FILE)).unwrap()
}

/// A disk with this table.
fn disk_with(bytes: &[u8]) -> DiskRef {
    let disk = SimDisk::new();
    disk.write_raw(Path::new(FILE), bytes);
    disk
}

/// A number from the environment, or `default`.
fn number_from_env(name: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(name) else { return default };
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.unwrap_or_else(|_| panic!("{name}={text} is no number"))
}

/// CPU time of this thread, zero where the system does not report it. Unlike elapsed time it does
/// not depend on what else the machine does; a deadlock is ended by the limit of `run_child`.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Whether the AVX2 search is available and finds this key.
fn is_fast(table: &Table, key: &[u8]) -> bool {
    let (Some(avx2), Some(at)) = (table.reader.avx2, table.reader.locate(xxh3_64(key), key)) else {
        return false;
    };
    let body = &table.reader.memory(at.block).unwrap()[CHECKSUM..];
    avx2.find(body, at.tag, table.reader.fraction(at), key).split(body, key.len()).is_some()
}

/// Asserts that a suite covers the AVX2 search: that it finds all records of the table "paged", if
/// it is available.
fn assert_fast(name: &str, bytes: &[u8], records: &Records) {
    if name == "paged" && Avx2Search::detect().is_some() {
        let table = open(&disk_with(bytes), Access::Map).unwrap();
        assert!(records.iter().all(|(key, _)| is_fast(&table, key)));
    }
}
