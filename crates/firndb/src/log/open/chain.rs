//! The log as the files of a directory tell it: which segments make it up, and where it ends.

use crate::disk::{Disk, DiskRef, Map, ReadAt};
use crate::log::failpoints::Failpoint;
use crate::log::format::record::{self as format, HEAD_MAX, HEADER, Header, Kind, Link, Record};
use crate::log::options::{Access, Options};
use crate::log::segments::hint_file::Hint;
use crate::log::segments::segment::{Segment, file_name, number_of};
use crate::log::write::group_commit::Position;
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::path::Path;

/// A segment's file.
pub(crate) struct File {
    pub(crate) number: u64,
    /// All of it, or what it begins with: see `is_whole`.
    pub(crate) map: Map,
    is_whole: bool,
    pub(crate) head: Result<Head>,
}

/// What a segment begins with.
pub(crate) struct Head {
    pub(crate) header: Header,
    pub(crate) link: Link,
    /// Where the record after the link may begin.
    pub(crate) end: u64,
}

/// Reads the heads of all segments, in the order of their numbers. Of those with hints nothing more
/// is read; others that somebody may be appending to, if we only read, are copied and not mapped.
pub(crate) fn survey(
    disk: &DiskRef,
    dir: &Path,
    names: &[String],
    hints: &BTreeSet<u64>,
    options: &Options,
) -> Result<Vec<File>> {
    let is_mapped = options.access == Access::Map;
    let mut files = Vec::new();
    for number in names.iter().filter_map(|name| number_of(name)) {
        let path = dir.join(file_name(number));
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
        let head = head_of(&map, length, number).map_err(|e| e.in_file(&path));
        if let Err(e) = &head
            && e.kind() == ErrorKind::UnsupportedVersion
        {
            return head.map(|_| Vec::new());
        }
        let is_whole = map.len() as u64 == length;
        files.push(File { number, map, is_whole, head });
    }
    Ok(files)
}

/// The bytes of a segment, or its header and link; of a file that is none, no more than a header.
fn copy(file: &dyn ReadAt, number: u64, is_whole: bool) -> Result<Map> {
    let length = file.len()?;
    let mut bytes = vec![0; HEADER.min(usize::try_from(length).unwrap_or(HEADER))];
    file.read_at(0, &mut bytes)?;
    // A file may have any length: memory is only taken for what a header vouches for.
    if let Ok(header) = header_of(&bytes, length, number) {
        let link = HEADER.next_multiple_of(1 << header.alignment_log2);
        let mut wanted = if is_whole { length } else { length.min((link + HEAD_MAX) as u64) };
        bytes.resize(wanted as usize, 0);
        file.read_at(0, &mut bytes)?;
        let link_length = bytes.get(link..).and_then(format::length);
        if let Some(link_length) = link_length.filter(|_| !is_whole) {
            wanted = length.min((link + link_length) as u64);
            bytes.resize(wanted as usize, 0);
            file.read_at(0, &mut bytes)?;
        }
    }
    Ok(Map::from_vec(bytes))
}

pub(crate) fn head_of(bytes: &[u8], length: u64, number: u64) -> Result<Head> {
    read_head(header_of(bytes, length, number)?, bytes, number)
}

/// The header of segment `number`, whose file has this length.
fn header_of(bytes: &[u8], length: u64, number: u64) -> Result<Header> {
    let header = Header::decode(bytes)?;
    if header.number != number || header.capacity != length {
        let message = format!(
            "this is segment {} of {} bytes; by its name and length it is {number} of {length}",
            header.number, header.capacity,
        );
        return Err(Error::corrupt(message).at(24));
    }
    Ok(header)
}

pub(crate) fn read_head(header: Header, bytes: &[u8], number: u64) -> Result<Head> {
    let at = HEADER.next_multiple_of(1 << header.alignment_log2);
    let rest = bytes.get(at..).unwrap_or(&[]);
    let found = format::read(rest, number, at as u64).filter(|(r, _)| r.kind == Kind::Link);
    let (record, length) =
        found.ok_or_else(|| Error::corrupt("the segment's link is damaged").at(at as u64))?;
    Ok(Head { header, link: Link::decode(record.value)?, end: (at + length) as u64 })
}

/// The whole records from `from` on; `each` gets offset, record and length of those that are part
/// of a whole batch. Returns the end of the last one.
pub(crate) fn scan<'a>(
    bytes: &'a [u8],
    header: &Header,
    from: u64,
    mut each: impl FnMut(u64, Record<'a>, u64) -> Result<()>,
) -> Result<u64> {
    let mut end = from;
    let mut at = from;
    let mut batch: Vec<(u64, Record, u64)> = Vec::new();
    loop {
        let offset = at.next_multiple_of(1 << header.alignment_log2);
        let rest = bytes.get(offset as usize..).unwrap_or(&[]);
        let Some((record, length)) = format::read(rest, header.number, offset) else {
            return Ok(end);
        };
        at = offset + length as u64;
        batch.push((offset, record, length as u64));
        if !record.more || Failpoint::AcceptHalfBatch.is_on() {
            for (offset, record, length) in batch.drain(..) {
                each(offset, record, length)?;
            }
            end = at;
        }
    }
}

