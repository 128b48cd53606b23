//! The log as the files of a directory state it: which segments it consists of, and where it ends.

use crate::disk::{Disk, DiskRef, Map, ReadAt};
use crate::log::failpoints::Failpoint;
use crate::log::format::names::{segment_file, segment_number};
use crate::log::format::record::{HEAD_MAX, Kind, record_length, removed_segment};
use crate::log::format::segment_head::{HEADER, LogPosition, SegmentHead, decode_header, scan};
use crate::log::options::{Access, Options};
use crate::log::segments::hint_file::Hint;
use crate::log::segments::segment::Segment;
use crate::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The file of a segment.
pub(crate) struct SegmentFile {
    pub(crate) number: u64,
    /// Its bytes; only the head, unless `is_whole`.
    pub(crate) map: Map,
    is_whole: bool,
    pub(crate) head: Result<SegmentHead>,
}

/// Reads the heads of all segments, ordered by number. Segments with hints are not read further.
/// Others, to which a writer may be appending if the store is opened for reading only, are copied,
/// not mapped.
pub(crate) fn survey(
    disk: &DiskRef,
    dir: &Path,
    names: &[String],
    hints: &BTreeSet<u64>,
    options: &Options,
) -> Result<Vec<SegmentFile>> {
    let is_mapped = options.access == Access::Map;
    let mut files = Vec::new();
    for number in names.iter().filter_map(|name| segment_number(name)) {
        let path = dir.join(segment_file(number));
        let has_hint = hints.contains(&number);
        let (map, length) = match (options.read_only && !has_hint) || !is_mapped {
            true => {
                let file = disk.open(&path)?;
                (copy(&*file, number, !has_hint)?, file.len()?)
            }
            false => {
                let map = disk.map(&path)?;
                let length = map.len() as u64;
                (map, length)
            }
        };
        if has_hint {
            map.expect_random();
        }
        let head = SegmentHead::decode(&map, length, number).map_err(|e| e.in_file(&path));
        if let Err(e) = &head
            && e.kind() == ErrorKind::UnsupportedVersion
        {
            return head.map(|_| Vec::new());
        }
        let is_whole = map.len() as u64 == length;
        files.push(SegmentFile { number, map, is_whole, head });
    }
    Ok(files)
}

/// The bytes of a segment, or its header and link; of a file that is not a segment, at most a
/// header.
fn copy(file: &dyn ReadAt, number: u64, is_whole: bool) -> Result<Map> {
    let length = file.len()?;
    let mut bytes = vec![0; HEADER.min(usize::try_from(length).unwrap_or(HEADER))];
    file.read_at(0, &mut bytes)?;
    // A file may have any length: memory is allocated only for a length that a valid header states.
    if let Ok(header) = decode_header(&bytes, length, number) {
        let link = HEADER.next_multiple_of(1 << header.alignment_log2);
        let mut wanted = if is_whole { length } else { length.min((link + HEAD_MAX) as u64) };
        bytes.resize(wanted as usize, 0);
        file.read_at(0, &mut bytes)?;
        let link_length = bytes.get(link..).and_then(record_length);
        if let Some(link_length) = link_length.filter(|_| !is_whole) {
            wanted = length.min((link + link_length) as u64);
            bytes.resize(wanted as usize, 0);
            file.read_at(0, &mut bytes)?;
        }
    }
    Ok(Map::from_vec(bytes))
}

/// The segments of the log.
pub(crate) struct Chain {
    /// Id of the store.
    id: u64,
    pub(crate) files: Vec<SegmentFile>,
    /// Numbers of the segments that have hints.
    pub(crate) hints: BTreeSet<u64>,
    /// Whether the store is ordered; `None` if it has no segment yet.
    pub(crate) is_ordered: Option<bool>,
    /// Segments up to this number were durable.
    pub(crate) durable: u64,
    /// The last segment of the log and where its records end.
    pub(crate) last: LogPosition,
}

