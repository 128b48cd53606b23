//! Automation of this repository: `cargo xtask VERB`.
//!
//! CI is a single command, so that servers and developers run the same checks. No dependencies:
//! this crate builds in seconds and works wherever cargo is installed.

mod ci;
mod cross;
mod fresh;
mod fuzz;
mod java;
mod licences;
mod proof;
mod suite;
mod tidy;
mod tools;
mod wheel;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const HELP: &str = "\
usage: cargo xtask VERB

  ci                     formatting, clippy, documentation, tidy, licences, all tests
  test [ARGS]            all tests; ARGS go to `cargo test`
  proof [--only a,b]     the long proofs at their full size, in release mode, and each fuzz target
                         for a minute; --list names the parts
  fuzz TARGET [--seconds N]
                         fuzzes a target, here for 60 s; `fuzz TARGET FILE...` runs inputs once
  fresh [demo] [test]    both commands of the README in a bare Debian made by debootstrap, as root
  wheel                  builds the wheel of the Python package, installs it into a new virtual
                         environment below target/wheel, and runs the package's tests there
  tidy                   the rules of this repository, checked over all files that git tracks
  licences               every dependency has an accepted licence
  cross                  type-checks the other supported targets that are installed
  bench search|table|log|limits|ordered|index|swaps|serve|python|java [--peers a,b] [ARGS]
                         the benchmarks, in release mode
";

/// The result of a verb; the error is a message for the user.
type Outcome = Result<(), String>;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["ci"] => ci::run(),
        ["test", rest @ ..] => suite::run(rest),
        ["wheel"] => wheel::run(),
        ["tidy"] => tidy::run(),
        ["licences"] => licences::run(),
        ["cross"] => cross::run(),
        ["bench", rest @ ..] => bench(rest),
        ["proof", rest @ ..] => proof::run(rest),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["fresh", rest @ ..] => fresh::run(rest),
        ["fresh-inside", rest @ ..] => fresh::inside(rest),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        [] => Err(format!("a verb is missing\n\n{HELP}")),
        other => Err(format!("cannot do `{}`\n\n{HELP}", other.join(" "))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

fn bench(args: &[&str]) -> Outcome {
    if args.first() == Some(&"python") {
        return wheel::bench(&args[1..]);
    }
    if args.first() == Some(&"java") {
        return java::bench(&args[1..]);
    }
    if args.first() == Some(&"serve") {
        finish(&mut cargo(&["build", "--release", "-p", "firndb-server"]))?;
    }
    let mut command = cargo(&["run", "--release", "-p", "firndb-bench", "--"]);
    command.args(args);
    finish(&mut command)
}

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the repository")
}

/// The cargo that runs this program, at the root of the repository.
fn cargo(args: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
    let mut command = Command::new(program);
    command.current_dir(root()).args(args);
    command
}

/// Runs a command with this program's own input and output.
fn finish(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|e| format!("cannot start {}: {e}", shown(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", shown(command))) }
}

/// The command as a user would type it.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_as_typed() {
        let mut command = Command::new("/usr/bin/cargo");
        assert_eq!(shown(command.args(["fmt", "--all"])), "cargo fmt --all");
    }
}
