//! Finds and builds the peers: programs of their own below `peers/`, one folder each.
//!
//! A folder with a `Cargo.toml` is a Rust program, a folder with a `run.py` is a Python program
//! with its `requirements.txt`, and with a `prepare.py` that is run once if there is more to get.
//! Nothing of them is known here but the folder's name, and which Debian packages a folder asks for
//! in `packages.txt`. What follows a dash in an engine's name is an argument of the program:
//! `rocksdb-zstd` is the program `rocksdb` with `zstd`.

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

    /// Builds a peer (a no-op if nothing changed) and gives its launcher.
    pub fn build(&self, name: &str) -> Result<Launcher> {
        let (folder, _) = split(name);
        if self.is_rust(folder) {
            self.install_packages(folder)?;
            self.build_rust(folder)?;
        } else if self.is_python(folder) {
            self.build_python(folder)?;
        } else {
            let known = self.names().join(", ");
            return Err(format!("there is no peer `{name}`; peers are {known}").into());
        }
        self.find(name).ok_or_else(|| format!("peer {name} was built but is not there").into())
    }

    /// Installs the Debian packages of a peer where that needs no question; else says which.
    fn install_packages(&self, folder: &str) -> Result<()> {
        let list = std::fs::read_to_string(self.folder(folder).join("packages.txt"));
        let list = list.unwrap_or_default();
        install(&list.split_whitespace().collect::<Vec<_>>())
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

    /// What a Python program was built from.
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

/// All files of a folder, one behind the other.
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

/// Installs Debian packages where that needs no question; else says which are missing.
fn install(packages: &[&str]) -> Result<()> {
    let missing: Vec<&str> = packages.iter().copied().filter(|p| !is_installed(p)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let advice = |_| {
        let names = missing.join(" ");
        format!("it needs Debian packages; as root: apt-get install {names}")
    };
    let mut install = Command::new("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive");
    install.args(["-q", "-y", "install", "--no-install-recommends"]).args(&missing);
    // An old list of packages is only a problem if the installation fails.
    let _ = succeed(Command::new("apt-get").args(["-q", "update"]));
    Ok(succeed(&mut install).map_err(advice)?)
}

/// The program `fio`, which measures disks; installed as peers' packages are.
pub fn fio() -> Result<Command> {
    if Command::new("fio").arg("--version").output().is_err() {
        install(&["fio"])?;
    }
    Ok(Command::new("fio"))
}

/// Folder and argument.
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
