//! Power loss and failing calls at every operation of publish, rollback and clean-up: all versions
//! that exist afterwards are complete, acknowledged ones are among them, and the next publication
//! succeeds.

use super::faulty::Faulty;
use super::*;
use crate::catalog::clean::clean_at;
use crate::catalog::{CatalogReader, CleanOptions, PublishOptions, ReaderOptions};
use std::time::Duration;

const SEED: u64 = 20_261_122;

/// A change of the catalog.
type Work = fn(&Arc<SimDisk>) -> Result<()>;

const WORKS: [(&str, Work); 4] = [
    ("publish", |disk| publish(disk, "docs", COLLECTION).map(drop)),
    ("publish the first", |disk| publish(disk, "words", TABLE).map(drop)),
    ("rollback", |disk| catalog(disk).rollback("docs", 1, &PublishOptions::default()).map(drop)),
    ("clean", |disk| {
        let options = CleanOptions { keep: 1, grace: Duration::ZERO, dry_run: false };
        clean_at(&catalog(disk), "docs", &options, i64::MAX).map(drop)
    }),
];

/// A catalog with two versions of a collection; a third version and a table are not published yet.
fn base() -> Arc<SimDisk> {
    let disk = SimDisk::new();
    make_collection(&disk);
    publish(&disk, "docs", COLLECTION).unwrap();
    replace(&disk, "a", 2);
    publish(&disk, "docs", COLLECTION).unwrap();
    replace(&disk, "b", 3);
    make_table(&disk, 1);
    disk.fork()
}

/// Checks the catalog. `done`: the work was acknowledged.
fn judge(disk: &Arc<SimDisk>, work: &str, done: bool) -> std::result::Result<(), String> {
    let docs = check_all(disk, "docs")?;
    let words = check_all(disk, "words")?;
    let expected: (&[u64], &[u64]) = match (work, done) {
        ("publish" | "rollback", true) => (&[1, 2, 3], &[]),
        ("publish the first", true) => (&[1, 2], &[1]),
        ("clean", true) => (&[2], &[]),
        _ => (&[], &[]),
    };
    let newest_stays = docs.contains(&2);
    if newest_stays && (!done || (&docs[..], &words[..]) == expected) {
        return Ok(());
    }
    Err(format!("{work}, acknowledged: {done}: versions {docs:?} and {words:?}"))
}

/// Leftovers do not prevent the next publication, and a clean-up removes them.
fn goes_on(disk: &Arc<SimDisk>) -> std::result::Result<(), String> {
    let again = || -> Result<()> {
        let newest = publish(disk, "docs", COLLECTION)?.version;
        let options = CleanOptions { keep: 1, grace: Duration::ZERO, dry_run: false };
        clean_at(&catalog(disk), "docs", &options, i64::MAX)?;
        let files = disk.list(&Path::new(CATALOG).join("docs/files"))?;
        assert_eq!(files.len(), newest.files.len(), "leftovers among {files:?}");
        let manifests = disk.list(&Path::new(CATALOG).join("docs/versions"))?;
        assert_eq!(manifests.len(), 1, "leftovers among {manifests:?}");
        let beside = disk.list(&Path::new(CATALOG).join("docs"))?;
        assert_eq!(beside, ["newest"], "leftovers among {beside:?}");
        Ok(())
    };
    again().map_err(|e| format!("going on fails: {e:?}"))?;
    check_all(disk, "docs").map(drop)
}

#[test]
fn power_loss_leaves_complete_versions() {
    let base = base();
    for (name, work) in WORKS {
        let mut damage = None;
        let images = base.each_crash(
            SEED,
            16,
            |disk| work(&disk),
            |label, done, image| {
                let wrong = judge(&image, name, done.is_ok()).and_then(|()| goes_on(&image));
                damage = damage.take().or(wrong.err().map(|wrong| format!("{label}: {wrong}")));
            },
        );
        println!("{name}: seed {SEED}, {images} images");
        assert_eq!(damage, None, "{name}");
        assert!(images > 20, "{images} images prove little");
    }
}

#[test]
fn failed_calls_are_reported_and_harmless() {
    let base = base();
    for (name, work) in WORKS {
        let mut failures = 0;
        let runs = base.each_fault(
            |disk| work(&disk),
            |label, done, disk| {
                failures += usize::from(done.is_err());
                let fine = judge(&disk, name, done.is_ok());
                assert_eq!(fine, Ok(()), "{label}; the work: {done:?}");
                for (cut, image) in disk.images(SEED, 4) {
                    assert_eq!(judge(&image, name, done.is_ok()), Ok(()), "{label}, {cut}");
                }
                assert_eq!(goes_on(&disk), Ok(()), "{label}");
            },
        );
        println!("{name}: {runs} runs, {failures} reported");
        assert!(failures > 5, "{name}: {failures} of {runs} faults were reported");
    }
}

