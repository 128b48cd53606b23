//! Payloads: the opaque bytes of each document, raw or in zstd blocks. `format/mod.rs` lists the
//! sections.
//!
//! Raw payloads are borrowed from the mapped file. Compressed ones are stored in blocks of about 16
//! KiB, each a zstd frame, optionally with a dictionary trained on a sample of the partition's
//! payloads. Reads verify checksums: per 64 KiB of raw bytes on the first access, per compressed
//! block on every access.

use crate::bytes::frozen::{Frozen, FrozenWriter};
use crate::bytes::increasing::{self, Increasing};
use crate::bytes::int::{Encoder, u64_at};
use crate::bytes::offsets::{self, Offsets};
use crate::bytes::prefetch::prefetch;
use crate::search::format::global;
use crate::search::model::schema::Payload;
use crate::{Error, Result};
use std::borrow::Cow;
use std::io::{self, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// Raw bytes per checksum.
pub(crate) const RAW_BLOCK: usize = 1 << 16;
/// The uncompressed size from which a zstd block is closed.
const BLOCK: usize = 1 << 14;
/// The largest claimed size of a block for which memory is allocated up front. For larger claims,
/// memory grows with the decompressed data.
const TRUSTED: u64 = 1 << 24;
/// The maximum size of a dictionary, and of the sample on which it is trained.
const DICTIONARY: usize = 1 << 16;
const SAMPLE: usize = 100 * DICTIONARY;

/// Appends the payload of a document of the partition being written.
pub(crate) type Source<'a> = dyn FnMut(u32, &mut Vec<u8>) -> Result<()> + 'a;

/// Writes the payload sections.
pub(crate) fn write(
    out: &mut FrozenWriter,
    form: Payload,
    documents: u32,
    source: &mut Source,
) -> Result<()> {
    form.check()?;
    let mut offsets = Vec::with_capacity(documents as usize + 1);
    let total = match form {
        Payload::Raw => write_raw(out, documents, source, &mut offsets)?,
        Payload::Zstd { level, dictionary } => {
            let dictionary = if dictionary { train(documents, source)? } else { Vec::new() };
            write_blocks(out, level, dictionary, documents, source, &mut offsets)?
        }
    };
    offsets.push(total);
    out.section(global::OFFSETS, &offsets::encode(&offsets))
}

fn write_raw(
    out: &mut FrozenWriter,
    documents: u32,
    source: &mut Source,
    offsets: &mut Vec<u64>,
) -> Result<u64> {
    let (mut payload, mut pending, mut total) = (Vec::new(), Vec::with_capacity(2 * RAW_BLOCK), 0);
    let mut checks = Encoder::default();
    out.begin(global::PAYLOADS, true)?;
    for doc in 0..documents {
        payload.clear();
        source(doc, &mut payload)?;
        offsets.push(total);
        total += payload.len() as u64;
        pending.extend_from_slice(&payload);
        let whole = pending.len() / RAW_BLOCK * RAW_BLOCK;
        for block in pending[..whole].chunks(RAW_BLOCK) {
            checks.u64(xxh3_64(block));
            out.write(block)?;
        }
        pending.drain(..whole);
    }
    if !pending.is_empty() {
        checks.u64(xxh3_64(&pending));
        out.write(&pending)?;
    }
    out.end();
    out.section(global::CHECKS, &checks.0)?;
    Ok(total)
}

fn write_blocks(
    out: &mut FrozenWriter,
    level: i32,
    dictionary: Vec<u8>,
    documents: u32,
    source: &mut Source,
    offsets: &mut Vec<u64>,
) -> Result<u64> {
    let failed = |e: io::Error| Error::invalid(format!("zstd cannot compress payloads: {e}"));
    let mut zstd = zstd::bulk::Compressor::with_dictionary(level, &dictionary).map_err(failed)?;
    let (mut payload, mut pending, mut total) = (Vec::new(), Vec::new(), 0);
    let (mut first_docs, mut ends) = (Vec::new(), vec![0u64]);
    let mut checks = Encoder::default();
    out.begin(global::PAYLOADS, true)?;
    for doc in 0..documents {
        payload.clear();
        source(doc, &mut payload)?;
        if pending.is_empty() && first_docs.len() < ends.len() {
            first_docs.push(u64::from(doc));
        }
        offsets.push(total);
        total += payload.len() as u64;
        pending.extend_from_slice(&payload);
        if pending.len() >= BLOCK || doc + 1 == documents {
            let block = zstd.compress(&pending).map_err(failed)?;
            checks.u64(xxh3_64(&block));
            out.write(&block)?;
            ends.push(ends[ends.len() - 1] + block.len() as u64);
            pending.clear();
        }
    }
    out.end();
    first_docs.push(u64::from(documents));
    out.section(global::CHECKS, &checks.0)?;
    out.section(global::BLOCK_DOCUMENTS, &increasing::encode(first_docs.into_iter()))?;
    out.section(global::BLOCK_OFFSETS, &increasing::encode(ends.into_iter()))?;
    out.section(global::DICTIONARY, &dictionary)?;
    Ok(total)
}

/// Trains a dictionary on payloads spread over the partition; empty if there are too few for
/// training.
fn train(documents: u32, source: &mut Source) -> Result<Vec<u8>> {
    let (mut sample, mut sizes) = (Vec::new(), Vec::new());
    let step = (documents / 20_000).max(1);
    for doc in (0..documents).step_by(step as usize) {
        let before = sample.len();
        source(doc, &mut sample)?;
        sizes.push(sample.len() - before);
        if sample.len() >= SAMPLE {
            break;
        }
    }
    Ok(zstd::dict::from_continuous(&sample, &sizes, DICTIONARY).unwrap_or_default())
}

/// The payloads of an open partition.
pub(crate) struct Payloads {
    documents: u32,
    form: Payload,
    sections: [usize; 6],
    /// One bit per 64 KiB of raw bytes: their checksum has been verified.
    checked: Box<[AtomicU64]>,
}

const SECTIONS: [u32; 6] = [
    global::PAYLOADS,
    global::OFFSETS,
    global::CHECKS,
    global::BLOCK_DOCUMENTS,
    global::BLOCK_OFFSETS,
    global::DICTIONARY,
];

/// The steps of [`Payloads::fetch`], in order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Prefetch the head of the block of offsets.
    Head,
    /// Prefetch the offset of the document.
    Offset,
    /// Prefetch the payload.
    Bytes,
}

