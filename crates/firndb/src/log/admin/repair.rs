//! Repair: what is left of a damaged store, in a new one.

use crate::disk::{self, DiskRef};
use crate::log::admin::backup::{check_apart, check_free};
use crate::log::format::record::{self as format, HEADER, Header, Kind, Record};
use crate::log::open::recovery::LOCK;
use crate::log::open::store::LogStore;
use crate::log::options::Options;
use crate::log::segments::segment::{file_name, number_of};
use crate::log::write::batch::Batch;
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
    ///
    /// The time is in proportion to the bytes of the segments. For that the search is bounded in
    /// segments that were crafted to have very many beginnings of long records: in such a segment
    /// a long record that is whole may be given up.
    pub fn repair(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Repaired> {
        Self::repair_with(from, to, |_, _| ())
    }

    /// [`LogStore::repair`] that calls `progress` with the bytes that were gone through and those
    /// of all segments, at least once per segment and per 16 MiB.
    pub fn repair_with(
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        progress: impl FnMut(u64, u64),
    ) -> Result<Repaired> {
        let options = Options::default();
        Self::repair_on(&disk::os(), from.as_ref(), to.as_ref(), options, progress)
    }

    /// What [`LogStore::repair_with`] would find, without writing anything anywhere. It takes
    /// about 40 bytes of memory per key.
    pub fn repair_dry_run(
        from: impl AsRef<Path>,
        progress: impl FnMut(u64, u64),
    ) -> Result<Repaired> {
        Self::repair_dry_run_on(&disk::os(), from.as_ref(), progress)
    }

    /// [`LogStore::repair`] on any disk.
    pub(crate) fn repair_on(
        disk: &DiskRef,
        from: &Path,
        to: &Path,
        options: Options,
        progress: impl FnMut(u64, u64),
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
        let mut report = salvage(disk, from, progress, |record| {
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
    pub(crate) fn repair_dry_run_on(
        disk: &DiskRef,
        from: &Path,
        progress: impl FnMut(u64, u64),
    ) -> Result<Repaired> {
        segments(disk, from)?;
        // To take a lock that is not there would make its file.
        let has_lock = disk.list(from)?.iter().any(|name| name == LOCK);
        let _lock = has_lock.then(|| disk.lock(&from.join(LOCK))).transpose()?;
        let mut keys: HashSet<u128> = HashSet::new();
        let mut report = salvage(disk, from, progress, |record| {
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
    mut progress: impl FnMut(u64, u64),
    mut take: impl FnMut(&Record) -> Result<()>,
) -> Result<Repaired> {
    let mut report = Repaired::default();
    let numbers = segments(disk, from)?;
    let sizes = numbers.iter().map(|&number| disk.open(&from.join(file_name(number)))?.len());
    let all = sizes.sum::<Result<u64>>()?;
    let mut done = 0;
    for number in numbers {
        let name = file_name(number);
        let map = disk.map(&from.join(&name))?;
        let mut search = Search::new(&map, number);
        let mut reported = 0;
        while let Some(found) = search.next() {
            if search.at - reported >= PROGRESS {
                reported = search.at;
                progress(done + reported, all);
            }
            match found {
                Found::Record(record) => {
                    take(&record)?;
                    report.records += 1;
                }
                Found::Lost { at, bytes } => report.dropped.push((name.clone(), at, bytes)),
            }
        }
        done += map.len() as u64;
        progress(done, all);
    }
    Ok(report)
}

/// What there is in a segment.
pub(crate) enum Found<'a> {
    Record(Record<'a>),
    /// Bytes that are no whole record.
    Lost {
        at: u64,
        bytes: u64,
    },
}

/// The search for whole records in the bytes of a segment, wherever they begin.
///
/// To compare a checksum takes as long as the record that a head states, and in damaged bytes every
/// place may look like the head of a long one. So what comparisons in vain may take is bounded:
/// first all are made, then those of records that others seem to follow, then those of short ones.
pub(crate) struct Search<'a> {
    bytes: &'a [u8],
    number: u64,
    step: u64,
    at: u64,
    /// Bytes before `at` that are no record.
    lost: u64,
    /// Bytes of long records that were compared in vain.
    pub(crate) in_vain: u64,
}

/// A record up to this length is always compared.
const SHORT: usize = 4 << 10;
/// Bytes that are compared in vain for each byte of the segment, of all long records, ...
const OF_ALL: u64 = 64;
/// ... and of those that seem to be followed by so many others.
pub(crate) const OF_FOLLOWED: u64 = 1024;
const FOLLOWERS: usize = 3;
/// Bytes between two calls for progress.
const PROGRESS: u64 = 16 << 20;

impl<'a> Search<'a> {
    pub(crate) fn new(bytes: &'a [u8], number: u64) -> Search<'a> {
        let alignment_log2 = Header::decode(bytes).map_or(0, |header| header.alignment_log2);
        let step = 1 << alignment_log2;
        let at = (HEADER as u64).next_multiple_of(step);
        Search { bytes, number, step, at, lost: 0, in_vain: 0 }
    }

    /// The next whole record, or the bytes before it that are none.
    pub(crate) fn next(&mut self) -> Option<Found<'a>> {
        loop {
            let rest = self.bytes.get(self.at as usize..).filter(|rest| !rest.is_empty());
            let found = rest.and_then(|rest| self.record(rest));
            if self.lost > 0 && (found.is_some() || rest.is_none()) {
                let bytes = std::mem::take(&mut self.lost);
                return Some(Found::Lost { at: self.at - bytes, bytes });
            }
            if let Some((record, length)) = found {
                self.at = (self.at + length as u64).next_multiple_of(self.step);
                return Some(Found::Record(record));
            }
            let Some(zeros) = rest?.iter().position(|&byte| byte != 0) else {
                // Zeros up to the end are no loss.
                self.bytes = &self.bytes[..self.at as usize];
                continue;
            };
            // No record begins with more than four zeros, so others are gone over at once.
            let skip = (zeros.saturating_sub(4) as u64 / self.step * self.step).max(self.step);
            self.lost += skip;
            self.at += skip;
        }
    }

    /// The record at the beginning of these bytes, if there is a whole one.
    fn record(&mut self, rest: &'a [u8]) -> Option<(Record<'a>, usize)> {
        let (record, length) = format::parse(rest)?;
        let is_long = length > SHORT;
        let limit = |per_byte: u64| per_byte.saturating_mul(self.bytes.len() as u64);
        let is_compared = !is_long
            || self.in_vain < limit(OF_ALL)
            || self.in_vain < limit(OF_FOLLOWED) && self.is_followed(length);
        if !is_compared {
            return None;
        }
        if format::is_whole(&rest[..length], self.number, self.at) {
            return Some((record, length));
        }
        self.in_vain += if is_long { length as u64 } else { 0 };
        None
    }

    /// Whether other records seem to follow one of this length, or the end of the segment.
    fn is_followed(&self, length: usize) -> bool {
        let mut end = self.at + length as u64;
        (0..FOLLOWERS).all(|_| {
            end = end.next_multiple_of(self.step);
            let rest = self.bytes.get(end as usize..).unwrap_or_default();
            let is_end = rest.iter().take(format::HEAD_MAX).all(|&byte| byte == 0);
            let next = format::parse(rest);
            end += next.as_ref().map_or(0, |(_, length)| *length as u64);
            is_end || next.is_some()
        })
    }
}
