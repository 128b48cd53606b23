//! Ctrl-C and SIGTERM: every command ends with a sentence, exit code 130 or 143, and leaves no
//! temporary file.

use super::Sandbox;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

/// Signals with their exit codes. Those that the tests themselves ignore, as under `nohup`, the
/// program ignores, too.
fn signals() -> Vec<(&'static str, i32)> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0");
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap_or(0);
    let is_handled = |(_, code): &(&str, i32)| ignored >> (code - 129) & 1 == 0;
    [("-INT", 130), ("-TERM", 143)].into_iter().filter(is_handled).collect()
}

fn signal(child: &Child, signal: &str) {
    // The shell's builtin: the `kill` program need not be installed.
    let kill = format!("kill {signal} {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

/// Whether a process handles signals by now: SIGTERM is in its mask of caught signals.
fn is_ready(child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).unwrap_or(0) & 1 << 14 != 0
}

fn wait_until(what: &str, mut is_done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends the signal, and returns the output of the command, whose input stays open until then.
fn interrupted(mut child: Child, sent: &str) -> Output {
    let stdin = child.stdin.take();
    signal(&child, sent);
    let start = Instant::now();
    let output = child.wait_with_output().unwrap();
    assert!(start.elapsed() < Duration::from_secs(30), "it took {:?}", start.elapsed());
    drop(stdin);
    output
}

/// All paths below a directory.
fn tree(dir: &Path) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            paths.insert(entry.path().strip_prefix(dir).unwrap().display().to_string());
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                dirs.push(entry.path());
            }
        }
    }
    paths
}

/// A command that waits for the end of its input, and the sentence that ends it.
struct Case {
    line: &'static str,
    input: &'static str,
    sentence: &'static str,
}

#[test]
fn commands_that_wait_for_input_end() {
    let cases = [
        Case { line: "search build - -o new", input: "a,b\n1,2\n", sentence: "no collection" },
        Case { line: "search replace c main -", input: "key,value\n", sentence: "is unchanged" },
        Case { line: "search build - -o c --add", input: "key,value\n", sentence: "is unchanged" },
        Case { line: "table build - -o new", input: "a 1\n", sentence: "nothing was written" },
        Case { line: "table mget t -", input: "a\n", sentence: "nothing was changed" },
        Case { line: "log load new -", input: "", sentence: "nothing was put" },
        Case { line: "log put new k --value-file -", input: "v", sentence: "nothing was" },
        Case { line: "index apply i source - --key key", input: "", sentence: "not applied" },
    ];
    let sandbox = Sandbox::new();
    sandbox.write("in.csv", "key,value\na,1\nb,2\n");
    sandbox.write("schema.toml", "[fields]\nkey = \"string full\"\nvalue = \"u64 full\"\n");
    sandbox.firn("table build in.csv -k key -o t").ok();
    sandbox.firn("search build in.csv -o c").ok();
    sandbox.firn("index init i --schema schema.toml").ok();
    sandbox.firn("index apply i source in.csv --key key").ok();
    for Case { line, input, sentence } in cases {
        for (sent, code) in signals() {
            let before = tree(&sandbox.0);
            let mut child = sandbox.start(&[], line);
            child.stdin.as_mut().unwrap().write_all(input.as_bytes()).unwrap();
            wait_until(line, || is_ready(&child));
            // Most commands have begun to read by then; the answer is the same if not.
            std::thread::sleep(Duration::from_millis(50));
            let output = interrupted(child, sent);
            let err = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(code), "{line}: {err}");
            assert!(err.starts_with("interrupted: ") && err.contains(sentence), "{line}: {err}");
            assert_eq!(err.lines().count(), 1, "{line}: {err}");
            let log = |path: &String| path.starts_with("i/log");
            let left: Vec<_> = tree(&sandbox.0).difference(&before).cloned().collect();
            assert!(left.iter().all(log), "{line} left {left:?}");
        }
    }
    assert_eq!(sandbox.firn("search count c").ok().out, "2\n");
}

/// A build of input in key order writes the table while it reads.
#[test]
fn a_table_that_is_written_while_records_are_read_leaves_nothing() {
    for (sent, code) in signals() {
        let sandbox = Sandbox::new();
        let before = tree(&sandbox.0);
        let mut child = sandbox.start(&[], "table build - -o new --order key --memory 16M");
        let mut stdin = child.stdin.take().unwrap();
        let lines: String = (0..30_000).map(|n| format!("key-{n:06} {n:01000}\n")).collect();
        stdin.write_all(lines.as_bytes()).unwrap();
        wait_until("the table is being written", || tree(&sandbox.0) != before);
        child.stdin = Some(stdin);
        let output = interrupted(child, sent);
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{err}");
        assert_eq!(err, "interrupted: nothing was written\n");
        assert_eq!(tree(&sandbox.0), before);
    }
}