/// The maximum number of cache lines to prefetch per payload. The hardware prefetcher handles the
/// rest of longer ones.
const LINES: usize = 16;

impl Payloads {
    pub(crate) fn open(file: &Frozen, form: Payload, documents: u32) -> Result<Payloads> {
        let mut sections = [usize::MAX; 6];
        let needed = if form == Payload::Raw { 3 } else { 6 };
        for (slot, id) in sections.iter_mut().zip(SECTIONS).take(needed) {
            let missing = || Error::corrupt(format!("payload section {id} is missing"));
            *slot = file.find(id).ok_or_else(missing)?;
        }
        // The size of the offsets bounds the number of documents: readers allocate memory in
        // proportion to it.
        if file.entry(sections[1]).len < offsets::least_size(documents as usize) as u64 {
            return Err(Error::corrupt(format!("there are no offsets for {documents} documents")));
        }
        let blocks = (file.entry(sections[0]).len as usize).div_ceil(RAW_BLOCK);
        let checked = (0..blocks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Payloads { documents, form, sections, checked })
    }

    /// Prefetches the payload of a document below `documents`, one step per call: each step reads
    /// what the previous one has prefetched. Of compressed payloads it prefetches the offsets only.
    pub(crate) fn fetch(&self, file: &Frozen, doc: u32, step: Step) -> Result<()> {
        let offsets = self.offsets(file)?;
        match step {
            Step::Head => offsets.fetch_head(doc as usize),
            Step::Offset => offsets.fetch(doc as usize),
            Step::Bytes if self.form == Payload::Raw => {
                let (start, end) = offsets.range(doc as usize);
                let range = start as usize..end as usize;
                let bytes = file.section(self.sections[0])?.get(range).unwrap_or(&[]);
                prefetch(bytes, LINES);
                prefetch(bytes.last_chunk::<1>().map_or(&[], |last| &last[..]), 1);
            }
            Step::Bytes => {}
        }
        Ok(())
    }

