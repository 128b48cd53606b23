//! Runs a plan on one partition and hands the matches to a sink.
//!
//! A conjunction:
//! 1. `bind.rs` turns each condition into ordinals with their exact counts.
//! 2. `Executor::conjunction` sorts the clauses by count and compares two ways: `by_list` walks the
//!    first clause and checks the others document by document; `by_words` combines bitsets 64K
//!    documents at a time.
//! 3. Either way each other clause is checked or turned into a bitset, whichever costs less: by its
//!    lists or by a scan of its column (`Clause::scan`). An `or` inside becomes a bitset first.

use crate::Result;
use crate::search::codec::bitset::Bitset;
use crate::search::exec::check::Check;
use crate::search::exec::clause::WalkOrder;
use crate::search::exec::clause::cost_of_list;
use crate::search::exec::clause::{Clause, Form, materialise};
use crate::search::exec::lead_iter::LeadIter;
use crate::search::exec::scratch::{FEW, Scratch};
use crate::search::exec::sink::Sink;
use crate::search::exec::workspace::Workspace;
use crate::search::partition::Partition;
use crate::search::simd::kernels;
use crate::search::simd::scan;
use std::ops::ControlFlow;

/// Words of a bitset that are combined at a time: 65,536 documents, 8 KiB.
const CHUNK: usize = 1024;

