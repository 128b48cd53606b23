//! A catalog in HDFS.

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
fn what_is_published_in_hdfs_is_read_and_swapped() {
    let Some(hdfs) = MiniDfs::shared("what_is_published_in_hdfs_is_read_and_swapped") else {
        return;
    };
    let catalog = firndb_remote::create(&format!("hdfs://{}/user/me", hdfs.server)).unwrap();
    publish_read_and_swap(&Place::new(), &catalog);
}

#[test]
fn versions_in_hdfs_go_back_and_are_cleaned_away() {
    let Some(hdfs) = MiniDfs::shared("versions_in_hdfs_go_back_and_are_cleaned_away") else {
        return;
    };
    let (place, catalog) = (Place::new(), catalog(&hdfs, "clean"));
    go_back_and_clean(&place, &catalog, &origin(&hdfs, "clean"));
}

#[test]
fn large_files_go_to_hdfs_in_parts_and_reads_end_where_files_end() {
    let Some(hdfs) = MiniDfs::shared("large_files_go_to_hdfs_in_parts_and_reads_end") else {
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
