//! Blocks: a few records whose places follow each other, and how one of them is found.
//!
//! ```text
//! BLOCK    OFFSET  SIZE     FIELD
//!          0       4        checksum: the low half of the XXH3-64 of all that follows, zeros at
//!                           the end included, exclusive-or the low half of the block's number
//!          4       ..       body; zeros to the next block
//!
//! BODY     0       4        n records | key width << 24 | value width << 28
//!          4       4        length of each key, if the key width is 0
//!          8       4        length of each value, if the value width is 0
//!          12      n kw     lengths of keys, key width (0, 1, 2 or 4) bytes each
//!          ..      n vw     lengths of values, value width bytes each
//!          ..      n        tags: the low 8 bits of the hash of each key
//!          ..               key and value of record 0, of record 1, ...
//!
//! With a frame a block the body is replaced by
//!          0       4        bytes of the frame
//!          4       4        bytes of the body
//!          8       ..       a zstd frame, without its magic number: the body
//! ```
//!
//! A tag tells records of one block apart. The bits of a hash that it is of say nothing of the
//! place of a record, and the place says about where in its block the record stands (`find.rs`):
//! together they name the right one of 86 first in 96 gets of 100. A tag made of the place, which
//! neighbours share, did in 88.

use crate::bytes::int::{u16_at, u32_at};
use crate::bytes::prefetch::{LINE, prefetch};
use crate::table::simd::block_search::{VALUE_LINES, keys_equal};
use crate::table::simd::kernels::{GROUP, equal, prefix_sum};
use crate::{Error, Result};
use std::ops::ControlFlow;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes before the body.
pub(crate) const CHECKSUM: usize = 4;
pub(crate) const BODY_HEADER: usize = 12;
/// Cache lines at the beginning of a block that a search reads: the tags and lengths of a page of
/// small records.
pub(crate) const HEAD_LINES: usize = 3;
pub(crate) const MAX_RECORDS: usize = (1 << 24) - 1;

/// The tag of a record.
#[inline(always)]
pub(crate) fn tag(hash: u64) -> u8 {
    hash as u8
}

/// The checksum of a block: of its bytes, and of where it belongs.
#[inline]
pub(crate) fn checksum(block: &[u8], number: u64) -> u32 {
    (xxh3_64(block.get(CHECKSUM..).unwrap_or(&[])) ^ number) as u32
}

/// `Corrupt` unless the checksum of a block is right.
#[inline]
pub(crate) fn check(block: &[u8], number: u64) -> Result<()> {
    let (expected, got) = (u32_at(block, 0), checksum(block, number));
    if expected == got && block.len() > CHECKSUM {
        return Ok(());
    }
    Err(Error::corrupt(format!(
        "checksum of block {number} ({} bytes) is {got:08x}, expected {expected:08x}",
        block.len()
    )))
}

/// The stored value of a key in any body.
#[inline(never)]
pub(crate) fn find_in_body<'a>(body: &'a [u8], tag: u8, key: &[u8]) -> Result<Option<&'a [u8]>> {
    Body::parse(body)?.find(tag, key)
}

/// A body, its shape checked.
#[derive(Clone, Copy)]
pub(crate) struct Body<'a> {
    bytes: &'a [u8],
    records: usize,
    keys: Lengths,
    values: Lengths,
    /// Where the first record begins.
    first: usize,
}

/// Lengths of keys or of values.
#[derive(Clone, Copy)]
struct Lengths {
    width: usize,
    /// The one length, if the width is 0; else where the lengths begin.
    at: usize,
}

impl Lengths {
    #[inline(always)]
    fn get(self, bytes: &[u8], i: usize) -> usize {
        match self.width {
            0 => self.at,
            1 => usize::from(bytes.get(self.at + i).copied().unwrap_or(0)),
            2 => usize::from(u16_at(bytes, self.at + 2 * i)),
            _ => u32_at(bytes, self.at + 4 * i) as usize,
        }
    }

