//! `firn log import --halodb` of incomplete directories: records that an index lists and no data
//! file has, torn tails, other versions, unexpected entries; and that no single damage silently
//! gives a wrong answer.

use super::halodb_dir::{HaloDir, append, flip, record, record_of};
use super::{Sandbox, content};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys 0..30 in several files, of which every third has a second version in the newest file.
fn sample(sandbox: &Sandbox, version: u8) -> HaloDir {
    let mut halo = HaloDir::new(&sandbox.path("h"));
    halo.version = version;
    halo.file_bytes = 400;
    let key = |n: u32| format!("key-{n:02}").into_bytes();
    (0..30).for_each(|n| halo.put(&key(n), format!("first value of {n}").as_bytes()));
    (0..30).step_by(5).for_each(|n| halo.delete(&key(n)));
    halo.roll();
    halo.file_bytes = 1 << 20;
    (0..30).step_by(3).for_each(|n| halo.put(&key(n), format!("second value of {n}").as_bytes()));
    halo
}

/// Only HaloDB's directory is there.
fn is_untouched(sandbox: &Sandbox) -> bool {
    let names: Vec<_> =
        fs::read_dir(&sandbox.0).unwrap().flatten().map(|e| e.file_name()).collect();
    names == ["h"]
}

/// The import fails with these messages, and with `--on-error skip` gives `wanted`.
fn refuses(sandbox: &Sandbox, messages: &[&str], wanted: &Content) -> super::super::Run {
    let run = sandbox.firn("log import h -o s").fails(6, messages[0]);
    for message in messages {
        assert!(run.err.contains(message), "`{message}` is not in: {}", run.err);
    }
    assert!(run.err.contains("--on-error skip") && run.err.contains("Nothing was imported"));
    assert!(is_untouched(sandbox));
    let run = sandbox.firn("log import h -o s --json --on-error skip").ok();
    assert_eq!(&content(sandbox, "s"), wanted);
    run
}

/// The second versions are lost and exist nowhere else; the first versions do not come back.
fn without_second(halo: &HaloDir) -> Content {
    let mut wanted = halo.content();
    wanted.retain(|_, value| !value.starts_with(b"second"));
    wanted
}

#[test]
fn records_listed_only_by_an_index_are_lost() {
    for version in [0, 1] {
        for is_missing in [false, true] {
            let sandbox = Sandbox::new();
            let halo = sample(&sandbox, version);
            let newest = halo.newest_data();
            match is_missing {
                true => fs::remove_file(&newest).unwrap(),
                // At a record boundary.
                false => fs::write(&newest, b"").unwrap(),
            }
            let name = newest.file_name().unwrap().to_str().unwrap();
            let run = refuses(
                &sandbox,
                &[name, "10 records", "`key-00`", "`key-12` and 5 more"],
                &without_second(&halo),
            );
            let json = &run.json()[0];
            assert_eq!(
                (&json["lost_keys"], &json["missing"][0]["records"]),
                (&10.into(), &10.into())
            );
            assert_eq!(json["missing"][0]["is_there"], !is_missing);
            assert_eq!(json["lost"].as_array().unwrap().len(), 10);
            assert!(run.err.contains("10 records lost"), "{}", run.err);
        }
    }
}

#[test]
fn a_missing_oldest_file_loses_only_its_unique_records() {
    let sandbox = Sandbox::new();
    let halo = sample(&sandbox, 0);
    let oldest = sandbox.path("h").join("1600000001.data");
    fs::remove_file(oldest).unwrap();
    let run = sandbox.firn("log import h -o s").fails(6, "1600000001.data is missing");
    // Keys that were deleted or have second versions are not lost.
    for (key, is_lost) in [("key-01", true), ("key-03", false), ("key-05", false)] {
        assert_eq!(run.err.contains(key), is_lost, "{}", run.err);
    }
    let run = sandbox.firn("log import h -o s --on-error skip --json").ok();
    let lost: BTreeSet<Vec<u8>> = run.json()[0]["lost"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| key["key"].as_str().unwrap().as_bytes().to_vec())
        .collect();
    let mut wanted = halo.content();
    assert!(lost.iter().all(|key| wanted.remove(key).is_some()) && !lost.is_empty());
    assert_eq!(content(&sandbox, "s"), wanted);
}

