//! load and dump: every format of records in both directions, and rows that do not fit.

use super::{Sandbox, content, texts};
use std::io::Write;

/// Records that are hard to encode: separators, newlines, quotes, bytes that are not text.
fn hard() -> Sandbox {
    let sandbox = Sandbox::new();
    let lines = [
        r#"{"key":"plain","value":"v"}"#,
        r#"{"key":"a\tb","value":"1\n2"}"#,
        r#"{"key":"","value":""}"#,
        r#"{"key":"q\"uo,te","value":" spaces \r"}"#,
        r#"{"key_hex":"00ff","value_hex":"fe0a0d"}"#,
        "{\"key\":\"\\ufeffmark\",\"value\":\"\u{e9}\"}",
    ];
    sandbox.firn_with("log load s", lines.join("\n").as_bytes()).ok();
    sandbox
}

#[test]
fn a_loaded_dump_is_complete() {
    let sandbox = hard();
    let all = content(&sandbox, "s");
    assert_eq!(all.len(), 6);
    assert_eq!(all[&b"\x00\xff"[..]], b"\xfe\x0a\x0d");
    let dumps = [
        ("d.jsonl", ""),
        ("d2.jsonl.gz", "--hex"),
        ("d.ndjson.zst", ""),
        ("d.csv", "--hex"),
        ("d.txt.gz", "--hex"),
        ("d.tab.zst", "--hex -s ::"),
    ];
    for (number, (file, options)) in dumps.iter().enumerate() {
        let format = if file.starts_with("d.tab") { "--format text" } else { "" };
        sandbox.firn(&format!("log dump s -o {file} {format} {options}")).ok();
        let hex = if file.contains("json") { "" } else { options };
        sandbox.firn(&format!("log load t{number} {file} {format} {hex}")).ok();
        assert_eq!(content(&sandbox, &format!("t{number}")), all, "{file}");
    }
    let bytes = std::fs::read(sandbox.path("d2.jsonl.gz")).unwrap();
    assert_eq!(bytes[..2], [0x1f, 0x8b]);
    // From pipe to pipe.
    let dump = sandbox.firn("log dump s").ok().out;
    sandbox.firn_with("log load piped -", dump.as_bytes()).ok();
    assert_eq!(content(&sandbox, "piped"), all);
}

#[test]
fn a_dump_refuses_records_that_its_format_cannot_hold() {
    let sandbox = hard();
    sandbox.firn("log dump s -o d.txt").fails(2, "use --format jsonl, or --hex");
    sandbox.firn("log dump s --format csv").fails(2, "an empty key");
    sandbox.firn("log delete s ''").ok();
    sandbox.firn("log dump s --format csv").fails(2, "carriage return");
    assert!(!sandbox.path("d.txt").exists());
    let left = std::fs::read_dir(&sandbox.0).unwrap().flatten().count();
    assert_eq!(left, 1, "a part of a dump is left");
    sandbox.write("there.jsonl", "mine");
    sandbox.firn("log dump s -o there.jsonl").fails(4, "--force");
    sandbox.firn("log dump s -o there.jsonl --force").ok();
    sandbox.firn("log dump s -o nowhere/d.jsonl").fails(3, "nowhere");
}

#[test]
fn text_is_loaded() {
    let sandbox = Sandbox::new();
    let run = sandbox.firn_with("log load s", b"a\t1 2\nb\t\nc\tx\ty\r\na\t3\n").ok();
    assert!(run.out.contains("4 records put"), "{}", run.out);
    let json = sandbox.firn_with("log load s --sync --json", b"d\t5\n").ok().json();
    assert_eq!((&json[0]["records"], &json[0]["data_bytes"]), (&1.into(), &2.into()));
    let all = texts(&sandbox, "s");
    let all: Vec<_> = all.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(all, [("a", "3"), ("b", ""), ("c", "x\ty"), ("d", "5")]);
    sandbox.write("e.txt", "e=1\n");
    sandbox.firn("log load s e.txt -s =").ok();
    assert_eq!(sandbox.firn("log get s e").ok().out, "1\n");
}

