//! A catalog in HDFS.

use super::*;
use crate::minidfs::MiniDfs;
use crate::race::race;
use firndb::ErrorKind;
use firndb::catalog::{CleanOptions, Content, Origin};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

fn origin(hdfs: &MiniDfs, folder: &str) -> ObjectOrigin {
    ObjectOrigin::hdfs(&hdfs.server, folder, Patience::default()).unwrap()
}

fn catalog(hdfs: &MiniDfs, folder: &str) -> Catalog {
    Catalog::at(Arc::new(origin(hdfs, folder)))
}

#[test]
fn what_is_published_in_hdfs_is_read_and_swapped() {
    let Some(hdfs) = MiniDfs::shared("what_is_published_in_hdfs_is_read_and_swapped") else {
        return;
    };
    let place = Place::new();
    let catalog = firndb_remote::create(&format!("hdfs://{}/user/me", hdfs.server)).unwrap();
    assert!(catalog.names().unwrap().is_empty());
    assert_eq!(catalog.newest("words").unwrap_err().kind(), ErrorKind::NotFound);
    let sent = AtomicU64::new(0);
    let progress = |done, bytes| {
        assert!(done <= bytes);
        sent.store(done, Ordering::Relaxed);
    };
    let options = PublishOptions { progress: Some(&progress), ..PublishOptions::default() };
    let first = catalog.publish("words", &place.table(1, 10_000), &options).unwrap();
    assert_eq!((first.version.number, first.bytes_sent), (1, sent.into_inner()));
    let reader = read(&catalog, "words", &place.path("cache")).unwrap();
    assert_eq!((version_in(&reader), reader.refresh().unwrap()), (1, false));
    for version in 2..6 {
        publish(&catalog, "words", &place.table(version, 10_000)).unwrap();
        let held = reader.current();
        assert!(reader.refresh().unwrap());
        assert_eq!((version_in(&reader), held.version().number), (version, version - 1));
        assert!(held.table().unwrap().get(b"key 3").unwrap().is_some());
    }

    let docs = place.collection(&["a", "b", "c"], 1);
    publish(&catalog, "docs", &docs).unwrap();
    let reader = read(&catalog, "docs", &place.path("docs-cache")).unwrap();
    place.collection(&["b"], 2);
    assert_eq!(publish(&catalog, "docs", &docs).unwrap().files_sent, 2);
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
    catalog.pull(&newest, &place.path("copy"), 4, &tell).unwrap();
    assert_eq!(came.load(Ordering::Relaxed), bytes);
    Collection::open(&place.path("copy")).unwrap().reader().verify().unwrap();
}

#[test]
fn versions_in_hdfs_go_back_and_are_cleaned_away() {
    let Some(hdfs) = MiniDfs::shared("versions_in_hdfs_go_back_and_are_cleaned_away") else {
        return;
    };
    let (place, catalog) = (Place::new(), catalog(&hdfs, "clean"));
    for version in 1..=4 {
        publish(&catalog, "words", &place.table(version, 3_000)).unwrap();
    }
    catalog.pin("words", 2, "").unwrap();
    assert_eq!(catalog.pin("words", 2, "again").unwrap_err().kind(), ErrorKind::AlreadyExists);
    let back = catalog.rollback("words", 1, &PublishOptions::default()).unwrap().version;
    assert_eq!((back.number, back.restores), (5, Some(1)));
    let clean = CleanOptions { keep: 1, grace: Duration::ZERO, dry_run: false };
    let cleaned = catalog.clean("words", &clean).unwrap();
    assert_eq!((cleaned.versions, cleaned.files), (vec![1, 3, 4], 3));
    assert_eq!(catalog.versions("words").unwrap(), [2, 5]);
    for number in [2, 5] {
        catalog.verify(&catalog.version("words", number).unwrap(), |_| ()).unwrap();
    }
    assert_eq!(version_in(&read(&catalog, "words", &place.path("cache")).unwrap()), 1);
    assert_eq!(catalog.pins("words").unwrap(), [2]);
    catalog.unpin("words", 2).unwrap();
    catalog.unpin("words", 2).unwrap();
    assert_eq!(catalog.clean("words", &clean).unwrap().versions, [2]);
    assert_eq!(origin(&hdfs, "clean").list("words/files").unwrap().len(), 1);
}

