//! Concurrent reads of one file through io_uring.
//!
//! A ring has buffers for twice as many reads as are in flight: when reads complete, the next ones
//! are submitted before the completed ones are visited.

#![expect(unsafe_code, reason = "io_uring takes addresses: see the SAFETY note of `push`")]

use crate::disk::ForkGuard;
use crate::disk::direct::buffer::{Buffer, Span};
use crate::disk::direct::uncached_file::{Extent, UncachedFile};
use crate::{Error, Result};
use io_uring::{IoUring, opcode, types};
use std::cell::RefCell;
use std::io;
use std::iter::Peekable;
use std::os::fd::AsRawFd;

/// Number of entries of a ring and of its buffers: twice the maximum of reads in flight.
pub(super) const ENTRIES: u32 = 64;
/// Maximum of bytes in flight in one ring, unless they are a single read.
const BYTES_IN_FLIGHT: usize = 64 << 20;
/// Size of the first group of reads to submit; each following group is twice as large. The device
/// starts with the first group while the kernel still processes the others: when more than two
/// small reads are submitted at once, the kernel issues none before it has processed the last.
const FIRST_GROUP: usize = 2;

thread_local! {
    /// `None` before the first use and during use; `Some(None)` if the kernel refuses io_uring.
    pub(super) static RING: RefCell<Option<Option<Ring>>> = const { RefCell::new(None) };
}

/// Takes the ring of this thread. `None` if the kernel refuses io_uring.
pub(super) fn take() -> Option<Ring> {
    let kept = RING.with_borrow_mut(Option::take);
    // A forked child inherits the ring of the thread, whose queues it would share with its parent.
    let is_own = |ring: &Option<Ring>| ring.as_ref().is_none_or(|ring| !ring.process.is_child());
    let ring = kept.filter(is_own).unwrap_or_else(Ring::open);
    if ring.is_none() {
        RING.with_borrow_mut(|slot| *slot = Some(None));
    }
    ring
}

/// Keeps the ring for the next use on this thread.
pub(super) fn give_back(ring: Ring) {
    // A ring with reads in flight would deliver their completions to the next caller.
    if ring.is_idle() {
        RING.with_borrow_mut(|slot| *slot = Some(Some(ring)));
    }
}

pub(super) struct Ring {
    /// The process that created the ring.
    process: ForkGuard,
    ring: IoUring,
    pub(super) buffers: Vec<Buffer>,
    /// Number of reads that were pushed and have not completed.
    in_flight: usize,
    /// Number of reads in each submission, for tests.
    #[cfg(test)]
    pub(super) groups: Vec<usize>,
}

/// The assignment of reads to buffers.
struct Slots<T> {
    free: Vec<usize>,
    held: Vec<Option<(Span, T)>>,
    /// Total length of the pages in use.
    bytes: usize,
}

impl Ring {
    pub(super) fn open() -> Option<Ring> {
        // The ring stays on its thread, which polls for completions, so the kernel need not
        // interrupt it. Kernels before 6.1 do not support these flags.
        let build = |builder: &mut io_uring::Builder| {
            builder.setup_single_issuer().setup_defer_taskrun().build(ENTRIES)
        };
        let ring = build(&mut IoUring::builder()).or_else(|_| IoUring::new(ENTRIES)).ok()?;
        let buffers = (0..ENTRIES).map(|_| Buffer::new()).collect();
        Some(Ring {
            process: ForkGuard::new(),
            ring,
            buffers,
            in_flight: 0,
            #[cfg(test)]
            groups: Vec::new(),
        })
    }

