//! A key run, as a file: see `format/key_run.rs`.

use crate::bytes::int::u64_at;
use crate::disk::envelope::{Envelope, EnvelopeWriter, Kind, begins_as_frozen, kind_in_header};
use crate::disk::{Append, Disk, Entry, ReadAt};
use crate::log::format::key_block::{Block, BlockWriter, Group};
use crate::log::format::key_run::{
    BLOCKS, FENCES, FenceWriter, Fences, KeyRunMeta, META, OWNER, encode_owner,
};
use crate::log::format::names::key_run_file;
use crate::log::options::Access;
use crate::log::segments::key_source::{Direction, KeyEntry, KeySource, Place};
use crate::{Error, ErrorKind, Result};
use std::borrow::Cow;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where the first section begins: after the header of the file.
const OWNER_AT: usize = 64;

/// The store that a file says it is a key run of, whether or not the rest of it is damaged; `None`
/// for other files.
pub(crate) fn owner(disk: &dyn Disk, path: &Path) -> Result<Option<u64>> {
    let (file, mut head) = (disk.open(path)?, [0; OWNER_AT + 8]);
    if file.len()? < head.len() as u64 {
        return Ok(None);
    }
    file.read_at(0, &mut head)?;
    let is_run = kind_in_header(&head) == Some(Kind::LogKeyRun as u32);
    Ok(is_run.then(|| u64_at(&head, OWNER_AT)))
}

/// `AlreadyExists` if a path names something that is neither a file of FirnDB nor a damaged run of
/// this store. A power cut may have left zeros.
pub(crate) fn check_place(disk: &dyn Disk, path: &Path, store: u64) -> Result<()> {
    let is_free = match disk.look(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => true,
        Ok(Entry::File(length)) => {
            let mut head = [0; OWNER_AT + 8];
            let length = head.len().min(usize::try_from(length).unwrap_or(usize::MAX));
            disk.open(path)?.read_at(0, &mut head[..length])?;
            let is_run = begins_as_frozen(&head[..length]) || u64_at(&head, OWNER_AT) == store;
            is_run || head.iter().all(|&byte| byte == 0)
        }
        found => found.map(|_| false)?,
    };
    let message = "this has the name of a key run that is to be written, and is no file of FirnDB: \
                   move it to another directory";
    let taken = || Error::new(ErrorKind::AlreadyExists, message).in_file(path);
    is_free.then_some(()).ok_or_else(taken)
}

/// Writes a key run. Takes about a tenth of a byte of memory per entry, for the fences.
pub(crate) struct KeyRunWriter<'a> {
    out: EnvelopeWriter<'a>,
    meta: KeyRunMeta,
    fences: FenceWriter,
    block: BlockWriter,
    /// The key before the block.
    before: Vec<u8>,
    first: Vec<u8>,
    buffer: Vec<u8>,
    written: u64,
}

