//! Records on their way into a table: split by the first bits of their hashes, in memory up to a
//! budget and then in a temporary file that only grows.
//!
//! Records are appended to one of 1,024 partitions as they come. When the budget is full all
//! partitions are appended to the file, one after the other, as one run. `gather.rs` reads them
//! back.

use crate::bytes::prefetch::prefetch;
use crate::disk::spool::{Piece, SpillFile, TempSpace};
use crate::table::build::arena::{Arena, Chunk, Pools};
use crate::table::build::hashing::Hashing;
use crate::table::build::raw::{Added, zigzag};
use crate::{Error, ErrorKind, Result};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

pub(crate) const BITS: u32 = 10;
const PARTITIONS: usize = 1 << BITS;
/// The first chunk of memory of a partition, and the largest.
const FIRST_CHUNK: usize = 512;
const LARGEST_CHUNK: usize = 1 << 15;
/// Bytes that are appended to the file at once.
const BUFFER: usize = 1 << 20;

/// Collects records.
pub(crate) struct Partitions {
    pub(crate) temp_space: TempSpace,
    pub(crate) hash: Hashing,
    /// Bits of the hash that are equal in all records.
    pub(crate) depth: u32,
    pub(crate) partitions: Vec<Partition>,
    /// Where the next record of each partition goes: apart from the rest of it, so that those of
    /// all stay in the nearest cache.
    open: Vec<OpenChunk>,
    pub(crate) arena: Arena,
    /// For partitions that are read back.
    pub(crate) pools: Arc<Pools>,
    /// Lowest and highest hash of each partition, where records were split again.
    pub(crate) hash_ranges: Vec<(u64, u64)>,
    file: Option<SpillFile>,
    spilled: u64,
    /// Bytes that were spilled before the records were split by this hash.
    pub(crate) spilled_before: u64,
    /// A record could not be taken, and perhaps others with it.
    failed: bool,
}

/// Where the next record of a partition goes.
#[derive(Clone, Copy, Default)]
struct OpenChunk {
    /// What is left of a chunk.
    room: Chunk,
    /// Origin of the last record.
    origin: u64,
}

#[derive(Default)]
pub(crate) struct Partition {
    /// Where the records of the open chunk begin.
    start: usize,
    /// The chunks before it, of records only.
    pub(crate) chunks: Vec<Chunk>,
    /// What is in the file, a piece a run.
    pub(crate) pieces: Vec<Piece>,
    /// Bytes of records, without those of the open chunk.
    pub(crate) bytes: u64,
}

impl Partitions {
    pub(crate) fn new(temp_space: TempSpace, hash: Hashing) -> Partitions {
        Partitions::at(temp_space, hash, 0)
    }

    pub(crate) fn at(temp_space: TempSpace, hash: Hashing, depth: u32) -> Partitions {
        let partitions = (0..PARTITIONS).map(|_| Partition::default()).collect();
        Partitions {
            arena: Arena::new(PARTITIONS, temp_space.memory),
            temp_space,
            hash,
            depth,
            partitions,
            open: vec![OpenChunk::default(); PARTITIONS],
            pools: Arc::default(),
            hash_ranges: Vec::new(),
            file: None,
            spilled: 0,
            spilled_before: 0,
            failed: false,
        }
    }

    /// Number of partitions; all hashes of one are below all hashes of the next.
    pub(crate) fn len(&self) -> usize {
        PARTITIONS
    }

    /// Whether a partition has no records; of partitions that are sealed.
    pub(crate) fn is_empty(&self, number: usize) -> bool {
        self.partitions[number].bytes == 0
    }

    /// The hash by which records are split.
    pub(crate) fn hash(&self) -> Hashing {
        self.hash
    }

    /// Where temporary files go.
    pub(crate) fn temp_space(&self) -> &TempSpace {
        &self.temp_space
    }

    /// Bytes written to temporary files.
    pub(crate) fn spilled(&self) -> u64 {
        self.spilled_before + self.spilled
    }

    /// The partition of a hash.
    #[inline]
    pub(crate) fn number(&self, hash: u64) -> usize {
        (hash << self.depth >> (64 - BITS)) as usize
    }

