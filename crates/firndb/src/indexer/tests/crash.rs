//! Power loss and failing calls at every I/O operation of every kind of work, and corrupt bytes:
//! afterwards the state before or after the work is found, complete, and work continues.

use super::*;
use crate::bytes::testing::damage;
use crate::catalog::{Catalog, ReaderOptions};
use crate::disk::Disk;
use crate::testing::Rng;
use std::path::PathBuf;

const SEED: u64 = 20_261_122;

type Work = fn(&mut Indexer) -> Result<()>;

/// A feed that is spooled to the log in chunks.
fn long_feed() -> Feed {
    let mut long: Feed = (0..14).map(|n| (format!("n{n}"), doc("red", n))).collect();
    long.extend(feed([("k1", "blue", 5), ("k3", "red", 1)]));
    long
}

const WORKS: [(&str, Work); 5] = [
    ("a short feed", |indexer| {
        let a = feed([("k1", "red", 2), ("k5", "blue", 1), ("k6", "green", 1)]);
        indexer.apply("a", items(&a)).map(drop)
    }),
    ("a long feed", |indexer| indexer.apply("a", items(&long_feed())).map(drop)),
    ("single changes", |indexer| {
        change(indexer, "b", &[("k4", Some(doc("green", 4))), ("k1", None)]).map(drop)
    }),
    ("an empty feed", |indexer| indexer.apply("a", items(&Feed::new())).map(drop)),
    ("another division", |indexer| indexer.repartition(Partitioning::by_hash(3))),
];

/// A published index with two sources.
fn base() -> Arc<SimDisk> {
    let disk = SimDisk::new();
    let mut indexer = open_as(&disk, Partitioning::by_field("group")).unwrap();
    let a = feed([("k1", "red", 1), ("k2", "red", 1), ("k3", "blue", 1)]);
    indexer.apply("a", items(&a)).unwrap();
    indexer.apply("b", items(&feed([("k1", "red", 9), ("k4", "red", 9)]))).unwrap();
    indexer.publish().unwrap();
    indexer.close().unwrap();
    disk.fork()
}

/// How far the work got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Done {
    Nothing,
    Applied,
    Published,
}

fn run(disk: &Arc<SimDisk>, work: Work) -> Done {
    let Ok(mut indexer) = open(disk) else { return Done::Nothing };
    match (work(&mut indexer), indexer.publish()) {
        (Ok(()), Ok(_)) => Done::Published,
        (Ok(()), Err(_)) => Done::Applied,
        (Err(_), _) => Done::Nothing,
    }
}

/// What is published before and after the work.
struct Expected {
    old: Content,
    new: Content,
}

impl Expected {
    fn of(base: &SimDisk, work: Work) -> Expected {
        let disk = base.fork();
        let old = published(&open(&disk).unwrap());
        assert_eq!(run(&disk, work), Done::Published);
        let new = published(&open(&disk).unwrap());
        assert_ne!(old, new);
        Expected { old, new }
    }

    /// Checks the published content, the content after the next publication, and that work
    /// continues.
    fn judge(&self, label: &str, disk: &Arc<SimDisk>, done: Done, work: Work) {
        let mut indexer = open(disk).unwrap_or_else(|e| panic!("{label}: cannot open: {e:?}"));
        let found = published(&indexer);
        let is_old = found == self.old && done < Done::Published;
        assert!(is_old || found == self.new, "{label}: {done:?}, published {found:?}");
        indexer.publish().unwrap_or_else(|e| panic!("{label}: cannot publish: {e:?}"));
        let then = published(&indexer);
        let is_old = then == self.old && done < Done::Applied && found == self.old;
        assert!(is_old || then == self.new, "{label}: {done:?}, then {then:?}");
        assert_eq!(indexer.publish().unwrap().rebuilt.len(), 0, "{label}: not clean");
        work(&mut indexer).unwrap_or_else(|e| panic!("{label}: the work again: {e:?}"));
        indexer.publish().unwrap();
        assert_eq!(published(&indexer), self.new, "{label}: the work again");
    }
}

#[test]
fn power_loss_leaves_the_state_before_or_after() {
    let base = base();
    for (name, work) in WORKS {
        let expected = Expected::of(&base, work);
        let images = base.each_crash(
            SEED,
            6,
            |disk| run(&disk, work),
            |label, done, image| expected.judge(&format!("{name}, {label}"), &image, *done, work),
        );
        println!("{name}: {images} images");
        assert!(images > 100, "{images} images prove little");
    }
}

#[test]
fn power_loss_during_creation_leaves_an_index_or_none() {
    let create = |disk: &Arc<SimDisk>| {
        let mut indexer = open_as(disk, Partitioning::by_hash(2))?;
        indexer.apply("a", items(&feed([("k1", "red", 1)])))?;
        indexer.publish().map(drop)
    };
    let images = SimDisk::new().each_crash(
        SEED,
        10,
        |disk| create(&disk).is_ok(),
        |label, done, image| {
            if *done {
                assert_eq!(published(&open(&image).unwrap()).len(), 1, "{label}");
            }
            create(&image).unwrap_or_else(|e| panic!("{label}: {e:?}"));
            assert_eq!(published(&open(&image).unwrap()).len(), 1, "{label}");
        },
    );
    assert!(images > 50, "{images} images prove little");
}

