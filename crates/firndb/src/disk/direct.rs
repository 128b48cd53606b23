//! Reads past the page cache (`O_DIRECT`): one at a time, or many at the same time through
//! io_uring.
//!
//! The kernel wants such reads to begin and end at pages and to go to memory that begins at a page;
//! callers ask for any bytes. Each thread keeps one ring and its buffers for all files. Where the
//! kernel refuses io_uring (containers often do), many reads are one read after the other.

#![expect(unsafe_code, reason = "io_uring is given addresses: see the SAFETY note of `submit`")]

use super::cut;
use crate::{Error, Result};
use io_uring::{IoUring, opcode, types};
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const PAGE: usize = 4096;
/// Most reads under way in one ring.
const ENTRIES: u32 = 64;
/// Bytes of a buffer that a thread keeps for its next reads, at most.
const KEPT: usize = 1 << 20;
/// Bytes under way in one ring, at most, if it is not a single read.
const UNDER_WAY: usize = 64 << 20;

/// A file that is read past the page cache.
pub(crate) struct Direct {
    file: File,
    path: PathBuf,
    /// Pieces that were asked for, and their pages, for tests that count.
    #[cfg(test)]
    asked: (AtomicU64, AtomicU64),
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
            asked: Default::default(),
        })
    }

    /// Number of reads so far, and of pages that they read.
    #[cfg(test)]
    pub(crate) fn reads(&self) -> (u64, u64) {
        (self.asked.0.load(Relaxed), self.asked.1.load(Relaxed))
    }

    /// The pages that are read for a piece.
    fn span(&self, offset: u64, len: usize) -> Span {
        let span = Span::of(offset, len);
        #[cfg(test)]
        {
            self.asked.0.fetch_add(1, Relaxed);
            self.asked.1.fetch_add((span.pages / PAGE) as u64, Relaxed);
        }
        span
    }

    /// The `len` bytes from `offset` on.
    pub(crate) fn read(&self, offset: u64, len: usize) -> Result<Vec<u8>> {
        ROOM.with_borrow_mut(|room| {
            let read = self.read_into(self.span(offset, len), room).map(<[u8]>::to_vec);
            room.trim();
            read
        })
    }

    fn read_into<'a>(&self, span: Span, room: &'a mut Buffer) -> Result<&'a [u8]> {
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

    /// Reads pieces, given by offset and length, up to `depth` at the same time, and hands over
    /// each with its number as it comes, in any order.
    pub(crate) fn read_many(
        &self,
        pieces: &[(u64, usize)],
        depth: usize,
        visit: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let ring = RING.with_borrow_mut(Option::take).unwrap_or_else(Ring::open);
        let Some(mut ring) = ring else {
            RING.with_borrow_mut(|place| *place = Some(None));
            return self.read_each(pieces, visit);
        };
        let done = ring.read_many(self, pieces, depth, visit);
        // A ring that still owes answers would give them to the next caller.
        if ring.under_way == 0 {
            RING.with_borrow_mut(|place| *place = Some(Some(ring)));
        }
        done
    }

    fn read_each(
        &self,
        pieces: &[(u64, usize)],
        visit: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut room = Buffer { bytes: Vec::new() };
        for (number, &(offset, len)) in pieces.iter().enumerate() {
            visit(number, self.read_into(self.span(offset, len), &mut room)?)?;
        }
        Ok(())
    }
}

/// The pages that hold some bytes.
#[derive(Clone, Copy, Default)]
struct Span {
    start: u64,
    /// Bytes of pages.
    pages: usize,
    /// Bytes of the first page that were not asked for.
    skip: usize,
    len: usize,
}

impl Span {
    fn of(offset: u64, len: usize) -> Span {
        let skip = (offset % PAGE as u64) as usize;
        let pages = (skip + len).next_multiple_of(PAGE);
        Span { start: offset - skip as u64, pages, skip, len }
    }
}

/// Memory that begins at a page.
struct Buffer {
    bytes: Vec<u8>,
}

