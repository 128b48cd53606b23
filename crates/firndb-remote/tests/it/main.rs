//! Tests of remote catalogs through the public API, over the loopback interface.
//!
//! - `http.rs`: a web server that serves the directory of a catalog;
//! - `relay.rs`: a reader that serves its files;
//! - `peers.rs`: readers that fetch from each other, and faulty peers (`bad.rs`);
//! - `s3.rs`: an object store, simulated by the server moto, which `moto.rs` starts;
//! - `s3_pages.rs`: more objects than one page of a list contains;
//! - `network.rs`: an object store over a faulty network;
//! - `hdfs.rs`: HDFS, which `minidfs.rs` starts on request;
//! - `race.rs`: concurrent publishers, local and remote.

mod alike;
mod bad;
#[cfg(feature = "hdfs")]
mod hdfs;
mod http;
#[cfg(feature = "hdfs")]
mod minidfs;
mod moto;
mod network;
mod peers;
mod race;
mod relay;
mod s3;
mod s3_pages;

use firndb::Result;
use firndb::catalog::{Catalog, CatalogReader, PublishOptions, Published, ReaderOptions};
use firndb::search::{Collection, Document, Field, PartitionBuilder, Roles, Schema, Type};
use firndb::table::{BuildOptions, TableBuilder};
use firndb_remote::{ObjectOrigin, Patience};
use moto::Moto;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A temporary directory for a test, removed at the end.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("remote-{}-{number}", std::process::id());
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&dir).unwrap();
        Place(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Creates a table with a unique name whose key `version` has its number, with this many
    /// incompressible bytes.
    fn table(&self, version: u64, bytes: usize) -> PathBuf {
        let path = self.path(&format!("{version}.table"));
        let options = BuildOptions::new().threads(1);
        let mut builder = TableBuilder::create_with(&path, options).unwrap();
        builder.add(b"version", version.to_string().as_bytes()).unwrap();
        let mut random = Random(version + 1);
        for n in 0..bytes.div_ceil(1000) {
            let value: Vec<u8> = (0..125).flat_map(|_| random.next().to_le_bytes()).collect();
            builder.add(format!("key {n}").as_bytes(), &value).unwrap();
        }
        builder.finish().unwrap();
        path
    }

    /// Puts new partitions with these names and this number into the collection.
    fn collection(&self, names: &[&str], number: u64) -> PathBuf {
        let path = self.path("collection");
        let collection = Collection::open(&path).or_else(|_| Collection::create(&path)).unwrap();
        let mut change = collection.change().unwrap();
        for name in names {
            let field = Field::new("number", Type::U64, Roles::FULL);
            let mut builder = PartitionBuilder::new(Schema::new([field]).unwrap());
            for n in 0..50 {
                let document = Document::new().set("number", number);
                builder.add(&document.payload(format!("{name} {number} {n}"))).unwrap();
            }
            change.put(name, builder).unwrap();
        }
        change.commit().unwrap();
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A reproducible sequence of pseudo-random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        self.0 ^ (self.0 >> 31)
    }
}

/// BLAKE3 in the form of manifests.
fn hash_of(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

fn publish(catalog: &Catalog, name: &str, path: &Path) -> Result<Published> {
    catalog.publish(name, path, &PublishOptions::default())
}

fn read(catalog: &Catalog, name: &str, cache: &Path) -> Result<CatalogReader> {
    catalog.reader(name, cache, ReaderOptions::default())
}

/// The value of the key `version` in the open table.
fn version_in(reader: &CatalogReader) -> u64 {
    let now = reader.current();
    let value = now.table().unwrap().get(b"version").unwrap().unwrap().into_owned();
    String::from_utf8(value).unwrap().parse().unwrap()
}

/// A location in an object store.
fn origin(moto: &Moto, bucket: &str, prefix: &str) -> ObjectOrigin {
    let variables = moto::variables(moto.port);
    ObjectOrigin::s3_with(variables, bucket, prefix, Patience::default()).unwrap()
}
