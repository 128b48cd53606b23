//! The program itself as a child process, and a socket in place of systemd's.

use crate::raw::{Raw, request, status, wait_until};
use crate::support::Dir;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The program, without variables that change what it does.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firn-serve"));
    for variable in ["RUST_LOG", "NOTIFY_SOCKET", "FIRNDB_READ_TOKEN", "FIRNDB_ADMIN_TOKEN"] {
        command.env_remove(variable);
    }
    command
}

/// Runs the program to its end.
pub fn run(args: &[&str]) -> Output {
    program().args(args).output().unwrap()
}

/// The program while it runs.
pub struct Process {
    child: Child,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
    notified: UnixDatagram,
    pub dir: Dir,
}

impl Process {
    /// Starts the program with a log store `log` and more arguments.
    pub fn start(args: &[&str]) -> Process {
        Process::start_with(args, |_| ())
    }

    pub fn start_with(args: &[&str], change: impl FnOnce(&mut Command)) -> Process {
        let dir = Dir::new();
        let socket = dir.path().join("notify");
        let notified = UnixDatagram::bind(&socket).unwrap();
        notified.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let mut command = program();
        command.args(["--http", "127.0.0.1:0"]).args(args).env("NOTIFY_SOCKET", &socket);
        command.arg("--log").arg(format!("log={}", dir.path().join("log").display()));
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (stderr, shared) = (child.stderr.take().unwrap(), log.clone());
        let reader = thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut log = shared.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        Process { child, log, reader: Some(reader), notified, dir }
    }

    /// Everything logged so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// The address of the HTTP interface.
    pub fn address(&self) -> SocketAddr {
        self.address_for("HTTP")
    }

    /// The address of an interface.
    pub fn address_for(&self, interface: &str) -> SocketAddr {
        let mut address = None;
        wait_until("the server listens", || {
            let log = self.log();
            let listening = format!("listening for {interface}");
            let line = log.lines().find(|line| line.contains(&listening));
            address = line.and_then(|line| {
                let start = line.find("127.0.0.1:")?;
                let text = &line[start..];
                let end = text.find(|c: char| !c.is_ascii_digit() && !".:".contains(c));
                text[..end.unwrap_or(text.len())].parse().ok()
            });
            address.is_some()
        });
        address.unwrap()
    }

    /// The next message to systemd.
    pub fn notification(&self) -> String {
        let mut buf = [0; 4096];
        let n = self.notified.recv(&mut buf).expect("a message to systemd");
        String::from_utf8_lossy(&buf[..n]).into_owned()
    }

    /// Waits until the server answers requests.
    pub fn wait_until_ready(&self) -> SocketAddr {
        assert_eq!(self.notification(), "READY=1\n");
        let address = self.address();
        assert_eq!(status(&Raw::send(address, request("GET", "/readyz")).head()), 200);
        address
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits until the process has ended, and returns its log.
    pub fn end(self) -> (ExitStatus, String) {
        self.end_keeping(|_| ())
    }

    /// The same, and calls `then` before its directory is removed.
    pub fn end_keeping(mut self, then: impl FnOnce(&Dir)) -> (ExitStatus, String) {
        let mut ended = None;
        wait_until("the process ends", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        self.reader.take().unwrap().join().unwrap();
        then(&self.dir);
        (ended.unwrap(), self.log())
    }

    /// Whether it still runs after a moment.
    pub fn runs_for(&mut self, moment: Duration) -> bool {
        let until = Instant::now() + moment;
        while Instant::now() < until {
            if self.child.try_wait().unwrap().is_some() {
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
        true
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
