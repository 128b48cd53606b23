//! backup, restore and repair --dry-run: what they refuse, and that they then change nothing.

use super::{Place, content, filled, texts};
use firndb::log::{LogStore, Options};
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
    let place = filled(500);
    place.firn("log put s new x").ok();
    symlink("s", place.path("link")).unwrap();
    let all = content(&place, "s");
    let absolute = place.path("s");
    let absolute = absolute.to_str().unwrap();
    for to in ["s", "./s", "s/.", "s/../s", "link", "s/inside", "link/a/b", ".", "..", absolute] {
        let run = place.firn(&format!("log backup s {to}")).fails(4, "nothing was changed");
        assert!(run.err.contains("choose a directory that is new or empty"), "{}", run.err);
        let run = place.firn(&format!("log backup {absolute} {to} --json"));
        assert!(run.fails(4, "").err.contains("already_exists"));
    }
    assert!(!place.path("s/inside").exists() && !place.path("s/a").exists());
    place.firn("log verify s").ok();
    assert_eq!(content(&place, "s"), all);
}

#[test]
fn a_backup_replaces_no_other_store() {
    let place = Place::new();
    place.firn("log put one a 1").ok();
    place.firn("log put two b 2").ok();
    place.firn("log put three c 3").ok();
    place.firn("log backup one bk").ok();
    let before = [files(&place.path("bk")), files(&place.path("three"))];
    place.firn("log backup two bk").fails(4, "a backup of another store");
    place.firn("log backup one three").fails(4, "this is a log store");
    assert_eq!([files(&place.path("bk")), files(&place.path("three"))], before);
    assert_eq!(place.firn("log scan bk").ok().out, "a\t1\n");
    assert_eq!(place.firn("log scan three").ok().out, "c\t3\n");
    // Nor any other file.
    place.write("file", "text");
    fs::create_dir(place.path("notes")).unwrap();
    place.write("notes/.todo", "buy milk");
    symlink("nowhere", place.path("dangling")).unwrap();
    place.firn("log backup one file").fails(4, "not a directory");
    place.firn("log backup one notes").fails(4, "`.todo`");
    place.firn("log backup one dangling").fails(4, "leads nowhere");
    place.firn("log backup nowhere new").fails(3, "nowhere");
    assert_eq!(fs::read_dir(place.path("notes")).unwrap().count(), 1);
    assert!(!place.path("new").exists());
}

#[test]
fn a_modified_backup_is_not_replaced() {
    let place = filled(500);
    place.firn("log backup s b").ok();
    // Reading does not count as writing.
    place.firn("log get b key-1").ok();
    place.firn("log verify b").ok();
    place.firn("log put s more 1").ok();
    place.firn("log backup s b").ok();
    assert_eq!(content(&place, "b"), content(&place, "s"));
    place.firn("log put b only-here 1").ok();
    place.firn("log put s more 2").ok();
    let before = files(&place.path("b"));
    place.firn("log backup s b").fails(4, "was written to since it was made");
    assert_eq!(files(&place.path("b")), before);
    assert_eq!(place.firn("log get b only-here").ok().out, "1\n");
    place.firn("log verify b").ok();
}

#[test]
fn an_open_backup_is_locked() {
    let place = filled(10);
    place.firn("log backup s b").ok();
    let store = LogStore::open(place.path("b"), Options::default()).unwrap();
    place.firn("log backup s b").fails(5, "b/lock");
    drop(store);
    place.firn("log backup s b").ok();
}

