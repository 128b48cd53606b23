//! An S3 server: moto, a Python package, which pip installs once into a virtual environment in the
//! target directory; nothing is installed system-wide. Concurrent test processes wait for each
//! other. If the package is not available, the tests that need it say so and are counted as
//! skipped.

use firndb_testing::skipped;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

const PACKAGE: &str = "moto[server]==5.2.5";

/// Starts the server so that it handles one request at a time. By default it checks for an object
/// and creates it in two steps, and of a few hundred races two were won by both clients. A store
/// that implements `If-None-Match` does this atomically.
const PROGRAM: &str = "
import threading
from moto.moto_server.werkzeug_app import DomainDispatcherApplication as App
from moto.server import main
lock, call = threading.Lock(), App.__call__
def one_at_a_time(*args):
    with lock:
        return call(*args)
App.__call__ = one_at_a_time
main()
";

/// A new server. Objects are in memory; dropping this stops it.
pub struct Moto {
    child: Child,
    pub port: u16,
}

impl Moto {
    /// The server shared by the tests of this process, one at a time. `None`, with a message, if it
    /// is not available.
    pub fn shared(test: &str) -> Option<Arc<Moto>> {
        // Without a network pip takes long to fail, so it is tried once per process.
        static PYTHON: LazyLock<Result<PathBuf, String>> = LazyLock::new(install);
        static SHARED: Mutex<Weak<Moto>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(moto) = shared.upgrade() {
            return Some(moto);
        }
        match PYTHON.clone().and_then(|python| Moto::start(&python)) {
            Ok(moto) => {
                let moto = Arc::new(moto);
                *shared = Arc::downgrade(&moto);
                Some(moto)
            }
            Err(why) => {
                skipped(test, why);
                None
            }
        }
    }

    fn start(python: &Path) -> Result<Moto, String> {
        // Another process may take the port before the server starts.
        for _ in 0..5 {
            let free = TcpListener::bind("127.0.0.1:0").and_then(|at| at.local_addr());
            let port = free.map_err(|e| format!("there is no free port: {e}"))?.port();
            let mut command = Command::new(python);
            command.args(["-c", PROGRAM, "-H", "127.0.0.1", "-p", &port.to_string()]);
            let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let child = child.spawn().map_err(|e| format!("moto cannot be started: {e}"))?;
            let mut moto = Moto { child, port };
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(120) {
                if moto.ask("GET", "/moto-api/data.json").starts_with("HTTP/1.1 200") {
                    return Ok(moto);
                }
                if moto.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Err("moto does not answer".to_string())
    }

    /// Sends a request without a body, bypassing S3 clients. Empty if there is no response.
    pub fn ask(&self, method: &str, path: &str) -> String {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
            stream.set_read_timeout(Some(Duration::from_secs(30)))?;
            let head = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n");
            let head = format!("{head}Content-Length: 0\r\nConnection: close\r\n\r\n");
            stream.write_all(head.as_bytes())?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        ask().unwrap_or_default()
    }

    /// Creates a bucket.
    pub fn bucket(&self, name: &str) {
        let answer = self.ask("PUT", &format!("/{name}"));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

/// The environment that users set to access a server at this port.
pub fn variables(port: u16) -> Vec<(String, String)> {
    let endpoint = format!("http://127.0.0.1:{port}");
    let variables = [
        ("AWS_ENDPOINT_URL", endpoint.as_str()),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
    ];
    variables.map(|(name, value)| (name.to_string(), value.to_string())).to_vec()
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The path of a Python with the server, which is installed if it is missing.
fn install() -> Result<PathBuf, String> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().ok_or("there is no target")?;
    let place = target.join("moto-5.2.5");
    let (python, stamp) = (place.join("bin/python"), place.join("installed"));
    fs::create_dir_all(&place).map_err(|e| format!("{}: {e}", place.display()))?;
    // Another test process may be installing it concurrently.
    let lock = File::create(place.join("lock")).map_err(|e| e.to_string())?;
    lock.lock().map_err(|e| e.to_string())?;
    if stamp.exists() {
        return Ok(python);
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]);
    run(pip.args(["--timeout", "30", "--retries", "1", PACKAGE]))?;
    fs::write(stamp, PACKAGE).map_err(|e| e.to_string())?;
    Ok(python)
}

fn run(command: &mut Command) -> Result<(), String> {
    let what = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("{what} cannot be run: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    Err(format!("{PACKAGE} cannot be fetched: {what}: {}", last.trim()))
}
