//! Records on their way into a table: split by the first bits of their hashes, in memory up to a
//! budget and then in a temporary file that only grows.
//!
//! Records are appended to one of 1,024 partitions as they come. When the budget is full all
//! partitions are appended to the file, one after the other, as one run. A partition is read back
//! whole, from its piece of each run and from memory, and is small enough to be sorted in a cache;
//! one that is larger than the caller's limit is split again by the next bits of its hashes.

use crate::bytes::int::{Encoder, u64_at};
use crate::disk::{Append, DiskRef, ReadAt};
use crate::{Error, Result};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

const BITS: u32 = 10;
const PARTITIONS: usize = 1 << BITS;
/// The first piece of memory of a partition, and the largest.
const FIRST_CHUNK: usize = 512;
const LARGEST_CHUNK: usize = 1 << 16;
/// A record is kept as hash, place, lengths of key and value, key, value.
const HEAD: usize = 8 + 8 + 4 + 4;

/// A record that was added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Added<'a> {
    pub(crate) hash: u64,
    /// Where it came from, for messages and for the order of duplicates.
    pub(crate) origin: u64,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// Where temporary files are made, and how much memory may be used.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) disk: DiskRef,
    pub(crate) folder: PathBuf,
    pub(crate) memory: usize,
}

/// Collects records.
pub(crate) struct Partitions {
    place: Place,
    /// Bits of the hash that are equal in all records.
    depth: u32,
    parts: Vec<Part>,
    memory: usize,
    file: Option<SpillFile>,
    spilled: u64,
}

#[derive(Default)]
struct Part {
    chunks: Vec<Vec<u8>>,
    /// Offsets and lengths in the file.
    pieces: Vec<(u64, u64)>,
    bytes: u64,
}

/// Removes its file when dropped.
struct SpillFile {
    disk: DiskRef,
    path: PathBuf,
    /// Only ever reached alone, through `&mut`.
    append: Mutex<Box<dyn Append>>,
    read: Box<dyn ReadAt>,
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        // Nothing depends on it: at worst a temporary file is left over.
        let _ = self.disk.remove(&self.path);
    }
}

impl SpillFile {
    fn create(place: &Place) -> Result<SpillFile> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!(".firndb-table-{}-{number}.spill", std::process::id());
        let path = place.folder.join(name);
        let append = Mutex::new(place.disk.create(&path)?);
        let read = match place.disk.open(&path) {
            Ok(read) => read,
            Err(e) => {
                let _ = place.disk.remove(&path);
                return Err(e);
            }
        };
        Ok(SpillFile { disk: place.disk.clone(), path, append, read })
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.append.get_mut().unwrap_or_else(PoisonError::into_inner).append(bytes)
    }
}

impl Partitions {
    pub(crate) fn new(place: Place) -> Partitions {
        Partitions::at(place, 0)
    }

    fn at(place: Place, depth: u32) -> Partitions {
        let parts = (0..PARTITIONS).map(|_| Part::default()).collect();
        Partitions { place, depth, parts, memory: 0, file: None, spilled: 0 }
    }

    /// Number of partitions; all hashes of one are below all hashes of the next.
    pub(crate) fn len(&self) -> usize {
        PARTITIONS
    }

    /// Where temporary files go.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Bytes written to the temporary file.
    pub(crate) fn spilled(&self) -> u64 {
        self.spilled
    }

    #[inline]
    pub(crate) fn push(&mut self, record: Added) -> Result<()> {
        let number = (record.hash << self.depth >> (64 - BITS)) as usize;
        let len = HEAD + record.key.len() + record.value.len();
        let part = &mut self.parts[number];
        let room = part.chunks.last().map_or(0, |chunk| chunk.capacity() - chunk.len());
        if room < len {
            let size = FIRST_CHUNK << part.chunks.len().min(7);
            let size = size.min(LARGEST_CHUNK).min(self.place.memory / (4 * PARTITIONS)).max(len);
            if self.memory + size > self.place.memory && self.memory > 0 {
                self.spill()?;
            }
            self.memory += size;
            self.parts[number].chunks.push(Vec::with_capacity(size));
        }
        let part = &mut self.parts[number];
        part.bytes += len as u64;
        let Some(chunk) = part.chunks.last_mut() else { return Ok(()) };
        let mut out = Encoder(std::mem::take(chunk));
        out.u64(record.hash);
        out.u64(record.origin);
        out.u32(record.key.len() as u32);
        out.u32(record.value.len() as u32);
        out.0.extend_from_slice(record.key);
        out.0.extend_from_slice(record.value);
        *chunk = out.0;
        Ok(())
    }

