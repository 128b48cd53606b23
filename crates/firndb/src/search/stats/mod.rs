//! What a set of partitions knows of its values without touching a partition: the smallest and
//! largest key of each field in each partition ("zones"), and for fields of few distinct values the
//! partitions and ordinals of each.
//!
//! Both are made for a field when a query first needs them, and carried over when partitions come,
//! go or are replaced, if these are few: then only their keys are looked up, of a replaced one
//! those in which the old and the new partition differ, and values that do not change are shared by
//! the sets.

pub(crate) mod cow_vec;

mod slots;
mod values;

use crate::Result;
use crate::search::model::condition::Interval;
use crate::search::model::value::Key;
use crate::search::partition::Partition;
use crate::search::partition::set::{PartitionSet, SetChanges};
use crate::search::plan::push_interval;
use crate::search::plan::{Leaf, Test};
use crate::search::stats::cow_vec::CowVec;
use slots::Slots;
use std::cmp::Ordering;
use std::ops::{Bound, Deref, Range};
use std::sync::{Arc, OnceLock};
use values::ValueTable;

/// With fewer partitions their dictionaries are as fast.
pub(crate) const MIN_PARTITIONS: usize = 4;
const ABSENT: u32 = u32::MAX;

/// A set of partitions with the statistics of their values.
pub(crate) struct SearchSet {
    set: PartitionSet,
    pub(crate) statistics: Arc<Statistics>,
}

impl Deref for SearchSet {
    type Target = PartitionSet;

    fn deref(&self) -> &PartitionSet {
        &self.set
    }
}

impl SearchSet {
    /// A set without statistics yet: queries make them.
    pub(crate) fn new(set: PartitionSet) -> SearchSet {
        let statistics = Statistics::new(set.schema.fields.len(), set.partitions.len());
        SearchSet { set, statistics: Arc::new(statistics) }
    }

    /// [`PartitionSet::with`], with statistics that the caller makes.
    pub(crate) fn with(&self, lanes: Vec<(usize, Option<Arc<Partition>>)>) -> SearchSet {
        SearchSet::new(self.set.with(lanes))
    }

    /// [`PartitionSet::next`]. Carries statistics over if few partitions changed.
    pub(crate) fn next(
        &self,
        names: &[&str],
        partitions: Vec<Arc<Partition>>,
    ) -> Result<SearchSet> {
        let (set, changes) = self.set.next(names, partitions)?;
        let few = changes.come.len() + changes.gone.len() <= names.len().div_ceil(8);
        if set.schema.fields != self.schema.fields || !few {
            return Ok(SearchSet::new(set));
        }
        let statistics = Arc::new(self.statistics.next(self, &set, &changes));
        Ok(SearchSet { set, statistics })
    }
}

/// The statistics of a set, one of each kind a field.
pub(crate) struct Statistics {
    slots: Slots,
    values: Vec<OnceLock<Option<Arc<ValueTable>>>>,
    zones: Vec<OnceLock<Arc<ZoneMaps>>>,
    /// Of a view of a set.
    below: Option<BaseStatistics>,
}

/// What the set below a view knows.
pub(crate) struct BaseStatistics {
    pub(crate) statistics: Arc<Statistics>,
    /// The partitions there that each partition of the view stands for.
    pub(crate) lanes: Vec<Range<usize>>,
}

/// Smallest and largest key of a field in each partition; `None` where no document has a value.
pub(crate) struct ZoneMaps {
    bounds: CowVec<Option<(Key, Key)>>,
    by_low: OnceLock<Vec<u32>>,
    by_high: OnceLock<Vec<u32>>,
}

/// What the statistics know of a leaf.
pub(crate) struct LeafStatistics {
    /// One bit a partition: it has no document that satisfies the leaf.
    absent: Vec<u64>,
    /// For points: the ordinals in partition p are `ords[starts[p]..starts[p + 1]]`.
    ords: Option<(Vec<u32>, Vec<u32>)>,
    /// Documents that satisfy the leaf, at most, if its values are catalogued.
    pub(crate) total: Option<u64>,
}

