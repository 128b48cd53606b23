//! `firn log import --halodb`: whole directories, random ones, and damaged ones.

use super::halodb_dir::{HaloDir, append, flip, record, record_of};
use super::{Sandbox, content};
use std::collections::BTreeMap;
use std::fs;

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

fn import(sandbox: &Sandbox) -> super::super::Run {
    sandbox.firn("log import h -o s --json")
}

/// No store, complete or partial, is left at its path or next to it.
fn is_untouched(sandbox: &Sandbox) -> bool {
    let names = fs::read_dir(&sandbox.0).unwrap().flatten().map(|e| e.file_name());
    names.map(|name| name.into_string().unwrap()).all(|name| !name.starts_with('s'))
}

/// Keys 0..40 in several files; each fourth deleted, each third replaced.
fn sample(sandbox: &Sandbox) -> HaloDir {
    let mut halo = HaloDir::new(&sandbox.path("h"));
    let key = |n: u32| format!("key-{n}").into_bytes();
    (0..40).for_each(|n| halo.put(&key(n), format!("first value of {n}").as_bytes()));
    (0..40).step_by(4).for_each(|n| halo.delete(&key(n)));
    (0..40).step_by(3).for_each(|n| halo.put(&key(n), format!("second value of {n}").as_bytes()));
    halo
}

#[test]
fn a_closed_directory_is_imported() {
    let sandbox = Sandbox::new();
    let mut halo = sample(&sandbox);
    assert!(halo.data_files() > 2);
    // Compacted records have larger file numbers and older sequence numbers than newer records.
    halo.compact(0, false);
    halo.put(b"", b"an empty key");
    halo.put(b"empty", b"");
    halo.put(&[0, 255, 10], &[255; 5000]);
    fs::write(sandbox.path("h").join("1.data.repair"), b"junk").unwrap();
    let said = import(&sandbox).ok();
    assert_eq!(said.err, "");
    let json = &said.json()[0];
    let wanted = halo.content();
    assert_eq!(json["keys"], wanted.len());
    assert_eq!((&json["unclean"], json["dropped"].as_array().unwrap().len()), (&false.into(), 0));
    assert!(json["deleted"].as_u64().unwrap() > 0 && json["tombstones"] == 10);
    assert_eq!(content(&sandbox, "s"), wanted);

    // A second import must be allowed explicitly to change an existing store.
    import(&sandbox).fails(4, "there is something already");
    sandbox.firn("log put s key-1 mine").ok();
    sandbox.firn("log put s other mine").ok();
    sandbox.firn("log import h -o s --add").ok();
    let mut both = wanted.clone();
    both.insert(b"other".to_vec(), b"mine".to_vec());
    assert_eq!(content(&sandbox, "s"), both);

    sandbox.firn("log import h -o ordered --ordered").ok();
    let keys = sandbox.firn("log list ordered --hex --reverse").ok().out;
    let mut sorted: Vec<String> = wanted.keys().rev().map(hex::encode).collect();
    // The empty key.
    *sorted.last_mut().unwrap() = "0x".to_string();
    assert_eq!(keys.lines().collect::<Vec<_>>(), sorted);
    sandbox.firn("log import h -o s --add --ordered").fails(2, "--ordered");
}

#[test]
fn random_directories_match_the_model() {
    for seed in 1..=12u64 {
        let sandbox = Sandbox::new();
        let mut halo = HaloDir::new(&sandbox.path("h"));
        halo.file_bytes = 300;
        // A directory of HaloDB Revive.
        halo.version = (seed % 2) as u8;
        let mut state = seed;
        let mut random = |end: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % end
        };
        for step in 0..400 {
            let key = format!("k{}", random(40)).into_bytes();
            match random(10) {
                0..=5 => {
                    let value = vec![step as u8; random(60) as usize];
                    halo.put(&key, &value);
                }
                6..=8 => halo.delete(&key),
                _ if halo.data_files() > 1 => {
                    let number = random(halo.data_files() as u64) as usize;
                    halo.compact(number, random(4) == 0);
                }
                _ => {}
            }
        }
        // A crash may leave a torn record of each kind.
        let is_torn = seed % 3 == 0;
        if is_torn {
            halo.meta(true);
            let torn = record_of(halo.version, b"k1", b"torn", 1 << 40);
            append(&halo.newest_data(), &torn[..torn.len() - 1 - random(20) as usize]);
            append(&halo.newest_tombstones(), &[7; 9]);
        }
        let said = import(&sandbox).ok();
        let dropped = said.json()[0]["dropped"].as_array().unwrap().clone();
        assert_eq!(dropped.len(), if is_torn { 2 } else { 0 }, "seed {seed}: {dropped:?}");
        assert!(dropped.iter().all(|d| d["torn"] == true), "seed {seed}");
        assert_eq!(content(&sandbox, "s"), halo.content(), "seed {seed}");
    }
}

