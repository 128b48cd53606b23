//! A file of fixed length that is filled from the front, and read while it is being filled.
//!
//! Readers use a shared map. Bytes are appended in one of two ways ([`AppendMode`]); in both they
//! survive the death of the process at any moment, and what lies behind the end is zeros:
//! - [`AppendMode::Map`] copies them into the map, without a call to the kernel. A store into a map
//!   cannot fail: where the file system has no space for it, the process gets SIGBUS. So this is
//!   for file systems that keep the space that was reserved when the file was created.
//! - [`AppendMode::Write`] calls `pwrite`, which reports a full disk as an error. The end of the
//!   file stays where it was, and a later append may succeed.
//!
//! A power cut may keep any of the sectors that were not synced and turn the others to zeros.
//!
//! What a map costs is its pages, and the system does most for many at once:
//! - Zeros are written ahead of the end, a piece of 128 KiB a call. The kernel then holds the piece
//!   as one run of memory, and the first store into it maps all of it; otherwise each page of 4 KiB
//!   is a fault of its own, three times as much work. Larger pieces make the sync of a few bytes
//!   slower, since all of such a run counts as changed (0.14 ms with 128 KiB, 0.2 with 512), and
//!   gets beside updates of 1 kB (p99 2 us with 128 KiB, 7 with 256 or more). With 2 MiB a piece is
//!   one huge page, and random reads take an eighth less; but in virtual machines that give free
//!   huge pages back to their host each is fetched anew, which made filling a third slower.
//! - Before a long sync the pages are taken out of the map all at once, and put back for reading.
//!   Otherwise the kernel does the first page by page, interrupting all processors that use the map
//!   for each, and gets do the second, 64 KiB at a time.
//! - A store into a page that was changed before does not change the file's time of modification.
//!   Each sync sets it, since programs that copy files by length and time (rsync) rely on it.

#![expect(unsafe_code, reason = "one thread writes behind the end while others read before it")]

use crate::{Error, ErrorKind, Result};
use memmap2::{Advice, MmapOptions, MmapRaw, UncheckedAdvice};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::SystemTime;

/// Bytes made ready at once, and bytes from which on a sync is a long one.
const PIECE: usize = 128 << 10;

/// Parts of up to this many bytes are copied together, so that they take one `pwrite`.
const GATHER: usize = 64 << 10;

/// How appended bytes reach a segment's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AppendMode {
    /// [`AppendMode::Map`] on tmpfs and on ext4 in files with extents, [`AppendMode::Write`] on all
    /// other file systems.
    #[default]
    Auto,
    /// A store into a map of the file. Fastest. Where the file system may need new blocks for it
    /// (btrfs, XFS after a reflink copy, ext4 without extents), a full or failing disk ends the
    /// process with SIGBUS.
    Map,
    /// One `pwrite`, which takes half a microsecond longer. A full or failing disk is an error.
    Write,
}

impl AppendMode {
    /// `auto`, `map` or `write`.
    pub fn name(self) -> &'static str {
        match self {
            AppendMode::Auto => "auto",
            AppendMode::Map => "map",
            AppendMode::Write => "write",
        }
    }
}

/// What a [`AppendMap`] asks of its disk.
pub(super) trait AppendMapFile: Send + Sync {
    /// Called before bytes are stored into the map: only the simulated disk needs to know.
    fn stored(&self, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }
    /// Makes the bytes `from..to`, which are zeros, cheap to store to.
    fn prepare(&self, from: usize, to: usize) -> Result<()>;
    /// Writes bytes at this place; after an error, `written` says how many are there.
    fn write(&self, bytes: &[u8], at: usize, written: &mut usize) -> Result<()>;
    /// Makes the bytes `from..to` of the map durable, and the length of the file.
    fn sync(&self, map: &MmapRaw, from: usize, to: usize, mode: AppendMode) -> Result<()>;
    /// Closes the file; the map stays.
    fn close(&self) {}
}

/// The readers' side of an append map, shared by any number of threads.
pub(crate) struct AppendMap {
    map: MmapRaw,
    /// Bytes before it never change again.
    end: AtomicUsize,
    file: Box<dyn AppendMapFile>,
    /// Not `Auto`.
    mode: AppendMode,
    path: PathBuf,
    failed: AtomicBool,
}

/// The writer's side. There is one for each append map, which is what makes appending sound.
pub(crate) struct AppendMapWriter {
    shared: Arc<AppendMap>,
    /// Bytes up to here are ready to be stored to.
    ready: usize,
    /// A write left bytes behind the end that could not be taken back: nothing more is appended.
    is_spoiled: bool,
    /// Holds the parts of one `pwrite`.
    gathered: Vec<u8>,
}

