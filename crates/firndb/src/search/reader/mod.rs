//! The reader: runs queries on an immutable set of partitions.
//!
//! This file has the handle, its settings and access to hits: values, payloads, page tokens.
//! `search` runs queries: it plans the filter, chooses between partitions and bundles, and calls
//! the collectors of `collect`. `resume` translates a page token of another set before a page is
//! searched.
//! `fields` reads one field of many hits. `explain` reports how a query was executed. `warm` makes
//! beforehand what queries would make on demand.

mod explain;
mod fields;
mod resume;
mod search;
mod warm;

use crate::bytes::inspection::Verification;
use crate::bytes::metric::Metric;
use crate::disk::{self, Disk};
use crate::search::cache::cached_set::CachedSet;
use crate::search::codec::payload::Step;
use crate::search::collect::rank::{self, Ranks};
use crate::search::model::query::{PageToken, Query};
use crate::search::model::schema::Schema;
use crate::search::model::types::Type;
use crate::search::model::value::Value;
use crate::search::model::value::decode_key;
use crate::search::partition::Partition;
use crate::search::partition::set::QueryLimits;
pub use explain::Explain;
pub use fields::FieldReader;

use crate::search::partition::verify;
use crate::{Error, ErrorKind, Result};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// An immutable set of partitions, queried by any number of threads at once. Clones are cheap.
#[derive(Clone)]
pub struct Reader {
    pub(crate) set: Arc<CachedSet>,
    pub(crate) limits: QueryLimits,
}

/// A partition of a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionInfo {
    /// The name of the partition.
    pub name: String,
    /// The number of its documents.
    pub documents: u32,
    /// The size of its file in bytes.
    pub bytes: u64,
}

/// The address of a match in a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hit {
    /// Number of the partition, in the order of [`Reader::partitions`].
    pub partition: u32,
    /// Number of the document in its partition.
    pub doc: u32,
}

/// A page of matches.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Page {
    /// The matches, in the order of the query.
    pub hits: Vec<Hit>,
    /// The number of all matches of the filter, if the query requests it.
    pub count: Option<u64>,
}

/// Number of payloads that are prefetched together.
const PREFETCH_GROUP: usize = 32;

impl Reader {
    pub(crate) fn new(set: CachedSet) -> Reader {
        Reader { set: Arc::new(set), limits: QueryLimits::default() }
    }

    /// Opens partition files that belong to no collection. A partition is named by its file name,
    /// or by the given path if several files have the same name. `InvalidArgument` if a file is
    /// given twice.
    pub fn open_files(files: &[impl AsRef<Path>]) -> Result<Reader> {
        let paths: Vec<&Path> = files.iter().map(AsRef::as_ref).collect();
        Self::open_files_on(&*disk::os(), &paths)
    }

    pub(crate) fn open_files_on(disk: &dyn Disk, paths: &[&Path]) -> Result<Reader> {
        let mut named: Vec<(String, Arc<Partition>)> = Vec::with_capacity(paths.len());
        for (path, name) in paths.iter().zip(distinct_names(paths)?) {
            let similar = named.last().map(|(_, part)| part.clone());
            let part = Partition::open(disk, path, similar.as_deref())?;
            named.push((name, Arc::new(part)));
        }
        Ok(Reader::new(CachedSet::new(named)?))
    }

    /// The schema: the fields of all partitions.
    pub fn schema(&self) -> &Schema {
        &self.set.schema
    }

    /// The number of documents in all partitions.
    pub fn len(&self) -> u64 {
        self.set.documents
    }

    /// Whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a reader that uses up to `threads` threads for a query that is long enough to gain
    /// from them. 0 counts as 1, which is the default and best for a server that runs many queries
    /// at a time.
    ///
    /// Threads share the partitions in [`Reader::count`], in [`Reader::search`] with an order, in
    /// [`Reader::facets`] and, unless floats are summed, in [`Reader::group_by`]. The results do
    /// not depend on the number of threads.
    pub fn with_threads(&self, threads: usize) -> Reader {
        let limits = QueryLimits { threads, ..self.limits.clone() };
        Reader { set: self.set.clone(), limits }
    }

