//! Publishing through symbolic links, from other file systems, and of other things than files:
//! every published version consists of regular files with the bytes of the manifest, or publishing
//! fails.

use super::{TestDir, names, refused as fails};
use firndb::catalog::{Catalog, PublishOptions, Published, ReaderOptions};
use firndb::search::{Collection, Document, Field, PartitionBuilder, Roles, Schema, Type};
use firndb::table::{BuildOptions, TableBuilder};
use firndb::{ErrorKind, Result};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A table whose key `version` has this value.
fn table(path: &Path, version: &str) {
    let options = BuildOptions::new().threads(1);
    let mut builder = TableBuilder::create_with(path, options).unwrap();
    builder.add(b"version", version.as_bytes()).unwrap();
    builder.finish().unwrap();
}

fn partition(version: u64) -> PartitionBuilder {
    let field = Field::new("version", Type::U64, Roles::FULL);
    let mut builder = PartitionBuilder::new(Schema::new([field]).unwrap());
    builder.add(&Document::new().set("version", version)).unwrap();
    builder
}

fn publish(catalog: &Catalog, path: impl AsRef<Path>) -> Result<Published> {
    catalog.publish("name", path, &PublishOptions::default())
}

/// Checks that each object of the newest version is a regular file of the recorded length and
/// checksum, and that a new reader opens the version.
fn check(temp: &TestDir, catalog: &Catalog) {
    let newest = catalog.newest("name").unwrap();
    for file in &newest.files {
        let found = fs::symlink_metadata(temp.path("catalog").join(newest.object(file))).unwrap();
        assert!(found.is_file(), "{} is a {:?}", file.name, found.file_type());
        assert_eq!(found.len(), file.bytes);
    }
    catalog.verify(&newest, |_| ()).unwrap();
    let left = names(&temp.path("catalog/name/files"));
    assert!(!left.iter().any(|name| name.ends_with(".tmp")), "{left:?}");
    let cache = temp.path(&format!("cache-{}", newest.number));
    let reader = catalog.reader("name", &cache, ReaderOptions::default()).unwrap();
    assert_eq!(reader.current().version(), &newest);
    for name in names(&cache) {
        assert!(fs::symlink_metadata(cache.join(&name)).unwrap().is_file(), "{name}");
    }
}

/// The value of `version` in the newest version of the table.
fn value(temp: &TestDir, catalog: &Catalog) -> String {
    let newest = catalog.newest("name").unwrap().number;
    let cache = temp.path(&format!("value-{newest}"));
    let reader = catalog.reader("name", cache, ReaderOptions::default()).unwrap();
    let value = reader.current().table().unwrap().get(b"version").unwrap().unwrap().into_owned();
    String::from_utf8(value).unwrap()
}

#[test]
fn a_table_published_through_a_link_stays_after_the_link_changes() {
    let temp = TestDir::new();
    let catalog = Catalog::create(temp.path("catalog")).unwrap();
    fs::create_dir(temp.path("builds")).unwrap();
    table(&temp.path("builds/1.table"), "1");
    table(&temp.path("builds/2.table"), "2");
    let current = temp.path("current.table");
    symlink("builds/1.table", &current).unwrap();
    let first = publish(&catalog, &current).unwrap();
    assert_eq!(first.version.files[0].name, "current.table");
    check(&temp, &catalog);
    assert_eq!(value(&temp, &catalog), "1");
    // The link moves to the next build, and the old one is removed. The published version stays.
    fs::remove_file(&current).unwrap();
    symlink(temp.path("builds/2.table"), &current).unwrap();
    fs::remove_file(temp.path("builds/1.table")).unwrap();
    publish(&catalog, &current).unwrap();
    check(&temp, &catalog);
    assert_eq!(value(&temp, &catalog), "2");
    catalog.verify(&catalog.version("name", 1).unwrap(), |_| ()).unwrap();
    // A chain of links through a linked directory.
    table(&temp.path("builds/3.table"), "3");
    symlink("builds", temp.path("live")).unwrap();
    symlink("live/3.table", temp.path("a")).unwrap();
    symlink("a", temp.path("b")).unwrap();
    publish(&catalog, temp.path("b")).unwrap();
    check(&temp, &catalog);
    assert_eq!(value(&temp, &catalog), "3");
    let again = publish(&catalog, temp.path("live/3.table")).unwrap();
    assert_eq!((again.version.number, again.files_sent), (4, 0));
}

