//! A file of fixed length that is filled from the front, and read while it is being filled.
//!
//! Its space is reserved when it is created, so that a full disk is an error then and never a
//! SIGBUS later. Bytes are appended by copying them into a shared map: no call to the kernel, and
//! the bytes survive the death of the process at any moment. What lies behind the end is zeros. A
//! power cut may keep any of the sectors that were not synced and turn the others to zeros.
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

#![expect(unsafe_code, reason = "one thread writes behind the end while others read before it")]

use crate::{Error, ErrorKind, Result};
use memmap2::{Advice, MmapOptions, MmapRaw, UncheckedAdvice};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Bytes made ready at once, and bytes from which on a sync is a long one.
const PIECE: usize = 128 << 10;

/// What a [`Tape`] asks of its disk.
pub(super) trait TapeFile: Send + Sync {
    /// Told of bytes that were appended: only the simulated disk needs to know.
    fn appended(&self, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }
    /// Makes the bytes `from..to`, which are zeros, cheap to store to: a hint, taken or not.
    fn prepare(&self, _from: usize, _to: usize) {}
    /// Makes the bytes `from..to` of the map durable, and the length of the file.
    fn sync(&self, map: &MmapRaw, from: usize, to: usize) -> Result<()>;
    /// Closes the file; the map stays.
    fn close(&self) {}
}

/// The readers' side of a tape, shared by any number of threads.
pub(crate) struct Tape {
    map: MmapRaw,
    /// Bytes before it never change again.
    end: AtomicUsize,
    file: Box<dyn TapeFile>,
    path: PathBuf,
    failed: AtomicBool,
}

/// The writer's side. There is one for each tape, which is what makes appending sound.
pub(crate) struct TapeWriter {
    tape: Arc<Tape>,
    /// Bytes up to here are ready to be stored to.
    ready: usize,
}

impl Tape {
    /// A tape over a map whose bytes before `end` are in use.
    pub(super) fn new(
        map: MmapRaw,
        end: usize,
        file: Box<dyn TapeFile>,
        path: &Path,
    ) -> (Arc<Tape>, TapeWriter) {
        let end = AtomicUsize::new(end.min(map.len()));
        let failed = AtomicBool::new(false);
        let tape = Arc::new(Tape { map, end, file, path: path.into(), failed });
        let writer = TapeWriter { tape: Arc::clone(&tape), ready: 0 };
        (tape, writer)
    }

    /// A tape over the whole of a file, of which the bytes before `end` are in use.
    pub(super) fn of_file(file: File, end: usize, path: &Path) -> Result<(Arc<Tape>, TapeWriter)> {
        let length = file.metadata().map_err(|e| Error::io("look at", path, e))?.len();
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let map = MmapOptions::new().len(length).map_raw(&file);
        let map = map.map_err(|e| Error::io("map", path, e))?;
        let file = OsTape { path: path.into(), file: Mutex::new(Some(Arc::new(file))) };
        Ok(Tape::new(map, end, Box::new(file), path))
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
        // `TapeWriter::append` writes behind it only: nobody changes what this slice shows. Other
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
        self.file.sync(&self.map, from.min(to), to.min(self.capacity()))?;
        self.failed.store(false, Ordering::Release);
        Ok(())
    }
}

impl TapeWriter {
    /// The readers' side.
    pub(crate) fn tape(&self) -> &Arc<Tape> {
        &self.tape
    }

    /// Number of bytes that fit behind the end.
    pub(crate) fn room(&self) -> usize {
        self.tape.capacity() - self.tape.end.load(Ordering::Relaxed)
    }

    /// Makes the bytes up to `to` cheap to append: what [`TapeWriter::append`] does anyway, piece
    /// by piece, for a time when nobody waits.
    pub(crate) fn prepare(&mut self, to: usize) {
        // The piece that the end is in may hold bytes already.
        let from = self.ready.max(self.tape.end().next_multiple_of(PIECE));
        let to = to.next_multiple_of(PIECE).min(self.tape.capacity());
        if from < to {
            self.tape.file.prepare(from, to);
        }
        self.ready = self.ready.max(to);
    }

    /// Appends the parts, one behind the other, and shows them to readers all at once.
    pub(crate) fn append(&mut self, parts: &[&[u8]]) -> Result<()> {
        let mut at = self.tape.end.load(Ordering::Relaxed);
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > self.room() {
            let message = format!("{length} bytes do not fit into {}", self.room());
            return Err(Error::new(ErrorKind::Failed, message).in_file(&self.tape.path));
        }
        if at + length > self.ready {
            self.prepare(at + length);
        }
        for part in parts {
            self.tape.file.appended(part)?;
            // SAFETY: `room` says that `at..at + part.len()` lies inside the map. No reader has a
            // slice of it, since it is behind the end, and no other writer exists: `append` takes
            // `&mut self`, and `Tape::new` makes one writer for each map. The parts cannot overlap
            // with it, as nobody ever got a reference to these bytes.
            unsafe {
                let to = self.tape.map.as_mut_ptr().add(at);
                std::ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
            }
            at += part.len();
        }
        self.tape.end.store(at, Ordering::Release);
        Ok(())
    }
}

/// A file of the operating system.
struct OsTape {
    path: PathBuf,
    /// `None` when it was closed.
    file: Mutex<Option<Arc<File>>>,
}

impl OsTape {
    fn file(&self) -> Option<Arc<File>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl TapeFile for OsTape {
    fn prepare(&self, from: usize, to: usize) {
        static ZEROS: LazyLock<Vec<u8>> = LazyLock::new(|| vec![0; PIECE]);
        let Some(file) = self.file() else { return };
        for at in (from..to).step_by(PIECE) {
            let zeros = &ZEROS[..PIECE.min(to - at)];
            if file.write_all_at(zeros, at as u64).is_err() {
                return; // The file has its space; what does not work costs time only.
            }
        }
    }

    fn sync(&self, map: &MmapRaw, from: usize, to: usize) -> Result<()> {
        let Some(file) = self.file() else {
            return Err(Error::new(ErrorKind::Failed, "it was closed").in_file(&self.path));
        };
        if to - from >= PIECE {
            // SAFETY: the map is shared and of a file, so its bytes are in the page cache and come
            // back from there, for readers and for the writer, whenever one of them needs them.
            // `sync` of [`Tape`] keeps both ends inside of the map. It is advice: done or not.
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
        synced.map_err(|e| Error::io("sync", &self.path, e))
    }

    fn close(&self) {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
