//! Type-checks the library, the command line and the Python package for the other supported
//! targets.
//!
//! A target whose standard library is not installed is skipped, as is one without a C compiler,
//! which the build scripts of zstd and blake3 need. Install them with `rustup target add TARGET`
//! and `pip install ziglang` (Zig compiles C for every target); nothing is installed here.

use crate::{Outcome, cargo, finish, root, tools};
use std::path::PathBuf;
use std::process::Command;

/// A supported target and its name in Zig.
#[derive(Clone, Copy)]
struct Target {
    name: &'static str,
    zig: &'static str,
}

const TARGETS: [Target; 3] = [
    Target { name: "x86_64-unknown-linux-gnu", zig: "x86_64-linux-gnu" },
    Target { name: "aarch64-unknown-linux-gnu", zig: "aarch64-linux-gnu" },
    Target { name: "aarch64-apple-darwin", zig: "aarch64-macos" },
];

/// The names of the supported targets.
pub fn targets() -> impl Iterator<Item = &'static str> {
    TARGETS.iter().map(|target| target.name)
}

/// Checks every target but the host that is available, with warnings as errors.
pub fn run() -> Outcome {
    let host = host()?;
    for target in TARGETS.iter().filter(|target| target.name != host) {
        match compiler(target) {
            Err(reason) => println!("{}: skipped: {reason}", target.name),
            Ok(compiler) => {
                println!("{}", target.name);
                check(target, compiler)?;
            }
        }
    }
    Ok(())
}

fn check(target: &Target, compiler: Option<PathBuf>) -> Outcome {
    let mut command = cargo(&["check", "--locked", "--tests", "--target", target.name]);
    command.args(["-p", "firndb", "-p", "firndb-cli", "-p", "firndb-python"]);
    if let Some(compiler) = compiler {
        command.env(variable("CC", target), compiler);
    }
    finish(command.env("RUSTFLAGS", "-D warnings"))
}

/// The environment variable that names a tool for a target, as the `cc` crate expects it.
fn variable(tool: &str, target: &Target) -> String {
    format!("{tool}_{}", target.name.replace('-', "_"))
}

/// The C compiler for a target; `None` if the environment or the PATH already provides it. The
/// error is the reason to skip the target.
fn compiler(target: &Target) -> Result<Option<PathBuf>, String> {
    let library = rustc(&["--print", "target-libdir", "--target", target.name])?;
    if !PathBuf::from(library.trim()).is_dir() {
        return Err(format!("its standard library is missing: rustup target add {}", target.name));
    }
    let gcc = target.name.replace("-unknown", "") + "-gcc";
    if std::env::var_os(variable("CC", target)).is_some() || tools::is_on_path(&gcc) {
        return Ok(None);
    }
    let zig = zig().ok_or("there is no C compiler for it: pip install ziglang")?;
    wrapper(target, zig).map(Some).map_err(|e| format!("cannot write a wrapper of Zig: {e}"))
}

/// The command line of Zig, if it is installed.
fn zig() -> Option<&'static str> {
    let runs = |command: &str| {
        let mut words = command.split(' ');
        let program = words.next().unwrap_or_default();
        let out = Command::new(program).args(words).arg("version").output();
        out.is_ok_and(|out| out.status.success())
    };
    ["zig", "python3 -m ziglang"].into_iter().find(|command| runs(command))
}

/// Writes a program that compiles C for the target. The `cc` crate passes `--target=` with a name
/// that Zig does not know, so the program drops this argument.
fn wrapper(target: &Target, zig: &str) -> std::io::Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let folder = root().join("target/cross");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("cc-{}", target.name));
    std::fs::write(&path, script(target, zig))?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

fn script(target: &Target, zig: &str) -> String {
    let lines = [
        "#!/bin/sh",
        "for a in \"$@\"; do",
        "    shift",
        "    case \"$a\" in",
        "        --target=*) ;;",
        "        *) set -- \"$@\" \"$a\" ;;",
        "    esac",
        "done",
    ];
    format!("{}\nexec {zig} cc -target {} \"$@\"\n", lines.join("\n"), target.zig)
}

/// The target of this machine.
fn host() -> Result<String, String> {
    let version = rustc(&["-vV"])?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_string).ok_or_else(|| "rustc -vV names no host".to_string())
}

fn rustc(args: &[&str]) -> Result<String, String> {
    let program = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut command = Command::new(program);
    let out = command.current_dir(root()).args(args).output();
    let out = out.map_err(|e| format!("cannot start rustc: {e}"))?;
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_named_as_the_cc_crate_expects() {
        assert_eq!(variable("CC", &TARGETS[2]), "CC_aarch64_apple_darwin");
    }

    #[test]
    fn the_wrapper_drops_the_target_and_keeps_other_arguments() {
        let target = Target { name: "test", zig: "a-target" };
        let script = script(&target, "echo").replace("#!/bin/sh\n", "");
        let args = ["-c", &script, "sh", "-O2", "--target=test", "a file.c"];
        let out = Command::new("sh").args(args).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&out.stdout), "cc -target a-target -O2 a file.c\n");
    }

    #[test]
    fn the_host_is_a_supported_target_or_unknown_to_the_list() {
        let host = host().unwrap();
        assert!(host.split('-').count() >= 3, "{host}");
    }

    #[test]
    fn a_target_without_a_standard_library_is_skipped_with_a_reason() {
        let target = Target { name: "riscv64gc-unknown-linux-gnu", zig: "riscv64-linux-gnu" };
        // Passes also on a machine with this target.
        if let Err(reason) = compiler(&target) {
            assert!(reason.contains("rustup target add") || reason.contains("C compiler"));
        }
    }
}
