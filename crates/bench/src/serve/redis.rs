//! The Redis protocol beside redis-server, with redis-benchmark as the client of both.

use super::Options;
use super::gets::median;
use super::process::{Server, find, free_address};
use firndb_bench_protocol::Result;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

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
    };
    for ((t, _), (rates, latencies)) in all {
        figures.tests[t].1.push((median(rates), median(latencies)));
    }
    Ok(figures)
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