#[test]
fn linked_collections_and_linked_partitions_are_published() {
    let temp = TestDir::new();
    let catalog = Catalog::create(temp.path("catalog")).unwrap();
    temp.collection([("a", partition(1)), ("b", partition(1))]);
    symlink("collection", temp.path("link")).unwrap();
    symlink("link", temp.path("current")).unwrap();
    publish(&catalog, temp.path("current")).unwrap();
    check(&temp, &catalog);
    // The partitions are links to another directory.
    let collection = Collection::open(temp.path("collection")).unwrap();
    let mut change = collection.change().unwrap();
    change.put("a", partition(2)).unwrap();
    change.commit().unwrap();
    fs::create_dir(temp.path("store")).unwrap();
    for (n, name) in names(&temp.path("collection")).into_iter().enumerate() {
        if name.ends_with(".part.firn") {
            let (from, to) = (temp.path("collection").join(name), temp.path(&format!("store/{n}")));
            fs::rename(&from, &to).unwrap();
            symlink(&to, &from).unwrap();
        }
    }
    let second = publish(&catalog, temp.path("current")).unwrap();
    assert_eq!(second.files_sent, 2);
    fs::remove_dir_all(temp.path("store")).unwrap();
    check(&temp, &catalog);
    // The links are dangling now.
    fails(publish(&catalog, temp.path("collection")), ErrorKind::Corrupt, &["missing"]);
    assert_eq!(catalog.versions("name").unwrap(), [1, 2]);
}

#[test]
fn anything_but_a_file_is_refused_without_blocking() {
    let temp = TestDir::new();
    let catalog = Catalog::create(temp.path("catalog")).unwrap();
    let pipe = temp.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(temp.path("s")).unwrap();
    symlink("pipe", temp.path("to-pipe")).unwrap();
    let others = ["pipe", "s", "to-pipe"].map(|name| temp.path(name));
    for path in others.into_iter().chain([PathBuf::from("/dev/zero")]) {
        fails(publish(&catalog, path), ErrorKind::InvalidArgument, &["regular file", "table's"]);
    }
    symlink("nowhere", temp.path("dangling")).unwrap();
    symlink("dangling", temp.path("chain")).unwrap();
    for name in ["dangling", "chain"] {
        fails(publish(&catalog, temp.path(name)), ErrorKind::NotFound, &["symbolic link"]);
    }
    symlink("loop", temp.path("loop")).unwrap();
    fails(publish(&catalog, temp.path("loop")), ErrorKind::Io, &["follow"]);
    fs::create_dir(temp.path("empty")).unwrap();
    fails(publish(&catalog, temp.path("empty")), ErrorKind::NotFound, &["no collection"]);
    fails(publish(&catalog, temp.path("missing")), ErrorKind::NotFound, &[]);
    // A pipe instead of a partition.
    let (_, _) = temp.collection([("a", partition(1))]);
    let all = names(&temp.path("collection"));
    let part = all.iter().find(|name| name.starts_with("a.")).unwrap();
    fs::remove_file(temp.path("collection").join(part)).unwrap();
    fs::rename(&pipe, temp.path("collection").join(part)).unwrap();
    fails(publish(&catalog, temp.path("collection")), ErrorKind::Io, &["regular file"]);
    assert_eq!(names(&temp.path("catalog")), [""; 0]);
}

#[test]
fn files_of_another_file_system_are_copied() {
    let temp = TestDir::new();
    let catalog = Catalog::create(temp.path("catalog")).unwrap();
    let here = fs::metadata(&temp.0).unwrap().dev();
    let other = Path::new("/dev/shm");
    if !fs::metadata(other).is_ok_and(|found| found.is_dir() && found.dev() != here) {
        println!(
            "skipped: files_of_another_file_system_are_copied: /dev/shm is not another file system"
        );
        return;
    }
    let path = other.join(format!("firndb-links-{}.table", std::process::id()));
    table(&path, "far");
    symlink(&path, temp.path("current")).unwrap();
    let published = publish(&catalog, temp.path("current"));
    let again = publish(&catalog, &path);
    fs::remove_file(&path).unwrap();
    published.unwrap();
    assert_eq!(again.unwrap().files_sent, 0);
    check(&temp, &catalog);
    assert_eq!(value(&temp, &catalog), "far");
}

