//! backup, restore and repair --dry-run: what they refuse, and that they then change nothing.

use super::{Sandbox, content, filled, texts};
use firndb::log::LogStore;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// All files below a directory, with their bytes.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match path.is_dir() {
            true => files.append(&mut self::files(&path)),
            false => drop(files.insert(path.clone(), fs::read(&path).unwrap_or_default())),
        }
    }
    files
}

#[test]
fn a_backup_into_the_store_itself_is_refused_under_any_path() {
    let sandbox = filled(500);
    sandbox.firn("log put s new x").ok();
    symlink("s", sandbox.path("link")).unwrap();
    let all = content(&sandbox, "s");
    let absolute = sandbox.path("s");
    let absolute = absolute.to_str().unwrap();
    for to in ["s", "./s", "s/.", "s/../s", "link", "s/inside", "link/a/b", ".", "..", absolute] {
        let run = sandbox.firn(&format!("log backup s -o {to}")).fails(4, "nothing was changed");
        assert!(run.err.contains("choose a directory that is new or empty"), "{}", run.err);
        let run = sandbox.firn(&format!("log backup {absolute} -o {to} --json"));
        assert!(run.fails(4, "").err.contains("already_exists"));
    }
    assert!(!sandbox.path("s/inside").exists() && !sandbox.path("s/a").exists());
    sandbox.firn("log verify s").ok();
    assert_eq!(content(&sandbox, "s"), all);
}

#[test]
fn a_backup_replaces_no_other_store() {
    let sandbox = Sandbox::new();
    sandbox.firn("log put one a 1").ok();
    sandbox.firn("log put two b 2").ok();
    sandbox.firn("log put three c 3").ok();
    sandbox.firn("log backup one -o bk").ok();
    let before = [files(&sandbox.path("bk")), files(&sandbox.path("three"))];
    sandbox.firn("log backup two -o bk").fails(4, "a backup of another store");
    sandbox.firn("log backup one -o three").fails(4, "this is a log store");
    assert_eq!([files(&sandbox.path("bk")), files(&sandbox.path("three"))], before);
    assert_eq!(sandbox.firn("log scan bk").ok().out, "a\t1\n");
    assert_eq!(sandbox.firn("log scan three").ok().out, "c\t3\n");
    // Nor any other file.
    sandbox.write("file", "text");
    fs::create_dir(sandbox.path("notes")).unwrap();
    sandbox.write("notes/.todo", "buy milk");
    symlink("nowhere", sandbox.path("dangling")).unwrap();
    sandbox.firn("log backup one -o file").fails(4, "not a directory");
    sandbox.firn("log backup one -o notes").fails(4, "`.todo`");
    sandbox.firn("log backup one -o dangling").fails(4, "leads nowhere");
    sandbox.firn("log backup nowhere -o new").fails(3, "nowhere");
    assert_eq!(fs::read_dir(sandbox.path("notes")).unwrap().count(), 1);
    assert!(!sandbox.path("new").exists());
}

#[test]
fn a_modified_backup_is_not_replaced() {
    let sandbox = filled(500);
    sandbox.firn("log backup s -o b").ok();
    // Reading does not count as writing.
    sandbox.firn("log get b key-1").ok();
    sandbox.firn("log verify b").ok();
    sandbox.firn("log put s more 1").ok();
    sandbox.firn("log backup s -o b").ok();
    assert_eq!(content(&sandbox, "b"), content(&sandbox, "s"));
    sandbox.firn("log put b only-here 1").ok();
    sandbox.firn("log put s more 2").ok();
    let before = files(&sandbox.path("b"));
    sandbox.firn("log backup s -o b").fails(4, "was written to since it was made");
    assert_eq!(files(&sandbox.path("b")), before);
    assert_eq!(sandbox.firn("log get b only-here").ok().out, "1\n");
    sandbox.firn("log verify b").ok();
}

#[test]
fn an_open_backup_is_locked() {
    let sandbox = filled(10);
    sandbox.firn("log backup s -o b").ok();
    let store = LogStore::open(sandbox.path("b")).unwrap();
    sandbox.firn("log backup s -o b").fails(5, "b/lock");
    drop(store);
    sandbox.firn("log backup s -o b").ok();
}

