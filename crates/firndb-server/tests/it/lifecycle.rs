//! The program from its start to its end: signals, systemd, exit codes, options.

use crate::process::{Process, program, run};
use crate::raw::{Raw, request, status, wait_until};
use crate::support::Dir;
use firndb::log::LogStore;
use rustix::process::Signal;
use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The beginning of a write whose value has 5 bytes.
const PUT: &str =
    "PUT /v1/logs/log/keys/k HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\n";

/// Sends the beginning of a write, and waits until the server reads its body.
fn half_a_write(address: SocketAddr) -> Raw {
    let head = PUT.replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n");
    let mut raw = Raw::send(address, head);
    assert_eq!(status(&raw.head()), 100);
    assert!(raw.write("val"));
    raw
}

#[test]
fn running_requests_are_completed_at_the_end() {
    let process = Process::start(&[]);
    let address = process.wait_until_ready();
    let mut idle = Raw::send(address, request("GET", "/livez"));
    assert_eq!(status(&idle.head()), 200);
    let mut writing = half_a_write(address);
    process.signal(Signal::TERM);
    assert_eq!(process.notification(), "STOPPING=1\n");
    // The idle connection is closed, and there are no new ones.
    idle.rest();
    wait_until("nothing listens", || TcpStream::connect(address).is_err());
    assert!(writing.write("ue"));
    let answer = writing.rest();
    assert_eq!(status(&answer), 204, "{answer}");
    let path = process.dir.path().join("log");
    let (ended, log) = process.end_keeping(|_| {
        let store = LogStore::open_read_only(&path).unwrap();
        assert_eq!(store.get("k").unwrap().as_deref(), Some(&b"value"[..]));
    });
    assert_eq!(ended.code(), Some(0), "{log}");
    assert!(log.contains("draining") && log.contains("stopped"), "{log}");
}

#[test]
fn what_was_acknowledged_is_there_after_the_end() {
    let process = Process::start(&["--sync"]);
    let address = process.wait_until_ready();
    assert_eq!(status(&Raw::send(address, format!("{PUT}value")).head()), 204);
    process.signal(Signal::INT);
    let path = process.dir.path().join("log");
    let (ended, log) = process.end_keeping(|_| {
        let store = LogStore::open_read_only(&path).unwrap();
        assert_eq!(store.get("k").unwrap().as_deref(), Some(&b"value"[..]));
    });
    assert_eq!(ended.code(), Some(0), "{log}");
}

fn with_limits(dir: &Dir, limits: &str) -> String {
    let path = dir.path().join("limits.toml");
    fs::write(&path, format!("[limits]\n{limits}\n")).unwrap();
    path.display().to_string()
}

#[test]
fn draining_has_a_limit() {
    let dir = Dir::new();
    let process = Process::start(&[&with_limits(&dir, "drain_seconds = 0.3")]);
    let address = process.wait_until_ready();
    let mut writing = half_a_write(address);
    let start = Instant::now();
    process.signal(Signal::TERM);
    let (ended, log) = process.end();
    assert!(start.elapsed() >= Duration::from_millis(250), "{:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    assert_eq!(ended.code(), Some(0), "{log}");
    assert!(log.contains("cut off"), "{log}");
    assert_eq!(writing.rest(), "");
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    for (second, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let mut process = Process::start(&[]);
        let address = process.wait_until_ready();
        let _writing = half_a_write(address);
        process.signal(Signal::TERM);
        assert_eq!(process.notification(), "STOPPING=1\n");
        assert!(process.runs_for(Duration::from_millis(300)), "{}", process.log());
        let start = Instant::now();
        process.signal(second);
        let (ended, log) = process.end();
        assert_eq!(ended.code(), Some(code), "{log}");
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    }
}

#[test]
fn a_server_that_starts_answers_and_can_be_ended() {
    // A catalog that accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = format!("slow=http://{}/catalog/name", silent.local_addr().unwrap());
    let dir = Dir::new();
    let limits = with_limits(&dir, "drain_seconds = 0.3");
    let cache = dir.path().join("cache").display().to_string();
    let process = Process::start(&[&limits, "--catalog", &place, "--cache", &cache]);
    let address = process.address();
    let get = |path: &str| Raw::send(address, request("GET", path)).head();
    assert_eq!(status(&get("/livez")), 200);
    let ready = get("/readyz");
    assert_eq!(status(&ready), 503, "{ready}");
    assert_eq!(status(&get("/metrics")), 200);
    let start = Instant::now();
    process.signal(Signal::TERM);
    assert_eq!(process.notification(), "STOPPING=1\n");
    let (ended, log) = process.end();
    assert_eq!(ended.code(), Some(0), "{log}");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?} {log}", start.elapsed());
    assert!(!log.contains(" ready"), "{log}");
}

