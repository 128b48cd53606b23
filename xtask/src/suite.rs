//! All tests: cargo's output passes through as it comes, and one line sums it up at the end.

use crate::{Outcome, cargo, shown, tools};
use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::process::Stdio;

/// Tests of all test binaries together.
#[derive(Debug, Default, PartialEq)]
pub struct Totals {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

impl Totals {
    /// Prints the sum on a line of its own; nothing if no test ran, say for an error of a compiler.
    pub fn print(&self) {
        if *self != Totals::default() {
            println!("{self}");
        }
    }

    /// Adds the counts of a line of the form
    /// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; ...`; other lines count
    /// nothing.
    fn add_line(&mut self, line: &str) {
        let Some(counts) = line.strip_prefix("test result: ") else { return };
        for part in counts.split(';') {
            let mut words = part.split_whitespace().rev();
            let (Some(what), Some(number)) = (words.next(), words.next()) else { continue };
            let number: u64 = number.parse().unwrap_or(0);
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.skipped += number,
                _ => {}
            }
        }
    }
}

/// Runs all tests; `args` go to `cargo test`. The last line on standard output is the sum.
pub fn run(args: &[&str]) -> Outcome {
    let mut totals = Totals::default();
    let outcome = run_and_count(args, &mut totals);
    totals.print();
    outcome
}

/// Runs all tests and adds them to `totals`, which is right also when this fails.
pub fn run_and_count(args: &[&str], totals: &mut Totals) -> Outcome {
    tools::ensure()?;
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast"]);
    command.args(args).stdout(Stdio::piped());
    let mut child =
        command.spawn().map_err(|e| format!("cannot start {}: {e}", shown(&command)))?;
    let output = child.stdout.take().expect("standard output is piped");
    pass_through(output, totals).map_err(|e| format!("cannot read cargo's output: {e}"))?;
    let status = child.wait().map_err(|e| format!("cannot wait for cargo: {e}"))?;
    if !status.success() {
        return Err(format!("{} ended with {status}", shown(&command)));
    }
    if totals.passed == 0 { Err("no test ran".to_string()) } else { Ok(()) }
}

/// Copies lines to standard output one by one, so that progress is seen, and counts them.
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
    fn sums_over_test_binaries() {
        let mut totals = Totals::default();
        totals
            .add_line("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 9 filtered out");
        totals.add_line("test result: FAILED. 40 passed; 2 failed; 0 ignored; 0 measured");
        totals.add_line("running 7 tests");
        totals.add_line(
            "    test result: ok. 5 passed; this line is indented and so some test's own",
        );
        assert_eq!(totals, Totals { passed: 43, failed: 2, skipped: 1 });
        assert_eq!(totals.to_string(), "43 passed, 2 failed, 1 skipped");
    }
}
