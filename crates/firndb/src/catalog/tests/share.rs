//! Tests of files that readers expose, and of origins with several sources.

use super::*;
use crate::ErrorKind;
use crate::catalog::local::LocalOrigin;
use crate::catalog::{CatalogReader, Content, Found, Origin, ReaderOptions, Share};
use crate::search::query::all;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

const CACHE: &str = "/cache";

fn shared(disk: &Arc<SimDisk>) -> (Share, CatalogReader) {
    let share = Share::new("docs");
    let options = ReaderOptions { share: Some(share.clone()), ..ReaderOptions::default() };
    (share, catalog(disk).reader("docs", Path::new(CACHE), options).unwrap())
}

/// The last part of the name of a file's object.
fn name(version: &Version, file: usize) -> String {
    version.object(&version.files[file]).rsplit('/').next().unwrap().to_string()
}

#[test]
fn files_are_shared_once_complete() {
    let disk = SimDisk::new();
    make_collection(&disk);
    let first = publish(&disk, "docs", COLLECTION).unwrap().version;
    let early = Share::new("docs");
    assert!(matches!(early.find(&name(&first, 0), Instant::now()).unwrap(), Found::Coming(_)));
    assert!(early.version().is_none());
    let (share, reader) = shared(&disk);
    assert_eq!(*share.version().unwrap(), first);
    let text =
        disk.files()[&Path::new(CATALOG).join("docs/versions/00000000000000000001.json")].clone();
    assert_eq!(first.manifest().into_bytes(), text);
    let now = Instant::now();
    let Found::Here(file) = share.find(&name(&first, 1), now).unwrap() else {
        panic!("it is there")
    };
    let bytes = disk.files()[&Path::new(CATALOG).join(first.object(&first.files[1]))].clone();
    assert_eq!((file.bytes(), file.read(0, 1 << 30).unwrap()), (bytes.len() as u64, bytes.clone()));
    assert_eq!(file.read(7, 9).unwrap(), bytes[7..16]);
    assert_eq!(file.read(file.bytes() + 1, 9).unwrap(), b"");

    let hash = "0".repeat(64);
    for missing in [
        "lock",
        "../catalog/docs",
        &format!("{:020}-{hash}", 1),
        &format!("1-{hash}"),
        &format!(
            "{:020}-{}",
            1, "../../../../../../../../../../../../../../../../../../etc/passwd"
        ),
    ] {
        assert!(matches!(share.find(missing, now).unwrap(), Found::Missing), "{missing}");
    }
    assert!(matches!(share.find(&format!("{:020}-{hash}", 2), now).unwrap(), Found::Coming(_)));

    for partition in ["a", "b", "c"] {
        replace(&disk, partition, 2);
    }
    publish(&disk, "docs", COLLECTION).unwrap();
    assert!(reader.refresh().unwrap());
    assert_eq!(share.version().unwrap().number, 2);
    assert!(matches!(share.find(&name(&first, 1), now).unwrap(), Found::Missing));
    assert_eq!(file.read(0, 1 << 30).unwrap(), bytes, "it is read to its end all the same");
}

