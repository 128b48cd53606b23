//! Single keys.

use crate::support::{Dir, TestServer};
use crate::tables;
use firndb_server::config::{Config, LogOptions};
use reqwest::StatusCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[test]
fn a_key_is_written_read_and_deleted() {
    let server = TestServer::with_log();
    let url = server.url("/v1/logs/log/keys/a%2Fb");
    let client = &server.client;
    assert_eq!(client.get(&url).send().unwrap().status(), StatusCode::NOT_FOUND);
    let put = client.put(&url).body("value").header("If-None-Match", "*");
    assert_eq!(put.send().unwrap().status(), StatusCode::NO_CONTENT);
    let put = client.put(&url).body("other").header("If-None-Match", "*");
    assert_eq!(put.send().unwrap().status(), StatusCode::PRECONDITION_FAILED);
    let got = client.get(&url).send().unwrap();
    let etag = got.headers()["etag"].clone();
    assert_eq!(got.bytes().unwrap(), "value");
    let again = client.get(&url).header("If-None-Match", &etag).send().unwrap();
    assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
    let put = client.put(&url).body("newer").header("If-Match", &etag);
    assert_eq!(put.send().unwrap().status(), StatusCode::NO_CONTENT);
    let put = client.put(&url).body("lost").header("If-Match", &etag);
    assert_eq!(put.send().unwrap().status(), StatusCode::PRECONDITION_FAILED);
    let hex = server.url("/v1/logs/log/keys/612f62?encoding=hex");
    assert_eq!(client.get(hex).send().unwrap().bytes().unwrap(), "newer");
    assert_eq!(client.delete(&url).send().unwrap().status(), StatusCode::NO_CONTENT);
    assert_eq!(client.get(&url).send().unwrap().status(), StatusCode::NOT_FOUND);
}

#[test]
fn conditions_name_versions() {
    let server = TestServer::with_log();
    let url = server.url("/v1/logs/log/keys/k");
    let client = &server.client;
    let put = |name: &str, tags: &str| {
        client.put(&url).body("v").header(name, tags).send().unwrap().status()
    };
    let delete =
        |name: &str, tags: &str| client.delete(&url).header(name, tags).send().unwrap().status();
    let tag = || {
        let response = client.get(&url).send().unwrap();
        response.headers()["etag"].to_str().unwrap().to_string()
    };
    let (done, failed) = (StatusCode::NO_CONTENT, StatusCode::PRECONDITION_FAILED);
    assert_eq!(put("if-match", "*"), failed, "the key is absent");
    assert_eq!(delete("if-match", "*"), failed, "the key is absent");
    assert_eq!(put("if-none-match", "*"), done);
    let first = tag();
    assert_eq!(put("if-match", &format!("\"0\", {first}")), done, "a list of tags");
    let second = tag();
    assert!(second != first, "each write has a version of its own");
    assert_eq!(put("if-match", &first), failed);
    assert_eq!(put("if-match", &format!("W/{second}")), failed, "compared strongly");
    assert_eq!(put("if-none-match", &second), failed);
    assert_eq!(delete("if-none-match", &format!("W/{second}")), failed);
    assert_eq!(delete("if-match", &first), failed);
    assert_eq!(tag(), second, "nothing was written");
    for malformed in ["", "x", "\"1", &second.replace('"', "")] {
        let expected = if malformed.is_empty() { failed } else { StatusCode::BAD_REQUEST };
        assert_eq!(put("if-match", malformed), expected, "{malformed}");
    }
    let get = client.get(&url).header("if-none-match", format!("\"x\", W/{second}"));
    assert_eq!(get.send().unwrap().status(), StatusCode::NOT_MODIFIED);
    assert_eq!(delete("if-match", &format!("{first},{second}")), done);
    assert_eq!(client.get(&url).send().unwrap().status(), StatusCode::NOT_FOUND);
}

/// Every increment is in the sum: no write is lost.
#[test]
fn concurrent_conditional_writes_are_all_counted() {
    let server = TestServer::with_log();
    let url = server.url("/v1/logs/log/keys/count");
    server.put("count", "0");
    let increment = || {
        let client = reqwest::blocking::Client::builder().no_proxy().build().unwrap();
        for _ in 0..25 {
            loop {
                let response = client.get(&url).send().unwrap();
                let tag = response.headers()["etag"].clone();
                let count: u64 = response.text().unwrap().parse().unwrap();
                let put = client.put(&url).header("if-match", tag).body((count + 1).to_string());
                match put.send().unwrap().status() {
                    StatusCode::NO_CONTENT => break,
                    status => assert_eq!(status, StatusCode::PRECONDITION_FAILED),
                }
            }
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(increment))));
    assert_eq!(server.get("/v1/logs/log/keys/count").1, b"100");
}

