//! The set of partitions that a query runs on, their common schema, and the limits of a query.

use crate::search::model::schema::Schema;
use crate::search::partition::Partition;
use crate::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// An immutable set of partitions, sorted by name.
pub(crate) struct PartitionSet {
    pub(crate) partitions: Vec<Arc<Partition>>,
    pub(crate) names: Arc<[String]>,
    /// The common schema: the fields of all partitions.
    pub(crate) schema: Arc<Schema>,
    /// For each partition, the number within it of each field of the common schema; `None` if all
    /// numbers are the same.
    maps: Vec<Option<Arc<[u32]>>>,
    pub(crate) documents: u64,
}

const ABSENT: u32 = u32::MAX;

impl PartitionSet {
    /// Combines partitions into a set. `InvalidArgument` if their schemas contradict each other.
    pub(crate) fn new(mut named: Vec<(String, Arc<Partition>)>) -> Result<PartitionSet> {
        named.sort_by(|a, b| a.0.cmp(&b.0));
        let (names, partitions): (Vec<String>, Vec<Arc<Partition>>) = named.into_iter().unzip();
        let schema = common_schema(&names, &partitions)?;
        let mut maps: Vec<Option<Arc<[u32]>>> = Vec::with_capacity(partitions.len());
        for (i, part) in partitions.iter().enumerate() {
            let same = i > 0 && Arc::ptr_eq(&part.schema, &partitions[i - 1].schema);
            maps.push(if same { maps[i - 1].clone() } else { map(&schema, &part.schema) });
        }
        let documents = documents(&partitions);
        Ok(PartitionSet { partitions, names: names.into(), schema, maps, documents })
    }

    /// An empty set with the fields of this schema.
    pub(crate) fn empty(schema: Arc<Schema>) -> PartitionSet {
        PartitionSet {
            partitions: Vec::new(),
            names: Arc::new([]),
            schema,
            maps: Vec::new(),
            documents: 0,
        }
    }

    /// A set of some partitions of this one, by number. A given partition replaces the one with
    /// that number; it must have all fields of this set.
    pub(crate) fn with(&self, lanes: Vec<(usize, Option<Arc<Partition>>)>) -> PartitionSet {
        let (mut partitions, mut names) = (Vec::new(), Vec::new());
        let mut maps = Vec::with_capacity(lanes.len());
        for (p, other) in lanes {
            maps.push(if other.is_some() { None } else { self.maps[p].clone() });
            partitions.push(other.unwrap_or_else(|| self.partitions[p].clone()));
            names.push(self.names[p].clone());
        }
        let (names, schema) = (names.into(), self.schema.clone());
        PartitionSet { partitions, names, schema, maps, documents: self.documents }
    }

    /// The set of these partitions, which succeeds this one, and the differences. Shares names,
    /// schema and field numbers with this set where possible. `names` must ascend.
    pub(crate) fn next(
        &self,
        names: &[&str],
        partitions: Vec<Arc<Partition>>,
    ) -> Result<(PartitionSet, SetChanges)> {
        let changes = SetChanges::between(self, names, &partitions);
        let like = |&p: &usize| Arc::ptr_eq(&partitions[p].schema, &self.partitions[p].schema);
        let set = if changes.only_replaced() && changes.added.iter().all(like) {
            PartitionSet {
                documents: documents(&partitions),
                partitions,
                names: self.names.clone(),
                schema: self.schema.clone(),
                maps: self.maps.clone(),
            }
        } else {
            let names = names.iter().map(|name| name.to_string());
            PartitionSet::new(names.zip(partitions).collect())?
        };
        Ok((set, changes))
    }

    /// The number in partition `p` of a field of the common schema; `None` if `p` lacks it.
    #[inline]
    pub(crate) fn local(&self, p: usize, field: usize) -> Option<usize> {
        match &self.maps[p] {
            None => Some(field),
            Some(map) => Some(map[field]).filter(|&f| f != ABSENT).map(|f| f as usize),
        }
    }
}

/// The differences between a set and its successor.
pub(crate) struct SetChanges {
    /// For each partition of the new set, the number of the one with the same name in the old set.
    pub(crate) before: Vec<Option<usize>>,
    /// The added or replaced partitions, by number in the new set.
    pub(crate) added: Vec<usize>,
    /// The partitions whose names the new set lacks, by number in the old set.
    pub(crate) removed: Vec<usize>,
}

impl SetChanges {
    fn between(old: &PartitionSet, names: &[&str], partitions: &[Arc<Partition>]) -> SetChanges {
        let mut changes = SetChanges { before: Vec::new(), added: Vec::new(), removed: Vec::new() };
        let mut at = 0;
        for (p, (name, part)) in names.iter().zip(partitions).enumerate() {
            while old.names.get(at).is_some_and(|other| other.as_str() < *name) {
                changes.removed.push(at);
                at += 1;
            }
            let before = (old.names.get(at).is_some_and(|other| other == name)).then_some(at);
            at += usize::from(before.is_some());
            if before.is_none_or(|before| !Arc::ptr_eq(part, &old.partitions[before])) {
                changes.added.push(p);
            }
            changes.before.push(before);
        }
        changes.removed.extend(at..old.names.len());
        changes
    }

