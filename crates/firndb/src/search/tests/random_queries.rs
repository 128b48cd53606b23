//! Random queries of a random collection, with literals mostly from its data.

use super::random_collection::{RandomCollection, Source};
use crate::search::model::query::{Filter, Op, OrderBy, Query, asc, desc, not};
use crate::search::model::schema::{Field, Schema};
use crate::search::model::types::Type;
use crate::search::model::value::Value;
use crate::search::testing::Rng;
use crate::search::{Facet, GroupBy};

const OPS: [Op; 5] = [Op::Eq, Op::Lt, Op::Lte, Op::Gt, Op::Gte];

/// Generates queries of the fields of one collection.
pub(crate) struct QueryGenerator<'a> {
    filterable: Vec<&'a Source>,
    sortable: Vec<&'a Field>,
    /// Every field, for groups and aggregates.
    all: Vec<&'a Field>,
    /// Fields whose values can be read back.
    pub readable: Vec<&'a Field>,
    documents: usize,
}

impl<'a> QueryGenerator<'a> {
    /// `known` is the schema of the collection, which may lack a field that no document has.
    pub fn new(case: &'a RandomCollection, known: &Schema) -> QueryGenerator<'a> {
        let sources = || case.spec.sources.iter().filter(|s| known.field(&s.field.name).is_some());
        let fields = || sources().map(|source| &source.field);
        QueryGenerator {
            filterable: sources().filter(|s| s.field.roles.filterable).collect(),
            all: fields().collect(),
            sortable: fields().filter(|f| f.roles.sortable).collect(),
            readable: fields().filter(|f| f.roles.stored || f.roles.sortable).collect(),
            documents: case.model.docs.len(),
        }
    }

    pub fn filter(&self, rng: &mut Rng) -> Filter {
        if !self.filterable.is_empty() && rng.below(6) == 0 {
            return Filter::And(vec![self.needle(rng), self.condition(rng), self.condition(rng)]);
        }
        if !self.filterable.is_empty() && rng.below(12) == 0 {
            return self.many(rng);
        }
        if self.filterable.iter().any(|source| source.field.name == "x") && rng.below(3) == 0 {
            return self.window(rng);
        }
        let depth = *rng.pick(&[0, 0, 1, 1, 2, 2, 3, 4]);
        self.filter_of(rng, depth)
    }

    /// Ranges of both fields of a point, perhaps with other conditions.
    fn window(&self, rng: &mut Rng) -> Filter {
        let mut parts = Vec::new();
        for source in self.filterable.iter().filter(|s| ["x", "y"].contains(&&*s.field.name)) {
            let name = source.field.name.clone();
            parts.push(match rng.below(4) {
                0 => Filter::Compare(name, *rng.pick(&OPS), literal(rng, source)),
                _ => Filter::Between(name, literal(rng, source), literal(rng, source)),
            });
        }
        for _ in 0..rng.below(3) {
            let other = self.condition(rng);
            parts.insert(rng.below(parts.len() + 1), other);
        }
        match rng.below(6) {
            0 => not(Filter::And(parts)),
            1 => Filter::Or(vec![Filter::And(parts), self.condition(rng)]),
            _ => Filter::And(parts),
        }
    }

    /// A conjunction of many conditions. Most documents satisfy each, so that some satisfy all.
    fn many(&self, rng: &mut Rng) -> Filter {
        let part = |rng: &mut Rng| match rng.below(3) {
            0 => not(self.needle(rng)),
            1 => Filter::Or(vec![not(self.needle(rng)), self.condition(rng)]),
            _ => Filter::Or(vec![self.condition(rng), not(self.condition(rng)), self.needle(rng)]),
        };
        let parts = 6 + rng.below(20);
        Filter::And((0..parts).map(|_| part(rng)).collect())
    }

    /// A few values close to each other: a selective condition, which a plan may start with.
    fn needle(&self, rng: &mut Rng) -> Filter {
        let source = *rng.pick(&self.filterable);
        let (first, step) = (rng.below(source.pool.len()), 1 + rng.below(3));
        let values = source.pool[first..].iter().step_by(step).take(1 + rng.below(5));
        Filter::In(source.field.name.clone(), values.cloned().collect())
    }

    fn filter_of(&self, rng: &mut Rng, depth: usize) -> Filter {
        if depth == 0 || self.filterable.is_empty() {
            return self.condition(rng);
        }
        let parts = |rng: &mut Rng| {
            let count = *rng.pick(&[0, 1, 2, 2, 2, 3, 3, 5]);
            (0..count).map(|_| self.filter_of(rng, depth - 1)).collect()
        };
        match rng.below(8) {
            0..=3 => Filter::And(parts(rng)),
            4 | 5 => Filter::Or(parts(rng)),
            6 => not(self.filter_of(rng, depth - 1)),
            _ => self.condition(rng),
        }
    }

    fn condition(&self, rng: &mut Rng) -> Filter {
        if self.filterable.is_empty() || rng.below(20) == 0 {
            return Filter::All;
        }
        let source = *rng.pick(&self.filterable);
        let name = source.field.name.clone();
        match rng.below(12) {
            0..=5 => Filter::Compare(name, *rng.pick(&OPS), literal(rng, source)),
            6 | 7 => {
                let count = *rng.pick(&[0, 1, 2, 3, 10, 40]);
                Filter::In(name, (0..count).map(|_| literal(rng, source)).collect())
            }
            8 => Filter::Between(name, literal(rng, source), literal(rng, source)),
            9 => {
                let first = rng.below(source.pool.len());
                let last = (first + rng.below(6)).min(source.pool.len() - 1);
                Filter::Between(name, source.pool[first].clone(), source.pool[last].clone())
            }
            10 => Filter::Exists(name),
            _ if source.field.ty.is_fixed() => not(Filter::Exists(name)),
            _ => Filter::Prefix(name, prefix(rng, source)),
        }
    }

    /// A query for a page. Callers set `after`.
    pub fn query(&self, rng: &mut Rng) -> Query {
        let mut query = Query::new(self.filter(rng));
        query.order = self.order(rng);
        query.count = rng.below(2) == 0;
        query.skip = match rng.below(4) {
            0 => rng.below(self.documents + 2) as u64,
            1 => rng.below(10) as u64,
            _ => 0,
        };
        query.limit = match rng.below(6) {
            0 => None,
            1 => Some(rng.below(self.documents + 2) as u64),
            2 => Some(0),
            _ => Some(1 + rng.below(20) as u64),
        };
        query
    }

    fn order(&self, rng: &mut Rng) -> Vec<OrderBy> {
        if self.sortable.is_empty() {
            return Vec::new();
        }
        let count = *rng.pick(&[0, 1, 1, 2, 3]);
        let key = |rng: &mut Rng| {
            let name = &rng.pick(&self.sortable).name;
            if rng.below(2) == 0 { asc(name) } else { desc(name) }
        };
        (0..count).map(|_| key(rng)).collect()
    }

    pub fn facet(&self, rng: &mut Rng, disjunctive: bool) -> Option<Facet> {
        let field = (!self.filterable.is_empty()).then(|| &rng.pick(&self.filterable).field)?;
        let top = *rng.pick(&[0, 1, 3, 10, usize::MAX]);
        Some(Facet { field: field.name.clone(), top, disjunctive })
    }

    pub fn one_field(&self, rng: &mut Rng) -> Option<&'a Field> {
        (!self.all.is_empty()).then(|| *rng.pick(&self.all))
    }

