//! The interface of BSDB's HttpServer.

use crate::support::TestServer;
use crate::tables::{self, server};
use firndb::table::BuildOptions;
use reqwest::StatusCode;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// A server of a table with keys that contain percent signs.
fn bsdb(prefix: &str) -> TestServer {
    server(|config| {
        config.tables.retain(|name, _| name == "plain");
        let path = config.tables["plain"].path.clone();
        let records = [
            ("key", "value"),
            ("a%20b", "encoded"),
            ("c d", "decoded"),
            ("e?f=g", "query"),
            ("h/i", "slash"),
            ("j%zz", "invalid"),
            ("\u{e9}", "e acute"),
        ];
        let records = records.map(|(key, value)| (key.into(), value.into()));
        tables::build(&path, BuildOptions::new(), &records);
        config.http.bsdb_prefix = Some(prefix.to_string());
    })
}

/// Sends a request as it is; returns the response.
fn raw(server: &TestServer, request: &str) -> String {
    let address = server.server.as_ref().unwrap().http_address();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).unwrap();
    String::from_utf8_lossy(&response).into_owned()
}

fn raw_get(server: &TestServer, target: &str) -> (String, String) {
    let request = format!("GET {target} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let response = raw(server, &request);
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_string(), body.to_string())
}

#[test]
fn hits_and_misses_are_answered_like_bsdb_does() {
    let server = bsdb("/bsdb/");
    let url = server.url("/bsdb/key");
    let response = server.client.get(&url).send().unwrap();
    assert_eq!(
        (response.status(), &response.headers()["content-type"]),
        (StatusCode::OK, &"text/plain".parse().unwrap())
    );
    assert_eq!(response.text().unwrap(), "value");
    let response = server.client.post(&url).body("ignored").send().unwrap();
    assert_eq!(response.text().unwrap(), "value");
    let response = server.client.get(server.url("/bsdb/none")).send().unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-length"], "0");
    assert_eq!(server.get("/bsdb/"), (StatusCode::OK, vec![]), "the empty key");
    for (target, body) in [
        ("/bsdb/key", "value"),
        ("/bsdb/a%20b", "encoded"),
        ("/bsdb/c%20d", "decoded"),
        ("/bsdb/e?f=g", "query"),
        ("/bsdb/e%3Ff%3Dg", "query"),
        ("/bsdb/h/i", "slash"),
        ("/bsdb/j%zz", "invalid"),
        ("/bsdb/%C3%A9", "e acute"),
        ("/bsdb/%6bey", "value"),
        ("/bsdb/%", ""),
        ("/bsdb/../key", ""),
    ] {
        assert_eq!(
            raw_get(&server, target),
            ("HTTP/1.1 200 OK".to_string(), body.to_string()),
            "{target}"
        );
    }
    for target in ["/bsdc/key", "/b", "/bsdb", "/"] {
        assert_eq!(raw_get(&server, target).0, "HTTP/1.1 404 Not Found", "{target}");
    }
    let response = server.client.put(&url).body("x").send().unwrap();
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    let response = server.client.head(&url).send().unwrap();
    assert_eq!(response.headers()["content-length"], "5");
}

#[test]
fn the_prefix_and_the_store_are_options() {
    let server = bsdb("/");
    assert_eq!(server.get("/key").1, b"value");
    assert_eq!(server.get("/livez").1, b"ok\n", "the server's own paths come first");
    assert_eq!(server.get("/v1/tables/plain/keys/key").1, b"value");
    let with_store = |store: Option<&str>| {
        tables::server(|config| {
            config.http.bsdb_prefix = Some("/db/".to_string());
            config.http.bsdb_store = store.map(str::to_string);
        })
    };
    let server = with_store(Some("rows"));
    let get = |accept: &str| {
        let request = server.client.get(server.url("/db/a")).header("accept", accept);
        let response = request.send().unwrap();
        let kind = response.headers()["content-type"].to_str().unwrap().to_string();
        (kind, response.bytes().unwrap().to_vec())
    };
    let json = ("application/json".to_string(), br#"{"n":7}"#.to_vec());
    assert_eq!((get("*/*"), get("text/plain")), (json.clone(), json));
    assert_eq!(get("application/octet-stream"), ("text/plain".to_string(), vec![14]));
    let server = with_store(Some("log"));
    server.put("k", "v");
    assert_eq!((server.get("/db/k").1, server.get("/db/x").1), (b"v".to_vec(), vec![]));
    assert_eq!(with_store(Some("none")).get("/db/k").0, StatusCode::NOT_FOUND);
    let (status, problem) = with_store(None).get("/db/k");
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(
        String::from_utf8(problem).unwrap().contains("--bsdb-store"),
        "there are several tables"
    );
}

#[test]
fn requests_on_one_connection_are_answered_in_order() {
    let server = bsdb("/bsdb/");
    let request = |key: &str, close: &str| {
        format!("GET /bsdb/{key} HTTP/1.1\r\nhost: localhost\r\n{close}\r\n")
    };
    let keys = ["key", "none", "h/i", "none", "key"];
    let mut all: String = keys.iter().map(|key| request(key, "")).collect();
    all += &request("e?f=g", "connection: close\r\n");
    let response = raw(&server, &all);
    let bodies: Vec<&str> = response
        .split("HTTP/1.1 200 OK")
        .skip(1)
        .map(|part| part.split_once("\r\n\r\n").unwrap().1)
        .collect();
    assert_eq!(bodies, ["value", "", "slash", "", "value", "query"]);
}

#[test]
fn without_the_option_the_prefix_is_no_path() {
    let server = tables::server(|_| ());
    assert_eq!(server.get("/bsdb/key").0, StatusCode::NOT_FOUND);
}