/// Opens version 1 from a cache, then the newest; files are transferred or hard-linked.
fn read(disk: &Arc<SimDisk>, linked: bool) -> Result<CatalogReader> {
    let behind = Catalog { origin: Arc::new(Faulty::new(disk, 1)), disk: disk.clone() as DiskRef };
    let catalog = if linked { catalog(disk) } else { behind };
    catalog.reader("docs", Path::new("/cache"), ReaderOptions::default())
}

#[test]
fn power_loss_during_a_fetch_leaves_no_partial_file() {
    let base = base();
    // The cache has version 2, and version 3 is the newest.
    drop(read(&base, false).unwrap());
    publish(&base, "docs", COLLECTION).unwrap();
    let base = base.fork();
    for linked in [false, true] {
        let judge = |disk: &Arc<SimDisk>, label: &str| {
            for (path, bytes) in disk.files() {
                if let Some(hash) = path.file_stem().filter(|_| path.starts_with("/cache"))
                    && path.extension().is_some_and(|end| end == "firn")
                {
                    assert_eq!(blake3::hash(&bytes).to_hex().as_str(), hash, "{label}");
                }
            }
            let reader = read(disk, linked).unwrap_or_else(|e| panic!("{label}: {e:?}"));
            assert_eq!(reader.current().version().number, 3, "{label}");
            reader.current().collection().unwrap().verify().unwrap();
        };
        let images = base.each_crash(
            SEED,
            16,
            |disk| read(&disk, linked).is_ok(),
            |label, _, image| judge(&image, label),
        );
        assert!(images > 20, "{images} images prove little");
        let attempt = |disk: Arc<SimDisk>| read(&disk, linked).map(|r| r.current());
        base.each_fault(attempt, |label, done, disk| {
            // The newest version, or the cached one.
            if let Ok(generation) = done {
                assert!([2, 3].contains(&generation.version().number));
                generation.collection().unwrap().verify().unwrap();
            }
            judge(&disk, label);
        });
    }
}

#[test]
fn an_interrupted_pull_resumes_and_shows_no_partial_collection() {
    let base = base();
    let to = Path::new("/pulled");
    let pull = |disk: &Arc<SimDisk>| {
        let catalog = catalog(disk);
        catalog.pull(&catalog.version("docs", 2)?, to, 1, &|_| ())
    };
    let open = |disk: &Arc<SimDisk>| Collection::open_on(disk.clone() as DiskRef, to);
    let whole = |disk: &Arc<SimDisk>, label: &str| {
        let reader = open(disk).unwrap_or_else(|e| panic!("{label}: {e:?}")).reader();
        assert_eq!(reader.partitions().len(), 3, "{label}");
        reader.verify().unwrap();
    };
    let images = base.each_crash(
        SEED,
        16,
        |disk| pull(&disk),
        |label, done, image| {
            if done.is_ok() || open(&image).is_ok() {
                whole(&image, label);
            }
            pull(&image).unwrap_or_else(|e| panic!("{label}: {e:?}"));
            whole(&image, label);
            assert_eq!(image.list(to).unwrap().len(), 4, "{label}");
        },
    );
    assert!(images > 20, "{images} images prove little");
    let other = base.fork();
    other.write_raw(&to.join("note.txt"), b"mine");
    assert_eq!(pull(&other).unwrap_err().kind(), crate::ErrorKind::AlreadyExists);
}

/// Confirms that the harness detects a publisher that omits a sync.
#[test]
fn the_harness_detects_missing_syncs() {
    let base = base();
    let damaged = |lie: fn(&str, &Path) -> bool| {
        let mut damage = false;
        base.each_crash(
            SEED,
            16,
            |disk| {
                disk.lie_about(lie);
                publish(&disk, "docs", COLLECTION)
            },
            |_, done, image| damage |= judge(&image, "publish", done.is_ok()).is_err(),
        );
        damage
    };
    assert!(!damaged(|_, _| false));
    assert!(damaged(|verb, path| verb == "sync_dir" && path.ends_with("docs/files")));
    assert!(damaged(|verb, path| verb == "sync_dir" && path.ends_with("docs/versions")));
    assert!(damaged(|verb, path| verb == "sync" && path.to_string_lossy().ends_with(".tmp")));
}
