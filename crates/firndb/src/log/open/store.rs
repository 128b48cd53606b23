//! [`LogStore`]: opening and closing. Reading is in `read.rs`, writing in `write.rs`.

use crate::disk::{self, Append, DiskRef, ForkGuard, Lock};
use crate::log::failpoints::Failpoint;
use crate::log::format::record::{self as format, MAX_KEY, Record, head_length};
use crate::log::index::hash_index::Index;
use crate::log::maintenance::backpressure::Pace;
use crate::log::maintenance::compaction::Leaving;
use crate::log::maintenance::threads::Upkeep;
use crate::log::open::recovery;
use crate::log::open::refresh::Seen;
use crate::log::options::Options;
use crate::log::read::get::UsualLines;
use crate::log::read::snapshot::View;
use crate::log::segments::reserve::{Need, Reserve};
use crate::log::segments::segment::{Segment, Table};
use crate::log::stats::Counters;
use crate::log::write::group_commit::{GroupCommit, Position};
use crate::log::write::writer::Writer;
use crate::sync::Swap;
use crate::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// Smallest segment that is made without need, if the options allow.
pub(crate) const SEGMENT_MIN: u64 = 1 << 20;
/// A store's segments are at most this share of its live bytes, so that what is reserved and not
/// yet used stays small beside it.
const SEGMENT_SHARE: u64 = 192;
/// And at least so many times as long as what their head takes, which names all other segments.
pub(crate) const HEAD_SHARE: u64 = 8;

/// A key-value store in a directory: see the module's head. Used by any number of threads at once,
/// for reading and writing; no call needs a lock of the caller's but [`LogStore::refresh`], which
/// changes what a handle that is open for reading only shows.
pub struct LogStore {
    pub(crate) shared: Arc<Shared>,
    pub(crate) upkeep: Option<Upkeep>,
}

/// What the store's handles and its threads share.
pub(crate) struct Shared {
    pub(crate) disk: DiskRef,
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    /// Of the store; seeds the hash of keys.
    pub(crate) id: u64,
    pub(crate) index: Index,
    pub(crate) table: Swap<Table>,
    pub(crate) usual: UsualLines,
    /// `None` when it is open for reading only.
    pub(crate) writer: Mutex<Option<Writer>>,
    pub(crate) commit: GroupCommit,
    pub(crate) counters: Counters,
    /// Why nothing can be written any more.
    pub(crate) failed: OnceLock<String>,
    pub(crate) wake: crate::log::maintenance::threads::Wake,
    /// Held by the one compaction that runs: segments whose files are still there.
    pub(crate) compacting: Mutex<Vec<Leaving>>,
    /// Segments that compaction took out of the store, for as long as they may be read.
    pub(crate) removed: Mutex<Vec<Weak<Segment>>>,
    /// Held while a hint or a checkpoint is written.
    pub(crate) sealing: Mutex<()>,
    pub(crate) is_paused: AtomicBool,
    /// What snapshots show.
    pub(crate) views: Mutex<Vec<Arc<View>>>,
    pub(crate) view_count: AtomicUsize,
    /// The last segment that the checkpoint covers.
    pub(crate) checkpointed: AtomicU64,
    pub(crate) pace: Pace,
    pub(crate) reserve: Reserve,
    /// What the end file says.
    pub(crate) recorded_end: Mutex<Position>,
    /// In a backup, where the log ends as long as nothing was written to it.
    pub(crate) backup_end: Option<Position>,
    /// What a refresh goes on from, where it is open for reading only.
    pub(crate) seen: Option<Seen>,
    /// Keeps other writers away. `None` when it is open for reading only.
    pub(crate) lock: Option<Box<dyn Lock>>,
    pub(crate) fork: ForkGuard,
}

