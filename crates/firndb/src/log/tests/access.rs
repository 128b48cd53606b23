//! Buffered access: a failing disk is an error of the call that reads.

use super::{DIR, options};
use crate::ErrorKind;
use crate::disk::{DiskRef, Fault, SimDisk};
use crate::log::{Access, LogStore, Options};
use std::path::Path;
use std::sync::Arc;

fn open(disk: &Arc<SimDisk>, read_only: bool) -> LogStore {
    let options = Options { access: Access::Buffered, read_only, ..options() };
    LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(DIR), options).unwrap()
}

/// Records of all lengths: shorter than the first read, as long, and longer than a segment.
fn value(n: u32) -> Vec<u8> {
    let length = match n % 5 {
        0 => 0,
        1 => 990 + n as usize % 64,
        2 => 5000,
        _ => n as usize % 300,
    };
    vec![n as u8; length]
}

#[test]
fn a_failing_disk_is_an_error_of_the_read() {
    let disk = SimDisk::new();
    let store = open(&disk, false);
    (0..200u32).for_each(|n| store.put(n.to_le_bytes(), value(n)).unwrap());
    while store.maintain().unwrap() {}
    drop(store);
    let mut store = open(&disk, false);
    let check = |store: &LogStore| {
        for n in 0..200u32 {
            assert_eq!(store.get(n.to_le_bytes()).unwrap().unwrap(), value(n), "{n}");
        }
        let keys: Vec<[u8; 4]> = (0..200u32).map(u32::to_le_bytes).collect();
        let many = store.get_many(&keys).unwrap();
        assert!(many.into_iter().zip(0..).all(|(found, n)| found.unwrap() == value(n)));
        assert_eq!(store.snapshot().iter().map(Result::unwrap).count(), 200);
        assert_eq!(store.get(b"absent").unwrap(), None);
    };
    check(&store);
    check(&open(&disk, true));
    disk.fail_from(disk.ops(), Fault::Io);
    let is_io = |error: crate::Error| assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    is_io(store.get(7u32.to_le_bytes()).unwrap_err());
    is_io(store.update(7u32.to_le_bytes(), |_| None).unwrap_err());
    is_io(store.verify().unwrap_err());
    is_io(store.snapshot().get(7u32.to_le_bytes()).unwrap_err());
    is_io(store.snapshot().iter().next().unwrap().unwrap_err());
    is_io(store.compact(0.0).unwrap_err());
    disk.heal();
    drop(store);
    store = open(&disk, false);
    check(&store);
    store.compact(0.0).unwrap();
    check(&store);
    store.verify().unwrap();
}

/// A reader sees through the file what the writer appended since.
#[test]
fn a_reader_follows_a_writer() {
    let disk = SimDisk::new();
    let writer = open(&disk, false);
    writer.put(b"a", b"1").unwrap();
    let reader = open(&disk, true);
    assert_eq!(reader.get(b"a").unwrap().unwrap(), b"1");
    for n in 0..100u32 {
        writer.put(b"a", n.to_le_bytes()).unwrap();
        writer.put(n.to_le_bytes(), value(n)).unwrap();
        while writer.maintain().unwrap() {}
        reader.refresh().unwrap();
        assert_eq!(reader.get(b"a").unwrap().unwrap(), n.to_le_bytes());
        assert_eq!(reader.len(), u64::from(n) + 2);
    }
}
