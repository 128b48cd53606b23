//! The runner's side of the protocol: an engine as a child process.

use firndb_bench_protocol::{Kind, Result, Workload};
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::str::FromStr;
use std::time::Duration;

/// How to start an engine.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// Name in reports and directories.
    pub name: String,
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// What building cost.
#[derive(Clone, Copy, Debug)]
pub struct Built {
    /// Time by the wall clock.
    pub wall: Duration,
    /// Time on all CPUs.
    pub cpu: Duration,
    /// Largest resident memory, bytes.
    pub peak_memory: u64,
    /// Bytes on disk.
    pub disk: u64,
}

/// What opening cost.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// Median time of opening again.
    pub time: Duration,
    /// Memory that no file backs, bytes that the first open added.
    pub memory: u64,
}

/// An answer with its time.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// Nanoseconds.
    pub nanos: f64,
    /// Matches, or hits of the page.
    pub count: u64,
    /// Fold of the whole answer.
    pub checksum: u64,
}

/// Answers to a prefix of the queries of a kind.
#[derive(Clone, Debug)]
pub struct Ran {
    /// In the order of the queries.
    pub answers: Vec<Timed>,
    /// Allocations a query; zero if the engine does not count them.
    pub allocations: f64,
}

/// A running engine. It ends when this is dropped.
pub struct Child {
    name: String,
    process: std::process::Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Launcher {
    /// Starts the engine.
    pub fn start(&self) -> Result<Child> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let refused = |e| format!("cannot start {} ({}): {e}", self.name, self.program.display());
        let mut process = command.spawn().map_err(refused)?;
        let input = process.stdin.take();
        let output = process.stdout.take().ok_or("a child without output")?;
        let output = BufReader::new(output).lines();
        Ok(Child { name: self.name.clone(), process, input, output })
    }
}

impl Child {
    /// Name and version.
    pub fn hello(&mut self) -> Result<String> {
        self.send(&["hello"])?;
        let answer = self.receive("hello", 1)?;
        Ok(answer[0].clone())
    }

    /// Builds the engine's form of `data` in `dir`.
    pub fn build(&mut self, workload: Workload, data: &Path, dir: &Path) -> Result<Built> {
        self.send(&["build", workload.name(), &text(data), &text(dir)])?;
        let answer = self.receive("built", 4)?;
        Ok(Built {
            wall: Duration::from_nanos(self.number(&answer[0])?),
            cpu: Duration::from_nanos(self.number(&answer[1])?),
            peak_memory: self.number(&answer[2])?,
            disk: self.number(&answer[3])?,
        })
    }

    /// Opens what was built, several times.
    pub fn open(&mut self, workload: Workload, dir: &Path, times: usize) -> Result<Opened> {
        self.send(&["open", workload.name(), &text(dir), &times.to_string()])?;
        let answer = self.receive("opened", 2)?;
        let time = Duration::from_nanos(self.number(&answer[0])?);
        Ok(Opened { time, memory: self.number(&answer[1])? })
    }

    /// Answers the queries of a kind, as many as fit the budget.
    pub fn run(&mut self, kind: Kind, queries: &Path, budget: Duration) -> Result<Ran> {
        let (repeats, budget) = (kind.repeats().to_string(), budget.as_millis().to_string());
        self.send(&["run", &kind.to_string(), &text(queries), &repeats, &budget])?;
        let mut answers = Vec::new();
        loop {
            let line = self.line()?;
            match line.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["done", allocations] => {
                    return Ok(Ran { answers, allocations: self.number(allocations)? });
                }
                [nanos, count, checksum] => answers.push(Timed {
                    nanos: self.number(nanos)?,
                    count: self.number(count)?,
                    checksum: self.number(checksum)?,
                }),
                _ => return Err(self.strange(&line)),
            }
        }
    }

    /// Figures that only this engine has.
    pub fn extras(
        &mut self,
        workload: Workload,
        data: &Path,
        dir: &Path,
    ) -> Result<Vec<(String, String)>> {
        self.send(&["extras", workload.name(), &text(data), &text(dir)])?;
        let mut extras = Vec::new();
        loop {
            let line = self.line()?;
            match line.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["done"] => return Ok(extras),
                ["extra", name, value] => extras.push((name.into(), value.into())),
                _ => return Err(self.strange(&line)),
            }
        }
    }

    fn send(&mut self, job: &[&str]) -> Result<()> {
        let input = self.input.as_mut().ok_or("a child without input")?;
        let sent = writeln!(input, "{}", job.join("\t")).and_then(|()| input.flush());
        sent.map_err(|e| format!("{} does not take a job: {e}", self.name).into())
    }

    /// The fields of the answer `head`, which are `count`.
    fn receive(&mut self, head: &str, count: usize) -> Result<Vec<String>> {
        let mut line = self.line()?;
        if line.len() != count + 1 || line[0] != head {
            return Err(self.strange(&line));
        }
        Ok(line.split_off(1))
    }

    fn line(&mut self) -> Result<Vec<String>> {
        let line = self.output.next().ok_or_else(|| format!("{} ended too early", self.name))??;
        let fields: Vec<String> = line.split('\t').map(String::from).collect();
        if fields[0] == "error" {
            return Err(format!("{}: {}", self.name, fields[1..].join(" ")).into());
        }
        Ok(fields)
    }

    fn number<T: FromStr>(&self, text: &str) -> Result<T> {
        text.parse().map_err(|_| format!("{} said `{text}` for a number", self.name).into())
    }

    fn strange(&self, line: &[String]) -> firndb_bench_protocol::Error {
        format!("{} said `{}`, which is no answer to its job", self.name, line.join(" ")).into()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.input.take());
        // A child that is in the middle of something does not read that its input has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
