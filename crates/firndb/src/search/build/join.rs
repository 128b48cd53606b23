//! A field of several partitions, one after the other: keys are merged, ordinals renumbered.
//!
//! What is joined are runs of documents of *sources*. When most documents come from one source (a
//! bundle of which a few partitions were replaced), the keys of the others are looked up in those
//! of that one: then the work is in proportion to what is new, beside a copy of what is not.

use crate::search::build::builder::empty_field;
use crate::search::build::partition_writer::{FieldData, reorder};
use crate::search::codec::column::{Column, MISSING, Ordinals};
use crate::search::codec::dictionary::{Dictionary, Keys};
use crate::search::model::schema::Field;
use crate::search::partition::Partition;
use crate::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// What is to be joined: runs of documents of some partitions, in their new order.
pub(crate) struct Pieces<'p> {
    sources: Vec<&'p Partition>,
    /// The number of a source, and which of its documents. Those of one source ascend.
    runs: Vec<(usize, Range<u32>)>,
}

impl<'p> Pieces<'p> {
    pub(crate) fn new() -> Pieces<'p> {
        Pieces { sources: Vec::new(), runs: Vec::new() }
    }

    /// Partitions with all of their documents.
    pub(crate) fn whole(parts: &'p [Arc<Partition>]) -> Pieces<'p> {
        let mut pieces = Pieces::new();
        for part in parts {
            let source = pieces.source(part);
            pieces.push(source, 0..part.documents);
        }
        pieces
    }

    /// Adds a source, of which no documents are taken yet.
    pub(crate) fn source(&mut self, part: &'p Partition) -> usize {
        self.sources.push(part);
        self.sources.len() - 1
    }

    /// Takes documents of a source.
    pub(crate) fn push(&mut self, source: usize, docs: Range<u32>) {
        match self.runs.last_mut() {
            Some((last, run)) if *last == source && run.end == docs.start => run.end = docs.end,
            _ => self.runs.push((source, docs)),
        }
    }

    fn of(&self, source: usize) -> impl Iterator<Item = Range<usize>> {
        let own = self.runs.iter().filter(move |(other, _)| *other == source);
        own.map(|(_, docs)| docs.start as usize..docs.end as usize)
    }
}

/// The distinct keys of a source, ascending.
enum Sorted<'p> {
    Fixed(Vec<u64>),
    Bytes(Vec<&'p [u8]>),
}

