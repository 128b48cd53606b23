//! What a set of partitions knows of its values without touching a partition: the smallest and
//! largest key of each field in each partition ("zones"), and for fields of few distinct values the
//! partitions and ordinals of each.
//!
//! Both are made for a field when a query first needs them, and carried over when a partition is
//! replaced: then only the keys of the old and the new partition are touched.

use super::bind::push_interval;
use super::condition::Interval;
use super::intern::KeyMap;
use super::partition::Partition;
use super::plan::{Leaf, Test};
use super::set::Set;
use super::value::Key;
use crate::Result;
use crate::bytes::increasing::Increasing;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

/// With fewer partitions their dictionaries are as fast.
pub(crate) const MIN_PARTITIONS: usize = 4;
/// Distinct values of a field over all partitions, beyond which its values are not catalogued.
const MAX_VALUES: usize = 1 << 16;
const ABSENT: u32 = u32::MAX;

/// The catalogues of a set, one of each kind a field.
#[derive(Default)]
pub(crate) struct Catalogues {
    values: Vec<OnceLock<Option<Arc<Values>>>>,
    zones: Vec<OnceLock<Arc<Zones>>>,
}

/// Where each value of a field is.
#[derive(Clone)]
struct Values {
    numbers: Arc<KeyMap<Key, u32>>,
    /// For each value the partitions that have it, ascending, with its ordinal there.
    rows: Vec<Arc<[(u32, u32)]>>,
    /// For each value its documents in all partitions.
    totals: Vec<u64>,
}

/// Smallest and largest key of a field in each partition; `None` where no document has a value.
pub(crate) struct Zones {
    pub(crate) bounds: Vec<Option<Arc<(Key, Key)>>>,
    by_low: OnceLock<Vec<u32>>,
    by_high: OnceLock<Vec<u32>>,
}

/// What the catalogues know of a leaf.
pub(crate) struct Known {
    /// One bit a partition: it has no document that satisfies the leaf.
    absent: Vec<u64>,
    /// For points: the ordinals in partition p are `ords[starts[p]..starts[p + 1]]`.
    ords: Option<(Vec<u32>, Vec<u32>)>,
    /// Documents that satisfy the leaf, at most, if its values are catalogued.
    pub(crate) total: Option<u64>,
}

impl Known {
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

impl Catalogues {
    pub(crate) fn new(fields: usize) -> Catalogues {
        Catalogues {
            values: (0..fields).map(|_| OnceLock::new()).collect(),
            zones: (0..fields).map(|_| OnceLock::new()).collect(),
        }
    }

    /// The catalogues of a set in which partition `p` was replaced, from those of the set before.
    pub(crate) fn replaced(&self, old: &Set, new: &Set, p: usize) -> Result<Catalogues> {
        let next = Catalogues::new(new.schema.fields.len());
        for field in 0..self.values.len() {
            if let Some(Some(values)) = self.values[field].get() {
                let values = values.replaced(old, new, field, p)?;
                let _ = next.values[field].set(Some(Arc::new(values)));
            } else if let Some(None) = self.values[field].get() {
                let _ = next.values[field].set(None);
            }
            if let Some(zones) = self.zones[field].get() {
                let mut bounds = zones.bounds.clone();
                bounds[p] = bounds_of(new, field, p)?;
                let _ = next.zones[field].set(Arc::new(Zones::new(bounds)));
            }
        }
        Ok(next)
    }

    /// What is known of a leaf without touching partitions; `None` if that is not worth it.
    pub(crate) fn known(&self, set: &Set, leaf: &Leaf) -> Result<Option<Known>> {
        if set.partitions.len() < MIN_PARTITIONS {
            return Ok(None);
        }
        match &leaf.test {
            Test::Points(keys) => match self.values(set, leaf.field)? {
                Some(values) => Ok(Some(values.find(keys, set.partitions.len()))),
                None => self.in_zones(set, leaf.field, |low, high| {
                    keys.iter().any(|key| low <= key && key <= high)
                }),
            },
            Test::Range(range) => {
                self.in_zones(set, leaf.field, |low, high| overlaps(range, low, high))
            }
            Test::Exists => self.in_zones(set, leaf.field, |_, _| true),
        }
    }

