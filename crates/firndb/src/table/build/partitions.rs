//! Partitions records by the first bits of their hashes, in memory up to a budget, then in a
//! temporary file.
//!
//! Each record is appended to one of 1,024 partitions. When the budget is exhausted, all partitions
//! are appended to the file one after another. `gather.rs` reads them back.

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
/// Size of the first chunk of a partition, and of the largest.
const FIRST_CHUNK: usize = 512;
const LARGEST_CHUNK: usize = 1 << 15;
/// Bytes per write to the file.
const BUFFER: usize = 1 << 20;

/// Collects records.
pub(crate) struct Partitions {
    pub(crate) temp_space: TempSpace,
    pub(crate) hash: Hashing,
    /// Leading bits of the hash that all records share.
    pub(crate) depth: u32,
    pub(crate) partitions: Vec<Partition>,
    /// Where the next record of each partition goes. Separate from [`Partition`], so that it stays
    /// in the L1 cache.
    open: Vec<OpenChunk>,
    pub(crate) arena: Arena,
    /// Vectors for reading partitions back.
    pub(crate) pools: Arc<Pools>,
    /// Lowest and highest hash of each partition, if these are partitions of a partition.
    pub(crate) hash_ranges: Vec<(u64, u64)>,
    file: Option<SpillFile>,
    spilled: u64,
    /// Bytes spilled under earlier hashes.
    pub(crate) spilled_before: u64,
    /// A record was not taken, so the build must fail.
    failed: bool,
}

/// Where the next record of a partition goes.
#[derive(Clone, Copy, Default)]
struct OpenChunk {
    /// Free space of the open chunk.
    room: Chunk,
    /// Origin of the last record.
    origin: u64,
}

#[derive(Default)]
pub(crate) struct Partition {
    /// Start of the records in the open chunk.
    start: usize,
    /// Full chunks.
    pub(crate) chunks: Vec<Chunk>,
    /// Pieces in the file, one per spill.
    pub(crate) pieces: Vec<Piece>,
    /// Bytes of records, except those in the open chunk.
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

    /// Number of partitions. All hashes of one are below all hashes of the next.
    pub(crate) fn len(&self) -> usize {
        PARTITIONS
    }

    /// Whether a sealed partition has no records.
    pub(crate) fn is_empty(&self, number: usize) -> bool {
        self.partitions[number].bytes == 0
    }

    /// The hash that orders the records.
    pub(crate) fn hash(&self) -> Hashing {
        self.hash
    }

    /// The directory and memory for temporary files.
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
        // The next record of this partition comes about a thousand records later. Without the
        // prefetch it would wait for the line that it overwrites.
        prefetch(&room[len..], 2);
        open.room.start += len;
        open.origin = origin;
        Ok(())
    }

    /// [`Partitions::try_grow`]. After a failure the build cannot finish.
    #[cold]
    fn grow(&mut self, number: usize, room: usize) -> Result<()> {
        let grown = self.try_grow(number, room);
        self.failed |= grown.is_err();
        grown
    }

    /// Gives a partition a chunk of at least `room` bytes, and spills first if the budget is
    /// exhausted.
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

    /// Closes the open chunk of a partition and opens `next`.
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

    /// Appends all records in memory to the file.
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

    /// Ends collecting. If anything was spilled, spills the rest, so that memory is free. `Failed`
    /// if a record was not taken, even if the caller ignored that error.
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

    /// Frees the memory of a partition that will not be read again. Called at most once per
    /// partition.
    pub(crate) fn release(&self, number: usize) {
        if !self.is_empty(number) {
            self.arena.release(number);
        }
    }

    /// Reads from the temporary file.
    pub(crate) fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.file.as_ref().ok_or_else(record_lost)?.read.read_at(offset, bytes)
    }
}

/// The error of a build that continued after a record was not taken.
pub(crate) fn record_lost() -> Error {
    Error::new(ErrorKind::Failed, "an earlier record could not be stored: start the build again")
}
