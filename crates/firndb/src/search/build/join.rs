//! Concatenates a field of several partitions: merges the keys and remaps the ordinals.
//!
//! The input is a list of runs of documents, each from one of several *sources*. If most keys come
//! from one source (a bundle of which a few partitions were replaced), the keys of the others are
//! looked up in its sorted keys. The cost is then a copy of that source plus work proportional to
//! the others.

use crate::search::build::builder::empty_field;
use crate::search::build::partition_writer::{FieldData, reorder};
use crate::search::codec::column::{Column, MISSING, Ordinals};
use crate::search::codec::dictionary::{Dictionary, Keys};
use crate::search::model::schema::Field;
use crate::search::partition::Partition;
use crate::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// The input of a join: runs of documents of some partitions, in their new order.
pub(crate) struct JoinInput<'p> {
    sources: Vec<&'p Partition>,
    /// The number of a source, and a range of its documents. The ranges of a source ascend.
    runs: Vec<(usize, Range<u32>)>,
}

impl<'p> JoinInput<'p> {
    pub(crate) fn new() -> JoinInput<'p> {
        JoinInput { sources: Vec::new(), runs: Vec::new() }
    }

    /// All documents of these partitions.
    pub(crate) fn all_of(parts: &'p [Arc<Partition>]) -> JoinInput<'p> {
        let mut input = JoinInput::new();
        for part in parts {
            let source = input.add_source(part);
            input.push(source, 0..part.documents);
        }
        input
    }

    /// Adds a source, without any of its documents. Returns its number.
    pub(crate) fn add_source(&mut self, part: &'p Partition) -> usize {
        self.sources.push(part);
        self.sources.len() - 1
    }

    /// Appends documents of a source.
    pub(crate) fn push(&mut self, source: usize, docs: Range<u32>) {
        match self.runs.last_mut() {
            Some((last, run)) if *last == source && run.end == docs.start => run.end = docs.end,
            _ => self.runs.push((source, docs)),
        }
    }

    /// The document ranges of a source.
    fn ranges_of(&self, source: usize) -> impl Iterator<Item = Range<usize>> {
        let own = self.runs.iter().filter(move |(other, _)| *other == source);
        own.map(|(_, docs)| docs.start as usize..docs.end as usize)
    }
}

/// The distinct keys of a source in ascending order.
enum SortedKeys<'p> {
    Fixed(Vec<u64>),
    Bytes(Vec<&'p [u8]>),
}

