//! Partition files, and the manifest of a collection (its set file).

use crate::{ask, place};
use firndb::search::{Collection, Reader};
use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;
use xxhash_rust::xxh3::xxh3_64;

/// Files of up to this size are merged, too.
const MERGED: usize = 64 << 10;

pub fn run(data: &[u8]) {
    let seed = xxh3_64(data);
    let path = place::file("a.part.firn", data);
    let _ = firndb::inspect(&path);
    if let Ok(reader) = Reader::open_files(&[&path]) {
        ask::ask(&reader, seed);
    }
    // Together with an intact partition, values are looked up in the set's own statistics, and
    // small partitions are read as one.
    let prefix = match seed % 8 {
        0 => "rooms.",
        1 => "stays.",
        2 => "spots.",
        _ => return,
    };
    let names = place::golden_files("").into_iter().map(|(name, _)| name);
    let whole =
        names.filter(|name| name.starts_with(prefix)).map(|name| place::golden().join(name));
    let files: Vec<PathBuf> = whole.chain([path]).collect();
    if let Ok(reader) = Reader::open_files(&files) {
        ask::ask(&reader, seed >> 3);
    }
    if data.len() < MERGED {
        let _ = ask::merge(&place::empty_dir("merged"), &files);
    }
}

/// A collection with all golden partitions; only its set file differs from input to input.
static COLLECTION: LazyLock<PathBuf> = LazyLock::new(|| {
    let dir = place::empty_dir("collection");
    for folder in ["", "index/collection"] {
        for (name, bytes) in place::golden_files(folder) {
            if name.ends_with(".part.firn") {
                fs::write(dir.join(name), bytes).expect("a partition can be copied");
            }
        }
    }
    dir
});

pub fn run_set(data: &[u8]) {
    let path = COLLECTION.join("set-00000000000000000003.firn");
    let _ = fs::remove_file(&path);
    fs::write(&path, data).expect("a set can be written");
    let _ = firndb::inspect(&path);
    if let Ok(collection) = Collection::open(&*COLLECTION) {
        let _ = collection.refresh();
        ask::ask(&collection.reader(), xxh3_64(data));
    }
    let _ = firndb::verify(&*COLLECTION, |_, _| {});
}
