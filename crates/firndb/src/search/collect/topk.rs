//! Finds the first matches of an order in one partition.
//!
//! There are three strategies:
//! 1. *document order*: the documents are stored in the requested order, so the first matches are
//!    the answer. Used whenever it applies.
//! 2. *walk*: iterate over the keys of the first sort field in order, check the documents of each,
//!    and stop when the page is full. Used if its estimated cost is lower than that of a gather.
//! 3. *gather*: compute the ranks of all matches and keep the best in a buffer that is larger than
//!    a page and is cut back to a page when it is full. If matches are frequent, a scan of the
//!    column excludes documents whose first key is worse than the page so far (`gather.rs`).
//!
//! `ordered_search.rs` visits the partitions.

mod gather;

use crate::Result;
use crate::search::codec::postings::PostingsIter;
use crate::search::collect::count::count_partition;
use crate::search::collect::rank::{PackedRanks, Ranks, SortKey, WideRanks};
use crate::search::collect::request::PageRequest;
use crate::search::collect::topk_heap::TopKHeap;
use crate::search::exec::check::Check;
use crate::search::exec::clause::Clause;
use crate::search::exec::executor::Executor;
use crate::search::exec::sink::Sink;
use crate::search::exec::source::{self, Form};
use crate::search::format::{FieldMeta, Ordered};
use crate::search::model::query::{OrderBy, PageToken};
use crate::search::partition::Partition;
use crate::search::partition::set::PartitionSet;
use gather::DocOrderSink;

/// The best documents of partition `p` that can enter the heap of matches of other partitions.
pub(crate) fn search_partition(
    executor: &mut Executor,
    request: &PageRequest,
    p: usize,
    ranks: &Ranks,
    heap: &TopKHeap,
) -> Result<TopDocs> {
    if ranks.bits() <= 128 {
        Search::<u128>::new(ranks, request, p)?.run(executor, heap)
    } else {
        Search::<WideRanks>::new(ranks, request, p)?.run(executor, heap)
    }
}

/// The best documents of a partition, in order, and its number of matches (0 unless requested).
pub(crate) struct TopDocs {
    pub(crate) docs: Vec<u32>,
    pub(crate) count: u64,
}

/// The search in one partition. Its buffer has packed ranks.
struct Search<'a, 'p, K> {
    ranks: &'a Ranks<'p>,
    request: &'a PageRequest<'a>,
    p: usize,
    buffer: Vec<K>,
    /// Documents with the same rank in the first field are stored in the order of the other fields,
    /// so the first rank and the document number decide.
    first_decides: bool,
    /// Exclusive upper bound: a document at or above it cannot be on the page.
    limit: Option<K>,
    /// The page token with its packed lower bound and its rank in the first field: documents below
    /// it are on earlier pages.
    floor: Option<(&'a PageToken, Option<K>, Option<u32>)>,
    /// Whether the sink has to count matches; `seen` counts those it received.
    counting: bool,
    seen: u64,
}

impl<'a, 'p, K: PackedRanks> Search<'a, 'p, K> {
    fn new(ranks: &'a Ranks<'p>, request: &'a PageRequest<'a>, p: usize) -> Result<Self> {
        let floor = request.after.map(|token| (token, None, None));
        Ok(Search {
            ranks,
            request,
            p,
            buffer: Vec::new(),
            first_decides: false,
            limit: None,
            floor,
            counting: request.count,
            seen: 0,
        })
    }

    fn run(mut self, executor: &mut Executor, heap: &TopKHeap) -> Result<TopDocs> {
        let (set, p) = (executor.query.set, self.p);
        let part = &*set.partitions[p];
        if let Some((token, key, first)) = &mut self.floor {
            let (floor, rank) = self.ranks.after_token::<K>(set, p, self.request.order, token)?;
            (*key, *first) = (Some(floor), rank);
        }
        // Comparing with a page token takes the ranks of all fields.
        self.first_decides = self.floor.is_none()
            && begins_order(set, part, self.request.order.get(1..).unwrap_or(&[]));
        let mut count = 0;
        let counting = self.counting;
        let Some(extra) = self.bounds(executor, part, heap)? else {
            // No document can enter the page, but matches may have to be counted.
            return Ok(TopDocs { docs: Vec::new(), count: self.count(executor)? });
        };
        if counting && (!extra.is_empty() || self.floor.is_some()) {
            executor.reset();
            count = self.count(executor)?;
            self.counting = false;
            let extra = self.bounds(executor, part, heap)?.unwrap_or_default();
            self.fill_buffer(executor, part, extra)?;
        } else {
            let gathered = self.fill_buffer(executor, part, extra)?;
            if counting {
                count = if gathered { self.seen } else { self.count(executor)? };
            }
        }
        let k = self.request.k;
        self.buffer.sort_unstable();
        self.buffer.truncate(k);
        Ok(TopDocs { docs: self.buffer.iter().map(|key| key.low()).collect(), count })
    }

