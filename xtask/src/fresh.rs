//! A fresh machine: runs the two commands of the README in a minimal Debian system.
//!
//! 1. `run` checks the requirements and starts this program again, through `unshare`, with its own
//!    mount and process namespaces: when it ends, in whatever way, the kernel removes both. A shell
//!    around it removes the directory.
//! 2. `inside` creates the system with debootstrap: a minimal Debian with gcc, libc6-dev and
//!    python3, and nothing else. It mounts, read-only, the toolchains and programs of rustup and
//!    the certificates of this machine, and clones the committed state.
//! 3. Each command runs in there with an empty environment, except for the settings needed to reach
//!    the package registries: proxy and cargo variables, and cargo's `config.toml`. Its caches are
//!    empty, too.
//!
//! A directory that a killed run has left behind is removed by the next one.

use crate::suite::Totals;
use crate::tools::{self, Tool, is_root};
use crate::{Outcome, finish, root, shown};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const TOOLS: [Tool; 5] = [
    Tool { program: "debootstrap", packages: &["debootstrap"], used_by: "the bare system" },
    Tool { program: "unshare", packages: &["util-linux"], used_by: "mounts of its own" },
    Tool { program: "mount", packages: &["mount"], used_by: "what is mounted into it" },
    Tool { program: "chroot", packages: &["coreutils"], used_by: "running commands in it" },
    Tool { program: "git", packages: &["git"], used_by: "the clone" },
];

/// The commands of the README: name, words.
const COMMANDS: [(&str, &[&str]); 2] =
    [("demo", &["cargo", "run", "--release", "--", "demo"]), ("test", &["cargo", "xtask", "test"])];

/// The packages that the README requires, in addition to rustup.
const PACKAGES: &str = "gcc,libc6-dev,python3";

/// Runs the command in the remaining arguments, and removes the directory in the first argument
/// when the command ends or a signal arrives.
const SHELL: &str = "dir=$1; shift; trap 'rm -rf \"$dir\"' EXIT; trap 'exit 130' INT; \
     trap 'exit 143' TERM; trap 'exit 129' HUP; \"$@\"";

/// Folders of certificates: entries of the first are often links into the others.
const CERTIFICATES: [&str; 3] =
    ["/etc/ssl/certs", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates"];

/// Paths in the minimal system.
const CARGO_BIN: &str = "/opt/cargo-bin";
const CARGO_HOME: &str = "/opt/cargo-home";
const CLONE: &str = "/firndb";

/// Runs both commands, or the named one.
pub fn run(args: &[&str]) -> Outcome {
    if let Some(unknown) = args.iter().find(|arg| COMMANDS.iter().all(|(name, _)| name != *arg)) {
        return Err(format!(
            "`{unknown}` is no command of the README; give `demo`, `test` or none"
        ));
    }
    if !cfg!(target_os = "linux") || !is_root() {
        return Err("needs Linux, and root for mounts and chroot: sudo cargo xtask fresh".into());
    }
    tools::check(&TOOLS)?;
    let dir = all_runs().join(std::process::id().to_string());
    let own = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let mut command = Command::new("sh");
    command.args(["-c", SHELL, "sh"]).arg(&dir);
    command.args(["unshare", "--mount", "--propagation", "private", "--pid", "--fork"]);
    command.arg("--kill-child").arg(own).arg("fresh-inside").arg(&dir).args(args);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("the commands of the README do not pass on a fresh machine".to_string()),
        Err(e) => Err(format!("cannot start {}: {e}", shown(&command))),
    }
}

fn all_runs() -> PathBuf {
    root().join("target/fresh")
}

/// The part that runs in its own namespaces.
pub fn inside(args: &[&str]) -> Outcome {
    let [dir, wanted @ ..] = args else { return Err("a directory is missing".to_string()) };
    let dir = Path::new(dir);
    let _lock = lock_and_sweep(dir)?;
    let system = dir.join("system");
    fs::create_dir_all(&system).map_err(|e| format!("{}: {e}", system.display()))?;
    let mut lines = vec![make(&system)?];
    mount_all(&system)?;
    clone(&system)?;
    let mut failed = 0;
    for (_, words) in COMMANDS.iter().filter(|(n, _)| wanted.is_empty() || wanted.contains(n)) {
        println!("== fresh: {}", words.join(" "));
        let (outcome, line) = run_in(&system, words)?;
        failed += usize::from(outcome.is_err());
        lines.push(line);
    }
    lines.iter().for_each(|line| println!("fresh: {line}"));
    println!("fresh: {}", if failed == 0 { "passed" } else { "FAILED" });
    if failed == 0 { Ok(()) } else { Err(format!("{failed} commands failed")) }
}

