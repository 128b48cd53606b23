//! A file of fixed length that is filled from the front, and read while it is being filled.
//!
//! Its space is reserved when it is created, so that a full disk is an error then and never a
//! SIGBUS later. Bytes are appended by copying them into a shared map: no call to the kernel, and
//! the bytes survive the death of the process at any moment. What lies behind the end is zeros. A
//! power cut may keep any of the sectors that were not synced and turn the others to zeros.

#![expect(unsafe_code, reason = "one thread writes behind the end while others read before it")]

use crate::{Error, ErrorKind, Result};
use memmap2::{Advice, MmapRaw};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes brought into memory at once.
const PIECE: usize = 256 << 10;

/// What a [`Tape`] asks of its disk.
pub(super) trait TapeFile: Send + Sync {
    /// Told of bytes that were appended: only the simulated disk needs to know.
    fn appended(&self, _bytes: &[u8]) -> Result<()> {
        Ok(())
    }
    /// Makes the bytes `from..to` of the map durable, and the length of the file.
    fn sync(&self, map: &MmapRaw, from: usize, to: usize) -> Result<()>;
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
pub(crate) struct TapeWriter(Arc<Tape>);

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
        (Arc::clone(&tape), TapeWriter(tape))
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

    /// Brings the pages `from..to` into memory, ready to be written: a hint, taken or not.
    pub(crate) fn prepare(&self, from: usize, to: usize) {
        let to = to.min(self.capacity());
        // In pieces: meanwhile nobody in this process can map or unmap anything.
        for at in (from..to).step_by(PIECE) {
            let _ = self.map.advise_range(Advice::PopulateWrite, at, PIECE.min(to - at));
        }
    }
}

impl TapeWriter {
    /// The readers' side.
    pub(crate) fn tape(&self) -> &Arc<Tape> {
        &self.0
    }

    /// Number of bytes that fit behind the end.
    pub(crate) fn room(&self) -> usize {
        self.0.capacity() - self.0.end.load(Ordering::Relaxed)
    }

    /// Appends the parts, one behind the other, and shows them to readers all at once.
    pub(crate) fn append(&mut self, parts: &[&[u8]]) -> Result<()> {
        let mut at = self.0.end.load(Ordering::Relaxed);
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > self.room() {
            let message = format!("{length} bytes do not fit into {}", self.room());
            return Err(Error::new(ErrorKind::Failed, message).in_file(&self.0.path));
        }
        for part in parts {
            self.0.file.appended(part)?;
            // SAFETY: `room` says that `at..at + part.len()` lies inside the map. No reader has a
            // slice of it, since it is behind the end, and no other writer exists: `append` takes
            // `&mut self`, and `Tape::new` makes one writer for each map. The parts cannot overlap
            // with it, as nobody ever got a reference to these bytes.
            unsafe {
                let to = self.0.map.as_mut_ptr().add(at);
                std::ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
            }
            at += part.len();
        }
        self.0.end.store(at, Ordering::Release);
        Ok(())
    }
}
