//! Tests of a catalog in HDFS.

use super::alike::{go_back_and_clean, publish_read_and_swap, store_a_large_file};
use super::*;
use crate::minidfs::MiniDfs;
use crate::race::race;
use firndb::ErrorKind;
use firndb::catalog::{Content, Origin};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn origin(hdfs: &MiniDfs, folder: &str) -> ObjectOrigin {
    ObjectOrigin::hdfs(&hdfs.server, folder, Patience::default()).unwrap()
}

fn catalog(hdfs: &MiniDfs, folder: &str) -> Catalog {
    Catalog::at(Arc::new(origin(hdfs, folder)))
}

#[test]
fn hdfs_publish_read_and_swap() {
    let Some(hdfs) = MiniDfs::shared("hdfs_publish_read_and_swap") else {
        return;
    };
    let catalog = firndb_remote::create(&format!("hdfs://{}/user/me", hdfs.server)).unwrap();
    publish_read_and_swap(&Place::new(), &catalog);
}

#[test]
fn hdfs_rollback_and_clean() {
    let Some(hdfs) = MiniDfs::shared("hdfs_rollback_and_clean") else {
        return;
    };
    let (place, catalog) = (Place::new(), catalog(&hdfs, "clean"));
    go_back_and_clean(&place, &catalog, &origin(&hdfs, "clean"));
}

#[test]
fn hdfs_large_files_and_reads_past_the_end() {
    let Some(hdfs) = MiniDfs::shared("hdfs_large_files_and_reads_past_the_end") else {
        return;
    };
    let origin = origin(&hdfs, "large");
    store_a_large_file(&Place::new(), &origin);
    assert_eq!(origin.list_folders("").unwrap(), ["a"]);
    assert!(origin.list("no/such/folder").unwrap().is_empty());
    origin.remove(&["a/empty".to_string(), "a/nothing".to_string()]).unwrap();
    assert_eq!(origin.list("a").unwrap(), ["copy", "large"]);
}

#[test]
fn hdfs_concurrent_publishers() {
    let Some(hdfs) = MiniDfs::shared("hdfs_concurrent_publishers") else { return };
    race(vec![catalog(&hdfs, "race"), catalog(&hdfs, "race")], 20);
    // The slower publisher leaves a temporary file, which is hidden, and swept later.
    let seen = origin(&hdfs, "race").list("words/versions").unwrap();
    assert_eq!(seen.len(), 40);
}

#[test]
fn hdfs_calls_time_out() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = TcpListener::bind("127.0.0.1:0").unwrap();
    let addresses = [silent.local_addr().unwrap(), refused.local_addr().unwrap()];
    drop(refused);
    let patience = Patience { request: Duration::from_millis(300), ..Patience::default() };
    for address in addresses {
        let origin = ObjectOrigin::hdfs(&address.to_string(), "p", patience).unwrap();
        let start = Instant::now();
        let file = Path::new(file!()).canonicalize().unwrap_or_else(|_| "Cargo.toml".into());
        let blake3 = &hash_of(&std::fs::read(&file).unwrap()[..10]);
        let object = [("a/c".to_string(), Content::File { path: &file, bytes: 10, blake3 })];
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
