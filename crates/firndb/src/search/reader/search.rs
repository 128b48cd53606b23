//! Runs queries: searches, counts, facets and groups.

use crate::search::cache::bundle_view::BundleView;
use crate::search::collect::count::count_all;
use crate::search::collect::facet::{self, Facet, FacetCounts};
use crate::search::collect::group::{self, Aggregate, Group, GroupBy};
use crate::search::collect::ordered_search;
use crate::search::collect::rank;
use crate::search::collect::request::{DocAddress, PageRequest};
use crate::search::collect::topk::in_document_order;
use crate::search::collect::unordered::{self, FEW_PARTITIONS};
use crate::search::exec::executor::Executor;
use crate::search::exec::scratch::Scratch;
use crate::search::exec::windows;
use crate::search::exec::workspace::Stats;
use crate::search::model::condition::{key_bytes, key_of};
use crate::search::model::query::{Filter, Op, Query};
use crate::search::model::types::Type;
use crate::search::plan::{Node, Plan, Test, filterable};
use crate::search::reader::resume::resume;
use crate::search::reader::{Hit, Page, Reader};
use crate::search::stats::{MIN_PARTITIONS, SearchSet};
use crate::{Error, Result};
use std::borrow::Cow;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;

/// [`Reader::for_each`] searches pages of this many matches.
const BATCH: u64 = 1 << 16;

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

impl Reader {
    /// Returns the page of matches that a query requests.
    pub fn search(&self, query: &Query) -> Result<Page> {
        span!(DEBUG, "firndb.search.search");
        self.search_counted(query).map(|(page, _)| page)
    }

    /// [`Reader::search`], with statistics of the execution.
    pub(crate) fn search_counted(&self, query: &Query) -> Result<(Page, Stats)> {
        self.limits.check()?;
        let documents = self.set.documents;
        let order = rank::resolve(&self.set, &query.order)?;
        if let Some(token) = &query.after {
            token.check(&query.order)?;
        }
        let limit = query.limit.unwrap_or(u64::MAX);
        let k = query.skip.saturating_add(limit).min(documents) as usize;
        let after = query.after.as_ref().map(|token| resume(self, query, token)).transpose()?;
        let (after, count) = (after.as_deref(), query.count);
        let request =
            PageRequest { order: &order, k: if limit == 0 { 0 } else { k }, after, count };
        let (mut hits, count, stats) = self.find(query, &request)?;
        hits.drain(..hits.len().min(query.skip as usize));
        Ok((Page { hits, count: query.count.then_some(count) }, stats))
    }

    /// The first `request.k` matches of the filter of a query, the number of all matches if
    /// requested, and what was read.
    pub(crate) fn find(
        &self,
        query: &Query,
        request: &PageRequest,
    ) -> Result<(Vec<Hit>, u64, Stats)> {
        let order = request.order;
        if let Some(hits) = self.all_in_document_order(query, request) {
            return Ok((hits, self.set.documents, Stats::default()));
        }
        let plan = Plan::new(&query.filter, &self.set.schema)?;
        let view = self
            .bundle_view(&plan, &order.iter().map(|sort_key| sort_key.field).collect::<Vec<_>>());
        let set = view.as_ref().map_or(&**self.set, |view| &view.set);
        let is_reordered = set.partitions.iter().any(|part| part.origins.is_some());
        if order.is_empty()
            && !request.count
            && is_reordered
            && let Some((addresses, stats)) = self.search_few_partitions(&plan, request)?
        {
            return Ok((hits(addresses), 0, stats));
        }
        let after = request.after.map(|token| match &view {
            Some(view) => Cow::Owned(view.page_token(&self.set, token)),
            None => Cow::Borrowed(token),
        });
        let request = PageRequest { after: after.as_deref(), ..*request };
        let ((mut addresses, count), mut stats) = self.execute_on(set, &plan, |executor| {
            if request.k == 0 {
                return Ok((Vec::new(), if request.count { count_all(executor)? } else { 0 }));
            }
            if order.is_empty() {
                let found = unordered::first_matches(executor, &request, usize::MAX)?;
                return Ok(found.unwrap_or_default());
            }
            ordered_search::first_matches(executor, &request)
        })?;
        if let Some(view) = &view {
            addresses.iter_mut().for_each(|address| *address = view.place(*address));
            stats.bundled = view.bundled();
        }
        Ok((hits(addresses), count, stats))
    }

