//! Writes a table: threads sort partitions, and the caller's thread packs their records in order.

use crate::bytes::monotonic;
use crate::disk::envelope::EnvelopeWriter;
use crate::disk::spool::{Spool, TempSpace};
use crate::table::build::filter_writer::FilterWriter;
use crate::table::build::gather::{GatherContext, limit};
use crate::table::build::hashing::{CollisionLimit, Seeds};
use crate::table::build::index_writer::{IndexSpool, MIN_INDEXED_RECORD};
use crate::table::build::pack::{BlockLayout, BlockWriter, WrittenBlocks};
use crate::table::build::partitions::Partitions;
use crate::table::build::reseed::{CollisionCheck, ReseedContext};
use crate::table::build::sort::{Policy, Sorted, sort};
use crate::table::format::compress::{Compressor, SAMPLE_VALUE, SAMPLE_VALUES, train};
use crate::table::format::directory::slots_for;
use crate::table::format::{Meta, PAGE, section};
use crate::table::options::{BuildOptions, Compression, Duplicates, Order, Progress};
use crate::{Error, ErrorKind, Result};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// What a build wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildReport {
    /// Records in the table.
    pub records: u64,
    /// Records that were dropped because their key occurred before.
    pub duplicates: u64,
    /// Bytes of keys and values, before compression.
    pub bytes: u64,
    /// Bytes written to temporary files.
    pub spilled: u64,
}

/// All records of a table, and the options of the build.
pub(crate) struct BuildInput {
    pub(crate) options: BuildOptions,
    pub(crate) partitions: Partitions,
    pub(crate) records: u64,
    /// Bytes of keys and values.
    pub(crate) bytes: u64,
    pub(crate) name: Box<dyn Fn(u64) -> String + Sync + Send>,
    /// Limit of keys per bin.
    pub(crate) collisions: CollisionLimit,
    pub(crate) seeds: Seeds,
}

/// Receives the progress of a build.
pub(crate) type ProgressFn<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

pub(crate) fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the build was cancelled")
}

/// Writes the sections after the filter, and returns the completed meta section.
pub(crate) fn write_rest(
    out: &mut EnvelopeWriter,
    options: &BuildOptions,
    dictionary: &[u8],
    blocks: WrittenBlocks,
    meta: Meta,
) -> Result<Meta> {
    let (id, bytes) = &blocks.locator;
    out.section(*id, bytes)?;
    if let Some(starts) = blocks.starts {
        out.section(section::STARTS, &monotonic::encode(starts.into_iter()))?;
    }
    let given = [
        (section::DICTIONARY, dictionary),
        (section::METADATA, &options.metadata),
        (section::VALUE_SCHEMA, options.value_schema.as_bytes()),
    ];
    for (id, bytes) in given.into_iter().filter(|(_, bytes)| !bytes.is_empty()) {
        out.section(id, bytes)?;
    }
    if let Some(pointers) = blocks.pointers {
        pointers.finish(out, meta.records, blocks.bytes)?;
    }
    let meta = Meta { blocks: blocks.blocks, longest_block: blocks.longest, ..meta };
    out.section(section::META, &meta.encode())?;
    Ok(meta)
}