impl<'a> KeyRunWriter<'a> {
    /// Begins the run of the segments `first..=last` of a store.
    pub(crate) fn new(
        out: &'a mut dyn Append,
        store: u64,
        (first, last): (u64, u64),
    ) -> Result<KeyRunWriter<'a>> {
        let mut out = EnvelopeWriter::new(out, Kind::LogKeyRun)?;
        out.section(OWNER, &encode_owner(store))?;
        out.begin(BLOCKS, true)?;
        Ok(KeyRunWriter {
            out,
            meta: KeyRunMeta { store, first, last, entries: 0, blocks: 0 },
            fences: FenceWriter::default(),
            block: BlockWriter::default(),
            before: Vec::new(),
            first: Vec::new(),
            buffer: Vec::new(),
            written: 0,
        })
    }

    /// Adds an entry. Entries come in the order of keys, then segments, then offsets.
    /// `InvalidArgument` if its location cannot be stored.
    pub(crate) fn push(&mut self, entry: KeyEntry<'_>) -> Result<()> {
        let segment = entry.segment.checked_sub(self.meta.first).map(u32::try_from);
        let (Some(Ok(segment)), Ok(offset)) = (segment, u32::try_from(entry.offset)) else {
            let KeyEntry { segment, offset, .. } = entry;
            let KeyRunMeta { first, .. } = self.meta;
            let message = format!(
                "a record in segment {segment} at {offset} is no part of a run from segment {first}"
            );
            return Err(Error::invalid(message));
        };
        if self.block.is_full() {
            self.finish_block()?;
        }
        if self.block.is_empty() {
            self.before.clear();
            self.before.extend_from_slice(self.block.last());
            self.first.clear();
            self.first.extend_from_slice(entry.key);
        }
        self.block.push(entry.key, segment, offset);
        self.meta.entries += 1;
        Ok(())
    }

    fn finish_block(&mut self) -> Result<()> {
        self.fences.push(self.written, &self.before, &self.first);
        self.buffer.clear();
        self.block.finish(&mut self.buffer);
        self.written += self.buffer.len() as u64;
        self.out.write(&self.buffer)
    }

    /// Writes the rest.
    pub(crate) fn finish(mut self) -> Result<KeyRunMeta> {
        if !self.block.is_empty() {
            self.finish_block()?;
        }
        self.out.end();
        self.meta.blocks = self.fences.blocks();
        self.out.section(META, &self.meta.encode())?;
        self.out.section(FENCES, &self.fences.finish(self.written))?;
        self.out.finish()?;
        Ok(self.meta)
    }
}

/// An open key run.
pub(crate) struct KeyRun {
    file: Envelope,
    /// Index of section 2 in the directory.
    fences: usize,
    /// Where section 3 is: offset and length.
    blocks: (u64, u64),
    /// With buffered access, the file that blocks are read from.
    reader: Option<Box<dyn ReadAt>>,
    pub(crate) meta: KeyRunMeta,
    /// Whether damage was found in it since it was opened.
    is_damaged: AtomicBool,
}

impl KeyRun {
    /// Opens the run of the segments `first..=last` of a store. Reads footer and meta section.
    /// `Corrupt` if it is the run of other segments.
    pub(crate) fn open(
        disk: &dyn Disk,
        access: Access,
        dir: &Path,
        store: u64,
        segments: (u64, u64),
    ) -> Result<KeyRun> {
        let path = dir.join(key_run_file(segments));
        // With buffered access blocks are read when they are needed; the rest is in memory.
        let (file, reader) = match access {
            Access::Map => (access.open(disk, &path, Kind::LogKeyRun)?, None),
            Access::Buffered => {
                let reader = disk.open(&path)?;
                let file = Envelope::load_without_blocks(&*reader, &path, Kind::LogKeyRun)?;
                (file, Some(reader))
            }
        };
        let open = || {
            let index = |id: u32| {
                let missing = || Error::corrupt(format!("section {id} is missing"));
                file.find(id).ok_or_else(missing)
            };
            let meta = KeyRunMeta::decode(file.section(index(META)?)?)?;
            if (meta.store, (meta.first, meta.last)) != (store, segments) {
                let of = if meta.store == store { "this store" } else { "another store" };
                let KeyRunMeta { first, last, .. } = meta;
                let message = format!("this is the run of segments {first} to {last} of {of}");
                return Err(Error::corrupt(message));
            }
            let (fences, blocks) = (index(FENCES)?, file.entry(index(BLOCKS)?));
            Ok((meta, fences, (blocks.offset, blocks.len)))
        };
        let (meta, fences, blocks) = open().map_err(|e: Error| e.in_file(&path))?;
        Ok(KeyRun { file, fences, blocks, reader, meta, is_damaged: AtomicBool::new(false) })
    }

    /// Whether damage was found in it since it was opened.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// Adds the file to an error, and remembers that the run is damaged if that is the error.
    #[cold]
    fn failed(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::Corrupt {
            self.is_damaged.store(true, Ordering::Relaxed);
        }
        error.in_file(self.file.path())
    }

