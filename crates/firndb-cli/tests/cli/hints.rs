//! Errors name the command that fits, and failed commands leave nothing.

use super::Sandbox;
use std::fs;

/// One store of each kind, and a file that is not FirnDB's.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("in.csv", "key,value\na,1\nb,2\n");
    sandbox.firn("log load s in.csv").ok();
    sandbox.firn("table build in.csv -k key -o t").ok();
    sandbox.firn("search build in.csv -o c").ok();
    sandbox.firn("catalog publish cat words t").ok();
    sandbox.write("schema.toml", "[fields]\nkey = \"string full\"\nvalue = \"u64 full\"\n");
    sandbox.firn("index init i --schema schema.toml").ok();
    sandbox.firn("index apply i source in.csv --key key").ok();
    sandbox
}

#[test]
fn a_command_for_another_kind_of_store_is_named() {
    let sandbox = sandbox();
    for (line, hint) in [
        ("table get s a", "this is a log store; use `firn log get s`"),
        ("log get t a", "this is a table; use `firn table get t`"),
        ("log stats c", "this is a collection; use `firn search stats c`"),
        ("log scan cat", "this is a catalog; use `firn catalog"),
        ("search query s", "this is a log store; use `firn log stats s`"),
        ("search count t", "this is a table; use `firn table stats t`"),
        ("index status s", "this is a log store; use `firn log"),
        ("catalog ls s", "this is a log store; use `firn log"),
        ("catalog ls i", "this is an index; use `firn index"),
        ("table stats in.csv", "this is not a file of FirnDB"),
        ("log get in.csv a", "this is not a file of FirnDB"),
        ("search count in.csv", "this is not a file of FirnDB"),
        ("verify in.csv", "this is not a file of FirnDB"),
        ("inspect in.csv", "this is not a file of FirnDB"),
    ] {
        sandbox.firn(line).fails(2, hint);
    }
    sandbox.firn("log put c k v").fails(4, "this is a collection");
    sandbox.firn("search build in.csv -o s").fails(4, "this is a log store");
}

#[test]
fn databases_of_other_engines_are_named() {
    let sandbox = Sandbox::new();
    for (dir, files, hint) in [
        ("halo", &["META", "1795872640.data"][..], "HaloDB; `firn import halo -o STORE`"),
        ("bsdb", &["config.properties", "kv.db.0"][..], "BSDB; `firn import`"),
        ("rocks", &["CURRENT", "MANIFEST-000005"][..], "RocksDB; `firn import`"),
        ("lmdb", &["data.mdb", "lock.mdb"][..], "LMDB; `firn import`"),
    ] {
        fs::create_dir(sandbox.path(dir)).unwrap();
        files.iter().for_each(|file| sandbox.write(&format!("{dir}/{file}"), ""));
        for command in ["log get", "table get"] {
            sandbox.firn(&format!("{command} {dir} k")).fails(2, hint);
        }
        sandbox.firn(&format!("verify {dir}")).fails(2, hint);
        sandbox.firn(&format!("log put {dir} k v")).fails(4, hint);
        assert_eq!(fs::read_dir(sandbox.path(dir)).unwrap().count(), files.len());
    }
}

#[test]
fn failed_commands_leave_no_store() {
    let sandbox = Sandbox::new();
    sandbox.write("bad.csv", "a,b\n1,2\n");
    sandbox.write("bad.parquet", "PAR1 and nothing else");
    sandbox.write("long.txt", format!("{}\tv\n", "k".repeat(70_000)));
    sandbox.write("bad.toml", "[fields]\nid = \"u64 nonsense\"\n");
    let before = fs::read_dir(&sandbox.0).unwrap().count();
    for (line, code) in [
        ("log load new missing.csv", 3),
        ("log load new bad.csv --key id", 2),
        ("log load new bad.parquet --key id", 6),
        ("log load new long.txt", 2),
        ("log put new k --value-file missing", 3),
        ("log restore missing -o new", 3),
        ("log repair missing -o new", 3),
        ("log import missing -o new", 3),
        ("log freeze missing -o new", 3),
        ("search build missing.csv -o new", 3),
        ("search build bad.parquet -o new", 6),
        ("search build bad.csv -o new --schema bad.toml", 2),
        ("table build missing.csv -o new", 3),
        ("table build bad.csv --key id -o new", 2),
        ("catalog publish new words missing", 3),
        ("catalog publish new words bad.csv", 2),
        ("index init new --schema bad.toml", 2),
        ("index apply new source bad.csv --key a", 3),
        ("index backup new -o b", 3),
        ("catalog pull new words -o out", 3),
    ] {
        let run = sandbox.firn(line);
        assert_eq!(run.code, code, "{line}: {}", run.err);
        let left = fs::read_dir(&sandbox.0).unwrap().flatten().map(|entry| entry.file_name());
        assert_eq!(left.count(), before, "{line} left something");
    }
}

#[test]
fn a_catalog_is_not_made_of_something_else() {
    let sandbox = sandbox();
    for (to, what) in [
        ("s", "log store"),
        ("t", "table"),
        ("c", "collection"),
        ("i", "index"),
        ("in.csv", "not a file of FirnDB"),
    ] {
        sandbox.firn(&format!("catalog publish {to} words t")).fails(4, what);
    }
    sandbox.firn("catalog publish new words s").fails(2, "this is a log store");
    assert!(!sandbox.path("new").exists());
}