#[test]
fn records_that_were_loaded_are_counted() {
    let sandbox = Sandbox::new();
    let mut child = sandbox.start(&[], "log load s -");
    let lines: String = (0..200_000).map(|n| format!("key-{n}\tvalue {n}\n")).collect();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(lines.as_bytes()).unwrap();
    // All but the last batch are put while the input stays open.
    wait_until("records are put", || sandbox.path("s").join("lock").exists());
    child.stdin = Some(stdin);
    std::thread::sleep(Duration::from_millis(200));
    let output = interrupted(child, "-TERM");
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(143), "{err}");
    let count = err.split("the first ").nth(1).and_then(|rest| rest.split(' ').next());
    let count: u64 = count.unwrap_or_else(|| panic!("{err}")).replace(',', "").parse().unwrap();
    assert!(count > 0);
    let stats = sandbox.firn("log stats s --json").ok().json();
    assert_eq!(stats[0]["keys"], count);
    sandbox.firn("log verify s").ok();
}

#[test]
fn long_commands_end_and_leave_nothing() {
    let cases = [
        ("log bench --records 500000000", "was removed"),
        ("log bench b --records 500000000", "was removed"),
        ("demo --generated --flights 10000000 --dir demo", ""),
        ("table bench t --gets 4000000000", "nothing was changed"),
        ("search compact c --every 1h", "every document"),
        ("catalog watch cat words -o cache", "stay in the cache"),
    ];
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("tmp")).unwrap();
    sandbox.write("in.csv", "key,value\na,1\nb,2\n");
    sandbox.firn("table build in.csv -k key -o t").ok();
    sandbox.firn("search build in.csv -o c").ok();
    sandbox.firn("catalog publish cat words t").ok();
    let variables = [("TMPDIR".to_string(), sandbox.path("tmp").display().to_string())];
    for (line, sentence) in cases {
        for (sent, code) in signals() {
            let before = tree(&sandbox.0);
            let child = sandbox.start(&variables, line);
            wait_until(line, || is_ready(&child));
            std::thread::sleep(Duration::from_millis(300));
            let output = interrupted(child, sent);
            let err = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(code), "{line}: {err}");
            assert!(err.contains("interrupted: ") && err.contains(sentence), "{line}: {err}");
            let kept =
                |path: &String| path == "demo" || path == "cache" || path.starts_with("cache/");
            let left: Vec<_> = tree(&sandbox.0).difference(&before).cloned().collect();
            assert!(left.iter().all(kept), "{line} left {left:?}");
            assert!(!left.iter().any(|path| path.contains("tmp")), "{line} left {left:?}");
        }
    }
}

#[test]
fn an_export_is_complete_or_absent() {
    let sandbox = Sandbox::new();
    let lines: String = (0..200_000).map(|n| format!("key-{n}\t{n:0200}\n")).collect();
    sandbox.firn_with("log load s", lines.as_bytes()).ok();
    let child = sandbox.start(&[], "log dump s -o out.jsonl.zst");
    let is_begun = || tree(&sandbox.0).iter().any(|path| path.starts_with("out.jsonl"));
    wait_until("the file is begun", is_begun);
    let output = interrupted(child, "-TERM");
    let left: Vec<_> = tree(&sandbox.0).into_iter().filter(|p| p.starts_with("out")).collect();
    match output.status.code() {
        Some(143) if left.is_empty() => {
            let err = String::from_utf8(output.stderr).unwrap();
            assert_eq!(err, "interrupted: no file was written\n");
        }
        // It was faster than the signal.
        Some(0 | 143) => {
            assert_eq!(left, ["out.jsonl.zst"]);
            sandbox.firn("log load again out.jsonl.zst").ok();
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn interruptions_are_json_on_request() {
    let sandbox = Sandbox::new();
    let child = sandbox.start(&[], "table build - -o new --json");
    wait_until("it runs", || is_ready(&child));
    let output = interrupted(child, "-TERM");
    let error: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(error["error"]["kind"], "cancelled");
    assert_eq!(error["error"]["signal"], "SIGTERM");
}
