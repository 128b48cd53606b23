//! A reader: an immutable set of partitions and everything that can be asked of it.

pub(crate) mod explain;
pub(crate) mod fields;
pub(crate) mod resume;

use crate::disk::{self, Disk};
use crate::search::cache::cached_set::CachedSet;
use crate::search::codec::payload::Step;
use crate::search::collect::ordered_search::{self, Place, Wanted};
use crate::search::collect::rank::{self, Ranks};
use crate::search::collect::topk::{count_partition, in_document_order};
use crate::search::collect::unordered;
use crate::search::collection::PartitionInfo;
use crate::search::exec::executor::{Executor, Stats};
use crate::search::exec::scratch::Scratch;
use crate::search::exec::windows;
use crate::search::model::condition::{key_bytes, key_of};
use crate::search::model::query::{Cursor, Filter, Op, Query};
use crate::search::model::schema::Schema;
use crate::search::model::value::{Key, Value, decode_bytes, decode_fixed};
use crate::search::partition::Partition;
use crate::search::partition::set::Limits;
use crate::search::plan::{Node, Plan, Test, filterable};
use crate::search::stats::{MIN_PARTITIONS, SearchSet};
use crate::search::verify;
use crate::{Error, Result};
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// An immutable set of partitions, queried by any number of threads at once. Clones are cheap.
#[derive(Clone)]
pub struct Reader {
    pub(crate) set: Arc<CachedSet>,
    pub(crate) limits: Limits,
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

/// Matches handed to [`Reader::for_each`] are found this many at a time.
const BATCH: u64 = 1 << 16;
/// Payloads whose memory is asked for at the same time.
const UNDER_WAY: usize = 32;

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

impl Reader {
    pub(crate) fn new(set: CachedSet) -> Reader {
        Reader { set: Arc::new(set), limits: Limits::default() }
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
        let limits = Limits { deadline: Some(deadline), ..self.limits.clone() };
        Reader { set: self.set.clone(), limits }
    }

    /// This reader with a flag: once it is true, queries fail with `Cancelled`.
    pub fn with_cancel(&self, flag: Arc<AtomicBool>) -> Reader {
        let limits = Limits { cancel: Some(flag), ..self.limits.clone() };
        Reader { set: self.set.clone(), limits }
    }

    /// Runs `work` with an executor of the filter and the scratch memory of this thread, on a view
    /// of the set that has the fields `more`. Partitions are not those of the reader.
    pub(crate) fn execute<T>(
        &self,
        filter: &Filter,
        more: &[usize],
        work: impl FnOnce(&mut Executor) -> Result<T>,
    ) -> Result<(T, Stats)> {
        self.limits.check()?;
        let plan = Plan::new(filter, &self.set.schema)?;
        let view = self.view(&plan, more);
        self.execute_on(view.as_ref().map_or(&self.set, |view| &view.set), &plan, work)
    }

    pub(crate) fn execute_on<T>(
        &self,
        set: &SearchSet,
        plan: &Plan,
        work: impl FnOnce(&mut Executor) -> Result<T>,
    ) -> Result<(T, Stats)> {
        let scratch = SCRATCH.take().unwrap_or_default();
        let mut executor = Executor::new(set, plan, &self.limits, scratch)?;
        let result = work(&mut executor);
        executor.reset();
        let stats = executor.stats;
        let mut scratch = executor.scratch;
        scratch.trim();
        SCRATCH.set(Some(scratch));
        Ok((result?, stats))
    }

    /// The number of documents that satisfy a filter.
    pub fn count(&self, filter: &Filter) -> Result<u64> {
        self.limits.check()?;
        if let Some(count) = self.count_equal(filter)? {
            return Ok(count);
        }
        let plan = Plan::new(filter, &self.set.schema)?;
        if let Some(total) = self.count_known(&plan)? {
            return Ok(total);
        }
        let view = self.view(&plan, &[]);
        let set = view.as_ref().map_or(&**self.set, |view| &view.set);
        self.execute_on(set, &plan, count_all).map(|(count, _)| count)
    }

