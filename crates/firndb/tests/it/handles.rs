//! Changes, readers, damage and deadlines of a collection on a real disk.

use super::Place;
use firndb::search::query::{all, asc, eq};
use firndb::search::{
    Collection, Document, Field, PartitionBuilder, Query, Reader, Roles, Schema, Type, Value,
};
use firndb::{ErrorKind, Result};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// A partition of numbers, each with its double as payload.
fn numbers(range: std::ops::Range<i64>) -> Result<PartitionBuilder> {
    let mut builder =
        PartitionBuilder::new(Schema::new([Field::new("n", Type::I64, Roles::FULL)])?);
    for n in range {
        builder.add(&Document::new().set("n", n).payload((2 * n).to_string()))?;
    }
    Ok(builder)
}

/// All numbers of a reader in order, each checked against its payload.
fn read(reader: &Reader) -> Result<Vec<i64>> {
    let mut found = Vec::new();
    for hit in reader.search(&Query::new(all()).order_by(asc("n")))?.hits {
        let Some(Value::I64(n)) = reader.value(hit, "n")? else { panic!("no number") };
        assert_eq!(&*reader.payload(hit)?, (2 * n).to_string().as_bytes());
        found.push(n);
    }
    Ok(found)
}

fn put(collection: &Collection, parts: &[(&str, std::ops::Range<i64>)]) -> Result<Reader> {
    let mut change = collection.change()?;
    for (name, range) in parts {
        change.put(name, numbers(range.clone())?)?;
    }
    change.commit()
}

#[test]
fn readers_keep_their_set_and_other_handles_follow() -> Result<()> {
    let place = Place::new();
    let writer = Collection::create(&place.path("c"))?;
    let follower = Collection::open(&place.path("c"))?;
    put(&writer, &[("a", 0..5), ("b", 5..9)])?;
    assert!(follower.reader().is_empty());
    assert!(follower.refresh()?);
    assert!(!follower.refresh()?);
    let old = follower.reader();
    put(&writer, &[("a", 100..102)])?;
    assert!(follower.refresh()?);
    assert_eq!(read(&follower.reader())?, [5, 6, 7, 8, 100, 101]);
    assert_eq!(read(&old)?, (0..9).collect::<Vec<_>>());
    let mut change = writer.change()?;
    change.merge(&["a", "b"], "all")?;
    assert_eq!(read(&change.commit()?)?, [5, 6, 7, 8, 100, 101]);
    assert_eq!(writer.version(), 4);
    Ok(())
}

#[test]
fn what_is_dropped_or_refused_changes_nothing() -> Result<()> {
    let place = Place::new();
    let collection = Collection::create(&place.path("c"))?;
    put(&collection, &[("a", 0..3)])?;
    let mut dropped = collection.change()?;
    dropped.put("b", numbers(0..9)?)?;
    let other = Collection::open(&place.path("c"))?;
    assert_eq!(other.change().err().map(|e| e.kind()), Some(ErrorKind::Locked));
    drop(dropped);
    let mut change = collection.change()?;
    let strange = Schema::new([Field::new("n", Type::String, Roles::FULL)])?;
    change.put("b", PartitionBuilder::new(strange))?;
    assert_eq!(change.commit().err().map(|e| e.kind()), Some(ErrorKind::InvalidArgument));
    assert_eq!(read(&Collection::open(&place.path("c"))?.reader())?, [0, 1, 2]);
    let again = Collection::create(&place.path("c")).err().map(|e| e.kind());
    assert_eq!(again, Some(ErrorKind::AlreadyExists));
    Ok(())
}

#[test]
fn damage_is_found_and_named() -> Result<()> {
    let place = Place::new();
    let dir = place.path("c");
    put(&Collection::create(&dir)?, &[("a", 0..1000)])?;
    let mut checked = Vec::new();
    let report = firndb::verify(&dir, |file, _| checked.push(file.to_path_buf()))?;
    assert_eq!(report.files, 2);
    let is_partition = |file: &&PathBuf| file.to_string_lossy().ends_with(".part.firn");
    let file = checked.iter().find(is_partition).expect("a partition was checked");
    let seen = firndb::inspect(file)?;
    assert_eq!((seen.kind.as_str(), seen.items[0].name.as_str()), ("partition", "n"));
    let section = seen.sections.iter().find(|section| section.bytes > 0).expect("a section");
    let mut bytes = std::fs::read(file).expect("the partition can be read");
    bytes[section.offset as usize] ^= 1;
    std::fs::write(file, bytes).expect("the partition can be written");
    let error = firndb::verify(&dir, |_, _| {}).expect_err("a flipped bit");
    assert_eq!((error.kind(), error.file()), (ErrorKind::Corrupt, Some(file.as_path())));
    Ok(())
}

#[test]
fn queries_end_at_a_deadline_or_a_flag() -> Result<()> {
    let place = Place::new();
    let reader = put(&Collection::create(&place.path("c"))?, &[("a", 0..10)])?;
    let kind = |reader: Reader| reader.count(&eq("n", 3)).err().map(|e| e.kind());
    assert_eq!(kind(reader.clone()), None);
    assert_eq!(kind(reader.with_deadline(Instant::now())), Some(ErrorKind::Cancelled));
    let flag = Arc::new(AtomicBool::new(true));
    assert_eq!(kind(reader.with_cancel(flag)), Some(ErrorKind::Cancelled));
    Ok(())
}
