//! Calls every query method of a reader, with values that its documents have.

use crate::mutate::Rng;
use firndb::search::query::{all, and, asc, between, desc, eq, exists, gt, is_in, lte, not, or};
use firndb::search::query::{gte, lt, prefix};
use firndb::search::{
    Facet, Filter, GroupBy, Hit, MergePolicy, OrderBy, PartitionBuilder, Query, Reader, Type, Value,
};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Queries per input.
const QUESTIONS: usize = 8;
/// Maximum number of matches read.
const LIMIT: u64 = 40;

/// A random value of a type that documents may have.
fn value(rng: &mut Rng, ty: Type) -> Value {
    let number = match rng.below(4) {
        0 => rng.next() >> rng.below(64),
        1 => u64::MAX >> rng.below(64),
        _ => rng.below(300) as u64,
    };
    match ty {
        Type::Bool => Value::Bool(number & 1 == 1),
        Type::I64 => Value::I64(number as i64 - 60),
        Type::U64 => Value::U64(number),
        Type::F64 => Value::F64(number as f64 / 4.0 - 10.0),
        Type::Timestamp => Value::Timestamp(number as i64),
        Type::String => Value::Str(["", "Oslo", "s03", "s03 t05", "quiet"][rng.below(5)].into()),
        Type::Bytes => Value::Bytes(vec![number as u8, 0xFF, 0]),
    }
}

/// Generates queries for a reader and its fields.
struct Asker<'a> {
    rng: Rng,
    reader: &'a Reader,
    /// Names, types and whether the field is sortable.
    fields: Vec<(String, Type, bool)>,
}

impl Asker<'_> {
    fn field(&mut self) -> (String, Type) {
        let (name, ty, _) = &self.fields[self.rng.below(self.fields.len())];
        (name.clone(), *ty)
    }

    /// A value that a document has, or a random one.
    fn value(&mut self, name: &str, ty: Type) -> Value {
        let partitions = self.reader.partitions().len();
        let hit = Hit { partition: self.rng.below(partitions) as u32, doc: self.rng.next() as u32 };
        let hit = Hit { doc: hit.doc % self.reader.len().clamp(1, 1 << 20) as u32, ..hit };
        match self.reader.value(hit, name) {
            Ok(Some(found)) if self.rng.one_in(2) => found,
            _ => value(&mut self.rng, ty),
        }
    }

    fn condition(&mut self) -> Filter {
        let (name, ty) = self.field();
        let (a, b) = (self.value(&name, ty), self.value(&name, ty));
        match self.rng.below(9) {
            0 => eq(name, a),
            1 => lt(name, a),
            2 => lte(name, a),
            3 => gt(name, a),
            4 => gte(name, a),
            5 => between(name, a, b),
            6 => is_in(name, [a, b]),
            7 => exists(name),
            _ => prefix(name, a),
        }
    }

    fn filter(&mut self) -> Filter {
        match self.rng.below(6) {
            0 => all(),
            1 => and([self.condition(), self.condition()]),
            2 => or([self.condition(), self.condition()]),
            3 => and([self.condition(), not(self.condition())]),
            _ => self.condition(),
        }
    }

    fn order(&mut self) -> Vec<OrderBy> {
        let sortable = self.fields.iter().filter(|(.., sortable)| *sortable);
        let names: Vec<String> = sortable.map(|(name, ..)| name.clone()).collect();
        let mut order = Vec::new();
        while !names.is_empty() && order.len() < 2 && self.rng.one_in(2) {
            let name = names[self.rng.below(names.len())].clone();
            order.push(if self.rng.one_in(2) { asc(name) } else { desc(name) });
        }
        order
    }

    fn question(&mut self) {
        let (reader, filter) = (self.reader, self.filter());
        match self.rng.below(6) {
            0 => drop(reader.count(&filter)),
            1 => {
                let (field, _) = self.field();
                let disjunctive = self.rng.one_in(2);
                let mut facet = Facet::new(field).top(5);
                facet.disjunctive = disjunctive;
                drop(reader.facets(&filter, &[facet]));
            }
            2 => {
                let fields: Vec<String> =
                    (0..1 + self.rng.below(2)).map(|_| self.field().0).collect();
                let by = GroupBy::new(fields).aggregates([self.field().0]);
                drop(reader.group_by(&filter, &by));
                drop(reader.aggregate(&filter, &by.aggregates[0]));
            }
            3 => {
                let mut query = Query::new(filter);
                query.order = self.order();
                let mut left = 200;
                let _ = reader.for_each(&query, |_| {
                    left -= 1;
                    if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                });
            }
            _ => self.page(filter),
        }
    }

    /// Reads two pages, and everything that can be read of the hits of the first.
    fn page(&mut self, filter: Filter) {
        let reader = self.reader;
        let mut query = Query::new(filter).limit(LIMIT);
        query.order = self.order();
        query.count = self.rng.one_in(2);
        query.skip = if self.rng.one_in(4) { self.rng.below(2_000) as u64 } else { 0 };
        let Ok(page) = reader.search(&query) else { return };
        let _ = reader.explain(&query);
        let _ = reader.payloads(&page.hits);
        let (name, _) = self.field();
        for &hit in &page.hits {
            let _ = reader.values(hit, &name);
        }
        if let Ok(mut field) = reader.field(&name) {
            let _ = field.each_u64(&page.hits, |_| {});
            let _ = field.each_i64(&page.hits, |_| {});
        }
        let Some(&last) = page.hits.last() else { return };
        let _ = reader.payload(last);
        if let Ok(token) = reader.page_token(&query, last) {
            query.skip = 0;
            let _ = reader.search(&query.after(token));
        }
    }
}

/// Runs queries, chosen by the seed.
pub fn ask(reader: &Reader, seed: u64) {
    // Far longer than any query takes; libFuzzer reports what exceeds it as a hang.
    let reader = &reader.with_deadline(Instant::now() + Duration::from_secs(60));
    let _ = (reader.is_empty(), reader.partitions());
    let fields = reader.schema().fields().iter();
    let fields: Vec<_> =
        fields.map(|field| (field.name.clone(), field.ty, field.roles.sortable)).collect();
    let mut rng = Rng::new(seed);
    if rng.one_in(8) {
        let _ = reader.warm();
    }
    let mut asker = Asker { rng, reader, fields };
    if !asker.fields.is_empty() && !reader.partitions().is_empty() {
        (0..QUESTIONS).for_each(|_| asker.question());
    }
    if asker.rng.one_in(2) {
        let _ = reader.verify();
    }
}

/// Merges partition files as a change of a collection does.
pub fn merge(dir: &std::path::Path, files: &[std::path::PathBuf]) -> firndb::Result<()> {
    let collection = firndb::search::Collection::create(dir)?;
    let mut change = collection.change()?;
    let names: Vec<String> = (0..files.len()).map(|n| format!("part{n}")).collect();
    for (name, file) in names.iter().zip(files) {
        change.put_file(name, file)?;
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    change.merge(&names, "merged")?;
    let reader = change.commit()?;
    let _ = collection.compact_plan(&MergePolicy::default());
    let mut change = collection.change()?;
    change.put("more", PartitionBuilder::new(reader.schema().clone()))?;
    change.commit().map(|_| ())
}
