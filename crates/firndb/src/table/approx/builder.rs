//! Builds approximate tables. Threads sort the partitions and build the perfect hash functions of
//! their shards.

use crate::bytes::int::{Encoder, put_u32};
use crate::disk::envelope::{EnvelopeWriter, Kind};
use crate::disk::spool::{Spool, TempSpace};
use crate::disk::{self, DiskRef};
use crate::table::approx::format::{
    MAX_FINGERPRINT, MAX_KEYS_PER_SHARD, MAX_WIDTH, Meta, Shard, Slots, hash_of, section,
    shard_number, shards_for,
};
use crate::table::approx::mphf::{Hash, PerfectHash, build_perfect_hash};
use crate::table::build::builder::{MAX_THREADS, MIN_MEMORY};
use crate::table::build::gather::{GatherContext, limit};
use crate::table::build::hashing::{CollisionLimit, Hashing, Seeds};
use crate::table::build::partitions::Partitions;
use crate::table::build::raw::{Added, Record};
use crate::table::build::reseed::ReseedContext;
use crate::table::build::sort::{Policy, sort};
use crate::table::format::block::checksum;
use crate::table::format::{MAX_KEY, PAGE};
use crate::table::options::Duplicates;
use crate::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Options of the build of an approximate table. Each setter returns the changed options.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ApproximateOptions {
    pub(crate) value_width: usize,
    pub(crate) fingerprint_bits: u32,
    pub(crate) duplicates: Duplicates,
    pub(crate) memory_limit: usize,
    pub(crate) temp_dir: Option<PathBuf>,
    pub(crate) threads: usize,
    pub(crate) metadata: Vec<u8>,
}

impl Default for ApproximateOptions {
    fn default() -> ApproximateOptions {
        ApproximateOptions {
            value_width: 8,
            fingerprint_bits: 16,
            duplicates: Duplicates::Error,
            memory_limit: 1 << 30,
            temp_dir: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            metadata: Vec::new(),
        }
    }
}

impl ApproximateOptions {
    /// The defaults.
    pub fn new() -> ApproximateOptions {
        ApproximateOptions::default()
    }

    /// Bytes of every value, 1 to 16. Default: 8.
    pub fn value_width(self, bytes: usize) -> ApproximateOptions {
        ApproximateOptions { value_width: bytes, ..self }
    }

    /// Bits of a fingerprint, 0 to 32: an absent key is found with probability 2^-bits. With 0
    /// every key is. Default: 16.
    pub fn fingerprint_bits(self, bits: u32) -> ApproximateOptions {
        ApproximateOptions { fingerprint_bits: bits, ..self }
    }

    /// What happens if a key is added more than once. Whole keys are compared. Default: the build
    /// fails.
    pub fn duplicates(self, duplicates: Duplicates) -> ApproximateOptions {
        ApproximateOptions { duplicates, ..self }
    }

    /// Bytes of memory for collected records, at least 16 MiB; more records go to a temporary file.
    /// The process may use up to 1.2 times as much, plus 100 MiB. Default: 1 GiB.
    pub fn memory_limit(self, bytes: usize) -> ApproximateOptions {
        ApproximateOptions { memory_limit: bytes, ..self }
    }

    /// Directory of the temporary file. Default: the directory of the table.
    pub fn temp_dir(self, dir: impl Into<PathBuf>) -> ApproximateOptions {
        ApproximateOptions { temp_dir: Some(dir.into()), ..self }
    }

    /// Threads that sort records and build perfect hash functions, 1 to 1,024. Default: all
    /// processors.
    pub fn threads(self, threads: usize) -> ApproximateOptions {
        ApproximateOptions { threads, ..self }
    }

    /// Metadata of the user, stored in the file. Default: empty.
    pub fn metadata(self, bytes: impl Into<Vec<u8>>) -> ApproximateOptions {
        ApproximateOptions { metadata: bytes.into(), ..self }
    }
}

/// What a build wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApproximateReport {
    /// Records in the table.
    pub records: u64,
    /// Records that were dropped because their key occurred before.
    pub duplicates: u64,
    /// Bytes written to temporary files.
    pub spilled: u64,
}

/// Collects records and writes them as one approximate table.
///
/// Until [`ApproximateBuilder::finish`] has written and synced the table, nothing appears under the
/// path. Then an earlier table of that path is replaced atomically. The same records give the same
/// bytes, whatever their order, the memory and the number of threads.
pub struct ApproximateBuilder {
    disk: DiskRef,
    path: PathBuf,
    options: ApproximateOptions,
    partitions: Partitions,
    records: u64,
    bytes: u64,
    name: Box<dyn Fn(u64) -> String + Sync + Send>,
    /// Limit of keys per shard.
    collisions: CollisionLimit,
    seeds: Seeds,
}

