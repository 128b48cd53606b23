//! A condition bound to one partition: bounds on the number of its documents, the ways to evaluate
//! it, and their costs.
//!
//! Costs are in tenths of a nanosecond on one core of a 2020s server, measured with warm caches;
//! only their ratios matter. They are multiplied by counts that are exact or upper bounds, never by
//! estimates.

use crate::Result;
use crate::bytes::packed::Packed;
use crate::search::codec::bitset::Bitset;
use crate::search::codec::points::Window;
use crate::search::codec::postings::PostingsRange;
use crate::search::exec::scratch::Scratch;
use crate::search::format::Ordered;
use crate::search::partition::Partition;
use crate::search::simd::kernels;
use crate::search::simd::scan::{self, OrdinalSet};
use std::cell::OnceCell;

/// Decoding one list entry.
const DECODE: u64 = 10;
/// Reading the ordinal of one document from a column.
const GATHER: u64 = 20;
/// Testing one bit of a bitset.
const PROBE: u64 = 10;
/// Combining one word of a bitset.
const WORD: u64 = 2;

/// A condition on the documents of one partition.
pub(crate) struct Clause {
    pub(crate) form: Form,
    pub(crate) negate: bool,
    /// Upper and lower bound on the documents that satisfy `form`, before negation. They differ for
    /// multi-valued fields, whose lists have more entries than documents.
    pub(crate) count: u64,
    pub(crate) least: u64,
    /// The result of [`Clause::scan`], which several steps of the planner use.
    scanned: OnceCell<Option<OrdinalSet>>,
}

/// In which order iteration over a clause yields documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkOrder {
    /// Each document once, in ascending order.
    Ascending,
    /// Each document once, in any order.
    Distinct,
    /// The clause cannot lead: it would yield duplicates, or has nothing to iterate over.
    Unsupported,
}

/// Where the documents of a clause come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    /// Documents with an ordinal in `scratch.intervals[first..last]`.
    Ordinals { field: usize, first: usize, last: usize, multi: bool },
    /// Documents whose point over two fields is in a window.
    Window { pair: [usize; 2], window: Window },
    /// The documents `first..last`.
    Documents(u32, u32),
    /// Documents in a bitset of the scratch.
    Bits(usize),
}

impl Clause {
    /// A clause whose `form` exactly `count` documents satisfy.
    pub(crate) fn new(form: Form, negate: bool, count: u64) -> Clause {
        Clause { form, negate, count, least: count, scanned: OnceCell::new() }
    }

    /// Upper bound on the documents that satisfy the clause, negation included.
    pub(crate) fn at_most(&self, documents: u32) -> u64 {
        let n = u64::from(documents);
        if self.negate { n.saturating_sub(self.least) } else { self.count.min(n) }
    }

    /// Intersects the range `docs` with the clause; `None` if the clause is not a range of documents.
    pub(crate) fn narrowed(&self, docs: (u32, u32), documents: u32) -> Option<(u32, u32)> {
        match (self.form, self.negate) {
            (Form::Documents(a, b), false) => Some((docs.0.max(a), docs.1.min(b))),
            (Form::Documents(0, b), true) => Some((docs.0.max(b), docs.1)),
            (Form::Documents(a, b), true) if b >= documents => Some((docs.0, docs.1.min(a))),
            _ => None,
        }
    }

    /// The field and the ordinals, if they are a single interval.
    fn interval(&self, scratch: &Scratch) -> Option<(usize, (u32, u32))> {
        match self.form {
            Form::Ordinals { field, first, last, .. } if last == first + 1 => {
                Some((field, scratch.intervals[first]))
            }
            _ => None,
        }
    }

    /// The same, if they are a single ordinal.
    fn single(&self, scratch: &Scratch) -> Option<(usize, (u32, u32))> {
        self.interval(scratch).filter(|(_, (start, end))| *end == start + 1)
    }

