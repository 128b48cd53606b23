//! Bundles: runs of consecutive small partitions of a reader's set, merged in memory.
//!
//! A query has fixed costs in each partition: look-ups in dictionaries, a dozen lines of memory
//! that are in no cache. In a thousand partitions of a thousand documents they are all of its time.
//! A bundle is a partition in memory that holds the index structures of hundreds of them, written
//! by the writer of merged partitions and read by the same code as a file; payloads, and values
//! that are read back, stay where they are. Its documents stand in the schema's order, if there is
//! one and the fields of it are used, and else in that of partitions and documents; ties fall by
//! partition and document either way (`Partition::origins`), so that answers are those of the
//! partitions.
//!
//! Nothing is made when a set is opened. Queries in many small partitions pay a miss_credit, and
//! once they have credit about half of what merging the fields they need costs, it is done: whoever
//! asks once never waits for it, and whoever asks often waits no more than a few times the time
//! that could not be avoided. When a partition is replaced the other bundles are carried over; its
//! own is made again when queries have credit for it, from the bundle that was there and what is
//! new.

use crate::Result;
use crate::search::cache::bundle_view::miss_credit;
use crate::search::cache::bundle_view::{Bundle, BundleView, order_within};
use crate::search::partition::Partition;
use crate::search::partition::set::QueryLimits;
use crate::search::stats::SearchSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// Documents of the largest partition that is bundled.
const MOST: u32 = 1 << 15;
/// Documents of a bundle, about.
const SIZE: u64 = 1 << 18;

/// Tolls that buy a document for a bundle, for each field, nanoseconds. It takes about 75: whoever
/// has credit half of that will go on asking.
const COST: u64 = 40;
/// The same if most are copied from a bundle of the set before. It takes about 35.
const COST_AGAIN: u64 = 10;
/// Memory that the bundles of a set may take unless somebody says otherwise, bytes.
const LIMIT: u64 = 256 << 20;

/// What is known of the bundles of a set.
pub(crate) struct Bundles {
    /// The partitions that can become bundles.
    cuts: Vec<Range<usize>>,
    view: RwLock<Option<Arc<BundleView>>>,
    /// Tolls that bought nothing yet.
    credit: AtomicU64,
    work: Mutex<Work>,
    limit: AtomicU64,
}

/// Bundles on their way into the next view.
#[derive(Default)]
struct Work {
    /// For each field whether the next bundles are to have it.
    wanted: Vec<bool>,
    /// For each cut; with some of the fields or with all.
    made: Vec<Option<Arc<Bundle>>>,
    /// For each cut that has no bundle the one of the set before, which has most of its partitions.
    before: Vec<Option<Arc<Bundle>>>,
    /// Nothing more can be made: memory is at its limit, or a partition is damaged.
    stuck: bool,
}

impl Bundles {
    /// None yet, for these partitions.
    pub(crate) fn new(partitions: &[Arc<Partition>]) -> Bundles {
        Self::cut(partitions, &[])
    }

    /// Cuts runs of small partitions into equal shares. `kept` are ranges that are cuts already.
    fn cut(partitions: &[Arc<Partition>], kept: &[Range<usize>]) -> Bundles {
        let mut cuts = Vec::new();
        let mut start = 0;
        let mut next = kept.iter().peekable();
        let mut p = 0;
        while p < partitions.len() {
            if let Some(range) = next.next_if(|range| range.start == p) {
                cut_run(partitions, start..p, &mut cuts);
                cuts.push(range.clone());
                p = range.end;
                start = p;
            } else if partitions[p].documents > MOST {
                cut_run(partitions, start..p, &mut cuts);
                p += 1;
                start = p;
            } else {
                p += 1;
            }
        }
        cut_run(partitions, start..p, &mut cuts);
        let (made, before) = (vec![None; cuts.len()], vec![None; cuts.len()]);
        Bundles {
            cuts,
            view: RwLock::new(None),
            credit: AtomicU64::new(0),
            work: Mutex::new(Work { made, before, ..Work::default() }),
            limit: AtomicU64::new(LIMIT),
        }
    }

