//! Servers of tables of every kind, and short ways to send requests.

use crate::support::{Dir, TestServer};
use firndb::table::{ApproximateBuilder, ApproximateOptions, BuildOptions, TableBuilder, shard_of};
use firndb_server::config::{Config, LogOptions, TableOptions};
use reqwest::StatusCode;
use reqwest::blocking::{Body, Response};
use serde_json::Value as Json;
use std::path::Path;

/// The schema of values that are rows with a number; the number 7 is the byte 14.
pub const SCHEMA: &str = r#"{"type":"record","name":"r","fields":[{"name":"n","type":"long"}]}"#;
/// The number of records in each table.
pub const RECORDS: usize = 1000;
/// The number of shards of the sharded table.
pub const SHARDS: usize = 4;

/// A key of the tables.
pub fn key(n: usize) -> String {
    format!("key {n}")
}

/// The value of a key in the tables.
pub fn value(n: usize) -> String {
    format!("value {n}")
}

pub fn build(path: &Path, options: BuildOptions, records: &[(Vec<u8>, Vec<u8>)]) {
    let mut builder = TableBuilder::create_with(path, options).unwrap();
    for (key, value) in records {
        builder.add(key, value).unwrap();
    }
    builder.finish().unwrap();
}

pub fn records(n: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..n).map(|n| (key(n).into_bytes(), value(n).into_bytes())).collect()
}

/// Builds the tables `plain`, `rows`, `approximate` and `sharded` in a directory.
fn build_all(dir: &Path, config: &mut Config) {
    let mut serve = |name: &str, file: &str| {
        let path = dir.join(file);
        let options = TableOptions { path: path.clone(), ..TableOptions::default() };
        config.tables.insert(name.to_string(), options);
        path
    };
    let mut all = records(RECORDS);
    let plain = serve("plain", "plain.table");
    all.extend([(b"\xff".to_vec(), b"\xfe".to_vec()), (b"".to_vec(), b"".to_vec())]);
    build(&plain, BuildOptions::new(), &all);
    let rows = [("a", 14), ("b", 15)].map(|(key, byte)| (key.into(), vec![byte]));
    build(&serve("rows", "rows.table"), BuildOptions::new().value_schema(SCHEMA), &rows);
    let approximate = serve("approximate", "approximate.table");
    let options = ApproximateOptions::new().value_width(2).fingerprint_bits(24);
    let mut builder = ApproximateBuilder::create_with(&approximate, options).unwrap();
    (0..RECORDS).for_each(|n| builder.add(key(n), (n as u16).to_le_bytes()).unwrap());
    builder.finish().unwrap();
    let shards = serve("sharded", "sharded");
    std::fs::create_dir(&shards).unwrap();
    let all = records(RECORDS);
    for shard in 0..SHARDS {
        let its = all.iter().filter(|(key, _)| shard_of(key, SHARDS) == shard).cloned();
        let path = shards.join(format!("shard-{shard:05}.table"));
        build(&path, BuildOptions::new(), &its.collect::<Vec<_>>());
    }
}

/// A server of all tables and of an empty log store `log`.
pub fn server(change: impl FnOnce(&mut Config)) -> TestServer {
    let dir = Dir::new();
    let mut config = Config::default();
    build_all(dir.path(), &mut config);
    let path = dir.path().join("log");
    let log = LogOptions { path, create: true, ..LogOptions::default() };
    config.logs.insert("log".to_string(), log);
    change(&mut config);
    TestServer::start(dir, config)
}

impl TestServer {
    /// Sends a body with headers.
    pub fn post_with(
        &self,
        path: &str,
        body: impl Into<Body>,
        headers: &[(&str, &str)],
    ) -> Response {
        let request = self.client.post(self.url(path)).body(body);
        let add = |request: reqwest::blocking::RequestBuilder, (name, value): &(&str, &str)| {
            request.header(*name, *value)
        };
        headers.iter().fold(request, add).send().unwrap()
    }

    /// The JSON answer to a JSON body.
    pub fn post(&self, path: &str, body: &str) -> (StatusCode, Json) {
        answer(self.post_with(path, body.to_string(), &[]))
    }

    /// The status and the message of an error.
    pub fn refused(&self, path: &str, body: &str) -> (StatusCode, String) {
        let (status, json) = self.post(path, body);
        (status, json["detail"].as_str().unwrap_or_else(|| panic!("{status} {json}")).to_string())
    }

    /// Sends a binary body; the answer must be binary and have status 200.
    pub fn post_binary(&self, path: &str, body: Vec<u8>) -> Vec<u8> {
        let response = self.post_with(path, body, &[("content-type", "application/octet-stream")]);
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["content-type"], "application/octet-stream");
        response.bytes().unwrap().to_vec()
    }

    /// The status and the body of a `GET`.
    pub fn get(&self, path: &str) -> (StatusCode, Vec<u8>) {
        let response = self.client.get(self.url(path)).send().unwrap();
        (response.status(), response.bytes().unwrap().to_vec())
    }

    /// Writes a key of the log store.
    pub fn put(&self, key: &str, value: &str) {
        let url = self.url(&format!("/v1/logs/log/keys/{key}"));
        let response = self.client.put(url).body(value.to_string()).send().unwrap();
        assert_eq!(response.status(), StatusCode::NO_CONTENT);
    }
}

/// The status and the JSON body of a response; null if it is empty.
pub fn answer(response: Response) -> (StatusCode, Json) {
    let status = response.status();
    let body = response.bytes().unwrap();
    let json = match body.is_empty() {
        true => Json::Null,
        false => serde_json::from_slice(&body)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&body))),
    };
    (status, json)
}

/// A field of a binary body.
pub fn field(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
}