    /// Appends everything in memory to the file.
    fn spill(&mut self) -> Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(SpillFile::create(&self.place)?),
        };
        for part in &mut self.parts {
            let chunks = std::mem::take(&mut part.chunks);
            let len = chunks.iter().map(|chunk| chunk.len() as u64).sum();
            if len > 0 {
                part.pieces.push((self.spilled, len));
                self.spilled += len;
            }
            chunks.iter().try_for_each(|chunk| file.append(chunk))?;
        }
        self.memory = 0;
        Ok(())
    }

    /// Ends collecting. If anything was spilled, all of it is, so that memory is free.
    pub(crate) fn seal(&mut self) -> Result<()> {
        if self.file.is_some() { self.spill() } else { Ok(()) }
    }

    /// Gives `use_it` the records of partition `number`, unsorted, as one buffer for [`read`];
    /// several times if there are more than `limit` bytes, in ascending order of hashes.
    pub(crate) fn gather(
        &self,
        number: usize,
        limit: usize,
        use_it: &mut dyn FnMut(Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let part = &self.parts[number];
        if part.bytes > limit as u64 && self.depth + BITS < 60 {
            return self.split(part, limit, use_it);
        }
        let mut buffer = Vec::with_capacity(part.bytes as usize);
        for &(offset, len) in &part.pieces {
            let at = buffer.len();
            buffer.resize(at + len as usize, 0);
            self.read_at(offset, &mut buffer[at..])?;
        }
        part.chunks.iter().for_each(|chunk| buffer.extend_from_slice(chunk));
        use_it(buffer)
    }

    fn split(
        &self,
        part: &Part,
        limit: usize,
        use_it: &mut dyn FnMut(Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let mut finer = Partitions::at(self.place.clone(), self.depth + BITS);
        finer.place.memory = limit;
        for chunk in &part.chunks {
            read(chunk, |record| finer.push(record))?;
        }
        for &(offset, len) in &part.pieces {
            finer.push_piece(self, offset, len)?;
        }
        finer.seal()?;
        (0..finer.len()).try_for_each(|number| finer.gather(number, limit, use_it))
    }

    /// Adds the records of a piece of another's file, a few at a time.
    fn push_piece(&mut self, from: &Partitions, mut offset: u64, len: u64) -> Result<()> {
        let end = offset + len;
        while offset < end {
            let mut head = [0; HEAD];
            from.read_at(offset, &mut head)?;
            let (mut window, record) = (Vec::new(), HEAD + lengths(&head).0 + lengths(&head).1);
            window.resize(((end - offset) as usize).min(record.max(1 << 20)), 0);
            from.read_at(offset, &mut window)?;
            let mut whole = 0;
            while let Some((record, size)) = first(&window[whole..]) {
                self.push(record)?;
                whole += size;
            }
            offset += whole as u64;
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        match &self.file {
            Some(file) => file.read.read_at(offset, bytes),
            None => Err(Error::corrupt("there is no temporary file to read from")),
        }
    }
}

/// Bytes that are appended now and read once later: in memory, and what is more than the place has
/// memory for in a temporary file.
pub(crate) struct Spool {
    place: Place,
    memory: Vec<u8>,
    file: Option<SpillFile>,
    spilled: u64,
}

impl Spool {
    pub(crate) fn new(place: Place) -> Spool {
        Spool { place, memory: Vec::new(), file: None, spilled: 0 }
    }

    pub(crate) fn len(&self) -> u64 {
        self.spilled + self.memory.len() as u64
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.memory.extend_from_slice(bytes);
        if self.memory.len() > self.place.memory {
            let file = match &mut self.file {
                Some(file) => file,
                None => self.file.insert(SpillFile::create(&self.place)?),
            };
            file.append(&self.memory)?;
            self.spilled += self.memory.len() as u64;
            self.memory.clear();
        }
        Ok(())
    }

    /// Gives back everything, in pieces.
    pub(crate) fn each(&self, mut visit: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        if let Some(file) = &self.file {
            let (mut at, mut piece) = (0, vec![0; 1 << 20]);
            while at < self.spilled {
                let len = (self.spilled - at).min(piece.len() as u64) as usize;
                file.read.read_at(at, &mut piece[..len])?;
                visit(&piece[..len])?;
                at += len as u64;
            }
        }
        visit(&self.memory)
    }
}

/// Lengths of key and value of the record that begins here.
#[inline(always)]
fn lengths(bytes: &[u8]) -> (usize, usize) {
    let both = u64_at(bytes, 16);
    (both as u32 as usize, (both >> 32) as usize)
}

/// The record that begins here and its size, if it is whole.
#[inline(always)]
fn first(bytes: &[u8]) -> Option<(Added<'_>, usize)> {
    let (key, value) = lengths(bytes.get(..HEAD)?);
    let record = bytes.get(HEAD..HEAD + key + value)?;
    let (key, value) = record.split_at(key);
    let size = HEAD + record.len();
    Some((Added { hash: u64_at(bytes, 0), origin: u64_at(bytes, 8), key, value }, size))
}

/// Visits the records of a buffer.
#[inline]
pub(crate) fn read<'a>(
    bytes: &'a [u8],
    mut visit: impl FnMut(Added<'a>) -> Result<()>,
) -> Result<()> {
    let mut at = 0;
    while let Some((record, size)) = first(&bytes[at..]) {
        visit(record)?;
        at += size;
    }
    Ok(())
}

/// The record of a buffer that begins at byte `at`.
#[inline(always)]
pub(crate) fn record_at(bytes: &[u8], at: usize) -> Added<'_> {
    let none = Added { hash: 0, origin: 0, key: &[], value: &[] };
    bytes.get(at..).and_then(first).map_or(none, |(record, _)| record)
}
