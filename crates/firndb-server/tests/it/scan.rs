//! Pages of all records.

use crate::support::{Dir, TestServer};
use crate::tables::{self, RECORDS, field, key, records, server, value};
use firndb::catalog::{Catalog, PublishOptions};
use firndb::table::BuildOptions;
use firndb_server::config::{CatalogOptions, Config, LogOptions};
use reqwest::StatusCode;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The records of a whole scan, and the number of pages.
fn scan_all(server: &TestServer, store: &str, limit: usize) -> (BTreeMap<String, Json>, usize) {
    let (mut all, mut pages, mut cursor) = (BTreeMap::new(), 0, json!("0"));
    while cursor != Json::Null {
        let body = json!({ "cursor": cursor, "limit": limit }).to_string();
        let (status, page) = server.post(&format!("/v1/{store}:scan"), &body);
        assert_eq!(status, StatusCode::OK, "{page}");
        for record in page["records"].as_array().unwrap() {
            let key = record.get("key").unwrap_or(&record["key_hex"]).as_str().unwrap();
            let old = all.insert(key.to_string(), record["value"].clone());
            assert_eq!(old, None, "{key} came twice");
        }
        pages += 1;
        cursor = page["next"].clone();
    }
    (all, pages)
}

#[test]
fn a_scan_returns_each_record_once() {
    let server = server(|_| ());
    let put: Vec<Json> = (0..RECORDS).map(|n| json!({"key": key(n), "value": value(n)})).collect();
    let (status, _) = server.post("/v1/logs/log:mput", &json!({ "put": put }).to_string());
    assert_eq!(status, StatusCode::NO_CONTENT);
    let expected: BTreeMap<String, Json> =
        (0..RECORDS).map(|n| (key(n), value(n).into())).collect();
    for store in ["logs/log", "tables/sharded"] {
        for (limit, pages) in [(1000, 1), (300, 4), (37, 28), (10_000, 1)] {
            let (all, count) = scan_all(&server, store, limit);
            assert!(all == expected, "{store} {limit}");
            assert!((pages..=pages + 1).contains(&count), "{store} {limit}: {count} pages");
        }
    }
    let (all, pages) = scan_all(&server, "tables/plain", 501);
    assert_eq!((all.len(), pages), (RECORDS + 2, 2));
    assert_eq!(scan_all(&server, "tables/rows", 1).0["a"], json!({"n": 7}));
}

