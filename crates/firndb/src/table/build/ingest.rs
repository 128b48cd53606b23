//! Takes records from the caller of a build. With several threads, records are collected in
//! batches, and a worker thread hashes and partitions a batch while the caller fills the next one.
//!
//! A batch is read only once, so lengths and origins are not compressed:
//!
//! ```text
//! RECORD   OFFSET  SIZE  FIELD
//!          0       4     length of the key
//!          4       4     length of the value
//!          8       8     origin
//!          16      ..    key, value
//! ```
//!
//! A record larger than a batch goes to the partitions directly. The order in which partitions
//! receive records does not matter.

use crate::Result;
use crate::bytes::int::{put_u32, put_u64, u32_at, u64_at};
use crate::table::build::hashing::Hashing;
use crate::table::build::partitions::{Partitions, record_lost};
use crate::table::build::raw::{Added, Record};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Bytes of a batch: small enough for the cache of a core, large enough to be worth waking a
/// thread.
const BATCH: usize = 1 << 17;
/// Batches that may be queued, so that the threads rarely wait for each other. One more is with the
/// worker, and one with the caller.
const QUEUE_LEN: usize = 8;

/// Takes records.
pub(crate) struct Ingest {
    hash: Hashing,
    batch: Batch,
    to: Target,
}

enum Target {
    Inline(Box<Partitions>),
    Threaded(Worker),
    /// Only while the target changes.
    Taken,
}

/// Bytes before the key of a record.
const HEAD: usize = 16;

/// Encoded records.
struct Batch {
    bytes: Vec<u8>,
    len: usize,
}

impl Batch {
    fn new(size: usize) -> Batch {
        Batch { bytes: vec![0; size], len: 0 }
    }

    /// Adds a record. Returns false if it does not fit.
    #[inline]
    fn push(&mut self, origin: u64, key: &[u8], value: &[u8]) -> bool {
        let len = HEAD + key.len() + value.len();
        let Some(room) = self.bytes.get_mut(self.len..self.len + len) else { return false };
        let (head, rest) = room.split_at_mut(HEAD);
        put_u32(head, 0, key.len() as u32);
        put_u32(head, 4, value.len() as u32);
        put_u64(head, 8, origin);
        rest[..key.len()].copy_from_slice(key);
        rest[key.len()..].copy_from_slice(value);
        self.len += len;
        true
    }

    /// Moves all records to the partitions.
    fn empty(&mut self, hash: Hashing, to: &mut Partitions) -> Result<()> {
        let mut records = &self.bytes[..self.len];
        self.len = 0;
        while let Some((head, behind)) = records.split_first_chunk::<HEAD>() {
            let (key, value) = (u32_at(head, 0) as usize, u32_at(head, 4) as usize);
            let (bytes, next) = behind.split_at(key + value);
            let record = Record::joined(bytes, key);
            to.push(Added { hash: hash.of(record.key()), origin: u64_at(head, 8), record })?;
            records = next;
        }
        Ok(())
    }
}

impl Ingest {
    /// An ingest that uses a worker thread if `threads` is more than one.
    pub(crate) fn new(to: Partitions, threads: usize) -> Ingest {
        let size = if threads > 1 { BATCH.min(to.temp_space().memory / 64) } else { 0 };
        Ingest { hash: to.hash(), batch: Batch::new(size), to: Target::Inline(Box::new(to)) }
    }

    #[inline]
    pub(crate) fn push(&mut self, origin: u64, key: &[u8], value: &[u8]) -> Result<()> {
        match self.batch.push(origin, key, value) {
            true => Ok(()),
            false => self.push_to_next(origin, key, value),
        }
    }

    /// Adds a record that does not fit into the batch. With one thread there is no batch.
    #[inline(never)]
    fn push_to_next(&mut self, origin: u64, key: &[u8], value: &[u8]) -> Result<()> {
        if HEAD + key.len() + value.len() > self.batch.bytes.len() {
            let record = Record::new(key, value);
            return self.push_now(Added { hash: self.hash.of(key), origin, record });
        }
        self.send()?;
        if self.batch.push(origin, key, value) { Ok(()) } else { Err(record_lost()) }
    }

