//! Opening a store: which files make it up, where the log ends, and what is in the index.
//!
//! 1. `survey` reads the head of every segment: its header, and its link to the segment before.
//! 2. `Chain::follow` finds the end of the log. Links say up to which segment everything was
//!    durable. Behind that the log may end anywhere: the next segment is part of it if it is linked
//!    to exactly the end of the records of the one before. So what a power cut left behind a hole
//!    is not taken, however whole it looks, and neither is what an earlier recovery dropped.
//! 3. `Chain::members`: the last link lists the segments of the store; what was removed since is
//!    in the last segment. A member that is missing is an error; files that are no members are
//!    what compaction or a crash left over, and are removed.
//! 4. `Loader::scan` puts the records of each member into the index, in the order of the log.
//!    Damage before the end of a member is an error that says where.
//! 5. The active segment goes on where its records end if there are zeros behind; otherwise a write
//!    was torn there, and a new segment begins.
//!
//! Nothing on disk changes but that files which are not part of the store go away, so an opening
//! that is interrupted does no harm: the next one finds the same.

use super::commit::{Commit, Position};
use super::format::{self, HEADER, Header, Kind, Link, Record};
use super::index::{Full, Index, IndexWriter, Place};
use super::options::Options;
use super::segment::{Bytes, SEGMENTS_MAX, Segment, Table, file_name, number_of};
use super::stats::{Counters, Recovery};
use super::store::Shared;
use super::upkeep::Wake;
use super::write::full;
use super::writer::{Start, Writer};
use crate::disk::{DiskRef, Map};
use crate::{Error, ErrorKind, Result};
use arc_swap::ArcSwap;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};
use xxhash_rust::xxh3::xxh3_64_with_seed;

const LOCK: &str = "lock";

/// Opens the store in a directory: everything but its thread.
pub(super) fn open(disk: DiskRef, dir: &Path, options: Options) -> Result<Shared> {
    let started = std::time::Instant::now();
    let mut lock = None;
    if !options.read_only {
        let exists = exists(&disk, dir)?;
        if !exists && !options.create {
            return Err(absent(dir));
        }
        if !exists {
            disk.create_dir_all(dir)?;
        }
        lock = Some(disk.lock(&dir.join(LOCK))?);
    }
    let files = survey(&disk, dir)?;
    let id = match files.iter().find_map(|file| file.head.as_ref().ok()) {
        Some(head) => head.header.store,
        None if options.create && !options.read_only => new_id(),
        None => return Err(absent(dir)),
    };
    let chain = Chain::follow(files, id, dir)?;
    let mut loader = Loader::new(id, options.index_bits);
    let recovered = chain.load(&disk, dir, &mut loader)?;
    let counters = Counters::new(Recovery {
        dropped_bytes: recovered.dropped_bytes,
        dropped_segments: recovered.leftovers.len() as u64,
        scanned_segments: loader.scanned,
        seconds: started.elapsed().as_secs_f64(),
    });
    counters.keys.store(loader.writer.entries(), Ordering::Relaxed);
    counters.live_bytes.store(loader.live_bytes(), Ordering::Relaxed);
    let shared = Shared {
        disk,
        dir: dir.to_path_buf(),
        options,
        id,
        index: loader.index,
        table: ArcSwap::from_pointee(loader.table),
        writer: Mutex::new(None),
        commit: Commit::default(),
        counters,
        failed: OnceLock::new(),
        wake: Wake::default(),
        _lock: lock,
    };
    if !shared.options.read_only {
        let writer = start_writing(&shared, recovered, loader.writer)?;
        *shared.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(writer);
    }
    Ok(shared)
}

