//! A query on several threads: each takes the next of the partitions to visit, with an executor of
//! its own, until none is left.
//!
//! What they find is joined by rules that do not ask who found it, so answers are the same for any
//! number of threads. A query that one thread answers in the time that two need to meet stays on
//! one: the rule is that of `Executor::threads`.

use crate::Result;
use crate::search::exec::executor::Executor;
use crate::search::exec::workspace::Stats;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Scope, ScopedJoinHandle};

/// Nanoseconds of expected work from which on more threads help: to start one takes tens of
/// microseconds.
const WORTH: u64 = 200_000;
/// Nanoseconds that a partition costs, about, and a document in it that the rarest condition has.
const PARTITION: u64 = 1000;
const DOCUMENT: u64 = 2;

impl<'r> Executor<'r> {
    /// Calls `work` with the numbers below `visits`: once, or in several threads at the same time,
    /// each with some of them in ascending order. All that the calls return.
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
        let turns = || {
            std::iter::from_fn(|| {
                Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&i| i < visits)
            })
        };
        let (set, plan, limits) = (self.query.set, self.query.plan, self.query.limits);
        let other = || -> Result<(T, Stats)> {
            let mut executor = Executor::new(set, plan, limits, Box::default())?;
            let found = work(&mut executor, &mut turns())?;
            Ok((found, executor.work.stats))
        };
        thread::scope(|scope| {
            // The threads that there are do it, if the system has no more to give.
            let others: Vec<_> = (1..threads).map_while(|_| start(scope, other)).collect();
            if !others.is_empty() {
                self.work.stats.threads = others.len() as u64 + 1;
            }
            let mut found = vec![work(self, &mut turns())];
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

    /// How many threads are to visit so many partitions.
    fn threads(&self, visits: usize) -> usize {
        let most = self.query.limits.threads.min(visits).max(1);
        #[cfg(test)]
        if crate::search::testing::FORCED.get().threads {
            return most;
        }
        let documents = self.query.rarest().unwrap_or(u64::MAX).min(self.query.set.documents);
        let work = (visits as u64 * PARTITION).saturating_add(documents.saturating_mul(DOCUMENT));
        if work < WORTH { 1 } else { most }
    }
}

/// Starts a thread; `None` if the system has none to give.
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
    fn a_query_goes_on_alone_if_no_thread_can_be_made() {
        let partition = |_| {
            let schema = Schema::new([Field::new("n", Type::U64, Roles::FULL)]).unwrap();
            let mut builder = PartitionBuilder::new(schema);
            builder.add(&Document::new().set("n", 1u64)).unwrap();
            builder
        };
        let reader = reader_of((0..3).map(partition)).with_threads(3);
        for (alone, threads) in [(false, 3), (true, 0)] {
            FORCED.set(Forced { threads: true, alone, ..Forced::default() });
            let result = reader
                .execute(&all(), &[], |executor| executor.share(50, |_, turns| Ok(turns.count())));
            FORCED.set(Forced::default());
            let (counts, stats) = result.unwrap();
            assert_eq!((counts.iter().sum::<usize>(), stats.threads), (50, threads));
        }
    }
}
