//! Finds the first matches of an order in a partition.
//!
//! There are three ways, chosen by their expected cost:
//! 1. *document order*: the documents stand in the order asked for, so the first matches are the
//!    answer;
//! 2. *walk*: go through the keys of the first field in order, check each document, stop when
//!    enough were found;
//! 3. *gather*: look up the ranks of all matches and keep the best in a buffer of more than a page
//!    that is cut back to a page whenever it is full. Where matches are many, a scan of the column
//!    leaves out those whose first field comes behind the best page so far (`gather.rs`).
//!
//! `visit.rs` goes through the partitions.

mod gather;

use crate::Result;
use crate::search::codec::postings::PostingsIter;
use crate::search::collect::count::count_partition;
use crate::search::collect::rank::{Packed, Ranks, SortKey, Wide};
use crate::search::collect::request::PageRequest;
use crate::search::collect::topk_heap::TopKHeap;
use crate::search::exec::check::Check;
use crate::search::exec::clause::Clause;
use crate::search::exec::executor::Executor;
use crate::search::exec::sink::Sink;
use crate::search::exec::source::{self, Form};
use crate::search::format::{FieldMeta, Ordered};
use crate::search::model::query::{Cursor, OrderBy};
use crate::search::partition::Partition;
use crate::search::partition::set::PartitionSet;
use gather::InOrder;

/// The best documents of partition `p`, of those that are better than the best found elsewhere.
pub(crate) fn search(
    executor: &mut Executor,
    wanted: &PageRequest,
    p: usize,
    ranks: &Ranks,
    best: &TopKHeap,
) -> Result<TopDocs> {
    if ranks.bits() <= 128 {
        Search::<u128>::new(ranks, wanted, p)?.run(executor, best)
    } else {
        Search::<Wide>::new(ranks, wanted, p)?.run(executor, best)
    }
}

/// TopKHeap documents of a partition in order, and how many matches it has (0 if nobody asked).
pub(crate) struct TopDocs {
    pub(crate) docs: Vec<u32>,
    pub(crate) count: u64,
}

/// The search in one partition.
struct Search<'a, 'p, K> {
    ranks: &'a Ranks<'p>,
    wanted: &'a PageRequest<'a>,
    p: usize,
    buffer: Vec<K>,
    /// Documents of one rank in the first field stand in the order of the others: no need to look
    /// at these.
    first_decides: bool,
    /// Nothing at or above this is good enough.
    limit: Option<K>,
    /// Nothing below this is wanted.
    floor: Option<(&'a Cursor, Option<K>, Option<u32>)>,
    /// Matches that were seen, if they have to be counted.
    counting: bool,
    seen: u64,
}

impl<'a, 'p, K: Packed> Search<'a, 'p, K> {
    fn new(ranks: &'a Ranks<'p>, wanted: &'a PageRequest<'a>, p: usize) -> Result<Self> {
        let floor = wanted.after.map(|cursor| (cursor, None, None));
        Ok(Search {
            ranks,
            wanted,
            p,
            buffer: Vec::new(),
            first_decides: false,
            limit: None,
            floor,
            counting: wanted.count,
            seen: 0,
        })
    }

    fn run(mut self, executor: &mut Executor, best: &TopKHeap) -> Result<TopDocs> {
        let (set, p) = (executor.query.set, self.p);
        let part = &*set.partitions[p];
        if let Some((cursor, key, first)) = &mut self.floor {
            let (floor, rank) = self.ranks.after::<K>(set, p, self.wanted.order, cursor)?;
            (*key, *first) = (Some(floor), rank);
        }
        // A cursor is compared by all its keys.
        self.first_decides = self.floor.is_none()
            && begins_order(set, part, self.wanted.order.get(1..).unwrap_or(&[]));
        let mut count = 0;
        let counting = self.counting;
        let Some(extra) = self.bounds(executor, part, best)? else {
            // Nothing here is good enough, but it may have to be counted.
            return Ok(TopDocs { docs: Vec::new(), count: self.count(executor)? });
        };
        if counting && (!extra.is_empty() || self.floor.is_some()) {
            executor.reset();
            count = self.count(executor)?;
            self.counting = false;
            let extra = self.bounds(executor, part, best)?.unwrap_or_default();
            self.search(executor, part, extra)?;
        } else {
            let gathered = self.search(executor, part, extra)?;
            if counting {
                count = if gathered { self.seen } else { self.count(executor)? };
            }
        }
        let k = self.wanted.k;
        self.buffer.sort_unstable();
        self.buffer.truncate(k);
        Ok(TopDocs { docs: self.buffer.iter().map(|key| key.low()).collect(), count })
    }

