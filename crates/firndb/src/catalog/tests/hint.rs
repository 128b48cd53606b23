//! Tests of readers of origins that cannot list, with a hint that is right, outdated, missing or
//! wrong.

use super::*;
use crate::catalog::clean::clean_at;
use crate::catalog::local::LocalOrigin;
use crate::catalog::newest::{numbers, write_hint};
use crate::catalog::{CatalogReader, CleanOptions, Content, Origin, ReaderOptions};
use crate::{Error, ErrorKind};
use std::sync::Mutex;
use std::time::Duration;

const HINT: &str = "/catalog/docs/newest";

/// The behaviour of lists.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lists {
    All,
    Nothing,
    Error,
}

/// A catalog behind a server that may be unable to list folders.
#[derive(Debug)]
struct Web {
    inner: LocalOrigin,
    lists: Mutex<Lists>,
}

impl Web {
    fn new(disk: &Arc<SimDisk>, lists: Lists) -> Arc<Web> {
        let inner = LocalOrigin::new(disk.clone() as DiskRef, Path::new(CATALOG));
        Arc::new(Web { inner, lists: Mutex::new(lists) })
    }
}

impl Origin for Web {
    fn create(&self, object: &str, bytes: &[u8]) -> Result<()> {
        self.inner.create(object, bytes)
    }

