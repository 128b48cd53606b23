//! Counts the matches of a filter.

use crate::Result;
use crate::search::exec::context::AHEAD;
use crate::search::exec::executor::Executor;
use crate::search::exec::sink::CountSink;

/// Counts the matches in all partitions.
pub(crate) fn count_all(executor: &mut Executor) -> Result<u64> {
    let counts = executor.share(executor.query.set.partitions.len(), |executor, partitions| {
        let mut total = 0;
        for p in partitions {
            executor.query.prefetch(p + AHEAD);
            if executor.query.pruned(p) {
                executor.work.stats.pruned += 1;
            } else {
                total += count_partition(executor, p)?;
            }
        }
        Ok(total)
    })?;
    Ok(counts.into_iter().sum())
}

/// Counts the matches in partition `p`. Large partitions answer from stored counts if they can.
pub(crate) fn count_partition(executor: &mut Executor, p: usize) -> Result<u64> {
    let part = &*executor.query.set.partitions[p];
    if part.is_small() {
        let mut counter = CountSink::default();
        let _ = executor.run(p, Vec::new(), &mut counter)?;
        return Ok(counter.0);
    }
    if executor.prepare(p, Vec::new())?.is_none() {
        return Ok(0);
    }
    if let Some(count) = executor.work.exact_count(part) {
        executor.work.stats.by_count += 1;
        executor.reset();
        return Ok(count);
    }
    let mut counter = CountSink::default();
    let done = executor.work.conjunction(part, 0, &mut counter);
    executor.reset();
    done.map(|_| counter.0)
}