    /// Whether both sets have the same names.
    pub(crate) fn only_replaced(&self) -> bool {
        self.removed.is_empty() && self.before.iter().all(Option::is_some)
    }
}

fn documents(partitions: &[Arc<Partition>]) -> u64 {
    partitions.iter().map(|part| u64::from(part.documents)).sum()
}

/// The union of the fields of all partitions. A field that some partition lacks is nullable.
fn common_schema(names: &[String], partitions: &[Arc<Partition>]) -> Result<Arc<Schema>> {
    let Some(first) = partitions.first() else { return Ok(Arc::default()) };
    let mut schema = first.schema.clone();
    for (name, part) in names.iter().zip(partitions).skip(1) {
        if Arc::ptr_eq(&part.schema, &schema) || *part.schema == *schema {
            continue;
        }
        let common = Arc::make_mut(&mut schema);
        for known in &mut common.fields {
            known.nullable |= part.schema.field(&known.name).is_none();
        }
        for field in &part.schema.fields {
            let known = common.fields.iter_mut().find(|f| f.name == field.name);
            match known {
                None => common
                    .fields
                    .push(crate::search::model::schema::Field { nullable: true, ..field.clone() }),
                Some(known) => {
                    let (nullable, scanned) =
                        (known.nullable || field.nullable, known.scanned || field.scanned);
                    (known.nullable, known.scanned) = (field.nullable, field.scanned);
                    if known != field {
                        return Err(Error::invalid(format!(
                            "partition `{name}` has field `{}` with another type or role than `{}`",
                            field.name, names[0]
                        )));
                    }
                    (known.nullable, known.scanned) = (nullable, scanned);
                }
            }
        }
        // Points that contradict those of earlier partitions are left out.
        let _ = common.merge_points(&part.schema);
        if common.order != part.schema.order {
            common.order.clear();
        }
    }
    Ok(schema)
}

/// The numbers in `own` of the fields of `common`; `None` if all numbers are the same.
fn map(common: &Schema, own: &Schema) -> Option<Arc<[u32]>> {
    let number = |name: &str| own.field(name).map_or(ABSENT, |(i, _)| i as u32);
    let map: Vec<u32> = common.fields.iter().map(|f| number(&f.name)).collect();
    let identity = map.iter().enumerate().all(|(i, &m)| m == i as u32);
    (!identity).then(|| map.into())
}

/// The default of [`QueryLimits::bundle_memory`].
pub(crate) const DEFAULT_BUNDLE_LIMIT: u64 = 256 << 20;

/// The deadline, cancellation flag, number of threads and limits of the memory of a query.
#[derive(Clone)]
pub(crate) struct QueryLimits {
    pub(crate) deadline: Option<Instant>,
    pub(crate) cancel: Option<Arc<AtomicBool>>,
    /// The maximum number of threads; 0 means 1.
    pub(crate) threads: usize,
    /// Queries build no further bundle once all bundles take this many bytes.
    pub(crate) bundle_memory: u64,
    /// The maximum number of groups, and of distinct values of a facet.
    pub(crate) groups: usize,
}

impl Default for QueryLimits {
    fn default() -> QueryLimits {
        let bundle_memory = DEFAULT_BUNDLE_LIMIT;
        QueryLimits { deadline: None, cancel: None, threads: 0, bundle_memory, groups: usize::MAX }
    }
}

impl QueryLimits {
    /// `Cancelled` if the deadline has passed or the flag is set.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.deadline.is_none() && self.cancel.is_none() { Ok(()) } else { self.look() }
    }

    /// `InvalidArgument` if a query has more groups, or distinct values, than it may have.
    #[inline]
    pub(crate) fn check_groups(&self, groups: usize) -> Result<()> {
        if groups <= self.groups { Ok(()) } else { Err(too_many_groups(self.groups)) }
    }

    #[cold]
    fn look(&self) -> Result<()> {
        if self.cancel.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(Error::new(ErrorKind::Cancelled, "the query was cancelled"));
        }
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Error::new(ErrorKind::Cancelled, "the query passed its deadline"));
        }
        Ok(())
    }
}

#[cold]
fn too_many_groups(limit: usize) -> Error {
    Error::invalid(format!(
        "the matches have more than {limit} groups or distinct values: narrow the condition, or \
         choose a field with fewer values"
    ))
}

#[cfg(test)]
mod tests {
    use crate::search::testing::reader_of;
    use crate::search::{Field, PartitionBuilder, Roles, Schema, Type};

    #[test]
    fn a_field_missing_in_a_partition_is_nullable() {
        let partition = |fields: &[&str]| {
            let fields = fields.iter().map(|name| Field::new(*name, Type::U64, Roles::FULL));
            PartitionBuilder::new(Schema::new(fields).unwrap())
        };
        for (first, second) in [(&["a", "b"][..], &["a"][..]), (&["a"], &["a", "b"])] {
            let reader = reader_of([first, second].map(partition));
            let nullable = |name| reader.schema().field(name).unwrap().1.nullable;
            assert_eq!((nullable("a"), nullable("b")), (false, true), "{first:?} {second:?}");
        }
    }
}
