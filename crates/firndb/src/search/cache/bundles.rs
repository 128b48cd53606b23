//! Bundles: runs of consecutive small partitions of a set, merged in memory.
//!
//! A query has fixed costs in each partition: dictionary lookups, and a dozen cache misses. With a
//! thousand partitions of a thousand documents they dominate. A bundle is a partition in memory
//! with the index structures of hundreds of partitions. It is written like a merged partition, and
//! read by the same code as a file. Payloads and stored values are still read from the original
//! partitions. The documents of a bundle are in the schema's order if the bundle has the fields of
//! that order, otherwise in the order of their partitions. Ties are broken by partition and
//! document in both cases (`Partition::origins`), so results are the same as without bundles.
//!
//! Bundles are built on demand. Each query on small partitions without bundles earns credit
//! (`miss_credit`). The query that raises it to about half of the cost of merging the needed fields
//! builds the next bundle. Occasional queries therefore rarely wait for a build, and the total time
//! spent building is at most a small multiple of the time that queries lose without bundles. When a
//! partition is replaced, the successor of the set keeps the other bundles. It rebuilds the
//! affected bundle from the old one and the new partition, once there is enough credit again, or
//! before queries see the set (`Reader::warm`, `Reader::warm_like`).

use crate::search::cache::bundle_view::miss_credit;
use crate::search::cache::bundle_view::{Bundle, BundleView, bundle_order};
use crate::search::partition::Partition;
use crate::search::partition::set::QueryLimits;
use crate::search::stats::SearchSet;
use crate::{ErrorKind, Result};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// The maximum number of documents of a partition that is bundled.
const MAX_MEMBER_DOCUMENTS: u32 = 1 << 15;
/// The approximate number of documents of a bundle.
const TARGET_DOCUMENTS: u64 = 1 << 18;

/// The credit spent per document and field of a bundle, in nanoseconds. Merging takes about 75;
/// queries that have lost half of that time are expected to continue.
const MERGE_COST: u64 = 40;
/// The same for a field that is mostly copied from an older bundle, which takes about 35.
const COPY_COST: u64 = 10;

/// The bundles of a set.
pub(crate) struct Bundles {
    /// The ranges of partitions to be merged into a bundle each.
    candidates: Vec<Range<usize>>,
    /// The set with its bundles, for queries.
    view: RwLock<Option<Arc<BundleView>>>,
    /// Credit that has not been spent, in nanoseconds.
    credit: AtomicU64,
    build: Mutex<BuildState>,
}

/// The bundles of the next view, as far as they are built.
#[derive(Default)]
struct BuildState {
    /// For each field, whether the bundles of the next view should contain it.
    wanted: Vec<bool>,
    /// For each candidate, its bundle, which may lack some of the wanted fields.
    built: Vec<Option<Arc<Bundle>>>,
    /// For each candidate without a bundle, a bundle of the previous set that has most of its
    /// partitions.
    previous: Vec<Option<Arc<Bundle>>>,
    /// Handles with at most this memory limit build no more bundles: it was reached. `u64::MAX` if
    /// a partition is damaged.
    stopped_at: Option<u64>,
}

impl Bundles {
    /// For these partitions, without bundles yet.
    pub(crate) fn new(partitions: &[Arc<Partition>]) -> Bundles {
        Self::with_kept(partitions, &[])
    }

    /// Divides runs of small partitions into candidates of similar sizes. The ranges in `kept`
    /// become candidates as they are.
    fn with_kept(partitions: &[Arc<Partition>], kept: &[Range<usize>]) -> Bundles {
        let mut candidates = Vec::new();
        let mut start = 0;
        let mut next = kept.iter().peekable();
        let mut p = 0;
        while p < partitions.len() {
            if let Some(range) = next.next_if(|range| range.start == p) {
                divide_run(partitions, start..p, &mut candidates);
                candidates.push(range.clone());
                p = range.end;
                start = p;
            } else if partitions[p].documents > MAX_MEMBER_DOCUMENTS {
                divide_run(partitions, start..p, &mut candidates);
                p += 1;
                start = p;
            } else {
                p += 1;
            }
        }
        divide_run(partitions, start..p, &mut candidates);
        let (built, previous) = (vec![None; candidates.len()], vec![None; candidates.len()]);
        Bundles {
            candidates,
            view: RwLock::new(None),
            credit: AtomicU64::new(0),
            build: Mutex::new(BuildState { built, previous, ..BuildState::default() }),
        }
    }

