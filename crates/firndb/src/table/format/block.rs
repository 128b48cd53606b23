//! Blocks: records with consecutive hashes, and the search in one block.
//!
//! ```text
//! BLOCK    OFFSET  SIZE     FIELD
//!          0       4        checksum: the low half of the XXH3-64 of all following bytes,
//!                           including the padding, xor the low half of the block number
//!          4       ..       body; zeros up to the next block
//!
//! BODY     0       4        n records | key width << 24 | value width << 28
//!          4       4        length of every key, if the key width is 0
//!          8       4        length of every value, if the value width is 0
//!          12      n kw     key lengths, key width (0, 1, 2 or 4) bytes each
//!          ..      n vw     value lengths, value width bytes each
//!          ..      n        tags: the low 8 bits of the hash of each key
//!          ..               key and value of record 0, of record 1, ...
//!
//! With one zstd frame per block, the body is replaced by
//!          0       4        bytes of the frame
//!          4       4        bytes of the body
//!          8       ..       the zstd frame of the body, without its magic number
//! ```
//!
//! A tag distinguishes the records of one block. Its bits of the hash are independent of those that
//! order the records, and the order predicts where in the block a record is
//! (`Directory::fraction`). In a block of 86 records, tag and position together select the right
//! record first in 96 % of gets. A tag made of the higher bits, which neighbours share, did so in
//! 88 %.

use crate::bytes::int::{Encoder, u16_at, u32_at};
use crate::bytes::prefetch::{LINE, prefetch};
use crate::table::simd::block_search::{VALUE_LINES, keys_equal};
use crate::table::simd::kernels::{GROUP, equal, prefix_sum};
use crate::{Error, Result};
use std::ops::ControlFlow;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes before the body.
pub(crate) const CHECKSUM: usize = 4;
pub(crate) const BODY_HEADER: usize = 12;
/// Cache lines at the start of a block that a search reads: lengths and tags of a 4 KiB block of
/// small records.
pub(crate) const HEAD_LINES: usize = 3;
pub(crate) const MAX_RECORDS: usize = (1 << 24) - 1;

/// The tag of a hash.
#[inline(always)]
pub(crate) fn tag(hash: u64) -> u8 {
    hash as u8
}

/// The checksum of block `number`. It depends on the number, so that a block in the wrong position
/// is detected.
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

/// Bytes before the frame of a compressed body.
pub(crate) const FRAME_HEADER: usize = 8;

/// Appends a compressed body: its lengths, and the frame. `InvalidArgument` if frame or body has
/// more than 2^32 - 1 bytes.
pub(crate) fn encode_frame(frame: &[u8], body: usize, out: &mut Vec<u8>) -> Result<()> {
    let lengths = frame_lengths(frame.len(), body)?;
    let mut encoder = Encoder(std::mem::take(out));
    lengths.into_iter().for_each(|len| encoder.u32(len));
    encoder.0.extend_from_slice(frame);
    *out = encoder.0;
    Ok(())
}

fn frame_lengths(frame: usize, body: usize) -> Result<[u32; 2]> {
    match (u32::try_from(frame), u32::try_from(body)) {
        (Ok(frame), Ok(body)) => Ok([frame, body]),
        _ => Err(Error::invalid(format!(
            "a block of records has {body} bytes, more than the 4 GiB that blocks can be \
             compressed to and from: compress records instead"
        ))),
    }
}

/// The frame of a compressed body, and the stated bytes of the body. `None` if it is truncated.
pub(crate) fn decode_frame(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let (frame, body) = (u32_at(bytes, 0) as usize, u32_at(bytes, 4) as usize);
    let end = frame.saturating_add(FRAME_HEADER);
    bytes.get(FRAME_HEADER..end).map(|frame| (frame, body))
}

/// The stored value of a key in a body of any shape.
#[inline(never)]
pub(crate) fn find_in_body<'a>(body: &'a [u8], tag: u8, key: &[u8]) -> Result<Option<&'a [u8]>> {
    Body::parse(body)?.find(tag, key)
}

/// A parsed body: its header and the bounds of its arrays have been checked.
#[derive(Clone, Copy)]
pub(crate) struct Body<'a> {
    bytes: &'a [u8],
    records: usize,
    keys: Lengths,
    values: Lengths,
    /// Offset of the first record.
    first: usize,
}

/// Lengths of all keys, or of all values.
#[derive(Clone, Copy)]
struct Lengths {
    width: usize,
    /// The common length if the width is 0; otherwise the offset of the lengths.
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