    /// What set `new` can use of the bundles of set `old`, which are these.
    pub(crate) fn carried(&self, old: &SearchSet, new: &SearchSet) -> Bundles {
        let view = self.current();
        let bundles = view.iter().flat_map(|view| view.bundles());
        let kept: Vec<_> = bundles.filter_map(|bundle| successor(old, new, bundle)).collect();
        let ranges: Vec<_> = kept.iter().map(|(range, _)| range.clone()).collect();
        let mut next = Self::cut(&new.partitions, &ranges);
        let Some(view) = &view else { return next };
        let work = next.work.get_mut().unwrap_or_else(PoisonError::into_inner);
        work.wanted = view.fields.clone();
        for (range, bundle) in kept {
            let found = next.cuts.binary_search_by_key(&range.start, |cut| cut.start);
            let list = match bundle.is_of(&new.partitions[range]) {
                true => &mut work.made,
                false => &mut work.before,
            };
            if let Ok(cut) = found {
                list[cut] = Some(bundle.clone());
            }
        }
        next.show(new, &next.work());
        next
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bundles that queries get.
    pub(crate) fn current(&self) -> Option<Arc<BundleView>> {
        self.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows queries the bundles that have all that is wanted, if there are any.
    fn show(&self, set: &SearchSet, work: &Work) {
        let whole = |bundle: &Option<Arc<Bundle>>| {
            bundle.clone().filter(|bundle| bundle.fields == work.wanted)
        };
        let made: Vec<_> = work.made.iter().map(whole).collect();
        if made.iter().any(Option::is_some) {
            let view = BundleView::new(set, work.wanted.clone(), &self.cuts, made);
            *self.view.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(view));
        }
    }

    /// Memory that the bundles take, bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.work().memory()
    }

    /// The memory that the bundles may take, bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Sets the memory that the bundles may take; what is there already stays.
    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
        self.work().stuck = false;
    }

    /// The view for a query that needs these fields. Makes a bundle if queries have credit for it.
    pub(crate) fn view(
        &self,
        set: &SearchSet,
        fields: impl Iterator<Item = usize> + Clone,
    ) -> Option<Arc<BundleView>> {
        if self.cuts.is_empty() {
            return None;
        }
        let view = self.current().filter(|view| view.has(fields.clone()));
        let whole = || self.cuts.iter().map(miss_credit).sum();
        let miss_credit = view.as_ref().map_or_else(whole, |view| view.miss_credit);
        if miss_credit == 0 {
            return view;
        }
        self.credit.fetch_add(miss_credit, Ordering::Relaxed);
        // If another thread is at it, this one goes on with what there is.
        let Ok(mut work) = self.work.try_lock() else { return view };
        work.want(set, fields.clone());
        match self.next(set, &work) {
            Some((cut, cost)) if self.spend(cost) => {
                self.step(set, &mut work, cut);
                self.current().filter(|view| view.has(fields))
            }
            _ => view,
        }
    }

    /// Spends tolls, if so much was credit: another thread may have spent what this one saw.
    fn spend(&self, cost: u64) -> bool {
        let left = |credit: u64| credit.checked_sub(cost);
        self.credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok()
    }

    /// Makes all bundles, with these fields.
    pub(crate) fn make(
        &self,
        set: &SearchSet,
        fields: impl Iterator<Item = usize>,
        limits: &QueryLimits,
    ) -> Result<()> {
        let mut work = self.work();
        work.want(set, fields);
        while let Some((cut, _)) = self.next(set, &work) {
            limits.check()?;
            self.step(set, &mut work, cut);
        }
        Ok(())
    }

    /// The next bundle to be made, and what it costs.
    fn next(&self, set: &SearchSet, work: &Work) -> Option<(usize, u64)> {
        if work.stuck {
            return None;
        }
        let order = order_within(&set.schema, &work.wanted);
        // Fields that have to be merged, and those that a bundle of the set before has, or that
        // this one has in another order.
        let lacking = |cut: usize| {
            let (made, before) = (&work.made[cut], &work.before[cut]);
            let mut fields = (0, 0);
            for (i, _) in work.wanted.iter().enumerate().filter(|(_, wanted)| **wanted) {
                match (made, before) {
                    (Some(made), _) if made.fields[i] => {
                        fields.1 += u64::from(made.part.schema.order != order);
                    }
                    (None, Some(before)) if before.fields[i] => fields.1 += 1,
                    _ => fields.0 += 1,
                }
            }
            fields
        };
        let all = (0..self.cuts.len()).map(|cut| (cut, lacking(cut)));
        let (cut, (lacking, again)) = all.into_iter().find(|(_, fields)| *fields != (0, 0))?;
        let documents = documents(&set.partitions[self.cuts[cut].clone()]);
        Some((cut, documents * (lacking * COST + again * COST_AGAIN)))
    }

    /// Makes a bundle, and shows all of them if it was the last.
    fn step(&self, set: &SearchSet, work: &mut Work, cut: usize) {
        let limit = self.limit();
        let before = work.made[cut].take();
        let base = before.clone().or(work.before[cut].take());
        // A damaged partition is an error of the queries that need it, not of this one.
        let bundle = match work.memory() < limit {
            true => Bundle::new(set, self.cuts[cut].clone(), &work.wanted, base.as_deref()).ok(),
            false => None,
        };
        work.stuck = bundle.is_none();
        work.made[cut] = bundle.map(Arc::new).or(before);
        if work.stuck
            && let Some(view) = self.current()
        {
            // Rather fewer fields everywhere than more of them here and there.
            work.wanted.clone_from(&view.fields);
            for (cut, made) in self.cuts.iter().zip(&mut work.made) {
                *made = view.bundle(cut).cloned();
            }
            return;
        }
        if self.next(set, work).is_none() {
            self.show(set, work);
        }
    }
}

