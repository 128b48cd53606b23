//! The Redis protocol beside redis-server, with redis-benchmark as the client of both.

use super::Options;
use super::gets::median;
use super::process::{Server, find, free_address};
use crate::units::quantile;
use firndb_bench_protocol::Result;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Connections of the client.
pub const CONNECTIONS: usize = 50;
/// Number of keys.
pub const KEYS: usize = 100_000;
/// Bytes of a value.
pub const VALUE_BYTES: usize = 100;
/// Keys of an MGET.
pub const MGET: usize = 100;

/// What is measured: a name, and arguments of redis-benchmark.
const TESTS: [(&str, &[&str]); 5] = [
    ("SET", &["-t", "set", "-P", "1"]),
    ("GET", &["-t", "get", "-P", "1"]),
    ("SET, 16 pipelined", &["-t", "set", "-P", "16"]),
    ("GET, 16 pipelined", &["-t", "get", "-P", "16"]),
    ("MGET of 100", &[]),
];

/// Rates and latencies.
pub struct Figures {
    /// The servers, FirnDB first.
    pub servers: Vec<String>,
    /// For each test and server, the medians of requests per second and of p99 in milliseconds.
    pub tests: Vec<(String, Vec<(f64, f64)>)>,
    /// For SET and GET, the rate, and for each server p99 in milliseconds at that rate.
    pub paced: Vec<(String, f64, Vec<f64>)>,
}

/// Measures all tests of all servers, interleaved.
pub fn run(options: &Options) -> Result<Figures> {
    let dir = options.dir.join("redis");
    let _ = fs::remove_dir_all(&dir); // Fails if there is none.
    fs::create_dir_all(&dir)?;
    let servers = [
        ("firn-serve", start_firn(options, &dir)?),
        ("redis-server", start_redis(&dir, "no")?),
        ("redis-server, appendonly", start_redis(&dir, "yes")?),
    ];
    for (_, server) in &servers {
        fill(server)?;
    }
    let mut all: BTreeMap<(usize, usize), (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for _ in 0..options.rounds {
        for (t, (_, arguments)) in TESTS.iter().enumerate() {
            for (s, (_, server)) in servers.iter().enumerate() {
                let (rate, p99) = measure(server, arguments, options.seconds.as_secs_f64())?;
                let (rates, latencies) = all.entry((t, s)).or_default();
                rates.push(rate);
                latencies.push(p99);
            }
        }
    }
    let mut figures = Figures {
        servers: servers.iter().map(|(name, _)| name.to_string()).collect(),
        tests: TESTS.iter().map(|(name, _)| (name.to_string(), Vec::new())).collect(),
        paced: Vec::new(),
    };
    for ((t, _), (rates, latencies)) in all {
        figures.tests[t].1.push((median(rates), median(latencies)));
    }
    for (t, name) in ["SET", "GET"].into_iter().enumerate() {
        // Half of what the slowest server reaches.
        let peaks = figures.tests[t].1.iter().map(|(rate, _)| *rate);
        let rate = (peaks.fold(f64::INFINITY, f64::min) / 2000.0).round() * 1000.0;
        let mut all = vec![Vec::new(); servers.len()];
        for _ in 0..options.rounds {
            for ((_, server), latencies) in servers.iter().zip(&mut all) {
                latencies.push(paced(server.address, name, rate, options.seconds)?);
            }
        }
        figures.paced.push((name.to_string(), rate, all.into_iter().map(median).collect()));
    }
    Ok(figures)
}

/// p99 in milliseconds of commands that are sent at a fixed rate, one at a time per connection. The
/// time counts from the scheduled moment.
fn paced(address: SocketAddr, name: &str, rate: f64, duration: Duration) -> Result<f64> {
    let count = (rate * duration.as_secs_f64()) as u64;
    let start = Instant::now() + Duration::from_millis(50);
    let connection = |first: usize| -> Result<Vec<f64>> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let mut stream = BufReader::new(stream);
        let (mut latencies, mut line, mut rest) = (Vec::new(), String::new(), Vec::new());
        for number in (first as u64..count).step_by(CONNECTIONS) {
            let key = format!("key:{:012}", number.wrapping_mul(7919) % KEYS as u64);
            let command = match name {
                "GET" => format!("*2\r\n$3\r\nGET\r\n$16\r\n{key}\r\n"),
                _ => {
                    let value = "v".repeat(VALUE_BYTES);
                    format!("*3\r\n$3\r\nSET\r\n$16\r\n{key}\r\n${VALUE_BYTES}\r\n{value}\r\n")
                }
            };
            let due = start + Duration::from_secs_f64(number as f64 / rate);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            stream.get_mut().write_all(command.as_bytes())?;
            line.clear();
            stream.read_line(&mut line)?;
            if let Some(length) = line.strip_prefix('$').and_then(|n| n.trim().parse().ok()) {
                let _: usize = length;
                rest.resize(length + 2, 0);
                stream.read_exact(&mut rest)?;
            } else if line != "+OK\r\n" && line != "$-1\r\n" {
                return Err(format!("{name}: {line}").into());
            }
            latencies.push(due.elapsed().as_secs_f64() * 1e3);
        }
        Ok(latencies)
    };
    let mut all = thread::scope(|scope| {
        let connection = &connection;
        let threads: Vec<_> =
            (0..CONNECTIONS).map(|first| scope.spawn(move || connection(first))).collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().map_err(|_| "a connection panicked")??);
        }
        Ok::<_, firndb_bench_protocol::Error>(all)
    })?;
    all.sort_by(f64::total_cmp);
    Ok(quantile(&all, 0.99))
}

