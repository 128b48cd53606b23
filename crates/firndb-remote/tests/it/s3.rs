//! Tests of a catalog in an object store.

use super::alike::{go_back_and_clean, publish_read_and_swap, store_a_large_file};
use super::moto::variables;
use super::*;
use firndb::ErrorKind;
use firndb::catalog::{Content, Origin};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn catalog(moto: &Moto, bucket: &str) -> Catalog {
    Catalog::at(Arc::new(origin(moto, bucket, "some/prefix")))
}

#[test]
fn s3_publish_read_and_swap() {
    let Some(moto) = Moto::shared("s3_publish_read_and_swap") else { return };
    moto.bucket("swap");
    let (place, catalog) = (Place::new(), catalog(&moto, "swap"));
    publish_read_and_swap(&place, &catalog);
}

#[test]
fn s3_rollback_and_clean() {
    let Some(moto) = Moto::shared("s3_rollback_and_clean") else { return };
    moto.bucket("clean");
    let (place, catalog) = (Place::new(), catalog(&moto, "clean"));
    go_back_and_clean(&place, &catalog, &origin(&moto, "clean", "some/prefix"));
}

#[test]
fn s3_large_files_and_reads_past_the_end() {
    let Some(moto) = Moto::shared("s3_large_files_and_reads_past_the_end") else {
        return;
    };
    moto.bucket("large");
    let origin = super::origin(&moto, "large", "");
    let place = Place::new();
    let (file, len) = store_a_large_file(&place, &origin);
    // A file that is shorter than stated must not become an object.
    let blake3 = &hash_of(&fs::read(&file).unwrap());
    let content = |bytes, blake3| Content::File { path: &file, bytes, blake3 };
    let short = [("a/x".to_string(), content(len + 1, blake3))];
    assert_eq!(origin.store(&short, &|_| ()).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(origin.read("a/x", 0, 9).unwrap_err().kind(), ErrorKind::NotFound);
    // Nor one with other bytes, whether sent in parts or as a whole.
    let other_hash = "0".repeat(64);
    for bytes in [len, 1000] {
        let other = [("a/x".to_string(), content(bytes, &other_hash))];
        let error = origin.store(&other, &|_| ()).unwrap_err();
        assert_eq!((error.kind(), error.file()), (ErrorKind::NotFound, Some(&*file)), "{error}");
        assert_eq!(origin.read("a/x", 0, 9).unwrap_err().kind(), ErrorKind::NotFound);
    }
    // Copying an object of another length is an error.
    let copy = Content::Object { from: "a/large".to_string(), bytes: len - 1 };
    let error = origin.store(&[("a/x".to_string(), copy)], &|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let open = moto.ask("GET", "/large?uploads");
    assert!(open.contains("ListMultipartUploadsResult") && !open.contains("<UploadId>"), "{open}");
}

#[test]
fn s3_errors_are_reported() {
    let Some(moto) = Moto::shared("s3_errors_are_reported") else { return };
    let missing = origin(&moto, "no-such-bucket", "").list("").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
    assert!(missing.to_string().starts_with("s3://no-such-bucket"), "{missing}");
    assert!(missing.message().contains("no such bucket"), "{missing}");
}

/// Needs no server.
#[test]
fn unreachable_stores_time_out() {
    let patience = Patience {
        connect: Duration::from_millis(500),
        request: Duration::from_millis(500),
        retries: 1,
    };
    let at = |variables: Vec<(String, String)>| {
        ObjectOrigin::s3_with(variables, "b", "p", patience).unwrap()
    };
    let start = Instant::now();
    // One address has no server, and one has a server that never responds.
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
