//! Requests that are malformed, too large, or take too long.

use crate::collections::{numbers, problem, serve_sample};
use crate::support::{Dir, TestServer};
use firndb::search::{Collection, Document, Field, MAX_IN, PartitionBuilder, Roles, Schema, Type};
use firndb_server::config::{CollectionOptions, Config};
use firndb_server::metrics::CancelLabels;
use reqwest::StatusCode;
use serde_json::{Value as Json, json};
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

const VERBS: [&str; 5] = ["search", "count", "facets", "group", "explain"];

#[test]
fn malformed_json_is_refused() {
    let server = serve_sample(|_| ());
    let deep = "[".repeat(500_000);
    let deep_object = r#"{"where":{"not":"#.to_string() + &r#"{"not":"#.repeat(100_000);
    let bodies: [&[u8]; 14] = [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\"n = 1\"",
        b"5",
        b"{\"query\": NaN}",
        b"{\"query\": \"\xff\"}",
        b"{\"query\": \"\\ud800\"}",
        b"{\"limit\": 1} x",
        b"{\"limit\": 01}",
        b"\xef\xbb\xbf{}",
        deep.as_bytes(),
        deep_object.as_bytes(),
    ];
    for verb in VERBS {
        for body in bodies {
            let problem = server.query_problem(verb, body);
            let start = String::from_utf8_lossy(&body[..body.len().min(20)]);
            assert_eq!(problem["status"], 400, "{verb} {start}: {problem}");
        }
    }
    assert_eq!(server.query("count", &json!({}))["count"], 100, "the server goes on");
}

#[test]
fn mistakes_are_explained() {
    let server = serve_sample(|_| ());
    let verbs = [("search", json!({})), ("count", json!({})), ("facets", json!({ "by": ["n"] }))];
    for (verb, body) in verbs {
        let with = |key: &str, value: Json| {
            let mut body = body.clone();
            body[key] = value;
            server.query_refused(verb, &body)
        };
        let detail = with("where", json!({ "or": [{ "field": "price", "lt": "x" }] }));
        assert!(detail.starts_with("where.or[0].lt: field `price` is of type f64"), "{detail}");
        assert!(with("where", json!({ "field": "prize", "lt": 1 })).contains("`prize`"));
        assert!(with("where", json!({ "field": "price", "lt": null })).contains("null"));
        assert!(with("wher", json!({})).starts_with("`wher` is unknown"));
        assert!(with("query", json!(1)).starts_with("query:"));
        assert!(with("timeout_seconds", json!(0)).starts_with("timeout_seconds:"));
    }
    // Mistakes in a text have its bytes.
    let problem = server.query_problem("count", json!({ "query": "price < 'x'" }).to_string());
    assert_eq!((&problem["status"], &problem["span"]), (&json!(400), &json!([8, 11])));
    let problem = server.query_problem("search", json!({ "query": "order by tags" }).to_string());
    assert_eq!(problem["span"], json!([9, 13]));
    assert!(server.query_refused("facets", &json!({})).starts_with("by:"));
    assert!(server.query_refused("facets", &json!({ "by": "n" })).starts_with("by:"));
    assert!(server.query_refused("facets", &json!({ "by": ["x"] })).contains("`x`"));
    assert!(
        server.query_refused("facets", &json!({ "by": vec!["n"; 17] })).contains("more than 16")
    );
    assert!(
        server.query_refused("group", &json!({ "by": ["n", "city", "price"] })).contains("two")
    );
    assert!(server.query_refused("group", &json!({ "aggregates": ["x"] })).contains("`x`"));
    assert!(server.query_refused("search", &json!({ "fields": "n" })).starts_with("fields:"));
    assert!(server.query_refused("search", &json!({ "payload": 1 })).starts_with("payload:"));
    assert!(
        server.query_refused("count", &json!({ "query": "n = 1 limit 5" })).contains("expected")
    );
}

