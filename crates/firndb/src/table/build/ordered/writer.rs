//! Takes records in key order, removes duplicates, and writes a table.
//!
//! The first records decide what the whole table needs to know: the alignment of blocks, and the
//! dictionary of zstd. They depend only on the records, so the same records give the same bytes,
//! whether they were sorted or came in order.

use crate::disk::envelope::EnvelopeWriter;
use crate::disk::spool::{Spool, TempSpace};
use crate::table::build::encode::{Item, Run};
use crate::table::build::filter_writer::FilterWriter;
use crate::table::build::gather::GatherContext;
use crate::table::build::hashing::{CollisionLimit, Hashing};
use crate::table::build::ordered::origins::Origins;
use crate::table::build::ordered::runs::Added;
use crate::table::build::pack::{BlockLayout, BlockWriter};
use crate::table::build::partitions::{Partitions, record_lost};
use crate::table::build::raw;
use crate::table::build::sort::{Policy, duplicate, sort};
use crate::table::build::table_writer::{BuildReport, write_rest};
use crate::table::format::compress::{Compressor, SAMPLE_VALUE, SAMPLE_VALUES, train};
use crate::table::format::hash::hash_of;
use crate::table::format::{Meta, PAGE, section};
use crate::table::options::{BuildOptions, Compression, Duplicates, KeyFilter, Order};
use crate::{Error, Result};
use std::sync::atomic::AtomicBool;

/// Bytes of the first records, which decide about the layout: at least the training sample.
const FIRST: usize = 8 << 20;
/// Bytes of records that are packed together.
const BATCH: usize = 1 << 20;
/// Values that one try of the compression takes.
const TRIED: usize = 1000;

/// How messages name the origin of a record.
pub(crate) type Names<'a> = &'a (dyn Fn(u64) -> String + Sync);

/// Records with their concatenated keys and values.
#[derive(Default)]
struct Batch {
    items: Vec<Item>,
    bytes: Vec<u8>,
}

impl Batch {
    fn run(&self) -> Run<'_> {
        Run { items: &self.items, bytes: &self.bytes }
    }
}

/// Writes a table in key order.
pub(crate) struct OrderedWriter<'a> {
    options: &'a BuildOptions,
    space: &'a TempSpace,
    names: Names<'a>,
    /// The last record, of which there may be duplicates: origin, key, value.
    last: Option<(u64, Vec<u8>, Vec<u8>)>,
    duplicates: u64,
    batch: Batch,
    meta: Meta,
    dictionary: Vec<u8>,
    /// `None` until the first records have decided about the layout.
    blocks: Option<BlockWriter>,
    /// One per thread, if each value is compressed.
    compressors: Vec<Compressor>,
    /// The hashes of all keys, if there will be a filter.
    hashes: Option<Partitions>,
    /// The origins of all records, if they may be taken back.
    origins: Option<Origins>,
}

/// What was written of a table that will not be finished.
pub(crate) struct Unfinished {
    pub(crate) blocks: BlockWriter,
    pub(crate) dictionary: Vec<u8>,
    pub(crate) origins: Origins,
    pub(crate) duplicates: u64,
}

