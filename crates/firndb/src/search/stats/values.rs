//! The values of a field over all partitions of a set: in which partitions each is, under which
//! ordinal, and how many documents have it.

use super::slots::Slots;
use super::{ABSENT, LeafStatistics};
use crate::bytes::monotonic::Monotonic;
use crate::search::codec::dictionary::Dictionary;
use crate::search::model::key_map::KeyMap;
use crate::search::model::value::Key;
use crate::search::partition::Partition;
use crate::search::partition::set::{PartitionSet, SetChanges};
use crate::search::stats::cow_vec::CowVec;
use crate::{Error, Result};
use std::cmp::Ordering;
use std::sync::Arc;

/// Distinct values of a field over all partitions, beyond which its values are not catalogued.
const MAX_VALUES: usize = 1 << 16;
/// Entries of such a statistics at most, one for each value that a partition has: 64 MiB.
const MAX_ENTRIES: usize = 1 << 23;
/// ValueTable that changed partitions brought, beyond which the table of all values is copied.
const MAX_ADDED: usize = 1 << 10;

/// Where each value of a field is.
#[derive(Clone)]
pub(crate) struct ValueTable {
    numbers: Arc<KeyMap<Key, u32>>,
    /// Numbers of the values that came since `numbers` was made.
    added: KeyMap<Key, u32>,
    /// For each value the slots of the partitions that have it, ascending, with its ordinal there.
    rows: CowVec<Arc<[(u32, u32)]>>,
    /// The length of all rows together.
    entries: usize,
    /// For each value its documents in all partitions.
    pub(crate) totals: Vec<u64>,
}

impl ValueTable {
    /// `None` if the field has too many distinct values, or in too many partitions, or if its keys
    /// would have to be made for it.
    pub(crate) fn build(
        set: &PartitionSet,
        slots: &Slots,
        field: usize,
    ) -> Result<Option<ValueTable>> {
        let mut numbers: KeyMap<Key, u32> = KeyMap::default();
        let mut entries = 0;
        let mut rows: Vec<Vec<(u32, u32)>> = Vec::new();
        let mut totals = Vec::new();
        for p in 0..set.partitions.len() {
            if has_no_keys(set, field, p) {
                return Ok(None);
            }
            let keyed = Keyed::of(set, field, p)?;
            entries += keyed.len() as usize;
            if keyed.len() as usize > MAX_VALUES || entries > MAX_ENTRIES {
                return Ok(None);
            }
            for ord in 0..keyed.len() {
                let next = rows.len() as u32;
                let number = *numbers.entry(keyed.key(ord)).or_insert(next);
                if number == next {
                    rows.push(Vec::new());
                    totals.push(0);
                }
                rows[number as usize].push((slots.of(p), ord));
                totals[number as usize] += keyed.documents(ord);
            }
            if rows.len() > MAX_VALUES {
                return Ok(None);
            }
        }
        // Partitions were not visited in the order of their slots.
        rows.iter_mut().for_each(|row| row.sort_unstable());
        let rows = rows.into_iter().map(Arc::from).collect();
        let (numbers, added) = (Arc::new(numbers), KeyMap::default());
        Ok(Some(ValueTable { numbers, added, rows, entries, totals }))
    }

    pub(crate) fn number(&self, key: &Key) -> Option<usize> {
        let number = self.numbers.get(key).or_else(|| self.added.get(key));
        number.map(|&number| number as usize)
    }

    fn row(&self, number: usize) -> &[(u32, u32)] {
        self.rows.get(number).map_or(&[], |row| row)
    }

    pub(crate) fn find(&self, keys: &[Key], slots: &Slots) -> LeafStatistics {
        let partitions = slots.partitions();
        let numbers = keys.iter().filter_map(|key| self.number(key));
        let mut starts = vec![0u32; partitions + 1];
        for number in numbers.clone() {
            self.places(number, slots).for_each(|(p, _)| starts[p + 1] += 1);
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
            for (p, ord) in self.places(number, slots) {
                ords[next[p] as usize] = ord;
                next[p] += 1;
            }
        }
        let total = Some(numbers.map(|n| self.totals[n]).sum());
        LeafStatistics { absent, ords: Some((starts, ords)), total }
    }

