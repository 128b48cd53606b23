//! Requests that are made to confuse the server.

use crate::raw::{Raw, address, assert_alive, request, server, status};
use crate::support::TestServer;
use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;

/// A request that must never be taken for one: what it stores would be found.
const SMUGGLED: &str =
    "PUT /v1/logs/log/keys/smuggled HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n\r\nx";

/// Requests with unclear boundaries. `*` stands for the smuggled request.
const UNCLEAR: [(&str, &str); 17] = [
    ("both lengths", "content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n*"),
    ("both lengths, reversed", "transfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n0\r\n\r\n*"),
    ("two lengths", "content-length: 0\r\ncontent-length: 5\r\n\r\n*"),
    ("a list of lengths", "content-length: 0, 5\r\n\r\n*"),
    ("a sign", "content-length: +0\r\n\r\n*"),
    ("a negative length", "content-length: -1\r\n\r\n*"),
    ("a length in hex", "content-length: 0x0\r\n\r\n*"),
    ("a huge length", "content-length: 99999999999999999999\r\n\r\n*"),
    ("an unknown coding", "transfer-encoding: xchunked\r\n\r\n0\r\n\r\n*"),
    ("chunked twice", "transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n*"),
    ("a folded line", "x: y\r\n transfer-encoding: chunked\r\n\r\n*"),
    ("a space before the colon", "content-length : 0\r\n\r\n*"),
    ("a bare CR", "x: y\rcontent-length: 5\r\n\r\n*"),
    ("a null byte", "x: y\0z\r\n\r\n*"),
    ("a chunk size that is none", "transfer-encoding: chunked\r\n\r\nzz\r\n*"),
    ("a chunk size that overflows", "transfer-encoding: chunked\r\n\r\n10000000000000000\r\n*"),
    ("a chunk without its end", "transfer-encoding: chunked\r\n\r\n1\r\nxy\r\n0\r\n\r\n*"),
];

#[test]
fn no_request_hides_in_another() {
    let server = server(|config| {
        config.limits.header_seconds = 0.3;
        config.limits.body_seconds = 0.3;
    });
    let get = request("GET", "/v1/logs/log/keys/smuggled");
    for (name, headers) in UNCLEAR {
        for (method, path) in [("PUT", "/v1/logs/log/keys/k"), ("GET", "/livez")] {
            let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}");
            let mut raw = Raw::send(address(&server), head.replace('*', SMUGGLED));
            let answers = raw.rest();
            assert!(answers.matches("HTTP/1.1 ").count() <= 1, "{name} {method}: {answers}");
            let found = status(&Raw::send(address(&server), &get).head());
            assert_eq!(found, 404, "{name} {method}: {answers}");
        }
        assert_alive(&server, name);
    }
    // A request with clear boundaries may be followed by another one.
    let both = format!("{}{SMUGGLED}", request("GET", "/livez"));
    let answers = Raw::send(address(&server), both).rest();
    assert_eq!(answers.matches("HTTP/1.1 ").count(), 2, "{answers}");
    assert_eq!(status(&Raw::send(address(&server), &get).head()), 200);
}

#[test]
fn a_bare_line_feed_ends_a_line_and_nothing_else() {
    let server = server(|_| ());
    let mut raw = Raw::send(address(&server), "GET /livez HTTP/1.1\nhost: localhost\n\n");
    raw.end();
    let answers = raw.rest();
    // Both ways are valid: RFC 9112, section 2.2.
    assert!([200, 400, 0].contains(&status(&answers)), "{answers}");
    assert!(answers.matches("HTTP/1.1 ").count() <= 1, "{answers}");
    assert_alive(&server, "bare line feeds");
}

/// Heads with mistakes, from a seed: bytes of a request are replaced, removed and repeated.
fn malformed(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = move |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % n
    };
    let good = "PUT /v1/logs/log/keys/k?encoding=hex HTTP/1.1\r\nhost: localhost\r\n\
                content-length: 3\r\nif-match: \"0\"\r\nfirndb-ttl: 1\r\n\
                origin: http://localhost\r\n\r\nabc";
    let mut head = good.as_bytes().to_vec();
    for _ in 0..=random(4) {
        let at = random(head.len());
        match random(4) {
            0 => head[at] = random(256) as u8,
            1 => head[at] = b"\r\n\0 :%/\t,;\"\x7f\xff"[random(13)],
            2 => drop(head.drain(at..(at + 1 + random(8)).min(head.len() - 1))),
            _ => {
                let piece = head[at..(at + 1 + random(20)).min(head.len())].to_vec();
                head.splice(at..at, piece);
            }
        }
    }
    head
}

