//! Ordered stores after power cuts, failing calls and damage: a scan has exactly the keys that the
//! store has, in both directions.

use super::{DIR, Rng, Steps, options};
use crate::disk::{Disk, DiskRef, SimDisk};
use crate::log::format::names::key_run_segments;
use crate::log::{LogStore, Options, WriteOptions};
use crate::{ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

fn open(disk: &Arc<SimDisk>) -> Result<LogStore> {
    let options = Options { ordered: true, ..options() };
    LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(DIR), options)
}

/// Puts, deletes, new segments, maintenance and compactions, a few of them durable. Ends at the
/// first error.
fn work(disk: &Arc<SimDisk>, seed: u64, steps: u64) -> Result<()> {
    let (store, mut random) = (open(disk)?, Rng(seed));
    for step in 0..steps {
        let key = [b'k', random.below(12u64) as u8];
        let value = vec![step as u8; random.below(300usize)];
        match random.below(14u64) {
            0..6 => store.put(key, &value)?,
            6 => store.put_with(key, &value, WriteOptions::sync())?,
            7 => store.delete(key).map(drop)?,
            8 if step > 40 => store.compact(0.3).map(drop)?,
            8..12 => store.roll()?,
            _ => while store.maintain()? {},
        }
    }
    store.close()
}

/// Checks scans in both directions against an iteration in no order.
#[track_caller]
fn check_scans(label: &str, store: &LogStore) -> Result<()> {
    let mut expected = store.iter().collect::<Result<Pairs>>()?;
    expected.sort();
    let forward = store.range(..)?.collect::<Result<Pairs>>()?;
    assert!(forward == expected, "{label}: {} of {}", forward.len(), expected.len());
    let mut reverse = store.range(..)?.reversed().collect::<Result<Pairs>>()?;
    reverse.reverse();
    assert!(reverse == expected, "{label}, reverse");
    Ok(())
}

/// Checks a store, then again after writing its runs and after another opening.
#[track_caller]
fn check(label: &str, image: &Arc<SimDisk>) {
    let wrong = |e| -> () { panic!("{label}: {e}") };
    let store = open(image).unwrap_or_else(|e| panic!("{label}: {e}"));
    assert!(store.is_ordered() || store.is_empty());
    check_scans(label, &store).unwrap_or_else(wrong);
    store.put(b"after", b"wards").unwrap_or_else(wrong);
    while store.maintain().unwrap_or_else(|e| panic!("{label}: {e}")) {}
    check_scans(label, &store).unwrap_or_else(wrong);
    store.close().unwrap_or_else(wrong);
    check_scans(label, &open(image).unwrap()).unwrap_or_else(wrong);
}

/// The files of the runs.
fn runs(disk: &SimDisk) -> Vec<PathBuf> {
    let names = disk.list(Path::new(DIR)).unwrap();
    let is_run = |name: &String| key_run_segments(name).is_some();
    names.into_iter().filter(is_run).map(|name| Path::new(DIR).join(name)).collect()
}

#[test]
fn after_a_power_cut_scans_have_all_keys() {
    for seed in 0..2 {
        let images = SimDisk::new().each_crash(
            seed,
            4,
            |disk| drop(work(&disk, seed, 50)),
            |label, _, image| check(&format!("seed {seed}, {label}"), &image),
        );
        assert!(images > 500, "{images}");
    }
}

#[test]
fn after_a_failing_call_scans_have_all_keys() {
    let runs = SimDisk::new()
        .each_fault(|disk| drop(work(&disk, 7, 30)), |label, _, disk| check(label, &disk));
    assert!(runs > 500, "{runs}");
}

#[test]
fn damaged_and_missing_runs_give_no_wrong_keys() {
    let whole = SimDisk::new();
    work(&whole, 3, 80).unwrap();
    let files = runs(&whole);
    assert!(!files.is_empty());
    for path in files {
        let bytes = whole.files()[&path].clone();
        for at in (0..bytes.len()).step_by(3) {
            let (disk, label) = (whole.fork(), format!("byte {at}"));
            disk.damage(&path, at);
            let store = open(&disk).unwrap();
            if let Err(e) = check_scans(&label, &store) {
                assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
            }
            // A run in which damage was found is written again.
            while store.maintain().unwrap() {}
            check_scans(&label, &store).unwrap();
        }
        for length in (0..bytes.len()).step_by(7) {
            let disk = whole.fork();
            disk.write_raw(&path, &bytes[..length]);
            check(&format!("{length} bytes"), &disk);
        }
        let disk = whole.fork();
        disk.remove(&path).unwrap();
        check("missing", &disk);
    }
}
