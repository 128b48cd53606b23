//! `firn table build` from text, and what holds for every format: compression, directories,
//! options, duplicates, existing files, interruption.

use super::{bytes, content, small, value};
use crate::Sandbox;
use serde_json::json;
use std::io::Write;

pub(super) fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// Text of `count` records.
fn text(count: u64) -> String {
    (0..count).map(|i| format!("key-{i} value of {i}\n")).collect()
}

#[test]
fn text_is_built_from_files_streams_and_compressed_files_alike() {
    let sandbox = Sandbox::new();
    let text = text(3000);
    sandbox.write("plain.txt", &text);
    sandbox.write("windows.txt", text.replace('\n', "\r\n"));
    sandbox.write("packed.gz", gzip(text.as_bytes()));
    sandbox.write("packed.txt.zst", zstd::encode_all(text.as_bytes(), 1).unwrap());
    let out = sandbox.firn("table build -i plain.txt -o t").ok().out;
    assert!(out.starts_with("t: 3,000 records, "), "{out}");
    let expected = std::fs::read(sandbox.path("t")).unwrap();
    for input in ["windows.txt", "packed.gz", "packed.txt.zst"] {
        sandbox.firn(&format!("table build -i {input} -o of-{input}")).ok();
        // The same records give the same bytes.
        assert_eq!(
            std::fs::read(sandbox.path(&format!("of-{input}"))).unwrap(),
            expected,
            "{input}"
        );
    }
    for (input, name) in [(text.as_bytes(), "a"), (&gzip(text.as_bytes()), "b")] {
        sandbox.firn_with(&format!("table build -i - -o {name}"), input).ok();
        assert_eq!(std::fs::read(sandbox.path(name)).unwrap(), expected);
    }
    assert_eq!(sandbox.firn("table get t key-17").ok().out, "value of 17\n");
}

#[test]
fn directories_and_several_files_are_read_in_order() {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("in/deep")).unwrap();
    sandbox.write("in/b.txt", "k 2\n");
    sandbox.write("in/deep/c.gz", gzip(b"k 3\n"));
    sandbox.write("in/README", "not data");
    sandbox.write("a.txt", "k 1\n");
    let last = sandbox.firn("table build -i a.txt in -o last --duplicates last --json").ok().json();
    assert_eq!((&last[0]["records"], &last[0]["duplicates"]), (&1.into(), &2.into()));
    assert_eq!(sandbox.firn("table get last k").ok().out, "3\n");
    sandbox.firn("table build -i a.txt -i in -o first --duplicates first").ok();
    assert_eq!(sandbox.firn("table get first k").ok().out, "1\n");
    std::fs::create_dir_all(sandbox.path("empty")).unwrap();
    sandbox.firn("table build -i empty -o d").fails(2, "holds no data file");
    sandbox.firn("table build -i nowhere.txt -o d").fails(3, "nowhere.txt");
}

#[test]
fn separators_and_encodings_are_options() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "a b\t1\t2\nc\t\n");
    sandbox.firn("table build -i a.txt -o tab -s \\t").ok();
    assert_eq!(sandbox.firn("table get tab 'a b'").ok().out, "1\t2\n");
    assert_eq!(bytes(&sandbox, "tab", "c"), "");
    sandbox.write("b.txt", b"caf\xe9::\xfc\n");
    sandbox.firn("table build -i b.txt -o latin -s :: -e latin1").ok();
    assert_eq!(bytes(&sandbox, "latin", "caf\u{e9}"), "c3bc");
    sandbox.firn("table build -i b.txt -o raw --separator=::").ok();
    let raw = sandbox.firn("table get raw 636166e9 --hex --json").ok().json();
    assert_eq!((&raw[0]["key_hex"], &raw[0]["value_hex"]), (&"636166e9".into(), &"fc".into()));
    sandbox.firn("table build -i b.txt -o d -s :: -e utf-8").fails(2, "b.txt:1: the line is not");
    sandbox.firn("table build -i b.txt -o d -e klingon").fails(2, "not the name of an encoding");
    sandbox.firn("table build -i b.txt -o d -s ''").fails(2, "at least one byte");
    sandbox.firn("table build -i b.txt -o d -s \\n").fails(2, "a newline ends a record");
    sandbox.write("mac.txt", "a 1\rb 2\r");
    sandbox.firn("table build -i mac.txt -o d").fails(2, "mac.txt: the only line holds a carriage");
    sandbox.write("cr.txt", "a 1\rx\nb 2\r\n");
    sandbox.firn("table build -i cr.txt -o cr").ok();
    assert_eq!(
        (bytes(&sandbox, "cr", "a"), bytes(&sandbox, "cr", "b")),
        ("310d78".into(), "32".into())
    );
}