impl AppendMap {
    /// An append map over a map whose bytes before `end` are in use.
    pub(super) fn new(
        map: MmapRaw,
        end: usize,
        file: Box<dyn AppendMapFile>,
        mode: AppendMode,
        path: &Path,
    ) -> (Arc<AppendMap>, AppendMapWriter) {
        let end = AtomicUsize::new(end.min(map.len()));
        let failed = AtomicBool::new(false);
        let shared = Arc::new(AppendMap { map, end, file, mode, path: path.into(), failed });
        let (ready, is_spoiled, gathered) = Default::default();
        let writer = AppendMapWriter { shared: Arc::clone(&shared), ready, is_spoiled, gathered };
        (shared, writer)
    }

    /// An append map over the whole of a file, of which the bytes before `end` are in use.
    pub(super) fn of_file(
        file: File,
        end: usize,
        mode: AppendMode,
        path: &Path,
    ) -> Result<(Arc<AppendMap>, AppendMapWriter)> {
        let length = file.metadata().map_err(|e| Error::io("look at", path, e))?.len();
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let mut options = MmapOptions::new();
        let map = match mode {
            AppendMode::Map => options.len(length).map_raw(&file),
            _ => options.len(length).map_raw_read_only(&file),
        };
        let map = map.map_err(|e| Error::io("map", path, e))?;
        let limit = super::os::file_size_limit();
        let file = OsAppendMap { path: path.into(), file: Mutex::new(Some(Arc::new(file))), limit };
        Ok(AppendMap::new(map, end, Box::new(file), mode, path))
    }

    /// How bytes are appended: not `Auto`.
    pub(crate) fn mode(&self) -> AppendMode {
        self.mode
    }

    /// Length of the file.
    pub(crate) fn capacity(&self) -> usize {
        self.map.len()
    }

    /// Number of bytes appended so far.
    pub(crate) fn end(&self) -> usize {
        self.end.load(Ordering::Acquire)
    }

    /// The bytes appended so far.
    #[inline]
    pub(crate) fn filled(&self) -> &[u8] {
        let end = self.end.load(Ordering::Acquire);
        // SAFETY: the map is `capacity` bytes long, `end` is never larger, and it lives as long as
        // `self`. Bytes before `end` were written before `end` was stored with `Release`, and
        // `AppendMapWriter::append` writes behind it only: nobody changes what this slice shows. Other
        // programs must leave the files of a store alone (docs/durability.md).
        unsafe { std::slice::from_raw_parts(self.map.as_ptr(), end) }
    }

    /// Says that it is full and will be read here and there: see `Map::expect_random`.
    pub(crate) fn expect_random(&self) {
        let _ = self.map.advise(Advice::Random);
    }

    /// Says that all of it will be read soon: see `Map::expect_all`.
    pub(crate) fn expect_all(&self) {
        let _ = self.map.advise(Advice::WillNeed);
    }

    /// Says that nothing more will be appended, and that all of it is durable: its file is closed,
    /// for a process may have only so many open. The bytes stay where they are.
    pub(crate) fn close(&self) {
        self.file.close();
    }

    /// Makes the bytes `from..to` durable. The first failure is the last call that reaches the
    /// file: after it the kernel may take unwritten pages for clean.
    pub(crate) fn sync(&self, from: usize, to: usize) -> Result<()> {
        if self.failed.swap(true, Ordering::AcqRel) {
            return Err(Error::new(
                ErrorKind::Failed,
                "an earlier sync of this file failed and is not repeated: find the cause, then \
                 open again",
            )
            .in_file(&self.path));
        }
        self.file.sync(&self.map, from.min(to), to.min(self.capacity()), self.mode)?;
        self.failed.store(false, Ordering::Release);
        Ok(())
    }
}

impl AppendMapWriter {
    /// The readers' side.
    pub(crate) fn shared(&self) -> &Arc<AppendMap> {
        &self.shared
    }

    /// Number of bytes that fit behind the end.
    pub(crate) fn room(&self) -> usize {
        match self.is_spoiled {
            true => 0,
            false => self.shared.capacity() - self.shared.end.load(Ordering::Relaxed),
        }
    }

    /// Makes the bytes up to `to` cheap to append: what [`AppendMapWriter::append`] does anyway, piece
    /// by piece, for a time when no writer waits. Not for an append map that is written to: what is
    /// written there may take other blocks than what was prepared.
    pub(crate) fn prepare(&mut self, to: usize) -> Result<()> {
        if self.shared.mode != AppendMode::Map {
            return Ok(());
        }
        // The piece that the end is in may hold bytes already.
        let from = self.ready.max(self.shared.end().next_multiple_of(PIECE));
        let to = to.next_multiple_of(PIECE).min(self.shared.capacity());
        if from < to {
            self.shared.file.prepare(from, to)?;
        }
        self.ready = self.ready.max(to);
        Ok(())
    }

