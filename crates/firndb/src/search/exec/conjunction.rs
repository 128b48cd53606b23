//! Evaluates a conjunction of clauses on one partition and passes the matches to a sink.
//!
//! 1. The clauses, bound by `bind.rs`, are sorted by their counts.
//! 2. `Workspace::conjunction` compares the cost of two ways: `by_list` iterates over the first
//!    clause and tests its documents against the others; `by_words` combines bitsets, 64K documents
//!    at a time.
//! 3. Either way each of the other clauses is tested document by document or made a bitset,
//!    whichever costs less according to its `Source`. Binding has already made bitsets of nested
//!    `or`s.

use crate::Result;
use crate::search::codec::bitset::Bitset;
use crate::search::exec::check::Check;
use crate::search::exec::clause::{Clause, materialise};
use crate::search::exec::lead_iter::LeadIter;
use crate::search::exec::scratch::{FEW, Scratch};
use crate::search::exec::sink::Sink;
use crate::search::exec::source::{Access, Form, Source, WalkOrder, cost_of_list, signed};
use crate::search::exec::workspace::Workspace;
use crate::search::partition::Partition;
use crate::search::simd::kernels;
use crate::search::simd::scan;
use std::ops::ControlFlow;

/// Words that are combined at a time: 65,536 documents, 8 KiB.
const CHUNK: usize = 1024;

