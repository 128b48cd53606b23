//! Finds and builds the peers: programs of their own below `peers/`, one folder each.
//!
//! A folder with a `Cargo.toml` is a Rust program, a folder with a `run.py` is a Python program
//! with its `requirements.txt`. Nothing of them is known here but the folder's name.

use crate::child::Launcher;
use firndb_bench_protocol::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where peers are and where they are built.
pub struct Peers {
    /// The repository's root.
    pub root: PathBuf,
    /// Cargo's target directory.
    pub target: PathBuf,
}

impl Peers {
    /// Names of the folders below `peers/` that hold a peer, sorted.
    pub fn names(&self) -> Vec<String> {
        let Ok(entries) = self.root.join("peers").read_dir() else { return Vec::new() };
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> =
            names.filter(|name| self.is_rust(name) || self.is_python(name)).collect();
        names.sort();
        names
    }

    /// The launcher of a peer that is built already.
    pub fn find(&self, name: &str) -> Option<Launcher> {
        let (program, arguments) = if self.is_rust(name) {
            (self.built(name).join("release").join(format!("peer-{name}")), Vec::new())
        } else {
            let script = self.folder(name).join("run.py");
            (self.built(name).join("bin/python"), vec![script.to_string_lossy().into_owned()])
        };
        program.exists().then(|| Launcher { name: name.into(), program, arguments })
    }

    /// Builds a peer (a no-op if nothing changed) and gives its launcher.
    pub fn build(&self, name: &str) -> Result<Launcher> {
        if self.is_rust(name) {
            self.build_rust(name)?;
        } else if self.is_python(name) {
            self.build_python(name)?;
        } else {
            let known = self.names().join(", ");
            return Err(format!("there is no peer `{name}`; peers are {known}").into());
        }
        self.find(name).ok_or_else(|| format!("peer {name} was built but is not there").into())
    }

    fn build_rust(&self, name: &str) -> Result<()> {
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--release", "--locked", "--quiet", "--jobs", "1"]);
        cargo.arg("--manifest-path").arg(self.folder(name).join("Cargo.toml"));
        cargo.arg("--target-dir").arg(self.built(name));
        succeed(&mut cargo)
    }

    fn build_python(&self, name: &str) -> Result<()> {
        let (folder, environment) = (self.folder(name), self.built(name));
        let stamp = environment.join("requirements.txt");
        let wanted = std::fs::read(folder.join("requirements.txt"))?;
        if std::fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(());
        }
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
        let mut pip = Command::new(environment.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
        succeed(pip.arg(folder.join("requirements.txt")))?;
        Ok(std::fs::write(stamp, wanted)?)
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.root.join("peers").join(name)
    }

    fn built(&self, name: &str) -> PathBuf {
        self.target.join("peers").join(name)
    }

    fn is_rust(&self, name: &str) -> bool {
        exists(&self.folder(name), "Cargo.toml")
    }

    fn is_python(&self, name: &str) -> bool {
        exists(&self.folder(name), "run.py")
    }
}

fn exists(folder: &Path, file: &str) -> bool {
    folder.join(file).is_file()
}

fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|e| format!("cannot start {command:?}: {e}"))?;
    if !status.success() {
        return Err(format!("{command:?} failed: {status}").into());
    }
    Ok(())
}