/// Compaction removes a data file, then its index file: a crash between the two loses nothing.
#[test]
fn an_index_of_compacted_records_is_no_loss() {
    for is_open in [false, true] {
        let sandbox = Sandbox::new();
        let mut halo = sample(&sandbox, 0);
        halo.meta(is_open);
        halo.compact(0, true);
        fs::remove_file(sandbox.path("h").join("1600000001.data")).unwrap();
        let run = sandbox.firn("log import h -o s --json").ok();
        assert_eq!(run.json()[0]["lost_keys"], 0);
        assert_eq!(content(&sandbox, "s"), halo.content());
    }
}

#[test]
fn index_files_are_optional() {
    for version in [0, 1] {
        let sandbox = Sandbox::new();
        let halo = sample(&sandbox, version);
        for entry in fs::read_dir(sandbox.path("h")).unwrap().flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "index") {
                fs::remove_file(entry.path()).unwrap();
            }
        }
        assert_eq!(sandbox.firn("log import h -o s").ok().err, "");
        assert_eq!(content(&sandbox, "s"), halo.content());
    }
}

/// A torn tail is an error in a closed directory, and a note after a crash.
#[test]
fn only_a_crash_explains_a_torn_end() {
    for (is_open, has_meta) in [(false, true), (true, true), (false, false)] {
        for version in [0, 1] {
            let sandbox = Sandbox::new();
            let mut halo = sample(&sandbox, version);
            halo.meta(is_open);
            if !has_meta {
                fs::remove_file(sandbox.path("h").join("META")).unwrap();
            }
            let (path, offset, length) = halo.location_of(b"key-27");
            File::options()
                .write(true)
                .open(&path)
                .unwrap()
                .set_len((offset + length - 3) as u64)
                .unwrap();
            let mut wanted = halo.content();
            if is_open {
                // The older version is the newest intact one, as for HaloDB.
                wanted.insert(b"key-27".to_vec(), b"first value of 27".to_vec());
                let run = sandbox.firn("log import h -o s --json").ok();
                assert!(run.err.contains("1 record"), "{}", run.err);
                assert!(run.err.contains("`key-27`"), "{}", run.err);
                assert_eq!(run.json()[0]["torn_records"], 1);
                assert_eq!(content(&sandbox, "s"), wanted);
            } else {
                wanted.remove(&b"key-27"[..]);
                let why =
                    if has_meta { "META says that HaloDB closed" } else { "there is no META" };
                refuses(&sandbox, &["the file is cut off", why, "`key-27`"], &wanted);
            }
        }
    }
}

/// Only a torn record: this is more damage than a crash explains, so not an empty store.
#[test]
fn an_unreadable_directory_is_not_an_empty_store() {
    let sandbox = Sandbox::new();
    let mut halo = HaloDir::new(&sandbox.path("h"));
    halo.meta(true);
    halo.put(b"key", b"value");
    let path = halo.newest_data();
    fs::write(path.with_extension("index"), b"").unwrap();
    flip(&path, 20);
    sandbox.firn("log import h -o s").fails(6, "nothing else is there");
    assert!(is_untouched(&sandbox));
    sandbox.firn("log import h -o s --on-error skip").ok();
}

#[test]
fn other_versions_are_refused() {
    for is_open in [false, true] {
        for name in ["5.data", "5.datac", "5.tombstone"] {
            let sandbox = Sandbox::new();
            let mut halo = HaloDir::new(&sandbox.path("h"));
            halo.meta(is_open);
            fs::write(sandbox.path("h").join(name), record_of(2, b"a", b"b", 1)).unwrap();
            fs::write(sandbox.path("h").join("5.index"), record_of(2, b"a", b"b", 1)).unwrap();
            for skip in ["", " --on-error skip"] {
                let run = sandbox.firn(&format!("log import h{skip} -o s"));
                run.fails(7, "version 2");
                assert!(is_untouched(&sandbox));
            }
        }
        let sandbox = Sandbox::new();
        let mut halo = sample(&sandbox, 0);
        halo.meta(is_open);
        let meta = sandbox.path("h").join("META");
        let mut bytes = fs::read(&meta).unwrap();
        bytes[4] = 3;
        fs::write(&meta, bytes).unwrap();
        sandbox.firn("log import h -o s").fails(7, "META has version 3");
        assert!(is_untouched(&sandbox));
    }
}

