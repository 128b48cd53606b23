//! A reference model of a collection: a list of documents, which every query scans. It is slow, but
//! obviously correct, and shares no code with the engine, not even the comparison of values. Its
//! only preparation is to sort and number the values of a field, so that queries compare numbers.

use crate::search::model::query::{Filter, Op, OrderBy, PageToken, Query};
use crate::search::model::schema::Field;
use crate::search::model::types::Type;
use crate::search::model::value::{Value, timestamp_from_text};
use crate::search::{Aggregate, Facet, FacetCounts, Group, GroupBy, Hit, Number};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// A document: the values of each field of the model, ascending and distinct.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Doc {
    pub values: Vec<Vec<Value>>,
    pub payload: Vec<u8>,
}

/// A collection: partitions in the order of their names, and their documents in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub fields: Vec<Field>,
    pub names: Vec<String>,
    pub docs: Vec<Doc>,
    /// The partition and the number of each document.
    pub hits: Vec<Hit>,
    /// One per field, computed for the first query that needs it.
    columns: Vec<OnceLock<Column>>,
}

/// The values of a field in all documents.
#[derive(Clone, Debug)]
struct Column {
    /// The distinct values, ascending.
    values: Vec<Value>,
    /// The values of document `d` have the numbers `numbers[starts[d]..starts[d + 1]]`.
    starts: Vec<usize>,
    numbers: Vec<u32>,
}

/// The number that stands for a missing value, which sorts last.
const MISSING: u32 = u32::MAX;

impl Column {
    fn of(&self, index: usize) -> &[u32] {
        &self.numbers[self.starts[index]..self.starts[index + 1]]
    }

    /// The smallest value.
    fn first(&self, index: usize) -> u32 {
        self.of(index).first().copied().unwrap_or(MISSING)
    }

    fn value(&self, number: u32) -> Option<&Value> {
        self.values.get(number as usize)
    }
}

impl Model {
    pub fn new(fields: Vec<Field>, mut parts: Vec<(String, Vec<Doc>)>) -> Model {
        parts.sort_by(|a, b| a.0.cmp(&b.0));
        let columns = fields.iter().map(|_| OnceLock::new()).collect();
        let mut model = Model { fields, columns, ..Model::default() };
        for (partition, (name, docs)) in (0..).zip(parts) {
            model.names.push(name);
            model.hits.extend((0..docs.len() as u32).map(|doc| Hit { partition, doc }));
            model.docs.extend(docs);
        }
        model
    }

    pub fn field(&self, name: &str) -> usize {
        self.fields.iter().position(|f| f.name == name).unwrap()
    }

    fn column(&self, field: &str) -> &Column {
        let i = self.field(field);
        self.columns[i].get_or_init(|| {
            let values = || self.docs.iter().flat_map(|doc| &doc.values[i]);
            let mut sorted: Vec<&Value> = values().collect();
            sorted.sort_by(|a, b| compare(a, b));
            sorted.dedup_by(|a, b| compare(a, b).is_eq());
            let number = |value| sorted.binary_search_by(|v| compare(v, value)).unwrap() as u32;
            let numbers = values().map(number).collect();
            let mut starts = vec![0];
            starts.extend(self.docs.iter().scan(0, |end, doc| {
                *end += doc.values[i].len();
                Some(*end)
            }));
            Column { values: sorted.into_iter().cloned().collect(), starts, numbers }
        })
    }

    /// The index of a hit in `docs`.
    pub fn index(&self, hit: Hit) -> usize {
        self.hits.binary_search(&hit).unwrap()
    }

    /// For each document whether it satisfies the filter.
    pub fn satisfies(&self, filter: &Filter) -> Vec<bool> {
        match filter {
            Filter::All => vec![true; self.docs.len()],
            Filter::Compare(f, op, v) => self.any(f, |x| matches_op(*op, compare(x, v))),
            Filter::In(f, list) => self.any(f, |x| list.iter().any(|v| compare(x, v).is_eq())),
            Filter::Between(f, low, high) => {
                self.any(f, |x| compare(x, low).is_ge() && compare(x, high).is_le())
            }
            Filter::Prefix(f, start) => self.any(f, |x| bytes(x).starts_with(bytes(start))),
            Filter::Exists(f) => self.any(f, |_| true),
            Filter::And(parts) => self.join(parts, true, |a, b| a && b),
            Filter::Or(parts) => self.join(parts, false, |a, b| a || b),
            Filter::Not(part) => self.satisfies(part).into_iter().map(|held| !held).collect(),
        }
    }