/// Takes the lock of all runs, and removes the directories of killed runs.
fn lock_and_sweep(dir: &Path) -> Result<File, String> {
    let all = all_runs();
    fs::create_dir_all(&all).map_err(|e| format!("{}: {e}", all.display()))?;
    let wrong = |e: io::Error| format!("{}: {e}", all.display());
    let lock = File::create(all.join("lock")).map_err(wrong)?;
    if lock.try_lock().is_err() {
        return Err("another run of `cargo xtask fresh` is under way".to_string());
    }
    for entry in all.read_dir().map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.is_dir() && path != dir {
            println!("removing {}, which an earlier run has left", path.display());
            fs::remove_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    Ok(lock)
}

/// Creates the minimal system; returns a line with its description and duration.
fn make(system: &Path) -> Result<String, String> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let sources = apt_sources();
    let (suite, mirror) = (suite(&release), mirror(&sources));
    let start = Instant::now();
    println!("== fresh: a bare Debian, {suite}, with {PACKAGES}");
    let mut command = Command::new("debootstrap");
    command.arg("--variant=minbase").arg(format!("--include={PACKAGES}"));
    command.arg(suite).arg(system).args(mirror);
    finish(&mut command)?;
    let time = start.elapsed();
    Ok(format!("Debian {suite} with {PACKAGES}: {}, {}", megabytes(system), seconds(time)))
}

fn seconds(time: Duration) -> String {
    format!("{:.0} s", time.as_secs_f64())
}

fn megabytes(dir: &Path) -> String {
    let out = Command::new("du").args(["-sxm"]).arg(dir).output();
    let text = out.map(|out| String::from_utf8_lossy(&out.stdout).into_owned()).unwrap_or_default();
    format!("{} MB", text.split_whitespace().next().unwrap_or("?"))
}

/// The Debian release of this machine, or `stable`.
fn suite(release: &str) -> &str {
    let value = |name: &str| {
        let line = release.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.map(|value| value.trim_matches('"'))
    };
    match (value("ID"), value("VERSION_CODENAME")) {
        (Some("debian"), Some(name)) => name,
        _ => "stable",
    }
}

/// The text of all of apt's source lists.
fn apt_sources() -> String {
    let apt = Path::new("/etc/apt");
    let entries = apt.join("sources.list.d").read_dir().into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "list" || end == "sources"));
    paths.push(apt.join("sources.list"));
    paths.iter().filter_map(|path| fs::read_to_string(path).ok()).collect::<Vec<_>>().join("\n")
}

/// The mirror of Debian itself that apt uses; `None` for debootstrap's own.
fn mirror(sources: &str) -> Option<&str> {
    let lines = sources.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let words = lines.filter(|line| line.starts_with("URIs:") || line.starts_with("deb "));
    let uris = words.flat_map(str::split_whitespace).filter(|word| word.contains("://"));
    uris.map(|uri| uri.trim_end_matches('/')).find(|uri| uri.ends_with("/debian"))
}

/// The folder that a variable names, or the folder of this name in the home directory.
fn home_of(variable: &str, folder: &str) -> PathBuf {
    let home = || Path::new(&std::env::var_os("HOME").unwrap_or_default()).join(folder);
    std::env::var_os(variable).map_or_else(home, PathBuf::from)
}

fn rustup_home() -> PathBuf {
    home_of("RUSTUP_HOME", ".rustup")
}

/// The home of rustup, and the targets of toolchains that are links to other directories.
fn toolchains() -> Vec<PathBuf> {
    let home = rustup_home();
    let entries = home.join("toolchains").read_dir().into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> =
        entries.filter_map(|entry| entry.path().canonicalize().ok()).collect();
    folders.retain(|folder| !folder.starts_with(&home));
    folders.insert(0, home);
    folders
}

