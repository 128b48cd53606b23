//! The Redis protocol.

mod behaviour;
mod clients;
mod differential;
mod hostile;

use crate::support::{Dir, TestServer};
use firndb_server::config::{Config, LogOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Options that serve empty log stores `a` and `b` as databases 0 and 1.
pub fn two_logs(dir: &Dir) -> Config {
    let mut config = Config::default();
    for name in ["a", "b"] {
        let path = dir.path().join(name);
        let options = LogOptions { path, create: true, ..LogOptions::default() };
        config.logs.insert(name.to_string(), options);
    }
    config.redis.flushdb = true;
    config
}

/// Starts a server with the Redis interface.
pub fn start(dir: Dir, mut config: Config) -> TestServer {
    config.redis.address = Some("127.0.0.1:0".parse().unwrap());
    TestServer::start(dir, config)
}

/// The address of the Redis interface.
pub fn address(server: &TestServer) -> SocketAddr {
    server.server.as_ref().unwrap().redis_address().unwrap()
}

/// A connection that shows replies as they are.
pub struct Raw {
    reader: BufReader<TcpStream>,
}

impl Raw {
    pub fn connect(address: SocketAddr) -> Raw {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Raw { reader: BufReader::new(stream) }
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    /// The next reply as it is on the wire.
    pub fn reply(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.read_into(&mut out);
        out
    }

    fn read_into(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        self.reader.read_until(b'\n', out).unwrap();
        let line = &out[start..];
        assert!(line.ends_with(b"\r\n"), "cut off: {:?}", String::from_utf8_lossy(line));
        let length =
            || std::str::from_utf8(&line[1..line.len() - 2]).unwrap().parse::<i64>().unwrap();
        let (bytes, elements) = match line[0] {
            b'$' | b'=' => (length() + 2, 0),
            b'*' | b'~' => (0, length()),
            b'%' => (0, 2 * length()),
            b'+' | b'-' | b':' | b'_' => (0, 0),
            other => panic!("a reply begins with {other}"),
        };
        if bytes > 1 {
            let at = out.len();
            out.resize(at + bytes as usize, 0);
            self.reader.read_exact(&mut out[at..]).unwrap();
        }
        (0..elements).for_each(|_| self.read_into(out));
    }

    /// Sends a command and returns its reply as text.
    pub fn call(&mut self, words: &[&str]) -> String {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.send(&command(&words));
        String::from_utf8_lossy(&self.reply()).into_owned()
    }

    /// Whether the other side has closed the connection, after replies that are returned.
    pub fn rest(&mut self) -> Option<Vec<u8>> {
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Ok(_) => Some(rest),
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => Some(rest),
            Err(_) => None,
        }
    }
}

/// A command as an array of bulk strings.
pub fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}
