//! put, get, delete, scan, stats: single keys, and errors for busy and missing stores.

use super::{Sandbox, filled, texts};
use std::fs;

#[test]
fn values_are_put_read_and_deleted() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.firn("log put s alice 'Alice Liddell'").ok().out, "Put 13 B at `alice`.\n");
    sandbox.firn("log put s bob b --sync").ok();
    sandbox.firn("log put s alice 2 --json").ok();
    assert_eq!(sandbox.firn("log get s alice").ok().out, "2\n");
    assert_eq!(sandbox.firn("log get s bob --raw").ok().out, "b");
    let json = sandbox.firn("log get s bob --json").ok().json();
    assert_eq!(json[0], serde_json::json!({ "key": "bob", "found": true, "value": "b" }));
    sandbox.firn("log get s carol").fails(3, "there is no key `carol`");

    assert_eq!(sandbox.firn("log delete s bob --sync").ok().out, "Deleted 1 key.\n");
    sandbox.firn("log get s bob").fails(3, "there is no key `bob`");
    // An absent key is reported, and is no error.
    let json = sandbox.firn("log delete s bob alice --json").ok().json();
    assert_eq!(json[0], serde_json::json!({ "key": "bob", "found": false }));
    assert_eq!(json[1], serde_json::json!({ "key": "alice", "found": true }));
    assert_eq!(json[2], serde_json::json!({ "summary": { "deleted": 1, "absent": 1 } }));
    let run = sandbox.firn("log rm s bob").ok();
    assert_eq!(run.out, "Deleted 0 keys; 1 key not there.\n");
    assert_eq!(sandbox.firn("log scan s").ok().out, "");
}

#[test]
fn keys_and_values_are_any_bytes() {
    let sandbox = Sandbox::new();
    sandbox.firn("log put s 00ff0a 0d0a --hex --value-hex").ok();
    let json = sandbox.firn("log get s 00FF0A --hex --json").ok().json();
    assert_eq!((&json[0]["key_hex"], &json[0]["value"]), (&"00ff0a".into(), &"\r\n".into()));
    sandbox.write("key", b"\x00\xff\x0a");
    assert_eq!(sandbox.firn("log get s --file key --raw").ok().out, "\r\n");
    sandbox.firn_with("log put s --file key --value-file -", b"from a pipe").ok();
    assert_eq!(sandbox.firn("log get s --file key").ok().out, "from a pipe\n");
    sandbox.firn("log put s --file key inline").ok();
    sandbox.write("value", vec![b'x'; 100_000]);
    sandbox.firn("log put s big --value-file value").ok();
    assert_eq!(sandbox.firn("log get s big --raw").ok().out.len(), 100_000);
    sandbox.firn("log delete s --file key").ok();
    sandbox.firn("log get s --file key").fails(3, "0x00ff0a");
    sandbox.firn("log put s '' empty-key").ok();
    assert_eq!(sandbox.firn("log get s ''").ok().out, "empty-key\n");
}

#[test]
fn mistakes_are_reported() {
    let sandbox = Sandbox::new();
    sandbox.firn("log put s").fails(2, "name a key");
    sandbox.firn("log put s k").fails(2, "name a value");
    sandbox.firn("log put s k v w").fails(2, "w");
    sandbox.firn("log put s k v --value-file f").fails(2, "second value");
    sandbox.firn("log put s 0g v --hex").fails(2, "hexadecimal");
    sandbox.firn("log put s k v --ttl 5").fails(2, "is not a time");
    assert!(!sandbox.path("s").exists());
    for line in ["get s k", "delete s k", "scan s", "dump s", "stats s", "verify s", "compact s"] {
        sandbox.firn(&format!("log {line}")).fails(3, "s");
        assert!(!sandbox.path("s").exists(), "{line} made a directory");
    }
    // A directory with other files does not become a store.
    std::fs::create_dir(sandbox.path("d")).unwrap();
    sandbox.write("d/file", "x");
    sandbox.firn("log put d k v").fails(4, "holds no log store");
    sandbox.firn("log get d k").fails(3, "no log store");
    let long = "x".repeat(70_000);
    sandbox.write("long", &long);
    sandbox.firn("log put s --file long v").fails(2, "65536");
}

