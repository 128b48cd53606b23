//! Finds and builds the peers: separate programs below `peers/`, one folder each.
//!
//! A folder with a `Cargo.toml` is a Rust program; a folder with a `run.py` is a Python program
//! with its `requirements.txt` and an optional `prepare.py`, which is run once to fetch more. This
//! module only knows the folder's name and the Debian packages listed in its `packages.txt`.
//! Packages are installed only on request ([`Peers::install`]); a peer whose packages are missing
//! is not built. The part of an engine's name after a dash is an argument of the program:
//! `rocksdb-zstd` is the program `rocksdb` with `zstd`.

use crate::child::Launcher;
use firndb_bench_protocol::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The paths of peers and of their builds.
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

    /// The launcher of a peer that is already built.
    pub fn find(&self, name: &str) -> Option<Launcher> {
        let (folder, argument) = split(name);
        let (program, mut arguments) = if self.is_rust(folder) {
            (self.built(folder).join("release").join(format!("peer-{folder}")), Vec::new())
        } else {
            let script = self.folder(folder).join("run.py");
            (self.built(folder).join("bin/python"), vec![script.to_string_lossy().into_owned()])
        };
        arguments.extend(argument.map(String::from));
        let is_built = program.exists() && (self.is_rust(folder) || self.stamp(folder).exists());
        is_built.then(|| Launcher { name: name.into(), program, arguments })
    }

    /// Builds a peer (a no-op if nothing changed) and returns its launcher.
    pub fn build(&self, name: &str) -> Result<Launcher> {
        let (folder, _) = split(name);
        if self.is_rust(folder) {
            let packages = self.packages(folder);
            let missing = missing(&packages);
            if !missing.is_empty() {
                return Err(advice("it needs Debian packages", &missing).into());
            }
            self.build_rust(folder)?;
        } else if self.is_python(folder) {
            self.build_python(folder)?;
        } else {
            let known = self.names().join(", ");
            return Err(format!("there is no peer `{name}`; peers are {known}").into());
        }
        self.find(name).ok_or_else(|| format!("peer {name} was built but cannot be found").into())
    }

    /// Installs the Debian packages that these peers need, and `more`, with `apt-get`; only run at
    /// a user's request. Errors: `apt-get` fails or is missing.
    pub fn install(&self, names: &[String], more: &[&str]) -> Result<()> {
        let of_peers = names.iter().flat_map(|name| self.packages(split(name).0));
        let packages: Vec<String> = of_peers.chain(more.iter().map(|p| p.to_string())).collect();
        let missing = missing(&packages);
        if missing.is_empty() {
            return Ok(());
        }
        let mut install = Command::new("apt-get");
        install.env("DEBIAN_FRONTEND", "noninteractive");
        install.args(["-q", "-y", "install", "--no-install-recommends"]).args(&missing);
        // An outdated package list only matters if the installation fails.
        let _ = succeed(Command::new("apt-get").args(["-q", "update"]));
        succeed(&mut install)
    }

    /// The Debian packages listed in a peer's folder.
    fn packages(&self, folder: &str) -> Vec<String> {
        let list = std::fs::read_to_string(self.folder(folder).join("packages.txt"));
        list.unwrap_or_default().split_whitespace().map(String::from).collect()
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
        let stamp = self.stamp(name);
        let wanted = content(&folder)?;
        if std::fs::read(&stamp).is_ok_and(|built| built == wanted) {
            return Ok(());
        }
        succeed(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
        let mut pip = Command::new(environment.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
        succeed(pip.arg(folder.join("requirements.txt")))?;
        if exists(&folder, "prepare.py") {
            let python = environment.join("bin/python");
            succeed(Command::new(python).arg(folder.join("prepare.py")))?;
        }
        Ok(std::fs::write(stamp, wanted)?)
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.root.join("peers").join(name)
    }

    /// The file that records the sources a Python program was built from.
    fn stamp(&self, name: &str) -> PathBuf {
        self.built(name).join("built-from")
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

/// The concatenated contents of all files of a folder.
fn content(folder: &Path) -> Result<Vec<u8>> {
    let files = folder.read_dir()?.map(|entry| entry.map(|entry| entry.path()));
    let mut files = files.collect::<std::io::Result<Vec<PathBuf>>>()?;
    files.retain(|path| path.is_file());
    files.sort();
    let mut all = Vec::new();
    for file in files {
        all.extend_from_slice(&std::fs::read(file)?);
    }
    Ok(all)
}

/// The packages that are not installed.
fn missing(packages: &[String]) -> Vec<&str> {
    packages.iter().map(String::as_str).filter(|package| !is_installed(package)).collect()
}

/// The error, and how to install the packages.
pub(crate) fn advice(what: &str, packages: &[&str]) -> String {
    let names = packages.join(" ");
    format!("{what}; run with --install, or as root: apt-get install {names}")
}

/// Folder and argument of an engine's name.
fn split(name: &str) -> (&str, Option<&str>) {
    name.split_once('-').map_or((name, None), |(folder, argument)| (folder, Some(argument)))
}

fn is_installed(package: &str) -> bool {
    let status = Command::new("dpkg").args(["-s", package]).output();
    status.is_ok_and(|out| out.status.success())
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