impl<'a> OrderedWriter<'a> {
    pub(crate) fn new(
        options: &'a BuildOptions,
        space: &'a TempSpace,
        names: Names<'a>,
    ) -> OrderedWriter<'a> {
        let meta = Meta {
            records: 0,
            blocks: 0,
            slots: 0,
            key_bytes: 0,
            value_bytes: 0,
            longest_block: 0,
            block_size: options.block_size as u32,
            longest_key: 0,
            longest_value: 0,
            compression: options.compression,
            filter: options.filter,
            paged: false,
            seed: 0,
            order: Order::Key,
        };
        let hashes = (options.filter != KeyFilter::None).then(|| {
            let space = TempSpace { memory: options.memory_limit / 8, ..space.clone() };
            Partitions::new(space, Hashing::new(hash_in_key))
        });
        OrderedWriter {
            options,
            space,
            names,
            last: None,
            duplicates: 0,
            batch: Batch::default(),
            meta,
            dictionary: Vec::new(),
            blocks: None,
            compressors: Vec::new(),
            hashes,
            origins: None,
        }
    }

    /// Keeps the origins of records, so that [`OrderedWriter::stop`] is possible.
    pub(crate) fn keep_origins(&mut self, origins: Origins) {
        self.origins = Some(origins);
    }

    /// Takes the next record. Its key is not below the last one.
    pub(crate) fn push(&mut self, out: &mut EnvelopeWriter, added: Added) -> Result<()> {
        let Added { origin, key, value } = added;
        let Some((last_origin, last_key, last_value)) = &mut self.last else {
            self.last = Some((origin, key.to_vec(), value.to_vec()));
            return Ok(());
        };
        if key == last_key {
            self.duplicates += 1;
            let is_first = (origin, value) < (*last_origin, &last_value[..]);
            let is_kept = match self.options.duplicates {
                Duplicates::Error => {
                    let origins = [origin.min(*last_origin), origin.max(*last_origin)];
                    return Err(duplicate(key, origins, self.names));
                }
                Duplicates::First => is_first,
                Duplicates::Last => !is_first,
            };
            if is_kept {
                *last_origin = origin;
                last_value.clear();
                last_value.extend_from_slice(value);
            }
            return Ok(());
        }
        let mut last = self.last.take().unwrap_or_default();
        self.add(out, last.0, &last.1, &last.2)?;
        last.0 = origin;
        last.1.clear();
        last.1.extend_from_slice(key);
        last.2.clear();
        last.2.extend_from_slice(value);
        self.last = Some(last);
        Ok(())
    }

    /// Adds a record that has no duplicates.
    fn add(
        &mut self,
        out: &mut EnvelopeWriter,
        origin: u64,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        if let Some(origins) = &mut self.origins {
            origins.push(origin)?;
        }
        let hash = hash_of(key, 0);
        if let Some(hashes) = &mut self.hashes {
            let bytes = hash.to_be_bytes();
            let record = raw::Record::joined(&bytes, bytes.len());
            hashes.push(raw::Added { hash, origin: 0, record })?;
        }
        self.meta.records += 1;
        self.meta.key_bytes += key.len() as u64;
        self.meta.value_bytes += value.len() as u64;
        self.meta.longest_key = self.meta.longest_key.max(key.len() as u32);
        self.meta.longest_value = self.meta.longest_value.max(value.len() as u32);
        self.batch.items.push(Item { hash, key: key.len() as u32, value: value.len() as u32 });
        self.batch.bytes.extend_from_slice(key);
        self.batch.bytes.extend_from_slice(value);
        let enough = if self.blocks.is_some() { BATCH } else { FIRST };
        if self.batch.bytes.len() + HEAD_BYTES * self.batch.items.len() < enough {
            return Ok(());
        }
        self.pack(out)
    }

    /// Packs the batch into blocks.
    fn pack(&mut self, out: &mut EnvelopeWriter) -> Result<()> {
        let mut batch = std::mem::take(&mut self.batch);
        let mut blocks = match self.blocks.take() {
            Some(blocks) => blocks,
            None => self.begin(out, batch.run())?,
        };
        if !self.compressors.is_empty() {
            batch = self.compressed(&batch)?;
        }
        blocks.push(out, batch.run())?;
        self.blocks = Some(blocks);
        batch.items.clear();
        batch.bytes.clear();
        self.batch = batch;
        Ok(())
    }

    /// Decides about the layout, and begins the blocks.
    fn begin(&mut self, out: &mut EnvelopeWriter, first: Run) -> Result<BlockWriter> {
        let compression = self.options.compression;
        let mean = self.train(first)?;
        let compress_blocks = matches!(compression, Compression::Blocks { .. });
        if let Compression::Records { .. } = compression {
            self.compressors = (0..self.options.threads)
                .map(|_| Compressor::new(compression, &self.dictionary))
                .collect::<Result<_>>()?;
        }
        let layout = BlockLayout {
            block_size: self.options.block_size,
            order: Order::Key,
            slots: 0,
            // As in hash order: the unused end of a block is at most a thirty-second of it.
            paged: !compress_blocks && mean <= self.options.block_size as u64 / 32,
            compressor: match compress_blocks {
                true => Some(Compressor::new(compression, &self.dictionary)?),
                false => None,
            },
        };
        self.meta.paged = layout.paged;
        out.begin_at(section::BLOCKS, true, PAGE)?;
        Ok(BlockWriter::new(layout, None))
    }

    /// Trains the dictionary on the first values, and returns the mean stored size of a record.
    fn train(&mut self, first: Run) -> Result<u64> {
        let compression = self.options.compression;
        let records = first.items.len().max(1) as u64;
        if compression == Compression::None {
            return Ok((first.bytes.len() as u64).div_ceil(records));
        }
        let (mut sample, mut lengths, mut keys) = (Vec::new(), Vec::new(), 0);
        for (_, key, value) in first.iter() {
            if sample.len() >= compression.sample() || lengths.len() >= SAMPLE_VALUES {
                break;
            }
            keys += key.len();
            let value = &value[..value.len().min(SAMPLE_VALUE)];
            sample.extend_from_slice(value);
            lengths.push(value.len());
        }
        self.dictionary = train(compression, &sample, &lengths);
        let mut compressor = Compressor::new(compression, &self.dictionary)?;
        let (mut packed, mut at) = (Vec::new(), 0);
        for &len in lengths.iter().take(TRIED) {
            compressor.compress(&sample[at..at + len], &mut packed)?;
            at += len;
        }
        let mean = packed.len() / lengths.len().clamp(1, TRIED) + keys / lengths.len().max(1);
        Ok(mean as u64)
    }

    /// The batch with each value compressed, by all threads.
    fn compressed(&mut self, batch: &Batch) -> Result<Batch> {
        let threads = self.compressors.len();
        let share = batch.items.len().div_ceil(threads).max(1);
        let mut runs = Vec::new();
        let mut left = batch.run();
        while !left.items.is_empty() {
            let [run, rest] = left.split(share.min(left.items.len()));
            runs.push(run);
            left = rest;
        }
        let jobs = self.compressors.iter_mut().zip(runs);
        let parts: Vec<Result<Batch>> = std::thread::scope(|scope| {
            let start = |(with, run)| scope.spawn(move || compress(with, run));
            let threads: Vec<_> = jobs.map(start).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|e| std::panic::resume_unwind(e)))
                .collect()
        });
        let mut all = Batch::default();
        for part in parts {
            let part = part?;
            all.items.extend_from_slice(&part.items);
            all.bytes.extend_from_slice(&part.bytes);
        }
        Ok(all)
    }

    /// Packs all records that were taken.
    fn pack_rest(&mut self, out: &mut EnvelopeWriter) -> Result<()> {
        if let Some((origin, key, value)) = self.last.take() {
            self.add(out, origin, &key, &value)?;
        }
        self.pack(out)
    }

    /// Writes all records to blocks, and ends the table without its other sections.
    pub(crate) fn stop(mut self, out: &mut EnvelopeWriter) -> Result<Unfinished> {
        self.pack_rest(out)?;
        let lost = || record_lost();
        let mut blocks = self.blocks.take().ok_or_else(lost)?;
        blocks.write_pending(out)?;
        let mut origins = self.origins.take().ok_or_else(lost)?;
        origins.end_sequence()?;
        let (dictionary, duplicates) = (self.dictionary, self.duplicates);
        Ok(Unfinished { blocks, dictionary, origins, duplicates })
    }

    /// Packs what is left, and writes all other sections.
    pub(crate) fn finish(mut self, out: &mut EnvelopeWriter) -> Result<BuildReport> {
        self.pack_rest(out)?;
        let blocks = self.blocks.take().ok_or_else(record_lost)?;
        let blocks = blocks.finish(out)?;
        out.end();
        let mut spilled = 0;
        if let Some(hashes) = self.hashes.take() {
            spilled = self.write_filter(out, hashes)?;
        }
        let meta = write_rest(out, self.options, &self.dictionary, blocks, self.meta)?;
        let bytes = meta.key_bytes + meta.value_bytes;
        Ok(BuildReport { records: meta.records, duplicates: self.duplicates, bytes, spilled })
    }

    /// Writes the filter. The hashes are sorted as the records of a table in hash order are.
    fn write_filter(&self, out: &mut EnvelopeWriter, mut hashes: Partitions) -> Result<u64> {
        hashes.seal()?;
        let space = TempSpace { memory: self.options.memory_limit / 16, ..self.space.clone() };
        let mut filter =
            FilterWriter::new(self.options.filter, self.meta.records, Spool::new(space));
        let (stop, collisions) = (AtomicBool::new(false), CollisionLimit::new(usize::MAX / 2));
        let limit = self.options.memory_limit / 8;
        let duplicates = Duplicates::First;
        let context = GatherContext { limit, duplicates, stop: &stop, collisions: &collisions };
        let policy = Policy { hash: hashes.hash(), duplicates, name: self.names };
        for number in (0..hashes.len()).filter(|&number| !hashes.is_empty(number)) {
            hashes.gather(number, context, &mut |pieces, _| {
                let sorted = sort(pieces, &hashes.pools, policy, None)?;
                sorted.run().items.iter().try_for_each(|item| filter.push(item.hash))?;
                sorted.recycle(&hashes.pools);
                Ok(())
            })?;
            hashes.release(number);
        }
        filter.finish(out, section::FILTER)?;
        Ok(hashes.spilled())
    }
}

/// Bytes of memory per record of a batch, in addition to key and value.
const HEAD_BYTES: usize = size_of::<Item>();

/// The hash that is stored as a key.
fn hash_in_key(key: &[u8], _: u64) -> u64 {
    key.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// Compresses each value of a run.
fn compress(compressor: &mut Compressor, run: Run) -> Result<Batch> {
    let mut packed = Batch::default();
    for (item, key, value) in run.iter() {
        packed.bytes.extend_from_slice(key);
        let begin = packed.bytes.len();
        compressor.compress(value, &mut packed.bytes)?;
        let Ok(len) = u32::try_from(packed.bytes.len() - begin) else {
            let raw = value.len();
            let message = format!("a value of {raw} bytes exceeds the limit after compression");
            return Err(Error::invalid(message));
        };
        packed.items.push(Item { value: len, ..*item });
    }
    Ok(packed)
}