/// The half of the hash that partitions and orders records.
fn split(key: &[u8], seed: u64) -> u64 {
    hash_of(key, seed).high
}

impl ApproximateBuilder {
    /// Starts a build of the table `path` with default options. Errors: as
    /// [`ApproximateBuilder::create_with`].
    pub fn create(path: impl AsRef<Path>) -> Result<ApproximateBuilder> {
        ApproximateBuilder::create_with(path, ApproximateOptions::default())
    }

    /// Starts a build of the table `path`.
    ///
    /// Errors: `InvalidArgument` if an option is out of range; `NotFound` if the directory of the
    /// table or of temporary files does not exist.
    pub fn create_with(
        path: impl AsRef<Path>,
        options: ApproximateOptions,
    ) -> Result<ApproximateBuilder> {
        if options.memory_limit < MIN_MEMORY {
            let given = options.memory_limit;
            let message =
                format!("a build needs at least {MIN_MEMORY} bytes of memory, not {given}");
            return Err(Error::invalid(message));
        }
        ApproximateBuilder::create_on(disk::os(), path.as_ref(), options)
    }

    /// [`ApproximateBuilder::create_with`] on any disk, without the lower bound on memory.
    pub(crate) fn create_on(
        disk: DiskRef,
        path: &Path,
        mut options: ApproximateOptions,
    ) -> Result<ApproximateBuilder> {
        let (width, bits) = (options.value_width, options.fingerprint_bits);
        if !(1..=MAX_WIDTH).contains(&width) || bits > MAX_FINGERPRINT {
            return Err(Error::invalid(format!(
                "values of {width} bytes and fingerprints of {bits} bits; use 1 to {MAX_WIDTH} \
                 bytes and 0 to {MAX_FINGERPRINT} bits"
            )));
        }
        options.threads = options.threads.clamp(1, MAX_THREADS);
        let temp_space =
            TempSpace::for_build(&disk, path, options.temp_dir.as_deref(), options.memory_limit)?;
        let hashing = Hashing::new(split);
        Ok(ApproximateBuilder {
            disk,
            path: path.to_path_buf(),
            options,
            partitions: Partitions::new(temp_space, hashing),
            records: 0,
            bytes: 0,
            name: Box::new(|origin| format!("record {origin}")),
            collisions: CollisionLimit::new(MAX_KEYS_PER_SHARD),
            seeds: Seeds::new(hashing),
        })
    }

    /// Sets how messages name the origin of a record. The default is "record 7", counted from 1.
    pub fn name_origins(&mut self, name: impl Fn(u64) -> String + Sync + Send + 'static) {
        self.name = Box::new(name);
    }

    /// Adds a record. Keys have 0 to 65,536 bytes. Errors: `InvalidArgument` if the key is longer,
    /// or if the value does not have the width of the table; `Io`.
    pub fn add(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.add_from(self.records + 1, key, value)
    }

    /// Adds a record with an explicit origin: a number that messages name, and that decides which
    /// of several records of a key is the first or the last.
    pub fn add_from(
        &mut self,
        origin: u64,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        if key.len() > MAX_KEY || value.len() != self.options.value_width {
            return Err(Error::invalid(format!(
                "{}: a key of {} bytes and a value of {} bytes; keys have at most {MAX_KEY}, the \
                 values of this table {}",
                (self.name)(origin),
                key.len(),
                value.len(),
                self.options.value_width
            )));
        }
        let record = Record::new(key, value);
        self.partitions.push(Added { hash: split(key, 0), origin, record })?;
        self.records += 1;
        self.bytes += (key.len() + value.len()) as u64;
        Ok(())
    }

    /// Number of records added.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Writes the table and publishes it.
    ///
    /// If keys were crafted to have equal hashes, all keys are hashed again under a seed derived
    /// from them. That takes a few times as long.
    pub fn finish(mut self) -> Result<ApproximateReport> {
        self.partitions.seal()?;
        let disk = self.disk.clone();
        loop {
            let report = disk::publish(&*disk, &self.path, |out| {
                let mut out = EnvelopeWriter::new(out, Kind::ApproximateTable)?;
                let report = self.write(&mut out)?;
                out.finish()?;
                Ok(report)
            });
            match report.is_err() && self.collisions.is_exceeded() && self.seeds.are_left() {
                true => self = self.reseeded()?,
                false => return report,
            }
        }
    }

