//! Readers in places that list nothing, and the hint that tells new ones where to begin: right,
//! old, missing, or a lie.

use super::*;
use crate::catalog::clean::clean_at;
use crate::catalog::local::LocalOrigin;
use crate::catalog::newest::{numbers, write_hint};
use crate::catalog::{CatalogReader, CleanOptions, Content, Origin, ReaderOptions};
use crate::{Error, ErrorKind};
use std::sync::Mutex;
use std::time::Duration;

const HINT: &str = "/catalog/docs/newest";

/// What a list gives.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lists {
    All,
    Nothing,
    Error,
}

/// A catalog behind a server that may not show what is in a folder.
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

/// Versions 1 to `to`, all but the pinned 2 and the newest cleaned away.
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
fn a_reader_begins_and_follows_where_nothing_is_listed() {
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
        // What lay between is gone, and the hint leads on.
        for _ in 0..3 {
            publish(&disk, "docs", COLLECTION).unwrap();
        }
        clean(&disk).unwrap();
        assert!(reader.refresh().unwrap());
        assert_eq!(reader.current().version().number, 10);
        assert_eq!(open(&disk, &web, "/new").unwrap().current().version().number, 10);
        // Without the hint only what follows by name is found, and a list that fails is told.
        disk.remove(Path::new(HINT)).unwrap();
        assert_eq!(reader.refresh().is_err(), lists == Lists::Error);
    }
}

#[test]
fn a_hint_is_never_the_truth() {
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
    // One that is old, or names a version that is kept for another reason, leads on from there.
    disk.write_raw(Path::new(HINT), b"00000000000000000002\n");
    assert_eq!(newest(&disk, Lists::All).unwrap(), 5);
    assert_eq!(newest(&disk, Lists::Nothing).unwrap(), 2);
    // Publishers do not ask it: the next version is 6, and with it the hint is right again.
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
    // One that came late: the version that follows it is there.
    publish(&disk, "docs", COLLECTION).unwrap();
    disk.write_raw(Path::new(HINT), b"00000000000000000006\n");
    assert_eq!(newest(&disk, Lists::Nothing).unwrap(), 7);
}

/// A publisher that was slow to write its hint finds that others went on, and points there.
#[test]
fn the_last_to_write_the_hint_points_at_the_newest() {
    let disk = base(3);
    for _ in 0..2 {
        publish(&disk, "docs", COLLECTION).unwrap();
    }
    write_hint(&catalog(&disk), "docs", 3).unwrap();
    assert_eq!(hint(&disk), b"00000000000000000005\n");
}

/// A catalog that was made before there were hints has one after the next publication or clean-up,
/// before anything is removed.
#[test]
fn nothing_is_cleaned_away_without_a_hint() {
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
