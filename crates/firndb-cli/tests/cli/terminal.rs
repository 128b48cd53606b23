//! Output to a terminal: control bytes of values never reach it.

use super::Sandbox;
use std::process::Command;

/// Runs `firn` in a terminal that `script` provides, and returns what the terminal received.
fn in_terminal(sandbox: &Sandbox, line: &str) -> String {
    let command = format!("stty -onlcr; '{}' {line}", env!("CARGO_BIN_EXE_firn"));
    let output = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .current_dir(&sandbox.0)
        .env("NO_COLOR", "1")
        .stdin(std::process::Stdio::null())
        .output()
        .expect("`script` of util-linux runs");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn values_are_escaped_on_a_terminal_only() {
    let sandbox = Sandbox::new();
    // A title of a window, DEL, the beginning of an escape sequence in C1, and a broken character.
    let value = b"\x1b]0;owned\x07\x7f\xc2\x9b31m\xff";
    sandbox.write("value", value);
    sandbox.firn("log put s k --value-file value").ok();
    sandbox.firn("log freeze s -o t").ok();
    let shown = "\\x1b]0;owned\\x07\\x7f\\xc2\\x9b31m\\xff";
    for line in ["log get s k", "log get s k --raw", "table get t k", "table get t k --raw"] {
        let received = in_terminal(&sandbox, line);
        assert_eq!(received.trim_end(), shown, "{line}");
        let output = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(line.split(' '))
            .current_dir(&sandbox.0)
            .output()
            .unwrap();
        assert!(output.stdout.starts_with(value), "{line}: {:?}", output.stdout);
    }
    for line in ["log scan s", "table scan t", "log scan s --format csv", "table scan t --json"] {
        let received = in_terminal(&sandbox, line);
        let is_control = |c: char| c.is_control() && c != '\n' && c != '\t';
        assert!(!received.contains(is_control), "{line}: {received:?}");
        assert!(received.contains('k'), "{line}: {received:?}");
    }
    // A message that names a key.
    let received = in_terminal(&sandbox, "log get s $(printf '\\033[31m')");
    assert!(!received.contains('\x1b') && received.contains("there is no key"), "{received:?}");
}
