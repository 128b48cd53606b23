//! Tests of collections that are not the published one, whatever their numbers: older and newer
//! copies, those of other indexes, and replacements made while the index is open. And tests of
//! backups.

use super::*;
use crate::ErrorKind;
use crate::disk::Disk;
use crate::search::{Collection, set_file};
use crate::testing::Rng;
use std::path::PathBuf;

const SEED: u64 = 0x5EED_0007;

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn files(disk: &SimDisk, part: &str) -> Files {
    let dir = Path::new(DIR).join(part);
    disk.files().into_iter().filter(|(path, _)| path.starts_with(&dir)).collect()
}

/// A disk with a log and a collection of different origin.
fn combined(log: &Files, collection: &Files) -> Arc<SimDisk> {
    let disk = SimDisk::new();
    log.iter().chain(collection).for_each(|(path, bytes)| disk.write_raw(path, bytes));
    disk
}

/// The state of an index after a step.
struct Moment {
    log: Files,
    collection: Files,
    wanted: Content,
}

/// The states of an index after each of many steps, some of which are not published.
fn life(rng: &mut Rng, steps: i64) -> Vec<Moment> {
    let disk = SimDisk::new();
    let by = Partitioning::by_field("group");
    let mut indexer = open_as(&disk, by.clone()).unwrap();
    let (mut sources, mut moments) = (BTreeMap::new(), Vec::new());
    for n in 0..steps {
        let groups = ["red", "blue", "green"];
        let documents = (0..8).map(|key| (format!("k{key}"), doc(groups[rng.below(3)], n)));
        let feed: Feed = documents.collect();
        indexer.apply("a", items(&feed)).unwrap();
        sources.insert("a".to_string(), feed);
        if n % 3 != 2 {
            indexer.publish().unwrap();
        }
        let (log, collection) = (files(&disk, "log"), files(&disk, "collection"));
        moments.push(Moment { log, collection, wanted: expected(&sources, &by) });
    }
    moments
}

#[test]
fn publishes_the_contents_of_the_log_over_any_collection() {
    let mut rng = Rng(SEED);
    let lives = [life(&mut rng, 9), life(&mut rng, 9)];
    let (mut known, mut remade) = (0, 0);
    for (n, moment) in lives[0].iter().enumerate() {
        for (other, collection) in lives.iter().flatten().enumerate() {
            let what = format!("seed {SEED}, log {n}, collection {other}");
            let disk = combined(&moment.log, &collection.collection);
            let mut indexer = open(&disk).unwrap();
            match indexer.is_remade() {
                true => remade += 1,
                false => known += 1,
            }
            // The collection of this state is recognized; that of the state before may be.
            assert!(other != n || !indexer.is_remade(), "{what}");
            indexer.publish().unwrap();
            assert_eq!(published(&indexer), moment.wanted, "{what}");
            indexer.close().unwrap();
            let mut indexer = open(&disk).unwrap();
            assert!(
                !indexer.is_remade() && indexer.publish().unwrap().rebuilt.is_empty(),
                "{what}"
            );
        }
        let indexer = open(&combined(&moment.log, &Files::new())).unwrap();
        assert!(indexer.is_remade(), "log {n}, no collection");
    }
    assert!(known >= 9 && remade > 100, "{known} known, {remade} made again");
    assert!(!open_as(&SimDisk::new(), Partitioning::by_hash(2)).unwrap().is_remade());
}

#[test]
fn a_collection_replaced_while_open_is_not_modified() {
    let moments = life(&mut Rng(SEED), 5);
    let (now, old) = (&moments[3], &moments[0]);
    let collection = Path::new(DIR).join("collection");
    let work = |disk: &Arc<SimDisk>, replace: &dyn Fn()| {
        let mut indexer = open(disk).unwrap();
        indexer.publish().unwrap();
        change(&mut indexer, "a", &[("k1", Some(doc("red", 99)))]).unwrap();
        replace();
        let before = files(disk, "collection");
        let error = indexer.publish().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failed, "{error}");
        assert_eq!(files(disk, "collection"), before, "nothing is written");
        drop(indexer);
        let mut indexer = open(disk).unwrap();
        assert!(indexer.is_remade());
        indexer.publish().unwrap();
        let red = published(&indexer)["red"].clone();
        assert_eq!(red["k1"], doc("red", 99));
    };
    // Another directory.
    let disk = combined(&now.log, &now.collection);
    let new = Path::new("/new");
    for (path, bytes) in &old.collection {
        disk.write_raw(&new.join(path.file_name().unwrap()), bytes);
    }
    let away = Path::new("/away");
    work(&disk, &|| disk.move_dirs(&[(&collection, away), (new, &collection)]));
    // Other files in the same directory: a set with the same number, and with the next number.
    let is_set = |path: &Path| path.to_string_lossy().contains("/set-");
    for next in [0, 1] {
        let disk = combined(&now.log, &now.collection);
        work(&disk, &|| {
            let number = Collection::open_on(disk.clone() as DiskRef, &collection).unwrap();
            let number = number.version() + next;
            for (path, bytes) in &old.collection {
                match is_set(path) {
                    true => disk.write_raw(&collection.join(set_file(number)), bytes),
                    false => disk.write_raw(path, bytes),
                }
            }
        });
    }
}