    /// Memory, in bytes, of the bundles of small partitions that queries have built so far (see
    /// [`Reader::with_bundle_limit`]).
    pub fn bundle_memory(&self) -> u64 {
        self.set.bundles.memory()
    }

    /// Returns a reader whose queries, and [`Reader::warm`], start to build a bundle of small
    /// partitions only while the bundles of the set take less than this many bytes (default
    /// 256 MiB). With 0 they build none.
    ///
    /// All readers of a set share its bundles and use those that exist, whatever their limits. The
    /// limit belongs to the returned reader and its clones, not to the set: set it on each reader
    /// that [`Collection::reader`](crate::search::Collection::reader) returns.
    ///
    /// A bundle merges in memory the index structures of small partitions (at most 32,768 documents
    /// each, about 260,000 per bundle) for the fields that queries use. Queries build bundles once
    /// they have lost about half the cost of building to running without. [`Reader::warm`] builds
    /// them beforehand.
    pub fn with_bundle_limit(&self, bytes: u64) -> Reader {
        let limits = QueryLimits { bundle_memory: bytes, ..self.limits.clone() };
        Reader { set: self.set.clone(), limits }
    }

    /// The value of a stored or sortable field of a hit; `None` if it has none. The smallest value
    /// if there are several.
    pub fn value(&self, hit: Hit, field: &str) -> Result<Option<Value>> {
        match self.readable(hit, field)? {
            (part, Some(field)) => part.value(field, hit.doc),
            (_, None) => Ok(None),
        }
    }

    /// Returns all values of a stored or sortable field of a hit, ascending.
    pub fn values(&self, hit: Hit, field: &str) -> Result<Vec<Value>> {
        match self.readable(hit, field)? {
            (part, Some(field)) => part.values(field, hit.doc),
            (_, None) => Ok(Vec::new()),
        }
    }

    /// The partition of a hit, and its number of the field. Fails if values of the field cannot be
    /// read back.
    fn readable(&self, hit: Hit, field: &str) -> Result<(&Partition, Option<usize>)> {
        let part = self.partition(hit)?;
        let (number, _) = self.readable_field(field)?;
        Ok((part, self.set.local(hit.partition as usize, number)))
    }

    fn readable_field(&self, field: &str) -> Result<(usize, Type)> {
        let schema = &self.set.schema;
        let (number, definition) = schema.field(field).ok_or_else(|| schema.unknown(field))?;
        if definition.roles.stored || definition.roles.sortable {
            return Ok((number, definition.ty));
        }
        Err(Error::invalid(format!(
            "field `{field}` is neither stored nor sortable: its values cannot be read back"
        )))
    }