impl Buffer {
    fn pages(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.len() < len + PAGE {
            self.bytes = vec![0; len + PAGE];
        }
        let at = self.bytes.as_ptr().align_offset(PAGE);
        &mut self.bytes[at..at + len]
    }

    /// Gives memory back that only a long read needed.
    fn trim(&mut self) {
        if self.bytes.len() > KEPT + PAGE {
            self.bytes = Vec::new();
        }
    }
}

struct Ring {
    ring: IoUring,
    buffers: Vec<Buffer>,
    /// Reads that the kernel has and has not answered.
    under_way: usize,
}

impl Ring {
    fn open() -> Option<Ring> {
        // The ring stays with its thread, so the kernel need not interrupt it to hand over answers:
        // it asks for them. Kernels before 6.1 do not know these wishes.
        let own = |builder: &mut io_uring::Builder| {
            builder.setup_single_issuer().setup_defer_taskrun().build(ENTRIES)
        };
        let ring = own(&mut IoUring::builder()).or_else(|_| IoUring::new(ENTRIES)).ok()?;
        let buffers = (0..ENTRIES).map(|_| Buffer { bytes: Vec::new() }).collect();
        Some(Ring { ring, buffers, under_way: 0 })
    }

    fn read_many(
        &mut self,
        file: &Direct,
        pieces: &[(u64, usize)],
        depth: usize,
        visit: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        // Twice as many buffers as reads: when reads are answered the next ones go to the kernel
        // before anybody looks at what came.
        let depth = depth.clamp(1, self.buffers.len() / 2);
        let mut free: Vec<usize> = (0..2 * depth).collect();
        let mut held = vec![(0, Span::default()); free.len()];
        let (mut next, mut result, mut bytes_held) = (0, Ok(()), 0);
        let mut came: Vec<(usize, bool)> = Vec::new();
        loop {
            while self.under_way < depth && next < pieces.len() && result.is_ok() {
                let span = Span::of(pieces[next].0, pieces[next].1);
                if bytes_held > 0 && bytes_held + span.pages > UNDER_WAY {
                    break;
                }
                let Some(slot) = free.pop() else { break };
                let span = file.span(pieces[next].0, pieces[next].1);
                bytes_held += span.pages;
                held[slot] = (next, span);
                self.submit(file, span, slot);
                next += 1;
            }
            self.ring.submit().map_err(|e| Error::io("read", &file.path, e))?;
            for (slot, whole) in came.drain(..) {
                let (number, span) = held[slot];
                let room = &mut self.buffers[slot];
                // A read that was cut short or refused is repeated alone, which tells why.
                let bytes = match whole {
                    true => Ok(&room.pages(span.pages)[span.skip..span.skip + span.len]),
                    false => file.read_into(span, room),
                };
                if result.is_ok() {
                    result = bytes.and_then(|bytes| visit(number, bytes));
                }
                room.trim();
                bytes_held -= span.pages;
                free.push(slot);
            }
            if self.under_way == 0 && (next == pieces.len() || result.is_err()) {
                return result;
            }
            if self.under_way == 0 {
                // What has come held the memory of the next reads.
                continue;
            }
            // To be woken for each of them would take longer than an eighth of them waits.
            let answers = (depth / 8).clamp(1, self.under_way);
            self.wait(answers).map_err(|e| Error::io("read", &file.path, e))?;
            while let Some(answer) = self.ring.completion().next() {
                self.under_way -= 1;
                let slot = answer.user_data() as usize;
                let span = held[slot].1;
                let read = usize::try_from(answer.result()).unwrap_or(0);
                came.push((slot, answer.result() >= 0 && read >= span.skip + span.len));
            }
        }
    }

