//! [`LogStore`]: opening, closing and maintaining a store. Its other methods are in `operations.rs`
//! and `admin/operations.rs`.

use crate::bytes::key_range::KeyRange;
use crate::disk::{self, AppendMode, DiskRef};
use crate::log::failpoints::Failpoint;
use crate::log::format::segment_head::LogPosition;
use crate::log::maintenance::checkpoint::write_checkpoint;
use crate::log::maintenance::compaction::{self, finish_compaction};
use crate::log::maintenance::key_order::write_runs;
use crate::log::maintenance::seal::seal_with;
use crate::log::maintenance::steps;
use crate::log::maintenance::threads::{MaintenanceThreads, start_maintenance};
use crate::log::open::promotion::{self, Promoted};
use crate::log::open::recovery;
use crate::log::open::refresh::{self, Refreshed};
use crate::log::options::Options;
use crate::log::read::range::Range;
use crate::log::read::scan::Iter;
use crate::log::read::snapshot::{self, Snapshot};
use crate::log::segments::reserve::Need;
use crate::log::segments::segment::Segment;
use crate::log::state::key_order::SegmentTail;
use crate::log::state::shared::Shared;
use crate::log::state::signals::Task;
use crate::log::stats::Stats;
use crate::log::write::active_segment::drop_spare;
use crate::log::write::settle::{lock_settled, settle_counts};
use crate::log::write::sync::make_durable;
use crate::sync::{Guard, Swap};
use crate::{Error, ErrorKind, Result};
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// A handle to a key-value store in a directory: see [`crate::log`]. Any number of threads may read
/// and write through it at the same time. Clones are cheap and share the store, which closes when
/// the last of them is dropped, or for all of them with [`LogStore::close`].
pub struct LogStore {
    /// [`Handle::writable`], where gets find it directly. `None` if this handle was opened for
    /// reading only.
    writable: Option<Arc<Shared>>,
    handle: Arc<Handle>,
}

/// What the clones of a store share.
struct Handle {
    /// The state of the store. A refresh or a promotion may replace it.
    current: Swap<Shared>,
    /// The same once the store is open for writing; then it is never replaced.
    writable: OnceLock<Arc<Shared>>,
    /// Held during a refresh, a promotion and a close. Whether the store was closed.
    changing: Mutex<bool>,
    threads: Mutex<Option<MaintenanceThreads>>,
}

/// The state of a store, for one call.
pub(crate) enum SharedRef<'a> {
    Writable(&'a Arc<Shared>),
    ReadOnly(Guard<Arc<Shared>>),
}

impl Deref for SharedRef<'_> {
    type Target = Arc<Shared>;

    #[inline]
    fn deref(&self) -> &Arc<Shared> {
        match self {
            SharedRef::Writable(shared) => shared,
            SharedRef::ReadOnly(shared) => shared,
        }
    }
}

