//! A new collection replaces an open one, by a rename or by a symbolic link.

use super::{TestDir, refused};
use firndb::ErrorKind;
use firndb::search::{Collection, Document, Field, PartitionBuilder, Roles, Schema, Type};
use std::fs;
use std::path::Path;

/// A partition of this many documents.
fn builder(documents: u64) -> PartitionBuilder {
    let schema = Schema::new([Field::new("id", Type::U64, Roles::FULL)]).unwrap();
    let mut builder = PartitionBuilder::new(schema);
    (0..documents).for_each(|id| builder.add(&Document::new().set("id", id)).unwrap());
    builder
}

/// Puts a partition `a` of this many documents.
fn put(collection: &Collection, documents: u64) -> firndb::Result<()> {
    let mut change = collection.change()?;
    change.put("a", builder(documents))?;
    change.commit().map(drop)
}

fn create(dir: &Path, documents: u64) -> Collection {
    let collection = Collection::create(dir).unwrap();
    put(&collection, documents).unwrap();
    collection
}

#[test]
fn handles_follow_a_rename_and_changes_stay_in_their_directory() {
    let temp = TestDir::new();
    let [dir, new, old] = ["c", "c.new", "c.old"].map(|name| temp.path(name));
    let (handle, reader) = (create(&dir, 1), Collection::open(&dir).unwrap());
    create(&new, 2);
    let mut change = handle.change().unwrap();
    change.put("b", builder(10)).unwrap();
    fs::rename(&dir, &old).unwrap();
    fs::rename(&new, &dir).unwrap();
    refused(change.commit(), ErrorKind::Failed, &["moved, removed or replaced"]);
    assert_eq!(Collection::open(&dir).unwrap().reader().len(), 2);
    assert_eq!(Collection::open(&old).unwrap().reader().len(), 1);

    assert!(reader.refresh().unwrap(), "the set number is the same");
    assert_eq!((reader.reader().len(), handle.reader().len()), (2, 1));
    put(&handle, 3).unwrap();
    assert!(reader.refresh().unwrap() && !handle.refresh().unwrap());
    assert_eq!((reader.reader().len(), handle.reader().len()), (3, 3));
    assert_eq!(Collection::open(&old).unwrap().reader().len(), 1);

    // After a change, no handle keeps the lock of either directory.
    put(&reader, 4).unwrap();
    put(&Collection::open(&old).unwrap(), 5).unwrap();
    put(&handle, 6).unwrap();
    assert_eq!(Collection::open(&dir).unwrap().reader().len(), 6);
}

#[test]
fn handles_follow_a_symbolic_link() {
    let temp = TestDir::new();
    let link = temp.path("current");
    let versions = [("v1", 1), ("v2", 2)].map(|(name, documents)| {
        create(&temp.path(name), documents);
        temp.path(name)
    });
    std::os::unix::fs::symlink(&versions[0], &link).unwrap();
    let handle = Collection::open(&link).unwrap();
    assert!(!handle.refresh().unwrap());
    fs::remove_file(&link).unwrap();
    refused(handle.refresh(), ErrorKind::NotFound, &[]);
    std::os::unix::fs::symlink(&versions[1], &link).unwrap();
    assert!(handle.refresh().unwrap());
    assert_eq!(handle.reader().len(), 2);
    put(&handle, 7).unwrap();
    let lengths = versions.map(|dir| Collection::open(dir).unwrap().reader().len());
    assert_eq!(lengths, [1, 7]);
}
