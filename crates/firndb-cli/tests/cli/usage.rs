//! What is around the commands: help, hints, completions, output that nobody reads any more.

use super::{Place, words};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

#[test]
fn help_version_and_completions_are_there() {
    let place = Place::new();
    assert!(place.firn("--version").ok().out.starts_with("firn 0."));
    assert!(place.firn("search --help").ok().out.contains("facets"));
    place.firn("").fails(2, "Usage: firn");
    for shell in ["bash", "zsh", "fish"] {
        assert!(place.firn(&format!("completions {shell}")).ok().out.contains("facets"));
    }
}

#[test]
fn somebody_who_is_almost_right_is_told_so() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("flights")).unwrap();
    place.firn("search flights").fails(2, "firn search query flights");
    place.firn("query flights").fails(2, "firn search query ...");
    place.firn("search qeury flights").fails(2, "'query'");
    place.firn("search query nowhere").fails(3, "nowhere");
    place.firn("search query flights").fails(3, "flights");
    let run = place.firn("search facets --json").fails(2, "");
    let error: serde_json::Value = serde_json::from_str(&run.err).unwrap();
    assert!(error["error"]["message"].as_str().unwrap().contains("--by"), "{error}");
}

#[test]
fn output_that_nobody_reads_is_no_error() {
    let place = Place::with_collection();
    for line in ["search export c", "search query c --all", "search query c --all --json"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(words(line))
            .current_dir(&place.0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        let mut stdout = BufReader::with_capacity(16, child.stdout.take().unwrap());
        stdout.read_line(&mut first).unwrap();
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        assert!(!first.is_empty());
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{line}");
        assert!(output.status.success(), "{line}");
    }
}
