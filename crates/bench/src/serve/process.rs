//! Servers as child processes.

use firndb_bench_protocol::Result;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running server. Killed when dropped.
pub struct Server {
    process: Child,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Server {
    /// Starts a server and waits until it accepts connections at `address`.
    pub fn start(command: &mut Command, address: SocketAddr) -> Result<Server> {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let shown = command.get_program().to_string_lossy().into_owned();
        let process = command.spawn().map_err(|e| format!("cannot start {shown}: {e}"))?;
        let mut server = Server { process, address };
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = server.process.try_wait()? {
                return Err(format!("{shown} ended with {status}").into());
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("{shown} does not listen on {address}").into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// CPU time of the process and of its children so far, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        let id = self.process.id();
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let children = children.unwrap_or_default();
        let children = children.split_whitespace().filter_map(|id| id.parse().ok());
        children.chain([id]).map(cpu_seconds_of).sum()
    }
}

/// CPU time of a process so far, in seconds.
fn cpu_seconds_of(id: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // The fields after the name in parentheses: the state is the first.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / TICKS_PER_SECOND
}

/// The unit of CPU times in /proc, the same on all architectures that Linux supports today.
const TICKS_PER_SECOND: f64 = 100.0;

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill(); // Fails if it has ended.
        let _ = self.process.wait();
    }
}

/// A free port on the loopback interface. Another process could take it before the server does.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Starts `firn-serve` with these arguments and waits until it is ready.
pub fn firn_serve(program: &Path, arguments: &[String]) -> Result<Server> {
    let address = free_address()?;
    let mut command = Command::new(program);
    command.args(arguments).arg("--http").arg(address.to_string()).args(["--log-level", "warn"]);
    let server = Server::start(&mut command, address)?;
    let start = Instant::now();
    loop {
        let mut client = super::http::Client::connect(address)?;
        if client.get("/readyz")?.0 == 200 {
            return Ok(server);
        }
        if start.elapsed() > PATIENCE {
            return Err("firn-serve does not become ready".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs a part if its programs are on the path; otherwise prints which are missing.
pub fn if_found<T>(
    part: &str,
    programs: &[&str],
    run: impl FnOnce() -> Result<T>,
) -> Result<Option<T>> {
    let missing: Vec<&str> = programs.iter().copied().filter(|p| find(p).is_none()).collect();
    if missing.is_empty() {
        return run().map(Some);
    }
    eprintln!("part `{part}` is left out: it needs {}", missing.join(", "));
    Ok(None)
}

/// The path of a program; servers are often in /usr/sbin, which is not on everybody's path.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}
