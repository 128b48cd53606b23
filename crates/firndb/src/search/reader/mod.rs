//! A reader: an immutable set of partitions and everything that can be asked of it.

mod explain;
mod fields;
mod resume;
mod search;

use crate::disk::{self, Disk};
use crate::search::cache::cached_set::CachedSet;
use crate::search::codec::payload::Step;
use crate::search::collect::rank::{self, Ranks};
use crate::search::model::query::{Cursor, Query};
use crate::search::model::schema::Schema;
use crate::search::model::types::Type;
use crate::search::model::value::Value;
use crate::search::model::value::decode_key;
use crate::search::partition::Partition;
use crate::search::partition::set::QueryLimits;
pub use explain::Explain;
pub use fields::FieldReader;

use crate::search::partition::verify;
use crate::{Error, Result};
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
pub struct PartitionInfo {
    /// Its name.
    pub name: String,
    /// Its documents.
    pub documents: u32,
    /// The size of its file in bytes.
    pub bytes: u64,
}

/// A document that was found: number of its partition in the reader, number of the document in the
/// partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hit {
    /// Number of the partition, in the order of [`Reader::partitions`].
    pub partition: u32,
    /// Number of the document in its partition.
    pub doc: u32,
}

/// A page of matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The matches, in the order asked for.
    pub hits: Vec<Hit>,
    /// The number of all matches of the filter, if the query asked for it.
    pub count: Option<u64>,
}

/// Payloads whose memory is asked for at the same time.
const UNDER_WAY: usize = 32;

impl Reader {
    pub(crate) fn new(set: CachedSet) -> Reader {
        Reader { set: Arc::new(set), limits: QueryLimits::default() }
    }

    /// A reader over partition files that belong to no collection; partitions are named by their
    /// file names, those of one file name by their paths as they are given.
    pub fn open_files(files: &[impl AsRef<Path>]) -> Result<Reader> {
        let paths: Vec<&Path> = files.iter().map(AsRef::as_ref).collect();
        Self::open_files_on(&*disk::os(), &paths)
    }

    pub(crate) fn open_files_on(disk: &dyn Disk, paths: &[&Path]) -> Result<Reader> {
        let mut named: Vec<(String, Arc<Partition>)> = Vec::with_capacity(paths.len());
        for (path, name) in paths.iter().zip(distinct_names(paths)?) {
            let like = named.last().map(|(_, part)| part.clone());
            let part = Partition::open(disk, path, like.as_deref())?;
            named.push((name, Arc::new(part)));
        }
        Ok(Reader::new(CachedSet::new(named)?))
    }

    /// The fields of all partitions together.
    pub fn schema(&self) -> &Schema {
        &self.set.schema
    }

    /// Documents in all partitions.
    pub fn len(&self) -> u64 {
        self.set.documents
    }

    /// There is no document.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// This reader with so many threads for each query that is long enough to gain from them; 0
    /// counts as 1, which is the default: a server that answers many queries at a time does best
    /// with one thread each. Used over several partitions by [`Reader::count`], by
    /// [`Reader::search`] with an order, by [`Reader::facets`] and, unless floats are added up, by
    /// [`Reader::group_by`]. The answers are the same.
    pub fn with_threads(&self, threads: usize) -> Reader {
        let limits = QueryLimits { threads, ..self.limits.clone() };
        Reader { set: self.set.clone(), limits }
    }

    /// Memory, in bytes, of the bundles of small partitions that queries have made so far (see
    /// [`Reader::limit_bundles`]).
    pub fn bundle_memory(&self) -> u64 {
        self.set.bundles.memory()
    }

    /// Sets how much memory the bundles of small partitions may take, for all readers of this set
    /// and of those that follow it; 256 MiB unless this is called. 0 means that none are made.
    ///
    /// Queries in many partitions of at most 32,768 documents merge the index structures of the
    /// fields they use in memory, about 260,000 documents at a time, once about half as much time
    /// was lost by doing without. [`Reader::warm`] does it beforehand.
    pub fn limit_bundles(&self, bytes: u64) {
        self.set.bundles.set_limit(bytes);
    }

    /// The value of a stored or sortable field of a hit (the smallest of several); `None` if it has
    /// none.
    pub fn value(&self, hit: Hit, field: &str) -> Result<Option<Value>> {
        match self.readable(hit, field)? {
            (part, Some(field)) => part.value(field, hit.doc),
            (_, None) => Ok(None),
        }
    }

    /// All values of a stored or sortable field of a hit, ascending.
    pub fn values(&self, hit: Hit, field: &str) -> Result<Vec<Value>> {
        match self.readable(hit, field)? {
            (part, Some(field)) => part.values(field, hit.doc),
            (_, None) => Ok(Vec::new()),
        }
    }

    /// The partition of a hit, and the number there of a field whose values can be read back.
    fn readable(&self, hit: Hit, field: &str) -> Result<(&Partition, Option<usize>)> {
        let part = self.partition(hit)?;
        let (number, _) = self.readable_field(field)?;
        Ok((part, self.set.local(hit.partition as usize, number)))
    }

