//! Dialects of CSV and TSV, encodings, long rows, and keys of several columns or of row numbers, in
//! every command that reads files.

use super::Sandbox;
use std::collections::BTreeSet;
use std::fs;

/// The rows of a table as JSON, in the order of their keys.
fn rows(sandbox: &Sandbox, table: &str) -> Vec<String> {
    let run = sandbox.firn(&format!("table scan {table} --json")).ok();
    let mut lines: Vec<String> = run.out.lines().map(str::to_string).collect();
    lines.sort();
    lines
}

#[test]
fn the_options_are_those_of_the_page() {
    let page = include_str!("../../../../docs/cli.md");
    let table = page.split("| option | formats | meaning |").nth(1).unwrap();
    let lines = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let name = |line: &str| line.split(['`', ' ']).nth(2).unwrap().to_string();
    let documented: BTreeSet<String> = lines.map(name).collect();
    let sandbox = Sandbox::new();
    let options = |command: &str| {
        let help = sandbox.firn(&format!("{command} --help")).ok().out;
        let lines = help.lines().skip_while(|line| *line != "Reading the inputs:").skip(1);
        let section = lines.take_while(|line| line.is_empty() || line.starts_with(' '));
        let names = section.filter_map(|line| {
            let (before, name) = line.split_once("--")?;
            let is_option = before.trim().is_empty() || before.trim().starts_with('-');
            is_option.then(|| format!("--{}", name.split([' ', '=']).next().unwrap_or_default()))
        });
        names.collect::<BTreeSet<String>>()
    };
    let commands =
        ["table build", "log load", "search build", "search replace", "index apply"].map(options);
    let shared =
        commands.iter().skip(1).fold(commands[0].clone(), |shared, options| &shared & options);
    let others: BTreeSet<String> =
        ["--format", "--on-error", "--separator"].iter().map(|name| name.to_string()).collect();
    assert_eq!(&shared - &others, documented);
}

