//! Encoding of records in the buffers and temporary files of a build.
//!
//! ```text
//! RECORD   varint  length of the key
//!          varint  length of the value
//!          varint  origin minus the origin of the previous record of the partition, zigzag
//!          ..      key, value
//! ```
//!
//! The hash is not stored: recomputing it is cheaper than copying it.

use crate::Result;
use crate::table::build::hashing::Hashing;

/// Most bytes before the key of a record.
const MAX_HEADER: usize = 20;

/// Key and value of a record, in one slice as in buffers, or in two.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record<'a> {
    /// The second slice is empty if there is only one. It may also be an empty value.
    pieces: [&'a [u8]; 2],
    /// Length of the key.
    key: usize,
}

impl<'a> Record<'a> {
    #[inline(always)]
    pub(crate) fn new(key: &'a [u8], value: &'a [u8]) -> Record<'a> {
        Record { pieces: [key, value], key: key.len() }
    }

    /// A record whose key of `key` bytes and value are in one slice.
    #[inline(always)]
    pub(crate) fn joined(bytes: &'a [u8], key: usize) -> Record<'a> {
        Record { pieces: [bytes, &[]], key }
    }

    #[inline(always)]
    pub(crate) fn key(&self) -> &'a [u8] {
        &self.pieces[0][..self.key]
    }

    #[inline(always)]
    pub(crate) fn value(&self) -> &'a [u8] {
        let [first, second] = self.pieces;
        if second.is_empty() { &first[self.key..] } else { second }
    }

    /// Key and value in slices that are not empty.
    #[inline(always)]
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &'a [u8]> {
        self.pieces.into_iter().filter(|piece| !piece.is_empty())
    }

    /// Upper bound of the bytes that [`Record::encode`] writes.
    #[inline(always)]
    pub(crate) fn max_encoded_len(&self) -> usize {
        MAX_HEADER + self.pieces[0].len() + self.pieces[1].len()
    }

    /// Decodes the record at `at`: the record, the difference of its origin, and its end. `None` if
    /// it is truncated.
    #[inline(always)]
    pub(crate) fn at(bytes: &'a [u8], at: usize) -> Option<(Record<'a>, u64, usize)> {
        let (key, at) = varint(bytes, at)?;
        let (value, at) = varint(bytes, at)?;
        let (step, at) = varint(bytes, at)?;
        let key = key as usize;
        let end = at.checked_add(key)?.checked_add(value as usize)?;
        Some((Record::joined(bytes.get(at..end)?, key), step, end))
    }

    /// Encodes the record with the difference of its origin ([`zigzag`]) into `room`, which must be
    /// large enough. Returns the length. Copying one slice takes half the time of copying two.
    #[inline(always)]
    pub(crate) fn encode(self, step: u64, room: &mut [u8]) -> usize {
        let [first, second] = self.pieces;
        let mut at = put_varint(room, 0, self.key as u64);
        at = put_varint(room, at, (first.len() - self.key + second.len()) as u64);
        at = put_varint(room, at, step);
        for piece in self.pieces() {
            room[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        at
    }

    /// Appends the encoded record.
    pub(crate) fn append(self, step: u64, to: &mut Vec<u8>) {
        let at = to.len();
        to.resize(at + self.max_encoded_len(), 0);
        let len = self.encode(step, &mut to[at..]);
        to.truncate(at + len);
    }
}

/// A record that was added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Added<'a> {
    pub(crate) hash: u64,
    /// Where the record came from. Messages name it, and it orders duplicates.
    pub(crate) origin: u64,
    pub(crate) record: Record<'a>,
}

/// Calls `visit` with each complete record of a buffer and its offset. Returns the bytes of
/// complete records. `origin` is that of the previous record, and carries over from buffer to
/// buffer.
#[inline]
pub(crate) fn read_records<'a>(
    bytes: &'a [u8],
    hash: Hashing,
    origin: &mut u64,
    mut visit: impl FnMut(Added<'a>, usize) -> Result<()>,
) -> Result<usize> {
    let mut at = 0;
    while let Some((record, step, end)) = Record::at(bytes, at) {
        let from_last = (step >> 1) as i64 ^ -((step & 1) as i64);
        *origin = origin.wrapping_add(from_last as u64);
        visit(Added { hash: hash.of(record.key()), origin: *origin, record }, at)?;
        at = end;
    }
    Ok(at)
}

/// The zigzag-encoded difference of two origins.
#[inline(always)]
pub(crate) fn zigzag(from: u64, to: u64) -> u64 {
    let step = to.wrapping_sub(from) as i64;
    (step << 1 ^ step >> 63) as u64
}

/// Writes a LEB128 number. Returns its end.
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
