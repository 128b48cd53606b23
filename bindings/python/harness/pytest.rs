//! Runs the tests of the Python package with pytest, as a test program of cargo.
//!
//! 1. Makes a virtual environment under `target/python`, with the packages of
//!    `tests/requirements.txt`.
//! 2. Installs the package as a wheel would: the Python files, the library that cargo built with
//!    this program, and the `firn` of the same build, which `cargo test --workspace` makes.
//! 3. Runs pytest, passes its output through, and ends with a line like that of cargo's own test
//!    programs, which `cargo xtask test` adds to its total.
//!
//! Without Python 3.11 or its `venv` the tests are skipped. `FIRNDB_PYTHON` names another Python.
//! `cargo test -p firndb-python -- NAME` runs the tests whose name contains NAME.

mod python;
mod report;

use python::{Base, Environment, Outcome, Unable, clean};
use report::{Counts, Selection, selection};
use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

/// The exit status of pytest if no test was selected.
const NO_TESTS: i32 = 5;

fn main() -> ExitCode {
    let start = Instant::now();
    let counts = match selection(env::args_os().skip(1)) {
        Selection::Nothing => Ok(Counts::default()),
        Selection::Run(expression) => match prepare() {
            Ok(environment) => pytest(&environment, expression),
            Err(Unable::Skip(why)) => {
                println!("skipped: pytest: {why}");
                Ok(Counts { passed: 1, ..Counts::default() })
            }
            Err(Unable::Fail(why)) => Err(why),
        },
    };
    let counts = counts.unwrap_or_else(|why| {
        println!("{why}");
        Counts { failed: 1, ..Counts::default() }
    });
    let Counts { passed, failed, skipped } = counts;
    println!(
        "\ntest result: {}. {passed} passed; {failed} failed; {skipped} ignored; 0 measured; \
         0 filtered out; finished in {:.2}s\n",
        if failed == 0 { "ok" } else { "FAILED" },
        start.elapsed().as_secs_f64()
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The environment, with the package of this build.
fn prepare() -> Result<Environment, Unable> {
    let base = Base::find(env::var_os("FIRNDB_PYTHON"), "python3".as_ref())?;
    let program = env::current_exe().map_err(|e| e.to_string())?;
    let deps = program.parent().expect("a test program is in a directory");
    let built = deps.parent().expect("deps is in the directory of its profile");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target directory");
    let dir: PathBuf = target.join("python").join(format!("venv-{}", base.version));
    let environment = Environment::prepare(&base, dir, &manifest().join("tests/requirements.txt"))?;
    let library = format!("{}firndb_python{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    let files = manifest().join("python/firndb");
    environment.install(&files, &deps.join(library), &built.join("firn"))?;
    Ok(environment)
}

/// Runs the tests, or those that an expression selects.
fn pytest(environment: &Environment, expression: Option<String>) -> Outcome<Counts> {
    let mut command = Command::new(&environment.python);
    command.args(["-m", "pytest", "-ra", "--color=no", "-p", "no:cacheprovider"]);
    command.args(expression.iter().flat_map(|expression| ["-k", expression]));
    clean(&mut command).env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUNBUFFERED", "1");
    command.current_dir(manifest()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("cannot start pytest: {e}"))?;
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut counts = None;
    for line in output.split(b'\n') {
        let line = line.map_err(|e| format!("cannot read the output of pytest: {e}"))?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        counts = Counts::parse(&line).or(counts);
    }
    let status = child.wait().map_err(|e| e.to_string())?;
    match (counts, status.code()) {
        (Some(counts), Some(0)) => Ok(counts),
        (Some(counts), _) if counts.failed > 0 => Ok(counts),
        (Some(counts), Some(NO_TESTS)) if expression.is_some() => Ok(counts),
        _ => Err(format!("pytest ended with {status}")),
    }
}

fn manifest() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