    /// Cost of a bitset of the clause's documents in a window.
    pub(crate) fn cost_window(
        &self,
        part: &Partition,
        scratch: &Scratch,
        window: (u32, u32),
    ) -> Result<u64> {
        let (documents, wanted) = (u64::from(part.documents), u64::from(window.1 - window.0));
        let share = |cost: u64| (cost as f64 * wanted as f64 / documents as f64) as u64;
        if wanted < documents {
            let words = part.words() as u64 * WORD;
            if let Some((column, wanted)) = self.scan(part, scratch)? {
                return Ok(share(cost_scan(part, column, wanted)) + words);
            }
            if let Some((field, _)) = self.single(scratch)
                && part.meta(field).special_forms == 0
            {
                return Ok(share(self.count) * DECODE + words);
            }
        }
        self.cost_bits(part, scratch)
    }

    /// Cost of combining the clause with a bitset in a window, which includes making a bitset of the
    /// clause unless the file has one.
    pub(crate) fn cost_mask(
        &self,
        part: &Partition,
        scratch: &Scratch,
        window: (u32, u32),
    ) -> Result<u64> {
        let Some(bitset) = self.mapped(part, scratch)? else {
            return self.cost_window(part, scratch, window);
        };
        let share = f64::from(window.1 - window.0) / f64::from(part.documents.max(1));
        Ok((bitset.words() as f64 * share) as u64 * WORD)
    }

