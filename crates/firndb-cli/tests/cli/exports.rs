//! `export` in every group and format, `scan`, `list`, `get` and `mget`, and the detection of what
//! a path is.

use super::Sandbox;
use arrow_array::RecordBatch;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fs::{self, File};

/// A log store `s`, a table `t`, a table `rows` of rows, a collection `c` and an index `i`.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("in.csv", "key,value\na,1\nb,two\nc,\"x,\ty\"\n");
    sandbox.write("rows.csv", "id,n,x,name\n1,10,0.5,one\n2,20,,two\n");
    sandbox.firn("log load s in.csv").ok();
    sandbox.firn("table build in.csv --key key -o t").ok();
    sandbox.firn("table build rows.csv --key id --value n:long,x:double,name -o rows").ok();
    sandbox.firn("search build rows.csv -o c").ok();
    sandbox.write("schema.toml", "[fields]\nid = \"u64 full\"\nname = \"string full\"\n");
    sandbox.firn("index init i --schema schema.toml --partitions 1").ok();
    sandbox.firn("index apply i main rows.csv --key id").ok();
    sandbox
}

fn parquet(sandbox: &Sandbox, name: &str) -> Vec<RecordBatch> {
    let file = File::open(sandbox.path(name)).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
    reader.map(|batch| batch.unwrap()).collect()
}

fn arrow(sandbox: &Sandbox, name: &str) -> Vec<RecordBatch> {
    let file = File::open(sandbox.path(name)).unwrap();
    let reader = arrow_ipc::reader::StreamReader::try_new(file, None).unwrap();
    reader.map(|batch| batch.unwrap()).collect()
}

