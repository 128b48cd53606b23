//! A full disk: a small file system in memory that only the server's process sees.

use crate::support::Dir;
use firndb_testing::skipped;
use reqwest::StatusCode;
use reqwest::blocking::Client;
use serde_json::Value as Json;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A server with its log store in a file system of 16 MiB; it ends with the test.
struct Server {
    process: Child,
    url: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Server {
    /// `None` if this system does not allow a process to mount a file system of its own.
    fn start(dir: &Dir) -> Option<Server> {
        let script = "mount -t tmpfs -o size=16m none \"$1\" && \
                      exec \"$2\" --http 127.0.0.1:0 --log log=\"$1/log\"";
        let mut process = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
            .arg(dir.path())
            .arg(env!("CARGO_BIN_EXE_firn-serve"))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .ok()?;
        let mut lines = BufReader::new(process.stderr.take()?).lines();
        let address = loop {
            let Some(Ok(line)) = lines.next() else {
                let _ = process.wait();
                return None;
            };
            if let Some((_, rest)) = line.split_once("address=") {
                break rest.split_whitespace().next()?.to_string();
            }
        };
        let server = Server { process, url: format!("http://{address}") };
        // The pipe must not fill up.
        std::thread::spawn(move || lines.for_each(drop));
        Some(server)
    }
}

#[test]
fn a_full_disk_refuses_writes_and_loses_nothing() {
    let dir = Dir::new();
    let Some(server) = Server::start(&dir) else {
        return skipped("a_full_disk_refuses_writes", "no file system of its own: unshare, mount");
    };
    let client = Client::builder().no_proxy().build().unwrap();
    let until_ready = || client.get(format!("{}/readyz", server.url)).send().unwrap().status();
    while until_ready() != StatusCode::OK {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let url = |n: usize| format!("{}/v1/logs/log/keys/{n}", server.url);
    let value = |n: usize| vec![n as u8; 256 << 10];
    let mut written = 0;
    let refused = loop {
        let response = client.put(url(written)).body(value(written)).send().unwrap();
        if response.status() != StatusCode::NO_CONTENT {
            break response;
        }
        written += 1;
        assert!(written < 1000, "the disk is never full");
    };
    assert!(written > 8, "{written}");
    assert_eq!(refused.status(), StatusCode::INSUFFICIENT_STORAGE);
    let problem: Json = refused.json().unwrap();
    assert_eq!(problem["kind"], "io", "{problem}");
    // Maintenance may have made a little room meanwhile, but not so much.
    let body = serde_json::json!({"put": [{"key": "x", "value": "x".repeat(14 << 20)}]});
    let mput = client.post(format!("{}/v1/logs/log:mput", server.url)).body(body.to_string());
    assert_eq!(mput.send().unwrap().status(), StatusCode::INSUFFICIENT_STORAGE);
    for n in 0..written {
        assert!(client.get(url(n)).send().unwrap().bytes().unwrap() == value(n), "{n}");
    }
    assert_eq!(client.get(url(written)).send().unwrap().status(), StatusCode::NOT_FOUND);
    // Deleting makes room.
    for n in 0..written / 2 {
        assert_eq!(client.delete(url(n)).send().unwrap().status(), StatusCode::NO_CONTENT);
    }
    let compact = client.post(format!("{}/v1/logs/log:compact", server.url));
    assert_eq!(compact.send().unwrap().status(), StatusCode::OK);
    let put = client.put(url(0)).body(value(7)).send().unwrap();
    assert_eq!(put.status(), StatusCode::NO_CONTENT);
}
