//! What a commit keeps and what it leaves: carried-over statistics equal new ones, no superfluous
//! file stays in the directory, and a small change costs few calls.

use super::{DIR, Store, create, open, store};
use crate::ErrorKind;
use crate::bytes::testing::Forged;
use crate::disk::{Disk, SimDisk};
use crate::search::format::manifest;
use crate::search::format::{part, section};
use crate::search::model::query::{all, eq};
use crate::search::stats::Statistics;
use crate::search::testing::Rng;
use crate::search::{Document, Field, PartitionBuilder, Reader, Roles, Schema, Type};
use std::collections::BTreeSet;
use std::path::PathBuf;

const SEED: u64 = 0x5EED_0007;

/// A partition of random documents. Only a `wide` one has the field `extra`.
fn builder(wide: bool, rng: &mut Rng, documents: usize) -> PartitionBuilder {
    let number = Field::new("number", Type::U64, Roles::FULL).nullable();
    let word = Field::new("word", Type::String, Roles::FILTERABLE).multi();
    let extra = Field::new("extra", Type::I64, Roles::FULL).nullable();
    let fields: Vec<Field> = [number, word].into_iter().chain(wide.then_some(extra)).collect();
    let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap());
    for _ in 0..documents {
        let mut document = Document::new();
        if rng.below(8) > 0 {
            document.push("number", rng.below(60) as u64);
        }
        for _ in 0..rng.below(3) {
            document.push("word", format!("w{}", rng.below(30)));
        }
        if wide && rng.below(2) > 0 {
            document.push("extra", rng.next() as i64);
        }
        builder.add(&document).unwrap();
    }
    builder
}

/// Checks that the statistics of every field equal those computed from the set, and whether they
/// were carried over.
fn check(reader: &Reader, carried: bool, what: &str) {
    let set = &reader.set;
    let computed = Statistics::new(set.schema.fields.len(), set.partitions.len());
    for field in 0..set.schema.fields.len() {
        assert_eq!(set.statistics.is_made(field), carried, "{what}, field {field}");
        let (kept, new) = (set.statistics.dump(set, field), computed.dump(set, field));
        assert_eq!(kept.unwrap(), new.unwrap(), "{what}, field {field}");
    }
}

#[test]
fn carried_over_statistics_equal_computed_ones() {
    let mut rng = Rng(SEED);
    println!("seed {SEED:#x}");
    let Store { collection, disk } = store();
    let other = open(&disk).unwrap();
    let mut change = collection.change().unwrap();
    for p in 0..40 {
        let size = rng.below(50);
        change.put(&format!("p{p:02}"), builder(p % 2 == 0, &mut rng, size)).unwrap();
    }
    change.commit().unwrap();
    other.refresh().unwrap();
    other.reader().warm().unwrap();
    let mut names: BTreeSet<String> = (0..40).map(|p| format!("p{p:02}")).collect();
    let mut carried = [0, 0];
    for round in 0..150 {
        let mut change = collection.change().unwrap();
        // The last rounds change too many partitions for statistics to be carried over.
        let most = if round < 100 { 3 } else { 30 };
        let mut others: Vec<String> = names.iter().cloned().collect();
        rng.shuffle(&mut others);
        let (replaced, removed, added) = (rng.below(most), rng.below(3), rng.below(4));
        let gone: Vec<String> = others.drain(..removed).collect();
        others.truncate(replaced);
        others.extend((0..added).map(|i| format!("p{:02}x{round}x{i}", rng.below(99))));
        for name in &others {
            let (size, wide) = (rng.below(50), rng.below(4) > 0);
            change.put(name, builder(wide, &mut rng, size)).unwrap();
        }
        gone.iter().for_each(|name| change.remove(name).unwrap());
        names.retain(|name| !gone.contains(name));
        names.extend(others.iter().cloned());
        change.commit().unwrap();
        let few = others.len() + gone.len() <= names.len().div_ceil(8);
        carried[usize::from(few)] += 1;
        assert_eq!(other.refresh().unwrap(), !others.is_empty() || !gone.is_empty());
        check(&other.reader(), few, &format!("round {round}"));
        other.reader().verify().unwrap();
    }
    assert!(carried.iter().all(|&rounds| rounds > 20), "{carried:?}");
}

