//! Parses and rebuilds the envelope of frozen files, with matching checksums. The layout is
//! described in `crates/firndb/src/disk/envelope.rs`.

use crate::mutate::{Rng, in_place, plain, put, resize};
use std::ops::Range;
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_128_with_seed};

const MAGIC: [u8; 8] = *b"FIRNDB1\n";
const EDGE: usize = 64;
const ENTRY: usize = 32;
const BY_BLOCKS: u32 = 1;
const PAGE: usize = 4096;
/// Bytes covered by one checksum, for raw payloads and for an index.
const PIECE: usize = 1 << 16;
/// Maximum growth of a section per mutation, in bytes.
const ROOM: usize = 64;

const PARTITION: u32 = 1;
const TABLE: u32 = 3;
const APPROXIMATE: u32 = 6;

/// A section with its alignment.
pub struct Section {
    pub id: u32,
    flags: u32,
    offset: usize,
    pub bytes: Vec<u8>,
}

/// A frozen file.
pub struct File {
    pub kind: u32,
    version: u32,
    pub sections: Vec<Section>,
}

pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

impl File {
    /// `None` if the directory cannot be read.
    pub fn parse(data: &[u8]) -> Option<File> {
        let footer = data.len().checked_sub(EDGE)?;
        let directory = usize::try_from(u64_at(data, footer)?).ok()?;
        let entries = footer.checked_sub(directory)? / ENTRY;
        let section = |i: usize| {
            let at = directory + i * ENTRY;
            let (offset, len) = (u64_at(data, at + 8)?, u64_at(data, at + 16)?);
            let offset = usize::try_from(offset).ok()?;
            let end = offset.checked_add(usize::try_from(len).ok()?)?;
            let bytes = data.get(offset..end)?.to_vec();
            Some(Section { id: u32_at(data, at)?, flags: u32_at(data, at + 4)?, offset, bytes })
        };
        let sections = (0..entries).map(section).collect::<Option<_>>()?;
        Some(File { kind: u32_at(data, 8)?, version: u32_at(data, 12)?, sections })
    }

    /// The bytes of the file, with the sections in their original order.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.kind.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        let mut order: Vec<usize> = (0..self.sections.len()).collect();
        order.sort_by_key(|&i| self.sections[i].offset);
        let mut offsets = vec![0; self.sections.len()];
        out.resize(EDGE, 0);
        for i in order {
            let section = &self.sections[i];
            let paged = section.flags & BY_BLOCKS != 0 && section.offset.is_multiple_of(PAGE);
            out.resize(out.len().next_multiple_of(if paged { PAGE } else { EDGE }), 0);
            offsets[i] = out.len();
            out.extend_from_slice(&section.bytes);
        }
        out.resize(out.len().next_multiple_of(EDGE), 0);
        let directory = out.len();
        for (section, offset) in self.sections.iter().zip(offsets) {
            out.extend_from_slice(&section.id.to_le_bytes());
            out.extend_from_slice(&section.flags.to_le_bytes());
            out.extend_from_slice(&(offset as u64).to_le_bytes());
            out.extend_from_slice(&(section.bytes.len() as u64).to_le_bytes());
            out.extend_from_slice(&xxh3_64(&section.bytes).to_le_bytes());
        }
        let seed = u64::from(self.kind) << 32 | u64::from(self.version);
        let content = xxh3_128_with_seed(&out[directory..], seed);
        let footer = out.len();
        out.extend_from_slice(&(directory as u64).to_le_bytes());
        out.extend_from_slice(&(self.sections.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.kind.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&((footer + EDGE) as u64).to_le_bytes());
        out.extend_from_slice(&content.to_le_bytes());
        let sum = xxh3_64(&out[footer..]);
        out.extend_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(&MAGIC);
        out
    }

    fn find(&self, id: u32) -> Option<usize> {
        self.sections.iter().position(|section| section.id == id)
    }

