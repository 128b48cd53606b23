//! The wheel of the Python package: built, installed into a new virtual environment, and tested or
//! measured.
//!
//! The wheel gets the tag of the oldest glibc that it runs with (`manylinux_2_34_x86_64`): maturin
//! finds it for the library, the build backend of the package for the program `firn`.

use crate::{Outcome, cargo, finish, root};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The package, from the root.
const PACKAGE: &str = "bindings/python";

/// The Python to build and test with.
fn python() -> OsString {
    std::env::var_os("FIRNDB_PYTHON").unwrap_or_else(|| "python3".into())
}

/// The error says what the machine lacks.
pub fn missing() -> Outcome {
    let code = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))";
    match Command::new(python()).args(["-c", code]).output() {
        Ok(out) if out.status.success() => Ok(()),
        _ => Err("there is no Python 3.11 or newer with venv (on Debian: python3-venv)".into()),
    }
}

/// Builds, installs and tests the wheel, and prints its name, its size, and the time of the build.
pub fn run() -> Outcome {
    missing()?;
    let dir = root().join("target/wheel");
    let venv = dir.join("venv");
    let (wheel, seconds) = build(&dir, &venv)?;
    let requirements = root().join(PACKAGE).join("tests/requirements.txt");
    finish(pip(&venv, "install").arg(&wheel).arg("-r").arg(requirements))?;
    let mut pytest = Command::new(venv.join("bin/python"));
    pytest.args(["-m", "pytest", "-ra", "-p", "no:cacheprovider"]);
    pytest.env("PYTHONDONTWRITEBYTECODE", "1").env("FIRNDB_TEST_WHEEL", &wheel);
    finish(pytest.current_dir(root().join(PACKAGE)))?;
    let bytes = fs::metadata(&wheel).map_err(|e| format!("{}: {e}", wheel.display()))?.len();
    let mb = bytes as f64 / 1e6;
    println!("wheel: {} ({mb:.1} MB), built in {seconds:.0} s", wheel.display());
    Ok(())
}

/// Runs the benchmark of the package, in an environment with the wheel and the other libraries.
pub fn bench(args: &[&str]) -> Outcome {
    missing()?;
    let dir = root().join("target/bench-python");
    let venv = dir.join("venv");
    let (wheel, _) = build(&dir, &venv)?;
    let requirements = root().join(PACKAGE).join("bench/requirements.txt");
    finish(pip(&venv, "install").arg(&wheel).arg("-r").arg(requirements))?;
    // With the features of the package, so that little is compiled again.
    let mut build = cargo(&["build", "--release", "--locked", "--bin", "firn-bench"]);
    finish(build.args(["-p", "firndb-bench", "-p", "firndb-cli", "-p", "firndb-python"]))?;
    let mut bench = Command::new(root().join("target/release/firn-bench"));
    bench.arg("python").arg("--python").arg(venv.join("bin/python")).args(args);
    finish(bench.current_dir(root()))
}

/// Makes a new environment, and the wheel in `dir`. Returns it, and the seconds that it took.
fn build(dir: &Path, venv: &Path) -> Result<(PathBuf, f64), String> {
    let wheels = dir.join("dist");
    let _ = fs::remove_dir_all(&wheels); // Fails if there is none.
    fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    finish(Command::new(python()).args(["-m", "venv", "--clear"]).arg(venv))?;
    let start = Instant::now();
    let mut build = pip(venv, "wheel");
    // maturin reads the setting, and finds the tag.
    build.args(["--no-deps", "--config-settings", "build-args=--compatibility pypi"]);
    finish(build.arg("--wheel-dir").arg(&wheels).arg(root().join(PACKAGE)))?;
    Ok((only_wheel(&wheels)?, start.elapsed().as_secs_f64()))
}

fn pip(venv: &Path, verb: &str) -> Command {
    let mut command = Command::new(venv.join("bin/python"));
    command.args(["-m", "pip", "--disable-pip-version-check", verb, "--quiet"]);
    command
}

fn only_wheel(dir: &Path) -> Result<PathBuf, String> {
    let wrong = |e: std::io::Error| format!("{}: {e}", dir.display());
    let entries = dir.read_dir().map_err(wrong)?.map(|entry| entry.map(|entry| entry.path()));
    let paths = entries.collect::<Result<Vec<PathBuf>, _>>().map_err(wrong)?;
    let [wheel] = &paths[..] else { return Err(format!("not one wheel: {paths:?}")) };
    Ok(wheel.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The packages that a build compiles, with their features.
    fn compiled(packages: &[&str]) -> BTreeSet<String> {
        let args = ["tree", "--locked", "-e", "normal,build", "--prefix", "none"];
        let mut command = cargo(&args);
        command.args(["--format", "{p} {f}"]);
        packages.iter().for_each(|package| _ = command.args(["--package", package]));
        let out = command.output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let text = String::from_utf8(out.stdout).unwrap();
        text.lines().map(|line| line.trim_end_matches(" (*)").to_string()).collect()
    }

    /// The build of a wheel first builds `firn` with the features of both, then the library alone.
    #[test]
    fn the_library_for_python_and_firn_share_what_is_compiled() {
        let both = compiled(&["firndb-python", "firndb-cli"]);
        let library = compiled(&["firndb-python"]);
        let again: Vec<_> = library.difference(&both).collect();
        assert!(library.len() > 100, "{} packages", library.len());
        assert!(again.is_empty(), "compiled twice, because `firn` adds features: {again:?}");
    }
}