    fn in_zones(
        &self,
        set: &Set,
        field: usize,
        meets: impl Fn(&Key, &Key) -> bool,
    ) -> Result<Option<Known>> {
        let zones = self.zones(set, field)?;
        let mut absent = vec![0; set.partitions.len().div_ceil(64)];
        for (p, bounds) in zones.bounds.iter().enumerate() {
            if !bounds.as_ref().is_some_and(|bounds| meets(&bounds.0, &bounds.1)) {
                absent[p / 64] |= 1 << (p % 64);
            }
        }
        Ok(Some(Known { absent, ords: None, total: None }))
    }

    pub(crate) fn zones(&self, set: &Set, field: usize) -> Result<&Zones> {
        if self.zones[field].get().is_none() {
            let bounds = (0..set.partitions.len()).map(|p| bounds_of(set, field, p));
            let zones = Zones::new(bounds.collect::<Result<_>>()?);
            let _ = self.zones[field].set(Arc::new(zones)); // another thread may have been faster
        }
        Ok(self.zones[field].get().map(|zones| &**zones).unwrap_or(&EMPTY))
    }

    fn values(&self, set: &Set, field: usize) -> Result<Option<&Values>> {
        if self.values[field].get().is_none() {
            let values = Values::build(set, field)?.map(Arc::new);
            let _ = self.values[field].set(values);
        }
        Ok(self.values[field].get().and_then(|values| values.as_deref()))
    }

    /// Makes everything now.
    pub(crate) fn warm(&self, set: &Set) -> Result<()> {
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
    pub(crate) fn total(&self, set: &Set, leaf: &Leaf) -> Result<Option<u64>> {
        let Test::Points(keys) = &leaf.test else { return Ok(None) };
        if keys.len() != 1 || set.partitions.len() < MIN_PARTITIONS {
            return Ok(None);
        }
        let values = self.values(set, leaf.field)?;
        Ok(values.map(|v| v.numbers.get(&keys[0]).map_or(0, |&n| v.totals[n as usize])))
    }
}

static EMPTY: Zones =
    Zones { bounds: Vec::new(), by_low: OnceLock::new(), by_high: OnceLock::new() };

impl Zones {
    fn new(bounds: Vec<Option<Arc<(Key, Key)>>>) -> Zones {
        Zones { bounds, by_low: OnceLock::new(), by_high: OnceLock::new() }
    }

