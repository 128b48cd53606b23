//! A block of a key run: sorted keys and the locations of their records. Consecutive keys share
//! prefixes, which are stored once.
//!
//! ```text
//! OFFSET  SIZE  FIELD
//! 0       2     number of entries, at least 1
//! 2       1     bits of an offset
//! 3       1     bits of a segment
//! 4       2 g   for each group of 16 entries: where its keys begin, from the end of this head
//! ..      ..    offsets of the records in units of the segments' alignment, packed
//! ..      ..    numbers of their segments less the first segment of the run, packed
//! ..      ..    keys
//! ..      8     XXH3-64 of all bytes before
//! KEY     first, varint: 2 s, or 2 s + 1 if the length of the key differs from the previous one;
//!         s is the number of bytes that it shares with the previous key, 0 at the start of a group
//!         then in the case of 2 s + 1, varint: length of the key less s
//!         then the bytes of the key after the first s
//! ```
//! Entries are in the order of keys, then segments, then offsets. A key may occur several times.
//! Varints are LEB128. Groups make a search and an iteration backward possible: a group is the
//! least that is decoded. The first entry of a group always has its length.

use crate::bytes::int::u16_at;
use crate::bytes::packed::{Packed, PackedWriter, width};
use crate::bytes::varint::{put_varint, varint};
use crate::log::format::record::MAX_KEY;
use crate::{Error, Result};
use xxhash_rust::xxh3::xxh3_64;

/// Entries of a group.
const GROUP: usize = 16;
/// A block that takes about as many bytes is full. Only its last key may exceed the size.
const FULL: usize = 4096;
/// Bytes that a block is assumed to have per entry besides the key.
const LOCATION: usize = 4;
const HEAD: usize = 4;
const CHECKSUM: usize = 8;

/// Collects the entries of a block.
#[derive(Default)]
pub(crate) struct BlockWriter {
    keys: Vec<u8>,
    groups: Vec<u16>,
    segments: Vec<u32>,
    offsets: Vec<u32>,
    last: Vec<u8>,
}

impl BlockWriter {
    /// Whether the block is full: the next entry belongs to another one.
    pub(crate) fn is_full(&self) -> bool {
        self.keys.len() + self.segments.len() * LOCATION >= FULL
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The last key.
    pub(crate) fn last(&self) -> &[u8] {
        &self.last
    }

    /// Adds an entry to a block that is not full. It must not be less than the one before.
    /// `segment` is relative to the first segment of the run.
    pub(crate) fn push(&mut self, key: &[u8], segment: u32, offset: u32) {
        debug_assert!(!self.is_full() && key.len() <= MAX_KEY);
        let begins_group = self.segments.len().is_multiple_of(GROUP);
        if begins_group {
            // Fits: a block whose keys take `FULL` bytes is full.
            self.groups.push(self.keys.len() as u16);
        }
        let shared = if begins_group { 0 } else { common(&self.last, key) };
        let has_length = begins_group || key.len() != self.last.len();
        put_varint(&mut self.keys, shared << 1 | usize::from(has_length));
        if has_length {
            put_varint(&mut self.keys, key.len() - shared);
        }
        self.keys.extend_from_slice(&key[shared..]);
        self.last.truncate(shared);
        self.last.extend_from_slice(&key[shared..]);
        self.segments.push(segment);
        self.offsets.push(offset);
    }

    /// Appends the block to `out` and begins the next one. `last` stays.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        let widths = [&self.offsets, &self.segments]
            .map(|numbers| width(numbers.iter().copied().max().unwrap_or(0).into()));
        out.extend_from_slice(&(self.segments.len() as u16).to_le_bytes());
        out.extend_from_slice(&widths);
        self.groups.iter().for_each(|at| out.extend_from_slice(&at.to_le_bytes()));
        for (numbers, bits) in [&self.offsets, &self.segments].into_iter().zip(widths) {
            let mut packed = PackedWriter::new(bits);
            numbers.iter().for_each(|&number| packed.push(number));
            out.extend_from_slice(&packed.finish());
        }
        out.extend_from_slice(&self.keys);
        let sum = xxh3_64(&out[start..]);
        out.extend_from_slice(&sum.to_le_bytes());
        self.keys.clear();
        self.groups.clear();
        self.segments.clear();
        self.offsets.clear();
    }
}

/// Number of bytes that two keys share at their beginnings.
#[inline]
pub(crate) fn common(a: &[u8], b: &[u8]) -> usize {
    let whole = a.chunks_exact(8).zip(b.chunks_exact(8)).take_while(|(a, b)| a == b).count() * 8;
    whole + a[whole..].iter().zip(&b[whole..]).take_while(|(a, b)| a == b).count()
}

/// Where the parts of a block are.
#[derive(Clone, Copy, Default)]
pub(crate) struct Block {
    entries: usize,
    /// Bits of an offset and of a segment.
    bits: [u8; 2],
    /// Where the offsets, the segments and the keys begin, and where the keys end.
    offsets: usize,
    segments: usize,
    keys: usize,
    end: usize,
}

