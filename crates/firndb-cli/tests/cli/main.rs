//! End-to-end tests of the command line: they run the program and check its output, errors and exit
//! codes.

mod build;
mod catalog;
mod catalog_proof;
mod change;
mod columnar_trips;
mod demo;
mod dialects;
mod exports;
mod external;
mod hints;
mod index;
mod log;
mod query;
#[cfg(feature = "remote")]
mod remote;
mod round_trips;
mod shapes;
mod signals;
mod table;
mod target;
mod terminal;
mod usage;

use serde_json::Value as Json;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The output and exit code of a run.
struct Run {
    code: i32,
    out: String,
    err: String,
}

impl Run {
    /// Fails the test unless the program succeeded.
    fn ok(self) -> Run {
        assert_eq!(self.code, 0, "stderr: {}", self.err);
        self
    }

    /// Fails the test unless the program failed with this exit code and a line that contains
    /// `message`.
    fn fails(self, code: i32, message: &str) -> Run {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.out, self.err);
        assert!(self.err.contains(message), "`{message}` is not in: {}", self.err);
        self
    }

    /// Parses the lines of standard output as JSON.
    fn json(&self) -> Vec<Json> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// A temporary directory of a test, in which the program runs; removed at the end.
struct Sandbox(PathBuf);

impl Sandbox {
    fn new() -> Sandbox {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cli-{}-{number}", std::process::id());
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&dir).unwrap();
        Sandbox(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.path(name), content).unwrap();
    }

    /// Runs `firn` with the words of `line`; text in single quotes is one word.
    fn firn(&self, line: &str) -> Run {
        self.firn_with(line, b"")
    }

    fn firn_with(&self, line: &str, input: &[u8]) -> Run {
        self.firn_in(&[], line, input)
    }

    /// Runs `firn` with these environment variables.
    fn firn_in(&self, variables: &[(String, String)], line: &str, input: &[u8]) -> Run {
        Sandbox::ended(self.start(variables, line), input)
    }

    /// Runs `firn`, and calls `meanwhile` while it waits for the end of its input.
    fn firn_while(&self, line: &str, input: &[u8], meanwhile: impl FnOnce()) -> Run {
        let child = self.start(&[], line);
        meanwhile();
        Sandbox::ended(child, input)
    }

    fn start(&self, variables: &[(String, String)], line: &str) -> Child {
        Command::new(env!("CARGO_BIN_EXE_firn"))
            .envs(variables.iter().cloned())
            .args(words(line))
            .current_dir(&self.0)
            .env("NO_COLOR", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn ended(mut child: Child, input: &[u8]) -> Run {
        // The program may end without reading its input.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        Run {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs `firn`, reads one line of its output and closes the pipe, which must not be an error.
    fn firn_unread(&self, line: &str) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(words(line))
            .current_dir(&self.0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        let mut stdout = BufReader::with_capacity(16, child.stdout.take().unwrap());
        stdout.read_line(&mut first).unwrap();
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{line}");
        assert!(output.status.success() && !first.is_empty(), "{line}");
    }

    /// Builds the collection `c` of [`csv`] with one partition per region.
    fn with_collection() -> Sandbox {
        let sandbox = Sandbox::new();
        sandbox.write("data.csv", csv());
        sandbox.firn("search build data.csv -o c --partition-by region").ok();
        sandbox
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (i, part) in line.split('\'').enumerate() {
        match i % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_string)),
            _ => words.push(part.replace('"', "'")),
        }
    }
    words
}

/// Number of rows of the sample data.
const ROWS: u64 = 600;

/// A row of the sample: id, region, price, day, rating (often missing), ok.
fn row(id: u64) -> (u64, String, f64, String, Option<u64>, bool) {
    let region = ["north", "south", "east"][id as usize % 3].to_string();
    let day = format!("2024-01-{:02}T00:00:00Z", id % 28 + 1);
    let rating = (!id.is_multiple_of(4)).then_some(id * 7 % 11);
    (id, region, (id * 37 % 100) as f64 + 0.5, day, rating, id % 5 == 1)
}

fn csv() -> String {
    let mut text = "id,region,price,day,rating,ok\n".to_string();
    for id in 0..ROWS {
        let (id, region, price, day, rating, ok) = row(id);
        let rating = rating.map_or("NA".to_string(), |rating| rating.to_string());
        text += &format!("{id},{region},{price},{day},{rating},{ok}\n");
    }
    text
}

fn jsonl() -> String {
    let mut text = String::new();
    for id in 0..ROWS {
        let (id, region, price, day, rating, ok) = row(id);
        let object = serde_json::json!({
            "id": id, "region": region, "price": price, "day": day, "rating": rating, "ok": ok,
        });
        text += &format!("{object}\n");
    }
    text
}