    /// The bundles of the set `new`, which succeeds `old`, the set of these bundles. Keeps those
    /// whose partitions did not change, and others as a base for rebuilding them.
    pub(crate) fn inherit(&self, old: &SearchSet, new: &SearchSet) -> Bundles {
        let view = self.current();
        let bundles = view.iter().flat_map(|view| view.bundles());
        let kept: Vec<_> = bundles.filter_map(|bundle| successor(old, new, bundle)).collect();
        let ranges: Vec<_> = kept.iter().map(|(range, _)| range.clone()).collect();
        let mut next = Self::with_kept(&new.partitions, &ranges);
        let Some(view) = &view else { return next };
        let state = next.build.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.wanted = view.fields.clone();
        for (range, bundle) in kept {
            let found = next.candidates.binary_search_by_key(&range.start, |other| other.start);
            let list = match bundle.consists_of(&new.partitions[range]) {
                true => &mut state.built,
                false => &mut state.previous,
            };
            if let Ok(i) = found {
                list[i] = Some(bundle.clone());
            }
        }
        next.publish(new, &next.build_state());
        next
    }

    /// Locks the state; waits while another thread builds a bundle.
    fn build_state(&self) -> MutexGuard<'_, BuildState> {
        self.build.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The published view; `None` if no bundle has been published.
    pub(crate) fn current(&self) -> Option<Arc<BundleView>> {
        self.view.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Publishes a view with the bundles that contain exactly the wanted fields, if there are any.
    fn publish(&self, set: &SearchSet, state: &BuildState) {
        let complete = |bundle: &Option<Arc<Bundle>>| {
            bundle.clone().filter(|bundle| bundle.fields == state.wanted)
        };
        let built: Vec<_> = state.built.iter().map(complete).collect();
        if built.iter().any(Option::is_some) {
            let view = BundleView::new(set, state.wanted.clone(), &self.candidates, built);
            *self.view.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(view));
        }
    }

    /// Memory in use, in bytes, including bundles of the previous set that are kept for reuse.
    pub(crate) fn memory(&self) -> u64 {
        self.build_state().memory()
    }

    /// The view for a query that needs these fields; `None` if no view has them. First builds a
    /// bundle, if queries have earned enough credit and all bundles together take less memory than
    /// `limit`, in bytes.
    pub(crate) fn view(
        &self,
        set: &SearchSet,
        fields: impl Iterator<Item = usize> + Clone,
        limit: u64,
    ) -> Option<Arc<BundleView>> {
        if self.candidates.is_empty() {
            return None;
        }
        let view = self.current().filter(|view| view.has(fields.clone()));
        let without_view = || self.candidates.iter().map(miss_credit).sum();
        let miss_credit = view.as_ref().map_or_else(without_view, |view| view.miss_credit);
        if miss_credit == 0 {
            return view;
        }
        self.credit.fetch_add(miss_credit, Ordering::Relaxed);
        // While another thread builds a bundle, use the current view.
        let Ok(mut state) = self.build.try_lock() else { return view };
        if state.is_stopped(limit) {
            return view;
        }
        state.want(set, fields.clone());
        match self.next_build(set, &state) {
            Some((i, cost)) if self.spend_credit(cost) => {
                // A damaged partition must only fail the queries that need its damaged data.
                let _ = self.build_bundle(set, &mut state, i, limit);
                self.current().filter(|view| view.has(fields))
            }
            _ => view,
        }
    }

