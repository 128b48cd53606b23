//! The bytes of a segment: a header, then records, then zeros up to the file's length.
//!
//! ```text
//! HEADER     OFFSET  SIZE  FIELD
//!            0       8     magic "FIRNLOG\n"
//!            8       4     format version: 1
//!            12      4     alignment_log2: records begin at multiples of 2^this
//!            16      8     store id, the same in all files of a store; seeds the hash of keys
//!            24      8     number of the segment
//!            32      8     length of the file
//!            40      16    zeros
//!            56      8     XXH3-64 of bytes 0..56
//! RECORD     0       4     checksum: low half of XXH3-64 of the bytes from 4 to the end of the
//!                          record, with `place(segment, offset)` added by exclusive or
//!            4       1     bits 0-3: kind (0: no record, the log ends here); bit 4: more records
//!                          of this batch follow; bit 5: it expires; bit 6: a copy by compaction
//!            5       1-3   length of the key
//!            .       1-5   length of the value; a delete has none
//!            .       1-10  if it expires: when, in milliseconds since 1970
//!            .       .     key, value
//! LINK       the first record of a segment, key empty; its value:
//!            0       8     number of the segment before, 0 if there was none
//!            8       8     where the records of that one end
//!            16      8     the segments up to this number were durable when this one began
//!            24      8     bytes of keys and values that were live then
//!            32      8     number of entries that follow: the segments that made up the store
//!            40      16 x  number and end of the records of each, numbers ascending
//! REMOVED    key empty; the value is the number (8 bytes) of a segment that is no part of the
//!            store any more: its live records were copied
//! ```
//!
//! Lengths and times are LEB128: seven bits a byte, low ones first, bit 7 set in all but the last.
//! The checksum depends on the place of a record, so that the bytes of a record that stand inside
//! a value, or in a file that was copied elsewhere, are never taken for one.

use crate::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

pub(crate) const MAGIC: [u8; 8] = *b"FIRNLOG\n";
pub(crate) const VERSION: u32 = 1;
/// Size of the header, where the first record begins.
pub(crate) const HEADER: usize = 64;
/// Longest key in bytes.
pub const MAX_KEY: usize = 65_536;
/// Longest value in bytes.
pub const MAX_VALUE: usize = u32::MAX as usize;
/// Room for everything of a record that is before its key.
pub(crate) const HEAD_MAX: usize = 4 + 1 + 3 + 5 + 10;
/// Bytes of a link, and of each segment it names.
const LINK: usize = 5 * 8;
const LINK_SEGMENT: usize = 2 * 8;

/// Records begin at multiples of two to this power at most: then a segment has 256 GiB.
const GRANULE_MAX: u32 = 12;
/// Largest file of a segment: room for the largest record, and for what other segments take.
const CAPACITY_MAX: u64 = 8 << 30;

const MORE: u8 = 1 << 4;
const EXPIRES: u8 = 1 << 5;
const MOVED: u8 = 1 << 6;

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Put = 1,
    Delete = 2,
    Link = 3,
    Removed = 4,
}

/// A record on its way into the log, or found there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) kind: Kind,
    /// The batch goes on with the next record.
    pub(crate) more: bool,
    /// Copied here by compaction.
    pub(crate) moved: bool,
    /// Milliseconds since 1970 from which on it counts as deleted.
    pub(crate) expires: Option<u64>,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl<'a> Record<'a> {
    pub(crate) fn put(key: &'a [u8], value: &'a [u8]) -> Record<'a> {
        Record { kind: Kind::Put, more: false, moved: false, expires: None, key, value }
    }

    pub(crate) fn delete(key: &'a [u8]) -> Record<'a> {
        Record { kind: Kind::Delete, ..Record::put(key, &[]) }
    }

    pub(crate) fn internal(kind: Kind, value: &'a [u8]) -> Record<'a> {
        Record { kind, ..Record::put(&[], value) }
    }

    /// The value of a `Removed` record.
    pub(crate) fn removed_value(number: u64) -> [u8; 8] {
        number.to_le_bytes()
    }

    /// Whether it hides its key at this time, as a delete does.
    pub(crate) fn is_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }

    /// Everything before the key, with an empty checksum, and its length.
    pub(crate) fn head(&self) -> ([u8; HEAD_MAX], usize) {
        let mut head = [0; HEAD_MAX];
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        head[4] = self.kind as u8
            | flag(self.more, MORE)
            | flag(self.expires.is_some(), EXPIRES)
            | flag(self.moved, MOVED);
        let mut at = put_varint(&mut head, 5, self.key.len() as u64);
        if self.kind != Kind::Delete {
            at = put_varint(&mut head, at, self.value.len() as u64);
        }
        if let Some(expires) = self.expires {
            at = put_varint(&mut head, at, expires);
        }
        (head, at)
    }
}

