//! Group-by and aggregates: groups the matches by the values of up to two fields, and computes
//! count, minimum, maximum, sum and average of other fields in each group.
//!
//! Each partition groups by ordinal. When a partition is done, its ordinals are decoded to keys and
//! its groups are merged into the total. Sums of integers are exact. Floats are added in document
//! order, partition by partition, so that the result does not depend on the plan or on threads.

use crate::Result;
use crate::search::codec::column::Column;
use crate::search::exec::executor::Executor;
use crate::search::exec::sink::Sink;
use crate::search::model::key_map::KeyMap;
use crate::search::model::types::Type;
use crate::search::model::value::{
    Key, Value, decode_bytes, decode_fixed, decode_key, key_to_f64, key_to_i64,
};
use crate::search::partition::Partition;
use crate::search::partition::set::QueryLimits;
use std::collections::hash_map::Entry;
use std::ops::ControlFlow;

/// Fields to group by and fields to aggregate. At most two fields make groups. A document with
/// several values is in several groups.
///
/// ```
/// use firndb::search::{GroupBy, Reader, query::all};
///
/// /// Prints the number of offers and the average price of each city.
/// fn prices(reader: &Reader) -> firndb::Result<()> {
///     for group in reader.group_by(&all(), &GroupBy::new(["city"]).aggregates(["price"]))? {
///         let price = &group.aggregates[0]; // one for each field of `aggregates`
///         println!("{:?}: {} offers, average {:?}", group.key[0], group.count, price.avg);
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupBy {
    /// Fields whose values define the groups.
    pub fields: Vec<String>,
    /// Fields to aggregate in each group.
    pub aggregates: Vec<String>,
}

impl GroupBy {
    /// Groups by these fields, at most two. Without fields, all matches are one group.
    pub fn new<F: Into<String>>(fields: impl IntoIterator<Item = F>) -> GroupBy {
        let fields = fields.into_iter().map(Into::into).collect();
        GroupBy { fields, aggregates: Vec::new() }
    }

    /// Sets the fields to aggregate in each group.
    pub fn aggregates<F: Into<String>>(mut self, fields: impl IntoIterator<Item = F>) -> GroupBy {
        self.aggregates = fields.into_iter().map(Into::into).collect();
        self
    }
}

/// A group of matches.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Group {
    /// One value per group field; `None` for documents without a value.
    pub key: Vec<Option<Value>>,
    /// The number of documents in the group.
    pub count: u64,
    /// One aggregate per field of [`GroupBy::aggregates`].
    pub aggregates: Vec<Aggregate>,
}

/// A sum: exact for integers, in document order for floats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Sum of an i64 or u64 field.
    Int(i128),
    /// Sum of an f64 field.
    Float(f64),
}

impl Number {
    /// The sum as a float, rounded.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Int(v) => v as f64,
            Number::Float(v) => v,
        }
    }
}

/// Count, minimum, maximum, sum and average of the values of a field over some documents.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Aggregate {
    /// The number of values.
    pub count: u64,
    /// The smallest value.
    pub min: Option<Value>,
    /// The largest value.
    pub max: Option<Value>,
    /// The sum; `None` if the field is not numeric or there are no values.
    pub sum: Option<Number>,
    /// The average; `None` if the field is not numeric or there are no values.
    pub avg: Option<f64>,
}

/// An aggregate over the partitions merged so far.
#[derive(Clone, Debug)]
pub(crate) struct RunningAggregate {
    ty: Type,
    count: u64,
    min: Option<Key>,
    max: Option<Key>,
    int: i128,
    float: f64,
}

impl RunningAggregate {
    fn new(ty: Type) -> RunningAggregate {
        RunningAggregate { ty, count: 0, min: None, max: None, int: 0, float: 0.0 }
    }

    /// Merges the aggregate of one partition.
    fn merge(&mut self, partial: &PartitionAggregate, source: &FieldSource) -> Result<()> {
        let (Some(field), true) = (source.field, partial.count > 0) else { return Ok(()) };
        let dictionary = source.part.dictionary(field)?;
        let (low, high) = (dictionary.key(partial.low), dictionary.key(partial.high));
        if self.min.as_ref().is_none_or(|min| low < *min) {
            self.min = Some(low);
        }
        if self.max.as_ref().is_none_or(|max| high > *max) {
            self.max = Some(high);
        }
        self.count += partial.count;
        self.int += partial.int;
        self.float += partial.float;
        Ok(())
    }

