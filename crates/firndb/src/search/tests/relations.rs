//! Continuations of partitions, and names of merged partitions: documents of a name are replaced
//! and removed together, never duplicated, and never removed with those of another name.

use super::{DIR, Store, open, store};
use crate::ErrorKind::{AlreadyExists, Corrupt, InvalidArgument, NotFound};
use crate::Result;
use crate::bytes::testing::Forged;
use crate::search::format::manifest;
use crate::search::model::query::{and, eq};
use crate::search::testing::Rng;
use crate::search::{
    Change, Collection, Document, Field, MAX_PARTITIONS, MergePolicy, PartitionBuilder, Reader,
    Roles, Schema, Type,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

const SEED: u64 = 0x5EED_0049;

/// Documents of one version of a name.
fn builder(name: &str, version: u64, documents: u64) -> PartitionBuilder {
    let fields = [
        Field::new("name", Type::String, Roles::FULL),
        Field::new("version", Type::U64, Roles::FULL),
    ];
    let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap());
    for _ in 0..documents {
        builder.add(&Document::new().set("name", name).set("version", version)).unwrap();
    }
    builder
}

/// Puts documents under a name, as a partition and its continuations.
fn put(change: &mut Change, name: &str, version: u64, parts: &[u64]) -> Result<()> {
    change.put(name, builder(name, version, parts[0]))?;
    for &documents in &parts[1..] {
        change.extend(name, builder(name, version, documents))?;
    }
    Ok(())
}

fn change(collection: &Collection, work: impl FnOnce(&mut Change) -> Result<()>) -> Result<()> {
    let mut change = collection.change()?;
    work(&mut change)?;
    change.commit().map(drop)
}

fn count(reader: &Reader, name: &str, version: u64) -> u64 {
    reader.count(&and([eq("name", name), eq("version", version)])).unwrap()
}

fn names(collection: &Collection) -> Vec<String> {
    collection.reader().partitions().into_iter().map(|part| part.name).collect()
}

#[test]
fn continuations_are_replaced_and_removed_with_their_partition() {
    let Store { collection, disk } = store();
    change(&collection, |change| {
        put(change, "main.2", 1, &[1])?; // Another name, though it looks like a continuation.
        put(change, "main", 1, &[2, 3, 4])
    })
    .unwrap();
    assert_eq!(names(&collection), ["main", "main.2", "main.3", "main.4"]);
    let refused = change(&collection, |change| put(change, "main.3", 2, &[1])).unwrap_err();
    assert_eq!(refused.kind(), AlreadyExists);
    assert!(refused.message().contains("replace `main`"), "{refused}");
    let absent = change(&collection, |change| change.extend("x", builder("x", 1, 1)).map(drop));
    assert_eq!(absent.unwrap_err().kind(), NotFound);

    // A handle that reads the set from the disk knows the continuations.
    let other = open(&disk).unwrap();
    change(&other, |change| put(change, "main", 2, &[5])).unwrap();
    assert_eq!(names(&other), ["main", "main.2"]);
    assert_eq!((count(&other.reader(), "main", 2), other.reader().len()), (5, 6));

    change(&other, |change| put(change, "main", 3, &[1, 1])).unwrap();
    // A merge includes the continuations, and the name has one partition again.
    change(&other, |change| change.merge(&["main"], "main")).unwrap();
    assert_eq!(names(&other), ["main", "main.2"]);
    change(&other, |change| put(change, "main", 4, &[1, 1, 1])).unwrap();
    change(&other, |change| change.remove("main")).unwrap();
    assert_eq!(names(&other), ["main.2"]);
    assert!(collection.refresh().unwrap());
    assert_eq!(count(&collection.reader(), "main.2", 1), 1);
}

#[test]
fn a_merged_name_cannot_be_put_or_removed() {
    let Store { collection, disk } = store();
    let all = ["a", "b", "c"];
    change(&collection, |change| all.iter().try_for_each(|name| put(change, name, 1, &[2])))
        .unwrap();
    let policy =
        MergePolicy { at_least: 2, unchanged_for: Duration::ZERO, ..MergePolicy::default() };
    collection.compact(&policy, |_| {}).unwrap();
    assert_eq!(names(&collection), ["a.to.c"]);
    let other = open(&disk).unwrap();
    for name in all {
        for collection in [&collection, &other] {
            let refused = change(collection, |change| put(change, name, 2, &[1])).unwrap_err();
            assert_eq!(refused.kind(), AlreadyExists);
            assert!(refused.message().contains("merged into `a.to.c`"), "{refused}");
            let absent = change(collection, |change| change.remove(name)).unwrap_err();
            assert_eq!(absent.kind(), NotFound);
        }
    }
    // The same holds if the merged partition has the name of one of its parts.
    change(&other, |change| change.merge(&["a.to.c"], "b")).unwrap();
    for refused in [
        change(&other, |change| put(change, "b", 2, &[1])),
        change(&other, |change| change.remove("b")),
    ] {
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), AlreadyExists);
        assert!(refused.message().contains("another name first"), "{refused}");
    }
    change(&other, |change| change.merge(&["b"], "all")).unwrap();
    change(&other, |change| put(change, "all", 2, &[1])).unwrap();
    change(&other, |change| put(change, "b", 2, &[1])).unwrap();
    assert_eq!(names(&other), ["all", "b"]);
    change(&other, |change| {
        change.clear();
        put(change, "a", 3, &[1])
    })
    .unwrap();
    assert_eq!(names(&other), ["a"]);
}