#[test]
fn a_line_without_separator_stops_the_build_and_leaves_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "a 1\nwrong\nb 2\n");
    let run = sandbox.firn("table build -i a.txt -o t");
    let run = run.fails(2, "a.txt:2: there is no separator ` ` in the line");
    assert!(run.err.starts_with("error: ") && run.out.is_empty());
    assert_eq!(std::fs::read_dir(&sandbox.0).unwrap().count(), 1);
    let run = sandbox.firn("table build -i a.txt -o t --on-error skip --json").ok();
    assert!(run.err.contains("skipped 1 of 3 rows") && run.err.contains("a.txt:2:"), "{}", run.err);
    assert_eq!((&run.json()[0]["records"], &run.json()[0]["skipped"]), (&2.into(), &1.into()));
}

#[test]
fn duplicates_are_named_with_both_positions() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", "a 1\nb 1\n");
    sandbox.write("b.txt", "c 1\n\nb 2\n");
    let run = sandbox.firn("table build -i a.txt b.txt -o t").fails(2, "'b'");
    assert!(run.err.contains("a.txt:2") && run.err.contains("b.txt:3"), "{}", run.err);
    assert!(!sandbox.path("t").exists());
    let run = sandbox.firn("table build -i a.txt b.txt -o t --duplicates last --verify-input").ok();
    assert!(run.out.contains("3 records (1 duplicate left out)"), "{}", run.out);
    assert!(run.out.contains("built and compared"), "{}", run.out);
}

#[test]
fn an_existing_file_is_replaced_only_if_asked() {
    let sandbox = small();
    sandbox.write("b.txt", "carol 3\n");
    sandbox.firn("table build -i b.txt -o t").fails(4, "use --force to replace it");
    assert_eq!(content(&sandbox, "t").len(), 2);
    sandbox.firn("table build -i b.txt -o t --force").ok();
    assert_eq!(sandbox.firn("table scan t").ok().out, "carol\t3\n");
    // A failed build leaves the old table.
    sandbox.write("bad.txt", "x");
    sandbox.firn("table build -i bad.txt -o t --force").fails(2, "bad.txt:1");
    assert_eq!(sandbox.firn("table scan t").ok().out, "carol\t3\n");
    sandbox.firn("table build -i b.txt -o b.txt --force").fails(2, "its own input");
    sandbox.firn("table build -i b.txt -o no/t").fails(3, "no");
    sandbox.firn("table build -i b.txt -o .").fails(4, "this is a directory");
    sandbox.firn("table build -i b.txt -o u --temp nowhere").fails(3, "nowhere");
    // The same for a file that appears while the input is read.
    let run = sandbox.firn_while("table build -i - -o v", b"a 1\n", || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        sandbox.write("v", "precious");
    });
    run.fails(4, "use --force to replace it");
    assert_eq!(std::fs::read(sandbox.path("v")).unwrap(), b"precious");
}

/// A build removes no file that another program may have created.
#[test]
fn files_next_to_the_table_are_unchanged() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", text(100));
    let names = [".t.tmp", "t.tmp", ".t", ".firndb-table-1-0.spill", ".t.firndb-tmp.bak"];
    names.iter().for_each(|name| sandbox.write(name, "mine"));
    std::os::unix::fs::symlink("elsewhere", sandbox.path(".u.firndb-tmp")).unwrap();
    sandbox.firn("table build -i a.txt -o t").ok();
    sandbox.firn("table build -i a.txt -o t --force").ok();
    for name in names {
        assert_eq!(std::fs::read(sandbox.path(name)).unwrap(), b"mine", "{name}");
    }
    // A link at the path of the temporary file is not followed.
    sandbox.firn("table build -i a.txt -o u").fails(4, "move it away");
    assert!(!sandbox.path("elsewhere").exists() && !sandbox.path("u").exists());
}

#[test]
fn every_option_gives_a_readable_table() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", text(2000));
    for options in [
        "--compression record --level 1",
        "--compression block --level 9 --block-size 16K",
        "--filter 8 --block-size 8KiB",
        "--filter 16 --compression record --threads 1",
        "--memory 16MiB --temp .",
    ] {
        let run =
            sandbox.firn(&format!("table build -i a.txt -o t --force --verify-input {options}"));
        assert!(run.ok().out.contains("2,000 records"), "{options}");
        assert_eq!(sandbox.firn("table get t key-1999").ok().out, "value of 1999\n", "{options}");
        sandbox.firn("table verify t").ok();
    }
    let stats = |options: &str| {
        sandbox.firn(&format!("table build -i a.txt -o t --force {options}")).ok();
        sandbox.firn("table stats t --json").ok().json().remove(0)
    };
    let seen = stats("--compression block --level 7 --filter 8 --block-size 8192");
    assert_eq!((&seen["compression"], &seen["level"]), (&"block".into(), &7.into()));
    assert_eq!((&seen["filter_bits"], &seen["block_size_bytes"]), (&8.into(), &8192.into()));
    assert_eq!(stats("--metadata 'day 7'")["metadata"], "day 7");
    sandbox.write("meta", b"\xff\x00");
    assert_eq!(stats("--metadata @meta")["metadata_hex"], "ff00");
    sandbox.firn("table build -i a.txt -o u --block-size 5000").fails(2, "multiple of 4096");
    sandbox.firn("table build -i a.txt -o u --memory 2M").fails(2, "memory");
    sandbox.firn("table build -i a.txt -o u --level 20").fails(2, "20");
}

