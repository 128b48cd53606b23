//! The Python that runs the tests, and its virtual environment.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

pub type Outcome<T> = Result<T, String>;

/// Why the tests did not run.
#[derive(Debug, PartialEq)]
pub enum Unable {
    /// The machine lacks something.
    Skip(String),
    Fail(String),
}

impl From<String> for Unable {
    fn from(why: String) -> Unable {
        Unable::Fail(why)
    }
}

/// A Python that can make virtual environments.
#[derive(Debug, PartialEq)]
pub struct Base {
    program: OsString,
    /// Such as `3.11`.
    pub version: String,
}

impl Base {
    /// The Python of the machine, or the one that was `named`, which must work.
    pub fn find(named: Option<OsString>, default: &OsStr) -> Result<Base, Unable> {
        let refused = |why: String| match named.is_some() {
            true => Unable::Fail(format!("FIRNDB_PYTHON: {why}")),
            false => Unable::Skip(why),
        };
        let program = named.clone().unwrap_or_else(|| default.to_os_string());
        let shown = program.to_string_lossy();
        let version = answer(&program, "import sys; print('%d.%d' % sys.version_info[:2])")
            .map_err(|why| refused(format!("`{shown}` does not run: {why}")))?;
        let numbers = version.split_once('.').and_then(|(major, minor)| {
            Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
        });
        match numbers {
            None => return Err(refused(format!("`{shown}` gave `{version}` for its version"))),
            Some(numbers) if numbers < (3, 11) => {
                return Err(refused(format!("Python {version} is older than 3.11")));
            }
            Some(_) => {}
        }
        answer(&program, "import venv, ensurepip").map_err(|_| {
            refused(format!("Python {version} has no venv (on Debian: python3-venv)"))
        })?;
        Ok(Base { program, version })
    }
}

/// A virtual environment with the packages that the tests need.
pub struct Environment {
    dir: PathBuf,
    pub python: PathBuf,
}

impl Environment {
    /// Makes the environment in `dir`, or updates the one of an earlier run.
    pub fn prepare(base: &Base, dir: PathBuf, list: &Path) -> Result<Environment, Unable> {
        let environment = Environment { python: dir.join("bin/python"), dir };
        let wanted = fs::read_to_string(list).map_err(|e| format!("{}: {e}", list.display()))?;
        // Written last: without it an earlier run was interrupted.
        let stamp = environment.dir.join("installed-requirements.txt");
        let installed = fs::read_to_string(&stamp).ok();
        // A Python that was removed leaves a link to nothing.
        let works = environment.python.exists() && installed.is_some();
        if works && installed.is_some_and(|installed| installed == wanted) {
            return Ok(environment);
        }
        if !works {
            let mut venv = Command::new(&base.program);
            run(venv.args(["-m", "venv", "--clear"]).arg(&environment.dir))?;
        }
        println!("installing the packages of {}", list.display());
        let mut pip = Command::new(&environment.python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
        run(pip.arg(list)).map_err(|why| Unable::Skip(format!("{why} (is PyPI reachable?)")))?;
        fs::write(&stamp, wanted).map_err(|e| format!("{}: {e}", stamp.display()))?;
        Ok(environment)
    }

    /// Copies the package into the environment, and `firn` if it was built.
    pub fn install(&self, files: &Path, library: &Path, firn: &Path) -> Outcome<()> {
        let site = answer(&self.python, "import sysconfig; print(sysconfig.get_path('purelib'))")?;
        let package = Path::new(&site).join("firndb");
        if package.exists() {
            fs::remove_dir_all(&package).map_err(|e| format!("{}: {e}", package.display()))?;
        }
        copy_dir(files, &package)?;
        copy(library, &package.join("_native.abi3.so"))?;
        let script = self.dir.join("bin/firn");
        if firn.exists() {
            copy(firn, &script)
        } else {
            let _ = fs::remove_file(script); // An old one, if there is one.
            Ok(())
        }
    }
}

/// What a line of Python prints.
pub fn answer(python: impl AsRef<OsStr>, code: &str) -> Outcome<String> {
    let output = clean(&mut Command::new(python)).args(["-c", code]).output();
    let output = output.map_err(|e| e.to_string())?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}, {}", output.status, error.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// Without the settings of a user that lead to other packages.
pub fn clean(command: &mut Command) -> &mut Command {
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("PYTHON")) {
            command.env_remove(name);
        }
    }
    command
}

fn run(command: &mut Command) -> Outcome<()> {
    let status = clean(command).status().map_err(|e| format!("{command:?}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}")) }
}

fn copy(from: &Path, to: &Path) -> Outcome<()> {
    // A library that another process has loaded keeps its own file.
    let _ = fs::remove_file(to);
    match fs::copy(from, to) {
        Ok(_) => Ok(()),
        Err(e) => Err(format!("cannot copy {} to {}: {e}", from.display(), to.display())),
    }
}

/// Copies a directory of Python files.
fn copy_dir(from: &Path, to: &Path) -> Outcome<()> {
    let failed = |e: std::io::Error| format!("{}: {e}", from.display());
    fs::create_dir_all(to).map_err(failed)?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().expect("an entry has a name");
        match path.is_dir() {
            true if name == "__pycache__" => {}
            true => copy_dir(&path, &to.join(name))?,
            false => copy(&path, &to.join(name))?,
        }
    }
    Ok(())
}
