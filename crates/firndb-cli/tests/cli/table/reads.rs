//! Reads of a table: get, mget, scan, stats, verify, bench, inspect.

use super::{bytes, content, small};
use crate::Sandbox;
use firndb::table::{BuildOptions, TableBuilder};

#[test]
fn a_key_is_text_hexadecimal_digits_or_a_file() {
    let sandbox = small();
    assert_eq!(sandbox.firn("table get t alice").ok().out, "1 2\n");
    assert_eq!(sandbox.firn("table get t 616c696365 --hex").ok().out, "1 2\n");
    sandbox.write("key", "alice");
    assert_eq!(sandbox.firn("table get t --file key").ok().out, "1 2\n");
    assert_eq!(bytes(&sandbox, "t", "alice"), "312032");
    for access in ["map", "buffered", "direct", "resident"] {
        assert_eq!(sandbox.firn(&format!("table get t alice --access {access}")).ok().out, "1 2\n");
    }
    let answer = sandbox.firn("table get t bob --json").ok().out;
    assert_eq!(answer, "{\"key\":\"bob\",\"found\":true,\"value\":\"\"}\n");
    sandbox.firn("table get t carol").fails(3, "error: t: there is no key `carol`");
    let run = sandbox.firn("table get t 00ff --hex --json").fails(3, "0x00ff");
    let error: serde_json::Value = serde_json::from_str(&run.err).unwrap();
    assert_eq!(error["error"]["kind"], "not_found");
    sandbox.firn("table get t 0g --hex").fails(2, "hexadecimal digits");
    sandbox.firn("table get t alice --raw --json").fails(2, "choose one of them");
    sandbox.firn("table get t").fails(2, "<KEY>");
    sandbox.firn("table get nowhere a").fails(3, "nowhere");
    sandbox.firn("table get . a").fails(2, "directory");
}

#[test]
fn many_keys_are_answered_in_order() {
    let sandbox = small();
    let run = sandbox.firn_with("table mget t", b"bob\ncarol\r\nalice\n\nalice");
    // An empty line is not a key.
    let run = run.fails(3, "1 of 4 keys not there");
    assert_eq!(run.out, "bob\t\ncarol\nalice\t1 2\nalice\t1 2\n");
    sandbox.write("keys", "616c696365\n");
    let out = sandbox.firn("table mget t keys --hex --separator ' = '").ok().out;
    assert_eq!(out, "alice = 1 2\n");
    let run = sandbox.firn_with("table mget t - --json", b"x\nalice\n").fails(3, "1 of 2 keys");
    let lines = run.json();
    assert_eq!((&lines[0]["key"], &lines[0]["found"]), (&"x".into(), &false.into()));
    assert_eq!((&lines[1]["found"], &lines[1]["value"]), (&true.into(), &"1 2".into()));
    // More keys than fit into one batch.
    let keys: String = (0..10_000).map(|i| format!("{}\n", ["alice", "bob"][i % 2])).collect();
    let out = sandbox.firn_with("table mget t", keys.as_bytes()).ok().out;
    assert_eq!(out, "alice\t1 2\nbob\t\n".repeat(5000));
    sandbox.firn("table mget t nowhere").fails(3, "nowhere");
    sandbox.write("bad", "616c696365\n0g\n");
    sandbox.firn("table mget t bad --hex").fails(2, "bad:2: ");
}

#[test]
fn records_are_scanned_in_three_formats() {
    let sandbox = small();
    let sorted = |line: &str| {
        let out = sandbox.firn(line).ok().out;
        let mut lines: Vec<String> = out.lines().map(str::to_string).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted("table scan t"), ["alice\t1 2", "bob\t"]);
    assert_eq!(sorted("table scan t --separator ;"), ["alice;1 2", "bob;"]);
    assert_eq!(sorted("table scan t --keys-only"), ["alice", "bob"]);
    assert_eq!(sorted("table scan t --format csv"), ["alice,1 2", "bob,", "key,value"]);
    assert_eq!(sorted("table scan t --format csv --keys-only"), ["alice", "bob", "key"]);
    let lines = ["{\"key\":\"alice\",\"value\":\"1 2\"}", "{\"key\":\"bob\",\"value\":\"\"}"];
    assert_eq!(sorted("table scan t --json"), lines);
    assert_eq!(sorted("table scan t --format jsonl"), lines);
    assert_eq!(
        sorted("table scan t --json --keys-only"),
        ["{\"key\":\"alice\"}", "{\"key\":\"bob\"}"]
    );
    assert_eq!(sorted("table scan t --limit 1").len(), 1);
    assert_eq!(sorted("table scan t --limit 0").len(), 0);
    // The output of a scan can be built again.
    let out = sandbox.firn("table scan t --format csv").ok().out;
    sandbox.firn_with("table build -i - --format csv --key key -o u", out.as_bytes()).ok();
    assert_eq!(content(&sandbox, "u"), content(&sandbox, "t"));
}