#[test]
fn a_backup_is_verified_when_asked() {
    let place = filled(100);
    let run = place.firn("log backup s b --verify").ok();
    assert!(run.out.contains("100 keys") && run.out.contains("records checked"), "{}", run.out);
    let json = place.firn("log backup s b --verify --json").ok().json();
    assert!(json[0]["verified_records"].as_u64().unwrap() >= 100, "{json:?}");
    assert!(place.firn("log backup s b --json").ok().json()[0]["verified_records"].is_null());
    // Hard links are damaged with the store.
    let names = fs::read_dir(place.path("s")).unwrap().flatten();
    let path = names.map(|entry| entry.path()).find(|path| {
        path.extension().is_some_and(|end| end == "log")
            && fs::read(path).unwrap().windows(6).any(|w| w == b"key-77")
    });
    let path = path.unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(6).position(|w| w == b"key-77").unwrap();
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    place.firn("log backup s b --verify").fails(6, "b/segment-");
}

#[test]
fn a_store_is_restored_from_a_backup() {
    let place = filled(300);
    place.firn("log backup s b").ok();
    place.firn("log put s later 1").ok();
    let json = place.firn("log restore b new --json").ok().json();
    assert_eq!(json[0]["keys"], 300);
    assert_eq!(content(&place, "new"), content(&place, "b"));
    // The new store is independent of the backup.
    place.firn("log put new mine 1").ok();
    place.firn("log compact new --threshold 0").ok();
    assert!(!texts(&place, "b").contains_key("mine"));
    place.firn("log verify b").ok();
    // Nothing is overwritten.
    let before = [files(&place.path("new")), files(&place.path("s"))];
    place.firn("log restore b new").fails(4, "choose a directory that is new or empty");
    place.firn("log restore b s").fails(4, "choose a directory that is new or empty");
    place.firn("log restore b b").fails(4, "choose a directory that is new or empty");
    place.firn("log restore b b/inside").fails(4, "inside");
    place.write("file", "text");
    place.firn("log restore b file").fails(4, "choose a directory that is new or empty");
    place.firn("log restore nowhere q").fails(3, "nowhere");
    assert_eq!([files(&place.path("new")), files(&place.path("s"))], before);
    assert!(!place.path("q").exists());
    fs::create_dir(place.path("empty")).unwrap();
    assert!(place.firn("log restore b empty").ok().out.contains("300 keys"));
}

#[test]
fn an_interrupted_restore_cannot_be_opened() {
    let place = filled(50);
    place.firn("log backup s b").ok();
    // As a killed restore leaves it: `backup-unfinished.firn` marks the directory as incomplete.
    place.firn("log restore b r").ok();
    let golden = "../firndb/tests/golden/v1/backup/backup-unfinished.firn";
    let marker = Path::new(env!("CARGO_MANIFEST_DIR")).join(golden);
    fs::copy(marker, place.path("r/backup-unfinished.firn")).unwrap();
    place.firn("log scan r").fails(6, "interrupted");
    place.firn("log put r k v").fails(6, "interrupted");
    place.firn("log restore b r").fails(4, "was interrupted");
    place.firn("verify r").fails(6, "interrupted");
}

#[test]
fn a_dry_run_of_repair_writes_nothing() {
    let place = filled(2000);
    let names = fs::read_dir(place.path("s")).unwrap().flatten().map(|entry| entry.path());
    let path = names.filter(|path| path.extension().is_some_and(|end| end == "log")).min().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(8).position(|w| w == b"key-1002").unwrap();
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    let before = files(&place.0);
    let run = place.firn("log repair s --dry-run").ok();
    assert!(run.out.contains("nothing was written: 1,999 keys"), "{}", run.out);
    assert!(run.err.contains("would be given up"), "{}", run.err);
    let dry = place.firn("log repair s --dry-run --to r --json").ok().json();
    assert_eq!(files(&place.0), before);
    let done = place.firn("log repair s --to r --json").ok().json();
    for name in ["keys", "records", "dropped"] {
        assert_eq!(dry[0][name], done[0][name], "{name}");
    }
    assert_eq!((&dry[0]["dry_run"], &done[0]["dry_run"]), (&true.into(), &false.into()));
    place.firn("log repair s").fails(2, "--to");
    place.firn("log repair s --to s/inside").fails(4, "inside");
    place.firn("log repair s --to s").fails(4, "there is something already");
}
