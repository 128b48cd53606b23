//! Receivers of the matches of a partition: the trait, and the sinks that only count or collect.

use crate::Result;
use crate::search::simd::kernels;
use std::ops::ControlFlow;

/// Receives matches.
pub(crate) trait Sink {
    /// Whether documents must arrive in ascending order.
    fn ascending(&self) -> bool;
    /// Upper bound on the matches the sink takes before it breaks.
    fn wanted(&self) -> u64 {
        u64::MAX
    }
    /// The counter of a sink that only counts: the executor may add a number to it instead of
    /// passing matches.
    fn counter(&mut self) -> Option<&mut u64> {
        None
    }
    /// Clears candidates that the sink has no use for, before they are checked. Bit 0 of `words` is
    /// document `first`.
    fn leave_out(&self, _first: u32, _words: &mut [u64]) {}
    /// Receives matches by their numbers.
    fn docs(&mut self, docs: &[u32]) -> Result<ControlFlow<()>>;
    /// Receives matches as a bitset. Bit 0 of `words` is document `first`.
    fn words(&mut self, first: u32, words: &[u64]) -> Result<ControlFlow<()>> {
        let mut docs = Vec::new();
        for (i, chunk) in words.chunks(16).enumerate() {
            docs.clear();
            for (j, &word) in chunk.iter().enumerate() {
                kernels::push_word(word, first + (i * 16 + j) as u32 * 64, &mut docs);
            }
            if !docs.is_empty() && self.docs(&docs)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Counts matches.
#[derive(Default)]
pub(crate) struct CountSink(pub(crate) u64);

impl Sink for CountSink {
    fn ascending(&self) -> bool {
        false
    }

    fn counter(&mut self) -> Option<&mut u64> {
        Some(&mut self.0)
    }

    fn docs(&mut self, docs: &[u32]) -> Result<ControlFlow<()>> {
        self.0 += docs.len() as u64;
        Ok(ControlFlow::Continue(()))
    }

    fn words(&mut self, _: u32, words: &[u64]) -> Result<ControlFlow<()>> {
        self.0 += kernels::count(words);
        Ok(ControlFlow::Continue(()))
    }
}

/// Collects matches into a bitset.
pub(crate) struct BitsetSink {
    pub(crate) bits: Vec<u64>,
}

impl Sink for BitsetSink {
    fn ascending(&self) -> bool {
        false
    }

    fn docs(&mut self, docs: &[u32]) -> Result<ControlFlow<()>> {
        for &doc in docs {
            if let Some(word) = self.bits.get_mut(doc as usize / 64) {
                *word |= 1 << (doc % 64);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn words(&mut self, first: u32, words: &[u64]) -> Result<ControlFlow<()>> {
        kernels::or(&mut self.bits[first as usize / 64..], words);
        Ok(ControlFlow::Continue(()))
    }
}
