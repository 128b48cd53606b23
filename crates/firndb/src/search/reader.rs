//! A reader: an immutable set of partitions and everything that can be asked of it.

use super::catalogue::MIN_PARTITIONS;
use super::clause::Scratch;
use super::collection::PartitionInfo;
use super::condition::key_of;
use super::execute::{Executor, Sink, Stats};
use super::facet::{Counts, counts};
use super::group::{Aggregate, groups};
use super::partition::Partition;
use super::plan::{Node, Plan, filterable};
use super::query::{Cursor, Filter, Op, Query};
use super::rank::{self, Ranks};
use super::schema::Schema;
use super::set::{Limits, Set};
use super::topk::{self, Place, Wanted, count_partition};
use super::value::{Key, Value, decode_bytes, decode_fixed};
use crate::{Error, Result, disk};
use std::borrow::Cow;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// An immutable set of partitions, queried by any number of threads at once. Clones are cheap.
#[derive(Clone)]
pub struct Reader {
    pub(crate) set: Arc<Set>,
    pub(crate) limits: Limits,
}

/// A document that was found: number of its partition in the reader, number of the document in the partition.
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

/// A facet to compute: the most frequent values of a field among the matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facet {
    /// A filterable field.
    pub field: String,
    /// Values to return at most.
    pub top: usize,
    /// Ignore the filter's own conditions on this field (those that are parts of its outermost `and`).
    pub disjunctive: bool,
}

/// The most frequent values of a field among the matches.
#[derive(Clone, Debug, PartialEq)]
pub struct FacetCounts {
    /// The field.
    pub field: String,
    /// Values with the number of matches that have them: most frequent first, equal ones by value.
    pub values: Vec<(Value, u64)>,
    /// Distinct values among the matches.
    pub distinct: u64,
    /// Matches without a value.
    pub missing: u64,
}

/// Fields to group by (one or two; several values of a document put it into several groups) and fields to aggregate.
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

/// Matches handed to [`Reader::for_each`] are found this many at a time.
const BATCH: u64 = 1 << 16;

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

impl Reader {
    pub(crate) fn new(set: Set) -> Reader {
        Reader { set: Arc::new(set), limits: Limits::default() }
    }