    /// The column and the ordinals to look for, if the clause is evaluated by a scan of the column:
    /// because some of its documents are in no list, or because reading the lists costs more.
    pub(crate) fn scan<'p>(
        &self,
        part: &'p Partition,
        scratch: &Scratch,
    ) -> Result<Option<(Packed<'p>, &OrdinalSet)>> {
        let Form::Ordinals { field, first, last, multi: false } = self.form else {
            return Ok(None);
        };
        let Some(column) = part.scanned(field)? else { return Ok(None) };
        if let Some(wanted) = self.scanned.get() {
            return Ok(wanted.as_ref().map(|wanted| (column, wanted)));
        }
        let intervals = &scratch.intervals[first..last];
        let wanted = OrdinalSet::new(intervals, column.raw().1);
        // The ordinals of an ordered field are ranges of documents.
        let listed = part.meta(field).ordered != Ordered::No || {
            let postings = part.postings(field)?;
            !intervals.iter().any(|&(start, end)| postings.is_scanned(start, end))
                && self.cost_lists(part, scratch)? <= cost_scan(part, column, &wanted)
        };
        let wanted = self.scanned.get_or_init(|| (!listed).then_some(wanted));
        Ok(wanted.as_ref().map(|wanted| (column, wanted)))
    }

    /// The same after negation, which a document without a value satisfies.
    pub(crate) fn scan_negated<'p>(
        &self,
        part: &'p Partition,
        scratch: &Scratch,
    ) -> Result<Option<(Packed<'p>, OrdinalSet)>> {
        let found = self.scan(part, scratch)?;
        let own = |wanted: &OrdinalSet| if self.negate { wanted.others() } else { wanted.clone() };
        Ok(found.map(|(column, wanted)| (column, own(wanted))))
    }

    /// The bitset that the file has of the clause's documents, if any.
    pub(crate) fn mapped<'p>(
        &self,
        part: &'p Partition,
        scratch: &Scratch,
    ) -> Result<Option<Bitset<'p>>> {
        let Some((field, (start, end))) = self.interval(scratch) else { return Ok(None) };
        if end != start + 1 || part.meta(field).special_forms == 0 {
            return Ok(None);
        }
        let postings = part.postings(field)?;
        Ok(postings.bitset(&postings.range(start, end)))
    }

    /// Cost of a bitset of all documents of the clause.
    pub(crate) fn cost_bits(&self, part: &Partition, scratch: &Scratch) -> Result<u64> {
        let words = part.words() as u64 * WORD;
        Ok(words
            + match self.form {
                Form::Bits(_) | Form::Documents(..) => 0,
                Form::Window { pair, .. } => {
                    part.points(pair[0])?.map_or(0, |(points, _)| points.cost(self.count))
                }
                Form::Ordinals { .. } => match self.scan(part, scratch)? {
                    Some((column, wanted)) => cost_scan(part, column, wanted),
                    None => self.cost_lists(part, scratch)?,
                },
            })
    }

    /// Cost of the same bitset from the posting lists alone.
    fn cost_lists(&self, part: &Partition, scratch: &Scratch) -> Result<u64> {
        let Form::Ordinals { field, first, last, .. } = self.form else { return Ok(0) };
        let words = part.words() as u64;
        if let Some(bitset) = self.mapped(part, scratch)? {
            return Ok(bitset.words() * WORD);
        }
        let points = part.points(field)?.map(|(points, _)| points.cost(self.count));
        if points.is_none() && part.scanned(field)?.is_some() {
            // The choice between lists and a scan justifies reading the size of each list.
            let postings = part.postings(field)?;
            let cost = |&(start, end): &(u32, u32)| {
                let (entries, words) = postings.work(start, end);
                entries * DECODE + words * WORD
            };
            return Ok(scratch.intervals[first..last].iter().map(cost).sum());
        }
        let mut cost = points.unwrap_or(self.count * DECODE);
        if part.meta(field).special_forms > 0 {
            cost = cost.min(words * WORD * 8 + cost / 2);
        }
        Ok(cost)
    }

    /// Cost of iterating over `docs` documents of a leading clause in a `share` of the partition.
    pub(crate) fn cost_walk(
        &self,
        part: &Partition,
        scratch: &Scratch,
        (docs, share): (f64, f64),
    ) -> Result<u64> {
        let scan = self.scan(part, scratch)?;
        let scan = scan.map_or(0, |(column, wanted)| cost_scan(part, column, wanted));
        Ok((scan as f64 * share + docs * DECODE as f64) as u64)
    }

    /// Cost of testing one document; `None` if that needs a bitset of the clause.
    pub(crate) fn cost_check(&self, part: &Partition, scratch: &Scratch) -> Result<Option<u64>> {
        Ok(match self.form {
            Form::Bits(_) => Some(PROBE),
            Form::Documents(..) => Some(PROBE / 2),
            Form::Window { pair, .. } => {
                let columns = pair.iter().all(|&field| part.meta(field).column_bits.is_some());
                columns.then_some(2 * GATHER)
            }
            Form::Ordinals { field, multi, .. } => {
                let column = part.meta(field).column_bits.is_some() && !multi;
                if column { Some(GATHER) } else { self.mapped(part, scratch)?.map(|_| PROBE) }
            }
        })
    }

    /// Overwrites a bitset with the clause's documents, before negation. Bits outside the window may
    /// be missing.
    pub(crate) fn fill(
        &self,
        part: &Partition,
        scratch: &Scratch,
        window: (u32, u32),
        bits: &mut [u64],
    ) -> Result<()> {
        if let Some((column, wanted)) = self.scan(part, scratch)? {
            let (from, to) = (window.0 as usize / 64, (window.1 as usize).div_ceil(64));
            let to = to.min(bits.len());
            bits[..from.min(to)].fill(0);
            bits[to..].fill(0);
            scan::fill(column, wanted, from, &mut bits[from.min(to)..to]);
            return Ok(());
        }
        if window != (0, part.documents)
            && let Some((field, interval)) = self.single(scratch)
        {
            bits.fill(0);
            let postings = part.postings(field)?;
            let range = postings.range(interval.0, interval.1);
            postings.add(postings.within(range, window), bits);
            return Ok(());
        }
        bits.fill(0);
        match self.form {
            Form::Bits(number) => kernels::or(bits, scratch.bits(number)),
            Form::Documents(first, last) => kernels::set_range(bits, first, last),
            Form::Window { pair, window } => {
                let points = part.points(pair[0])?;
                points.into_iter().for_each(|(points, _)| points.add(window, bits));
            }
            Form::Ordinals { field, first, last, .. } => {
                let postings = part.postings(field)?;
                let intervals = &scratch.intervals[first..last];
                intervals.iter().for_each(|&(start, end)| postings.add_to(start, end, bits));
            }
        }
        Ok(())
    }

    fn is_multi(&self) -> bool {
        matches!(self.form, Form::Ordinals { multi: true, .. })
    }

    /// Whether [`Clause::count_in`] gives a count.
    pub(crate) fn is_countable(&self, part: &Partition, scratch: &Scratch) -> Result<bool> {
        let listed = self.interval(scratch).is_some() && !self.is_multi();
        Ok(listed || self.scan(part, scratch)?.is_some())
    }

    /// The number of documents in a bitset that satisfy the clause, counted without making a bitset
    /// of the clause; `None` if that is not possible.
    pub(crate) fn count_in(
        &self,
        part: &Partition,
        scratch: &Scratch,
        bits: usize,
    ) -> Result<Option<u64>> {
        let bits = scratch.bits(bits);
        if let Some((column, wanted)) = self.scan_negated(part, scratch)? {
            return Ok(Some(scan::count(column, &wanted, bits)));
        }
        let (Some((field, (start, end))), false) = (self.interval(scratch), self.is_multi()) else {
            return Ok(None);
        };
        let count = part.postings(field)?.count_in(start, end, bits);
        Ok(Some(if self.negate { kernels::count(bits).saturating_sub(count) } else { count }))
    }

    /// The documents of interval `i` of a leading clause; `None` after the last.
    pub(crate) fn range(
        &self,
        part: &Partition,
        scratch: &Scratch,
        i: usize,
    ) -> Result<Option<PostingsRange>> {
        Ok(match self.form {
            Form::Ordinals { field, first, last, .. } if first + i < last => {
                let (start, end) = scratch.intervals[first + i];
                Some(part.postings(field)?.range(start, end))
            }
            Form::Window { window, .. } if i == 0 => Some(PostingsRange::of_window(window)),
            _ => None,
        })
    }

    /// In which order iteration over the clause yields documents.
    pub(crate) fn walk_order(&self, part: &Partition, scratch: &Scratch) -> Result<WalkOrder> {
        if self.scan(part, scratch)?.is_some() {
            return Ok(WalkOrder::Ascending);
        }
        if self.negate {
            return Ok(WalkOrder::Unsupported);
        }
        match self.form {
            Form::Bits(_) => Ok(WalkOrder::Unsupported),
            Form::Documents(..) => Ok(WalkOrder::Ascending),
            Form::Window { .. } => Ok(WalkOrder::Distinct),
            Form::Ordinals { multi, .. } => Ok(match self.interval(scratch) {
                Some((field, (start, end))) => {
                    let range = part.postings(field)?.range(start, end);
                    match (range.sorted, multi) {
                        (true, _) => WalkOrder::Ascending,
                        (false, false) => WalkOrder::Distinct,
                        (false, true) => WalkOrder::Unsupported,
                    }
                }
                None if multi => WalkOrder::Unsupported,
                None => WalkOrder::Distinct,
            }),
        }
    }
}

/// The number of list entries whose decoding costs as much as one scan of a column of this width.
pub(crate) fn pass(part: &Partition, bits: u8) -> u64 {
    part.words() as u64 * scan::cost(bits.into()) / DECODE
}

/// Cost of decoding a list of this many documents and testing each by a column.
pub(crate) fn cost_of_list(documents: u64) -> u64 {
    documents.saturating_mul(DECODE + GATHER)
}

/// Cost of a scan of the column.
fn cost_scan(part: &Partition, column: Packed, wanted: &OrdinalSet) -> u64 {
    part.words() as u64 * scan::cost_of(column, wanted)
}

/// Makes a bitset of a clause, before negation, in the scratch and returns its number. Bits outside
/// the window may be missing.
pub(crate) fn materialise(
    clause: &Clause,
    part: &Partition,
    scratch: &mut Scratch,
    window: (u32, u32),
) -> Result<usize> {
    if let Form::Bits(number) = clause.form {
        return Ok(number);
    }
    let number = scratch.take_any_bits(part.words());
    let mut bits = std::mem::take(scratch.bits_mut(number));
    let filled = clause.fill(part, scratch, window, &mut bits);
    *scratch.bits_mut(number) = bits;
    filled.map(|()| number)
}