    /// The same records, partitioned under the next seed.
    fn reseeded(self) -> Result<ApproximateBuilder> {
        let (collisions, stop) = (CollisionLimit::new(MAX_KEYS_PER_SHARD), AtomicBool::new(false));
        let ApproximateBuilder { partitions, mut seeds, .. } = self;
        let limit = limit(self.options.memory_limit, 1, self.records, self.bytes);
        let duplicates = self.options.duplicates;
        let mut with = ReseedContext {
            context: GatherContext { limit, duplicates, stop: &stop, collisions: &collisions },
            name: &self.name,
            on_progress: &mut || Ok(()),
        };
        let partitions = partitions.reseeded(&mut seeds, &mut with)?;
        Ok(ApproximateBuilder { partitions, collisions, seeds, ..self })
    }

    fn write(&self, out: &mut EnvelopeWriter) -> Result<ApproximateReport> {
        let mut meta = Meta {
            records: 0,
            shards: shards_for(self.records),
            width: self.options.value_width as u32,
            fingerprint: self.options.fingerprint_bits,
            seed: self.partitions.hash().seed,
        };
        let memory = self.options.memory_limit / 16;
        let spool = || Spool::new(TempSpace { memory, ..self.partitions.temp_space().clone() });
        let (mut pilots, mut remapped) = (spool(), spool());
        let (mut shards, mut next, mut duplicates) = (Encoder::default(), Shard::default(), 0);
        out.begin_at(section::SLOTS, true, PAGE)?;
        let mut slots = SlotWriter::new(meta.slots());
        self.each_shard(meta, &mut |shard| {
            Shard { seed: shard.made.seed, ..next }.encode(&mut shards);
            next.records += shard.highs.len() as u64;
            next.buckets += shard.made.pilots.len() as u64;
            next.remapped += shard.made.remap.len() as u64;
            duplicates += shard.duplicates;
            pilots.push(&shard.made.pilots)?;
            let mut bytes = Encoder::default();
            shard.made.remap.iter().for_each(|&slot| bytes.u32(slot));
            remapped.push(&bytes.0)?;
            let values = shard.values.chunks_exact(self.options.value_width);
            shard.highs.iter().zip(values).try_for_each(|(&high, v)| slots.push(out, high, v))
        })?;
        slots.finish(out)?;
        out.end();
        next.encode(&mut shards);
        out.section(section::SHARDS, &shards.0)?;
        for (id, spool) in [(section::PILOTS, pilots), (section::REMAPPED, remapped)] {
            out.begin(id, false)?;
            spool.each(|bytes| out.write(bytes))?;
            out.end();
        }
        if !self.options.metadata.is_empty() {
            out.section(section::METADATA, &self.options.metadata)?;
        }
        meta.records = next.records;
        out.section(section::META, &meta.encode())?;
        let spilled = self.partitions.spilled();
        Ok(ApproximateReport { records: next.records, duplicates, spilled })
    }

    /// Passes all shards to `take` in order. The threads of the build make them.
    fn each_shard(&self, meta: Meta, take: &mut dyn FnMut(BuiltShard) -> Result<()>) -> Result<()> {
        let units = self.units(meta);
        let threads = self.options.threads.clamp(1, units as usize) as u64;
        std::thread::scope(|scope| {
            let start = |worker| {
                let (send, receive) = sync_channel(1);
                scope.spawn(move || {
                    let mut own = (worker..units).step_by(threads as usize);
                    if let Err(e) = own.try_for_each(|unit| self.make_unit(meta, unit, &send)) {
                        // If the receiver is gone, the build has failed with another error.
                        let _ = send.send(Err(e));
                    }
                });
                receive
            };
            let workers: Vec<Receiver<Result<BuiltShard>>> = (0..threads).map(start).collect();
            for unit in 0..units {
                for _ in 0..meta.shards / units {
                    match workers[(unit % threads) as usize].recv() {
                        Ok(ready) => take(ready?)?,
                        Err(_) => {
                            return Err(Error::new(ErrorKind::Failed, "a building thread stopped"));
                        }
                    }
                }
            }
            Ok(())
        })
    }

    /// Number of units of work. A unit is a partition with all its shards, or a shard with all its
    /// partitions.
    fn units(&self, meta: Meta) -> u64 {
        meta.shards.min(self.partitions.len() as u64)
    }

