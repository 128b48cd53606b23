//! Each limit allows as much as it says, and not one more.

use crate::raw::{Raw, address, assert_alive, request, server, status, wait_until};
use reqwest::StatusCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// A request whose line and headers have `bytes` bytes.
fn head_of(bytes: usize) -> String {
    let start = "GET /livez HTTP/1.1\r\nhost: localhost\r\nx: ";
    format!("{start}{}\r\n\r\n", "x".repeat(bytes - start.len() - 4))
}

#[test]
fn a_head_has_a_limited_length() {
    let server = server(|config| config.limits.header_bytes = 9000);
    let statuses = [9000, 9001, 20_000].map(|bytes| {
        let head = head_of(bytes);
        assert_eq!(head.len(), bytes);
        status(&Raw::send(address(&server), head).head())
    });
    assert_eq!(statuses, [200, 431, 431]);
}

#[test]
fn a_request_has_a_limited_number_of_headers() {
    let server = server(|config| config.limits.headers = 10);
    let statuses = [10, 11].map(|count| {
        let more: String = (1..count).map(|n| format!("x{n}: y\r\n")).collect();
        let head = format!("GET /livez HTTP/1.1\r\nhost: localhost\r\n{more}\r\n");
        status(&Raw::send(address(&server), head).head())
    });
    assert_eq!(statuses, [200, 431]);
}

#[test]
fn a_path_has_a_limited_length() {
    let server = server(|_| ());
    let statuses = [65_534, 65_535].map(|length| {
        let path = format!("/{}", "x".repeat(length - 1));
        status(&Raw::send(address(&server), request("GET", &path)).head())
    });
    assert_eq!(statuses, [404, 414]);
}

#[test]
fn a_body_has_a_limited_length() {
    let server = server(|config| config.limits.body_bytes = 1000);
    let url = server.url("/v1/logs/log/keys/k");
    let put = |bytes: usize| server.client.put(&url).body(vec![b'x'; bytes]).send().unwrap();
    assert_eq!(put(1000).status(), StatusCode::NO_CONTENT);
    let refused = put(1001);
    assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let problem: serde_json::Value = refused.json().unwrap();
    assert_eq!(problem["kind"], "too_large");
    // A declared length is refused before the body is sent.
    let head =
        "PUT /v1/logs/log/keys/k HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1001\r\n\r\n";
    assert_eq!(status(&Raw::send(address(&server), head).head()), 413);
    // A length that is not declared is refused when it is exceeded.
    let chunked = |bytes: usize| {
        let body = "x".repeat(bytes);
        let head = "PUT /v1/logs/log/keys/k HTTP/1.1\r\nhost: localhost\r\n";
        let head =
            format!("{head}transfer-encoding: chunked\r\n\r\n{bytes:x}\r\n{body}\r\n0\r\n\r\n");
        status(&Raw::send(address(&server), head).head())
    };
    assert_eq!([chunked(1000), chunked(1001)], [204, 413]);
}

#[test]
fn connections_are_limited() {
    for per_address in [false, true] {
        let server = server(|config| match per_address {
            true => config.limits.connections_per_address = 3,
            false => config.limits.connections = 3,
        });
        let metrics = &server.server.as_ref().unwrap().app().metrics;
        let mut open: Vec<Raw> = (0..3)
            .map(|_| {
                let mut raw = Raw::send(address(&server), request("GET", "/livez"));
                assert_eq!(status(&raw.head()), 200);
                raw
            })
            .collect();
        assert_eq!(metrics.connections_open.get(), 3);
        assert_eq!(Raw::send(address(&server), request("GET", "/livez")).rest(), "");
        assert_eq!(metrics.connections_refused.get(), 1);
        open.pop();
        wait_until("a place is free", || metrics.connections_open.get() == 2);
        assert_alive(&server, "a place became free");
    }
}

