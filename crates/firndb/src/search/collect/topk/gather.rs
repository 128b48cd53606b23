//! Takes matches as they come and keeps the best, or the first.

use super::Search;
use crate::Result;
use crate::search::collect::rank::Packed;
use crate::search::exec::sink::Sink;
use crate::search::simd::kernels;
use crate::search::simd::scan;
use std::ops::ControlFlow;

/// Words of matches that are looked at at a time.
const STEP: usize = 32;

/// What it takes to look at a match, tenths of a nanosecond.
const OFFER: u64 = 60;

impl<K: Packed> Search<'_, '_, K> {
    /// Leaves those documents, from document `first` on, that may be among the best, unless to look
    /// at each takes less time.
    fn leave_best(&self, first: u32, words: &mut [u64]) {
        let all = !self.first_decides;
        let best = self.limit.and_then(|limit| self.ranks.best_of_first(limit, all));
        let Some((column, best)) = best else { return };
        let pass = words.len() as u64 * scan::cost(column.raw().1);
        if kernels::count(words) * OFFER >= pass {
            let mut found = [0; STEP];
            let found = &mut found[..words.len()];
            scan::fill(column, &best, first as usize / 64, found);
            kernels::and(words, found);
        }
    }

    /// Takes those documents that are good enough.
    fn offer_all(&mut self, docs: &[u32]) {
        docs.iter().for_each(|&doc| self.offer(doc));
        let k = self.wanted.k;
        if k > 0 && self.buffer.len() >= k + k / 2 + 32 {
            self.buffer.select_nth_unstable(k - 1);
            self.buffer.truncate(k);
            self.limit = self.buffer.last().copied();
        }
    }

    /// Takes a document if it is good enough.
    #[inline(always)]
    fn offer(&mut self, doc: u32) {
        let key = match self.first_decides {
            true => self.ranks.pack_first::<K>(doc),
            false => self.ranks.pack::<K>(doc),
        };
        let too_late = self.limit.is_some_and(|limit| key >= limit);
        let too_early = matches!(self.floor, Some((_, Some(floor), _)) if key < floor);
        if !too_late && !too_early {
            self.buffer.push(key);
        }
    }
}

impl<K: Packed> Sink for Search<'_, '_, K> {
    fn ascending(&self) -> bool {
        false
    }

    fn leave_out(&self, first: u32, words: &mut [u64]) {
        if !self.counting {
            self.leave_best(first, words);
        }
    }

    fn words(&mut self, first: u32, words: &[u64]) -> Result<ControlFlow<()>> {
        let (mut piece, mut docs) = ([0; STEP], Vec::with_capacity(64 * STEP));
        for (i, words) in words.chunks(STEP).enumerate() {
            let (first, piece) = (first + (i * STEP * 64) as u32, &mut piece[..words.len()]);
            piece.copy_from_slice(words);
            if self.counting {
                self.seen += kernels::count(piece);
            }
            self.leave_best(first, piece);
            docs.clear();
            for (j, &word) in piece.iter().enumerate() {
                kernels::push_word(word, first + j as u32 * 64, &mut docs);
            }
            self.offer_all(&docs);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn docs(&mut self, docs: &[u32]) -> Result<ControlFlow<()>> {
        self.seen += docs.len() as u64;
        self.offer_all(docs);
        Ok(ControlFlow::Continue(()))
    }
}

/// Takes the first matches as they come.
pub(crate) struct InOrder<'s, 'a, 'p, K>(pub(crate) &'s mut Search<'a, 'p, K>);

impl<K: Packed> Sink for InOrder<'_, '_, '_, K> {
    fn ascending(&self) -> bool {
        true
    }

    fn wanted(&self) -> u64 {
        self.0.wanted.k as u64
    }

    fn docs(&mut self, docs: &[u32]) -> Result<ControlFlow<()>> {
        let search = &mut *self.0;
        for &doc in docs {
            if search.buffer.len() == search.wanted.k {
                return Ok(ControlFlow::Break(()));
            }
            match search.floor {
                Some(_) => search.offer(doc),
                // The document's number says its place; no rank need be looked up.
                None => search.buffer.push(K::ZERO.push(32, doc)),
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
