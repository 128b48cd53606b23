//! A file of fixed length that one thread appends to while others read it through a shared map.
//!
//! Bytes are appended in one of two ways ([`AppendMode`]). With both, appended bytes survive a
//! process crash at any moment, and everything after the end is zeros:
//! - [`AppendMode::Map`] copies the bytes into the map, without a system call. A store into a map
//!   cannot return an error: if the file system has no block for it, the process gets SIGBUS. This
//!   mode is for file systems that keep the space that was reserved when the file was created.
//! - [`AppendMode::Write`] calls `pwrite`, which reports a full disk as an error. The end of the
//!   file does not move then, and a later append may succeed.
//!
//! Power loss may keep any subset of the unsynced sectors and turn the others to zeros.
//!
//! Most of the cost of a map is in its page faults, which the kernel handles best in batches:
//! - The writer writes zeros ahead of the end in pieces of 128 KiB. The kernel then holds a piece
//!   as one large folio, and the first store into it maps all of it. Otherwise each page of 4 KiB
//!   takes a fault of its own, which is three times as much work. Larger pieces slow down small
//!   syncs, since the whole folio counts as dirty (0.14 ms with 128 KiB, 0.2 ms with 512 KiB), and
//!   gets that run next to updates of 1 kB (p99 of 2 us with 128 KiB, of 7 us with 256 KiB or
//!   more). Pieces of 2 MiB become huge pages, and random reads get an eighth faster; but virtual
//!   machines that return free huge pages to their host have to fetch each again, which makes
//!   filling a third slower.
//! - Before a long sync, the pages are unmapped all at once, and mapped again for reading.
//!   Otherwise the kernel write-protects them one by one, with an interrupt to every processor that
//!   uses the map, and gets fault them in again, 64 KiB at a time.
//! - A store into a dirty page does not change the file's modification time. Each sync sets it,
//!   since programs that copy files by length and time (rsync) depend on it.

#![expect(unsafe_code, reason = "one thread writes after the end while others read before it")]

use crate::{Error, ErrorKind, Result};
use memmap2::{Advice, MmapRaw};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes that are prepared at once. Syncs of at least as many bytes are long ones.
pub(super) const PIECE: usize = 128 << 10;

/// Parts of up to this many bytes are joined, so that they take one `pwrite`.
const GATHER: usize = 64 << 10;

/// How a log writes appended records to the file of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum AppendMode {
    /// [`AppendMode::Map`] on tmpfs and in extent-based files on ext4, under Linux;
    /// [`AppendMode::Write`] everywhere else.
    #[default]
    Auto,
    /// A store into a map of the file: the fastest mode. If the file system needs new blocks for
    /// it (btrfs, XFS after a reflink copy, ext4 without extents), a full or failing disk kills
    /// the process with SIGBUS.
    Map,
    /// One `pwrite`, which takes half a microsecond longer. A full or failing disk is reported as
    /// an error.
    Write,
}

impl AppendMode {
    /// The name of the mode: `auto`, `map` or `write`.
    pub fn name(self) -> &'static str {
        match self {
            AppendMode::Auto => "auto",
            AppendMode::Map => "map",
            AppendMode::Write => "write",
        }
    }
}

/// The file behind an [`AppendMap`].
pub(super) trait AppendMapFile: Send + Sync {
    /// Called before bytes are stored into the map; the simulated disk records them.
    fn stored(&self, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }
    /// Prepares the bytes `from..to`, which are zeros, for fast stores.
    fn prepare(&self, from: usize, to: usize) -> Result<()>;
    /// Writes bytes at offset `at`. After an error, `written` is the number of bytes written.
    fn write(&self, bytes: &[u8], at: usize, written: &mut usize) -> Result<()>;
    /// Makes the bytes `from..to` of the map and the length of the file durable.
    fn sync(&self, map: &MmapRaw, from: usize, to: usize, mode: AppendMode) -> Result<()>;
    /// Closes the file; the map stays valid.
    fn close(&self) {}
}

/// The shared side of an append map, for readers on any number of threads.
pub(crate) struct AppendMap {
    map: MmapRaw,
    /// Bytes before the end never change again.
    end: AtomicUsize,
    file: Box<dyn AppendMapFile>,
    /// `Map` or `Write`.
    mode: AppendMode,
    path: PathBuf,
    failed: AtomicBool,
}

