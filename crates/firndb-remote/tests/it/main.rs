//! Catalogs far away, as their users see them: through the public API, over the loopback.
//!
//! - `http.rs`: a web server that shows the directory of a catalog;
//! - `relay.rs`: a reader that serves its files;
//! - `peers.rs`: readers that help each other, and peers that do wrong (`bad.rs`);
//! - `s3.rs`: an object store, for which the server moto stands in (`moto.rs` starts it);
//! - `s3_pages.rs`: more objects in it than it lists at once;
//! - `network.rs`: the same, over a network that misbehaves;
//! - `hdfs.rs`: HDFS, which `minidfs.rs` starts if it is asked to;
//! - `race.rs`: publishers that want the same version at the same time, here and far away.

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

/// A directory of its own for a test, removed at the end.
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

    /// A table under a name of its own whose key `version` says which it is, with so many bytes
    /// that nothing can compress.
    fn table(&self, version: u64, bytes: usize) -> PathBuf {
        let path = self.path(&format!("{version}.table"));
        let options = BuildOptions { threads: 1, ..BuildOptions::default() };
        let mut builder = TableBuilder::create(&path, options).unwrap();
        builder.add(b"version", version.to_string().as_bytes()).unwrap();
        let mut random = Random(version + 1);
        for n in 0..bytes.div_ceil(1000) {
            let value: Vec<u8> = (0..125).flat_map(|_| random.next().to_le_bytes()).collect();
            builder.add(format!("key {n}").as_bytes(), &value).unwrap();
        }
        builder.finish().unwrap();
        path
    }

    /// Puts new partitions of these names, and the number, into the collection.
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

/// Numbers that look random, the same ones each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        self.0 ^ (self.0 >> 31)
    }
}

/// BLAKE3 as a manifest states it.
fn hash_of(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

fn publish(catalog: &Catalog, name: &str, path: &Path) -> Result<Published> {
    catalog.publish(name, path, &PublishOptions::default())
}

fn read(catalog: &Catalog, name: &str, cache: &Path) -> Result<CatalogReader> {
    catalog.reader(name, cache, ReaderOptions::default())
}

/// What the table that is open says of itself.
fn version_in(reader: &CatalogReader) -> u64 {
    let now = reader.current();
    let value = now.table().unwrap().get(b"version").unwrap().unwrap().into_owned();
    String::from_utf8(value).unwrap().parse().unwrap()
}

/// A place in an object store.
fn origin(moto: &Moto, bucket: &str, prefix: &str) -> ObjectOrigin {
    let variables = moto::variables(moto.port);
    ObjectOrigin::s3_with(variables, bucket, prefix, Patience::default()).unwrap()
}