    fn count(&self, executor: &mut Executor) -> Result<u64> {
        if !self.wanted.count {
            return Ok(0);
        }
        count_partition(executor, self.p)
    }

    /// Conditions on the first field that follow from the matches found elsewhere and from the
    /// cursor; `None` if nothing can satisfy them.
    fn bounds<'r>(
        &self,
        executor: &mut Executor<'r>,
        part: &Partition,
        best: &TopKHeap,
    ) -> Result<Option<Vec<Clause<'r>>>> {
        let mut extra = Vec::new();
        let Some(field) = self.ranks.first_field() else { return Ok(Some(extra)) };
        let mut add = |(start, end), negate| -> Result<()> {
            let form = match part.ordered_range(field, start, end)? {
                Some((first, last)) => Form::Documents(first, last),
                None => {
                    let first = executor.work.scratch.intervals.len();
                    executor.work.scratch.intervals.push((start, end));
                    Form::Ordinals { field, first, last: first + 1, multi: false }
                }
            };
            let offsets = part.offsets(field)?;
            let count = offsets.get(end as usize).wrapping_sub(offsets.get(start as usize));
            let count = count.min(part.meta(field).postings);
            extra.push(Clause::new(form, negate, count));
            Ok(())
        };
        if let Some(key) = best.threshold() {
            match self.ranks.up_to(part, &key)? {
                Some((start, end)) if start < end => add((start, end), false)?,
                _ => return Ok(None),
            }
        }
        if let Some((_, _, Some(rank))) = self.floor {
            let (start, end) = self.ranks.below(rank);
            if start < end {
                add((start, end), true)?;
            }
        }
        Ok(Some(extra))
    }

    /// Fills the buffer with the best documents; true if all matches were seen.
    fn search<'r>(
        &mut self,
        executor: &mut Executor<'r>,
        part: &Partition,
        extra: Vec<Clause<'r>>,
    ) -> Result<bool> {
        let p = self.p;
        if self.in_document_order(executor, part) {
            let _ = executor.run(p, extra, &mut InOrder(self))?;
            return Ok(false);
        }
        if part.is_small() {
            let _ = executor.run(p, extra, self)?;
            return Ok(true);
        }
        if executor.prepare(p, extra)?.is_none() {
            return Ok(true);
        }
        let walked = self.walk_pays(executor, part)? && self.walk(executor, part)?;
        if !walked {
            self.buffer.clear();
            (self.limit, self.seen) = (None, 0);
            let part = &*executor.query.set.partitions[p];
            let _ = executor.work.conjunction(part, 0, self)?;
        }
        executor.reset();
        Ok(!walked)
    }

    /// Whether document numbers ascend in the order asked for.
    fn in_document_order(&self, executor: &Executor, part: &Partition) -> bool {
        in_document_order(executor.query.set, self.p, part, self.wanted.order)
    }

    /// Compares the expected costs of walk and gather.
    fn walk_pays(&self, executor: &Executor, part: &Partition) -> Result<bool> {
        let Some(field) = self.ranks.first_field().filter(|_| self.wanted.k > 0) else {
            return Ok(false);
        };
        let n = f64::from(part.documents.max(1));
        let (mut matches, mut fewest) = (n, n);
        for clause in &executor.work.clauses {
            let at_most = clause.at_most(part.documents) as f64;
            matches *= at_most / n;
            fewest = fewest.min(at_most);
        }
        let checks = 1.0 + executor.work.clauses.len() as f64;
        let steps = (self.wanted.k as f64 * n / matches.max(1.0)).min(n);
        let gather = matches * 4.0 + fewest.min(n / 16.0) * checks;
        // A batch comes to have as many documents as a pass takes the time of.
        let passes = match scan_pass(part, field)? {
            0 => 0.0,
            pass => pass as f64 + steps,
        };
        let in_time = steps + passes <= self.listed(part, field)?.min(budget(part)) as f64;
        Ok(in_time && steps * (2.0 + 2.0 * checks) + passes < gather)
    }

    /// How many documents a walk can find from where it starts before it comes to keys without
    /// lists, of which each takes a pass over the column.
    fn listed(&self, part: &Partition, field: usize) -> Result<u64> {
        let meta = part.meta(field);
        if !meta.is_scanned() {
            return Ok(u64::MAX);
        }
        let (offsets, (first, end)) = (part.offsets(field)?, meta.scanned);
        let start = self.start(meta.distinct);
        let between =
            |from: u32, to: u32| offsets.get(to as usize).wrapping_sub(offsets.get(from as usize));
        Ok(match self.ranks.first_descending() {
            true => match meta.distinct - start {
                top if top <= first => u64::MAX,
                top if top <= end => 0,
                top => between(end, top),
            },
            false if start >= end => u64::MAX,
            false if start >= first => 0,
            false => between(start, first),
        })
    }

    /// Goes through the keys in order; false if it took far longer than expected and was given up.
    fn walk(&mut self, executor: &mut Executor, part: &Partition) -> Result<bool> {
        let Some(field) = self.ranks.first_field() else { return Ok(false) };
        executor.work.stats.walks += 1;
        let set = executor.query.set;
        let part_r = &*set.partitions[self.p];
        let (postings, distinct) = (part_r.postings(field)?, part.meta(field).distinct);
        let own = executor.work.scratch.bits_used;
        let mut checks = Vec::with_capacity(executor.work.clauses.len());
        for clause in &executor.work.clauses {
            executor.query.limits.check()?;
            let all = (0, part.documents);
            let check = Check::new(clause, part_r, &mut executor.work.scratch, all)?;
            check.push(&mut checks, &mut executor.work.scratch, own);
        }
        let rest_in_order = begins_order(set, part, &self.wanted.order[1..]);
        let (mut rank, mut steps, mut batch) = (self.start(distinct), 0u64, 64u64);
        let mut seen = 0;
        // Each batch of a field that is scanned takes a pass over its column.
        let pass = scan_pass(part_r, field)?;
        let (growth, most) = if pass > 0 { (16, pass.max(1024)) } else { (2, 1024) };
        let budget = budget(part);
        let mut docs = std::mem::take(&mut executor.work.scratch.docs);
        while rank < distinct && self.buffer.len() < self.wanted.k && steps <= budget {
            executor.query.limits.check()?;
            let (start, end) = self.batch(&postings, rank, part.meta(field), batch);
            if pass == 0 && postings.is_scanned(start, end) {
                // A gather that leaves out what a pass rules out is better from here on.
                break;
            }
            rank += end - start;
            batch = (batch * growth).min(most);
            if pass > 0 {
                steps += pass;
                executor.work.stats.words += part.words() as u64;
            }
            let mut cursor = PostingsIter::new(postings.range(start, end));
            while cursor.next(&postings, &mut docs) {
                steps += docs.len() as u64;
                seen += docs.len() as u64;
                checks.iter().for_each(|check| check.retain(&executor.work.scratch, &mut docs));
                let _ = self.docs(&docs)?;
                if rest_in_order && end == start + 1 && self.buffer.len() >= self.wanted.k {
                    break;
                }
            }
        }
        executor.work.stats.docs += seen;
        executor.work.scratch.docs = docs;
        drop(checks);
        if self.buffer.len() >= self.wanted.k {
            return Ok(true);
        }
        if rank < distinct {
            return Ok(false);
        }
        self.without_value(executor, part, field)?;
        Ok(true)
    }

    /// The rank to start at: that of the cursor.
    fn start(&self, distinct: u32) -> u32 {
        match self.floor {
            Some((_, _, Some(rank))) => rank.min(distinct),
            _ => 0,
        }
    }

    /// The ordinals of the next ranks, about `size` documents; not with lists and without.
    fn batch(
        &self,
        postings: &crate::search::codec::postings::Postings,
        rank: u32,
        meta: &FieldMeta,
        size: u64,
    ) -> (u32, u32) {
        let (offsets, distinct, scanned) = (&postings.offsets, meta.distinct, meta.scanned);
        if self.ranks.first_descending() {
            let end = distinct - rank;
            let below = offsets.get(end as usize).saturating_sub(size);
            let start = (offsets.lower_bound(below) as u32).min(end - 1);
            (if end > scanned.1 { start.max(scanned.1) } else { start }, end)
        } else {
            let above = offsets.get(rank as usize).saturating_add(size);
            let end = (offsets.lower_bound(above) as u32).clamp(rank + 1, distinct);
            (rank, if rank < scanned.0 { end.min(scanned.0) } else { end })
        }
    }

    /// Adds the matches without a value of the first field, which come last.
    fn without_value(
        &mut self,
        executor: &mut Executor,
        part: &Partition,
        field: usize,
    ) -> Result<()> {
        let meta = part.meta(field);
        if meta.present == part.documents {
            return Ok(());
        }
        let first = executor.work.scratch.intervals.len();
        executor.work.scratch.intervals.push((0, meta.distinct));
        let form = Form::Ordinals { field, first, last: first + 1, multi: false };
        executor.work.clauses.push(Clause::new(form, true, meta.present.into()));
        let part = &*executor.query.set.partitions[self.p];
        let _ = executor.work.conjunction(part, 0, self)?;
        Ok(())
    }
}

