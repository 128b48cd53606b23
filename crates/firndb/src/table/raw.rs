//! Records as they stand in the buffers of a build, one behind the other.
//!
//! ```text
//! RECORD   varint  length of the key
//!          varint  length of the value
//!          varint  origin, less that of the record before it in the partition, zigzag
//!          ..      key, value
//! ```
//! The hash is not kept: to compute it again costs less than to carry it.

use crate::Result;

/// Most bytes before the key of a record.
pub(crate) const MAX_HEAD: usize = 20;

/// The hash of a key, by which records are split and sorted.
pub(crate) type HashOf = fn(&[u8]) -> u64;

/// A record that was added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Added<'a> {
    pub(crate) hash: u64,
    /// Where it came from, for messages and for the order of duplicates.
    pub(crate) origin: u64,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

/// A record as it stands in a buffer.
#[derive(Clone, Copy, Default)]
pub(crate) struct Raw<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    /// The last number before the key: the origin, unless the buffer says otherwise.
    pub(crate) last: u64,
}

impl<'a> Raw<'a> {
    /// The record that begins at `at`, if it is whole.
    #[inline(always)]
    pub(crate) fn at(bytes: &'a [u8], at: usize) -> Option<Raw<'a>> {
        Raw::with_end(bytes, at).map(|(record, _)| record)
    }

    /// [`Raw::at`], and where the value ends, which stands behind the key.
    #[inline(always)]
    pub(crate) fn with_end(bytes: &'a [u8], at: usize) -> Option<(Raw<'a>, usize)> {
        let (key, at) = varint(bytes, at)?;
        let (value, at) = varint(bytes, at)?;
        let (last, at) = varint(bytes, at)?;
        let middle = at.checked_add(key as usize)?;
        let end = middle.checked_add(value as usize)?;
        let (key, value) = (bytes.get(at..middle)?, bytes.get(middle..end)?);
        Some((Raw { key, value, last }, end))
    }

    /// Writes it at the beginning of `room`, which is large enough, and gives its length.
    #[inline(always)]
    pub(crate) fn put(self, room: &mut [u8]) -> usize {
        let mut at = put_varint(room, 0, self.key.len() as u64);
        at = put_varint(room, at, self.value.len() as u64);
        at = put_varint(room, at, self.last);
        for bytes in [self.key, self.value] {
            room[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        }
        at
    }

    /// Appends it.
    pub(crate) fn append(self, to: &mut Vec<u8>) {
        let at = to.len();
        to.resize(at + MAX_HEAD + self.key.len() + self.value.len(), 0);
        let len = self.put(&mut to[at..]);
        to.truncate(at + len);
    }
}

/// Visits the records of a buffer, each with where it begins, and gives the bytes of whole records.
/// `origin` is that of the record before; it goes on from buffer to buffer.
#[inline]
pub(crate) fn read<'a>(
    bytes: &'a [u8],
    hash: HashOf,
    origin: &mut u64,
    mut visit: impl FnMut(Added<'a>, usize) -> Result<()>,
) -> Result<usize> {
    let mut at = 0;
    while let Some((Raw { key, value, last }, end)) = Raw::with_end(bytes, at) {
        let from_last = (last >> 1) as i64 ^ -((last & 1) as i64);
        *origin = origin.wrapping_add(from_last as u64);
        visit(Added { hash: hash(key), origin: *origin, key, value }, at)?;
        at = end;
    }
    Ok(at)
}

/// The way from one origin to the next, small numbers for small steps either way.
#[inline(always)]
pub(crate) fn zigzag(from: u64, to: u64) -> u64 {
    let step = to.wrapping_sub(from) as i64;
    (step << 1 ^ step >> 63) as u64
}

/// Writes a number, 7 bits a byte from the lowest on, and gives where it ends.
#[inline(always)]
fn put_varint(bytes: &mut [u8], mut at: usize, mut v: u64) -> usize {
    while v >= 0x80 {
        bytes[at] = v as u8 | 0x80;
        v >>= 7;
        at += 1;
    }
    bytes[at] = v as u8;
    at + 1
}

#[inline(always)]
fn varint(bytes: &[u8], mut at: usize) -> Option<(u64, usize)> {
    let (mut v, mut shift) = (0, 0);
    loop {
        let byte = *bytes.get(at)?;
        at += 1;
        v |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some((v, at));
        }
        shift = (shift + 7).min(63);
    }
}
