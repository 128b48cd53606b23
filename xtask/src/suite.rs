//! Runs all tests: passes cargo's output through, then lists the slowest test programs, and prints
//! one summary line at the end.

use crate::{Outcome, cargo, shown, tools};
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};

/// Number of slowest test programs listed.
const SLOWEST: usize = 3;

/// Totals over all test programs.
#[derive(Debug, Default, PartialEq)]
pub struct Totals {
    passed: u64,
    failed: u64,
    skipped: u64,
    /// Tests of the current program that reported that they cannot run: cargo counts them as
    /// passed.
    unable: u64,
    /// Each program with its duration in seconds, in the order they ran.
    programs: Vec<(String, f64)>,
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

impl Totals {
    /// Whether any test ran.
    pub fn any(&self) -> bool {
        self.passed + self.failed + self.skipped > 0
    }

    /// Prints the slowest programs and the totals, each on its own line; nothing if no test ran,
    /// for example after a compiler error.
    pub fn print(&self) {
        if self.any() {
            println!("slowest: {}\n{self}", self.slowest());
        }
    }

    fn slowest(&self) -> String {
        let mut programs: Vec<_> = self.programs.iter().collect();
        programs.sort_by(|a, b| b.1.total_cmp(&a.1));
        let named = programs.iter().take(SLOWEST);
        named.map(|(name, time)| format!("{name} {time:.1} s")).collect::<Vec<_>>().join(", ")
    }

    /// Parses a line of cargo or of a test program; lines of other forms are ignored.
    /// ```text
    ///      Running unittests src/lib.rs (target/debug/deps/firndb-0123456789abcdef)
    ///    Doc-tests firndb
    /// skipped: a_test: why it cannot be run here
    /// test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; finished in 1.23s
    /// ```
    pub fn add_line(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        match (line.starts_with(' ').then(|| words.next()).flatten(), words.next_back()) {
            (Some("Running"), Some(path)) => {
                let file = path.trim_end_matches(')').rsplit('/').next().unwrap_or_default();
                let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
                self.programs.push((name.to_string(), 0.0));
            }
            (Some("Doc-tests"), Some(name)) => self.programs.push((format!("{name} (doc)"), 0.0)),
            _ => {}
        }
        self.unable += u64::from(line.starts_with("skipped: "));
        let Some(counts) = line.strip_prefix("test result: ") else { return };
        for part in counts.split(';') {
            let mut words = part.split_whitespace().rev();
            if let (Some(time), Some((_, total))) =
                (part.trim().strip_prefix("finished in "), self.programs.last_mut())
            {
                *total += time.trim_end_matches('s').parse().unwrap_or(0.0);
            }
            let (Some(what), Some(number)) = (words.next(), words.next()) else { continue };
            let number: u64 = number.parse().unwrap_or(0);
            match what {
                "passed" => {
                    let unable = std::mem::take(&mut self.unable).min(number);
                    self.passed += number - unable;
                    self.skipped += unable;
                }
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }
}

/// Runs all tests; `args` are passed to `cargo test`. The last line on standard output is the
/// total.
pub fn run(args: &[&str]) -> Outcome {
    let mut totals = Totals::default();
    let outcome = run_and_count(args, &mut totals);
    totals.print();
    outcome
}

/// Features that are off by default and have tests.
pub const FEATURES: [&str; 2] = ["--features", "firndb-cli/hdfs,firndb/serde,firndb/tracing"];

/// Runs all tests and adds them to `totals`, which is correct even if this fails.
pub fn run_and_count(args: &[&str], totals: &mut Totals) -> Outcome {
    tools::for_tests()?;
    // One pipe for both outputs: cargo names programs on one, programs print results on the other.
    let (output, input) = io::pipe().map_err(|e| format!("cannot make a pipe: {e}"))?;
    let other = input.try_clone().map_err(|e| format!("cannot share a pipe: {e}"))?;
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast"]);
    command.args(FEATURES).args(args).stdout(input).stderr(other);
    let child = command.spawn().map_err(|e| format!("cannot start {}: {e}", shown(&command)));
    let (mut child, what) = (child?, shown(&command));
    drop(command); // Closes our write ends, or the pipe would never end.
    pass_through(output, totals).map_err(|e| format!("cannot read cargo's output: {e}"))?;
    let status = child.wait().map_err(|e| format!("cannot wait for cargo: {e}"))?;
    if !status.success() {
        return Err(format!("{what} ended with {status}"));
    }
    if totals.passed == 0 { Err("no test ran".to_string()) } else { Ok(()) }
}

/// Copies lines to standard output one by one, so that progress is visible, and counts them.
fn pass_through(output: impl io::Read, totals: &mut Totals) -> io::Result<()> {
    let mut reader = BufReader::new(output);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let mut stdout = io::stdout().lock();
        stdout.write_all(&line)?;
        stdout.flush()?;
        totals.add_line(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_over_test_programs() {
        let mut totals = Totals::default();
        let lines = "     Running unittests src/lib.rs (target/debug/deps/firndb-00ff)
test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 9 filtered out; finished in 1.26s
     Running tests/it/main.rs (target/debug/deps/it-00ff)
running 7 tests
skipped: far_away: there is no network
test result: FAILED. 41 passed; 2 failed; 0 ignored; 0 measured; finished in 20.50s
    test result: ok. 5 passed; this line is indented and so some test's own
   Doc-tests firndb
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s";
        lines.lines().for_each(|line| totals.add_line(line));
        assert_eq!(totals.to_string(), "44 passed, 2 failed, 2 skipped");
        assert_eq!(totals.slowest(), "it 20.5 s, firndb 1.3 s, firndb (doc) 0.1 s");
    }
}