    /// Mutates this section, and recomputes the checksums of its blocks.
    fn mutate(&mut self, rng: &mut Rng, i: usize) {
        if self.sections[i].flags & BY_BLOCKS == 0 {
            match rng.one_in(2) {
                true => in_place(rng, &mut self.sections[i].bytes),
                false => resize(&mut self.sections[i].bytes, ROOM),
            }
            return;
        }
        let guards = self.guards(i);
        if guards.is_empty() {
            return in_place(rng, &mut self.sections[i].bytes);
        }
        let guard = &guards[rng.below(guards.len())];
        let (range, skip) = (guard.range.clone(), if guard.sum.is_none() { 4 } else { 0 });
        let block = &mut self.sections[i].bytes[range];
        // Headers are a small part of a block's bytes, and determine how the rest is parsed.
        let end = if rng.one_in(2) { block.len() } else { block.len().min(128) };
        in_place(rng, &mut block[skip.min(end)..end]);
        let block = &self.sections[i].bytes[guard.range.clone()];
        match guard.sum {
            None => {
                let sum = block_sum(&block[4..], guard.number);
                self.sections[i].bytes[guard.range.start..][..4]
                    .copy_from_slice(&sum.to_le_bytes());
            }
            Some((section, at)) => {
                let sum = xxh3_64(block).to_le_bytes();
                if let Some(place) = self.sections[section].bytes.get_mut(at..at + 8) {
                    place.copy_from_slice(&sum);
                }
            }
        }
    }

    /// The blocks of a section that have checksums, located by their checksums.
    fn guards(&self, i: usize) -> Vec<Guard> {
        let (bytes, id) = (&self.sections[i].bytes, self.sections[i].id);
        match (self.kind, id) {
            (TABLE | APPROXIMATE, 2) => blocks(bytes),
            (TABLE, 9) => self.find(10).map(|sums| pieces(bytes, sums)).unwrap_or_default(),
            (PARTITION, 2) => match (self.find(4), self.find(6)) {
                (Some(sums), None) => pieces(bytes, sums),
                (Some(sums), Some(_)) => frames(bytes, &self.sections[sums].bytes, sums),
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }
}

/// Bytes covered by one checksum.
struct Guard {
    range: Range<usize>,
    number: u64,
    /// Section and offset of the checksum; `None` if it is in the first four bytes.
    sum: Option<(usize, usize)>,
}

fn block_sum(body: &[u8], number: u64) -> u32 {
    (xxh3_64(body) ^ number) as u32
}

/// Blocks of a table: they start at multiples of 16, each with its checksum first.
fn blocks(bytes: &[u8]) -> Vec<Guard> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(sum) = u32_at(bytes, at) {
        let number = found.len() as u64;
        let (mut hash, mut done) = (Xxh3::new(), at + 4);
        let mut ends = (at + 16..=bytes.len()).step_by(16);
        let end = ends.find(|&end| {
            hash.update(&bytes[done..end]);
            done = end;
            (hash.digest() ^ number) as u32 == sum
        });
        let Some(end) = end else { break };
        found.push(Guard { range: at..end, number, sum: None });
        at = end;
    }
    found
}

/// Pieces of equal length, with their checksums in a separate section.
fn pieces(bytes: &[u8], sums: usize) -> Vec<Guard> {
    let piece = |n: usize| {
        let at = n * PIECE;
        let range = at..bytes.len().min(at + PIECE);
        Guard { range, number: n as u64, sum: Some((sums, n * 8)) }
    };
    (0..bytes.len().div_ceil(PIECE)).map(piece).collect()
}

/// Frames of any length, with their checksums in a separate section.
fn frames(bytes: &[u8], checks: &[u8], sums: usize) -> Vec<Guard> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(sum) = u64_at(checks, found.len() * 8) {
        let mut hash = Xxh3::new();
        let end = (at..bytes.len()).find(|&last| {
            hash.update(&bytes[last..last + 1]);
            hash.digest() == sum
        });
        let Some(last) = end else { break };
        let number = found.len() as u64;
        found.push(Guard { range: at..last + 1, number, sum: Some((sums, found.len() * 8)) });
        at = last + 1;
    }
    found
}

/// Mutates one section of a frozen file and recomputes all checksums.
pub fn mutate(rng: &mut Rng, data: &mut [u8], size: usize, max_size: usize) -> usize {
    let file = if rng.one_in(8) { None } else { File::parse(&data[..size]) };
    let Some(mut file) = file.filter(|file| !file.sections.is_empty()) else {
        return plain(rng, data, size, max_size);
    };
    if rng.one_in(32) {
        let gone = rng.below(file.sections.len());
        file.sections.remove(gone);
    } else {
        for _ in 0..1 + rng.below(3) {
            let i = rng.below(file.sections.len());
            file.mutate(rng, i);
        }
    }
    put(data, size, max_size, &file.encode())
}