/// The segments of which the log consists, as far as it goes.
pub(crate) struct Chain {
    /// Of the store.
    id: u64,
    pub(crate) files: Vec<File>,
    /// Numbers of the segments that have hints.
    pub(crate) hints: BTreeSet<u64>,
    /// Segments up to this number were durable.
    pub(crate) durable: u64,
    /// The last segment of the log and where its records end.
    pub(crate) last: Position,
}

impl Chain {
    pub(crate) fn follow(
        disk: &DiskRef,
        mut files: Vec<File>,
        hints: BTreeSet<u64>,
        id: u64,
        dir: &Path,
    ) -> Result<Chain> {
        let heads = || files.iter().filter_map(|file| Some((file, file.head.as_ref().ok()?)));
        for (file, head) in heads() {
            if head.header.store != id {
                let message = "this segment belongs to another store: move it out of here";
                return Err(Error::corrupt(message)
                    .at(16)
                    .in_file(&dir.join(file_name(file.number))));
            }
        }
        let linked = heads().map(|(_, head)| head.link.durable).max();
        // A hint is written when its segment and all before it are durable. One without a segment
        // is what compaction left, or anything that happens to have such a name.
        let hinted = heads().map(|(file, _)| file.number).filter(|number| hints.contains(number));
        let durable = linked.max(hinted.max()).unwrap_or(0);
        let mut tail: Vec<(u64, u64)> = Vec::new();
        for (file, head) in heads().filter(|(file, _)| file.number > durable) {
            let follows = match tail.last() {
                Some(&last) => head.link.previous == last,
                None => head.link.previous.0 <= durable,
            };
            if follows || Failpoint::IgnoreLinks.is_on() {
                let end = scan(&file.map, &head.header, head.end, |_, _, _| Ok(()))?;
                tail.push((file.number, end));
            }
        }
        let last = match tail.last() {
            Some(&last) => last,
            None => match files.iter_mut().rev().find(|file| file.number <= durable) {
                None => (0, 0),
                Some(file) => {
                    let head = file.head.as_ref().map_err(again)?;
                    if !file.is_whole {
                        let opened = disk.open(&dir.join(file_name(file.number)))?;
                        file.map = copy(&*opened, file.number, true)?;
                    }
                    (file.number, scan(&file.map, &head.header, head.end, |_, _, _| Ok(()))?)
                }
            },
        };
        Ok(Chain { id, files, hints, durable, last })
    }

    /// The file and the head of a segment that must be there.
    pub(crate) fn part(&self, number: u64, path: &Path) -> Result<(&File, &Head)> {
        let missing = || Error::corrupt("this segment of the store is missing").in_file(path);
        let file = self.file(number).ok_or_else(missing)?;
        Ok((file, file.head.as_ref().map_err(again)?))
    }

    /// Whether the file of a segment begins with these bytes.
    pub(crate) fn begins_with(&self, number: u64, bytes: &[u8]) -> bool {
        self.file(number).is_some_and(|file| file.map.starts_with(bytes))
    }

    /// Gives a segment its hint, if it has one. One that is damaged is written anew.
    pub(crate) fn set_hint(&self, disk: &dyn Disk, access: Access, dir: &Path, segment: &Segment) {
        if self.hints.contains(&segment.number)
            && let Ok(hint) = Hint::open(disk, access, dir, self.id, segment.number)
            && hint.end == segment.end()
        {
            let _ = segment.hint.set(hint);
        }
    }

    /// The largest number of a segment; 0 if there is none. Files that only have the name of a
    /// segment do not count.
    pub(crate) fn newest_number(&self) -> u64 {
        let numbers = self.files.iter().filter(|file| file.head.is_ok()).map(|file| file.number);
        numbers.max().unwrap_or(0)
    }

    pub(crate) fn file(&self, number: u64) -> Option<&File> {
        let at = self.files.binary_search_by_key(&number, |file| file.number).ok()?;
        Some(&self.files[at])
    }

    /// Number and end of the segments that make up the store.
    pub(crate) fn members(&self) -> Result<Vec<Position>> {
        let Some(file) = self.file(self.last.0) else { return Ok(Vec::new()) };
        let head = file.head.as_ref().map_err(again)?;
        let mut removed = BTreeSet::new();
        scan(&file.map, &head.header, head.end, |_, record, _| {
            removed.extend(format::removed(record.value).filter(|_| record.kind == Kind::Removed));
            Ok(())
        })?;
        let mut members = head.link.members.clone();
        members.retain(|(number, _)| !removed.contains(number));
        members.push(self.last);
        Ok(members)
    }
}

/// The same error once more.
fn again(error: &Error) -> Error {
    let mut copy = Error::new(error.kind(), error.message());
    if let Some(offset) = error.offset() {
        copy = copy.at(offset);
    }
    match error.file() {
        Some(file) => copy.in_file(file),
        None => copy,
    }
}