/// Documents that a walk may look at before it is given up.
fn budget(part: &Partition) -> u64 {
    u64::from(part.documents) / 2 + 1024
}

/// How many documents of lists take as long as a pass over the column of a field of few keys; 0 if
/// none of its documents are found by passes.
fn scan_pass(part: &Partition, field: usize) -> Result<u64> {
    let meta = part.meta(field);
    let scanned = !meta.is_scanned() && part.postings(field)?.is_scanned(0, meta.distinct);
    Ok(meta.column_bits.filter(|_| scanned).map_or(0, |bits| source::pass(part, bits)))
}

/// Whether the numbers of a partition's documents ascend in an order, ties included: if documents
/// moved only an order that leaves no ties but those of the schema's.
pub(crate) fn in_document_order(
    set: &PartitionSet,
    p: usize,
    part: &Partition,
    wanted: &[SortKey],
) -> bool {
    if begins_order(set, part, wanted) {
        return true;
    }
    let by_field = || {
        let direction = if wanted[0].descending { Ordered::Descending } else { Ordered::Ascending };
        let field = set.local(p, wanted[0].field);
        wanted.len() == 1 && field.is_some_and(|f| part.meta(f).ordered == direction)
    };
    part.origins.is_none() && by_field()
}

/// Whether the documents of a partition, and any of them, stand in an order because the schema's
/// begins with it; where documents moved, because it is the schema's.
fn begins_order(set: &PartitionSet, part: &Partition, wanted: &[SortKey]) -> bool {
    let names = &set.schema.fields;
    let order = &part.schema.order;
    let long_enough = match part.origins {
        None => wanted.len() <= order.len(),
        Some(_) => wanted.len() == order.len(),
    };
    let same = |(by, key): (&SortKey, &OrderBy)| {
        names[by.field].name == key.field && by.descending == key.descending
    };
    long_enough && wanted.iter().zip(order).all(same)
}
