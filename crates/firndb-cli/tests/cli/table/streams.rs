//! Input from pipes, and signals during a build.

use super::build::gzip;
use super::content;
use crate::Sandbox;
use std::io::Write;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

#[test]
fn formats_are_detected_by_more_than_the_first_byte() {
    let sandbox = Sandbox::new();
    let text = b"id\tn\n1\t2\n";
    for (name, input) in [("plain", &text[..]), ("packed", &gzip(text))] {
        let mut child = sandbox.start(&[], &format!("table build -i - --key id -o {name}"));
        let stdin = child.stdin.as_mut().unwrap();
        for part in [&input[..1], &input[1..3], &input[3..]] {
            stdin.write_all(part).unwrap();
            stdin.flush().unwrap();
            std::thread::sleep(Duration::from_millis(100));
        }
        Sandbox::ended(child, b"").ok();
        assert_eq!(sandbox.firn(&format!("table get {name} 1")).ok().out, "2\n");
    }
    // A skippable frame comes before the data.
    let skipped = [0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, b'a', b' ', b'1'];
    let packed = zstd::encode_all(&b"b 2\n"[..], 1).unwrap();
    sandbox.write("a.txt", [&skipped[..], &packed[..]].concat());
    sandbox.firn("table build -i a.txt -o skipped").ok();
    assert_eq!(sandbox.firn("table scan skipped").ok().out, "b\t2\n");
}

/// Starts a build from a pipe after the shell command `trap`, which sets the handling of a signal.
fn start(sandbox: &Sandbox, trap: &str) -> Child {
    Command::new("sh")
        .args(["-c", &format!("{trap}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_firn")])
        .args(["table", "build", "-i", "-", "-o", "t", "--memory", "16M"])
        .current_dir(&sandbox.0)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Sends enough for a temporary file, then a signal, and then ends the input if `end`.
fn signalled(mut child: Child, signal: &str, end: bool) -> Output {
    let mut stdin = child.stdin.take().unwrap();
    let line = format!("{}\n", "v".repeat(1000));
    for i in 0..40_000 {
        stdin.write_all(format!("{i} {line}").as_bytes()).unwrap();
    }
    // The shell's builtin: the `kill` program need not be installed.
    let kill = format!("kill {signal} {}", child.id());
    let sent = Command::new("sh").args(["-c", &kill]).status().unwrap();
    assert!(sent.success());
    if end {
        std::thread::sleep(Duration::from_millis(300));
        drop(stdin);
        return child.wait_with_output().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    output
}

#[test]
fn an_interrupted_build_leaves_nothing() {
    let sandbox = Sandbox::new();
    // Signals that the tests themselves ignore, as under `nohup`, the program ignores too.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    for (signal, number) in [("-INT", 2), ("-TERM", 15), ("-HUP", 1)] {
        if ignored >> (number - 1) & 1 == 1 {
            println!("skipped: kill {signal} is ignored here");
            continue;
        }
        let output = signalled(start(&sandbox, ":"), signal, false);
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(128 + number), "{signal}: {err}");
        assert!(err.contains("interrupted: nothing was written"), "{signal}: {err}");
        assert_eq!(std::fs::read_dir(&sandbox.0).unwrap().count(), 0);
    }
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let sandbox = Sandbox::new();
    let output = signalled(start(&sandbox, "trap '' HUP"), "-HUP", true);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(content(&sandbox, "t").len(), 40_000);
}
