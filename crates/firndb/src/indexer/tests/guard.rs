//! Tests of what an index prevents: the loss of documents through a truncated feed, and changes of
//! its collection from outside.

use super::*;
use crate::ErrorKind;
use crate::disk::Disk;
use crate::indexer::Removals;
use crate::search::{Collection, MergePolicy, PartitionBuilder};
use std::time::Duration;

fn many(documents: i64) -> Feed {
    (0..documents).map(|n| (format!("n{n}"), doc(&format!("g{}", n % 3), n))).collect()
}

/// An index whose source `a` has this many published documents.
fn index_of(documents: i64) -> (Arc<SimDisk>, Indexer) {
    let disk = SimDisk::new();
    let mut indexer = open_as(&disk, Partitioning::by_field("group")).unwrap();
    indexer.apply("a", items(&many(documents))).unwrap();
    indexer.apply("b", items(&many(10))).unwrap();
    indexer.publish().unwrap();
    (disk, indexer)
}

/// A feed of the first documents of source `a`, with a number of rows left out.
fn feed_of(
    indexer: &mut Indexer,
    documents: i64,
    removals: Option<Removals>,
    left_out: u64,
) -> Result<Applied> {
    let mut feed = indexer.feed("a")?;
    for (key, doc) in &many(documents) {
        feed.add(key, &document(key, doc))?;
    }
    feed.left_out(left_out);
    match removals {
        Some(removals) => feed.removals(removals).finish(),
        None => feed.finish(),
    }
}

#[test]
fn a_feed_that_removes_too_much_is_rejected_and_changes_nothing() {
    use Removals::{All, Guarded, Share};
    // Documents before, documents in the feed, rows left out, the limit; whether it is allowed.
    let cases = [
        (300, 1, 0, None, false),
        (300, 0, 0, None, false),
        (300, 149, 0, None, false),
        (300, 150, 0, None, true),
        (300, 149, 0, Some(Guarded), false),
        (201, 100, 0, None, false),
        (200, 100, 0, None, true),
        (101, 0, 0, None, false),
        (100, 0, 0, None, true),
        (300, 1, 0, Some(All), true),
        (300, 0, 0, Some(All), true),
        (300, 0, 0, Some(Share(1.0)), true),
        (300, 3, 0, Some(Share(0.99)), true),
        (300, 2, 0, Some(Share(0.99)), false),
        (20, 19, 0, Some(Share(0.0)), false),
        (20, 20, 0, Some(Share(0.0)), true),
        (20, 19, 0, Some(Share(f64::NAN)), false),
        (300, 299, 1, None, false),
        (300, 300, 9, None, true),
        (300, 299, 1, Some(All), true),
        (300, 200, 1, Some(Share(0.5)), true),
    ];
    for (there, given, left_out, removals, is_allowed) in cases {
        let case = format!("{given} of {there}, {left_out} left out, {removals:?}");
        let (_disk, mut indexer) = index_of(there);
        let before = published(&indexer);
        let outcome = feed_of(&mut indexer, given, removals, left_out);
        if is_allowed {
            assert_eq!(outcome.unwrap().removed, (there - given) as u64, "{case}");
            continue;
        }
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{case}");
        let said = format!("remove {} of the {there} documents of source `a`", there - given);
        let how = ["nothing was changed", "--allow-removals", "--max-removed", "`Removals`"];
        for part in [said.as_str()].into_iter().chain(how) {
            assert!(error.message().contains(part), "{case}: no `{part}` in: {error}");
        }
        // Nothing is applied, not even additions, nor by the next opening.
        assert!(indexer.status().unwrap().dirty.is_empty(), "{case}");
        assert!(indexer.publish().unwrap().rebuilt.is_empty(), "{case}");
        assert_eq!(published(&indexer), before, "{case}");
        indexer.close().unwrap();
        let mut indexer = open(&_disk).unwrap();
        assert!(indexer.status().unwrap().dirty.is_empty(), "{case}");
        assert_eq!(indexer.apply("a", items(&many(there))).unwrap().unchanged, there as u64);
    }
}

