//! A record: the unit that is appended to the log.
//!
//! ```text
//! OFFSET  SIZE  FIELD
//! 0       4     checksum: low half of XXH3-64 of the bytes from 4 to the end of the record, xor
//!               `position_mask(segment, offset)`
//! 4       1     bits 0-3: kind (0: no record, the log ends here); bit 4: more records of this
//!               batch follow; bit 5: the record expires; bit 6: copied by compaction
//! 5       1-3   length of the key
//! .       1-5   length of the value; absent in a delete
//! .       1-10  if the record expires: when, in milliseconds since 1970
//! .       8     in a put that compaction copied: u64, its version
//! .       .     key, value
//!
//! KIND  NAME     KEY    VALUE
//! 1     Put      yes    yes
//! 2     Delete   yes    no
//! 3     Link     empty  see `segment_head.rs`
//! 4     Removed  empty  u64 number of a segment that is no longer part of the store, because its
//!                       live records were copied
//! ```
//!
//! Lengths and times are LEB128: seven bits per byte, low bits first, bit 7 set in all but the
//! last. The checksum depends on the position of the record, so the bytes of a record that are part
//! of a value, or of a file that was copied elsewhere, are never taken for a record.
//!
//! # Versions
//!
//! The version of a put identifies one write of its key: 64 bits that are computed from where the
//! record was written first and from its checksum, so that nothing has to be stored for them. The
//! log never has two records at one position, with one exception: after a power cut, and after a
//! backup was restored, it continues from an earlier position. Then the checksum differs, unless
//! the record has the same bytes, and the same version is right. A copy that compaction makes is
//! elsewhere, so it carries the version of its original.

use crate::bytes::int::{u32_at, u64_at};
use crate::log::failpoints::Failpoint;
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

/// Longest key in bytes.
pub const MAX_KEY: usize = 65_536;
/// Longest value in bytes.
pub const MAX_VALUE: usize = u32::MAX as usize;
/// Most bytes of a record before its key.
pub(crate) const HEAD_MAX: usize = 4 + 1 + 3 + 5 + 10 + 8;
const MORE: u8 = 1 << 4;
const EXPIRES: u8 = 1 << 5;
const MOVED: u8 = 1 << 6;
/// Bytes of a version.
const VERSION: usize = 8;

/// The kind of a record. The numbers are stored in files: do not change them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Put = 1,
    Delete = 2,
    Link = 3,
    Removed = 4,
}