/// 20 MiB: three parts.
#[test]
fn large_files_go_to_hdfs_in_parts_and_reads_end_where_files_end() {
    let Some(hdfs) = MiniDfs::shared("large_files_go_to_hdfs_in_parts_and_reads_end") else {
        return;
    };
    let (place, origin) = (Place::new(), origin(&hdfs, ""));
    let file = place.path("large");
    let mut random = Random(1);
    let bytes: Vec<u8> = (0..20 << 17).flat_map(|_| random.next().to_le_bytes()).collect();
    fs::write(&file, &bytes).unwrap();
    let len = bytes.len() as u64;
    let seen = AtomicU64::new(0);
    let tell = |more| {
        seen.fetch_add(more, Ordering::Relaxed);
    };
    let objects = [
        ("large/a".to_string(), Content::File(&file, len)),
        ("large/copy".to_string(), Content::Object("large/a".to_string())),
        ("large/gone".to_string(), Content::Object("large/nothing".to_string())),
    ];
    origin.store(&objects[..1], &tell).unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), len);
    origin.store(&objects[1..2], &|_| ()).unwrap();
    assert_eq!(origin.store(&objects[2..], &|_| ()).unwrap_err().kind(), ErrorKind::NotFound);
    for object in ["large/a", "large/copy"] {
        assert_eq!(origin.read(object, 0, bytes.len() + 9).unwrap(), bytes);
        assert_eq!(origin.read(object, len - 5, 9).unwrap(), bytes[bytes.len() - 5..]);
        assert_eq!(origin.read(object, 9 << 20, 100).unwrap(), bytes[9 << 20..(9 << 20) + 100]);
        for beyond in [len, len + 1000] {
            assert!(origin.read(object, beyond, 1).unwrap().is_empty());
        }
    }
    assert_eq!(origin.list("large").unwrap(), ["a", "copy"]);
    assert!(origin.list_folders("").unwrap().contains(&"large".to_string()));
    assert!(origin.list("no/such/folder").unwrap().is_empty());
    assert_eq!(origin.read("large/nothing", 0, 1).unwrap_err().kind(), ErrorKind::NotFound);
    origin.create("large/empty", b"").unwrap();
    assert!(origin.read("large/empty", 0, 9).unwrap().is_empty());
    origin.remove(&["large/empty".to_string(), "large/nothing".to_string()]).unwrap();
}

#[test]
fn two_publishers_in_hdfs() {
    let Some(hdfs) = MiniDfs::shared("two_publishers_in_hdfs") else { return };
    race(vec![catalog(&hdfs, "race"), catalog(&hdfs, "race")], 20);
    // Who came second leaves what it wrote under another name: not seen, and swept in time.
    let seen = origin(&hdfs, "race").list("words/versions").unwrap();
    assert_eq!(seen.len(), 40);
}

#[test]
fn nobody_waits_for_ever_for_hdfs() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = TcpListener::bind("127.0.0.1:0").unwrap();
    let addresses = [silent.local_addr().unwrap(), refused.local_addr().unwrap()];
    drop(refused);
    let patience = Patience { request: Duration::from_millis(300), ..Patience::default() };
    for address in addresses {
        let origin = ObjectOrigin::hdfs(&address.to_string(), "p", patience).unwrap();
        let start = Instant::now();
        let file = Path::new(file!()).canonicalize().unwrap_or_else(|_| "Cargo.toml".into());
        let object = [("a/c".to_string(), Content::File(&file, 10))];
        let errors = [
            origin.read("a/b", 0, 1).unwrap_err(),
            origin.list("a").unwrap_err(),
            origin.create("a/b", b"x").unwrap_err(),
            origin.store(&object, &|_| ()).unwrap_err(),
            origin.remove(&["a/b".to_string()]).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
            assert!(error.to_string().starts_with(&format!("hdfs://{address}/p/")), "{error}");
            assert!(error.message().contains("HADOOP_CONF_DIR"), "{error}");
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    }
    let error = firndb_remote::open("hdfs://no-such-service/p").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.message().contains("HOST:PORT"), "{error}");
}