    /// Merges the aggregate of another thread.
    fn add(&mut self, other: RunningAggregate) {
        self.min = self.min.take().into_iter().chain(other.min).min();
        self.max = self.max.take().into_iter().chain(other.max).max();
        self.count += other.count;
        self.int += other.int;
        self.float += other.float;
    }

    pub(crate) fn finish(self) -> Result<Aggregate> {
        let value = |key: Option<Key>| match key {
            None => Ok(None),
            Some(Key::Fixed(key)) => Ok(Some(decode_fixed(self.ty, key))),
            Some(Key::Bytes(key)) => decode_bytes(self.ty, &key).map(Some),
        };
        let sum = match self.ty {
            _ if self.count == 0 => None,
            Type::F64 => Some(Number::Float(self.float)),
            Type::U64 | Type::I64 => Some(Number::Int(self.int)),
            _ => None,
        };
        let avg = sum.map(|sum| sum.as_f64() / self.count as f64);
        Ok(Aggregate { count: self.count, min: value(self.min)?, max: value(self.max)?, sum, avg })
    }
}

/// A group over the partitions merged so far.
#[derive(Clone, Debug)]
pub(crate) struct GroupTotal {
    pub(crate) count: u64,
    pub(crate) aggregates: Vec<RunningAggregate>,
}

impl GroupTotal {
    /// Merges the group of another thread. Never called for sums of floats, which one thread
    /// computes alone.
    fn add(&mut self, other: GroupTotal) {
        self.count += other.count;
        for (total, more) in self.aggregates.iter_mut().zip(other.aggregates) {
            total.add(more);
        }
    }
}

/// Groups by their keys; a key is `None` for documents without a value.
pub(crate) type Groups = KeyMap<Vec<Option<Key>>, GroupTotal>;

/// Sorts groups by their keys, missing keys last. `types` are the types of the keys.
pub(crate) fn sorted(found: Groups, types: &[Type]) -> Result<Vec<Group>> {
    let mut found: Vec<_> = found.into_iter().collect();
    let missing_last = |key: &Vec<Option<Key>>| -> Vec<(bool, Option<Key>)> {
        key.iter().map(|k| (k.is_none(), k.clone())).collect()
    };
    found.sort_by_cached_key(|(key, _)| missing_last(key));
    let mut all = Vec::with_capacity(found.len());
    for (key, group_total) in found {
        let values = key.iter().zip(types);
        let values = values.map(|(k, &ty)| k.as_ref().map(|k| decode_key(ty, k)).transpose());
        let aggregates = group_total.aggregates.into_iter().map(RunningAggregate::finish);
        all.push(Group {
            key: values.collect::<Result<_>>()?,
            count: group_total.count,
            aggregates: aggregates.collect::<Result<_>>()?,
        });
    }
    Ok(all)
}

/// Groups the matches by up to two fields and aggregates the fields `aggregated` in each group.
/// Without fields there is one group of all matches. Fields are numbers of the reader's schema.
pub(crate) fn groups(
    executor: &mut Executor,
    keys: &[usize],
    aggregated: &[usize],
) -> Result<Groups> {
    let partitions = executor.query.set.partitions.len();
    let floats =
        aggregated.iter().any(|&field| executor.query.set.schema.fields[field].ty == Type::F64);
    if floats {
        // The sum of floats depends on the order of addition, so one thread visits the partitions
        // in order.
        return group_partitions(executor, keys, aggregated, &mut (0..partitions));
    }
    let work = |executor: &mut Executor, partitions: &mut dyn Iterator<Item = usize>| {
        group_partitions(executor, keys, aggregated, partitions)
    };
    let found = executor.share(partitions, work)?;
    let merge = |mut all: Groups, more: Groups| {
        for (key, group_total) in more {
            match all.entry(key) {
                Entry::Occupied(entry) => entry.into_mut().add(group_total),
                Entry::Vacant(entry) => drop(entry.insert(group_total)),
            }
        }
        all
    };
    let all = found.into_iter().reduce(merge).unwrap_or_default();
    executor.query.limits.check_groups(all.len())?;
    Ok(all)
}