    /// Sum of those from `first` on and before `end`.
    #[inline]
    fn between(self, bytes: &[u8], first: usize, end: usize) -> usize {
        let n = end - first;
        match self.width {
            0 => self.at.saturating_mul(n),
            1 => prefix_sum(bytes.get(self.at + first..).unwrap_or(&[]), n, n),
            _ => (first..end).map(|i| self.get(bytes, i)).sum(),
        }
    }

    /// Sum of the first `n` of `records`.
    #[inline(always)]
    fn sum(self, bytes: &[u8], records: usize, n: usize) -> usize {
        match self.width {
            0 => self.at.saturating_mul(n),
            1 => prefix_sum(bytes.get(self.at..).unwrap_or(&[]), records, n),
            _ => (0..n).map(|i| self.get(bytes, i)).sum(),
        }
    }
}

impl<'a> Body<'a> {
    #[inline]
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Body<'a>> {
        let head = u32_at(bytes, 0) as usize;
        let (records, kw, vw) = (head & MAX_RECORDS, head >> 24 & 15, head >> 28);
        let known = |width: usize| width < 5 && width != 3;
        let first = BODY_HEADER + records * (1 + kw + vw);
        if !known(kw) || !known(vw) || first > bytes.len() {
            return Err(Error::corrupt(format!(
                "a block of {} bytes with {records} records and lengths of {kw} and {vw} bytes",
                bytes.len()
            )));
        }
        let column = |width: usize, head: usize, at: usize| Lengths {
            width,
            at: if width == 0 { u32_at(bytes, head) as usize } else { at },
        };
        let (keys, values) =
            (column(kw, 4, BODY_HEADER), column(vw, 8, BODY_HEADER + records * kw));
        Ok(Body { bytes, records, keys, values, first })
    }

    /// Number of records.
    pub(crate) fn len(&self) -> usize {
        self.records
    }

    /// The stored value of a key.
    #[inline]
    pub(crate) fn find(&self, tag: u8, key: &[u8]) -> Result<Option<&'a [u8]>> {
        let (mut last, mut group) = (None, 0);
        loop {
            let mut equal = equal(self.tags(group), self.records - group, tag);
            while equal != 0 {
                let i = group + equal.trailing_zeros() as usize;
                if self.keys.get(self.bytes, i) == key.len() {
                    let start = match last {
                        None => self.start(i),
                        Some(known) => self.start_after(known, i),
                    };
                    last = Some((i, start));
                    let (found, value, _) = self.record_at(i, start)?;
                    // Most likely the right one: its value is waited for together with its key.
                    if value.len() > LINE {
                        prefetch(value, VALUE_LINES);
                    }
                    if keys_equal(found, key) {
                        return Ok(Some(value));
                    }
                }
                equal &= equal - 1;
            }
            group += GROUP;
            if group >= self.records {
                return Ok(None);
            }
        }
    }

    /// Key and stored value of the first record that may be the one of a key of this length.
    #[inline]
    pub(crate) fn first_candidate(&self, tag: u8, key: usize) -> Option<(&'a [u8], &'a [u8])> {
        let equal = equal(self.tags(0), self.records, tag);
        let i = equal.trailing_zeros() as usize;
        if equal == 0 || self.keys.get(self.bytes, i) != key {
            return None;
        }
        self.record_at(i, self.start(i)).ok().map(|(key, value, _)| (key, value))
    }

    /// Where record `i` begins.
    #[inline(always)]
    fn start(&self, i: usize) -> usize {
        let keys = self.keys.sum(self.bytes, self.records, i);
        let values = self.values.sum(self.bytes, self.records, i);
        self.first.saturating_add(keys).saturating_add(values)
    }

    /// [`Body::start`], counted from a record before it whose start is known: thousands of records
    /// of one place would take time in the square of their number if each was counted anew.
    #[inline(never)]
    fn start_after(&self, (record, start): (usize, usize), i: usize) -> usize {
        let keys = self.keys.between(self.bytes, record, i);
        let values = self.values.between(self.bytes, record, i);
        start.saturating_add(keys).saturating_add(values)
    }

    /// Key and stored value of record `i`.
    #[cfg(test)]
    pub(crate) fn record(&self, i: usize) -> Result<(&'a [u8], &'a [u8])> {
        self.record_at(i, self.start(i)).map(|(key, value, _)| (key, value))
    }

    /// Where record 0 begins.
    pub(crate) fn first(&self) -> usize {
        self.first
    }

    /// Key and stored value of record `i`, which begins at `at`, and where it ends.
    #[inline]
    pub(crate) fn record_at(&self, i: usize, at: usize) -> Result<(&'a [u8], &'a [u8], usize)> {
        let middle = at.saturating_add(self.keys.get(self.bytes, i));
        let end = middle.saturating_add(self.values.get(self.bytes, i));
        match (self.bytes.get(at..middle), self.bytes.get(middle..end)) {
            (Some(key), Some(value)) => Ok((key, value, end)),
            _ => Err(Error::corrupt(format!("record {i} of a block ends after the block"))),
        }
    }

    /// Every record in order, then where the last one ends; `None` if `visit` breaks before.
    pub(crate) fn for_each_record(
        &self,
        mut visit: impl FnMut(&'a [u8], &'a [u8]) -> Result<ControlFlow<()>>,
    ) -> Result<Option<usize>> {
        let mut at = self.first;
        for i in 0..self.records {
            let (key, value, end) = self.record_at(i, at)?;
            if visit(key, value)?.is_break() {
                return Ok(None);
            }
            at = end;
        }
        Ok(Some(at))
    }

    /// The tag that is stored for record `i`.
    pub(crate) fn tag(&self, i: usize) -> u8 {
        self.tags(i).first().copied().unwrap_or(0)
    }

    /// The bytes from the tag of record `i` on.
    #[inline(always)]
    fn tags(&self, i: usize) -> &'a [u8] {
        self.bytes.get(self.first - self.records + i..).unwrap_or(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::build::encode::{BodyShape, Item, Run, encode_body};

    fn body(records: &[(u8, &[u8], &[u8])]) -> Vec<u8> {
        let (mut items, mut bytes, mut out) = (Vec::new(), Vec::new(), Vec::new());
        for &(tag, key, value) in records {
            let (hash, key_len) = (u64::from(tag), key.len() as u32);
            items.push(Item { hash, key: key_len, value: value.len() as u32 });
            bytes.extend_from_slice(&[key, value].concat());
        }
        let shape = BodyShape::of(&items);
        let (third, run) = (records.len() / 3, Run { items: &items, bytes: &bytes });
        encode_body(shape, run.split(third), &mut out);
        assert_eq!(out.len() + CHECKSUM, shape.block_len());
        out
    }

    #[test]
    fn the_bytes_of_a_body() {
        let bytes = body(&[(1, b"ab", b"x"), (2, b"cd", b"")]);
        #[rustfmt::skip]
        assert_eq!(bytes, [
            2, 0, 0, 0x10,  // two records; keys of one length; values with lengths of a byte
            2, 0, 0, 0,     // keys have two bytes
            0, 0, 0, 0,
            1, 0,           // lengths of values
            1, 2,           // tags
            b'a', b'b', b'x', b'c', b'd',
        ]);
    }

    #[test]
    fn finds_every_record_and_no_other() {
        for widths in [[3, 3], [3, 200], [300, 3], [3, 70_000]] {
            let values: Vec<Vec<u8>> =
                (0..40).map(|i| vec![i as u8; widths[i % 2] + i % 3]).collect();
            let keys: Vec<Vec<u8>> = (0..40).map(|i| format!("key {i}").into_bytes()).collect();
            let records: Vec<(u8, &[u8], &[u8])> =
                (0..40).map(|i| (i as u8 % 7, &keys[i][..], &values[i][..])).collect();
            let bytes = body(&records);
            let body = Body::parse(&bytes).unwrap();
            for (i, &(tag, key, value)) in records.iter().enumerate() {
                assert_eq!(body.find(tag, key).unwrap(), Some(value));
                assert_eq!(body.find(tag, b"key").unwrap(), None);
                assert_eq!(body.record(i).unwrap(), (key, value));
            }
            let end = body.for_each_record(|_, _| Ok(ControlFlow::Continue(()))).unwrap();
            assert_eq!(end, Some(bytes.len()));
        }
    }
}
