//! Mapped files and anonymous memory.
//!
//! A map costs nothing to open and needs no system call per read; the kernel's page cache is the
//! only cache. In return, an I/O error on a mapped page kills the process with SIGBUS, and so does
//! a truncation of the file. Published files never change, which rules out the second. Every offset
//! that is read from a map is checked when it is used, not only when the file is opened.

#![expect(unsafe_code, reason = "maps and slices of them: see the SAFETY notes")]

use crate::{Error, ErrorKind, Result};
use memmap2::{Advice, Mmap, MmapMut, MmapOptions, MmapRaw};
use std::fs::File;
use std::ops::{Deref, DerefMut, Range};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes of a file or a part of them, in a read-only map or in memory. Clones and parts are
/// cheap and share the bytes.
#[derive(Clone)]
pub(crate) struct Map {
    /// Points into `owner`, so that a read does not have to follow it.
    bytes: NonNull<[u8]>,
    owner: Arc<Owner>,
}

enum Owner {
    Mapped(Mmap),
    Memory(Vec<u8>),
}

// SAFETY: the bytes are only read, through `bytes` as well as through `owner`.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    fn of(owner: Owner) -> Map {
        let owner = Arc::new(owner);
        let bytes = NonNull::from(match &*owner {
            Owner::Mapped(bytes) => &bytes[..],
            Owner::Memory(bytes) => &bytes[..],
        });
        Map { bytes, owner }
    }

    /// A part of the bytes, which keeps the whole map alive; `None` if it exceeds the end.
    pub(crate) fn part(&self, range: Range<usize>) -> Option<Map> {
        let bytes = NonNull::from(self.get(range)?);
        Some(Map { bytes, owner: self.owner.clone() })
    }

    /// Wraps bytes that are already in memory.
    pub(crate) fn from_vec(bytes: Vec<u8>) -> Map {
        Map::of(Owner::Memory(bytes))
    }

    /// Reads `len` bytes, at least 1, into anonymous memory by calls of `read_at(offset, buffer)`.
    /// The memory is in huge pages where the system has them, so that random reads rarely miss the
    /// TLB.
    pub(super) fn copy_of(
        len: usize,
        mut read_at: impl FnMut(u64, &mut [u8]) -> Result<()>,
    ) -> Result<Map> {
        let failed = |e| Error::io("get memory for", Path::new("a resident copy"), e);
        let mut copy = MmapMut::map_anon(len).map_err(failed)?;
        prefer_huge_pages(|advice| copy.advise(advice));
        for (i, piece) in copy.chunks_mut(1 << 23).enumerate() {
            read_at((i << 23) as u64, piece)?;
        }
        Ok(Map::of(Owner::Mapped(copy.make_read_only().map_err(failed)?)))
    }

    /// Advises the kernel to expect random reads: a page fault then reads one page and not 31 more.
    pub(crate) fn expect_random(&self) {
        if let Owner::Mapped(map) = &*self.owner {
            let _ = map.advise(Advice::Random);
        }
    }

    /// Advises the kernel to read the whole map ahead, in large pieces.
    pub(crate) fn expect_all(&self) {
        if let Owner::Mapped(map) = &*self.owner {
            let _ = map.advise(Advice::WillNeed);
        }
    }

    /// Maps all `length` bytes of `file`. The map stays valid when the file is closed, renamed or
    /// removed.
    pub(super) fn of_file(file: &File, length: u64, path: &Path) -> Result<Map> {
        if length == 0 {
            return Ok(Map::from_vec(Vec::new())); // An empty map is an error of the kernel.
        }
        let length = usize::try_from(length).map_err(|_| {
            let message = format!("a file of {length} bytes is too large for this machine");
            Error::new(ErrorKind::Io, message).in_file(path)
        })?;
        // SAFETY: the map is read-only, and its bytes must not change while it lives. FirnDB never
        // writes to or truncates a published file (`disk/mod.rs`), and the mapped length is the
        // length of the file, so no page lies beyond its end. Other programs must not modify the
        // files of a store: this is part of the contract in docs/durability.md.
        let mapped = unsafe { MmapOptions::new().len(length).map(file) };
        let mapped = mapped.map_err(|e| Error::io("map", path, e))?;
        Ok(Map::of(Owner::Mapped(mapped)))
    }
}