    fn any(&self, field: &str, holds: impl Fn(&Value) -> bool) -> Vec<bool> {
        let column = self.column(field);
        let held: Vec<bool> = column.values.iter().map(holds).collect();
        let any = |index| column.of(index).iter().any(|&number| held[number as usize]);
        (0..self.docs.len()).map(any).collect()
    }

    fn join(&self, parts: &[Filter], start: bool, op: fn(bool, bool) -> bool) -> Vec<bool> {
        let mut held = vec![start; self.docs.len()];
        for part in parts {
            let other = self.satisfies(part);
            held.iter_mut().zip(other).for_each(|(a, b)| *a = op(*a, b));
        }
        held
    }

    /// The indexes of the documents that satisfy the filter, in document order.
    pub fn matching(&self, filter: &Filter) -> Vec<usize> {
        let held = self.satisfies(filter);
        (0..held.len()).filter(|&i| held[i]).collect()
    }

    /// All matches of a query in its order. Ignores `after`, `skip` and `limit`.
    pub fn ordered(&self, query: &Query) -> Vec<usize> {
        let order = order(query);
        let mut found = self.matching(&query.filter);
        let columns: Vec<&Column> = order.iter().map(|key| self.column(&key.field)).collect();
        // The sort is stable: ties stay in document order.
        found.sort_by(|&a, &b| {
            let mut orders = order.iter().zip(&columns).map(|(key, column)| {
                let (a, b) = (column.first(a), column.first(b));
                match key.descending && a != MISSING && b != MISSING {
                    true => b.cmp(&a),
                    false => a.cmp(&b), // missing last in either direction
                }
            });
            orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
        });
        found
    }

    fn keys(&self, order: &[&OrderBy], index: usize) -> Vec<Option<&Value>> {
        let values = &self.docs[index].values;
        order.iter().map(|key| values[self.field(&key.field)].first()).collect()
    }

    /// The page of a query.
    pub fn search(&self, query: &Query) -> Vec<Hit> {
        let mut found = self.ordered(query);
        if let Some(token) = &query.after {
            let token = self.resumed(query, token, &found);
            found.retain(|&index| self.is_after(query, &token, index));
        }
        let limit = query.limit.map_or(usize::MAX, |limit| limit as usize);
        found.into_iter().skip(query.skip as usize).take(limit).map(|i| self.hits[i]).collect()
    }

    /// The page token to resume from. If its document no longer exists and exactly one match has
    /// its keys, that is the page token of this match.
    fn resumed(&self, query: &Query, token: &PageToken, found: &[usize]) -> PageToken {
        let text =
            |token: PageToken| PageToken { partition: String::new(), doc: 0, ..token }.to_string();
        let keys = text(token.clone());
        let at = |&index: &usize| self.page_token(query, self.hits[index]);
        let exists = (0..self.hits.len()).any(|index| at(&index) == *token);
        let mut alike = found.iter().map(at).filter(|other| text(other.clone()) == keys);
        match (alike.next(), alike.next()) {
            (Some(one), None) if !token.keys.is_empty() && !exists => one,
            _ => token.clone(),
        }
    }

    fn is_after(&self, query: &Query, token: &PageToken, index: usize) -> bool {
        let keys: Vec<Option<&Value>> = token.keys.iter().map(Option::as_ref).collect();
        let hit = self.hits[index];
        let order = order(query);
        compare_keys(&order, &self.keys(&order, index), &keys)
            .then_with(|| self.names[hit.partition as usize].cmp(&token.partition))
            .then_with(|| hit.doc.cmp(&token.doc))
            .is_gt()
    }

    pub fn page_token(&self, query: &Query, hit: Hit) -> PageToken {
        let keys =
            self.keys(&order(query), self.index(hit)).into_iter().map(Option::<&Value>::cloned);
        let partition = self.names[hit.partition as usize].clone();
        PageToken { keys: keys.collect(), partition, doc: hit.doc }
    }

