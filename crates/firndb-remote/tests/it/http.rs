//! Tests of a catalog directory behind a plain web server: Python's, which sends pages of links and
//! does not support ranges.

use super::*;
use firndb::ErrorKind;
use firndb::catalog::CleanOptions;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Web {
    child: Child,
    url: String,
}

impl Web {
    fn start(dir: &Path) -> Web {
        for _ in 0..5 {
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let mut command = Command::new("python3");
            command.args(["-m", "http.server", "--bind", "127.0.0.1", "--directory"]);
            command.arg(dir).arg(port.to_string()).stdin(Stdio::null());
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let mut web = Web { child, url: format!("http://127.0.0.1:{port}/") };
            let start = Instant::now();
            while web.child.try_wait().unwrap().is_none() {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return web;
                }
                assert!(start.elapsed() < Duration::from_secs(60), "no answer from python3");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        panic!("python3 cannot serve a directory");
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn reads_a_catalog_from_a_web_server() {
    let place = Place::new();
    let local = Catalog::create(place.path("site/catalog")).unwrap();
    publish(&local, "words", &place.table(1, 10_000)).unwrap();
    let web = Web::start(&place.path("site"));
    let catalog = firndb_remote::open(&format!("{}catalog", web.url)).unwrap();
    assert_eq!(catalog.names().unwrap(), ["words"]);
    let reader = read(&catalog, "words", &place.path("cache")).unwrap();
    assert_eq!((version_in(&reader), reader.refresh().unwrap()), (1, false));
    publish(&local, "words", &place.table(2, 10_000)).unwrap();
    assert!(reader.refresh().unwrap());
    assert_eq!(version_in(&reader), 2);
    local.pin("words", 1, "note").unwrap();
    assert_eq!(catalog.pins("words").unwrap(), [1]);
    catalog.verify(&catalog.newest("words").unwrap(), |_| ()).unwrap();
    assert_eq!(catalog.newest("other").unwrap_err().kind(), ErrorKind::NotFound);

    let refused = publish(&catalog, "words", &place.table(3, 100)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.message().contains("can only be read"), "{refused}");
    // A file of several pieces requires a server that supports ranges.
    publish(&local, "words", &place.table(4, 5 << 20)).unwrap();
    let error = reader.refresh().unwrap_err();
    assert!(error.message().contains("ranges"), "{error}");
    assert_eq!(version_in(&reader), 2);
    drop(web);
    assert_eq!(reader.refresh().unwrap_err().kind(), ErrorKind::Io);
}

/// A new reader finds the newest version even if the server has no index or an empty one, and the
/// first versions were removed.
#[test]
fn readers_need_no_index() {
    for index in ["<html>welcome</html>", "welcome"] {
        let place = Place::new();
        let local = Catalog::create(place.path("catalog")).unwrap();
        for version in 1..=4 {
            publish(&local, "words", &place.table(version, 1000)).unwrap();
        }
        let clean = CleanOptions::new().keep(1).grace(Duration::ZERO);
        assert_eq!(local.clean("words", &clean).unwrap().versions, [1, 2, 3]);
        for folder in ["", "words", "words/versions", "words/files"] {
            fs::write(place.path("catalog").join(folder).join("index.html"), index).unwrap();
        }
        let web = Web::start(&place.path("catalog"));
        let catalog = firndb_remote::open(&web.url).unwrap();
        assert!(catalog.versions("words").is_err(), "the server does list");
        let reader = read(&catalog, "words", &place.path("cache")).unwrap();
        assert_eq!((reader.current().version().number, version_in(&reader)), (4, 4));
        assert!(!reader.refresh().unwrap());
        for version in 5..=7 {
            publish(&local, "words", &place.table(version, 1000)).unwrap();
        }
        local.clean("words", &clean).unwrap();
        assert!(reader.refresh().unwrap());
        assert_eq!((reader.current().version().number, version_in(&reader)), (7, 7));
        fs::remove_file(place.path("catalog/words/newest")).unwrap();
        assert!(read(&catalog, "words", &place.path("new")).is_err());
    }
}
