//! Rows without a key, in every format; what `load` counts; mistakes that create no store.

use super::{Sandbox, content, texts};
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use parquet::arrow::ArrowWriter;
use std::fs;
use std::sync::Arc;

/// Columns `k` and `v`: two rows without a key around one with it, then the empty key.
fn batch() -> RecordBatch {
    let column = |cells: [Option<&str>; 4]| Arc::new(StringArray::from(cells.to_vec())) as ArrayRef;
    let keys = column([None, Some("2"), None, Some("")]);
    let values = column([Some("first"), Some("x"), Some("second"), Some("of the empty key")]);
    RecordBatch::try_from_iter([("k", keys), ("v", values)]).unwrap()
}

fn parquet() -> Vec<u8> {
    let (mut bytes, batch) = (Vec::new(), batch());
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    bytes
}

/// Inputs whose rows 1 and 3 have no key, with the options that they need, and whether their fourth
/// row has the empty key.
fn keyless() -> Vec<(&'static str, &'static str, Vec<u8>, bool)> {
    let (mut file, mut stream, batch) = (Vec::new(), Vec::new(), batch());
    let mut writer = FileWriter::try_new(&mut file, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    let mut writer = StreamWriter::try_new(&mut stream, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    let jsonl = b"{\"v\":\"first\"}\n{\"k\":\"2\",\"v\":\"x\"}\n{\"k\":null,\"v\":\"second\"}\n\
                  {\"k\":\"\",\"v\":\"of the empty key\"}\n";
    vec![
        ("a.csv", "--key k", b"k,v\n,first\n2,x\n\"\",second\n".to_vec(), false),
        ("quoted.csv", "--key k", b"v,k\nfirst,\"\"\n\"x\",2\r\nsecond,\r\n".to_vec(), false),
        ("a.tsv", "--key k", b"k\tv\n\tfirst\n2\tx\n\tsecond\n".to_vec(), false),
        ("semicolon.csv", "--key k --delimiter ;", b"k;v\n;first\n2;x\n;second\n".to_vec(), false),
        ("a.txt", "-s =", b"=first\n2=x\n=second\n".to_vec(), false),
        ("a.jsonl", "--key k", jsonl.to_vec(), true),
        ("a.parquet", "--key k", parquet(), true),
        ("a.arrow", "--key k", file, true),
        ("a.arrows", "--key k", stream, true),
    ]
}

#[test]
fn a_row_without_a_key_is_a_bad_row_in_every_format() {
    let sandbox = Sandbox::new();
    for (n, (name, options, bytes, has_empty_key)) in keyless().into_iter().enumerate() {
        sandbox.write(name, bytes);
        // Errors give the line of the file, or its row.
        let line = |row: u64| if name.ends_with("sv") { row + 1 } else { row };
        let commands = [format!("log load s{n} {name}"), format!("table build -o t{n} -i {name}")];
        for command in &commands {
            let run = sandbox.firn(&format!("{command} {options}"));
            let run = run.fails(2, &format!("{name}:{}: ", line(1)));
            let reasons = ["no key", "no value", "no column"];
            assert!(reasons.iter().any(|why| run.err.contains(why)), "{}", run.err);
            assert!(!sandbox.path(&format!("s{n}")).exists(), "{name}: a store of nothing");
        }
        for command in &commands {
            let value = if name == "a.txt" { "" } else { "--value v" };
            let command = format!("{command} {options} {value} --on-error skip --json");
            let run = sandbox.firn(&command).ok();
            let json = run.json()[0].clone();
            let (rows, records) = if has_empty_key { (4, 2) } else { (3, 1) };
            assert_eq!((&json["rows"], &json["skipped"]), (&rows.into(), &2.into()), "{name}");
            assert_eq!(json["records"], records, "{name}");
            assert!(run.err.contains(&format!("{name}:{}: ", line(3))), "{}", run.err);
        }
        // An empty key that is written explicitly is a key like any other.
        assert_eq!(sandbox.firn(&format!("log get s{n} 2")).ok().out, "x\n", "{name}");
        let run = sandbox.firn(&format!("log get s{n} ''"));
        let found = if has_empty_key { (0, "of the empty key\n") } else { (3, "") };
        assert_eq!((run.code, run.out.as_str()), found, "{name}");
    }
}

#[test]
fn the_empty_key_is_dumped_in_formats_that_support_it() {
    let sandbox = Sandbox::new();
    sandbox.firn("log put s '' v").ok();
    for form in ["text", "csv"] {
        sandbox.firn(&format!("log dump s --format {form}")).fails(2, "an empty key");
        let hex = sandbox.firn(&format!("log dump s --format {form} --hex")).ok().out;
        let load = format!("log load {form} --format {form} --hex");
        sandbox.firn_with(&load, hex.as_bytes()).ok();
        assert_eq!(content(&sandbox, form), content(&sandbox, "s"));
        // Without hexadecimal digits, the key is missing.
        let run = sandbox.firn_with(&load, hex.replace("0x", "").as_bytes());
        run.fails(2, "no key");
    }
    assert_eq!(sandbox.firn("log scan s").ok().out, "\tv\n");
}

#[test]
fn rows_new_keys_and_replaced_ones_are_counted() {
    let sandbox = Sandbox::new();
    let count = |json: &serde_json::Value| {
        ["rows", "records", "new", "replaced", "skipped"].map(|name| json[name].as_u64().unwrap())
    };
    let load = |input: &[u8], options: &str| {
        let run = sandbox.firn_with(&format!("log load s --json {options}"), input).ok();
        count(&run.json()[0])
    };
    assert_eq!(load(b"a\t1\nb\t2\na\t3\na\t4\n", ""), [4, 4, 2, 2, 0]);
    assert_eq!(load(b"a\t1\nc\t2\n\nbad\n\tbad\n", "--on-error skip"), [4, 2, 1, 1, 2]);
    sandbox.firn("log delete s a").ok();
    sandbox.firn("log put s b v --ttl 0s").ok();
    assert_eq!(
        load(b"a\t1\nb\t2\nc\t3\n", ""),
        [3, 3, 2, 1, 0],
        "deleted and expired ones are new"
    );
    let run = sandbox.firn_with("log load s", b"a\t1\nd\t2\n").ok();
    assert!(run.out.starts_with("s: 2 rows read, 2 records put (1 new, 1 replaced), 4 B, in "));
    // Many records, with a key that recurs.
    let lines: String = (0..50_000).map(|n| format!("key-{}\t{n}\n", n % 20_000)).collect();
    let run = sandbox.firn_with("log load many --json", lines.as_bytes()).ok();
    assert_eq!(count(&run.json()[0]), [50_000, 50_000, 20_000, 30_000, 0]);
    assert_eq!(texts(&sandbox, "many").len(), 20_000);
}

#[test]
fn a_mistake_creates_no_store() {
    let sandbox = Sandbox::new();
    sandbox.write("a.csv", "k,v\n1,x\n");
    sandbox.write("a.tsv", "k\tv\n1\tx\n");
    sandbox.write("a.txt", "1\tx\n");
    sandbox.write("a.jsonl", "{\"k\":1,\"v\":\"x\"}\n");
    sandbox.write("a.parquet", parquet());
    sandbox.write("cut.parquet", &parquet()[..60]);
    sandbox.write("empty.csv", "");
    sandbox.write("twice.csv", "k,k\n1,2\n");
    sandbox.write("bad.csv.gz", b"\x1f\x8b\x08\x00broken");
    sandbox.write("bad.arrow", b"ARROW1\0\0broken");
    sandbox.write("words.jsonl", "words\n");
    fs::create_dir(sandbox.path("nothing")).unwrap();
    for (code, line) in [
        (2, "a.csv --key id"),
        (2, "a.csv"),
        (2, "a.tsv --key id"),
        (2, "a.csv --key k --value w"),
        (2, "a.csv a.tsv --key id"),
        (2, "a.txt --key id"),
        (2, "a.jsonl --key id"),
        (0, "a.jsonl --key id --on-error skip"),
        (2, "a.jsonl"),
        (2, "a.parquet --key id"),
        (2, "a.parquet --key k --value w"),
        (6, "cut.parquet --key k"),
        (2, "empty.csv --key k"),
        (2, "twice.csv --key k"),
        (6, "bad.csv.gz --key k"),
        (6, "bad.arrow --key k"),
        (2, "words.jsonl --key k"),
        (2, "nothing --key k"),
        (3, "none.csv --key k"),
        (3, "a.csv none.csv --key k"),
        (2, "a.txt --hex"),
        (2, "a.txt --ttl soon"),
        (2, "a.txt -s ''"),
        (2, "- -"),
    ] {
        for store in ["new", "in/new"] {
            let run = sandbox.firn(&format!("log load {store} {line}"));
            assert_eq!(run.code, code, "{line}: {}", run.err);
            assert!(!run.err.contains("0 records before the error"), "{line}: {}", run.err);
            assert!(
                !sandbox.path("new").exists() && !sandbox.path("in").exists(),
                "{line}: a store"
            );
        }
    }
    let run = sandbox.firn("log load new a.csv --key id").fails(2, "there is no column `id`");
    assert!(run.err.contains("note: nothing was put, and no store was created"), "{}", run.err);
    // An empty directory stays empty, and a store is not changed.
    fs::create_dir(sandbox.path("empty")).unwrap();
    sandbox.firn("log load empty a.csv --key id").fails(2, "no column");
    assert_eq!(fs::read_dir(sandbox.path("empty")).unwrap().count(), 0);
    sandbox.firn("log put s k v").ok();
    let run = sandbox.firn("log load s a.csv --key id").fails(2, "no column");
    assert!(run.err.contains("note: 0 records before the error are in the store"), "{}", run.err);
    assert_eq!(texts(&sandbox, "s").len(), 1);
    // A key that is too long is refused before a store is created for it.
    sandbox.write("long", "x".repeat(70_000));
    sandbox.firn("log put new --file long v").fails(2, "65536");
    assert!(!sandbox.path("new").exists());
    // An input without rows is valid: an empty store can be copied through a pipe.
    sandbox.firn("log delete s k").ok();
    let dump = sandbox.firn("log dump s").ok().out;
    sandbox.firn_with("log load t", dump.as_bytes()).ok();
    assert_eq!(sandbox.firn("log scan t").ok().out, "");
}
