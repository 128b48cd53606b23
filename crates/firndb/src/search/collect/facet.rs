//! Facets: the number of matches per value of a field.
//!
//! Each partition counts by ordinal. When a partition is done, its ordinals are decoded to keys,
//! and the counts of all partitions are merged by key. Few matches are counted one by one through
//! the column; many are counted value by value, by intersecting the postings with the bitset of
//! matches. If every document of a partition matches, the counts are differences of the prefix
//! offsets of the postings.

use crate::Result;
use crate::search::exec::executor::Executor;
use crate::search::exec::sink::BitsetSink;
use crate::search::model::key_map::KeyMap;
use crate::search::model::query::Filter;
use crate::search::model::types::Type;
use crate::search::model::value::{Key, Value, decode_key};
use crate::search::partition::Partition;
use crate::search::partition::set::QueryLimits;
use crate::search::simd::kernels;
use crate::search::simd::scan;

/// A facet to compute: the most frequent values of a field among the matches.
///
/// ```
/// use firndb::search::{Facet, Reader, query::eq};
///
/// /// Prints how many offers in Oslo there are of each kind, and how many in each city.
/// fn facets(reader: &Reader) -> firndb::Result<()> {
///     // Disjunctive: counts by city as if the filter did not restrict the city.
///     let wanted = [Facet::new("kind").top(20), Facet::new("city").disjunctive()];
///     for facet in reader.facets(&eq("city", "Oslo"), &wanted)? {
///         for (value, count) in facet.values {
///             println!("{} {value}: {count}", facet.field);
///         }
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facet {
    /// A filterable field.
    pub field: String,
    /// The maximum number of values to return.
    pub top: usize,
    /// Whether to ignore the filter's own conditions on this field. Only conditions in the
    /// outermost `and` of the filter are ignored.
    pub disjunctive: bool,
}

impl Facet {
    /// The 10 most frequent values of a field.
    pub fn new(field: impl Into<String>) -> Facet {
        Facet { field: field.into(), top: 10, disjunctive: false }
    }

    /// Sets the maximum number of values to return.
    pub fn top(mut self, top: usize) -> Facet {
        self.top = top;
        self
    }

    /// Ignores the filter's own conditions on this field: see the field `disjunctive`.
    pub fn disjunctive(mut self) -> Facet {
        self.disjunctive = true;
        self
    }
}

/// The most frequent values of a field among the matches.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FacetCounts {
    /// The field.
    pub field: String,
    /// Values and the number of matches that have them, by descending count. Values with equal
    /// counts ascend.
    pub values: Vec<(Value, u64)>,
    /// The number of distinct values among the matches.
    pub distinct: u64,
    /// The number of matches without a value.
    pub missing: u64,
}

/// Removes the conditions on one field from the outermost `and` of a filter.
pub(crate) fn without(filter: &Filter, field: &str) -> Filter {
    match filter {
        Filter::And(conditions) => {
            Filter::And(conditions.iter().map(|condition| without(condition, field)).collect())
        }
        condition if only_on(condition, field) => Filter::All,
        other => other.clone(),
    }
}

/// Whether the filter has conditions, all of them on `field`.
fn only_on(filter: &Filter, field: &str) -> bool {
    match filter {
        Filter::All => false,
        Filter::Compare(name, ..)
        | Filter::In(name, _)
        | Filter::Between(name, ..)
        | Filter::Prefix(name, _)
        | Filter::Exists(name) => name == field,
        Filter::And(parts) | Filter::Or(parts) => {
            !parts.is_empty() && parts.iter().all(|part| only_on(part, field))
        }
        Filter::Not(inner) => only_on(inner, field),
    }
}

/// Counts per key over several partitions.
pub(crate) struct Counts {
    pub(crate) by_key: KeyMap<Key, u64>,
    /// The number of matches without a value.
    pub(crate) missing: u64,
}

impl Counts {
    /// The most frequent values. `ty` is the type of the field.
    pub(crate) fn top(self, facet: &Facet, ty: Type) -> Result<FacetCounts> {
        let distinct = self.by_key.len() as u64;
        let mut entries: Vec<(Key, u64)> = self.by_key.into_iter().collect();
        let better = |a: &(Key, u64), b: &(Key, u64)| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0));
        if facet.top < entries.len() && facet.top > 0 {
            entries.select_nth_unstable_by(facet.top - 1, better);
        }
        entries.truncate(facet.top);
        entries.sort_unstable_by(better);
        let values = entries.into_iter().map(|(key, n)| Ok((decode_key(ty, &key)?, n)));
        Ok(FacetCounts {
            field: facet.field.clone(),
            values: values.collect::<Result<_>>()?,
            distinct,
            missing: self.missing,
        })
    }

    /// Adds the counts of another thread.
    fn add(&mut self, other: Counts) {
        self.missing += other.missing;
        for (key, n) in other.by_key {
            let count = self.by_key.entry(key).or_insert(0);
            *count = count.saturating_add(n);
        }
    }
}

