//! Power cuts and failing calls at every operation of a build. The path names the complete old
//! table or the complete new one, and the next build removes temporary files.

use super::*;
use crate::ErrorKind;
use crate::disk::Disk;
use crate::table::{Compression, KeyFilter, Order};
use std::sync::Arc;

const SEED: u64 = 20_261_122;
const DIR: &str = "/tables";
const PATH: &str = "/tables/a.table";

/// A version with records large enough for an index.
const LARGE: u8 = 3;

fn records(version: u8) -> Records {
    let len = if version == LARGE { 600 } else { 60 };
    (0..24u32).map(|i| (format!("key {i}").into_bytes(), vec![version; len])).collect()
}

fn run(disk: &Arc<SimDisk>, options: &BuildOptions, version: u8) -> Result<BuildReport> {
    let mut builder =
        TableBuilder::create_on(disk.clone() as DiskRef, Path::new(PATH), options.clone())?;
    for (key, value) in records(version) {
        builder.add(&key, &value)?;
    }
    builder.finish()
}

/// A disk with the old table or with none, and with leftovers of a crashed build.
fn base(old: bool) -> Arc<SimDisk> {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new(DIR)).unwrap();
    if old {
        run(&disk, &BuildOptions::default(), 1).unwrap();
    }
    disk.write_raw(Path::new("/tables/.firndb-spill-0000000000000001"), b"");
    disk.write_raw(Path::new("/tables/.a.table.firndb-tmp"), b"left over");
    disk.fork()
}

/// The version of the table at the path; 0 if there is none.
fn version(disk: &Arc<SimDisk>) -> std::result::Result<u8, String> {
    if !disk.files().contains_key(Path::new(PATH)) {
        return Ok(0);
    }
    let read = || -> Result<Records> {
        let table = Table::open_on(&(disk.clone() as DiskRef), Path::new(PATH), Access::Map)?;
        table.verify()?;
        let mut all: Records = table.iter().collect::<Result<_>>()?;
        all.sort();
        Ok(all)
    };
    let all = read().map_err(|e| format!("not a whole table: {e:?}"))?;
    let is = |version: &u8| {
        let mut expected = records(*version);
        expected.sort();
        expected == all
    };
    [1, 2, LARGE].into_iter().find(is).ok_or_else(|| "a mixture".into())
}

fn check_version(disk: &Arc<SimDisk>, old: bool, done: bool) -> std::result::Result<(), String> {
    match version(disk)? {
        2 | LARGE => Ok(()),
        found if !done && found == u8::from(old) => Ok(()),
        found => Err(format!("acknowledged: {done}, found version {found}")),
    }
}

/// The next build succeeds, and leaves only the table.
fn next_build_removes_leftovers(disk: &Arc<SimDisk>, options: &BuildOptions) {
    run(disk, options, 2).unwrap();
    assert_eq!(version(disk), Ok(2));
    let left: Vec<_> = disk.files().into_keys().collect();
    assert_eq!(left, [Path::new(PATH)], "leftovers");
}

/// Builds in memory, with spilling, with partitions split again, and with every section.
fn every_build() -> Vec<(&'static str, BuildOptions, u8)> {
    let plain = BuildOptions { threads: 1, ..BuildOptions::default() };
    let small = BuildOptions { memory_limit: 1_000, ..plain.clone() };
    vec![
        ("in memory", plain.clone(), 2),
        ("spilling", small.clone(), 2),
        ("in key order", BuildOptions { order: Order::Key, ..small.clone() }, 2),
        ("with an index", small.clone(), LARGE),
        (
            "all sections",
            BuildOptions {
                compression: Compression::Records { level: 1 },
                filter: KeyFilter::Bits8,
                metadata: vec![7; 10],
                ..small
            },
            2,
        ),
    ]
}

#[test]
fn builds_of_these_tests_spill() {
    for (name, options, version) in every_build() {
        let disk = base(true);
        let report = run(&disk, &options, version).unwrap();
        assert_eq!(report.spilled > 0, name != "in memory", "{name}: {report:?}");
        let table = Table::open_on(&(disk as DiskRef), Path::new(PATH), Access::Map).unwrap();
        assert_eq!(table.stats().index_bytes > 0, version == LARGE);
    }
}

#[test]
fn power_cut_leaves_the_old_or_the_new_table() {
    for old in [false, true] {
        let base = base(old);
        for (name, options, version) in every_build() {
            let work = |disk: Arc<SimDisk>| run(&disk, &options, version);
            let mut tidied = 0;
            let images = base.each_crash(SEED, 5, work, |label, done, image| {
                let wrong = check_version(&image, old, done.is_ok());
                assert_eq!(wrong, Ok(()), "{name}, {label}");
                tidied += 1;
                if tidied % 5 == 0 {
                    next_build_removes_leftovers(&image, &options);
                }
            });
            println!("{name}, old table: {old}: {images} images");
            assert!(images > 20);
        }
    }
}

#[test]
fn failed_calls_are_reported_and_leave_a_complete_table() {
    let base = base(true);
    for (name, options, version) in every_build() {
        let work = |disk: Arc<SimDisk>| run(&disk, &options, version);
        let (mut failures, mut runs) = (0, 0);
        base.each_fault(work, |label, done, disk| {
            failures += usize::from(done.is_err());
            assert_eq!(check_version(&disk, true, done.is_ok()), Ok(()), "{name}, {label}");
            for (cut, image) in disk.images(SEED, 2) {
                assert_eq!(
                    check_version(&image, true, done.is_ok()),
                    Ok(()),
                    "{name}, {label}, {cut}"
                );
            }
            runs += 1;
            if runs % 5 == 0 {
                next_build_removes_leftovers(&disk, &options);
            }
        });
        println!("{name}: {runs} runs, {failures} reported");
        assert!(failures > 5, "{name}: {failures} of {runs} faults were reported");
    }
}

