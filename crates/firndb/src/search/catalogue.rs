//! What a set of partitions knows of its values without touching a partition: the smallest and
//! largest key of each field in each partition ("zones"), and for fields of few distinct values the
//! partitions and ordinals of each.
//!
//! Both are made for a field when a query first needs them, and carried over when partitions are
//! replaced: then only keys in which the old and the new partition differ are looked up, and what
//! does not change is shared by the sets.

use super::bind::push_interval;
use super::chunks::Chunks;
use super::condition::Interval;
use super::dictionary::Dictionary;
use super::intern::KeyMap;
use super::partition::Partition;
use super::plan::{Leaf, Test};
use super::set::Set;
use super::value::Key;
use crate::Result;
use crate::bytes::increasing::Increasing;
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

/// With fewer partitions their dictionaries are as fast.
pub(crate) const MIN_PARTITIONS: usize = 4;
/// Distinct values of a field over all partitions, beyond which its values are not catalogued.
const MAX_VALUES: usize = 1 << 16;
/// Entries of such a catalogue at most, one for each value that a partition has: 64 MiB.
const MAX_ENTRIES: usize = 1 << 23;
/// Values that replaced partitions brought, beyond which the table of all values is copied.
const MAX_ADDED: usize = 1 << 10;
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
    /// Numbers of the values that came since `numbers` was made.
    added: KeyMap<Key, u32>,
    /// For each value the partitions that have it, ascending, with its ordinal there.
    rows: Chunks<Arc<[(u32, u32)]>>,
    /// The length of all rows together.
    entries: usize,
    /// For each value its documents in all partitions.
    totals: Vec<u64>,
}

/// Smallest and largest key of a field in each partition; `None` where no document has a value.
pub(crate) struct Zones {
    bounds: Chunks<Option<(Key, Key)>>,
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

