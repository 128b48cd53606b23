//! Random collections: a schema, generators of values for each field, partitions of documents, and
//! the model of the same documents.
//!
//! The engine treats partitions of different sizes differently, so collections have three scales:
//! see [`Scale`].

use super::reference::{Doc, Model, compare};
use super::{Store, store};
use crate::search::model::query::{OrderBy, Query, all, asc, desc};
use crate::search::model::schema::{Field, Payload, Roles, Schema};
use crate::search::model::types::Type;
use crate::search::model::value::Value;
use crate::search::testing::{FORCED, Forced, Rng};
use crate::search::{Document, PartitionBuilder};
use std::fmt::Write;

/// How large the partitions of a collection are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Up to 9 partitions of up to 3,000 documents: cheap, so that tests can use many.
    Small,
    /// Around 5,000 documents per partition, where plans are chosen by cost.
    Medium,
    /// One partition of more than 65,536 documents: several chunks.
    Large,
}

impl Scale {
    /// About one of four collections is medium, and one of forty is large.
    pub fn of(seed: u64) -> Scale {
        match seed % 40 {
            39 => Scale::Large,
            n if n % 4 == 1 => Scale::Medium,
            _ => Scale::Small,
        }
    }
}

/// A collection on a simulated disk, and its model.
pub(crate) struct RandomCollection {
    pub spec: CollectionSpec,
    pub store: Store,
    pub model: Model,
}

/// The schema, values and sizes of the partitions of a collection.
pub(crate) struct CollectionSpec {
    pub schema: Schema,
    /// One per field of the schema, or per field of the documents if the schema is dynamic.
    pub sources: Vec<Source>,
    pub sizes: Vec<usize>,
    /// The maximum length of a payload in bytes.
    pub payload: usize,
    /// The schemas of some partitions omit the fields that none of their documents has.
    pub omit_unused: bool,
}

/// Generates the values of a field.
pub(crate) struct Source {
    pub field: Field,
    /// Distinct values, ascending.
    pub pool: Vec<Value>,
    distribution: Distribution,
    /// The share of documents without a value, in percent.
    missing: usize,
    /// Documents without a value are consecutive, so that fields correlate.
    clustered: bool,
    /// The maximum number of values per document.
    max_values: usize,
}

/// How documents choose values from the pool.
#[derive(Clone, Copy, Debug)]
enum Distribution {
    Uniform,
    /// The first values of the pool are much more frequent.
    Skewed,
    /// Neighbouring documents mostly have the same value.
    Runs,
    /// Almost all documents have the first value.
    Rare,
    /// Ascending with the document number.
    Ascending,
}

impl RandomCollection {
    pub fn new(rng: &mut Rng, scale: Scale) -> RandomCollection {
        let spec = CollectionSpec::new(rng, scale);
        RandomCollection::of(spec, rng)
    }

    pub fn of(spec: CollectionSpec, rng: &mut Rng) -> RandomCollection {
        let store = store();
        let mut parts = Vec::new();
        let mut change = store.collection.change().unwrap();
        let forced = FORCED.get();
        FORCED.set(Forced { forms: true, ..forced });
        for (n, &size) in spec.sizes.iter().enumerate() {
            let name = format!("{}{n}", rng.pick(&["p", "part-", "P.", "2013-", "_"]));
            let (builder, docs) = spec.partition(rng, size);
            change.put(&name, builder).unwrap();
            parts.push((name, docs));
        }
        FORCED.set(forced);
        change.commit().unwrap();
        let model = Model::new(spec.fields(), parts);
        RandomCollection { spec, store, model }
    }

    /// Describes the schema and the sizes, for messages.
    pub fn describe(&self) -> String {
        let mut text = format!("partitions {:?} of {:?}\n", self.spec.sizes, self.model.names);
        for source in &self.spec.sources {
            let Source { field, pool, distribution, missing, max_values, .. } = source;
            let (distinct, roles) = (pool.len(), field.roles);
            let _ = writeln!(
                text,
                "{} {}: {distinct} values, {distribution:?}, {missing}% missing, \
                 0..={max_values}, {roles:?}",
                field.name,
                field.ty.name()
            );
        }
        let Schema { dynamic, order, payload, points, .. } = &self.spec.schema;
        let _ = writeln!(text, "dynamic {dynamic:?}, order {order:?}, payload {payload:?}");
        let _ = writeln!(text, "points {points:?}");
        text
    }
}