    /// Appends the parts, one behind the other, and shows them to readers all at once. After an
    /// error nothing was appended.
    pub(crate) fn append(&mut self, parts: &[&[u8]]) -> Result<()> {
        let at = self.shared.end.load(Ordering::Relaxed);
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > self.room() {
            let message = format!("{length} bytes do not fit into {}", self.room());
            return Err(Error::new(ErrorKind::Failed, message).in_file(&self.shared.path));
        }
        match self.shared.mode {
            AppendMode::Map => self.store(at, length, parts)?,
            _ => self.write(at, parts)?,
        }
        self.shared.end.store(at + length, Ordering::Release);
        Ok(())
    }

    /// Copies the parts into the map.
    fn store(&mut self, mut at: usize, length: usize, parts: &[&[u8]]) -> Result<()> {
        if at + length > self.ready {
            self.prepare(at + length)?;
        }
        for part in parts {
            self.shared.file.stored(part)?;
            // SAFETY: `append` checked that `at..at + part.len()` lies inside the map, which is
            // writable in this mode. No reader has a slice of it, since it is behind the end, and
            // no other writer exists: `append` takes `&mut self`, and `AppendMap::new` makes one
            // for each append map. The parts cannot overlap with it: nothing else refers to these bytes.
            unsafe {
                let to = self.shared.map.as_mut_ptr().add(at);
                std::ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
            }
            at += part.len();
        }
        Ok(())
    }

    /// Writes the parts to the file. What was written before an error is taken back, so that the
    /// next record is not followed by a piece of this one.
    fn write(&mut self, start: usize, parts: &[&[u8]]) -> Result<()> {
        let (file, mut written) = (&self.shared.file, 0);
        let done = if let [part] = parts {
            file.write(part, start, &mut written)
        } else {
            gather(&mut self.gathered, parts, |bytes| {
                file.write(bytes, start + written, &mut written)
            })
        };
        if done.is_err() && written > 0 {
            let zeros = vec![0; written];
            self.is_spoiled = file.write(&zeros, start, &mut 0).is_err();
        }
        done
    }
}

/// Calls `write` with the parts, small ones joined in `room`.
fn gather(
    room: &mut Vec<u8>,
    parts: &[&[u8]],
    mut write: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    room.clear();
    for part in parts {
        if room.len() + part.len() > GATHER && !room.is_empty() {
            write(room)?;
            room.clear();
        }
        match part.len() > GATHER {
            true => write(part)?,
            false => room.extend_from_slice(part),
        }
    }
    if room.is_empty() { Ok(()) } else { write(room) }
}

/// A file of the operating system.
struct OsAppendMap {
    path: PathBuf,
    /// `None` when it was closed.
    file: Mutex<Option<Arc<File>>>,
    /// Bytes that the file may have.
    limit: u64,
}

impl OsAppendMap {
    fn open(&self) -> Result<Arc<File>> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let closed = || Error::new(ErrorKind::Failed, "it was closed").in_file(&self.path);
        file.ok_or_else(closed)
    }
}

impl AppendMapFile for OsAppendMap {
    fn prepare(&self, from: usize, to: usize) -> Result<()> {
        static ZEROS: LazyLock<Vec<u8>> = LazyLock::new(|| vec![0; PIECE]);
        (from..to)
            .step_by(PIECE)
            .try_for_each(|at| self.write(&ZEROS[..PIECE.min(to - at)], at, &mut 0))
    }

    fn write(&self, bytes: &[u8], at: usize, written: &mut usize) -> Result<()> {
        let failed = |e| Error::io("write to", &self.path, e);
        let file = self.open()?;
        if (at + bytes.len()) as u64 > self.limit {
            return Err(failed(io::ErrorKind::FileTooLarge.into())); // Instead of SIGXFSZ.
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            match file.write_at(rest, (at + bytes.len() - rest.len()) as u64) {
                Ok(0) => return Err(failed(io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    rest = &rest[count..];
                    *written += count;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(failed(e)),
            }
        }
        Ok(())
    }

    fn sync(&self, map: &MmapRaw, from: usize, to: usize, mode: AppendMode) -> Result<()> {
        let file = self.open()?;
        if mode == AppendMode::Map && to - from >= PIECE {
            // SAFETY: the map is shared and of a file, so its bytes are in the page cache and come
            // back from there, for readers and for the writer, whenever one of them needs them.
            // `sync` of [`AppendMap`] keeps both ends inside of the map. It is advice: done or not.
            let _ =
                unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, from, to - from) };
            #[cfg(target_os = "linux")] // From 5.14 on.
            let _ = map.advise_range(Advice::PopulateRead, from, to - from);
        }
        let synced = if cfg!(target_os = "macos") {
            // There msync does not reach the platter.
            map.flush_range(from, to - from).and_then(|()| file.sync_data())
        } else {
            file.sync_data()
        };
        synced.map_err(|e| Error::io("sync", &self.path, e))?;
        if mode == AppendMode::Map {
            // Not part of what is durable, so a failure is none of the sync.
            let _ = file.set_modified(SystemTime::now());
        }
        Ok(())
    }

    fn close(&self) {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
