//! Another directory replaces that of an open collection, as in a deployment by rename.
//!
//! A handle that relied on path and set number alone would miss the new collection, and a change
//! that was begun on the old one would remove the partitions of the new one.

use super::{DIR, create, open};
use crate::disk::{DiskRef, SimDisk};
use crate::search::{
    Collection, Document, Field, Filter, MergePolicy, PartitionBuilder, Query, Roles, Schema, Type,
};
use crate::{ErrorKind, Result};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const NEW: &str = "/collection.new";
const OLD: &str = "/collection.old";

/// The renames that replace the old collection by the new one.
fn swap() -> [(&'static Path, &'static Path); 2] {
    [(Path::new(DIR), Path::new(OLD)), (Path::new(NEW), Path::new(DIR))]
}

fn builder(ids: std::ops::Range<u64>) -> PartitionBuilder {
    let schema = Schema::new([Field::new("id", Type::U64, Roles::FULL)]).unwrap();
    let mut builder = PartitionBuilder::new(schema);
    ids.for_each(|id| builder.add(&Document::new().set("id", id)).unwrap());
    builder
}

fn put(collection: &Collection, name: &str, ids: std::ops::Range<u64>) -> Result<()> {
    let mut change = collection.change()?;
    change.put(name, builder(ids))?;
    change.commit().map(|_| ())
}

fn ids(collection: &Collection) -> Vec<u64> {
    let reader = collection.reader();
    reader.verify().unwrap();
    let mut ids = Vec::new();
    let each = |hit| {
        ids.push(reader.value(hit, "id").unwrap().unwrap().to_string().parse().unwrap());
        ControlFlow::Continue(())
    };
    reader.for_each(&Query::new(Filter::All), each).unwrap();
    ids.sort_unstable();
    ids
}

/// A collection with the partitions `a` and `b`. Names and set number do not depend on `first`, the
/// first id.
fn collection(disk: &Arc<SimDisk>, dir: &str, first: u64) -> Collection {
    let collection = Collection::create_on(disk.clone() as DiskRef, Path::new(dir)).unwrap();
    let mut change = collection.change().unwrap();
    change.put("a", builder(first..first + 2)).unwrap();
    change.put("b", builder(first + 2..first + 4)).unwrap();
    change.commit().unwrap();
    collection
}

fn open_at(disk: &Arc<SimDisk>, dir: &str) -> Result<Collection> {
    Collection::open_on(disk.clone() as DiskRef, Path::new(dir))
}

/// A disk with both collections, and a handle of the old one.
fn both() -> (Arc<SimDisk>, Collection) {
    let disk = SimDisk::new();
    let old = collection(&disk, DIR, 0);
    collection(&disk, NEW, 100);
    (disk, old)
}

const OLD_IDS: [u64; 4] = [0, 1, 2, 3];
const NEW_IDS: [u64; 4] = [100, 101, 102, 103];

