//! Groups and aggregates: matches by the values of up to two fields, and count, minimum, maximum,
//! sum and average of other fields in each group.
//!
//! Each partition groups by ordinals; they become keys once it is done. Offsets are exact for
//! integers; floats are added in document order, partition by partition, so that results do not
//! depend on the plan or on threads.

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

/// Fields to group by (one or two; several values of a document put it into several groups) and
/// fields to aggregate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupBy {
    /// Fields whose values make the groups.
    pub fields: Vec<String>,
    /// Fields to aggregate in each group.
    pub aggregates: Vec<String>,
}

/// A group of matches.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// One value a field; `None` for documents without.
    pub key: Vec<Option<Value>>,
    /// Documents in the group.
    pub count: u64,
    /// One aggregate for each field asked for.
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
    /// As a float, rounded.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Int(v) => v as f64,
            Number::Float(v) => v,
        }
    }
}

/// CountSink, minimum, maximum, sum and average of a field's values over some documents.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// Number of values.
    pub count: u64,
    /// The smallest value.
    pub min: Option<Value>,
    /// The largest value.
    pub max: Option<Value>,
    /// The sum, of numbers only; `None` without values.
    pub sum: Option<Number>,
    /// The average, of numbers only; `None` without values.
    pub avg: Option<f64>,
}

/// An aggregate over all partitions so far.
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

    /// Adds what a partition has.
    fn join(&mut self, partial: &Partial, source: &Source) -> Result<()> {
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

/// A group over all partitions so far.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) count: u64,
    pub(crate) aggregates: Vec<RunningAggregate>,
}

impl Tally {
    /// Adds what another thread found. Offsets of floats are not shared by threads.
    fn add(&mut self, other: Tally) {
        self.count += other.count;
        for (total, more) in self.aggregates.iter_mut().zip(other.aggregates) {
            total.add(more);
        }
    }
}

/// Groups by their keys; `None` for documents without a value.
pub(crate) type Groups = KeyMap<Vec<Option<Key>>, Tally>;

/// Groups in the order of their keys, missing keys last. `types` are those of the keys.
pub(crate) fn sorted(found: Groups, types: &[Type]) -> Result<Vec<Group>> {
    let mut found: Vec<_> = found.into_iter().collect();
    let missing_last = |key: &Vec<Option<Key>>| -> Vec<(bool, Option<Key>)> {
        key.iter().map(|k| (k.is_none(), k.clone())).collect()
    };
    found.sort_by_cached_key(|(key, _)| missing_last(key));
    let mut all = Vec::with_capacity(found.len());
    for (key, tally) in found {
        let values = key.iter().zip(types);
        let values = values.map(|(k, &ty)| k.as_ref().map(|k| decode_key(ty, k)).transpose());
        let aggregates = tally.aggregates.into_iter().map(RunningAggregate::finish);
        all.push(Group {
            key: values.collect::<Result<_>>()?,
            count: tally.count,
            aggregates: aggregates.collect::<Result<_>>()?,
        });
    }
    Ok(all)
}

/// Groups the matches by up to two fields (none: one group of all) and aggregates the fields `of`
/// in each. Fields are numbers of the reader's schema.
pub(crate) fn groups(executor: &mut Executor, keys: &[usize], of: &[usize]) -> Result<Groups> {
    let visits = executor.query.set.partitions.len();
    let floats = of.iter().any(|&field| executor.query.set.schema.fields[field].ty == Type::F64);
    if floats {
        // A sum of floats depends on what is added first: one thread, partition by partition.
        return groups_in(executor, keys, of, &mut (0..visits));
    }
    let work = |executor: &mut Executor, turns: &mut dyn Iterator<Item = usize>| {
        groups_in(executor, keys, of, turns)
    };
    let found = executor.share(visits, work)?;
    let join = |mut all: Groups, more: Groups| {
        for (key, tally) in more {
            match all.entry(key) {
                Entry::Occupied(entry) => entry.into_mut().add(tally),
                Entry::Vacant(entry) => drop(entry.insert(tally)),
            }
        }
        all
    };
    Ok(found.into_iter().reduce(join).unwrap_or_default())
}

/// Groups the matches of some partitions.
fn groups_in(
    executor: &mut Executor,
    keys: &[usize],
    of: &[usize],
    turns: &mut dyn Iterator<Item = usize>,
) -> Result<Groups> {
    let set = executor.query.set;
    let running = || of.iter().map(|&f| RunningAggregate::new(set.schema.fields[f].ty)).collect();
    let mut groups = Groups::default();
    if keys.is_empty() {
        groups.insert(Vec::new(), Tally { count: 0, aggregates: running() });
    }
    for p in turns {
        if executor.query.pruned(p) {
            executor.work.stats.pruned += 1;
            continue;
        }
        let part = &*set.partitions[p];
        let sources = |fields: &[usize]| -> Result<Vec<Source>> {
            fields.iter().map(|&f| Source::new(part, set.local(p, f))).collect()
        };
        let mut sink = Grouping::new(sources(keys)?, sources(of)?);
        let _ = executor.run(p, Vec::new(), &mut sink)?;
        sink.join(&mut groups, &running, executor.query.limits)?;
    }
    Ok(groups)
}

/// A field of a partition, as groups need it.
struct Source<'p> {
    part: &'p Partition,
    field: Option<usize>,
    column: Option<Column<'p>>,
    distinct: u32,
    ty: Type,
}

