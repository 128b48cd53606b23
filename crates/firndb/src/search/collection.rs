//! API skeleton (signatures only; the engine is being written).
#![allow(missing_docs, unused_variables, dead_code, clippy::todo)]
use super::*;
use crate::Result;
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Builds one partition from documents, in memory bounded by `memory_limit` (default 1 GiB).
pub struct PartitionBuilder(());
impl PartitionBuilder {
    pub fn new(schema: Schema) -> PartitionBuilder { todo!() }
    pub fn memory_limit(self, bytes: usize) -> PartitionBuilder { todo!() }
    /// Checks the document whole before anything of it is taken: after an error the builder is as before.
    pub fn add(&mut self, document: &Document) -> Result<()> { todo!() }
    pub fn len(&self) -> u32 { todo!() }
    pub fn is_empty(&self) -> bool { todo!() }
    /// Bytes of memory in use now.
    pub fn memory(&self) -> usize { todo!() }
    /// Publishes the partition as a stand-alone file (temporary name, sync, rename, sync directory).
    pub fn write(self, path: &Path) -> Result<()> { todo!() }
}

/// A directory of partitions.
pub struct Collection(());
impl Collection {
    /// Creates an empty collection in a new or empty directory.
    pub fn create(dir: &Path) -> Result<Collection> { todo!() }
    /// Opens the newest set of partitions.
    pub fn open(dir: &Path) -> Result<Collection> { todo!() }
    /// The current set; cheap; queries on it go on undisturbed when the collection changes.
    pub fn reader(&self) -> Reader { todo!() }
    /// Looks for a newer set published by another process; true if there was one.
    pub fn refresh(&self) -> Result<bool> { todo!() }
    /// Starts a change; `Locked` if another one is under way anywhere.
    pub fn change(&self) -> Result<Change<'_>> { todo!() }
}

/// A change of a collection: all of it or nothing becomes visible at `commit`.
pub struct Change<'a>(&'a ());
impl Change<'_> {
    /// Adds a partition, or replaces the one of this name (1-100 characters of A-Z a-z 0-9 . _ -).
    pub fn put(&mut self, name: &str, builder: PartitionBuilder) -> Result<()> { todo!() }
    /// Adds (a copy of) a stand-alone partition file.
    pub fn put_file(&mut self, name: &str, file: &Path) -> Result<()> { todo!() }
    pub fn remove(&mut self, name: &str) -> Result<()> { todo!() }
    /// Joins partitions into one called `into`, without the source documents.
    pub fn merge(&mut self, names: &[&str], into: &str) -> Result<()> { todo!() }
    pub fn commit(self) -> Result<Reader> { todo!() }
}

/// An immutable set of partitions, queried by any number of threads. Clones are cheap.
#[derive(Clone)]
pub struct Reader(());

/// A document found: partition number in the reader, document number in the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hit { pub partition: u32, pub doc: u32 }

/// A page of hits.
#[derive(Clone, Debug)]
pub struct Page {
    pub hits: Vec<Hit>,
    /// Matches of the filter in all, if the query asked for them.
    pub count: Option<u64>,
}

/// A facet to compute: the `top` most frequent values of a field among the matches.
#[derive(Clone, Debug)]
pub struct Facet {
    pub field: String,
    pub top: usize,
    /// Ignore the filter's own top-level conditions on this field.
    pub disjunctive: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FacetCounts {
    pub field: String,
    /// Most frequent first, ties by value.
    pub values: Vec<(Value, u64)>,
    /// Distinct values among the matches.
    pub distinct: u64,
    /// Matches without a value.
    pub missing: u64,
}

/// count of values, minimum, maximum, sum, average of a field over matches; sum and average of numbers only.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// Documents that have a value.
    pub count: u64,
    pub min: Option<Value>,
    pub max: Option<Value>,
    /// Exact (i128) for i64 and u64; document order for f64.
    pub sum: Option<Number>,
    pub avg: Option<f64>,
}
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number { Int(i128), Float(f64) }

/// Group by one or two fields, with aggregates of other fields.
#[derive(Clone, Debug, Default)]
pub struct GroupBy { pub fields: Vec<String>, pub aggregates: Vec<String> }

#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// One per field; None for documents without a value.
    pub key: Vec<Option<Value>>,
    pub count: u64,
    pub aggregates: Vec<Aggregate>,
}

/// What a query did, for people (`Display`) and machines.
#[derive(Clone, Debug, Default)]
pub struct Explain {
    /// The plan, a line a step.
    pub plan: Vec<String>,
    pub matches: u64,
    pub partitions: u64,
    pub partitions_pruned: u64,
    pub docs_touched: u64,
    pub bytes_touched: u64,
    pub time: Duration,
}

impl Reader {
    /// A reader over stand-alone partition files; partitions are named by their file names.
    pub fn open_files(files: &[impl AsRef<Path>]) -> Result<Reader> { todo!() }
    /// The fields of all partitions together.
    pub fn schema(&self) -> &Schema { todo!() }
    pub fn len(&self) -> u64 { todo!() }
    pub fn is_empty(&self) -> bool { todo!() }
    /// Partition names and document counts in order.
    pub fn partitions(&self) -> Vec<PartitionInfo> { todo!() }
    /// A reader whose queries fail with `Cancelled` after `deadline`.
    pub fn with_deadline(&self, deadline: Instant) -> Reader { todo!() }
    /// A reader whose queries fail with `Cancelled` once `flag` is true.
    pub fn with_cancel(&self, flag: Arc<AtomicBool>) -> Reader { todo!() }
    pub fn count(&self, filter: &Filter) -> Result<u64> { todo!() }
    pub fn search(&self, query: &Query) -> Result<Page> { todo!() }
    /// All matches in order until the callback breaks.
    pub fn for_each(&self, query: &Query, callback: impl FnMut(Hit) -> ControlFlow<()>) -> Result<()> { todo!() }
    pub fn facets(&self, filter: &Filter, facets: &[Facet]) -> Result<Vec<FacetCounts>> { todo!() }
    pub fn aggregate(&self, filter: &Filter, field: &str) -> Result<Aggregate> { todo!() }
    /// Groups in the order of their keys (missing last).
    pub fn group_by(&self, filter: &Filter, by: &GroupBy) -> Result<Vec<Group>> { todo!() }
    pub fn explain(&self, query: &Query) -> Result<Explain> { todo!() }
    /// The payload of a hit; borrowed from the file if it is raw.
    pub fn payload(&self, hit: Hit) -> Result<Cow<'_, [u8]>> { todo!() }
    /// The value of a stored or sortable field (the smallest of several).
    pub fn value(&self, hit: Hit, field: &str) -> Result<Option<Value>> { todo!() }
    /// All values of a stored or sortable field, ascending.
    pub fn values(&self, hit: Hit, field: &str) -> Result<Vec<Value>> { todo!() }
    /// The place of a hit in the order of a query, for `Query::after`.
    pub fn cursor(&self, query: &Query, hit: Hit) -> Result<Cursor> { todo!() }
    /// Touches and checks everything queries need, so that no first query pays for it.
    pub fn warm(&self) -> Result<()> { todo!() }
    /// Checks every byte of every file.
    pub fn verify(&self) -> Result<()> { todo!() }
}

#[derive(Clone, Debug)]
pub struct PartitionInfo { pub name: String, pub documents: u32, pub bytes: u64 }
