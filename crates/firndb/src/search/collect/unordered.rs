//! Finds the first matches in the order of partitions and documents.
//!
//! Where documents stand in this order, the search ends with the match that fills the page. In a
//! bundle whose documents moved (`Partition::origins`) all matches have to be seen for the first
//! ones; if there are many of them, a few partitions without bundles fill the page sooner, so these
//! are looked at first ([`TRIED`]).

use crate::Result;
use crate::search::collect::count::count_partition;
use crate::search::collect::request::{DocAddress, PageRequest};
use crate::search::exec::clause::Clause;
use crate::search::exec::executor::Executor;
use crate::search::exec::sink::Sink;
use crate::search::exec::source::Form;
use crate::search::model::query::Cursor;
use crate::search::partition::Partition;
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// Partitions that are looked at before bundles whose documents moved.
pub(crate) const TRIED: usize = 16;

/// The first `wanted.k` matches and, if asked for, the count of all; `None` if that takes more than
/// `most` partitions.
pub(crate) fn places(
    executor: &mut Executor,
    wanted: &PageRequest,
    most: usize,
) -> Result<Option<(Vec<DocAddress>, u64)>> {
    let (mut places, mut total, mut looked) = (Vec::new(), 0, 0);
    let (set, k) = (executor.query.set, wanted.k);
    for p in 0..set.partitions.len() {
        if executor.query.pruned(p) {
            executor.work.stats.pruned += 1;
            continue;
        }
        let first = first_of(&set.names[p], wanted.after);
        let part = &*set.partitions[p];
        if places.len() < k && first < u32::MAX {
            if looked == most {
                return Ok(None);
            }
            looked += 1;
            let mut sink = FirstSink::new(part, k - places.len(), first);
            // Of documents that stand in this order those before the cursor need no look.
            let rest = (first > 0 && part.origins.is_none()).then(|| {
                let form = Form::Documents(first.min(part.documents), part.documents);
                Clause::new(form, false, part.documents.saturating_sub(first).into())
            });
            let _ = executor.run(p, Vec::from_iter(rest), &mut sink)?;
            let seen = sink.seen;
            places.extend(sink.finish().into_iter().map(|number| (p as u32, number)));
            if let (true, Some(seen)) = (wanted.count, seen) {
                total += seen;
                continue;
            }
        }
        if wanted.count {
            total += count_partition(executor, p)?;
        } else if places.len() >= k {
            break;
        }
    }
    Ok(Some((places, total)))
}

/// The first document of a partition that comes after a cursor.
fn first_of(name: &str, after: Option<&Cursor>) -> u32 {
    let Some(cursor) = after else { return 0 };
    match name.cmp(&cursor.partition) {
        Ordering::Less => u32::MAX,
        Ordering::Equal => cursor.doc.saturating_add(1),
        Ordering::Greater => 0,
    }
}

/// Takes the first matches from number `first` on until there are `k`.
struct FirstSink<'p> {
    part: &'p Partition,
    k: usize,
    first: u32,
    numbers: Vec<u32>,
    /// All matches that came, if documents moved: then all of them do.
    seen: Option<u64>,
    /// No number from here on is good enough.
    end: u32,
}

impl<'p> FirstSink<'p> {
    fn new(part: &'p Partition, k: usize, first: u32) -> FirstSink<'p> {
        let seen = part.origins.as_ref().map(|_| 0);
        FirstSink { part, k, first, numbers: Vec::new(), seen, end: u32::MAX }
    }

    /// The numbers of the first matches, ascending.
    fn finish(mut self) -> Vec<u32> {
        if self.seen.is_some() {
            self.numbers.sort_unstable();
            self.numbers.truncate(self.k);
        }
        self.numbers
    }
}

impl Sink for FirstSink<'_> {
    fn ascending(&self) -> bool {
        true
    }

    fn wanted(&self) -> u64 {
        if self.seen.is_some() { u64::MAX } else { (self.k - self.numbers.len()) as u64 }
    }

    fn docs(&mut self, docs: &[u32]) -> Result<ControlFlow<()>> {
        let Some(seen) = &mut self.seen else {
            for &doc in docs.iter().filter(|&&doc| doc >= self.first) {
                self.numbers.push(doc);
                if self.numbers.len() >= self.k {
                    return Ok(ControlFlow::Break(()));
                }
            }
            return Ok(ControlFlow::Continue(()));
        };
        *seen += docs.len() as u64;
        let numbers = docs.iter().map(|&doc| self.part.origin(doc));
        self.numbers.extend(numbers.filter(|number| (self.first..self.end).contains(number)));
        if self.numbers.len() >= 2 * self.k + 1024 {
            self.numbers.select_nth_unstable(self.k);
            self.numbers.truncate(self.k + 1);
            self.end = self.numbers[self.k];
            self.numbers.truncate(self.k);
        }
        Ok(ControlFlow::Continue(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::model::query::Filter;
    use crate::search::plan::Plan;
    use crate::search::testing::reader_of;
    use crate::search::{Document, Field, PartitionBuilder, Roles, Schema, Type};

    #[test]
    fn what_comes_before_a_cursor_is_not_looked_at() {
        let fields = [Field::new("a", Type::U64, Roles::FILTERABLE)];
        let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap());
        (0..50_000u64).for_each(|n| builder.add(&Document::new().set("a", n / 10)).unwrap());
        let reader = reader_of([builder]);
        let plan = Plan::new(&Filter::All, reader.schema()).unwrap();
        for (doc, expected) in [(40_000, 3), (49_998, 1), (49_999, 0), (u32::MAX, 0)] {
            let cursor = Cursor { keys: Vec::new(), partition: "0".into(), doc };
            let wanted = PageRequest { order: &[], k: 3, after: Some(&cursor), count: false };
            let (places, stats) = reader.tried(&plan, &wanted).unwrap().unwrap();
            let docs: Vec<u32> = places.iter().map(|place| place.1).collect();
            assert_eq!(docs, (doc.saturating_add(1)..).take(expected).collect::<Vec<u32>>());
            assert!(stats.docs <= 1000, "{} documents were looked at after {doc}", stats.docs);
        }
    }
}