    /// Length of the file.
    pub(crate) fn bytes(&self) -> u64 {
        self.file.len()
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    /// Iterates from a bound on. For a descending iteration it is the upper bound.
    pub(crate) fn seek(
        self: &Arc<KeyRun>,
        bound: Bound<&[u8]>,
        direction: Direction,
    ) -> Result<KeyRunIter> {
        let mut iter = KeyRunIter {
            run: Arc::clone(self),
            direction,
            block: 0,
            place: (0, 0),
            parts: Block::default(),
            bytes: Vec::new(),
            group: 0,
            entries: Group::default(),
            at: 0,
        };
        iter.seek(Place::new(bound, direction)).map_err(|e| self.failed(e))?;
        Ok(iter)
    }

    fn fences(&self) -> Result<Fences<'_>> {
        Fences::new(self.file.section(self.fences)?, self.meta.blocks, self.blocks.1)
    }

    /// Where a block is in the file: offset and length.
    fn place(&self, block: usize) -> Result<(u64, usize)> {
        let (offset, length) = self.fences()?.block(block)?;
        Ok((self.blocks.0 + offset, length))
    }

    /// The bytes of a block. Their checksum is not checked.
    fn read(&self, block: usize) -> Result<Cow<'_, [u8]>> {
        let (offset, length) = self.place(block)?;
        let Some(file) = &self.reader else {
            return Ok(Cow::Borrowed(self.file.bytes(offset, length as u64)));
        };
        let mut bytes = vec![0; length];
        file.read_at(offset, &mut bytes)?;
        Ok(Cow::Owned(bytes))
    }

    /// Checks every byte, the order of the entries, and their number.
    pub(crate) fn verify(self: &Arc<KeyRun>) -> Result<()> {
        let wrong = |what: &str| Err(Error::corrupt(what).in_file(self.file.path()));
        match &self.reader {
            None => self.file.verify()?,
            Some(reader) => {
                Envelope::open(reader.map()?, self.file.path(), Kind::LogKeyRun)?.verify()?;
            }
        }
        let mut iter = self.seek(Bound::Unbounded, Direction::Forward)?;
        let (mut last, mut count) = (None::<(Vec<u8>, u64, u64)>, 0);
        while let Some(entry) = iter.current() {
            let now = (entry.key, entry.segment, entry.offset);
            let before = last.as_ref().map(|(key, segment, offset)| (&key[..], *segment, *offset));
            if before.is_some_and(|before| before >= now) {
                return wrong("the keys of a run are not in order");
            }
            if entry.segment > self.meta.last {
                return wrong("an entry of a key run is in a segment that the run does not cover");
            }
            last = Some((entry.key.to_vec(), entry.segment, entry.offset));
            count += 1;
            iter.advance()?;
        }
        if count != self.meta.entries {
            wrong("a key run has another number of entries")
        } else {
            Ok(())
        }
    }
}

/// Iterates over the entries of a key run. Checks a block when it enters it, and decodes a group of
/// entries at a time.
pub(crate) struct KeyRunIter {
    run: Arc<KeyRun>,
    direction: Direction,
    /// Number of the current block, its place in the file, and its parts.
    block: usize,
    place: (u64, usize),
    parts: Block,
    /// With buffered access, the bytes of the block.
    bytes: Vec<u8>,
    /// Number of the current group in the block, and its entries; none at the end.
    group: usize,
    entries: Group,
    /// The current entry of the group.
    at: usize,
}

impl KeyRunIter {
    /// Where the block of the current entry begins in the file.
    pub(crate) fn offset(&self) -> u64 {
        self.place.0
    }

