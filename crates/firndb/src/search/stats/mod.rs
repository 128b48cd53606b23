//! Statistics of a set of partitions, which let queries skip partitions and dictionary lookups.
//!
//! `ZoneMaps` hold the smallest and largest key of a field in each partition. `values` has, for
//! fields with few distinct values, the partitions and ordinals of each value. Both are built for a
//! field when a query first needs them.
//!
//! The successor of a set inherits them if few partitions were added, removed or replaced. Then
//! only the keys that differ are updated, and the rest is shared: `cow_vec` is a copy-on-write
//! vector, and `slots` gives partitions numbers that stay the same when others are added or
//! removed.

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

/// The minimum number of partitions. With fewer, looking up their dictionaries is as fast.
pub(crate) const MIN_PARTITIONS: usize = 4;
/// The ordinal of a value that a partition lacks.
const ABSENT: u32 = u32::MAX;

/// A set of partitions and its statistics.
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
    /// A set without statistics yet; queries build them on demand.
    pub(crate) fn new(set: PartitionSet) -> SearchSet {
        let statistics = Statistics::new(set.schema.fields.len(), set.partitions.len());
        SearchSet { set, statistics: Arc::new(statistics) }
    }

    /// [`PartitionSet::with`], without statistics yet.
    pub(crate) fn with(&self, partitions: Vec<(usize, Option<Arc<Partition>>)>) -> SearchSet {
        SearchSet::new(self.set.with(partitions))
    }

    /// [`PartitionSet::next`]. Inherits the statistics if few partitions changed.
    pub(crate) fn next(
        &self,
        names: &[&str],
        partitions: Vec<Arc<Partition>>,
    ) -> Result<SearchSet> {
        let (set, changes) = self.set.next(names, partitions)?;
        let few = changes.added.len() + changes.removed.len() <= names.len().div_ceil(8);
        if set.schema.fields != self.schema.fields || !few {
            return Ok(SearchSet::new(set));
        }
        let statistics = Arc::new(self.statistics.next(self, &set, &changes));
        Ok(SearchSet { set, statistics })
    }
}

/// The statistics of a set: for each field a value table and zone maps, once built.
pub(crate) struct Statistics {
    slots: Slots,
    /// `None` in a cell: the field has too many values for a table.
    values: Vec<OnceLock<Option<Arc<ValueTable>>>>,
    zones: Vec<OnceLock<Arc<ZoneMaps>>>,
    /// The statistics of the underlying set, if these are the statistics of a view.
    base: Option<BaseStatistics>,
}

/// The statistics of the set that underlies a view.
pub(crate) struct BaseStatistics {
    pub(crate) statistics: Arc<Statistics>,
    /// For each partition of the view, the partitions of the set that it consists of.
    pub(crate) members: Vec<Range<usize>>,
}

/// The smallest and largest key of a field in each partition; `None` if no document has a value.
pub(crate) struct ZoneMaps {
    bounds: CowVec<Option<(Key, Key)>>,
    /// Partitions by ascending smallest key.
    by_low: OnceLock<Vec<u32>>,
    /// Partitions by descending largest key.
    by_high: OnceLock<Vec<u32>>,
}

/// The statistics of a set, evaluated for a leaf.
pub(crate) struct LeafStatistics {
    /// One bit per partition: set if no document of it matches the leaf.
    absent: Vec<u64>,
    /// For `Test::Points` with a value table, `(starts, ords)`: the ordinals of the keys in
    /// partition p are `ords[starts[p]..starts[p + 1]]`.
    ords: Option<(Vec<u32>, Vec<u32>)>,
    /// An upper bound of the number of matching documents, if the field has a value table.
    pub(crate) total: Option<u64>,
}

impl LeafStatistics {
    /// Whether no document of partition p matches.
    pub(crate) fn absent(&self, p: usize) -> bool {
        self.absent[p / 64] >> (p % 64) & 1 == 1
    }

    /// The ordinals of the leaf's keys in partition p, if the field has a value table.
    pub(crate) fn ordinals(&self, p: usize) -> Option<&[u32]> {
        let (starts, ords) = self.ords.as_ref()?;
        Some(&ords[starts[p] as usize..starts[p + 1] as usize])
    }

    /// Appends the ordinals in partition p as intervals.
    pub(crate) fn push_intervals(&self, p: usize, intervals: &mut Vec<(u32, u32)>) {
        let first = intervals.len();
        for &ord in self.ordinals(p).unwrap_or(&[]) {
            push_interval(intervals, first, ord);
        }
    }
}

impl Statistics {
    /// Empty statistics for a set with this many fields and partitions.
    pub(crate) fn new(fields: usize, partitions: usize) -> Statistics {
        Statistics {
            slots: Slots::new(partitions),
            values: (0..fields).map(|_| OnceLock::new()).collect(),
            zones: (0..fields).map(|_| OnceLock::new()).collect(),
            base: None,
        }
    }

    /// Makes these the statistics of a view of another set. Queries use the base statistics where
    /// they exist, since successors of that set inherit them; those of a view are rebuilt after
    /// each change.
    pub(crate) fn with_base(self, base: BaseStatistics) -> Statistics {
        Statistics { base: Some(base), ..self }
    }

