//! Warming: queries of a set that was warmed before it became current make nothing, what both sets
//! have is shared, and a damaged partition leaves the old set current.

use super::bundle::{builder, collection, compare, orders, plain};
use super::{DIR, Store, open};
use crate::ErrorKind;
use crate::disk::SimDisk;
use crate::disk::envelope::{Envelope, Kind};
use crate::search::cache::bundle_view::BundleView;
use crate::search::format::{part, section};
use crate::search::model::query::{asc, between, gte};
use crate::search::testing::Rng;
use crate::search::{Collection, Query, Reader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SEED: u64 = 0x3A53_17AB;

/// Changes one of the small partitions.
fn change(collection: &Collection, rng: &mut Rng) {
    let mut change = collection.change().unwrap();
    let documents = 1 + rng.below(60);
    let name = format!("a{:02}", rng.below(12));
    change.put(&name, builder(rng, documents, &orders()[1])).unwrap();
    change.commit().unwrap();
}

fn view(reader: &Reader) -> Arc<BundleView> {
    reader.set.bundles.current().expect("bundles have been built")
}

/// Runs queries, and asserts that they build neither bundles nor statistics.
fn assert_queries_make_nothing(rng: &mut Rng, reader: &Reader, plain: &Reader) {
    let (before, memory) = (view(reader), reader.bundle_memory());
    assert_eq!(before.miss_credit, 0, "no bundle is missing");
    for set in [&**reader.set, &before.set] {
        assert!((0..set.schema.fields.len()).all(|field| set.statistics.is_made(field)));
    }
    assert!(reader.set.partitions.iter().all(|part| part.is_ready()));
    (0..40).for_each(|_| compare(rng, reader, plain));
    assert!(Arc::ptr_eq(&before, &view(reader)), "queries have built bundles");
    assert_eq!(reader.bundle_memory(), memory);
}

/// `warm_like` after all has been made is like `warm`.
#[test]
fn queries_of_a_warmed_set_make_nothing() {
    println!("seed {SEED:#x}");
    let mut rng = Rng(SEED);
    let Store { collection, disk } = collection(&mut rng, &orders()[1]);
    let reading = open(&disk).unwrap();
    reading.reader().warm().unwrap();
    assert_queries_make_nothing(&mut rng, &reading.reader(), &plain(&disk));
    for round in 0..12 {
        change(&collection, &mut rng);
        let before = reading.reader();
        let refreshed = reading.refresh_with(|new| match round % 2 {
            0 => new.warm(),
            _ => new.warm_like(&before),
        });
        assert!(refreshed.unwrap());
        let reader = reading.reader();
        assert_queries_make_nothing(&mut rng, &reader, &plain(&disk));
        let bundles = |reader: &Reader| -> Vec<_> {
            view(reader).bundles().map(|(_, bundle)| Arc::as_ptr(bundle)).collect()
        };
        let (old, new) = (bundles(&before), bundles(&reader));
        assert!(old[0] != new[0] && old[1] == new[1], "the bundle without changes is shared");
    }
}

#[test]
fn warm_like_makes_what_was_made_for_the_set_before() {
    println!("seed {SEED:#x}");
    let mut rng = Rng(SEED + 1);
    let Store { collection, disk } = collection(&mut rng, &orders()[1]);
    let reading = open(&disk).unwrap();
    let refresh = |rng: &mut Rng| {
        change(&collection, rng);
        let before = reading.reader();
        assert!(reading.refresh_with(|new| new.warm_like(&before)).unwrap());
        let now = reading.reader();
        let parts = before.set.partitions.iter().zip(&now.set.partitions);
        assert!(parts.clone().all(|(old, new)| old.is_ready() == new.is_ready()));
        assert_eq!(parts.filter(|(old, new)| !Arc::ptr_eq(old, new)).count(), 1);
        now
    };
    let reader = refresh(&mut rng);
    assert_eq!(reader.bundle_memory(), 0, "there were no queries");
    assert!(!(0..4).any(|field| reader.set.statistics.is_made(field)));
    assert!(!reader.set.partitions.iter().any(|part| part.is_ready()));
    let query = Query::new(between("number", 10u64, 20u64)).order_by(asc("rank"));
    (0..200).for_each(|_| drop(reader.search(&query).unwrap()));
    let used = view(&reader).fields.clone();
    assert_eq!(used, [true, true, false, false]);
    for _ in 0..6 {
        let reader = refresh(&mut rng);
        let (before, memory) = (view(&reader), reader.bundle_memory());
        assert_eq!((&before.fields, before.miss_credit), (&used, 0));
        for _ in 0..40 {
            assert_eq!(reader.search(&query).unwrap(), plain(&disk).search(&query).unwrap());
        }
        assert!(Arc::ptr_eq(&before, &view(&reader)));
        assert_eq!(reader.bundle_memory(), memory);
    }
}

/// The file of a partition.
fn file_of(disk: &SimDisk, partition: &str) -> PathBuf {
    let is_it = |path: &&PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        path.starts_with(DIR) && name.starts_with(&format!("{partition}."))
    };
    disk.files().keys().find(is_it).expect("the partition has a file").clone()
}

