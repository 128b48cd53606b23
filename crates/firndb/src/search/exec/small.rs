//! Runs a plan on a small partition with bitsets on the stack.
//!
//! With a thousand documents per partition, choosing between plans costs more than any plan. So
//! each condition is looked up and applied immediately, in an order chosen once for the whole
//! query: rarest first. The first condition that leaves no document ends the partition, and later
//! conditions are not looked up. A condition is applied by checking the remaining documents, if
//! they are few and the field has a column, or else by combining bitsets.

use crate::Result;
use crate::search::exec::bind::Binder;
use crate::search::exec::clause::Clause;
use crate::search::exec::context::QueryContext;
use crate::search::exec::sink::Sink;
use crate::search::exec::source::Form;
use crate::search::exec::windows;
use crate::search::exec::workspace::Workspace;
use crate::search::format::limits::SMALL_WORDS;
use crate::search::partition::Partition;
use crate::search::plan::Node;
use crate::search::simd::kernels;
use std::ops::ControlFlow;

/// A set of documents of a small partition.
type Bits = [u64; SMALL_WORDS];

/// Up to this many documents are checked one by one.
const MAX_CHECKED: u32 = 16;

/// A query on small partitions.
pub(crate) struct SmallRun<'a, 'r> {
    pub(crate) query: &'a QueryContext<'r>,
    pub(crate) work: &'a mut Workspace<'r>,
}

impl<'r> SmallRun<'_, 'r> {
    /// Passes the matches of a small partition that also satisfy `extra` to the sink.
    pub(crate) fn run(
        &mut self,
        p: usize,
        extra: &[Clause<'r>],
        sink: &mut dyn Sink,
    ) -> Result<ControlFlow<()>> {
        self.work.stats.partitions += 1;
        self.work.stats.small += 1;
        let (set, plan) = (self.query.set, self.query.plan);
        let part = &*set.partitions[p];
        part.ready()?;
        let words = part.words();
        let mut bits: Bits = [0; SMALL_WORDS];
        let acc = &mut bits[..words];
        kernels::set_range(acc, 0, part.documents);
        for clause in extra {
            self.apply_clause(part, clause, acc)?;
        }
        if any(acc) {
            self.apply(p, part, &plan.root, acc)?;
        }
        self.work.reset();
        self.work.stats.words += words as u64;
        if any(acc) { sink.words(0, acc) } else { Ok(ControlFlow::Continue(())) }
    }

    /// Removes the documents that do not satisfy a node from `acc`.
    fn apply(&mut self, p: usize, part: &'r Partition, node: &Node, acc: &mut [u64]) -> Result<()> {
        match node {
            Node::All => {}
            Node::Nothing => acc.fill(0),
            Node::Leaf(leaf, negate) => self.apply_leaf(p, part, *leaf, *negate, acc)?,
            Node::And(nodes) => {
                let root = std::ptr::eq(node, &self.query.plan.root);
                for i in 0..nodes.len() {
                    let next = if root { self.query.order[i] } else { i };
                    self.apply(p, part, &nodes[next], acc)?;
                    if !any(acc) {
                        return Ok(());
                    }
                }
            }
            Node::Or(nodes) => {
                let (mut union, mut one): (Bits, Bits) = ([0; SMALL_WORDS], [0; SMALL_WORDS]);
                let (union, one) = (&mut union[..acc.len()], &mut one[..acc.len()]);
                for node in nodes {
                    one.copy_from_slice(acc);
                    self.apply(p, part, node, one)?;
                    kernels::or(union, one);
                }
                acc.copy_from_slice(union);
            }
        }
        Ok(())
    }

    fn apply_leaf(
        &mut self,
        p: usize,
        part: &'r Partition,
        leaf: usize,
        negate: bool,
        acc: &mut [u64],
    ) -> Result<()> {
        let condition = &self.query.plan.leaves[leaf];
        let multi = self.query.set.schema.fields[condition.field].multi;
        let Some(field) = self.query.set.local(p, condition.field) else {
            if !negate {
                acc.fill(0);
            }
            return Ok(());
        };
        if let Some((pair, window)) = windows::window_of(part, field, &condition.test) {
            let clause = Clause::new(Form::Window { pair, window }, negate, 0);
            return self.apply_clause(part, &clause, acc);
        }
        let checkable = !multi && part.meta(field).column_bits.is_some();
        if !(checkable && count(acc) <= MAX_CHECKED) {
            let mut bits: Bits = [0; SMALL_WORDS];
            let found = &mut bits[..acc.len()];
            if let Some((low, high)) = self.query.ranges[leaf] {
                let (start, end) = part.ready_range(field, low, high);
                let meta = part.meta(field);
                let most = (end - start) > meta.distinct / 2 && meta.present == part.documents;
                if most && !multi {
                    // Every document has a value, and fewer are outside of the range.
                    self.work.stats.postings += part.ready_add(field, 0, start, found)?;
                    self.work.stats.postings += part.ready_add(field, end, meta.distinct, found)?;
                } else {
                    self.work.stats.postings += part.ready_add(field, start, end, found)?;
                }
                self.work.stats.words += acc.len() as u64;
                narrow(acc, found, negate != (most && !multi));
                return Ok(());
            }
            if let Some(ords) = self.query.known[leaf].as_ref().and_then(|known| known.ordinals(p))
            {
                self.work.stats.postings += part.ready_add_each(field, ords, found)?;
                self.work.stats.words += acc.len() as u64;
                narrow(acc, found, negate);
                return Ok(());
            }
        }
        let first = self.work.scratch.intervals.len();
        Binder { query: self.query, work: self.work }.push_intervals(p, leaf, field)?;
        let last = self.work.scratch.intervals.len();
        let form = Form::Ordinals { field, first, last, multi };
        self.apply_clause(part, &Clause::new(form, negate, 0), acc)?;
        self.work.scratch.intervals.truncate(first);
        Ok(())
    }

    fn apply_clause(
        &mut self,
        part: &'r Partition,
        clause: &Clause<'r>,
        acc: &mut [u64],
    ) -> Result<()> {
        let mut bits: Bits = [0; SMALL_WORDS];
        let found = &mut bits[..acc.len()];
        match clause.form {
            Form::Documents(first, last) => kernels::set_range(found, first, last),
            Form::Bits(_) | Form::Window { .. } => {
                let source = clause.source(part, &self.work.scratch)?;
                source.fill(&self.work.scratch, (0, part.documents), found)?;
            }
            Form::Ordinals { field, first, last, multi } => {
                let intervals = &self.work.scratch.intervals[first..last];
                let left = count(acc);
                if !multi && part.meta(field).column_bits.is_some() && left <= MAX_CHECKED {
                    self.work.stats.docs += u64::from(left);
                    return check(part, field, intervals, clause.negate, acc);
                }
                let postings = part.postings(field)?;
                for &(start, end) in intervals {
                    postings.add_to(start, end, found);
                    let most = part.meta(field).postings;
                    self.work.stats.postings += postings.count(start, end).min(most);
                }
            }
        }
        self.work.stats.words += acc.len() as u64;
        narrow(acc, found, clause.negate);
        Ok(())
    }
}

