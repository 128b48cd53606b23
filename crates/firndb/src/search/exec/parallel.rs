//! Runs a query on several threads. Each has its own executor and takes the next partition until
//! none is left.
//!
//! The results of the threads are merged by rules that do not depend on which thread found what, so
//! the answer is the same for any number of threads. Short queries run on the calling thread alone
//! (`Executor::threads`).

use crate::Result;
use crate::search::exec::executor::Executor;
use crate::search::exec::workspace::Stats;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};

/// Expected nanoseconds of work below which a query stays on one thread: starting another takes
/// tens of microseconds.
const MIN_PARALLEL_NANOS: u64 = 200_000;
/// Nanoseconds per partition, roughly.
const PARTITION_NANOS: u64 = 1000;
/// Nanoseconds per document of the rarest condition, roughly.
const DOCUMENT_NANOS: u64 = 2;

impl<'r> Executor<'r> {
    /// Calls `work` once with the numbers below `visits`, or on several threads at the same time,
    /// each with some of the numbers in ascending order. Returns the results of all calls.
    pub(crate) fn share<T: Send>(
        &mut self,
        visits: usize,
        work: impl Fn(&mut Executor<'r>, &mut dyn Iterator<Item = usize>) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let threads = self.threads(visits);
        if threads == 1 {
            return Ok(vec![work(self, &mut (0..visits))?]);
        }
        let next = AtomicUsize::new(0);
        let numbers = || {
            std::iter::from_fn(|| {
                Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&i| i < visits)
            })
        };
        let (set, plan, limits) = (self.query.set, self.query.plan, self.query.limits);
        let other = || -> Result<(T, Stats)> {
            let mut executor = Executor::new(set, plan, limits, Box::default())?;
            let found = work(&mut executor, &mut numbers())?;
            Ok((found, executor.work.stats))
        };
        thread::scope(|scope| {
            // If the system cannot start more threads, those that run do all the work.
            let others: Vec<_> = (1..threads).map_while(|_| start(scope, other)).collect();
            if !others.is_empty() {
                self.work.stats.threads = others.len() as u64 + 1;
            }
            let mut found = vec![work(self, &mut numbers())];
            for thread in others {
                let result = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                found.push(result.map(|(value, stats)| {
                    self.work.stats.add(&stats);
                    value
                }));
            }
            found.into_iter().collect()
        })
    }

    /// The number of threads for a visit of `visits` partitions.
    fn threads(&self, visits: usize) -> usize {
        let most = self.query.limits.threads.min(visits).max(1);
        #[cfg(test)]
        if crate::search::testing::FORCED.get().threads {
            return most;
        }
        let documents = self.query.rarest().unwrap_or(u64::MAX).min(self.query.set.documents);
        let work = (visits as u64 * PARTITION_NANOS)
            .saturating_add(documents.saturating_mul(DOCUMENT_NANOS));
        if work < MIN_PARALLEL_NANOS { 1 } else { most }
    }
}

/// Starts a thread; `None` if the system cannot.
fn start<'s, T: Send + 's>(
    scope: &'s Scope<'s, '_>,
    work: impl FnOnce() -> T + Send + 's,
) -> Option<ScopedJoinHandle<'s, T>> {
    #[cfg(test)]
    if crate::search::testing::FORCED.get().alone {
        return None;
    }
    thread::Builder::new().spawn_scoped(scope, work).ok()
}

#[cfg(test)]
mod tests {
    use crate::search::model::query::all;
    use crate::search::testing::{FORCED, Forced, reader_of};
    use crate::search::{Document, Field, PartitionBuilder, Roles, Schema, Type};

    #[test]
    fn a_query_runs_on_one_thread_if_no_other_can_be_started() {
        let partition = |_| {
            let schema = Schema::new([Field::new("n", Type::U64, Roles::FULL)]).unwrap();
            let mut builder = PartitionBuilder::new(schema);
            builder.add(&Document::new().set("n", 1u64)).unwrap();
            builder
        };
        let reader = reader_of((0..3).map(partition)).with_threads(3);
        for (alone, threads) in [(false, 3), (true, 0)] {
            FORCED.set(Forced { threads: true, alone, ..Forced::default() });
            let result = reader.execute(&all(), &[], |executor| {
                executor.share(50, |_, numbers| Ok(numbers.count()))
            });
            FORCED.set(Forced::default());
            let (counts, stats) = result.unwrap();
            assert_eq!((counts.iter().sum::<usize>(), stats.threads), (50, threads));
        }
    }
}