    pub fn facet(&self, filter: &Filter, facet: &Facet) -> FacetCounts {
        let filter = if facet.disjunctive { without(filter, &facet.field) } else { filter.clone() };
        let column = self.column(&facet.field);
        let (mut counts, mut missing) = (vec![0; column.values.len()], 0);
        for index in self.matching(&filter) {
            missing += u64::from(column.of(index).is_empty());
            column.of(index).iter().for_each(|&number| counts[number as usize] += 1);
        }
        let counts = column.values.iter().cloned().zip(counts);
        let mut values: Vec<(Value, u64)> = counts.filter(|(_, count)| *count > 0).collect();
        let distinct = values.len() as u64;
        values.sort_by_key(|(_, count)| std::cmp::Reverse(*count)); // stable: ties by value
        values.truncate(facet.top);
        FacetCounts { field: facet.field.clone(), values, distinct, missing }
    }

    pub fn aggregate(&self, filter: &Filter, field: &str) -> Aggregate {
        self.aggregate_of(&self.matching(filter), field)
    }

    fn aggregate_of(&self, indexes: &[usize], field: &str) -> Aggregate {
        let i = self.field(field);
        let values = || indexes.iter().flat_map(|&index| &self.docs[index].values[i]);
        let count = values().count() as u64;
        let sum = match self.fields[i].ty {
            _ if count == 0 => None,
            Type::I64 | Type::U64 => Some(Number::Int(values().map(integer).sum())),
            Type::F64 => Some(Number::Float(self.sum_by_partition(indexes, i))),
            _ => None,
        };
        let number = sum.map(|sum| match sum {
            Number::Int(v) => v as f64,
            Number::Float(v) => v,
        });
        let avg = number.map(|sum| sum / count as f64);
        let column = self.column(field);
        let numbers = || indexes.iter().flat_map(|&index| column.of(index));
        let value = |number: Option<&u32>| number.and_then(|&n| column.value(n)).cloned();
        let (min, max) = (value(numbers().min()), value(numbers().max()));
        Aggregate { count, min, max, sum, avg }
    }

    /// Adds floats in document order within a partition, then the sums of the partitions.
    fn sum_by_partition(&self, indexes: &[usize], field: usize) -> f64 {
        let same = |a: &usize, b: &usize| self.hits[*a].partition == self.hits[*b].partition;
        let float = |value: &Value| match value {
            Value::F64(v) => *v,
            other => panic!("{other} is not a float"),
        };
        let parts = indexes.chunk_by(same).map(|part| {
            let values = part.iter().flat_map(|&index| &self.docs[index].values[field]);
            values.fold(0.0, |sum, v| sum + float(v))
        });
        parts.fold(0.0, |sum, part| sum + part)
    }

    pub fn group_by(&self, filter: &Filter, by: &GroupBy) -> Vec<Group> {
        let columns: Vec<&Column> = by.fields.iter().map(|name| self.column(name)).collect();
        let mut groups: BTreeMap<Vec<u32>, Vec<usize>> = BTreeMap::new();
        for index in self.matching(filter) {
            let mut keys = vec![Vec::new()];
            for column in &columns {
                let numbers = match column.of(index) {
                    [] => &[MISSING],
                    numbers => numbers,
                };
                let longer = keys.iter().flat_map(|key: &Vec<u32>| {
                    numbers.iter().map(|&number| [&key[..], &[number]].concat())
                });
                keys = longer.collect();
            }
            keys.into_iter().for_each(|key| groups.entry(key).or_default().push(index));
        }
        let value = |(column, number): (&&Column, u32)| column.value(number).cloned();
        let group = |(key, indexes): (Vec<u32>, Vec<usize>)| Group {
            key: columns.iter().zip(key).map(value).collect(),
            count: indexes.len() as u64,
            aggregates: by.aggregates.iter().map(|f| self.aggregate_of(&indexes, f)).collect(),
        };
        groups.into_iter().map(group).collect()
    }
}

/// The keys of a query's order, without repeated fields, which decide nothing.
fn order(query: &Query) -> Vec<&OrderBy> {
    let mut order: Vec<&OrderBy> = Vec::new();
    for key in &query.order {
        if order.iter().all(|known| known.field != key.field) {
            order.push(key);
        }
    }
    order
}