#[test]
fn torn_tails_after_a_crash_are_dropped_and_reported() {
    let sandbox = Sandbox::new();
    let mut halo = sample(&sandbox);
    halo.meta(true);
    let torn = record(b"key-1", b"never whole", 1_000_000);
    append(&halo.newest_data(), &torn[..torn.len() - 3]);
    let said = import(&sandbox).ok();
    assert!(said.err.contains("did not close"), "{}", said.err);
    assert!(said.err.contains("a crash interrupted"), "{}", said.err);
    let json = &said.json()[0];
    assert_eq!(json["dropped"][0]["dropped_bytes"], torn.len() - 3);
    assert_eq!((&json["dropped"][0]["torn"], &json["unclean"]), (&true.into(), &true.into()));
    assert_eq!(content(&sandbox, "s"), halo.content());
}

/// Imports with `--on-error skip` and compares.
fn skipping(sandbox: &Sandbox, wanted: &Content) -> super::super::Run {
    let run = sandbox.firn("log import h -o s --json --on-error skip").ok();
    assert_eq!(&content(sandbox, "s"), wanted);
    run
}

#[test]
fn damage_stops_the_import_unless_skipped() {
    let sandbox = Sandbox::new();
    let mut halo = sample(&sandbox);
    // Older and newer version of a key; the newer one is damaged.
    halo.put(b"key-1", b"newer");
    halo.roll();
    halo.put(b"last", b"1");
    let (path, offset, length) = halo.location_of(b"key-1");
    flip(&path, offset + length - 1);
    let run = import(&sandbox).fails(6, "not an intact record");
    let error: serde_json::Value = serde_json::from_str(&run.err).unwrap();
    assert_eq!(error["error"]["offset"], offset);
    assert!(error["error"]["message"].as_str().unwrap().contains("--on-error skip"), "{error}");
    assert!(is_untouched(&sandbox));

    // The old version of a key whose new one is lost does not come back.
    let mut wanted = halo.content();
    wanted.remove(&b"key-1"[..]);
    let run = skipping(&sandbox, &wanted);
    assert!(run.err.contains("`key-1` was not imported"), "{}", run.err);
    assert_eq!(run.json()[0]["lost"][0]["key"], "key-1");
}

#[test]
fn a_record_with_a_wrong_length_loses_no_other() {
    let sandbox = Sandbox::new();
    let halo = sample(&sandbox);
    let (path, offset, _) = halo.location_of(b"key-5");
    flip(&path, offset + 8);
    import(&sandbox).fails(6, "not an intact record");
    let mut wanted = halo.content();
    wanted.remove(&b"key-5"[..]);
    skipping(&sandbox, &wanted);

    // Without its index file it is unknown what is lost, which the report says.
    fs::remove_dir_all(sandbox.path("s")).unwrap();
    fs::remove_file(path.with_extension("index")).unwrap();
    let run = sandbox.firn("log import h -o s --on-error skip").ok();
    assert!(run.err.contains("unknown which keys"), "{}", run.err);
}

#[test]
fn damaged_tombstones_do_not_hide_later_ones() {
    let sandbox = Sandbox::new();
    let mut halo = HaloDir::new(&sandbox.path("h"));
    for key in [b"aaa", b"bbb", b"ccc"] {
        halo.put(key, b"value");
    }
    for key in [b"aaa", b"bbb", b"ccc"] {
        halo.delete(key);
    }
    // The length of the first key.
    flip(&halo.newest_tombstones(), 13);
    import(&sandbox).fails(6, "tombstone");
    let wanted = Content::from([(b"aaa".to_vec(), b"value".to_vec())]);
    skipping(&sandbox, &wanted);
}

#[test]
fn open_and_foreign_directories_are_refused() {
    let sandbox = Sandbox::new();
    let _halo = sample(&sandbox);
    let lock = fs::OpenOptions::new().write(true).open(sandbox.path("h").join("LOCK")).unwrap();
    let exclusive = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    rustix::fs::fcntl_lock(&lock, exclusive).unwrap();
    import(&sandbox).fails(5, "close it");
    drop(lock);
    fs::create_dir(sandbox.path("empty")).unwrap();
    sandbox.firn("log import empty -o s").fails(3, "no files of HaloDB");
    sandbox.firn("log import nowhere -o s").fails(3, "nowhere");
    assert!(is_untouched(&sandbox));
}
