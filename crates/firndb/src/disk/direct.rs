//! Reads past the page cache (`O_DIRECT`): one at a time, or many at the same time through
//! io_uring.
//!
//! The kernel wants such reads to begin and end at pages and to go to memory that begins at a page;
//! callers ask for any bytes. Each thread keeps one ring and its buffers for all files. Where the
//! kernel refuses io_uring (containers often do), many reads are one read after the other.

#![expect(unsafe_code, reason = "io_uring is given addresses: see the SAFETY note of `push`")]

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
/// Reads that go to the kernel first, each further group being twice as large: the disk has begun
/// before the kernel took them all. A kernel that is given more than two at once hands none of them
/// to the disk before it has looked at the last.
const FIRST_GROUP: usize = 2;

/// Offset and length of bytes of a file.
pub(crate) type Extent = (u64, usize);

/// A file that is read past the page cache.
pub(crate) struct Direct {
    file: File,
    path: PathBuf,
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
    fn count(&self, span: Span) {
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

    fn read_into<'a>(&self, span: Span, room: &'a mut Buffer) -> Result<&'a [u8]> {
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
    /// in any order. An extent is asked for when there is room for its read, so that who finds
    /// them does so while the disk is busy with others.
    pub(crate) fn read_many<T>(
        &self,
        extents: impl Iterator<Item = Result<(Extent, T)>>,
        depth: usize,
        mut visit: impl FnMut(T, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let ring = RING.with_borrow_mut(Option::take).unwrap_or_else(Ring::open);
        let Some(mut ring) = ring else {
            RING.with_borrow_mut(|place| *place = Some(None));
            return self.read_each(extents, visit);
        };
        let done = ring.read_many(self, extents, depth, &mut visit);
        // A ring that still owes answers would give them to the next caller.
        if ring.under_way == 0 {
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

    fn read_many<T>(
        &mut self,
        file: &Direct,
        extents: impl Iterator<Item = Result<(Extent, T)>>,
        depth: usize,
        visit: &mut impl FnMut(T, &[u8]) -> Result<()>,
    ) -> Result<()> {
        // Twice as many buffers as reads: when reads are answered the next ones go to the kernel
        // before anybody looks at what came.
        let depth = depth.clamp(1, self.buffers.len() / 2);
        let span = |((offset, len), what)| (Span::of(offset, len), what);
        let mut spans = extents.map(|extent| extent.map(span)).peekable();
        let mut free: Vec<usize> = (0..2 * depth).collect();
        let mut held: Vec<Option<(Span, T)>> = free.iter().map(|_| None).collect();
        let (mut result, mut bytes_held) = (Ok(()), 0);
        let mut came: Vec<(usize, i32)> = Vec::new();
        loop {
            let mut group = FIRST_GROUP;
            while self.under_way < depth && result.is_ok() {
                let Some(&slot) = free.last() else { break };
                let fits = |span: Span| bytes_held == 0 || bytes_held + span.pages <= UNDER_WAY;
                let next = spans.next_if(|next| next.as_ref().map_or(true, |next| fits(next.0)));
                match next {
                    None => break,
                    Some(Err(error)) => result = Err(error),
                    Some(Ok((span, what))) => {
                        free.pop();
                        bytes_held += span.pages;
                        held[slot] = Some((span, what));
                        self.push(file, span, slot);
                    }
                }
                if self.ring.submission().len() == group {
                    self.submit(file)?;
                    group *= 2;
                }
            }
            self.submit(file)?;
            for (slot, read) in came.drain(..) {
                let Some((span, what)) = held[slot].take() else { continue };
                let (room, wanted) = (&mut self.buffers[slot], span.skip..span.skip + span.len);
                // A read that was cut short or refused is repeated alone, which tells why.
                let bytes = match usize::try_from(read) {
                    Ok(read) if read >= wanted.end => Ok(&room.pages(span.pages)[wanted]),
                    _ => file.read_into(span, room),
                };
                if result.is_ok() {
                    result = bytes.and_then(|bytes| visit(what, bytes));
                }
                room.trim();
                bytes_held -= span.pages;
                free.push(slot);
            }
            if self.under_way == 0 && (result.is_err() || spans.peek().is_none()) {
                return result;
            }
            if self.under_way == 0 {
                // What has come held the memory of the next reads.
                continue;
            }
            // To be woken for each of them would take longer than an eighth of them waits.
            let answers = (depth / 8).clamp(1, self.under_way);
            self.wait(answers).map_err(|e| Error::io("read", &file.path, e))?;
            let answers = self.ring.completion();
            came.extend(answers.map(|answer| (answer.user_data() as usize, answer.result())));
            self.under_way -= came.len();
        }
    }

    /// Hands what was pushed to the kernel.
    fn submit(&mut self, file: &Direct) -> Result<()> {
        self.ring.submit().map_err(|e| Error::io("read", &file.path, e))?;
        Ok(())
    }

    fn push(&mut self, file: &Direct, span: Span, slot: usize) {
        #[cfg(test)]
        file.count(span);
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
    use std::cell::Cell;

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

    /// Extents, each with its number.
    fn numbered(pieces: &[Extent]) -> impl Iterator<Item = Result<(Extent, usize)>> {
        pieces.iter().enumerate().map(|(number, &piece)| Ok((piece, number)))
    }

    #[test]
    fn long_reads_leave_no_memory_behind() {
        let bytes: Vec<u8> = (0..3u32 << 20).map(|i| (i * 7 % 251) as u8).collect();
        let Some((file, path)) = file_of("long", &bytes) else { return };
        let pieces: Vec<Extent> =
            (0..100).map(|i| (i, if i % 3 == 0 { 100 } else { 2 << 20 })).collect();
        let mut seen = 0;
        let visit = |n: usize, read: &[u8]| {
            assert!(read == &bytes[n..n + pieces[n].1]);
            seen += 1;
            Ok(())
        };
        file.read_many(numbered(&pieces), 32, visit).unwrap();
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
        let pieces: Vec<Extent> =
            (0..500).map(|i| (i * 191, [0, 1, 200, 4096, 4097, 243][i as usize % 6])).collect();
        let expected = |n: usize| &bytes[pieces[n].0 as usize..][..pieces[n].1];
        for depth in [1, 7, 32, 1000] {
            let mut seen = vec![false; pieces.len()];
            let visit = |n: usize, read: &[u8]| {
                assert_eq!(read, expected(n));
                assert!(!std::mem::replace(&mut seen[n], true));
                Ok(())
            };
            file.read_many(numbered(&pieces), depth, visit).unwrap();
            assert!(seen.iter().all(|&seen| seen));
        }
        let mut number = 0;
        let visit = |n: usize, read: &[u8]| {
            number += usize::from(read == expected(n));
            Ok(())
        };
        file.read_each(numbered(&pieces), visit).unwrap();
        assert_eq!(number, pieces.len());
        assert_eq!(file.read(99_999, 1).unwrap(), bytes[99_999..]);
        assert!(file.read(99_999, 2).is_err());
        let behind = [(0, 10), (99_999, 2)];
        assert!(file.read_many(numbered(&behind), 4, |_, _| Ok(())).is_err());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn extents_are_asked_for_when_there_is_room_for_their_reads() {
        let Some((file, path)) = file_of("room", &[7; 100_000]) else { return };
        let (asked, seen) = (Cell::new(0), Cell::new(0));
        let extents = (0..100).map(|i| {
            asked.set(asked.get() + 1);
            assert!(asked.get() <= seen.get() + 2 * 4 + 1);
            Ok(((i * 700, 10), ()))
        });
        let visit = |(), read: &[u8]| {
            assert_eq!(read, [7; 10]);
            seen.set(seen.get() + 1);
            Ok(())
        };
        file.read_many(extents, 4, visit).unwrap();
        assert_eq!((asked.get(), seen.get()), (100, 100));
        std::fs::remove_file(&path).unwrap();
    }

    /// Whoever finds extents, or looks at what came, may fail: that is told, and the next reads are
    /// as those before.
    #[test]
    fn who_fails_ends_the_reads_and_spoils_no_others() {
        let Some((file, path)) = file_of("fails", &[7; 100_000]) else { return };
        fn fail<T>() -> Result<T> {
            Err(Error::invalid("wanted"))
        }
        for number in [0, 1, 5, 60] {
            let extents = || (0..100).map(|i| Ok(((i * 700, 10), i)));
            let broken =
                extents().map(|e| if e.as_ref().unwrap().1 == number { fail() } else { e });
            let told = file.read_many(broken, 8, |_, _| Ok(())).unwrap_err();
            assert!(told.to_string().contains("wanted"), "{told}");
            let visit = |i, _: &[u8]| if i == number { fail() } else { Ok(()) };
            let told = file.read_many(extents(), 8, visit).unwrap_err();
            assert!(told.to_string().contains("wanted"), "{told}");
            let mut seen = 0;
            let visit = |_, _: &[u8]| {
                seen += 1;
                Ok(())
            };
            file.read_many(extents(), 8, visit).unwrap();
            assert_eq!(seen, 100);
        }
        std::fs::remove_file(&path).unwrap();
    }
}