impl Chain {
    /// Follows the links between segments to the end of the log. The records of each segment up to
    /// its position in `read` were read before, and are not read again.
    pub(crate) fn follow(
        disk: &DiskRef,
        mut files: Vec<SegmentFile>,
        hints: BTreeSet<u64>,
        (id, dir): (u64, &Path),
        read: &BTreeMap<u64, u64>,
    ) -> Result<Chain> {
        let end_of = |number: u64, map: &Map, head: &SegmentHead| {
            let is_there = |end: &u64| (head.end..=map.len() as u64).contains(end);
            let from = read.get(&number).copied().filter(is_there).unwrap_or(head.end);
            scan(map, &head.header, from, |_, _, _| Ok(()))
        };
        let heads = || files.iter().filter_map(|file| Some((file, file.head.as_ref().ok()?)));
        for (file, head) in heads() {
            if head.header.store != id {
                let message = "this segment belongs to another store: move it out of here";
                return Err(Error::corrupt(message)
                    .at(16)
                    .in_file(&dir.join(segment_file(file.number))));
            }
        }
        let is_ordered = heads().next().map(|(_, head)| head.header.is_ordered);
        for (file, head) in heads() {
            if Some(head.header.is_ordered) != is_ordered {
                let message =
                    "this segment and the others disagree on whether the store is ordered";
                let path = dir.join(segment_file(file.number));
                return Err(Error::corrupt(message).at(8).in_file(&path));
            }
        }
        let linked = heads().map(|(_, head)| head.link.durable).max();
        // A hint is written when its segment and all before it are durable. A hint without a
        // segment was left by compaction, or is a foreign file of that name.
        let hinted = heads().map(|(file, _)| file.number).filter(|number| hints.contains(number));
        let durable = linked.max(hinted.max()).unwrap_or(0);
        let mut tail: Vec<(u64, u64)> = Vec::new();
        for (file, head) in heads().filter(|(file, _)| file.number > durable) {
            let follows = match tail.last() {
                Some(&last) => head.link.previous == last,
                None => head.link.previous.0 <= durable,
            };
            if follows || Failpoint::IgnoreLinks.is_on() {
                tail.push((file.number, end_of(file.number, &file.map, head)?));
            }
        }
        let last = match tail.last() {
            Some(&last) => last,
            None => match files.iter_mut().rev().find(|file| file.number <= durable) {
                None => (0, 0),
                Some(file) => {
                    let head = file.head.as_ref().map_err(copy_of)?;
                    if !file.is_whole {
                        let opened = disk.open(&dir.join(segment_file(file.number)))?;
                        file.map = copy(&*opened, file.number, true)?;
                    }
                    (file.number, end_of(file.number, &file.map, head)?)
                }
            },
        };
        Ok(Chain { id, files, hints, is_ordered, durable, last })
    }

    /// The file and the head of a segment. `Corrupt` if it is missing.
    pub(crate) fn segment(&self, number: u64, path: &Path) -> Result<(&SegmentFile, &SegmentHead)> {
        let missing = || Error::corrupt("this segment of the store is missing").in_file(path);
        let file = self.file(number).ok_or_else(missing)?;
        Ok((file, file.head.as_ref().map_err(copy_of)?))
    }

    /// Whether the file of a segment begins with these bytes.
    pub(crate) fn begins_with(&self, number: u64, bytes: &[u8]) -> bool {
        self.file(number).is_some_and(|file| file.map.starts_with(bytes))
    }

    /// Sets the hint of a segment, if it has one. A damaged one is written again later.
    pub(crate) fn set_hint(&self, disk: &dyn Disk, access: Access, dir: &Path, segment: &Segment) {
        if self.hints.contains(&segment.number)
            && let Ok(hint) = Hint::open(disk, access, dir, self.id, segment.number)
            && hint.meta.end == segment.end()
        {
            let _ = segment.hint.set(hint);
        }
    }

    /// The largest number of a segment; 0 if there is none. Does not count files that only have the
    /// name of a segment.
    pub(crate) fn newest_number(&self) -> u64 {
        let numbers = self.files.iter().filter(|file| file.head.is_ok()).map(|file| file.number);
        numbers.max().unwrap_or(0)
    }

    pub(crate) fn file(&self, number: u64) -> Option<&SegmentFile> {
        let at = self.files.binary_search_by_key(&number, |file| file.number).ok()?;
        Some(&self.files[at])
    }

    /// Number and end of the segments of the store.
    pub(crate) fn members(&self) -> Result<Vec<LogPosition>> {
        let Some(file) = self.file(self.last.0) else { return Ok(Vec::new()) };
        let head = file.head.as_ref().map_err(copy_of)?;
        let mut removed = BTreeSet::new();
        scan(&file.map, &head.header, head.end, |_, record, _| {
            removed.extend(removed_segment(record.value).filter(|_| record.kind == Kind::Removed));
            Ok(())
        })?;
        let mut members = head.link.members.clone();
        members.retain(|(number, _)| !removed.contains(number));
        members.push(self.last);
        Ok(members)
    }
}

/// A copy of an error.
fn copy_of(error: &Error) -> Error {
    let mut copy = Error::new(error.kind(), error.message());
    if let Some(offset) = error.offset() {
        copy = copy.at(offset);
    }
    match error.file() {
        Some(file) => copy.in_file(file),
        None => copy,
    }
}