/// Counts the matches per value of each of `fields` (field numbers of the reader's schema).
pub(crate) fn counts(executor: &mut Executor, fields: &[usize]) -> Result<Vec<Counts>> {
    let partitions = executor.query.set.partitions.len();
    let counted = executor
        .share(partitions, |executor, partitions| count_partitions(executor, fields, partitions))?;
    let merge = |mut all: Vec<Counts>, more: Vec<Counts>| {
        all.iter_mut().zip(more).for_each(|(counts, more)| counts.add(more));
        all
    };
    let all = counted.into_iter().reduce(merge).unwrap_or_default();
    let limits = executor.query.limits;
    all.iter().try_for_each(|counts| limits.check_groups(counts.by_key.len()))?;
    Ok(all)
}

/// Counts the matches in some of the partitions.
fn count_partitions(
    executor: &mut Executor,
    fields: &[usize],
    partitions: &mut dyn Iterator<Item = usize>,
) -> Result<Vec<Counts>> {
    let new = || Counts { by_key: KeyMap::default(), missing: 0 };
    let mut all: Vec<Counts> = fields.iter().map(|_| new()).collect();
    let set = executor.query.set;
    for p in partitions {
        if executor.query.pruned(p) {
            executor.work.stats.pruned += 1;
            continue;
        }
        let part = &*set.partitions[p];
        let mut matches = BitsetSink { bits: vec![0; part.words()] };
        let _ = executor.run(p, Vec::new(), &mut matches)?;
        let total = kernels::count(&matches.bits);
        if total == 0 {
            continue;
        }
        for (&field, counts) in fields.iter().zip(&mut all) {
            match set.local(p, field) {
                None => counts.missing += total,
                Some(field) => {
                    count_field(part, field, &matches.bits, total, executor.query.limits, counts)?
                }
            }
        }
    }
    Ok(all)
}

/// Cost of reading the ordinal of one document from a column, in tenths of a nanosecond.
const COLUMN_COST: u64 = 15;

/// The limits of the query are checked once per this many values or bitset words.
const CHECK_INTERVAL: usize = 1024;

fn count_field(
    part: &Partition,
    field: usize,
    bits: &[u64],
    total: u64,
    limits: &QueryLimits,
    counts: &mut Counts,
) -> Result<()> {
    let meta = part.meta(field);
    let distinct = meta.distinct;
    let multi = part.schema.fields[field].multi;
    let everything = total == u64::from(part.documents);
    let column = match () {
        () if multi || everything => None,
        // A point field has no postings per value, so its column is always needed.
        () if meta.in_points => Some(part.column_or_derived(field)?),
        () => part.column(field)?,
    };
    let bitset_words = u64::from(distinct) * part.words() as u64;
    let scan = scan::cost(meta.column_bits.unwrap_or(0).into());
    let by_key = !meta.in_points
        && total >= bitset_words / 8
        && (total * COLUMN_COST >= bitset_words * scan
            || !part.postings(field)?.is_scanned(0, distinct));
    // Read the dictionary before allocating: it validates the number of keys that the counts below
    // are sized by.
    let dictionary = part.dictionary(field)?;
    let mut by_ord = vec![0u64; distinct as usize + 1];
    let with_value = if everything {
        let offsets = part.offsets(field)?;
        for (ord, count) in by_ord.iter_mut().take(distinct as usize).enumerate() {
            *count = offsets.get(ord + 1).wrapping_sub(offsets.get(ord));
        }
        u64::from(meta.present)
    } else if let Some(column) = column.filter(|_| !by_key) {
        for (chunk, words) in bits.chunks(CHECK_INTERVAL).enumerate() {
            limits.check()?;
            each_set_bit(words, |doc| {
                let ord = column.get((chunk * CHECK_INTERVAL * 64) as u32 + doc).min(distinct);
                by_ord[ord as usize] += 1;
            });
        }
        total - by_ord[distinct as usize]
    } else {
        count_by_key(part, field, bits, limits, &mut by_ord)?
    };
    counts.missing += total.saturating_sub(with_value);
    for ord in (0..distinct).filter(|&ord| by_ord[ord as usize] > 0) {
        let count = counts.by_key.entry(dictionary.key(ord)).or_insert(0);
        *count = count.saturating_add(by_ord[ord as usize]);
        limits.check_groups(counts.by_key.len())?;
    }
    Ok(())
}