impl<'r> Workspace<'r> {
    /// If the first clause needs a scan, moves a list in front of it whose decoding and checking
    /// costs less than the scan, although it has more documents.
    fn prefer_list_as_lead(
        &mut self,
        part: &'r Partition,
        base: usize,
        ascending: bool,
    ) -> Result<()> {
        let window = self.doc_range(part, base);
        let first = self.clauses[base].source(part, &self.scratch)?;
        if !first.is_scan() {
            return Ok(());
        }
        let pass = first.fill_cost(window);
        for i in base + 1..self.clauses.len() {
            let clause = &self.clauses[i];
            if cost_of_list(clause.at_most(part.documents)) >= pass {
                return Ok(()); // The clauses after it have at least as many documents.
            }
            if clause.walk_order(part, &self.scratch)?.leads(ascending)
                && !clause.source(part, &self.scratch)?.is_scan()
            {
                self.clauses[base..=i].rotate_right(1);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Passes the documents that satisfy all of `self.clauses[base..]` to the sink.
    pub(crate) fn conjunction(
        &mut self,
        part: &'r Partition,
        base: usize,
        sink: &mut dyn Sink,
    ) -> Result<ControlFlow<()>> {
        let documents = part.documents;
        if self.clauses.len() == base {
            let form = Form::Documents(0, documents);
            self.clauses.push(Clause::new(form, false, documents.into()));
        }
        self.clauses[base..].sort_by_key(|clause| clause.at_most(documents));
        self.prefer_list_as_lead(part, base, sink.ascending())?;
        let window = self.window(part, base)?;
        let share = f64::from(window.1 - window.0) / f64::from(documents.max(1));
        let first = &self.clauses[base];
        let mut estimate = first.at_most(documents) as f64;
        let order = first.walk_order(part, &self.scratch)?;
        if order == WalkOrder::Ascending && matches!(first.form, Form::Ordinals { .. }) {
            estimate *= share;
        }
        let source = first.source(part, &self.scratch)?;
        let mut list = source.walk_cost(estimate, share);
        let mut words = source.fill_cost(window);
        for clause in &self.clauses[base + 1..] {
            let check = clause.check_cost(part, &self.scratch)?.unwrap_or(u64::MAX);
            let checked = (estimate * check as f64) as u64;
            let (mut mask, mut made) = (u64::MAX, u64::MAX);
            // A bitset costs at least a pass over its words: no need to choose a source if checks
            // cost less than that.
            if checked.saturating_mul(2) > part.words() as u64 * 2 {
                let source = clause.source(part, &self.scratch)?;
                mask = source.mask_cost(window);
                // A check reads a bitset of the file in place.
                if source.mapped().is_none() {
                    made = mask;
                }
            }
            list = list.saturating_add(checked.min(made.saturating_add((estimate * 10.0) as u64)));
            words = words.saturating_add(mask.min(checked.saturating_mul(2)));
            estimate *= clause.at_most(documents) as f64 / f64::from(documents.max(1));
        }
        // Iteration stops when the page is full; bitsets are made whole.
        let share = (sink.wanted() as f64 / estimate.max(1.0)).min(1.0);
        match order.leads(sink.ascending()) && choose(list as f64 * share <= words as f64) {
            true => self.by_list(part, base, window, order, sink),
            false => self.by_words(part, base, window, sink),
        }
    }

    /// The documents that satisfy all clauses over ranges of documents. If such a clause leads, the
    /// shortest ascending list is moved in front of it: iteration over the list is limited to the
    /// range.
    fn window(&mut self, part: &'r Partition, base: usize) -> Result<(u32, u32)> {
        if let Form::Documents(..) = self.clauses[base].form {
            for i in base + 1..self.clauses.len() {
                let list = matches!(self.clauses[i].form, Form::Ordinals { .. });
                if list && self.clauses[i].walk_order(part, &self.scratch)? == WalkOrder::Ascending
                {
                    self.clauses[base..=i].rotate_right(1);
                    break;
                }
            }
        }
        Ok(self.doc_range(part, base))
    }

    /// Iterates over clause `lead` and tests its documents against the clauses after it. If its
    /// documents ascend, iteration is limited to the window, and clauses that are ranges of
    /// documents need no check.
    fn by_list(
        &mut self,
        part: &'r Partition,
        lead: usize,
        window: (u32, u32),
        order: WalkOrder,
        sink: &mut dyn Sink,
    ) -> Result<ControlFlow<()>> {
        self.stats.by_list += 1;
        let (ascending, all) = (order == WalkOrder::Ascending, (0, part.documents));
        let window = if ascending { window } else { all };
        let own = self.scratch.bits_used;
        let mut checks = Vec::with_capacity(self.clauses.len() - lead - 1);
        for clause in &self.clauses[lead + 1..] {
            if !(ascending && clause.narrowed(window, part.documents).is_some()) {
                self.limits.check()?;
                let check = Check::new(clause, part, &mut self.scratch, window)?;
                check.push(&mut checks, &mut self.scratch, own);
            }
        }
        let mut docs = std::mem::take(&mut self.scratch.docs);
        let clause = &self.clauses[lead];
        let mut lead = LeadIter::new(clause, part, &self.scratch, window)?;
        let mut flow = ControlFlow::Continue(());
        while flow.is_continue() && lead.next(&self.scratch, &mut docs) {
            self.limits.check()?;
            if ascending && window != all {
                // The iterator cannot limit all forms of postings to the window.
                let (first, end) = (
                    docs.partition_point(|&doc| doc < window.0),
                    docs.partition_point(|&doc| doc < window.1),
                );
                if first == docs.len() {
                    continue;
                }
                docs.truncate(end);
                docs.drain(..first);
                if docs.is_empty() {
                    break;
                }
            }
            self.stats.docs += docs.len() as u64;
            for check in &checks {
                check.retain(&self.scratch, &mut docs);
            }
            if !docs.is_empty() {
                flow = sink.docs(&docs)?;
            }
        }
        self.scratch.docs = docs;
        Ok(flow)
    }

    /// Combines bitsets of the clauses from `base` on, a chunk at a time and within the window.
    /// Clauses that are cheaper to check are checked.
    fn by_words(
        &mut self,
        part: &'r Partition,
        base: usize,
        window: (u32, u32),
        sink: &mut dyn Sink,
    ) -> Result<ControlFlow<()>> {
        self.stats.by_words += 1;
        if let (Some(total), true) = (sink.counter(), window == (0, part.documents))
            && let Some(count) = self.count_pair(part, base)?
        {
            *total += count;
            return Ok(ControlFlow::Continue(()));
        }
        let (mut masks, mut checks, own) = (Vec::new(), Vec::new(), self.scratch.bits_used);
        let mut estimate = part.documents as f64;
        for i in base..self.clauses.len() {
            self.limits.check()?;
            let clause = &self.clauses[i];
            let at_most = clause.at_most(part.documents) as f64;
            let source = clause.source(part, &self.scratch)?;
            let bits = source.mask_cost(window);
            let check = clause.check_cost(part, &self.scratch)?;
            // Twice the cost of a check: the document must first be found in the bitset.
            let checked = check.map_or(f64::MAX, |c| estimate * c as f64 * 2.0);
            if i > base && checked < bits as f64 {
                let check = Check::new(clause, part, &mut self.scratch, window)?;
                check.push(&mut checks, &mut self.scratch, own);
            } else if let Some(mapped) = source.mapped() {
                masks.push((Mask::Mapped(mapped), clause.negate));
            } else {
                self.stats.postings += clause.count;
                let number = materialise(clause, part, &mut self.scratch, window)?;
                push_mask(&mut masks, (number, clause.negate), &mut self.scratch, own);
            }
            estimate =
                estimate.min(at_most).min(estimate * at_most / f64::from(part.documents.max(1)));
        }
        let mut acc = std::mem::take(&mut self.scratch.words);
        let flow = self.chunks(part, &masks, &checks, (&mut acc, window), sink);
        self.scratch.words = acc;
        flow
    }

    /// The number of documents that satisfy both of two clauses: makes a bitset of one and counts
    /// the documents of the other in it. `None` if another way is better.
    fn count_pair(&mut self, part: &'r Partition, base: usize) -> Result<Option<u64>> {
        let [first, other] = &self.clauses[base..] else { return Ok(None) };
        let mut filled = (first, first.source(part, &self.scratch)?);
        let mut counted = (other, other.source(part, &self.scratch)?);
        let all = (0, part.documents);
        let cost = |source: &Source| source.fill_cost(all);
        if filled.1.is_countable() && !counted.0.negate && cost(counted.1) < cost(filled.1) {
            // Setting a bit costs more than testing one.
            std::mem::swap(&mut filled, &mut counted);
        }
        let ((filled, source), (counted, other_source)) = (filled, counted);
        if source.mapped().or(other_source.mapped()).is_some() {
            return Ok(None);
        }
        if let (Some(check), false) = (counted.check_cost(part, &self.scratch)?, filled.negate)
            && filled.count.saturating_mul(check * 2) < cost(other_source)
        {
            return Ok(None);
        }
        if let (Access::Scan(a, keys), Access::Scan(b, others)) =
            (&source.access, &other_source.access)
        {
            let keys = signed(keys, filled.negate);
            let others = signed(others, counted.negate);
            self.stats.words += 2 * part.words() as u64;
            return Ok(Some(scan::count_both((*a, &keys), (*b, &others))));
        }
        if filled.negate || !other_source.is_countable() {
            return Ok(None);
        }
        let bits = materialise(filled, part, &mut self.scratch, all)?;
        self.stats.postings += filled.count + counted.count;
        self.stats.words += part.words() as u64;
        other_source.count_in(&self.scratch, counted.negate, self.scratch.bits(bits))
    }

    /// Intersects the masks chunk by chunk, applies the checks, and passes the matches to the sink.
    fn chunks(
        &mut self,
        part: &Partition,
        masks: &[(Mask, bool)],
        checks: &[Check],
        (acc, window): (&mut Vec<u64>, (u32, u32)),
        sink: &mut dyn Sink,
    ) -> Result<ControlFlow<()>> {
        let words = part.words();
        let (from, to) = (window.0 as usize / 64, words.min((window.1 as usize).div_ceil(64)));
        for start in (from..to).step_by(CHUNK) {
            self.limits.check()?;
            let end = to.min(start + CHUNK);
            acc.clear();
            acc.resize(end - start, u64::MAX);
            if end == words && !part.documents.is_multiple_of(64) {
                acc[end - start - 1] = (1 << (part.documents % 64)) - 1;
            }
            for (mask, negate) in masks {
                match (mask, negate) {
                    (Mask::Mapped(bitset), negate) => bitset.and(start, acc, *negate),
                    (Mask::Bits(n), false) => kernels::and(acc, &self.scratch.bits(*n)[start..end]),
                    (Mask::Bits(n), true) => {
                        kernels::and_not(acc, &self.scratch.bits(*n)[start..end]);
                    }
                }
            }
            self.stats.words += ((end - start) * masks.len()) as u64;
            let first = start as u32 * 64;
            let flow = match checks.is_empty() {
                true => sink.words(first, acc)?,
                false => self.checked(first, acc, checks, sink)?,
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Checks the documents of a chunk and passes those that are left to the sink.
    fn checked(
        &mut self,
        first: u32,
        acc: &mut [u64],
        checks: &[Check],
        sink: &mut dyn Sink,
    ) -> Result<ControlFlow<()>> {
        let mut docs = std::mem::take(&mut self.scratch.docs);
        let mut flow = ControlFlow::Continue(());
        for (i, words) in acc.chunks_mut(16).enumerate() {
            docs.clear();
            let first = first + i as u32 * 16 * 64;
            sink.leave_out(first, words);
            for (j, &word) in words.iter().enumerate() {
                kernels::push_word(word, first + j as u32 * 64, &mut docs);
            }
            self.stats.docs += docs.len() as u64;
            for check in checks {
                check.retain(&self.scratch, &mut docs);
            }
            if !docs.is_empty() {
                flow = sink.docs(&docs)?;
                if flow.is_break() {
                    break;
                }
            }
        }
        self.scratch.docs = docs;
        Ok(flow)
    }
}

/// Whether to iterate over a list, which is `cheaper` unless a test forces the choice.
#[inline(always)]
fn choose(cheaper: bool) -> bool {
    #[cfg(test)]
    if let Some(forced) = crate::search::testing::FORCED.get().list {
        return forced;
    }
    cheaper
}

/// A bitset to intersect with.
enum Mask<'p> {
    /// In the file.
    Mapped(Bitset<'p>),
    /// In the scratch.
    Bits(usize),
}

/// Appends a bitset to the masks. Beyond [`FEW`] masks, bitsets are combined: see [`Check::push`].
fn push_mask(
    masks: &mut Vec<(Mask, bool)>,
    last: (usize, bool),
    scratch: &mut Scratch,
    own: usize,
) {
    if masks.len() >= FEW && last.0 >= own && scratch.is_last(last.0) {
        for (mask, negate) in masks.iter_mut().rev() {
            if let Mask::Bits(into) = mask
                && *into >= own
            {
                *negate = scratch.fold((*into, *negate), last);
                return;
            }
        }
    }
    masks.push((Mask::Bits(last.0), last.1));
}
