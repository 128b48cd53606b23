//! A catalog in an object store.

use super::moto::variables;
use super::*;
use firndb::ErrorKind;
use firndb::catalog::{CleanOptions, Content, Origin};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

fn catalog(moto: &Moto, bucket: &str) -> Catalog {
    Catalog::at(Arc::new(origin(moto, bucket, "some/prefix")))
}

#[test]
fn what_is_published_is_read_and_swapped() {
    let Some(moto) = Moto::shared("what_is_published_is_read_and_swapped") else { return };
    moto.bucket("swap");
    let (place, catalog) = (Place::new(), catalog(&moto, "swap"));
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
    publish(&catalog, "words", &place.table(2, 10_000)).unwrap();
    assert!(reader.refresh().unwrap());
    assert_eq!((version_in(&reader), reader.stats().files), (2, 2));

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
    catalog.pull(&newest, &place.path("copy"), 4, &|_| ()).unwrap();
    Collection::open(&place.path("copy")).unwrap().reader().verify().unwrap();
}

#[test]
fn versions_go_back_and_are_cleaned_away() {
    let Some(moto) = Moto::shared("versions_go_back_and_are_cleaned_away") else { return };
    moto.bucket("clean");
    let (place, catalog) = (Place::new(), catalog(&moto, "clean"));
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
    assert_eq!(origin(&moto, "clean", "some/prefix").list("words/files").unwrap().len(), 1);
}

/// 20 MiB: three parts.
#[test]
fn large_files_go_in_parts_and_reads_end_where_objects_end() {
    let Some(moto) = Moto::shared("large_files_go_in_parts_and_reads_end_where_objects_end") else {
        return;
    };
    moto.bucket("large");
    let (place, origin) = (Place::new(), super::origin(&moto, "large", ""));
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
        ("a/large".to_string(), Content::File(&file, len)),
        ("a/copy".to_string(), Content::Object("a/large".to_string())),
    ];
    origin.store(&objects[..1], &tell).unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), len);
    origin.store(&objects[1..], &|_| ()).unwrap();
    for object in ["a/large", "a/copy"] {
        assert_eq!(origin.read(object, 0, bytes.len() + 9).unwrap(), bytes);
        assert_eq!(origin.read(object, len - 5, 9).unwrap(), bytes[bytes.len() - 5..]);
        assert_eq!(origin.read(object, len, 9).unwrap(), b"");
    }
    origin.create("a/empty", b"").unwrap();
    assert_eq!(origin.read("a/empty", 0, 9).unwrap(), b"");
    assert_eq!(origin.list("a").unwrap(), ["copy", "empty", "large"]);
    let missing = [("a/x".to_string(), Content::Object("a/missing".to_string()))];
    assert_eq!(origin.store(&missing, &|_| ()).unwrap_err().kind(), ErrorKind::NotFound);
    let missing = [("a/x".to_string(), Content::File(Path::new("missing"), 9))];
    assert_eq!(origin.store(&missing, &|_| ()).unwrap_err().kind(), ErrorKind::NotFound);
    // A file that is shorter than was said must not become an object.
    let short = [("a/x".to_string(), Content::File(&file, len + 1))];
    assert_eq!(origin.store(&short, &|_| ()).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(origin.read("a/x", 0, 9).unwrap_err().kind(), ErrorKind::NotFound);
    let open = moto.ask("GET", "/large?uploads");
    assert!(open.contains("ListMultipartUploadsResult") && !open.contains("<UploadId>"), "{open}");
}

#[test]
fn mistakes_are_told() {
    let Some(moto) = Moto::shared("mistakes_are_told") else { return };
    let missing = origin(&moto, "no-such-bucket", "").list("").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
    assert!(missing.to_string().starts_with("s3://no-such-bucket"), "{missing}");
    assert!(missing.message().contains("no such bucket"), "{missing}");
}

/// Needs no server.
#[test]
fn a_store_that_cannot_be_reached_is_an_error_in_time() {
    let patience = Patience {
        connect: Duration::from_millis(500),
        request: Duration::from_millis(500),
        retries: 1,
    };
    let at = |variables: Vec<(String, String)>| {
        ObjectOrigin::s3_with(variables, "b", "p", patience).unwrap()
    };
    let start = Instant::now();
    // Nobody is there, and somebody who never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    for port in [refused, silent.local_addr().unwrap().port()] {
        let error = at(variables(port)).read("a/b", 0, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.to_string().starts_with("s3://b/p/a/b: "), "{error}");
        assert!(error.message().contains("AWS_ENDPOINT_URL"), "{error}");
    }
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    let encrypted = variables(refused).into_iter().filter(|(name, _)| name != "AWS_ALLOW_HTTP");
    let error = at(encrypted.collect()).list("").unwrap_err();
    assert!(error.message().contains("AWS_ALLOW_HTTP"), "{error}");
}
