//! Sorted runs of records in temporary files, and the merge of runs.
//!
//! ```text
//! RECORD   OFFSET  SIZE  FIELD
//!          0       4     length of the key
//!          4       4     length of the value
//!          8       8     origin
//!          16      ..    key, value
//! ```
//!
//! A merge keeps the keys of all runs in memory, and the value of one record.

use crate::Result;
use crate::bytes::int::{put_u32, put_u64, u32_at, u64_at};
use crate::disk::spool::{Piece, SpillFile, TempSpace, spool_corrupt};
use std::cmp::Ordering;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes before the key of a record.
pub(crate) const HEAD: usize = 16;
/// Most runs of one merge. More are merged in several passes.
const FAN_IN: usize = 64;

/// A record that was added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Added<'a> {
    pub(crate) origin: u64,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl<'a> Added<'a> {
    /// The record at the beginning of `bytes`, and its length. `None` if it is truncated.
    #[inline]
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<(Added<'a>, usize)> {
        let (key, value) = (u32_at(bytes, 0) as usize, u32_at(bytes, 4) as usize);
        let end = HEAD.checked_add(key)?.checked_add(value)?;
        let (key, value) = bytes.get(HEAD..end)?.split_at_checked(key)?;
        Some((Added { origin: u64_at(bytes, 8), key, value }, end))
    }

    /// The origin and the key of the record at the beginning of `bytes`. `None` if they are
    /// truncated.
    #[inline]
    fn decode_key(bytes: &'a [u8]) -> Option<(u64, &'a [u8])> {
        let end = HEAD.checked_add(u32_at(bytes, 0) as usize)?;
        Some((u64_at(bytes, 8), bytes.get(HEAD..end)?))
    }

    /// Appends the encoded record.
    #[inline]
    pub(crate) fn append(&self, to: &mut Vec<u8>) {
        let mut head = [0; HEAD];
        put_u32(&mut head, 0, self.key.len() as u32);
        put_u32(&mut head, 4, self.value.len() as u32);
        put_u64(&mut head, 8, self.origin);
        to.extend_from_slice(&head);
        to.extend_from_slice(self.key);
        to.extend_from_slice(self.value);
    }

    pub(crate) fn encoded_len(&self) -> usize {
        HEAD + self.key.len() + self.value.len()
    }

    /// The order of a run: by key, and duplicates by their origins.
    pub(crate) fn order(&self, other: &Added) -> Ordering {
        self.key.cmp(other.key).then_with(|| self.origin.cmp(&other.origin))
    }
}

/// A sorted run.
pub(crate) struct Run {
    file: SpillFile,
    pieces: Vec<Piece>,
    /// Bytes of a piece, except the last ones of a long record.
    piece: usize,
    bytes: u64,
    /// Passes of merging that made the run.
    level: u32,
}

/// Writes a run.
pub(crate) struct RunWriter {
    run: Run,
    buffer: Vec<u8>,
}

impl RunWriter {
    pub(crate) fn create(space: &TempSpace) -> Result<RunWriter> {
        let file = SpillFile::create(space)?;
        // The pieces of a merge take a fourth of the memory.
        let piece = (space.memory / (4 * FAN_IN)).clamp(1 << 12, 1 << 20);
        let run = Run { file, pieces: Vec::new(), piece, bytes: 0, level: 0 };
        Ok(RunWriter { run, buffer: Vec::new() })
    }

    /// Adds the next record in order.
    pub(crate) fn push(&mut self, record: Added) -> Result<()> {
        record.append(&mut self.buffer);
        if self.buffer.len() >= self.run.piece { self.end_piece() } else { Ok(()) }
    }