#[test]
fn records_expire() {
    let server = TestServer::with_log();
    let url = server.url("/v1/logs/log/keys/k");
    let client = &server.client;
    let put = |headers: &[(&str, &str)]| {
        let request = client.put(&url).body("v");
        let add = |request: reqwest::blocking::RequestBuilder, (name, value): &(&str, &str)| {
            request.header(*name, *value)
        };
        headers.iter().fold(request, add).send().unwrap().status()
    };
    assert_eq!(put(&[("firndb-ttl", "0.3")]), StatusCode::NO_CONTENT);
    let response = client.get(&url).send().unwrap();
    let expires: u64 = response.headers()["firndb-expires"].to_str().unwrap().parse().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    assert!((now - 5000..=now + 300).contains(&expires), "{expires} {now}");
    std::thread::sleep(Duration::from_millis(350));
    assert_eq!(client.get(&url).send().unwrap().status(), StatusCode::NOT_FOUND);
    assert_eq!(put(&[("if-none-match", "*"), ("firndb-expires", "1")]), StatusCode::NO_CONTENT);
    assert_eq!(client.get(&url).send().unwrap().status(), StatusCode::NOT_FOUND);
    let later = (now + 3_600_000).to_string();
    assert_eq!(put(&[("firndb-expires", &later)]), StatusCode::NO_CONTENT);
    let response = client.get(&url).send().unwrap();
    assert_eq!(response.headers()["firndb-expires"], later.as_str());
    for headers in [
        &[("firndb-ttl", "1"), ("firndb-expires", "1")][..],
        &[("firndb-ttl", "0")],
        &[("firndb-ttl", "-1")],
        &[("firndb-ttl", "nan")],
        &[("firndb-ttl", "inf")],
        &[("firndb-ttl", "1e300")],
        &[("firndb-ttl", "")],
        &[("firndb-expires", "-1")],
        &[("firndb-expires", "1.5")],
        &[("firndb-expires", "18446744073709551616")],
        &[("firndb-sync", "yes")],
    ] {
        assert_eq!(put(headers), StatusCode::BAD_REQUEST, "{headers:?}");
    }
    assert_eq!(put(&[("firndb-sync", "true")]), StatusCode::NO_CONTENT);
    let response = client.get(&url).send().unwrap();
    assert!(!response.headers().contains_key("firndb-expires"), "a put removes the expiry");
}