/// Groups the matches of some of the partitions.
fn group_partitions(
    executor: &mut Executor,
    keys: &[usize],
    aggregated: &[usize],
    partitions: &mut dyn Iterator<Item = usize>,
) -> Result<Groups> {
    let set = executor.query.set;
    let running =
        || aggregated.iter().map(|&f| RunningAggregate::new(set.schema.fields[f].ty)).collect();
    let mut groups = Groups::default();
    if keys.is_empty() {
        groups.insert(Vec::new(), GroupTotal { count: 0, aggregates: running() });
    }
    for p in partitions {
        if executor.query.pruned(p) {
            executor.work.stats.pruned += 1;
            continue;
        }
        let part = &*set.partitions[p];
        let sources = |fields: &[usize]| -> Result<Vec<FieldSource>> {
            fields.iter().map(|&f| FieldSource::new(part, set.local(p, f))).collect()
        };
        let limits = executor.query.limits;
        let mut sink = GroupSink::new(sources(keys)?, sources(aggregated)?, limits);
        let _ = executor.run(p, Vec::new(), &mut sink)?;
        sink.merge(&mut groups, &running, limits)?;
    }
    Ok(groups)
}

/// A field of one partition, opened for grouping or aggregating.
struct FieldSource<'p> {
    part: &'p Partition,
    field: Option<usize>,
    column: Option<Column<'p>>,
    distinct: u32,
    ty: Type,
}

impl<'p> FieldSource<'p> {
    fn new(part: &'p Partition, field: Option<usize>) -> Result<FieldSource<'p>> {
        Ok(FieldSource {
            part,
            field,
            column: field.map(|field| part.column_or_derived(field)).transpose()?,
            distinct: field.map_or(0, |field| part.meta(field).distinct),
            ty: field.map_or(Type::Bytes, |field| part.schema.fields[field].ty),
        })
    }

    /// Calls `each` with every ordinal of a document, or with `distinct` if it has no value.
    fn each_or_missing(&self, doc: u32, mut each: impl FnMut(u32)) {
        let mut any = false;
        if let Some(column) = &self.column {
            column.each(doc, self.distinct, |ord| {
                any = true;
                each(ord.min(self.distinct));
            });
        }
        if !any {
            each(self.distinct);
        }
    }
}

/// Collects the groups of one partition. Groups are numbered in the order in which they appear.
struct GroupSink<'p> {
    keys: Vec<FieldSource<'p>>,
    aggregated: Vec<FieldSource<'p>>,
    /// Maps a code to the number of its group. The code of a pair of ordinals is `first * (distinct
    /// values of the second field + 1) + second`.
    numbers: GroupNumbers,
    groups: Vec<PartitionGroup>,
    limits: &'p QueryLimits,
}

/// A map from codes to group numbers.
enum GroupNumbers {
    /// Group number + 1 by code, for a small code space; 0 if the code has no group.
    Direct(Vec<u32>),
    Hashed(KeyMap<u64, u32>),
}

/// A group of one partition.
struct PartitionGroup {
    code: u64,
    count: u64,
    aggregates: Vec<PartitionAggregate>,
}

/// An aggregate of one group in one partition. Minimum and maximum are ordinals.
#[derive(Clone)]
struct PartitionAggregate {
    low: u32,
    high: u32,
    count: u64,
    int: i128,
    float: f64,
}

impl PartitionAggregate {
    const EMPTY: PartitionAggregate =
        PartitionAggregate { low: u32::MAX, high: 0, count: 0, int: 0, float: 0.0 };

    fn add(&mut self, ty: Type, ord: u32, key: u64) {
        self.count += 1;
        self.low = self.low.min(ord);
        self.high = self.high.max(ord);
        match ty {
            Type::F64 => self.float += key_to_f64(key),
            Type::U64 => self.int += i128::from(key),
            Type::I64 => self.int += i128::from(key_to_i64(key)),
            _ => {}
        }
    }
}

/// Code spaces below this size are mapped by a table, larger ones by a hash map.
const MAX_TABLE_CODES: u64 = 1 << 16;

