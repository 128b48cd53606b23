//! Servers that misbehave in every way that the clients must tolerate.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// A request as received.
pub struct Asked {
    pub head: String,
    pub body: Vec<u8>,
}

impl Asked {
    /// Reads a request; `None` if the connection ends before it is complete.
    fn read(stream: &TcpStream) -> Option<Asked> {
        let mut reader = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let len = field(&head, "content-length").and_then(|len| len.parse().ok()).unwrap_or(0);
        let mut body = vec![0; len];
        reader.read_exact(&mut body).ok()?;
        Some(Asked { head, body })
    }

    /// The requested range: offset and length.
    pub fn range(&self) -> (u64, usize) {
        let range = field(&self.head, "range").and_then(|range| range.strip_prefix("bytes="));
        let (first, last) = range.and_then(|range| range.split_once('-')).unwrap_or(("0", "0"));
        let (first, last): (u64, u64) = (first.parse().unwrap(), last.parse().unwrap());
        (first, (last - first + 1) as usize)
    }

    pub fn target(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }
}

fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, text)| text.trim()).next()
}

/// A server that answers one request per connection with the given behaviour. Runs until the
/// process exits.
pub struct Server {
    pub port: u16,
    pub requests: Arc<AtomicU64>,
}

impl Server {
    pub fn start(answer: impl Fn(&Asked, &mut TcpStream) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (requests, answer) = (Arc::new(AtomicU64::new(0)), Arc::new(answer));
        let counted = requests.clone();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (answer, counted) = (answer.clone(), counted.clone());
                thread::spawn(move || {
                    if let Some(asked) = Asked::read(&stream) {
                        counted.fetch_add(1, Relaxed);
                        answer(&asked, &mut stream);
                    }
                });
            }
        });
        Server { port, requests }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// The fault of a peer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Peer {
    /// Sends wrong bytes of the right length.
    Lies,
    /// Reports a shorter length.
    Truncates,
    /// Closes the connection in the middle of the response.
    Dies,
    /// Accepts the request and never responds.
    Hangs,
    /// Sends one byte at a time, slowly.
    Drips,
    /// Always responds that it is still fetching the file.
    Promises,
    /// Does not speak HTTP.
    Babbles,
    /// Responds with a server error.
    Fails,
    /// Asks to retry much later.
    Later,
}

impl Peer {
    pub const ALL: [Peer; 9] = [
        Peer::Lies,
        Peer::Truncates,
        Peer::Dies,
        Peer::Hangs,
        Peer::Drips,
        Peer::Promises,
        Peer::Babbles,
        Peer::Fails,
        Peer::Later,
    ];

    pub fn start(self) -> Server {
        Server::start(move |asked, stream| self.answer(asked, stream))
    }

    fn answer(self, asked: &Asked, stream: &mut TcpStream) {
        let (first, len) = asked.range();
        let part = |len: usize, all: u64| {
            let last = first + len as u64 - 1;
            format!(
                "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {first}-{last}/{all}\r\n\
                 Content-Length: {len}\r\nConnection: close\r\n\r\n"
            )
        };
        let whole = part(len, u64::MAX);
        let _ = match self {
            Peer::Lies => stream.write_all(&[whole.as_bytes(), &vec![7; len]].concat()),
            Peer::Truncates => {
                let half = len.div_ceil(2);
                let head = part(half, first + half as u64);
                stream.write_all(&[head.as_bytes(), &vec![7; half]].concat())
            }
            Peer::Dies => stream.write_all(&[whole.as_bytes(), &vec![7; len / 2]].concat()),
            Peer::Hangs => {
                thread::sleep(Duration::from_secs(20));
                Ok(())
            }
            Peer::Drips => stream.write_all(whole.as_bytes()).and_then(|()| {
                (0..200).try_for_each(|_| {
                    thread::sleep(Duration::from_millis(100));
                    stream.write_all(&[7])
                })
            }),
            Peer::Promises => stream.write_all(
                b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\
                  Connection: close\r\n\r\n",
            ),
            Peer::Later => stream.write_all(
                b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 300\r\nContent-Length: 0\r\n\
                  Connection: close\r\n\r\n",
            ),
            Peer::Babbles => stream.write_all(b"220 mail.example ESMTP\r\n"),
            Peer::Fails => stream.write_all(
                b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\
                  Connection: close\r\n\r\n",
            ),
        };
    }
}
