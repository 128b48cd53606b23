//! Repair: copies the intact records of a damaged store into a new one.

use crate::disk::DiskRef;
use crate::log::admin::backup::target::{check_apart, check_free};
use crate::log::expiry::Expiry;
use crate::log::format::names::{LOCK, segment_file, segment_number};
use crate::log::format::record::{HEAD_MAX, Kind, Record, checksum_matches, parse};
use crate::log::format::segment_head::{HEADER, SegmentHeader};
use crate::log::open::store::LogStore;
use crate::log::options::{Options, WriteOptions};
use crate::log::write::batch::Batch;
use crate::{Error, ErrorKind, Result};
use std::collections::HashSet;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_128;

/// What a repair found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired {
    /// Records whose checksums are right. All of them were copied, in order.
    pub records: u64,
    /// Keys in the new store.
    pub keys: u64,
    /// Bytes that were dropped: file, first byte, number of bytes.
    pub dropped: Vec<(String, u64, u64)>,
}

/// Repairs a store: see `LogStore::repair_with`.
pub(crate) fn repair(
    disk: &DiskRef,
    from: &Path,
    to: &Path,
    options: Options,
    progress: impl FnMut(u64, u64),
) -> Result<Repaired> {
    let numbers = segments(disk, from)?; // Fails before a lock is created in a foreign directory.
    check_apart(&**disk, from, to)?;
    check_free(&**disk, to)?;
    let _lock = disk.lock(&from.join(LOCK))?;
    let ordered = options.ordered || is_ordered(disk, from, &numbers)?;
    let store = LogStore::open_on(disk.clone(), to, Options { ordered, ..options })?;
    if !store.is_empty() {
        let message = "the repaired store needs a new directory";
        return Err(Error::new(ErrorKind::AlreadyExists, message).in_file(to));
    }
    let mut report = salvage(disk, from, progress, |record| {
        match record.kind {
            Kind::Put => {
                let mut batch = Batch::new();
                batch.push_put(record.key, record.value);
                let expiry = Expiry::of(record.expires);
                store.write_with(&batch, WriteOptions::default().expiry(expiry))?;
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

/// Reads a damaged store: see `LogStore::repair_dry_run`.
pub(crate) fn dry_run(
    disk: &DiskRef,
    from: &Path,
    progress: impl FnMut(u64, u64),
) -> Result<Repaired> {
    segments(disk, from)?;
    // Locking would create the file if it does not exist.
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

/// The numbers of the segments in a directory.
fn segments(disk: &DiskRef, from: &Path) -> Result<Vec<u64>> {
    let numbers = disk.list(from)?.iter().filter_map(|n| segment_number(n)).collect::<Vec<u64>>();
    let message = "there are no segments of a log store in this directory";
    let none = || Error::new(ErrorKind::NotFound, message).in_file(from);
    numbers.first().ok_or_else(none)?;
    Ok(numbers)
}

/// Whether the header of a segment says that the store is ordered. Damaged ones are passed over.
fn is_ordered(disk: &DiskRef, from: &Path, numbers: &[u64]) -> Result<bool> {
    for &number in numbers {
        let map = disk.map(&from.join(segment_file(number)))?;
        if let Ok(header) = SegmentHeader::decode(&map) {
            return Ok(header.is_ordered);
        }
    }
    Ok(false)
}

/// Passes every intact record in a directory to `take`, in the order of the log.
fn salvage(
    disk: &DiskRef,
    from: &Path,
    mut progress: impl FnMut(u64, u64),
    mut take: impl FnMut(&Record) -> Result<()>,
) -> Result<Repaired> {
    let mut report = Repaired::default();
    let numbers = segments(disk, from)?;
    let sizes = numbers.iter().map(|&number| disk.open(&from.join(segment_file(number)))?.len());
    let all = sizes.sum::<Result<u64>>()?;
    let mut done = 0;
    for number in numbers {
        let name = segment_file(number);
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

/// A part of a segment.
pub(crate) enum Found<'a> {
    Record(Record<'a>),
    /// Bytes that are not an intact record.
    Lost {
        at: u64,
        bytes: u64,
    },
}

/// The search for intact records in the bytes of a segment, at any offset.
///
/// Comparing a checksum takes time proportional to the length that a record states, and in damaged
/// bytes every offset may look like the beginning of a long record. So the cost of failed
/// comparisons is bounded: at first every candidate is compared, later only those that other
/// records seem to follow, then only short ones.
pub(crate) struct Search<'a> {
    bytes: &'a [u8],
    number: u64,
    step: u64,
    at: u64,
    /// Bytes before `at` that are not part of a record.
    lost: u64,
    /// Bytes of long candidates whose checksum was wrong.
    pub(crate) wasted: u64,
}

/// Candidates up to this length are always compared.
const SHORT: usize = 4 << 10;
/// Wasted bytes per byte of the segment up to which every long candidate is compared, ...
const OF_ALL: u64 = 64;
/// ... and up to which those are that seem to be followed by this many others.
pub(crate) const OF_FOLLOWED: u64 = 1024;
const FOLLOWERS: usize = 3;
/// Bytes between two progress reports.
const PROGRESS: u64 = 16 << 20;

impl<'a> Search<'a> {
    pub(crate) fn new(bytes: &'a [u8], number: u64) -> Search<'a> {
        let alignment_log2 = SegmentHeader::decode(bytes).map_or(0, |header| header.alignment_log2);
        let step = 1 << alignment_log2;
        let at = (HEADER as u64).next_multiple_of(step);
        Search { bytes, number, step, at, lost: 0, wasted: 0 }
    }

    /// The next intact record, or the bytes before it.
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
                // Zeros up to the end are unused space.
                self.bytes = &self.bytes[..self.at as usize];
                continue;
            };
            // No record begins with more than four zeros, so longer runs are skipped.
            let skip = (zeros.saturating_sub(4) as u64 / self.step * self.step).max(self.step);
            self.lost += skip;
            self.at += skip;
        }
    }

    /// The record at the beginning of these bytes, if it is intact.
    fn record(&mut self, rest: &'a [u8]) -> Option<(Record<'a>, usize)> {
        let (record, length) = parse(rest)?;
        let is_long = length > SHORT;
        let limit = |per_byte: u64| per_byte.saturating_mul(self.bytes.len() as u64);
        let is_compared = !is_long
            || self.wasted < limit(OF_ALL)
            || self.wasted < limit(OF_FOLLOWED) && self.is_followed(length);
        if !is_compared {
            return None;
        }
        if checksum_matches(&rest[..length], self.number, self.at) {
            return Some((record, length));
        }
        self.wasted += if is_long { length as u64 } else { 0 };
        None
    }

    /// Whether other records seem to follow one of this length, or the end of the segment.
    fn is_followed(&self, length: usize) -> bool {
        let mut end = self.at + length as u64;
        (0..FOLLOWERS).all(|_| {
            end = end.next_multiple_of(self.step);
            let rest = self.bytes.get(end as usize..).unwrap_or_default();
            let is_end = rest.iter().take(HEAD_MAX).all(|&byte| byte == 0);
            let next = parse(rest);
            end += next.as_ref().map_or(0, |(_, length)| *length as u64);
            is_end || next.is_some()
        })
    }
}