    /// A reader over partition files that belong to no collection; partitions are named by their file names.
    pub fn open_files(files: &[impl AsRef<Path>]) -> Result<Reader> {
        let disk = disk::os();
        let mut named: Vec<(String, Arc<Partition>)> = Vec::with_capacity(files.len());
        for file in files {
            let path = file.as_ref();
            let like = named.last().map(|(_, part)| part.clone());
            let part = Partition::open(&*disk, path, like.as_deref())?;
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            named.push((name, Arc::new(part)));
        }
        Ok(Reader::new(Set::new(named)?))
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

    /// Runs `work` with an executor of the filter and the scratch memory of this thread.
    fn execute<T>(
        &self,
        filter: &Filter,
        work: impl FnOnce(&mut Executor) -> Result<T>,
    ) -> Result<(T, Stats)> {
        self.limits.check()?;
        let plan = Plan::new(filter, &self.set.schema)?;
        self.execute_plan(&plan, work)
    }

    pub(crate) fn execute_plan<T>(
        &self,
        plan: &Plan,
        work: impl FnOnce(&mut Executor) -> Result<T>,
    ) -> Result<(T, Stats)> {
        let scratch = SCRATCH.take().unwrap_or_default();
        let mut executor = Executor::new(&self.set, plan, &self.limits, scratch)?;
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
        self.execute_plan(&plan, count_all).map(|(count, _)| count)
    }

    /// The count of `field = value` in few partitions: a look into their dictionaries, without a plan.
    fn count_equal(&self, filter: &Filter) -> Result<Option<u64>> {
        let set = &*self.set;
        let Filter::Compare(name, Op::Eq, value) = filter else { return Ok(None) };
        if set.partitions.len() >= MIN_PARTITIONS {
            return Ok(None);
        }
        let (field, described) = filterable(&set.schema, name)?;
        let Some(key) = key_of(described, value)? else { return Ok(Some(0)) };
        let mut count = 0;
        for (p, part) in set.partitions.iter().enumerate() {
            let Some(local) = set.local(p, field) else { continue };
            if let Some(ord) = part.dictionary(local)?.find(&key) {
                let (sums, ord) = (part.sums(local)?, ord as usize);
                count += sums.get(ord + 1).wrapping_sub(sums.get(ord));
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
        let order = rank::resolve(&self.set, &query.order)?;
        if let Some(cursor) = &query.after {
            check_cursor(cursor, query)?;
        }
        let all = self.set.documents;
        let k = query.skip.saturating_add(query.limit.unwrap_or(u64::MAX)).min(all) as usize;
        let limit = query.limit.unwrap_or(u64::MAX);
        let ((mut places, count), stats) = self.execute(&query.filter, |executor| {
            let (after, count) = (query.after.as_ref(), query.count);
            if limit == 0 {
                return Ok((Vec::new(), if count { count_all(executor)? } else { 0 }));
            }
            if order.is_empty() {
                return unordered(executor, k, after, count);
            }
            topk::ordered(executor, &Wanted { order: &order, k, after, count })
        })?;
        places.drain(..places.len().min(query.skip as usize));
        let hits = places.into_iter().map(|(partition, doc)| Hit { partition, doc }).collect();
        Ok((Page { hits, count: query.count.then_some(count) }, stats))
    }

    /// Calls `callback` with all matches in order, from `skip` on and up to `limit`, until it breaks. Memory does not
    /// grow with the number of matches.
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

    /// The most frequent values of fields among the documents that satisfy a filter.
    pub fn facets(&self, filter: &Filter, facets: &[Facet]) -> Result<Vec<FacetCounts>> {
        let mut found: Vec<Option<FacetCounts>> = facets.iter().map(|_| None).collect();
        let mut plain = Vec::new();
        for (i, facet) in facets.iter().enumerate() {
            let field = filterable(&self.set.schema, &facet.field)?.0;
            let own = facet.disjunctive.then(|| without(filter, &facet.field));
            match own {
                Some(filter) => {
                    let (mut counts, _) = self.execute(&filter, |e| counts(e, &[field]))?;
                    found[i] = Some(self.top(facet, field, counts.remove(0))?);
                }
                None => plain.push((i, field)),
            }
        }
        if !plain.is_empty() {
            let fields: Vec<usize> = plain.iter().map(|(_, field)| *field).collect();
            let (all, _) = self.execute(filter, |executor| counts(executor, &fields))?;
            for ((i, field), counts) in plain.into_iter().zip(all) {
                found[i] = Some(self.top(&facets[i], field, counts)?);
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    fn top(&self, facet: &Facet, field: usize, counts: Counts) -> Result<FacetCounts> {
        let distinct = counts.by_key.len() as u64;
        let mut entries: Vec<(Key, u64)> = counts.by_key.into_iter().collect();
        let better = |a: &(Key, u64), b: &(Key, u64)| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0));
        if facet.top < entries.len() && facet.top > 0 {
            entries.select_nth_unstable_by(facet.top - 1, better);
        }
        entries.truncate(facet.top);
        entries.sort_unstable_by(better);
        let values = entries.into_iter().map(|(key, n)| Ok((self.value_of(field, &key)?, n)));
        Ok(FacetCounts {
            field: facet.field.clone(),
            values: values.collect::<Result<_>>()?,
            distinct,
            missing: counts.missing,
        })
    }

    fn value_of(&self, field: usize, key: &Key) -> Result<Value> {
        let ty = self.set.schema.fields[field].ty;
        match key {
            Key::Fixed(key) => Ok(decode_fixed(ty, *key)),
            Key::Bytes(key) => decode_bytes(ty, key),
        }
    }

    /// Count, minimum, maximum, sum and average of a field over the documents that satisfy a filter.
    pub fn aggregate(&self, filter: &Filter, field: &str) -> Result<Aggregate> {
        let by = GroupBy { fields: Vec::new(), aggregates: vec![field.to_string()] };
        let mut groups = self.group_by(filter, &by)?;
        let first = groups.first_mut().and_then(|group| group.aggregates.pop());
        first.ok_or_else(|| Error::invalid("no aggregate"))
    }

    /// Groups the documents that satisfy a filter, in the order of the groups' keys (missing ones last). Without
    /// fields there is one group of all matches.
    pub fn group_by(&self, filter: &Filter, by: &GroupBy) -> Result<Vec<Group>> {
        if by.fields.len() > 2 {
            return Err(Error::invalid("documents are grouped by at most two fields"));
        }
        let number = |name: &String| {
            self.set.schema.field(name).map(|(i, _)| i).ok_or_else(|| self.set.schema.unknown(name))
        };
        let keys: Vec<usize> = by.fields.iter().map(number).collect::<Result<_>>()?;
        let of: Vec<usize> = by.aggregates.iter().map(number).collect::<Result<_>>()?;
        let (found, _) = self.execute(filter, |executor| groups(executor, &keys, &of))?;
        let mut found: Vec<_> = found.into_iter().collect();
        let missing_last = |key: &Vec<Option<Key>>| -> Vec<(bool, Option<Key>)> {
            key.iter().map(|k| (k.is_none(), k.clone())).collect()
        };
        found.sort_by_cached_key(|(key, _)| missing_last(key));
        let mut all = Vec::with_capacity(found.len());
        for (key, tally) in found {
            let values = key.iter().zip(&keys);
            let values = values.map(|(k, &f)| k.as_ref().map(|k| self.value_of(f, k)).transpose());
            let aggregates = tally.aggregates.into_iter().map(super::group::Running::finish);
            all.push(Group {
                key: values.collect::<Result<_>>()?,
                count: tally.count,
                aggregates: aggregates.collect::<Result<_>>()?,
            });
        }
        Ok(all)
    }

    fn partition(&self, hit: Hit) -> Result<&Partition> {
        let part = self.set.partitions.get(hit.partition as usize);
        let missing = || Error::invalid(format!("there is no partition number {}", hit.partition));
        part.map(|part| &**part).ok_or_else(missing)
    }

    /// The payload of a hit: borrowed from the file if payloads are raw.
    pub fn payload(&self, hit: Hit) -> Result<Cow<'_, [u8]>> {
        self.partition(hit)?.payload(hit.doc)
    }

    /// The value of a stored or sortable field of a hit (the smallest of several); `None` if it has none.
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
        let schema = &self.set.schema;
        let (number, described) = schema.field(field).ok_or_else(|| schema.unknown(field))?;
        if !described.roles.stored && !described.roles.sortable {
            return Err(Error::invalid(format!(
                "field `{field}` is neither stored nor sortable: its values cannot be read back"
            )));
        }
        Ok((part, self.set.local(hit.partition as usize, number)))
    }

    /// The place of a hit in the order of a query, for [`Query::after`].
    pub fn cursor(&self, query: &Query, hit: Hit) -> Result<Cursor> {
        let part = self.partition(hit)?;
        part.check(hit.doc)?;
        let mut keys = Vec::with_capacity(query.order.len());
        for by in &rank::resolve(&self.set, &query.order)? {
            let ranks = Ranks::new(&self.set, hit.partition as usize, part, &[*by])?;
            let key = ranks.keys(part, hit.doc)?.pop().flatten();
            keys.push(key.map(|key| self.value_of(by.field, &key)).transpose()?);
        }
        let partition = self.set.names[hit.partition as usize].clone();
        Ok(Cursor { keys, partition, doc: hit.doc })
    }

    /// Checks the checksums of everything queries touch and makes the value catalogue, so that no first query pays
    /// for it.
    pub fn warm(&self) -> Result<()> {
        self.set.catalogues.warm(&self.set)?;
        for part in &self.set.partitions {
            part.warm()?;
        }
        Ok(())
    }

    /// Checks every byte of every partition.
    pub fn verify(&self) -> Result<()> {
        self.set.partitions.iter().try_for_each(|part| part.verify())
    }
}

fn check_cursor(cursor: &Cursor, query: &Query) -> Result<()> {
    let mut names: Vec<&str> = Vec::new();
    for key in &query.order {
        if !names.contains(&key.field.as_str()) {
            names.push(&key.field);
        }
    }
    if cursor.keys.len() == names.len() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the cursor has {} keys but the order has {}: it belongs to another query",
        cursor.keys.len(),
        names.len()
    )))
}