    /// Sum of the lengths of records `first..end`.
    #[inline]
    fn between(self, bytes: &[u8], first: usize, end: usize) -> usize {
        let n = end - first;
        match self.width {
            0 => self.at.saturating_mul(n),
            1 => prefix_sum(bytes.get(self.at + first..).unwrap_or(&[]), n, n),
            _ => (first..end).map(|i| self.get(bytes, i)).sum(),
        }
    }

    /// Sum of the lengths of the first `n` of `records` records.
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
                    // Probably the right record: its value is loaded while its key is compared.
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

    /// Key and stored value of the first record that has the tag, if its key has this length. The
    /// keys are not compared.
    #[inline]
    pub(crate) fn first_candidate(&self, tag: u8, key: usize) -> Option<(&'a [u8], &'a [u8])> {
        let equal = equal(self.tags(0), self.records, tag);
        let i = equal.trailing_zeros() as usize;
        if equal == 0 || self.keys.get(self.bytes, i) != key {
            return None;
        }
        self.record_at(i, self.start(i)).ok().map(|(key, value, _)| (key, value))
    }

    /// Offset of record `i`.
    #[inline(always)]
    fn start(&self, i: usize) -> usize {
        let keys = self.keys.sum(self.bytes, self.records, i);
        let values = self.values.sum(self.bytes, self.records, i);
        self.first.saturating_add(keys).saturating_add(values)
    }

    /// [`Body::start`], computed from the known start of an earlier record. Without it a search
    /// among thousands of records of one bin would take quadratic time.
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

    /// Offset of record 0.
    pub(crate) fn first(&self) -> usize {
        self.first
    }

    /// The first record whose key is `is_far_enough`, which holds for the last records of a block
    /// in key order, and the offset of that record; for none, the number of records and the end of
    /// the last one.
    pub(crate) fn seek(&self, is_far_enough: impl Fn(&[u8]) -> bool) -> Result<(usize, usize)> {
        let (mut low, mut high) = ((0, self.first), self.records);
        while low.0 < high {
            let middle = low.0 + (high - low.0) / 2;
            let at = self.start_after(low, middle);
            let (key, _, end) = self.record_at(middle, at)?;
            match is_far_enough(key) {
                true => high = middle,
                false => low = (middle + 1, end),
            }
        }
        Ok(low)
    }

    /// Key and stored value of the record before record `i`, which starts at `at`, and its offset.
    pub(crate) fn record_before(&self, i: usize, at: usize) -> Result<(&'a [u8], &'a [u8], usize)> {
        let before = i.saturating_sub(1);
        let len = self.keys.get(self.bytes, before) + self.values.get(self.bytes, before);
        let start = at.saturating_sub(len);
        self.record_at(before, start).map(|(key, value, _)| (key, value, start))
    }

    /// Key and stored value of record `i`, which starts at `at`, and the offset of its end.
    #[inline]
    pub(crate) fn record_at(&self, i: usize, at: usize) -> Result<(&'a [u8], &'a [u8], usize)> {
        let middle = at.saturating_add(self.keys.get(self.bytes, i));
        let end = middle.saturating_add(self.values.get(self.bytes, i));
        match (self.bytes.get(at..middle), self.bytes.get(middle..end)) {
            (Some(key), Some(value)) => Ok((key, value, end)),
            _ => Err(Error::corrupt(format!("record {i} ends after the end of its block"))),
        }
    }

    /// Calls `visit` with each record in order. Returns the end of the last record, or `None` if
    /// `visit` breaks.
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

    /// The stored tag of record `i`.
    pub(crate) fn tag(&self, i: usize) -> u8 {
        self.tags(i).first().copied().unwrap_or(0)
    }

    /// The bytes from the tag of record `i`.
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
    fn body_encoding() {
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
    fn frame_encoding() {
        let mut out = vec![9];
        encode_frame(b"xyz", 0x0102, &mut out).unwrap();
        #[rustfmt::skip]
        assert_eq!(out, [
            9,                // what was there before
            3, 0, 0, 0,       // bytes of the frame
            2, 1, 0, 0,       // bytes of the body
            b'x', b'y', b'z', // the frame
        ]);
        assert_eq!(decode_frame(&out[1..]), Some((&b"xyz"[..], 0x0102)));
        assert!((0..11).all(|len| decode_frame(&out[1..][..len]).is_none()));
    }

    #[test]
    fn frames_of_4_gib_are_refused() {
        let most = u32::MAX as usize;
        assert_eq!(frame_lengths(most, most).unwrap(), [u32::MAX; 2]);
        assert!(frame_lengths(most + 1, 5).is_err() && frame_lengths(5, most + 1).is_err());
    }

    #[test]
    fn find_returns_present_records_only() {
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