    fn submit(&mut self, file: &Direct, span: Span, slot: usize) {
        let pages = self.buffers[slot].pages(span.pages);
        let (address, len) = (pages.as_mut_ptr(), pages.len() as u32);
        let read = opcode::Read::new(types::Fd(file.file.as_raw_fd()), address, len);
        let read = read.offset(span.start).build().user_data(slot as u64);
        // SAFETY: the memory belongs to the buffer of this slot, which nobody touches until the
        // read is answered; and all reads are answered before the ring is given back or dropped
        // (the loop of `read_many`, and `drop`), as long as `file` and the buffers live.
        let pushed = unsafe { self.ring.submission().push(&read) };
        // There are as many entries as slots.
        debug_assert!(pushed.is_ok());
        self.under_way += usize::from(pushed.is_ok());
    }

    /// Until so many reads are answered.
    fn wait(&mut self, answers: usize) -> io::Result<()> {
        loop {
            match self.ring.submit_and_wait(answers) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                done => return done.map(|_| ()),
            }
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // After a panic or a failed wait: the kernel must not write to memory that is freed.
        while self.under_way > 0 {
            if self.wait(1).is_err() {
                std::mem::take(&mut self.buffers).into_iter().for_each(std::mem::forget);
                return;
            }
            self.under_way -= self.ring.completion().count();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of these bytes; `None` where it cannot be read past the page cache.
    fn file_of(name: &str, bytes: &[u8]) -> Option<(Direct, PathBuf)> {
        let name = format!("firndb-direct-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        match Direct::open(&path) {
            Ok(file) => Some((file, path)),
            Err(e) => {
                println!("skipped: {e}");
                std::fs::remove_file(&path).unwrap();
                None
            }
        }
    }

    #[test]
    fn long_reads_leave_no_memory_behind() {
        let bytes: Vec<u8> = (0..3u32 << 20).map(|i| (i * 7 % 251) as u8).collect();
        let Some((file, path)) = file_of("long", &bytes) else { return };
        let pieces: Vec<(u64, usize)> =
            (0..100).map(|i| (i, if i % 3 == 0 { 100 } else { 2 << 20 })).collect();
        let mut seen = 0;
        let mut visit = |n: usize, read: &[u8]| {
            assert!(read == &bytes[n..n + pieces[n].1]);
            seen += 1;
            Ok(())
        };
        file.read_many(&pieces, 32, &mut visit).unwrap();
        assert_eq!(seen, pieces.len());
        assert!(file.read(5, 2 << 20).unwrap() == bytes[5..][..2 << 20]);
        let mut kept = ROOM.with_borrow(|room| room.bytes.len());
        RING.with_borrow(|ring| {
            let buffers = ring.iter().flatten().flat_map(|ring| &ring.buffers);
            kept += buffers.map(|buffer| buffer.bytes.len()).sum::<usize>();
        });
        assert!(kept <= ENTRIES as usize * 3 * PAGE, "{kept} bytes are kept");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn reads_any_bytes_at_once_and_one_by_one() {
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i * 7 % 251) as u8).collect();
        let Some((file, path)) = file_of("any", &bytes) else { return };
        let pieces: Vec<(u64, usize)> =
            (0..500).map(|i| (i * 191, [0, 1, 200, 4096, 4097, 243][i as usize % 6])).collect();
        let expected = |n: usize| &bytes[pieces[n].0 as usize..][..pieces[n].1];
        for depth in [1, 7, 32, 1000] {
            let mut seen = vec![false; pieces.len()];
            let mut visit = |n: usize, read: &[u8]| {
                assert_eq!(read, expected(n));
                assert!(!std::mem::replace(&mut seen[n], true));
                Ok(())
            };
            file.read_many(&pieces, depth, &mut visit).unwrap();
            assert!(seen.iter().all(|&seen| seen));
        }
        let mut number = 0;
        let mut visit = |n: usize, read: &[u8]| {
            number += usize::from(read == expected(n));
            Ok(())
        };
        file.read_each(&pieces, &mut visit).unwrap();
        assert_eq!(number, pieces.len());
        assert_eq!(file.read(99_999, 1).unwrap(), bytes[99_999..]);
        assert!(file.read(99_999, 2).is_err());
        assert!(file.read_many(&[(0, 10), (99_999, 2)], 4, &mut |_, _| Ok(())).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