impl Workspace<'_> {
    /// A pass over a column takes longer than to walk a list and to check its documents, even if
    /// these are more: puts such a list in front.
    fn lead_with_a_list(&mut self, part: &Partition, base: usize, ascending: bool) -> Result<()> {
        let first = &self.clauses[base];
        if first.scan(part, &self.scratch)?.is_none() {
            return Ok(());
        }
        let pass = first.cost_window(part, &self.scratch, self.left(part, base))?;
        for i in base + 1..self.clauses.len() {
            let clause = &self.clauses[i];
            let most = clause.at_most(part.documents);
            if cost_of_list(most) >= pass {
                return Ok(()); // Those behind it have no fewer documents.
            }
            let how = clause.lead(part, &self.scratch)?;
            let leads = how == WalkOrder::Ascending || (how == WalkOrder::Distinct && !ascending);
            if leads && clause.scan(part, &self.scratch)?.is_none() {
                self.clauses[base..=i].rotate_right(1);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends the documents that satisfy all of `self.clauses[base..]` to the sink.
    pub(crate) fn conjunction(
        &mut self,
        part: &Partition,
        base: usize,
        sink: &mut dyn Sink,
    ) -> Result<ControlFlow<()>> {
        let documents = part.documents;
        if self.clauses.len() == base {
            let form = Form::Documents(0, documents);
            self.clauses.push(Clause::new(form, false, documents.into()));
        }
        self.clauses[base..].sort_by_key(|clause| clause.at_most(documents));
        self.lead_with_a_list(part, base, sink.ascending())?;
        let window = self.window(part, base)?;
        let share = f64::from(window.1 - window.0) / f64::from(documents.max(1));
        let first = &self.clauses[base];
        let mut estimate = first.at_most(documents) as f64;
        let how = first.lead(part, &self.scratch)?;
        if how == WalkOrder::Ascending && matches!(first.form, Form::Ordinals { .. }) {
            estimate *= share;
        }
        let mut list = first.cost_walk(part, &self.scratch, (estimate, share))?;
        let mut words = first.cost_window(part, &self.scratch, window)?;
        for clause in &self.clauses[base + 1..] {
            let check = clause.cost_check(part, &self.scratch)?.unwrap_or(u64::MAX);
            let checked = (estimate * check as f64) as u64;
            // Bitsets cost a pass at least: they need not be looked at if checks cost less.
            let bits = match checked.saturating_mul(2) <= part.words() as u64 * 2 {
                true => u64::MAX,
                false => clause.cost_mask(part, &self.scratch, window)?,
            };
            // A bitset in the file is looked at where it lies.
            let mapped = clause.mapped(part, &self.scratch)?.is_some();
            let made = if mapped { u64::MAX } else { bits };
            list = list.saturating_add(checked.min(made.saturating_add((estimate * 10.0) as u64)));
            words = words.saturating_add(bits.min(checked.saturating_mul(2)));
            estimate *= clause.at_most(documents) as f64 / f64::from(documents.max(1));
        }
        // A walk ends when the page is full; bitsets are made whole.
        let share = (sink.wanted() as f64 / estimate.max(1.0)).min(1.0);
        let leads =
            how == WalkOrder::Ascending || (how == WalkOrder::Distinct && !sink.ascending());
        match leads && choose(list as f64 * share <= words as f64) {
            true => self.by_list(part, base, window, how, sink),
            false => self.by_words(part, base, window, sink),
        }
    }

    /// The documents that clauses over ranges of documents leave. If these are the rarest, the
    /// shortest list that ascends is put in front of them: of it, too, no more is walked.
    fn window(&mut self, part: &Partition, base: usize) -> Result<(u32, u32)> {
        if let Form::Documents(..) = self.clauses[base].form {
            for i in base + 1..self.clauses.len() {
                let list = matches!(self.clauses[i].form, Form::Ordinals { .. });
                if list && self.clauses[i].lead(part, &self.scratch)? == WalkOrder::Ascending {
                    self.clauses[base..=i].rotate_right(1);
                    break;
                }
            }
        }
        Ok(self.left(part, base))
    }

    /// Walks clause `lead` and checks the clauses behind it. If its documents ascend, only those in
    /// the window are walked, and clauses that say no more than the window need no check.
    fn by_list(
        &mut self,
        part: &Partition,
        lead: usize,
        window: (u32, u32),
        how: WalkOrder,
        sink: &mut dyn Sink,
    ) -> Result<ControlFlow<()>> {
        self.stats.by_list += 1;
        let (ascending, all) = (how == WalkOrder::Ascending, (0, part.documents));
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
        let mut cursor = LeadIter::new(clause, part, &self.scratch, window)?;
        let mut flow = ControlFlow::Continue(());
        while flow.is_continue() && cursor.next(clause, part, &self.scratch, &mut docs)? {
            self.limits.check()?;
            if ascending && window != all {
                // Not all forms of a list are cut to the window before they are walked.
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

    /// Combines bitsets of the clauses from `base` on, a chunk at a time and within the window;
    /// clauses that are cheaper to check are.
    fn by_words(
        &mut self,
        part: &Partition,
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
            let bits = clause.cost_mask(part, &self.scratch, window)?;
            let check = clause.cost_check(part, &self.scratch)?;
            // A document costs twice a check here: it must be found in the bitset first.
            let checked = check.map_or(f64::MAX, |c| estimate * c as f64 * 2.0);
            if i > base && checked < bits as f64 {
                let check = Check::new(clause, part, &mut self.scratch, window)?;
                check.push(&mut checks, &mut self.scratch, own);
            } else if let Some(mapped) = clause.mapped(part, &self.scratch)? {
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

    /// The number of documents of two clauses: only the first becomes a bitset, and the documents
    /// of the other are counted in it. `None` if there is a better way.
    fn count_pair(&mut self, part: &Partition, base: usize) -> Result<Option<u64>> {
        let [first, other] = &self.clauses[base..] else { return Ok(None) };
        let (mut first, mut other) = (first, other);
        let cost = |clause: &Clause| clause.cost_bits(part, &self.scratch);
        let countable = first.is_countable(part, &self.scratch)?;
        if countable && !other.negate && cost(other)? < cost(first)? {
            // To set a bit takes longer than to look at one.
            (first, other) = (other, first);
        }
        if first.mapped(part, &self.scratch)?.or(other.mapped(part, &self.scratch)?).is_some() {
            return Ok(None);
        }
        if let (Some(check), false) = (other.cost_check(part, &self.scratch)?, first.negate)
            && first.count.saturating_mul(check * 2) < other.cost_bits(part, &self.scratch)?
        {
            return Ok(None);
        }
        let scan = |clause: &Clause| clause.scan_negated(part, &self.scratch);
        if let (Some((a, keys)), Some((b, others))) = (scan(first)?, scan(other)?) {
            self.stats.words += 2 * part.words() as u64;
            return Ok(Some(scan::count_both((a, &keys), (b, &others))));
        }
        if first.negate || !other.is_countable(part, &self.scratch)? {
            return Ok(None);
        }
        let all = (0, part.documents);
        let bits = materialise(first, part, &mut self.scratch, all)?;
        self.stats.postings += first.count + other.count;
        self.stats.words += part.words() as u64;
        other.count_in(part, &self.scratch, bits)
    }

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

    /// Checks the documents of a chunk.
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

/// Whether to walk a list; tests may force it.
#[inline(always)]
fn choose(cheaper: bool) -> bool {
    #[cfg(test)]
    if let Some(forced) = crate::search::testing::FORCED.get().list {
        return forced;
    }
    cheaper
}

enum Mask<'p> {
    Mapped(Bitset<'p>),
    Bits(usize),
}

/// Adds a bitset to the masks, as [`Check::push`] adds a check.
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