    fn push_now(&mut self, record: Added) -> Result<()> {
        match &mut self.to {
            Target::Inline(partitions) => partitions.push(record),
            Target::Threaded(worker) => lock(&worker.partitions)?.push(record),
            Target::Taken => Err(record_lost()),
        }
    }

    /// Sends the batch to the worker. The first full batch starts it, so small tables need no
    /// thread.
    #[cold]
    fn send(&mut self) -> Result<()> {
        if let Target::Inline(_) = self.to
            && let Target::Inline(partitions) = std::mem::replace(&mut self.to, Target::Taken)
        {
            self.to = Worker::start(*partitions, self.hash)?;
        }
        match &mut self.to {
            Target::Inline(partitions) => self.batch.empty(self.hash, partitions),
            Target::Threaded(worker) => worker.send(&mut self.batch),
            Target::Taken => Err(record_lost()),
        }
    }

    /// Returns the partitions with all records.
    pub(crate) fn finish(mut self) -> Result<Partitions> {
        match std::mem::replace(&mut self.to, Target::Taken) {
            Target::Inline(mut partitions) => {
                self.batch.empty(self.hash, &mut partitions)?;
                Ok(*partitions)
            }
            Target::Threaded(mut worker) => {
                worker.send(&mut self.batch)?;
                worker.finish()
            }
            Target::Taken => Err(record_lost()),
        }
    }
}

/// A thread that fills the partitions. It ends when the queue is closed, or with an error.
struct Worker {
    partitions: Arc<Mutex<Partitions>>,
    full: Option<SyncSender<Batch>>,
    /// Reached only through `&mut`; the mutex makes the builder `Sync`.
    emptied: Mutex<Receiver<Batch>>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Worker {
    /// Starts the worker, or returns the partitions if no thread can be started.
    fn start(partitions: Partitions, hash: Hashing) -> Result<Target> {
        let partitions = Arc::new(Mutex::new(partitions));
        let (full, batches) = sync_channel(QUEUE_LEN);
        let (give_back, emptied) = channel();
        let to = partitions.clone();
        let work = move || fill(&to, hash, &batches, &give_back);
        match std::thread::Builder::new().spawn(work) {
            Ok(thread) => {
                let (full, thread) = (Some(full), Some(thread));
                let emptied = Mutex::new(emptied);
                Ok(Target::Threaded(Worker { partitions, full, emptied, thread }))
            }
            Err(_) => into_inner(partitions).map(Box::new).map(Target::Inline),
        }
    }

    /// Sends a batch to the worker and replaces it by an empty one.
    fn send(&mut self, batch: &mut Batch) -> Result<()> {
        let size = batch.bytes.len();
        let emptied = self.emptied.get_mut().unwrap_or_else(PoisonError::into_inner);
        let empty = emptied.try_recv().unwrap_or_else(|_| Batch::new(size));
        let Some(full) = &self.full else { return Err(record_lost()) };
        match full.send(std::mem::replace(batch, empty)) {
            Ok(()) => Ok(()),
            // The worker ended although the queue is open, so it failed.
            Err(_) => self.join().and_then(|()| Err(record_lost())),
        }
    }

    /// Waits for the worker.
    fn join(&mut self) -> Result<()> {
        self.full = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            // The panic hook has reported the panic.
            Some(Err(_)) | None => Err(record_lost()),
        }
    }

    fn finish(mut self) -> Result<Partitions> {
        self.join()?;
        let partitions = self.partitions.clone();
        drop(self);
        into_inner(partitions)
    }
}

/// Joins the worker, so that a dropped build leaves no thread and no temporary file.
impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.join();
    }
}

fn fill(
    to: &Mutex<Partitions>,
    hash: Hashing,
    batches: &Receiver<Batch>,
    give_back: &Sender<Batch>,
) -> Result<()> {
    for mut batch in batches {
        batch.empty(hash, &mut *lock(to)?)?;
        // Fails only if the builder is gone.
        let _ = give_back.send(batch);
    }
    Ok(())
}

fn lock(partitions: &Mutex<Partitions>) -> Result<MutexGuard<'_, Partitions>> {
    partitions.lock().map_err(|_| record_lost())
}