impl BuildInput {
    /// Writes all sections.
    pub(crate) fn write(
        &self,
        out: &mut EnvelopeWriter,
        progress: &mut ProgressFn,
    ) -> Result<BuildReport> {
        let (dictionary, mean) = self.train()?;
        let compress_blocks = matches!(self.options.compression, Compression::Blocks { .. });
        let layout = BlockLayout {
            block_size: self.options.block_size,
            order: Order::Hash,
            slots: slots_for(self.records),
            // The unused end of a block is then at most a thirty-second of it.
            paged: !compress_blocks && mean <= self.options.block_size as u64 / 32,
            compressor: match compress_blocks {
                true => Some(Compressor::new(self.options.compression, &dictionary)?),
                false => None,
            },
        };
        let mut totals = Totals::new(&self.options, &layout, self.partitions.hash().seed);
        let mut collision_check = CollisionCheck::new(&self.collisions, layout.slots);
        out.begin_at(section::BLOCKS, true, PAGE)?;
        let is_indexed = !compress_blocks && mean >= MIN_INDEXED_RECORD;
        let mut writer =
            BlockWriter::new(layout, is_indexed.then(|| IndexSpool::new(self.spool())));
        let mut filter = FilterWriter::new(self.options.filter, self.records, self.spool());
        self.each_sorted(&dictionary, &mut |sorted| {
            if let Some(sorted) = sorted {
                totals.add(&sorted);
                let run = sorted.run();
                collision_check.check(run.items)?;
                run.items.iter().try_for_each(|item| filter.push(item.hash))?;
                writer.push(out, run)?;
                sorted.recycle(&self.partitions.pools);
            }
            let done = totals.meta.records + totals.duplicates;
            match progress(Progress { done, total: self.records }) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(cancelled()),
            }
        })?;
        let blocks = writer.finish(out)?;
        out.end();
        filter.finish(out, section::FILTER)?;
        let meta = write_rest(out, &self.options, &dictionary, blocks, totals.meta)?;
        Ok(BuildReport {
            records: meta.records,
            duplicates: totals.duplicates,
            bytes: meta.key_bytes + meta.value_bytes,
            spilled: self.partitions.spilled(),
        })
    }

    /// The same records, partitioned under the next seed.
    pub(crate) fn reseeded(self, progress: &mut ProgressFn) -> Result<BuildInput> {
        let BuildInput { options, partitions, records, bytes, name, collisions, mut seeds } = self;
        let (collisions, stop) = (CollisionLimit::new(collisions.max_keys), AtomicBool::new(false));
        let limit = limit(options.memory_limit, options.threads, records, bytes);
        let duplicates = options.duplicates;
        let mut with = ReseedContext {
            context: GatherContext { limit, duplicates, stop: &stop, collisions: &collisions },
            name: &name,
            on_progress: &mut || match progress(Progress { done: 0, total: records }) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(cancelled()),
            },
        };
        let partitions = partitions.reseeded(&mut seeds, &mut with)?;
        Ok(BuildInput { options, partitions, records, bytes, name, collisions, seeds })
    }

    fn spool(&self) -> Spool {
        Spool::new(TempSpace {
            memory: self.options.memory_limit / 16,
            ..self.partitions.temp_space().clone()
        })
    }

    /// Trains a dictionary on the first values in table order, which does not depend on the order
    /// in which records were added. Returns it with the mean stored size of a record.
    fn train(&self) -> Result<(Vec<u8>, u64)> {
        let compression = self.options.compression;
        let mean = self.bytes.div_ceil(self.records.max(1));
        if compression == Compression::None {
            return Ok((Vec::new(), mean));
        }
        let (mut sample, mut lengths, mut keys) = (Vec::new(), Vec::new(), 0);
        let policy = Policy {
            hash: self.partitions.hash(),
            duplicates: Duplicates::First,
            name: &self.name,
        };
        let stop = AtomicBool::new(false);
        let context = GatherContext { duplicates: Duplicates::First, ..self.context(&stop) };
        let mut full = false;
        for number in 0..self.partitions.len() {
            self.partitions.gather(number, context, &mut |pieces, _| {
                let sorted = sort(pieces, &self.partitions.pools, policy, None)?;
                for (_, key, value) in sorted.run().iter() {
                    full |= sample.len() >= compression.sample() || lengths.len() >= SAMPLE_VALUES;
                    if full {
                        break;
                    }
                    keys += key.len();
                    let value = &value[..value.len().min(SAMPLE_VALUE)];
                    sample.extend_from_slice(value);
                    lengths.push(value.len());
                }
                sorted.recycle(&self.partitions.pools);
                Ok(())
            })?;
            if full {
                break;
            }
        }
        let dictionary = train(compression, &sample, &lengths);
        let (mut compressor, mut packed) = (Compressor::new(compression, &dictionary)?, Vec::new());
        let mut at = 0;
        for &len in lengths.iter().take(1000) {
            compressor.compress(&sample[at..at + len], &mut packed)?;
            at += len;
        }
        let tried = lengths.len().clamp(1, 1000);
        let mean = packed.len() / tried + keys / lengths.len().max(1);
        Ok((dictionary, mean as u64))
    }

    /// How partitions are read back.
    fn context<'a>(&'a self, stop: &'a AtomicBool) -> GatherContext<'a> {
        let (memory, threads) = (self.options.memory_limit, self.options.threads);
        let limit = limit(memory, threads, self.records, self.bytes);
        GatherContext {
            limit,
            duplicates: self.options.duplicates,
            stop,
            collisions: &self.collisions,
        }
    }

    /// Length of the queue of each sorter, such that queued records take no more memory than those
    /// that it sorts at once.
    fn queue_len(&self, limit: usize) -> usize {
        let largest = self.partitions.partitions.iter().map(|part| part.bytes).max();
        (limit as u64 / largest.unwrap_or(0).max(1)).clamp(1, MAX_QUEUE_LEN) as usize
    }

    /// Passes all records in order to `take`, sorted by the threads of the build. Passes `None`
    /// regularly while sorting takes long, so that progress can be reported.
    fn each_sorted(
        &self,
        dictionary: &[u8],
        take: &mut dyn FnMut(Option<Sorted>) -> Result<()>,
    ) -> Result<()> {
        let threads = self.options.threads;
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let start = |worker| {
                let context = self.context(&stop);
                let (send, receive) = sync_channel(self.queue_len(context.limit));
                scope.spawn(move || {
                    self.sort_partitions(worker, threads, dictionary, context, &send)
                });
                receive
            };
            let workers: Vec<Receiver<Message>> = (0..threads).map(start).collect();
            let mut numbers =
                (0..self.partitions.len()).filter(|&number| !self.partitions.is_empty(number));
            let taken = numbers.try_for_each(|number| {
                loop {
                    match workers[number % threads].recv_timeout(PROGRESS_INTERVAL) {
                        Ok(Message::Sorted(sorted)) => take(Some(sorted))?,
                        Ok(Message::End) => return Ok(()),
                        Ok(Message::Failed(e)) => return Err(e),
                        Err(RecvTimeoutError::Timeout) => take(None)?,
                        Err(RecvTimeoutError::Disconnected) => {
                            return Err(Error::new(ErrorKind::Failed, "a sorting thread stopped"));
                        }
                    }
                }
            });
            stop.store(taken.is_err(), Ordering::Relaxed);
            taken
        })
    }

    /// Sorts partitions `worker`, `worker + threads`, ...
    fn sort_partitions(
        &self,
        worker: usize,
        threads: usize,
        dictionary: &[u8],
        context: GatherContext,
        send: &SyncSender<Message>,
    ) {
        let sort_all = || -> Result<()> {
            let policy = Policy {
                hash: self.partitions.hash(),
                duplicates: self.options.duplicates,
                name: &self.name,
            };
            let mut compressor = match self.options.compression {
                compression @ Compression::Records { .. } => {
                    Some(Compressor::new(compression, dictionary)?)
                }
                _ => None,
            };
            let own = (worker..self.partitions.len()).step_by(threads);
            for number in own.filter(|&n| !self.partitions.is_empty(n)) {
                self.partitions.gather(number, context, &mut |pieces, left_out| {
                    let mut sorted =
                        sort(pieces, &self.partitions.pools, policy, compressor.as_mut())?;
                    sorted.totals.duplicates += left_out;
                    send.send(Message::Sorted(sorted)).map_err(|_| receiver_gone())
                })?;
                send.send(Message::End).map_err(|_| receiver_gone())?;
            }
            Ok(())
        };
        if let Err(e) = sort_all() {
            // If the receiver is gone, the build has failed with another error.
            let _ = send.send(Message::Failed(e));
        }
    }
}

