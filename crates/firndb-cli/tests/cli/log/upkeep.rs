//! compact, backup, verify, repair, freeze, bench.

use super::{Sandbox, content, filled, texts};
use firndb::log::{LogStore, Options};
use std::fs;

/// The segment files of a store.
fn segments(sandbox: &Sandbox, store: &str) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(sandbox.path(store)).unwrap().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    let name = |path: &std::path::PathBuf| path.file_name().unwrap().to_str().unwrap().to_string();
    paths.retain(|path| name(path).starts_with("segment-") && name(path).ends_with(".log"));
    paths.sort();
    paths
}

/// A store `s` whose records were replaced several times.
fn worn() -> Sandbox {
    let sandbox = Sandbox::new();
    let value = "x".repeat(1000);
    for round in 0..4 {
        let line = |n| format!("key-{n}\t{round} {value}\n");
        let lines: String = (0..1000).map(line).collect();
        sandbox.firn_with("log load s", lines.as_bytes()).ok();
    }
    sandbox
}

#[test]
fn compaction_reclaims_space_and_keeps_every_record() {
    let sandbox = worn();
    let before = content(&sandbox, "s");
    let json = sandbox.firn("log compact s --threshold 0 --json").ok().json();
    let bytes = |name: &str| json[0][name].as_u64().unwrap();
    // Four megabytes were written, one is live; the rest is preallocated space.
    assert!(bytes("segments") > 0 && bytes("copied_bytes") > 0, "{json:?}");
    assert!(bytes("after_disk_bytes") <= 3 << 20, "{json:?}");
    assert_eq!(content(&sandbox, "s"), before);
    assert!(sandbox.firn("log compact s").ok().out.starts_with("Compacted "));
    assert_eq!(content(&sandbox, "s"), before);
    sandbox.firn("log compact s --threshold 2").fails(2, "is not a share");
}

#[test]
fn compaction_counts_every_segment_that_it_removes() {
    // Without background compaction, which would compact some segments before the command does.
    let sandbox = Sandbox::new();
    let options = Options::new().background(false);
    let store = LogStore::open_with(sandbox.path("s"), options).unwrap();
    for n in 0..40_000u32 {
        store.put(format!("key-{}", n % 2000).as_bytes(), [n as u8; 1000]).unwrap();
    }
    store.close().unwrap();
    let before = sandbox.firn("log stats s --json").ok().json()[0].clone();
    let json = sandbox.firn("log compact s --threshold 0 --json").ok().json()[0].clone();
    let after = sandbox.firn("log stats s --json").ok().json()[0].clone();
    assert!(before["segments"].as_u64().unwrap() > 30, "{before}");
    assert_eq!(json["segments"], before["segments"]);
    assert_eq!(json["before_disk_bytes"], before["disk_bytes"]);
    assert_eq!(json["after_disk_bytes"], after["disk_bytes"]);
    let copied = json["copied_bytes"].as_u64().unwrap();
    assert!((2_000_000..2_200_000).contains(&copied), "{json}");
}

#[test]
fn a_backup_is_an_independent_store() {
    let sandbox = filled(50);
    let run = sandbox.firn("log backup s -o b").ok();
    assert!(run.out.contains("50 keys"), "{}", run.out);
    sandbox.firn("log put s key-1 changed").ok();
    sandbox.firn("log put s new 1").ok();
    assert_eq!(sandbox.firn("log get b key-1").ok().out, "value 1\n");
    assert_eq!(texts(&sandbox, "b").len(), 50);
    // A second backup into the same directory.
    let json = sandbox.firn("log backup s -o b --json").ok().json();
    assert_eq!(json[0]["keys"], 51);
    assert_eq!(texts(&sandbox, "b"), texts(&sandbox, "s"));
    sandbox.firn("log put b only-here 1").ok();
    sandbox.firn("log get s only-here").fails(3, "only-here");
}