    /// The statistics of `new`, which succeeds `old`, the set of these statistics. Both must have
    /// the same fields.
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
                // After removals the field may no longer have too many values.
                Some(None) if changes.removed.is_empty() => drop(next.values[field].set(None)),
                None | Some(None) => {}
                Some(Some(values)) => {
                    let slots = [&self.slots, &next.slots];
                    // On failure (too many values, or a damaged partition) leave it to the next
                    // query that needs the table to rebuild it, and to report the error.
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

    /// Evaluates a leaf, after building the statistics it needs. `None` if the set has too few
    /// partitions for this to pay off.
    pub(crate) fn known(&self, set: &PartitionSet, leaf: &Leaf) -> Result<Option<LeafStatistics>> {
        if set.partitions.len() < MIN_PARTITIONS {
            return Ok(None);
        }
        if let Some(base) = &self.base
            && let Some(known) = base.statistics.evaluate(leaf)
        {
            return base.known(set, leaf, &known).map(Some);
        }
        self.make(set, leaf)?;
        Ok(self.evaluate(leaf))
    }

    /// Whether these are the statistics of a view that uses those of its underlying set.
    pub(crate) fn is_above(&self) -> bool {
        self.base.is_some()
    }

    /// Builds the statistics that [`Statistics::known`] needs for a leaf.
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

    /// Evaluates a leaf, if the statistics it needs have been built.
    fn evaluate(&self, leaf: &Leaf) -> Option<LeafStatistics> {
        match &leaf.test {
            Test::Points(keys) => match self.values[leaf.field].get()? {
                Some(values) => Some(values.find(keys, &self.slots)),
                None => self.evaluate_zones(leaf.field, |low, high| {
                    keys.iter().any(|key| low <= key && key <= high)
                }),
            },
            Test::Range(range) => {
                self.evaluate_zones(leaf.field, |low, high| overlaps(range, low, high))
            }
            Test::Exists => self.evaluate_zones(leaf.field, |_, _| true),
        }
    }

    /// Evaluates a leaf by zone maps: `meets` says whether a partition with these bounds may match.
    fn evaluate_zones(
        &self,
        field: usize,
        meets: impl Fn(&Key, &Key) -> bool,
    ) -> Option<LeafStatistics> {
        let zones = self.zones[field].get()?;
        let mut absent = vec![0; zones.bounds.len().div_ceil(64)];
        for (p, bounds) in zones.bounds.iter().enumerate() {
            if !bounds.as_ref().is_some_and(|bounds| meets(&bounds.0, &bounds.1)) {
                absent[p / 64] |= 1 << (p % 64);
            }
        }
        Some(LeafStatistics { absent, ords: None, total: None })
    }

    /// The zone maps of a field; builds them if necessary.
    pub(crate) fn zones(&self, set: &PartitionSet, field: usize) -> Result<&ZoneMaps> {
        if self.zones[field].get().is_none() {
            let known = |p: usize| self.base.as_ref()?.bounds(p, field);
            let bounds = |p| known(p).map_or_else(|| read_bounds(set, field, p), Ok);
            let zones =
                ZoneMaps::new((0..set.partitions.len()).map(bounds).collect::<Result<_>>()?);
            let _ = self.zones[field].set(Arc::new(zones)); // another thread may have won the race
        }
        Ok(self.zones[field].get().map(|zones| &**zones).unwrap_or(&EMPTY))
    }

    /// The value table of a field; builds it if necessary. `None` if it would be too large.
    fn values(&self, set: &PartitionSet, field: usize) -> Result<Option<&ValueTable>> {
        if self.values[field].get().is_none() {
            let values = ValueTable::build(set, &self.slots, field)?.map(Arc::new);
            let _ = self.values[field].set(values);
        }
        Ok(self.values[field].get().and_then(|values| values.as_deref()))
    }

    /// Builds the statistics of all fields now.
    pub(crate) fn warm(&self, set: &PartitionSet) -> Result<()> {
        for (field, definition) in set.schema.fields.iter().enumerate() {
            let roles = definition.roles;
            if roles.filterable || roles.sortable {
                let zones = self.zones(set, field)?;
                let orders = [false, true].into_iter().filter(|_| roles.sortable);
                orders.for_each(|descending| _ = zones.best_first(descending));
            }
            if roles.filterable && set.partitions.len() >= MIN_PARTITIONS {
                self.values(set, field)?;
            }
        }
        Ok(())
    }

    /// Builds those statistics that `other` has of another set. `fields` has pairs of equal fields:
    /// the number in this set and the one in the other.
    pub(crate) fn warm_like(
        &self,
        set: &PartitionSet,
        other: &Statistics,
        fields: &[(usize, usize)],
    ) -> Result<()> {
        for &(field, like) in fields {
            if let Some(known) = other.zones[like].get() {
                let zones = self.zones(set, field)?;
                known.by_low.get().iter().for_each(|_| _ = zones.best_first(false));
                known.by_high.get().iter().for_each(|_| _ = zones.best_first(true));
            }
            if other.values[like].get().is_some() {
                self.values(set, field)?;
            }
        }
        Ok(())
    }

    /// The number of documents that match a leaf with a single key; `None` for other leaves, and
    /// without a value table.
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
    /// Translates the statistics of a leaf from the underlying set to the view. Looks up the keys
    /// in the dictionaries of bundles.
    fn known(
        &self,
        view: &PartitionSet,
        leaf: &Leaf,
        base: &LeafStatistics,
    ) -> Result<LeafStatistics> {
        let mut absent = vec![0; self.members.len().div_ceil(64)];
        let (mut starts, mut ords) = (vec![0], Vec::new());
        for (p, members) in self.members.iter().enumerate() {
            if members.clone().all(|member| base.absent(member)) {
                absent[p / 64] |= 1 << (p % 64);
            } else if let (Some(own), 1) = (base.ordinals(members.start), members.len()) {
                ords.extend_from_slice(own);
            } else if let (Some(_), Test::Points(keys)) = (&base.ords, &leaf.test)
                && let Some(field) = view.local(p, leaf.field)
            {
                let dictionary = view.partitions[p].dictionary(field)?;
                ords.extend(keys.iter().filter_map(|key| dictionary.find(key)));
            }
            starts.push(ords.len() as u32);
        }
        let ords = base.ords.is_some().then_some((starts, ords));
        Ok(LeafStatistics { absent, ords, total: base.total })
    }

    /// The bounds of a field in a partition of the view. `None` if the partition is a bundle, or
    /// the underlying set has no zone maps of the field.
    fn bounds(&self, p: usize, field: usize) -> Option<Option<(Key, Key)>> {
        let (zones, members) = (self.statistics.zones[field].get()?, &self.members[p]);
        (members.len() == 1).then(|| zones.bounds(members.start).cloned())
    }
}

static EMPTY: ZoneMaps =
    ZoneMaps { bounds: CowVec::new(), by_low: OnceLock::new(), by_high: OnceLock::new() };

impl ZoneMaps {
    fn new(bounds: CowVec<Option<(Key, Key)>>) -> ZoneMaps {
        ZoneMaps { bounds, by_low: OnceLock::new(), by_high: OnceLock::new() }
    }

