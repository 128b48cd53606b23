//! A store whose index is full rejects new keys before anything is appended. Everything else works,
//! including openings.

use super::{DIR, options};
use crate::disk::{Disk, DiskRef, SimDisk};
use crate::log::{Batch, LogStore, Options};
use crate::{ErrorKind, Result};
use std::path::Path;
use std::sync::Arc;

/// Most keys of a shard: 7/8 of the slots of 32 pages of 128, minus those reserved for the insert
/// buffer and the displaced set.
const MOST: u32 = 32 * 128 / 8 * 7 - 64;

/// One shard, which cannot split.
fn open(disk: &Arc<SimDisk>) -> LogStore {
    let options =
        Options { segment_bytes: 64 << 10, index_bits: 0, index_doublings: 0, ..options() };
    LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(DIR), options).unwrap()
}

/// Two shards, which can split twice.
fn open_growing(disk: &Arc<SimDisk>) -> LogStore {
    let index = Options { index_bits: 1, index_doublings: 2, ..options() };
    let options = Options { segment_bytes: 64 << 10, ..index };
    LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(DIR), options).unwrap()
}

fn put(store: &LogStore, n: u32) -> Result<()> {
    store.put(n.to_le_bytes(), n.to_le_bytes())
}

#[track_caller]
fn check(store: &LogStore, keys: u32) {
    assert_eq!(store.len(), u64::from(keys));
    let is_right = |n: u32| store.get(n.to_le_bytes()).unwrap().unwrap() == n.to_le_bytes();
    assert!((0..keys).all(is_right));
    assert_eq!(store.get(keys.to_le_bytes()).unwrap(), None);
}

#[track_caller]
fn check_full(store: &LogStore, bytes: u64) {
    let refused = put(store, MOST).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Failed, "{refused}");
    assert!(refused.to_string().contains("the index is full"), "{refused}");
    let batch =
        Batch::new().put(5u32.to_le_bytes(), b"not written").put(MOST.to_le_bytes(), b"new");
    assert!(store.write(&batch).is_err());
    assert!(store.put_if_absent(MOST.to_le_bytes(), b"new").is_err());
    assert!(store.append(MOST.to_le_bytes(), b"new").is_err());
    assert_eq!(store.stats().log_bytes, bytes, "nothing was appended");
    check(store, MOST);
}

#[test]
fn a_full_index_rejects_only_new_keys() {
    let disk = SimDisk::new();
    let store = open(&disk);
    (0..MOST).for_each(|n| put(&store, n).unwrap_or_else(|e| panic!("key {n}: {e}")));
    check_full(&store, store.stats().log_bytes);
    // Existing keys can be written in every way.
    for n in 0..2000 {
        put(&store, n).unwrap();
        assert!(store.compare_and_set(n.to_le_bytes(), Some(&n.to_le_bytes()), None).unwrap());
        put(&store, n).unwrap();
        store.update(n.to_le_bytes(), |old| old.map(<[u8]>::to_vec)).unwrap();
    }
    store.compact(0.01).unwrap();
    check_full(&store, store.stats().log_bytes);
    assert!(store.delete((MOST - 1).to_le_bytes()).unwrap());
    put(&store, MOST - 1).unwrap();
    check_full(&store, store.stats().log_bytes);
}

/// Each way of opening a store fills the index in a different order and with different intermediate
/// entries.
#[test]
fn a_store_with_a_full_index_can_be_opened() {
    let disk = SimDisk::new();
    let store = open(&disk);
    // Twice as many keys were put and deleted.
    for n in (0..MOST).rev() {
        put(&store, n + MOST).unwrap();
        assert!(store.delete((n + MOST).to_le_bytes()).unwrap());
        put(&store, n).unwrap();
    }
    (0..MOST).step_by(3).for_each(|n| put(&store, n).unwrap());
    check_full(&store, store.stats().log_bytes);
    drop(store); // Closing writes the checkpoint.
    let reopened = |label: &str, is_removed: &dyn Fn(&str) -> bool| {
        let copy = disk.fork();
        for name in copy.list(Path::new(DIR)).unwrap().iter().filter(|name| is_removed(name)) {
            copy.remove(&Path::new(DIR).join(name)).unwrap();
        }
        let store = open(&copy);
        check(&store, MOST);
        let recovery = store.stats().recovery;
        println!("{label}: {recovery:?}");
        check_full(&store, 0);
        store.compact(0.01).unwrap();
        store.close().unwrap();
        check(&open(&copy), MOST);
    };
    reopened("from the checkpoint", &|_| false);
    reopened("from hints", &|name| name == "checkpoint.firn");
    let is_hint = |name: &str| name == "checkpoint.firn" || name.ends_with(".hint");
    reopened("from records", &is_hint);
}

