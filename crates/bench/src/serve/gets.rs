//! GET of small values beside nginx, which serves them as static files.

use super::Options;
use super::http::Client;
use super::process::{Server, find, firn_serve, free_address};
use crate::units::quantile;
use firndb::log::LogStore;
use firndb::table::TableBuilder;
use firndb_bench_protocol::Result;
use firndb_bench_protocol::rng::Rng;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Number of values.
pub const VALUES: usize = 1000;
/// Bytes of a value.
pub const VALUE_BYTES: usize = 100;
/// Connections of the client.
pub const CONNECTIONS: usize = 50;

/// GET requests per second of each server, the median of the rounds.
pub struct Figures {
    /// Name, median of requests per second, microseconds of the server's CPU per request.
    pub servers: Vec<(String, f64, f64)>,
}

impl Figures {
    /// The rate of a server.
    pub fn rate(&self, name: &str) -> Option<f64> {
        self.servers.iter().find(|(its, ..)| its == name).map(|(_, rate, _)| *rate)
    }
}

/// Measures GET requests.
pub fn run(options: &Options) -> Result<Figures> {
    let dir = options.dir.join("get");
    let _ = fs::remove_dir_all(&dir); // Fails if there is none.
    fs::create_dir_all(dir.join("html"))?;
    let values: Vec<Vec<u8>> = (0..VALUES).map(value).collect();
    prepare(&dir, &values)?;
    let nginx = start_nginx(&dir)?;
    let arguments = [
        format!("--log=log={}", dir.join("log").display()),
        format!("--table=table={}", dir.join("values.table").display()),
    ];
    let firn = firn_serve(&options.server, &arguments)?;
    let servers = [
        ("nginx, static files", &nginx, "/"),
        ("firn-serve, table", &firn, "/v1/tables/table/keys/"),
        ("firn-serve, log store", &firn, "/v1/logs/log/keys/"),
    ];
    for (name, server, prefix) in &servers {
        check(name, server, prefix, &values)?;
    }
    let mut rates = vec![(Vec::new(), Vec::new()); servers.len()];
    for _ in 0..options.rounds {
        for ((_, server, prefix), (rates, costs)) in servers.iter().zip(&mut rates) {
            let cpu = server.cpu_seconds();
            let (rate, requests) = measure(options, &dir, server, prefix)?;
            rates.push(rate);
            costs.push((server.cpu_seconds() - cpu) * 1e6 / requests);
        }
    }
    let medians = servers
        .iter()
        .zip(rates)
        .map(|((name, ..), (rates, costs))| (name.to_string(), median(rates), median(costs)));
    Ok(Figures { servers: medians.collect() })
}

pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

fn value(number: usize) -> Vec<u8> {
    let mut rng = Rng::new(7, number as u64, 0);
    (0..VALUE_BYTES).map(|_| b'a' + (rng.next() % 26) as u8).collect()
}

fn prepare(dir: &Path, values: &[Vec<u8>]) -> Result<()> {
    let log = LogStore::open(dir.join("log"))?;
    let mut table = TableBuilder::create(dir.join("values.table"))?;
    for (number, value) in values.iter().enumerate() {
        let key = format!("key-{number}");
        fs::write(dir.join("html").join(&key), value)?;
        log.put(&key, value)?;
        table.add(&key, value)?;
    }
    log.close()?;
    table.finish()?;
    // The client sends one request after the other; the script forms them before it starts.
    let script = format!(
        "local requests = {{}}\nlocal next = 0\n\
         function init(args)\n  for i = 0, {} do\n    \
         requests[i] = wrk.format(\"GET\", args[1] .. \"key-\" .. i)\n  end\nend\n\
         function request()\n  next = (next + 7919) % {}\n  return requests[next]\nend\n",
        values.len() - 1,
        values.len()
    );
    Ok(fs::write(dir.join("gets.lua"), script)?)
}

fn start_nginx(dir: &Path) -> Result<Server> {
    let address = free_address()?;
    let dir_name = dir.display();
    let config = format!(
        "daemon off;\nworker_processes auto;\npid {dir_name}/nginx.pid;\n\
         error_log {dir_name}/error.log;\nevents {{ worker_connections 1024; }}\n\
         http {{\n  access_log off;\n  sendfile on;\n  tcp_nopush on;\n  \
         keepalive_requests 1000000000;\n  open_file_cache max=10000;\n  \
         client_body_temp_path {dir_name}/body;\n  proxy_temp_path {dir_name}/proxy;\n  \
         fastcgi_temp_path {dir_name}/fastcgi;\n  uwsgi_temp_path {dir_name}/uwsgi;\n  \
         scgi_temp_path {dir_name}/scgi;\n  \
         server {{ listen {address}; root {dir_name}/html; }}\n}}\n"
    );
    let file = dir.join("nginx.conf");
    fs::write(&file, config)?;
    let program = find("nginx").ok_or("nginx is not installed")?;
    let mut command = Command::new(program);
    // As root nginx would change to a user that cannot read the files.
    let user = if rustix::process::getuid().is_root() { "user root;" } else { "" };
    command.arg("-c").arg(&file).arg("-g").arg(user);
    Server::start(&mut command, address)
}

/// Compares all answers of a server with the values.
fn check(name: &str, server: &Server, prefix: &str, values: &[Vec<u8>]) -> Result<()> {
    let mut client = Client::connect(server.address)?;
    for (number, value) in values.iter().enumerate() {
        let (status, body) = client.get(&format!("{prefix}key-{number}"))?;
        if status != 200 || body != *value {
            return Err(format!("{name} has a wrong value for key {number}: {status}").into());
        }
    }
    Ok(())
}

/// Requests per second, and requests, of one run of the client.
fn measure(options: &Options, dir: &Path, server: &Server, prefix: &str) -> Result<(f64, f64)> {
    let mut wrk = Command::new("wrk");
    wrk.args(["-t1", &format!("-c{CONNECTIONS}"), &format!("-d{}s", options.seconds.as_secs())]);
    wrk.arg("-s").arg(dir.join("gets.lua")).arg(format!("http://{}/", server.address));
    let out = wrk.arg("--").arg(prefix).output()?;
    let text = String::from_utf8_lossy(&out.stdout);
    if text.contains("Non-2xx") || text.contains("Socket errors") {
        return Err(format!("requests failed:\n{text}").into());
    }
    let rate = text.lines().find_map(|line| line.trim().strip_prefix("Requests/sec:"));
    let rate: Option<f64> = rate.and_then(|rate| rate.trim().parse().ok());
    let total = text.lines().find_map(|line| line.split_once(" requests in "));
    let total: Option<f64> = total.and_then(|(total, _)| total.trim().parse().ok());
    rate.zip(total).ok_or_else(|| format!("wrk printed no rate:\n{text}").into())
}