#[test]
fn a_store_that_cannot_be_opened_ends_the_process() {
    let dir = Dir::new();
    let foreign = dir.path().join("foreign");
    fs::write(&foreign, "not a table").unwrap();
    for (option, path, code) in [
        ("--table", dir.path().join("absent"), 3),
        ("--collection", dir.path().join("absent"), 3),
        ("--table", foreign, 6),
    ] {
        let store = format!("broken={}", path.display());
        let process = Process::start(&[option, &store]);
        let (ended, log) = process.end();
        let last = log.lines().last().unwrap_or_default();
        assert_eq!(ended.code(), Some(code), "{log}");
        assert!(last.contains("cannot open the store `broken`"), "{log}");
        assert!(last.contains(&path.display().to_string()), "{log}");
    }
}

#[test]
fn a_locked_store_and_a_taken_address_end_the_process() {
    let process = Process::start(&[]);
    let address = process.wait_until_ready().to_string();
    let store = format!("log={}", process.dir.path().join("log").display());
    let locked = run(&["--http", "127.0.0.1:0", "--log", &store]);
    assert_eq!(locked.status.code(), Some(5), "{locked:?}");
    let other = format!("log={}", process.dir.path().join("other").display());
    let taken = run(&["--http", &address, "--log", &other]);
    assert_eq!(taken.status.code(), Some(8), "{taken:?}");
    assert!(String::from_utf8_lossy(&taken.stderr).contains(&address));
    assert!(!process.dir.path().join("other").exists(), "nothing is created before");
}

#[test]
fn systemd_is_notified_of_a_reload_and_of_life() {
    let secret = "old-0123456789abcdef";
    let dir = Dir::new();
    let file = dir.path().join("tokens");
    fs::write(&file, secret).unwrap();
    let token_file = format!("admin={}", file.display());
    let process = Process::start_with(
        &["--token-file", &token_file, "--json", "--log-level", "debug"],
        |command| {
            command.env("WATCHDOG_USEC", "150000").env("FIRNDB_READ_TOKEN", "env-0123456789abcdef");
        },
    );
    let mut messages = Vec::new();
    let next = |messages: &mut Vec<String>, wanted: &str| {
        while !messages.last().is_some_and(|last: &String| last.starts_with(wanted)) {
            messages.push(process.notification());
            assert!(messages.len() < 100, "{messages:?}");
        }
    };
    next(&mut messages, "READY=1\n");
    next(&mut messages, "WATCHDOG=1\n");
    let address = process.address();
    let get = |token: &str| {
        let token = format!("authorization: Bearer {token}\r\n");
        let head = format!("GET /v1/stores HTTP/1.1\r\nhost: localhost\r\n{token}\r\n");
        status(&Raw::send(address, head).head())
    };
    assert_eq!([get(secret), get("env-0123456789abcdef")], [200, 200]);
    let newer = "new-0123456789abcdef";
    fs::write(&file, newer).unwrap();
    process.signal(Signal::HUP);
    next(&mut messages, "RELOADING=1\n");
    let reloading = messages.last().unwrap().clone();
    let time = reloading.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC="));
    assert!(time.unwrap().parse::<u64>().unwrap() > 0, "{reloading}");
    next(&mut messages, "READY=1\n");
    assert_eq!([get(secret), get(newer)], [401, 200]);
    process.signal(Signal::TERM);
    let (ended, log) = process.end();
    assert_eq!(ended.code(), Some(0), "{log}");
    // Lines of JSON, with the access log, and without secrets.
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect(line);
        assert!(line["timestamp"].is_string() && line["level"].is_string(), "{line}");
    }
    assert!(log.contains("\"path\":\"/v1/stores\"") && log.contains("\"id\":\""), "{log}");
    assert!(!log.contains("0123456789abcdef"), "{log}");
}

