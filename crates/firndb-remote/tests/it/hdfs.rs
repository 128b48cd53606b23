//! A catalog in HDFS.

use super::alike::{go_back_and_clean, publish_read_and_swap};
use super::*;
use crate::minidfs::MiniDfs;
use crate::race::race;
use firndb::ErrorKind;
use firndb::catalog::{Content, Origin};
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