#[test]
fn keys_over_the_limit_are_refused() {
    let sandbox = Sandbox::new();
    let mut halo = HaloDir::new(&sandbox.path("h"));
    halo.version = 1;
    halo.file_bytes = 1 << 20;
    halo.put(&[7; 65_536], b"fits");
    halo.put(b"", b"");
    halo.put(b"large", &vec![9; 3 << 20]);
    let wanted = halo.content();
    halo.put(&[8; 65_537], b"does not fit");
    refuses(&sandbox, &["a key longer than 64 KiB"], &wanted);
}

/// Entries that would block a reader, or fill the memory.
#[test]
fn special_files_are_refused() {
    type Make = fn(&Path);
    let fifo: Make = |path| {
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    };
    let sparse: Make = |path| File::create(path).unwrap().set_len(1 << 40).unwrap();
    let directory: Make = |path| fs::create_dir(path).unwrap();
    let empty: Make = |path| fs::write(path, b"").unwrap();
    let symlink: Make = |path| std::os::unix::fs::symlink("nowhere", path).unwrap();
    let cases: [(&str, Make, i32, &str); 12] = [
        ("7.data", fifo, 6, "not a regular file"),
        ("7.index", fifo, 6, "not a regular file"),
        ("LOCK", fifo, 6, "not a regular file"),
        ("META", fifo, 6, "not a regular file"),
        ("META", directory, 6, "not a regular file"),
        ("7.tombstone", directory, 6, "not a regular file"),
        ("7.datac", sparse, 6, "4 GiB"),
        ("7.index", sparse, 6, "4 GiB"),
        ("7.data", symlink, 3, "7.data"),
        ("99999999999999999999.data", empty, 6, "the number of this file"),
        ("18446744073709551615.data", empty, 0, ""),
        ("META", sparse, 0, "META is damaged"),
    ];
    for (name, make, code, message) in cases {
        let sandbox = Sandbox::new();
        let halo = sample(&sandbox, 0);
        let path = sandbox.path("h").join(name);
        let _ = fs::remove_file(&path);
        make(&path);
        let run = sandbox.firn("log import h -o s");
        assert_eq!(run.code, code, "{name}: {}", run.err);
        assert!(run.err.contains(message), "{name}: {}", run.err);
        match code {
            0 => assert_eq!(content(&sandbox, "s"), halo.content(), "{name}"),
            _ => assert!(is_untouched(&sandbox), "{name}"),
        }
    }
}

#[test]
fn the_target_is_new_or_empty_and_not_in_the_source() {
    let sandbox = Sandbox::new();
    let halo = sample(&sandbox, 0);
    let names = || fs::read_dir(sandbox.path("h")).unwrap().count();
    let before = names();
    for inside in ["h/s", "h/new/s", "./h/../h/s"] {
        sandbox.firn(&format!("log import h -o {inside}")).fails(2, "only read");
    }
    assert_eq!(names(), before);
    sandbox.firn("log import h -o h").fails(4, "there is something already");
    fs::write(sandbox.path("file"), b"mine").unwrap();
    std::os::unix::fs::symlink("nowhere", sandbox.path("dangling")).unwrap();
    sandbox.firn("log import h -o dangling").fails(4, "leads nowhere");
    sandbox.firn("log import h -o file").fails(4, "there is something already");
    // Leftovers of an interrupted import are neither resumed nor removed.
    sandbox.firn("log put s.import-1 key-01 stale").ok();
    fs::create_dir(sandbox.path("empty")).unwrap();
    std::os::unix::fs::symlink("empty", sandbox.path("s")).unwrap();
    fs::create_dir(sandbox.path("empty.import-2")).unwrap();
    let run = sandbox.firn("log import h -o s").ok();
    assert!(run.err.contains("empty.import-2 is of an import that was interrupted"), "{}", run.err);
    assert_eq!(content(&sandbox, "empty"), halo.content());
    assert!(sandbox.path("s").is_symlink() && sandbox.path("s.import-1").exists());
    let run = sandbox.firn("log import h -o t").ok();
    assert_eq!((run.err.as_str(), content(&sandbox, "t")), ("", halo.content()));
}