    /// The payload of a document below `documents`.
    pub(crate) fn get<'a>(&self, file: &'a Frozen, doc: u32) -> Result<Cow<'a, [u8]>> {
        let offsets = self.offsets(file)?;
        let at = |d: u32| offsets.start(d as usize);
        let (start, end) = offsets.range(doc as usize);
        if start > end {
            return Err(Error::corrupt("payload offsets descend").in_file(file.path()));
        }
        match self.form {
            Payload::Raw => self.raw(file, start as usize, end as usize).map(Cow::Borrowed),
            Payload::Zstd { .. } => {
                self.block(file, doc, &at).and_then(|block| block.take(doc, &at)).map(Cow::Owned)
            }
        }
        .map_err(|e| e.in_file(file.path()))
    }

    #[inline]
    fn offsets<'a>(&self, file: &'a Frozen) -> Result<Offsets<'a>> {
        Offsets::new(file.section(self.sections[1])?, self.documents as usize)
    }

    fn raw<'a>(&self, file: &'a Frozen, start: usize, end: usize) -> Result<&'a [u8]> {
        let data = file.section(self.sections[0])?;
        let payload = data.get(start..end).ok_or_else(|| Error::corrupt("a payload is outside"))?;
        if start == end {
            return Ok(payload);
        }
        for block in start / RAW_BLOCK..=(end - 1) / RAW_BLOCK {
            let word = self.checked.get(block / 64).map_or(0, |w| w.load(Ordering::Acquire));
            if word >> (block % 64) & 1 == 0 {
                let bytes = &data[block * RAW_BLOCK..data.len().min((block + 1) * RAW_BLOCK)];
                let at = file.entry(self.sections[0]).offset + (block * RAW_BLOCK) as u64;
                check(bytes, file.section(self.sections[2])?, block, at)?;
                if let Some(word) = self.checked.get(block / 64) {
                    word.fetch_or(1 << (block % 64), Ordering::AcqRel);
                }
            }
        }
        Ok(payload)
    }

    /// Appends the payload of a document to a buffer. `kept` caches the last decompressed block,
    /// for reading consecutive documents.
    pub(crate) fn append(
        &self,
        file: &Frozen,
        doc: u32,
        kept: &mut Option<Block>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if self.form == Payload::Raw {
            out.extend_from_slice(&self.get(file, doc)?);
            return Ok(());
        }
        let mut append = || -> Result<()> {
            let offsets = self.offsets(file)?;
            let at = |d: u32| offsets.start(d as usize);
            let block = match kept.take().filter(|block| block.documents.contains(&doc)) {
                Some(block) => kept.insert(block),
                None => kept.insert(self.block(file, doc, &at)?),
            };
            out.extend_from_slice(&block.bytes[block.range(doc, &at)?]);
            Ok(())
        };
        append().map_err(|e| e.in_file(file.path()))
    }

    /// Decompresses the block that contains a document.
    fn block(&self, file: &Frozen, doc: u32, at: &dyn Fn(u32) -> u64) -> Result<Block> {
        let checks = file.section(self.sections[2])?;
        let blocks = checks.len() / 8;
        let firsts = Increasing::new(file.section(self.sections[3])?, blocks + 1)?;
        let ends = Increasing::new(file.section(self.sections[4])?, blocks + 1)?;
        let block = firsts.lower_bound(u64::from(doc) + 1).max(1) - 1;
        let (first, last) = (firsts.get(block) as u32, firsts.get(block + 1) as u32);
        let data = file.section(self.sections[0])?;
        let bytes = data.get(ends.get(block) as usize..ends.get(block + 1) as usize);
        let bytes = bytes.ok_or_else(|| Error::corrupt("a payload block is outside"))?;
        let place = file.entry(self.sections[0]).offset + ends.get(block);
        check(bytes, checks, block, place)?;
        let contradiction =
            || Error::corrupt("a payload block contradicts its documents").at(place);
        if first > doc || last <= doc || last > self.documents {
            return Err(contradiction());
        }
        let size = at(last).checked_sub(at(first)).ok_or_else(contradiction)?;
        if size > bytes.len() as u64 * 50_000 + 1024 {
            return Err(contradiction());
        }
        let wrong = |e: io::Error| Error::corrupt(format!("a payload block: {e}")).at(place);
        let bytes = decompress(bytes, file.section(self.sections[5])?, size).map_err(wrong)?;
        Ok(Block { documents: first..last, bytes })
    }
}