/// Removes the documents that are not in `found` (negated: that are) from `acc`. A plain loop: for
/// so few words a kernel call costs more.
#[inline(always)]
fn narrow(acc: &mut [u64], found: &[u64], negate: bool) {
    let flip = if negate { u64::MAX } else { 0 };
    for (word, found) in acc.iter_mut().zip(found) {
        *word &= found ^ flip;
    }
}

/// Removes the documents whose ordinal is outside of the intervals (negated: inside) from `acc`.
fn check(
    part: &Partition,
    field: usize,
    intervals: &[(u32, u32)],
    negate: bool,
    acc: &mut [u64],
) -> Result<()> {
    let Some(column) = part.column(field)? else { return Ok(()) };
    // Small dictionaries: one look-up instead of a comparison per interval.
    let mut set = [0u64; 4];
    let small = intervals.len() > 2 && part.meta(field).distinct <= 256;
    if small {
        intervals.iter().for_each(|&(start, end)| kernels::set_range(&mut set, start, end));
    }
    for (i, word) in acc.iter_mut().enumerate() {
        let mut left = *word;
        while left != 0 {
            let bit = left.trailing_zeros();
            left &= left - 1;
            let ord = column.get(i as u32 * 64 + bit);
            let inside = match small {
                true => ord < 256 && set[ord as usize / 64] >> (ord % 64) & 1 == 1,
                false => intervals.iter().any(|&(start, end)| start <= ord && ord < end),
            };
            if inside == negate {
                *word &= !(1 << bit);
            }
        }
    }
    Ok(())
}

#[inline(always)]
fn any(bits: &[u64]) -> bool {
    bits.iter().fold(0, |all, word| all | word) != 0
}

#[inline(always)]
fn count(bits: &[u64]) -> u32 {
    bits.iter().map(|word| word.count_ones()).sum()
}
