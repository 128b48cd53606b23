//! Files of a LogStore: a segment or an auxiliary file (hint, checkpoint, end), placed in the
//! golden store, or a segment alone.

use crate::frozen::{File, u64_at};
use crate::mutate::Rng;
use crate::place;
use firndb::log::{LogStore, Options, WriteOptions};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// The last segment of the golden store.
const LAST: u64 = 6;
const HINT: u32 = 4;
const CHECKPOINT: u32 = 5;

/// The golden store.
struct Golden {
    /// Names and contents of its files.
    files: Vec<(String, Vec<u8>)>,
    keys: Vec<Vec<u8>>,
}

static GOLDEN: LazyLock<Golden> = LazyLock::new(|| {
    let files = place::golden_files("log");
    let dir = place::empty_dir("golden");
    files.iter().for_each(|(name, bytes)| fs::write(dir.join(name), bytes).expect("written"));
    let store = LogStore::open_read_only(&dir);
    let snapshot = store.expect("the golden store opens").snapshot();
    let keys = snapshot.keys().take(40).collect::<firndb::Result<_>>();
    Golden { files, keys: keys.expect("the golden store has keys") }
});

/// Runs an input that is a segment. Its header gives its number.
pub fn run_segment(data: &[u8]) {
    let number = u64_at(data, 24).filter(|number| (1..=LAST).contains(number)).unwrap_or(LAST);
    run(&format!("segment-{number:020}.log"), data);
}

/// Runs an input that is an auxiliary file. Its kind gives its name.
pub fn run_auxiliary(data: &[u8]) {
    let file = File::parse(data);
    let kind = file.as_ref().map(|file| file.kind);
    let meta = file.as_ref().and_then(|file| file.sections.first());
    let number = meta.and_then(|meta| u64_at(&meta.bytes, 8)).filter(|n| (1..LAST).contains(n));
    match kind {
        Some(HINT) => run(&format!("segment-{:020}.hint", number.unwrap_or(1)), data),
        Some(CHECKPOINT) => run("checkpoint.firn", data),
        _ => run("durable_end.firn", data),
    }
}

fn run(name: &str, data: &[u8]) {
    let mut rng = Rng::new(xxh3_64(data));
    let Golden { files, keys } = &*GOLDEN;
    let dir = place::empty_dir("store");
    let (alone, hints, checkpoint) = (rng.one_in(8), !rng.one_in(4), !rng.one_in(4));
    for (other, bytes) in files.iter().filter(|(other, _)| !alone && other != name) {
        let left_out =
            (!hints && other.ends_with(".hint")) || (!checkpoint && other == "checkpoint.firn");
        if !left_out {
            fs::write(dir.join(other), bytes).expect("a golden file can be copied");
        }
    }
    let path = dir.join(name);
    fs::write(&path, data).expect("the input can be written");
    let _ = firndb::inspect(&path);
    // One operation per input: opening a store takes longer than everything else.
    match rng.below(8) {
        0 => drop(LogStore::repair(&dir, place::empty_dir("parent").join("repaired"))),
        1 => drop((firndb::inspect(&dir), firndb::verify(&dir, |_, _| {}))),
        2..=4 => write(&dir, keys),
        _ => read(&dir, keys),
    }
}

fn options() -> Options {
    Options::new().segment_bytes(4 << 10).checkpoint_bytes(8 << 10).background(false)
}

/// Reads everything.
fn read(dir: &Path, keys: &[Vec<u8>]) {
    let Ok(store) = LogStore::open_with(dir, options().read_only(true)) else { return };
    for key in keys {
        let _ = (store.get(key), store.value_len(key));
    }
    let _ = (store.get_many(keys), store.len(), store.stats(), store.verify());
    let snapshot = store.snapshot();
    for part in snapshot.splits(2) {
        let _ = part.take(500).filter(|record| record.is_err()).count();
    }
    let _ = snapshot.keys().take(500).filter(|key| key.is_err()).count();
    drop(snapshot);
    let _ = store.refresh();
}

/// Writes to the store, if it opens, and checks that the writes are there after it is reopened.
fn write(dir: &Path, keys: &[Vec<u8>]) {
    let Ok(store) = LogStore::open_with(dir, options()) else { return };
    let later = WriteOptions::new().ttl(Duration::from_secs(1_000_000));
    let mut is_put = store.put(b"a new key", b"its value").is_ok();
    for key in keys.iter().take(10) {
        let _ = (store.append(key, b"more"), store.put_with(key, [7; 700], later));
    }
    for key in keys.iter().skip(10).take(5) {
        let _ = store.delete(key);
    }
    let _ = store.maintain();
    let _ = store.compact(0.01);
    is_put &= store.put(b"another", b"").is_ok();
    let _ = (store.verify(), store.stats());
    is_put &= store.close().is_ok();
    let Ok(store) = LogStore::open_with(dir, options()) else { return };
    if let (true, Ok(value)) = (is_put, store.get(b"a new key")) {
        assert_eq!(value.as_deref(), Some(&b"its value"[..]), "a record that was put is lost");
    }
}