/// A caller that ignores an error of `add` does not get a table without the record.
#[test]
fn build_that_lost_a_record_fails() {
    let options = BuildOptions { memory_limit: 1_000, threads: 1, ..BuildOptions::default() };
    let mut lost = 0;
    let work = |disk: Arc<SimDisk>| {
        let mut builder = TableBuilder::create_on(disk, Path::new(PATH), options.clone())?;
        let added: Vec<Result<()>> =
            records(2).iter().map(|(key, value)| builder.add(key, value)).collect();
        let taken = added.iter().filter(|added| added.is_ok()).count();
        assert_eq!(builder.records(), taken as u64);
        builder.finish().map(|_| taken)
    };
    base(true).each_fault(work, |label, done, disk| {
        lost += usize::from(done.is_err());
        assert_eq!(check_version(&disk, true, done.is_ok()), Ok(()), "{label}");
        assert!(!matches!(done, Ok(taken) if *taken < 24), "{label}: {done:?}");
    });
    assert!(lost > 5, "{lost} builds failed");
}

/// The same with a worker thread, which reports the error later.
#[test]
fn build_whose_worker_lost_a_record_fails() {
    // Batches of 1 KiB hold two records; the temporary file has two runs.
    let options = BuildOptions { memory_limit: 1 << 16, threads: 2, ..BuildOptions::default() };
    let work = |disk: Arc<SimDisk>| {
        let mut builder = TableBuilder::create_on(disk, Path::new(PATH), options.clone())?;
        let taken = (0..180u32).filter(|i| builder.add(i.to_le_bytes(), [2; 400]).is_ok()).count();
        builder.finish().map(|report| (report, taken))
    };
    // Number of records of the table at the path: the old table or the complete new one.
    let standing = |disk: Arc<SimDisk>, label: &str| {
        let table = Table::open_on(&(disk as DiskRef), Path::new(PATH), Access::Map).unwrap();
        table.verify().unwrap();
        assert!([24, 180].contains(&table.len()), "{label}: {} records", table.len());
        table.len()
    };
    let images = base(true).each_crash(SEED, 2, work, |label, done, image| {
        assert!(standing(image, label) == 180 || done.is_err(), "{label}");
    });
    assert!(images > 100, "{images} images");
    let (mut lost, mut whole) = (0, 0);
    base(true).each_fault(work, |label, done, disk| {
        match done {
            Ok((report, taken)) => {
                whole += 1;
                assert_eq!((report.records, *taken), (180, 180), "{label}");
                assert!(report.spilled > 1 << 16, "{report:?}");
            }
            Err(_) => {
                lost += 1;
                // The table may have been published before the call failed.
                standing(disk, label);
            }
        }
    });
    assert!(lost > 20 && whole > 5, "{lost} builds failed, {whole} did not");
}

#[test]
fn panic_leaves_no_temporary_file() {
    let disk = base(true);
    let options = BuildOptions { memory_limit: 1_000, threads: 1, ..BuildOptions::default() };
    let build = || {
        let path = Path::new(PATH);
        let mut builder =
            TableBuilder::create_on(disk.clone() as DiskRef, path, options.clone()).unwrap();
        records(2).iter().for_each(|(key, value)| builder.add(key, value).unwrap());
        builder.finish_with(|_| panic!("the caller's own"))
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(build)).is_err());
    assert_eq!(disk.files().into_keys().collect::<Vec<_>>(), [Path::new(PATH)]);
    assert_eq!(version(&disk), Ok(1));
}

#[test]
fn build_requires_its_directories() {
    let disk = base(false);
    let begin = |path: &str, temporary: Option<&str>| {
        let temporary = temporary.map(Into::into);
        let options =
            BuildOptions { temp_dir: temporary, threads: usize::MAX, ..BuildOptions::default() };
        TableBuilder::create_on(disk.clone() as DiskRef, Path::new(path), options)
    };
    for (path, temporary) in [("/absent/a.table", None), (PATH, Some("/absent"))] {
        let error = begin(path, temporary).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
    assert_eq!(begin(PATH, Some(DIR)).unwrap().finish().unwrap().records, 0);
}

/// The temporary file of a running build is not a leftover.
#[test]
fn concurrent_builds_keep_their_temporary_files() {
    let disk = base(false);
    let small = BuildOptions { memory_limit: 2_000, ..BuildOptions::default() };
    let begin = |name: &str| {
        let path = Path::new(DIR).join(name);
        TableBuilder::create_on(disk.clone() as DiskRef, &path, small.clone()).unwrap()
    };
    let (mut first, mut second) = (begin("first"), begin("second"));
    for (key, value) in records(1) {
        first.add(&key, &value).unwrap();
        second.add(&key, &value).unwrap();
    }
    drop(begin("third"));
    assert!(first.finish().unwrap().spilled > 0 && second.finish().unwrap().spilled > 0);
    for name in ["first", "second"] {
        let path = Path::new(DIR).join(name);
        let table = Table::open_on(&(disk.clone() as DiskRef), &path, Access::Map).unwrap();
        table.verify().unwrap();
        assert_eq!(table.len(), 24);
    }
}
