//! The directory of an open store: its identity, its disk and its lock, and whether it may be
//! written.

use crate::disk::{self, Append, DiskRef, ForkGuard, Lock};
use crate::log::format::durable_end::DurableEnd;
use crate::log::format::names::{DURABLE_END, hint_file, segment_file};
use crate::log::format::segment_head::LogPosition;
use crate::log::segments::durable_end_file;
use crate::log::segments::reserve::remove_if_there;
use crate::log::segments::segment::next_number;
use crate::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The directory of an open store.
pub(crate) struct Directory {
    pub(crate) disk: DiskRef,
    pub(crate) path: PathBuf,
    /// Id of the store. Seeds the hash of keys.
    pub(crate) store: u64,
    /// Excludes other writers. `None` if the store is open for reading only, and after a close.
    lock: Mutex<Option<Box<dyn Lock>>>,
    fork: ForkGuard,
    /// Why nothing can be written any more.
    pub(crate) failed: OnceLock<String>,
    /// Bytes of hints, checkpoints and the like that were written.
    pub(crate) maintenance_bytes: AtomicU64,
    /// The position in `durable_end.firn`.
    durable_end: Mutex<LogPosition>,
}

impl Directory {
    pub(crate) fn new(
        disk: DiskRef,
        path: &Path,
        store: u64,
        lock: Option<Box<dyn Lock>>,
        durable_end: LogPosition,
    ) -> Directory {
        Directory {
            disk,
            path: path.to_path_buf(),
            store,
            lock: Mutex::new(lock),
            fork: ForkGuard::new(),
            failed: OnceLock::new(),
            maintenance_bytes: AtomicU64::new(0),
            durable_end: durable_end.into(),
        }
    }

    /// The path of a file of the store.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The path of segment `number`.
    pub(crate) fn segment(&self, number: u64) -> PathBuf {
        self.path.join(segment_file(number))
    }

    /// Whether this process is a forked child of the one that opened the store.
    pub(crate) fn is_forked_child(&self) -> bool {
        self.fork.is_child()
    }

    /// `Failed` if this process may not write or an earlier write failed.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.is_forked_child() {
            let message = "this is a forked child of the process that opened the store, and may \
                           only read: let the parent write, or open the store after the fork";
            return Err(Error::new(ErrorKind::Failed, message).in_file(&self.path));
        }
        self.failure().map_or(Ok(()), Err)
    }

    /// The error of every write after a failed one.
    pub(crate) fn failure(&self) -> Option<Error> {
        let message = self.failed.get()?;
        Some(Error::new(ErrorKind::Failed, message.clone()).in_file(&self.path))
    }

    /// Refuses all writes until the store is opened again.
    pub(crate) fn fail(&self, error: &Error) {
        let _ = self.failed.set(format!(
            "an earlier write or sync failed ({error}): find the cause, then open the store again"
        ));
    }

    /// `Failed`, now and for every later write, if the store's directory or lock is no longer the
    /// one at its path. Files are found relative to the open directory, so nothing that is at that
    /// path now was touched; but the next opening would not find what is written here.
    pub(crate) fn check_lock(&self) -> Result<()> {
        let checked = self.lock().as_ref().map_or(Ok(()), |lock| lock.check());
        checked.inspect_err(|e| self.fail(e))
    }

    /// Takes over the lock of the writer, and the position in `durable_end.firn`.
    pub(crate) fn own(&self, lock: Box<dyn Lock>, durable_end: LogPosition) {
        *self.durable_end.lock().unwrap_or_else(PoisonError::into_inner) = durable_end;
        *self.lock() = Some(lock);
    }

    /// Lets other processes write. The caller has made sure that this one no longer does.
    pub(crate) fn unlock(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Lock>>> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the names in the directory durable. A failure is final: it is unknown which names are
    /// lost, and a later sync would not save them.
    pub(crate) fn sync(&self) -> Result<()> {
        self.disk.sync_dir(&self.path).inspect_err(|e| self.fail(e))
    }

    /// Publishes a file of the store: see `disk::publish`.
    pub(crate) fn publish(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Append) -> Result<()>,
    ) -> Result<()> {
        self.stage(name, write)?;
        self.sync()
    }

    /// [`Directory::publish`] of a file whose name may be lost in a power cut.
    pub(crate) fn stage(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Append) -> Result<()>,
    ) -> Result<()> {
        let path = self.file(name);
        let count =
            |out: &mut dyn Append| write(&mut Counted { out, bytes: &self.maintenance_bytes });
        disk::stage(&*self.disk, &path, count, |()| path.clone())
    }

    /// Removes a file. Returns whether there was one.
    pub(crate) fn remove_if_there(&self, name: &str) -> Result<bool> {
        remove_if_there(&*self.disk, &self.file(name))
    }

    /// Records that the log is durable up to `position`, unless that is recorded already.
    pub(crate) fn record_end(&self, position: LogPosition) -> Result<()> {
        let mut recorded = self.durable_end.lock().unwrap_or_else(PoisonError::into_inner);
        if position <= *recorded {
            return Ok(());
        }
        let end = DurableEnd { store: self.store, position };
        self.publish(DURABLE_END, |out| durable_end_file::write(out, end))?;
        *recorded = position;
        Ok(())
    }

    /// The first number from `number` on for which no file has the name of a segment or of a hint.
    /// Otherwise a foreign file or directory of that name would stop all writing.
    pub(crate) fn free_number(&self, mut number: u64) -> Result<u64> {
        loop {
            let next = next_number(number)?; // Leaves a number for the segment after it.
            let is_free = |name: String| match self.disk.look(&self.file(&name)) {
                Err(e) if e.kind() == ErrorKind::NotFound => Ok(true),
                found => found.map(|_| false),
            };
            if is_free(segment_file(number))? && is_free(hint_file(number))? {
                return Ok(number);
            }
            number = next;
        }
    }
}

/// Counts the bytes that are appended.
struct Counted<'a> {
    out: &'a mut dyn Append,
    bytes: &'a AtomicU64,
}

impl Append for Counted<'_> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.out.append(bytes)
    }

    fn sync(&mut self) -> Result<()> {
        self.out.sync()
    }
}