impl LogStore {
    /// Opens the store in this directory, or creates one.
    ///
    /// `NotFound` if there is none and the options forbid creating one, `Locked` if another process
    /// or handle writes to it, `Corrupt` with file and offset if something that was durable is
    /// damaged.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<LogStore> {
        Self::open_on(disk::os(), path.as_ref(), options)
    }

    /// [`LogStore::open`] on any disk.
    pub(crate) fn open_on(disk: DiskRef, path: &Path, options: Options) -> Result<LogStore> {
        options.check()?;
        let background = options.background && !options.read_only;
        let shared = Arc::new(recovery::open(disk, path, options)?);
        if !shared.options.read_only {
            match shared.hold_reserve() {
                Err(e) if e.is_disk_full() => {} // The first write that takes space says so.
                held => held?,
            }
        }
        let upkeep = background.then(|| Upkeep::start(&shared)).transpose()?;
        Ok(LogStore { shared, upkeep })
    }

    /// Number of keys. A key whose record has expired counts until a write or compaction removes
    /// the record: nothing is written when its time comes.
    pub fn len(&self) -> u64 {
        self.shared.settle_counts();
        self.shared.counters.keys.load(Ordering::Relaxed)
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Looks again at the files of a store that another process writes to. For a store that is open
    /// for reading only; one that is open for writing is always up to date.
    ///
    /// It lists the directory and looks at the end of the log; if more was written, it reads the
    /// segments that are not sealed yet and what was written since it looked last, and goes once
    /// through the index in memory if segments were compacted since. Where much was
    /// written, or where there are snapshots, which keep the state that they show, it opens the
    /// store anew. After an error it shows what it showed, or, if there was no memory for the
    /// index, some of what is new.
    pub fn refresh(&mut self) -> Result<()> {
        if let Some(shared) = Arc::get_mut(&mut self.shared)
            && (!shared.options.read_only || shared.catch_up()?)
        {
            return Ok(());
        }
        let shared = &self.shared;
        if shared.options.read_only {
            let (disk, options) = (shared.disk.clone(), shared.options.clone());
            self.shared = Arc::new(recovery::open(disk, &shared.dir, options)?);
        }
        Ok(())
    }

    /// Makes everything durable that was written before the call.
    pub fn sync(&self) -> Result<()> {
        let position = self.shared.writer()?.position();
        self.shared.make_durable(position)
    }

    /// Makes everything durable and gives up the lock. Dropping a store does the same, but cannot
    /// say whether it worked; writes that wait meanwhile get an error.
    pub fn close(mut self) -> Result<()> {
        self.shut()?;
        // Somebody else may have got the error: then this is where the caller learns of it.
        match self.shared.failed.get() {
            Some(message) => {
                Err(Error::new(ErrorKind::Failed, message.clone()).in_file(&self.shared.dir))
            }
            None => Ok(()),
        }
    }

    fn shut(&mut self) -> Result<()> {
        if self.shared.fork.is_child() {
            // The threads are the parent's, and so is the log.
            std::mem::forget(self.upkeep.take());
            return Ok(());
        }
        if let Some(upkeep) = self.upkeep.take() {
            upkeep.stop(&self.shared);
        }
        if self.shared.options.read_only || self.shared.failed.get().is_some() {
            return Ok(());
        }
        self.shared.shut()
    }
}

impl Drop for LogStore {
    fn drop(&mut self) {
        let _ = self.shut();
    }
}

impl std::fmt::Debug for LogStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogStore").field("dir", &self.shared.dir).finish_non_exhaustive()
    }
}

/// The writer, locked.
pub(crate) struct Writing<'a>(MutexGuard<'a, Option<Writer>>);

impl std::ops::Deref for Writing<'_> {
    type Target = Writer;

    fn deref(&self) -> &Writer {
        self.0.as_ref().expect("`Shared::writer` checked it")
    }
}

impl std::ops::DerefMut for Writing<'_> {
    fn deref_mut(&mut self) -> &mut Writer {
        self.0.as_mut().expect("`Shared::writer` checked it")
    }
}