/// Heads per test; connections are what takes the time.
const HEADS: u64 = 100_000;

#[test]
fn malformed_heads_do_no_harm() {
    let server = server(|config| {
        config.limits.header_seconds = 0.2;
        config.limits.body_seconds = 0.2;
    });
    let address = address(&server);
    let send = |first: u64, last: u64| {
        for seed in first..last {
            // The server closes the connection after most of them.
            let mut raw = Raw::send(address, malformed(seed));
            raw.end();
            raw.rest();
        }
    };
    thread::scope(|scope| {
        for n in 0..4 {
            scope.spawn(move || send(n * HEADS / 4, (n + 1) * HEADS / 4));
        }
    });
    assert_alive(&server, "malformed heads");
    assert_eq!(server.server.as_ref().unwrap().app().metrics.panics.get(), 0);
}

/// All files below a directory.
fn files(dir: &Path, all: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, all);
        }
        all.insert(path);
    }
}

fn try_path(server: &TestServer, address: SocketAddr, method: &str, path: &[u8]) {
    let mut head = format!("{method} ").into_bytes();
    head.extend_from_slice(path);
    head.extend_from_slice(b" HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n{}");
    let mut raw = Raw::send(address, head);
    raw.end();
    let answer = raw.rest();
    let name = String::from_utf8_lossy(path).into_owned();
    assert!(!answer.contains("root:"), "{method} {name}: {answer}");
    let (code, is_key) = (status(&answer), name.contains("/keys/"));
    // A key has any bytes; everything else is an error.
    assert!((400..500).contains(&code) || code == 0 || is_key, "{method} {name}: {answer}");
    assert!(code < 500, "{method} {name}: {answer}");
    assert_alive(server, &name);
}

#[test]
fn paths_lead_to_no_files() {
    let server = server(|_| ());
    let address = address(&server);
    let mut before = BTreeSet::new();
    files(server.dir.path(), &mut before);
    let tricks: [&[u8]; 16] = [
        b"../../../../etc/passwd",
        b"..%2f..%2f..%2fetc%2fpasswd",
        b"%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        b"%252e%252e/etc/passwd",
        b"..\\..\\etc\\passwd",
        b"%00",
        b"a%00/etc/passwd",
        b"%c0%ae%c0%ae/etc/passwd",
        b"%e0%80%ae%e0%80%ae/etc/passwd",
        b"\xc0\xae\xc0\xae/etc/passwd",
        b"%",
        b"%zz",
        b"%u002e%u002e/etc/passwd",
        b"/etc/passwd",
        b"//etc/passwd",
        b".",
    ];
    let places = ["/", "/v1/", "/v1/logs/", "/v1/catalogs/", "/v1/logs/log/keys/", "/v1/stores/"];
    for trick in tricks {
        for place in places {
            for method in ["GET", "POST", "PUT", "DELETE"] {
                try_path(&server, address, method, &[place.as_bytes(), trick].concat());
            }
        }
    }
    let mut after = BTreeSet::new();
    files(server.dir.path(), &mut after);
    assert_eq!(before, after);
    assert!(!Path::new("/etc/passwd").parent().unwrap().join("log").exists());
}

#[test]
fn other_protocols_are_refused() {
    let server = server(|_| ());
    for start in [
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET /livez HTTP/3.0\r\nhost: localhost\r\n\r\n",
        "GET /livez\r\n\r\n",
        "*1\r\n$4\r\nPING\r\n",
        "CONNECT example.org:443 HTTP/1.1\r\nhost: example.org:443\r\n\r\n",
        "GET /v1/stores HTTP/1.1\r\nhost: localhost\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
        "\x16\x03\x01\x01\x00",
    ] {
        let mut raw = Raw::send(address(&server), start);
        raw.end();
        let answer = raw.rest();
        assert!(!answer.starts_with("HTTP/1.1 101"), "{start:?}: {answer}");
        assert_alive(&server, start);
    }
}
