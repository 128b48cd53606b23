//! Tests of the catalog on the simulated disk: published versions are complete, byte by byte, after
//! any crash and with any concurrent publishers and clean-ups.
//!
//! - `basic.rs`: publishing, history, rollback, pins, clean-up, and rejected arguments;
//! - `manifest.rs`: the text of manifests, golden and damaged in every byte;
//! - `cache.rs`: foreign directories, full disks, and corrupt files of a reader;
//! - `reader.rs`: switching, bad versions, limits, and faulty origins (`faulty.rs`);
//! - `warm.rs`: what is made before a version becomes current;
//! - `hint.rs`: readers of origins that cannot list;
//! - `race.rs`: publishers, clean-ups and pins between each other's calls;
//! - `sharded.rs`: sharded tables, published from a directory;
//! - `staged.rs`: files that are staged on several machines, and their text;
//! - `staged_crash.rs`: power loss and failing calls while files are staged and published;
//! - `share.rs`: files that readers expose, and origins with several sources;
//! - `crash.rs`: power loss and failing calls at every operation of every change.

mod basic;
mod cache;
mod crash;
mod faulty;
mod hint;
mod manifest;
mod race;
mod reader;
mod share;
mod sharded;
mod staged;
mod staged_crash;
mod warm;

use crate::Result;
use crate::catalog::newest::numbers;
use crate::catalog::{Catalog, PublishOptions, Published, Version};
use crate::disk::{Disk, DiskRef, SimDisk};
use crate::search::{Collection, Document, Field, PartitionBuilder, Roles, Schema, Type};
use crate::table::{BuildOptions, TableBuilder, shard_of};
use std::path::Path;
use std::sync::Arc;

const CATALOG: &str = "/catalog";
const COLLECTION: &str = "/collection";
const TABLE: &str = "/tables/words.table";

fn catalog(disk: &Arc<SimDisk>) -> Catalog {
    Catalog::open_on(disk.clone() as DiskRef, Path::new(CATALOG))
}

fn partition(name: &str, version: i64) -> PartitionBuilder {
    let field = Field::new("version", Type::I64, Roles::FULL);
    let mut builder = PartitionBuilder::new(Schema::new([field]).unwrap());
    for n in 0..4 {
        let document = Document::new().set("version", version);
        builder.add(&document.payload(format!("{name} {version} {n}"))).unwrap();
    }
    builder
}

/// Creates a collection with partitions `a`, `b` and `c`, whose documents have version 1.
fn make_collection(disk: &Arc<SimDisk>) {
    let disk = disk.clone() as DiskRef;
    let collection = Collection::create_on(disk, Path::new(COLLECTION)).unwrap();
    let mut change = collection.change().unwrap();
    for name in ["a", "b", "c"] {
        change.put(name, partition(name, 1)).unwrap();
    }
    change.commit().unwrap();
}

/// Replaces a partition by other documents.
fn replace(disk: &Arc<SimDisk>, name: &str, version: i64) {
    let collection = Collection::open_on(disk.clone() as DiskRef, Path::new(COLLECTION)).unwrap();
    let mut change = collection.change().unwrap();
    change.put(name, partition(name, version)).unwrap();
    change.commit().unwrap();
}

/// Creates a table whose values contain the version.
fn make_table(disk: &Arc<SimDisk>, version: u32) {
    disk.create_dir_all(Path::new("/tables")).unwrap();
    let options = BuildOptions { threads: 1, ..BuildOptions::default() };
    let mut builder =
        TableBuilder::create_on(disk.clone() as DiskRef, Path::new(TABLE), options).unwrap();
    for n in 0..20 {
        builder.add(format!("key {n}").as_bytes(), format!("{version}").as_bytes()).unwrap();
    }
    builder.finish().unwrap();
}

/// Keys of a sharded table.
const KEYS: u32 = 60;

/// Creates a table with the keys of one shard, whose values contain the version.
fn make_shard(disk: &Arc<SimDisk>, path: &Path, (shard, shards): (usize, usize), version: u32) {
    disk.create_dir_all(path.parent().unwrap()).unwrap();
    let options = BuildOptions { threads: 1, ..BuildOptions::default() };
    let mut builder = TableBuilder::create_on(disk.clone() as DiskRef, path, options).unwrap();
    for key in (0..KEYS).map(|n| format!("key {n}")) {
        if shard_of(&key, shards) == shard {
            builder.add(key.as_bytes(), format!("{version}").as_bytes()).unwrap();
        }
    }
    builder.finish().unwrap();
}

fn publish(disk: &Arc<SimDisk>, name: &str, path: &str) -> Result<Published> {
    catalog(disk).publish(name, Path::new(path), &PublishOptions::default())
}

/// Checks the files of a version; an error describes what is wrong.
fn check(disk: &Arc<SimDisk>, version: &Version) -> std::result::Result<(), String> {
    for file in &version.files {
        let path = Path::new(CATALOG).join(version.object(file));
        let bytes = disk.map(&path).map_err(|e| format!("{}: {e}", file.name))?;
        if blake3::hash(&bytes).to_hex().as_str() != file.blake3 || bytes.len() as u64 != file.bytes
        {
            return Err(format!("{} of version {} is damaged", file.name, version.number));
        }
    }
    Ok(())
}

/// Checks all files of all versions of a name. Returns the numbers.
fn check_all(disk: &Arc<SimDisk>, name: &str) -> std::result::Result<Vec<u64>, String> {
    let catalog = catalog(disk);
    let numbers = numbers(&catalog, name).map_err(|e| e.to_string())?;
    for &number in &numbers {
        let version = catalog.version(name, number).map_err(|e| format!("{number}: {e:?}"))?;
        check(disk, &version)?;
    }
    Ok(numbers)
}