#[test]
fn a_head_has_the_length_of_the_value_only() {
    let server = tables::server(|_| ());
    server.put("k", &"x".repeat(3_000_000));
    let head = |path: &str| {
        let response = server.client.head(server.url(path)).send().unwrap();
        let headers = response.headers();
        let length = headers["content-length"].to_str().unwrap().parse::<usize>().unwrap();
        assert!(headers.contains_key("etag"));
        assert_eq!(
            (response.status(), headers.get_all("content-length").iter().count()),
            (StatusCode::OK, 1)
        );
        assert!(response.bytes().unwrap().is_empty());
        length
    };
    assert_eq!(head("/v1/logs/log/keys/k"), 3_000_000);
    assert_eq!(head("/v1/tables/plain/keys/key%201"), "value 1".len());
    assert_eq!(head("/v1/tables/rows/keys/a"), r#"{"n":7}"#.len());
    let response = server.client.head(server.url("/v1/logs/log/keys/x")).send().unwrap();
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
    // The connection is still in step.
    assert_eq!(server.get("/v1/tables/plain/keys/key%201").1, b"value 1");
}

#[test]
fn values_have_limits() {
    let server = tables::server(|config| {
        config.limits.body_bytes = 1000;
        config.limits.response_bytes = 900;
    });
    let put = |len: usize| {
        let url = server.url("/v1/logs/log/keys/k");
        server.client.put(url).body("x".repeat(len)).send().unwrap().status()
    };
    let get = || server.get("/v1/logs/log/keys/k").0;
    assert_eq!((put(1001), get()), (StatusCode::PAYLOAD_TOO_LARGE, StatusCode::NOT_FOUND));
    assert_eq!((put(1000), get()), (StatusCode::NO_CONTENT, StatusCode::PAYLOAD_TOO_LARGE));
    let head = server.client.head(server.url("/v1/logs/log/keys/k")).send().unwrap();
    assert_eq!(head.headers()["content-length"], "1000");
    assert_eq!((put(901), get()), (StatusCode::NO_CONTENT, StatusCode::PAYLOAD_TOO_LARGE));
    assert_eq!((put(900), get()), (StatusCode::NO_CONTENT, StatusCode::OK));
}

#[test]
fn values_of_rows_are_json_or_bytes() {
    let server = tables::server(|_| ());
    let get = |accept: &str, known: &str| {
        let url = server.url("/v1/tables/rows/keys/a");
        let request = server.client.get(url).header("accept", accept);
        request.header("if-none-match", known).send().unwrap()
    };
    let json = get("*/*", "");
    assert_eq!(json.headers()["content-type"], "application/json");
    assert_eq!(json.headers()["vary"], "accept");
    let json_tag = json.headers()["etag"].to_str().unwrap().to_string();
    assert_eq!(json.text().unwrap(), r#"{"n":7}"#);
    let bytes = get("application/octet-stream", &json_tag);
    assert_eq!(bytes.headers()["content-type"], "application/octet-stream");
    let bytes_tag = bytes.headers()["etag"].to_str().unwrap().to_string();
    assert_eq!(bytes.bytes().unwrap(), [14][..]);
    assert_eq!(get("application/json", &json_tag).status(), StatusCode::NOT_MODIFIED);
    assert_eq!(get("application/octet-stream", &bytes_tag).status(), StatusCode::NOT_MODIFIED);
    assert_eq!(get("text/html", "").status(), StatusCode::NOT_ACCEPTABLE);
    assert_eq!(server.get("/v1/tables/rows/keys/x").0, StatusCode::NOT_FOUND);
    // Other values are bytes, whatever the client accepts.
    let url = server.url("/v1/tables/plain/keys/ff?encoding=hex");
    let response = server.client.get(url).header("accept", "application/json").send().unwrap();
    assert_eq!(response.bytes().unwrap(), b"\xfe"[..]);
}

#[test]
fn every_kind_of_table_has_values() {
    let server = tables::server(|_| ());
    assert_eq!(
        server.get("/v1/tables/sharded/keys/key%2077"),
        (StatusCode::OK, b"value 77".to_vec())
    );
    assert_eq!(server.get("/v1/tables/sharded/keys/other").0, StatusCode::NOT_FOUND);
    assert_eq!(server.get("/v1/tables/approximate/keys/key%20258"), (StatusCode::OK, vec![2, 1]));
    assert_eq!(server.get("/v1/tables/plain/keys/"), (StatusCode::OK, vec![]));
    let (status, facts) = server.get("/v1/tables/sharded");
    assert_eq!(status, StatusCode::OK);
    assert!(String::from_utf8(facts).unwrap().contains("\"records\":1000"));
    for (method, path, allowed) in [
        ("PUT", "/v1/tables/plain/keys/k", "GET, HEAD"),
        ("DELETE", "/v1/tables/plain/keys/k", "GET, HEAD"),
        ("POST", "/v1/logs/log/keys/k", "GET, HEAD, PUT, DELETE"),
        ("GET", "/v1/logs/log:mget", "POST"),
        ("PUT", "/v1/logs/log", "GET, HEAD, DELETE"),
    ] {
        let request = server.client.request(method.parse().unwrap(), server.url(path));
        let response = request.send().unwrap();
        assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED, "{method} {path}");
        assert_eq!(response.headers()["allow"], allowed);
    }
    let (status, body) = server.get("/v1/logs/plain/keys/k");
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(String::from_utf8(body).unwrap().contains("/v1/tables/plain"));
}

#[test]
fn a_store_that_is_open_for_reading_refuses_writes() {
    let dir = Dir::new();
    let path = dir.path().join("log");
    let store = firndb::log::LogStore::open(&path).unwrap();
    store.put("k", "v").unwrap();
    store.close().unwrap();
    let mut config = Config::default();
    let options = LogOptions { path, read_only: true, ..LogOptions::default() };
    config.logs.insert("log".to_string(), options);
    let server = TestServer::start(dir, config);
    assert_eq!(server.get("/v1/logs/log/keys/k"), (StatusCode::OK, b"v".to_vec()));
    let client = &server.client;
    let url = server.url("/v1/logs/log/keys/k");
    let to = format!(r#"{{"to":"{}"}}"#, server.dir.path().join("backup").display());
    for (name, response) in [
        ("put", client.put(&url).body("x").send().unwrap()),
        ("delete", client.delete(&url).send().unwrap()),
        ("mput", server.post_with("/v1/logs/log:mput", "{}", &[])),
        ("compact", server.post_with("/v1/logs/log:compact", "", &[])),
        ("backup", server.post_with("/v1/logs/log:backup", to, &[])),
    ] {
        let (status, json) = tables::answer(response);
        assert_eq!((status, json["kind"].as_str()), (StatusCode::LOCKED, Some("locked")), "{name}");
    }
    assert_eq!(server.get("/v1/logs/log/keys/k").1, b"v");
    assert_eq!(server.post("/v1/logs/log:verify", "").0, StatusCode::OK);
}