impl LeafStatistics {
    pub(crate) fn absent(&self, p: usize) -> bool {
        self.absent[p / 64] >> (p % 64) & 1 == 1
    }

    /// The ordinals in partition p, if the values are catalogued.
    pub(crate) fn ordinals(&self, p: usize) -> Option<&[u32]> {
        let (starts, ords) = self.ords.as_ref()?;
        Some(&ords[starts[p] as usize..starts[p + 1] as usize])
    }

    pub(crate) fn push_intervals(&self, p: usize, intervals: &mut Vec<(u32, u32)>) {
        let first = intervals.len();
        for &ord in self.ordinals(p).unwrap_or(&[]) {
            push_interval(intervals, first, ord);
        }
    }
}

impl Statistics {
    /// None yet, for a set of so many fields and partitions.
    pub(crate) fn new(fields: usize, partitions: usize) -> Statistics {
        Statistics {
            slots: Slots::new(partitions),
            values: (0..fields).map(|_| OnceLock::new()).collect(),
            zones: (0..fields).map(|_| OnceLock::new()).collect(),
            below: None,
        }
    }

    /// These, of a view: what is known of the set below it is asked first, for that is carried from
    /// one set to the next, and these would be made anew after each change.
    pub(crate) fn above(self, below: BaseStatistics) -> Statistics {
        Statistics { below: Some(below), ..self }
    }

    /// The statistics of the set that follows a set with the same fields, whose these are.
    pub(crate) fn next(
        &self,
        old: &PartitionSet,
        new: &PartitionSet,
        changes: &SetChanges,
    ) -> Statistics {
        let slots = self.slots.next(changes);
        let next = Statistics { slots, ..Statistics::new(self.values.len(), 0) };
        for field in 0..self.values.len() {
            match self.values[field].get() {
                // A field with too many values may have fewer without those that are gone.
                Some(None) if changes.gone.is_empty() => drop(next.values[field].set(None)),
                None | Some(None) => {}
                Some(Some(values)) => {
                    let slots = [&self.slots, &next.slots];
                    // With too many values, or a damaged partition, it is for the query that needs
                    // it to make it anew, and to tell.
                    if let Ok(Some(values)) = values.next([old, new], slots, changes, field) {
                        let _ = next.values[field].set(Some(Arc::new(values)));
                    }
                }
            }
            if let Some(zones) = self.zones[field].get()
                && let Ok(zones) = zones.next(new, changes, field)
            {
                let _ = next.zones[field].set(Arc::new(zones));
            }
        }
        next
    }

    /// What is known of a leaf without touching partitions; `None` if that is not worth it.
    pub(crate) fn known(&self, set: &PartitionSet, leaf: &Leaf) -> Result<Option<LeafStatistics>> {
        if set.partitions.len() < MIN_PARTITIONS {
            return Ok(None);
        }
        if let Some(below) = &self.below
            && let Some(known) = below.statistics.known_already(leaf)
        {
            return below.known(set, leaf, &known).map(Some);
        }
        self.make(set, leaf)?;
        Ok(self.known_already(leaf))
    }

    /// Whether these are of a view and ask the set below.
    pub(crate) fn is_above(&self) -> bool {
        self.below.is_some()
    }

    /// Makes what tells of a leaf.
    pub(crate) fn make(&self, set: &PartitionSet, leaf: &Leaf) -> Result<()> {
        let by_values = match leaf.test {
            Test::Points(_) => self.values(set, leaf.field)?.is_some(),
            Test::Range(_) | Test::Exists => false,
        };
        if !by_values {
            self.zones(set, leaf.field)?;
        }
        Ok(())
    }

    /// What is known of a leaf, if what tells it was made.
    fn known_already(&self, leaf: &Leaf) -> Option<LeafStatistics> {
        match &leaf.test {
            Test::Points(keys) => match self.values[leaf.field].get()? {
                Some(values) => Some(values.find(keys, &self.slots)),
                None => self.in_zones(leaf.field, |low, high| {
                    keys.iter().any(|key| low <= key && key <= high)
                }),
            },
            Test::Range(range) => self.in_zones(leaf.field, |low, high| overlaps(range, low, high)),
            Test::Exists => self.in_zones(leaf.field, |_, _| true),
        }
    }