#[test]
fn damage_is_detected_and_intact_records_are_saved() {
    let sandbox = Sandbox::new();
    let value = "x".repeat(1000);
    let lines: String = (0..4000).map(|n| format!("key-{n}\t{n} {value}\n")).collect();
    sandbox.firn_with("log load s", lines.as_bytes()).ok();
    let json = sandbox.firn("log verify s --json").ok().json();
    assert_eq!(json[0]["keys"], 4000);
    assert!(sandbox.firn("log verify s").ok().out.ends_with("all well\n"));

    let files = segments(&sandbox, "s").into_iter().map(|path| (fs::read(&path).unwrap(), path));
    let record = |bytes: &[u8]| bytes.windows(8).position(|w| w == b"key-2502");
    let mut found = files.filter_map(|(bytes, path)| Some((record(&bytes)?, bytes, path)));
    let (at, mut bytes, path) = found.next().unwrap();
    bytes[at + 100] ^= 1;
    fs::write(&path, bytes).unwrap();
    sandbox.firn("log verify s").fails(6, "segment-");
    let run = sandbox.firn("log repair s -o r").ok();
    assert!(run.err.contains("not an intact record"), "{}", run.err);
    let saved = texts(&sandbox, "r");
    assert_eq!(saved.len(), 3999);
    assert!(!saved.contains_key("key-250"));
    assert!(saved.iter().all(|(key, value)| value.split(' ').next() == Some(&key[4..])));
    sandbox.firn("log verify r").ok();
    sandbox.firn("log repair s -o r").fails(4, "there is something already");
    sandbox.firn("log repair nowhere -o q").fails(3, "nowhere");
}

/// Files that are optional on open are checked too, and rewritten at the next close.
#[test]
fn damaged_auxiliary_files_are_detected_and_repaired() {
    let sandbox = worn();
    // The hint first: a put may compact its segment, which removes it.
    for end in [".hint", "durable_end.firn", "checkpoint.firn"] {
        let names = fs::read_dir(sandbox.path("s")).unwrap().flatten();
        let mut names = names.map(|entry| entry.file_name().into_string().unwrap());
        let name = &*names.find(|name| name.ends_with(end)).unwrap();
        let path = sandbox.path("s").join(name);
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
        sandbox.firn("log verify s").fails(6, name);
        sandbox.firn("verify s").fails(6, name);
        sandbox.firn("log put s more 1").ok();
        sandbox.firn("log verify s").ok();
    }
    let segment = segments(&sandbox, "s").remove(0);
    let segment = segment.file_name().unwrap().to_str().unwrap();
    sandbox.firn(&format!("verify s/{segment}")).fails(2, "verified as a whole");
}

#[test]
fn a_store_is_frozen_into_a_table() {
    let sandbox = worn();
    sandbox.firn("log put s '' empty").ok();
    sandbox.firn("log delete s key-7").ok();
    let json = sandbox.firn("log freeze s -o t.firn --filter 8 --compression block --json").ok();
    let wanted = texts(&sandbox, "s");
    assert_eq!(json.json()[0]["records"], wanted.len());
    let table = sandbox.firn("table scan t.firn --json").ok().json();
    assert_eq!(table.len(), wanted.len());
    for record in table {
        let key = record["key"].as_str().unwrap();
        assert_eq!(record["value"].as_str(), wanted.get(key).map(String::as_str), "{key}");
    }
    sandbox.firn("table get t.firn key-7").fails(3, "key-7");
    sandbox.firn("log freeze s -o t.firn").fails(4, "--force");
    sandbox.firn("log freeze s -o t.firn --force").ok();
    sandbox.firn("log freeze nowhere -o u.firn").fails(3, "nowhere");
    assert!(!sandbox.path("u.firn").exists());
}

#[test]
fn a_bench_prints_times() {
    let sandbox = Sandbox::new();
    let line = "log bench b --records 2000 --ops 1000 --syncs 2 --value 50 --threads 2";
    let json = sandbox.firn(&format!("{line} --json")).ok().json();
    let names: Vec<_> = json.iter().filter_map(|line| line["operation"].as_str()).collect();
    assert_eq!(names, ["put", "get", "get, absent", "update", "put, --sync"]);
    assert!(json[5]["summary"]["index_bytes_per_key"].as_f64() > Some(1.0), "{}", json[5]);
    assert!(json[..5].iter().all(|line| {
        line["per_second"].as_f64().unwrap() > 0.0
            && line["median_seconds"].as_f64().unwrap() <= line["longest_seconds"].as_f64().unwrap()
    }));
    assert_eq!(content(&sandbox, "b").len(), 2000);
    sandbox.firn(line).fails(4, "name a new directory");
    let text = sandbox.firn("log bench --records 100 --ops 10 --syncs 0 --seed 7").ok().out;
    assert!(text.contains("get, absent") && text.contains("bytes per key"), "{text}");
}
