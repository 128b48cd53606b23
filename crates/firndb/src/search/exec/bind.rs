//! Binds the conditions of a plan to one partition: keys become ordinals with exact counts.

use crate::Result;
use crate::search::exec::clause::Clause;
use crate::search::exec::context::QueryContext;
use crate::search::exec::scratch::FEW;
use crate::search::exec::sink::BitsetSink;
use crate::search::exec::source::Form;
use crate::search::exec::windows;
use crate::search::exec::workspace::Workspace;
use crate::search::plan::push_interval;
use crate::search::plan::{Node, Test};
use crate::search::simd::kernels;

/// A condition in one partition.
enum Bound<'p> {
    All,
    Nothing,
    Clause(Clause<'p>),
}

/// Binds conditions of a query to one partition after another.
pub(crate) struct Binder<'a, 'r> {
    pub(crate) query: &'a QueryContext<'r>,
    pub(crate) work: &'a mut Workspace<'r>,
}

impl<'r> Binder<'_, 'r> {
    /// Appends the clauses of a node to `work.clauses`; `None` if no document satisfies the node.
    pub(crate) fn conditions(&mut self, p: usize, node: &Node) -> Result<Option<()>> {
        let parts = match node {
            Node::And(parts) => parts.as_slice(),
            other => std::slice::from_ref(other),
        };
        let base = self.work.clauses.len();
        for part in parts {
            self.query.limits.check()?;
            match self.bind(p, part)? {
                Bound::All => {}
                Bound::Nothing => return Ok(None),
                Bound::Clause(clause) => self.push_clause(clause, base),
            }
        }
        let set = self.query.set;
        self.work.join_points(&set.partitions[p], base)
    }

    /// Appends a clause to those from `base` on. Beyond [`FEW`] clauses, bitsets are combined.
    fn push_clause(&mut self, clause: Clause<'r>, base: usize) {
        if let Form::Bits(number) = clause.form
            && self.work.scratch.is_last(number)
            && self.work.clauses.len() >= base + FEW
        {
            for other in self.work.clauses[base..].iter_mut().rev() {
                if let Form::Bits(into) = other.form {
                    let last = (number, clause.negate);
                    other.negate = self.work.scratch.fold((into, other.negate), last);
                    other.count = kernels::count(self.work.scratch.bits(into));
                    other.least = other.count;
                    return;
                }
            }
        }
        self.work.clauses.push(clause);
    }

    fn bind(&mut self, p: usize, node: &Node) -> Result<Bound<'r>> {
        let set = self.query.set;
        let part = &*set.partitions[p];
        match node {
            Node::All => Ok(Bound::All),
            Node::Nothing => Ok(Bound::Nothing),
            Node::Leaf(leaf, negate) => self.bind_leaf(p, *leaf, *negate),
            Node::And(_) | Node::Or(_) => {
                let bits = self.work.scratch.take_bits(part.words());
                self.tree(p, node, bits)?;
                let count = kernels::count(self.work.scratch.bits(bits));
                Ok(match count {
                    0 => Bound::Nothing,
                    _ if count == u64::from(part.documents) => Bound::All,
                    _ => Bound::Clause(Clause::new(Form::Bits(bits), false, count)),
                })
            }
        }
    }

    fn bind_leaf(&mut self, p: usize, leaf: usize, negate: bool) -> Result<Bound<'r>> {
        let (set, plan) = (self.query.set, self.query.plan);
        let (part, condition) = (&*set.partitions[p], &plan.leaves[leaf]);
        let (none, all) = match negate {
            false => (Bound::Nothing, Bound::All),
            true => (Bound::All, Bound::Nothing),
        };
        let Some(field) = set.local(p, condition.field) else { return Ok(none) };
        if let Some((pair, window)) = windows::window_of(part, field, &condition.test) {
            // `join_points` counts it, after combining it with a range of the other field.
            let form = Form::Window { pair, window };
            return Ok(match windows::is_empty(window) {
                true => none,
                false => Bound::Clause(Clause::new(form, negate, 0)),
            });
        }
        let first = self.work.scratch.intervals.len();
        self.push_intervals(p, leaf, field)?;
        let (meta, offsets) = (part.meta(field), part.offsets(field)?);
        let last = self.work.scratch.intervals.len();
        let multi = set.schema.fields[condition.field].multi;
        let mut count = 0;
        for &(start, end) in &self.work.scratch.intervals[first..last] {
            let postings = offsets.get(end as usize).wrapping_sub(offsets.get(start as usize));
            count = meta.postings.min(postings.saturating_add(count));
        }
        if count == 0 {
            return Ok(none);
        }
        let exact = !multi || matches!(condition.test, Test::Exists);
        let count = if exact { count.min(u64::from(meta.present)) } else { count };
        if exact && count == u64::from(part.documents) {
            return Ok(all);
        }
        let mut form = Form::Ordinals { field, first, last, multi };
        if last == first + 1 {
            let (start, end) = self.work.scratch.intervals[first];
            if let Some((from, to)) = part.ordered_range(field, start, end)? {
                form = Form::Documents(from, to);
            }
        }
        let mut clause = Clause::new(form, negate, count);
        // Entries of documents that have another entry: at most those of the whole field.
        let repeated = meta.postings.saturating_sub(meta.present.into());
        if !self.work.is_exact(&clause) {
            clause.least = count.saturating_sub(repeated).max(1);
        }
        Ok(Bound::Clause(clause))
    }

    /// Appends the ordinals of a field that satisfy a leaf in partition `p` to `scratch.intervals`.
    pub(crate) fn push_intervals(&mut self, p: usize, leaf: usize, field: usize) -> Result<()> {
        let (set, plan) = (self.query.set, self.query.plan);
        let part = &*set.partitions[p];
        let intervals = &mut self.work.scratch.intervals;
        match (&self.query.known[leaf], &plan.leaves[leaf].test) {
            (Some(known), _) if known.ordinals(p).is_some() => known.push_intervals(p, intervals),
            (_, Test::Exists) => intervals.push((0, part.meta(field).distinct)),
            (_, Test::Range(range)) => {
                let (start, end) = part.dictionary(field)?.range(&range.low, &range.high);
                if start < end {
                    intervals.push((start, end));
                }
            }
            (_, Test::Points(keys)) => {
                let dictionary = part.dictionary(field)?;
                let first = intervals.len();
                for ord in keys.iter().filter_map(|key| dictionary.find(key)) {
                    push_interval(intervals, first, ord);
                }
            }
        }
        Ok(())
    }

    /// Adds the documents that satisfy a node to bitset number `out`.
    fn tree(&mut self, p: usize, node: &Node, out: usize) -> Result<()> {
        self.query.limits.check()?;
        let set = self.query.set;
        let part = &*set.partitions[p];
        if let Node::Or(nodes) = node {
            for node in nodes {
                self.tree(p, node, out)?;
            }
            return Ok(());
        }
        let base = self.work.clauses.len();
        let (intervals, bits) = (self.work.scratch.intervals.len(), self.work.scratch.bits_used);
        if self.conditions(p, node)?.is_some() {
            let mut sink = BitsetSink { bits: std::mem::take(self.work.scratch.bits_mut(out)) };
            let done = self.work.conjunction(part, base, &mut sink);
            *self.work.scratch.bits_mut(out) = sink.bits;
            let _ = done?;
        }
        // Releases the memory of this part: an `or` needs only as much as its largest part.
        self.work.clauses.truncate(base);
        self.work.scratch.intervals.truncate(intervals);
        self.work.scratch.bits_used = bits;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::search::exec::executor::Executor;
    use crate::search::exec::scratch::Scratch;
    use crate::search::model::query::{and, eq, gt, is_in, not, or};
    use crate::search::partition::set::QueryLimits;
    use crate::search::plan::Plan;
    use crate::search::testing::{FORCED, Forced, reader_of};
    use crate::search::{
        Document, Field, PageToken, PartitionBuilder, Query, Roles, Schema, Type, Value,
    };
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn the_parts_of_an_or_share_memory() {
        let fields = ["a", "b"].map(|name| Field::new(name, Type::U64, Roles::FILTERABLE).multi());
        let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap());
        for n in 0..5000u64 {
            builder.add(&Document::new().set("a", n % 1000).set("b", n % 1300)).unwrap();
        }
        let reader = reader_of([builder]);
        let part = |n: u64| and([eq("a", n), or([gt("b", n), and([eq("b", n), eq("b", n + 1)])])]);
        let filter = or((0..200u64).map(part));
        let plan = Plan::new(&filter, reader.schema()).unwrap();
        let scratch = Box::new(Scratch::default());
        let mut executor = Executor::new(&reader.set, &plan, &reader.limits, scratch).unwrap();
        assert!(executor.prepare(0, Vec::new()).unwrap().is_some());
        assert_eq!(
            (executor.work.scratch.bits_used, executor.work.scratch.intervals.len()),
            (1, 0)
        );
        let expected = (0..5000u64).filter(|n| n % 1000 < 200 && n % 1300 > n % 1000).count();
        assert_eq!(reader.count(&filter).unwrap(), expected as u64);
    }

    #[test]
    fn many_conditions_of_an_and_use_few_bitsets() {
        let field = |name, roles| Field::new(name, Type::U64, roles);
        let fields = [
            field("a", Roles::FILTERABLE).multi(),
            field("b", Roles::FILTERABLE).multi(),
            field("c", Roles::FULL),
        ];
        let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap());
        let rows = || (0..20_000u64).map(|n| (n % 100, n % 130, n % 7_000));
        for (a, b, c) in rows() {
            builder.add(&Document::new().set("a", a).set("b", b).set("c", c)).unwrap();
        }
        let reader = reader_of([builder]);
        let several = |n: u64| or([gt("b", n + 3), and([gt("a", n), gt("b", n)])]);
        let parts = (0..40).flat_map(|n| [not(eq("a", n)), several(n), gt("b", n / 9)]);
        let holds = |(a, b, c): (u64, u64, u64)| {
            let several = |n: u64| b > n + 3 || a > n && b > n;
            c != 5 && (0..40).all(|n| a != n && several(n) && b > n / 9)
        };
        let expected = rows().filter(|&row| holds(row)).count() as u64;
        assert!(expected > 1000, "{expected}");
        let filter = and(parts.chain([not(eq("c", 5))]));
        let plan = Plan::new(&filter, reader.schema()).unwrap();
        for list in [None, Some(true), Some(false)] {
            FORCED.set(Forced { list, ..Forced::default() });
            let scratch = Box::new(Scratch::default());
            let mut executor = Executor::new(&reader.set, &plan, &reader.limits, scratch).unwrap();
            let mut sink = BitsetSink { bits: vec![0; reader.set.partitions[0].words()] };
            let _ = executor.run(0, Vec::new(), &mut sink).unwrap();
            assert_eq!(kernels::count(&sink.bits), expected, "{list:?}");
            let made = executor.work.scratch.made();
            assert!(made <= 3 * FEW, "{list:?}: {made} bitsets");
            // A page of an ordered query walks through the order where that is cheaper.
            let order = crate::search::parse_order("c", None).unwrap();
            let query = Query { order, ..Query::new(filter.clone()) };
            assert_eq!(reader.search(&query).unwrap().hits.len() as u64, expected, "{list:?}");
        }
        FORCED.set(Forced::default());
    }

    #[test]
    fn a_not_counts_a_document_with_several_values_once() {
        let fields = [Field::new("a", Type::U64, Roles::FILTERABLE).multi()];
        let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap());
        for n in 0..6000u64 {
            let values = if n % 3 == 0 { vec![1, 2, 3] } else { vec![n % 3 + 3] };
            let document = values.into_iter().fold(Document::new(), |d, value| d.set("a", value));
            builder.add(&document).unwrap();
        }
        let reader = reader_of([builder]);
        for (filter, at_most) in [
            // The three lists have 6,000 entries, but of fewer than 6,000 documents.
            (not(is_in("a", [1u64, 2, 3])), 4000),
            (not(is_in("a", [1u64, 2])), 5999),
            (not(eq("a", 1u64)), 4000),
            (is_in("a", [1u64, 2]), 4000),
        ] {
            let explained = reader.explain(&Query::new(filter.clone())).unwrap().to_string();
            assert!(explained.contains(&format!(": at most {at_most} documents")), "{explained}");
            assert!(reader.count(&filter).unwrap() <= at_most, "{filter}");
        }
    }

    #[test]
    fn binding_stops_when_the_query_is_cancelled() {
        let fields = [Field::new("a", Type::U64, Roles::FILTERABLE)];
        let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap());
        (0..5000u64).for_each(|n| builder.add(&Document::new().set("a", n)).unwrap());
        let reader = reader_of([builder]);
        let filter = and((0..10).map(|n| gt("a", n)));
        let plan = Plan::new(&filter, reader.schema()).unwrap();
        let stopped =
            QueryLimits { cancel: Some(Arc::new(AtomicBool::new(true))), ..QueryLimits::default() };
        let scratch = Box::new(Scratch::default());
        let mut executor = Executor::new(&reader.set, &plan, &stopped, scratch).unwrap();
        let error = executor.prepare(0, Vec::new()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
    }

    /// A walk through an order combines bitsets of the clauses. If it is abandoned, the query
    /// evaluates the same clauses again.
    #[test]
    fn an_abandoned_walk_leaves_the_clauses_unchanged() {
        let single = |name: String| Field::new(name, Type::U64, Roles::FULL);
        let multi = |name| Field::new(name, Type::U64, Roles::FILTERABLE).multi();
        let fields = (0..6).map(|f| single(format!("d{f}"))).chain([single("s".to_string())]);
        let fields = fields.chain(["a", "b", "e"].map(multi));
        let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap());
        let n = 20_000u64;
        // The first three fifths of the order have no match, which the counts do not show.
        let rank = |i: u64| i * 6983 % n;
        for i in 0..n {
            let d = (0..6).fold(Document::new(), |doc, f| doc.set(format!("d{f}"), (i + f) % 500));
            let d = d.set("s", rank(i)).set("b", u64::from(rank(i) >= 12_000));
            builder.add(&d.set("a", i % 50).set("e", i % 100)).unwrap();
        }
        let reader = reader_of([builder]);
        let ranges = (0..6u64).map(|f| gt(format!("d{f}"), 0u64));
        let first = or([eq("b", 1u64), eq("a", 77u64)]);
        let none_of = |few: [u64; 2]| not(is_in("a", few));
        let last = [or([gt("e", 0u64), eq("b", 5u64)]), none_of([3, 5]), none_of([7, 9])];
        let filter = and([first].into_iter().chain(ranges).chain(last));
        let order = crate::search::parse_order("s", None).unwrap();
        // The page token adds a clause before all others.
        let token = PageToken { keys: vec![Some(Value::U64(500))], partition: "0".into(), doc: 0 };
        let mut query = Query { order, limit: Some(10), ..Query::new(filter) };
        let holds = |&i: &u64| {
            let ranges = (0..6).all(|f| (i + f) % 500 > 0);
            ranges && rank(i) >= 12_000 && i % 100 > 0 && ![3, 5, 7, 9].contains(&(i % 50))
        };
        let mut expected: Vec<u64> = (0..n).filter(holds).collect();
        expected.sort_by_key(|&i| rank(i));
        for after in [None, Some(token)] {
            query.after = after;
            let hits = reader.search(&query).unwrap().hits;
            let found: Vec<u64> = hits.iter().map(|hit| u64::from(hit.doc)).collect();
            assert_eq!(found, expected[..10], "{query}");
            let explained = reader.explain(&query).unwrap().to_string();
            assert!(explained.contains("walked the first key"), "{explained}");
            assert!(explained.contains("combined bitsets in 3"), "not abandoned: {explained}");
        }
    }
}