    /// Goes to the first entry after a place, or to the last one before it.
    fn seek(&mut self, place: Place<'_>) -> Result<()> {
        let run = Arc::clone(&self.run);
        let compare_first = |block: usize, key: &[u8]| {
            let bytes = run.read(block)?;
            Ok(Block::check(&bytes)?.first_key(&bytes, 0)?.cmp(key))
        };
        let before = match place {
            Place::Start => 0,
            Place::End => run.meta.blocks as usize,
            Place::Before(key) => run.fences()?.blocks_before(key, false, compare_first)?,
            Place::After(key) => run.fences()?.blocks_before(key, true, compare_first)?,
        };
        if run.meta.blocks == 0 || (before == 0 && self.direction == Direction::Reverse) {
            return Ok(());
        }
        self.enter(before.saturating_sub(1))?;
        let (mut low, mut high) = (0, self.parts.groups());
        while low < high {
            let middle = (low + high) / 2;
            let first = self.parts.first_key(self.block_bytes(), middle)?;
            if place.is_after(first) { low = middle + 1 } else { high = middle }
        }
        self.decode(low.saturating_sub(1))?;
        let entries = 0..self.entries.len();
        self.at = entries.take_while(|&i| place.is_after(self.entries.key(i))).count();
        match self.direction {
            Direction::Forward if self.at < self.entries.len() => Ok(()),
            Direction::Forward => self.next_group(),
            Direction::Reverse if self.at > 0 => {
                self.at -= 1;
                Ok(())
            }
            Direction::Reverse => self.previous_group(),
        }
    }

    /// Reads and checks a block.
    fn enter(&mut self, block: usize) -> Result<()> {
        self.block = block;
        self.place = self.run.place(block)?;
        if let Some(file) = &self.run.reader {
            self.bytes.resize(self.place.1, 0);
            file.read_at(self.place.0, &mut self.bytes)?;
        }
        self.parts = Block::check(self.block_bytes()).map_err(|e| e.at(self.place.0))?;
        Ok(())
    }

    #[inline]
    fn block_bytes(&self) -> &[u8] {
        match &self.run.reader {
            None => self.run.file.bytes(self.place.0, self.place.1 as u64),
            Some(_) => &self.bytes,
        }
    }

    fn decode(&mut self, group: usize) -> Result<()> {
        self.group = group;
        let mut entries = std::mem::take(&mut self.entries);
        let decoded = self.parts.decode(self.block_bytes(), group, &mut entries);
        self.entries = entries;
        decoded.map_err(|e| e.at(self.place.0))
    }

    fn next_group(&mut self) -> Result<()> {
        self.at = 0;
        if self.group + 1 < self.parts.groups() {
            return self.decode(self.group + 1);
        }
        self.entries.clear();
        if self.block as u64 + 1 < self.run.meta.blocks {
            self.enter(self.block + 1)?;
            self.decode(0)?;
        }
        Ok(())
    }

    fn previous_group(&mut self) -> Result<()> {
        if self.group > 0 {
            self.decode(self.group - 1)?;
        } else {
            self.entries.clear();
            if self.block > 0 {
                self.enter(self.block - 1)?;
                self.decode(self.parts.groups() - 1)?;
            }
        }
        self.at = self.entries.len().saturating_sub(1);
        Ok(())
    }
}

impl KeySource for KeyRunIter {
    #[inline]
    fn current(&self) -> Option<KeyEntry<'_>> {
        if self.at >= self.entries.len() {
            return None;
        }
        let (segment, offset) = self.entries.location(self.at);
        let segment = self.run.meta.first.wrapping_add(segment.into());
        Some(KeyEntry { key: self.entries.key(self.at), segment, offset: offset.into() })
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        match self.direction {
            Direction::Forward if self.at + 1 < self.entries.len() => self.at += 1,
            Direction::Reverse if self.at > 0 => self.at -= 1,
            _ if self.entries.len() == 0 => {}
            Direction::Forward => return self.next_group().map_err(|e| self.run.failed(e)),
            Direction::Reverse => return self.previous_group().map_err(|e| self.run.failed(e)),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