#[test]
fn a_refresh_opens_the_new_directory() {
    let (disk, handle) = both();
    let before = handle.reader();
    disk.move_dirs(&swap());
    assert!(handle.refresh().unwrap(), "the set number is the same");
    assert!(!handle.refresh().unwrap());
    assert_eq!(ids(&handle), NEW_IDS);
    assert_eq!(before.len(), 4);
    // Back to the old directory: a lower set number there is no damage.
    put(&handle, "c", 104..105).unwrap();
    disk.move_dirs(&[(Path::new(DIR), Path::new("/later"))]);
    assert_eq!(handle.refresh().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(handle.reader().len(), 5, "an error does not change the handle");
    disk.move_dirs(&[(Path::new(OLD), Path::new(DIR))]);
    assert!(handle.refresh().unwrap());
    assert_eq!((ids(&handle), handle.version()), (OLD_IDS.to_vec(), 2));
}

#[test]
fn a_change_after_a_swap_with_a_copy_goes_to_the_copy() {
    let disk = SimDisk::new();
    let handle = collection(&disk, DIR, 0);
    collection(&disk, NEW, 0);
    disk.move_dirs(&swap());
    assert!(!handle.refresh().unwrap(), "the content is the same");
    put(&handle, "c", 7..8).unwrap();
    assert_eq!(ids(&open(&disk).unwrap()), [0, 1, 2, 3, 7]);
    assert_eq!(ids(&open_at(&disk, OLD).unwrap()), OLD_IDS);
}

#[test]
fn an_overwritten_set_of_the_same_number_is_detected() {
    // As by tools that copy files into the existing directory.
    let (disk, handle) = both();
    let new: Vec<_> = disk.files().into_iter().filter(|(path, _)| path.starts_with(NEW)).collect();
    for (path, bytes) in new {
        disk.write_raw(&Path::new(DIR).join(path.file_name().unwrap()), &bytes);
    }
    let other = open(&disk).unwrap();
    assert!(handle.refresh().unwrap());
    assert_eq!(ids(&handle), NEW_IDS);
    put(&handle, "c", 104..105).unwrap();
    assert!(other.refresh().unwrap());
    assert_eq!(ids(&other), [100, 101, 102, 103, 104]);
}

/// The ids in both collections after `work` on the handle, when the directories are swapped before
/// operation `n` of the work, and whether the work succeeded. `None` if the work has fewer
/// operations.
fn swapped_at(n: usize, work: fn(&Collection) -> Result<()>) -> Option<(bool, [Vec<u64>; 2])> {
    let (disk, handle) = both();
    let first = disk.ops();
    disk.move_dirs_at(first + n, &swap());
    let result = work(&handle);
    if open_at(&disk, OLD).is_err() {
        assert!(result.is_ok(), "the directories were not swapped: {result:?}");
        return None;
    }
    if let Err(error) = &result {
        assert_eq!(error.kind(), ErrorKind::Failed, "operation {n}: {error}");
    }
    // New handles and the old one find no lock and no damage.
    let both = [OLD, DIR].map(|dir| ids(&open_at(&disk, dir).unwrap()));
    handle.refresh().unwrap();
    assert_eq!(ids(&handle), both[1], "operation {n}");
    put(&handle, "z", 900..901).unwrap();
    let other = open_at(&disk, OLD).unwrap();
    put(&other, "z", 901..902).unwrap();
    assert_eq!(ids(&other).len(), both[0].len() + 1, "operation {n}");
    assert_eq!(ids(&open(&disk).unwrap()).len(), both[1].len() + 1, "operation {n}");
    Some((result.is_ok(), both))
}

#[test]
fn a_change_during_a_swap_is_made_in_one_directory_or_refused() {
    let with = |ids: &[u64]| {
        let mut ids = [ids, &[50]].concat();
        ids.sort_unstable();
        ids
    };
    let (mut in_old, mut in_new, mut refused) = (0, 0, 0);
    for n in 0.. {
        let outcome = swapped_at(n, |collection| put(collection, "a2", 50..51));
        let Some((done, found)) = outcome else { break };
        match (done, found) {
            (true, found) if found == [with(&OLD_IDS), NEW_IDS.to_vec()] => in_old += 1,
            (true, found) if found == [OLD_IDS.to_vec(), with(&NEW_IDS)] => in_new += 1,
            (false, found) if found == [OLD_IDS, NEW_IDS] => refused += 1,
            (done, found) => panic!("operation {n}: {done}, {found:?}"),
        }
    }
    assert!(in_old > 0 && in_new > 0 && refused > 5, "{in_old} {in_new} {refused}");
}

#[test]
fn a_compaction_during_a_swap_loses_no_document() {
    let mut swaps = 0;
    for n in 0.. {
        let outcome = swapped_at(n, |collection| {
            let policy = MergePolicy {
                at_least: 2,
                unchanged_for: Duration::ZERO,
                ..MergePolicy::default()
            };
            collection.compact(&policy, |_| {})
        });
        let Some((_, found)) = outcome else { break };
        assert_eq!(found, [OLD_IDS, NEW_IDS], "operation {n}");
        swaps += 1;
    }
    assert!(swaps > 10, "{swaps}");
}

#[test]
fn a_collection_is_not_withdrawn_from_another_directory() {
    let disk = SimDisk::new();
    let created = create(&disk).unwrap();
    Collection::create_on(disk.clone() as DiskRef, Path::new(NEW)).unwrap();
    disk.move_dirs(&swap());
    assert!(!created.withdraw().unwrap());
    assert!(open(&disk).is_ok() && open_at(&disk, OLD).is_ok());
}