/// A partition of documents with consecutive ids.
fn fill(from: u64, documents: u64) -> PartitionBuilder {
    let fields = [Field::new("id", Type::U64, Roles::FILTERABLE)];
    let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap());
    for id in from..from + documents {
        builder.add(&Document::new().set("id", id)).unwrap();
    }
    builder
}

#[test]
fn statistics_with_many_removed_values_are_computed_again() {
    let Store { collection, .. } = store();
    let mut change = collection.change().unwrap();
    for p in 0..4 {
        change.put(&format!("p{p}"), fill(p * 10, 10)).unwrap();
    }
    let reader = change.commit().unwrap();
    reader.warm().unwrap();
    let mut recomputed = 0;
    for round in 1..10 {
        let mut change = collection.change().unwrap();
        change.put("p1", fill(round * 20_000, 20_000)).unwrap();
        let reader = change.commit().unwrap();
        recomputed += usize::from(!reader.set.statistics.is_made(0));
        for id in [5, 15, round * 20_000 - 1, round * 20_000, round * 20_000 + 19_999] {
            let there = id < 10 || id >= round * 20_000;
            let count = reader.count(&crate::search::model::query::eq("id", id)).unwrap();
            assert_eq!(count, u64::from(there), "round {round}, id {id}");
        }
    }
    assert!((1..5).contains(&recomputed), "computed again {recomputed} times");
}

#[test]
fn statistics_of_a_field_with_too_many_values_are_not_carried_over() {
    let Store { collection, .. } = store();
    let mut change = collection.change().unwrap();
    for p in 0..8 {
        change.put(&format!("p{p}"), fill(p * 10, 10)).unwrap();
    }
    change.commit().unwrap().warm().unwrap();
    let step = |put: Option<u64>, made: bool| {
        let mut change = collection.change().unwrap();
        match put {
            Some(documents) => change.put("large", fill(1_000, documents)).unwrap(),
            None => change.remove("large").unwrap(),
        }
        let reader = change.commit().unwrap();
        assert_eq!(reader.set.statistics.is_made(0), made, "{put:?}");
        for (id, there) in [(79, true), (80, false), (1_099, put.is_some_and(|n| n > 99))] {
            let count = reader.count(&eq("id", id as u64)).unwrap();
            assert_eq!(count, u64::from(there), "{put:?}, id {id}");
        }
        reader.warm().unwrap();
    };
    // Too many in one partition, and too many in all partitions together.
    for many in [66_000, 65_500] {
        step(Some(100), true);
        step(Some(many), false);
        step(None, false);
    }
}

#[test]
fn a_damaged_partition_is_reported_by_the_queries_that_read_it() {
    let mut rng = Rng(SEED);
    let Store { collection, disk } = store();
    let mut change = collection.change().unwrap();
    for p in 0..8 {
        change.put(&format!("p{p}"), builder(false, &mut rng, 50)).unwrap();
    }
    change.commit().unwrap();
    let other = open(&disk).unwrap();
    other.reader().warm().unwrap();
    let mut change = collection.change().unwrap();
    change.put("new", builder(false, &mut rng, 50)).unwrap();
    change.commit().unwrap();
    let is_new = |path: &PathBuf| path.to_string_lossy().contains("/new.");
    let (path, bytes) = disk.files().into_iter().find(|(path, _)| is_new(path)).unwrap();
    let mut damaged = Forged(bytes);
    let keys = damaged.find(section(1, part::KEY_BYTES)).unwrap();
    damaged.0[keys.start] ^= 1;
    disk.write_raw(&path, &damaged.0);
    assert!(other.refresh().unwrap(), "the set was opened");
    let reader = other.reader();
    assert_eq!([0, 1].map(|field| reader.set.statistics.is_made(field)), [true, false]);
    assert!(reader.count(&eq("number", 3u64)).unwrap() > 0);
    let error = reader.count(&eq("word", "w1")).unwrap_err();
    assert_eq!((error.kind(), error.file()), (ErrorKind::Corrupt, Some(&*path)));
}

/// The names in the collection's directory.
fn names(disk: &SimDisk) -> Vec<String> {
    let inside = disk.files().into_keys().filter(|path| path.starts_with(DIR));
    inside.map(|path| path.file_name().unwrap().to_str().unwrap().to_string()).collect()
}