    fn in_zones(&self, field: usize, meets: impl Fn(&Key, &Key) -> bool) -> Option<LeafStatistics> {
        let zones = self.zones[field].get()?;
        let mut absent = vec![0; zones.bounds.len().div_ceil(64)];
        for (p, bounds) in zones.bounds.iter().enumerate() {
            if !bounds.as_ref().is_some_and(|bounds| meets(&bounds.0, &bounds.1)) {
                absent[p / 64] |= 1 << (p % 64);
            }
        }
        Some(LeafStatistics { absent, ords: None, total: None })
    }

    pub(crate) fn zones(&self, set: &PartitionSet, field: usize) -> Result<&ZoneMaps> {
        if self.zones[field].get().is_none() {
            let known = |p: usize| self.below.as_ref()?.bounds(p, field);
            let bounds = |p| known(p).map_or_else(|| bounds_of(set, field, p), Ok);
            let zones =
                ZoneMaps::new((0..set.partitions.len()).map(bounds).collect::<Result<_>>()?);
            let _ = self.zones[field].set(Arc::new(zones)); // another thread may have been faster
        }
        Ok(self.zones[field].get().map(|zones| &**zones).unwrap_or(&EMPTY))
    }

    fn values(&self, set: &PartitionSet, field: usize) -> Result<Option<&ValueTable>> {
        if self.values[field].get().is_none() {
            let values = ValueTable::build(set, &self.slots, field)?.map(Arc::new);
            let _ = self.values[field].set(values);
        }
        Ok(self.values[field].get().and_then(|values| values.as_deref()))
    }

    /// Makes everything now.
    pub(crate) fn warm(&self, set: &PartitionSet) -> Result<()> {
        for (field, described) in set.schema.fields.iter().enumerate() {
            if described.roles.filterable || described.roles.sortable {
                self.zones(set, field)?;
            }
            if described.roles.filterable && set.partitions.len() >= MIN_PARTITIONS {
                self.values(set, field)?;
            }
        }
        Ok(())
    }

    /// The documents of all partitions that have the one value of a leaf.
    pub(crate) fn total(&self, set: &PartitionSet, leaf: &Leaf) -> Result<Option<u64>> {
        let Test::Points(keys) = &leaf.test else { return Ok(None) };
        if keys.len() != 1 || set.partitions.len() < MIN_PARTITIONS {
            return Ok(None);
        }
        let values = self.values(set, leaf.field)?;
        Ok(values.map(|v| v.number(&keys[0]).map_or(0, |n| v.totals[n])))
    }
}

impl BaseStatistics {
    /// What is known of a leaf in a view, from what is known of it in the set below. Bundles are
    /// looked into.
    fn known(
        &self,
        view: &PartitionSet,
        leaf: &Leaf,
        below: &LeafStatistics,
    ) -> Result<LeafStatistics> {
        let mut absent = vec![0; self.lanes.len().div_ceil(64)];
        let (mut starts, mut ords) = (vec![0], Vec::new());
        for (p, lane) in self.lanes.iter().enumerate() {
            if lane.clone().all(|member| below.absent(member)) {
                absent[p / 64] |= 1 << (p % 64);
            } else if let (Some(own), 1) = (below.ordinals(lane.start), lane.len()) {
                ords.extend_from_slice(own);
            } else if let (Some(_), Test::Points(keys)) = (&below.ords, &leaf.test)
                && let Some(field) = view.local(p, leaf.field)
            {
                let dictionary = view.partitions[p].dictionary(field)?;
                ords.extend(keys.iter().filter_map(|key| dictionary.find(key)));
            }
            starts.push(ords.len() as u32);
        }
        let ords = below.ords.is_some().then_some((starts, ords));
        Ok(LeafStatistics { absent, ords, total: below.total })
    }