/// Sets the count of each ordinal to the number of documents in `bits` that have it. Returns how
/// many documents in `bits` have any value.
fn count_by_key(
    part: &Partition,
    field: usize,
    bits: &[u64],
    limits: &QueryLimits,
    by_ord: &mut [u64],
) -> Result<u64> {
    let (meta, postings) = (part.meta(field), part.postings(field)?);
    // A document of a multi-valued field can have several keys, so the documents with a value are
    // the union of the postings, unless every document has a value.
    let multi = part.schema.fields[field].multi;
    let mut seen = vec![0u64; if multi && meta.present < part.documents { bits.len() } else { 0 }];
    for (ord, count) in (0..meta.distinct).zip(by_ord.iter_mut()) {
        if (ord as usize).is_multiple_of(CHECK_INTERVAL) {
            limits.check()?;
        }
        *count = postings.count_in(ord, ord + 1, bits);
        if !seen.is_empty() {
            postings.add_to(ord, ord + 1, &mut seen);
        }
    }
    Ok(match (multi, seen.is_empty()) {
        (false, _) => by_ord.iter().sum(),
        (true, true) => kernels::count(bits),
        (true, false) => {
            kernels::and(&mut seen, bits);
            kernels::count(&seen)
        }
    })
}

/// Calls `each` with the position of every set bit.
fn each_set_bit(bits: &[u64], mut each: impl FnMut(u32)) {
    for (i, &word) in bits.iter().enumerate() {
        let mut word = word;
        while word != 0 {
            each(i as u32 * 64 + word.trailing_zeros());
            word &= word - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::search::GroupBy;
    use crate::search::query::{all, lt};
    use crate::search::testing::reader_of;
    use crate::search::{Document, Field, PartitionBuilder, Roles, Schema, Type};
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn groups_and_distinct_values_are_limited() {
        let fields = ["a", "b"].map(|name| Field::new(name, Type::U64, Roles::FULL));
        let schema = Schema::new(fields).unwrap();
        // 30 values of `a`, 10 of which are in two partitions.
        let parts = [0..20u64, 10..30].map(|range| {
            let mut builder = PartitionBuilder::new(schema.clone());
            range.for_each(|n| builder.add(&Document::new().set("a", n).set("b", n % 2)).unwrap());
            builder
        });
        let reader = reader_of(parts);
        let by = GroupBy::new(["a", "b"]).aggregates(["a"]);
        for threads in [1, 4] {
            for (filter, groups) in [(all(), 30), (lt("a", 15), 15)] {
                let limited = |limit| reader.with_threads(threads).with_group_limit(limit);
                let facets = [Facet::new("b").top(1), Facet::new("a").top(1)];
                assert_eq!(limited(groups).group_by(&filter, &by).unwrap().len(), groups);
                assert_eq!(limited(groups).facets(&filter, &facets).unwrap().len(), 2);
                let limited = limited(groups - 1);
                let by_group = limited.group_by(&filter, &by).unwrap_err();
                let by_facet = limited.facets(&filter, &facets).unwrap_err();
                for error in [by_group, by_facet] {
                    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                    assert!(error.message().contains(&format!("more than {} groups", groups - 1)));
                }
                assert_eq!(limited.count(&filter).unwrap(), reader.count(&filter).unwrap());
            }
        }
        assert_eq!(
            reader.with_group_limit(1).group_by(&all(), &GroupBy::default()).unwrap().len(),
            1
        );
    }

    #[test]
    fn a_cancelled_query_stops_counting() {
        let fields = [
            Field::new("one", Type::U64, Roles::FULL),
            Field::new("many", Type::U64, Roles::FILTERABLE).multi(),
        ];
        let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap());
        for i in 0..5000u64 {
            builder.add(&Document::new().set("one", i).set("many", i)).unwrap();
        }
        let reader = reader_of([builder]);
        let part = &reader.set.partitions[0];
        let (mut few, mut most) = (vec![0; part.words()], vec![!0; part.words()]);
        (few[0], *most.last_mut().unwrap()) = (7, 0);
        let stopped =
            QueryLimits { cancel: Some(Arc::new(AtomicBool::new(true))), ..QueryLimits::default() };
        for (field, bits) in [(0, &few), (0, &most), (1, &few), (1, &most)] {
            let total = kernels::count(bits);
            let count = |limits: &QueryLimits| {
                let mut counts = Counts { by_key: KeyMap::default(), missing: 0 };
                count_field(part, field, bits, total, limits, &mut counts).map(|()| counts)
            };
            let counts = count(&QueryLimits::default()).unwrap();
            assert_eq!((counts.by_key.len() as u64, counts.missing), (total, 0));
            assert_eq!(count(&stopped).err().unwrap().kind(), ErrorKind::Cancelled);
        }
    }
}
