//! Clients that are too slow are cut off, and others do not notice them.

use crate::raw::{Raw, address, assert_alive, request, server, status, wait_until};
use crate::support::TestServer;
use firndb_server::metrics::RequestLabels;
use std::io::Read;
use std::thread;
use std::time::{Duration, Instant};

/// The limit of each of these tests in seconds.
const LIMIT: f64 = 0.3;

/// When a client that exceeds the limit has to be cut off, on a machine that is busy.
const LATEST: Duration = Duration::from_millis(2000);

fn strict() -> TestServer {
    server(|config| {
        config.limits.header_seconds = LIMIT;
        config.limits.body_seconds = LIMIT;
        config.limits.write_seconds = LIMIT;
    })
}

/// Waits until no connection is open, which has to be the case soon.
fn assert_all_closed(server: &TestServer) {
    let metrics = &server.server.as_ref().unwrap().app().metrics;
    let start = Instant::now();
    wait_until("no connection is open", || metrics.connections_open.get() == 0);
    assert!(start.elapsed() < LATEST, "{:?}", start.elapsed());
}

#[test]
fn headers_that_arrive_byte_by_byte_end_the_connection() {
    let server = strict();
    let mut raw = Raw::connect(address(&server));
    let start = Instant::now();
    for byte in request("GET", "/livez").repeat(20).bytes() {
        // Each byte is far earlier than the limit after the byte before.
        thread::sleep(Duration::from_millis(20));
        if start.elapsed() > LATEST || !raw.write([byte]) {
            break;
        }
    }
    assert!(start.elapsed() < LATEST, "{:?}", start.elapsed());
    assert_all_closed(&server);
    let metrics = &server.server.as_ref().unwrap().app().metrics;
    wait_until("the connection is counted", || metrics.connections_timed_out.get() == 1);
    assert_alive(&server, "slow headers");
}

#[test]
fn a_body_that_stops_ends_the_request() {
    let server = strict();
    let head =
        "PUT /v1/logs/log/keys/k HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\nxxx";
    let start = Instant::now();
    let response = Raw::send(address(&server), head).rest();
    assert!(start.elapsed() < LATEST, "{:?}", start.elapsed());
    assert_eq!(status(&response), 408, "{response}");
    assert!(response.contains("application/problem+json"), "{response}");
    let absent = Raw::send(address(&server), request("GET", "/v1/logs/log/keys/k")).head();
    assert_eq!(status(&absent), 404);
}

#[test]
fn a_body_that_ends_early_is_not_stored() {
    let server = strict();
    let head =
        "PUT /v1/logs/log/keys/k HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\nxxx";
    let mut raw = Raw::send(address(&server), head);
    raw.end();
    raw.rest();
    let absent = Raw::send(address(&server), request("GET", "/v1/logs/log/keys/k")).head();
    assert_eq!(status(&absent), 404);
}

#[test]
fn a_client_that_does_not_read_is_cut_off() {
    let server = strict();
    let url = server.url("/v1/logs/log/keys/k");
    let stored = server.client.put(url).body(vec![b'x'; 16 << 20]).send().unwrap();
    assert_eq!(stored.status(), 204);
    // Far more than the buffers of the system hold.
    let raw = Raw::send(address(&server), request("GET", "/v1/logs/log/keys/k").repeat(4));
    assert_all_closed(&server);
    drop(raw);
    assert_alive(&server, "a client that does not read");
}

#[test]
fn responses_do_not_pile_up_for_a_client_that_does_not_read() {
    let server = strict();
    let url = server.url("/v1/logs/log/keys/k");
    let stored = server.client.put(url).body(vec![b'x'; 8 << 20]).send().unwrap();
    assert_eq!(stored.status(), 204);
    let metrics = &server.server.as_ref().unwrap().app().metrics;
    let labels = RequestLabels { route: "key", status: 200 };
    let raw = Raw::send(address(&server), request("GET", "/v1/logs/log/keys/k").repeat(500));
    assert_all_closed(&server);
    let answered = metrics.requests.get_or_create(&labels).get();
    assert!((1..5).contains(&answered), "{answered} responses of 8 MiB");
    drop(raw);
}