/// Partitions between asking for memory and using it.
pub(crate) const AHEAD: usize = 4;

pub(crate) fn count_all(executor: &mut Executor) -> Result<u64> {
    let mut total = 0;
    for p in 0..executor.set.partitions.len() {
        executor.prefetch(p + AHEAD);
        if executor.pruned(p) {
            executor.stats.pruned += 1;
        } else {
            total += count_partition(executor, p)?;
        }
    }
    Ok(total)
}

/// The first `k` matches in the order of partitions and documents, and the count of all if asked for.
fn unordered(
    executor: &mut Executor,
    k: usize,
    after: Option<&Cursor>,
    count: bool,
) -> Result<(Vec<Place>, u64)> {
    let (mut places, mut total) = (Vec::new(), 0);
    let set = executor.set;
    for p in 0..set.partitions.len() {
        if executor.pruned(p) {
            executor.stats.pruned += 1;
            continue;
        }
        let before = after.map_or(std::cmp::Ordering::Greater, |c| set.names[p].cmp(&c.partition));
        let first = match before {
            std::cmp::Ordering::Less => u32::MAX,
            std::cmp::Ordering::Equal => after.map_or(0, |c| c.doc.saturating_add(1)),
            std::cmp::Ordering::Greater => 0,
        };
        if places.len() < k && first < u32::MAX {
            let mut sink = Take { places: &mut places, k, first, partition: p as u32 };
            let _ = executor.run(p, Vec::new(), &mut sink)?;
        } else if !count {
            continue;
        }
        if count {
            total += count_partition(executor, p)?;
        }
    }
    Ok((places, total))
}