impl CollectionSpec {
    pub fn new(rng: &mut Rng, scale: Scale) -> CollectionSpec {
        let dynamic = (rng.below(6) == 0).then(|| match rng.below(3) {
            0 => Roles::FULL,
            1 => Roles::FILTERABLE,
            _ => Roles::FILTERABLE.with(Roles::STORED),
        });
        let (most_fields, most_values, most_payload) = match scale {
            Scale::Small => (9, 2_000, 2_000),
            Scale::Medium => (7, 8_000, 100),
            Scale::Large => (4, 100_000, 3),
        };
        let mut sources: Vec<Source> = (0..1 + rng.below(most_fields))
            .map(|i| Source::new(rng, format!("f{i}"), dynamic, most_values))
            .collect();
        if dynamic.is_none() && rng.below(3) == 0 {
            let dense = rng.below(2) == 0;
            sources.extend(["x", "y"].map(|name| match dense {
                true => Source::dense_coordinate(rng, name, most_values),
                false => Source::coordinate(rng, name, most_values),
            }));
        }
        if scale == Scale::Large {
            sources.push(Source::wide(rng, dynamic));
        }
        let sizes = sizes(rng, scale);
        let payload = (*rng.pick(&[0, 10, 100, 2_000])).min(most_payload);
        let form = match rng.below(4) {
            0 => {
                let level = 1 + rng.below(3);
                Payload::Zstd { level, dictionary: rng.below(2) == 0 }
            }
            _ => Payload::Raw,
        };
        let schema = match dynamic {
            Some(roles) => Schema::dynamic(roles),
            None => Schema::new(sources.iter().map(|s| s.field.clone())).unwrap(),
        };
        let order = document_order(rng, &sources);
        let mut schema = schema.payload(form).order_by(order).unwrap();
        if schema.field("x").is_some() {
            schema = schema.point("y", "x").unwrap();
        }
        CollectionSpec { schema, sources, sizes, payload, omit_unused: true }
    }

    pub fn fields(&self) -> Vec<Field> {
        self.sources.iter().map(|s| s.field.clone()).collect()
    }

    /// A builder with `size` documents, and the documents in the order of the partition.
    pub fn partition(&self, rng: &mut Rng, size: usize) -> (PartitionBuilder, Vec<Doc>) {
        let docs: Vec<Doc> = (0..size).map(|n| self.document(rng, n, size)).collect();
        let schema = self.known_schema(&docs);
        let builder = self.build(schema.clone(), rng, &docs);
        (builder, self.in_order(&schema, docs))
    }

    /// A builder with these documents.
    pub fn build(&self, schema: Schema, rng: &mut Rng, docs: &[Doc]) -> PartitionBuilder {
        let mut builder = PartitionBuilder::new(schema);
        for doc in docs {
            builder.add(&self.document_for(rng, doc)).unwrap();
        }
        assert_eq!(builder.len() as usize, docs.len());
        builder
    }

    /// The schema of a partition with these documents.
    pub fn known_schema(&self, docs: &[Doc]) -> Schema {
        let mut schema = self.schema.clone();
        let points = std::mem::take(&mut schema.points);
        let has_values = |name: &str| {
            let i = self.sources.iter().position(|s| s.field.name == name).unwrap();
            docs.iter().any(|doc| !doc.values[i].is_empty())
        };
        if schema.is_dynamic() || (self.omit_unused && docs.len() % 2 == 1) {
            schema.order.retain(|key| has_values(&key.field));
            schema.fields.retain(|field| has_values(&field.name));
        }
        if let (false, Some((x, _)), Some((y, _))) =
            (points.is_empty(), schema.field("x"), schema.field("y"))
        {
            schema.add_point([x, y]).unwrap();
        }
        schema
    }

    /// The documents in the order of a partition with this schema.
    pub fn in_order(&self, schema: &Schema, docs: Vec<Doc>) -> Vec<Doc> {
        let model = Model::new(self.fields(), vec![(String::new(), docs)]);
        let order = model.ordered(&Query { order: schema.order.clone(), ..Query::new(all()) });
        order.into_iter().map(|i| model.docs[i].clone()).collect()
    }

    fn document(&self, rng: &mut Rng, n: usize, size: usize) -> Doc {
        let mut values = Vec::new();
        for source in &self.sources {
            values.push(source.values(rng, n, size));
        }
        let length = rng.below(self.payload + 1);
        let word: Vec<u8> = (0..1 + length / 8).map(|_| rng.next() as u8).collect();
        let payload = word.iter().cycle().take(length).copied().collect();
        Doc { values, payload }
    }