    /// The count of `field = value` in few partitions: a look into their dictionaries, without a
    /// plan.
    fn count_equal(&self, filter: &Filter) -> Result<Option<u64>> {
        let set = &*self.set;
        let Filter::Compare(name, Op::Eq, value) = filter else { return Ok(None) };
        if set.partitions.len() >= MIN_PARTITIONS {
            return Ok(None);
        }
        let (field, described) = filterable(&set.schema, name)?;
        // A text is looked up as it is: to copy it would take as long as to find it.
        let bytes = key_bytes(described, value);
        let key = if bytes.is_none() { key_of(described, value)? } else { None };
        let mut count = 0;
        for (p, part) in set.partitions.iter().enumerate() {
            let Some(local) = set.local(p, field) else { continue };
            if part.meta(local).values().is_some() {
                let Some(key) = key.clone() else { continue };
                let test = Test::Points(vec![key]);
                if let Some((pair, window)) = windows::window_of(part, local, &test) {
                    count += windows::count(part, pair, window)?;
                }
                continue;
            }
            let dictionary = part.dictionary(local)?;
            let found = match bytes {
                Some(bytes) => dictionary.find_bytes(bytes),
                None => key.as_ref().and_then(|key| dictionary.find(key)),
            };
            if let Some(ord) = found {
                let (before, with) = part.sums(local)?.pair(ord as usize);
                count += with.wrapping_sub(before);
            }
        }
        Ok(Some(count))
    }

    /// The count of a single condition that the value catalogue knows.
    fn count_known(&self, plan: &Plan) -> Result<Option<u64>> {
        let total = self.set.documents;
        Ok(match plan.root {
            Node::All => Some(total),
            Node::Nothing => Some(0),
            Node::Leaf(leaf, negate) => {
                let known = self.set.catalogues.total(&self.set, &plan.leaves[leaf])?;
                known.map(|count| if negate { total - count } else { count })
            }
            _ => None,
        })
    }

    /// The page of documents that a query asks for.
    pub fn search(&self, query: &Query) -> Result<Page> {
        self.search_counted(query).map(|(page, _)| page)
    }

    pub(crate) fn search_counted(&self, query: &Query) -> Result<(Page, Stats)> {
        self.limits.check()?;
        let documents = self.set.documents;
        let order = rank::resolve(&self.set, &query.order)?;
        if let Some(cursor) = &query.after {
            cursor.check(&query.order)?;
        }
        let limit = query.limit.unwrap_or(u64::MAX);
        let k = query.skip.saturating_add(limit).min(documents) as usize;
        let after = query.after.as_ref().map(|cursor| self.resume(query, cursor)).transpose()?;
        let (after, count) = (after.as_deref(), query.count);
        let wanted = Wanted { order: &order, k: if limit == 0 { 0 } else { k }, after, count };
        let (mut hits, count, stats) = self.find(query, &wanted)?;
        hits.drain(..hits.len().min(query.skip as usize));
        Ok((Page { hits, count: query.count.then_some(count) }, stats))
    }