#[test]
fn values_under_an_unknown_schema_are_bytes() {
    let sandbox = Sandbox::new();
    for (schema, noted) in [("message Row { int64 n = 1; }", true), ("", false)] {
        let options = BuildOptions::new().value_schema(schema);
        let mut builder = TableBuilder::create_with(sandbox.path("t"), options).unwrap();
        builder.add(b"a", b"text").unwrap();
        builder.finish().unwrap();
        let run = sandbox.firn("table get t a").ok();
        assert_eq!(run.out, "text\n");
        assert_eq!(run.err.contains("t: values are shown as bytes"), noted, "{}", run.err);
    }
}

#[test]
fn a_scan_to_a_closed_pipe_is_no_error() {
    let sandbox = Sandbox::new();
    let text: String = (0..50_000).map(|i| format!("{i} {i}\n")).collect();
    sandbox.firn_with("table build -i - -o t", text.as_bytes()).ok();
    for line in ["table scan t", "table scan t --format csv", "table scan t --json"] {
        sandbox.firn_unread(line);
    }
}

#[test]
fn tables_are_described_and_verified() {
    let sandbox = small();
    let stats = sandbox.firn("table stats t").ok().out;
    assert!(stats.contains("records") && stats.contains("4.0 KiB"), "{stats}");
    let json = sandbox.firn("table stats t --json").ok().json();
    let named = |name: &str| json[0][name].as_u64().unwrap();
    assert_eq!((named("records"), named("key_bytes"), named("value_bytes")), (2, 8, 3));
    assert_eq!(named("file_bytes"), std::fs::metadata(sandbox.path("t")).unwrap().len());
    assert!(json[0]["value_schema"].is_null());
    let seen = sandbox.firn("inspect t --json").ok().json();
    assert_eq!((&seen[0]["kind"], &seen[0]["facts"]["records"]), (&"table".into(), &"2".into()));
    assert!(sandbox.firn("inspect t --sections").ok().out.contains("directory"));
    for line in ["verify t", "table verify t"] {
        assert!(sandbox.firn(line).ok().out.ends_with("all well\n"));
        assert_eq!(sandbox.firn(&format!("{line} --json")).ok().json()[0]["files"], 1);
    }
}

#[test]
fn damaged_and_foreign_files_are_refused() {
    let sandbox = small();
    let bytes = std::fs::read(sandbox.path("t")).unwrap();
    let mut wrong = 0;
    for at in (0..bytes.len()).step_by(197) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        sandbox.write("damaged", &damaged);
        let run = sandbox.firn("table verify damaged");
        assert!(run.code == 6 || run.code == 7, "byte {at}: {} {}", run.code, run.err);
        assert!(run.err.contains("damaged"), "byte {at}: {}", run.err);
        let run = sandbox.firn("table get damaged alice");
        wrong += u32::from(run.code != 0);
        assert!(run.code != 0 || run.out == "1 2\n", "byte {at}: {}", run.out);
    }
    assert!(wrong > 5, "{wrong}");
    for cut in [0, 1, 63, bytes.len() - 1] {
        sandbox.write("cut", &bytes[..cut]);
        sandbox.firn("table get cut alice").fails(6, "cut");
        sandbox.firn("inspect cut").fails(6, "cut");
    }
    sandbox.firn("table stats a.txt").fails(2, "not a file of FirnDB");
    sandbox.write("data.csv", crate::csv());
    sandbox.firn("search build data.csv -o c").ok();
    let entries = std::fs::read_dir(sandbox.path("c")).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    let partition = names.into_iter().find(|name| name.starts_with("main.")).unwrap();
    sandbox
        .firn(&format!("table verify c/{partition}"))
        .fails(2, "this is a partition of a collection");
}

#[test]
fn gets_are_timed_after_their_values_were_compared() {
    let sandbox = Sandbox::new();
    let text: String = (0..5000).map(|i| format!("{i} value {i}\n")).collect();
    sandbox.firn_with("table build -i - -o t --filter 8", text.as_bytes()).ok();
    let lines = sandbox.firn("table bench t --gets 3000 --threads 2 --json").ok().json();
    assert_eq!(lines.len(), 4);
    assert!(lines.iter().all(|line| line["per_second"].as_f64().unwrap() > 0.0), "{lines:?}");
    assert!(lines[0]["median_seconds"].as_f64() <= lines[0]["longest_seconds"].as_f64());
    let out = sandbox.firn("table bench t --gets 100 --access direct").ok().out;
    assert!(out.contains("present") && out.contains("100 gets of each kind"), "{out}");
    sandbox.firn_with("table build -i - -o none", b"").ok();
    sandbox.firn("table bench none").fails(2, "empty");
}

#[test]
fn help_and_completions_include_tables() {
    let sandbox = Sandbox::new();
    assert!(sandbox.firn("table --help").ok().out.contains("mget"));
    assert!(sandbox.firn("table build --help").ok().out.contains("--verify-input"));
    for shell in ["bash", "zsh", "fish"] {
        assert!(sandbox.firn(&format!("completions {shell}")).ok().out.contains("verify-input"));
    }
    sandbox.firn("table gte t a").fails(2, "a similar subcommand exists");
    sandbox.firn("bench t").fails(2, "firn table bench ..., firn log bench ...");
}