impl<'p> SortedKeys<'p> {
    /// All keys of a field. Errors: `Corrupt` if they do not ascend.
    fn of(part: &'p Partition, field: usize) -> Result<SortedKeys<'p>> {
        let (keys, ascend) = match part.dictionary(field)? {
            Dictionary::Fixed(keys) => {
                let keys = keys.decode();
                let ascend = keys.is_sorted_by(|a, b| a < b);
                (SortedKeys::Fixed(keys), ascend)
            }
            dictionary => {
                let all = 0..dictionary.len() as u32;
                let keys: Vec<_> = all.map(|ord| dictionary.bytes_key(ord)).collect();
                let ascend = keys.is_sorted_by(|a, b| a < b);
                (SortedKeys::Bytes(keys), ascend)
            }
        };
        match ascend {
            true => Ok(keys),
            false => {
                Err(Error::corrupt("the keys of a field do not ascend").in_file(part.file.path()))
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            SortedKeys::Fixed(keys) => keys.len(),
            SortedKeys::Bytes(keys) => keys.len(),
        }
    }
}

/// A field of a source: its keys, and the ordinals of all documents.
struct SourceField<'p> {
    keys: SortedKeys<'p>,
    ordinals: Ordinals,
    /// Ordinals of the keys that no joined document has, ascending. They are not in `keys`.
    unused: Vec<u32>,
}

/// Joins a field of all sources. Sources that lack the field contribute documents without a value.
pub(crate) fn join_field(field: &Field, input: &JoinInput) -> Result<FieldData> {
    let mut sources = Vec::with_capacity(input.sources.len());
    for (i, &part) in input.sources.iter().enumerate() {
        sources.push(match part.schema.field(&field.name) {
            Some((local, _)) => SourceField::of(part, local, input.ranges_of(i))?,
            None => SourceField::empty(field, part.documents),
        });
    }
    let values: usize = sources.iter().map(SourceField::values).sum();
    if values > u32::MAX as usize {
        return Err(Error::invalid(format!(
            "the partitions have {values} values of `{}` together; one has at most {}",
            field.name,
            u32::MAX
        )));
    }
    let (keys, mut maps) = merge_keys(&mut sources);
    for (map, source) in maps.iter_mut().zip(&sources) {
        insert_gaps(map, &source.unused);
    }
    let (mut single, mut starts, mut multi) = (Vec::new(), vec![0u32], Vec::new());
    for (source, docs) in &input.runs {
        let (docs, map) = (docs.start as usize..docs.end as usize, &maps[*source]);
        match &sources[*source].ordinals {
            Ordinals::Single(ords) => single.extend(ords[docs].iter().map(|&ord| match ord {
                MISSING => MISSING,
                ord => map[ord as usize],
            })),
            Ordinals::Multi { starts: from, ords } => {
                let taken = from[docs.start] as usize..from[docs.end] as usize;
                let base = (multi.len() as u32).wrapping_sub(from[docs.start]);
                multi.extend(ords[taken].iter().map(|&ord| map[ord as usize]));
                starts
                    .extend(from[docs.start + 1..=docs.end].iter().map(|s| base.wrapping_add(*s)));
            }
        }
    }
    let ordinals = match field.multi {
        true => Ordinals::Multi { starts, ords: multi },
        false => Ordinals::Single(single),
    };
    Ok(FieldData { keys, ordinals })
}

impl<'p> SourceField<'p> {
    fn empty(field: &Field, documents: u32) -> SourceField<'p> {
        let keys = match field.ty.is_fixed() {
            true => SortedKeys::Fixed(Vec::new()),
            false => SortedKeys::Bytes(Vec::new()),
        };
        let FieldData { ordinals, .. } = empty_field(field, documents as usize);
        SourceField { keys, ordinals, unused: Vec::new() }
    }

    /// Reads a field, in the original order of documents, and drops the keys that no document in
    /// `taken` has.
    fn of(
        part: &'p Partition,
        field: usize,
        taken: impl Iterator<Item = Range<usize>>,
    ) -> Result<SourceField<'p>> {
        let multi = part.schema.fields[field].multi;
        let (keys, column) = match part.ranked(field)? {
            Some((keys, ords)) => (SortedKeys::Fixed(keys), Column::Derived(ords)),
            None => (SortedKeys::of(part, field)?, part.column_or_derived(field)?),
        };
        let distinct = keys.len() as u32;
        let ordinals = ordinals(part, &column, multi, distinct)?;
        let (mut unused, mut whole) = (vec![true; distinct as usize], true);
        let mut last = 0;
        for docs in taken {
            whole &= docs.start == last;
            last = docs.end;
            let ords = match &ordinals {
                Ordinals::Single(ords) => &ords[docs],
                Ordinals::Multi { starts, ords } => {
                    &ords[starts[docs.start] as usize..starts[docs.end] as usize]
                }
            };
            ords.iter().filter(|&&ord| ord != MISSING).for_each(|&o| unused[o as usize] = false);
        }
        let unused: Vec<u32> = (0..distinct).filter(|&ord| unused[ord as usize]).collect();
        if whole && last == part.documents as usize && !unused.is_empty() {
            // A postings list cannot be empty.
            let message = "no document has one of the values of a field";
            return Err(Error::corrupt(message).in_file(part.file.path()));
        }
        let keys = match keys {
            SortedKeys::Fixed(keys) => SortedKeys::Fixed(remove_at(keys, &unused)),
            SortedKeys::Bytes(keys) => SortedKeys::Bytes(remove_at(keys, &unused)),
        };
        Ok(SourceField { keys, ordinals, unused })
    }

    /// The number of values, if the field is multi-valued; otherwise 0.
    fn values(&self) -> usize {
        match &self.ordinals {
            Ordinals::Single(_) => 0,
            Ordinals::Multi { ords, .. } => ords.len(),
        }
    }
}