impl Block {
    /// Checks the checksum and the lengths of a block.
    pub(crate) fn check(bytes: &[u8]) -> Result<Block> {
        let corrupt = |what: &str| Error::corrupt(format!("a block of keys {what}"));
        let (body, sum) =
            bytes.split_last_chunk::<CHECKSUM>().ok_or_else(|| corrupt("is truncated"))?;
        if xxh3_64(body) != u64::from_le_bytes(*sum) {
            return Err(corrupt("has a wrong checksum"));
        }
        Block::parse(body).ok_or_else(|| corrupt("has impossible lengths"))
    }

    /// The parts of a block whose checksum is right or was cut off.
    fn parse(body: &[u8]) -> Option<Block> {
        let entries = usize::from(u16_at(body, 0));
        let bits = [*body.get(2)?, *body.get(3)?];
        if entries == 0 || bits.iter().any(|&bits| bits > 32) {
            return None;
        }
        let offsets = HEAD + 2 * entries.div_ceil(GROUP);
        let segments = offsets + Packed::size(bits[0], entries)?;
        let keys = segments + Packed::size(bits[1], entries)?;
        let block = Block { entries, bits, offsets, segments, keys, end: body.len() };
        (keys <= body.len()).then_some(block)
    }

    /// Number of groups.
    pub(crate) fn groups(&self) -> usize {
        self.entries.div_ceil(GROUP)
    }

    /// Where the keys of a group begin; of the group after the last one, where the keys end.
    fn start(&self, bytes: &[u8], group: usize) -> usize {
        if group < self.groups() {
            self.keys + usize::from(u16_at(bytes, HEAD + 2 * group))
        } else {
            self.end
        }
    }

    /// The first key of a group.
    pub(crate) fn first_key<'a>(&self, bytes: &'a [u8], group: usize) -> Result<&'a [u8]> {
        let read = || {
            let mut at = self.start(bytes, group);
            let head = varint(bytes, &mut at)?;
            let length = varint(bytes, &mut at)?;
            bytes.get(at..at + length).filter(|_| head == 1 && at + length <= self.end)
        };
        read().ok_or_else(|| Error::corrupt("a group of keys has no first key"))
    }

    /// Decodes a group.
    pub(crate) fn decode(&self, bytes: &[u8], group: usize, out: &mut Group) -> Result<()> {
        let first = group * GROUP;
        out.len = self.entries.saturating_sub(first).min(GROUP);
        if self.decode_keys(bytes, group, out).is_none() {
            out.len = 0;
            return Err(Error::corrupt("a group of keys is damaged"));
        }
        let part = |start: usize, end: usize, bits: u8| {
            Packed::trusted(bytes.get(start..end).unwrap_or(&[]), bits, self.entries)
        };
        let offsets = part(self.offsets, self.segments, self.bits[0]);
        let segments = part(self.segments, self.keys, self.bits[1]);
        for i in 0..out.len {
            out.locations[i] = (segments.get(first + i), offsets.get(first + i));
        }
        Ok(())
    }

    fn decode_keys(&self, bytes: &[u8], group: usize, out: &mut Group) -> Option<()> {
        let (mut at, end) = (self.start(bytes, group), self.start(bytes, group + 1));
        let bytes = bytes.get(..end)?;
        out.keys.clear();
        let (mut start, mut length) = (0, 0_usize);
        for i in 0..out.len {
            let head = varint(bytes, &mut at)?;
            let shared = head >> 1;
            let suffix = match head & 1 {
                0 => length.checked_sub(shared)?,
                _ => varint(bytes, &mut at)?,
            };
            let suffix = bytes.get(at..at.checked_add(suffix)?)?;
            if shared > length || (i == 0 && head != 1) || shared + suffix.len() > MAX_KEY {
                return None;
            }
            let previous = start;
            start = out.keys.len();
            out.keys.extend_from_within(previous..previous + shared);
            out.keys.extend_from_slice(suffix);
            length = shared + suffix.len();
            at += suffix.len();
            out.ends[i] = out.keys.len() as u32;
        }
        (at == end).then_some(())
    }
}

/// A decoded group.
#[derive(Default)]
pub(crate) struct Group {
    len: usize,
    keys: Vec<u8>,
    /// Where each key ends.
    ends: [u32; GROUP],
    /// Segment, relative to the first segment of the run, and offset.
    locations: [(u32, u32); GROUP],
}

impl Group {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Forgets the entries.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// The key of entry `i` of the group, which must exist.
    #[inline(always)]
    pub(crate) fn key(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        &self.keys[start..self.ends[i] as usize]
    }

