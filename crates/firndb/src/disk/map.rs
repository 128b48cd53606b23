//! The bytes of a published file, mapped into memory or held in it.
//!
//! A map costs nothing to open and nothing per read; the kernel's page cache is the only cache.
//! The price: an I/O error on a mapped page kills the process with SIGBUS, and so does somebody who
//! truncates the file meanwhile. The law of this folder (published files never change) rules out
//! the second; every offset read from a map is checked when used, not only when opened.

#![expect(unsafe_code, reason = "maps, and parts of them: see the SAFETY notes")]

use super::ReadAt;
use crate::{Error, ErrorKind, Result};
use memmap2::{Advice, Mmap, MmapMut, MmapRaw};
use std::fs::File;
use std::ops::{Deref, DerefMut, Range};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes of a file, or a part of them: a read-only map, or memory. Clones and parts are cheap
/// and share the bytes.
#[derive(Clone)]
pub(crate) struct Map {
    /// Kept beside who has them, which a reader then need not look at.
    bytes: NonNull<[u8]>,
    owner: Arc<Owner>,
}

enum Owner {
    Mapped(Mmap),
    Memory(Vec<u8>),
}

// SAFETY: what is pointed to is only ever read, and so is what `owner` has.
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

    /// A part of it, which keeps all of it alive; `None` if it goes beyond the end.
    pub(crate) fn part(&self, range: Range<usize>) -> Option<Map> {
        let bytes = NonNull::from(self.get(range)?);
        Some(Map { bytes, owner: self.owner.clone() })
    }

    /// Bytes that are in memory already.
    pub(crate) fn from_vec(bytes: Vec<u8>) -> Map {
        Map::of(Owner::Memory(bytes))
    }

    /// Copies a part of a file into memory, in huge pages where the system has them: random reads
    /// of it then rarely wait for a page table.
    pub(crate) fn resident(file: &dyn ReadAt, offset: u64, len: u64) -> Result<Map> {
        if len == 0 {
            return Ok(Map::from_vec(Vec::new()));
        }
        // Before the memory is asked for: a length that is not in the file may be any number.
        if offset.checked_add(len).is_none_or(|end| file.len().is_ok_and(|there| end > there)) {
            return Err(Error::corrupt(format!(
                "{len} bytes from {offset} on are not in the file"
            )));
        }
        let failed = |e| Error::io("get memory for", Path::new("a resident copy"), e);
        let mut copy = MmapMut::map_anon(len as usize).map_err(failed)?;
        // Advice: without huge pages the copy is as good, only slower.
        let _ = copy.advise(Advice::HugePage);
        for (i, piece) in copy.chunks_mut(1 << 23).enumerate() {
            file.read_at(offset + (i << 23) as u64, piece)?;
        }
        Ok(Map::of(Owner::Mapped(copy.make_read_only().map_err(failed)?)))
    }

    /// Says that it will be read here and there: a page that is not in memory is then read alone,
    /// and not with 31 others. Advice, done or not.
    pub(crate) fn expect_random(&self) {
        if let Owner::Mapped(map) = &*self.owner {
            let _ = map.advise(Advice::Random);
        }
    }

    /// Says that all of it will be read soon: it is fetched in large pieces. Advice, done or not.
    pub(crate) fn expect_all(&self) {
        if let Owner::Mapped(map) = &*self.owner {
            let _ = map.advise(Advice::WillNeed);
        }
    }

    /// Maps the whole of `file`, which has `length` bytes. The map stays valid when the file is
    /// closed, renamed or removed.
    pub(super) fn of_file(file: &File, length: u64, path: &Path) -> Result<Map> {
        if length == 0 {
            return Ok(Map::from_vec(Vec::new())); // The kernel refuses to map nothing.
        }
        let length = usize::try_from(length).map_err(|_| {
            let message = format!("a file of {length} bytes is too large for this machine");
            Error::new(ErrorKind::Io, message).in_file(path)
        })?;
        // SAFETY: the map is read-only, and its bytes must not change while it lives. Nothing in
        // FirnDB writes to or truncates a published file (`disk/mod.rs`), and the mapped length is
        // the file's length, so no page lies beyond its end. Other programs must leave the files of
        // a store alone: this is part of the contract in docs/durability.md.
        let mapped = unsafe { memmap2::MmapOptions::new().len(length).map(file) };
        let mapped = mapped.map_err(|e| Error::io("map", path, e))?;
        Ok(Map::of(Owner::Mapped(mapped)))
    }
}

/// Memory to write to.
pub(crate) struct Slab(MmapMut);

impl Slab {
    /// `len` bytes, zeros. Memory is taken as it is touched.
    pub(crate) fn new(len: usize) -> Result<Slab> {
        let failed = |e| Error::io("get memory for", Path::new("records"), e);
        Ok(Slab(MmapMut::map_anon(len.max(1)).map_err(failed)?))
    }

    /// Says that it will be read here and there: memory that is not taken yet will be taken in huge
    /// pages. Advice, done or not.
    pub(crate) fn expect_random(&self) {
        let _ = self.0.advise(Advice::HugePage);
    }

    /// [`Slab::new`], all of whose memory is there already, in huge pages where there are some.
    pub(crate) fn taken(len: usize) -> Result<Slab> {
        let slab = Slab::new(len)?;
        #[cfg(target_os = "linux")]
        // Advice: where the kernel does not know it, memory is taken as it is touched.
        for advice in [Advice::HugePage, Advice::PopulateWrite] {
            let _ = slab.0.advise(advice);
        }
        Ok(slab)
    }

    /// The same memory, to be read only.
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

/// Words that threads share.
pub(crate) struct Words(MmapRaw);

impl Words {
    /// `len` words, zeros. Memory is taken as it is touched, or, if wanted in huge pages (where the
    /// system has them), at once.
    pub(crate) fn new(len: usize, is_huge: bool) -> Result<Words> {
        let failed = |e| Error::io("get memory for", Path::new("an index"), e);
        let map = MmapMut::map_anon(len.max(1) * size_of::<AtomicU64>()).map_err(failed)?;
        if is_huge {
            // Advice: without huge pages the words are as good, only slower.
            let _ = map.advise(Advice::HugePage);
        }
        let words = Words(map.into());
        if is_huge {
            // Not by a call for all of it: that keeps others from mapping anything meanwhile.
            words.iter().step_by(512).for_each(|word| word.store(0, Ordering::Relaxed));
        }
        Ok(words)
    }

    /// Moves them into huge pages, where the system has them, while others go on with them. `false`
    /// if that has to be tried again.
    pub(crate) fn make_huge(&self) -> bool {
        let _ = self.0.advise(Advice::HugePage);
        // Does at once what the line above leaves to a time that suits the kernel.
        #[cfg(target_os = "linux")]
        // SAFETY: the map lives as long as `self`, and what is in it stays the same: the kernel
        // moves its pages, and lets those wait who touch them meanwhile. It is advice: done or not.
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
        // SAFETY: the map begins at a page, so it is aligned; it has `len` words, all of them valid
        // (zeros, or what was stored); it lives as long as `self`, which shows it in no other way.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), len) }
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `Map::of` and `Map::part` take them from `owner`, which keeps them where they are
        // and as they are for as long as it lives, and so at least as long as `self`.
        unsafe { self.bytes.as_ref() }
    }
}
