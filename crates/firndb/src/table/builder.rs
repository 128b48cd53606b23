//! Builds a table: records come in any order, and the file is written when all are there.

use super::compress::{Packer, SAMPLE_VALUE, SAMPLE_VALUES, train};
use super::directory::slots_for;
use super::filter::FilterWriter;
use super::format::{MAX_BLOCK_SIZE, MAX_KEY, MAX_VALUE, Meta, PAGE, section};
use super::gather::{Wanted, limit};
use super::options::{BuildOptions, Compression, Duplicates, Progress};
use super::pack::{BlockWriter, Blocks, Form};
use super::partitions::{Partitions, Place, Spool};
use super::raw::{Added, HashOf};
use super::sort::{Policy, Sorted, sort};
use crate::bytes::frozen::{FrozenWriter, Kind};
use crate::bytes::increasing;
use crate::disk::{self, Append, DiskRef, behind};
use crate::{Error, ErrorKind, Result};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// Collects records and writes them as one table.
///
/// Nothing stands under the path until [`TableBuilder::finish`] has written and synced all of it; a
/// table that was there before is replaced then. A builder that is dropped leaves nothing.
pub struct TableBuilder {
    disk: DiskRef,
    path: PathBuf,
    options: BuildOptions,
    partitions: Partitions,
    records: u64,
    bytes: u64,
    name: Box<dyn Fn(u64) -> String + Sync + Send>,
}

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

impl TableBuilder {
    /// Begins the table `path`. `InvalidArgument` if an option is out of its range.
    pub fn create(path: impl AsRef<Path>, options: BuildOptions) -> Result<TableBuilder> {
        if options.memory < MIN_MEMORY {
            let given = options.memory;
            let message =
                format!("a build needs at least {MIN_MEMORY} bytes of memory, not {given}");
            return Err(Error::invalid(message));
        }
        TableBuilder::create_on(disk::os(), path.as_ref(), options)
    }

    /// [`TableBuilder::create`] on any disk, and with as little memory as a test likes.
    pub(crate) fn create_on(
        disk: DiskRef,
        path: &Path,
        options: BuildOptions,
    ) -> Result<TableBuilder> {
        TableBuilder::create_hashed(disk, path, options, xxh3_64)
    }

    /// [`TableBuilder::create_on`] with another hash of keys; tests choose one that makes keys
    /// collide.
    pub(crate) fn create_hashed(
        disk: DiskRef,
        path: &Path,
        mut options: BuildOptions,
        hash: HashOf,
    ) -> Result<TableBuilder> {
        let size = options.block_size;
        if size == 0 || !size.is_multiple_of(PAGE) || size > MAX_BLOCK_SIZE {
            return Err(Error::invalid(format!(
                "the block size is {size} bytes; use a multiple of {PAGE}, up to {MAX_BLOCK_SIZE}"
            )));
        }
        options.compression.check()?;
        options.threads = options.threads.clamp(1, MAX_THREADS);
        let place = Place::of_build(&disk, path, options.temporary.as_deref(), options.memory)?;
        let partitions = Partitions::new(place, hash);
        let name = Box::new(|origin| format!("record {origin}"));
        let path = path.to_path_buf();
        Ok(TableBuilder { disk, path, options, partitions, records: 0, bytes: 0, name })
    }

    /// Says how messages name where a record came from (by default: "record 7", counted from 1).
    pub fn name_origins(&mut self, name: impl Fn(u64) -> String + Sync + Send + 'static) {
        self.name = Box::new(name);
    }

