//! Many reads of one file at the same time, through io_uring.
//!
//! A ring has buffers for twice as many reads as are under way: when reads are answered the next
//! ones go to the kernel before anybody looks at what came.

#![expect(unsafe_code, reason = "io_uring is given addresses: see the SAFETY note of `push`")]

use super::direct::{Buffer, Direct, Extent, Span};
use crate::{Error, Result};
use io_uring::{IoUring, opcode, types};
use std::io;
use std::iter::Peekable;
use std::os::fd::AsRawFd;

/// Entries of a ring, and its buffers: twice as many as reads that are under way, at most.
pub(super) const ENTRIES: u32 = 64;
/// Bytes under way in one ring, at most, if it is not a single read.
const UNDER_WAY: usize = 64 << 20;
/// Each time that reads can begin so many go to the kernel first, then twice as many, and so on:
/// the disk begins before the kernel has taken them all. Given more than two small reads at once
/// the kernel hands none of them to the disk before it has looked at the last.
const FIRST_GROUP: usize = 2;

pub(super) struct Ring {
    ring: IoUring,
    pub(super) buffers: Vec<Buffer>,
    /// Reads that were pushed and are not answered.
    under_way: usize,
    /// How many reads went to the kernel, each time, for tests.
    #[cfg(test)]
    pub(super) groups: Vec<usize>,
}

/// What is in which buffer.
struct Slots<T> {
    free: Vec<usize>,
    held: Vec<Option<(Span, T)>>,
    /// Bytes of pages that are held.
    bytes: usize,
}

impl Ring {
    pub(super) fn open() -> Option<Ring> {
        // The ring stays with its thread, so the kernel need not interrupt it to hand over answers:
        // it asks for them. Kernels before 6.1 do not know these wishes.
        let own = |builder: &mut io_uring::Builder| {
            builder.setup_single_issuer().setup_defer_taskrun().build(ENTRIES)
        };
        let ring = own(&mut IoUring::builder()).or_else(|_| IoUring::new(ENTRIES)).ok()?;
        let buffers = (0..ENTRIES).map(|_| Buffer { bytes: Vec::new() }).collect();
        Some(Ring {
            ring,
            buffers,
            under_way: 0,
            #[cfg(test)]
            groups: Vec::new(),
        })
    }

    /// Whether all reads were answered.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    /// As [`Direct::read_many`].
    pub(super) fn read_many<T>(
        &mut self,
        file: &Direct,
        extents: impl Iterator<Item = Result<(Extent, T)>>,
        depth: usize,
        mut visit: impl FnMut(T, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let depth = depth.clamp(1, self.buffers.len() / 2);
        let span = |((offset, len), what)| (Span::of(offset, len), what);
        let mut spans = extents.map(|extent| extent.map(span)).peekable();
        let mut slots = Slots::new(2 * depth);
        let mut came: Vec<(usize, i32)> = Vec::new();
        // After an error there is nothing to do but to wait for what is under way.
        let mut result = Ok(());
        loop {
            if result.is_ok() {
                result = self.begin(file, &mut spans, &mut slots, depth);
            }
            for (slot, read) in came.drain(..) {
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
                // What has come held the memory of the next reads.
                continue;
            }
            // To be woken for each of them would take longer than an eighth of them waits.
            let answers = (depth / 8).clamp(1, self.under_way);
            if let Err(e) = self.wait(answers) {
                return result.and(Err(Error::io("read", &file.path, e)));
            }
            let answers = self.ring.completion();
            came.extend(answers.map(|answer| (answer.user_data() as usize, answer.result())));
            self.under_way -= came.len();
        }
    }

    /// Begins to read until `depth` reads are under way, as far as there are extents and memory.
    fn begin<T>(
        &mut self,
        file: &Direct,
        spans: &mut Peekable<impl Iterator<Item = Result<(Span, T)>>>,
        slots: &mut Slots<T>,
        depth: usize,
    ) -> Result<()> {
        let mut group = FIRST_GROUP;
        while self.under_way < depth {
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

    /// Hands what was pushed to the kernel.
    fn submit(&mut self, file: &Direct) -> Result<()> {
        let pushed = self.ring.submission().len();
        if pushed == 0 {
            return Ok(());
        }
        #[cfg(test)]
        self.groups.push(pushed);
        self.ring.submit().map_err(|e| Error::io("read", &file.path, e))?;
        Ok(())
    }

    fn push(&mut self, file: &Direct, span: Span, slot: usize) -> Result<()> {
        #[cfg(test)]
        file.count(span);
        let pages = self.buffers[slot].pages(span.pages);
        let (address, len) = (pages.as_mut_ptr(), pages.len() as u32);
        let read = opcode::Read::new(types::Fd(file.file.as_raw_fd()), address, len);
        let read = read.offset(span.start).build().user_data(slot as u64);
        // SAFETY: the memory belongs to the buffer of this slot, which nobody touches until the
        // read is answered; and as long as `file` and the buffers live all reads are answered
        // before the ring is given back (the loop of `read_many`) or dropped (`drop`, which leaves
        // the buffers to the kernel if it cannot wait).
        let pushed = unsafe { self.ring.submission().push(&read) };
        // There are as many entries as slots.
        pushed.map_err(|_| odd(file, "more reads than the kernel has room for"))?;
        self.under_way += 1;
        Ok(())
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

    /// The bytes of a read that was answered with their number, or with an error.
    fn bytes(&mut self, file: &Direct, span: Span, slot: usize, read: i32) -> Result<&[u8]> {
        let (room, wanted) = (&mut self.buffers[slot], span.skip..span.skip + span.len);
        match usize::try_from(read) {
            Ok(read) if read >= wanted.end => Ok(&room.pages(span.pages)[wanted]),
            // What was cut short or refused is read again alone, which tells why.
            _ => file.read_into(span, room),
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // After a panic or a failed call: the kernel must not write to memory that is freed.
        while self.under_way > 0 {
            if self.wait(1).is_err() {
                std::mem::take(&mut self.buffers).into_iter().for_each(std::mem::forget);
                return;
            }
            self.under_way -= self.ring.completion().count();
        }
    }
}

impl<T> Slots<T> {
    fn new(count: usize) -> Slots<T> {
        let held = (0..count).map(|_| None).collect();
        Slots { free: (0..count).collect(), held, bytes: 0 }
    }

    /// Whether there is memory for it.
    fn fits(&self, span: Span) -> bool {
        self.bytes == 0 || self.bytes + span.pages <= UNDER_WAY
    }

    fn hold(&mut self, span: Span, what: T, file: &Direct) -> Result<usize> {
        // Twice as many slots as reads under way.
        let slot = self.free.pop().ok_or_else(|| odd(file, "more reads than buffers"))?;
        self.held[slot] = Some((span, what));
        self.bytes += span.pages;
        Ok(slot)
    }

    fn release(&mut self, slot: usize, file: &Direct) -> Result<(Span, T)> {
        let held = self.held[slot].take().ok_or_else(|| odd(file, "an answer to no read"))?;
        self.bytes -= held.0.pages;
        self.free.push(slot);
        Ok(held)
    }
}

/// What cannot be is an error all the same: a value that is left out would look like an absent one.
#[cold]
fn odd(file: &Direct, what: &str) -> Error {
    Error::io("read", &file.path, io::Error::other(what))
}