#[test]
fn a_compaction_leaves_continuations_to_their_partition() {
    let Store { collection, .. } = store();
    change(&collection, |change| {
        put(change, "a", 1, &[1])?;
        put(change, "b", 1, &[1, 1, 1])?;
        put(change, "c", 1, &[1])
    })
    .unwrap();
    let policy =
        MergePolicy { at_least: 2, unchanged_for: Duration::ZERO, ..MergePolicy::default() };
    collection.compact(&policy, |_| {}).unwrap();
    assert_eq!(names(&collection), ["a", "b", "c"]);
    change(&collection, |change| put(change, "b", 2, &[1])).unwrap();
    assert_eq!(collection.reader().len(), 3);
}

/// The version of each name, and the number of its documents.
type Model = BTreeMap<String, (u64, u64)>;

/// A few names, some of which look like continuations of others.
const NAMES: [&str; 7] = ["a", "a.2", "b", "b.2", "b.3", "c", "d"];

fn assert_matches(reader: &Reader, model: &Model, what: &str) {
    let of_name = |name: &str| reader.count(&eq("name", name)).unwrap();
    for (name, (version, documents)) in model {
        assert_eq!(count(reader, name, *version), *documents, "{what}: {name}");
        assert_eq!(of_name(name), *documents, "{what}: {name} has documents of several versions");
    }
    let all: u64 = model.values().map(|(_, documents)| documents).sum();
    assert_eq!(reader.len(), all, "{what}");
}

#[test]
fn random_changes_lose_and_duplicate_no_document() {
    let mut rng = Rng(SEED);
    let policy =
        MergePolicy { at_least: 2, unchanged_for: Duration::ZERO, ..MergePolicy::default() };
    let (mut done, mut refused) = (0, 0);
    for round in 0..40 {
        let Store { mut collection, disk } = store();
        let mut model = Model::new();
        for step in 0..25u64 {
            let what = format!("seed {SEED}, round {round}, step {step}");
            let name = *rng.pick(&NAMES);
            let known = model.contains_key(name);
            let before = collection.reader();
            let (outcome, removes, added) = match rng.below(8) {
                0..=3 => {
                    let parts: Vec<u64> = (0..1 + rng.below(3)).map(|n| n as u64 + 1).collect();
                    let outcome = change(&collection, |change| put(change, name, step, &parts));
                    (outcome, true, Some((step, parts.iter().sum())))
                }
                4 => (change(&collection, |change| change.remove(name)), true, None),
                5 => (collection.compact(&policy, |_| {}), false, None),
                _ => {
                    let mut of = names(&collection);
                    of.retain(|_| rng.below(2) == 0);
                    let of: Vec<&str> = of.iter().map(String::as_str).collect();
                    (change(&collection, |change| change.merge(&of, name)), false, None)
                }
            };
            match outcome {
                Ok(()) => done += 1,
                Err(_) => {
                    refused += 1;
                    assert_matches(&collection.reader(), &model, &what);
                    continue;
                }
            }
            if removes && !known && before.partitions().iter().any(|part| part.name == name) {
                // A merged partition or a continuation under this name: its documents are removed,
                // too.
                let reader = collection.reader();
                model.retain(|other, _| reader.count(&eq("name", other.as_str())).unwrap() > 0);
            } else if removes {
                model.remove(name);
            }
            if let Some(documents) = added {
                model.insert(name.to_string(), documents);
            }
            if rng.below(4) == 0 {
                collection = open(&disk).unwrap();
            }
            assert_matches(&collection.reader(), &model, &what);
        }
    }
    assert!(done > 300 && refused > 50, "{done} done, {refused} refused");
}

#[test]
fn forged_relations_are_refused_or_usable() {
    let Store { collection, disk } = store();
    change(&collection, |change| {
        put(change, "a", 1, &[1, 1])?;
        put(change, "b", 1, &[1])?;
        put(change, "c", 1, &[1])?;
        change.merge(&["b", "c"], "bc")
    })
    .unwrap();
    let path = PathBuf::from(DIR).join(manifest::file_name(2));
    let whole = disk.files()[&path].clone();
    let (mut opened, mut refused) = (0, 0);
    for at in Forged(whole.clone()).find(3).unwrap() {
        for bits in [1, 2, 0x80, 0xff] {
            let mut file = Forged(whole.clone());
            file.0[at] ^= bits;
            file.seal();
            disk.write_raw(&path, &file.0);
            match open(&disk) {
                Ok(collection) => {
                    assert_eq!(collection.reader().len(), 4);
                    let _ = change(&collection, |change| put(change, "a", 2, &[1]));
                    disk.write_raw(&path, &whole);
                    opened += 1;
                }
                Err(error) => {
                    assert_eq!((error.kind(), error.file()), (Corrupt, Some(&*path)));
                    refused += 1;
                }
            }
        }
    }
    assert!(opened > 0 && refused > 0, "{opened} opened, {refused} refused");
}

#[test]
fn partitions_beyond_the_limit_are_refused_before_publication() {
    let Store { collection, .. } = store();
    let mut change = collection.change().unwrap();
    for n in 0..MAX_PARTITIONS {
        change.put(&format!("p{n}"), builder("n", 1, 1)).unwrap();
    }
    let refused = change.put("one-more", builder("n", 1, 1)).unwrap_err();
    assert_eq!(refused.kind(), InvalidArgument);
    assert!(refused.message().contains("at most"), "{refused}");
    // Replacing a partition is possible, and so is adding one after a removal.
    change.put("p7", builder("n", 2, 1)).unwrap();
    change.remove("p8").unwrap();
    change.put("one-more", builder("n", 2, 1)).unwrap();
    assert_eq!(change.commit().unwrap().partitions().len(), MAX_PARTITIONS);
}
