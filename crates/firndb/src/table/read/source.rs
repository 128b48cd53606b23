//! Reads blocks: from a map, from a copy in memory, or from the file. Each block is checked before
//! it is used.

use crate::bytes::frozen::Frozen;
use crate::bytes::prefetch::{prefetch, prefetch_lines};
use crate::disk::{self, DiskRef, Map, ReadAt};
use crate::table::format::block::{CHECKSUM, HEAD_LINES, check};
use crate::table::options::Access;
use crate::{Error, ErrorKind, Result};
use std::borrow::Cow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The blocks of a file.
pub(crate) struct Source {
    backing: Backing,
    /// Offset of the section of the blocks.
    start: u64,
    /// All blocks, if they are in memory.
    memory: Map,
}

enum Backing {
    /// The map of the file, with the blocks that were checked.
    Map(CheckedSet),
    /// A copy of all blocks.
    Resident,
    Buffered(Box<dyn ReadAt>),
    Direct(disk::Direct),
}

/// Most attempts to open a file whose path is reassigned meanwhile.
const TRIES: usize = 100;

/// Calls `open` until it returns a value. It returns `None` if the path was given to another file
/// between two reads of it.
pub(crate) fn reopen<T>(path: &Path, mut open: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    for _ in 0..TRIES {
        if let Some(opened) = open()? {
            return Ok(opened);
        }
    }
    Err(Error::new(ErrorKind::Failed, "the file was replaced each time it was opened")
        .in_file(path))
}

/// One bit per part of a file: its checksum has been checked.
pub(crate) struct CheckedSet(Box<[AtomicU64]>);

impl CheckedSet {
    pub(crate) fn new(parts: u64) -> CheckedSet {
        CheckedSet((0..parts.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        size_of_val(&*self.0)
    }

    #[inline(always)]
    pub(crate) fn has(&self, part: u64) -> bool {
        let word = self.0.get((part / 64) as usize);
        word.is_some_and(|word| word.load(Ordering::Relaxed) >> (part % 64) & 1 == 1)
    }

    /// Checks a part unless its bit is set, and sets the bit.
    #[inline(always)]
    pub(crate) fn check_once(&self, part: u64, check: impl FnOnce() -> Result<()>) -> Result<()> {
        if !self.has(part) {
            check()?;
            if let Some(word) = self.0.get((part / 64) as usize) {
                word.fetch_or(1 << (part % 64), Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

impl Source {
    /// Opens the `blocks` blocks in `section` (offset and length). `None` if the path
    /// was given to another file since `file` was mapped.
    pub(crate) fn open(
        disk: &DiskRef,
        file: &Frozen,
        section: (u64, u64),
        blocks: u64,
        access: Access,
    ) -> Result<Option<Source>> {
        let path = file.path();
        let mut memory = Map::from_vec(Vec::new());
        let backing = match access {
            Access::Map => {
                let mapped = file.map().part(section.0 as usize..(section.0 + section.1) as usize);
                memory = mapped.ok_or_else(|| Error::corrupt("the blocks are truncated"))?;
                Backing::Map(CheckedSet::new(blocks))
            }
            Access::Resident | Access::Buffered => {
                let opened = disk.open(path)?;
                if !file.is_read_by(|at, bytes| opened.read_at(at, bytes))? {
                    return Ok(None);
                }
                match access {
                    Access::Resident => {
                        memory = Map::resident(&*opened, section.0, section.1)?;
                        Backing::Resident
                    }
                    _ => Backing::Buffered(opened),
                }
            }
            Access::Direct => {
                let opened = disk::Direct::open(path)?;
                let read = |at, bytes: &mut [u8]| {
                    bytes.copy_from_slice(&opened.read(at, bytes.len())?);
                    Ok(())
                };
                if !file.is_read_by(read)? {
                    return Ok(None);
                }
                Backing::Direct(opened)
            }
        };
        Ok(Some(Source { backing, start: section.0, memory }))
    }

    /// The block at this offset and of this length, after its checksum was checked. Prefetches its
    /// first cache lines before any of its bytes are read.
    #[inline]
    pub(crate) fn block(
        &self,
        number: u64,
        (offset, len): (u64, usize),
        lines: usize,
    ) -> Result<Cow<'_, [u8]>> {
        let block = match &self.backing {
            Backing::Map(_) | Backing::Resident => {
                let block = self.memory((offset, len))?;
                prefetch(block, lines);
                self.check_once(block, number)?;
                return Ok(Cow::Borrowed(block));
            }
            Backing::Buffered(file) => {
                let mut block = vec![0; len];
                file.read_at(offset, &mut block)?;
                block
            }
            Backing::Direct(file) => file.read(offset, len)?,
        };
        check(&block, number)?;
        Ok(Cow::Owned(block))
    }

    /// Checks a block in memory, unless that was done before.
    #[inline(always)]
    pub(crate) fn check_once(&self, block: &[u8], number: u64) -> Result<()> {
        match &self.backing {
            Backing::Map(checked) => checked.check_once(number, || check(block, number)),
            _ => Ok(()),
        }
    }

    /// Whether a block was checked.
    #[inline(always)]
    pub(crate) fn is_checked(&self, number: u64) -> bool {
        match &self.backing {
            Backing::Map(checked) => checked.has(number),
            _ => true,
        }
    }

    /// The bytes of a block in memory; its checksum may not have been checked.
    #[inline(always)]
    pub(crate) fn memory(&self, (offset, len): (u64, usize)) -> Result<&[u8]> {
        let at = (offset - self.start) as usize;
        let block = self.memory.get(at..at + len).filter(|block| block.len() >= CHECKSUM);
        block.ok_or_else(|| Error::corrupt("a block is truncated"))
    }

    /// The body of a block in memory, if all blocks have length `len`. `None` if the block was not
    /// checked yet, or is truncated. Prefetches its first cache lines before anything else is read.
    #[inline(always)]
    pub(crate) fn checked_body(&self, number: u64, len: usize) -> Option<&[u8]> {
        let block = self.memory.get(number as usize * len..)?.get(..len)?;
        prefetch_lines::<HEAD_LINES>(block);
        if self.is_checked(number) { block.get(CHECKSUM..) } else { None }
    }

    /// All blocks, if they are in memory.
    #[inline(always)]
    pub(crate) fn all(&self) -> &[u8] {
        &self.memory
    }

    /// Whether blocks are copies in memory. The caller then checks them when it opens the table.
    pub(crate) fn is_resident(&self) -> bool {
        matches!(self.backing, Backing::Resident)
    }

    /// Whether blocks are in memory.
    pub(crate) fn in_memory(&self) -> bool {
        matches!(self.backing, Backing::Map(_) | Backing::Resident)
    }

    /// The file, if it is read with `O_DIRECT`.
    pub(crate) fn direct(&self) -> Option<&disk::Direct> {
        match &self.backing {
            Backing::Direct(file) => Some(file),
            _ => None,
        }
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        match &self.backing {
            Backing::Map(checked) => checked.memory(),
            Backing::Resident => self.memory.len(),
            Backing::Buffered(_) | Backing::Direct(_) => 0,
        }
    }
}
