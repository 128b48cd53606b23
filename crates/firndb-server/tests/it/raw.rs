//! Connections that send bytes as they are, and configurations with small limits.

use crate::support::{Dir, TestServer};
use firndb_server::config::{Config, LogOptions};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Longer than any limit of these tests: a connection that is open for longer hangs.
const HANG: Duration = Duration::from_secs(10);

/// A connection.
pub struct Raw(pub TcpStream);

impl Raw {
    pub fn connect(address: SocketAddr) -> Raw {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(HANG)).unwrap();
        socket.set_nodelay(true).unwrap();
        Raw(socket)
    }

    /// Connects and sends bytes.
    pub fn send(address: SocketAddr, bytes: impl AsRef<[u8]>) -> Raw {
        let mut raw = Raw::connect(address);
        raw.write(bytes);
        raw
    }

    /// Sends bytes. The server may have closed the connection already.
    pub fn write(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.0.write_all(bytes.as_ref()).is_ok()
    }

    /// Everything until the server closes the connection. Panics if it stays open.
    pub fn rest(&mut self) -> String {
        let mut all = Vec::new();
        let mut buf = [0; 64 << 10];
        loop {
            match self.0.read(&mut buf) {
                Ok(0) => break,
                Ok(n) => all.extend_from_slice(&buf[..n]),
                Err(e) if [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&e.kind()) => {
                    panic!("the connection is still open after {HANG:?}");
                }
                // What was not read when the server closed the connection resets it.
                Err(_) => break,
            }
        }
        String::from_utf8_lossy(&all).into_owned()
    }

    /// The head of the next response.
    pub fn head(&mut self) -> String {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            match self.0.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => break,
            }
        }
        String::from_utf8_lossy(&head).into_owned()
    }

    /// Ends the direction to the server.
    pub fn end(&self) {
        let _ = self.0.shutdown(Shutdown::Write); // Fails if the server has closed it.
    }
}

/// The status of a response; 0 if there is none.
pub fn status(response: &str) -> u16 {
    let rest = response.strip_prefix("HTTP/1.1 ").or_else(|| response.strip_prefix("HTTP/1.0 "));
    rest.and_then(|rest| rest.get(..3)?.parse().ok()).unwrap_or(0)
}

/// A request without a body, and the headers that every request needs.
pub fn request(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")
}

/// A server with an empty log store `log`.
pub fn server(change: impl FnOnce(&mut Config)) -> TestServer {
    let dir = Dir::new();
    let mut config = Config::default();
    let path = dir.path().join("log");
    let options = LogOptions { path, create: true, ..LogOptions::default() };
    config.logs.insert("log".to_string(), options);
    change(&mut config);
    TestServer::start(dir, config)
}

/// The address of a server.
pub fn address(server: &TestServer) -> SocketAddr {
    server.server.as_ref().unwrap().http_address()
}

/// The server answers a request on a new connection.
pub fn assert_alive(server: &TestServer, after: &str) {
    let ready = Raw::send(address(server), request("GET", "/readyz")).head();
    assert_eq!(status(&ready), 200, "after {after}: {ready}");
}

/// Waits until a condition holds. Panics if it does not for long.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < HANG, "this does not become true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