/// Mounts the folders of this machine that the system uses.
fn mount_all(system: &Path) -> Outcome {
    let cargo = home_of("CARGO_HOME", ".cargo");
    // Links among toolchains are often absolute, so their targets keep their paths.
    let mut read_only: Vec<(PathBuf, PathBuf)> =
        toolchains().into_iter().map(|folder| (folder.clone(), folder)).collect();
    read_only.push((cargo.join("bin"), PathBuf::from(CARGO_BIN)));
    if let Some((missing, _)) = read_only.iter().find(|(from, _)| !from.is_dir()) {
        return Err(format!("there is no {}: rustup is needed", missing.display()));
    }
    let certificates = CERTIFICATES.iter().filter(|folder| Path::new(folder).is_dir());
    read_only.extend(certificates.map(|folder| (PathBuf::from(folder), PathBuf::from(folder))));
    let mount = |args: &[&str], from: &Path, to: &Path| {
        let to = system.join(to.strip_prefix("/").unwrap_or(to));
        fs::create_dir_all(&to).map_err(|e| format!("{}: {e}", to.display()))?;
        finish(Command::new("mount").args(args).arg(from).arg(to))
    };
    for (from, to) in &read_only {
        mount(&["--bind"], from, to)?;
        mount(&["-o", "remount,bind,ro"], from, to)?;
    }
    mount(&["--rbind"], Path::new("/dev"), Path::new("/dev"))?;
    mount(&["-t", "proc"], Path::new("proc"), Path::new("/proc"))?;
    mount(&["-t", "sysfs"], Path::new("sysfs"), Path::new("/sys"))?;
    let copies = [
        (PathBuf::from("/etc/resolv.conf"), "/etc/resolv.conf".to_string()),
        (PathBuf::from("/etc/hosts"), "/etc/hosts".to_string()),
        (cargo.join("config.toml"), format!("{CARGO_HOME}/config.toml")),
    ];
    for (from, to) in copies.iter().filter(|(from, _)| from.is_file()) {
        let to = system.join(to.trim_start_matches('/'));
        let parent = to.parent().map_or(Ok(()), fs::create_dir_all);
        // debootstrap may have left a dangling link.
        let _ = fs::remove_file(&to);
        let copied = parent.and_then(|()| fs::copy(from, &to));
        copied.map_err(|e| format!("cannot copy {}: {e}", from.display()))?;
    }
    Ok(())
}

/// Clones the committed state.
fn clone(system: &Path) -> Outcome {
    let git = || {
        let mut git = Command::new("git");
        // In containers the folder often belongs to another user.
        git.current_dir(root()).args(["-c", "safe.directory=*"]);
        git
    };
    let changed = git().args(["status", "--porcelain"]).output();
    if changed.is_ok_and(|out| !out.stdout.is_empty()) {
        println!("== fresh: what is not committed is left out");
    }
    let url = format!("file://{}", root().display());
    let to = system.join(CLONE.trim_start_matches('/'));
    finish(git().args(["clone", "--quiet", "--depth", "1", &url]).arg(to))
}

/// Whether a variable is needed to reach the package registries; excludes those that may hold
/// credentials of cargo.
fn is_passed_on(name: &str) -> bool {
    let proxy = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"];
    let cargo = ["CARGO_HTTP_", "CARGO_NET_", "CARGO_REGISTRIES_", "CARGO_SOURCE_"];
    let certificates = ["SSL_CERT_FILE", "SSL_CERT_DIR"];
    let secret = name.ends_with("TOKEN") || name.contains("CREDENTIAL");
    !secret
        && (proxy.contains(&name.to_lowercase().as_str())
            || cargo.iter().any(|prefix| name.starts_with(prefix))
            || certificates.contains(&name))
}

/// Runs a command in the clone; returns its outcome and a summary line.
fn run_in(system: &Path, words: &[&str]) -> Result<(Outcome, String), String> {
    let mut command = Command::new("chroot");
    command.arg(system).args(["/usr/bin/env", "-i", "-C", CLONE, "HOME=/root", "LANG=C.UTF-8"]);
    command.arg(format!("PATH={CARGO_BIN}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"));
    command.arg(format!("RUSTUP_HOME={}", rustup_home().display()));
    command.arg(format!("CARGO_HOME={CARGO_HOME}"));
    // Use the mounted toolchain: rustup must not look for a newer one.
    command.arg("RUSTUP_AUTO_INSTALL=0");
    let passed = std::env::vars().filter(|(name, _)| is_passed_on(name));
    command.args(passed.map(|(name, value)| format!("{name}={value}"))).args(words);
    let start = Instant::now();
    let mut totals = Totals::default();
    let status = tee(&mut command, |line| totals.add_line(line))?;
    let (time, shown) = (seconds(start.elapsed()), words.join(" "));
    let sum = if totals.any() { format!(": {totals}") } else { String::new() };
    let (outcome, verdict) = if status.success() {
        (Ok(()), "ok".to_string())
    } else {
        (Err(format!("{shown} ended with {status}")), format!("FAILED, {status}"))
    };
    Ok((outcome, format!("{shown}: {verdict}, {time}{sum}")))
}