impl LogStore {
    /// Opens the store in a directory for reading and writing, or creates one. Starts the threads
    /// that maintain it.
    ///
    /// Errors: `Locked` if another process or handle has it open for writing, `Corrupt` with file
    /// and offset if durable data is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<LogStore> {
        Self::open_with(path, Options::new())
    }

    /// [`LogStore::open`] with options. `NotFound` if there is no store and the options forbid
    /// creating one; `InvalidArgument` if an option is out of range.
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<LogStore> {
        Self::open_on(disk::os(), path.as_ref(), options)
    }

    /// Opens a store for reading only. Another process may have it open for writing, and
    /// [`LogStore::refresh`] shows what it wrote since. `NotFound` if there is no store.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<LogStore> {
        Self::open_with(path, Options::new().read_only(true))
    }

    /// [`LogStore::open_with`] on any disk.
    pub(crate) fn open_on(disk: DiskRef, path: &Path, options: Options) -> Result<LogStore> {
        span!(INFO, "firndb.log.open", path = %path.display());
        options.check()?;
        let is_writable = !options.read_only;
        let shared = Arc::new(recovery::open(disk, path, options)?);
        let threads = if is_writable { start_maintenance(&shared)? } else { None };
        let handle = Handle {
            current: Swap::new(Arc::clone(&shared)),
            writable: OnceLock::new(),
            changing: Mutex::new(false),
            threads: Mutex::new(threads),
        };
        let writable = is_writable.then_some(shared);
        writable.iter().for_each(|shared| drop(handle.writable.set(Arc::clone(shared))));
        Ok(LogStore { writable, handle: Arc::new(handle) })
    }

    /// The state of the store.
    #[inline]
    pub(crate) fn shared(&self) -> SharedRef<'_> {
        match self.open_for_writing() {
            Some(shared) => SharedRef::Writable(shared),
            None => SharedRef::ReadOnly(self.handle.current.load()),
        }
    }

    /// The state of a store that is open for writing; `None` if it is open for reading only. In a
    /// handle that was opened for writing, the first field has it, so gets load nothing else.
    #[inline]
    fn open_for_writing(&self) -> Option<&Arc<Shared>> {
        self.writable.as_ref().or_else(|| self.handle.writable.get())
    }

    /// The state of a store that is open for writing.
    #[cfg(test)]
    pub(crate) fn writable(&self) -> &Arc<Shared> {
        self.open_for_writing().expect("open for writing")
    }

    /// Number of keys. A key whose record has expired counts until a write or compaction removes
    /// the record: nothing is written at the time of expiry.
    pub fn len(&self) -> u64 {
        settle_counts(&self.shared());
        self.shared().counters.keys.load(Ordering::Relaxed)
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The store as it is now, with every batch as a whole or not at all. Records that have expired
    /// by now are absent in the snapshot; others stay in it even when their time comes.
    pub fn snapshot(&self) -> Snapshot {
        snapshot::take(&self.shared())
    }

    /// All keys and values, in the order in which they are stored on disk, as they are now: see
    /// [`Snapshot::iter`].
    pub fn iter(&self) -> Iter<'static> {
        self.snapshot().into_iter()
    }

    /// Whether the store is ordered: see [`Options::ordered`].
    pub fn is_ordered(&self) -> bool {
        self.shared().order.is_some()
    }

    /// The keys in a range and their values, in byte order of the keys, as they are now: later
    /// writes do not change what the iterator shows. For an ordered store ([`Options::ordered`]).
    ///
    /// ```
    /// use firndb::log::{LogStore, Options};
    /// # fn main() -> firndb::Result<()> {
    /// # let dir = std::env::temp_dir().join(format!("firndb-doc-range-{}", std::process::id()));
    /// # let result = example(&dir);
    /// # let _ = std::fs::remove_dir_all(&dir);
    /// # result }
    ///
    /// fn example(dir: &std::path::Path) -> firndb::Result<()> {
    ///     let store = LogStore::open_with(dir, Options::new().ordered(true))?;
    ///     for key in ["b", "d", "a", "c"] {
    ///         store.put(key, "")?;
    ///     }
    ///     let keys = |records: firndb::log::Range| {
    ///         records.map(|record| Ok(record?.0[0] as char)).collect::<firndb::Result<String>>()
    ///     };
    ///     assert_eq!(keys(store.range("b".."d")?)?, "bc");
    ///     assert_eq!(keys(store.range(..)?.reversed())?, "dcba");
    ///     Ok(())
    /// }
    /// ```
    ///
    /// Takes a snapshot, searches for the first key in each of usually 10 to 20 sorted sources,
    /// and from then on reads the index and the record of each key. Memory is needed for the keys
    /// that are changed while the iterator exists, as for a [`Snapshot`].
    ///
    /// Errors: `InvalidArgument` if the store is not ordered. The iterator ends with an error of
    /// kind `Corrupt` at a damaged record; if its segment has no key run, before all records.
    pub fn range(&self, range: impl Into<KeyRange>) -> Result<Range<'static>> {
        self.snapshot().into_range(range.into())
    }

    /// The keys that begin with these bytes and their values, in byte order of the keys: see
    /// [`LogStore::range`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Range<'static>> {
        self.range(KeyRange::prefix(prefix))
    }

    /// Shows the changes of another process that writes to the store. Returns whether there were
    /// any. For a store that is open for reading only; one that is open for writing is always up to
    /// date. Clones are refreshed too. Other threads may read meanwhile; they see each change when
    /// it is applied, in the order of the log.
    ///
    /// Lists the directory and looks at the end of the log. If more was written, reads the segments
    /// that are not sealed yet and the records written since the last look, and goes once through
    /// the index in memory if segments were compacted since. If much was written, or if there are
    /// snapshots, which keep the state that they show, opens the store again. After an error the
    /// handle shows the old state, or, if there was no memory for the index, a part of the changes.
    pub fn refresh(&self) -> Result<bool> {
        if self.open_for_writing().is_some() {
            return Ok(false);
        }
        let _one_at_a_time = self.handle.lock();
        if self.open_for_writing().is_some() {
            return Ok(false); // It was promoted.
        }
        let shared = self.handle.current.load_full();
        let before = shared.seen_end();
        match refresh::catch_up(&shared)? {
            Refreshed::UpToDate { has_changed } => Ok(has_changed),
            Refreshed::MustReopen => {
                let (disk, options) = (shared.dir.disk.clone(), shared.options.clone());
                let new = recovery::open(disk, &shared.dir.path, options)?;
                let is_same = new.dir.store == shared.dir.store
                    && before.is_some()
                    && before == new.seen_end();
                self.handle.current.store(Arc::new(new));
                Ok(!is_same)
            }
        }
    }

    /// Makes a store that is open for reading only the writer, if no other process or handle is:
    /// for a standby that takes over when the writer has ended or died. Everything that the last
    /// writer acknowledged is there. From then on this handle and all its clones write like one
    /// from [`LogStore::open`], with the options that it was opened with. Gets of other threads
    /// continue without a pause, and snapshots show what they showed before. Does nothing on a
    /// handle that is open for writing.
    ///
    /// ```no_run
    /// use firndb::ErrorKind;
    /// use firndb::log::LogStore;
    /// use std::time::Duration;
    ///
    /// /// Follows the writer of a store, and takes over when it is gone.
    /// fn stand_by(dir: &str) -> firndb::Result<LogStore> {
    ///     let store = LogStore::open_read_only(dir)?;
    ///     loop {
    ///         match store.promote() {
    ///             Err(e) if e.kind() == ErrorKind::Locked => {} // The writer is alive.
    ///             Err(e) => return Err(e),
    ///             Ok(()) => return Ok(store),
    ///         }
    ///         store.refresh()?; // Keeps the distance short; gets of other threads continue.
    ///         std::thread::sleep(Duration::from_secs(1));
    ///     }
    /// }
    /// ```
    ///
    /// Takes the lock, refreshes, opens the segments that are not sealed, and begins a new one. The
    /// time does not depend on the number of keys: some milliseconds if little was written since
    /// the last refresh, and three syncs of the disk if the writer left files to be removed.
    ///
    /// In some cases this opens the store again: it then takes as long as [`LogStore::open`], and
    /// memory for both the old and the new index. These are the cases in which a refresh does the
    /// same (much was written since the last one, anything was written while a snapshot exists, or
    /// the access is [`Access::Buffered`](crate::log::Access::Buffered)), a full disk, and a
    /// backup.
    ///
    /// Errors: `Locked` if another process or handle has the store open for writing; `Failed` if
    /// the store was closed, and in a forked child; otherwise those of [`LogStore::open`]. After an
    /// error the handle is a reader as before, and this may be called again.
    pub fn promote(&self) -> Result<()> {
        if self.open_for_writing().is_some() {
            return Ok(());
        }
        // Before a lock that a thread of the parent may have held at the time of a fork.
        self.shared().dir.check_writable()?;
        let is_closed = self.handle.lock();
        if self.open_for_writing().is_some() {
            return Ok(());
        }
        let shared = self.handle.current.load_full();
        span!(INFO, "firndb.log.promote", path = %shared.dir.path.display());
        if *is_closed {
            return Err(Error::new(ErrorKind::Failed, "the store is closed"));
        }
        let (shared, threads) = match promotion::promote(&shared)? {
            Promoted::Writer(threads) => (shared, threads),
            Promoted::MustReopen => {
                let disk = shared.dir.disk.clone();
                let options = promotion::writer_options(&shared);
                let new = Arc::new(recovery::open(disk, &shared.dir.path, options)?);
                let threads = start_maintenance(&new)?;
                self.handle.current.store(Arc::clone(&new));
                (new, threads)
            }
        };
        *self.handle.threads.lock().unwrap_or_else(PoisonError::into_inner) = threads;
        let _ = self.handle.writable.set(shared);
        Ok(())
    }

    /// Makes every write before this call durable.
    pub fn sync(&self) -> Result<()> {
        let shared = self.shared();
        let position = lock_settled(&shared)?.position();
        make_durable(&shared, position)
    }

    /// Does one step of maintenance, if one is due, and returns whether it did: prepares the next
    /// segment, makes a sealed one durable, takes a checkpoint, or compacts a segment. A store
    /// opened with [`Options::background`] does this by itself.
    ///
    /// In an ordered store, an error of key runs is returned when nothing else is due: only scans
    /// depend on them.
    pub fn maintain(&self) -> Result<bool> {
        steps::maintain(&self.shared())
    }

    /// Copies the live records of every segment of which at least this share (0 to 1) is stale, and
    /// removes those segments; 0 rewrites the whole store. Returns the number of segments. Reading
    /// and writing continue meanwhile.
    ///
    /// On a full disk it uses reserved space. If that is not enough, the error is of kind `Io`.
    pub fn compact(&self, threshold: f64) -> Result<usize> {
        compaction::compact(&self.shared(), threshold)
    }

    /// Stops compaction in the background after the current record. Files that it emptied and has
    /// not removed yet, at most 16, are removed by [`LogStore::resume_compaction`],
    /// [`LogStore::compact`] or a close.
    pub fn pause_compaction(&self) {
        compaction::pause(&self.shared());
    }

    /// Lets compaction in the background continue.
    pub fn resume_compaction(&self) {
        self.shared().maintenance.is_compaction_paused.store(false, Ordering::Release);
        self.shared().wake(Task::Compact);
    }

    /// Whether maintenance is behind, so that the next write may wait for it: some milliseconds, or
    /// up to a second near the limit of segments. Takes no lock. For callers that have something to
    /// release before they wait.
    #[inline]
    pub fn has_backpressure(&self) -> bool {
        self.open_for_writing().is_some_and(|shared| shared.backpressure.is_behind())
    }

    /// The size of the store and its segments, and counts of its operations. Takes time in
    /// proportion to the number of segments.
    pub fn stats(&self) -> Stats {
        let shared = self.shared();
        let shared = &**shared;
        settle_counts(shared);
        let counters = &shared.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let segments = shared.segments();
        let (segment_stats, pending_segments) = compaction::segment_stats(shared);
        // Another thread of the parent may have held a lock of the tails at the time of a fork.
        let sources = shared.order.as_ref().map(|order| order.sources()).unwrap_or_default();
        let tails = if shared.dir.is_forked_child() { &[] } else { &sources.tails[..] };
        Stats {
            keys: get(&counters.keys),
            segments: segments.len() as u64,
            disk_bytes: segments.iter().map(|segment| segment.capacity()).sum(),
            held_bytes: shared.maintenance.held_bytes(),
            live_bytes: get(&counters.live_bytes),
            append_mode: append_mode(shared, segments.last()),
            index_bytes: shared.lookup.index.memory(),
            is_ordered: shared.order.is_some(),
            key_runs: sources.runs.len() as u64,
            key_run_bytes: sources.runs.iter().map(|run| run.bytes()).sum(),
            tail_bytes: tails.iter().map(SegmentTail::memory).sum(),
            puts: get(&counters.puts),
            deletes: get(&counters.deletes),
            user_bytes: get(&counters.user_bytes),
            log_bytes: get(&counters.log_bytes),
            syncs: get(&counters.syncs),
            false_reads: get(&shared.lookup.false_reads),
            moved_bytes: get(&counters.moved_bytes),
            moved_records: get(&counters.moved_records),
            scanned_records: get(&counters.scanned_records),
            removed_bytes: get(&counters.removed_bytes),
            compaction_seconds: get(&counters.compaction_nanos) as f64 / 1e9,
            is_compacting: shared.maintenance.is_compacting.load(Ordering::Relaxed),
            pending_segments,
            maintenance_bytes: get(&shared.dir.maintenance_bytes),
            backups: get(&counters.backups),
            segments_removed: get(&counters.segments_removed),
            recovery: *counters.recovery.lock().unwrap_or_else(PoisonError::into_inner),
            seconds: counters.opened.seconds(),
            segment_stats,
        }
    }

    /// Closes the store for all clones: makes everything durable, releases the lock and stops the
    /// threads. Later writes return an error of kind `Failed`; reads of other clones and snapshots
    /// continue to show the state at this moment. Dropping the last clone does the same, but cannot
    /// report an error.
    pub fn close(self) -> Result<()> {
        self.handle.shut_down()?;
        // Another thread may have got the error of a failed write: then this call reports it too.
        self.shared().dir.failure().map_or(Ok(()), Err)
    }
}

