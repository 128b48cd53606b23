//! Programs and libraries of other projects.
//!
//! Their package managers install them into the target directory, once. A test is skipped where a
//! runtime is missing, or a package manager cannot reach its registry.

use firndb_testing::is_on_path;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Runs a program. The error is the end of what it printed.
pub fn run(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|e| format!("{command:?}: {e}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    match output.status.success() {
        true => Ok(out),
        false => {
            let all = format!("{command:?} ended with {}: {out}{err}", output.status);
            let start = all.len().saturating_sub(3000);
            Err(all.get(start..).unwrap_or(&all).to_string())
        }
    }
}

/// The folder with installed packages. Concurrent test processes wait for each
/// other.
pub fn installed(
    name: &str,
    programs: &[&str],
    install: impl Fn(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    if let Some(program) = programs.iter().find(|program| !is_on_path(program)) {
        return Err(format!("`{program}` is not on PATH"));
    }
    let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
    fs::create_dir_all(&all).map_err(|e| e.to_string())?;
    let lock = File::create(all.join(format!("{name}.lock"))).map_err(|e| e.to_string())?;
    lock.lock().map_err(|e| e.to_string())?;
    let dir = all.join(name);
    let complete = dir.join("complete");
    if !complete.is_file() {
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).map_err(|e| e.to_string())?;
        install(&dir)?;
        File::create(complete).map_err(|e| e.to_string())?;
    }
    Ok(dir)
}

/// The virtual environment with a Python package.
pub fn pip(name: &str, package: &str) -> Result<PathBuf, String> {
    installed(name, &["python3"], |dir| {
        run(Command::new("python3").args(["-m", "venv"]).arg(dir))?;
        let args = ["install", "--quiet", "--retries", "1", "--timeout", "15", package];
        run(Command::new(dir.join("bin/pip")).args(args)).map(drop)
    })
}
