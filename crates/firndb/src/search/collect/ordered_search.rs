//! Finds the first matches of an order over all partitions.
//!
//! Partitions are visited best first, by the smallest (or, descending, the largest) key of the
//! first sort field. The worst match in the heap bounds what a partition still has to examine
//! (`topk.rs`). Partitions whose keys are all worse than that are skipped.

use crate::Result;
use crate::search::collect::rank::Ranks;
use crate::search::collect::request::{DocAddress, PageRequest};
use crate::search::collect::topk::search_partition;
use crate::search::collect::topk_heap::TopKHeap;
use crate::search::exec::context::AHEAD;
use crate::search::exec::executor::Executor;
use crate::search::exec::sink::CountSink;
use crate::search::model::value::Key;

/// The first `k` matches in order, and the number of all matches if the request asks for it.
pub(crate) fn first_matches(
    executor: &mut Executor,
    request: &PageRequest,
) -> Result<(Vec<DocAddress>, u64)> {
    let set = executor.query.set;
    if let [part] = set.partitions.as_slice() {
        if executor.query.pruned(0) {
            executor.work.stats.pruned += 1;
            return Ok((Vec::new(), 0));
        }
        let ranks = Ranks::new(set, 0, part, request.order)?;
        let found = search_partition(
            executor,
            request,
            0,
            &ranks,
            &TopKHeap::new(request.k, request.order),
        )?;
        return Ok((
            found.docs.into_iter().map(|doc| (0, part.origin(doc))).collect(),
            found.count,
        ));
    }
    let zones = set.statistics.zones(set, request.order[0].field)?;
    let visit_order = zones.best_first(request.order[0].descending);
    let collectors = executor.share(visit_order.len(), |executor, positions| {
        let mut collector = Collector::new(executor, request);
        for i in positions {
            if let Some(&next) = visit_order.get(i + AHEAD) {
                executor.query.prefetch(next as usize);
            }
            let p = visit_order[i] as usize;
            collector.visit_partition(executor, p, zones.bounds(p))?;
        }
        Ok(collector)
    })?;
    let merged = collectors.into_iter().reduce(Collector::merge);
    Ok(merged.map_or((Vec::new(), 0), |all| (all.heap.into_addresses(), all.count)))
}

/// The matches that one thread found in its partitions.
struct Collector<'q> {
    request: &'q PageRequest<'q>,
    heap: TopKHeap<'q>,
    count: u64,
    /// The filter is rare: most partitions have no match. Then small partitions collect their
    /// matches before anything of the order is opened.
    is_rare: bool,
    matches: Vec<u32>,
}

impl<'q> Collector<'q> {
    fn new(executor: &Executor, request: &'q PageRequest<'q>) -> Collector<'q> {
        let is_rare = request.after.is_none() && executor.query.is_rare();
        let heap = TopKHeap::new(request.k, request.order);
        Collector { request, heap, count: 0, is_rare, matches: Vec::new() }
    }

    /// Collects the matches of partition `p`. `bounds` are its smallest and largest keys in the
    /// first sort field.
    fn visit_partition(
        &mut self,
        executor: &mut Executor,
        p: usize,
        bounds: Option<&(Key, Key)>,
    ) -> Result<()> {
        if executor.query.pruned(p) {
            executor.work.stats.pruned += 1;
            return Ok(());
        }
        let (set, request) = (executor.query.set, self.request);
        if self.heap.excludes(bounds, request.order[0].descending) {
            if request.count {
                let mut counter = CountSink::default();
                let _ = executor.run(p, Vec::new(), &mut counter)?;
                self.count += counter.0;
            } else {
                executor.work.stats.pruned += 1;
            }
            return Ok(());
        }
        let part = &*set.partitions[p];
        if self.is_rare && part.is_small() {
            // Open the columns of the order only if there are matches.
            executor.matches_small(p, &mut self.matches)?;
            self.count += self.matches.len() as u64;
            if !self.matches.is_empty() {
                let ranks = Ranks::new(set, p, part, request.order)?;
                for &doc in &self.matches {
                    self.heap.offer(&ranks, part, (p as u32, doc))?;
                }
            }
            return Ok(());
        }
        let ranks = Ranks::new(set, p, part, request.order)?;
        let found = search_partition(executor, request, p, &ranks, &self.heap)?;
        self.count += found.count;
        for doc in found.docs {
            if !self.heap.offer(&ranks, part, (p as u32, doc))? {
                break;
            }
        }
        Ok(())
    }

    /// Merges the matches of two threads.
    fn merge(mut self, other: Collector<'q>) -> Collector<'q> {
        self.heap.merge(other.heap);
        self.count += other.count;
        self
    }
}