    /// The partitions that have a value, with its ordinal there.
    fn places<'a>(
        &'a self,
        number: usize,
        slots: &'a Slots,
    ) -> impl Iterator<Item = (usize, u32)> + 'a {
        let row = self.row(number).iter();
        row.filter_map(|&(slot, ord)| Some((slots.partition(slot)?, ord)))
    }

    /// The values of the set that follows; `None` if there are too many.
    pub(crate) fn next(
        &self,
        sets: [&PartitionSet; 2],
        slots: [&Slots; 2],
        changes: &SetChanges,
        field: usize,
    ) -> Result<Option<ValueTable>> {
        let mut values = self.clone();
        let [old, new] = sets;
        for &p in &changes.gone {
            let gone = Keyed::of(old, field, p)?;
            values.replace(&gone, &Keyed::NONE, slots[0].of(p));
        }
        for &p in &changes.come {
            if has_no_keys(new, field, p) {
                return Ok(None);
            }
            let gone = match changes.before[p] {
                Some(before) => Keyed::of(old, field, before)?,
                None => Keyed::NONE,
            };
            let come = Keyed::of(new, field, p)?;
            if come.len() as usize > MAX_VALUES {
                return Ok(None);
            }
            values.replace(&gone, &come, slots[1].of(p));
            if values.rows.len() > MAX_VALUES || values.entries > MAX_ENTRIES {
                return Ok(None);
            }
        }
        Ok(Some(values))
    }

    /// Takes the values of a new partition for those of the old one in its slot. Both have their
    /// keys in order; a row changes only if the value's ordinal in the partition does.
    fn replace(&mut self, gone: &Keyed, come: &Keyed, slot: u32) {
        let (mut i, mut j) = (0, 0);
        while i < gone.len() || j < come.len() {
            match gone.compare(i, come, j) {
                Ordering::Less => {
                    if let Some(number) = self.number(&gone.key(i)) {
                        self.put(number, slot, None, gone.documents(i), 0);
                    }
                    i += 1;
                }
                Ordering::Greater => {
                    let number = self.number_or_add(come.key(j));
                    self.put(number, slot, Some(j), 0, come.documents(j));
                    j += 1;
                }
                Ordering::Equal => {
                    let (before, after) = (gone.documents(i), come.documents(j));
                    if i != j || before != after {
                        let number = self.number_or_add(come.key(j));
                        self.put(number, slot, Some(j), before, after);
                    }
                    (i, j) = (i + 1, j + 1);
                }
            }
        }
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

    /// Sets the ordinal of a value in a slot, and the number of its documents there.
    fn put(&mut self, number: usize, slot: u32, ord: Option<u32>, before: u64, after: u64) {
        let total = &mut self.totals[number];
        *total = total.saturating_sub(before).saturating_add(after);
        let row = self.row(number);
        let at = row.partition_point(|&(other, _)| other < slot);
        let here = row.get(at).is_some_and(|&(other, _)| other == slot);
        if here && ord == Some(row[at].1) {
            return;
        }
        let place = ord.map(|ord| (slot, ord));
        let rest = &row[at + usize::from(here)..];
        let row = row[..at].iter().copied().chain(place).chain(rest.iter().copied()).collect();
        if let Some(old) = self.rows.get_mut(number) {
            self.entries = self.entries + usize::from(ord.is_some()) - usize::from(here);
            *old = row;
        }
    }
}

/// Whether the keys of a field in a partition are made of its points when something needs them.
fn has_no_keys(set: &PartitionSet, field: usize, p: usize) -> bool {
    set.local(p, field).is_some_and(|field| set.partitions[p].meta(field).values().is_some())
}

/// The keys of a field in a partition with the numbers of their documents; none if the partition
/// does not have the field.
struct Keyed<'p> {
    documents: u32,
    keys: Option<(Dictionary<'p>, Monotonic<'p>)>,
}

impl<'p> Keyed<'p> {
    /// Of a partition that is not there.
    const NONE: Keyed<'static> = Keyed { documents: 0, keys: None };

    fn of(set: &'p PartitionSet, field: usize, p: usize) -> Result<Keyed<'p>> {
        let part: &Partition = &set.partitions[p];
        let keys = match set.local(p, field) {
            Some(field) => Some((part.dictionary(field)?, part.offsets(field)?)),
            None => None,
        };
        let keyed = Keyed { documents: part.documents, keys };
        // What is carried over later relies on it; too many are not catalogued anyway.
        let ascend = |i| keyed.compare(i - 1, &keyed, i) == Ordering::Less;
        match keyed.len() as usize > MAX_VALUES || (1..keyed.len()).all(ascend) {
            true => Ok(keyed),
            false => Err(Error::corrupt("keys are out of order").in_file(part.file.path())),
        }
    }

    fn len(&self) -> u32 {
        self.keys.as_ref().map_or(0, |(dictionary, _)| dictionary.len() as u32)
    }

    fn key(&self, ord: u32) -> Key {
        self.keys.as_ref().map_or(Key::Fixed(0), |(dictionary, _)| dictionary.key(ord))
    }

    fn documents(&self, ord: u32) -> u64 {
        self.keys.as_ref().map_or(0, |(_, offsets)| documents_of(self.documents, offsets, ord))
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
fn documents_of(documents: u32, offsets: &Monotonic, ord: u32) -> u64 {
    let count = offsets.get(ord as usize + 1).wrapping_sub(offsets.get(ord as usize));
    count.min(u64::from(documents))
}

#[cfg(test)]
impl ValueTable {
    /// Each value that is somewhere with its documents and places.
    pub(crate) fn dump(&self, slots: &Slots) -> String {
        let all: usize = self.rows.iter().map(|row| row.len()).sum();
        assert_eq!(all, self.entries);
        assert!(self.rows.iter().all(|row| row.is_sorted()));
        let numbers = self.numbers.iter().chain(&self.added);
        let line = |(key, &number): (&Key, &u32)| {
            let mut places: Vec<_> = self.places(number as usize, slots).collect();
            places.sort_unstable();
            assert_eq!(places.len(), self.row(number as usize).len(), "a row of nobody");
            (!places.is_empty())
                .then(|| format!("{key:?} {} {places:?}", self.totals[number as usize]))
        };
        let mut lines: Vec<String> = numbers.filter_map(line).collect();
        lines.sort();
        lines.join("\n")
    }
}