/// Takes matches from document `first` on until there are `k`.
struct Take<'s> {
    places: &'s mut Vec<Place>,
    k: usize,
    first: u32,
    partition: u32,
}

impl Sink for Take<'_> {
    fn ascending(&self) -> bool {
        true
    }

    fn docs(&mut self, docs: &[u32]) -> Result<ControlFlow<()>> {
        for &doc in docs.iter().filter(|&&doc| doc >= self.first) {
            self.places.push((self.partition, doc));
            if self.places.len() >= self.k {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// A filter without the conditions on one field that are parts of its outermost `and`.
fn without(filter: &Filter, field: &str) -> Filter {
    match filter {
        Filter::And(parts) => Filter::And(parts.iter().map(|part| without(part, field)).collect()),
        own if only_on(own, field) => Filter::All,
        other => other.clone(),
    }
}

/// Whether all conditions of a filter are on one field.
fn only_on(filter: &Filter, field: &str) -> bool {
    match filter {
        Filter::All => false,
        Filter::Compare(name, ..)
        | Filter::In(name, _)
        | Filter::Between(name, ..)
        | Filter::Prefix(name, _)
        | Filter::Exists(name) => name == field,
        Filter::And(parts) | Filter::Or(parts) => {
            !parts.is_empty() && parts.iter().all(|part| only_on(part, field))
        }
        Filter::Not(inner) => only_on(inner, field),
    }
}
