//! Page-aligned ranges of files, and the memory that they are read to.

/// Alignment of direct reads in the file and in memory.
pub(super) const PAGE: usize = 4096;

/// Largest buffer, in bytes, that a thread keeps between reads.
const KEPT: usize = 1 << 20;

/// A range of a file, extended to whole pages.
#[derive(Clone, Copy)]
pub(super) struct Span {
    /// Offset of the first page.
    pub(super) start: u64,
    /// Length of the pages in bytes.
    pub(super) pages: usize,
    /// Offset of the range in the pages.
    pub(super) skip: usize,
    /// Length of the range.
    pub(super) len: usize,
}

impl Span {
    pub(super) fn of(offset: u64, len: usize) -> Span {
        let skip = (offset % PAGE as u64) as usize;
        let pages = (skip + len).next_multiple_of(PAGE);
        Span { start: offset - skip as u64, pages, skip, len }
    }
}

/// A reusable buffer that is aligned to pages.
pub(super) struct Buffer {
    pub(super) bytes: Vec<u8>,
}

impl Buffer {
    /// An empty buffer.
    pub(super) const fn new() -> Buffer {
        Buffer { bytes: Vec::new() }
    }

    /// The first `len` bytes, from a page boundary on. The buffer grows if it is too small.
    pub(super) fn pages(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.len() < len + PAGE {
            self.bytes = vec![0; len + PAGE];
        }
        let at = self.bytes.as_ptr().align_offset(PAGE);
        &mut self.bytes[at..at + len]
    }

    /// Frees the memory if an unusually long read has enlarged it.
    pub(super) fn trim(&mut self) {
        if self.bytes.len() > KEPT + PAGE {
            self.bytes = Vec::new();
        }
    }
}