#[test]
fn a_backup_is_verified_when_asked() {
    let sandbox = filled(100);
    let run = sandbox.firn("log backup s -o b --verify").ok();
    assert!(run.out.contains("100 keys") && run.out.contains("records checked"), "{}", run.out);
    let json = sandbox.firn("log backup s -o b --verify --json").ok().json();
    assert!(json[0]["verified_records"].as_u64().unwrap() >= 100, "{json:?}");
    assert!(sandbox.firn("log backup s -o b --json").ok().json()[0]["verified_records"].is_null());
    // Hard links are damaged with the store.
    let names = fs::read_dir(sandbox.path("s")).unwrap().flatten();
    let path = names.map(|entry| entry.path()).find(|path| {
        path.extension().is_some_and(|end| end == "log")
            && fs::read(path).unwrap().windows(6).any(|w| w == b"key-77")
    });
    let path = path.unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(6).position(|w| w == b"key-77").unwrap();
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    sandbox.firn("log backup s -o b --verify").fails(6, "b/segment-");
}

#[test]
fn a_store_is_restored_from_a_backup() {
    let sandbox = filled(300);
    sandbox.firn("log backup s -o b").ok();
    sandbox.firn("log put s later 1").ok();
    let json = sandbox.firn("log restore b -o new --json").ok().json();
    assert_eq!(json[0]["keys"], 300);
    assert_eq!(content(&sandbox, "new"), content(&sandbox, "b"));
    // The new store is independent of the backup.
    sandbox.firn("log put new mine 1").ok();
    sandbox.firn("log compact new --threshold 0").ok();
    assert!(!texts(&sandbox, "b").contains_key("mine"));
    sandbox.firn("log verify b").ok();
    // Nothing is overwritten.
    let before = [files(&sandbox.path("new")), files(&sandbox.path("s"))];
    sandbox.firn("log restore b -o new").fails(4, "choose a directory that is new or empty");
    sandbox.firn("log restore b -o s").fails(4, "choose a directory that is new or empty");
    sandbox.firn("log restore b -o b").fails(4, "choose a directory that is new or empty");
    sandbox.firn("log restore b -o b/inside").fails(4, "inside");
    sandbox.write("file", "text");
    sandbox.firn("log restore b -o file").fails(4, "choose a directory that is new or empty");
    sandbox.firn("log restore nowhere -o q").fails(3, "nowhere");
    assert_eq!([files(&sandbox.path("new")), files(&sandbox.path("s"))], before);
    assert!(!sandbox.path("q").exists());
    fs::create_dir(sandbox.path("empty")).unwrap();
    assert!(sandbox.firn("log restore b -o empty").ok().out.contains("300 keys"));
}

#[test]
fn an_interrupted_restore_cannot_be_opened() {
    let sandbox = filled(50);
    sandbox.firn("log backup s -o b").ok();
    // As a killed restore leaves it: `backup-unfinished.firn` marks the directory as incomplete.
    sandbox.firn("log restore b -o r").ok();
    let golden = "../firndb/tests/golden/v1/backup/backup-unfinished.firn";
    let marker = Path::new(env!("CARGO_MANIFEST_DIR")).join(golden);
    fs::copy(marker, sandbox.path("r/backup-unfinished.firn")).unwrap();
    sandbox.firn("log scan r").fails(6, "interrupted");
    sandbox.firn("log put r k v").fails(6, "interrupted");
    sandbox.firn("log restore b -o r").fails(4, "was interrupted");
    sandbox.firn("verify r").fails(6, "interrupted");
}

#[test]
fn a_dry_run_of_repair_writes_nothing() {
    let sandbox = filled(2000);
    let names = fs::read_dir(sandbox.path("s")).unwrap().flatten().map(|entry| entry.path());
    let path = names.filter(|path| path.extension().is_some_and(|end| end == "log")).min().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(8).position(|w| w == b"key-1002").unwrap();
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    let before = files(&sandbox.0);
    let run = sandbox.firn("log repair s --dry-run").ok();
    assert!(run.out.contains("nothing was written: 1,999 keys"), "{}", run.out);
    assert!(run.err.contains("would be left out"), "{}", run.err);
    let dry = sandbox.firn("log repair s --dry-run -o r --json").ok().json();
    assert_eq!(files(&sandbox.0), before);
    let done = sandbox.firn("log repair s -o r --json").ok().json();
    for name in ["keys", "records", "dropped"] {
        assert_eq!(dry[0][name], done[0][name], "{name}");
    }
    assert_eq!((&dry[0]["dry_run"], &done[0]["dry_run"]), (&true.into(), &false.into()));
    sandbox.firn("log repair s").fails(2, "--output");
    sandbox.firn("log repair s -o s/inside").fails(4, "inside");
    sandbox.firn("log repair s -o s").fails(4, "there is something already");
}
