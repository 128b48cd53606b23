//! Writes a table while its records are added in key order: one sequential pass.
//!
//! A build whose records exceed its memory starts this if all keys came in ascending order so far.
//! A thread publishes the table; records reach it in batches. If a key is below the one before it
//! after all, the thread reads back what it has written, as a sorted run (`runs.rs`), and the build
//! continues as if it had sorted from the beginning.

use crate::disk::envelope::{EnvelopeWriter, Kind};
use crate::disk::spool::TempSpace;
use crate::disk::{self, ReadAt};
use crate::table::build::ordered::buffer::Buffer;
use crate::table::build::ordered::origins::Origins;
use crate::table::build::ordered::runs::{Added, Run, RunWriter};
use crate::table::build::ordered::writer::OrderedWriter;
use crate::table::build::pack::BlockWriter;
use crate::table::build::partitions::record_lost;
use crate::table::build::table_writer::{BuildReport, cancelled};
use crate::table::format::block::{Body, CHECKSUM, check, decode_frame};
use crate::table::format::compress::Decompressor;
use crate::table::format::version_of;
use crate::table::options::{BuildOptions, Compression, Order};
use crate::{Error, ErrorKind, Result};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of a batch, unless one record is longer.
const BATCH: usize = 1 << 19;
/// Time between two calls of a waiting build.
const INTERVAL: Duration = Duration::from_millis(100);

/// What the thread needs.
pub(crate) struct DirectInput {
    pub(crate) path: PathBuf,
    pub(crate) options: BuildOptions,
    pub(crate) space: TempSpace,
    pub(crate) names: Arc<dyn Fn(u64) -> String + Sync + Send>,
}

/// A table that is being written.
pub(crate) struct Direct {
    jobs: Option<SyncSender<Job>>,
    result: Receiver<Result<Written>>,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    batch: Vec<u8>,
    last_key: Vec<u8>,
    /// Why the thread ended early, until the build returns it.
    failure: Option<Error>,
}

enum Job {
    Records(Vec<u8>),
    Finish,
    /// Return the records.
    GiveBack,
}

enum Written {
    Table(BuildReport),
    /// The records, and the number of duplicates that were dropped.
    Run(Run, u64),
}

impl Direct {
    /// Starts to write a table with these records, which are in order. `None` if no thread can be
    /// started.
    pub(crate) fn start(input: DirectInput, first: Buffer) -> std::result::Result<Direct, Buffer> {
        // No batch waits in the channel, as it may be long.
        let (jobs, todo) = sync_channel(0);
        let (done, result) = sync_channel(1);
        let (give, given) = sync_channel(1);
        let last_key = first.last_key().to_vec();
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = stop.clone();
        let work = move || {
            let Ok(first) = given.recv() else { return };
            // The receiver may be gone, if the build was dropped.
            let _ = done.send(write(&input, first, &todo, &is_stopped));
        };
        let Ok(thread) = std::thread::Builder::new().spawn(work) else { return Err(first) };
        let _ = give.send(first);
        Ok(Direct {
            jobs: Some(jobs),
            result,
            thread: Some(thread),
            stop,
            batch: Vec::new(),
            last_key,
            failure: None,
        })
    }

    /// Takes a record. False if its key is below the last one; the record was not taken then.
    pub(crate) fn push(&mut self, added: Added) -> Result<bool> {
        if self.failure.is_some() {
            return Ok(true); // `finish` returns the error.
        }
        if added.key < &self.last_key[..] {
            return Ok(false);
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(added.key);
        added.append(&mut self.batch);
        if self.batch.len() >= BATCH { self.send_batch().map(|()| true) } else { Ok(true) }
    }

    fn send_batch(&mut self) -> Result<()> {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH + BATCH / 8));
        if self.send(Job::Records(batch)) {
            return Ok(());
        }
        match self.join() {
            Ok(Some(_)) => Err(record_lost()),
            ended => ended.map(drop),
        }
    }

    fn send(&self, job: Job) -> bool {
        self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok())
    }

    /// Ends the thread and returns its result. `None` after an error of the input, such as a
    /// duplicate key: `add` does not return it, `finish` does.
    fn join(&mut self) -> Result<Option<Written>> {
        self.jobs = None;
        let result = self.result.recv().unwrap_or_else(|_| Err(record_lost()));
        // A panic was reported by the panic hook.
        self.thread.take().map(JoinHandle::join);
        match result {
            Err(e) if e.kind() == ErrorKind::InvalidArgument => {
                self.failure = Some(e);
                Ok(None)
            }
            result => result.map(Some),
        }
    }

    /// Ends writing, and returns all records as a run, and the number of dropped duplicates.
    /// `None` after an error of the input, which `finish` returns.
    pub(crate) fn give_back(&mut self) -> Result<Option<(Run, u64)>> {
        let batch = std::mem::take(&mut self.batch);
        let _ = self.send(Job::Records(batch)) && self.send(Job::GiveBack);
        match self.join()? {
            Some(Written::Run(run, duplicates)) => Ok(Some((run, duplicates))),
            Some(Written::Table(_)) => Err(record_lost()),
            None => Ok(None),
        }
    }

    /// Completes and publishes the table. Calls `progress` regularly, which may cancel the build.
    pub(crate) fn finish(
        mut self,
        progress: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<BuildReport> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if progress().is_break() {
            return Err(cancelled());
        }
        let batch = std::mem::take(&mut self.batch);
        let _ = self.send(Job::Records(batch)) && self.send(Job::Finish);
        let written = loop {
            match self.result.recv_timeout(INTERVAL) {
                Ok(written) => break written?,
                Err(RecvTimeoutError::Timeout) if progress().is_break() => {
                    self.stop.store(true, Ordering::Relaxed);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(record_lost()),
            }
        };
        match written {
            Written::Table(report) => Ok(report),
            Written::Run(..) => Err(record_lost()),
        }
    }
}

