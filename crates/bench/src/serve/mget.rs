//! Many keys per request: 1,000 keys of a table in the binary form.

use super::Options;
use super::http::Client;
use super::process::firn_serve;
use crate::units::quantile;
use firndb::table::TableBuilder;
use firndb_bench_protocol::Result;
use firndb_bench_protocol::rng::Rng;
use std::fs;
use std::time::Instant;

/// Records of the table.
pub const RECORDS: u64 = 1_000_000;
/// Keys of a request.
pub const KEYS: usize = 1000;
/// Bytes of a value.
pub const VALUE_BYTES: usize = 100;

/// Latencies of requests in nanoseconds.
pub struct Figures {
    /// Median, 99 % and maximum.
    pub latency: [f64; 3],
    /// Requests.
    pub requests: usize,
}

/// Measures requests of one connection, one after the other.
pub fn run(options: &Options) -> Result<Figures> {
    let dir = options.dir.join("mget");
    let _ = fs::remove_dir_all(&dir); // Fails if there is none.
    fs::create_dir_all(&dir)?;
    let file = dir.join("values.table");
    let mut builder = TableBuilder::create(&file)?;
    for number in 0..RECORDS {
        builder.add(key(number), value(number))?;
    }
    builder.finish()?;
    let server = firn_serve(&options.server, &[format!("--table=table={}", file.display())])?;
    let mut client = Client::connect(server.address)?;
    let mut rng = Rng::new(11, 0, 0);
    let (start, mut latencies) = (Instant::now(), Vec::new());
    let (mut numbers, mut body) = (Vec::new(), Vec::new());
    while start.elapsed() < options.seconds {
        numbers.clear();
        numbers.extend((0..KEYS).map(|_| rng.below(RECORDS)));
        body.clear();
        for number in &numbers {
            let key = key(*number);
            body.extend((key.len() as u32).to_le_bytes());
            body.extend(key);
        }
        let headers = "content-type: application/octet-stream\r\n\
                       accept: application/octet-stream\r\n";
        let sent = Instant::now();
        let (status, answer) = client.send("POST", "/v1/tables/table:mget", headers, &body)?;
        latencies.push(sent.elapsed().as_nanos() as f64);
        if status != 200 {
            return Err(format!("status {status}: {}", String::from_utf8_lossy(&answer)).into());
        }
        check(&numbers, &answer)?;
    }
    latencies.sort_by(f64::total_cmp);
    let latency = [0.5, 0.99, 1.0].map(|share| quantile(&latencies, share));
    Ok(Figures { latency, requests: latencies.len() })
}

fn key(number: u64) -> Vec<u8> {
    format!("key-{number:08}").into_bytes()
}

fn value(number: u64) -> Vec<u8> {
    let mut rng = Rng::new(13, number, 0);
    (0..VALUE_BYTES).map(|_| rng.next() as u8).collect()
}

/// Compares an answer with the values of these records.
fn check(numbers: &[u64], mut answer: &[u8]) -> Result<()> {
    for number in numbers {
        let wanted = value(*number);
        let (length, rest) = answer.split_at_checked(4).ok_or("the answer is too short")?;
        let length = u32::from_le_bytes(length.try_into()?) as usize;
        let (value, rest) = rest.split_at_checked(length).ok_or("the answer is too short")?;
        if value != wanted {
            return Err(format!("record {number} has a wrong value").into());
        }
        answer = rest;
    }
    if answer.is_empty() { Ok(()) } else { Err("the answer is too long".into()) }
}