    /// The catalogues of a set in which partitions were replaced, from those of the set before.
    pub(crate) fn replaced(&self, old: &Set, new: &Set, changed: &[usize]) -> Result<Catalogues> {
        let next = Catalogues::new(new.schema.fields.len());
        for field in 0..self.values.len() {
            if let Some(values) = self.values[field].get() {
                let Some(values) = values else {
                    let _ = next.values[field].set(None);
                    continue;
                };
                let mut values = Values::clone(values);
                for &p in changed {
                    values.replace(old, new, field, p)?;
                }
                // With too many values that are gone it is made anew when a query needs it.
                if values.rows.len() <= MAX_VALUES && values.entries <= MAX_ENTRIES {
                    let _ = next.values[field].set(Some(Arc::new(values)));
                }
            }
            if let Some(zones) = self.zones[field].get() {
                let mut bounds = zones.bounds.clone();
                for &p in changed {
                    if let Some(place) = bounds.get_mut(p) {
                        *place = bounds_of(new, field, p)?;
                    }
                }
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
        Ok(values.map(|v| v.number(&keys[0]).map_or(0, |n| v.totals[n])))
    }
}

static EMPTY: Zones =
    Zones { bounds: Chunks::new(), by_low: OnceLock::new(), by_high: OnceLock::new() };

impl Zones {
    fn new(bounds: Chunks<Option<(Key, Key)>>) -> Zones {
        Zones { bounds, by_low: OnceLock::new(), by_high: OnceLock::new() }
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

fn bounds_of(set: &Set, field: usize, p: usize) -> Result<Option<(Key, Key)>> {
    let part = &set.partitions[p];
    let Some(field) = set.local(p, field) else { return Ok(None) };
    let distinct = part.meta(field).distinct;
    if distinct == 0 {
        return Ok(None);
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

impl Values {
    /// `None` if the field has too many distinct values, or in too many partitions.
    fn build(set: &Set, field: usize) -> Result<Option<Values>> {
        let mut numbers: KeyMap<Key, u32> = KeyMap::default();
        let mut entries = 0;
        let mut rows: Vec<Vec<(u32, u32)>> = Vec::new();
        let mut totals = Vec::new();
        for (p, part) in set.partitions.iter().enumerate() {
            let Some(local) = set.local(p, field) else { continue };
            let (dictionary, sums) = (part.dictionary(local)?, part.sums(local)?);
            entries += dictionary.len();
            if dictionary.len() > MAX_VALUES || entries > MAX_ENTRIES {
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
        let (numbers, added) = (Arc::new(numbers), KeyMap::default());
        Ok(Some(Values { numbers, added, rows, entries, totals }))
    }

    fn number(&self, key: &Key) -> Option<usize> {
        let number = self.numbers.get(key).or_else(|| self.added.get(key));
        number.map(|&number| number as usize)
    }

    fn row(&self, number: usize) -> &[(u32, u32)] {
        self.rows.get(number).map_or(&[], |row| row)
    }

    fn find(&self, keys: &[Key], partitions: usize) -> Known {
        let numbers = keys.iter().filter_map(|key| self.number(key));
        let mut starts = vec![0u32; partitions + 1];
        for number in numbers.clone() {
            self.row(number).iter().for_each(|&(p, _)| starts[p as usize + 1] += 1);
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
            for &(p, ord) in self.row(number) {
                ords[next[p as usize] as usize] = ord;
                next[p as usize] += 1;
            }
        }
        let total = Some(numbers.map(|n| self.totals[n]).sum());
        Known { absent, ords: Some((starts, ords)), total }
    }

    /// Takes the values of the new partition `p` for those of the old one. Both have their keys in
    /// order; a row changes only if the value's ordinal in the partition does.
    fn replace(&mut self, old: &Set, new: &Set, field: usize, p: usize) -> Result<()> {
        let (gone, come) = (Keyed::of(old, field, p)?, Keyed::of(new, field, p)?);
        let (mut i, mut j) = (0, 0);
        while i < gone.len() || j < come.len() {
            match gone.compare(i, &come, j) {
                Ordering::Less => {
                    if let Some(number) = self.number(&gone.key(i)) {
                        self.put(number, p, None, gone.documents(i), 0);
                    }
                    i += 1;
                }
                Ordering::Greater => {
                    let number = self.number_or_add(come.key(j));
                    self.put(number, p, Some(j), 0, come.documents(j));
                    j += 1;
                }
                Ordering::Equal => {
                    let (before, after) = (gone.documents(i), come.documents(j));
                    if i != j || before != after {
                        let number = self.number_or_add(come.key(j));
                        self.put(number, p, Some(j), before, after);
                    }
                    (i, j) = (i + 1, j + 1);
                }
            }
        }
        Ok(())
    }

    fn number_or_add(&mut self, key: Key) -> usize {
        if let Some(number) = self.number(&key) {
            return number;
        }
        if self.added.len() >= MAX_ADDED {
            Arc::make_mut(&mut self.numbers).extend(self.added.drain());
        }
        let number = self.rows.len();
        self.added.insert(key, number as u32);
        self.rows.push(Arc::from([]));
        self.totals.push(0);
        number
    }

    /// Sets the ordinal of a value in partition `p`, and the number of its documents there.
    fn put(&mut self, number: usize, p: usize, ord: Option<u32>, before: u64, after: u64) {
        let total = &mut self.totals[number];
        *total = total.saturating_sub(before).saturating_add(after);
        let row = self.row(number);
        let at = row.partition_point(|&(q, _)| (q as usize) < p);
        let here = row.get(at).is_some_and(|&(q, _)| q as usize == p);
        if here && ord == Some(row[at].1) {
            return;
        }
        let place = ord.map(|ord| (p as u32, ord));
        let rest = &row[at + usize::from(here)..];
        let row = row[..at].iter().copied().chain(place).chain(rest.iter().copied()).collect();
        if let Some(old) = self.rows.get_mut(number) {
            self.entries = self.entries + usize::from(ord.is_some()) - usize::from(here);
            *old = row;
        }
    }
}

/// The keys of a field in a partition with the numbers of their documents; none if the partition
/// does not have the field.
struct Keyed<'p> {
    part: &'p Partition,
    keys: Option<(Dictionary<'p>, Increasing<'p>)>,
}

impl<'p> Keyed<'p> {
    fn of(set: &'p Set, field: usize, p: usize) -> Result<Keyed<'p>> {
        let part: &Partition = &set.partitions[p];
        let keys = match set.local(p, field) {
            Some(field) => Some((part.dictionary(field)?, part.sums(field)?)),
            None => None,
        };
        Ok(Keyed { part, keys })
    }

    fn len(&self) -> u32 {
        self.keys.as_ref().map_or(0, |(dictionary, _)| dictionary.len() as u32)
    }

    fn key(&self, ord: u32) -> Key {
        self.keys.as_ref().map_or(Key::Fixed(0), |(dictionary, _)| dictionary.key(ord))
    }

    fn documents(&self, ord: u32) -> u64 {
        self.keys.as_ref().map_or(0, |(_, sums)| documents_of(self.part, sums, ord))
    }

    /// Compares key `i` with key `j` of another partition; a key that is not there comes last.
    fn compare(&self, i: u32, other: &Keyed, j: u32) -> Ordering {
        match (&self.keys, &other.keys) {
            (Some((a, _)), Some((b, _))) if i < self.len() && j < other.len() => {
                let bytes = || a.bytes_key(i).cmp(b.bytes_key(j));
                a.fixed_key(i).cmp(&b.fixed_key(j)).then_with(bytes)
            }
            _ => (i >= self.len()).cmp(&(j >= other.len())),
        }
    }
}

/// Documents of a partition that have a value: no more than there are, whatever the file says.
fn documents_of(part: &Partition, sums: &Increasing, ord: u32) -> u64 {
    let count = sums.get(ord as usize + 1).wrapping_sub(sums.get(ord as usize));
    count.min(u64::from(part.documents))
}

#[cfg(test)]
impl Catalogues {
    /// What is catalogued of a field: each value that is somewhere with its documents and places,
    /// and the bounds of all partitions.
    pub(crate) fn dump(&self, set: &Set, field: usize) -> Result<String> {
        let mut text = format!("{:?}", self.zones(set, field)?.bounds.iter().collect::<Vec<_>>());
        if let Some(values) = self.values(set, field)? {
            assert_eq!(values.rows.iter().map(|row| row.len()).sum::<usize>(), values.entries);
            let numbers = values.numbers.iter().chain(&values.added);
            let mut lines: Vec<String> = numbers
                .filter(|&(_, &n)| !values.row(n as usize).is_empty())
                .map(|(key, &n)| (key, values.totals[n as usize], values.row(n as usize)))
                .map(|line| format!("{line:?}"))
                .collect();
            lines.sort();
            text += &lines.join("\n");
        }
        Ok(text)
    }

    /// Whether the values of a field were catalogued already.
    pub(crate) fn is_made(&self, field: usize) -> bool {
        self.values[field].get().is_some() && self.zones[field].get().is_some()
    }
}