impl<'p> GroupSink<'p> {
    fn new(
        keys: Vec<FieldSource<'p>>,
        aggregated: Vec<FieldSource<'p>>,
        limits: &'p QueryLimits,
    ) -> GroupSink<'p> {
        let codes: u64 = keys.iter().map(|k| u64::from(k.distinct) + 1).product();
        let numbers = match codes {
            0..MAX_TABLE_CODES => GroupNumbers::Direct(vec![0; codes as usize]),
            _ => GroupNumbers::Hashed(KeyMap::default()),
        };
        GroupSink { keys, aggregated, numbers, groups: Vec::new(), limits }
    }

    /// The number of the group with this code. Creates the group if there is none.
    fn group_number(&mut self, code: u64) -> usize {
        let next = self.groups.len() as u32;
        let number = match &mut self.numbers {
            GroupNumbers::Direct(table) => {
                let entry = &mut table[code as usize];
                *entry = if *entry == 0 { next + 1 } else { *entry };
                *entry - 1
            }
            GroupNumbers::Hashed(table) => *table.entry(code).or_insert(next),
        };
        if number == next {
            let aggregates = vec![PartitionAggregate::EMPTY; self.aggregated.len()];
            self.groups.push(PartitionGroup { code, count: 0, aggregates });
        }
        number as usize
    }

    /// Adds a document to each of its groups.
    fn add(&mut self, doc: u32, codes: &mut Vec<u64>) -> Result<()> {
        codes.clear();
        match self.keys.as_slice() {
            [] => codes.push(0),
            [first] => first.each_or_missing(doc, |ord| codes.push(u64::from(ord))),
            [first, second, ..] => {
                let width = u64::from(second.distinct) + 1;
                first.each_or_missing(doc, |a| {
                    second
                        .each_or_missing(doc, |b| codes.push(u64::from(a) * width + u64::from(b)));
                });
            }
        }
        for &code in codes.iter() {
            let number = self.group_number(code);
            self.limits.check_groups(self.groups.len())?;
            self.groups[number].count += 1;
            for (source, partial) in self.aggregated.iter().zip(&mut self.groups[number].aggregates)
            {
                let (Some(column), Some(field)) = (&source.column, source.field) else { continue };
                let dictionary = source.part.dictionary(field)?;
                column.each(doc, source.distinct, |ord| {
                    partial.add(source.ty, ord, dictionary.fixed_key(ord));
                });
            }
        }
        Ok(())
    }

    /// Merges the groups of this partition into `groups`.
    fn merge(
        self,
        groups: &mut Groups,
        running: &dyn Fn() -> Vec<RunningAggregate>,
        limits: &QueryLimits,
    ) -> Result<()> {
        let width = self.keys.get(1).map_or(1, |second| u64::from(second.distinct) + 1);
        for (n, group) in self.groups.into_iter().enumerate() {
            if n.is_multiple_of(1024) {
                limits.check()?;
            }
            let ords = [group.code / width, group.code % width];
            let ords = if self.keys.len() == 1 { [group.code, 0] } else { ords };
            let mut key = Vec::with_capacity(self.keys.len());
            for (source, ord) in self.keys.iter().zip(ords) {
                key.push(match source.field {
                    Some(field) if ord < u64::from(source.distinct) => {
                        Some(source.part.dictionary(field)?.key(ord as u32))
                    }
                    _ => None,
                });
            }
            let group_total =
                groups.entry(key).or_insert_with(|| GroupTotal { count: 0, aggregates: running() });
            group_total.count += group.count;
            for ((total, partial), source) in
                group_total.aggregates.iter_mut().zip(&group.aggregates).zip(&self.aggregated)
            {
                total.merge(partial, source)?;
            }
            limits.check_groups(groups.len())?;
        }
        Ok(())
    }
}

impl Sink for GroupSink<'_> {
    fn ascending(&self) -> bool {
        true
    }

    fn docs(&mut self, docs: &[u32]) -> Result<ControlFlow<()>> {
        let mut codes = Vec::with_capacity(4);
        docs.iter().try_for_each(|&doc| self.add(doc, &mut codes))?;
        Ok(ControlFlow::Continue(()))
    }
}
