//! A client for one connection that is kept open.

use firndb_bench_protocol::Result;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A connection.
pub struct Client {
    stream: BufReader<TcpStream>,
    request: Vec<u8>,
    line: String,
}

impl Client {
    /// Connects to a server.
    pub fn connect(address: SocketAddr) -> Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let stream = BufReader::with_capacity(1 << 17, stream);
        Ok(Client { stream, request: Vec::new(), line: String::new() })
    }

    /// Sends a request without a body. Returns the status and the body of the response.
    pub fn get(&mut self, path: &str) -> Result<(u16, Vec<u8>)> {
        self.send("GET", path, "", &[])
    }

    /// Sends a request with a body. `headers` are lines that end in CR LF.
    pub fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &[u8],
    ) -> Result<(u16, Vec<u8>)> {
        self.request.clear();
        write!(
            self.request,
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {}\r\n\r\n",
            body.len()
        )?;
        self.request.extend_from_slice(body);
        self.stream.get_mut().write_all(&self.request)?;
        self.response()
    }

    fn response(&mut self) -> Result<(u16, Vec<u8>)> {
        self.next_line()?;
        let status = self.line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| format!("not a status line: {}", self.line))?;
        let mut length = 0;
        loop {
            self.next_line()?;
            if self.line.trim_end().is_empty() {
                break;
            }
            let lower = self.line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok((status, body))
    }

    fn next_line(&mut self) -> Result<()> {
        self.line.clear();
        match self.stream.read_line(&mut self.line)? {
            0 => Err("the server has closed the connection".into()),
            _ => Ok(()),
        }
    }
}