/// Whether the directory is there.
fn exists(disk: &DiskRef, dir: &Path) -> Result<bool> {
    match disk.list(dir) {
        Ok(_) => Ok(true),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

fn absent(dir: &Path) -> Error {
    Error::new(ErrorKind::NotFound, "there is no log store in this directory").in_file(dir)
}

/// An id that no other store has: 64 bits that the standard library draws at random.
fn new_id() -> u64 {
    RandomState::new().hash_one(std::time::SystemTime::now())
}

/// Removes what is not part of the store, and begins to write where the log ends.
fn start_writing(shared: &Shared, recovered: Recovered, index: IndexWriter) -> Result<Writer> {
    for number in &recovered.leftovers {
        shared.disk.remove(&shared.dir.join(file_name(*number)))?;
    }
    let Recovered { last, next_number, durable, unsynced, active, .. } = recovered;
    let start = Start { index, next_number, durable, last };
    let mut writer = match active {
        Some((tape, segment)) => Writer::resume(start, tape, segment),
        None => Writer::begin(shared, start)?,
    };
    writer.unsynced = unsynced;
    Ok(writer)
}

/// A segment's file.
struct File {
    number: u64,
    map: Map,
    head: Result<Head>,
}

/// What a segment begins with.
struct Head {
    header: Header,
    link: Link,
    /// Where the record after the link may begin.
    end: u64,
}

/// Reads the heads of all segments, in the order of their numbers.
fn survey(disk: &DiskRef, dir: &Path) -> Result<Vec<File>> {
    let names = disk.list(dir)?;
    let mut files = Vec::new();
    for number in names.iter().filter_map(|name| number_of(name)) {
        let path = dir.join(file_name(number));
        let map = disk.map(&path)?;
        let head = head_of(&map, number).map_err(|e| e.in_file(&path));
        if let Err(e) = &head
            && e.kind() == ErrorKind::UnsupportedVersion
        {
            return head.map(|_| Vec::new());
        }
        files.push(File { number, map, head });
    }
    Ok(files)
}

fn head_of(bytes: &[u8], number: u64) -> Result<Head> {
    let header = Header::decode(bytes)?;
    if header.number != number || header.capacity != bytes.len() as u64 {
        let message = format!(
            "this is segment {} of {} bytes; by its name and length it is {number} of {}",
            header.number,
            header.capacity,
            bytes.len()
        );
        return Err(Error::corrupt(message).at(24));
    }
    let at = HEADER.next_multiple_of(1 << header.granule);
    let rest = bytes.get(at..).unwrap_or(&[]);
    let found = format::read(rest, number, at as u64).filter(|(r, _)| r.kind == Kind::Link);
    let (record, length) =
        found.ok_or_else(|| Error::corrupt("the segment's link is damaged").at(at as u64))?;
    Ok(Head { header, link: Link::decode(record.value)?, end: (at + length) as u64 })
}

/// The whole records from `from` on; `each` gets offset, record and length of those that are part
/// of a whole batch. Returns the end of the last one.
fn scan<'a>(
    bytes: &'a [u8],
    header: &Header,
    from: u64,
    mut each: impl FnMut(u64, Record<'a>, u64) -> Result<()>,
) -> Result<u64> {
    let mut end = from;
    let mut at = from;
    let mut batch: Vec<(u64, Record, u64)> = Vec::new();
    loop {
        let offset = at.next_multiple_of(1 << header.granule);
        let rest = bytes.get(offset as usize..).unwrap_or(&[]);
        let Some((record, length)) = format::read(rest, header.number, offset) else {
            return Ok(end);
        };
        at = offset + length as u64;
        batch.push((offset, record, length as u64));
        if !record.more {
            for (offset, record, length) in batch.drain(..) {
                each(offset, record, length)?;
            }
            end = at;
        }
    }
}

/// The segments of which the log consists, as far as it goes.
struct Chain {
    files: Vec<File>,
    /// Segments up to this number were durable.
    durable: u64,
    /// The segments behind that belong to the log, in order, with the end of their records.
    tail: Vec<(u64, u64)>,
    /// The last segment of the log and where its records end.
    last: Position,
}

impl Chain {
    fn follow(files: Vec<File>, id: u64, dir: &Path) -> Result<Chain> {
        let heads = || files.iter().filter_map(|file| Some((file, file.head.as_ref().ok()?)));
        for (file, head) in heads() {
            if head.header.store != id {
                let message = "this segment belongs to another store: move it out of here";
                return Err(Error::corrupt(message)
                    .at(16)
                    .in_file(&dir.join(file_name(file.number))));
            }
        }
        let durable = heads().map(|(_, head)| head.link.durable).max().unwrap_or(0);
        let mut tail: Vec<(u64, u64)> = Vec::new();
        for (file, head) in heads().filter(|(file, _)| file.number > durable) {
            let follows = match tail.last() {
                Some(&last) => head.link.previous == last,
                None => head.link.previous.0 <= durable,
            };
            if follows {
                let end = scan(&file.map, &head.header, head.end, |_, _, _| Ok(()))?;
                tail.push((file.number, end));
            }
        }
        let last = match tail.last() {
            Some(&last) => last,
            None => match files.iter().rev().find(|file| file.number <= durable) {
                None => (0, 0),
                Some(file) => {
                    let head = file.head.as_ref().map_err(again)?;
                    (file.number, scan(&file.map, &head.header, head.end, |_, _, _| Ok(()))?)
                }
            },
        };
        Ok(Chain { files, durable, tail, last })
    }

    fn file(&self, number: u64) -> Option<&File> {
        let at = self.files.binary_search_by_key(&number, |file| file.number).ok()?;
        Some(&self.files[at])
    }

    /// Number and end of the segments that make up the store.
    fn members(&self) -> Result<Vec<Position>> {
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

    fn load(self, disk: &DiskRef, dir: &Path, loader: &mut Loader) -> Result<Recovered> {
        let members = self.members()?;
        let mut unsynced = Vec::new();
        let mut active = None;
        let mut dropped_bytes = 0;
        for (slot, &(number, end)) in members.iter().enumerate() {
            let path = dir.join(file_name(number));
            let file = self.file(number).ok_or_else(|| {
                Error::corrupt("this segment of the store is missing").in_file(&path)
            })?;
            let head = file.head.as_ref().map_err(again)?;
            let rest = file.map.get(end as usize..).unwrap_or(&[]);
            let torn = rest.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
            let is_last = number == self.last.0;
            let (bytes, tape) = if number > self.durable || is_last {
                let (tape, writer) = disk.open_tape(&path, end as usize)?;
                (Bytes::Tape(tape), Some(writer))
            } else {
                (Bytes::Sealed(file.map.clone(), end as usize), None)
            };
            if slot >= SEGMENTS_MAX {
                return Err(Error::new(ErrorKind::Failed, "the store has too many segments"));
            }
            let segment = Segment::new(number, slot, head.header.granule, path, bytes);
            let segment = Arc::new(segment);
            loader.table.put(Arc::clone(&segment));
            loader.scan(&segment, head)?;
            match tape {
                Some(tape) if is_last && torn == 0 => active = Some((tape, segment)),
                Some(_) => {
                    dropped_bytes += if is_last { torn as u64 } else { 0 };
                    unsynced.push(segment);
                }
                None => {}
            }
        }
        let is_member = |n: u64| members.iter().any(|&(number, _)| number == n);
        let numbers = self.files.iter().map(|file| file.number);
        let leftovers: Vec<u64> = numbers.filter(|&number| !is_member(number)).collect();
        let next_number = self.files.last().map_or(1, |file| file.number + 1);
        let (last, durable) = (self.last, self.durable);
        Ok(Recovered { last, next_number, durable, unsynced, active, leftovers, dropped_bytes })
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

/// What the files of a store say about where it ends.
struct Recovered {
    last: Position,
    next_number: u64,
    durable: u64,
    /// Segments that may not be durable, in order.
    unsynced: Vec<Arc<Segment>>,
    /// The segment to go on with; `None` if its end is torn.
    active: Option<(crate::disk::TapeWriter, Arc<Segment>)>,
    leftovers: Vec<u64>,
    dropped_bytes: u64,
}

/// Fills the index.
struct Loader {
    id: u64,
    index: Index,
    writer: IndexWriter,
    table: Table,
    scanned: u64,
}

impl Loader {
    fn new(id: u64, bits: u32) -> Loader {
        let (index, writer) = Index::new(bits);
        Loader { id, index, writer, table: Table::default(), scanned: 0 }
    }

    /// Puts all records of a segment into the index.
    fn scan(&mut self, segment: &Arc<Segment>, head: &Head) -> Result<()> {
        let filled = segment.filled();
        let end =
            scan(filled, &head.header, head.end, |offset, record, length| match record.kind {
                Kind::Put => self.put(segment, offset, &record, length),
                Kind::Delete => self.delete(segment, &record, length),
                Kind::Link | Kind::Removed => Ok(()),
            })?;
        self.scanned += 1;
        if end == segment.end() { Ok(()) } else { Err(segment.damage(end)) }
    }

    /// Place and length of a key's record.
    fn current(&self, hash: u64, key: &[u8]) -> Option<(Place, u64)> {
        self.index.find(hash, |place| {
            let segment = self.table.get(place.segment())?;
            let (record, length) = segment.peek(segment.offset(place))?;
            (record.key == key).then_some((place, length as u64))
        })
    }

    fn retire(&self, place: Place, length: u64) {
        if let Some(segment) = self.table.get(place.segment()) {
            segment.retire(length);
        }
    }

    fn put(&mut self, segment: &Segment, offset: u64, record: &Record, length: u64) -> Result<()> {
        let hash = xxh3_64_with_seed(record.key, self.id);
        let place = segment.place(offset);
        match self.current(hash, record.key) {
            Some((old, old_length)) => {
                self.writer.replace(&self.index, hash, old, place);
                self.retire(old, old_length);
            }
            None => {
                self.writer.insert(&self.index, hash, place).map_err(|Full| full())?;
            }
        }
        segment.live.fetch_add(length, Ordering::Relaxed);
        Ok(())
    }

    fn delete(&mut self, segment: &Segment, record: &Record, length: u64) -> Result<()> {
        let hash = xxh3_64_with_seed(record.key, self.id);
        if let Some((old, old_length)) = self.current(hash, record.key) {
            self.writer.remove(&self.index, hash, old);
            self.retire(old, old_length);
        }
        segment.deletes.fetch_add(length, Ordering::Relaxed);
        Ok(())
    }

    fn live_bytes(&self) -> u64 {
        self.table.in_order().iter().map(|s| s.live.load(Ordering::Relaxed)).sum()
    }
}