/// The hash of a key in the store with this id.
#[inline]
pub(crate) fn hash_of_key(key: &[u8], store: u64) -> u64 {
    let hash = xxh3_64_with_seed(key, store);
    #[cfg(test)]
    let hash = crate::log::failpoints::active::hash(hash, store);
    hash
}

/// XXH3-64 of a record without its checksum.
pub(crate) fn hash_of(head: &[u8], key: &[u8], value: &[u8]) -> u64 {
    let length = head.len() - 4 + key.len() + value.len();
    let mut small = [0; 256];
    if length <= small.len() {
        // One call over a copy is several times faster than the pieces one by one.
        let (a, rest) = small.split_at_mut(head.len() - 4);
        let (b, c) = rest.split_at_mut(key.len());
        a.copy_from_slice(&head[4..]);
        b.copy_from_slice(key);
        c[..value.len()].copy_from_slice(value);
        return xxh3_64(&small[..length]);
    }
    let mut hash = Xxh3::new();
    hash.update(&head[4..]);
    hash.update(key);
    hash.update(value);
    hash.digest()
}

/// The checksum of a record whose bytes have this hash, at this place.
pub(crate) fn checksum(hash: u64, segment: u64, offset: u64) -> [u8; 4] {
    ((hash ^ place(segment, offset)) as u32).to_le_bytes()
}

fn place(segment: u64, offset: u64) -> u64 {
    let mixed = segment.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ offset;
    mixed.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 32
}

/// Where the parts of a record are, as its head says.
struct Layout {
    kind: Kind,
    flags: u8,
    expires: Option<u64>,
    key: usize,
    value: usize,
    end: usize,
}

#[inline(always)]
fn layout(bytes: &[u8]) -> Option<Layout> {
    let flags = *bytes.get(4)?;
    let kind = match flags & 0x8F {
        1 => Kind::Put,
        2 => Kind::Delete,
        3 => Kind::Link,
        4 => Kind::Removed,
        _ => return None,
    };
    let (key_length, at) = varint(bytes, 5)?;
    let (value_length, at) = if kind == Kind::Delete { (0, at) } else { varint(bytes, at)? };
    let (expires, at) = match flags & EXPIRES {
        0 => (None, at),
        _ => varint(bytes, at).map(|(time, at)| (Some(time), at))?,
    };
    if key_length > MAX_KEY as u64 || value_length > MAX_VALUE as u64 {
        return None;
    }
    let value = at + key_length as usize;
    Some(Layout { kind, flags, expires, key: at, value, end: value + value_length as usize })
}

/// The length of the record whose head is at the beginning of `bytes`, which need not have all of
/// it. `None` if there is none.
pub(crate) fn length(bytes: &[u8]) -> Option<usize> {
    layout(bytes).map(|layout| layout.end)
}

/// The record at the beginning of `bytes` and its length, unchecked but for bounds. `None` if
/// there is none: zeros, nonsense, or a record that goes past the end.
#[inline]
pub(crate) fn parse(bytes: &[u8]) -> Option<(Record<'_>, usize)> {
    let Layout { kind, flags, expires, key, value, end } = layout(bytes)?;
    let (key, value) = (bytes.get(key..value)?, bytes.get(value..end)?);
    let (more, moved) = (flags & MORE != 0, flags & MOVED != 0);
    Some((Record { kind, more, moved, expires, key, value }, end))
}

