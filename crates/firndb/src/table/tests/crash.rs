//! Power cuts and failing calls at every operation of a build: what stands under the name is the
//! old table or the new one, whole; and temporary files go with the next build.

use super::*;
use crate::ErrorKind;
use crate::disk::Disk;
use crate::table::{Compression, Filter};
use std::sync::Arc;

const SEED: u64 = 20_261_122;
const DIR: &str = "/tables";
const PATH: &str = "/tables/a.table";

/// A new table whose records are so large that it has an index.
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

/// A disk with the old table, or with none, and the leftovers of a build that died.
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

/// Which version stands there, if any: 0 for none.
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

fn judge(disk: &Arc<SimDisk>, old: bool, done: bool) -> std::result::Result<(), String> {
    match version(disk)? {
        2 | LARGE => Ok(()),
        found if !done && found == u8::from(old) => Ok(()),
        found => Err(format!("acknowledged: {done}, found version {found}")),
    }
}

/// The next build works, and nothing but the table is left.
fn next_build_tidies(disk: &Arc<SimDisk>, options: &BuildOptions) {
    run(disk, options, 2).unwrap();
    assert_eq!(version(disk), Ok(2));
    let left: Vec<_> = disk.files().into_keys().collect();
    assert_eq!(left, [Path::new(PATH)], "leftovers");
}

/// Builds that stay in memory, that spill, that split partitions, and that need every section.
fn every_build() -> Vec<(&'static str, BuildOptions, u8)> {
    let plain = BuildOptions { threads: 1, ..BuildOptions::default() };
    let small = BuildOptions { memory: 1_000, ..plain.clone() };
    vec![
        ("in memory", plain.clone(), 2),
        ("spilling", small.clone(), 2),
        ("with an index", small.clone(), LARGE),
        (
            "all sections",
            BuildOptions {
                compression: Compression::Records { level: 1 },
                filter: Filter::Bits8,
                metadata: vec![7; 10],
                ..small
            },
            2,
        ),
    ]
}

#[test]
fn the_builds_of_these_tests_spill() {
    for (name, options, version) in every_build() {
        let disk = base(true);
        let report = run(&disk, &options, version).unwrap();
        assert_eq!(report.spilled > 0, name != "in memory", "{name}: {report:?}");
        let table = Table::open_on(&(disk as DiskRef), Path::new(PATH), Access::Map).unwrap();
        assert_eq!(table.stats().index_bytes > 0, version == LARGE);
    }
}

#[test]
fn a_power_cut_leaves_the_old_table_or_the_new_one() {
    for old in [false, true] {
        let base = base(old);
        for (name, options, version) in every_build() {
            let work = |disk: Arc<SimDisk>| run(&disk, &options, version);
            let mut tidied = 0;
            let images = base.each_crash(SEED, 5, work, |label, done, image| {
                let wrong = judge(&image, old, done.is_ok());
                assert_eq!(wrong, Ok(()), "{name}, {label}");
                tidied += 1;
                if tidied % 5 == 0 {
                    next_build_tidies(&image, &options);
                }
            });
            println!("{name}, old table: {old}: {images} images");
            assert!(images > 20);
        }
    }
}

#[test]
fn a_failed_call_is_reported_and_harms_nothing() {
    let base = base(true);
    for (name, options, version) in every_build() {
        let work = |disk: Arc<SimDisk>| run(&disk, &options, version);
        let (mut failures, mut runs) = (0, 0);
        base.each_fault(work, |label, done, disk| {
            failures += usize::from(done.is_err());
            assert_eq!(judge(&disk, true, done.is_ok()), Ok(()), "{name}, {label}");
            for (cut, image) in disk.images(SEED, 2) {
                assert_eq!(judge(&image, true, done.is_ok()), Ok(()), "{name}, {label}, {cut}");
            }
            runs += 1;
            if runs % 5 == 0 {
                next_build_tidies(&disk, &options);
            }
        });
        println!("{name}: {runs} runs, {failures} reported");
        assert!(failures > 5, "{name}: {failures} of {runs} faults were reported");
    }
}

/// A caller that goes on after a record was not taken gets no table without it.
#[test]
fn a_build_that_lost_a_record_does_not_finish() {
    let options = BuildOptions { memory: 1_000, threads: 1, ..BuildOptions::default() };
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
        assert_eq!(judge(&disk, true, done.is_ok()), Ok(()), "{label}");
        assert!(!matches!(done, Ok(taken) if *taken < 24), "{label}: {done:?}");
    });
    assert!(lost > 5, "{lost} builds failed");
}

/// The same where a thread takes the records, which hears of it later.
#[test]
fn a_build_whose_thread_lost_a_record_does_not_finish() {
    // Batches of 1 KiB, two records, and two runs in the temporary file.
    let options = BuildOptions { memory: 1 << 16, threads: 2, ..BuildOptions::default() };
    let work = |disk: Arc<SimDisk>| {
        let mut builder = TableBuilder::create_on(disk, Path::new(PATH), options.clone())?;
        let taken =
            (0..180u32).filter(|i| builder.add(&i.to_le_bytes(), &[2; 400]).is_ok()).count();
        builder.finish().map(|report| (report, taken))
    };
    // What stands there is the old table or all of the new one; gives its number of records.
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
                // It may have been published before the call failed.
                standing(disk, label);
            }
        }
    });
    assert!(lost > 20 && whole > 5, "{lost} builds failed, {whole} did not");
}

#[test]
fn a_panic_in_the_middle_leaves_no_temporary_file() {
    let disk = base(true);
    let options = BuildOptions { memory: 1_000, threads: 1, ..BuildOptions::default() };
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
fn a_build_without_its_folders_does_not_begin() {
    let disk = base(false);
    let begin = |path: &str, temporary: Option<&str>| {
        let temporary = temporary.map(Into::into);
        let options = BuildOptions { temporary, threads: usize::MAX, ..BuildOptions::default() };
        TableBuilder::create_on(disk.clone() as DiskRef, Path::new(path), options)
    };
    for (path, temporary) in [("/absent/a.table", None), (PATH, Some("/absent"))] {
        let error = begin(path, temporary).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
    assert_eq!(begin(PATH, Some(DIR)).unwrap().finish().unwrap().records, 0);
}

/// The temporary file of a build that goes on is not a leftover.
#[test]
fn a_build_leaves_the_files_of_another_alone() {
    let disk = base(false);
    let small = BuildOptions { memory: 2_000, ..BuildOptions::default() };
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