#[test]
fn queries_are_limited() {
    let server = server(|config| {
        config.limits.queries = 1;
        config.limits.waiting_queries = 1;
    });
    let app = server.server.as_ref().unwrap().app();
    let barrier = Arc::new(Barrier::new(2));
    let blocked = Arc::new(AtomicBool::new(true));
    let (waits, still) = (barrier.clone(), blocked.clone());
    let wait = move || {
        if still.swap(false, Ordering::SeqCst) {
            waits.wait();
        }
    };
    assert!(app.before_work.set(Arc::new(wait)).is_ok());
    let url = server.url("/v1/logs/log/keys/k");
    let put = || server.client.put(&url).body("v").send().unwrap();
    std::thread::scope(|scope| {
        let first = scope.spawn(put);
        wait_until("a query runs", || app.queries() == (1, 0));
        let second = scope.spawn(put);
        wait_until("a query waits", || app.queries() == (1, 1));
        let third = put();
        assert_eq!(third.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(third.headers()["retry-after"], "1");
        assert!(third.text().unwrap().contains("too many queries"));
        assert_eq!(app.metrics.queries_refused.get(), 1);
        // The figures are there nevertheless.
        let page = server.client.get(server.url("/metrics")).send().unwrap().text().unwrap();
        assert!(page.contains("\nfirndb_queries_running 1.0\n"), "{page}");
        assert!(page.contains("\nfirndb_queries_waiting 1.0\n"), "{page}");
        barrier.wait();
        assert_eq!(first.join().unwrap().status(), StatusCode::NO_CONTENT);
        assert_eq!(second.join().unwrap().status(), StatusCode::NO_CONTENT);
    });
    wait_until("no query runs", || app.queries() == (0, 0));
}

#[test]
fn a_query_does_not_wait_for_longer_than_its_deadline() {
    let server = server(|config| {
        config.limits.queries = 1;
        config.limits.query_seconds = 0.2;
    });
    let app = server.server.as_ref().unwrap().app();
    let slow = || std::thread::sleep(Duration::from_millis(600));
    assert!(app.before_work.set(Arc::new(slow)).is_ok());
    let url = server.url("/v1/logs/log/keys/k");
    let put = || server.client.put(&url).body("v").send().unwrap();
    std::thread::scope(|scope| {
        let first = scope.spawn(put);
        wait_until("a query runs", || app.queries().0 == 1);
        let start = Instant::now();
        let second = put();
        assert!(start.elapsed() < Duration::from_millis(550));
        assert_eq!(second.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(second.text().unwrap().contains("deadline"));
        // The first one did not begin in time, either.
        assert_eq!(first.join().unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    });
}

const MIB: usize = 1 << 20;

#[test]
fn all_bodies_of_requests_together_are_limited() {
    let server = server(|config| {
        config.limits.body_bytes = MIB;
        config.limits.response_bytes = MIB;
        config.limits.total_body_bytes = 2 * MIB;
    });
    let memory = &server.server.as_ref().unwrap().app().memory;
    let head = |bytes: usize| {
        let head = "PUT /v1/logs/log/keys/k HTTP/1.1\r\nhost: localhost";
        format!("{head}\r\ncontent-length: {bytes}\r\n\r\n")
    };
    // Two requests that lack their last byte.
    let mut slow: Vec<Raw> = (0..2)
        .map(|_| {
            let mut raw = Raw::send(address(&server), head(MIB));
            raw.write(vec![b'x'; MIB - 1]);
            raw
        })
        .collect();
    wait_until("they have arrived", || memory.used() == 2 * MIB - 2);
    let put = |body: &str| {
        let mut raw = Raw::send(address(&server), head(body.len()));
        raw.write(body);
        status(&raw.head())
    };
    assert_eq!([put("xx"), put("xxx")], [204, 503]);
    assert!(slow[0].write("x"));
    assert_eq!(status(&slow[0].head()), 204);
    slow.clear();
    wait_until("the memory is free", || memory.used() == 0);
    assert_eq!(put("xxx"), 204);
}

#[test]
fn all_bodies_of_responses_together_are_limited() {
    let server = server(|config| {
        config.limits.body_bytes = 16 * MIB;
        config.limits.response_bytes = 16 * MIB;
        config.limits.total_body_bytes = 32 * MIB;
    });
    let memory = &server.server.as_ref().unwrap().app().memory;
    let url = server.url("/v1/logs/log/keys/k");
    let stored = server.client.put(&url).body(vec![b'x'; 16 * MIB]).send().unwrap();
    assert_eq!(stored.status(), StatusCode::NO_CONTENT);
    // Two clients that do not read.
    let get = || Raw::send(address(&server), request("GET", "/v1/logs/log/keys/k"));
    let slow = [get(), get()];
    wait_until("two responses wait", || memory.used() == 32 * MIB);
    let refused = get().head();
    assert_eq!(status(&refused), 503, "{refused}");
    assert_alive(&server, "too many responses");
    drop(slow);
    wait_until("the memory is free", || memory.used() == 0);
    assert_eq!(server.client.get(&url).send().unwrap().bytes().unwrap().len(), 16 * MIB);
}
