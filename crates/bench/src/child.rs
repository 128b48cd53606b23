//! The runner's side of the protocol: an engine as a child process.

use firndb_bench_protocol::Result;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::str::FromStr;
use std::time::{Duration, SystemTime};

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

/// Cost of a build.
#[derive(Clone, Copy, Debug)]
pub struct Built {
    /// Wall-clock time.
    pub wall: Duration,
    /// CPU time on all cores.
    pub cpu: Duration,
    /// Peak resident memory in bytes.
    pub peak_memory: u64,
    /// Bytes on disk.
    pub disk: u64,
}

/// A running engine. Killed when dropped.
pub struct Child {
    name: String,
    process: std::process::Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Launcher {
    /// When the program, or a file in its script's directory, was last modified.
    pub fn changed(&self) -> SystemTime {
        let script = self.arguments.first().map(Path::new).filter(|path| path.is_file());
        let siblings = script.and_then(|script| script.parent()?.read_dir().ok());
        let siblings = siblings.into_iter().flatten().flatten().map(|entry| entry.path());
        let files = siblings.chain([self.program.clone()]);
        let changed = files.filter_map(|path| path.metadata().ok()?.modified().ok());
        changed.max().unwrap_or(SystemTime::UNIX_EPOCH)
    }

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
        Ok(self.request(&["hello"], "hello", 1)?.swap_remove(0))
    }

    /// Sends a job whose answer is one line, `built`.
    pub fn build(&mut self, job: &[&str]) -> Result<Built> {
        let answer = self.request(job, "built", 4)?;
        Ok(Built {
            wall: Duration::from_nanos(self.number(&answer[0])?),
            cpu: Duration::from_nanos(self.number(&answer[1])?),
            peak_memory: self.number(&answer[2])?,
            disk: self.number(&answer[3])?,
        })
    }

    /// Sends a job whose answer is one line: `head`, and `count` fields.
    pub fn request(&mut self, job: &[&str], head: &str, count: usize) -> Result<Vec<String>> {
        self.send(job)?;
        let mut line = self.line()?;
        if line.len() != count + 1 || line[0] != head {
            return Err(self.unexpected(&line));
        }
        Ok(line.split_off(1))
    }

    /// Sends a job.
    pub fn send(&mut self, job: &[&str]) -> Result<()> {
        let input = self.input.as_mut().ok_or("a child without input")?;
        let sent = writeln!(input, "{}", job.join("\t")).and_then(|()| input.flush());
        sent.map_err(|e| format!("{} does not take a job: {e}", self.name).into())
    }

    /// Reads the next line of an answer, as fields.
    pub fn line(&mut self) -> Result<Vec<String>> {
        let line = self.output.next().ok_or_else(|| format!("{} ended too early", self.name))??;
        let fields: Vec<String> = line.split('\t').map(String::from).collect();
        if fields[0] == "error" {
            return Err(format!("{}: {}", self.name, fields[1..].join(" ")).into());
        }
        Ok(fields)
    }

    /// Parses a field as a number.
    pub fn number<T: FromStr>(&self, text: &str) -> Result<T> {
        text.parse().map_err(|_| format!("{} said `{text}` for a number", self.name).into())
    }

    /// The error for an unexpected answer line.
    pub fn unexpected(&self, line: &[String]) -> firndb_bench_protocol::Error {
        format!("{} said `{}`, which is no answer to its job", self.name, line.join(" ")).into()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.input.take());
        // A child that is busy does not notice that its input has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A path as a field of a job.
pub fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    #[test]
    fn a_script_changes_with_every_file_in_its_directory() {
        let dir = std::env::temp_dir().join(format!("firndb-changed-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let [script, sibling] = ["run.py", "Sibling.java"].map(|name| dir.join(name));
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        let set = |path: &Path, to| File::create(path).unwrap().set_modified(to).unwrap();
        set(&script, old);
        set(&sibling, old);
        let launcher = Launcher {
            name: "script".into(),
            program: dir.join("no program"),
            arguments: vec![text(&script)],
        };
        let before = launcher.changed();
        let new = old + Duration::from_secs(9);
        set(&sibling, new);
        let after = launcher.changed();
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!((before, after), (old, new));
    }
}
