//! Puts, gets, deletes and reopening, compared with a map.

use super::{DIR, options};
use crate::disk::{DiskRef, SimDisk};
use crate::log::LogStore;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

#[test]
fn writes_are_read_back_and_survive_a_reopen() {
    let disk: DiskRef = SimDisk::new();
    let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut store = LogStore::open_on(Arc::clone(&disk), Path::new(DIR), options()).unwrap();
    for n in 0..5000u32 {
        let key = format!("key {}", n * 7919 % 800).into_bytes();
        if n % 5 == 4 {
            assert_eq!(store.delete(&key).unwrap(), model.remove(&key).is_some());
        } else {
            let value = vec![n as u8; (n * 31 % 90) as usize];
            store.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        if n % 1000 == 999 {
            store.close().unwrap();
            store = LogStore::open_on(Arc::clone(&disk), Path::new(DIR), options()).unwrap();
        }
        if n % 250 == 0 {
            for n in 0..800 {
                let key = format!("key {n}").into_bytes();
                assert_eq!(store.get(&key).unwrap(), model.get(&key).cloned());
            }
            assert_eq!(store.len(), model.len() as u64);
        }
    }
}

/// A process may open a limited number of files, usually 1,024.
#[test]
#[cfg(target_os = "linux")]
fn sealed_segments_keep_no_files_open() {
    let dir = std::env::temp_dir().join(format!("firndb-log-files-{}", std::process::id()));
    let store = LogStore::open_with(&dir, options()).unwrap();
    for n in 0..800u32 {
        store.put(n.to_le_bytes(), [n as u8; 1000]).unwrap();
    }
    while store.maintain().unwrap() {}
    let segments = store.stats().segments;
    let open: Vec<_> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|path| path.starts_with(&dir))
        .collect();
    // The directory, its lock, the lock file, the active segment and the next one.
    assert!(segments > 90 && open.len() <= 5, "{segments} segments, {open:?}");
    for n in 0..800u32 {
        assert_eq!(store.get(n.to_le_bytes()).unwrap(), Some(vec![n as u8; 1000]));
    }
    store.put(b"after", b"all").unwrap();
    store.sync().unwrap();
    drop(store);
    std::fs::remove_dir_all(&dir).unwrap();
}