#[test]
fn a_failed_call_is_reported_and_leaves_a_consistent_state() {
    let base = base();
    for (name, work) in WORKS {
        let expected = Expected::of(&base, work);
        let mut failures = 0;
        let runs = base.each_fault(
            |disk| run(&disk, work),
            |label, done, disk| {
                failures += usize::from(*done < Done::Published);
                expected.judge(&format!("{name}, {label}"), &disk, *done, work);
            },
        );
        println!("{name}: {runs} runs, {failures} reported");
        assert!(failures > 20, "{name}: {failures} of {runs} faults were reported");
    }
}

/// After an error the same handle continues as far as the log allows, and reaches the right state.
#[test]
fn an_index_continues_after_a_full_disk() {
    let base = base();
    for (name, work) in WORKS {
        let expected = Expected::of(&base, work);
        let mut went_on = 0;
        base.each_fault(
            |disk| {
                let mut indexer = open(&disk).ok()?;
                let first = work(&mut indexer).and_then(|()| indexer.publish().map(drop));
                disk.heal();
                let again = work(&mut indexer).and_then(|()| indexer.publish().map(drop));
                (first.is_err() && again.is_ok()).then(|| published(&indexer))
            },
            |label, found, _| {
                if let Some(found) = found {
                    went_on += 1;
                    assert_eq!(*found, expected.new, "{name}, {label}");
                }
            },
        );
        assert!(went_on > 0, "{name}");
    }
}

/// Corruption anywhere gives an error or the right content. It may truncate the unsealed end of the
/// log; then the collection is rebuilt from the rest of the log.
#[test]
fn corruption_never_gives_a_wrong_answer() {
    let base = base();
    let work = WORKS[0].1;
    let expected = Expected::of(&base, work);
    let a = Feed::from_iter(
        expected
            .new
            .values()
            .flatten()
            .filter(|(key, _)| *key != "k4")
            .map(|(key, doc)| (key.clone(), doc.clone())),
    );
    let sources = BTreeMap::from([("a".to_string(), a)]);
    let without_b = super::expected(&sources, &Partitioning::by_field("group"));
    let mut shortened = 0;
    let files: Vec<(PathBuf, Vec<u8>)> =
        base.files().into_iter().filter(|(_, bytes)| !bytes.is_empty()).collect();
    let (mut rng, mut errors) = (Rng(SEED), 0);
    for round in 0..1500 {
        let (path, bytes) = &files[round % files.len()];
        let mut bytes = bytes.clone();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
        damage(&mut rng, &mut bytes[..used]);
        let disk = base.fork();
        disk.write_raw(path, &bytes);
        let attempt = || -> Result<Content> {
            let mut indexer = open(&disk)?;
            work(&mut indexer)?;
            indexer.publish()?;
            let reader = indexer.collection().reader();
            reader.verify()?;
            Ok(content(&reader))
        };
        match attempt() {
            Ok(found) if path.starts_with("/index/log") && found == without_b => shortened += 1,
            Ok(found) => assert_eq!(found, expected.new, "{}, round {round}", path.display()),
            Err(_) => errors += 1,
        }
    }
    println!("{errors} errors, {shortened} logs without their end");
    assert!(errors > 300, "{errors} errors, {shortened} shortened");
}

/// The content of the newest version in the catalog; nothing if there is none.
fn cataloged(disk: &Arc<SimDisk>) -> Option<Content> {
    let catalog = Catalog::open_on(disk.clone() as DiskRef, Path::new("/catalog"));
    catalog.newest("cars").ok()?;
    let reader = catalog.reader("cars", Path::new("/cache"), ReaderOptions::default()).unwrap();
    Some(content(reader.current().collection().unwrap()))
}

fn publish_to_catalog(disk: &Arc<SimDisk>, work: Work) -> Result<u64> {
    let mut indexer = open(disk)?;
    work(&mut indexer)?;
    disk.create_dir_all(Path::new("/catalog"))?;
    let catalog = Catalog::open_on(disk.clone() as DiskRef, Path::new("/catalog"));
    let (_, version) = indexer.publish_to(&catalog, "cars")?;
    version.map_or_else(|| catalog.newest("cars").map(|v| v.number), |v| Ok(v.version.number))
}

#[test]
fn publication_to_a_catalog_is_completed_after_power_loss() {
    let base = base();
    let nothing: Work = |_| Ok(());
    publish_to_catalog(&base, nothing).unwrap();
    let base = base.fork();
    let old = cataloged(&base.fork()).unwrap();
    let (name, work) = WORKS[0];
    let done = base.fork();
    assert_eq!(publish_to_catalog(&done, work).unwrap(), 2);
    let new = cataloged(&done.fork()).unwrap();
    assert_ne!(old, new);
    assert_eq!(publish_to_catalog(&done, nothing).unwrap(), 2, "nothing changed");
    let images = base.each_crash(
        SEED,
        4,
        |disk| publish_to_catalog(&disk, work).is_ok(),
        |label, done, image| {
            let found = cataloged(&image.fork()).unwrap();
            assert!(found == new || (found == old && !done), "{name}, {label}: {found:?}");
            publish_to_catalog(&image, nothing).unwrap_or_else(|e| panic!("{label}: {e:?}"));
            let then = cataloged(&image).unwrap();
            let is_old = then == old && published(&open(&image).unwrap()) == old;
            assert!(is_old || then == new, "{name}, {label}, then {then:?}");
        },
    );
    println!("{images} images");
    assert!(images > 100, "{images} images prove little");
}
