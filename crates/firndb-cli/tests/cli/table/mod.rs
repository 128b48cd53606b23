//! `firn table`: builds from every format, and reads.

mod build;
mod columnar;
mod columns;
mod exact;
mod inference;
mod ordered;
mod reads;
mod rows;
mod streams;

use super::Sandbox;
use serde_json::Value as Json;

/// Every record of a table as a JSON object, ordered by key.
fn content(sandbox: &Sandbox, table: &str) -> Vec<Json> {
    let mut records = sandbox.firn(&format!("table scan {table} --json")).ok().json();
    records.sort_by_key(|record| record["key"].as_str().unwrap_or_default().to_string());
    records
}

/// The value of a key.
fn value(sandbox: &Sandbox, table: &str, key: &str) -> Json {
    let answer = sandbox.firn(&format!("table get {table} '{key}' --json")).ok().json();
    assert_eq!((&answer[0]["key"], &answer[0]["found"]), (&key.into(), &true.into()));
    answer[0]["value"].clone()
}

/// The bytes of a value in hexadecimal digits.
fn bytes(sandbox: &Sandbox, table: &str, key: &str) -> String {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_firn"))
        .args(["table", "get", table, key, "--raw"])
        .current_dir(&sandbox.0)
        .output()
        .unwrap();
    assert!(output.status.success());
    output.stdout.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A table `t` of two records.
fn small() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "alice 1 2\nbob \n");
    sandbox.firn("table build -i a.txt -o t").ok();
    sandbox
}