fn compare_keys(order: &[&OrderBy], a: &[Option<&Value>], b: &[Option<&Value>]) -> Ordering {
    let mut orders = order.iter().zip(a.iter().zip(b)).map(|(key, pair)| match pair {
        (Some(a), Some(b)) if key.descending => compare(b, a),
        (Some(a), Some(b)) => compare(a, b),
        (a, b) => a.is_none().cmp(&b.is_none()), // missing last in either direction
    });
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// The filter without the parts of its outermost `and` that are conditions on `field` only.
fn without(filter: &Filter, field: &str) -> Filter {
    if let Filter::And(parts) = filter {
        return Filter::And(parts.iter().map(|p| without(p, field)).collect());
    }
    let names = names(filter);
    let own = !names.is_empty() && names.iter().all(|name| *name == Some(field));
    if own { Filter::All } else { filter.clone() }
}

/// The fields of the conditions of a filter, and `None` for `all` and for empty lists.
fn names(filter: &Filter) -> Vec<Option<&str>> {
    match filter {
        Filter::All => vec![None],
        Filter::Compare(name, ..)
        | Filter::In(name, _)
        | Filter::Between(name, ..)
        | Filter::Prefix(name, _)
        | Filter::Exists(name) => vec![Some(name)],
        Filter::And(parts) | Filter::Or(parts) if parts.is_empty() => vec![None],
        Filter::And(parts) | Filter::Or(parts) => parts.iter().flat_map(names).collect(),
        Filter::Not(part) => names(part),
    }
}

fn matches_op(op: Op, order: Ordering) -> bool {
    match op {
        Op::Eq => order.is_eq(),
        Op::Lt => order.is_lt(),
        Op::Lte => order.is_le(),
        Op::Gt => order.is_gt(),
        Op::Gte => order.is_ge(),
    }
}

/// Compares values of comparable types. Numbers compare by their exact values.
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Str(b)) => a.cmp(&timestamp_from_text(b).unwrap()),
        (Value::F64(a), Value::F64(b)) => a.partial_cmp(b).unwrap(),
        (Value::F64(a), b) => compare_float(*a, integer(b)),
        (a, Value::F64(b)) => compare_float(*b, integer(a)).reverse(),
        (Value::I64(_) | Value::U64(_), b) => integer(a).cmp(&integer(b)),
        _ => bytes(a).cmp(bytes(b)),
    }
}

fn compare_float(float: f64, integer: i128) -> Ordering {
    // The range includes all 64-bit integers, and casts within it are exact.
    let whole = float.trunc().clamp(-1e30, 1e30) as i128;
    whole.cmp(&integer).then_with(|| float.partial_cmp(&float.trunc()).unwrap())
}

fn integer(value: &Value) -> i128 {
    match value {
        Value::I64(v) => i128::from(*v),
        Value::U64(v) => i128::from(*v),
        other => panic!("{other} is not a number"),
    }
}

fn bytes(value: &Value) -> &[u8] {
    match value {
        Value::Str(v) => v.as_bytes(),
        Value::Bytes(v) => v,
        other => panic!("{other} is neither text nor bytes"),
    }
}

#[test]
fn numbers_of_different_types_compare_by_exact_value() {
    let two53 = 9_007_199_254_740_992i64;
    for (a, b, expected) in [
        (Value::I64(10), Value::F64(10.5), Ordering::Less),
        (Value::I64(-10), Value::F64(-10.5), Ordering::Greater),
        (Value::I64(two53 + 1), Value::F64(two53 as f64), Ordering::Greater),
        (Value::U64(u64::MAX), Value::F64(18_446_744_073_709_551_616.0), Ordering::Less),
        (Value::U64(0), Value::F64(f64::NEG_INFINITY), Ordering::Greater),
        (Value::I64(-1), Value::U64(0), Ordering::Less),
        (Value::F64(-0.0), Value::I64(0), Ordering::Equal),
        (Value::F64(-0.5), Value::I64(0), Ordering::Less),
    ] {
        assert_eq!(compare(&a, &b), expected, "{a} and {b}");
        assert_eq!(compare(&b, &a), expected.reverse(), "{b} and {a}");
    }
}