#[test]
fn numbers_without_a_place_in_an_order_are_refused() {
    let server = serve_sample(|_| ());
    for number in ["1e999", "-1e999", "1e-999", "123456789012345678901234567890123"] {
        for body in [
            format!(r#"{{"where": {{"field": "price", "lt": {number}}}}}"#),
            format!(r#"{{"limit": {number}}}"#),
            format!(r#"{{"skip": {number}}}"#),
        ] {
            let problem = server.query_problem("search", body.clone());
            assert_eq!(problem["status"], 400, "{body}: {problem}");
        }
        let text = json!({ "query": format!("price < {number}") });
        assert!(
            server.send_query("count", text.to_string()).status().is_client_error(),
            "{number}"
        );
    }
    for text in ["price = NaN", "price = nan", "price < 'NaN'"] {
        server.query_refused("count", &json!({ "query": text }));
    }
    // Infinities have one.
    let below = json!({ "where": { "field": "price", "lt": "inf" } });
    assert_eq!(server.query("count", &below)["count"], 100);
}

#[test]
fn texts_must_be_text() {
    let server = serve_sample(|_| ());
    let url = server.url("/v1/collections/c:count");
    for body in [&b"city = '\xff'"[..], b"\x00", b"city = '\xed\xa0\x80'", b"\xfe\xff\x00n"] {
        let request = server.client.post(&url).header("content-type", "text/plain");
        assert_eq!(problem(request.body(body.to_vec()).send().unwrap())["status"], 400);
    }
    let request = server.client.post(&url).header("content-type", "text/plain").body("");
    assert_eq!(request.send().unwrap().json::<Json>().unwrap()["count"], 100);
}

#[test]
fn tokens_of_other_queries_do_no_harm() {
    let server = serve_sample(|_| ());
    for (token, valid) in [
        ("pa~d3", false),                  // of a query without an order
        ("u3~sOslo~pa~d3", false),         // of two fields
        ("u3~pother~d4000000000", true),   // of another collection
        ("sOslo~pa~d3", true),             // of a field of another type
        ("f7ff0000000000000~pa~d3", true), // infinity
        ("n~p~d0", true),                  // of a missing value
        ("u3~pa~d99999999999", false),
        ("f7ff8000000000000~pa~d3", false), // NaN
        ("u3~pa", false),
        ("", false),
        ("\u{e9}", false),
    ] {
        let body = json!({ "order": ["n"], "after": token }).to_string();
        let response = server.send_query("search", body);
        let status = response.status();
        // A position is an answer or an error, and never a failure of the server.
        assert!(status == StatusCode::OK && valid || status == 400, "{token}: {status}");
    }
    let long = json!({ "order": ["n"], "after": "~".repeat(500_000) });
    assert_eq!(server.query_problem("search", long.to_string())["status"], 400);
}

#[test]
fn limits_hold_to_the_last_document() {
    let server = serve_sample(|config| {
        config.limits.page = 20;
        config.limits.skip = 50;
        config.limits.query_bytes = 200;
        config.limits.groups = 99;
        config.limits.facet_values = 50;
    });
    let page = |body: Json| numbers(&server.query("search", &body));
    let refused = |body: Json| server.query_refused("search", &body);
    assert_eq!(page(json!({ "order": ["n"], "limit": 20, "skip": 50 })).len(), 20);
    assert!(refused(json!({ "limit": 21 })).contains("more than a page can have, 20"));
    assert!(refused(json!({ "query": "limit 21" })).starts_with("limit: 21"));
    assert!(refused(json!({ "limit": u64::MAX })).starts_with("limit:"));
    assert!(refused(json!({ "skip": 51 })).contains("more than can be skipped, 50"));
    assert!(server.query_refused("explain", &json!({ "skip": 51 })).starts_with("skip:"));
    assert!(server.query_refused("explain", &json!({ "limit": 21 })).starts_with("limit:"));
    for (verb, limit) in [("facets", 50), ("group", 99)] {
        let body = |matches: u64, top: u64| {
            let query = format!("n < {matches}");
            json!({ "query": query, "by": ["n"], "top": top })
        };
        assert!(server.query_refused(verb, &body(5, 21)).starts_with("top: 21"));
        server.query(verb, &body(limit, 20));
        assert!(
            server.query_refused(verb, &body(limit + 1, 5)).contains(&format!("more than {limit}"))
        );
    }
    server.query("facets", &json!({ "by": vec!["city"; 16] }));
    server.query("group", &json!({ "aggregates": vec!["n"; 16] }));
    let many = json!({ "aggregates": vec!["n"; 17] });
    assert!(server.query_refused("group", &many).contains("more than 16"));
    let padded = |bytes: usize| format!("{{}}{}", " ".repeat(bytes - 2));
    for verb in ["search", "count", "explain"] {
        assert_eq!(server.send_query(verb, padded(200)).status(), StatusCode::OK);
        assert_eq!(server.query_problem(verb, padded(201))["status"], 413);
    }
}

#[test]
fn responses_are_limited_while_they_are_written() {
    let limit = 2000;
    let server = serve_sample(|config| config.limits.response_bytes = limit);
    let size = |number: u64| {
        let body = json!({ "order": ["n"], "limit": number, "payload": true });
        let response = server.send_query("search", body.to_string());
        match response.status() {
            StatusCode::OK => Some(response.bytes().unwrap().len()),
            status => {
                assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
                assert!(problem(response)["detail"].as_str().unwrap().contains("2000 bytes"));
                None
            }
        }
    };
    let sizes: Vec<Option<usize>> = (1..100).map(size).collect();
    let fit = sizes.iter().position(Option::is_none).unwrap();
    assert!(fit > 10 && sizes[fit..].iter().all(Option::is_none));
    assert!(sizes[..fit].iter().all(|size| size.unwrap() <= limit));
    assert!(sizes[fit - 1].unwrap() > limit - 150, "the limit is used");
    for (verb, body) in
        [("group", json!({ "by": ["n"] })), ("facets", json!({ "by": ["n"], "top": 100 }))]
    {
        assert_eq!(server.query_problem(verb, body.to_string())["status"], 413);
    }
    let request = server.client.post(server.url("/v1/collections/c:search"));
    let request = request.header("accept", "application/vnd.apache.arrow.stream");
    let body = json!({ "limit": 100, "payload": true });
    assert_eq!(problem(request.json(&body).send().unwrap())["status"], 413);
}

/// Serves a collection with so many documents that [`slow`] takes seconds.
fn serve_large(configure: impl FnOnce(&mut Config)) -> TestServer {
    let dir = Dir::new();
    let path = dir.path().join("c");
    let fields = ["a", "b"].map(|name| Field::new(name, Type::U64, Roles::FULL));
    let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap());
    for n in 0..300_000u64 {
        let random = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        builder.add(&Document::new().set("a", n).set("b", random)).unwrap();
    }
    let collection = Collection::create(&path).unwrap();
    let mut change = collection.change().unwrap();
    change.put("p", builder).unwrap();
    change.commit().unwrap();
    let mut config = Config::default();
    let options = CollectionOptions { path, refresh_seconds: 60.0 };
    config.collections.insert("c".to_string(), options);
    configure(&mut config);
    TestServer::start(dir, config)
}

/// A query that takes seconds: many ranges, each of which has to be looked at.
fn slow() -> Json {
    let range = |i: u64| format!("b between {} and {}", i * 900, i * 900 + 8_000_000);
    let ranges: Vec<String> = (0..9_000).map(range).collect();
    json!({ "query": format!("not ({})", ranges.join(" and ")) })
}

fn cancelled(server: &TestServer, reason: &'static str) -> u64 {
    let counts = &server.server.as_ref().unwrap().app().metrics.queries_cancelled;
    counts.get_or_create(&CancelLabels { reason }).get()
}

#[test]
fn queries_end_at_their_deadline() {
    let limit = Duration::from_secs(1);
    let server = serve_large(|config| config.limits.query_seconds = limit.as_secs_f64());
    let url = server.url("/v1/collections/c:count");
    let timed = |timeout: Option<&str>, body: &Json| {
        let mut request = server.client.post(&url).json(body);
        if let Some(timeout) = timeout {
            request = request.header("firndb-timeout", timeout);
        }
        let start = Instant::now();
        let problem = problem(request.send().unwrap());
        (problem, start.elapsed())
    };
    // How late the answer is at best: other tests share the processors.
    let latest = |timeout: Option<&str>, body: &Json, deadline: Duration| {
        let late = (0..10).map(|_| {
            let (problem, elapsed) = timed(timeout, body);
            assert_eq!((&problem["status"], &problem["kind"]), (&json!(503), &json!("cancelled")));
            assert!(elapsed >= deadline, "{elapsed:?}");
            elapsed - deadline
        });
        let in_time = late.take_while(|late| *late >= Duration::from_millis(100)).count();
        assert!(in_time < 10, "every answer is at least 100 ms late");
    };
    let mut body = slow();
    latest(Some("0.2"), &body, Duration::from_millis(200));
    body["timeout_seconds"] = json!(0.2);
    latest(None, &body, Duration::from_millis(200));
    assert!(cancelled(&server, "deadline") >= 2);
    // The limit of the server holds whatever the client wants.
    body["timeout_seconds"] = json!(1e9);
    latest(Some("1e9"), &body, limit);
    assert_eq!(cancelled(&server, "client_gone"), 0);
    let (problem, _) = timed(Some("soon"), &json!({}));
    assert_eq!(problem["status"], 400);
}

#[test]
fn a_query_ends_when_its_client_has_gone() {
    let server = serve_large(|config| config.limits.query_seconds = 600.0);
    let body = slow().to_string();
    let address = server.server.as_ref().unwrap().http_address();
    let mut client = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /v1/collections/c:count HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes()).unwrap();
    client.write_all(body.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(cancelled(&server, "client_gone"), 0, "the query is running");
    drop(client);
    let start = Instant::now();
    while cancelled(&server, "client_gone") == 0 {
        assert!(start.elapsed() < Duration::from_secs(5), "the query goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(cancelled(&server, "deadline"), 0);
}

/// The largest conditions that fit into a request are planned within the deadline.
#[test]
fn huge_conditions_do_not_block_the_server() {
    let server = serve_sample(|config| config.limits.query_seconds = 10.0);
    let one = json!({ "field": "n", "ne": 1 });
    let ranges = |n: u64| (0..n).map(|i| json!({ "field": "price", "lt": i }));
    for body in [
        json!({ "query": "n = 1".to_string() + &" or n = 1".repeat(100_000) }),
        json!({ "query": "n = 1".to_string() + &" and not n = 2".repeat(60_000) }),
        json!({ "where": { "or": vec![one; 40_000] } }),
        json!({ "where": { "and": ranges(25_000).collect::<Vec<_>>() } }),
        json!({ "where": { "field": "n", "in": vec![1; MAX_IN] } }),
    ] {
        let start = Instant::now();
        let status = server.send_query("count", body.to_string()).status();
        let elapsed = start.elapsed();
        println!("{status} in {elapsed:?}");
        assert!(elapsed < Duration::from_millis(10_100));
        assert!(status == StatusCode::OK || status == StatusCode::SERVICE_UNAVAILABLE);
    }
    let many = json!({ "where": { "field": "n", "in": vec![1; MAX_IN + 1] } });
    assert!(server.query_refused("count", &many).contains("more than 65536 values"));
}