/// Runs a command, prints both of its outputs as they arrive, and passes each line to `see`.
fn tee(
    command: &mut Command,
    mut see: impl FnMut(&str),
) -> Result<std::process::ExitStatus, String> {
    let wrong = |e: io::Error| format!("cannot run chroot: {e}");
    let (output, input) = io::pipe().map_err(wrong)?;
    let other = input.try_clone().map_err(wrong)?;
    let mut child = command.stdout(input).stderr(other).spawn().map_err(wrong)?;
    // Dropping the command closes our write ends; otherwise the pipe would never end.
    *command = Command::new("true");
    let (mut reader, mut line) = (BufReader::new(output), Vec::new());
    while reader.read_until(b'\n', &mut line).map_err(wrong)? > 0 {
        let mut stdout = io::stdout().lock();
        stdout.write_all(&line).and_then(|()| stdout.flush()).map_err(wrong)?;
        see(&String::from_utf8_lossy(&line));
        line.clear();
    }
    child.wait().map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_commands_are_in_the_readme() {
        let readme = fs::read_to_string(root().join("README.md")).unwrap();
        let block = readme.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
        let commands = block.lines().map(|line| line.split('#').next().unwrap().trim().to_string());
        let ours = COMMANDS.map(|(_, words)| words.join(" "));
        assert_eq!(commands.collect::<Vec<_>>(), ours);
    }

    #[test]
    fn the_suite_is_that_of_the_debian_host_or_stable() {
        assert_eq!(suite("NAME=x\nID=debian\nVERSION_CODENAME=trixie\n"), "trixie");
        assert_eq!(suite("ID=\"debian\"\nVERSION_CODENAME=\"bookworm\"\n"), "bookworm");
        assert_eq!(suite("ID=ubuntu\nVERSION_CODENAME=noble\n"), "stable");
        assert_eq!(suite(""), "stable");
    }

    #[test]
    fn the_mirror_is_that_of_apt_sources() {
        let new = "Types: deb\n# http://old/debian\nURIs: http://a.example/debian/\nSuites: x\n\
                   URIs: http://a.example/debian-security\n";
        assert_eq!(mirror(new), Some("http://a.example/debian"));
        let old = "deb https://b.example/x y main\ndeb [signed-by=/k] https://c.example/debian z\n";
        assert_eq!(mirror(old), Some("https://c.example/debian"));
        assert_eq!(mirror("deb http://a.example/debian-security z main"), None);
    }

    #[test]
    fn only_registry_settings_are_passed_on() {
        for name in ["https_proxy", "NO_PROXY", "CARGO_HTTP_CAINFO", "CARGO_SOURCE_X_REGISTRY"] {
            assert!(is_passed_on(name), "{name}");
        }
        for name in ["PATH", "CARGO_HOME", "CARGO_REGISTRIES_X_TOKEN", "HOME", "RUSTFLAGS"] {
            assert!(!is_passed_on(name), "{name}");
        }
    }

    #[test]
    fn the_directory_is_removed_however_the_command_ends() {
        for (command, code) in [("true", Some(0)), ("false", Some(1)), ("kill -TERM $PPID", None)] {
            let dir = std::env::temp_dir().join(format!("firndb-fresh-{}", std::process::id()));
            fs::create_dir_all(dir.join("deep")).unwrap();
            let mut shell = Command::new("sh");
            shell.args(["-c", SHELL, "sh"]).arg(&dir).args(["sh", "-c", command]);
            let status = shell.status().unwrap();
            assert!(code.is_none_or(|code| status.code() == Some(code)), "{command}: {status}");
            assert!(!dir.exists(), "{command}");
        }
    }
}
