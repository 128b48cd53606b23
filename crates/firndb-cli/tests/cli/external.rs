//! `firn NAME` runs `firn-NAME` from its own directory; manual pages.

use super::Sandbox;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

/// A directory with `firn`, and `firn-NAME` as a script.
fn with_program(name: &str, script: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("bin")).unwrap();
    let firn = sandbox.path("bin/firn");
    // The file system of the sandbox is that of the program.
    fs::hard_link(env!("CARGO_BIN_EXE_firn"), &firn).unwrap();
    let path = sandbox.path(&format!("bin/firn-{name}"));
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    sandbox
}

fn run(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    let mut command = Command::new(sandbox.path("bin/firn"));
    command.args(arguments).current_dir(&sandbox.0).output().unwrap()
}

#[test]
fn a_program_gets_its_arguments_and_gives_its_exit_code() {
    let sandbox = with_program("hello", "printf '%s|' \"$@\"; echo no >&2; exit 42");
    let output = run(&sandbox, &["hello", "a b", "--flag", "-x", "--", "c"]);
    assert_eq!(output.status.code(), Some(42));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "a b|--flag|-x|--|c|");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "no\n");
    let output = run(&sandbox, &["--json", "hello"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "--json|");
    // Built-in commands come first, and other directories are not searched.
    let output = run(&sandbox, &["--version"]);
    assert!(output.status.success());
    let output = run(&sandbox, &["../bin/firn-hello"]);
    assert_eq!(output.status.code(), Some(2));
    let output = run(&sandbox, &["other"]);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("no program `firn-other`"), "{err}");
}

#[test]
fn the_server_is_a_program_of_its_own() {
    let sandbox = with_program("serve", "printf '%s|' \"$@\"");
    let output = run(&sandbox, &["--json", "serve", "--log", "a=b"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "--log|a=b|--json|");
    fs::remove_file(sandbox.path("bin/firn-serve")).unwrap();
    let output = run(&sandbox, &["serve", "--log", "a=b"]);
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("cargo build --release -p firndb-server"), "{err}");
}

#[test]
fn a_program_gets_the_signals() {
    let sandbox = with_program("wait", "kill -TERM $$; sleep 10; exit 1");
    let output = run(&sandbox, &["wait"]);
    assert_eq!(output.status.signal(), Some(15));
}

#[test]
fn manual_pages_are_printed_and_written() {
    let sandbox = Sandbox::new();
    let page = sandbox.firn("man").ok().out;
    assert!(page.contains(".TH FIRN 1") && page.contains("completions"), "{page}");
    let page = sandbox.firn("man log put").ok().out;
    assert!(page.contains(".TH FIRN-LOG-PUT 1"), "{page}");
    assert!(
        page.contains("Options of the store") || page.contains("OPTIONS OF THE STORE"),
        "{page}"
    );
    sandbox.firn("man log nothing").fails(3, "no command `nothing`");
    fs::create_dir(sandbox.path("man1")).unwrap();
    sandbox.firn("man -o man1").ok();
    let pages = fs::read_dir(sandbox.path("man1")).unwrap().flatten();
    let names: Vec<_> = pages.map(|entry| entry.file_name().into_string().unwrap()).collect();
    for name in ["firn.1", "firn-log.1", "firn-log-put.1", "firn-search-query.1", "firn-man.1"] {
        assert!(names.iter().any(|page| page == name), "{name}: {names:?}");
    }
    sandbox.firn("man -o man1").fails(4, "--force");
    sandbox.firn("man -o man1 --force").ok();
}
