//! Tests of the responses of a relay.

use super::*;
use firndb::ErrorKind;
use firndb::catalog::Share;
use firndb_remote::Relay;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A reader of `words` with a relay.
struct Relayed {
    relay: Relay,
    reader: CatalogReader,
}

impl Relayed {
    fn new(place: &Place, catalog: &Catalog) -> Relayed {
        let share = Share::new("words");
        let relay = Relay::serve("127.0.0.1:0", vec![share.clone()]).unwrap();
        let options = ReaderOptions::new().share(share);
        let reader = catalog.reader("words", place.path("relayed"), options).unwrap();
        Relayed { relay, reader }
    }

    /// Sends a request; returns the header and the body of the response.
    fn ask(&self, method: &str, path: &str, fields: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(self.relay.address()).unwrap();
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
        let body = answer.split_off(end);
        (String::from_utf8(answer).unwrap().to_lowercase(), body)
    }

    fn url(&self) -> String {
        format!("http://{}", self.relay.address())
    }
}

#[test]
fn responses_follow_http_semantics() {
    let place = Place::new();
    let catalog = Catalog::create(place.path("catalog")).unwrap();
    let version = publish(&catalog, "words", &place.table(1, 700_000)).unwrap().version;
    let relayed = Relayed::new(&place, &catalog);
    let object = format!("/{}", version.object(&version.files[0]));
    let bytes = fs::read(place.path("catalog").join(&object[1..])).unwrap();
    let status = |method: &str, path: &str, fields: &str, status: u16| {
        let (head, body) = relayed.ask(method, path, fields);
        assert!(head.starts_with(&format!("http/1.1 {status} ")), "{path}: {head}");
        (head, body)
    };
    let (head, body) = status("GET", &object, "", 200);
    assert!(head.contains("accept-ranges: bytes") && body == bytes);
    let (head, body) = status("HEAD", &object, "", 200);
    assert!(head.contains(&format!("content-length: {}", bytes.len())) && body.is_empty());
    let (head, body) = status("GET", &object, "Range: bytes=300000-300009\r\n", 206);
    let part = format!("content-range: bytes 300000-300009/{}", bytes.len());
    assert!(head.contains(&part) && body == bytes[300_000..300_010], "{head}");
    let (_, body) = status("GET", &object, "Range: bytes=-9\r\n", 206);
    assert_eq!(body, bytes[bytes.len() - 9..]);
    status("GET", &object, "Range: bytes=900000000-\r\n", 416);
    let etag = head.split("etag: ").nth(1).unwrap().lines().next().unwrap().to_string();
    let (_, body) = status("GET", &object, &format!("If-None-Match: {etag}\r\n"), 304);
    assert!(body.is_empty());
    let (_, body) = status("GET", &object, "Range: bytes=0-1\r\nIf-Range: \"x\"\r\n", 200);
    assert_eq!(body.len(), bytes.len());

    assert_eq!(status("GET", "/", "", 200).1, b"[\"words/\"]");
    let (head, body) = status("GET", "/words/versions/", "", 200);
    assert_eq!(body, b"[\"00000000000000000001.json\"]");
    let etag = head.split("etag: ").nth(1).unwrap().lines().next().unwrap().to_string();
    status("GET", "/words/versions/", &format!("If-None-Match: {etag}\r\n"), 304);
    let (_, body) = status("GET", "/words/versions/00000000000000000001.json", "", 200);
    let manifest = place.path("catalog/words/versions/00000000000000000001.json");
    assert_eq!(body, fs::read(manifest).unwrap());
    let hash = "0".repeat(64);
    for path in [
        "/words/versions/00000000000000000002.json",
        "/words/files/../../../relayed/lock",
        "/words/files/lock",
        "/other/versions/",
        "/words",
        &format!("/words/files/{:020}-{hash}", 1),
    ] {
        status("GET", path, "", 404);
    }
    for method in ["PUT", "POST", "DELETE"] {
        status(method, &object, "", 405);
    }
    assert!(relayed.relay.stats().bytes > 2 * bytes.len() as u64);
    let taken = relayed.relay.address().to_string();
    let error = Relay::serve(&taken, Vec::new()).unwrap_err();
    assert!(error.message().contains(&taken), "{error}");
}