/// `apply` uses the limit of the options, single changes are not limited, and a new source has no
/// documents to remove.
#[test]
fn the_removal_limit_is_an_option_for_feeds_only() {
    let (disk, mut indexer) = index_of(300);
    let error = indexer.apply("a", items(&many(1))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    indexer.apply("new", items(&many(1))).unwrap();
    let keys: Vec<String> = many(300).into_keys().collect();
    let mut changes = indexer.changes("a").unwrap();
    keys.iter().take(200).for_each(|key| changes.remove(key).unwrap());
    changes.left_out(7);
    assert_eq!(changes.finish().unwrap().removed, 200);
    indexer.close().unwrap();
    let options = Options { removals: Removals::All, ..options() };
    let mut indexer = Indexer::open_on(disk as DiskRef, Path::new(DIR), None, options).unwrap();
    assert!(indexer.apply("a", items(&many(1))).unwrap().removed >= 99);
}

fn collection(disk: &Arc<SimDisk>, dir: &Path) -> Collection {
    Collection::open_on(disk.clone() as DiskRef, dir).unwrap()
}

/// The error of changing a collection.
fn refused(collection: &Collection) -> String {
    let before = collection.version();
    let error = collection.change().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let policy = MergePolicy { at_least: 2, unchanged_for: Duration::ZERO, ..Default::default() };
    let merged = collection.compact(&policy, |_| panic!("it was merged"));
    assert_eq!(merged.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(collection.check_changeable().unwrap_err().to_string(), error.to_string());
    assert!(!collection.refresh().unwrap() && collection.version() == before);
    error.message().to_string()
}

#[test]
fn only_the_index_can_change_its_collection() {
    let (disk, mut indexer) = index_of(30);
    let dir = Path::new(DIR).join("collection");
    let said = refused(&collection(&disk, &dir));
    for part in ["index `/index`", "firn index apply", "firn index rebuild"] {
        assert!(said.contains(part), "{said}");
    }
    indexer.delete("a", "n29").unwrap();
    indexer.publish().unwrap();
    // A copy elsewhere keeps the mark until it is removed.
    let copy = Path::new("/copy");
    for (path, bytes) in disk.files().into_iter().filter(|(path, _)| path.starts_with(&dir)) {
        disk.write_raw(&copy.join(path.file_name().unwrap()), &bytes);
    }
    let said = refused(&collection(&disk, copy));
    assert!(said.contains("remove the file `owned-by-index`"), "{said}");
    disk.remove(&copy.join("owned-by-index")).unwrap();
    let free = collection(&disk, copy);
    let mut change = free.change().unwrap();
    change.put("more", PartitionBuilder::new(schema())).unwrap();
    change.commit().unwrap();
}

/// Indexes of older releases, and those whose collection was lost, are marked when opened.
#[test]
fn an_index_without_the_mark_is_marked() {
    let (disk, indexer) = index_of(30);
    indexer.close().unwrap();
    let dir = Path::new(DIR).join("collection");
    let mark = dir.join("owned-by-index");
    disk.remove(&mark).unwrap();
    collection(&disk, &dir).change().unwrap();
    let mut indexer = open(&disk).unwrap();
    refused(&collection(&disk, &dir));
    assert!(indexer.publish().unwrap().rebuilt.is_empty());
    drop(indexer);
    let all = disk.files().into_keys().filter(|path| path.starts_with(&dir));
    for path in all.filter(|path| *path != mark) {
        disk.remove(&path).unwrap();
    }
    let error = Collection::create_on(disk.clone() as DiskRef, &dir).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    let mut indexer = open(&disk).unwrap();
    indexer.publish().unwrap();
    refused(&collection(&disk, &dir));
    assert_eq!(published(&indexer).values().map(Feed::len).sum::<usize>(), 30);
    // A change in progress is not waited for.
    drop(indexer);
    disk.remove(&mark).unwrap();
    let free = collection(&disk, &dir);
    let change = free.change().unwrap();
    assert_eq!(open(&disk).err().unwrap().kind(), ErrorKind::Locked);
    drop(change);
    open(&disk).unwrap();
}

#[test]
fn power_loss_or_failure_while_marking_is_harmless() {
    const SEED: u64 = 20_261_128;
    let (disk, indexer) = index_of(30);
    indexer.close().unwrap();
    let dir = Path::new(DIR).join("collection");
    disk.remove(&dir.join("owned-by-index")).unwrap();
    disk.sync_dir(&dir).unwrap();
    let base = disk.fork();
    let judge = |label: &str, is_marked: bool, disk: &Arc<SimDisk>| {
        if is_marked {
            refused(&collection(disk, &dir));
        }
        let indexer = open(disk).unwrap_or_else(|e| panic!("{label}: {e:?}"));
        assert_eq!(published(&indexer).values().map(Feed::len).sum::<usize>(), 30, "{label}");
        refused(&collection(disk, &dir));
    };
    let open_it = |disk: Arc<SimDisk>| open(&disk).is_ok();
    let images =
        base.each_crash(SEED, 4, open_it, |label, done, image| judge(label, *done, &image));
    let runs = base.each_fault(open_it, |label, done, disk| judge(label, *done, &disk));
    println!("seed {SEED}, {images} images, {runs} runs");
    assert!(images > 20 && runs > 20, "{images} images and {runs} runs prove little");
}
