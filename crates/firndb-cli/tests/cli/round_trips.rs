//! What `export` writes as CSV, TSV and JSON lines, the commands that build read back: every type
//! with its extremes, or a refusal that names the value and another format.

use super::Sandbox;
use std::fs;

/// Texts that formats could take for something else.
const TEXTS: [&str; 22] = [
    "",
    " ",
    "a,b",
    "a\tb",
    "\"",
    "\"a\"",
    "a\nb",
    "a\r\nb",
    "\r",
    "\n",
    "\0",
    "\\N",
    "NA",
    "null",
    "#",
    "\u{feff}x",
    "007",
    "1",
    "true",
    "2024-01-01",
    "x|y",
    "\u{1f600}",
];

/// Documents of all types, as JSON lines.
fn documents() -> String {
    let mut lines = Vec::new();
    for (n, text) in TEXTS.iter().enumerate() {
        lines.push(serde_json::json!({ "id": n, "s": text }));
    }
    for (column, values) in [
        ("i", vec!["-9223372036854775808", "9223372036854775807", "0", "-1"]),
        ("u", vec!["18446744073709551615", "0"]),
        ("f", vec!["5e-324", "-5e-324", "1.7976931348623157e308", "0.1", "-0.5", "123456789.125"]),
        ("b", vec!["true", "false"]),
        ("y", vec!["\"\"", "\"00\"", "\"ff0a2c22\""]),
        ("t", vec!["\"0001-01-01T00:00:00Z\"", "\"9999-12-31T23:59:59.999999Z\""]),
        ("m", vec!["[\"a\",\"b\"]", "[\"a,\\\"b\"]", "[\"x\\n\"]", "[]"]),
        ("n", vec!["[-1,2]", "[9223372036854775807]"]),
    ] {
        for value in values {
            let id = lines.len();
            let line = format!("{{\"id\":{id},\"{column}\":{value}}}");
            lines.push(serde_json::from_str(&line).unwrap());
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

const SCHEMA: &str = r#"[fields]
id = "u64 full"
s = "string full nullable"
i = "i64 full nullable"
u = "u64 full nullable"
f = "f64 full nullable"
b = "bool full nullable"
y = "bytes full nullable"
t = "timestamp full nullable"
m = "string filterable stored multi"
n = "i64 filterable stored multi"
"#;

#[test]
fn documents_come_back_from_every_text_format() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", SCHEMA);
    sandbox.write("a.jsonl", documents());
    sandbox.firn("search build a.jsonl -o c --schema s.toml --bytes hex --payload none").ok();
    let all = sandbox.firn("search export c").ok().out;
    assert!(all.lines().count() > 40);
    // All of it is there: a missing value is not an empty text.
    sandbox.write("empty.txt", "s = ''");
    let empty = sandbox.firn("search query c --json --query-file empty.txt").ok();
    assert_eq!(empty.json()[0]["fields"]["id"], 0);
    for end in ["csv", "tsv", "jsonl", "csv.gz"] {
        sandbox.firn(&format!("search export c -o x.{end}")).ok();
        let build = format!("search build x.{end} -o c-{end} --schema s.toml --bytes hex");
        sandbox.firn(&format!("{build} --payload none")).ok();
        assert_eq!(sandbox.firn(&format!("search export c-{end}")).ok().out, all, "{end}");
    }
}

#[test]
fn values_that_a_format_cannot_hold_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("s.toml", SCHEMA);
    for (n, values) in ["[\"a|b\",\"c\"]", "[\"a|b\"]", "[\"a\",\"\"]"].iter().enumerate() {
        sandbox.write("a.jsonl", format!("{{\"id\":1,\"m\":{values}}}\n"));
        sandbox.firn(&format!("search build a.jsonl -o c{n} --schema s.toml")).ok();
        for end in ["csv", "tsv"] {
            let run = sandbox.firn(&format!("search export c{n} -o x.{end}"));
            run.fails(2, "column `m`: the ").fails(2, "jsonl");
            assert!(!sandbox.path(&format!("x.{end}")).exists());
        }
        // `scan` prints without these checks.
        sandbox.firn(&format!("search scan c{n}")).ok();
        sandbox.firn(&format!("search export c{n} -o x{n}.jsonl")).ok();
    }
    sandbox.firn("search export c0 -o x.csv --separator ;").ok();
    let build = "search build x.csv -o d --schema s.toml --separator ;";
    sandbox.firn(build).ok();
    assert_eq!(sandbox.firn("search export d").ok().out, sandbox.firn("search export c0").ok().out);
    // A line without any text is no row.
    let run = sandbox.firn("search export c0 -o y.csv --fields s");
    run.fails(2, "a row whose only column has no value");
}

/// The records of a table as JSON lines, in the order of their keys.
fn records(sandbox: &Sandbox, table: &str) -> Vec<String> {
    let run = sandbox.firn(&format!("table scan {table} --json")).ok();
    let mut lines: Vec<String> = run.out.lines().map(str::to_string).collect();
    lines.sort();
    lines
}

#[test]
fn keys_and_values_come_back_from_every_text_format() {
    let sandbox = Sandbox::new();
    let text = |n: usize, text: &str| {
        let text = text.trim_end_matches('\r');
        serde_json::json!({ "key": format!("{n}{text}"), "value": text }).to_string() + "\n"
    };
    let lines: String = TEXTS.iter().enumerate().map(|(n, value)| text(n, value)).collect();
    sandbox.write("a.jsonl", &lines);
    sandbox.firn("table build a.jsonl -o t").ok();
    sandbox.firn("log load s a.jsonl").ok();
    let all = records(&sandbox, "t");
    assert_eq!(all.len(), TEXTS.len());
    for end in ["csv", "tsv", "jsonl"] {
        for group in ["table export t", "log export s"] {
            sandbox.firn(&format!("{group} -o x.{end} --force")).ok();
            let key = if end == "jsonl" { "" } else { "--key key" };
            sandbox.firn(&format!("table build x.{end} -o t-{end} {key} --force")).ok();
            assert_eq!(records(&sandbox, &format!("t-{end}")), all, "{group} {end}");
        }
    }
    // Keys and values that are not text.
    sandbox.write("b.jsonl", "{\"key_hex\":\"00ff2c0a22\",\"value_hex\":\"ff2c0d0a22\"}\n");
    sandbox.firn("table build b.jsonl -o b").ok();
    for end in ["csv", "tsv", "jsonl"] {
        sandbox.firn(&format!("table export b -o y.{end}")).ok();
        let key = if end == "jsonl" { "" } else { "--key key" };
        sandbox.firn(&format!("table build y.{end} -o b-{end} {key}")).ok();
        assert_eq!(records(&sandbox, &format!("b-{end}")), records(&sandbox, "b"), "{end}");
    }
    // A table cannot hold that a record expires.
    sandbox.firn("log put e k v --ttl 1d").ok();
    sandbox.firn("log export e -o e.jsonl").ok();
    sandbox.firn("table build e.jsonl -o e.firn").fails(2, "e.jsonl:1: column `expires_at`");
}

#[test]
fn rows_of_tables_come_back_from_every_text_format() {
    let sandbox = Sandbox::new();
    let mut lines = String::new();
    for (n, text) in TEXTS.iter().enumerate() {
        lines += &(serde_json::json!({ "k": n, "s": text, "j": text }).to_string() + "\n");
    }
    for (column, values) in [
        ("l", vec!["-9223372036854775808", "9223372036854775807"]),
        ("d", vec!["5e-324", "1.7976931348623157e308", "-0.0", "0.1"]),
        ("b", vec!["true", "false"]),
        ("j", vec!["1", "\"1\"", "[1.50,{\"a\":null}]", "100000000000000000000", "true", "{}"]),
    ] {
        for value in values {
            lines += &format!("{{\"k\":{},\"{column}\":{value}}}\n", lines.lines().count());
        }
    }
    sandbox.write("a.jsonl", lines);
    let types = "--value s:string,j:json,l:long,d:double,b:boolean";
    sandbox.firn(&format!("table build a.jsonl -o t --key k {types}")).ok();
    let all = records(&sandbox, "t");
    for end in ["csv", "tsv", "jsonl"] {
        sandbox.firn(&format!("table export t -o x.{end}")).ok();
        sandbox.firn(&format!("table build x.{end} -o t-{end} --key key {types}")).ok();
        assert_eq!(records(&sandbox, &format!("t-{end}")), all, "{end}");
    }
    sandbox.write("key.jsonl", "{\"k\":1,\"key\":2}\n");
    sandbox.firn("table build key.jsonl -o key --key k --record").ok();
    for end in ["csv", "jsonl"] {
        sandbox.firn(&format!("table export key -o key.{end} --force")).fails(2, "a column `key`");
    }
    let text = fs::read_to_string(sandbox.path("x.csv")).unwrap();
    assert!(text.starts_with("key,s,j,l,d,b\n"), "{text}");
}
