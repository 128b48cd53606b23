//! The public builder of tables.

use crate::disk::envelope::{EnvelopeWriter, Kind};
use crate::disk::spool::TempSpace;
use crate::disk::{self, Append, DiskRef, write_behind};
use crate::table::build::hashing::{CollisionLimit, Hashing, MAX_KEYS_PER_BIN, Seeds};
use crate::table::build::ingest::Ingest;
use crate::table::build::ordered::collect::{Collector, SharedNames};
use crate::table::build::ordered::runs::Added;
use crate::table::build::partitions::{Partitions, record_lost};
use crate::table::build::table_writer::{BuildInput, BuildReport, ProgressFn};
use crate::table::format::hash::hash_of;
use crate::table::format::{MAX_BLOCK_SIZE, MAX_KEY, MAX_VALUE, PAGE, version_of};
use crate::table::options::{BuildOptions, Order, Progress};
use crate::{Error, Result};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Collects records and writes them as one table.
///
/// Until [`TableBuilder::finish`] has written and synced the table, nothing appears under the path.
/// Then an earlier table of that path is replaced atomically. Dropping a builder leaves no file.
pub struct TableBuilder {
    disk: DiskRef,
    path: PathBuf,
    options: BuildOptions,
    records_in: Input,
    records: u64,
    bytes: u64,
    name: SharedNames,
    collisions: CollisionLimit,
    seeds: Seeds,
}

/// Collects records as the order of the table needs them.
enum Input {
    Hash(Ingest),
    Key(Box<Collector>),
}

/// Least memory of a build.
pub(crate) const MIN_MEMORY: usize = 16 << 20;
/// Most threads of a build. More have no partitions to work on.
pub(crate) const MAX_THREADS: usize = 1024;

impl TableBuilder {
    /// Starts a build of the table `path` with default options. Errors: as
    /// [`TableBuilder::create_with`].
    pub fn create(path: impl AsRef<Path>) -> Result<TableBuilder> {
        TableBuilder::create_with(path, BuildOptions::default())
    }

    /// Starts a build of the table `path`.
    ///
    /// Errors: `InvalidArgument` if an option is out of range; `NotFound` if the directory of the
    /// table or of temporary files does not exist.
    pub fn create_with(path: impl AsRef<Path>, options: BuildOptions) -> Result<TableBuilder> {
        if options.memory_limit < MIN_MEMORY {
            let given = options.memory_limit;
            let message =
                format!("a build needs at least {MIN_MEMORY} bytes of memory, not {given}");
            return Err(Error::invalid(message));
        }
        TableBuilder::create_on(disk::os(), path.as_ref(), options)
    }

    /// [`TableBuilder::create_with`] on any disk, without the lower bound on memory.
    pub(crate) fn create_on(
        disk: DiskRef,
        path: &Path,
        options: BuildOptions,
    ) -> Result<TableBuilder> {
        TableBuilder::create_hashed(disk, path, options, Hashing::new(hash_of), MAX_KEYS_PER_BIN)
    }

    /// [`TableBuilder::create_on`] with another hash of keys, of which at most `most` may share a
    /// bin. Tests pass a hash that makes keys collide.
    pub(crate) fn create_hashed(
        disk: DiskRef,
        path: &Path,
        mut options: BuildOptions,
        hash: Hashing,
        most: usize,
    ) -> Result<TableBuilder> {
        let size = options.block_size;
        if size == 0 || !size.is_multiple_of(PAGE) || size > MAX_BLOCK_SIZE {
            return Err(Error::invalid(format!(
                "the block size is {size} bytes; use a multiple of {PAGE}, up to {MAX_BLOCK_SIZE}"
            )));
        }
        options.compression.check()?;
        options.threads = options.threads.clamp(1, MAX_THREADS);
        let temp_space =
            TempSpace::for_build(&disk, path, options.temp_dir.as_deref(), options.memory_limit)?;
        let records_in = match options.order {
            Order::Hash => {
                Input::Hash(Ingest::new(Partitions::new(temp_space, hash), options.threads))
            }
            Order::Key => Input::Key(Box::new(Collector::new(path, &options, temp_space))),
        };
        let name = Arc::new(|origin| format!("record {origin}"));
        let path = path.to_path_buf();
        let (collisions, seeds) = (CollisionLimit::new(most), Seeds::new(hash));
        Ok(TableBuilder {
            disk,
            path,
            options,
            records_in,
            records: 0,
            bytes: 0,
            name,
            collisions,
            seeds,
        })
    }

    /// Sets how messages name the origin of a record. The default is "record 7", counted from 1.
    pub fn name_origins(&mut self, name: impl Fn(u64) -> String + Sync + Send + 'static) {
        self.name = Arc::new(name);
    }