/// Makes one change to one file. `None` if it cannot be detected, or nothing changed.
fn damage(dir: &Path, random: &mut impl FnMut(usize) -> usize) -> Option<String> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path()).collect();
    files.sort();
    let path = files[random(files.len())].clone();
    let bytes = fs::read(&path).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap().to_string();
    let is_tombstones = name.ends_with("tombstone");
    let kind = random(4);
    let what = match kind {
        0 if !bytes.is_empty() => {
            let length = random(bytes.len());
            // A tombstone file that ends between two entries looks complete.
            let mut border = 0;
            while is_tombstones && border < length {
                let size = if bytes[4] == 0 { bytes[border + 13] } else { bytes[border + 16] };
                border += if bytes[4] == 0 { 14 } else { 17 } + usize::from(size);
            }
            if is_tombstones && border == length {
                return None;
            }
            fs::write(&path, &bytes[..length]).unwrap();
            format!("cut to {length}")
        }
        1 | 2 if !bytes.is_empty() => {
            let mut bytes = bytes;
            let (at, bit) = (random(bytes.len()), random(8));
            bytes[at] ^= 1 << bit;
            fs::write(&path, bytes).unwrap();
            format!("bit {bit} of byte {at}")
        }
        3 if !is_tombstones && name != "META" => {
            fs::remove_file(&path).unwrap();
            "removed".to_string()
        }
        _ if name != "LOCK" => {
            append(&path, &vec![0; 1 + random(200)]);
            "zeros appended".to_string()
        }
        _ => return None,
    };
    Some(format!("{name}: {what}"))
}

/// Either the content is right, or the import fails and leaves nothing, or it reports a loss; then
/// each imported value was put at some time. `FIRNDB_IMPORT_DAMAGES=2000` for more rounds.
#[test]
fn no_single_damage_silently_gives_a_wrong_answer() {
    let seeds = std::env::var("FIRNDB_IMPORT_DAMAGES").map_or(40, |n| n.parse().unwrap());
    for seed in 1..=seeds {
        let mut state: u64 = seed;
        let mut random = |end: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % end
        };
        let sandbox = Sandbox::new();
        let mut halo = sample(&sandbox, (seed % 2) as u8);
        halo.compact(0, false);
        let is_open = random(2) == 0;
        halo.meta(is_open);
        let Some(what) = damage(&sandbox.path("h"), &mut random) else { continue };
        let what = format!("seed {seed}, {what}, open: {is_open}");
        for skip in ["", " --on-error skip"] {
            let run = sandbox.firn(&format!("log import h -o s --json{skip}"));
            if run.code != 0 {
                assert!([6, 7].contains(&run.code), "{what}: {} {}", run.code, run.err);
                assert!(is_untouched(&sandbox), "{what}");
                continue;
            }
            let (found, json) = (content(&sandbox, "s"), &run.json()[0]);
            let lost = json["lost_keys"].as_u64().unwrap() + json["torn_records"].as_u64().unwrap();
            if lost == 0 && json["dropped"].as_array().unwrap().is_empty() {
                assert_eq!(found, halo.content(), "{what}");
            }
            assert!(found.into_iter().all(|pair| halo.history.contains(&pair)), "{what}");
            fs::remove_dir_all(sandbox.path("s")).unwrap();
        }
    }
}

/// Bytes inside the value of a record are not parsed as records.
#[test]
fn bytes_of_a_value_are_not_parsed_as_records() {
    let sandbox = Sandbox::new();
    let mut halo = HaloDir::new(&sandbox.path("h"));
    halo.file_bytes = 1 << 20;
    halo.put(b"first", &record(b"intruder", b"never put", 1 << 50));
    halo.put(b"second", b"value");
    let wanted = Content::from([(b"second".to_vec(), b"value".to_vec())]);
    // The length of the value, then its last byte.
    let (path, offset, length) = halo.location_of(b"first");
    for place_of_damage in [offset + 9, offset + length - 1] {
        flip(&path, place_of_damage);
        refuses(&sandbox, &["not an intact record"], &wanted);
        flip(&path, place_of_damage);
        fs::remove_dir_all(sandbox.path("s")).unwrap();
    }
}