#[test]
fn slow_requests_are_logged_and_keys_are_escaped() {
    let process = Process::start(&["--slow-query", "0"]);
    let address = process.wait_until_ready();
    let path = "/v1/logs/log/keys/%1b%5B31m\u{202e}";
    Raw::send(address, request("GET", path)).head();
    process.signal(Signal::TERM);
    let (_, log) = process.end();
    let line = log.lines().find(|line| line.contains("slow request") && line.contains("keys"));
    if let Some(line) = line {
        assert!(line.contains("status=404") || line.contains("status=400"), "{line}");
    }
    assert!(log.contains("slow request"), "{log}");
    assert!(log.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{log:?}");
}

#[test]
fn mistakes_on_the_command_line_name_the_option() {
    let dir = Dir::new();
    let config = dir.path().join("config.toml");
    fs::write(&config, "[limits]\nconections = 1\n").unwrap();
    let config = config.display().to_string();
    for (args, part) in [
        (&["--log", "x"][..], "--log NAME=DIR"),
        (&["--log", "a/b=x"], "a/b"),
        (&["--log", "a=x", "--table", "a=y"], "`a`"),
        (&["--catalog", "a=x"], "--catalog NAME=PLACE/NAME"),
        (&["--token-file", "root=x", "--log", "a=x"], "--token-file ROLE=FILE"),
        (&["--token-file", "read=/no/such/file", "--log", "a=x"], "/no/such/file"),
        (&["--http", "localhost"], "--http"),
        (&["--http", "0.0.0.0:1", "--log", "a=x"], "--insecure"),
        (&["--tls-cert", "x"], "--tls-key"),
        (&["--cors-origin", "example.org", "--log", "a=x"], "example.org"),
        (&["--no-such-option"], "--no-such-option"),
        (&["--log-level", "=,", "--log", "a=x"], "level"),
        (&[], "--collection"),
        (&[&config], "conections"),
        (&["/no/such/config.toml"], "/no/such/config.toml"),
    ] {
        let output = run(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(2 | 3)), "{args:?}: {output:?}");
        assert!(said.contains(part), "{args:?}: {said}");
        assert!(output.stdout.is_empty() && output.status.signal().is_none(), "{args:?}");
    }
    assert!(!Path::new("x").exists());
    for args in [["--json", "--log", "x"], ["--json", "--bogus", "x"]] {
        let json = run(&args);
        let error: serde_json::Value = serde_json::from_slice(&json.stderr).unwrap();
        assert_eq!(error["error"]["kind"], "invalid_argument", "{error}");
        assert_eq!(json.status.code(), Some(2));
    }
}

#[test]
fn options_are_shown_without_secrets() {
    let output = program()
        .args(["--print-config", "--log", "a=x", "--cache", "c", "--catalog"])
        .arg("b=https://user:hidden-password@example.org/catalog/name")
        .env("FIRNDB_ADMIN_TOKEN", "secret-0123456789abcdef")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("FIRNDB_ADMIN_TOKEN") && shown.contains("[limits]"), "{shown}");
    assert!(!shown.contains("hidden-password") && !shown.contains("secret-"), "{shown}");
    let wrong = run(&["--catalog", "b=https://user:hidden-password@example.org/", "--bogus"]);
    assert!(!String::from_utf8_lossy(&wrong.stderr).contains("hidden-password"), "{wrong:?}");
}

#[test]
fn help_the_manual_page_and_completions_name_every_option() {
    let help = run(&["--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    let options: Vec<&str> =
        help.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 3).collect();
    assert!(options.len() > 20, "{help}");
    assert!(help.lines().all(|line| line.len() <= 100), "{help}");
    for args in [&["--man"][..], &["--completions", "bash"], &["--completions", "zsh"]] {
        let output = run(args);
        assert!(output.status.success(), "{args:?}");
        let text = String::from_utf8(output.stdout).unwrap().replace('\\', "");
        for option in ["--token-file", "--tls-client-ca", "--allow-host", "--print-config"] {
            assert!(text.contains(option), "{args:?} {option}");
        }
    }
}