    /// The bounds of a field in a partition of the view that is one of the set below; `None` if it
    /// is a bundle, or they are not known.
    fn bounds(&self, p: usize, field: usize) -> Option<Option<(Key, Key)>> {
        let (zones, lane) = (self.statistics.zones[field].get()?, &self.lanes[p]);
        (lane.len() == 1).then(|| zones.bounds(lane.start).cloned())
    }
}

static EMPTY: ZoneMaps =
    ZoneMaps { bounds: CowVec::new(), by_low: OnceLock::new(), by_high: OnceLock::new() };

impl ZoneMaps {
    fn new(bounds: CowVec<Option<(Key, Key)>>) -> ZoneMaps {
        ZoneMaps { bounds, by_low: OnceLock::new(), by_high: OnceLock::new() }
    }

    /// Those of the set that follows.
    fn next(&self, new: &PartitionSet, changes: &SetChanges, field: usize) -> Result<ZoneMaps> {
        let mut bounds = if changes.only_replaced() {
            self.bounds.clone()
        } else {
            let old = changes.before.iter();
            old.map(|old| old.and_then(|p| self.bounds(p).cloned())).collect()
        };
        for &p in &changes.come {
            if let Some(place) = bounds.get_mut(p) {
                *place = bounds_of(new, field, p)?;
            }
        }
        Ok(ZoneMaps::new(bounds))
    }

    /// The smallest and the largest key in partition `p`.
    pub(crate) fn bounds(&self, p: usize) -> Option<&(Key, Key)> {
        self.bounds.get(p)?.as_ref()
    }

    /// Partitions in the order of their best key: those that can hold the first documents of an
    /// order come first.
    pub(crate) fn best_first(&self, descending: bool) -> &[u32] {
        let order = if descending { &self.by_high } else { &self.by_low };
        order.get_or_init(|| {
            let mut order: Vec<u32> = (0..self.bounds.len() as u32).collect();
            order.sort_by(|&a, &b| match (self.bounds(a as usize), self.bounds(b as usize)) {
                (None, None) => Ordering::Equal,
                (None, _) => Ordering::Greater,
                (_, None) => Ordering::Less,
                (Some(a), Some(b)) if descending => b.1.cmp(&a.1),
                (Some(a), Some(b)) => a.0.cmp(&b.0),
            });
            order
        })
    }
}

fn bounds_of(set: &PartitionSet, field: usize, p: usize) -> Result<Option<(Key, Key)>> {
    let part = &set.partitions[p];
    let Some(field) = set.local(p, field) else { return Ok(None) };
    let meta = part.meta(field);
    let distinct = meta.distinct;
    if distinct == 0 {
        return Ok(None);
    }
    if let Some(of) = meta.values() {
        let (least, last) = (of.least, of.least + u64::from(of.span - 1));
        return Ok(Some((Key::Fixed(least), Key::Fixed(last))));
    }
    let dictionary = part.dictionary(field)?;
    Ok(Some((dictionary.key(0), dictionary.key(distinct - 1))))
}

fn overlaps(range: &Interval, low: &Key, high: &Key) -> bool {
    let above = match &range.low {
        Bound::Unbounded => true,
        Bound::Included(key) => key <= high,
        Bound::Excluded(key) => key < high,
    };
    above
        && match &range.high {
            Bound::Unbounded => true,
            Bound::Included(key) => low <= key,
            Bound::Excluded(key) => low < key,
        }
}

#[cfg(test)]
impl Statistics {
    /// What is catalogued of a field: each value that is somewhere with its documents and places,
    /// and the bounds of all partitions.
    pub(crate) fn dump(&self, set: &PartitionSet, field: usize) -> Result<String> {
        let mut text = format!("{:?}", self.zones(set, field)?.bounds.iter().collect::<Vec<_>>());
        if let Some(values) = self.values(set, field)? {
            text += &values.dump(&self.slots);
        }
        Ok(text)
    }

    /// Whether the values of a field were catalogued already.
    pub(crate) fn is_made(&self, field: usize) -> bool {
        self.values[field].get().is_some() && self.zones[field].get().is_some()
    }
}