#[test]
fn records_that_exceed_the_memory_go_through_a_temporary_file() {
    let sandbox = Sandbox::new();
    let value = "x".repeat(1000);
    let mut lines = String::new();
    for i in 0..40_000 {
        lines += &format!("{i} {i}{value}\n");
    }
    sandbox.write("a.txt", &lines);
    std::fs::create_dir(sandbox.path("temp")).unwrap();
    let options = "--memory 16M --temp temp --verify-input --json";
    let built = sandbox.firn(&format!("table build -i a.txt -o t {options}")).ok().json();
    assert!(built[0]["spilled_bytes"].as_u64().unwrap() > 10 << 20, "{}", built[0]);
    assert_eq!((&built[0]["records"], &built[0]["verified"]), (&40_000.into(), &true.into()));
    assert_eq!(std::fs::read_dir(sandbox.path("temp")).unwrap().count(), 0);
    sandbox.firn("table build -i a.txt -o u").ok();
    let read = |name: &str| std::fs::read(sandbox.path(name)).unwrap();
    assert!(read("t") == read("u"), "memory changes the bytes");
}

#[test]
fn a_changed_input_is_detected() {
    let sandbox = Sandbox::new();
    sandbox.firn_with("table build -i - -o t --verify-input", b"a 1\n").fails(2, "standard input");
    let fifo = std::process::Command::new("mkfifo").arg(sandbox.path("fifo")).status().unwrap();
    assert!(fifo.success());
    sandbox.firn("table build -i fifo -o t --verify-input").fails(2, "fifo is gone by then");
    sandbox.write("none.txt", "");
    let out = sandbox.firn("table build -i none.txt -o t --verify-input").ok().out;
    assert!(out.starts_with("t: 0 records"), "{out}");
    sandbox.firn("table get t a").fails(3, "there is no key `a`");
}

#[test]
fn damaged_archives_name_the_file_and_leave_nothing() {
    let sandbox = Sandbox::new();
    let packed = gzip(text(5000).as_bytes());
    sandbox.write("a.txt.gz", &packed[..packed.len() / 2]);
    sandbox.firn("table build -i a.txt.gz -o t").fails(6, "a.txt.gz: corrupt: the gzip data");
    assert_eq!(std::fs::read_dir(&sandbox.0).unwrap().count(), 1);
}

#[test]
fn options_without_effect_are_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("a.csv", "id,n\n1,2\n");
    sandbox.write("a.jsonl", "{\"id\":1,\"n\":2}\n");
    for input in ["a.csv", "a.jsonl"] {
        let run = sandbox.firn(&format!("table build -i {input} -o t --key id -s ;"));
        run.fails(2, &format!("{input}: -s divides keys from values in text"));
        let run = sandbox.firn(&format!("table build -i {input} -o t --key id --value n:double"));
        run.fails(2, "a single column is a value as it is, without a type; say --value n, or add");
    }
    sandbox.firn("table build -i a.csv -o t --key id --value n:double --record").ok();
    assert_eq!(value(&sandbox, "t", "1"), json!({ "n": 2.0 }));
    assert_eq!(content(&sandbox, "t").len(), 1);
}

#[test]
fn other_files_are_never_removed_because_of_their_names() {
    let sandbox = Sandbox::new();
    sandbox.write("a.txt", text(3000));
    let others = [
        ".t.tmp",
        "t.tmp",
        ".t.firn-tmp",
        ".t.firndb-tmp.bak",
        "t.firndb-tmp",
        ".u.firndb-tmp",
        ".t.part",
        "t~",
        ".tmp",
        "tmp",
        "t.0",
        ".t.lock",
    ];
    for name in others {
        sandbox.write(name, name);
    }
    for options in ["", "--force", "--force --memory 16M --compression record"] {
        sandbox.firn(&format!("table build -i a.txt -o t {options}")).ok();
    }
    // A failed build removes none of them either.
    sandbox.write("bad.txt", "no-value\n");
    sandbox.firn("table build -i bad.txt -o t --force").fails(2, "bad.txt");
    for name in others {
        assert_eq!(std::fs::read_to_string(sandbox.path(name)).unwrap(), name);
    }
}