#[test]
fn a_response_does_not_wait_for_the_next_request() {
    let server = server(|_| ());
    let start = Instant::now();
    let two = format!("{}GET /li", request("GET", "/livez"));
    let mut raw = Raw::send(address(&server), two);
    assert_eq!(status(&raw.head()), 200);
    assert!(start.elapsed() < LATEST, "{:?}", start.elapsed());
    // The second one completes, too.
    let mut body = [0; 3];
    raw.0.read_exact(&mut body).unwrap();
    raw.write("vez HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(status(&raw.head()), 200);
}

#[test]
fn an_idle_connection_is_closed() {
    let server = strict();
    // One that has never sent anything, and one between two requests.
    let mut silent = Raw::connect(address(&server));
    let mut idle = Raw::send(address(&server), request("GET", "/livez"));
    assert_eq!(status(&idle.head()), 200);
    let start = Instant::now();
    assert_eq!(silent.rest(), "");
    assert!(idle.rest().starts_with("ok\n"));
    assert!(start.elapsed() < LATEST, "{:?}", start.elapsed());
    assert_all_closed(&server);
}

#[test]
fn a_connection_that_is_half_open_is_closed() {
    let server = strict();
    let mut raw = Raw::send(address(&server), "GET /livez HTTP/1.1\r\nhost: local");
    raw.end();
    raw.rest();
    assert_all_closed(&server);
}

#[test]
fn a_handshake_that_stalls_is_cut_off() {
    let files = crate::tls::Files::new();
    let server = server(|config| {
        config.limits.handshake_seconds = LIMIT;
        config.tls = Some(files.options(false));
    });
    let start = Instant::now();
    let mut silent = Raw::connect(address(&server));
    // The beginning of a handshake.
    let mut started = Raw::send(address(&server), [22, 3, 1, 1, 0, 1]);
    // Not a handshake at all.
    let mut plain = Raw::send(address(&server), request("GET", "/livez"));
    plain.rest();
    silent.rest();
    started.rest();
    assert!(start.elapsed() < LATEST, "{:?}", start.elapsed());
    assert_all_closed(&server);
    let metrics = &server.server.as_ref().unwrap().app().metrics;
    wait_until("the handshakes are counted", || metrics.handshakes_failed.get() == 3);
}

/// Connections of the clients that are slow.
const SLOW: usize = 200;

#[test]
fn slow_clients_do_not_delay_others() {
    let server = server(|config| {
        config.limits.header_seconds = 1.0;
        config.limits.body_seconds = 1.0;
    });
    let address = address(&server);
    let put = "PUT /v1/logs/log/keys/k HTTP/1.1\r\nhost: localhost\r\n";
    let stored = Raw::send(address, format!("{put}content-length: 1\r\n\r\nv")).head();
    assert_eq!(status(&stored), 204);
    // A third each sends nothing, a part of the headers, and a part of a body.
    let starts = ["", "GET /livez HT", &format!("{put}content-length: 9\r\n\r\nx")];
    let slow: Vec<Raw> = (0..SLOW).map(|n| Raw::send(address, starts[n % 3])).collect();
    let until = Instant::now() + Duration::from_millis(1500);
    let slowest = thread::scope(|scope| {
        let good = [(); 4].map(|()| {
            scope.spawn(move || {
                let mut slowest = Duration::ZERO;
                while Instant::now() < until {
                    let start = Instant::now();
                    let mut raw = Raw::send(address, request("GET", "/v1/logs/log/keys/k"));
                    assert_eq!(status(&raw.head()), 200);
                    slowest = slowest.max(start.elapsed());
                }
                slowest
            })
        });
        good.map(|client| client.join().unwrap()).into_iter().max().unwrap()
    });
    assert!(slowest < Duration::from_millis(500), "{slowest:?}");
    let metrics = &server.server.as_ref().unwrap().app().metrics;
    wait_until("the slow clients are gone", || metrics.connections_open.get() == 0);
    drop(slow);
}