impl<'p> Sorted<'p> {
    /// All keys of a field.
    fn of(part: &'p Partition, field: usize) -> Result<Sorted<'p>> {
        let (keys, ascend) = match part.dictionary(field)? {
            Dictionary::Fixed(keys) => {
                let keys = keys.decode();
                let ascend = keys.is_sorted_by(|a, b| a < b);
                (Sorted::Fixed(keys), ascend)
            }
            dictionary => {
                let all = 0..dictionary.len() as u32;
                let keys: Vec<_> = all.map(|ord| dictionary.bytes_key(ord)).collect();
                let ascend = keys.is_sorted_by(|a, b| a < b);
                (Sorted::Bytes(keys), ascend)
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
            Sorted::Fixed(keys) => keys.len(),
            Sorted::Bytes(keys) => keys.len(),
        }
    }
}

/// A field of a source: its keys, and the ordinals of all its documents.
struct Source<'p> {
    keys: Sorted<'p>,
    ordinals: Ordinals,
    /// Ordinals of keys that no document has which is taken; not in `keys`.
    unused: Vec<u32>,
}

/// Joins a field.
pub(crate) fn join_field(field: &Field, pieces: &Pieces) -> Result<FieldData> {
    let mut sources = Vec::with_capacity(pieces.sources.len());
    for (i, &part) in pieces.sources.iter().enumerate() {
        sources.push(match part.schema.field(&field.name) {
            Some((local, _)) => Source::of(part, local, pieces.of(i))?,
            None => Source::empty(field, part.documents),
        });
    }
    let values: usize = sources.iter().map(Source::values).sum();
    if values > u32::MAX as usize {
        return Err(Error::invalid(format!(
            "the partitions have {values} values of `{}` together; one has at most {}",
            field.name,
            u32::MAX
        )));
    }
    let (keys, mut maps) = merge_keys(&mut sources);
    for (map, source) in maps.iter_mut().zip(&sources) {
        make_room(map, &source.unused);
    }
    let (mut single, mut starts, mut multi) = (Vec::new(), vec![0u32], Vec::new());
    for (source, docs) in &pieces.runs {
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

impl<'p> Source<'p> {
    fn empty(field: &Field, documents: u32) -> Source<'p> {
        let keys = match field.ty.is_fixed() {
            true => Sorted::Fixed(Vec::new()),
            false => Sorted::Bytes(Vec::new()),
        };
        let FieldData { ordinals, .. } = empty_field(field, documents as usize);
        Source { keys, ordinals, unused: Vec::new() }
    }

    /// A field as it was written, and the keys of the documents that are taken.
    fn of(
        part: &'p Partition,
        field: usize,
        taken: impl Iterator<Item = Range<usize>>,
    ) -> Result<Source<'p>> {
        let multi = part.schema.fields[field].multi;
        let (keys, column) = match part.ranked(field)? {
            Some((keys, ords)) => (Sorted::Fixed(keys), Column::Derived(ords)),
            None => (Sorted::of(part, field)?, part.column_or_derived(field)?),
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
            // Postings of no documents cannot be written.
            let message = "no document has one of the values of a field";
            return Err(Error::corrupt(message).in_file(part.file.path()));
        }
        let keys = match keys {
            Sorted::Fixed(keys) => Sorted::Fixed(without(keys, &unused)),
            Sorted::Bytes(keys) => Sorted::Bytes(without(keys, &unused)),
        };
        Ok(Source { keys, ordinals, unused })
    }

    fn values(&self) -> usize {
        match &self.ordinals {
            Ordinals::Single(_) => 0,
            Ordinals::Multi { ords, .. } => ords.len(),
        }
    }
}

/// The ordinals of all documents of a partition, by the numbers they are known by outside.
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
        return Ok(moved_back(part, Ordinals::Multi { starts, ords }));
    }
    let mut ords = Vec::with_capacity(part.documents as usize);
    match column {
        Column::Single(packed) => packed.decode(0, packed.len(), &mut ords),
        other => ords.extend((0..part.documents).map(|doc| other.get(doc))),
    }
    ords.iter_mut().filter(|ord| **ord >= distinct).for_each(|ord| *ord = MISSING);
    Ok(moved_back(part, Ordinals::Single(ords)))
}

/// The ordinals of documents that moved, in the order before.
fn moved_back(part: &Partition, ordinals: Ordinals) -> Ordinals {
    let Some(origins) = &part.origins else { return ordinals };
    let mut docs = vec![0; origins.len()];
    for (&origin, doc) in origins.iter().zip(0..) {
        docs[origin as usize] = doc;
    }
    reorder(&ordinals, &docs)
}

/// `all` without the elements of these numbers, which ascend.
fn without<T: Copy>(all: Vec<T>, numbers: &[u32]) -> Vec<T> {
    if numbers.is_empty() {
        return all;
    }
    let (mut some, mut from) = (Vec::with_capacity(all.len()), 0);
    for &number in numbers {
        some.extend_from_slice(&all[from..number as usize]);
        from = number as usize + 1;
    }
    some.extend_from_slice(&all[from..]);
    some
}

/// Undoes [`without`]: puts something in the places of these numbers, which nobody asks for.
fn make_room(map: &mut Vec<u32>, numbers: &[u32]) {
    if numbers.is_empty() {
        return;
    }
    let (mut wider, mut from) = (Vec::with_capacity(map.len() + numbers.len()), 0);
    for (i, &number) in numbers.iter().enumerate() {
        let end = number as usize - i;
        wider.extend_from_slice(&map[from..end]);
        wider.push(MISSING);
        from = end;
    }
    wider.extend_from_slice(&map[from..]);
    *map = wider;
}

