//! Packs ordered records into blocks and writes them, together with the directory.

use crate::Result;
use crate::bytes::int::put_u32;
use crate::disk::envelope::EnvelopeWriter;
use crate::table::build::encode::{BodyShape, Item, Run, encode_body};
use crate::table::build::index_writer::IndexSpool;
use crate::table::format::block::{CHECKSUM, checksum, encode_frame};
use crate::table::format::compress::Compressor;
use crate::table::format::directory::{DirectoryWriter, bin_of};
use crate::table::format::fences::FenceWriter;
use crate::table::format::index::RecordPointer;
use crate::table::format::{ALIGNMENT, PAGE, section};
use crate::table::options::Order;

/// How blocks are laid out.
pub(crate) struct BlockLayout {
    pub(crate) block_size: usize,
    pub(crate) order: Order,
    /// Slots of the directory; 0 in key order.
    pub(crate) slots: u64,
    /// Blocks are aligned to pages.
    pub(crate) paged: bool,
    /// Compresses each block, if blocks are compressed.
    pub(crate) compressor: Option<Compressor>,
}

/// Takes records in order and writes blocks.
pub(crate) struct BlockWriter {
    layout: BlockLayout,
    /// Shape of the pending records and of those taken from the current run.
    shape: BodyShape,
    pending: Pending,
    block: Vec<u8>,
    locator: Locator,
    blocks: u64,
    written: u64,
    longest: u64,
    /// Start of each block, in units of [`ALIGNMENT`]; empty while all blocks have the block size.
    starts: Vec<u64>,
    /// Collects index entries, if the table will have an index.
    pointers: Option<IndexSpool>,
}

/// Collects what maps a key to its block.
enum Locator {
    Directory(DirectoryWriter),
    Fences(FenceWriter),
}

/// Records of earlier runs that are in no block yet, usually less than one block.
#[derive(Default)]
struct Pending {
    items: Vec<Item>,
    bytes: Vec<u8>,
}

impl Pending {
    fn run(&self) -> Run<'_> {
        Run { items: &self.items, bytes: &self.bytes }
    }
}

/// What was written.
pub(crate) struct WrittenBlocks {
    pub(crate) blocks: u64,
    pub(crate) longest: u64,
    /// Id and bytes of the section that maps a key to its block.
    pub(crate) locator: (u32, Vec<u8>),
    /// Starts of blocks and end of the last one, in units of [`ALIGNMENT`], if lengths differ.
    pub(crate) starts: Option<Vec<u64>>,
    /// Bytes of all blocks.
    pub(crate) bytes: u64,
    pub(crate) pointers: Option<IndexSpool>,
}

impl BlockWriter {
    /// A writer that collects index entries in `pointers`, if there will be an index.
    pub(crate) fn new(layout: BlockLayout, pointers: Option<IndexSpool>) -> BlockWriter {
        let locator = match layout.order {
            Order::Hash => Locator::Directory(DirectoryWriter::new(layout.slots)),
            Order::Key => Locator::Fences(FenceWriter::default()),
        };
        BlockWriter {
            layout,
            shape: BodyShape::default(),
            pending: Pending::default(),
            block: Vec::new(),
            locator,
            blocks: 0,
            written: 0,
            longest: 0,
            starts: Vec::new(),
            pointers,
        }
    }

    /// Takes the next records in order.
    pub(crate) fn push(&mut self, out: &mut EnvelopeWriter, mut run: Run) -> Result<()> {
        // Number of records of the run that are in the shape.
        let mut taken = 0;
        while let Some(item) = run.items.get(taken) {
            let mut next = self.shape.with(item);
            if next.block_len() > self.layout.block_size {
                let n = self.count_before_bin(&run.items[..taken], item.hash);
                if n > 0 {
                    let left = self.write(out, n, run)?;
                    taken -= run.items.len() - left.items.len();
                    run = left;
                    let records = self.pending.items.iter().chain(&run.items[..taken]);
                    next = BodyShape::of(records).with(item);
                }
            }
            next.check()?;
            self.shape = next;
            taken += 1;
        }
        self.pending.items.extend_from_slice(run.items);
        self.pending.bytes.extend_from_slice(run.bytes);
        Ok(())
    }

    /// Number of records that the next block gets if a record with this hash does not fit. In hash
    /// order the records of a bin stay together, so that the bin determines the block.
    fn count_before_bin(&self, taken: &[Item], hash: u64) -> usize {
        let (slots, pending) = (self.layout.slots, &self.pending.items);
        if let Locator::Fences(_) = self.locator {
            return pending.len() + taken.len();
        }
        let at = bin_of(hash, slots);
        let other = |item: &Item| bin_of(item.hash, slots) != at;
        // If the first record is in this bin, all are. Without this test a large bin would take
        // quadratic time.
        if !pending.first().or(taken.first()).is_some_and(other) {
            return 0;
        }
        match taken.iter().rposition(other) {
            Some(last) => pending.len() + last + 1,
            None => pending.iter().rposition(other).map_or(0, |last| last + 1),
        }
    }

