//! One file that is opened for reads that bypass the page cache.

use crate::disk::direct::buffer::{Buffer, PAGE, Span};
use crate::disk::traits::cut;
use crate::{Error, Result};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Offset and length of a range of a file.
pub(crate) type Extent = (u64, usize);

/// An open file.
pub(super) struct UncachedFile {
    pub(super) file: File,
    pub(super) path: PathBuf,
    /// Number of reads and of pages read, for tests.
    #[cfg(test)]
    reads: (AtomicU64, AtomicU64),
}

impl UncachedFile {
    /// Opens a file; `InvalidArgument` if its file system does not support such reads.
    pub(super) fn open(path: &Path) -> Result<UncachedFile> {
        Ok(UncachedFile {
            file: open_uncached(path)?,
            path: path.into(),
            #[cfg(test)]
            reads: Default::default(),
        })
    }

    /// Number of reads so far, and of the pages that they read.
    #[cfg(test)]
    pub(super) fn reads(&self) -> (u64, u64) {
        (self.reads.0.load(Relaxed), self.reads.1.load(Relaxed))
    }

    #[cfg(test)]
    pub(super) fn count(&self, span: Span) {
        self.reads.0.fetch_add(1, Relaxed);
        self.reads.1.fetch_add((span.pages / PAGE) as u64, Relaxed);
    }

    /// Reads the pages of a span into the buffer and returns the bytes of the span.
    pub(super) fn read_into<'a>(&self, span: Span, buffer: &'a mut Buffer) -> Result<&'a [u8]> {
        #[cfg(test)]
        self.count(span);
        let pages = buffer.pages(span.pages);
        let mut filled = 0;
        while filled < span.skip + span.len {
            match self.file.read_at(&mut pages[filled..], span.start + filled as u64) {
                Ok(0) => return Err(cut(&self.path, span.start + span.skip as u64, span.len)),
                Ok(n) if n % PAGE == 0 => filled += n,
                // Only the end of the file ends a read within a page.
                Ok(n) if filled + n >= span.skip + span.len => filled += n,
                Ok(_) => return Err(cut(&self.path, span.start + span.skip as u64, span.len)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io("read", &self.path, e)),
            }
        }
        Ok(&pages[span.skip..span.skip + span.len])
    }
}

/// Opens a file for reads that bypass the page cache.
#[cfg(target_os = "linux")]
fn open_uncached(path: &Path) -> Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let opened = options.read(true).custom_flags(libc::O_DIRECT).open(path);
    opened.map_err(|e| match e.raw_os_error() {
        Some(libc::EINVAL) => unsupported(path),
        _ => Error::io("open", path, e),
    })
}

/// On macOS a flag of the open file (F_NOCACHE) bypasses the cache.
#[cfg(target_os = "macos")]
fn open_uncached(path: &Path) -> Result<File> {
    let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
    rustix::fs::fcntl_nocache(&file, true).map_err(|_| unsupported(path))?;
    Ok(file)
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn open_uncached(path: &Path) -> Result<File> {
    File::open(path).map_err(|e| Error::io("open", path, e))?;
    Err(unsupported(path))
}

fn unsupported(path: &Path) -> Error {
    let message =
        "the file system of this file does not support reads past the page cache: open it buffered";
    Error::invalid(message).in_file(path)
}