    /// A document with these values. Some have repeated values, and values of another type that
    /// convert.
    fn document_for(&self, rng: &mut Rng, doc: &Doc) -> Document {
        let mut document = Document::new().payload(doc.payload.clone());
        for (source, values) in self.sources.iter().zip(&doc.values) {
            let name = source.field.name.as_str();
            let varied = !self.schema.is_dynamic() && rng.below(8) == 0;
            for value in values.iter().rev() {
                document.push(name, if varied { converted(value) } else { value.clone() });
            }
            if source.field.multi && varied {
                values.iter().for_each(|value| document.push(name, value.clone()));
            }
        }
        document
    }
}

/// The same value in another type, if one has it.
fn converted(value: &Value) -> Value {
    match value {
        Value::I64(v) if *v >= 0 => Value::U64(*v as u64),
        Value::U64(v) if i64::try_from(*v).is_ok() => Value::I64(*v as i64),
        Value::I64(v) if (*v as f64) as i128 == i128::from(*v) => Value::F64(*v as f64),
        Value::F64(v) if *v == 0.0 => Value::F64(-0.0),
        Value::F64(v) if v.trunc() == *v && v.abs() < 1e15 => Value::I64(*v as i64),
        Value::Bytes(v) => String::from_utf8(v.clone()).map_or(value.clone(), Value::Str),
        other => other.clone(),
    }
}

impl Source {
    fn new(rng: &mut Rng, name: String, dynamic: Option<Roles>, most_values: usize) -> Source {
        let ty = *rng.pick(&Type::ALL);
        let roles = dynamic.unwrap_or_else(|| match rng.below(8) {
            0 => Roles::SORTABLE,
            1 => Roles::STORED,
            2 | 3 => Roles::FILTERABLE,
            4 => Roles::FILTERABLE.with(Roles::STORED),
            5 => Roles::FILTERABLE.with(Roles::SORTABLE),
            _ => Roles::FULL,
        });
        let mut field = Field::new(name, ty, roles);
        let multi = !roles.sortable && (dynamic.is_some() || rng.below(2) == 0);
        if multi {
            field = field.multi();
        } else if dynamic.is_some() || rng.below(2) == 0 {
            field = field.nullable();
        }
        field.scanned = !multi && (roles.filterable || roles.sortable) && rng.below(3) == 0;
        let cardinality = *rng.pick(&[1, 2, 3, 10, 60, 300, most_values]);
        let count = 1 + rng.below(cardinality);
        let missing = if field.nullable { *rng.pick(&[0, 0, 5, 50, 99, 100]) } else { 0 };
        let max_values = if multi { *rng.pick(&[1, 2, 5, 30]) } else { 1 };
        let distributions = [
            Distribution::Uniform,
            Distribution::Skewed,
            Distribution::Runs,
            Distribution::Rare,
            Distribution::Ascending,
        ];
        let (distribution, clustered) = (*rng.pick(&distributions), rng.below(3) == 0);
        Source { field, pool: pool(rng, ty, count), distribution, missing, clustered, max_values }
    }

    /// A field of a point.
    fn coordinate(rng: &mut Rng, name: &str, most_values: usize) -> Source {
        loop {
            let Source { pool, distribution, missing, clustered, field, .. } =
                Source::new(rng, name.into(), None, most_values);
            if field.ty.is_fixed() {
                let stored = rng.below(3) == 0;
                let roles = Roles { stored, ..Roles::FILTERABLE };
                let field = Field { roles, multi: false, ..field };
                return Source { field, pool, distribution, missing, clustered, max_values: 1 };
            }
        }
    }

    /// A field of a point that may hold values: many keys close to each other.
    fn dense_coordinate(rng: &mut Rng, name: &str, most_values: usize) -> Source {
        let mut field = Field::new(name, Type::I64, Roles::FILTERABLE);
        field.nullable = rng.below(2) == 0;
        let missing = if field.nullable { *rng.pick(&[0, 5, 50]) } else { 0 };
        let (count, step) = (600 + rng.below(most_values), 1 + rng.below(9));
        let start = rng.below(2_000) as i64 - 1_000;
        let value = |i: usize| Value::I64(start + (i * step + i % 3 % step) as i64);
        let pool = (0..count).map(value).collect();
        let (distribution, clustered) =
            (*rng.pick(&[Distribution::Uniform, Distribution::Skewed]), rng.below(3) == 0);
        Source { field, pool, distribution, missing, clustered, max_values: 1 }
    }