    /// Adds a record. Keys have 0 to 65,536 bytes, values 0 to 4 GiB - 1.
    ///
    /// Errors: `InvalidArgument` if key or value is too long; the build continues. After any other
    /// error, for example of a full disk, [`TableBuilder::finish`] fails too. With several threads
    /// such an error may be returned by a later `add` or by `finish`.
    #[inline]
    pub fn add(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.add_from(self.records + 1, key, value)
    }

    /// Adds a record with an explicit origin: a number that messages name, and that decides which
    /// of several records of a key is the first or the last.
    #[inline]
    pub fn add_from(
        &mut self,
        origin: u64,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        if key.len() > MAX_KEY || value.len() > MAX_VALUE {
            return Err(self.too_long(origin, key, value));
        }
        match &mut self.records_in {
            Input::Hash(ingest) => ingest.push(origin, key, value)?,
            Input::Key(collector) => collector.push(Added { origin, key, value }, &self.name)?,
        }
        self.records += 1;
        self.bytes += (key.len() + value.len()) as u64;
        Ok(())
    }

    #[cold]
    fn too_long(&self, origin: u64, key: &[u8], value: &[u8]) -> Error {
        let (name, key, value) = ((self.name)(origin), key.len(), value.len());
        Error::invalid(format!(
            "{name}: a key of {key} bytes and a value of {value} bytes; the limits are {MAX_KEY} \
             and {MAX_VALUE}"
        ))
    }

    /// Number of records added.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Writes the table and publishes it. Errors: `InvalidArgument` for a duplicate key, if
    /// [`Duplicates::Error`](crate::table::Duplicates::Error) is set; `Io`; `Failed` if an earlier
    /// `add` failed.
    pub fn finish(self) -> Result<BuildReport> {
        self.finish_with(|_| ControlFlow::Continue(()))
    }

    /// [`TableBuilder::finish`] that reports its progress regularly. Breaking cancels the build
    /// with `Cancelled`. Progress restarts at 0 if more than 16 keys share a bin of the directory,
    /// as crafted keys do: then all keys are hashed again under a seed.
    ///
    /// ```
    /// use firndb::table::{BuildReport, TableBuilder};
    /// use std::ops::ControlFlow;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// /// Finishes a build unless `stop` becomes true; then the error is of kind `Cancelled`.
    /// fn finish(builder: TableBuilder, stop: &AtomicBool) -> firndb::Result<BuildReport> {
    ///     builder.finish_with(|progress| {
    ///         println!("{} of {} records", progress.done, progress.total);
    ///         match stop.load(Ordering::Relaxed) {
    ///             true => ControlFlow::Break(()),
    ///             false => ControlFlow::Continue(()),
    ///         }
    ///     })
    /// }
    /// ```
    pub fn finish_with(
        self,
        mut progress: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<BuildReport> {
        span!(INFO, "firndb.table.build");
        let TableBuilder {
            disk,
            path,
            options,
            records_in,
            records,
            bytes,
            name,
            collisions,
            seeds,
        } = self;
        let ingest = match records_in {
            Input::Hash(ingest) => ingest,
            Input::Key(collector) => {
                return collector.publish(&*name, &mut progress);
            }
        };
        let name = Box::new(move |origin| name(origin));
        let mut partitions = ingest.finish()?;
        partitions.seal()?;
        let mut collected =
            BuildInput { options, partitions, records, bytes, name, collisions, seeds };
        loop {
            match collected.publish(&disk, &path, &mut progress) {
                Ok(report) => return Ok(report),
                Err((_, Some(other))) => collected = other.reseeded(&mut progress)?,
                Err((error, None)) => return Err(error),
            }
        }
    }
}

impl BuildInput {
    /// Writes and publishes the table. If it failed because of collisions and another seed can be
    /// tried, the error carries the records.
    fn publish(
        self,
        disk: &DiskRef,
        path: &Path,
        progress: &mut ProgressFn,
    ) -> std::result::Result<BuildReport, (Error, Option<Box<BuildInput>>)> {
        let (mut collected, mut freed) = (Some(self), None);
        let report = disk::publish(&**disk, path, |out| {
            let Some(records) = &collected else { return Err(record_lost()) };
            let mut write = |out: &mut dyn Append| {
                let version = version_of(Order::Hash);
                let mut out = EnvelopeWriter::with_version(out, Kind::Table, version)?;
                let report = records.write(&mut out, progress)?;
                out.finish()?;
                Ok(report)
            };
            if records.options.threads < 2 {
                return write(out);
            }
            let report = write_behind(out, write)?;
            // Freeing memory takes time; do it while the file is synced. If the thread cannot be
            // started, the closure is dropped here, and the memory with it.
            let done = collected.take();
            freed = std::thread::Builder::new().spawn(move || drop(done)).ok();
            Ok(report)
        });
        // The thread only drops, so its result does not matter.
        freed.map(JoinHandle::join);
        let is_mended =
            |records: &BuildInput| records.collisions.is_exceeded() && records.seeds.are_left();
        report.map_err(|error| (error, collected.filter(is_mended).map(Box::new)))
    }
}
