//! Tests of the table. `model.rs` compares random tables with a map; `collide.rs` has keys whose
//! hashes are equal, and `crowd.rs` keys that were crafted for that; `corrupt.rs` and `hostile.rs`
//! damage files, without and with checksums that fit; `crash.rs` stops builds and fails them at
//! every call; `direct.rs` counts reads; `approx.rs` does all that with the approximate table;
//! `figures.rs` holds what is promised of tables that are built: of their filters, sizes and
//! memory, and of the lines that gets ask for.

mod approx;
mod basic;
mod block_search;
mod collide;
mod corrupt;
mod crash;
mod crowd;
mod direct;
mod figures;
mod hostile;
mod index;
mod model;

use crate::Result;
use crate::disk::{DiskRef, SimDisk};
use crate::table::format::block::CHECKSUM;
use crate::table::simd::Avx2Search;
use crate::table::{Access, BuildOptions, BuildReport, Table, TableBuilder};
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// Where tables of tests are.
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

/// The bytes of a table.
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

/// A number of the environment, or `default`.
fn number_from_env(name: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(name) else { return default };
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.unwrap_or_else(|_| panic!("{name}={text} is no number"))
}

/// Whether the fast search for small records, if the processor has it, finds this key.
fn is_fast(table: &Table, key: &[u8]) -> bool {
    let (Some(avx2), Some(at)) = (table.reader.avx2, table.reader.locate(xxh3_64(key))) else {
        return false;
    };
    let body = &table.reader.memory(at.block).unwrap()[CHECKSUM..];
    avx2.find(body, at.tag, table.reader.fraction(at), key).split(body, key.len()).is_some()
}

/// Makes sure that a suite asks the fast search as well: that it finds each record of the table of
/// this name, wherever there is one.
fn assert_fast(name: &str, bytes: &[u8], records: &Records) {
    if name == "paged" && Avx2Search::detect().is_some() {
        let table = open(&disk_with(bytes), Access::Map).unwrap();
        assert!(records.iter().all(|(key, _)| is_fast(&table, key)));
    }
}