    /// A field with one of many fixed-width values in every document, for wide ranges over lists or
    /// over a scanned column.
    fn wide(rng: &mut Rng, dynamic: Option<Roles>) -> Source {
        let ty = *rng.pick(&[Type::I64, Type::U64, Type::F64, Type::Timestamp]);
        let mut field = Field::new("wide", ty, dynamic.unwrap_or(Roles::FULL));
        if let Some(roles) = dynamic {
            field = if roles.sortable { field.nullable() } else { field.multi() };
        }
        field.scanned = dynamic.is_none() && rng.below(2) == 0;
        let more = *rng.pick(&[10, 1_000, 100_000]);
        let count = 65 + rng.below(more);
        let distribution =
            *rng.pick(&[Distribution::Uniform, Distribution::Skewed, Distribution::Uniform]);
        Source {
            field,
            pool: pool(rng, ty, count),
            distribution,
            missing: 0,
            clustered: false,
            max_values: 1,
        }
    }

    /// The values of document `n` of `size`: ascending, distinct.
    fn values(&self, rng: &mut Rng, n: usize, size: usize) -> Vec<Value> {
        let chance = if self.clustered { n * 100 / size } else { rng.below(100) };
        if chance < self.missing {
            return Vec::new();
        }
        let count = if self.field.multi { rng.below(self.max_values + 1) } else { 1 };
        let mut picks: Vec<usize> = (0..count).map(|_| self.pick(rng, n, size)).collect();
        picks.sort_unstable();
        picks.dedup();
        picks.into_iter().map(|i| self.pool[i].clone()).collect()
    }

    fn pick(&self, rng: &mut Rng, n: usize, size: usize) -> usize {
        let distinct = self.pool.len();
        match self.distribution {
            Distribution::Uniform => rng.below(distinct),
            Distribution::Skewed => {
                let most = 1 + rng.below(distinct);
                rng.below(most)
            }
            Distribution::Runs if rng.below(50) == 0 => rng.below(distinct),
            Distribution::Runs => (n / 97).wrapping_mul(7) % distinct,
            Distribution::Rare if rng.below(40) == 0 => rng.below(distinct),
            Distribution::Rare => 0,
            Distribution::Ascending => n * distinct / size,
        }
    }
}

/// Up to `count` distinct values, ascending, in the form that a partition returns.
fn pool(rng: &mut Rng, ty: Type, count: usize) -> Vec<Value> {
    let dense = rng.below(2) == 0;
    let start = rng.below(1_000) as i64 - 500;
    let step = *rng.pick(&[1, 1, 3, 1_000_000]);
    let mut value = |i: usize| {
        let number = start + i as i64 * step;
        match (ty, rng.value(ty)) {
            (Type::I64, _) if dense => Value::I64(number),
            (Type::U64, _) if dense => Value::U64(number.unsigned_abs()),
            (Type::F64, _) if dense => Value::F64(number as f64 / 4.0),
            (Type::Timestamp, _) if dense => Value::Timestamp(number.wrapping_mul(3_600_000_000)),
            (_, Value::F64(0.0)) => Value::F64(0.0), // of either sign
            (_, Value::Str(text)) if count > 100 => Value::Str(format!("{text}{i}")),
            (_, Value::Bytes(bytes)) if count > 100 => {
                Value::Bytes([&bytes[..], i.to_string().as_bytes()].concat())
            }
            (_, value) => value,
        }
    };
    let mut pool: Vec<Value> = (0..count).map(&mut value).collect();
    pool.sort_by(compare);
    pool.dedup_by(|a, b| compare(a, b).is_eq());
    pool
}

fn sizes(rng: &mut Rng, scale: Scale) -> Vec<usize> {
    let most = *rng.pick(&[1, 2, 65, 200, 700, 3_000]);
    match scale {
        Scale::Small => (0..1 + rng.below(9)).map(|_| rng.below(most + 1)).collect(),
        Scale::Medium => (0..1 + rng.below(2)).map(|_| 4_000 + rng.below(2_500)).collect(),
        Scale::Large => vec![66_000 + rng.below(75_000)],
    }
}

fn document_order(rng: &mut Rng, sources: &[Source]) -> Vec<OrderBy> {
    let sortable: Vec<&Source> = sources.iter().filter(|s| s.field.roles.sortable).collect();
    if sortable.is_empty() || rng.below(3) > 0 {
        return Vec::new();
    }
    let mut order: Vec<OrderBy> = Vec::new();
    for _ in 0..1 + rng.below(2) {
        let name = &rng.pick(&sortable).field.name;
        if order.iter().all(|key| key.field != *name) {
            order.push(if rng.below(2) == 0 { asc(name) } else { desc(name) });
        }
    }
    order
}