    /// The first `wanted.k` matches of a query's filter, the number of all matches if that is
    /// wanted, and what was touched.
    pub(crate) fn find(&self, query: &Query, wanted: &Wanted) -> Result<(Vec<Hit>, u64, Stats)> {
        let order = wanted.order;
        if let Some(hits) = self.everything(query, wanted) {
            return Ok((hits, self.set.documents, Stats::default()));
        }
        let plan = Plan::new(&query.filter, &self.set.schema)?;
        let view = self.view(&plan, &order.iter().map(|by| by.field).collect::<Vec<_>>());
        let set = view.as_ref().map_or(&**self.set, |view| &view.set);
        let moved = set.partitions.iter().any(|part| part.origins.is_some());
        if order.is_empty()
            && !wanted.count
            && moved
            && let Some((places, stats)) = self.tried(&plan, wanted)?
        {
            return Ok((hits(places), 0, stats));
        }
        let after = wanted.after.map(|cursor| match &view {
            Some(view) => Cow::Owned(view.cursor(&self.set, cursor)),
            None => Cow::Borrowed(cursor),
        });
        let wanted = Wanted { after: after.as_deref(), ..*wanted };
        let ((mut places, count), mut stats) = self.execute_on(set, &plan, |executor| {
            if wanted.k == 0 {
                return Ok((Vec::new(), if wanted.count { count_all(executor)? } else { 0 }));
            }
            if order.is_empty() {
                let found = unordered::places(executor, &wanted, usize::MAX)?;
                return Ok(found.unwrap_or_default());
            }
            ordered_search::ordered(executor, &wanted)
        })?;
        if let Some(view) = &view {
            places.iter_mut().for_each(|place| *place = view.place(*place));
            stats.bundled = view.bundled();
        }
        Ok((hits(places), count, stats))
    }

    /// The first documents of one partition in their own order: a range.
    fn everything(&self, query: &Query, wanted: &Wanted) -> Option<Vec<Hit>> {
        let [part] = self.set.partitions.as_slice() else { return None };
        let (order, end) = (wanted.order, (wanted.k as u64).min(self.set.documents) as u32);
        let whole = query.filter == Filter::All && wanted.after.is_none();
        if !whole || !(order.is_empty() || in_document_order(&self.set, 0, part, order)) {
            return None;
        }
        Some((0..end).map(|doc| Hit { partition: 0, doc }).collect())
    }

    /// Calls `callback` with all matches in order, from `skip` on and up to `limit`, until it
    /// breaks. Memory does not grow with the number of matches.
    pub fn for_each(
        &self,
        query: &Query,
        mut callback: impl FnMut(Hit) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut left = query.limit.unwrap_or(u64::MAX);
        let mut next = query.clone();
        next.count = false;
        while left > 0 {
            next.limit = Some(left.min(BATCH));
            let page = self.search(&next)?;
            for &hit in &page.hits {
                if callback(hit).is_break() {
                    return Ok(());
                }
            }
            left -= page.hits.len() as u64;
            match page.hits.last() {
                Some(&last) if page.hits.len() as u64 == BATCH => {
                    next.after = Some(self.cursor(query, last)?);
                    next.skip = 0;
                }
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    /// The value of a key of a field of the reader's schema.
    pub(crate) fn value_of(&self, field: usize, key: &Key) -> Result<Value> {
        let ty = self.set.schema.fields[field].ty;
        match key {
            Key::Fixed(key) => Ok(decode_fixed(ty, *key)),
            Key::Bytes(key) => decode_bytes(ty, key),
        }
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
            keys.push(key.map(|key| self.value_of(by.field, &key)).transpose()?);
        }
        let partition = self.set.names[hit.partition as usize].clone();
        Ok(Cursor { keys, partition, doc: hit.doc })
    }

    /// Checks the checksums of everything queries touch, makes the value catalogue and bundles
    /// small partitions, so that no query pays for it.
    pub fn warm(&self) -> Result<()> {
        self.set.catalogues.warm(&self.set)?;
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

fn hits(places: Vec<Place>) -> Vec<Hit> {
    places.into_iter().map(|(partition, doc)| Hit { partition, doc }).collect()
}

/// Partitions between asking for memory and using it.
pub(crate) const AHEAD: usize = 4;

pub(crate) fn count_all(executor: &mut Executor) -> Result<u64> {
    let counts = executor.share(executor.set.partitions.len(), |executor, turns| {
        let mut total = 0;
        for p in turns {
            executor.prefetch(p + AHEAD);
            if executor.pruned(p) {
                executor.stats.pruned += 1;
            } else {
                total += count_partition(executor, p)?;
            }
        }
        Ok(total)
    })?;
    Ok(counts.into_iter().sum())
}