fn rows_of(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

#[test]
fn records_come_back_from_every_format() {
    let sandbox = sandbox();
    for (store, group) in [("s", "log"), ("t", "table")] {
        for end in ["csv", "tsv", "jsonl", "txt", "csv.gz", "jsonl.zst", "parquet", "arrow", "avro"]
        {
            if end == "txt" {
                // The separator is part of a value, which is no harm: the first one ends the key.
                sandbox.firn(&format!("{group} export {store} -o {store}.txt")).ok();
            } else {
                let run = sandbox.firn(&format!("{group} export {store} -o {store}.{end}")).ok();
                assert!(run.out.contains("3 records"), "{}", run.out);
            }
            let line = format!("log load {store}-{end} {store}.{end}");
            sandbox.firn(&line).ok();
            for (key, value) in [("a", "1\n"), ("b", "two\n"), ("c", "x,\ty\n")] {
                let run = sandbox.firn(&format!("log get {store}-{end} {key}")).ok();
                assert_eq!(run.out, value, "{line}");
            }
        }
        assert_eq!(rows_of(&parquet(&sandbox, &format!("{store}.parquet"))), 3);
        assert_eq!(rows_of(&arrow(&sandbox, &format!("{store}.arrow"))), 3);
    }
}

#[test]
fn rows_have_columns() {
    let sandbox = sandbox();
    sandbox.firn("table export rows -o rows.tsv").ok();
    let mut lines: Vec<String> =
        fs::read_to_string(sandbox.path("rows.tsv")).unwrap().lines().map(String::from).collect();
    lines[1..].sort_unstable();
    assert_eq!(lines, ["key\tn\tx\tname", "1\t10\t0.5\tone", "2\t20\t\ttwo"]);
    sandbox.firn("table export rows -o out.parquet").ok();
    let batches = parquet(&sandbox, "out.parquet");
    let schema = batches[0].schema();
    let types: Vec<String> =
        schema.fields().iter().map(|f| format!("{}:{}", f.name(), f.data_type())).collect();
    assert_eq!(types, ["key:Binary", "n:Int64", "x:Float64", "name:Utf8"]);
    assert_eq!((rows_of(&batches), batches[0].column(2).null_count()), (2, 1));
}

#[test]
fn documents_are_exported() {
    let sandbox = sandbox();
    for (group, store) in [("search", "c"), ("index", "i")] {
        for end in ["csv", "tsv", "jsonl", "parquet", "arrow"] {
            let line = format!("{group} export {store} -o {store}.{end} --fields id,name");
            let run = sandbox.firn(&line).ok();
            assert!(run.out.contains("2 documents"), "{line}: {}", run.out);
            match end {
                "parquet" => assert_eq!(rows_of(&parquet(&sandbox, &format!("{store}.{end}"))), 2),
                "arrow" => assert_eq!(rows_of(&arrow(&sandbox, &format!("{store}.{end}"))), 2),
                _ => {
                    sandbox.firn(&format!("search build {store}.{end} -o {store}-{end}")).ok();
                    let count = format!("search count {store}-{end} 'name = \"two\"'");
                    assert_eq!(sandbox.firn(&count).ok().out, "1\n", "{line}");
                }
            }
        }
    }
    // No document: the file has the schema.
    sandbox.firn("search export c 'id = 7' -o none.parquet --fields id").ok();
    assert_eq!(rows_of(&parquet(&sandbox, "none.parquet")), 0);
    sandbox.firn("search export c -o c.txt").fails(2, "documents have fields");
}

#[test]
fn names_that_say_no_format_are_refused() {
    let sandbox = sandbox();
    for line in ["log export s", "table export t", "search export c", "index export i", "export s"]
    {
        for name in ["out", "out.xlsx", "out.gz"] {
            sandbox.firn(&format!("{line} -o {name}")).fails(2, "does not say the format");
            assert!(!sandbox.path(name).exists());
        }
        sandbox.firn(&format!("{line} -o out.parquet.gz")).fails(2, "not compressed as a whole");
        sandbox.firn(&format!("{line} -o out --format jsonl")).ok();
        sandbox.firn(&format!("{line} -o out --format csv")).fails(4, "--force");
        sandbox.firn(&format!("{line} -o out --format csv --force")).ok();
        fs::remove_file(sandbox.path("out")).unwrap();
        // Standard output, in JSON lines.
        assert!(sandbox.firn(line).ok().json().len() >= 2, "{line}");
    }
}

#[test]
fn records_that_expire_are_exported_with_their_times() {
    let sandbox = Sandbox::new();
    sandbox.firn("log put s k v --ttl 1d").ok();
    for end in ["csv", "tsv", "txt", "parquet", "arrow"] {
        sandbox.firn(&format!("log export s -o x.{end}")).fails(2, "expires");
        assert!(!sandbox.path(&format!("x.{end}")).exists());
        let run = sandbox.firn(&format!("log export s -o x.{end} --without-expiry")).ok();
        assert!(run.err.contains("the expiry times of 1 record were not written"), "{}", run.err);
    }
    sandbox.firn("log export s -o x.jsonl").ok();
    sandbox.firn("log load again x.jsonl").ok();
    let times = ["s", "again"].map(|store| {
        let json = sandbox.firn(&format!("log get {store} k --json")).ok().json();
        json[0]["expires_at"].as_u64().unwrap()
    });
    assert_eq!(times[0], times[1]);
}

#[test]
fn keys_are_listed_and_looked_up_in_tables_and_logs() {
    let sandbox = sandbox();
    sandbox.write("keys", "a\nnone\nb\n");
    for (group, store) in [("log", "s"), ("table", "t")] {
        let list = sandbox.firn(&format!("{group} ls {store}")).ok().out;
        let mut keys: Vec<&str> = list.lines().collect();
        keys.sort_unstable();
        assert_eq!(keys, ["a", "b", "c"], "{group}");
        let run = sandbox.firn(&format!("{group} mget {store} keys")).fails(3, "1 of 3 keys");
        assert_eq!(run.out, "a\t1\nnone\nb\ttwo\n", "{group}");
        let json = sandbox.firn(&format!("{group} mget {store} keys --json")).json();
        assert_eq!(json[1], serde_json::json!({ "key": "none", "found": false }));
        assert_eq!(json[3], serde_json::json!({ "summary": { "keys": 3, "absent": 1 } }));
        let run = sandbox.firn(&format!("{group} get {store} none --json")).fails(3, "no key");
        assert_eq!(run.json()[0], serde_json::json!({ "key": "none", "found": false }));
        let tsv = sandbox.firn(&format!("{group} scan {store} --format tsv --limit 1")).ok().out;
        assert!(tsv.starts_with("key\tvalue\n"), "{tsv}");
    }
}

#[test]
fn a_path_is_detected() {
    let sandbox = sandbox();
    sandbox.firn("catalog publish cat words t").ok();
    for (line, same) in [
        ("get s a", "log get s a"),
        ("get t a --json", "table get t a --json"),
        ("--json get t a", "table get t a --json"),
        ("get t --hex 61", "table get t a"),
        ("ls s", "log list s"),
        ("list c", "search list c"),
        ("list i", "index list i"),
        ("list cat", "catalog list cat"),
        ("scan c --format tsv", "search scan c --format tsv"),
        ("scan i", "index scan i"),
        ("dump s", "log export s"),
        ("stats t", "table stats t"),
        ("stats c --json", "search stats c --json"),
        ("stats cat", "catalog stats cat"),
        ("stats i --json", "index stats i --json"),
        ("get s", "log get s"),
    ] {
        let (run, other) = (sandbox.firn(line), sandbox.firn(same));
        assert_eq!((run.code, &run.out, &run.err), (other.code, &other.out, &other.err), "{line}");
    }
    for path in ["s", "t", "rows", "c", "i", "cat"] {
        assert!(sandbox.firn(&format!("verify {path}")).ok().out.ends_with("all well\n"));
    }
    for path in ["s", "t", "c", "i"] {
        sandbox.firn(&format!("inspect {path}")).ok();
    }
    sandbox.firn("get c a").fails(2, "this is a collection, which has no `get`");
    sandbox.firn("get nowhere a").fails(3, "nowhere");
    sandbox.firn("stats in.csv").fails(2, "not a file of FirnDB");
    assert!(sandbox.firn("get --help").ok().out.contains("`firn log get users alice`"));
}

#[test]
fn approximate_tables_are_built_and_read() {
    let sandbox = Sandbox::new();
    let lines: String = (0..1000).map(|n| format!("key-{n}\t{n:04}\n")).collect();
    sandbox.write("in.txt", &lines);
    let built = sandbox
        .firn("table build in.txt -s '\\t' -o a --approximate --value-width 4 --verify-input")
        .ok();
    assert!(built.out.contains("1,000 records") && built.out.contains("compared"), "{}", built.out);
    assert_eq!(sandbox.firn("table get a key-17").ok().out, "0017\n");
    assert_eq!(sandbox.firn("get a key-17 --raw").ok().out, "0017");
    sandbox.firn("get a absent").fails(3, "no key");
    sandbox.write("keys", "key-1\nabsent\n");
    assert_eq!(sandbox.firn("mget a keys").fails(3, "1 of 2").out, "key-1\t0001\nabsent\n");
    let stats = sandbox.firn("stats a --json").ok().json();
    assert_eq!((&stats[0]["records"], &stats[0]["value_width_bytes"]), (&1000.into(), &4.into()));
    sandbox.firn("verify a").ok();
    sandbox.firn("table verify a").ok();
    sandbox.firn("inspect a").ok();
    for line in ["scan a", "list a", "export a", "table bench a"] {
        sandbox.firn(line).fails(2, "does not store its keys");
    }
    sandbox.firn("catalog publish cat words a").ok();
    sandbox.firn("catalog verify cat words").ok();
    // From a log store, and mistakes.
    sandbox.firn("log load s in.txt").ok();
    sandbox.firn("log freeze s -o b -a --value-width 4").ok();
    assert_eq!(sandbox.firn("get b key-999").ok().out, "0999\n");
    sandbox.firn("log freeze s -o x -a").fails(2, "a value of 4 bytes");
    sandbox.firn("table build in.txt -o x -a --filter 8").fails(2, "--filter");
    sandbox.firn("table build in.txt -o x --value-width 4").fails(2, "--approximate");
    assert!(!sandbox.path("x").exists());
}

#[test]
fn stores_take_options() {
    let sandbox = Sandbox::new();
    let options = "--segment-size 64K --append write --access buffered --compaction-threshold 0.3";
    sandbox.firn(&format!("log put s k v {options} --checkpoint-size 1M")).ok();
    let lines: String = (0..20_000).map(|n| format!("key-{n}\tvalue {n}\n")).collect();
    sandbox.firn_with(&format!("log load s {options}"), lines.as_bytes()).ok();
    let stats = sandbox.firn("log stats s --json").ok().json();
    assert!(stats[0]["segments"].as_u64() > Some(5), "{}", stats[0]);
    sandbox.firn(&format!("log compact s {options} --threshold 0")).ok();
    sandbox.firn("log verify s").ok();
    sandbox.firn("log put s k v --segment-size 1K").fails(2, "segment_bytes");
    sandbox.firn("log put s k v --segment-size 65536").fails(2, "has no unit");
}

#[test]
fn numbers_without_units_are_errors() {
    let sandbox = sandbox();
    for (line, right) in [
        ("log put s k v --ttl 5", "5s"),
        ("log load s in.csv --checkpoint-size 64", "64M"),
        ("table build in.csv --key key -o x --memory 64", "64M"),
        ("search build in.csv -o x --memory 64", "64M"),
        ("search compact c --unchanged-for 10", "10s"),
        ("search compact c --every 10", "10s"),
        ("search compact c --most-size 10", "10M"),
        ("index backup i -o x --wait 5", "5s"),
        ("catalog gc cat --grace 5", "5s"),
        ("catalog watch cat words -o x --every 5", "5s"),
    ] {
        sandbox.firn(line).fails(2, &format!("write {right}"));
        assert!(!sandbox.path("x").exists(), "{line}");
    }
    // Bytes are the only unit of a block.
    sandbox.firn("table build in.csv --key key -o x --block-size 8192").ok();
}
