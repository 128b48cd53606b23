//! The distinct values of a field over all partitions of a set: for each value the partitions that
//! contain it, its ordinal in each of them, and its total number of documents.

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

/// The maximum number of distinct values of a field over all partitions; beyond, it has no table.
const MAX_VALUES: usize = 1 << 16;
/// The maximum number of entries of a table, one per value and partition that contains it: 64 MiB.
const MAX_ENTRIES: usize = 1 << 23;
/// The maximum size of `added`; beyond, it is merged into a copy of `numbers`.
const MAX_ADDED: usize = 1 << 10;

/// The value table of a field.
#[derive(Clone)]
pub(crate) struct ValueTable {
    /// The number of each value, an index into `rows` and `totals`. Shared between sets.
    numbers: Arc<KeyMap<Key, u32>>,
    /// The numbers of values added since `numbers` was built.
    added: KeyMap<Key, u32>,
    /// For each value, the slots of the partitions that contain it, ascending, and its ordinals.
    rows: CowVec<Arc<[(u32, u32)]>>,
    /// The total length of all rows.
    entries: usize,
    /// For each value, its number of documents in all partitions.
    pub(crate) totals: Vec<u64>,
}

impl ValueTable {
    /// Builds the table of a field. `None` if it would exceed [`MAX_VALUES`] or [`MAX_ENTRIES`], or
    /// if a partition would have to derive the keys from its points.
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
            if derives_keys(set, field, p) {
                return Ok(None);
            }
            let keyed = PartitionKeys::of(set, field, p)?;
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
        // Slots do not ascend with the numbers of partitions.
        rows.iter_mut().for_each(|row| row.sort_unstable());
        let rows = rows.into_iter().map(Arc::from).collect();
        let (numbers, added) = (Arc::new(numbers), KeyMap::default());
        Ok(Some(ValueTable { numbers, added, rows, entries, totals }))
    }

    /// The number of a value.
    pub(crate) fn number(&self, key: &Key) -> Option<usize> {
        let number = self.numbers.get(key).or_else(|| self.added.get(key));
        number.map(|&number| number as usize)
    }

    fn row(&self, number: usize) -> &[(u32, u32)] {
        self.rows.get(number).map_or(&[], |row| row)
    }

    /// Evaluates a leaf that matches any of these keys.
    pub(crate) fn find(&self, keys: &[Key], slots: &Slots) -> LeafStatistics {
        let partitions = slots.partition_count();
        let numbers = keys.iter().filter_map(|key| self.number(key));
        let mut starts = vec![0u32; partitions + 1];
        for number in numbers.clone() {
            self.occurrences(number, slots).for_each(|(p, _)| starts[p + 1] += 1);
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
            for (p, ord) in self.occurrences(number, slots) {
                ords[next[p] as usize] = ord;
                next[p] += 1;
            }
        }
        let total = Some(numbers.map(|n| self.totals[n]).sum());
        LeafStatistics { absent, ords: Some((starts, ords)), total }
    }

    /// The partitions that contain a value, with its ordinal in each.
    fn occurrences<'a>(
        &'a self,
        number: usize,
        slots: &'a Slots,
    ) -> impl Iterator<Item = (usize, u32)> + 'a {
        let row = self.row(number).iter();
        row.filter_map(|&(slot, ord)| Some((slots.partition(slot)?, ord)))
    }

    /// The table of the successor of a set. `sets` and `slots` are old and new. `None` if the table
    /// would exceed the limits of [`ValueTable::build`].
    pub(crate) fn next(
        &self,
        sets: [&PartitionSet; 2],
        slots: [&Slots; 2],
        changes: &SetChanges,
        field: usize,
    ) -> Result<Option<ValueTable>> {
        let mut values = self.clone();
        let [old, new] = sets;
        for &p in &changes.removed {
            let old_keys = PartitionKeys::of(old, field, p)?;
            values.replace(&old_keys, &PartitionKeys::NONE, slots[0].of(p));
        }
        for &p in &changes.added {
            if derives_keys(new, field, p) {
                return Ok(None);
            }
            let old_keys = match changes.before[p] {
                Some(before) => PartitionKeys::of(old, field, before)?,
                None => PartitionKeys::NONE,
            };
            let new_keys = PartitionKeys::of(new, field, p)?;
            if new_keys.len() as usize > MAX_VALUES {
                return Ok(None);
            }
            values.replace(&old_keys, &new_keys, slots[1].of(p));
            if values.rows.len() > MAX_VALUES || values.entries > MAX_ENTRIES {
                return Ok(None);
            }
        }
        Ok(Some(values))
    }

    /// Replaces the values of the old partition in a slot with those of the new one, by merging
    /// their sorted keys. A row is copied only if its value's ordinal in the partition changes.
    fn replace(&mut self, old_keys: &PartitionKeys, new_keys: &PartitionKeys, slot: u32) {
        let (mut i, mut j) = (0, 0);
        while i < old_keys.len() || j < new_keys.len() {
            match old_keys.compare(i, new_keys, j) {
                Ordering::Less => {
                    if let Some(number) = self.number(&old_keys.key(i)) {
                        self.set_occurrence(number, slot, None, old_keys.documents(i), 0);
                    }
                    i += 1;
                }
                Ordering::Greater => {
                    let number = self.number_or_add(new_keys.key(j));
                    self.set_occurrence(number, slot, Some(j), 0, new_keys.documents(j));
                    j += 1;
                }
                Ordering::Equal => {
                    let (before, after) = (old_keys.documents(i), new_keys.documents(j));
                    if i != j || before != after {
                        let number = self.number_or_add(new_keys.key(j));
                        self.set_occurrence(number, slot, Some(j), before, after);
                    }
                    (i, j) = (i + 1, j + 1);
                }
            }
        }
    }

    /// The number of a value; adds it if it is new.
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

    /// Sets the ordinal of a value in a slot; `None` removes it. `before` and `after` are its
    /// numbers of documents in the old and the new partition.
    fn set_occurrence(
        &mut self,
        number: usize,
        slot: u32,
        ord: Option<u32>,
        before: u64,
        after: u64,
    ) {
        let total = &mut self.totals[number];
        *total = total.saturating_sub(before).saturating_add(after);
        let row = self.row(number);
        let at = row.partition_point(|&(other, _)| other < slot);
        let found = row.get(at).is_some_and(|&(other, _)| other == slot);
        if found && ord == Some(row[at].1) {
            return;
        }
        let entry = ord.map(|ord| (slot, ord));
        let rest = &row[at + usize::from(found)..];
        let row = row[..at].iter().copied().chain(entry).chain(rest.iter().copied()).collect();
        if let Some(old) = self.rows.get_mut(number) {
            self.entries = self.entries + usize::from(ord.is_some()) - usize::from(found);
            *old = row;
        }
    }
}

