//! Writes the table: partitions are sorted in a few threads, and their records packed in order.

use crate::bytes::frozen::FrozenWriter;
use crate::bytes::increasing;
use crate::disk::spool::{Place, Spool};
use crate::table::build::filter_writer::FilterWriter;
use crate::table::build::gather::{Wanted, limit};
use crate::table::build::hashing::{Limit, Seeds};
use crate::table::build::index_writer::{INDEXED, Pointers};
use crate::table::build::pack::{BlockWriter, Blocks, Form};
use crate::table::build::partitions::Partitions;
use crate::table::build::reseed::{Crowds, Reseeding};
use crate::table::build::sort::{Policy, Sorted, sort};
use crate::table::format::compress::{Packer, SAMPLE_VALUE, SAMPLE_VALUES, train};
use crate::table::format::directory::slots_for;
use crate::table::format::{Meta, PAGE, section};
use crate::table::options::{BuildOptions, Compression, Duplicates, Progress};
use crate::{Error, ErrorKind, Result};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// What was built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuildReport {
    /// Records in the table.
    pub records: u64,
    /// Records that were left out because their keys were there already.
    pub duplicates: u64,
    /// Bytes of keys and values, before compression.
    pub bytes: u64,
    /// Bytes written to a temporary file on the way.
    pub spilled: u64,
}

/// All records of a table, collected.
pub(crate) struct Collected {
    pub(crate) options: BuildOptions,
    pub(crate) partitions: Partitions,
    pub(crate) records: u64,
    /// Of keys and values.
    pub(crate) bytes: u64,
    pub(crate) name: Box<dyn Fn(u64) -> String + Sync + Send>,
    /// Of keys that share a place.
    pub(crate) crowd: Limit,
    pub(crate) seeds: Seeds,
}

/// Tells how far a build has come.
pub(crate) type Report<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the build was cancelled")
}