/// Asserts that the directory has the set, its partitions and the lock, and nothing else.
fn assert_tidy(disk: &SimDisk, partitions: usize, what: &str) {
    let names = names(disk);
    assert_eq!(names.len(), 2 + partitions, "{what}: {names:?}");
}

#[test]
fn the_next_change_removes_leftovers() {
    let mut rng = Rng(SEED);
    let Store { collection, disk } = store();
    let mut put = |collection: &crate::search::Collection, names: &[&str], commit: bool| {
        let mut change = collection.change().unwrap();
        for name in names {
            change.put(name, builder(false, &mut rng, 9)).unwrap();
        }
        if commit {
            change.commit().unwrap();
        }
    };
    put(&collection, &["a", "b"], true);
    put(&collection, &["a"], true);
    assert_tidy(&disk, 2, "a change that replaced a partition");
    put(&collection, &["a", "a", "c"], true);
    assert_tidy(&disk, 3, "a partition that was put twice");
    put(&collection, &["x"], false);
    put(&collection, &["b"], true);
    assert_tidy(&disk, 3, "a change that was dropped");
    let other = open(&disk).unwrap();
    put(&other, &["y"], false);
    put(&other, &["b"], true);
    assert_tidy(&disk, 3, "a change by another handle");
    put(&other, &["z"], false);
    put(&other, &["z"], false);
    put(&collection, &["b"], true);
    assert_tidy(&disk, 3, "leftovers of another handle");
    let mut change = collection.change().unwrap();
    change.put("d", builder(false, &mut Rng(1), 3)).unwrap();
    change.merge(&["a", "d"], "ad").unwrap();
    change.commit().unwrap();
    assert_tidy(&disk, 3, "a merge of a new partition");
    let mut change = collection.change().unwrap();
    change.remove("b").unwrap();
    change.commit().unwrap();
    assert_tidy(&disk, 2, "a removal");
}

/// The calls of the disk that the work makes.
fn calls(disk: &SimDisk, work: impl FnOnce()) -> Vec<String> {
    let before = disk.log().len();
    work();
    disk.log().split_off(before)
}

#[test]
fn a_small_change_syncs_four_times_and_lists_nothing() {
    let mut rng = Rng(SEED);
    let Store { collection, disk } = store();
    let other = open(&disk).unwrap();
    let mut replace = || {
        let mut change = collection.change().unwrap();
        change.put("a", builder(false, &mut rng, 9)).unwrap();
        change.commit().unwrap();
    };
    replace();
    assert!(other.refresh().unwrap());
    let changing = calls(&disk, &mut replace);
    let count = |calls: &[String], name: &str| calls.iter().filter(|c| c.contains(name)).count();
    assert_eq!(count(&changing, "sync"), 4, "{changing:?}");
    assert_eq!(count(&changing, "list"), 0, "{changing:?}");
    let switching = calls(&disk, || assert!(other.refresh().unwrap()));
    assert_eq!(count(&switching, "list"), 0, "{switching:?}");
    assert!(!other.refresh().unwrap());
}

#[test]
fn a_set_with_a_gap_in_its_number_is_found() {
    let Store { collection, disk } = store();
    let other = open(&disk).unwrap();
    let set = |n| PathBuf::from(DIR).join(manifest::file_name(n));
    // As in a copy that has only some of the sets.
    let bytes = disk.files()[&set(1)].clone();
    disk.create(&set(57)).unwrap().append(&bytes).unwrap();
    assert!(other.refresh().unwrap());
    assert_eq!(other.version(), 57);
    disk.remove(&set(1)).unwrap();
    let mut change = collection.change().unwrap();
    change.put("a", builder(false, &mut Rng(1), 3)).unwrap();
    change.commit().unwrap();
    assert_eq!((collection.version(), open(&disk).unwrap().version()), (58, 58));
    assert_tidy(&disk, 1, "after the change");
}