/// A published object was replaced by a symbolic link, truncated or removed: the next publication
/// does not reuse it.
#[test]
fn a_damaged_object_is_not_reused() {
    for damage in ["link", "cut", "gone"] {
        let temp = TestDir::new();
        let catalog = Catalog::create(temp.path("catalog")).unwrap();
        table(&temp.path("words.table"), "1");
        let first = publish(&catalog, temp.path("words.table")).unwrap().version;
        let object = temp.path("catalog").join(first.object(&first.files[0]));
        let whole = fs::read(&object).unwrap();
        fs::remove_file(&object).unwrap();
        match damage {
            "link" => symlink(temp.path("words.table"), &object).unwrap(),
            "cut" => fs::write(&object, &whole[1..]).unwrap(),
            _ => {}
        }
        let second = publish(&catalog, temp.path("words.table")).unwrap();
        assert_eq!((second.files_sent, second.version.files[0].since), (1, 2), "{damage}");
        check(&temp, &catalog);
        let options = PublishOptions::default();
        fails(catalog.rollback("name", 9, &options), ErrorKind::NotFound, &[]);
        table(&temp.path("other.table"), "2");
        publish(&catalog, temp.path("other.table")).unwrap();
        let kind = if damage == "gone" { ErrorKind::NotFound } else { ErrorKind::Corrupt };
        fails(catalog.rollback("name", 1, &options), kind, &[]);
        catalog.rollback("name", 2, &options).unwrap();
        check(&temp, &catalog);

        // An interrupted attempt left something under the name of the next object.
        let next = temp.path("catalog").join(format!(
            "name/files/{:020}-{}",
            5,
            catalog.version("name", 3).unwrap().files[0].blake3
        ));
        match damage {
            "link" => symlink("nowhere", &next).unwrap(),
            "cut" => fs::write(&next, b"x").unwrap(),
            _ => fs::copy(temp.path("other.table"), &next).map(drop).unwrap(),
        }
        publish(&catalog, temp.path("other.table")).unwrap();
        check(&temp, &catalog);
        // A directory cannot be replaced.
        let next =
            temp.path("catalog").join(format!("name/files/{:020}-{}", 6, first.files[0].blake3));
        fs::create_dir(&next).unwrap();
        publish(&catalog, temp.path("words.table")).unwrap_err();
        assert_eq!(catalog.newest("name").unwrap().number, 5);
    }
}

/// The table is replaced by renames while it is published: each version is one of the tables,
/// complete.
#[test]
fn a_table_replaced_during_publication_is_published_complete() {
    let temp = TestDir::new();
    let catalog = Catalog::create(temp.path("catalog")).unwrap();
    let options = BuildOptions::new().threads(1);
    for version in ["1", "2"] {
        let mut builder = TableBuilder::create_with(temp.path(version), options.clone()).unwrap();
        builder.add(b"version", version.as_bytes()).unwrap();
        for n in 0..2000 {
            builder.add(format!("key {n}").as_bytes(), [b'x'; 100]).unwrap();
        }
        builder.finish().unwrap();
    }
    let (words, next) = (temp.path("words.table"), temp.path("next"));
    fs::copy(temp.path("1"), &words).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let (mut published, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in (1..).take_while(|_| !done.load(std::sync::atomic::Ordering::Relaxed)) {
                fs::copy(temp.path(&format!("{}", 1 + n % 2)), &next).unwrap();
                fs::rename(&next, &words).unwrap();
            }
        });
        for _ in 0..60 {
            match publish(&catalog, &words) {
                Ok(_) => published += 1,
                Err(e) if e.kind() == ErrorKind::NotFound => refused += 1,
                Err(e) => panic!("{e}"),
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    println!("{published} published, {refused} refused");
    assert!(published > 0);
    let versions = catalog.versions("name").unwrap();
    assert_eq!(versions.len(), published);
    for number in versions {
        catalog.verify(&catalog.version("name", number).unwrap(), |_| ()).unwrap();
    }
}