/// The ordinals of all documents of a partition, in their original order (`Partition::origins`).
fn ordinals(part: &Partition, column: &Column, multi: bool, distinct: u32) -> Result<Ordinals> {
    if multi {
        let (starts, ords) = match column {
            Column::Multi { starts, ords: packed } => {
                let starts =
                    starts.decode().into_iter().zip(0..).map(|(s, doc)| s.wrapping_sub(doc));
                let mut ords = Vec::with_capacity(packed.len());
                packed.decode(0, packed.len(), &mut ords);
                (starts.map(|start| start as u32).collect(), ords)
            }
            Column::DerivedMulti { starts, ords } => (starts.clone(), ords.clone()),
            _ => (vec![0; part.documents as usize + 1], Vec::new()),
        };
        let ends = starts.first() == Some(&0) && starts.last() == Some(&(ords.len() as u32));
        if !ends || !starts.is_sorted() || ords.iter().any(|&ord| ord >= distinct) {
            let message = "a document has a value that is not there";
            return Err(Error::corrupt(message).in_file(part.file.path()));
        }
        return Ok(in_original_order(part, Ordinals::Multi { starts, ords }));
    }
    let mut ords = Vec::with_capacity(part.documents as usize);
    match column {
        Column::Single(packed) => packed.decode(0, packed.len(), &mut ords),
        other => ords.extend((0..part.documents).map(|doc| other.get(doc))),
    }
    ords.iter_mut().filter(|ord| **ord >= distinct).for_each(|ord| *ord = MISSING);
    Ok(in_original_order(part, Ordinals::Single(ords)))
}

/// Puts the ordinals of reordered documents back into their original order.
fn in_original_order(part: &Partition, ordinals: Ordinals) -> Ordinals {
    let Some(origins) = &part.origins else { return ordinals };
    let mut docs = vec![0; origins.len()];
    for (&origin, doc) in origins.iter().zip(0..) {
        docs[origin as usize] = doc;
    }
    reorder(&ordinals, &docs)
}

/// `all` without the elements at these positions, which ascend.
fn remove_at<T: Copy>(all: Vec<T>, positions: &[u32]) -> Vec<T> {
    if positions.is_empty() {
        return all;
    }
    let (mut kept, mut from) = (Vec::with_capacity(all.len()), 0);
    for &position in positions {
        kept.extend_from_slice(&all[from..position as usize]);
        from = position as usize + 1;
    }
    kept.extend_from_slice(&all[from..]);
    kept
}

/// Inserts `MISSING` at the positions removed by [`remove_at`], so that ordinals of the source
/// index `map`. These entries are never read.
fn insert_gaps(map: &mut Vec<u32>, positions: &[u32]) {
    if positions.is_empty() {
        return;
    }
    let (mut expanded, mut from) = (Vec::with_capacity(map.len() + positions.len()), 0);
    for (i, &position) in positions.iter().enumerate() {
        let end = position as usize - i;
        expanded.extend_from_slice(&map[from..end]);
        expanded.push(MISSING);
        from = end;
    }
    expanded.extend_from_slice(&map[from..]);
    *map = expanded;
}

/// The keys of all sources in ascending order, and for each source the new ordinals of its keys.
/// Empties the sources' keys.
fn merge_keys(sources: &mut [SourceField]) -> (Keys, Vec<Vec<u32>>) {
    if matches!(sources.first(), Some(SourceField { keys: SortedKeys::Bytes(_), .. })) {
        let lists = sources.iter_mut().map(|source| match &mut source.keys {
            SortedKeys::Fixed(_) => Vec::new(),
            SortedKeys::Bytes(keys) => std::mem::take(keys),
        });
        let (keys, maps) = merge_lists(lists.collect());
        return (Keys::Bytes(keys.into_iter().map(<[u8]>::to_vec).collect()), maps);
    }
    let lists = sources.iter_mut().map(|source| match &mut source.keys {
        SortedKeys::Fixed(keys) => std::mem::take(keys),
        SortedKeys::Bytes(_) => Vec::new(),
    });
    let (keys, maps) = merge_lists(lists.collect());
    (Keys::Fixed(keys), maps)
}

