//! Direct reads on the real disk, counted; and a path that is reassigned while a table is opened.

use super::*;
use crate::disk::{self, HookDisk};
use crate::table::{Compression, KeyFilter};
use crate::testing::Rng;
use firndb_testing::{skipped, this_test};
use std::borrow::Cow;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use xxhash_rust::xxh3::xxh3_64;

/// A directory on the real disk, removed when dropped.
pub(crate) struct TempDir(pub(crate) PathBuf);

impl TempDir {
    /// `None` if the file system does not support direct reads.
    pub(crate) fn new() -> Option<TempDir> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (number, process) = (NEXT.fetch_add(1, Relaxed), std::process::id());
        let dir = std::env::current_exe().unwrap().parent()?.join("table-tests");
        let dir = TempDir(dir.join(format!("{process}-{number}")));
        std::fs::create_dir_all(&dir.0).unwrap();
        std::fs::write(dir.0.join("try"), b"try").unwrap();
        match disk::Direct::open(&dir.0.join("try")) {
            Ok(_) => Some(dir),
            Err(e) => {
                skipped(&this_test(), format!("no reads past the page cache: {e}"));
                None
            }
        }
    }

    pub(crate) fn build(&self, options: BuildOptions, records: &Records) -> Table {
        build_at(&disk::os(), &self.0.join(FILE), options, records);
        Table::open_with(self.0.join(FILE), Access::Direct).unwrap()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn build_at(disk: &DiskRef, path: &Path, options: BuildOptions, records: &Records) {
    let mut builder = TableBuilder::create_on(disk.clone(), path, options).unwrap();
    records.iter().for_each(|(key, value)| builder.add(key, value).unwrap());
    builder.finish().unwrap();
}

fn records(n: usize, value: usize) -> Records {
    let mut rng = Rng(n as u64);
    (0..n).map(|i| (format!("k{i:012}").into_bytes(), rng.fill(value))).collect()
}

#[test]
fn get_reads_one_page() {
    let Some(dir) = TempDir::new() else { return };
    for (value, n) in [(32, 20_000), (100, 5_000)] {
        let records = records(n, value);
        let table = dir.build(BuildOptions::default(), &records);
        assert!(table.stats().paged);
        let before = table.reader.direct().unwrap().reads();
        for (key, value) in &records {
            assert_eq!(table.get(key).unwrap().as_deref(), Some(&value[..]));
        }
        (0..n as u64).for_each(|i| assert!(table.get(i.to_le_bytes()).unwrap().is_none()));
        let reads = table.reader.direct().unwrap().reads();
        let (reads, pages) = (reads.0 - before.0, reads.1 - before.1);
        println!("{} gets, present and absent: {reads} reads, {pages} pages", 2 * n);
        // A hash before the first block is absent without a read.
        assert!(reads <= 2 * n as u64 && reads + 200 > 2 * n as u64 && pages == reads);
    }
}

#[test]
fn get_of_a_long_record_is_one_read() {
    let Some(dir) = TempDir::new() else { return };
    for compression in
        [Compression::None, Compression::Records { level: 1 }, Compression::Blocks { level: 1 }]
    {
        let records = records(300, 9_000);
        let options = BuildOptions { compression, ..BuildOptions::default() };
        let table = dir.build(options, &records);
        let before = table.reader.direct().unwrap().reads().0;
        for (key, value) in &records {
            assert_eq!(table.get(key).unwrap().as_deref(), Some(&value[..]));
        }
        assert_eq!(table.reader.direct().unwrap().reads().0 - before, 300, "{compression:?}");
    }
}

#[test]
fn filter_avoids_nearly_all_reads_of_absent_keys() {
    let Some(dir) = TempDir::new() else { return };
    let options = BuildOptions { filter: KeyFilter::Bits8, ..BuildOptions::default() };
    let table = dir.build(options, &records(20_000, 32));
    let before = table.reader.direct().unwrap().reads().0;
    let n = 50_000;
    (0..n).for_each(|i: u64| assert!(table.get(i.to_le_bytes()).unwrap().is_none()));
    let reads = table.reader.direct().unwrap().reads().0 - before;
    println!("{n} absent keys: {reads} reads");
    assert!(reads < n / 200);
}

#[test]
fn get_many_reads_each_block_once() {
    let Some(dir) = TempDir::new() else { return };
    let records = records(20_000, 32);
    let table = dir.build(BuildOptions::default(), &records);
    let before = table.reader.direct().unwrap().reads().0;
    let keys: Vec<&[u8]> = records.iter().map(|(key, _)| &key[..]).collect();
    let values = table.get_many(&keys).unwrap();
    assert!(values.iter().zip(&records).all(|(got, (_, value))| got.as_deref() == Some(value)));
    assert_eq!(table.reader.direct().unwrap().reads().0 - before, table.stats().blocks);
    let mut same = 0;
    let read = table.read_many(&keys, |position, value| -> Result<()> {
        same += usize::from(value == Some(&records[position].1));
        Ok(())
    });
    assert!(read.is_ok() && same == records.len());
    assert_eq!(table.reader.direct().unwrap().reads().0 - before, 2 * table.stats().blocks);
}

/// Batches of present, absent and repeated keys answer as gets do, and read each candidate block
/// once.
#[test]
fn direct_batches_agree_with_gets() {
    let Some(dir) = TempDir::new() else { return };
    let records = records(600, 40);
    let keys: Vec<String> = (0..1_000).map(|i| format!("k{:012}", i * 37 % 900)).collect();
    let packed = [Compression::Records { level: 1 }, Compression::Blocks { level: 1 }];
    for compression in [Compression::None].into_iter().chain(packed) {
        for filter in [KeyFilter::None, KeyFilter::Bits8] {
            let options = BuildOptions { compression, filter, ..BuildOptions::default() };
            let table = dir.build(options, &records);
            let got = keys.iter().map(|key| table.get(key.as_bytes()).unwrap());
            let got: Vec<Option<Vec<u8>>> = got.map(|value| value.map(Cow::into_owned)).collect();
            let present = got.iter().flatten().count();
            assert!((600..800).contains(&present), "{present} of 600 and some repeated");
            for n in [0, 1, 2, 33, 500, keys.len()] {
                let locate = |key: &[u8]| table.reader.locate(xxh3_64(key), key);
                let located = keys[..n].iter().map(|key| locate(key.as_bytes()));
                let blocks: HashSet<u64> = located.flatten().map(|at| at.block).collect();
                let before = table.reader.direct().unwrap().reads().0;
                let many = table.get_many(&keys[..n]).unwrap().into_iter();
                let many: Vec<_> = many.map(|value| value.map(Cow::into_owned)).collect();
                assert!(many == got[..n], "{compression:?}, {filter:?}, {n} keys");
                let reads = table.reader.direct().unwrap().reads().0 - before;
                assert_eq!(reads, blocks.len() as u64, "{compression:?}, {filter:?}, {n} keys");
            }
        }
    }
}

/// With the directory of one table and the blocks of another, keys of both would be absent.
#[test]
fn table_replaced_during_open_is_one_or_the_other() {
    for access in [Access::Map, Access::Buffered, Access::Resident] {
        let disk = SimDisk::new();
        build_at(
            &(disk.clone() as DiskRef),
            Path::new(FILE),
            BuildOptions::default(),
            &records(9, 50),
        );
        // The path is reassigned three times, each time just before it is used.
        let (left, replaced) = (AtomicU32::new(3), disk.clone() as DiskRef);
        let before = move |path: &Path| {
            let left = left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
            if let Ok(left) = left {
                let records = records(1000 + 500 * left as usize, left as usize);
                build_at(&replaced, path, BuildOptions::default(), &records);
            }
        };
        let table = open(&(Arc::new(HookDisk { disk, before }) as DiskRef), access).unwrap();
        // A map is opened with one call.
        let length = if access == Access::Map { 3 } else { 1 };
        for i in 0..9 {
            let got = table.get(format!("k{i:012}").as_bytes()).unwrap();
            assert_eq!(got.map(|value| value.len()), Some(length), "{access:?}");
        }
    }
}