impl Work {
    fn want(&mut self, set: &SearchSet, fields: impl Iterator<Item = usize>) {
        if !self.stuck {
            self.wanted.resize(set.schema.fields.len(), false);
            fields.for_each(|field| self.wanted[field] = true);
        }
    }

    fn memory(&self) -> u64 {
        let bundles = self.made.iter().chain(&self.before).flatten();
        bundles.map(|bundle| bundle.memory()).sum()
    }
}

/// The partitions of set `new` between the names of which a bundle of set `old` has its own, or
/// only from the first to the last of its own, if most of their documents are in it.
fn successor<'b>(
    old: &SearchSet,
    new: &SearchSet,
    (range, bundle): (Range<usize>, &'b Arc<Bundle>),
) -> Option<(Range<usize>, &'b Arc<Bundle>)> {
    // What comes before the first partition goes to the bundle that begins with it.
    let place = |p: usize| match old.names.get(p) {
        Some(name) if p > 0 => new.names.partition_point(|other| other < name),
        Some(_) => 0,
        None => new.names.len(),
    };
    let (start, end) = (place(range.start), place(range.end));
    let own: Vec<bool> =
        bundle.members_of(&new.partitions[start..end]).map(|m| m.is_some()).collect();
    let first = start + own.iter().position(|own| *own)?;
    let last = start + own.iter().rposition(|own| *own)?;
    let known = (start..end).filter(|p| own[p - start]);
    let known: u64 = known.map(|p| u64::from(new.partitions[p].documents)).sum();
    let good = |range: &Range<usize>| {
        let parts = &new.partitions[range.clone()];
        let (all, small) = (documents(parts), parts.iter().all(|part| part.documents <= MOST));
        range.len() > 1 && small && all <= SIZE * 3 / 2 && known * 2 >= all
    };
    let range = [start..end, first..last + 1].into_iter().find(good)?;
    Some((range, bundle))
}

fn documents(partitions: &[Arc<Partition>]) -> u64 {
    partitions.iter().map(|part| u64::from(part.documents)).sum()
}

/// Cuts a run of small partitions into shares of about [`SIZE`] documents.
fn cut_run(partitions: &[Arc<Partition>], run: Range<usize>, cuts: &mut Vec<Range<usize>>) {
    let all = documents(&partitions[run.clone()]);
    let shares = ((all + SIZE / 2) / SIZE).max(1);
    let (mut start, mut seen, mut share) = (run.start, 0, 1);
    for p in run.clone() {
        seen += u64::from(partitions[p].documents);
        if p + 1 == run.end || (seen >= all * share / shares && share < shares) {
            if p > start {
                cuts.push(start..p + 1);
            }
            (start, share) = (p + 1, share + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolls_are_spent_once() {
        let bundles = Bundles::new(&[]);
        bundles.credit.store(150, Ordering::Relaxed);
        // Two threads that saw the same 150.
        assert_eq!([bundles.spend(100), bundles.spend(100)], [true, false]);
        assert_eq!(bundles.credit.load(Ordering::Relaxed), 50);
    }
}