    /// The zone maps of the set `new`, which succeeds this one.
    fn next(&self, new: &PartitionSet, changes: &SetChanges, field: usize) -> Result<ZoneMaps> {
        let mut bounds = if changes.only_replaced() {
            self.bounds.clone()
        } else {
            let old = changes.before.iter();
            old.map(|old| old.and_then(|p| self.bounds(p).cloned())).collect()
        };
        for &p in &changes.added {
            if let Some(entry) = bounds.get_mut(p) {
                *entry = read_bounds(new, field, p)?;
            }
        }
        Ok(ZoneMaps::new(bounds))
    }

    /// The smallest and the largest key in partition p.
    pub(crate) fn bounds(&self, p: usize) -> Option<&(Key, Key)> {
        self.bounds.get(p)?.as_ref()
    }

    /// The partitions in the order of their smallest key, or their largest if `descending`: those
    /// that can contain the first documents of a sorted result come first.
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

/// The smallest and the largest key of a field in partition p.
fn read_bounds(set: &PartitionSet, field: usize, p: usize) -> Result<Option<(Key, Key)>> {
    let part = &set.partitions[p];
    let Some(field) = set.local(p, field) else { return Ok(None) };
    let meta = part.meta(field);
    let distinct = meta.distinct;
    if distinct == 0 {
        return Ok(None);
    }
    if let Some(values) = meta.values() {
        let (least, last) = (values.least, values.least + u64::from(values.span - 1));
        return Ok(Some((Key::Fixed(least), Key::Fixed(last))));
    }
    let dictionary = part.dictionary(field)?;
    Ok(Some((dictionary.key(0), dictionary.key(distinct - 1))))
}

/// Whether a range contains a key between `low` and `high`, inclusive.
fn overlaps(range: &Interval, low: &Key, high: &Key) -> bool {
    let low_ok = match &range.low {
        Bound::Unbounded => true,
        Bound::Included(key) => key <= high,
        Bound::Excluded(key) => key < high,
    };
    low_ok
        && match &range.high {
            Bound::Unbounded => true,
            Bound::Included(key) => low <= key,
            Bound::Excluded(key) => low < key,
        }
}

#[cfg(test)]
impl Statistics {
    /// The statistics of a field as text: the bounds in all partitions, and each value with its
    /// number of documents, partitions and ordinals.
    pub(crate) fn dump(&self, set: &PartitionSet, field: usize) -> Result<String> {
        let mut text = format!("{:?}", self.zones(set, field)?.bounds.iter().collect::<Vec<_>>());
        if let Some(values) = self.values(set, field)? {
            text += &values.dump(&self.slots);
        }
        Ok(text)
    }

    /// Whether the value table, if queries use one, and the zone maps of a field have been built.
    pub(crate) fn is_made(&self, field: usize) -> bool {
        let few = self.slots.partition_count() < MIN_PARTITIONS;
        (few || self.values[field].get().is_some()) && self.zones[field].get().is_some()
    }
}