#[test]
fn a_bad_row_stops_or_is_skipped() {
    let sandbox = Sandbox::new();
    let run = sandbox.firn_with("log load s", b"a\t1\nno separator\nb\t2\n");
    let run = run.fails(2, "standard input:2: there is no separator");
    assert!(!run.err.contains("panicked"), "{}", run.err);
    let run = sandbox.firn_with("log load t --on-error skip --json", b"a\t1\nnone\nb\t2\n").ok();
    assert!(run.err.contains("skipped 1 of 3 rows"), "{}", run.err);
    assert_eq!((&run.json()[0]["records"], &run.json()[0]["skipped"]), (&2.into(), &1.into()));
    let long = format!("{}\t1\nok\t2\n", "k".repeat(65_537));
    sandbox.firn_with("log load t --on-error skip", long.as_bytes()).ok();
    assert_eq!(texts(&sandbox, "t").len(), 3);
    sandbox.firn_with("log load t --hex", b"0\t00\n").fails(2, "standard input:1");
    // Records put before an error stay, which the message says.
    sandbox.write("1.txt", "p\t1\nq\t2\n");
    sandbox.write("2.txt", "broken\n");
    let run = sandbox.firn("log load u 1.txt 2.txt").fails(2, "2.txt:1");
    assert!(run.err.contains("2 records before the error are in the store"), "{}", run.err);
    assert_eq!(texts(&sandbox, "u").len(), 2);
    // With --json, the output is JSON only.
    let run = sandbox.firn("log load u 1.txt 2.txt --json");
    let error: serde_json::Value = serde_json::from_str(&run.err).unwrap();
    let note = "2 records before the error are in the store";
    assert_eq!((run.out.as_str(), &error["error"]["note"]), ("", &note.into()));
}

#[test]
fn rows_are_loaded() {
    let sandbox = Sandbox::new();
    sandbox.write("a.csv", "id,name,age\n1,Ann,30\n2,\"Bo, b\",\n");
    sandbox.firn("log load s a.csv --key id").ok();
    assert_eq!(sandbox.firn("log get s 1").ok().out, "{\"name\":\"Ann\",\"age\":30}\n");
    assert_eq!(sandbox.firn("log get s 2").ok().out, "{\"name\":\"Bo, b\",\"age\":null}\n");
    sandbox.firn("log load s a.csv --key id --value name").ok();
    assert_eq!(sandbox.firn("log get s 2").ok().out, "Bo, b\n");
    sandbox.firn("log load s a.csv").fails(2, "there is no column `key`");
    sandbox.write("b.jsonl", "{\"id\":3,\"x\":{\"y\":[1]}}\n{\"id\":\"4\",\"z\":\"t\"}\n");
    sandbox.firn("log load s b.jsonl --key id").ok();
    assert_eq!(sandbox.firn("log get s 3").ok().out, "{\"x\":{\"y\":[1]}}\n");
    assert_eq!(sandbox.firn("log get s 4").ok().out, "{\"z\":\"t\"}\n");
    sandbox.firn("log load s b.jsonl --key id --value z --on-error skip").ok();
    assert_eq!(sandbox.firn("log get s 4").ok().out, "t\n");
}

#[test]
fn directories_and_compressed_files_are_loaded() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("in")).unwrap();
    let file = std::fs::File::create(sandbox.path("in/a.txt.gz")).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    gzip.write_all(b"a\t1\n").unwrap();
    gzip.finish().unwrap();
    sandbox.write("in/b.csv.zst", zstd::encode_all(&b"key,value\nb,2\n"[..], 1).unwrap());
    sandbox.write("in/c.jsonl", "{\"key\":\"c\",\"value\":3}\n");
    sandbox.write("in/README", "no data");
    sandbox.firn("log load s in").ok();
    let all: Vec<_> = texts(&sandbox, "s").into_iter().map(|(k, v)| k + &v).collect();
    assert_eq!(all, ["a1", "b2", "c3"]);
}

/// A store whose creation was interrupted, for example by a full disk, can be created in place.
#[test]
fn an_interrupted_creation_can_be_repeated() {
    let sandbox = Sandbox::new();
    let segment = "segment-00000000000000000001.log";
    let leftovers = [("lock", ""), (segment, ""), (segment, "\0\0\0\0")];
    for (n, (name, bytes)) in leftovers.into_iter().enumerate() {
        for command in ["log put s k v", "log load s in.txt"] {
            let command = command.replace(" s ", &format!(" s{n} "));
            sandbox.write("in.txt", "k\tv\n");
            std::fs::create_dir(sandbox.path(&format!("s{n}"))).unwrap();
            sandbox.write(&format!("s{n}/lock"), "");
            sandbox.write(&format!("s{n}/{name}"), bytes);
            sandbox.firn(&command).ok();
            assert_eq!(sandbox.firn(&format!("log get s{n} k")).ok().out.trim_end(), "v");
            std::fs::remove_dir_all(sandbox.path(&format!("s{n}"))).unwrap();
        }
    }
    let foreign = [
        ("lock", "mine"),
        ("notes", ""),
        ("segment-7", ""),
        (segment, "notes of a user under the name of a segment"),
        (segment, "FIRNLOG\nand then damage"),
        (segment, "\0\0\0\0x"),
    ];
    for (name, bytes) in foreign {
        std::fs::create_dir(sandbox.path("mine")).unwrap();
        sandbox.write("mine/lock", "");
        sandbox.write(&format!("mine/{name}"), bytes);
        sandbox.firn("log put mine k v").fails(4, "holds no log store");
        assert_eq!(std::fs::read(sandbox.path(&format!("mine/{name}"))).unwrap(), bytes.as_bytes());
        std::fs::remove_dir_all(sandbox.path("mine")).unwrap();
    }
}