    /// Spends credit. Returns false if there is less: another thread may have spent it meanwhile.
    fn spend_credit(&self, cost: u64) -> bool {
        let left = |credit: u64| credit.checked_sub(cost);
        self.credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok()
    }

    /// Builds all bundles with these fields, regardless of credit. Errors: those of `limits`, and
    /// `Corrupt` if a partition is damaged.
    pub(crate) fn make(
        &self,
        set: &SearchSet,
        fields: impl Iterator<Item = usize>,
        limits: &QueryLimits,
    ) -> Result<()> {
        let mut state = self.build_state();
        if state.is_stopped(limits.bundle_memory) {
            return Ok(());
        }
        state.want(set, fields);
        while !state.is_stopped(limits.bundle_memory)
            && let Some((i, _)) = self.next_build(set, &state)
        {
            limits.check()?;
            match self.build_bundle(set, &mut state, i, limits.bundle_memory) {
                Err(error) if error.kind() == ErrorKind::Corrupt => return Err(error),
                _ => {} // Partitions that cannot be merged are searched one by one.
            }
        }
        Ok(())
    }

    /// The next candidate to be built, and its cost in credit.
    fn next_build(&self, set: &SearchSet, state: &BuildState) -> Option<(usize, u64)> {
        let order = bundle_order(&set.schema, &state.wanted);
        // Counts the fields to be merged, and those to be copied: from a bundle of the previous
        // set, or from the present bundle if its document order changes.
        let count_fields = |candidate: usize| {
            let (built, previous) = (&state.built[candidate], &state.previous[candidate]);
            let (mut merged, mut copied) = (0, 0);
            for (i, _) in state.wanted.iter().enumerate().filter(|(_, wanted)| **wanted) {
                match (built, previous) {
                    (Some(built), _) if built.fields[i] => {
                        copied += u64::from(built.part.schema.order != order);
                    }
                    (None, Some(previous)) if previous.fields[i] => copied += 1,
                    _ => merged += 1,
                }
            }
            (merged, copied)
        };
        let mut counts = (0..self.candidates.len()).map(|i| (i, count_fields(i)));
        let (i, (merged, copied)) = counts.find(|(_, fields)| *fields != (0, 0))?;
        let documents = documents(&set.partitions[self.candidates[i].clone()]);
        Some((i, documents * (merged * MERGE_COST + copied * COPY_COST)))
    }

    /// Builds the bundle of candidate i, and publishes the view if no other bundle is to be built.
    /// Stops building at the memory limit, and on errors, which it returns.
    fn build_bundle(
        &self,
        set: &SearchSet,
        state: &mut BuildState,
        i: usize,
        limit: u64,
    ) -> Result<()> {
        let former = state.built[i].take();
        let base = former.clone().or(state.previous[i].take());
        let range = self.candidates[i].clone();
        let built = match state.memory() < limit {
            true => Bundle::new(set, range, &state.wanted, base.as_deref()).map(Some),
            false => Ok(None),
        };
        match built {
            Ok(Some(bundle)) => {
                state.built[i] = Some(Arc::new(bundle));
                if self.next_build(set, state).is_none() {
                    self.publish(set, state);
                }
                Ok(())
            }
            Ok(None) => {
                self.stop(set, state, (i, former), limit);
                Ok(())
            }
            Err(error) => {
                self.stop(set, state, (i, former), u64::MAX);
                Err(error)
            }
        }
    }

    /// Stops building. Candidate i gets its former bundle back.
    fn stop(
        &self,
        set: &SearchSet,
        state: &mut BuildState,
        (i, former): (usize, Option<Arc<Bundle>>),
        stopped_at: u64,
    ) {
        state.stopped_at = Some(stopped_at);
        state.built[i] = former;
        match self.current() {
            // Return to the bundles of the current view, which all have the same fields.
            Some(view) => {
                state.wanted.clone_from(&view.fields);
                for (range, built) in self.candidates.iter().zip(&mut state.built) {
                    *built = view.bundle(range).cloned();
                }
            }
            // Queries use those that were built: their memory must not be in vain.
            None => self.publish(set, state),
        }
    }
}