    /// Writes the first `n` of the pending records and of the run as a block. Returns the rest of
    /// the run.
    fn write<'a>(&mut self, out: &mut EnvelopeWriter, n: usize, run: Run<'a>) -> Result<Run<'a>> {
        let mut pending = std::mem::take(&mut self.pending);
        let old = n.min(pending.items.len());
        let [first, _] = pending.run().split(old);
        let [second, left] = run.split(n - old);
        self.write_block(out, [first, second])?;
        let bytes = first.bytes.len();
        pending.items.drain(..old);
        pending.bytes.drain(..bytes);
        self.pending = pending;
        Ok(left)
    }

    fn write_block(&mut self, out: &mut EnvelopeWriter, runs: [Run; 2]) -> Result<()> {
        let mut records = runs[0].items.iter().chain(runs[1].items);
        let shape = BodyShape::of(records.clone());
        let mut block = std::mem::take(&mut self.block);
        block.clear();
        block.resize(CHECKSUM, 0);
        encode_body(shape, runs, &mut block);
        match &mut self.locator {
            Locator::Directory(directory) => {
                if let Some(first) = records.next() {
                    directory.push(bin_of(first.hash, self.layout.slots));
                }
            }
            Locator::Fences(fences) => {
                let [a, b] = runs.map(Run::edge_keys);
                if let (Some((first, _)), Some((_, last))) = (a.or(b), b.or(a)) {
                    fences.push(first, last);
                }
            }
        }
        if let Some(compressor) = &mut self.layout.compressor {
            let mut frame = Vec::with_capacity(block.len() / 2);
            compressor.compress(&block[CHECKSUM..], &mut frame)?;
            let mut framed = vec![0; CHECKSUM];
            encode_frame(&frame, block.len() - CHECKSUM, &mut framed)?;
            block = framed;
        }
        let unit = match (self.layout.paged, block.len() > self.layout.block_size) {
            (true, false) => self.layout.block_size,
            (true, true) => PAGE,
            (false, _) => ALIGNMENT,
        };
        block.resize(block.len().next_multiple_of(unit), 0);
        let sum = checksum(&block, self.blocks);
        put_u32(&mut block, 0, sum);
        out.write(&block)?;
        self.add_pointers(runs, shape)?;
        self.count(block.len());
        self.block = block;
        Ok(())
    }

    /// Adds index entries for the records of the block that is being written.
    fn add_pointers(&mut self, runs: [Run; 2], shape: BodyShape) -> Result<()> {
        let Some(pointers) = &mut self.pointers else { return Ok(()) };
        let mut begin = self.written + (shape.block_len() - shape.bytes()) as u64;
        for item in runs.iter().flat_map(|run| run.items) {
            let len = u64::from(item.key) + u64::from(item.value);
            pointers.push(RecordPointer { hash: item.hash, begin, key: item.key as usize, len })?;
            begin += len;
        }
        Ok(())
    }

    fn count(&mut self, len: usize) {
        if self.starts.is_empty() && len != self.layout.block_size {
            let grains = (self.layout.block_size / ALIGNMENT) as u64;
            self.starts.extend((0..=self.blocks).map(|block| block * grains));
        }
        self.blocks += 1;
        self.written += len as u64;
        self.longest = self.longest.max(len as u64);
        if !self.starts.is_empty() {
            self.starts.push(self.written / ALIGNMENT as u64);
        }
    }

    /// Writes the pending records as a block, which may be short.
    pub(crate) fn write_pending(&mut self, out: &mut EnvelopeWriter) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        self.shape = BodyShape::default();
        match pending.items.is_empty() {
            true => Ok(()),
            false => self.write_block(out, pending.run().split(0)),
        }
    }

    /// Bytes of all blocks so far.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Offset of a written block among the blocks, and its length.
    pub(crate) fn extent(&self, number: u64) -> Option<(u64, usize)> {
        let (size, unit) = (self.layout.block_size as u64, ALIGNMENT as u64);
        if number >= self.blocks {
            return None;
        }
        Some(match self.starts.get(number as usize..).and_then(<[u64]>::first_chunk) {
            Some(&[start, end]) => (start * unit, ((end - start) * unit) as usize),
            None => (number * size, size as usize),
        })
    }

    pub(crate) fn finish(mut self, out: &mut EnvelopeWriter) -> Result<WrittenBlocks> {
        self.write_pending(out)?;
        Ok(WrittenBlocks {
            blocks: self.blocks,
            longest: self.longest,
            locator: match self.locator {
                Locator::Directory(directory) => (section::DIRECTORY, directory.finish()),
                Locator::Fences(fences) => (section::FENCES, fences.finish()),
            },
            starts: (!self.starts.is_empty()).then_some(self.starts),
            bytes: self.written,
            pointers: self.pointers,
        })
    }
}
