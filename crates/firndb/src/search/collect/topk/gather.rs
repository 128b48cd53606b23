//! The sinks of `topk`: one keeps the best matches of all it receives, one takes the first it
//! receives.

use super::Search;
use crate::Result;
use crate::search::collect::rank::PackedRanks;
use crate::search::exec::sink::Sink;
use crate::search::simd::kernels;
use crate::search::simd::scan;
use std::ops::ControlFlow;

/// Number of bitset words that are processed at a time.
const CHUNK_WORDS: usize = 32;

/// Cost of ranking one match, in tenths of a nanosecond.
const RANK_COST: u64 = 60;

impl<K: PackedRanks> Search<'_, '_, K> {
    /// Clears the documents that cannot enter the page by their first key. Bit 0 of `words` is
    /// document `first`. Does nothing if ranking each document is cheaper than scanning the column.
    fn drop_uncompetitive(&self, first: u32, words: &mut [u64]) {
        let all = !self.first_decides;
        let competitive = self.limit.and_then(|limit| self.ranks.competitive_ordinals(limit, all));
        let Some((column, ordinals)) = competitive else { return };
        let scan_cost = words.len() as u64 * scan::cost(column.raw().1);
        if kernels::count(words) * RANK_COST >= scan_cost {
            let mut found = [0; CHUNK_WORDS];
            let found = &mut found[..words.len()];
            scan::fill(column, &ordinals, first as usize / 64, found);
            kernels::and(words, found);
        }
    }

    /// Offers documents to the buffer, and cuts the buffer back to a page if it is full.
    fn offer_all(&mut self, docs: &[u32]) {
        docs.iter().for_each(|&doc| self.offer(doc));
        let k = self.request.k;
        if k > 0 && self.buffer.len() >= k + k / 2 + 32 {
            self.buffer.select_nth_unstable(k - 1);
            self.buffer.truncate(k);
            self.limit = self.buffer.last().copied();
        }
    }

    /// Adds a document to the buffer if it can be on the page.
    #[inline(always)]
    fn offer(&mut self, doc: u32) {
        let key = match self.first_decides {
            true => self.ranks.pack_first::<K>(doc),
            false => self.ranks.pack::<K>(doc),
        };
        let above_limit = self.limit.is_some_and(|limit| key >= limit);
        let below_floor = matches!(self.floor, Some((_, Some(floor), _)) if key < floor);
        if !above_limit && !below_floor {
            self.buffer.push(key);
        }
    }
}

impl<K: PackedRanks> Sink for Search<'_, '_, K> {
    fn ascending(&self) -> bool {
        false
    }

    fn leave_out(&self, first: u32, words: &mut [u64]) {
        if !self.counting {
            self.drop_uncompetitive(first, words);
        }
    }

    fn words(&mut self, first: u32, words: &[u64]) -> Result<ControlFlow<()>> {
        let (mut chunk, mut docs) = ([0; CHUNK_WORDS], Vec::with_capacity(64 * CHUNK_WORDS));
        for (i, words) in words.chunks(CHUNK_WORDS).enumerate() {
            let (first, chunk) = (first + (i * CHUNK_WORDS * 64) as u32, &mut chunk[..words.len()]);
            chunk.copy_from_slice(words);
            if self.counting {
                self.seen += kernels::count(chunk);
            }
            self.drop_uncompetitive(first, chunk);
            docs.clear();
            for (j, &word) in chunk.iter().enumerate() {
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

/// Takes the first matches it receives, for partitions that are stored in the requested order.
pub(crate) struct DocOrderSink<'s, 'a, 'p, K>(pub(crate) &'s mut Search<'a, 'p, K>);

impl<K: PackedRanks> Sink for DocOrderSink<'_, '_, '_, K> {
    fn ascending(&self) -> bool {
        true
    }

    fn wanted(&self) -> u64 {
        self.0.request.k as u64
    }

    fn docs(&mut self, docs: &[u32]) -> Result<ControlFlow<()>> {
        let search = &mut *self.0;
        for &doc in docs {
            if search.buffer.len() == search.request.k {
                return Ok(ControlFlow::Break(()));
            }
            match search.floor {
                Some(_) => search.offer(doc),
                // The document number is the rank, so no column has to be read.
                None => search.buffer.push(K::ZERO.push(32, doc)),
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