/// Longest time between two reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Longest queue of a sorter. Waking a thread takes about a tenth of the time of sorting a small
/// partition; a longer queue makes that rarer.
const MAX_QUEUE_LEN: u64 = 8;

enum Message {
    Sorted(Sorted),
    /// The partition is complete.
    End,
    Failed(Error),
}

fn receiver_gone() -> Error {
    Error::new(ErrorKind::Cancelled, "the build ended")
}

/// Totals of the records that were written.
struct Totals {
    meta: Meta,
    duplicates: u64,
}

impl Totals {
    fn new(options: &BuildOptions, layout: &BlockLayout, seed: u64) -> Totals {
        let meta = Meta {
            records: 0,
            blocks: 0,
            slots: layout.slots,
            key_bytes: 0,
            value_bytes: 0,
            longest_block: 0,
            block_size: layout.block_size as u32,
            longest_key: 0,
            longest_value: 0,
            compression: options.compression,
            filter: options.filter,
            paged: layout.paged,
            seed,
            order: Order::Hash,
        };
        Totals { meta, duplicates: 0 }
    }

    fn add(&mut self, sorted: &Sorted) {
        let (meta, totals) = (&mut self.meta, &sorted.totals);
        meta.records += sorted.run().items.len() as u64;
        meta.key_bytes += totals.key_bytes;
        meta.value_bytes += totals.value_bytes;
        meta.longest_key = meta.longest_key.max(totals.longest_key as u32);
        meta.longest_value = meta.longest_value.max(totals.longest_value as u32);
        self.duplicates += totals.duplicates;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{DiskRef, SimDisk};
    use crate::table::build::hashing::{Hashing, MAX_KEYS_PER_BIN};
    use crate::table::build::raw::{Added, Record};
    use crate::table::format::hash::hash_of;

    #[test]
    fn queue_is_shorter_for_large_partitions() {
        let collected = |longest: usize| {
            let temp_space =
                TempSpace { disk: SimDisk::new() as DiskRef, folder: "/".into(), memory: 1 << 24 };
            let hashing = Hashing::new(hash_of);
            let mut partitions = Partitions::new(temp_space, hashing);
            for origin in 0..20_000u64 {
                let key = origin.to_le_bytes();
                let value = vec![1; if origin == 77 { longest } else { 40 }];
                let record = Record::new(&key, &value);
                partitions.push(Added { hash: hashing.of(&key), origin, record }).unwrap();
            }
            partitions.seal().unwrap();
            let options = BuildOptions::default();
            let name = Box::new(|origin| format!("{origin}"));
            let (collisions, seeds) = (CollisionLimit::new(MAX_KEYS_PER_BIN), Seeds::new(hashing));
            BuildInput { options, partitions, records: 20_000, bytes: 0, name, collisions, seeds }
        };
        assert_eq!(collected(40).queue_len(1 << 20), MAX_QUEUE_LEN as usize);
        assert_eq!(collected(1 << 18).queue_len(1 << 20), 3);
        assert_eq!(collected(1 << 20).queue_len(1 << 20), 1);
        assert_eq!(collected(1 << 21).queue_len(1 << 20), 1);
    }
}
