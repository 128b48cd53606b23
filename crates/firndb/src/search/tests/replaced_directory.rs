//! Another directory is put in the place of a collection that is open: deployment by rename.
//!
//! A handle once went on by path and set number. Then a change that had been begun on the old
//! collection removed the partitions of the new one, and a reader never noticed the new one.

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

/// How the new collection is put in the place of the old one.
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

/// A collection of partitions `a` and `b` in a directory: the same names and set number for every
/// `first`.
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

/// The old collection, open, and the new one beside it.
fn both() -> (Arc<SimDisk>, Collection) {
    let disk = SimDisk::new();
    let old = collection(&disk, DIR, 0);
    collection(&disk, NEW, 100);
    (disk, old)
}

const OF_OLD: [u64; 4] = [0, 1, 2, 3];
const OF_NEW: [u64; 4] = [100, 101, 102, 103];

#[test]
fn a_reader_moves_on_to_the_new_directory() {
    let (disk, handle) = both();
    let before = handle.reader();
    disk.move_dirs(&swap());
    assert!(handle.refresh().unwrap(), "the set number is the same");
    assert!(!handle.refresh().unwrap());
    assert_eq!(ids(&handle), OF_NEW);
    assert_eq!(before.len(), 4);
    // Back again, and with a lower number: it is another directory, not damage.
    put(&handle, "c", 104..105).unwrap();
    disk.move_dirs(&[(Path::new(DIR), Path::new("/later"))]);
    assert_eq!(handle.refresh().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(handle.reader().len(), 5, "an error leaves the handle as it was");
    disk.move_dirs(&[(Path::new(OLD), Path::new(DIR))]);
    assert!(handle.refresh().unwrap());
    assert_eq!((ids(&handle), handle.version()), (OF_OLD.to_vec(), 2));
}

#[test]
fn a_copy_that_takes_the_place_is_changed_and_not_the_original() {
    let disk = SimDisk::new();
    let handle = collection(&disk, DIR, 0);
    collection(&disk, NEW, 0);
    disk.move_dirs(&swap());
    assert!(!handle.refresh().unwrap(), "the content is the same");
    put(&handle, "c", 7..8).unwrap();
    assert_eq!(ids(&open(&disk).unwrap()), [0, 1, 2, 3, 7]);
    assert_eq!(ids(&open_at(&disk, OLD).unwrap()), OF_OLD);
}

#[test]
fn another_set_of_the_same_number_is_noticed_in_the_directory_itself() {
    // As by tools that copy files into the directory that is there.
    let (disk, handle) = both();
    let new: Vec<_> = disk.files().into_iter().filter(|(path, _)| path.starts_with(NEW)).collect();
    for (path, bytes) in new {
        disk.write_raw(&Path::new(DIR).join(path.file_name().unwrap()), &bytes);
    }
    let other = open(&disk).unwrap();
    assert!(handle.refresh().unwrap());
    assert_eq!(ids(&handle), OF_NEW);
    put(&handle, "c", 104..105).unwrap();
    assert!(other.refresh().unwrap());
    assert_eq!(ids(&other), [100, 101, 102, 103, 104]);
}

/// What two collections have when `work` changes the one that is open, while the new one takes its
/// place before operation `n`; `None` once there are not so many operations.
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
    // Whoever comes next finds no lock and no damage, and neither does the handle.
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
fn a_change_is_made_in_one_directory_or_in_none_whenever_they_are_swapped() {
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
            (true, found) if found == [with(&OF_OLD), OF_NEW.to_vec()] => in_old += 1,
            (true, found) if found == [OF_OLD.to_vec(), with(&OF_NEW)] => in_new += 1,
            (false, found) if found == [OF_OLD, OF_NEW] => refused += 1,
            (done, found) => panic!("operation {n}: {done}, {found:?}"),
        }
    }
    assert!(in_old > 0 && in_new > 0 && refused > 5, "{in_old} {in_new} {refused}");
}

#[test]
fn merges_lose_nothing_whenever_the_directories_are_swapped() {
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
        assert_eq!(found, [OF_OLD, OF_NEW], "operation {n}");
        swaps += 1;
    }
    assert!(swaps > 10, "{swaps}");
}

#[test]
fn a_collection_is_not_taken_back_from_another_directory() {
    let disk = SimDisk::new();
    let created = create(&disk).unwrap();
    Collection::create_on(disk.clone() as DiskRef, Path::new(NEW)).unwrap();
    disk.move_dirs(&swap());
    assert!(!created.withdraw().unwrap());
    assert!(open(&disk).is_ok() && open_at(&disk, OLD).is_ok());
}