    /// Segment, relative to the first segment of the run, and offset of entry `i`.
    #[inline(always)]
    pub(crate) fn location(&self, i: usize) -> (u32, u32) {
        self.locations[i]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;

    type Entries = Vec<(Vec<u8>, u32, u32)>;

    fn encode(entries: &Entries) -> Vec<u8> {
        let (mut writer, mut out) = (BlockWriter::default(), Vec::new());
        entries.iter().for_each(|(key, segment, offset)| writer.push(key, *segment, *offset));
        writer.finish(&mut out);
        out
    }

    /// All entries of a block without a look at its checksum.
    fn decode(bytes: &[u8]) -> Option<Entries> {
        let body = bytes.len().checked_sub(CHECKSUM)?;
        let block = Block::parse(&bytes[..body])?;
        let (mut group, mut found) = (Group::default(), Vec::new());
        for g in 0..block.groups() {
            block.decode(bytes, g, &mut group).ok()?;
            assert!(group.keys.capacity() <= GROUP * MAX_KEY);
            for i in 0..group.len() {
                let (segment, offset) = group.location(i);
                found.push((group.key(i).to_vec(), segment, offset));
            }
            assert_eq!(block.first_key(bytes, g).ok()?, group.key(0));
        }
        Some(found)
    }

    fn random(rng: &mut Rng) -> Entries {
        let (letters, longest) = (1 + rng.below(4), *rng.pick(&[3, 20, 300]));
        let n = 1 + rng.below((3000 / longest).min(100));
        let mut entries: Entries = (0..n)
            .map(|_| {
                let length = rng.below(longest);
                let key = (0..length).map(|_| rng.below(letters) as u8 * 85).collect();
                (key, rng.below(3), rng.below(1 << 26))
            })
            .collect();
        entries.sort();
        entries
    }

    #[test]
    fn entries_round_trip() {
        let mut rng = Rng(1);
        for _ in 0..300 {
            let entries = random(&mut rng);
            let bytes = encode(&entries);
            assert!(Block::check(&bytes).is_ok());
            assert_eq!(decode(&bytes).unwrap(), entries);
        }
        // The last key may exceed the size of a block.
        let long = vec![(vec![7; 9], 1, 2), (vec![7; MAX_KEY], u32::MAX, u32::MAX)];
        assert_eq!(decode(&encode(&long)).unwrap(), long);
    }

    #[test]
    fn a_writer_is_full_at_four_kilobytes() {
        let (mut writer, mut out, mut rng) = (BlockWriter::default(), Vec::new(), Rng(2));
        let mut keys: Vec<Vec<u8>> = (0..1000).map(|_| rng.fill(16)).collect();
        keys.sort();
        let mut n = 0;
        while !writer.is_full() {
            writer.push(&keys[n], (n % 8) as u32, rng.below(1 << 22));
            n += 1;
        }
        writer.finish(&mut out);
        assert!((3900..4300).contains(&out.len()), "{} bytes", out.len());
        assert!(writer.is_empty() && writer.last() == keys[n - 1]);
        assert!(out.len() / n <= 20, "{n} entries in {} bytes", out.len());
    }

    #[test]
    fn damaged_blocks_are_corrupt() {
        let mut rng = Rng(3);
        for round in 0..60 {
            let bytes = encode(&random(&mut rng));
            for length in 0..bytes.len() {
                assert!(Block::check(&bytes[..length]).is_err(), "{length} bytes");
                let _ = decode(&bytes[..length]);
            }
            for _ in 0..300 {
                let mut damaged = bytes.clone();
                crate::bytes::testing::damage(&mut rng, &mut damaged);
                assert_eq!(Block::check(&damaged).is_ok(), damaged == bytes, "round {round}");
                let _ = decode(&damaged);
            }
        }
    }

    #[test]
    fn a_block_has_the_documented_bytes() {
        let entry = |key: &str, segment, offset| (key.as_bytes().to_vec(), segment, offset);
        let entries = vec![entry("ant", 2, 5), entry("ant", 3, 1), entry("anna", 0, 6)];
        let mut sorted = entries;
        sorted.sort();
        let bytes = encode(&sorted);
        #[rustfmt::skip]
        let expected = [
            3, 0,                           // entries
            3, 2,                           // bits of an offset and of a segment
            0, 0,                           // where the only group begins
            0x6E, 0, 0, 0, 0, 0, 0, 0, 0, 0, // offsets 6, 5, 1; 8 zeros
            0x38, 0, 0, 0, 0, 0, 0, 0, 0,   // segments 0, 2, 3; 8 zeros
            1, 4, b'a', b'n', b'n', b'a',   // nothing shared, length 4
            5, 1, b't',                     // 2 bytes shared, another length, 1 byte more
            6,                              // 3 bytes shared, the same length: the same key
        ];
        assert_eq!(bytes[..bytes.len() - CHECKSUM], expected);
        assert_eq!(bytes[expected.len()..], xxh3_64(&expected).to_le_bytes());
    }
}