    /// Adds a record. Keys have 0 to 65,536 bytes, values 0 to 4 GiB - 1. After an error that is
    /// not `InvalidArgument` the build is lost, and [`TableBuilder::finish`] fails.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.add_from(self.records + 1, key, value)
    }

    /// Adds a record that came from `origin`: a number that messages name, and by which the first
    /// or last of two records with one key is told.
    pub fn add_from(&mut self, origin: u64, key: &[u8], value: &[u8]) -> Result<()> {
        if key.len() > MAX_KEY || value.len() > MAX_VALUE {
            return Err(Error::invalid(format!(
                "{}: a key of {} bytes and a value of {} bytes; the limits are {MAX_KEY} and \
                 {MAX_VALUE}",
                (self.name)(origin),
                key.len(),
                value.len()
            )));
        }
        self.partitions.push(Added { hash: self.partitions.hash()(key), origin, key, value })?;
        self.records += 1;
        self.bytes += (key.len() + value.len()) as u64;
        Ok(())
    }

    /// Records added so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Writes the table and publishes it.
    pub fn finish(self) -> Result<BuildReport> {
        self.finish_with(|_| ControlFlow::Continue(()))
    }

    /// [`TableBuilder::finish`], which tells `progress` now and then how far it has come;
    /// `Cancelled` if it breaks.
    pub fn finish_with(
        mut self,
        mut progress: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<BuildReport> {
        self.partitions.seal()?;
        let (disk, path, threads) = (self.disk.clone(), self.path.clone(), self.options.threads);
        let mut freed = None;
        let report = disk::publish(&*disk, &path, |out| {
            let mut write = |out: &mut dyn Append| {
                let mut out = FrozenWriter::new(out, Kind::Table)?;
                let report = self.write(&mut out, &mut progress)?;
                out.finish()?;
                Ok(report)
            };
            if threads < 2 {
                return write(out);
            }
            let report = behind(out, write)?;
            // To give memory back takes time too, while the file is synced. Without a thread it is
            // given back here, with the closure.
            freed = std::thread::Builder::new().spawn(move || drop(self)).ok();
            Ok(report)
        });
        // It only drops.
        freed.map(JoinHandle::join);
        report
    }

    fn write(
        &self,
        out: &mut FrozenWriter,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
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
        let mut facts = Facts::new(self, &form);
        out.begin_at(section::BLOCKS, true, PAGE)?;
        let mut writer = BlockWriter::new(form);
        let mut filter = FilterWriter::new(self.options.filter, self.records, self.spool());
        self.each_sorted(&dictionary, &mut |sorted| {
            if let Some(sorted) = sorted {
                facts.duplicates += sorted.duplicates;
                for record in sorted.iter() {
                    facts.count(record.key as usize, record.raw as usize);
                    filter.push(record.hash)?;
                    writer.push(out, record)?;
                }
            }
            let done = facts.meta.records + facts.duplicates;
            match progress(Progress { done, total: self.records }) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => {
                    Err(Error::new(ErrorKind::Cancelled, "the build was cancelled"))
                }
            }
        })?;
        let blocks = writer.finish(out)?;
        out.end();
        filter.finish(out, section::FILTER)?;
        self.write_rest(out, &dictionary, blocks, facts)
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
            self.partitions.gather(number, wanted, &mut |buffer, _| {
                for record in sort(buffer, policy)?.iter() {
                    full |= sample.len() >= compression.sample() || lengths.len() >= SAMPLE_VALUES;
                    if full {
                        break;
                    }
                    keys += record.key as usize;
                    let value = record.value();
                    let value = &value[..value.len().min(SAMPLE_VALUE)];
                    sample.extend_from_slice(value);
                    lengths.push(value.len());
                }
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
    fn wanted<'a>(&self, stop: &'a AtomicBool) -> Wanted<'a> {
        let (memory, threads) = (self.options.memory, self.options.threads);
        let limit = limit(memory, threads, self.records, self.bytes);
        Wanted { limit, duplicates: self.options.duplicates, stop }
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
                let (send, receive) = sync_channel(1);
                let wanted = self.wanted(&stop);
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
                self.partitions.gather(number, wanted, &mut |buffer, left_out| {
                    let mut sorted = sort(buffer, policy)?;
                    sorted.duplicates += left_out;
                    if let Some(packer) = &mut packer {
                        sorted.pack(packer)?;
                    }
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
/// Memory of a build at least.
pub(crate) const MIN_MEMORY: usize = 16 << 20;
/// Threads of a build at most: more have nothing to do.
pub(crate) const MAX_THREADS: usize = 1024;

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
    fn new(builder: &TableBuilder, form: &Form) -> Facts {
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
            compression: builder.options.compression,
            filter: builder.options.filter,
            paged: form.paged,
        };
        Facts { meta, duplicates: 0 }
    }

    fn count(&mut self, key: usize, value: usize) {
        self.meta.records += 1;
        self.meta.key_bytes += key as u64;
        self.meta.value_bytes += value as u64;
        self.meta.longest_key = self.meta.longest_key.max(key as u32);
        self.meta.longest_value = self.meta.longest_value.max(value as u32);
    }
}