#[test]
fn requests_wake_the_reader() {
    let disk = SimDisk::new();
    make_collection(&disk);
    publish(&disk, "docs", COLLECTION).unwrap();
    let (share, reader) = shared(&disk);
    let _watch = reader.watch(Duration::from_secs(3600), |_| ());
    replace(&disk, "b", 2);
    let second = publish(&disk, "docs", COLLECTION).unwrap().version;
    let new = second.files.iter().position(|file| file.since == 2).unwrap();
    let start = Instant::now();
    while !matches!(share.find(&name(&second, new), start).unwrap(), Found::Here(_)) {
        assert!(start.elapsed() < Duration::from_secs(30), "it was not woken");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The number in a request does not prove that the version exists: clients can invent it.
#[test]
fn an_invented_version_costs_one_look_and_delays_no_other_request() {
    let disk = SimDisk::new();
    make_collection(&disk);
    publish(&disk, "docs", COLLECTION).unwrap();
    let (share, reader) = shared(&disk);
    let made_up = |number: u64| format!("{number:020}-{}", "0".repeat(64));
    let numbers = [2, 3, u64::MAX - 1, u64::MAX];
    let asked = Instant::now();
    let waited = Duration::from_millis(30);
    for number in numbers {
        let found = share.find(&made_up(number), asked).unwrap();
        assert!(matches!(found, Found::Coming(_)), "nobody has looked: {found:?}");
    }
    std::thread::sleep(waited);
    let Found::Coming(idle) = share.find(&made_up(u64::MAX), asked).unwrap() else {
        panic!("nobody has looked");
    };
    assert!(idle >= waited, "who asks must see how long nothing came");
    assert!(!reader.refresh().unwrap());
    for number in numbers {
        assert!(matches!(share.find(&made_up(number), asked).unwrap(), Found::Missing));
    }

    // A later request for the next version starts its own waiting time.
    replace(&disk, "b", 2);
    let second = publish(&disk, "docs", COLLECTION).unwrap().version;
    let new = second.files.iter().position(|file| file.since == 2).unwrap();
    let start = Instant::now();
    let Found::Coming(idle) = share.find(&name(&second, new), start).unwrap() else {
        panic!("nobody has looked since");
    };
    // Counted from this request: with the earlier ones it would be longer by `waited` at least.
    assert!(idle <= start.elapsed(), "{idle:?}");
    assert!(reader.refresh().unwrap());
    assert!(matches!(share.find(&name(&second, new), start).unwrap(), Found::Here(_)));

    // A reader that was woken ends the wait by itself, repeatedly.
    let _watch = reader.watch(Duration::from_secs(3600), |_| ());
    for number in [u64::MAX, 7] {
        let start = Instant::now();
        while !matches!(share.find(&made_up(number), start).unwrap(), Found::Missing) {
            assert!(start.elapsed() < Duration::from_secs(30), "it was not woken");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    // A failed look counts as a look: the client tries another source.
    let start = Instant::now();
    disk.remove(&Path::new(CATALOG).join("docs/versions/00000000000000000002.json")).unwrap();
    disk.write_raw(&Path::new(CATALOG).join("docs/versions/00000000000000000009.json"), b"{}");
    assert!(reader.refresh().is_err());
    assert!(matches!(share.find(&made_up(9), start).unwrap(), Found::Missing));
}

/// An origin with several sources, some of which send wrong bytes.
#[derive(Debug)]
struct Several {
    inner: LocalOrigin,
    /// The number of sources that send wrong bytes.
    liars: AtomicU32,
    /// No further source is left.
    is_alone: AtomicBool,
    awaited: String,
    read: Mutex<Vec<String>>,
}

impl Several {
    fn new(disk: &Arc<SimDisk>, awaited: &str) -> Arc<Several> {
        Arc::new(Several {
            inner: LocalOrigin::new(disk.clone() as DiskRef, Path::new(CATALOG)),
            liars: AtomicU32::new(0),
            is_alone: AtomicBool::new(false),
            awaited: awaited.to_string(),
            read: Mutex::default(),
        })
    }
}

impl Origin for Several {
    fn create(&self, object: &str, bytes: &[u8]) -> Result<()> {
        self.inner.create(object, bytes)
    }

    fn store(&self, objects: &[(String, Content<'_>)], progress: &dyn Fn(u64)) -> Result<()> {
        self.inner.store(objects, progress)
    }

    fn read(&self, object: &str, offset: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = self.inner.read(object, offset, len)?;
        if object.contains("/files/") {
            self.read.lock().unwrap().push(object.to_string());
            bytes[0] ^= u8::from(self.liars.load(Relaxed) > 0);
        }
        Ok(bytes)
    }

    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.inner.list(folder)
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>> {
        self.inner.list_folders(folder)
    }

    fn remove(&self, objects: &[String]) -> Result<()> {
        self.inner.remove(objects)
    }

    fn is_awaited(&self, object: &str) -> bool {
        object == self.awaited
    }

    fn reject(&self, _: &str) -> bool {
        !self.is_alone.load(Relaxed)
            && self.liars.fetch_update(Relaxed, Relaxed, |liars| liars.checked_sub(1)).is_ok()
    }
}

fn open(disk: &Arc<SimDisk>, several: &Arc<Several>, cache: &str) -> Result<CatalogReader> {
    let catalog = Catalog { origin: several.clone(), disk: disk.clone() as DiskRef };
    let options = ReaderOptions { threads: 1, ..ReaderOptions::default() };
    catalog.reader("docs", Path::new(cache), options)
}

#[test]
fn wrong_bytes_are_fetched_from_another_source() {
    let disk = SimDisk::new();
    make_collection(&disk);
    publish(&disk, "docs", COLLECTION).unwrap();
    let several = Several::new(&disk, "");
    several.liars.store(3, Relaxed);
    let reader = open(&disk, &several, CACHE).unwrap();
    assert_eq!(reader.current().collection().unwrap().count(&all()).unwrap(), 12);
    reader.current().collection().unwrap().verify().unwrap();
    assert_eq!(several.read.lock().unwrap().len(), 4 + 3);
    // No source is left.
    let several = Several::new(&disk, "");
    several.is_alone.store(true, Relaxed);
    several.liars.store(1, Relaxed);
    let error = open(&disk, &several, "/other").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
}

#[test]
fn awaited_files_are_fetched_first() {
    let disk = SimDisk::new();
    make_collection(&disk);
    let version = publish(&disk, "docs", COLLECTION).unwrap().version;
    for (n, file) in version.files.iter().enumerate() {
        let several = Several::new(&disk, &version.object(file));
        open(&disk, &several, &format!("/cache-{n}")).unwrap();
        assert_eq!(several.read.lock().unwrap()[0], version.object(file));
    }
}