    /// Makes the shards of a unit in order.
    fn make_unit(
        &self,
        meta: Meta,
        unit: u64,
        send: &SyncSender<Result<BuiltShard>>,
    ) -> Result<()> {
        let units = self.units(meta);
        let each = self.partitions.len() / units as usize;
        let partitions = unit as usize * each..(unit as usize + 1) * each;
        let (memory, threads) = (self.options.memory_limit, self.options.threads);
        let limit = limit(memory, threads, self.records, self.bytes);
        let (duplicates, stop) = (self.options.duplicates, &AtomicBool::new(false));
        let context = GatherContext { limit, duplicates, stop, collisions: &self.collisions };
        let policy = Policy { hash: self.partitions.hash(), duplicates, name: &self.name };
        let end = (unit + 1) * (meta.shards / units);
        let mut shard = ShardInput::new(unit * (meta.shards / units));
        let hand_over = |shard: ShardInput| {
            let made = shard.build(self.options.value_width);
            let ready = made.ok_or_else(|| self.collisions.exceed())?;
            let cancelled = |_| Error::new(ErrorKind::Cancelled, "the build ended");
            send.send(Ok(ready)).map_err(cancelled)
        };
        for number in partitions {
            self.partitions.gather(number, context, &mut |pieces, left_out| {
                let sorted = sort(pieces, &self.partitions.pools, policy, None)?;
                shard.duplicates += sorted.totals.duplicates + left_out;
                for (item, key, value) in sorted.run().iter() {
                    while shard.number != shard_number(item.hash, meta.shards) {
                        let next = ShardInput::new(shard.number + 1);
                        hand_over(std::mem::replace(&mut shard, next))?;
                    }
                    if shard.hashes.len() >= self.collisions.max_keys {
                        return Err(self.collisions.exceed());
                    }
                    shard.hashes.push(hash_of(key, meta.seed));
                    shard.values.extend_from_slice(value);
                }
                sorted.recycle(&self.partitions.pools);
                Ok(())
            })?;
        }
        while shard.number + 1 < end {
            let next = ShardInput::new(shard.number + 1);
            hand_over(std::mem::replace(&mut shard, next))?;
        }
        hand_over(shard)
    }
}

/// The records of a shard, in the order of their hashes.
struct ShardInput {
    number: u64,
    hashes: Vec<Hash>,
    values: Vec<u8>,
    duplicates: u64,
}

/// A shard: the contents of its slots, and its perfect hash function.
struct BuiltShard {
    highs: Vec<u64>,
    values: Vec<u8>,
    made: PerfectHash,
    duplicates: u64,
}

impl ShardInput {
    fn new(number: u64) -> ShardInput {
        ShardInput { number, hashes: Vec::new(), values: Vec::new(), duplicates: 0 }
    }

    /// `None` if two hashes are equal, so that there is no perfect hash function.
    fn build(self, width: usize) -> Option<BuiltShard> {
        let n = self.hashes.len();
        let made = build_perfect_hash(&self.hashes)?;
        let (mut highs, mut values) = (vec![0; n], vec![0; self.values.len()]);
        for (hash, value) in self.hashes.iter().zip(self.values.chunks_exact(width)) {
            let slot = made.get(*hash, n as u64) as usize;
            highs[slot] = hash.high;
            values[slot * width..(slot + 1) * width].copy_from_slice(value);
        }
        Some(BuiltShard { highs, values, made, duplicates: self.duplicates })
    }
}

/// Packs slots into blocks and writes them.
struct SlotWriter {
    slots: Slots,
    block: Vec<u8>,
    /// Number of the current block, and of the slots in it.
    number: u64,
    filled: u32,
}

impl SlotWriter {
    fn new(slots: Slots) -> SlotWriter {
        SlotWriter { slots, block: vec![0; PAGE], number: 0, filled: 0 }
    }

    fn push(&mut self, out: &mut EnvelopeWriter, high: u64, value: &[u8]) -> Result<()> {
        let (_, bit) = self.slots.locate(u64::from(self.filled));
        self.slots.put(&mut self.block, bit, high, value);
        self.filled += 1;
        if self.filled == self.slots.per_block() { self.write(out) } else { Ok(()) }
    }

    fn write(&mut self, out: &mut EnvelopeWriter) -> Result<()> {
        let sum = checksum(&self.block, self.number);
        put_u32(&mut self.block, 0, sum);
        out.write(&self.block)?;
        self.block.fill(0);
        (self.number, self.filled) = (self.number + 1, 0);
        Ok(())
    }

    fn finish(mut self, out: &mut EnvelopeWriter) -> Result<()> {
        if self.filled > 0 { self.write(out) } else { Ok(()) }
    }
}