fn start_firn(options: &Options, dir: &Path) -> Result<Server> {
    let (http, redis) = (free_address()?, free_address()?);
    let mut command = Command::new(&options.server);
    command.arg(format!("--log=log={}", dir.join("log").display()));
    command.args(["--http", &http.to_string(), "--redis", &redis.to_string()]);
    // As many threads as redis-server has for commands: the client needs the other processor.
    command.args(["--threads", "1", "--log-level", "warn"]);
    let mut server = Server::start(&mut command, http)?;
    server.address = redis;
    Ok(server)
}

fn start_redis(dir: &Path, appendonly: &str) -> Result<Server> {
    let (address, data) = (free_address()?, dir.join(format!("redis-{appendonly}")));
    fs::create_dir_all(&data)?;
    let mut command = Command::new(find("redis-server").ok_or("redis-server is not installed")?);
    command.args(["--port", &address.port().to_string(), "--bind", "127.0.0.1", "--save", ""]);
    command.args(["--appendonly", appendonly, "--dir"]).arg(data);
    Server::start(&mut command, address)
}

/// Writes all keys that the tests read.
fn fill(server: &Server) -> Result<()> {
    // One run of random keys leaves gaps: several runs fill nearly all of them.
    benchmark(server, &["-t", "set", "-P", "64"], 5 * KEYS).map(|_| ())
}

/// Requests per second and p99 in milliseconds, of a run of about `seconds`.
fn measure(server: &Server, arguments: &[&str], seconds: f64) -> Result<(f64, f64)> {
    let (rate, _) = benchmark(server, arguments, 20_000)?;
    benchmark(server, arguments, (rate * seconds) as usize)
}

fn benchmark(server: &Server, arguments: &[&str], requests: usize) -> Result<(f64, f64)> {
    let mut command = Command::new("redis-benchmark");
    command.args(["-h", "127.0.0.1", "-p", &server.address.port().to_string(), "--csv"]);
    command.args(["-c", &CONNECTIONS.to_string(), "-d", &VALUE_BYTES.to_string()]);
    command.args(["-n", &requests.to_string(), "-r", &KEYS.to_string()]);
    match arguments {
        [] => {
            command.arg("MGET").args((0..MGET).map(|_| "key:__rand_int__"));
        }
        _ => {
            command.args(arguments);
        }
    }
    let out = command.output()?;
    let text = String::from_utf8_lossy(&out.stdout);
    // "test","rps","avg_latency_ms","min_...","p50_...","p95_...","p99_...","max_..."
    let row = text.lines().last().unwrap_or_default();
    let fields: Vec<&str> = row.split("\",\"").map(|field| field.trim_matches('"')).collect();
    let number = |i: usize| fields.get(i).and_then(|field| field.parse::<f64>().ok());
    let errors = String::from_utf8_lossy(&out.stderr);
    number(1).zip(number(6)).ok_or_else(|| format!("redis-benchmark: {text}{errors}").into())
}