/// A decompressed block: the payloads of a range of documents.
pub(crate) struct Block {
    documents: Range<u32>,
    bytes: Vec<u8>,
}

impl Block {
    /// The range of a document's payload within the block.
    fn range(&self, doc: u32, at: &dyn Fn(u32) -> u64) -> Result<Range<usize>> {
        let offset = |d: u32| at(d).checked_sub(at(self.documents.start));
        match (offset(doc), offset(doc + 1)) {
            (Some(start), Some(end)) if start <= end && end <= self.bytes.len() as u64 => {
                Ok(start as usize..end as usize)
            }
            _ => Err(Error::corrupt("a payload block contradicts its documents")),
        }
    }

    /// Turns the block into the payload of one of its documents.
    fn take(mut self, doc: u32, at: &dyn Fn(u32) -> u64) -> Result<Vec<u8>> {
        let range = self.range(doc, at)?;
        self.bytes.truncate(range.end);
        self.bytes.drain(..range.start);
        Ok(self.bytes)
    }
}

/// Decompresses a zstd frame, whose content should have `size` bytes according to the offsets.
fn decompress(frame: &[u8], dictionary: &[u8], size: u64) -> io::Result<Vec<u8>> {
    if size <= TRUSTED {
        let mut zstd = zstd::bulk::Decompressor::with_dictionary(dictionary)?;
        return zstd.decompress(frame, size as usize);
    }
    let zstd = zstd::stream::read::Decoder::with_dictionary(frame, dictionary)?;
    let mut whole = Vec::new();
    zstd.take(size + 1).read_to_end(&mut whole)?;
    match whole.len() as u64 > size {
        true => Err(io::Error::new(io::ErrorKind::InvalidData, "it is longer than its documents")),
        false => Ok(whole),
    }
}

/// Verifies the checksum of a block.
fn check(bytes: &[u8], checks: &[u8], block: usize, at: u64) -> Result<()> {
    let (got, expected) = (xxh3_64(bytes), u64_at(checks, block * 8));
    if checks.len() < (block + 1) * 8 || got != expected {
        let message =
            format!("checksum of payload block {block} is {got:016x}, expected {expected:016x}");
        return Err(Error::corrupt(message).at(at));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{DiskRef, SimDisk};
    use crate::search::partition::Partition;
    use crate::search::{Document, PartitionBuilder, Schema};
    use std::path::Path;

    #[test]
    fn consecutive_reads_decompress_a_block_once() {
        let payload = Payload::Zstd { level: 3, dictionary: false };
        let mut builder = PartitionBuilder::new(Schema::new([]).unwrap().payload(payload));
        let content = |n: u32| format!("payload {n} ").repeat(n as usize % 7);
        for n in 0..3000 {
            builder.add(&Document::new().payload(content(n))).unwrap();
        }
        let (disk, path) = (SimDisk::new(), Path::new("/one"));
        builder.write_on(&(disk.clone() as DiskRef), path).unwrap();
        let part = Partition::open(&*disk, path, None).unwrap();
        let (mut kept, mut blocks) = (None, 0);
        for doc in (0..3000).chain([17, 2999, 0]) {
            let before = kept.as_ref().map(|block: &Block| block.documents.clone());
            let mut out = b"before".to_vec();
            part.payloads.append(&part.file, doc, &mut kept, &mut out).unwrap();
            assert_eq!(out, format!("before{}", content(doc)).into_bytes());
            blocks += u32::from(before != kept.as_ref().map(|block| block.documents.clone()));
        }
        // About 100 kB in blocks of 16 KiB, and three random accesses.
        assert!((6..=12).contains(&blocks), "{blocks} blocks were decompressed");
    }

    #[test]
    fn memory_is_bounded_by_the_content_of_a_block() {
        let content: Vec<u8> = (0..3 * TRUSTED).map(|i| ((i * i) >> 20) as u8).collect();
        let frame = zstd::bulk::compress(&content, 1).unwrap();
        let size = content.len() as u64;
        assert!(decompress(&frame, &[], size).unwrap() == content);
        let claimed = decompress(&frame, &[], 1 << 40).unwrap();
        assert!(claimed == content && claimed.capacity() <= 4 * content.len());
        for size in [size - 1, 9] {
            assert!(decompress(&frame, &[], size).is_err());
        }
    }
}