impl Handle {
    /// Locks out refreshes, promotions and closes of other threads.
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shut_down(&self) -> Result<()> {
        if self.current.load().dir.is_forked_child() {
            // The threads and the log are the parent's.
            let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take();
            std::mem::forget(threads);
            return Ok(());
        }
        let mut is_closed = self.lock();
        *is_closed = true;
        let Some(shared) = self.writable.get() else { return Ok(()) };
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(threads) = threads {
            threads.stop(shared);
        }
        let closed = match shared.dir.failed.get() {
            Some(_) => Ok(()),
            None => close_writer(shared),
        };
        release(shared);
        closed
    }
}

impl Clone for LogStore {
    fn clone(&self) -> LogStore {
        let writable = self.open_for_writing().cloned();
        LogStore { writable, handle: Arc::clone(&self.handle) }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let _ = self.shut_down();
    }
}

impl std::fmt::Debug for LogStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogStore").field("dir", &self.shared().dir.path).finish_non_exhaustive()
    }
}

fn append_mode(shared: &Shared, active: Option<&Arc<Segment>>) -> AppendMode {
    let Some(segment) = active else { return shared.options.append_mode };
    match (segment.append_mode(), shared.options.append_mode) {
        (AppendMode::Auto, AppendMode::Auto) => {
            shared.dir.disk.append_mode(&segment.path).unwrap_or_default()
        }
        (AppendMode::Auto, chosen) => chosen,
        (known, _) => known,
    }
}

