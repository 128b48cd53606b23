//! Unmodified clients of other projects.
//!
//! Their package managers install them into the target directory, once. A test is skipped where a
//! runtime is missing, or a package manager cannot reach its registry.

use super::{Raw, address, start, two_logs};
use crate::packages::{installed, pip, run};
use crate::support::{Dir, TestServer};
use firndb_testing::{is_on_path, skipped};
use redis::TypedCommands;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn server() -> TestServer {
    let dir = Dir::new();
    let config = two_logs(&dir);
    start(dir, config)
}

/// The folder of the scripts.
fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

/// Runs a client's script against a new server; its last line is `ok`.
fn check(
    test: &str,
    installed: Result<PathBuf, String>,
    script: impl FnOnce(&Path, &str) -> Command,
) {
    let dir = match installed {
        Ok(dir) => dir,
        Err(why) => return skipped(test, why),
    };
    let server = server();
    let port = address(&server).port().to_string();
    match run(&mut script(&dir, &port)) {
        Ok(out) => assert!(out.ends_with("ok\n"), "{out}"),
        Err(why) => panic!("{why}"),
    }
}

#[test]
fn redis_py_works() {
    let installed = pip("redis_py", "redis==8.1.0");
    check("redis_py_works", installed, |dir, port| {
        let mut command = Command::new(dir.join("bin/python"));
        command.arg(scripts().join("redis_py.py")).arg(port);
        command
    });
}

fn npm(name: &str, package: &str) -> Result<PathBuf, String> {
    installed(name, &["node", "npm"], |dir| {
        let args = ["install", "--no-audit", "--no-fund", "--fetch-retries=1", "--prefix"];
        run(Command::new("npm").args(args).arg(dir).arg(package)).map(drop)
    })
}

fn node(test: &str, name: &str, package: &str) {
    check(test, npm(name, package), |dir, port| {
        // Node looks for packages beside the script.
        let script = dir.join(format!("{name}.mjs"));
        fs::copy(scripts().join(format!("{name}.mjs")), &script).unwrap();
        let mut command = Command::new("node");
        command.arg(script).arg(port);
        command
    });
}

#[test]
fn node_redis_works() {
    node("node_redis_works", "node_redis", "redis@6.3.1");
}

#[test]
fn ioredis_works() {
    node("ioredis_works", "ioredis", "ioredis@6.0.0");
}

#[test]
fn go_redis_works() {
    let installed = installed("go", &["go"], |dir| {
        for name in ["go.mod", "go.sum", "main.go"] {
            fs::copy(scripts().join("go").join(name), dir.join(name)).map_err(|e| e.to_string())?;
        }
        let args = ["build", "-o", "client", "."];
        run(Command::new("go").args(args).current_dir(dir)).map(drop)
    });
    check("go_redis_works", installed, |dir, port| {
        let mut command = Command::new(dir.join("client"));
        command.arg(port);
        command
    });
}

#[test]
fn jedis_and_lettuce_work() {
    let installed = installed("java", &["java", "mvn"], |dir| {
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-B", "dependency:copy-dependencies", "-f"]);
        maven.arg(scripts().join("java/pom.xml"));
        maven.arg(format!("-DoutputDirectory={}", dir.display()));
        run(&mut maven).map(drop)
    });
    check("jedis_and_lettuce_work", installed, |dir, port| {
        let mut command = Command::new("java");
        command.arg("-cp").arg(dir.join("*")).arg(scripts().join("java/Clients.java")).arg(port);
        command
    });
}

/// A command of the redis-tools for a server.
fn tool(program: &str, server: &TestServer, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(["-h", "127.0.0.1", "-p", &address(server).port().to_string()]).args(args);
    command
}

#[test]
fn redis_cli_works() {
    if !is_on_path("redis-cli") {
        return skipped("redis_cli_works", "`redis-cli` is not on PATH");
    }
    let server = server();
    let cli = |args: &[&str]| run(&mut tool("redis-cli", &server, args)).unwrap();
    assert_eq!(cli(&["SET", "a", "1"]), "OK\n");
    assert_eq!(cli(&["-3", "--json", "MGET", "a", "b"]), "[\"1\",null]\n");
    // A mass insertion: the protocol on standard input.
    let mut pipe = tool("redis-cli", &server, &["--pipe"]);
    let mut child = pipe.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let commands: Vec<u8> = (0..20_000u32)
        .flat_map(|n| {
            let (key, value) = (format!("key:{n}"), "x".repeat(n as usize % 100));
            super::command(&[b"SET", key.as_bytes(), value.as_bytes()])
        })
        .collect();
    input.write_all(&commands).unwrap();
    drop(input);
    let output = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    assert!(output.contains("errors: 0, replies: 20000"), "{output}");
    let scanned = cli(&["--scan", "--pattern", "key:1*"]);
    assert_eq!(scanned.lines().count(), 11_111);
    let big = cli(&["--bigkeys"]);
    assert!(big.contains("20001 strings"), "{big}");
    let memory = cli(&["--memkeys"]);
    assert!(memory.contains("20001 strings"), "{memory}");
    assert!(cli(&["INFO"]).contains("db0:keys=20001"));
    assert!(cli(&["COMMAND", "DOCS", "get"]).contains("summary"));
}

#[test]
fn redis_benchmark_works() {
    if !is_on_path("redis-benchmark") {
        return skipped("redis_benchmark_works", "`redis-benchmark` is not on PATH");
    }
    let server = server();
    let tests = "ping_inline,ping_mbulk,set,get,incr,mset";
    for more in [&["-P", "1"][..], &["-P", "16"], &["-3", "-r", "1000", "-P", "7"]] {
        let args = [&["-q", "-n", "2000", "-t", tests], more].concat();
        let output = run(&mut tool("redis-benchmark", &server, &args)).unwrap();
        let results = output.matches("requests per second").count();
        assert_eq!(results, 6, "{output}");
    }
}

#[test]
fn redis_rs_works() {
    let server = server();
    for protocol in ["2", "3"] {
        let url = format!("redis://{}/?protocol=resp{protocol}", address(&server));
        let client = redis::Client::open(url).unwrap();
        let mut connection = client.get_connection().unwrap();
        connection.set("a", 1).unwrap();
        assert_eq!(connection.get("a").unwrap().as_deref(), Some("1"));
        assert_eq!(connection.get("none").unwrap(), None);
        assert_eq!(connection.incr("a", 41).unwrap(), 42);
        let mut pipe = redis::pipe();
        for n in 0..500 {
            pipe.cmd("SET").arg(format!("key:{n}")).arg(n);
        }
        let replies: Vec<String> = pipe.query(&mut connection).unwrap();
        assert!(replies.len() == 500 && replies.iter().all(|reply| reply == "OK"));
        let transaction = redis::pipe().atomic().cmd("INCR").arg("a").cmd("GET").arg("a").clone();
        let both: (i64, String) = transaction.query(&mut connection).unwrap();
        assert_eq!(both, (43, "43".to_string()));
        let keys = connection.scan_match::<_, String>("key:*").unwrap();
        assert_eq!(keys.count(), 500);
        let error = connection.set("a", "x").and_then(|()| connection.incr("a", 1)).unwrap_err();
        assert!(error.to_string().contains("not an integer"), "{error}");
        assert_eq!(Raw::connect(address(&server)).call(&["FLUSHDB"]), "+OK\r\n");
    }
}
