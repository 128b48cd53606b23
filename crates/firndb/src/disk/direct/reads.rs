//! Reads of a file that bypass the page cache: one, or many concurrently.

use crate::Result;
use crate::disk::direct::buffer::{Buffer, Span};
#[cfg(target_os = "linux")]
use crate::disk::direct::ring;
use crate::disk::direct::uncached_file::{Extent, UncachedFile};
use std::cell::RefCell;
use std::path::Path;

/// A file whose reads bypass the page cache.
pub(crate) struct Direct {
    file: UncachedFile,
    /// Whether [`Direct::read_many`] may use a ring; tests clear it.
    may_use_ring: bool,
}

thread_local! {
    pub(super) static BUFFER: RefCell<Buffer> = const { RefCell::new(Buffer::new()) };
}

impl Direct {
    /// Opens a file; `InvalidArgument` if its file system does not support such reads.
    pub(crate) fn open(path: &Path) -> Result<Direct> {
        Ok(Direct { file: UncachedFile::open(path)?, may_use_ring: true })
    }

    /// [`Direct::open`] for reads that run one after another, as on systems without io_uring.
    #[cfg(test)]
    pub(crate) fn open_without_ring(path: &Path) -> Result<Direct> {
        Ok(Direct { may_use_ring: false, ..Direct::open(path)? })
    }

    /// Number of reads so far, and of the pages that they read.
    #[cfg(test)]
    pub(crate) fn reads(&self) -> (u64, u64) {
        self.file.reads()
    }

    /// Reads `len` bytes at `offset`. Errors: `Corrupt` if the file is too short.
    pub(crate) fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        BUFFER.with_borrow_mut(|buffer| {
            let read = self.file.read_into(Span::of(offset, len), buffer).map(<[u8]>::to_vec);
            buffer.trim();
            read
        })
    }

    /// Reads extents, up to `depth` of them concurrently, and passes each to `visit` with the value
    /// that came with it, in any order. The iterator is advanced only when there is a free slot for
    /// the next read, so it usually computes extents while the device is busy. The first error of
    /// the iterator, of a read or of `visit` ends the call; some extents are then not visited.
    pub(crate) fn read_many<T>(
        &self,
        extents: impl Iterator<Item = Result<(Extent, T)>>,
        depth: usize,
        visit: impl FnMut(T, &[u8]) -> Result<()>,
    ) -> Result<()> {
        #[cfg(target_os = "linux")]
        if self.may_use_ring
            && let Some(mut ring) = ring::take()
        {
            let done = ring.read_many(&self.file, extents, depth, visit);
            ring::give_back(ring);
            return done;
        }
        let _ = (depth, self.may_use_ring);
        self.read_each(extents, visit)
    }

    /// [`Direct::read_many`] with one read after another.
    fn read_each<T>(
        &self,
        extents: impl Iterator<Item = Result<(Extent, T)>>,
        mut visit: impl FnMut(T, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut buffer = Buffer::new();
        for extent in extents {
            let ((offset, len), what) = extent?;
            visit(what, self.file.read_into(Span::of(offset, len), &mut buffer)?)?;
        }
        Ok(())
    }
}