    /// Whether all reads have completed.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0
    }

    /// Reads extents, up to `depth` of them concurrently; see `Direct::read_many`.
    pub(super) fn read_many<T>(
        &mut self,
        file: &UncachedFile,
        extents: impl Iterator<Item = Result<(Extent, T)>>,
        depth: usize,
        mut visit: impl FnMut(T, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let depth = depth.clamp(1, self.buffers.len() / 2);
        let span = |((offset, len), what)| (Span::of(offset, len), what);
        let mut spans = extents.map(|extent| extent.map(span)).peekable();
        let mut slots = Slots::new(2 * depth);
        let mut completed: Vec<(usize, i32)> = Vec::new();
        // After an error, only the reads in flight are awaited.
        let mut result = Ok(());
        loop {
            if result.is_ok() {
                result = self.begin(file, &mut spans, &mut slots, depth);
            }
            for (slot, read) in completed.drain(..) {
                if result.is_ok() {
                    result = slots
                        .release(slot, file)
                        .and_then(|(span, what)| visit(what, self.bytes(file, span, slot, read)?));
                }
                self.buffers[slot].trim();
            }
            if self.is_idle() {
                if result.is_err() || spans.peek().is_none() {
                    return result;
                }
                // The completed reads occupied the memory of the next ones.
                continue;
            }
            // A wake-up per read would cost more than the wait for an eighth of them.
            let answers = (depth / 8).clamp(1, self.in_flight);
            if let Err(e) = self.wait(answers) {
                return result.and(Err(Error::io("read", &file.path, e)));
            }
            let answers = self.ring.completion();
            completed.extend(answers.map(|answer| (answer.user_data() as usize, answer.result())));
            self.in_flight -= completed.len();
        }
    }

    /// Starts reads until `depth` are in flight, as far as extents and memory allow.
    fn begin<T>(
        &mut self,
        file: &UncachedFile,
        spans: &mut Peekable<impl Iterator<Item = Result<(Span, T)>>>,
        slots: &mut Slots<T>,
        depth: usize,
    ) -> Result<()> {
        let mut group = FIRST_GROUP;
        while self.in_flight < depth {
            let fits = |(span, _): &(Span, T)| slots.fits(*span);
            let Some(next) = spans.next_if(|next| next.as_ref().map_or(true, fits)) else { break };
            let (span, what) = next?;
            let slot = slots.hold(span, what, file)?;
            self.push(file, span, slot)?;
            if self.ring.submission().len() >= group {
                self.submit(file)?;
                group *= 2;
            }
        }
        self.submit(file)
    }

    /// Submits the pushed reads to the kernel.
    fn submit(&mut self, file: &UncachedFile) -> Result<()> {
        let pushed = self.ring.submission().len();
        if pushed == 0 {
            return Ok(());
        }
        #[cfg(test)]
        self.groups.push(pushed);
        self.ring.submit().map_err(|e| Error::io("read", &file.path, e))?;
        Ok(())
    }

    fn push(&mut self, file: &UncachedFile, span: Span, slot: usize) -> Result<()> {
        #[cfg(test)]
        file.count(span);
        let pages = self.buffers[slot].pages(span.pages);
        let (address, len) = (pages.as_mut_ptr(), pages.len() as u32);
        let read = opcode::Read::new(types::Fd(file.file.as_raw_fd()), address, len);
        let read = read.offset(span.start).build().user_data(slot as u64);
        // SAFETY: the memory belongs to the buffer of this slot, which is not accessed until the
        // read completes. All reads complete while `file` and the buffers are alive: before
        // `read_many` returns or, after a panic or an error, in `drop`, which leaks the buffers if
        // it cannot wait.
        let pushed = unsafe { self.ring.submission().push(&read) };
        // The ring has as many entries as slots.
        pushed.map_err(|_| unexpected(file, "more reads than the kernel has room for"))?;
        self.in_flight += 1;
        Ok(())
    }

    /// Waits until this number of reads have completed.
    fn wait(&mut self, answers: usize) -> io::Result<()> {
        loop {
            match self.ring.submit_and_wait(answers) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                done => return done.map(|_| ()),
            }
        }
    }

    /// The bytes of a completed read, whose result is a number of bytes or a negative error.
    fn bytes(&mut self, file: &UncachedFile, span: Span, slot: usize, read: i32) -> Result<&[u8]> {
        let (buffer, wanted) = (&mut self.buffers[slot], span.skip..span.skip + span.len);
        match usize::try_from(read) {
            Ok(read) if read >= wanted.end => Ok(&buffer.pages(span.pages)[wanted]),
            // A short or failed read is repeated on its own, which returns the precise error.
            _ => file.read_into(span, buffer),
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // After a panic or a failed call: the kernel must not write to freed memory.
        while self.in_flight > 0 {
            if self.wait(1).is_err() {
                std::mem::take(&mut self.buffers).into_iter().for_each(std::mem::forget);
                return;
            }
            self.in_flight -= self.ring.completion().count();
        }
    }
}

impl<T> Slots<T> {
    fn new(count: usize) -> Slots<T> {
        let held = (0..count).map(|_| None).collect();
        Slots { free: (0..count).collect(), held, bytes: 0 }
    }

    /// Whether the read fits into the memory limit.
    fn fits(&self, span: Span) -> bool {
        self.bytes == 0 || self.bytes + span.pages <= BYTES_IN_FLIGHT
    }

    fn hold(&mut self, span: Span, what: T, file: &UncachedFile) -> Result<usize> {
        // There are twice as many slots as reads in flight.
        let slot = self.free.pop().ok_or_else(|| unexpected(file, "more reads than buffers"))?;
        self.held[slot] = Some((span, what));
        self.bytes += span.pages;
        Ok(slot)
    }

    fn release(&mut self, slot: usize, file: &UncachedFile) -> Result<(Span, T)> {
        let held =
            self.held[slot].take().ok_or_else(|| unexpected(file, "an answer to no read"))?;
        self.bytes -= held.0.pages;
        self.free.push(slot);
        Ok(held)
    }
}

/// An error for states that should not occur: skipping an extent would make its value look absent.
#[cold]
fn unexpected(file: &UncachedFile, what: &str) -> Error {
    Error::io("read", &file.path, io::Error::other(what))
}