    #[inline]
    pub(crate) fn push(&mut self, added: Added) -> Result<()> {
        let Added { hash, origin, record } = added;
        let (number, most) = (self.number(hash), record.max_encoded_len());
        if self.open[number].room.len() < most {
            self.grow(number, most)?;
        }
        let open = &mut self.open[number];
        let room = self.arena.room(number, open.room);
        let len = record.encode(zigzag(open.origin, origin), room);
        // The next record of this partition, some thousand records from now, goes here: without
        // this each would wait for the memory that it is about to overwrite.
        prefetch(&room[len..], 2);
        open.room.start += len;
        open.origin = origin;
        Ok(())
    }

    /// [`Partitions::try_grow`]; after a failure nothing can be made of the records.
    #[cold]
    fn grow(&mut self, number: usize, room: usize) -> Result<()> {
        let grown = self.try_grow(number, room);
        self.failed |= grown.is_err();
        grown
    }

    /// Gives a partition a chunk with this much room, spilling first if there is no memory for it.
    fn try_grow(&mut self, number: usize, room: usize) -> Result<()> {
        let budget = self.temp_space.memory;
        let size = FIRST_CHUNK << self.partitions[number].chunks.len().min(6);
        let size = size.min(LARGEST_CHUNK).min(budget / (4 * PARTITIONS)).max(room);
        let chunk = match self.arena.take(number, size)? {
            Some(chunk) => chunk,
            None => {
                self.spill()?;
                self.arena.take(number, size)?.ok_or_else(record_lost)?
            }
        };
        self.close(number, chunk);
        Ok(())
    }

    /// Ends the open chunk of a partition, which goes on in another one.
    fn close(&mut self, number: usize, next: Chunk) {
        let (part, open) = (&mut self.partitions[number], &mut self.open[number]);
        let records = Chunk { end: open.room.start, start: part.start, ..open.room };
        if records.len() > 0 {
            part.bytes += records.len() as u64;
            part.chunks.push(records);
        }
        part.start = next.start;
        open.room = next;
    }

    /// Appends everything in memory to the file.
    fn spill(&mut self) -> Result<()> {
        (0..PARTITIONS).for_each(|number| self.close(number, Chunk::default()));
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(SpillFile::create(&self.temp_space)?),
        };
        let mut buffer = Vec::with_capacity(2 * BUFFER);
        for (number, part) in self.partitions.iter_mut().enumerate() {
            let slabs = self.arena.slabs_of(number);
            let chunks = std::mem::take(&mut part.chunks);
            let mut sum = Xxh3::new();
            chunks.iter().for_each(|chunk| sum.update(slabs.bytes(*chunk)));
            let len = chunks.iter().map(|chunk| chunk.len() as u64).sum();
            if len > 0 {
                part.pieces.push(Piece { offset: self.spilled, len, sum: sum.digest() });
                self.spilled += len;
            }
            for chunk in chunks {
                let bytes = slabs.bytes(chunk);
                if buffer.len() + bytes.len() > 2 * BUFFER {
                    file.append(&buffer)?;
                    buffer.clear();
                }
                match bytes.len() {
                    0..=BUFFER => buffer.extend_from_slice(bytes),
                    _ => file.append(bytes)?,
                }
            }
        }
        file.append(&buffer)?;
        self.arena.reset();
        Ok(())
    }

    /// Ends collecting. If anything was spilled, all of it is, so that memory is free. `Failed` if
    /// a record was not taken, whatever the caller made of that error.
    pub(crate) fn seal(&mut self) -> Result<()> {
        if self.failed {
            return Err(record_lost());
        }
        if self.file.is_some() {
            self.spill()?;
        }
        (0..PARTITIONS).for_each(|number| self.close(number, Chunk::default()));
        self.arena.seal(self.partitions.iter().map(|part| part.bytes > 0));
        Ok(())
    }

    /// Gives back the memory of a partition that will not be read again. To be called once at most.
    pub(crate) fn release(&self, number: usize) {
        if !self.is_empty(number) {
            self.arena.release(number);
        }
    }

    /// Reads what was spilled.
    pub(crate) fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.file.as_ref().ok_or_else(record_lost)?.read.read_at(offset, bytes)
    }
}

/// What a build says that goes on after a record got lost.
pub(crate) fn record_lost() -> Error {
    Error::new(ErrorKind::Failed, "a record before could not be taken: begin the build anew")
}