/// The writer's side. Exactly one exists per append map, which makes appending sound.
pub(crate) struct AppendMapWriter {
    shared: Arc<AppendMap>,
    /// Bytes before this offset are prepared.
    ready: usize,
    /// A failed write left bytes after the end that could not be zeroed. Nothing more is appended.
    is_spoiled: bool,
    /// Buffer for the parts of one `pwrite`.
    gathered: Vec<u8>,
}

impl AppendMap {
    /// Creates both sides over a map whose bytes before `end` are in use.
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

    /// How bytes are appended; never `Auto`.
    pub(crate) fn mode(&self) -> AppendMode {
        self.mode
    }

    /// Length of the file.
    pub(crate) fn capacity(&self) -> usize {
        self.map.len()
    }

    /// Number of appended bytes.
    pub(crate) fn end(&self) -> usize {
        self.end.load(Ordering::Acquire)
    }

    /// The appended bytes.
    #[inline]
    pub(crate) fn filled(&self) -> &[u8] {
        let end = self.end.load(Ordering::Acquire);
        // SAFETY: the map is `capacity` bytes long, `end` is never larger, and the map lives as
        // long as `self`. Bytes before `end` were written before `end` was stored with `Release`,
        // and `AppendMapWriter::append` writes only after it, so the bytes of this slice never
        // change. Other programs must not modify the files of a store (docs/durability.md).
        unsafe { std::slice::from_raw_parts(self.map.as_ptr(), end) }
    }

    /// Advises the kernel to expect random reads; see [`Map::expect_random`].
    ///
    /// [`Map::expect_random`]: crate::disk::map::Map::expect_random
    pub(crate) fn expect_random(&self) {
        let _ = self.map.advise(Advice::Random);
    }

    /// Advises the kernel to read everything ahead; see [`Map::expect_all`].
    ///
    /// [`Map::expect_all`]: crate::disk::map::Map::expect_all
    pub(crate) fn expect_all(&self) {
        let _ = self.map.advise(Advice::WillNeed);
    }

    /// Closes the file once it is full and durable, since the number of open files per process is
    /// limited. The map stays valid.
    pub(crate) fn close(&self) {
        self.file.close();
    }

    /// Makes the bytes `from..to` durable. A failed sync is never repeated, since the kernel may
    /// have marked the unwritten pages clean: every later call returns `Failed`.
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
    /// The shared side.
    pub(crate) fn shared(&self) -> &Arc<AppendMap> {
        &self.shared
    }

    /// Number of bytes that can still be appended.
    pub(crate) fn room(&self) -> usize {
        match self.is_spoiled {
            true => 0,
            false => self.shared.capacity() - self.shared.end.load(Ordering::Relaxed),
        }
    }

    /// Prepares the bytes up to `to` for fast appends, while no writer waits. Otherwise
    /// [`AppendMapWriter::append`] does it piece by piece. Has no effect in mode `Write`, whose
    /// writes may go to other blocks than the prepared ones.
    pub(crate) fn prepare(&mut self, to: usize) -> Result<()> {
        if self.shared.mode != AppendMode::Map {
            return Ok(());
        }
        // The piece that contains the end may already hold bytes.
        let from = self.ready.max(self.shared.end().next_multiple_of(PIECE));
        let to = to.next_multiple_of(PIECE).min(self.shared.capacity());
        if from < to {
            self.shared.file.prepare(from, to)?;
        }
        self.ready = self.ready.max(to);
        Ok(())
    }

    /// Appends the parts one after another and publishes them to readers at once. After an error,
    /// nothing was appended.
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
            // writable in this mode. No reader has a slice of these bytes, since they lie after the
            // end. No other writer exists: `append` takes `&mut self`, and `AppendMap::new` creates
            // one writer per map. The parts cannot overlap with the destination, because nothing
            // else refers to these bytes.
            unsafe {
                let to = self.shared.map.as_mut_ptr().add(at);
                std::ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
            }
            at += part.len();
        }
        Ok(())
    }

    /// Writes the parts to the file. After an error, the bytes that were written are zeroed, so
    /// that the next record is not followed by a fragment of this one.
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

/// Calls `write` with the parts; small ones are joined in `buffer`.
fn gather(
    buffer: &mut Vec<u8>,
    parts: &[&[u8]],
    mut write: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    buffer.clear();
    for part in parts {
        if buffer.len() + part.len() > GATHER && !buffer.is_empty() {
            write(buffer)?;
            buffer.clear();
        }
        match part.len() > GATHER {
            true => write(part)?,
            false => buffer.extend_from_slice(part),
        }
    }
    if buffer.is_empty() { Ok(()) } else { write(buffer) }
}