    fn count(&self, executor: &mut Executor) -> Result<u64> {
        if !self.request.count {
            return Ok(0);
        }
        count_partition(executor, self.p)
    }

    /// Conditions on the first sort field that follow from the heap and from the page token; `None`
    /// if no document can satisfy them.
    fn bounds<'r>(
        &self,
        executor: &mut Executor<'r>,
        part: &Partition,
        heap: &TopKHeap,
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
        if let Some(key) = heap.threshold() {
            match self.ranks.ordinals_up_to(part, &key)? {
                Some((start, end)) if start < end => add((start, end), false)?,
                _ => return Ok(None),
            }
        }
        if let Some((_, _, Some(rank))) = self.floor {
            let (start, end) = self.ranks.ordinals_below(rank);
            if start < end {
                add((start, end), true)?;
            }
        }
        Ok(Some(extra))
    }

    /// Fills the buffer with the best documents. Returns true if every match was received.
    fn fill_buffer<'r>(
        &mut self,
        executor: &mut Executor<'r>,
        part: &Partition,
        extra: Vec<Clause<'r>>,
    ) -> Result<bool> {
        let p = self.p;
        if self.in_document_order(executor, part) {
            let _ = executor.run(p, extra, &mut DocOrderSink(self))?;
            return Ok(false);
        }
        if part.is_small() {
            let _ = executor.run(p, extra, self)?;
            return Ok(true);
        }
        if executor.prepare(p, extra)?.is_none() {
            return Ok(true);
        }
        let walked = self.walk_is_cheaper(executor, part)? && self.walk(executor, part)?;
        if !walked {
            self.buffer.clear();
            (self.limit, self.seen) = (None, 0);
            let part = &*executor.query.set.partitions[p];
            let _ = executor.work.conjunction(part, 0, self)?;
        }
        executor.reset();
        Ok(!walked)
    }

    /// Whether document numbers ascend in the requested order.
    fn in_document_order(&self, executor: &Executor, part: &Partition) -> bool {
        in_document_order(executor.query.set, self.p, part, self.request.order)
    }

    /// Whether a walk is expected to cost less than a gather.
    fn walk_is_cheaper(&self, executor: &Executor, part: &Partition) -> Result<bool> {
        let Some(field) = self.ranks.first_field().filter(|_| self.request.k > 0) else {
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
        let steps = (self.request.k as f64 * n / matches.max(1.0)).min(n);
        let gather = matches * 4.0 + fewest.min(n / 16.0) * checks;
        // Batches grow until a batch has as many documents as one column scan costs.
        let scans = match scan_cost(part, field)? {
            0 => 0.0,
            scan => scan as f64 + steps,
        };
        let is_within_budget =
            steps + scans <= self.docs_in_lists(part, field)?.min(walk_budget(part)) as f64;
        Ok(is_within_budget && steps * (2.0 + 2.0 * checks) + scans < gather)
    }

    /// How many documents a walk can find before it reaches keys without postings lists, each of
    /// which takes a scan of the column.
    fn docs_in_lists(&self, part: &Partition, field: usize) -> Result<u64> {
        let meta = part.meta(field);
        if !meta.is_scanned() {
            return Ok(u64::MAX);
        }
        let (offsets, (first, end)) = (part.offsets(field)?, meta.scanned);
        let start = self.start_rank(meta.distinct);
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

    /// Iterates over the keys in order. Returns false if it gave up because it took far longer than
    /// estimated.
    fn walk(&mut self, executor: &mut Executor, part: &Partition) -> Result<bool> {
        let Some(field) = self.ranks.first_field() else { return Ok(false) };
        executor.work.stats.walks += 1;
        let set = executor.query.set;
        let opened = &*set.partitions[self.p];
        let (postings, distinct) = (opened.postings(field)?, part.meta(field).distinct);
        let bits_before = executor.work.scratch.bits_used;
        let mut checks = Vec::with_capacity(executor.work.clauses.len());
        for clause in &executor.work.clauses {
            executor.query.limits.check()?;
            let all = (0, part.documents);
            let check = Check::new(clause, opened, &mut executor.work.scratch, all)?;
            check.push(&mut checks, &mut executor.work.scratch, bits_before);
        }
        let rest_in_order = begins_order(set, part, &self.request.order[1..]);
        let (mut rank, mut steps, mut batch) = (self.start_rank(distinct), 0u64, 64u64);
        let mut examined = 0;
        // Each batch of a field without postings lists takes a scan of its column.
        let scan = scan_cost(opened, field)?;
        let (growth, max_batch) = if scan > 0 { (16, scan.max(1024)) } else { (2, 1024) };
        let budget = walk_budget(part);
        let mut docs = std::mem::take(&mut executor.work.scratch.docs);
        while rank < distinct && self.buffer.len() < self.request.k && steps <= budget {
            executor.query.limits.check()?;
            let (start, end) = self.batch(&postings, rank, part.meta(field), batch);
            if scan == 0 && postings.is_scanned(start, end) {
                // From here on a gather that excludes documents by a column scan is cheaper.
                break;
            }
            rank += end - start;
            batch = (batch * growth).min(max_batch);
            if scan > 0 {
                steps += scan;
                executor.work.stats.words += part.words() as u64;
            }
            let mut iter = PostingsIter::new(postings.range(start, end));
            while iter.next(&postings, &mut docs) {
                steps += docs.len() as u64;
                examined += docs.len() as u64;
                checks.iter().for_each(|check| check.retain(&executor.work.scratch, &mut docs));
                let _ = self.docs(&docs)?;
                if rest_in_order && end == start + 1 && self.buffer.len() >= self.request.k {
                    break;
                }
            }
        }
        executor.work.stats.docs += examined;
        executor.work.scratch.docs = docs;
        drop(checks);
        if self.buffer.len() >= self.request.k {
            return Ok(true);
        }
        if rank < distinct {
            return Ok(false);
        }
        self.add_docs_without_value(executor, part, field)?;
        Ok(true)
    }

    /// The first rank to visit: that of the page token.
    fn start_rank(&self, distinct: u32) -> u32 {
        match self.floor {
            Some((_, _, Some(rank))) => rank.min(distinct),
            _ => 0,
        }
    }

    /// The ordinals of the next ranks, with about `size` documents in total. Keys with and without
    /// postings lists are never in the same batch.
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

    /// Adds the matches without a value of the first sort field, which come last.
    fn add_docs_without_value(
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

/// The number of documents that a walk may examine before it gives up.
fn walk_budget(part: &Partition) -> u64 {
    u64::from(part.documents) / 2 + 1024
}

/// The cost of a scan of the column, in documents read from postings lists. 0 unless every key of
/// the field is found by scanning.
fn scan_cost(part: &Partition, field: usize) -> Result<u64> {
    let meta = part.meta(field);
    let scanned = !meta.is_scanned() && part.postings(field)?.is_scanned(0, meta.distinct);
    Ok(meta.column_bits.filter(|_| scanned).map_or(0, |bits| source::pass(part, bits)))
}

/// Whether document numbers ascend in the requested order, ties included. If documents were
/// reordered, only the whole order of the schema qualifies.
pub(crate) fn in_document_order(
    set: &PartitionSet,
    p: usize,
    part: &Partition,
    order: &[SortKey],
) -> bool {
    if begins_order(set, part, order) {
        return true;
    }
    let by_field = || {
        let direction = if order[0].descending { Ordered::Descending } else { Ordered::Ascending };
        let field = set.local(p, order[0].field);
        order.len() == 1 && field.is_some_and(|f| part.meta(f).ordered == direction)
    };
    part.origins.is_none() && by_field()
}

/// Whether documents are sorted by `order` because the schema's order starts with it. If documents
/// were reordered, only the whole order of the schema qualifies.
fn begins_order(set: &PartitionSet, part: &Partition, order: &[SortKey]) -> bool {
    let fields = &set.schema.fields;
    let schema_order = &part.schema.order;
    let long_enough = match part.origins {
        None => order.len() <= schema_order.len(),
        Some(_) => order.len() == schema_order.len(),
    };
    let same = |(sort_key, by): (&SortKey, &OrderBy)| {
        fields[sort_key.field].name == by.field && sort_key.descending == by.descending
    };
    long_enough && order.iter().zip(schema_order).all(same)
}