impl BuildState {
    /// Whether handles with this memory limit build no more bundles.
    fn is_stopped(&self, limit: u64) -> bool {
        self.stopped_at.is_some_and(|stopped_at| limit <= stopped_at)
    }

    /// Adds fields to the wanted ones.
    fn want(&mut self, set: &SearchSet, fields: impl Iterator<Item = usize>) {
        self.wanted.resize(set.schema.fields.len(), false);
        fields.for_each(|field| self.wanted[field] = true);
    }

    fn memory(&self) -> u64 {
        let bundles = self.built.iter().chain(&self.previous).flatten();
        bundles.map(|bundle| bundle.memory()).sum()
    }
}

/// The range of partitions of the set `new` that inherits a bundle of the set `old`: from the name
/// of its first member up to the name of the partition after its last member or, if that range is
/// unsuitable, from the first remaining member to the last. At least half of the documents of the
/// range must be in the bundle, and it must not be too large.
fn successor<'b>(
    old: &SearchSet,
    new: &SearchSet,
    (range, bundle): (Range<usize>, &'b Arc<Bundle>),
) -> Option<(Range<usize>, &'b Arc<Bundle>)> {
    // Partitions before all old ones belong to the bundle that starts with the first.
    let position = |p: usize| match old.names.get(p) {
        Some(name) if p > 0 => new.names.partition_point(|other| other < name),
        Some(_) => 0,
        None => new.names.len(),
    };
    let (start, end) = (position(range.start), position(range.end));
    let is_member: Vec<bool> =
        bundle.members_of(&new.partitions[start..end]).map(|m| m.is_some()).collect();
    let first = start + is_member.iter().position(|member| *member)?;
    let last = start + is_member.iter().rposition(|member| *member)?;
    let known = (start..end).filter(|p| is_member[p - start]);
    let known: u64 = known.map(|p| u64::from(new.partitions[p].documents)).sum();
    let suitable = |range: &Range<usize>| {
        let parts = &new.partitions[range.clone()];
        let all = documents(parts);
        let small = parts.iter().all(|part| part.documents <= MAX_MEMBER_DOCUMENTS);
        range.len() > 1 && small && all <= TARGET_DOCUMENTS * 3 / 2 && known * 2 >= all
    };
    let range = [start..end, first..last + 1].into_iter().find(suitable)?;
    Some((range, bundle))
}

fn documents(partitions: &[Arc<Partition>]) -> u64 {
    partitions.iter().map(|part| u64::from(part.documents)).sum()
}

/// Divides a run of small partitions into candidates of about [`TARGET_DOCUMENTS`] documents.
fn divide_run(
    partitions: &[Arc<Partition>],
    run: Range<usize>,
    candidates: &mut Vec<Range<usize>>,
) {
    let all = documents(&partitions[run.clone()]);
    let shares = ((all + TARGET_DOCUMENTS / 2) / TARGET_DOCUMENTS).max(1);
    let (mut start, mut seen, mut share) = (run.start, 0, 1);
    for p in run.clone() {
        seen += u64::from(partitions[p].documents);
        if p + 1 == run.end || (seen >= all * share / shares && share < shares) {
            if p > start {
                candidates.push(start..p + 1);
            }
            (start, share) = (p + 1, share + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_is_spent_once() {
        let bundles = Bundles::new(&[]);
        bundles.credit.store(150, Ordering::Relaxed);
        // As if two threads had seen a credit of 150.
        assert_eq!([bundles.spend_credit(100), bundles.spend_credit(100)], [true, false]);
        assert_eq!(bundles.credit.load(Ordering::Relaxed), 50);
    }
}
