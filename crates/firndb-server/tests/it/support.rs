//! A server in this process, and a client.

use firndb_server::Server;
use firndb_server::config::{Config, LogOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::runtime::Runtime;

/// A directory that is removed at the end.
pub struct Dir(PathBuf);

impl Dir {
    pub fn new() -> Dir {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("firn-serve-test-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        Dir(dir)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running server on a port of the system's choice.
pub struct TestServer {
    pub runtime: Runtime,
    pub server: Option<Server>,
    pub dir: Dir,
    pub client: reqwest::blocking::Client,
}

impl TestServer {
    /// Serves the stores of `config`.
    pub fn start(dir: Dir, mut config: Config) -> TestServer {
        config.http.address = "127.0.0.1:0".parse().unwrap();
        config.check().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let server = runtime.block_on(async {
            let server = Server::start(config).await.unwrap();
            server.open_stores().await.unwrap();
            server
        });
        let client = reqwest::blocking::Client::builder().no_proxy().build().unwrap();
        TestServer { runtime, server: Some(server), dir, client }
    }

    /// Serves an empty log store `log`.
    pub fn with_log() -> TestServer {
        let dir = Dir::new();
        let mut config = Config::default();
        let path = dir.path().join("log");
        let options = LogOptions { path, create: true, ..LogOptions::default() };
        config.logs.insert("log".to_string(), options);
        TestServer::start(dir, config)
    }

    /// A URL of the server.
    pub fn url(&self, path: &str) -> String {
        let scheme = "http";
        format!("{scheme}://{}{path}", self.server.as_ref().unwrap().http_address())
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = self.runtime.block_on(server.stop());
        }
    }
}