impl Collected {
    /// Writes everything but the envelope.
    pub(crate) fn write(
        &self,
        out: &mut FrozenWriter,
        progress: &mut Report,
    ) -> Result<BuildReport> {
        let (dictionary, mean) = self.train()?;
        let blocks_packed = matches!(self.options.compression, Compression::Blocks { .. });
        let form = Form {
            block_size: self.options.block_size,
            slots: slots_for(self.records),
            // Then the end of a block that no record fits is at most a thirty-second of it.
            paged: !blocks_packed && mean <= self.options.block_size as u64 / 32,
            packer: match blocks_packed {
                true => Some(Packer::new(self.options.compression, &dictionary)?),
                false => None,
            },
        };
        let mut facts = Facts::new(&self.options, &form, self.partitions.hash().seed);
        let mut crowds = Crowds::new(&self.crowd, form.slots);
        out.begin_at(section::BLOCKS, true, PAGE)?;
        let is_indexed = !blocks_packed && mean >= INDEXED;
        let mut writer = BlockWriter::new(form, is_indexed.then(|| Pointers::new(self.spool())));
        let mut filter = FilterWriter::new(self.options.filter, self.records, self.spool());
        self.each_sorted(&dictionary, &mut |sorted| {
            if let Some(sorted) = sorted {
                facts.add(&sorted);
                let run = sorted.run();
                crowds.check(run.items)?;
                run.items.iter().try_for_each(|item| filter.push(item.hash))?;
                writer.push(out, run)?;
                sorted.recycle(&self.partitions.pools);
            }
            let done = facts.meta.records + facts.duplicates;
            match progress(Progress { done, total: self.records }) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(cancelled()),
            }
        })?;
        let blocks = writer.finish(out)?;
        out.end();
        filter.finish(out, section::FILTER)?;
        self.write_rest(out, &dictionary, blocks, facts)
    }

    /// The same records, to be written by the hash of the next seed.
    pub(crate) fn reseeded(self, progress: &mut Report) -> Result<Collected> {
        let Collected { options, partitions, records, bytes, name, crowd, mut seeds } = self;
        let (crowd, stop) = (Limit::new(crowd.most), AtomicBool::new(false));
        let limit = limit(options.memory, options.threads, records, bytes);
        let duplicates = options.duplicates;
        let mut with = Reseeding {
            wanted: Wanted { limit, duplicates, stop: &stop, crowd: &crowd },
            name: &name,
            go_on: &mut || match progress(Progress { done: 0, total: records }) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(cancelled()),
            },
        };
        let partitions = partitions.reseeded(&mut seeds, &mut with)?;
        Ok(Collected { options, partitions, records, bytes, name, crowd, seeds })
    }

    fn write_rest(
        &self,
        out: &mut FrozenWriter,
        dictionary: &[u8],
        blocks: Blocks,
        mut facts: Facts,
    ) -> Result<BuildReport> {
        out.section(section::DIRECTORY, &blocks.directory)?;
        if let Some(starts) = blocks.starts {
            out.section(section::STARTS, &increasing::encode(starts.into_iter()))?;
        }
        let given = [
            (section::DICTIONARY, dictionary),
            (section::METADATA, &self.options.metadata),
            (section::VALUE_SCHEMA, self.options.value_schema.as_bytes()),
        ];
        for (id, bytes) in given.into_iter().filter(|(_, bytes)| !bytes.is_empty()) {
            out.section(id, bytes)?;
        }
        if let Some(pointers) = blocks.pointers {
            pointers.finish(out, facts.meta.records, blocks.bytes)?;
        }
        facts.meta.blocks = blocks.blocks;
        facts.meta.longest_block = blocks.longest;
        out.section(section::META, &facts.meta.encode())?;
        Ok(BuildReport {
            records: facts.meta.records,
            duplicates: facts.duplicates,
            bytes: facts.meta.key_bytes + facts.meta.value_bytes,
            spilled: self.partitions.spilled(),
        })
    }

    fn spool(&self) -> Spool {
        Spool::new(Place { memory: self.options.memory / 16, ..self.partitions.place().clone() })
    }

    /// A dictionary trained on the first values in the order of the table, which no order of
    /// adding changes, and the mean size that a record will have.
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
        let wanted = Wanted { duplicates: Duplicates::First, ..self.wanted(&stop) };
        let mut full = false;
        for number in 0..self.partitions.len() {
            self.partitions.gather(number, wanted, &mut |pieces, _| {
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
        let (mut packer, mut packed) = (Packer::new(compression, &dictionary)?, Vec::new());
        let mut at = 0;
        for &len in lengths.iter().take(1000) {
            packer.pack(&sample[at..at + len], &mut packed)?;
            at += len;
        }
        let tried = lengths.len().clamp(1, 1000);
        let mean = packed.len() / tried + keys / lengths.len().max(1);
        Ok((dictionary, mean as u64))
    }

    /// How partitions are read back.
    fn wanted<'a>(&'a self, stop: &'a AtomicBool) -> Wanted<'a> {
        let (memory, threads) = (self.options.memory, self.options.threads);
        let limit = limit(memory, threads, self.records, self.bytes);
        Wanted { limit, duplicates: self.options.duplicates, stop, crowd: &self.crowd }
    }

    /// How many messages of a sorter may wait: with no more bytes of records than it sorts at once.
    fn waiting(&self, limit: usize) -> usize {
        let largest = self.partitions.parts.iter().map(|part| part.bytes).max();
        (limit as u64 / largest.unwrap_or(0).max(1)).clamp(1, WAITING) as usize
    }

    /// Hands over all records in order, sorted by the threads of the build; nothing now and then,
    /// while they take long.
    fn each_sorted(
        &self,
        dictionary: &[u8],
        take: &mut dyn FnMut(Option<Sorted>) -> Result<()>,
    ) -> Result<()> {
        let threads = self.options.threads;
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let start = |worker| {
                let wanted = self.wanted(&stop);
                let (send, receive) = sync_channel(self.waiting(wanted.limit));
                scope.spawn(move || self.sort_every(worker, threads, dictionary, wanted, &send));
                receive
            };
            let workers: Vec<Receiver<Message>> = (0..threads).map(start).collect();
            let mut numbers =
                (0..self.partitions.len()).filter(|&number| !self.partitions.is_empty(number));
            let taken = numbers.try_for_each(|number| {
                loop {
                    match workers[number % threads].recv_timeout(PATIENCE) {
                        Ok(Message::Sorted(sorted)) => take(Some(sorted))?,
                        Ok(Message::End) => return Ok(()),
                        Ok(Message::Failed(e)) => return Err(e),
                        Err(RecvTimeoutError::Timeout) => take(None)?,
                        Err(RecvTimeoutError::Disconnected) => {
                            return Err(Error::new(ErrorKind::Failed, "a sorter stopped"));
                        }
                    }
                }
            });
            stop.store(taken.is_err(), Ordering::Relaxed);
            taken
        })
    }

    /// Sorts partitions number `worker`, `worker + threads`, ...
    fn sort_every(
        &self,
        worker: usize,
        threads: usize,
        dictionary: &[u8],
        wanted: Wanted,
        send: &SyncSender<Message>,
    ) {
        let sort_all = || -> Result<()> {
            let policy = Policy {
                hash: self.partitions.hash(),
                duplicates: self.options.duplicates,
                name: &self.name,
            };
            let mut packer = match self.options.compression {
                compression @ Compression::Records { .. } => {
                    Some(Packer::new(compression, dictionary)?)
                }
                _ => None,
            };
            let own = (worker..self.partitions.len()).step_by(threads);
            for number in own.filter(|&n| !self.partitions.is_empty(n)) {
                self.partitions.gather(number, wanted, &mut |pieces, left_out| {
                    let mut sorted = sort(pieces, &self.partitions.pools, policy, packer.as_mut())?;
                    sorted.counted.duplicates += left_out;
                    send.send(Message::Sorted(sorted)).map_err(|_| nobody_listens())
                })?;
                send.send(Message::End).map_err(|_| nobody_listens())?;
            }
            Ok(())
        };
        if let Err(e) = sort_all() {
            // If nobody listens, the build has failed with another error.
            let _ = send.send(Message::Failed(e));
        }
    }
}