/// Waits for the thread, so that a dropped build leaves neither a thread nor a file.
impl Drop for Direct {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.jobs = None;
        self.thread.take().map(JoinHandle::join);
    }
}

/// The thread: publishes a table of the records that arrive.
fn write(
    input: &DirectInput,
    first: Buffer,
    jobs: &Receiver<Job>,
    stop: &AtomicBool,
) -> Result<Written> {
    let mut run = None;
    let published = disk::publish(&*input.space.disk, &input.path, |out| {
        let mut out = EnvelopeWriter::with_version(out, Kind::Table, version_of(Order::Key))?;
        let mut writer = OrderedWriter::new(&input.options, &input.space, &*input.names);
        writer.keep_origins(Origins::new(&input.space));
        let mut take = |added: Added| match stop.load(Ordering::Relaxed) {
            true => Err(cancelled()),
            false => writer.push(&mut out, added),
        };
        first.each(&mut take)?;
        drop(first);
        loop {
            match jobs.recv() {
                Ok(Job::Records(bytes)) => {
                    let mut left = &bytes[..];
                    while let Some((added, len)) = Added::decode(left) {
                        take(added)?;
                        left = &left[len..];
                    }
                }
                Ok(Job::Finish) => break,
                Ok(Job::GiveBack) => {
                    run = Some(give_back(input, writer, &mut out)?);
                    return Err(cancelled()); // Removes the file.
                }
                Err(_) => return Err(cancelled()),
            }
        }
        let report = writer.finish(&mut out)?;
        if stop.load(Ordering::Relaxed) {
            return Err(cancelled());
        }
        out.finish()?;
        Ok(report)
    });
    match run {
        Some((run, duplicates)) => Ok(Written::Run(run, duplicates)),
        None => published.map(Written::Table),
    }
}

/// Reads the records of an unfinished table back.
fn give_back(
    input: &DirectInput,
    writer: OrderedWriter,
    out: &mut EnvelopeWriter,
) -> Result<(Run, u64)> {
    let unfinished = writer.stop(out)?;
    let end = out.flush()?;
    let file = input.space.disk.open(&disk::temporary(&input.path)?)?;
    let mut records = Records {
        file: &*file,
        start: end - unfinished.blocks.written(),
        blocks: &unfinished.blocks,
        compression: input.options.compression,
        decompressor: Decompressor::new(&unfinished.dictionary)?,
        next: 0,
        body: Vec::new(),
        record: 0,
        at: 0,
    };
    let mut run = RunWriter::create(&input.space)?;
    unfinished.origins.each(&mut |origin| records.next(origin, &mut run))?;
    Ok((run.finish()?, unfinished.duplicates))
}

/// The records of blocks that were just written.
struct Records<'a> {
    file: &'a dyn ReadAt,
    /// Offset of the blocks.
    start: u64,
    blocks: &'a BlockWriter,
    compression: Compression,
    decompressor: Decompressor,
    /// The next block.
    next: u64,
    body: Vec<u8>,
    /// The next record of the body, and its offset.
    record: usize,
    at: usize,
}

impl Records<'_> {
    /// Passes the next record to `run`.
    fn next(&mut self, origin: u64, run: &mut RunWriter) -> Result<()> {
        if self.body.is_empty() || self.record == Body::parse(&self.body)?.len() {
            self.load()?;
        }
        let body = Body::parse(&self.body)?;
        let (key, stored, end) = body.record_at(self.record, self.at)?;
        (self.record, self.at) = (self.record + 1, end);
        match self.compression {
            Compression::Records { .. } => {
                let value = self.decompressor.decompress(stored, u32::MAX as usize)?;
                run.push(Added { origin, key, value: &value })
            }
            _ => run.push(Added { origin, key, value: stored }),
        }
    }

    fn load(&mut self) -> Result<()> {
        let (offset, len) = self.blocks.extent(self.next).ok_or_else(record_lost)?;
        let mut block = vec![0; len];
        self.file.read_at(self.start + offset, &mut block)?;
        check(&block, self.next)?;
        let rest = &block[CHECKSUM..];
        self.body = match self.compression {
            Compression::Blocks { .. } => {
                let (frame, body) = decode_frame(rest).ok_or_else(record_lost)?;
                self.decompressor.decompress(frame, body)?
            }
            _ => rest.to_vec(),
        };
        self.next += 1;
        (self.record, self.at) = (0, Body::parse(&self.body)?.first());
        Ok(())
    }
}