fn into_inner(partitions: Arc<Mutex<Partitions>>) -> Result<Partitions> {
    let only = Arc::into_inner(partitions).map(Mutex::into_inner);
    only.and_then(std::result::Result::ok).ok_or_else(record_lost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::spool::TempSpace;
    use crate::disk::{Disk, DiskRef, SimDisk};
    use crate::table::build::gather::GatherContext;
    use crate::table::build::hashing::{CollisionLimit, MAX_KEYS_PER_BIN};
    use crate::table::build::raw::read_records;
    use crate::table::format::hash::hash_of;
    use crate::table::options::Duplicates;
    use crate::testing::Rng;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::AtomicBool;

    type Records = Vec<(u64, Vec<u8>, Vec<u8>)>;

    fn feed(memory: usize, threads: usize) -> (Ingest, Arc<SimDisk>) {
        let disk = SimDisk::new();
        disk.create_dir_all(Path::new("/t")).unwrap();
        let folder = PathBuf::from("/t");
        let temp_space = TempSpace { disk: disk.clone() as DiskRef, folder, memory };
        (Ingest::new(Partitions::new(temp_space, Hashing::new(hash_of)), threads), disk)
    }

    /// All records, sorted by origin.
    fn collected(mut partitions: Partitions) -> Records {
        partitions.seal().unwrap();
        let (stop, mut all) = (AtomicBool::new(false), Records::new());
        let (duplicates, collisions) = (Duplicates::First, &CollisionLimit::new(MAX_KEYS_PER_BIN));
        let context = GatherContext { limit: usize::MAX, duplicates, stop: &stop, collisions };
        for number in (0..partitions.len()).filter(|&n| !partitions.is_empty(n)) {
            let mut take = |pieces: &[&[u8]], _| {
                let mut origin = 0;
                for piece in pieces {
                    let whole = read_records(piece, Hashing::new(hash_of), &mut origin, |r, _| {
                        all.push((r.origin, r.record.key().to_vec(), r.record.value().to_vec()));
                        Ok(())
                    })?;
                    assert_eq!(whole, piece.len());
                }
                Ok(())
            };
            partitions.gather(number, context, &mut take).unwrap();
            partitions.release(number);
        }
        all.sort();
        all
    }

    #[test]
    fn records_of_all_sizes_are_ingested_with_their_origins() {
        let mut rng = Rng(3);
        // Batches of 4 KiB with spilling, and batches of full size without.
        for (memory, threads) in [(1 << 18, 1), (1 << 18, 2), (1 << 24, 2)] {
            let (mut feed, disk) = feed(memory, threads);
            let mut records = Records::new();
            for _ in 0..20_000 {
                let most = if rng.below(100) == 0 { 9_000 } else { 60 };
                let (key, value) = (rng.below(30usize), rng.below(most));
                records.push((rng.next() >> 20, rng.fill(key), rng.fill(value)));
            }
            for (origin, key, value) in &records {
                feed.push(*origin, key, value).unwrap();
            }
            assert_eq!(threads > 1, matches!(feed.to, Target::Threaded(_)));
            let partitions = feed.finish().unwrap();
            assert_eq!(partitions.spilled() > 0, memory == 1 << 18);
            records.sort();
            assert!(collected(partitions) == records, "{memory} bytes, {threads} threads");
            assert!(disk.files().is_empty(), "the temporary file stays");
        }
    }

    #[test]
    fn worker_starts_late_and_ends_when_dropped() {
        let (mut few, _) = feed(1 << 20, 2);
        few.push(7, b"key", b"value").unwrap();
        assert!(matches!(few.to, Target::Inline(_)));
        assert_eq!(collected(few.finish().unwrap()), [(7, b"key".to_vec(), b"value".to_vec())]);
        let (mut many, disk) = feed(1 << 18, 2);
        (0..30_000u64).for_each(|i| many.push(i, &i.to_le_bytes(), &[1; 30]).unwrap());
        drop(many);
        assert!(disk.files().is_empty(), "a thread that goes on keeps the temporary file");
    }
}