    /// Opens a stored or sortable field to read its values of many hits.
    pub fn field(&self, field: &str) -> Result<FieldReader<'_>> {
        let (field, ty) = self.readable_field(field)?;
        Ok(FieldReader { set: &self.set, field, ty, view: None })
    }

    /// The partitions, in the order of their names.
    pub fn partitions(&self) -> Vec<PartitionInfo> {
        let partitions = self.set.names.iter().zip(&self.set.partitions);
        partitions
            .map(|(name, part)| PartitionInfo {
                name: name.clone(),
                documents: part.documents,
                bytes: part.file.len(),
            })
            .collect()
    }

    /// The name of a partition by its number, that of a [`Hit`]; `None` if there is none.
    pub fn partition_name(&self, number: u32) -> Option<&str> {
        self.set.names.get(number as usize).map(String::as_str)
    }

    /// Returns a reader of some of the partitions, by their names. Opens no file; costs a few
    /// microseconds per partition. Its hits and page tokens are those of the returned reader.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no partition of a name.
    pub fn with_partitions(&self, names: &[impl AsRef<str>]) -> Result<Reader> {
        let mut numbers = Vec::with_capacity(names.len());
        for name in names {
            let name = name.as_ref();
            let found = self.set.names.binary_search_by(|known| known.as_str().cmp(name));
            let missing =
                |_| Error::new(ErrorKind::NotFound, format!("there is no partition `{name}`"));
            numbers.push(found.map_err(missing)?);
        }
        numbers.sort_unstable();
        numbers.dedup();
        let part = |p: usize| (self.set.names[p].clone(), self.set.partitions[p].clone());
        let set = match numbers.is_empty() {
            true => CachedSet::empty(self.set.schema.clone()),
            false => CachedSet::new(numbers.into_iter().map(part).collect())?,
        };
        Ok(Reader { set: Arc::new(set), limits: self.limits.clone() })
    }

    /// Returns a reader whose queries fail with `InvalidArgument` rather than find more than this
    /// many groups ([`Reader::group_by`]) or distinct values of a facet ([`Reader::facets`]), all
    /// of which take memory: some hundred bytes per group and aggregate. By default there is no
    /// limit.
    pub fn with_group_limit(&self, groups: usize) -> Reader {
        let limits = QueryLimits { groups, ..self.limits.clone() };
        Reader { set: self.set.clone(), limits }
    }

    /// Returns a reader with a deadline: queries that run at or after it fail with `Cancelled`.
    ///
    /// ```
    /// use firndb::search::{Filter, Reader};
    /// use firndb::{ErrorKind, Result};
    /// use std::time::{Duration, Instant};
    ///
    /// /// The number of matches; `None` if counting takes longer than 50 ms.
    /// fn count_in_time(reader: &Reader, filter: &Filter) -> Result<Option<u64>> {
    ///     let deadline = Instant::now() + Duration::from_millis(50);
    ///     match reader.with_deadline(deadline).count(filter) {
    ///         Err(error) if error.kind() == ErrorKind::Cancelled => Ok(None),
    ///         counted => counted.map(Some),
    ///     }
    /// }
    /// ```
    pub fn with_deadline(&self, deadline: Instant) -> Reader {
        let limits = QueryLimits { deadline: Some(deadline), ..self.limits.clone() };
        Reader { set: self.set.clone(), limits }
    }

    /// Returns a reader with a cancellation flag: once it is true, queries fail with `Cancelled`.
    pub fn with_cancel(&self, flag: Arc<AtomicBool>) -> Reader {
        let limits = QueryLimits { cancel: Some(flag), ..self.limits.clone() };
        Reader { set: self.set.clone(), limits }
    }

    pub(crate) fn partition(&self, hit: Hit) -> Result<&Partition> {
        let part = self.set.partitions.get(hit.partition as usize);
        let missing = || Error::invalid(format!("there is no partition number {}", hit.partition));
        part.map(|part| &**part).ok_or_else(missing)
    }

    /// The payload of a hit. Borrowed from the mapped file if payloads are stored raw.
    pub fn payload(&self, hit: Hit) -> Result<Cow<'_, [u8]>> {
        self.partition(hit)?.payload(hit.doc)
    }

    /// The payloads of hits, in the order of the hits. Like [`Reader::payload`] for each hit, but
    /// memory accesses overlap: a page of raw payloads takes a fraction of the time.
    pub fn payloads(&self, hits: &[Hit]) -> Result<Vec<Cow<'_, [u8]>>> {
        let mut payloads = Vec::with_capacity(hits.len());
        for chunk in hits.chunks(PREFETCH_GROUP) {
            for step in [Step::Head, Step::Offset, Step::Bytes] {
                for hit in chunk {
                    self.partition(*hit)?.fetch_payload(hit.doc, step)?;
                }
            }
            for hit in chunk {
                payloads.push(self.payload(*hit)?);
            }
        }
        Ok(payloads)
    }

    /// The position of a hit in the order of a query, for [`Query::after`].
    ///
    /// Pages of one reader never overlap and omit nothing. Pages of readers of different sets have
    /// the same guarantee for every document that is in all of these sets with the same values, if
    /// the last sort field is unique per document. This holds even if partitions were replaced or
    /// merged or documents moved in between. In other orders, and without an order, documents with
    /// equal keys may be repeated or omitted after their partition was replaced.
    pub fn page_token(&self, query: &Query, hit: Hit) -> Result<PageToken> {
        let part = self.partition(hit)?;
        part.check(hit.doc)?;
        let mut keys = Vec::with_capacity(query.order.len());
        for sort_key in &rank::resolve(&self.set, &query.order)? {
            let ranks = Ranks::new(&self.set, hit.partition as usize, part, &[*sort_key])?;
            let key = ranks.key(part, 0, hit.doc)?;
            keys.push(
                key.map(|key| decode_key(self.set.schema.fields[sort_key.field].ty, &key))
                    .transpose()?,
            );
        }
        let partition = self.set.names[hit.partition as usize].clone();
        Ok(PageToken { keys, partition, doc: hit.doc })
    }

    /// Verifies the checksums of everything queries read, builds the value statistics and bundles
    /// small partitions, so that no query has to. What has been made is not made again. After a
    /// change of the collection, the next set shares it: only the partitions that changed are
    /// verified, and a bundle with some of them is built from its predecessor.
    ///
    /// Merging takes about 75 ns per document and indexed field of small partitions, and rebuilding
    /// a bundle after a change 35 ns. Bundles stay within [`Reader::with_bundle_limit`].
    ///
    /// # Errors
    ///
    /// `Corrupt` if a partition is damaged; `Cancelled` by the deadline or flag of the reader. What
    /// has been made until then is kept.
    pub fn warm(&self) -> Result<()> {
        span!(DEBUG, "firndb.search.warm");
        warm::warm(self)
    }

    /// Makes for this reader what has been made for `before`, a reader of an older set of the same
    /// collection: verifies the same checksums of partitions that are new, builds the value
    /// statistics and, if there are bundles of small partitions, bundles with the same fields. So
    /// queries are as fast as before, and nothing is made that they have not used.
    ///
    /// # Errors
    ///
    /// As for [`Reader::warm`].
    pub fn warm_like(&self, before: &Reader) -> Result<()> {
        span!(DEBUG, "firndb.search.warm_like");
        warm::warm_like(self, before)
    }

    /// The figures for monitoring.
    pub fn metrics(&self) -> Vec<Metric> {
        let (parts, memory) = (&self.set.partitions, self.bundle_memory());
        let bytes = parts.iter().map(|part| part.file.len()).sum();
        vec![
            Metric::gauge("firndb_collection_documents", "Documents", self.len()),
            Metric::gauge("firndb_collection_partitions", "Partitions", parts.len() as u64),
            Metric::gauge("firndb_collection_file_bytes", "Bytes of the partitions", bytes),
            Metric::gauge("firndb_collection_bundle_bytes", "Memory of bundles", memory),
        ]
    }

    /// Verifies every byte of every partition, and that their structures are consistent.
    ///
    /// # Errors
    ///
    /// `Corrupt`, with the file and the offset; `Io`.
    pub fn verify(&self) -> Result<Verification> {
        let mut report = Verification::default();
        for part in &self.set.partitions {
            verify::partition(part)?;
            let (bytes, records) = (part.file.len(), part.documents.into());
            report.add(Verification { files: 1, bytes, records });
        }
        Ok(report)
    }
}

/// Assigns a distinct name to each file, so that a page token identifies its partition.
fn distinct_names(paths: &[&Path]) -> Result<Vec<String>> {
    let text = |name: &OsStr| name.to_string_lossy().into_owned();
    let base = |path: &Path| text(path.file_name().unwrap_or_default());
    let mut files: HashMap<String, usize> = HashMap::new();
    for path in paths {
        *files.entry(base(path)).or_default() += 1;
    }
    let mut seen = HashSet::with_capacity(paths.len());
    let names = paths.iter().map(|path| {
        let name = base(path);
        let name = if files[&name] == 1 { name } else { text(path.as_os_str()) };
        if seen.insert(name.clone()) {
            return Ok(name);
        }
        Err(Error::invalid("the file is given twice; give each once").in_file(path))
    });
    names.collect()
}