/// All keys ascending, and for each source the new ordinal of each of its keys.
fn merge_keys(sources: &mut [Source]) -> (Keys, Vec<Vec<u32>>) {
    if matches!(sources.first(), Some(Source { keys: Sorted::Bytes(_), .. })) {
        let lists = sources.iter_mut().map(|source| match &mut source.keys {
            Sorted::Fixed(_) => Vec::new(),
            Sorted::Bytes(keys) => std::mem::take(keys),
        });
        let (keys, maps) = merge_lists(lists.collect());
        return (Keys::Bytes(keys.into_iter().map(<[u8]>::to_vec).collect()), maps);
    }
    let lists = sources.iter_mut().map(|source| match &mut source.keys {
        Sorted::Fixed(keys) => std::mem::take(keys),
        Sorted::Bytes(_) => Vec::new(),
    });
    let (keys, maps) = merge_lists(lists.collect());
    (Keys::Fixed(keys), maps)
}

/// All elements of ascending lists, ascending, and for each list where its elements are now.
fn merge_lists<K: Ord + Copy>(mut lists: Vec<Vec<K>>) -> (Vec<K>, Vec<Vec<u32>>) {
    let sum: usize = lists.iter().map(Vec::len).sum();
    let longest = (0..lists.len()).max_by_key(|&i| lists[i].len()).unwrap_or(0);
    let base = match lists.get_mut(longest) {
        Some(list) if 2 * list.len() > sum => std::mem::take(list),
        _ => Vec::new(),
    };
    let (others, mut maps) = sort_lists(&lists, sum - base.len());
    if base.is_empty() {
        return (others, maps);
    }
    let (keys, of_base, of_others) = weave(&base, &others);
    for ord in maps.iter_mut().flatten() {
        *ord = of_others[*ord as usize];
    }
    maps[longest] = of_base;
    (keys, maps)
}

/// [`merge_lists`] of lists of about the same length.
fn sort_lists<K: Ord + Copy>(lists: &[Vec<K>], sum: usize) -> (Vec<K>, Vec<Vec<u32>>) {
    let mut maps: Vec<Vec<u32>> = lists.iter().map(|list| vec![0; list.len()]).collect();
    let mut all: Vec<(K, u32, u32)> = Vec::with_capacity(sum);
    for (source, list) in (0..).zip(lists) {
        all.extend((0..).zip(list).map(|(ord, key)| (*key, source, ord)));
    }
    all.sort_by_key(|&(key, ..)| key); // a merge of sorted runs: the stable sort finds them
    let mut keys: Vec<K> = Vec::new();
    for (key, source, ord) in all {
        if keys.last() != Some(&key) {
            keys.push(key);
        }
        maps[source as usize][ord as usize] = keys.len() as u32 - 1;
    }
    (keys, maps)
}

/// Merges a short ascending list into a long one; where the elements of either are now.
fn weave<K: Ord + Copy>(long: &[K], short: &[K]) -> (Vec<K>, Vec<u32>, Vec<u32>) {
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
    fn lists_of_any_lengths_are_merged() {
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
                let back: Vec<usize> = map.iter().map(|&ord| keys[ord as usize]).collect();
                assert_eq!(*list, back);
            }
        }
    }

    #[test]
    fn numbers_that_are_left_out_leave_room() {
        for numbers in [&[][..], &[0], &[4], &[0, 1, 2, 3, 4], &[1, 3]] {
            let all = vec![10u32, 11, 12, 13, 14];
            let mut some = without(all.clone(), numbers);
            assert!((0..5).all(|i| some.contains(&all[i]) != numbers.contains(&(i as u32))));
            make_room(&mut some, numbers);
            for i in 0..5 {
                let expected = if numbers.contains(&(i as u32)) { MISSING } else { all[i] };
                assert_eq!(some[i], expected);
            }
        }
    }
}
