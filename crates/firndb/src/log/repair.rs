//! Repair: what is left of a damaged store, in a new one.

use super::batch::Batch;
use super::format::{self, HEADER, Header, Kind};
use super::options::Options;
use super::segment::{file_name, number_of};
use super::store::LogStore;
use crate::disk::{self, DiskRef};
use crate::{Error, ErrorKind, Result};
use std::path::Path;

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
    /// right into a new store in `to`. `from` is not changed.
    ///
    /// A key whose newest record is lost has the value of the record before, if that is still
    /// there: the report names the places that were given up. Records of a batch are taken one by
    /// one.
    pub fn repair(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Repaired> {
        Self::repair_on(&disk::os(), from.as_ref(), to.as_ref(), Options::default())
    }

    /// [`LogStore::repair`] on any disk.
    pub(crate) fn repair_on(
        disk: &DiskRef,
        from: &Path,
        to: &Path,
        options: Options,
    ) -> Result<Repaired> {
        let segments = || -> Result<Vec<u64>> {
            let numbers =
                disk.list(from)?.iter().filter_map(|n| number_of(n)).collect::<Vec<u64>>();
            let message = "there are no segments of a log store in this directory";
            let none = || Error::new(ErrorKind::NotFound, message).in_file(from);
            numbers.first().ok_or_else(none)?;
            Ok(numbers)
        };
        segments()?; // Elsewhere no lock is left behind.
        let _lock = disk.lock(&from.join(super::recovery::LOCK))?;
        let numbers = segments()?;
        let store = LogStore::open_on(disk.clone(), to, options)?;
        if !store.is_empty() {
            let message = "the repaired store needs a new directory";
            return Err(Error::new(ErrorKind::AlreadyExists, message).in_file(to));
        }
        let mut report = Repaired::default();
        for number in numbers {
            let name = file_name(number);
            let map = disk.map(&from.join(&name))?;
            let granule = Header::decode(&map).map_or(0, |header| header.granule);
            salvage(&store, &map, number, granule, &name, &mut report)?;
        }
        report.keys = store.len();
        store.close()?;
        Ok(report)
    }
}

/// Takes over every record of a segment that is whole.
fn salvage(
    store: &LogStore,
    bytes: &[u8],
    number: u64,
    granule: u32,
    name: &str,
    report: &mut Repaired,
) -> Result<()> {
    let step = 1 << granule;
    let mut at = (HEADER as u64).next_multiple_of(step);
    let mut lost = 0;
    while let Some(rest) = bytes.get(at as usize..).filter(|rest| !rest.is_empty()) {
        let Some((record, length)) = format::read(rest, number, at) else {
            // Zeros up to the end are no loss.
            if rest.iter().take(1 << 16).any(|&b| b != 0) || rest.iter().any(|&b| b != 0) {
                lost += step;
                at += step;
                continue;
            }
            break;
        };
        if lost > 0 {
            report.dropped.push((name.to_string(), at - lost, lost));
            lost = 0;
        }
        match record.kind {
            Kind::Put => {
                let mut batch = Batch::new();
                batch.put(record.key, record.value);
                store.write_expiring(&batch, record.expires)?;
            }
            Kind::Delete => drop(store.delete(record.key)?),
            Kind::Link | Kind::Removed => {}
        }
        report.records += 1;
        at = (at + length as u64).next_multiple_of(step);
    }
    if lost > 0 {
        report.dropped.push((name.to_string(), at - lost, lost));
    }
    Ok(())
}