#[test]
fn pages_have_forms() {
    let server = server(|_| ());
    server.put("k", "v");
    let scan = |body: &str| server.post("/v1/logs/log:scan", body).1;
    assert_eq!(scan(""), json!({"records": [{"key": "k", "value": "v"}], "next": null}));
    assert_eq!(scan(r#"{"values":false}"#)["records"], json!([{"key": "k"}]));
    let hex = scan(r#"{"encoding":"hex","versions":true}"#)["records"][0].clone();
    assert_eq!((&hex["key_hex"], &hex["value_hex"]), (&json!("6b"), &json!("76")));
    assert!(hex["version"].is_string());
    let page = |path: &str, body: &str, accept: &str| {
        let response = server.post_with(path, body.to_string(), &[("accept", accept)]);
        assert_eq!(response.headers()["content-type"], accept);
        let next = response.headers().get("firndb-next").map(|v| v.to_str().unwrap().to_string());
        (response.bytes().unwrap().to_vec(), next)
    };
    let octets = "application/octet-stream";
    let (body, next) = page("/v1/logs/log:scan", "{}", octets);
    assert_eq!((body, next), ([field(b"k"), field(b"v")].concat(), None));
    let (body, next) = page("/v1/logs/log:scan", r#"{"values":false}"#, octets);
    assert_eq!((body, next), ([field(b"k"), vec![0xff; 4]].concat(), None));
    let first = page("/v1/tables/plain:scan", r#"{"limit":2}"#, "application/x-ndjson");
    assert_eq!(first.0.iter().filter(|byte| **byte == b'\n').count(), 2);
    let body = json!({"limit": 10_000, "cursor": first.1.expect("more pages")}).to_string();
    let (rest, next) = page("/v1/tables/plain:scan", &body, "application/x-ndjson");
    assert_eq!(rest.iter().filter(|byte| **byte == b'\n').count(), RECORDS);
    assert_eq!(next, None);
}

#[test]
fn pages_have_limits() {
    let server = server(|config| {
        config.limits.page = 50;
        config.limits.response_bytes = 4000;
    });
    let scan = |body: &str| server.post("/v1/tables/plain:scan", body);
    assert_eq!(scan(r#"{"limit":50}"#).1["records"].as_array().unwrap().len(), 50);
    assert_eq!(scan("").1["records"].as_array().unwrap().len(), 50, "the default");
    for limit in ["51", "0", "18446744073709551615"] {
        let (status, problem) = scan(&format!("{{\"limit\":{limit}}}"));
        assert_eq!(status, StatusCode::BAD_REQUEST, "{limit}");
        assert!(problem["detail"].as_str().unwrap().contains("from 1 to 50"), "{problem}");
    }
    // A page of records that are larger than the limit of responses.
    let put = vec![
        json!({"key": "a", "value": "x".repeat(1500)}),
        json!({"key": "b", "value": "x".repeat(1500)}),
    ];
    server.post("/v1/logs/log:mput", &json!({ "put": put }).to_string());
    assert_eq!(server.post("/v1/logs/log:scan", "{}").0, StatusCode::OK);
    server.put("c", &"x".repeat(1500));
    assert_eq!(server.post("/v1/logs/log:scan", "{}").0, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(server.post("/v1/logs/log:scan", r#"{"limit":2}"#).0, StatusCode::OK);
}

#[test]
fn wrong_cursors_are_refused() {
    let server = server(|_| ());
    for store in ["logs/log", "tables/plain", "tables/sharded"] {
        let path = format!("/v1/{store}:scan");
        for cursor in ["", "x", "-1", "+0", " 0", "1e3", "0x0", "\u{661}", &"9".repeat(60)] {
            let (status, _) = server.post(&path, &json!({ "cursor": cursor }).to_string());
            assert_eq!(status, StatusCode::BAD_REQUEST, "{store} {cursor}");
        }
        for body in
            [r#"{"cursor":0}"#, r#"{"limit":"1"}"#, r#"{"limit":-1}"#, r#"{"page":1}"#, "[", "0"]
        {
            assert_eq!(server.post(&path, body).0, StatusCode::BAD_REQUEST, "{store} {body}");
        }
    }
    for cursor in ["9223372036854775808", &u128::MAX.to_string()] {
        let body = json!({ "cursor": cursor }).to_string();
        assert_eq!(server.post("/v1/logs/log:scan", &body).0, StatusCode::BAD_REQUEST, "{cursor}");
        let (status, problem) = server.post("/v1/tables/plain:scan", &body);
        assert_eq!((status, &problem["kind"]), (StatusCode::GONE, &json!("cursor_expired")));
    }
    // A cursor of this table with the number of a shard that it does not have.
    let (_, page) = server.post("/v1/tables/plain:scan", r#"{"limit":1}"#);
    let cursor: u128 = page["next"].as_str().unwrap().parse().unwrap();
    let body = json!({ "cursor": (cursor | 1 << 70).to_string() }).to_string();
    assert_eq!(server.post("/v1/tables/plain:scan", &body).0, StatusCode::BAD_REQUEST);
    let (status, detail) = server.refused("/v1/tables/approximate:scan", "");
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(detail.contains("does not store its keys"), "{detail}");
}

#[test]
fn a_cursor_expires_with_the_version_of_the_table() {
    let dir = Dir::new();
    let (file, place) = (dir.path().join("a.table"), dir.path().join("catalog"));
    let catalog = Catalog::create(&place).unwrap();
    let publish = |n: usize| {
        tables::build(&file, BuildOptions::new(), &records(n));
        catalog.publish("table", &file, &PublishOptions::new()).unwrap();
    };
    publish(10);
    let mut config = Config { cache: Some(dir.path().join("cache")), ..Config::default() };
    let options = CatalogOptions {
        place: place.display().to_string(),
        name: "table".to_string(),
        refresh_seconds: 0.01,
        ..CatalogOptions::default()
    };
    config.catalogs.insert("t".to_string(), options);
    let server = TestServer::start(dir, config);
    let scan = |cursor: &Json| {
        server.post("/v1/tables/t:scan", &json!({"cursor": cursor, "limit": 4}).to_string())
    };
    let second = scan(&json!("0")).1["next"].clone();
    assert_eq!(scan(&second).0, StatusCode::OK);
    publish(11);
    let until = Instant::now() + Duration::from_secs(20);
    let (status, problem) = loop {
        let (status, page) = scan(&second);
        if status != StatusCode::OK || Instant::now() > until {
            break (status, page);
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!((status, &problem["kind"]), (StatusCode::GONE, &json!("cursor_expired")));
    assert_eq!(scan_all(&server, "tables/t", 4).0.len(), 11);
}

/// A server with an ordered log store `log` of 300 records.
fn ordered() -> TestServer {
    let dir = Dir::new();
    let mut config = Config::default();
    let path = dir.path().join("log");
    let options = LogOptions { path, create: true, ordered: true, ..LogOptions::default() };
    config.logs.insert("log".to_string(), options);
    let server = TestServer::start(dir, config);
    let put: Vec<Json> =
        (0..300).map(|n| json!({"key": ordered_key(n), "value": n.to_string()})).collect();
    let (status, _) = server.post("/v1/logs/log:mput", &json!({ "put": put }).to_string());
    assert_eq!(status, StatusCode::NO_CONTENT);
    server
}

fn ordered_key(n: usize) -> String {
    format!("{}/{:03}", ["a", "b", "c"][n / 100], n)
}

/// The keys of all pages of a scan with these fields, and the number of pages.
fn keys_in_order(server: &TestServer, fields: Json) -> (Vec<String>, usize) {
    let (mut keys, mut pages, mut fields) = (Vec::new(), 0, fields);
    loop {
        let (status, page) = server.post("/v1/logs/log:scan", &fields.to_string());
        assert_eq!(status, StatusCode::OK, "{page}");
        let records = page["records"].as_array().unwrap();
        keys.extend(records.iter().map(|record| record["key"].as_str().unwrap().to_string()));
        pages += 1;
        match &page["next"] {
            Json::Null => return (keys, pages),
            next => fields["cursor"] = next.clone(),
        }
    }
}

#[test]
fn ordered_stores_are_scanned_in_order() {
    let server = ordered();
    let all: Vec<String> = (0..300).map(ordered_key).collect();
    let reversed: Vec<String> = all.iter().rev().cloned().collect();
    assert_eq!(keys_in_order(&server, json!({"prefix": "", "limit": 7})), (all.clone(), 43));
    assert_eq!(keys_in_order(&server, json!({"reverse": true, "limit": 100})), (reversed, 3));
    assert_eq!(keys_in_order(&server, json!({"prefix": "b/"})).0, all[100..200]);
    let some = json!({"from": "a/050", "to": "b/110", "values": false, "limit": 9});
    assert_eq!(keys_in_order(&server, some).0, all[50..110]);
    let hex = json!({"encoding": "hex", "prefix": hex::encode("c/29")});
    let (_, page) = server.post("/v1/logs/log:scan", &hex.to_string());
    assert_eq!(page["records"][9], json!({"key_hex": hex::encode("c/299"), "value_hex": "323939"}));
    // A page after a write shows the store as it is then.
    let (_, first) = server.post("/v1/logs/log:scan", r#"{"prefix":"a/","limit":1}"#);
    server.put("a/0005", "new");
    let body = json!({"prefix": "a/", "limit": 1, "cursor": first["next"]}).to_string();
    let (_, second) = server.post("/v1/logs/log:scan", &body);
    assert_eq!(second["records"], json!([{"key": "a/0005", "value": "new"}]));
}

#[test]
fn pages_are_asked_for_with_parameters() {
    let server = ordered();
    let get = |query: &str| {
        let response = server.client.get(server.url(&format!("/v1/logs/log:scan?{query}"))).send();
        let response = response.unwrap();
        let status = response.status();
        (status, response.json::<Json>().unwrap())
    };
    let (status, page) = get("prefix=b%2F&limit=2&values=false");
    assert_eq!(status, StatusCode::OK);
    assert_eq!(page["records"], json!([{"key": "b/100"}, {"key": "b/101"}]));
    let next = page["next"].as_str().unwrap();
    let (_, page) = get(&format!("prefix=b%2F&limit=1&cursor={next}"));
    assert_eq!(page["records"], json!([{"key": "b/102", "value": "102"}]));
    assert_eq!(get("reverse=true&to=b/&limit=1").1["records"][0]["key"], "a/099");
    assert_eq!(get("limit=300").1["records"].as_array().unwrap().len(), 300);
    for wrong in ["prefix=%", "limit=0", "cursor=5&prefix=a", "other=1", "reverse=yes"] {
        assert_eq!(get(wrong).0, StatusCode::BAD_REQUEST, "{wrong}");
    }
    // Keys of any bytes, and of spaces, which query strings may write as a plus sign.
    for key in ["%ff%00", "%ff%ff", "a%20b", "a%2Bb"] {
        let url = server.url(&format!("/v1/logs/log/keys/{key}"));
        assert!(server.client.put(url).body("x").send().unwrap().status().is_success());
    }
    let found = |query: &str| get(query).1["records"].as_array().unwrap().clone();
    assert_eq!(found("prefix=%ff%00"), [json!({"key_hex": "ff00", "value": "x"})]);
    assert_eq!(found("prefix=%FF&encoding=utf8").len(), 2);
    assert_eq!(found("prefix=ffff&encoding=hex"), [json!({"key_hex": "ffff", "value_hex": "78"})]);
    assert_eq!(found("prefix=a+"), [json!({"key": "a b", "value": "x"})]);
    assert_eq!(found("prefix=a%2B"), [json!({"key": "a+b", "value": "x"})]);
    let last = get("reverse=true&limit=1").1;
    assert_eq!(last["records"][0]["key_hex"], "ffff");
    let next = last["next"].as_str().unwrap();
    assert_eq!(found(&format!("reverse=true&limit=1&cursor={next}"))[0]["key_hex"], "ff00");
    assert!(found("from=b&to=a").is_empty());
    let response = server.client.head(server.url("/v1/logs/log:scan?prefix=a")).send().unwrap();
    assert_eq!(response.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(response.headers()["allow"], "GET, POST");
}

#[test]
fn pages_in_order_show_writes_between_them() {
    let server = ordered();
    let mut seen = Vec::new();
    let mut fields = json!({"prefix": "a/", "limit": 10, "values": false});
    for page in 0.. {
        if page == 1 {
            server.put("a/", "before the cursor");
            server.put("a/0500", "after the cursor");
            // The key of the cursor, and the one after it.
            for key in ["a/009", "a/010"] {
                server
                    .client
                    .delete(server.url(&format!("/v1/logs/log/keys/{key}")))
                    .send()
                    .unwrap();
            }
        }
        let (status, answer) = server.post("/v1/logs/log:scan", &fields.to_string());
        assert_eq!(status, StatusCode::OK, "{answer}");
        let records = answer["records"].as_array().unwrap();
        seen.extend(records.iter().map(|record| record["key"].as_str().unwrap().to_string()));
        match &answer["next"] {
            Json::Null => break,
            next => fields["cursor"] = next.clone(),
        }
    }
    let mut expected: Vec<String> = (0..100).filter(|&n| n != 10).map(ordered_key).collect();
    expected.push("a/0500".to_string());
    expected.sort_unstable();
    assert_eq!(seen, expected);
}

#[test]
fn scans_in_order_have_limits() {
    let dir = Dir::new();
    let mut config = Config::default();
    let path = dir.path().join("log");
    let options = LogOptions { path, create: true, ordered: true, ..LogOptions::default() };
    config.logs.insert("log".to_string(), options);
    config.limits.page = 50;
    config.limits.response_bytes = 4000;
    let server = TestServer::start(dir, config);
    for n in 0..60 {
        server.put(&format!("k{n:02}"), "v");
    }
    let get = |query: &str| {
        let url = server.url(&format!("/v1/logs/log:scan?{query}"));
        let response = server.client.get(url).send().unwrap();
        (response.status(), response.json::<Json>().unwrap())
    };
    assert_eq!(get("prefix=k").1["records"].as_array().unwrap().len(), 50, "the default");
    let (status, problem) = get("prefix=k&limit=51");
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(problem["detail"].as_str().unwrap().contains("from 1 to 50"), "{problem}");
    for n in 0..3 {
        server.put(&format!("large{n}"), &"x".repeat(1500));
    }
    assert_eq!(get("prefix=large").0, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(get("prefix=large&values=false").0, StatusCode::OK);
    assert_eq!(get("prefix=large&limit=2").1["records"].as_array().unwrap().len(), 2);
}

#[test]
fn other_stores_have_no_order() {
    let server = server(|_| ());
    for store in ["logs/log", "tables/plain", "tables/sharded", "tables/approximate"] {
        let path = format!("/v1/{store}:scan");
        for body in [r#"{"prefix":"a"}"#, r#"{"from":"a"}"#, r#"{"to":"a"}"#, r#"{"reverse":true}"#]
        {
            assert_eq!(server.refused(&path, body).0, StatusCode::BAD_REQUEST, "{store} {body}");
        }
    }
    let (_, detail) = server.refused("/v1/logs/log:scan", r#"{"prefix":"a"}"#);
    assert!(detail.contains("the store is not ordered"), "{detail}");
}
