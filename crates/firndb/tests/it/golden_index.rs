//! The golden index: an index of format version 1 can be opened, queried and updated by every later
//! version.
//!
//! `tests/golden/v1/index/` holds the directory of an index with two sources, a feed that was
//! updated, single changes, and a dirty partition. This command writes it:
//! `cargo test -p firndb --test it write_golden_index -- --ignored`. The tests compare the bytes of
//! the collection, but not of the log, which depend on the time.

use super::TestDir;
use firndb::indexer::{Indexer, Options, Partitioning};
use firndb::search::query::{all, asc};
use firndb::search::{Collection, Document, Field, Query, Reader, Roles, Schema, Type, Value};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const CHANGED: &str = "the bytes of the format changed: raise the version of the kind, leave \
    tests/golden/v1/index as it is, and add tests/golden/v2/index";

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1/index")
}

fn schema() -> Schema {
    let fields = [
        Field::new("town", Type::String, Roles::FULL).nullable(),
        Field::new("rooms", Type::U64, Roles::FULL),
        Field::new("tags", Type::String, Roles::FILTERABLE.with(Roles::STORED)).multi(),
    ];
    Schema::new(fields).unwrap()
}

fn partitioning() -> Partitioning {
    Partitioning::by_field_and_hash("town", 2)
}

fn home(n: u64, rooms: u64) -> Document {
    let mut home = Document::new().set("rooms", rooms).payload(format!("home {n}"));
    if !n.is_multiple_of(5) {
        home.push("town", ["Oslo", "Bergen", "Vard\u{f8}"][n as usize % 3]);
    }
    (0..n % 3).for_each(|tag| home.push("tags", format!("t{}", (n + tag) % 4)));
    home
}

fn key(n: u64) -> String {
    format!("home-{n}")
}

fn feed(
    homes: impl Iterator<Item = (u64, u64)>,
) -> impl Iterator<Item = firndb::Result<(String, Document)>> {
    homes.map(|(n, rooms)| Ok((key(n), home(n, rooms))))
}

/// Small segments and no background work, so that every run writes the same files.
fn options() -> Options {
    let log = firndb::log::Options::new().segment_bytes(16 << 10).background(false);
    Options::new().threads(1).log(log)
}

/// Writes the index. Does not publish the last change.
fn write(dir: &Path) {
    let mut indexer = Indexer::open(dir, schema(), partitioning(), options()).unwrap();
    let homes = |rooms: u64| (0..40).map(move |n| (n, n % rooms + 1));
    indexer.apply("agents", feed(homes(4))).unwrap();
    let others = (30..50).map(|n| (n, 9));
    indexer.apply("owners", feed(others)).unwrap();
    indexer.publish().unwrap();
    let fewer = homes(3).filter(|(n, _)| !n.is_multiple_of(7));
    indexer.apply("agents", feed(fewer)).unwrap();
    indexer.delete("owners", key(49)).unwrap();
    indexer.publish().unwrap();
    indexer.upsert("owners", key(100), &home(100, 1)).unwrap();
    indexer.close().unwrap();
}

/// The index that [`write`] leaves: the payload of each home and its number of rooms.
fn expected(published: bool) -> BTreeMap<String, u64> {
    let agents = (0..40).filter(|n: &u64| !n.is_multiple_of(7)).map(|n| (n, n % 3 + 1));
    let owners = (30..49).map(|n| (n, 9)).chain((!published).then_some((100, 1)));
    owners.chain(agents).map(|(n, rooms)| (format!("home {n}"), rooms)).collect()
}

fn homes(reader: &Reader) -> BTreeMap<String, u64> {
    reader.verify().unwrap();
    let page = reader.search(&Query::new(all()).order_by(asc("rooms"))).unwrap();
    let one = |&hit: &_| {
        let payload = String::from_utf8(reader.payload(hit).unwrap().into_owned()).unwrap();
        match reader.value(hit, "rooms").unwrap() {
            Some(Value::U64(rooms)) => (payload, rooms),
            other => panic!("{other:?}"),
        }
    };
    page.hits.iter().map(one).collect()
}

/// Copies a directory, since opening an index writes to it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => _ = fs::copy(entry.path(), to).unwrap(),
        }
    }
}

/// The partition files and the set of a collection.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let named = entries.map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        (name, fs::read(path).unwrap())
    });
    named.filter(|(name, _)| name.ends_with(".firn")).collect()
}

#[test]
fn the_golden_index_can_be_opened_and_updated() {
    let temp = TestDir::new();
    let dir = temp.path("index");
    copy(&golden(), &dir);
    assert_eq!(homes(&Collection::open(dir.join("collection")).unwrap().reader()), expected(true));
    let mut indexer = Indexer::open_existing(&dir, options()).unwrap();
    assert_eq!((indexer.schema(), indexer.partitioning()), (&schema(), &partitioning()));
    let status = indexer.status().unwrap();
    assert_eq!(status.sources, [("agents".to_string(), 34), ("owners".to_string(), 20)]);
    assert_eq!(status.dirty.len(), 1);
    indexer.publish().unwrap();
    assert_eq!(homes(&indexer.collection().reader()), expected(false));

    // The same feed changes nothing. An empty feed of the agents leaves the owners' homes.
    let again = (30..49).map(|n| (n, 9)).chain([(100, 1)]);
    let applied = indexer.apply("owners", feed(again));
    assert!(applied.unwrap().dirty.is_empty());
    let none = std::iter::empty::<firndb::Result<(String, Document)>>();
    indexer.apply("agents", none).unwrap();
    indexer.publish().unwrap();
    let left = homes(&indexer.collection().reader());
    assert!(left.len() == 20 && left["home 30"] == 9, "{left:?}");
    indexer.close().unwrap();
}

#[test]
fn the_same_feeds_give_the_golden_partitions() {
    let temp = TestDir::new();
    write(&temp.path("index"));
    let (new, old) = (files(&temp.path("index/collection")), files(&golden().join("collection")));
    assert_eq!(new.keys().collect::<Vec<_>>(), old.keys().collect::<Vec<_>>(), "{CHANGED}");
    assert!(new == old, "{CHANGED}");
}

#[test]
#[ignore = "writes the golden index"]
fn write_golden_index() {
    if golden().exists() {
        fs::remove_dir_all(golden()).unwrap();
    }
    write(&golden());
}