#[test]
fn dialects_are_read_by_every_command() {
    let sandbox = Sandbox::new();
    let text = "exported\n# by hand\nk;v;w\n'a';\\'x\\';1\n# no row\nb;'y;';\n";
    sandbox.write("a.csv", text);
    let options = "--skip-lines 1 --comment # --delimiter ; --quote ' --escape \\";
    let run = |command: &str| {
        let mut line: Vec<String> = command.split(' ').map(str::to_string).collect();
        line.extend(options.split(' ').map(str::to_string));
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_firn"))
            .args(line)
            .current_dir(&sandbox.0)
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run("table build a.csv -o t --key k");
    let expected =
        [r#"{"key":"a","value":{"v":"'x'","w":1}}"#, r#"{"key":"b","value":{"v":"y;","w":null}}"#];
    assert_eq!(rows(&sandbox, "t"), expected);
    run("log load s a.csv --key k --value v");
    assert_eq!(sandbox.firn("log get s b").ok().out, "y;\n");
    run("search build a.csv -o c");
    assert_eq!(sandbox.firn("search count c 'w is null'").ok().out, "1\n");
    sandbox.write("schema.toml", "[fields]\nk = \"string full\"\nv = \"string full\"\n");
    sandbox.firn("index init i --schema schema.toml --partitions 1").ok();
    run("index apply i main a.csv --key k");
    assert_eq!(sandbox.firn("search count i 'v = \"y;\"'").ok().out, "1\n");
}

#[test]
fn rows_without_a_header_and_short_rows() {
    let sandbox = Sandbox::new();
    sandbox.write("a.csv", "1,x\n2\n");
    let run = sandbox.firn("table build a.csv -o t --no-header --key column1 --record");
    run.fails(2, "a.csv:2: the row has 1 value where the first row has 2");
    let build = "table build a.csv -o t --no-header --ragged fill --key column1 --record";
    sandbox.firn(build).ok();
    let expected =
        [r#"{"key":"1","value":{"column2":"x"}}"#, r#"{"key":"2","value":{"column2":null}}"#];
    assert_eq!(rows(&sandbox, "t"), expected);
    // pandas does not name the column of its index, and spreadsheets end lines with delimiters.
    sandbox.write("pandas.csv", ",a,\n0,x,\n1,\"\",\n");
    sandbox.firn("search build pandas.csv -o c").ok();
    assert_eq!(sandbox.firn("search scan c").ok().out, "column1,a\n0,x\n1,\"\"\n");
    sandbox.write("spaces.csv", "k, v\n1,x\n");
    let run = sandbox.firn("table build spaces.csv -o u --key k --value v");
    run.fails(2, "there is no column `v`; columns are k, ` v`");
}

#[test]
fn encodings_are_converted_in_every_text_format() {
    let sandbox = Sandbox::new();
    let wide = |text: &str| -> Vec<u8> { text.encode_utf16().flat_map(u16::to_le_bytes).collect() };
    let latin = |text: &str| -> Vec<u8> { text.chars().map(|c| c as u8).collect() };
    let formats = [
        ("csv", "k,v\n\u{e9},\"\u{a0a} x\"\n"),
        ("tsv", "k\tv\n\u{e9}\t\u{a0a} x\n"),
        ("jsonl", "{\"k\":\"\u{e9}\",\"v\":\"\u{a0a} x\"}\n"),
        ("txt", "\u{e9} \u{a0a} x\n"),
    ];
    for (end, text) in formats {
        let key = if end == "txt" { "" } else { "--key k" };
        sandbox.write(&format!("a.{end}"), wide(text));
        sandbox.firn(&format!("table build a.{end} -o {end} {key} --encoding utf-16le")).ok();
        let value = sandbox.firn(&format!("table get {end} \u{e9}")).ok().out;
        assert_eq!(value, "\u{a0a} x\n", "{end}");
        // A byte order mark says it, too; text without an encoding is bytes.
        if end != "txt" {
            sandbox.write(&format!("b.{end}"), wide(&format!("\u{feff}{text}")));
            sandbox.firn(&format!("table build b.{end} -o b-{end} {key}")).ok();
            assert_eq!(rows(&sandbox, &format!("b-{end}")), rows(&sandbox, end));
        }
        let text = text.replace('\u{a0a}', "\u{e4}");
        sandbox.write(&format!("c.{end}"), latin(&text));
        sandbox.firn(&format!("table build c.{end} -o c-{end} {key} -e latin1")).ok();
        assert_eq!(sandbox.firn(&format!("table get c-{end} \u{e9}")).ok().out, "\u{e4} x\n");
        let line = if end.ends_with("sv") { 2 } else { 1 };
        let run = sandbox.firn(&format!("table build c.{end} -o d-{end} {key} -e utf-8"));
        run.fails(2, &format!("c.{end}:{line}: the"));
    }
    sandbox
        .firn("table build a.csv -o x --key k -e klingon")
        .fails(2, "not the name of an encoding");
}

#[test]
fn long_rows_end_the_command_within_bounded_memory() {
    let sandbox = Sandbox::new();
    let long = "x".repeat(3000);
    sandbox.write("a.csv", format!("k,v\n1,y\n2,\"{long}\n{long}"));
    sandbox.write("a.tsv", format!("k\tv\n1\ty\n2\t{long}\n"));
    sandbox.write("a.jsonl", format!("{{\"k\":1,\"v\":\"y\"}}\n{{\"k\":2,\"v\":\"{long}\"}}\n"));
    sandbox.write("a.txt", format!("1 y\n2 {long}\n"));
    for (name, line) in [("a.csv", 3), ("a.tsv", 3), ("a.jsonl", 2), ("a.txt", 2)] {
        let key = if name == "a.txt" { "" } else { "--key k" };
        let message = format!("{name}:{line}: the row is longer than 1024 bytes");
        let options = format!("{key} --max-row 1K --on-error skip");
        sandbox.firn(&format!("table build {name} -o t {options}")).fails(2, &message);
        sandbox.firn(&format!("log load s {name} {options}")).fails(2, &message);
        if name != "a.txt" {
            let run = sandbox.firn(&format!("search build {name} -o c --max-row 1K"));
            run.fails(2, &message);
        }
        fs::remove_dir_all(sandbox.path("s")).ok();
    }
    sandbox.write("b.tsv", format!("k\tv\n2\t{long}\n"));
    sandbox.firn("table build b.tsv -o t --key k --max-row 1M").ok();
    sandbox.firn("table export t -o t.parquet").ok();
    let run = sandbox.firn("table build t.parquet -o u --key key --max-row 1K");
    run.fails(2, "t.parquet:1: the row is longer than 1024 bytes");
    let run = sandbox.firn("search build t.parquet -o d --max-row 1K");
    run.fails(2, "t.parquet:1: the row is longer than 1024 bytes");
}

#[test]
fn keys_of_several_columns_and_of_row_numbers() {
    let sandbox = Sandbox::new();
    sandbox.write("a.csv", "a,b,v\nx,1,one\nx,2,two\n");
    sandbox.write(
        "a.jsonl",
        "{\"a\":\"x\",\"b\":1,\"v\":\"one\"}\n{\"a\":\"x\",\"b\":2,\"v\":\"two\"}\n",
    );
    sandbox.firn("table build a.csv -o csv --key a,b").ok();
    sandbox.firn("table export csv -o values.parquet").ok();
    sandbox.firn("search build a.csv -o c --payload none").ok();
    sandbox.firn("search export c -o a.parquet").ok();
    for end in ["csv", "jsonl", "parquet"] {
        sandbox.firn(&format!("table build a.{end} -o t-{end} --key a,b")).ok();
        assert_eq!(sandbox.firn(&format!("table get t-{end} x\u{1f}2")).ok().out, "two\n");
        sandbox.firn(&format!("log load s-{end} a.{end} --key a,b --value v")).ok();
        assert_eq!(sandbox.firn(&format!("log get s-{end} x\u{1f}1")).ok().out, "one\n");
        sandbox
            .firn(&format!("table build a.{end} a.{end} -o n-{end} --row-number --value v"))
            .ok();
        for (number, value) in [(1, "one"), (2, "two"), (3, "one"), (4, "two")] {
            let found = sandbox.firn(&format!("table get n-{end} {number}")).ok().out;
            assert_eq!(found, format!("{value}\n"), "{end}");
        }
        sandbox.firn(&format!("log load m-{end} a.{end} --row-number --value v")).ok();
        assert_eq!(sandbox.firn(&format!("log get m-{end} 2")).ok().out, "two\n");
    }
    sandbox.write("a.txt", "first line\nsecond\n\n");
    sandbox.firn("table build a.txt -o lines --row-number").ok();
    assert_eq!(sandbox.firn("table get lines 1").ok().out, "first line\n");
    sandbox.write("b.csv", "a,b,v\n,1,one\n\"x\u{1f}\",2,two\n");
    let run = sandbox.firn("table build b.csv -o t --key a,b --on-error skip").ok();
    assert!(run.err.contains("b.csv:2: column `a`: there is no value"), "{}", run.err);
    assert!(run.err.contains("b.csv:3: column `a`: the value holds the character"), "{}", run.err);
    sandbox.firn("table build a.csv -o u --key a,a").fails(2, "--key names `a` twice");
    sandbox.firn("table build a.csv -o u --key a,q").fails(2, "there is no column `q`");
    sandbox.firn("table build a.csv -o u --key a --row-number").fails(2, "--row-number");
}

#[test]
fn columns_that_a_schema_does_not_name_hold_anything() {
    let sandbox = Sandbox::new();
    let lines = "{\"id\":1,\"at\":{\"coordinates\":[[1.0,2],[3]]},\"parts\":[{\"a\":1}]}\n";
    sandbox.write("a.jsonl", lines);
    sandbox.write("s.toml", "[fields]\nid = \"i64 full\"\n");
    let run = sandbox.firn("search build a.jsonl -o c --schema s.toml").ok();
    assert!(run.err.contains("column `parts` (1 row) is not in the schema"), "{}", run.err);
    // The payload keeps them.
    assert_eq!(sandbox.firn("search query c --payload").ok().out, lines);
    // Without a schema they are no fields.
    let run = sandbox.firn("search build a.jsonl -o d").ok();
    assert!(run.err.contains("column `at.coordinates` (1 row)"), "{}", run.err);
    assert_eq!(sandbox.firn("search scan d").ok().out, "id\n1\n");
    sandbox.write("t.toml", "[fields]\nid = \"i64 full\"\nparts = \"i64 stored multi\"\n");
    let run = sandbox.firn("search build a.jsonl -o e --schema t.toml");
    run.fails(2, "a.jsonl:1: column `parts`: an array may hold");
}

#[test]
fn json_columns_keep_all_digits() {
    let sandbox = Sandbox::new();
    let values = ["0.12345678901234567891", "100000000000000000000", "1.50", "[1e400,-0.0]"];
    let lines: String =
        (0..).zip(values).map(|(k, v)| format!("{{\"k\":{k},\"v\":{v}}}\n")).collect();
    sandbox.write("a.jsonl", lines);
    sandbox.firn("table build a.jsonl -o t --key k --value v:json --record --verify-input").ok();
    for (key, value) in values.iter().enumerate() {
        let shown = sandbox.firn(&format!("table get t {key}")).ok().out;
        assert_eq!(shown.replace("e+", "e"), format!("{{\"v\":{value}}}\n"));
    }
}

#[test]
fn a_link_that_leads_nowhere_is_an_error() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("d")).unwrap();
    sandbox.write("d/a.csv", "k,v\n1,x\n");
    std::os::unix::fs::symlink("/nowhere/b.csv", sandbox.path("d/b.csv")).unwrap();
    for command in ["table build d -o t --key k", "log load s d --key k", "search build d -o c"] {
        sandbox.firn(command).fails(3, "d/b.csv");
    }
    for store in ["t", "s", "c"] {
        assert!(!sandbox.path(store).exists(), "{store}");
    }
}

#[test]
fn damaged_compression_is_corrupt_data() {
    let sandbox = Sandbox::new();
    let rows: String = (0..5000).map(|n| format!("{n},value {}\n", n * 7919 % 5000)).collect();
    sandbox.write("a.csv", format!("k,v\n{rows}"));
    sandbox.firn("table build a.csv -o t --key k").ok();
    for end in ["csv.gz", "csv.zst", "jsonl.gz", "tsv.zst"] {
        sandbox.firn(&format!("table export t -o x.{end}")).ok();
        let mut bytes = fs::read(sandbox.path(&format!("x.{end}"))).unwrap();
        bytes.truncate(bytes.len() - 10);
        sandbox.write(&format!("y.{end}"), bytes);
        let run = sandbox.firn(&format!("table build y.{end} -o u --key key"));
        run.fails(6, "data is damaged");
        sandbox.firn(&format!("search build y.{end} -o c")).fails(6, &format!("y.{end}"));
    }
    let bytes = fs::read(sandbox.path("x.csv.gz")).unwrap();
    sandbox.write("keys.gz", &bytes[..bytes.len() / 2]);
    sandbox.firn("table mget t keys.gz").fails(6, "the gzip data is damaged");
}

#[test]
fn queries_are_read_from_files_and_from_standard_input() {
    let sandbox = Sandbox::with_collection();
    let ids: Vec<String> = (0..60_000).map(|id| id.to_string()).collect();
    let list = format!("id in ({})\n", ids.join(", "));
    sandbox.write("q.txt", &list);
    let all = sandbox.firn("search count c").ok().out;
    assert_eq!(sandbox.firn("search count c --query-file q.txt").ok().out, all);
    assert_eq!(sandbox.firn_with("search count c --query-file -", list.as_bytes()).ok().out, all);
    for command in ["query", "explain", "scan", "export", "facets --by region", "group --by region"]
    {
        let (verb, options) = command.split_once(' ').unwrap_or((command, ""));
        let from_file = format!("search {verb} c --query-file s.txt {options} --json");
        sandbox.write("s.txt", "id = 7");
        let found = sandbox.firn(&from_file).ok().out;
        let given = sandbox.firn(&format!("search {verb} c 'id = 7' {options} --json")).ok().out;
        let without_time = |text: &str| {
            let end = text.find("\"elapsed_seconds\"").unwrap_or(text.len());
            text[..end].to_string()
        };
        assert_eq!(without_time(&found), without_time(&given), "{command}");
    }
    sandbox.firn("search count c 'id = 1' --query-file q.txt").fails(2, "leave one out");
    sandbox.firn("search count c --query-file none.txt").fails(3, "none.txt");
    sandbox.write("bad.txt", "id = = 7");
    sandbox.firn("search count c --query-file bad.txt").fails(2, "id = = 7");
    sandbox.write("bytes.txt", b"\xff");
    sandbox.firn("search count c --query-file bytes.txt").fails(2, "not valid UTF-8");
}

#[test]
fn prefixes_and_lines_of_keys() {
    let sandbox = Sandbox::new();
    sandbox.write("a.csv", "key,value\nff00,01\n6162,02\n");
    sandbox.firn("log load s a.csv --hex").ok();
    assert_eq!(sandbox.firn("log scan s --hex --prefix ff").ok().out, "ff00\t01\n");
    assert_eq!(sandbox.firn("log scan s --hex --prefix 61").ok().out, "6162\t02\n");
    assert_eq!(sandbox.firn("log list s --prefix a").ok().out, "ab\n");
    sandbox.firn("log scan s --hex --prefix f").fails(2, "not hexadecimal digits");
    let run = sandbox.firn_with("log mget s --json", b"\nab\r\n\r\n\n").ok();
    assert_eq!(run.json().len(), 2, "{}", run.out);
    assert_eq!(run.json()[1]["summary"]["keys"], 1);
    sandbox.firn("log put s '' empty").ok();
    assert_eq!(sandbox.firn_with("log mget s --hex", b"0x\n").ok().out, "\tempty\n");
    let long = vec![b'k'; 2 << 20];
    sandbox.firn_with("log mget s", &long).fails(2, "standard input:1: the line is longer");
}

#[test]
fn messages_say_what_to_do_about_json_that_is_not_lines() {
    let sandbox = Sandbox::new();
    sandbox.write("pretty.json", "{\n  \"k\": 1\n}\n");
    let commands = ["table build pretty.json -o t --key k", "search build pretty.json -o c"];
    for command in commands {
        sandbox
            .firn(command)
            .fails(2, "pretty.json:1: the line is not a JSON object: the object does");
    }
    sandbox.firn(commands[0]).fails(2, "`jq -c .`");
}
