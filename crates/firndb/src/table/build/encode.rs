//! Encodes the body of a block. `format/block.rs` has the layout.

use crate::bytes::int::Encoder;
use crate::table::format::block::{BODY_HEADER, CHECKSUM, MAX_RECORDS, tag};
use crate::{Error, Result};

/// The shape of a body under construction: determines its size, also with one record more.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BodyShape {
    records: usize,
    bytes: usize,
    keys: Lengths,
    values: Lengths,
}

/// The shortest and the longest of several lengths.
#[derive(Clone, Copy, Debug, Default)]
struct Lengths {
    shortest: usize,
    longest: usize,
}

impl Lengths {
    fn with(self, first: bool, len: usize) -> Lengths {
        let shortest = if first { len } else { self.shortest.min(len) };
        Lengths { shortest, longest: self.longest.max(len) }
    }

    /// Bytes per stored length; 0 if all lengths are equal.
    fn width(self) -> usize {
        match self.longest {
            len if len == self.shortest => 0,
            0..=0xff => 1,
            0x100..=0xffff => 2,
            _ => 4,
        }
    }
}

impl BodyShape {
    /// The shape of these records.
    pub(crate) fn of<'a>(records: impl IntoIterator<Item = &'a Item>) -> BodyShape {
        records.into_iter().fold(BodyShape::default(), BodyShape::with)
    }

    /// Bytes of all keys and values.
    pub(crate) fn bytes(self) -> usize {
        self.bytes
    }

    /// The shape with one record more.
    #[inline]
    pub(crate) fn with(self, record: &Item) -> BodyShape {
        let (key, value) = (record.key as usize, record.value as usize);
        let first = self.records == 0;
        BodyShape {
            records: self.records + 1,
            bytes: self.bytes + key + value,
            keys: self.keys.with(first, key),
            values: self.values.with(first, value),
        }
    }

    /// Bytes of the whole block.
    #[inline]
    pub(crate) fn block_len(self) -> usize {
        let arrays = self.records * (1 + self.keys.width() + self.values.width());
        CHECKSUM + BODY_HEADER + arrays + self.bytes
    }

    /// `InvalidArgument` if a block cannot hold this many records.
    pub(crate) fn check(self) -> Result<()> {
        if self.records <= MAX_RECORDS {
            return Ok(());
        }
        Err(Error::invalid("more than 16,777,215 keys share one bin: the keys were crafted"))
    }
}

/// Hash and lengths of a record that goes into a block.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Item {
    pub(crate) hash: u64,
    /// Length of the key.
    pub(crate) key: u32,
    /// Length of the value.
    pub(crate) value: u32,
}

/// Consecutive records: their hashes and lengths, and their concatenated keys and values.
#[derive(Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) items: &'a [Item],
    pub(crate) bytes: &'a [u8],
}

impl<'a> Run<'a> {
    /// The first `n` records, and the rest.
    pub(crate) fn split(self, n: usize) -> [Run<'a>; 2] {
        let items = self.items.split_at(n);
        let len = items.0.iter().map(|item| item.key as usize + item.value as usize).sum();
        let bytes = self.bytes.split_at(len);
        [Run { items: items.0, bytes: bytes.0 }, Run { items: items.1, bytes: bytes.1 }]
    }

    /// The first and the last key. `None` if there are no records.
    pub(crate) fn edge_keys(self) -> Option<(&'a [u8], &'a [u8])> {
        let (first, last) = (self.items.first()?, self.items.last()?);
        let at = self.bytes.len().checked_sub(last.key as usize + last.value as usize)?;
        Some((self.bytes.get(..first.key as usize)?, self.bytes.get(at..at + last.key as usize)?))
    }

    /// Each record with its key and its value.
    pub(crate) fn iter(self) -> impl Iterator<Item = (&'a Item, &'a [u8], &'a [u8])> {
        let mut left = self.bytes;
        self.items.iter().map(move |item| {
            let (key, behind) = left.split_at(item.key as usize);
            let (value, behind) = behind.split_at(item.value as usize);
            left = behind;
            (item, key, value)
        })
    }
}

/// Appends the body of two consecutive runs, whose common shape is `shape`.
pub(crate) fn encode_body(shape: BodyShape, runs: [Run; 2], out: &mut Vec<u8>) {
    let records = runs[0].items.iter().chain(runs[1].items);
    let (kw, vw) = (shape.keys.width(), shape.values.width());
    let mut body = Encoder(std::mem::take(out));
    body.u32((shape.records | kw << 24 | vw << 28) as u32);
    body.u32(if kw == 0 { shape.keys.longest as u32 } else { 0 });
    body.u32(if vw == 0 { shape.values.longest as u32 } else { 0 });
    lengths(&mut body, kw, records.clone().map(|record| record.key));
    lengths(&mut body, vw, records.clone().map(|record| record.value));
    body.0.extend(records.map(|record| tag(record.hash)));
    runs.iter().for_each(|run| body.0.extend_from_slice(run.bytes));
    *out = body.0;
}

fn lengths(body: &mut Encoder, width: usize, lengths: impl Iterator<Item = u32>) {
    match width {
        0 => {}
        1 => body.0.extend(lengths.map(|len| len as u8)),
        2 => lengths.for_each(|len| body.u16(len as u16)),
        _ => lengths.for_each(|len| body.u32(len)),
    }
}
