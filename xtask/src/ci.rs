//! Continuous integration: runs the steps in order, up to the first failure, and prints the name
//! and the duration of each.

use crate::{Outcome, cargo, finish, licences, suite, tidy};
use std::time::Instant;

/// Runs all steps. The last line on standard output is the total of all tests.
pub fn run() -> Outcome {
    step("fmt", || finish(&mut cargo(&["fmt", "--all", "--", "--check"])))?;
    step("clippy", || {
        let mut command = cargo(&["clippy", "--locked", "--workspace", "--all-targets"]);
        finish(command.args(suite::FEATURES).args(["--", "-D", "warnings"]))
    })?;
    step("clippy of fuzz", || {
        // Without the engine, which is C++. Shares the target directory with the workspace.
        let mut command = cargo(&["clippy", "--locked", "--no-default-features"]);
        command.args(["--manifest-path", "fuzz/Cargo.toml", "--target-dir", "target"]);
        finish(command.args(["--", "-D", "warnings"]))
    })?;
    step("doc", || {
        let mut command = cargo(&["doc", "--locked", "--no-deps", "--workspace"]);
        finish(command.env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    step("tidy", tidy::run)?;
    step("licences", licences::run)?;
    let mut totals = suite::Totals::default();
    let outcome = step("test", || suite::run_and_count(&["--locked"], &mut totals));
    totals.print();
    outcome
}

fn step(name: &str, work: impl FnOnce() -> Outcome) -> Outcome {
    println!("== {name}");
    let start = Instant::now();
    let outcome = work();
    let verdict = if outcome.is_ok() { "ok" } else { "FAILED" };
    println!("== {name}: {verdict}, {:.1} s", start.elapsed().as_secs_f64());
    outcome.map_err(|message| format!("step `{name}`: {message}"))
}
