//! Finds the first matches of an order over partitions.
//!
//! Those whose best key comes first go first; the worst match kept so far bounds what a partition
//! still has to look at (`topk.rs`), and ends the search when no partition can do better.

use crate::Result;
use crate::search::collect::rank::Ranks;
use crate::search::collect::request::{DocAddress, PageRequest};
use crate::search::collect::topk::search;
use crate::search::collect::topk_heap::TopKHeap;
use crate::search::exec::context::AHEAD;
use crate::search::exec::executor::Executor;
use crate::search::exec::sink::CountSink;
use crate::search::model::value::Key;

/// The first `k` matches in order, and the number of all matches if it was asked for.
pub(crate) fn ordered(
    executor: &mut Executor,
    wanted: &PageRequest,
) -> Result<(Vec<DocAddress>, u64)> {
    let set = executor.query.set;
    if let [part] = set.partitions.as_slice() {
        if executor.query.pruned(0) {
            executor.work.stats.pruned += 1;
            return Ok((Vec::new(), 0));
        }
        let ranks = Ranks::new(set, 0, part, wanted.order)?;
        let found = search(executor, wanted, 0, &ranks, &TopKHeap::new(wanted.k, wanted.order))?;
        return Ok((
            found.docs.into_iter().map(|doc| (0, part.origin(doc))).collect(),
            found.count,
        ));
    }
    let zones = set.statistics.zones(set, wanted.order[0].field)?;
    let visits = zones.best_first(wanted.order[0].descending);
    let visited = executor.share(visits.len(), |executor, turns| {
        let mut visit = Visit::new(executor, wanted);
        for i in turns {
            if let Some(&next) = visits.get(i + AHEAD) {
                executor.query.prefetch(next as usize);
            }
            let p = visits[i] as usize;
            visit.partition(executor, p, zones.bounds(p))?;
        }
        Ok(visit)
    })?;
    let joined = visited.into_iter().reduce(Visit::join);
    Ok(joined.map_or((Vec::new(), 0), |all| (all.best.into_places(), all.count)))
}

/// What one thread found in its partitions.
struct Visit<'q> {
    wanted: &'q PageRequest<'q>,
    best: TopKHeap<'q>,
    count: u64,
    /// Most partitions have no match.
    few: bool,
    matches: Vec<u32>,
}

impl<'q> Visit<'q> {
    fn new(executor: &Executor, wanted: &'q PageRequest<'q>) -> Visit<'q> {
        let few = wanted.after.is_none() && executor.query.is_rare();
        let best = TopKHeap::new(wanted.k, wanted.order);
        Visit { wanted, best, count: 0, few, matches: Vec::new() }
    }

    /// Takes what partition `p`, whose smallest and largest keys are `bounds`, has to offer.
    fn partition(
        &mut self,
        executor: &mut Executor,
        p: usize,
        bounds: Option<&(Key, Key)>,
    ) -> Result<()> {
        if executor.query.pruned(p) {
            executor.work.stats.pruned += 1;
            return Ok(());
        }
        let (set, wanted) = (executor.query.set, self.wanted);
        if self.best.beats(bounds, wanted.order[0].descending) {
            if wanted.count {
                let mut counter = CountSink::default();
                let _ = executor.run(p, Vec::new(), &mut counter)?;
                self.count += counter.0;
            } else {
                executor.work.stats.pruned += 1;
            }
            return Ok(());
        }
        let part = &*set.partitions[p];
        if self.few && part.is_small() {
            // Look at the order only where there are matches.
            executor.matches_small(p, &mut self.matches)?;
            self.count += self.matches.len() as u64;
            if !self.matches.is_empty() {
                let ranks = Ranks::new(set, p, part, wanted.order)?;
                for &doc in &self.matches {
                    self.best.offer(&ranks, part, (p as u32, doc))?;
                }
            }
            return Ok(());
        }
        let ranks = Ranks::new(set, p, part, wanted.order)?;
        let found = search(executor, wanted, p, &ranks, &self.best)?;
        self.count += found.count;
        for doc in found.docs {
            if !self.best.offer(&ranks, part, (p as u32, doc))? {
                break;
            }
        }
        Ok(())
    }

    /// What two threads found.
    fn join(mut self, other: Visit<'q>) -> Visit<'q> {
        self.best.join(other.best);
        self.count += other.count;
        self
    }
}
