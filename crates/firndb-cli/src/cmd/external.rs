//! `firn NAME`: runs the program `firn-NAME` from the directory of `firn`, if NAME is not built in.

use crate::failure::Failure;
use firndb::Error;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Replaces this process by the program: it gets the arguments and the signals, and its exit code
/// is that of `firn`. `None` if there is no such program.
pub fn run(words: &[OsString], json: bool) -> Option<ExitCode> {
    let (name, arguments) = words.split_first()?;
    let program = program(name)?;
    let mut command = Command::new(&program);
    command.args(arguments);
    if json && !arguments.iter().any(|argument| argument == "--json") {
        command.arg("--json");
    }
    // Returns only if the program cannot be run.
    let error = command.exec();
    Some(Failure::from(Error::io("run", &program, error)).report(json))
}

/// How to get the program of a command that has its own, if that is all that is missing.
pub fn missing(name: &str) -> Option<String> {
    (name == "serve").then(|| {
        "`firn serve` runs the program `firn-serve`, which is not in the directory of `firn`: \
         build it with `cargo build --release -p firndb-server`, and install both in one directory"
            .to_string()
    })
}

/// The path of the program, next to `firn` itself; other directories are not searched.
fn program(name: &OsStr) -> Option<PathBuf> {
    // A name with a slash would leave the directory.
    if name.is_empty() || name.as_encoded_bytes().contains(&b'/') {
        return None;
    }
    let mut file = OsString::from("firn-");
    file.push(name);
    let path = std::env::current_exe().ok()?.with_file_name(file);
    path.is_file().then_some(path)
}