#[test]
fn a_relay_serves_as_a_catalog() {
    let place = Place::new();
    let catalog = Catalog::create(place.path("catalog")).unwrap();
    publish(&catalog, "words", &place.table(1, 9 << 20)).unwrap();
    let relayed = Relayed::new(&place, &catalog);
    let far = firndb_remote::open(&relayed.url()).unwrap();
    assert_eq!(far.names().unwrap(), ["words"]);
    let reader = read(&far, "words", &place.path("far")).unwrap();
    assert_eq!((version_in(&reader), reader.refresh().unwrap()), (1, false));
    publish(&catalog, "words", &place.table(2, 9 << 20)).unwrap();
    assert!(!reader.refresh().unwrap(), "the relay has not got it yet");
    assert!(relayed.reader.refresh().unwrap() && reader.refresh().unwrap());
    assert_eq!(version_in(&reader), 2);
    far.verify(&far.newest("words").unwrap(), |_| ()).unwrap();
    assert_eq!(far.version("words", 1).unwrap_err().kind(), ErrorKind::NotFound);
    // Checking for a new version costs two responses without a body.
    let before = relayed.relay.stats();
    reader.refresh().unwrap();
    let after = relayed.relay.stats();
    assert_eq!(after.requests - before.requests, 2);
    assert!(after.bytes - before.bytes < 100, "{before:?} {after:?}");
}

/// Requests for invented versions make the reader look, and end with 404. Meanwhile requests for
/// the real next version are answered.
#[test]
fn requests_for_invented_versions_do_not_block_others() {
    let place = Place::new();
    let catalog = Catalog::create(place.path("catalog")).unwrap();
    publish(&catalog, "words", &place.table(1, 1000)).unwrap();
    let relayed = Relayed::new(&place, &catalog);
    let _watch = relayed.reader.watch(Duration::from_secs(3600), |_| ());
    let ask = |object: &str| {
        let start = Instant::now();
        loop {
            let (head, body) = relayed.ask("GET", &format!("/{object}"), "");
            if !head.starts_with("http/1.1 503 ") {
                return (head, body);
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{head}");
        }
    };
    for round in 2..5 {
        let next = publish(&catalog, "words", &place.table(round, 1000)).unwrap().version;
        std::thread::scope(|scope| {
            for number in [round + 1, u64::MAX / 2, u64::MAX] {
                scope.spawn(move || {
                    let (head, _) = ask(&format!("words/files/{number:020}-{}", "0".repeat(64)));
                    assert!(head.starts_with("http/1.1 404 "), "{head}");
                });
            }
            let (head, body) = ask(&next.object(&next.files[0]));
            assert!(head.starts_with("http/1.1 200 "), "{head}");
            assert_eq!(body.len() as u64, next.files[0].bytes);
        });
    }
}

#[test]
fn a_share_is_bound_to_its_name() {
    let place = Place::new();
    let catalog = Catalog::create(place.path("catalog")).unwrap();
    publish(&catalog, "words", &place.table(1, 100)).unwrap();
    let options = ReaderOptions::new().share(Share::new("other"));
    let opened = catalog.reader("words", place.path("cache"), options);
    assert_eq!(opened.err().unwrap().kind(), ErrorKind::InvalidArgument);
}

/// Requests that are answered, interrupted, or never sent: none may leave a file or connection
/// open.
#[test]
#[cfg(target_os = "linux")]
fn requests_leak_no_descriptors() {
    let place = Place::new();
    let catalog = Catalog::create(place.path("catalog")).unwrap();
    let version = publish(&catalog, "words", &place.table(1, 3 << 20)).unwrap().version;
    let relayed = Arc::new(Relayed::new(&place, &catalog));
    let object = format!("/{}", version.object(&version.files[0]));
    let ports = || {
        // Counts those of this relay only: other tests of this process have files and connections,
        // too.
        let port = format!(":{:04X} ", relayed.relay.address().port());
        let table = fs::read_to_string("/proc/self/net/tcp").unwrap();
        let ours = table.lines().filter(|line| line.contains(&port) && line.contains(" 01 "));
        ours.count()
    };
    let files = || {
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let open = open.filter_map(|fd| fs::read_link(fd.path()).ok());
        open.filter(|path| path.starts_with(place.path("relayed"))).count()
    };
    let before = files();
    for round in 0..1500 {
        match round % 3 {
            0 => drop(relayed.ask("GET", &object, "Range: bytes=0-99\r\n")),
            1 => drop(relayed.ask("GET", "/words/files/none", "")),
            // Disconnects with most of the response unread.
            _ => {
                let mut stream = TcpStream::connect(relayed.relay.address()).unwrap();
                let head = format!("GET {object} HTTP/1.1\r\nHost: h\r\n\r\n");
                stream.write_all(head.as_bytes()).unwrap();
                stream.read_exact(&mut [0; 100]).unwrap();
            }
        }
    }
    let start = Instant::now();
    while files() > before || ports() > 0 {
        let (files, ports) = (files(), ports());
        assert!(start.elapsed().as_secs() < 20, "{files} of {before} files, {ports} connections");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(relayed.relay.stats().requests, 1500);
}
