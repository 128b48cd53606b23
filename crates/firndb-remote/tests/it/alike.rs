//! Tests of catalog behaviour that is common to all origins.

use super::*;
use firndb::ErrorKind;
use firndb::catalog::{CleanOptions, Content, Origin};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Publishes tables and collections in an empty catalog, and reads, swaps, verifies and pulls them.
pub fn publish_read_and_swap(place: &Place, catalog: &Catalog) {
    assert!(catalog.names().unwrap().is_empty());
    assert_eq!(catalog.newest("words").unwrap_err().kind(), ErrorKind::NotFound);
    let sent = AtomicU64::new(0);
    let progress = |done, bytes| {
        assert!(done <= bytes);
        sent.store(done, Ordering::Relaxed);
    };
    let options = PublishOptions::new().progress(&progress);
    let first = catalog.publish("words", place.table(1, 10_000), &options).unwrap();
    assert_eq!((first.version.number, first.bytes_sent), (1, sent.into_inner()));
    let reader = read(catalog, "words", &place.path("cache")).unwrap();
    assert_eq!((version_in(&reader), reader.refresh().unwrap()), (1, false));
    for version in 2..6 {
        publish(catalog, "words", &place.table(version, 10_000)).unwrap();
        let held = reader.current();
        assert!(reader.refresh().unwrap());
        assert_eq!((version_in(&reader), held.version().number), (version, version - 1));
        assert!(held.table().unwrap().get(b"key 3").unwrap().is_some());
    }

    let docs = place.collection(&["a", "b", "c"], 1);
    publish(catalog, "docs", &docs).unwrap();
    let reader = read(catalog, "docs", &place.path("docs-cache")).unwrap();
    place.collection(&["b"], 2);
    assert_eq!(publish(catalog, "docs", &docs).unwrap().files_sent, 2);
    assert!(reader.refresh().unwrap());
    assert_eq!(reader.stats().files, 4 + 2);
    reader.current().collection().unwrap().verify().unwrap();
    assert_eq!(catalog.names().unwrap(), ["docs", "words"]);
    let newest = catalog.newest("docs").unwrap();
    assert_eq!(catalog.verify(&newest, |_| ()).unwrap().files, 4);
    let (came, bytes) = (AtomicU64::new(0), newest.bytes());
    let tell = |more| {
        came.fetch_add(more, Ordering::Relaxed);
    };
    catalog.pull(&newest, place.path("copy"), 4, &tell).unwrap();
    assert_eq!(came.load(Ordering::Relaxed), bytes);
    Collection::open(place.path("copy")).unwrap().reader().verify().unwrap();
}

/// Pins, rolls back and cleans versions in an empty catalog over `origin`.
pub fn go_back_and_clean(place: &Place, catalog: &Catalog, origin: &dyn Origin) {
    for version in 1..=4 {
        publish(catalog, "words", &place.table(version, 3_000)).unwrap();
    }
    catalog.pin("words", 2, "").unwrap();
    assert_eq!(catalog.pin("words", 2, "again").unwrap_err().kind(), ErrorKind::AlreadyExists);
    let back = catalog.rollback("words", 1, &PublishOptions::default()).unwrap().version;
    assert_eq!((back.number, back.restores), (5, Some(1)));
    let clean = CleanOptions::new().keep(1).grace(Duration::ZERO);
    let cleaned = catalog.clean("words", &clean).unwrap();
    assert_eq!((cleaned.versions, cleaned.files), (vec![1, 3, 4], 3));
    assert_eq!(catalog.versions("words").unwrap(), [2, 5]);
    for number in [2, 5] {
        catalog.verify(&catalog.version("words", number).unwrap(), |_| ()).unwrap();
    }
    assert_eq!(version_in(&read(catalog, "words", &place.path("cache")).unwrap()), 1);
    assert_eq!(catalog.pins("words").unwrap(), [2]);
    catalog.unpin("words", 2).unwrap();
    catalog.unpin("words", 2).unwrap();
    assert_eq!(catalog.clean("words", &clean).unwrap().versions, [2]);
    assert_eq!(origin.list("words/files").unwrap().len(), 1);
}

/// Stores a file of 20 MiB (three parts) in an empty origin, copies it there, and reads up to its
/// end and beyond. Returns its path and length.
pub fn store_a_large_file(place: &Place, origin: &dyn Origin) -> (PathBuf, u64) {
    let file = place.path("large");
    let mut random = Random(1);
    let bytes: Vec<u8> = (0..20 << 17).flat_map(|_| random.next().to_le_bytes()).collect();
    fs::write(&file, &bytes).unwrap();
    let len = bytes.len() as u64;
    let seen = AtomicU64::new(0);
    let tell = |more| {
        seen.fetch_add(more, Ordering::Relaxed);
    };
    let store = |name: &str, content, tell: &(dyn Fn(u64) + Sync)| {
        origin.store(&[(name.to_string(), content)], tell)
    };
    let copy = |object: &str| Content::Object { from: object.to_string(), bytes: len };
    let blake3 = &hash_of(&bytes);
    store("a/large", Content::File { path: &file, bytes: len, blake3 }, &tell).unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), len);
    store("a/copy", copy("a/large"), &|_| ()).unwrap();
    for object in ["a/large", "a/copy"] {
        assert_eq!(origin.read(object, 0, bytes.len() + 9).unwrap(), bytes);
        assert_eq!(origin.read(object, len - 5, 9).unwrap(), bytes[bytes.len() - 5..]);
        assert_eq!(origin.read(object, 9 << 20, 100).unwrap(), bytes[9 << 20..(9 << 20) + 100]);
        for beyond in [len, len + 1000] {
            assert!(origin.read(object, beyond, 1).unwrap().is_empty());
        }
    }
    origin.create("a/empty", b"").unwrap();
    assert_eq!(origin.read("a/empty", 0, 9).unwrap(), b"");
    assert_eq!(origin.list("a").unwrap(), ["copy", "empty", "large"]);
    let gone = Content::File { path: Path::new("missing"), bytes: 9, blake3 };
    for missing in [copy("a/missing"), gone] {
        let kind = store("a/x", missing, &|_| ()).unwrap_err().kind();
        assert_eq!(kind, ErrorKind::NotFound);
    }
    assert_eq!(origin.read("a/x", 0, 9).unwrap_err().kind(), ErrorKind::NotFound);
    (file, len)
}