/// Writes what the next opening needs, and closes the writer.
fn close_writer(shared: &Shared) -> Result<()> {
    // Deferred puts that cannot be settled are in the log and were acknowledged.
    let position = match shared.lock_writer() {
        Ok(writer) => writer.position(),
        Err(_) => return Ok(()),
    };
    if !Failpoint::CloseWithoutSync.is_on() {
        make_durable(shared, position)?;
    }
    finish_compaction(shared)?;
    drop_spare(shared, &mut *lock_settled(shared)?)?;
    match shorten_recovery(shared, position) {
        Err(e) if e.is_disk_full() => {} // The next opening takes longer.
        shortened => shortened?,
    }
    lock_settled(shared)?.is_closed = true;
    Ok(())
}

/// Ends all writing and lets other processes write. Maintenance that other threads are doing ends
/// before that.
fn release(shared: &Shared) {
    let maintenance = &shared.maintenance;
    let _no_compaction = maintenance.departed.lock().unwrap_or_else(PoisonError::into_inner);
    let _no_sealing = maintenance.sealing.lock().unwrap_or_else(PoisonError::into_inner);
    let order = shared.order.as_ref();
    let _no_runs = order.map(|order| order.working.lock().unwrap_or_else(PoisonError::into_inner));
    if let Some(writer) = &mut *shared.lock_any() {
        writer.is_closed = true;
    }
    shared.dir.unlock();
}

/// Writes the durable end, hints, a checkpoint and key runs, which make the next opening short.
fn shorten_recovery(shared: &Shared, position: LogPosition) -> Result<()> {
    shared.dir.record_end(position)?;
    while seal_with(shared, Need::Fill)? {}
    let segments = shared.segments();
    let sealed = segments.iter().filter(|s| s.hint.get().is_some()).map(|s| s.number).max();
    if sealed.unwrap_or(0) > shared.maintenance.checkpointed.load(Ordering::Relaxed) {
        write_checkpoint(shared)?;
    }
    match write_runs(shared) {
        // Only scans depend on key runs, and the next writer writes them.
        Err(_) if shared.dir.failed.get().is_none() => Ok(()),
        written => written,
    }
}