/// Merges ascending lists and removes duplicates. Also returns the new position of each element of
/// each list. A list that is longer than all others together is merged by binary searches.
fn merge_lists<K: Ord + Copy>(mut lists: Vec<Vec<K>>) -> (Vec<K>, Vec<Vec<u32>>) {
    let total: usize = lists.iter().map(Vec::len).sum();
    let longest = (0..lists.len()).max_by_key(|&i| lists[i].len()).unwrap_or(0);
    let base = match lists.get_mut(longest) {
        Some(list) if 2 * list.len() > total => std::mem::take(list),
        _ => Vec::new(),
    };
    let (others, mut maps) = merge_by_sorting(&lists, total - base.len());
    if base.is_empty() {
        return (others, maps);
    }
    let (keys, of_base, of_others) = merge_into_long(&base, &others);
    for ord in maps.iter_mut().flatten() {
        *ord = of_others[*ord as usize];
    }
    maps[longest] = of_base;
    (keys, maps)
}

/// [`merge_lists`] for lists of similar lengths.
fn merge_by_sorting<K: Ord + Copy>(lists: &[Vec<K>], total: usize) -> (Vec<K>, Vec<Vec<u32>>) {
    let mut maps: Vec<Vec<u32>> = lists.iter().map(|list| vec![0; list.len()]).collect();
    let mut all: Vec<(K, u32, u32)> = Vec::with_capacity(total);
    for (source, list) in (0..).zip(lists) {
        all.extend((0..).zip(list).map(|(ord, key)| (*key, source, ord)));
    }
    all.sort_by_key(|&(key, ..)| key); // the stable sort detects the sorted runs and merges them
    let mut keys: Vec<K> = Vec::new();
    for (key, source, ord) in all {
        if keys.last() != Some(&key) {
            keys.push(key);
        }
        maps[source as usize][ord as usize] = keys.len() as u32 - 1;
    }
    (keys, maps)
}

/// Merges a short ascending list into a long one, with binary searches in the long one. Also
/// returns the new positions of the elements of both.
fn merge_into_long<K: Ord + Copy>(long: &[K], short: &[K]) -> (Vec<K>, Vec<u32>, Vec<u32>) {
    let mut keys = Vec::with_capacity(long.len() + short.len());
    let mut of_long: Vec<u32> = Vec::with_capacity(long.len());
    let mut of_short = Vec::with_capacity(short.len());
    let mut from = 0;
    for key in short {
        let end = from + long[from..].partition_point(|other| other < key);
        of_long.extend((from..end).zip(keys.len() as u32..).map(|(_, ord)| ord));
        keys.extend_from_slice(&long[from..end]);
        of_short.push(keys.len() as u32);
        if long.get(end) != Some(key) {
            keys.push(*key);
        }
        from = end;
    }
    of_long.extend((from..long.len()).zip(keys.len() as u32..).map(|(_, ord)| ord));
    keys.extend_from_slice(&long[from..]);
    (keys, of_long, of_short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::testing::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn merge_lists_matches_a_sorted_set() {
        let seed = 0x10_15;
        println!("seed {seed:#x}");
        let mut rng = Rng(seed);
        for round in 0..300 {
            let lists: Vec<Vec<usize>> = (0..rng.below(5))
                .map(|i| {
                    let len = if i == round % 5 { rng.below(200) } else { rng.below(8) };
                    let set: BTreeSet<usize> = (0..len).map(|_| rng.below(300)).collect();
                    set.into_iter().collect()
                })
                .collect();
            let (keys, maps) = merge_lists(lists.clone());
            let expected: BTreeSet<usize> = lists.iter().flatten().copied().collect();
            assert_eq!(keys, expected.into_iter().collect::<Vec<_>>());
            for (list, map) in lists.iter().zip(&maps) {
                let merged: Vec<usize> = map.iter().map(|&ord| keys[ord as usize]).collect();
                assert_eq!(*list, merged);
            }
        }
    }

    #[test]
    fn insert_gaps_restores_positions() {
        for positions in [&[][..], &[0], &[4], &[0, 1, 2, 3, 4], &[1, 3]] {
            let all = vec![10u32, 11, 12, 13, 14];
            let mut kept = remove_at(all.clone(), positions);
            assert!((0..5).all(|i| kept.contains(&all[i]) != positions.contains(&(i as u32))));
            insert_gaps(&mut kept, positions);
            for i in 0..5 {
                let expected = if positions.contains(&(i as u32)) { MISSING } else { all[i] };
                assert_eq!(kept[i], expected);
            }
        }
    }
}