    fn store(&self, objects: &[(String, Content<'_>)], progress: &dyn Fn(u64)) -> Result<()> {
        self.inner.store(objects, progress)
    }

    fn hint(&self, object: &str, bytes: &[u8]) -> Result<()> {
        self.inner.hint(object, bytes)
    }

    fn read(&self, object: &str, offset: u64, len: usize) -> Result<Vec<u8>> {
        self.inner.read(object, offset, len)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        match *self.lists.lock().unwrap() {
            Lists::All => self.inner.list(folder),
            Lists::Nothing => Ok(Vec::new()),
            Lists::Error => Err(Error::new(ErrorKind::Io, "no index")),
        }
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>> {
        self.inner.list_folders(folder)
    }

    fn remove(&self, objects: &[String]) -> Result<()> {
        self.inner.remove(objects)
    }
}

fn open(disk: &Arc<SimDisk>, web: &Arc<Web>, cache: &str) -> Result<CatalogReader> {
    let catalog = Catalog { origin: web.clone(), disk: disk.clone() as DiskRef };
    catalog.reader("docs", Path::new(cache), ReaderOptions::default())
}

fn newest(disk: &Arc<SimDisk>, lists: Lists) -> Result<u64> {
    let catalog = Catalog { origin: Web::new(disk, lists), disk: disk.clone() as DiskRef };
    catalog.newest("docs").map(|version| version.number)
}

fn clean(disk: &Arc<SimDisk>) -> Result<()> {
    let options = CleanOptions { keep: 1, grace: Duration::ZERO, dry_run: false };
    clean_at(&catalog(disk), "docs", &options, i64::MAX).map(drop)
}

/// Versions 1 to `to`; all but the pinned version 2 and the newest are removed.
fn base(to: u64) -> Arc<SimDisk> {
    let disk = SimDisk::new();
    make_collection(&disk);
    for number in 1..=to {
        publish(&disk, "docs", COLLECTION).unwrap();
        if number == 2 {
            catalog(&disk).pin("docs", 2, "").unwrap();
        }
    }
    clean(&disk).unwrap();
    assert_eq!(numbers(&catalog(&disk), "docs").unwrap(), [2, to]);
    disk
}

fn hint(disk: &Arc<SimDisk>) -> Vec<u8> {
    disk.files()[Path::new(HINT)].clone()
}

#[test]
fn readers_start_and_follow_without_lists() {
    for lists in [Lists::Nothing, Lists::Error] {
        let disk = base(5);
        assert_eq!(hint(&disk), b"00000000000000000005\n");
        let web = Web::new(&disk, lists);
        let reader = open(&disk, &web, "/cache").unwrap();
        assert_eq!(reader.current().version().number, 5);
        assert!(!reader.refresh().unwrap());
        publish(&disk, "docs", COLLECTION).unwrap();
        publish(&disk, "docs", COLLECTION).unwrap();
        assert!(reader.refresh().unwrap());
        assert_eq!(reader.current().version().number, 7);
        // The versions in between were removed, and the hint leads on.
        for _ in 0..3 {
            publish(&disk, "docs", COLLECTION).unwrap();
        }
        clean(&disk).unwrap();
        assert!(reader.refresh().unwrap());
        assert_eq!(reader.current().version().number, 10);
        assert_eq!(open(&disk, &web, "/new").unwrap().current().version().number, 10);
        // Without the hint only direct successors are found, and a failing list is reported.
        disk.remove(Path::new(HINT)).unwrap();
        assert_eq!(reader.refresh().is_err(), lists == Lists::Error);
    }
}

#[test]
fn correctness_does_not_depend_on_the_hint() {
    let lies: [&[u8]; 10] = [
        b"",
        b"5",
        b"5\n",
        b"00000000000000000000\n",
        b"00000000000000000003\n",
        b"00000000000000000099\n",
        b"18446744073709551615\n",
        b"99999999999999999999\n",
        b"00000000000000000005",
        &[0xff; 4000],
    ];
    let disk = base(5);
    for lie in lies {
        disk.write_raw(Path::new(HINT), lie);
        assert_eq!(newest(&disk, Lists::All).unwrap(), 5, "a list needs no hint");
        let nothing = newest(&disk, Lists::Nothing).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::NotFound, "{lie:?}: {nothing}");
        assert_eq!(newest(&disk, Lists::Error).unwrap_err().kind(), ErrorKind::Io, "{lie:?}");
    }
    disk.remove(Path::new(HINT)).unwrap();
    assert_eq!(newest(&disk, Lists::Nothing).unwrap_err().kind(), ErrorKind::NotFound);
    // A hint that is outdated, or names a pinned version, is followed to its successors.
    disk.write_raw(Path::new(HINT), b"00000000000000000002\n");
    assert_eq!(newest(&disk, Lists::All).unwrap(), 5);
    assert_eq!(newest(&disk, Lists::Nothing).unwrap(), 2);
    // Publishers ignore the hint: the next version is 6, and the hint is correct again.
    let web = Web::new(&disk, Lists::Error);
    let blind = Catalog { origin: web.clone(), disk: disk.clone() as DiskRef };
    for refused in [
        blind.publish("docs", Path::new(COLLECTION), &PublishOptions::default()),
        blind.rollback("docs", 2, &PublishOptions::default()),
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Io);
    }
    assert_eq!(numbers(&catalog(&disk), "docs").unwrap(), [2, 5]);
    assert_eq!(publish(&disk, "docs", COLLECTION).unwrap().version.number, 6);
    assert_eq!(
        (hint(&disk), newest(&disk, Lists::Nothing).unwrap()),
        (b"00000000000000000006\n".to_vec(), 6)
    );
    // A hint that was written late, after its successor was published.
    publish(&disk, "docs", COLLECTION).unwrap();
    disk.write_raw(Path::new(HINT), b"00000000000000000006\n");
    assert_eq!(newest(&disk, Lists::Nothing).unwrap(), 7);
}

/// A publisher that writes its hint late finds newer versions and writes the newest.
#[test]
fn a_late_hint_is_advanced_to_the_newest() {
    let disk = base(3);
    for _ in 0..2 {
        publish(&disk, "docs", COLLECTION).unwrap();
    }
    write_hint(&catalog(&disk), "docs", 3).unwrap();
    assert_eq!(hint(&disk), b"00000000000000000005\n");
}

/// A catalog without a hint, as of older releases, gets one with the next publication or clean-up,
/// before anything is removed.
#[test]
fn clean_writes_the_hint_before_removing() {
    let disk = SimDisk::new();
    make_collection(&disk);
    for _ in 0..3 {
        publish(&disk, "docs", COLLECTION).unwrap();
    }
    disk.remove(Path::new(HINT)).unwrap();
    assert_eq!(newest(&disk, Lists::Nothing).unwrap(), 3);
    let base = disk.fork();
    let images = base.each_crash(
        20_261_122,
        16,
        |disk| clean(&disk),
        |label, _, image| {
            assert_eq!(newest(&image, Lists::Nothing).unwrap(), 3, "{label}");
            assert_eq!(newest(&image, Lists::All).unwrap(), 3, "{label}");
        },
    );
    assert!(images > 20, "{images} images prove little");
    base.each_fault(
        |disk| clean(&disk),
        |label, _, disk| assert_eq!(newest(&disk, Lists::Nothing).unwrap(), 3, "{label}"),
    );
}