/// How long a build waits for a sorter before it says that it is still there.
const PATIENCE: Duration = Duration::from_millis(100);

/// Messages of a sorter that wait, if partitions are small: to wake a thread takes about a tenth of
/// the time of sorting one, so the more there are the seldomer a core has nothing to do.
const WAITING: u64 = 8;

enum Message {
    Sorted(Sorted),
    /// All records of a partition were sent.
    End,
    Failed(Error),
}

fn nobody_listens() -> Error {
    Error::new(ErrorKind::Cancelled, "the build ended")
}

/// What is counted while records pass.
struct Facts {
    meta: Meta,
    duplicates: u64,
}

impl Facts {
    fn new(options: &BuildOptions, form: &Form, seed: u64) -> Facts {
        let meta = Meta {
            records: 0,
            blocks: 0,
            slots: form.slots,
            key_bytes: 0,
            value_bytes: 0,
            longest_block: 0,
            block_size: form.block_size as u32,
            longest_key: 0,
            longest_value: 0,
            compression: options.compression,
            filter: options.filter,
            paged: form.paged,
            seed,
        };
        Facts { meta, duplicates: 0 }
    }

    fn add(&mut self, sorted: &Sorted) {
        let (meta, counted) = (&mut self.meta, &sorted.counted);
        meta.records += sorted.run().items.len() as u64;
        meta.key_bytes += counted.key_bytes;
        meta.value_bytes += counted.value_bytes;
        meta.longest_key = meta.longest_key.max(counted.longest_key as u32);
        meta.longest_value = meta.longest_value.max(counted.longest_value as u32);
        self.duplicates += counted.duplicates;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{DiskRef, SimDisk};
    use crate::table::build::hashing::{Hashing, MOST};
    use crate::table::build::raw::{Added, Record};
    use crate::table::format::hash::hash_of;

    #[test]
    fn large_partitions_do_not_wait_for_each_other_in_memory() {
        let collected = |longest: usize| {
            let place =
                Place { disk: SimDisk::new() as DiskRef, folder: "/".into(), memory: 1 << 24 };
            let hashing = Hashing::new(hash_of);
            let mut partitions = Partitions::new(place, hashing);
            for origin in 0..20_000u64 {
                let key = origin.to_le_bytes();
                let value = vec![1; if origin == 77 { longest } else { 40 }];
                let record = Record::new(&key, &value);
                partitions.push(Added { hash: hashing.of(&key), origin, record }).unwrap();
            }
            partitions.seal().unwrap();
            let options = BuildOptions::default();
            let name = Box::new(|origin| format!("{origin}"));
            let (crowd, seeds) = (Limit::new(MOST), Seeds::new(hashing));
            Collected { options, partitions, records: 20_000, bytes: 0, name, crowd, seeds }
        };
        assert_eq!(collected(40).waiting(1 << 20), WAITING as usize);
        assert_eq!(collected(1 << 18).waiting(1 << 20), 3);
        assert_eq!(collected(1 << 20).waiting(1 << 20), 1);
        assert_eq!(collected(1 << 21).waiting(1 << 20), 1);
    }
}