/// Whether a partition has no dictionary for a field and would derive it from its points.
fn derives_keys(set: &PartitionSet, field: usize, p: usize) -> bool {
    set.local(p, field).is_some_and(|field| set.partitions[p].meta(field).values().is_some())
}

/// The keys of a field in a partition, and the number of documents of each. Empty if the partition
/// lacks the field.
struct PartitionKeys<'p> {
    documents: u32,
    keys: Option<(Dictionary<'p>, Monotonic<'p>)>,
}

impl<'p> PartitionKeys<'p> {
    /// Stands for a partition that does not exist.
    const NONE: PartitionKeys<'static> = PartitionKeys { documents: 0, keys: None };

    fn of(set: &'p PartitionSet, field: usize, p: usize) -> Result<PartitionKeys<'p>> {
        let part: &Partition = &set.partitions[p];
        let keys = match set.local(p, field) {
            Some(field) => Some((part.dictionary(field)?, part.offsets(field)?)),
            None => None,
        };
        let keyed = PartitionKeys { documents: part.documents, keys };
        // `replace` relies on sorted keys. Fields with too many keys get no table anyway.
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

    /// Compares key `i` with key `j` of another partition. Keys past the end are the greatest.
    fn compare(&self, i: u32, other: &PartitionKeys, j: u32) -> Ordering {
        match (&self.keys, &other.keys) {
            (Some((a, _)), Some((b, _))) if i < self.len() && j < other.len() => {
                let bytes = || a.bytes_key(i).cmp(b.bytes_key(j));
                a.fixed_key(i).cmp(&b.fixed_key(j)).then_with(bytes)
            }
            _ => (i >= self.len()).cmp(&(j >= other.len())),
        }
    }
}

/// The number of documents of a partition that have a value, capped at `documents` in case the file
/// is damaged.
fn documents_of(documents: u32, offsets: &Monotonic, ord: u32) -> u64 {
    let count = offsets.get(ord as usize + 1).wrapping_sub(offsets.get(ord as usize));
    count.min(u64::from(documents))
}

#[cfg(test)]
impl ValueTable {
    /// Each value of the set, with its number of documents, partitions and ordinals.
    pub(crate) fn dump(&self, slots: &Slots) -> String {
        let all: usize = self.rows.iter().map(|row| row.len()).sum();
        assert_eq!(all, self.entries);
        assert!(self.rows.iter().all(|row| row.is_sorted()));
        let numbers = self.numbers.iter().chain(&self.added);
        let line = |(key, &number): (&Key, &u32)| {
            let mut found: Vec<_> = self.occurrences(number as usize, slots).collect();
            found.sort_unstable();
            assert_eq!(found.len(), self.row(number as usize).len(), "a row refers to a free slot");
            (!found.is_empty())
                .then(|| format!("{key:?} {} {found:?}", self.totals[number as usize]))
        };
        let mut lines: Vec<String> = numbers.filter_map(line).collect();
        lines.sort();
        lines.join("\n")
    }
}