/// Whether the checksum of a record of this length fits its bytes and its place.
#[inline]
pub(crate) fn is_whole(record: &[u8], segment: u64, offset: u64) -> bool {
    let sum = checksum(xxh3_64(&record[4..]), segment, offset);
    record[..4] == sum || crate::log::failpoints::Failpoint::SkipChecksum.is_on()
}

/// [`parse`], for records whose checksum is right.
pub(crate) fn read(bytes: &[u8], segment: u64, offset: u64) -> Option<(Record<'_>, usize)> {
    parse(bytes).filter(|(_, length)| is_whole(&bytes[..*length], segment, offset))
}

fn put_varint(out: &mut [u8], mut at: usize, mut v: u64) -> usize {
    while v >= 0x80 {
        out[at] = v as u8 | 0x80;
        at += 1;
        v >>= 7;
    }
    out[at] = v as u8;
    at + 1
}

#[inline]
fn varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    match *bytes.get(at)? {
        byte @ 0..0x80 => Some((u64::from(byte), at + 1)),
        _ => long_varint(bytes, at),
    }
}

fn long_varint(bytes: &[u8], mut at: usize) -> Option<(u64, usize)> {
    let mut v = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(at)?;
        at += 1;
        v |= u64::from(byte & 0x7F) << shift;
        if byte < 0x80 {
            return Some((v, at));
        }
    }
    None
}

/// What a segment's file says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) store: u64,
    pub(crate) number: u64,
    pub(crate) capacity: u64,
    /// Records begin at multiples of two to this power.
    pub(crate) alignment_log2: u32,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.alignment_log2.to_le_bytes());
        out[16..24].copy_from_slice(&self.store.to_le_bytes());
        out[24..32].copy_from_slice(&self.number.to_le_bytes());
        out[32..40].copy_from_slice(&self.capacity.to_le_bytes());
        let sum = xxh3_64(&out[..56]);
        out[56..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// `Corrupt` unless all of it is right.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Header> {
        let bytes = bytes.get(..HEADER).ok_or_else(|| {
            Error::corrupt(format!("a segment of {} bytes has no header", bytes.len()))
        })?;
        let u32_at = |at: usize| crate::bytes::int::u32_at(bytes, at);
        let u64_at = |at: usize| crate::bytes::int::u64_at(bytes, at);
        let (sum, expected) = (u64_at(56), xxh3_64(&bytes[..56]));
        if bytes[..8] != MAGIC || sum != expected {
            let message = format!("header checksum {sum:016x}, expected {expected:016x}");
            return Err(Error::corrupt(message).at(0));
        }
        if u32_at(8) != VERSION {
            let message =
                format!("segment format {}, this release reads 1: use a newer one", u32_at(8));
            return Err(Error::new(ErrorKind::UnsupportedVersion, message));
        }
        let (alignment_log2, number, capacity) = (u32_at(12), u64_at(24), u64_at(32));
        if alignment_log2 > GRANULE_MAX {
            return Err(Error::corrupt(format!("alignment_log2 2^{alignment_log2}")).at(12));
        }
        if number == 0 || number == u64::MAX {
            return Err(Error::corrupt(format!("segment number {number}")).at(24));
        }
        if capacity > CAPACITY_MAX {
            return Err(Error::corrupt(format!("a segment of {capacity} bytes")).at(32));
        }
        Ok(Header { store: u64_at(16), number, capacity, alignment_log2 })
    }
}

/// The value of a link record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    /// The segment before this one, and where its records end.
    pub(crate) previous: (u64, u64),
    pub(crate) durable: u64,
    pub(crate) live_bytes: u64,
    /// The segments that made up the store, the one before included, and where each ends.
    pub(crate) members: Vec<(u64, u64)>,
}

/// Bytes that header and link take at most in a segment that names so many others.
pub(crate) const fn head_length(segments: usize) -> usize {
    HEADER + HEAD_MAX + LINK + LINK_SEGMENT * segments
}