#[test]
fn an_older_copy_restored_over_the_directory_is_detected() {
    let mut rng = Rng(SEED);
    let Store { collection, disk } = store();
    let mut put = |collection: &crate::search::Collection, name: &str| {
        let mut change = collection.change().unwrap();
        change.put(name, builder(false, &mut rng, 9)).unwrap();
        change.commit().unwrap();
    };
    put(&collection, "a");
    let copy = disk.files();
    for name in ["a", "b"] {
        put(&collection, name);
    }
    for path in disk.files().into_keys().filter(|path| path.starts_with(DIR)) {
        disk.remove(&path).unwrap();
    }
    for (path, bytes) in &copy {
        disk.write_raw(path, bytes);
    }
    for error in [collection.refresh().map(|_| ()), collection.change().map(|_| ())] {
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failed);
        assert!(error.message().contains("open the collection anew"), "{error}");
    }
    assert_eq!(disk.files(), copy, "nothing is removed");
    let collection = open(&disk).unwrap();
    assert_eq!(collection.version(), 2);
    put(&collection, "c");
    assert_eq!(collection.reader().len(), 18);
}

#[test]
fn a_collection_with_a_published_set_is_not_withdrawn() {
    let Store { disk, collection } = store();
    let other = open(&disk).unwrap();
    let mut change = other.change().unwrap();
    change.put("a", builder(false, &mut Rng(SEED), 2)).unwrap();
    change.commit().unwrap();
    assert!(!collection.withdraw().unwrap());
    assert_eq!(open(&disk).unwrap().reader().len(), 2);
    let empty = SimDisk::new();
    assert!(create(&empty).unwrap().withdraw().unwrap());
    assert!(names(&empty).is_empty());
}

#[test]
fn an_emptied_collection_keeps_its_fields() {
    let Store { disk, collection } = store();
    let other = open(&disk).unwrap();
    let mut change = collection.change().unwrap();
    change.put("a", builder(false, &mut Rng(SEED), 9)).unwrap();
    change.put("b", builder(true, &mut Rng(SEED), 9)).unwrap();
    let schema = change.commit().unwrap().schema().clone();
    assert_eq!(schema.fields().len(), 3);
    let mut change = collection.change().unwrap();
    change.remove("a").unwrap();
    change.remove("b").unwrap();
    let reader = change.commit().unwrap();
    assert!(reader.is_empty());
    other.refresh().unwrap();
    for reader in [reader, collection.reader(), other.reader(), open(&disk).unwrap().reader()] {
        assert_eq!(*reader.schema(), schema);
        assert_eq!(reader.count(&eq("word", "w1")).unwrap(), 0);
        assert!(reader.count(&eq("words", "w1")).is_err());
        reader.verify().unwrap();
    }
    // The next partition may have other fields.
    let mut change = collection.change().unwrap();
    let field = Field::new("number", Type::String, Roles::STORED);
    change.put("a", PartitionBuilder::new(Schema::new([field]).unwrap())).unwrap();
    assert_eq!(change.commit().unwrap().schema().fields().len(), 1);
    assert_eq!(open(&disk).unwrap().reader().schema().fields().len(), 1);
}

#[test]
fn a_forged_schema_of_an_empty_set_is_refused_or_usable() {
    let Store { disk, collection } = store();
    for remove in [false, true] {
        let mut change = collection.change().unwrap();
        match remove {
            false => change.put("a", builder(true, &mut Rng(SEED), 9)).unwrap(),
            true => change.remove("a").unwrap(),
        }
        change.commit().unwrap();
    }
    let path = PathBuf::from(DIR).join(manifest::file_name(3));
    let whole = disk.files()[&path].clone();
    let (mut opened, mut refused) = (0, 0);
    for at in Forged(whole.clone()).section(1) {
        for bits in [1, 0x80, 0xff] {
            let mut file = Forged(whole.clone());
            file.0[at] ^= bits;
            file.seal();
            disk.write_raw(&path, &file.0);
            match open(&disk) {
                Ok(collection) => {
                    let reader = collection.reader();
                    assert_eq!(reader.count(&all()).unwrap(), 0);
                    reader.schema().to_toml();
                    opened += 1;
                }
                Err(error) => {
                    assert_eq!((error.kind(), error.file()), (ErrorKind::Corrupt, Some(&*path)));
                    refused += 1;
                }
            }
        }
    }
    assert!(opened > 0 && refused > 0, "{opened} opened, {refused} refused");
}