    /// Partitions in the order of their best key: those that can hold the first documents of an
    /// order come first.
    pub(crate) fn best_first(&self, descending: bool) -> &[u32] {
        let order = if descending { &self.by_high } else { &self.by_low };
        order.get_or_init(|| {
            let mut order: Vec<u32> = (0..self.bounds.len() as u32).collect();
            order.sort_by(|&a, &b| {
                let (a, b) = (&self.bounds[a as usize], &self.bounds[b as usize]);
                match (a, b) {
                    (None, None) => std::cmp::Ordering::Equal,
                    (None, _) => std::cmp::Ordering::Greater,
                    (_, None) => std::cmp::Ordering::Less,
                    (Some(a), Some(b)) if descending => b.1.cmp(&a.1),
                    (Some(a), Some(b)) => a.0.cmp(&b.0),
                }
            });
            order
        })
    }
}

fn bounds_of(set: &Set, field: usize, p: usize) -> Result<Option<Arc<(Key, Key)>>> {
    let part = &set.partitions[p];
    let Some(field) = set.local(p, field) else { return Ok(None) };
    let distinct = part.meta(field).distinct;
    if distinct == 0 {
        return Ok(None);
    }
    let dictionary = part.dictionary(field)?;
    Ok(Some(Arc::new((dictionary.key(0), dictionary.key(distinct - 1)))))
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

impl Values {
    /// `None` if the field has too many distinct values.
    fn build(set: &Set, field: usize) -> Result<Option<Values>> {
        let mut numbers: KeyMap<Key, u32> = KeyMap::default();
        let mut rows: Vec<Vec<(u32, u32)>> = Vec::new();
        let mut totals = Vec::new();
        for (p, part) in set.partitions.iter().enumerate() {
            let Some(local) = set.local(p, field) else { continue };
            let (dictionary, sums) = (part.dictionary(local)?, part.sums(local)?);
            if dictionary.len() > MAX_VALUES {
                return Ok(None);
            }
            for ord in 0..dictionary.len() as u32 {
                let next = rows.len() as u32;
                let number = *numbers.entry(dictionary.key(ord)).or_insert(next);
                if number == next {
                    rows.push(Vec::new());
                    totals.push(0);
                }
                rows[number as usize].push((p as u32, ord));
                totals[number as usize] += documents_of(part, &sums, ord);
            }
            if rows.len() > MAX_VALUES {
                return Ok(None);
            }
        }
        let rows = rows.into_iter().map(Arc::from).collect();
        Ok(Some(Values { numbers: Arc::new(numbers), rows, totals }))
    }

    fn find(&self, keys: &[Key], partitions: usize) -> Known {
        let numbers = keys.iter().filter_map(|key| self.numbers.get(key).map(|&n| n as usize));
        let mut starts = vec![0u32; partitions + 1];
        for number in numbers.clone() {
            self.rows[number].iter().for_each(|&(p, _)| starts[p as usize + 1] += 1);
        }
        let mut absent = vec![0u64; partitions.div_ceil(64)];
        for p in 0..partitions {
            if starts[p + 1] == 0 {
                absent[p / 64] |= 1 << (p % 64);
            }
            starts[p + 1] += starts[p];
        }
        let mut next = starts.clone();
        let mut ords = vec![ABSENT; starts[partitions] as usize];
        for number in numbers.clone() {
            for &(p, ord) in &*self.rows[number] {
                ords[next[p as usize] as usize] = ord;
                next[p as usize] += 1;
            }
        }
        let total = Some(numbers.map(|n| self.totals[n]).sum());
        Known { absent, ords: Some((starts, ords)), total }
    }

    /// These values after partition `p` was replaced: a row changes only if the value's ordinal
    /// there does.
    fn replaced(&self, old: &Set, new: &Set, field: usize, p: usize) -> Result<Values> {
        let mut next = self.clone();
        let mut before: KeyMap<u64, u32> = KeyMap::default();
        each_key(old, field, p, |ord, key, count| {
            if let Some(&number) = next.numbers.get(&key) {
                let total = &mut next.totals[number as usize];
                *total = total.saturating_sub(count);
                before.insert(u64::from(number), ord);
            }
        })?;
        each_key(new, field, p, |ord, key, count| {
            let known = next.numbers.get(&key).copied();
            let number = known.unwrap_or_else(|| {
                Arc::make_mut(&mut next.numbers).insert(key, next.rows.len() as u32);
                next.rows.push(Arc::from([]));
                next.totals.push(0);
                next.rows.len() as u32 - 1
            }) as usize;
            let total = &mut next.totals[number];
            *total = total.saturating_add(count);
            let place = (p as u32, ord);
            match before.remove(&(number as u64)) {
                Some(same) if same == ord => {}
                Some(_) => next.rows[number] = changed_row(&next.rows[number], p, Some(place), 1),
                None => next.rows[number] = changed_row(&next.rows[number], p, Some(place), 0),
            }
        })?;
        for number in before.into_keys() {
            let row = &mut next.rows[number as usize];
            *row = changed_row(row, p, None, 1);
        }
        Ok(next)
    }
}

/// A row in which the `gone` entries of partition `p` give way to `place`.
fn changed_row(
    row: &[(u32, u32)],
    p: usize,
    place: Option<(u32, u32)>,
    gone: usize,
) -> Arc<[(u32, u32)]> {
    let at = row.partition_point(|&(q, _)| (q as usize) < p);
    let mut changed = Vec::with_capacity(row.len() + 1);
    changed.extend_from_slice(&row[..at]);
    changed.extend(place);
    changed.extend_from_slice(row.get(at + gone..).unwrap_or(&[]));
    Arc::from(changed)
}

fn each_key(set: &Set, field: usize, p: usize, mut each: impl FnMut(u32, Key, u64)) -> Result<()> {
    let part: &Partition = &set.partitions[p];
    let Some(field) = set.local(p, field) else { return Ok(()) };
    let (dictionary, sums) = (part.dictionary(field)?, part.sums(field)?);
    for ord in 0..dictionary.len() as u32 {
        each(ord, dictionary.key(ord), documents_of(part, &sums, ord));
    }
    Ok(())
}

/// Documents of a partition that have a value: no more than there are, whatever the file says.
fn documents_of(part: &Partition, sums: &Increasing, ord: u32) -> u64 {
    let count = sums.get(ord as usize + 1).wrapping_sub(sums.get(ord as usize));
    count.min(u64::from(part.documents))
}
