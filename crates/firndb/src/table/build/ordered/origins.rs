//! The origins of records that are written directly, in case they have to be read back.

use crate::Result;
use crate::bytes::int::{Encoder, u64_at};
use crate::disk::spool::{Spool, TempSpace};

/// The origins of the records of a table, in order: a sequence of equal steps takes 16 bytes.
pub(crate) struct Origins {
    spool: Spool,
    last: u64,
    /// The step of the current sequence, and its length.
    steps: (u64, u64),
}

impl Origins {
    pub(crate) fn new(space: &TempSpace) -> Origins {
        let space = TempSpace { memory: space.memory / 16, ..space.clone() };
        Origins { spool: Spool::new(space), last: 0, steps: (0, 0) }
    }

    pub(crate) fn push(&mut self, origin: u64) -> Result<()> {
        let step = origin.wrapping_sub(self.last);
        self.last = origin;
        if self.steps.0 == step {
            self.steps.1 += 1;
            return Ok(());
        }
        self.end_sequence()?;
        self.steps = (step, 1);
        Ok(())
    }

    /// Ends the current sequence.
    pub(crate) fn end_sequence(&mut self) -> Result<()> {
        let (step, len) = std::mem::take(&mut self.steps);
        if len == 0 {
            return Ok(());
        }
        let mut entry = Encoder::default();
        entry.u64(step);
        entry.u64(len);
        self.spool.push(&entry.0)
    }

    /// Passes all origins on, in order. The last sequence has ended.
    pub(crate) fn each(&self, take: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        let mut origin: u64 = 0;
        self.spool.each(|entries| {
            for entry in entries.chunks_exact(16) {
                for _ in 0..u64_at(entry, 8) {
                    origin = origin.wrapping_add(u64_at(entry, 0));
                    take(origin)?;
                }
            }
            Ok(())
        })
    }
}