impl Shared {
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        format::hash_of_key(key, self.id)
    }

    pub(crate) fn now(&self) -> u64 {
        (self.options.clock)()
    }

    #[inline]
    pub(crate) fn is_expired(&self, record: &Record) -> bool {
        record.expires.is_some() && record.is_expired(self.now())
    }

    /// The writer's lock, with nothing pending: the index has one place for each key. `Failed` if
    /// nothing can be written any more.
    pub(crate) fn writer(&self) -> Result<Writing<'_>> {
        self.touch_pending();
        let mut writer = self.unsettled()?;
        writer.settle_all(self)?;
        Ok(writer)
    }

    /// [`Shared::writer`], whatever is pending.
    pub(crate) fn unsettled(&self) -> Result<Writing<'_>> {
        if self.fork.is_child() {
            let message = "this is a forked child of the process that opened the store, and may \
                           only read: let the parent write, or open the store after the fork";
            return Err(Error::new(ErrorKind::Failed, message).in_file(&self.dir));
        }
        if let Some(message) = self.failed.get() {
            return Err(Error::new(ErrorKind::Failed, message.clone()).in_file(&self.dir));
        }
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        match &*writer {
            Some(open) if !open.is_closed => Ok(Writing(writer)),
            Some(_) => Err(Error::new(ErrorKind::Failed, "the store is closed")),
            None => Err(Error::invalid("the store is open for reading only").in_file(&self.dir)),
        }
    }

    /// From now on nothing is written until the store is opened again.
    pub(crate) fn fail(&self, error: &Error) {
        let _ = self.failed.set(format!(
            "an earlier write or sync failed ({error}): find the cause, then open the store again"
        ));
    }

    /// Returns when everything before `target` is durable.
    pub(crate) fn make_durable(&self, target: Position) -> Result<()> {
        self.commit.wait(target, || self.sync_log(target).inspect_err(|e| self.fail(e)))
    }

    /// Syncs all segments in their order, up to the end of the log, or of the last that is full if
    /// the target is not behind it: pages that are on their way to the disk stop the writer, and
    /// interrupt all processors.
    fn sync_log(&self, target: Position) -> Result<Position> {
        self.check_place()?;
        let (mut segments, active, mut end) = {
            let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(writer) = &*writer else { return Ok((0, 0)) };
            (writer.unsynced.clone(), Arc::clone(&writer.segment), writer.position())
        };
        if Failpoint::SyncActiveOnly.is_on() {
            segments.clear();
        }
        if target > (end.0, 0) {
            segments.push(active);
        } else {
            end = (end.0, 0);
        }
        for segment in &segments {
            let to = if segment.number == end.0 { end.1 } else { segment.end() };
            segment.sync(to)?;
        }
        let is_unnamed = |segment: &Arc<Segment>| !segment.is_named.load(Ordering::Acquire);
        if segments.iter().any(is_unnamed) && !Failpoint::NameWithoutDirectorySync.is_on() {
            self.sync_dir()?;
            segments.iter().for_each(|segment| segment.is_named.store(true, Ordering::Release));
        }
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(writer) = &mut *writer {
            writer.unsynced.retain(|segment| segment.number >= end.0);
            let sealed = if Failpoint::DurableTooFar.is_on() { end.0 } else { end.0 - 1 };
            writer.durable = writer.durable.max(sealed);
        }
        Ok(end)
    }

    /// `Failed`, now and for every later write, if the store's directory or lock is no longer the
    /// one at its path. Files are found relative to the open directory, so nothing that is at that
    /// path now was touched; but what would be written here, no later opening would find there.
    pub(crate) fn check_place(&self) -> Result<()> {
        let checked = self.lock.as_ref().map_or(Ok(()), |lock| lock.check());
        checked.inspect_err(|e| self.fail(e))
    }

    /// Makes the names in the directory durable. A failure is final: which names are lost nobody
    /// knows, and a later sync would not save them.
    pub(crate) fn sync_dir(&self) -> Result<()> {
        self.disk.sync_dir(&self.dir).inspect_err(|e| self.fail(e))
    }

    /// Publishes a file of the store: see `disk::publish`.
    pub(crate) fn publish(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Append) -> Result<()>,
    ) -> Result<()> {
        self.stage(name, write)?;
        self.sync_dir()
    }

    /// [`Shared::publish`] of a file whose name may be lost in a power cut.
    pub(crate) fn stage(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Append) -> Result<()>,
    ) -> Result<()> {
        let path = self.dir.join(name);
        let count =
            |out: &mut dyn Append| write(&mut Counted { out, bytes: &self.counters.upkeep_bytes });
        disk::stage(&*self.disk, &path, count, |()| path.clone())
    }

    /// Length of the next segment's file in a store of so many segments.
    pub(crate) fn capacity_for(&self, segments: usize) -> u64 {
        let live = self.counters.live_bytes.load(Ordering::Relaxed);
        let largest = self.options.segment_bytes;
        // The more segments, the larger they get: their number has a limit.
        let least = (SEGMENT_MIN << (segments / 1024).min(10)).min(largest);
        let head = HEAD_SHARE * head_length(segments) as u64;
        (live / SEGMENT_SHARE).clamp(least, largest).max(head).next_multiple_of(4096)
    }

    /// Writes what makes the next opening short.
    fn ease_opening(&self, position: Position) -> Result<()> {
        self.record_end(position)?;
        while self.seal_with(Need::Fill)? {}
        let sealed = self.table.load().in_order();
        let sealed = sealed.iter().filter(|s| s.hint.get().is_some()).map(|s| s.number).max();
        if sealed.unwrap_or(0) > self.checkpointed.load(Ordering::Relaxed) {
            self.write_checkpoint()?;
        }
        Ok(())
    }

    /// Writes what the next opening needs, and closes the writer.
    fn shut(&self) -> Result<()> {
        // Whatever cannot be settled is in the log, and was acknowledged.
        let position = match self.unsettled() {
            Ok(writer) => writer.position(),
            Err(_) => return Ok(()),
        };
        if !Failpoint::CloseWithoutSync.is_on() {
            self.make_durable(position)?;
        }
        self.finish_compaction()?;
        self.writer()?.drop_spare(self)?;
        match self.ease_opening(position) {
            Err(e) if e.is_disk_full() => {} // The next opening takes longer.
            eased => eased?,
        }
        self.writer()?.is_closed = true;
        Ok(())
    }
}

/// Counts what is appended.
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

/// `InvalidArgument` if a key is too long.
pub(crate) fn check_key(key: &[u8]) -> Result<()> {
    if key.len() <= MAX_KEY {
        return Ok(());
    }
    Err(Error::invalid(format!("a key of {} bytes; at most {MAX_KEY}", key.len())))
}