#[test]
fn expired_records_are_gone() {
    let sandbox = Sandbox::new();
    sandbox.firn("log put s short v --ttl 1ms").ok();
    sandbox.firn("log put s long v --ttl 7d").ok();
    std::thread::sleep(std::time::Duration::from_millis(5));
    sandbox.firn("log get s short").fails(3, "short");
    assert_eq!(sandbox.firn("log get s long").ok().out, "v\n");
    assert_eq!(texts(&sandbox, "s").len(), 1);
    sandbox.firn_with("log load s --ttl 1ms", b"a\t1\nb\t2\n").ok();
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(texts(&sandbox, "s").len(), 1);
}

#[test]
fn a_store_that_is_open_elsewhere_is_locked_for_writing_only() {
    let sandbox = filled(3);
    // The lock that a store holds while it is open for writing.
    let lock = std::fs::File::open(sandbox.path("s").join("lock")).unwrap();
    lock.try_lock().unwrap();
    for line in ["put s x y", "delete s key-1", "compact s", "backup s -o b", "load s"] {
        sandbox.firn(&format!("log {line}")).fails(5, "another program has this store open");
    }
    let error = sandbox.firn("log put s x y --json").err;
    assert!(error.contains("\"kind\":\"locked\""), "{error}");
    assert_eq!(sandbox.firn("log get s key-1").ok().out, "value 1\n");
    assert!(sandbox.firn("log scan s").ok().out.contains("key-2\tvalue 2\n"));
    sandbox.firn("log stats s").ok();
    sandbox.firn("log verify s").ok();
    drop(lock);
    sandbox.firn("log put s x y").ok();
}

#[test]
fn records_are_scanned() {
    let sandbox = filled(200);
    assert_eq!(sandbox.firn("log scan s").ok().out.lines().count(), 200);
    assert_eq!(sandbox.firn("log scan s --limit 7").ok().out.lines().count(), 7);
    assert_eq!(sandbox.firn("log scan s --limit 0").ok().out, "");
    let some = sandbox.firn("log scan s --prefix key-19 --keys-only").ok().out;
    let mut some: Vec<&str> = some.lines().collect();
    some.sort_unstable();
    assert_eq!((some.len(), some[0], some[10]), (11, "key-19", "key-199"));
    let json = sandbox.firn("log scan s --prefix key-7 --limit 1 --json").ok().json();
    assert_eq!(json[0]["value"], format!("value {}", &json[0]["key"].as_str().unwrap()[4..]));
    let csv = sandbox.firn("log scan s --format csv --prefix key-42").ok().out;
    assert_eq!(csv, "key,value\nkey-42,value 42\n");
    let hex = sandbox.firn("log scan s --hex -s ' ' --prefix 6b65792d3432").ok().out;
    assert_eq!(hex, "6b65792d3432 76616c7565203432\n");
}

#[test]
fn statistics_are_shown() {
    let sandbox = filled(100);
    let json = sandbox.firn("log stats s --json").ok().json();
    assert_eq!(json[0]["keys"], 100);
    assert!(json[0]["live_bytes"].as_u64().unwrap() >= 100 * 12);
    assert!(json[0]["disk_bytes"].as_u64().unwrap() >= json[0]["live_bytes"].as_u64().unwrap());
    let text = sandbox.firn("log stats s").ok().out;
    assert!(
        text.contains("keys") && text.contains("100") && text.contains("bytes per key"),
        "{text}"
    );
}

#[test]
fn a_directory_with_other_files_is_unchanged() {
    // A mistyped path must not leave a file in that directory.
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("d")).unwrap();
    sandbox.write("d/letter.txt", "dear");
    sandbox.firn("log put d k v").fails(4, "holds no log store");
    for (command, code) in [
        ("log delete d k", 3),
        ("log compact d", 3),
        ("log repair d -o r", 3),
        ("log get d k", 3),
        ("search build d/letter.txt -o d", 4),
        ("search remove d p", 3),
    ] {
        sandbox.firn(command).fails(code, "");
        let names: Vec<_> = fs::read_dir(sandbox.path("d")).unwrap().flatten().collect();
        assert_eq!(names.len(), 1, "{command}: {names:?}");
    }
}