/// A record, to be appended or as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) kind: Kind,
    /// The batch continues with the next record.
    pub(crate) more: bool,
    /// Copied by compaction.
    pub(crate) moved: bool,
    /// Time in milliseconds since 1970 from which on the record counts as deleted.
    pub(crate) expires: Option<u64>,
    /// In a put that compaction copied, and only there: its version.
    pub(crate) version: Option<u64>,
    /// The checksum as read; 0 in a record that is to be appended.
    pub(crate) checksum: u32,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl<'a> Record<'a> {
    pub(crate) fn put(key: &'a [u8], value: &'a [u8]) -> Record<'a> {
        let (more, moved, expires, version, checksum) = Default::default();
        Record { kind: Kind::Put, more, moved, expires, version, checksum, key, value }
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

    /// The copy of a put that compaction makes. The original is at this position.
    pub(crate) fn copy_of_put(&self, segment: u64, offset: u64) -> Record<'a> {
        let version = Some(self.version(segment, offset));
        Record { moved: true, more: false, version, ..*self }
    }

    /// The version of a put that was read at this position.
    pub(crate) fn version(&self, segment: u64, offset: u64) -> u64 {
        let first = || {
            let mut bytes = [0; 20];
            bytes[..8].copy_from_slice(&segment.to_le_bytes());
            bytes[8..16].copy_from_slice(&offset.to_le_bytes());
            bytes[16..].copy_from_slice(&self.checksum.to_le_bytes());
            xxh3_64(&bytes)
        };
        self.version.unwrap_or_else(first)
    }

    /// Whether the record counts as deleted at this time.
    pub(crate) fn is_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }

    /// The bytes before the key, with an empty checksum, and their number.
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
        if let Some(version) = self.version {
            head[at..at + VERSION].copy_from_slice(&version.to_le_bytes());
            at += VERSION;
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
pub(crate) fn record_hash(head: &[u8], key: &[u8], value: &[u8]) -> u64 {
    let length = head.len() - 4 + key.len() + value.len();
    let mut small = [0; 256];
    if length <= small.len() {
        // Hashing a copy in one call is several times faster than hashing the pieces.
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

/// The bytes of a record at this position.
pub(crate) fn encode(record: &Record, segment: u64, offset: u64) -> Vec<u8> {
    let (head, length) = record.head();
    let hash = record_hash(&head[..length], record.key, record.value);
    let mut out = head[..length].to_vec();
    out[..4].copy_from_slice(&checksum(hash, segment, offset));
    out.extend_from_slice(record.key);
    out.extend_from_slice(record.value);
    out
}

/// The checksum of a record whose bytes have this hash, at this position.
pub(crate) fn checksum(hash: u64, segment: u64, offset: u64) -> [u8; 4] {
    ((hash ^ position_mask(segment, offset)) as u32).to_le_bytes()
}

fn position_mask(segment: u64, offset: u64) -> u64 {
    let mixed = segment.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ offset;
    mixed.wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 32
}

/// The parts of a record according to its first bytes.
struct Layout {
    kind: Kind,
    flags: u8,
    expires: Option<u64>,
    version: Option<u64>,
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
    let (version, at) = match kind {
        Kind::Put if flags & MOVED != 0 => {
            (Some(u64_at(bytes.get(at..at + VERSION)?, 0)), at + VERSION)
        }
        _ => (None, at),
    };
    if key_length > MAX_KEY as u64 || value_length > MAX_VALUE as u64 {
        return None;
    }
    let value = at + key_length as usize;
    let end = value + value_length as usize;
    Some(Layout { kind, flags, expires, version, key: at, value, end })
}

/// The length of the record at the beginning of `bytes`, which may end before the record does.
/// `None` if there is no record.
pub(crate) fn record_length(bytes: &[u8]) -> Option<usize> {
    layout(bytes).map(|layout| layout.end)
}

/// The record at the beginning of `bytes` and its length. Checks bounds, not the checksum. `None`
/// if there are zeros or invalid bytes, or a record that extends past the end.
#[inline]
pub(crate) fn parse(bytes: &[u8]) -> Option<(Record<'_>, usize)> {
    let Layout { kind, flags, expires, version, key, value, end } = layout(bytes)?;
    let (key, value) = (bytes.get(key..value)?, bytes.get(value..end)?);
    let (more, moved) = (flags & MORE != 0, flags & MOVED != 0);
    let checksum = u32_at(bytes, 0);
    Some((Record { kind, more, moved, expires, version, checksum, key, value }, end))
}

/// Whether the checksum of a record matches its bytes and its position.
#[inline]
pub(crate) fn checksum_matches(record: &[u8], segment: u64, offset: u64) -> bool {
    let sum = checksum(xxh3_64(&record[4..]), segment, offset);
    record[..4] == sum || Failpoint::SkipChecksum.is_on()
}

/// [`parse`], and checks the checksum.
#[inline]
pub(crate) fn parse_checked(
    bytes: &[u8],
    segment: u64,
    offset: u64,
) -> Option<(Record<'_>, usize)> {
    parse(bytes).filter(|(_, length)| checksum_matches(&bytes[..*length], segment, offset))
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

/// The segment number in the value of a `Removed` record.
pub(crate) fn removed_segment(value: &[u8]) -> Option<u64> {
    (value.len() == 8).then(|| u64_at(value, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_documented_bytes() {
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
        #[rustfmt::skip]
        let expected = [
            0x52,               // delete, more records follow, copied by compaction
            3,                  // length of the key
            b'k', b'e', b'y',
        ];
        assert_eq!(encode(&delete, 1, 64)[4..], expected);
        let copy = Record { moved: true, version: Some(0x0102), ..put };
        #[rustfmt::skip]
        let expected = [
            0x61,                       // put, expires, copied by compaction
            3,                          // length of the key
            5,                          // length of the value
            0xAC, 0x02,                 // 300
            2, 1, 0, 0, 0, 0, 0, 0,     // version
            b'k', b'e', b'y', b'v', b'a', b'l', b'u', b'e',
        ];
        assert_eq!(encode(&copy, 1, 64)[4..], expected);
        for record in [put, delete, copy] {
            let bytes = encode(&record, 1, 64);
            let record = Record { checksum: u32_at(&bytes, 0), ..record };
            assert_eq!(parse_checked(&bytes, 1, 64), Some((record, bytes.len())));
            assert_eq!(parse_checked(&bytes, 2, 64), None, "another segment");
            assert_eq!(parse_checked(&bytes, 1, 65), None, "another offset");
            for at in 0..bytes.len() {
                for bit in 0..8 {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= 1 << bit;
                    assert_eq!(parse_checked(&damaged, 1, 64), None, "bit {bit} of byte {at}");
                }
                assert_eq!(parse_checked(&bytes[..at], 1, 64), None, "{at} bytes of it");
            }
        }
        assert_eq!(parse(&[0; 100]), None);
        assert_eq!(parse(&[0xFF; 100]), None);
    }

    #[test]
    fn a_version_identifies_a_write_and_stays_with_its_copies() {
        let read = |record: &Record, segment, offset| {
            let bytes = encode(record, segment, offset);
            let version =
                parse_checked(&bytes, segment, offset).unwrap().0.version(segment, offset);
            (bytes.len(), version)
        };
        let put = Record::put(b"key", b"value");
        // Stored in files: must not change.
        assert_eq!(read(&put, 1, 64).1, 0xF904_48D1_6C1A_9A9D);
        let versions = [
            read(&put, 1, 64),
            read(&put, 1, 65),
            read(&put, 2, 64),
            read(&Record::put(b"key", b"other"), 1, 64),
            read(&Record { expires: Some(1), ..put }, 1, 64),
        ];
        for (n, (_, version)) in versions.iter().enumerate() {
            assert!(versions[..n].iter().all(|(_, other)| other != version), "{versions:x?}");
        }
        let (mut copy, mut at, (length, first)) = (put, (1, 64), read(&put, 1, 64));
        for next in [(2, 100), (9, 200), (9, 300)] {
            let bytes = encode(&copy, at.0, at.1);
            let original = parse_checked(&bytes, at.0, at.1).unwrap().0;
            let moved = encode(&original.copy_of_put(at.0, at.1), next.0, next.1);
            let (found, size) = parse_checked(&moved, next.0, next.1).unwrap();
            assert_eq!((found.version(next.0, next.1), size), (first, length + VERSION));
            (copy, at) = (Record { key: b"key", value: b"value", ..found }, next);
        }
    }
}