    fn end_piece(&mut self) -> Result<()> {
        for bytes in self.buffer.chunks(self.run.piece) {
            let (offset, len, sum) = (self.run.bytes, bytes.len() as u64, xxh3_64(bytes));
            self.run.pieces.push(Piece { offset, len, sum });
            self.run.bytes += len;
        }
        self.run.file.append(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<Run> {
        self.end_piece()?;
        Ok(self.run)
    }
}

/// Reads a run in order.
struct RunReader<'a> {
    run: &'a Run,
    /// Next piece to read.
    next: usize,
    buffer: Vec<u8>,
    /// Where the current record begins in the buffer, which has all of its key, and where it ends
    /// once its value was read.
    start: usize,
    end: usize,
}

impl<'a> RunReader<'a> {
    fn new(run: &'a Run) -> RunReader<'a> {
        RunReader { run, next: 0, buffer: Vec::new(), start: 0, end: 0 }
    }

    /// Goes from the current record, whose value was read, to the next one. False at the end.
    fn advance(&mut self) -> Result<bool> {
        let passed = self.end - self.start;
        self.start = self.end;
        if passed > self.run.piece {
            self.drop_passed();
            self.buffer.shrink_to_fit(); // Other runs need the memory for their values.
        }
        while Added::decode_key(&self.buffer[self.start..]).is_none() {
            if self.start == self.buffer.len() && self.next == self.run.pieces.len() {
                return Ok(false);
            }
            self.drop_passed();
            self.read_piece()?;
        }
        Ok(true)
    }

    /// Reads the value of the current record.
    fn record(&mut self) -> Result<Added<'_>> {
        if Added::decode(&self.buffer[self.start..]).is_none() {
            self.drop_passed();
            let lengths = u32_at(&self.buffer, 0) as usize + u32_at(&self.buffer, 4) as usize;
            let missing = (HEAD + lengths).saturating_sub(self.buffer.len());
            self.buffer.reserve_exact(missing + self.run.piece);
        }
        while Added::decode(&self.buffer[self.start..]).is_none() {
            self.read_piece()?;
        }
        let decoded = Added::decode(&self.buffer[self.start..]);
        let (record, len) = decoded.ok_or_else(spool_corrupt)?;
        self.end = self.start + len;
        Ok(record)
    }

    /// Removes the records before the current one from the buffer.
    fn drop_passed(&mut self) {
        self.buffer.drain(..self.start);
        (self.start, self.end) = (0, 0);
    }

    /// Reads the next piece.
    fn read_piece(&mut self) -> Result<()> {
        let piece = self.run.pieces.get(self.next).ok_or_else(spool_corrupt)?;
        let old = self.buffer.len();
        self.buffer.resize(old + piece.len as usize, 0);
        self.run.file.read.read_at(piece.offset, &mut self.buffer[old..])?;
        piece.check(xxh3_64(&self.buffer[old..]))?;
        self.next += 1;
        Ok(())
    }

    /// The key and the origin of the current record, by which runs are sorted.
    fn rank(&self) -> (&[u8], u64) {
        let found = Added::decode_key(&self.buffer[self.start..]);
        found.map_or((&[], 0), |(origin, key)| (key, origin))
    }
}

/// All runs of a build.
#[derive(Default)]
pub(crate) struct Runs {
    runs: Vec<Run>,
    /// Bytes written to temporary files.
    pub(crate) spilled: u64,
}

impl Runs {
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Adds a run. If there are many runs of equal level, they are merged into one.
    pub(crate) fn push(&mut self, run: Run, space: &TempSpace) -> Result<()> {
        self.spilled += run.bytes;
        let mut level = run.level;
        self.runs.push(run);
        while self.runs.iter().filter(|run| run.level == level).count() == FAN_IN {
            // Levels do not increase, so these runs are the last ones.
            let last = self.runs.split_off(self.runs.len() - FAN_IN);
            let mut writer = RunWriter::create(space)?;
            merge(&last, &mut |record| writer.push(record))?;
            level += 1;
            let merged = Run { level, ..writer.finish()? };
            self.spilled += merged.bytes;
            self.runs.push(merged);
        }
        Ok(())
    }

    /// Passes all records to `take` in order.
    pub(crate) fn merge(&self, take: &mut dyn FnMut(Added) -> Result<()>) -> Result<()> {
        // Of many levels, each has fewer runs than one merge.
        merge(&self.runs, take)
    }
}

/// Merges runs with a heap of their readers.
fn merge(runs: &[Run], take: &mut dyn FnMut(Added) -> Result<()>) -> Result<()> {
    let mut heap: Vec<RunReader> = Vec::with_capacity(runs.len());
    for run in runs {
        let mut reader = RunReader::new(run);
        if reader.advance()? {
            heap.push(reader);
        }
    }
    (0..heap.len() / 2).rev().for_each(|at| sift_down(&mut heap, at));
    while let Some(first) = heap.first_mut() {
        take(first.record()?)?;
        if !first.advance()? {
            heap.swap_remove(0);
        }
        sift_down(&mut heap, 0);
    }
    Ok(())
}

/// Restores the order of a heap below `at`.
fn sift_down(heap: &mut [RunReader], mut at: usize) {
    loop {
        let mut least = at;
        for child in [2 * at + 1, 2 * at + 2] {
            if child < heap.len() && heap[child].rank() < heap[least].rank() {
                least = child;
            }
        }
        if least == at {
            return;
        }
        heap.swap(at, least);
        at = least;
    }
}
