//! Finds the first matches in document order: by partition, then by document number.
//!
//! If the documents of a partition are stored in this order, the search stops with the match that
//! fills the page. A bundle may have reordered documents (`Partition::origins`): there, every match
//! has to be examined to find the first ones. If matches are frequent, a few original partitions
//! fill the page sooner, so the reader tries these first ([`FEW_PARTITIONS`]).

use crate::Result;
use crate::search::collect::count::count_partition;
use crate::search::collect::request::{DocAddress, PageRequest};
use crate::search::exec::clause::Clause;
use crate::search::exec::executor::Executor;
use crate::search::exec::sink::Sink;
use crate::search::exec::source::Form;
use crate::search::model::query::PageToken;
use crate::search::partition::Partition;
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// How many original partitions the reader tries before it queries bundles with reordered
/// documents.
pub(crate) const FEW_PARTITIONS: usize = 16;

/// The first `request.k` matches and, if requested, the number of all matches. `None` if
/// `max_partitions` partitions do not fill the page.
pub(crate) fn first_matches(
    executor: &mut Executor,
    request: &PageRequest,
    max_partitions: usize,
) -> Result<Option<(Vec<DocAddress>, u64)>> {
    let (mut addresses, mut total, mut visited) = (Vec::new(), 0, 0);
    let (set, k) = (executor.query.set, request.k);
    for p in 0..set.partitions.len() {
        if executor.query.pruned(p) {
            executor.work.stats.pruned += 1;
            continue;
        }
        let first = first_doc_after(&set.names[p], request.after);
        let part = &*set.partitions[p];
        if addresses.len() < k && first < u32::MAX {
            if visited == max_partitions {
                return Ok(None);
            }
            visited += 1;
            let mut sink = FirstSink::new(part, k - addresses.len(), first);
            // If documents are in this order, those before the page token need not be examined.
            let after_token = (first > 0 && part.origins.is_none()).then(|| {
                let form = Form::Documents(first.min(part.documents), part.documents);
                Clause::new(form, false, part.documents.saturating_sub(first).into())
            });
            let _ = executor.run(p, Vec::from_iter(after_token), &mut sink)?;
            let seen = sink.seen;
            addresses.extend(sink.finish().into_iter().map(|number| (p as u32, number)));
            if let (true, Some(seen)) = (request.count, seen) {
                total += seen;
                continue;
            }
        }
        if request.count {
            total += count_partition(executor, p)?;
        } else if addresses.len() >= k {
            break;
        }
    }
    Ok(Some((addresses, total)))
}

/// The first document of a partition that comes after the page token; `u32::MAX` if none does.
fn first_doc_after(name: &str, after: Option<&PageToken>) -> u32 {
    let Some(token) = after else { return 0 };
    match name.cmp(&token.partition) {
        Ordering::Less => u32::MAX,
        Ordering::Equal => token.doc.saturating_add(1),
        Ordering::Greater => 0,
    }
}

/// Collects the first `k` matches with document numbers of at least `first`.
struct FirstSink<'p> {
    part: &'p Partition,
    k: usize,
    first: u32,
    numbers: Vec<u32>,
    /// The number of matches received if documents are reordered; then the sink receives all of
    /// them.
    seen: Option<u64>,
    /// Matches with this or a larger number cannot be among the first `k`.
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
    fn documents_before_the_page_token_are_not_examined() {
        let fields = [Field::new("a", Type::U64, Roles::FILTERABLE)];
        let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap());
        (0..50_000u64).for_each(|n| builder.add(&Document::new().set("a", n / 10)).unwrap());
        let reader = reader_of([builder]);
        let plan = Plan::new(&Filter::All, reader.schema()).unwrap();
        for (doc, expected) in [(40_000, 3), (49_998, 1), (49_999, 0), (u32::MAX, 0)] {
            let token = PageToken { keys: Vec::new(), partition: "0".into(), doc };
            let request = PageRequest { order: &[], k: 3, after: Some(&token), count: false };
            let (addresses, stats) =
                reader.search_few_partitions(&plan, &request).unwrap().unwrap();
            let docs: Vec<u32> = addresses.iter().map(|address| address.1).collect();
            assert_eq!(docs, (doc.saturating_add(1)..).take(expected).collect::<Vec<u32>>());
            assert!(stats.docs <= 1000, "{} documents were examined after {doc}", stats.docs);
        }
    }
}
