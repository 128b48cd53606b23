//! Fills blocks with records in order and writes them, with the directory that finds them.

use super::block::{CHECKSUM, Item, Shape, checksum, encode_body};
use super::compress::Packer;
use super::directory::{DirectoryWriter, place};
use super::format::{GRAIN, PAGE};
use super::index::Pointer;
use super::index_file::Pointers;
use super::raw::Record;
use crate::bytes::frozen::FrozenWriter;
use crate::bytes::int::{Encoder, put_u32};
use crate::{Error, Result};

/// How blocks are made.
pub(crate) struct Form {
    pub(crate) block_size: usize,
    pub(crate) slots: u64,
    /// Blocks begin at pages.
    pub(crate) paged: bool,
    /// Makes a frame of each block.
    pub(crate) packer: Option<Packer>,
}

/// Takes records in order and writes blocks.
pub(crate) struct BlockWriter {
    form: Form,
    shape: Shape,
    items: Vec<Item>,
    /// Keys and values of the items.
    bytes: Vec<u8>,
    block: Vec<u8>,
    directory: DirectoryWriter,
    blocks: u64,
    written: u64,
    longest: u64,
    /// Where each block begins, in grains; empty as long as all blocks have the block size.
    starts: Vec<u64>,
    /// If there will be an index, what it needs of the records before.
    pointers: Option<Pointers>,
}

/// What the blocks turned out to be.
pub(crate) struct Blocks {
    pub(crate) blocks: u64,
    pub(crate) longest: u64,
    pub(crate) directory: Vec<u8>,
    /// Where each block begins and the last one ends, in grains, if their lengths differ.
    pub(crate) starts: Option<Vec<u64>>,
    /// Bytes of all.
    pub(crate) bytes: u64,
    pub(crate) pointers: Option<Pointers>,
}

impl BlockWriter {
    /// With `pointers` if there will be an index.
    pub(crate) fn new(form: Form, pointers: Option<Pointers>) -> BlockWriter {
        let directory = DirectoryWriter::new(form.slots);
        BlockWriter {
            form,
            shape: Shape::default(),
            items: Vec::new(),
            bytes: Vec::new(),
            block: Vec::new(),
            directory,
            blocks: 0,
            written: 0,
            longest: 0,
            starts: Vec::new(),
            pointers,
        }
    }

    pub(crate) fn push(&mut self, out: &mut FrozenWriter, hash: u64, record: Record) -> Result<()> {
        let slots = self.form.slots;
        let at = place(hash, slots);
        let (key, value) = (record.key().len(), record.value().len());
        let item = Item { hash, key: key as u32, value: value as u32 };
        let mut next = self.shape.with(key, value);
        if next.block_len() > self.form.block_size && !self.items.is_empty() {
            // Records of one place stay together: then the place names the block. If the first is
            // of this place, all are, and looking through them for each would take long.
            let other = |item: &Item| place(item.hash, slots) != at;
            if other(&self.items[0])
                && let Some(last) = self.items.iter().rposition(other)
            {
                self.write(out, last + 1)?;
                next = self.shape.with(key, value);
            }
        }
        next.check()?;
        self.shape = next;
        self.items.push(item);
        record.pieces().for_each(|piece| self.bytes.extend_from_slice(piece));
        Ok(())
    }

    /// Writes the first `n` of the records that wait as a block.
    fn write(&mut self, out: &mut FrozenWriter, n: usize) -> Result<()> {
        let items = &self.items[..n];
        let shape = Shape::of(items);
        let mut block = std::mem::take(&mut self.block);
        block.clear();
        block.resize(CHECKSUM, 0);
        encode_body(shape, items, &self.bytes[..shape.bytes()], &mut block);
        self.directory.push(place(items[0].hash, self.form.slots));
        if let Some(packer) = &mut self.form.packer {
            let mut frame = Vec::with_capacity(block.len() / 2);
            packer.pack(&block[CHECKSUM..], &mut frame)?;
            let mut framed = Encoder(vec![0; CHECKSUM]);
            let [frame_len, body] = frame_lengths(frame.len(), block.len() - CHECKSUM)?;
            framed.u32(frame_len);
            framed.u32(body);
            framed.0.extend_from_slice(&frame);
            block = framed.0;
        }
        let unit = match (self.form.paged, block.len() > self.form.block_size) {
            (true, false) => self.form.block_size,
            (true, true) => PAGE,
            (false, _) => GRAIN,
        };
        block.resize(block.len().next_multiple_of(unit), 0);
        let sum = checksum(&block, self.blocks);
        put_u32(&mut block, 0, sum);
        out.write(&block)?;
        self.point(n, shape)?;
        self.count(block.len());
        self.block = block;
        self.bytes.drain(..shape.bytes());
        self.items.drain(..n);
        self.shape = Shape::of(&self.items);
        Ok(())
    }

    /// Tells the index where the `n` records of the block are that comes now.
    fn point(&mut self, n: usize, shape: Shape) -> Result<()> {
        let Some(pointers) = &mut self.pointers else { return Ok(()) };
        let items = &self.items[..n];
        let mut begin = self.written + (shape.block_len() - shape.bytes()) as u64;
        for item in items {
            let len = u64::from(item.key) + u64::from(item.value);
            pointers.push(Pointer { hash: item.hash, begin, key: item.key as usize, len })?;
            begin += len;
        }
        Ok(())
    }

    fn count(&mut self, len: usize) {
        if self.starts.is_empty() && len != self.form.block_size {
            let grains = (self.form.block_size / GRAIN) as u64;
            self.starts.extend((0..=self.blocks).map(|block| block * grains));
        }
        self.blocks += 1;
        self.written += len as u64;
        self.longest = self.longest.max(len as u64);
        if !self.starts.is_empty() {
            self.starts.push(self.written / GRAIN as u64);
        }
    }

    pub(crate) fn finish(mut self, out: &mut FrozenWriter) -> Result<Blocks> {
        if !self.items.is_empty() {
            self.write(out, self.items.len())?;
        }
        Ok(Blocks {
            blocks: self.blocks,
            longest: self.longest,
            directory: self.directory.finish(),
            starts: (!self.starts.is_empty()).then_some(self.starts),
            bytes: self.written,
            pointers: self.pointers,
        })
    }
}

/// The lengths of a frame and of the body in it, as a block states them; `InvalidArgument` if they
/// are too large for that.
fn frame_lengths(frame: usize, body: usize) -> Result<[u32; 2]> {
    match (u32::try_from(frame), u32::try_from(body)) {
        (Ok(frame), Ok(body)) => Ok([frame, body]),
        _ => Err(Error::invalid(format!(
            "a block of records has {body} bytes, more than the 4 GiB that blocks can be \
             compressed to and from: compress records instead"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_four_gib_is_refused() {
        let most = u32::MAX as usize;
        assert_eq!(frame_lengths(most, most).unwrap(), [u32::MAX; 2]);
        assert!(frame_lengths(most + 1, 5).is_err() && frame_lengths(5, most + 1).is_err());
    }
}