    pub fn group_by(&self, rng: &mut Rng) -> Option<GroupBy> {
        let mut by = GroupBy::default();
        for _ in 0..1 + rng.below(2) {
            by.fields.push(self.one_field(rng)?.name.clone());
        }
        for _ in 0..rng.below(3) {
            by.aggregates.push(self.one_field(rng)?.name.clone());
        }
        by.fields.dedup();
        Some(by)
    }
}

/// A literal to compare the field with: a value of the data, one next to it, a random value, or one
/// of another type.
fn literal(rng: &mut Rng, source: &Source) -> Value {
    let ty = source.field.ty;
    let value = match rng.below(8) {
        0 => rng.value(ty),
        1 => {
            let value = rng.pick(&source.pool).clone();
            near(rng, &value)
        }
        _ => rng.pick(&source.pool).clone(),
    };
    match (ty, value) {
        (Type::I64 | Type::U64 | Type::F64, _) if rng.below(8) == 0 => {
            let ty = *rng.pick(&[Type::I64, Type::U64, Type::F64]);
            rng.value(ty)
        }
        (Type::I64 | Type::U64, Value::I64(v)) if rng.below(16) == 0 => Value::F64(v as f64 + 0.5),
        (Type::F64, Value::F64(v)) if v.abs() < 1e15 && rng.below(16) == 0 => Value::I64(v as i64),
        (Type::Bytes, Value::Bytes(v)) => match String::from_utf8(v) {
            Ok(text) if rng.below(2) == 0 => Value::Str(text),
            Ok(text) => Value::Bytes(text.into_bytes()),
            Err(e) => Value::Bytes(e.into_bytes()),
        },
        (_, value) => value,
    }
}

/// A neighbouring value.
fn near(rng: &mut Rng, value: &Value) -> Value {
    let up = rng.below(2) == 0;
    match value {
        Value::Bool(v) => Value::Bool(!v),
        Value::I64(v) => Value::I64(if up { v.saturating_add(1) } else { v.saturating_sub(1) }),
        Value::Timestamp(v) => {
            Value::Timestamp(if up { v.saturating_add(1) } else { v.saturating_sub(1) })
        }
        Value::U64(v) => Value::U64(if up { v.saturating_add(1) } else { v.saturating_sub(1) }),
        Value::F64(v) => Value::F64(if up { v.next_up() } else { v.next_down() }),
        Value::Str(v) if up => Value::Str(format!("{v}\0")),
        Value::Str(v) => Value::Str(v.chars().skip(1).collect()),
        Value::Bytes(v) if up => Value::Bytes([&v[..], &[0]].concat()),
        Value::Bytes(v) => Value::Bytes(v.iter().skip(1).copied().collect()),
    }
}

/// The first characters of a value of the data, or of a random one.
fn prefix(rng: &mut Rng, source: &Source) -> Value {
    let cut = rng.below(5);
    match literal(rng, source) {
        Value::Str(v) => Value::Str(v.chars().take(cut).collect()),
        Value::Bytes(v) => Value::Bytes(v.into_iter().take(cut).collect()),
        other => other,
    }
}