/// Flips a bit in the keys of the field `rank`.
fn damage(disk: &SimDisk, path: &Path) {
    use crate::disk::Disk;
    let file = Envelope::open(disk.map(path).unwrap(), path, Kind::Partition).unwrap();
    let keys = file.entry(file.find(section(1, part::KEYS)).unwrap());
    let mut bytes = disk.files()[path].clone();
    bytes[(keys.offset + keys.len / 2) as usize] ^= 4;
    disk.remove(path).unwrap();
    disk.write_raw(path, &bytes);
}

#[test]
fn a_damaged_partition_leaves_the_old_set_current() {
    println!("seed {SEED:#x}");
    let mut rng = Rng(SEED + 2);
    let Store { collection, disk } = collection(&mut rng, &orders()[1]);
    let reading = open(&disk).unwrap();
    reading.reader().warm().unwrap();
    let before = reading.reader();
    change(&collection, &mut rng);
    let mut change = collection.change().unwrap();
    change.put("a05", builder(&mut rng, 50, &orders()[1])).unwrap();
    change.commit().unwrap();
    let path = file_of(&disk, "a05");
    damage(&disk, &path);
    for all in [true, false] {
        let prepare = |new: &Reader| if all { new.warm() } else { new.warm_like(&before) };
        let error = reading.refresh_with(prepare).unwrap_err();
        assert_eq!((error.kind(), error.file()), (ErrorKind::Corrupt, Some(&*path)), "{error}");
        assert!(Arc::ptr_eq(&reading.reader().set, &before.set));
    }
    // Without warming, only queries that need the damaged bytes fail.
    assert!(reading.refresh().unwrap());
    assert_eq!(reading.reader().count(&gte("rank", 0i64)).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[test]
fn warming_stays_within_the_limit_of_bundles() {
    println!("seed {SEED:#x}");
    let mut rng = Rng(SEED + 3);
    let Store { collection, disk } = collection(&mut rng, &orders()[1]);
    let reading = open(&disk).unwrap();
    let limited = |reader: &Reader| reader.with_bundle_limit(1);
    limited(&reading.reader()).warm().unwrap();
    let one = view(&reading.reader()).bundled();
    assert_eq!(one, (12, 1), "the bundle that was started below the limit is used");
    for _ in 0..12 {
        change(&collection, &mut rng);
        assert!(reading.refresh_with(|new| limited(new).warm()).unwrap());
        let reader = reading.reader();
        assert_eq!(view(&reader).bundled().1, 1);
        let largest = view(&reader).bundles().map(|(_, bundle)| bundle.memory()).max();
        assert_eq!(Some(reader.bundle_memory()), largest);
        let limited = limited(&reader);
        (0..8).for_each(|_| compare(&mut rng, &limited, &plain(&disk)));
    }
}