impl Link {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = crate::bytes::int::Encoder::default();
        let head = [self.previous.0, self.previous.1, self.durable, self.live_bytes];
        head.into_iter().for_each(|v| out.u64(v));
        out.u64(self.members.len() as u64);
        for &(number, end) in &self.members {
            out.u64(number);
            out.u64(end);
        }
        out.0
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Link> {
        let mut input = crate::bytes::int::Decoder::new(bytes);
        let previous = (input.u64()?, input.u64()?);
        let (durable, live_bytes) = (input.u64()?, input.u64()?);
        let count = input.u64()?;
        if count != (bytes.len().saturating_sub(LINK) / LINK_SEGMENT) as u64 {
            return Err(Error::corrupt(format!("a link with {count} segments")));
        }
        let pair = |_| Ok((input.u64()?, input.u64()?));
        let members = (0..count).map(pair).collect::<Result<Vec<_>>>()?;
        input.finish()?;
        Ok(Link { previous, durable, live_bytes, members })
    }
}

/// The value of a `Removed` record.
pub(crate) fn removed(value: &[u8]) -> Option<u64> {
    (value.len() == 8).then(|| crate::bytes::int::u64_at(value, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(record: &Record, segment: u64, offset: u64) -> Vec<u8> {
        let (head, length) = record.head();
        let hash = hash_of(&head[..length], record.key, record.value);
        let mut out = head[..length].to_vec();
        out[..4].copy_from_slice(&checksum(hash, segment, offset));
        out.extend_from_slice(record.key);
        out.extend_from_slice(record.value);
        out
    }

    #[test]
    fn records_have_these_bytes() {
        let put = Record { expires: Some(300), ..Record::put(b"key", b"value") };
        #[rustfmt::skip]
        let expected = [
            0x21,               // put, expires
            3,                  // length of the key
            5,                  // length of the value
            0xAC, 0x02,         // 300
            b'k', b'e', b'y', b'v', b'a', b'l', b'u', b'e',
        ];
        assert_eq!(encode(&put, 1, 64)[4..], expected);
        let delete = Record { more: true, moved: true, ..Record::delete(b"key") };
        // delete, more follow, moved; length of the key; the key
        assert_eq!(encode(&delete, 1, 64)[4..], [0x52, 3, b'k', b'e', b'y']);
        for record in [put, delete] {
            let bytes = encode(&record, 1, 64);
            assert_eq!(read(&bytes, 1, 64), Some((record, bytes.len())));
            assert_eq!(read(&bytes, 2, 64), None, "another segment");
            assert_eq!(read(&bytes, 1, 65), None, "another place");
            for at in 0..bytes.len() {
                for bit in 0..8 {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= 1 << bit;
                    assert_eq!(read(&damaged, 1, 64), None, "bit {bit} of byte {at}");
                }
                assert_eq!(read(&bytes[..at], 1, 64), None, "{at} bytes of it");
            }
        }
        assert_eq!(parse(&[0; 100]), None);
        assert_eq!(parse(&[0xFF; 100]), None);
    }

    #[test]
    fn a_header_has_these_bytes() {
        let header = Header { store: 0x0102, number: 3, capacity: 4096, alignment_log2: 2 };
        let bytes = header.encode();
        #[rustfmt::skip]
        let expected = [
            b'F', b'I', b'R', b'N', b'L', b'O', b'G', b'\n',
            1, 0, 0, 0,                 // format version
            2, 0, 0, 0,                 // alignment_log2
            2, 1, 0, 0, 0, 0, 0, 0,     // store
            3, 0, 0, 0, 0, 0, 0, 0,     // number
            0, 16, 0, 0, 0, 0, 0, 0,    // capacity
        ];
        assert_eq!(bytes[..40], expected);
        assert_eq!(Header::decode(&bytes).unwrap(), header);
        for at in 0..HEADER {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            assert!(Header::decode(&damaged).is_err(), "byte {at}");
            assert!(Header::decode(&bytes[..at]).is_err());
        }
    }

    #[test]
    fn a_link_comes_back() {
        let members = vec![(2, 64), (5, 100), (7, 4000)];
        let link = Link { previous: (7, 4000), durable: 5, live_bytes: 9, members };
        let bytes = link.encode();
        assert_eq!(bytes.len(), 40 + 3 * 16);
        assert_eq!(Link::decode(&bytes).unwrap(), link);
        for length in 0..bytes.len() {
            assert!(Link::decode(&bytes[..length]).is_err());
        }
    }
}