    fn readable_field(&self, field: &str) -> Result<(usize, Type)> {
        let schema = &self.set.schema;
        let (number, described) = schema.field(field).ok_or_else(|| schema.unknown(field))?;
        if described.roles.stored || described.roles.sortable {
            return Ok((number, described.ty));
        }
        Err(Error::invalid(format!(
            "field `{field}` is neither stored nor sortable: its values cannot be read back"
        )))
    }

    /// A stored or sortable field, for reading its values of many hits.
    pub fn field(&self, field: &str) -> Result<FieldReader<'_>> {
        let (field, ty) = self.readable_field(field)?;
        Ok(FieldReader { set: &self.set, field, ty, view: None })
    }

    /// The partitions, in the order of their names.
    pub fn partitions(&self) -> Vec<PartitionInfo> {
        let each = self.set.names.iter().zip(&self.set.partitions);
        each.map(|(name, part)| PartitionInfo {
            name: name.clone(),
            documents: part.documents,
            bytes: part.file.len(),
        })
        .collect()
    }

    /// This reader with a deadline: a query under way then fails with `Cancelled`.
    pub fn with_deadline(&self, deadline: Instant) -> Reader {
        let limits = QueryLimits { deadline: Some(deadline), ..self.limits.clone() };
        Reader { set: self.set.clone(), limits }
    }

    /// This reader with a flag: once it is true, queries fail with `Cancelled`.
    pub fn with_cancel(&self, flag: Arc<AtomicBool>) -> Reader {
        let limits = QueryLimits { cancel: Some(flag), ..self.limits.clone() };
        Reader { set: self.set.clone(), limits }
    }

    pub(crate) fn partition(&self, hit: Hit) -> Result<&Partition> {
        let part = self.set.partitions.get(hit.partition as usize);
        let missing = || Error::invalid(format!("there is no partition number {}", hit.partition));
        part.map(|part| &**part).ok_or_else(missing)
    }

    /// The payload of a hit: borrowed from the file if payloads are raw.
    pub fn payload(&self, hit: Hit) -> Result<Cow<'_, [u8]>> {
        self.partition(hit)?.payload(hit.doc)
    }

    /// The payloads of hits, in the order of the hits: as [`Reader::payload`] of one after the
    /// other, but the waiting for memory overlaps. For a page of raw payloads this takes a fraction
    /// of the time.
    pub fn payloads(&self, hits: &[Hit]) -> Result<Vec<Cow<'_, [u8]>>> {
        let mut payloads = Vec::with_capacity(hits.len());
        for some in hits.chunks(UNDER_WAY) {
            for step in [Step::Head, Step::Offset, Step::Bytes] {
                for hit in some {
                    self.partition(*hit)?.fetch_payload(hit.doc, step)?;
                }
            }
            for hit in some {
                payloads.push(self.payload(*hit)?);
            }
        }
        Ok(payloads)
    }

    /// The place of a hit in the order of a query, for [`Query::after`].
    ///
    /// Pages of one reader never overlap and leave nothing out. Of readers of different sets that
    /// is true, for every document that is in all of these sets with the same values, if the last
    /// field of the order has another value in each document: whatever was replaced, merged or
    /// moved to another partition in between. In other orders, and without one, documents of equal
    /// keys may come twice or not at all once their partition was replaced.
    pub fn cursor(&self, query: &Query, hit: Hit) -> Result<Cursor> {
        let part = self.partition(hit)?;
        part.check(hit.doc)?;
        let mut keys = Vec::with_capacity(query.order.len());
        for by in &rank::resolve(&self.set, &query.order)? {
            let ranks = Ranks::new(&self.set, hit.partition as usize, part, &[*by])?;
            let key = ranks.key(part, 0, hit.doc)?;
            keys.push(
                key.map(|key| decode_key(self.set.schema.fields[by.field].ty, &key)).transpose()?,
            );
        }
        let partition = self.set.names[hit.partition as usize].clone();
        Ok(Cursor { keys, partition, doc: hit.doc })
    }

    /// Checks the checksums of everything queries touch, makes the value statistics and bundles
    /// small partitions, so that no query pays for it.
    pub fn warm(&self) -> Result<()> {
        self.set.statistics.warm(&self.set)?;
        for part in &self.set.partitions {
            part.warm()?;
        }
        let fields = self.set.schema.fields.iter().enumerate();
        let indexed = fields.filter(|(_, field)| field.roles.filterable || field.roles.sortable);
        self.set.bundles.make(&self.set, indexed.map(|(i, _)| i), &self.limits)
    }

    /// Checks every byte of every partition.
    pub fn verify(&self) -> Result<()> {
        self.set.partitions.iter().try_for_each(|part| verify::partition(part))
    }
}

/// A name for each file. They differ, so that a cursor says which partition it is in.
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