/// They have one hash, so that no number of splits divides them: each counted as another key.
#[test]
fn many_puts_of_one_key_need_room_for_one() {
    for open in [open, open_growing] {
        let store = open(&SimDisk::new());
        let batch = (0..2 * MOST).fold(Batch::new(), |batch, n| batch.put(b"key", n.to_le_bytes()));
        store.write(&batch).unwrap();
        assert_eq!(store.get(b"key").unwrap().unwrap(), (2 * MOST - 1).to_le_bytes());
        assert_eq!(store.len(), 1);
    }
}

#[test]
fn a_store_whose_shards_cannot_split_again_goes_on() {
    let disk = SimDisk::new();
    let store = open_growing(&disk);
    let refused = (0..).find(|&n| put(&store, n).is_err()).unwrap();
    assert!((27_000..29_000).contains(&refused), "{refused} keys");
    let bytes = store.stats().log_bytes;
    let error = put(&store, refused).unwrap_err();
    assert!(error.to_string().contains("the index is full"), "{error}");
    assert_eq!(store.stats().log_bytes, bytes, "nothing was appended");
    check(&store, refused);
    (0..refused).step_by(7).for_each(|n| put(&store, n).unwrap());
    store.close().unwrap();
    for name in ["nothing", "checkpoint.firn", ".hint"] {
        let copy = disk.fork();
        for found in copy.list(Path::new(DIR)).unwrap().iter().filter(|its| its.ends_with(name)) {
            copy.remove(&Path::new(DIR).join(found)).unwrap();
        }
        let store = open_growing(&copy);
        check(&store, refused);
        assert!(put(&store, refused).is_err());
        // A shard may have as many more than it admits as the insert buffer held when it was full.
        (0..1000u32).for_each(|n| assert!(store.delete(n.to_le_bytes()).unwrap()));
        (0..200).for_each(|n| put(&store, n).unwrap());
        assert_eq!(store.len(), u64::from(refused) - 800);
        assert!((1000..refused).all(|n| store.contains(n.to_le_bytes()).unwrap()));
    }
}

#[test]
fn a_store_without_memory_for_another_key_goes_on() {
    let disk = SimDisk::new();
    let open = |disk: &Arc<SimDisk>| {
        let index = Options { index_bits: 3, index_chunks: 1, ..options() };
        let options = Options { segment_bytes: 1 << 20, ..index };
        LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(DIR), options).unwrap()
    };
    let store = open(&disk);
    let refused = (0..).find(|&n| put(&store, n).is_err()).unwrap();
    assert!(refused > 150_000, "{refused} keys in 2 MiB");
    let bytes = store.stats().log_bytes;
    let error = put(&store, refused).unwrap_err();
    assert!(error.to_string().contains("there is no memory"), "{error}");
    let batch = Batch::new().put(5u32.to_le_bytes(), b"x").put(refused.to_le_bytes(), b"new");
    assert!(store.write(&batch).is_err());
    assert_eq!(store.stats().log_bytes, bytes, "nothing was appended");
    check(&store, refused);
    (0..refused).step_by(7).for_each(|n| put(&store, n).unwrap());
    check(&store, refused);
    store.close().unwrap();
    for name in ["nothing", "checkpoint.firn", ".hint"] {
        let copy = disk.fork();
        for found in copy.list(Path::new(DIR)).unwrap().iter().filter(|its| its.ends_with(name)) {
            copy.remove(&Path::new(DIR).join(found)).unwrap();
        }
        let store = open(&copy);
        check(&store, refused);
        (0..1000u32).for_each(|n| assert!(store.delete(n.to_le_bytes()).unwrap()));
        assert_eq!(store.len(), u64::from(refused) - 1000);
        assert!((1000..refused).all(|n| store.contains(n.to_le_bytes()).unwrap()));
    }
}