/// Asks for huge pages, where the system has them; without them, accesses are only slower.
fn prefer_huge_pages(advise: impl FnOnce(memmap2::Advice) -> std::io::Result<()>) {
    #[cfg(target_os = "linux")]
    let _ = advise(Advice::HugePage);
    #[cfg(not(target_os = "linux"))]
    let _ = advise;
}

/// Writable anonymous memory.
pub(crate) struct Slab(MmapMut);

impl Slab {
    /// `len` zero bytes. The kernel provides memory when a page is first written.
    pub(crate) fn new(len: usize) -> Result<Slab> {
        let failed = |e| Error::io("get memory for", Path::new("records"), e);
        Ok(Slab(MmapMut::map_anon(len.max(1)).map_err(failed)?))
    }

    /// [`Slab::new`] of which only parts will be used: it may be larger than the memory.
    pub(crate) fn sparse(len: usize) -> Result<Slab> {
        let failed = |e| Error::io("get memory for", Path::new("parts of a file"), e);
        let mut options = MmapOptions::new();
        Ok(Slab(options.len(len.max(1)).no_reserve_swap().map_anon().map_err(failed)?))
    }

    /// Expects random accesses: asks for huge pages for the memory that is not provided yet.
    pub(crate) fn expect_random(&self) {
        prefer_huge_pages(|advice| self.0.advise(advice));
    }

    /// [`Slab::new`] with all memory provided at once, in huge pages where possible.
    pub(crate) fn taken(len: usize) -> Result<Slab> {
        let slab = Slab::new(len)?;
        #[cfg(target_os = "linux")]
        // Where the kernel does not support this, it provides memory on first access.
        for advice in [Advice::HugePage, Advice::PopulateWrite] {
            let _ = slab.0.advise(advice);
        }
        Ok(slab)
    }

    /// Makes the memory read-only.
    pub(crate) fn freeze(self) -> Result<Map> {
        let failed = |e| Error::io("protect memory of", Path::new("records"), e);
        Ok(Map::of(Owner::Mapped(self.0.make_read_only().map_err(failed)?)))
    }
}

impl Deref for Slab {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Slab {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// An array of atomic words in anonymous memory.
pub(crate) struct Words(MmapRaw);

impl Words {
    /// `len` zero words. The kernel provides memory on first access or, with `is_huge`, at once and
    /// in huge pages where the system has them.
    pub(crate) fn new(len: usize, is_huge: bool) -> Result<Words> {
        let failed = |e| Error::io("get memory for", Path::new("an index"), e);
        let map = MmapMut::map_anon(len.max(1) * size_of::<AtomicU64>()).map_err(failed)?;
        if is_huge {
            prefer_huge_pages(|advice| map.advise(advice));
        }
        let words = Words(map.into());
        if is_huge {
            // Page by page: one call for the whole range would block other threads' mmap calls.
            words.iter().step_by(512).for_each(|word| word.store(0, Ordering::Relaxed));
        }
        Ok(words)
    }

    /// Moves the words into huge pages, where the system has them, while other threads use them.
    /// Returns `false` if the caller should try again later.
    pub(crate) fn make_huge(&self) -> bool {
        prefer_huge_pages(|advice| self.0.advise(advice));
        // Collapses the pages now instead of when the kernel's scanner gets to them.
        #[cfg(target_os = "linux")]
        // SAFETY: the map lives as long as `self`, and its content does not change: the kernel
        // moves the pages and blocks threads that access them meanwhile.
        let failed = unsafe {
            libc::madvise(self.0.as_mut_ptr().cast(), self.0.len(), libc::MADV_COLLAPSE) != 0
        };
        #[cfg(not(target_os = "linux"))]
        let failed = false;
        !failed || std::io::Error::last_os_error().kind() != std::io::ErrorKind::WouldBlock
    }
}

impl Deref for Words {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        let len = self.0.len() / size_of::<AtomicU64>();
        // SAFETY: the map starts at a page boundary, so it is aligned; it has `len` words, all of
        // them initialised; it lives as long as `self`, which gives no other access to it.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), len) }
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `Map::of` and `Map::part` take the slice from `owner`, which neither moves nor
        // changes its bytes and lives at least as long as `self`.
        unsafe { self.bytes.as_ref() }
    }
}