    /// The first matches in document order, if the first few partitions fill the page. Addresses
    /// are of the reader's set.
    pub(crate) fn search_few_partitions(
        &self,
        plan: &Plan,
        request: &PageRequest,
    ) -> Result<Option<(Vec<DocAddress>, Stats)>> {
        let work =
            |executor: &mut Executor| unordered::first_matches(executor, request, FEW_PARTITIONS);
        let (found, stats) = self.execute_on(&self.set, plan, work)?;
        Ok(found.map(|(addresses, _)| (addresses, stats)))
    }

    /// The first documents of a single partition, if the query matches everything in document
    /// order.
    fn all_in_document_order(&self, query: &Query, request: &PageRequest) -> Option<Vec<Hit>> {
        let [part] = self.set.partitions.as_slice() else { return None };
        let (order, end) = (request.order, (request.k as u64).min(self.set.documents) as u32);
        let whole = query.filter == Filter::All && request.after.is_none();
        if !whole || !(order.is_empty() || in_document_order(&self.set, 0, part, order)) {
            return None;
        }
        Some((0..end).map(|doc| Hit { partition: 0, doc }).collect())
    }

    /// Calls `callback` with each match in order, after the first `skip` and at most `limit`, until
    /// it breaks. Memory does not grow with the number of matches.
    ///
    /// ```
    /// use firndb::search::{Query, Reader, Value, query::gt};
    /// use std::ops::ControlFlow;
    ///
    /// /// The sum of the prices above 10.
    /// fn sum(reader: &Reader) -> firndb::Result<f64> {
    ///     let (mut sum, mut failure) = (0.0, None);
    ///     reader.for_each(&Query::new(gt("price", 10)), |hit| match reader.value(hit, "price") {
    ///         Ok(value) => {
    ///             if let Some(Value::F64(price)) = value {
    ///                 sum += price;
    ///             }
    ///             ControlFlow::Continue(())
    ///         }
    ///         Err(error) => {
    ///             failure = Some(error);
    ///             ControlFlow::Break(())
    ///         }
    ///     })?;
    ///     failure.map_or(Ok(sum), Err)
    /// }
    /// ```
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
                    next.after = Some(self.page_token(query, last)?);
                    next.skip = 0;
                }
                _ => return Ok(()),
            }
        }
        Ok(())
    }

    /// Counts the documents that satisfy a filter.
    pub fn count(&self, filter: &Filter) -> Result<u64> {
        span!(DEBUG, "firndb.search.count");
        self.limits.check()?;
        if let Some(count) = self.count_equal(filter)? {
            return Ok(count);
        }
        let plan = Plan::new(filter, &self.set.schema)?;
        if let Some(total) = self.count_known(&plan)? {
            return Ok(total);
        }
        let view = self.bundle_view(&plan, &[]);
        let set = view.as_ref().map_or(&**self.set, |view| &view.set);
        self.execute_on(set, &plan, count_all).map(|(count, _)| count)
    }

    /// The count of `field = value` if there are few partitions: looks the value up in their
    /// dictionaries, without a plan.
    fn count_equal(&self, filter: &Filter) -> Result<Option<u64>> {
        let set = &*self.set;
        let Filter::Compare(name, Op::Eq, value) = filter else { return Ok(None) };
        if set.partitions.len() >= MIN_PARTITIONS {
            return Ok(None);
        }
        let (field, definition) = filterable(&set.schema, name)?;
        // Text is looked up without a copy: copying would take as long as the look-up.
        let bytes = key_bytes(definition, value);
        let key = if bytes.is_none() { key_of(definition, value)? } else { None };
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
                let (before, with) = part.offsets(local)?.pair(ord as usize);
                count += with.wrapping_sub(before);
            }
        }
        Ok(Some(count))
    }

    /// The count of a filter that the value statistics can answer.
    fn count_known(&self, plan: &Plan) -> Result<Option<u64>> {
        let total = self.set.documents;
        Ok(match plan.root {
            Node::All => Some(total),
            Node::Nothing => Some(0),
            Node::Leaf(leaf, negate) => {
                let known = self.set.statistics.total(&self.set, &plan.leaves[leaf])?;
                known.map(|count| if negate { total - count } else { count })
            }
            _ => None,
        })
    }

    /// Returns the most frequent values of fields among the documents that satisfy a filter.
    pub fn facets(&self, filter: &Filter, facets: &[Facet]) -> Result<Vec<FacetCounts>> {
        span!(DEBUG, "firndb.search.facets");
        let mut found: Vec<Option<FacetCounts>> = facets.iter().map(|_| None).collect();
        let ty = |field: usize| self.set.schema.fields[field].ty;
        let mut conjunctive = Vec::new();
        for (i, facet) in facets.iter().enumerate() {
            let field = filterable(&self.set.schema, &facet.field)?.0;
            let without_own = facet.disjunctive.then(|| facet::without(filter, &facet.field));
            match without_own {
                Some(filter) => {
                    let (mut counts, _) =
                        self.execute(&filter, &[field], |e| facet::counts(e, &[field]))?;
                    found[i] = Some(counts.remove(0).top(facet, ty(field))?);
                }
                None => conjunctive.push((i, field)),
            }
        }
        if !conjunctive.is_empty() {
            let fields: Vec<usize> = conjunctive.iter().map(|(_, field)| *field).collect();
            let (all, _) = self.execute(filter, &fields, |e| facet::counts(e, &fields))?;
            for ((i, field), counts) in conjunctive.into_iter().zip(all) {
                found[i] = Some(counts.top(&facets[i], ty(field))?);
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Returns count, minimum, maximum, sum and average of a field over the documents that satisfy
    /// a filter.
    pub fn aggregate(&self, filter: &Filter, field: &str) -> Result<Aggregate> {
        let by = GroupBy { fields: Vec::new(), aggregates: vec![field.to_string()] };
        let mut groups = self.group_by(filter, &by)?;
        let first = groups.first_mut().and_then(|group| group.aggregates.pop());
        first.ok_or_else(|| Error::invalid("no aggregate"))
    }

    /// Groups the documents that satisfy a filter, and sorts groups by their keys, missing keys
    /// last. Without group fields there is one group of all matches. `InvalidArgument` if there are
    /// more than two group fields.
    pub fn group_by(&self, filter: &Filter, by: &GroupBy) -> Result<Vec<Group>> {
        span!(DEBUG, "firndb.search.group");
        if by.fields.len() > 2 {
            return Err(Error::invalid("documents are grouped by at most two fields"));
        }
        let number = |name: &String| {
            self.set.schema.field(name).map(|(i, _)| i).ok_or_else(|| self.set.schema.unknown(name))
        };
        let keys: Vec<usize> = by.fields.iter().map(number).collect::<Result<_>>()?;
        let aggregated: Vec<usize> = by.aggregates.iter().map(number).collect::<Result<_>>()?;
        let plan = Plan::new(filter, &self.set.schema)?;
        let fields: Vec<usize> = keys.iter().chain(&aggregated).copied().collect();
        // The sum of floats depends on the order of addition, so it uses the original partitions,
        // not bundles.
        let floats = aggregated.iter().any(|&field| self.set.schema.fields[field].ty == Type::F64);
        let view = if floats { None } else { self.bundle_view(&plan, &fields) };
        let set = view.as_ref().map_or(&**self.set, |view| &view.set);
        let (found, _) =
            self.execute_on(set, &plan, |executor| group::groups(executor, &keys, &aggregated))?;
        let types: Vec<Type> = keys.iter().map(|&f| self.set.schema.fields[f].ty).collect();
        group::sorted(found, &types)
    }

    /// Runs `work` with an executor of the filter and the scratch memory of this thread. The
    /// executor runs on bundles that have the filter's fields and the fields `more`, if there are
    /// such; then its partition numbers are not those of the reader.
    pub(crate) fn execute<T>(
        &self,
        filter: &Filter,
        more: &[usize],
        work: impl FnOnce(&mut Executor) -> Result<T>,
    ) -> Result<(T, Stats)> {
        self.limits.check()?;
        let plan = Plan::new(filter, &self.set.schema)?;
        let view = self.bundle_view(&plan, more);
        self.execute_on(view.as_ref().map_or(&self.set, |view| &view.set), &plan, work)
    }

    /// [`Reader::execute`] of a plan, on `set`.
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
        let stats = executor.work.stats;
        let mut scratch = executor.work.scratch;
        scratch.trim();
        SCRATCH.set(Some(scratch));
        Ok((result?, stats))
    }

    /// The view with bundles for a plan that also uses the fields `more`, if there is one.
    pub(crate) fn bundle_view(&self, plan: &Plan, more: &[usize]) -> Option<Arc<BundleView>> {
        let fields = plan.leaves.iter().map(|leaf| leaf.field).chain(more.iter().copied());
        let view = self.set.bundles.view(&self.set, fields, self.limits.bundle_memory)?;
        if view.set.statistics.is_above() {
            // Built once: the sets that follow share it. Damage in a partition is reported by the
            // query itself.
            plan.leaves.iter().for_each(|leaf| drop(self.set.statistics.make(&self.set, leaf)));
        }
        Some(view)
    }
}

fn hits(addresses: Vec<DocAddress>) -> Vec<Hit> {
    addresses.into_iter().map(|(partition, doc)| Hit { partition, doc }).collect()
}