const BACKUP: &str = "/backup";

fn open_backup(disk: &Arc<SimDisk>) -> Result<Indexer> {
    Indexer::open_on(disk.clone() as DiskRef, Path::new(BACKUP), None, options())
}

#[test]
fn a_backup_is_an_independent_index() {
    let moments = life(&mut Rng(SEED), 6);
    let disk = combined(&moments[4].log, &moments[4].collection);
    let mut indexer = open(&disk).unwrap();
    let made = indexer.backup(BACKUP).unwrap();
    assert_eq!(made.partitions, indexer.status().unwrap().partitions);
    change(&mut indexer, "a", &[("k1", Some(doc("red", 99)))]).unwrap();
    let again = indexer.backup(BACKUP).unwrap();
    assert!(again.log.kept > 0, "{again:?}");
    indexer.publish().unwrap();
    indexer.backup(BACKUP).unwrap();
    let wanted = published(&indexer);

    let mut copy = open_backup(&disk.fork()).unwrap();
    assert!(!copy.is_remade());
    assert!(copy.publish().unwrap().rebuilt.is_empty());
    assert_eq!(published(&copy), wanted);
    change(&mut copy, "a", &[("k1", Some(doc("red", 100)))]).unwrap();
    copy.publish().unwrap();
    assert_eq!(published(&copy)["red"]["k1"], doc("red", 100));
    assert_eq!(published(&indexer), wanted, "the original has files of its own");
    // Directories that are no backup of this index, or no longer.
    for (name, bytes) in [("/other/log/x", b"x"), ("/third/collection/y", b"y")] {
        disk.write_raw(Path::new(name), bytes);
        let dir = Path::new(name).ancestors().nth(2).unwrap();
        let before = disk.files();
        assert_eq!(indexer.backup(dir).unwrap_err().kind(), ErrorKind::AlreadyExists, "{name}");
        assert_eq!(disk.files(), before);
    }
    for inside in ["/index", "/index/deep", "/index/log"] {
        assert_eq!(indexer.backup(inside).unwrap_err().kind(), ErrorKind::AlreadyExists);
    }
}

#[test]
fn an_interrupted_backup_opens_and_can_be_repeated() {
    let moments = life(&mut Rng(SEED), 6);
    let base = combined(&moments[1].log, &moments[1].collection);
    let mut indexer = open(&base).unwrap();
    indexer.publish().unwrap();
    indexer.backup(BACKUP).unwrap();
    let old = published(&indexer);
    change(&mut indexer, "a", &[("k1", Some(doc("red", 99)))]).unwrap();
    indexer.publish().unwrap();
    let new = published(&indexer);
    indexer.close().unwrap();
    base.sync_dir(Path::new(BACKUP)).unwrap();
    let base = base.fork();
    let work = |disk: Arc<SimDisk>| match open(&disk) {
        Ok(indexer) => indexer.backup(BACKUP).is_ok(),
        Err(_) => false,
    };
    let judge = |label: &str, done: bool, disk: &Arc<SimDisk>| {
        let mut copy = open_backup(&disk.fork()).unwrap_or_else(|e| panic!("{label}: {e:?}"));
        copy.publish().unwrap_or_else(|e| panic!("{label}: {e:?}"));
        let found = published(&copy);
        assert!(found == new || (!done && found == old), "{label}: {found:?}");
        let indexer = open(disk).unwrap_or_else(|e| panic!("{label}: {e:?}"));
        assert_eq!(published(&indexer), new, "{label}");
        indexer.backup(BACKUP).unwrap_or_else(|e| panic!("{label}: again: {e:?}"));
        let copy = open_backup(disk).unwrap();
        assert!(!copy.is_remade() && published(&copy) == new, "{label}");
    };
    let images = base.each_crash(SEED, 4, work, |label, done, image| judge(label, *done, &image));
    let runs = base.each_fault(work, |label, done, disk| judge(label, *done, &disk));
    println!("seed {SEED}, {images} images, {runs} runs");
    assert!(images > 50 && runs > 50, "{images} images and {runs} runs prove little");
}
