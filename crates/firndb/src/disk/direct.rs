//! Reads past the page cache (`O_DIRECT`): one at a time, or many at the same time through
//! io_uring ([`Ring`]).
//!
//! The kernel wants such reads to begin and end at pages and to go to memory that begins at a page;
//! callers ask for any bytes. Each thread keeps one ring and its buffers for all files. Where the
//! kernel refuses io_uring (containers often do), many reads are one read after the other.

use super::cut;
use super::ring::Ring;
use crate::{Error, Result};
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[cfg(test)]
mod tests;

const PAGE: usize = 4096;
/// Bytes of a buffer that a thread keeps for its next reads, at most.
const KEPT: usize = 1 << 20;

/// Offset and length of bytes of a file.
pub(crate) type Extent = (u64, usize);

/// A file that is read past the page cache.
pub(crate) struct Direct {
    pub(super) file: File,
    pub(super) path: PathBuf,
    /// Reads, and their pages, for tests that count.
    #[cfg(test)]
    reads: (AtomicU64, AtomicU64),
}

thread_local! {
    static ROOM: RefCell<Buffer> = const { RefCell::new(Buffer { bytes: Vec::new() }) };
    /// `None` before the first use, and while in use; `Some(None)` where the kernel refuses.
    static RING: RefCell<Option<Option<Ring>>> = const { RefCell::new(None) };
}

impl Direct {
    /// Opens a file; `InvalidArgument` if its file system has no such reads.
    pub(crate) fn open(path: &Path) -> Result<Direct> {
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path);
        let file = opened.map_err(|e| match e.raw_os_error() {
            Some(libc::EINVAL) => Error::invalid(
                "the file system of this file cannot read past the page cache: open it buffered",
            )
            .in_file(path),
            _ => Error::io("open", path, e),
        })?;
        Ok(Direct {
            file,
            path: path.into(),
            #[cfg(test)]
            reads: Default::default(),
        })
    }

    /// Number of reads so far, and of pages that they read.
    #[cfg(test)]
    pub(crate) fn reads(&self) -> (u64, u64) {
        (self.reads.0.load(Relaxed), self.reads.1.load(Relaxed))
    }

    #[cfg(test)]
    pub(super) fn count(&self, span: Span) {
        self.reads.0.fetch_add(1, Relaxed);
        self.reads.1.fetch_add((span.pages / PAGE) as u64, Relaxed);
    }

    /// The `len` bytes from `offset` on.
    pub(crate) fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        ROOM.with_borrow_mut(|room| {
            let read = self.read_into(Span::of(offset, len), room).map(<[u8]>::to_vec);
            room.trim();
            read
        })
    }

    pub(super) fn read_into<'a>(&self, span: Span, room: &'a mut Buffer) -> Result<&'a [u8]> {
        #[cfg(test)]
        self.count(span);
        let pages = room.pages(span.pages);
        let mut filled = 0;
        while filled < span.skip + span.len {
            match self.file.read_at(&mut pages[filled..], span.start + filled as u64) {
                Ok(0) => return Err(cut(&self.path, span.start + span.skip as u64, span.len)),
                Ok(n) if n % PAGE == 0 => filled += n,
                // Only the end of the file ends a read in the middle of a page.
                Ok(n) if filled + n >= span.skip + span.len => filled += n,
                Ok(_) => return Err(cut(&self.path, span.start + span.skip as u64, span.len)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io("read", &self.path, e)),
            }
        }
        Ok(&pages[span.skip..span.skip + span.len])
    }

    /// Reads extents, up to `depth` at the same time, and hands over each with what came with it,
    /// in any order. An extent is asked for when there is room for its read, so that they are
    /// found, as a rule, while the disk is busy with others. Ends with the first error, of the
    /// extents, of a read or of `visit`; then some that were asked for are not handed over.
    pub(crate) fn read_many<T>(
        &self,
        extents: impl Iterator<Item = Result<(Extent, T)>>,
        depth: usize,
        visit: impl FnMut(T, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let ring = RING.with_borrow_mut(Option::take).unwrap_or_else(Ring::open);
        let Some(mut ring) = ring else {
            RING.with_borrow_mut(|place| *place = Some(None));
            return self.read_each(extents, visit);
        };
        let done = ring.read_many(self, extents, depth, visit);
        // A ring that still owes answers would give them to the next caller.
        if ring.is_idle() {
            RING.with_borrow_mut(|place| *place = Some(Some(ring)));
        }
        done
    }

    fn read_each<T>(
        &self,
        extents: impl Iterator<Item = Result<(Extent, T)>>,
        mut visit: impl FnMut(T, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut room = Buffer { bytes: Vec::new() };
        for extent in extents {
            let ((offset, len), what) = extent?;
            visit(what, self.read_into(Span::of(offset, len), &mut room)?)?;
        }
        Ok(())
    }
}

/// The pages that hold some bytes.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) start: u64,
    /// Bytes of pages.
    pub(super) pages: usize,
    /// Bytes of the first page that were not asked for.
    pub(super) skip: usize,
    pub(super) len: usize,
}

impl Span {
    pub(super) fn of(offset: u64, len: usize) -> Span {
        let skip = (offset % PAGE as u64) as usize;
        let pages = (skip + len).next_multiple_of(PAGE);
        Span { start: offset - skip as u64, pages, skip, len }
    }
}

/// Memory that begins at a page.
pub(super) struct Buffer {
    pub(super) bytes: Vec<u8>,
}

impl Buffer {
    pub(super) fn pages(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.len() < len + PAGE {
            self.bytes = vec![0; len + PAGE];
        }
        let at = self.bytes.as_ptr().align_offset(PAGE);
        &mut self.bytes[at..at + len]
    }

    /// Gives memory back that only a long read needed.
    pub(super) fn trim(&mut self) {
        if self.bytes.len() > KEPT + PAGE {
            self.bytes = Vec::new();
        }
    }
}
