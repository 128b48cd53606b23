//! Repair: what is left of a damaged store, in a new one.

use super::backup::{check_apart, check_free};
use super::batch::Batch;
use super::format::{self, HEADER, Header, Kind, Record};
use super::options::Options;
use super::recovery::LOCK;
use super::segment::{file_name, number_of};
use super::store::LogStore;
use crate::disk::{self, DiskRef};
use crate::{Error, ErrorKind, Result};
use std::collections::HashSet;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_128;

/// What a repair found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Records whose checksums are right; all of them were taken over, in their order.
    pub records: u64,
    /// Keys in the new store.
    pub keys: u64,
    /// What was given up: file, first byte, number of bytes.
    pub dropped: Vec<(String, u64, u64)>,
}

impl LogStore {
    /// Reads the segments in `from`, however damaged, and writes every record whose checksum is
    /// right into a new store in `to`, a directory that is new or empty: `AlreadyExists` for any
    /// other. `from` is not changed.
    ///
    /// A key whose newest record is lost has the value of the record before, if that is still
    /// there: the report names the places that were given up. Records of a batch are taken one by
    /// one.
    pub fn repair(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Repaired> {
        Self::repair_on(&disk::os(), from.as_ref(), to.as_ref(), Options::default())
    }

    /// What [`LogStore::repair`] would find, without writing anything anywhere. It takes about
    /// 40 bytes of memory per key.
    pub fn repair_dry_run(from: impl AsRef<Path>) -> Result<Repaired> {
        Self::repair_dry_run_on(&disk::os(), from.as_ref())
    }

    /// [`LogStore::repair`] on any disk.
    pub(crate) fn repair_on(
        disk: &DiskRef,
        from: &Path,
        to: &Path,
        options: Options,
    ) -> Result<Repaired> {
        segments(disk, from)?; // Elsewhere no lock is left behind.
        check_apart(&**disk, from, to)?;
        check_free(&**disk, to)?;
        let _lock = disk.lock(&from.join(LOCK))?;
        let store = LogStore::open_on(disk.clone(), to, options)?;
        if !store.is_empty() {
            let message = "the repaired store needs a new directory";
            return Err(Error::new(ErrorKind::AlreadyExists, message).in_file(to));
        }
        let mut report = salvage(disk, from, |record| {
            match record.kind {
                Kind::Put => {
                    let mut batch = Batch::new();
                    batch.put(record.key, record.value);
                    store.write_expiring(&batch, record.expires)?;
                }
                Kind::Delete => drop(store.delete(record.key)?),
                Kind::Link | Kind::Removed => {}
            }
            Ok(())
        })?;
        report.keys = store.len();
        store.close()?;
        Ok(report)
    }

    /// [`LogStore::repair_dry_run`] on any disk.
    pub(crate) fn repair_dry_run_on(disk: &DiskRef, from: &Path) -> Result<Repaired> {
        segments(disk, from)?;
        // To take a lock that is not there would make its file.
        let has_lock = disk.list(from)?.iter().any(|name| name == LOCK);
        let _lock = has_lock.then(|| disk.lock(&from.join(LOCK))).transpose()?;
        let mut keys: HashSet<u128> = HashSet::new();
        let mut report = salvage(disk, from, |record| {
            let key = xxh3_128(record.key);
            match record.kind {
                Kind::Put => drop(keys.insert(key)),
                Kind::Delete => drop(keys.remove(&key)),
                Kind::Link | Kind::Removed => {}
            }
            Ok(())
        })?;
        report.keys = keys.len() as u64;
        Ok(report)
    }
}

/// The numbers of the segments in a directory.
fn segments(disk: &DiskRef, from: &Path) -> Result<Vec<u64>> {
    let numbers = disk.list(from)?.iter().filter_map(|n| number_of(n)).collect::<Vec<u64>>();
    let message = "there are no segments of a log store in this directory";
    let none = || Error::new(ErrorKind::NotFound, message).in_file(from);
    numbers.first().ok_or_else(none)?;
    Ok(numbers)
}

/// Hands every whole record in a directory to `take`, in the order of the log.
fn salvage(
    disk: &DiskRef,
    from: &Path,
    mut take: impl FnMut(&Record) -> Result<()>,
) -> Result<Repaired> {
    let mut report = Repaired::default();
    for number in segments(disk, from)? {
        let name = file_name(number);
        let map = disk.map(&from.join(&name))?;
        let granule = Header::decode(&map).map_or(0, |header| header.granule);
        salvage_segment(&map, number, granule, &name, &mut report, &mut take)?;
    }
    Ok(report)
}

/// The same for the bytes of one segment.
fn salvage_segment(
    bytes: &[u8],
    number: u64,
    granule: u32,
    name: &str,
    report: &mut Repaired,
    take: &mut impl FnMut(&Record) -> Result<()>,
) -> Result<()> {
    let step = 1 << granule;
    let mut at = (HEADER as u64).next_multiple_of(step);
    let mut lost = 0;
    while let Some(rest) = bytes.get(at as usize..).filter(|rest| !rest.is_empty()) {
        let Some((record, length)) = format::read(rest, number, at) else {
            // Zeros up to the end are no loss. No record begins with more than four of them, so
            // others are gone over at once.
            let Some(zeros) = rest.iter().position(|&byte| byte != 0) else { break };
            let skip = (zeros.saturating_sub(4) as u64 / step * step).max(step);
            lost += skip;
            at += skip;
            continue;
        };
        if lost > 0 {
            report.dropped.push((name.to_string(), at - lost, lost));
            lost = 0;
        }
        take(&record)?;
        report.records += 1;
        at = (at + length as u64).next_multiple_of(step);
    }
    if lost > 0 {
        report.dropped.push((name.to_string(), at - lost, lost));
    }
    Ok(())
}