impl<'p> Source<'p> {
    fn new(part: &'p Partition, field: Option<usize>) -> Result<Source<'p>> {
        Ok(Source {
            part,
            field,
            column: field.map(|field| part.column_or_derived(field)).transpose()?,
            distinct: field.map_or(0, |field| part.meta(field).distinct),
            ty: field.map_or(Type::Bytes, |field| part.schema.fields[field].ty),
        })
    }

    /// Calls `each` with the ordinals of a document, and with `distinct` if it has no value.
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

/// The groups of one partition, numbered as they come.
struct Grouping<'p> {
    keys: Vec<Source<'p>>,
    of: Vec<Source<'p>>,
    /// Ordinals of the first field times the values of the second, plus its ordinal -> number of
    /// the group.
    numbers: Numbers,
    slots: Vec<Slot>,
}

enum Numbers {
    /// Number + 1 by code, if there are few codes.
    Direct(Vec<u32>),
    Hashed(KeyMap<u64, u32>),
}

/// A group of one partition.
struct Slot {
    code: u64,
    count: u64,
    aggregates: Vec<Partial>,
}

/// An aggregate of one group in one partition.
#[derive(Clone)]
struct Partial {
    low: u32,
    high: u32,
    count: u64,
    int: i128,
    float: f64,
}

impl Partial {
    const EMPTY: Partial = Partial { low: u32::MAX, high: 0, count: 0, int: 0, float: 0.0 };

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

/// Codes that are worth a table.
const DIRECT: u64 = 1 << 16;

impl<'p> Grouping<'p> {
    fn new(keys: Vec<Source<'p>>, of: Vec<Source<'p>>) -> Grouping<'p> {
        let codes: u64 = keys.iter().map(|k| u64::from(k.distinct) + 1).product();
        let numbers = match codes {
            0..DIRECT => Numbers::Direct(vec![0; codes as usize]),
            _ => Numbers::Hashed(KeyMap::default()),
        };
        Grouping { keys, of, numbers, slots: Vec::new() }
    }

    /// The number of a group.
    fn number(&mut self, code: u64) -> usize {
        let next = self.slots.len() as u32;
        let number = match &mut self.numbers {
            Numbers::Direct(table) => {
                let entry = &mut table[code as usize];
                *entry = if *entry == 0 { next + 1 } else { *entry };
                *entry - 1
            }
            Numbers::Hashed(table) => *table.entry(code).or_insert(next),
        };
        if number == next {
            let aggregates = vec![Partial::EMPTY; self.of.len()];
            self.slots.push(Slot { code, count: 0, aggregates });
        }
        number as usize
    }

    /// Adds a document to each of its groups.
    fn add(&mut self, doc: u32, codes: &mut Vec<u64>) -> Result<()> {
        codes.clear();
        match self.keys.as_slice() {
            [] => codes.push(0),
            [one] => one.each_or_missing(doc, |ord| codes.push(u64::from(ord))),
            [one, two, ..] => {
                let width = u64::from(two.distinct) + 1;
                one.each_or_missing(doc, |a| {
                    two.each_or_missing(doc, |b| codes.push(u64::from(a) * width + u64::from(b)));
                });
            }
        }
        for &code in codes.iter() {
            let number = self.number(code);
            self.slots[number].count += 1;
            for (source, partial) in self.of.iter().zip(&mut self.slots[number].aggregates) {
                let (Some(column), Some(field)) = (&source.column, source.field) else { continue };
                let dictionary = source.part.dictionary(field)?;
                column.each(doc, source.distinct, |ord| {
                    partial.add(source.ty, ord, dictionary.fixed_key(ord));
                });
            }
        }
        Ok(())
    }

    /// Adds the groups of this partition to those of all.
    fn join(
        self,
        groups: &mut Groups,
        running: &dyn Fn() -> Vec<RunningAggregate>,
        limits: &QueryLimits,
    ) -> Result<()> {
        let width = self.keys.get(1).map_or(1, |two| u64::from(two.distinct) + 1);
        for (n, slot) in self.slots.into_iter().enumerate() {
            if n.is_multiple_of(1024) {
                limits.check()?;
            }
            let ords = [slot.code / width, slot.code % width];
            let ords = if self.keys.len() == 1 { [slot.code, 0] } else { ords };
            let mut key = Vec::with_capacity(self.keys.len());
            for (source, ord) in self.keys.iter().zip(ords) {
                key.push(match source.field {
                    Some(field) if ord < u64::from(source.distinct) => {
                        Some(source.part.dictionary(field)?.key(ord as u32))
                    }
                    _ => None,
                });
            }
            let tally =
                groups.entry(key).or_insert_with(|| Tally { count: 0, aggregates: running() });
            tally.count += slot.count;
            for ((total, partial), source) in
                tally.aggregates.iter_mut().zip(&slot.aggregates).zip(&self.of)
            {
                total.join(partial, source)?;
            }
        }
        Ok(())
    }
}

impl Sink for Grouping<'_> {
    fn ascending(&self) -> bool {
        true
    }

    fn docs(&mut self, docs: &[u32]) -> Result<ControlFlow<()>> {
        let mut codes = Vec::with_capacity(4);
        docs.iter().try_for_each(|&doc| self.add(doc, &mut codes))?;
        Ok(ControlFlow::Continue(()))
    }
}
