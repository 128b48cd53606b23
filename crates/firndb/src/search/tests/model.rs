//! Random queries of random collections give the answers of the reference model.
//!
//! `FIRNDB_MODEL_QUERIES=200000` runs more queries (use `--release`). `FIRNDB_SEED=...` replays the
//! collection that a failure reports.

use super::number_from_env;
use super::random_collection::{RandomCollection, Scale};
use super::random_queries::QueryGenerator;
use crate::search::model::query::{Query, all, and, asc, between, eq, not, or};
use crate::search::partition::Partition;
use crate::search::simd::kernels::tests::with_each_version;
use crate::search::testing::{FORCED, Forced, Rng};
use crate::search::{Filter, Hit, PageToken, Reader, Type, Value, parse_query};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::{ControlFlow, Range};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const BASE_SEED: u64 = 0xF12D_0000;
const WIDE_SEED: u64 = 0xF12D_FFFF_0000;
const FORCED_SEED: u64 = 0xF12D_8000;
const COLLECTIONS: u64 = 13;
/// Queries run on several threads only if they are long, or in `several_threads_match_the_model`.
const THREADS: usize = 3;
const QUERIES: u64 = 5_000;
const QUERIES_PER_COLLECTION: u64 = 50;

/// The counter of collections with points that hold values.
const BY_VALUE: &str = "collections with points by value";

/// Reports the collection and the query when a test panics, in the engine or in a comparison.
struct Context<'a> {
    seed: u64,
    case: &'a RandomCollection,
    query: &'a dyn Debug,
    text: String,
}

impl Drop for Context<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let Context { seed, case, query, text } = self;
            eprintln!("replay with FIRNDB_SEED={seed:#x}\n{}", case.describe());
            eprintln!("query: {text}\n{query:?}");
        }
    }
}

/// The number of checks by kind.
#[derive(Default)]
struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    fn add(&mut self, kind: &'static str) {
        *self.0.entry(kind).or_default() += 1;
    }
}

#[test]
fn answers_match_the_model() {
    let mut counts = Counts::default();
    if let Some(seed) = number_from_env("FIRNDB_SEED") {
        check_collection(seed, &mut counts);
        println!("seed {seed:#x}: {:?}", counts.0);
        return;
    }
    let wanted = number_from_env("FIRNDB_MODEL_QUERIES").unwrap_or(QUERIES);
    let collections = wanted.div_ceil(QUERIES_PER_COLLECTION);
    println!("base seed {BASE_SEED:#x}");
    check_collections(BASE_SEED..BASE_SEED + collections, &mut counts);
    let total: u64 = counts.0.values().sum();
    println!("{total} checks of {collections} collections: {:?}", counts.0);
    assert!(total >= wanted && counts.0.len() >= 12, "some kind of check never ran");
    assert!(counts.0.contains_key(BY_VALUE), "no collection had points that hold values");
}

/// Checks the collections of some seeds on all processors. Each has its own disk and random
/// numbers, so that a failure can be replayed alone.
fn check_collections(seeds: Range<u64>, counts: &mut Counts) {
    let next = AtomicU64::new(seeds.start);
    let check = || {
        let mut counts = Counts::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if !seeds.contains(&seed) {
                return counts;
            }
            let _stop = StopOnPanic(&next, seeds.end);
            check_collection(seed, &mut counts);
        }
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let others: Vec<_> = (0..threads).map(|_| scope.spawn(check)).collect();
        for other in others {
            let checked = other.join().unwrap_or_else(|panic| resume_unwind(panic));
            checked.0.into_iter().for_each(|(kind, n)| *counts.0.entry(kind).or_default() += n);
        }
    });
}

/// Stops the other threads before their next collection when one panics.
struct StopOnPanic<'a>(&'a AtomicU64, u64);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fetch_max(self.1, Ordering::Relaxed);
        }
    }
}

/// Checks the collection of one seed.
fn check_collection(seed: u64, counts: &mut Counts) {
    let mut rng = Rng(seed);
    let case = RandomCollection::new(&mut rng, Scale::of(seed));
    let mut reader = case.store.collection.reader().with_threads(THREADS);
    let whole = Query::new(Filter::All);
    {
        let _context = Context { seed, case: &case, query: &whole, text: String::new() };
        check_metadata(&case, &reader);
    }
    match rng.below(3) {
        0 => reader.warm().unwrap(),
        1 => reader = reader.with_bundle_limit(0),
        _ => {} // bundles are built while queries run
    }
    let by_value = |part: &Partition| {
        (0..part.schema.fields.len()).any(|field| part.meta(field).values().is_some())
    };
    if reader.set.partitions.iter().any(|part| by_value(part)) {
        counts.add(BY_VALUE);
    }
    let generator = QueryGenerator::new(&case, reader.schema());
    for _ in 0..QUERIES_PER_COLLECTION {
        let query = generator.query(&mut rng);
        let text = query.to_string();
        let _context = Context { seed, case: &case, query: &query, text };
        let check =
            QueryCheck { case: &case, reader: &reader, generator: &generator, query: &query };
        let kind = check.run(&mut rng);
        counts.add(kind);
    }
}

/// The same checks with every instruction set of the machine, beginning with the portable one.
#[test]
fn every_instruction_set_matches_the_model() {
    let mut versions = Vec::new();
    for seed in FORCED_SEED..FORCED_SEED + COLLECTIONS {
        let mut counts = Counts::default();
        versions.clear();
        with_each_version(|version| {
            // Plans of small partitions do not use most kernels.
            FORCED.set(Forced { large: true, list: Some(false), ..Forced::default() });
            check_collection(seed, &mut counts);
            FORCED.set(Forced::default());
            versions.push(version.to_string());
        });
    }
    println!("base seed {FORCED_SEED:#x}, {COLLECTIONS} collections, {versions:?}");
    assert_eq!(versions[0], "Portable");
}

/// The same checks with every plan: with lists, with bitsets, and with the plans of large
/// partitions.
#[test]
fn every_plan_matches_the_model() {
    let mut counts = Counts::default();
    for seed in FORCED_SEED..FORCED_SEED + COLLECTIONS {
        for (list, large) in [(None, true), (Some(true), true), (Some(false), true)] {
            FORCED.set(Forced { list, large, ..Forced::default() });
            check_collection(seed, &mut counts);
            FORCED.set(Forced::default());
        }
    }
    println!("base seed {FORCED_SEED:#x}: {:?}", counts.0);
}

/// The same checks with several threads for every query, however short it is.
#[test]
fn several_threads_match_the_model() {
    let mut counts = Counts::default();
    for seed in FORCED_SEED..FORCED_SEED + COLLECTIONS {
        FORCED.set(Forced { threads: true, ..Forced::default() });
        check_collection(seed, &mut counts);
        FORCED.set(Forced::default());
    }
    println!("base seed {FORCED_SEED:#x}: {:?}", counts.0);
}

/// Ranges of a field with lists and of a scanned field, alone and with another condition.
#[test]
fn wide_ranges_match_the_model() {
    let (mut listed, mut scanned) = (false, false);
    for seed in WIDE_SEED..WIDE_SEED + 4 {
        let mut rng = Rng(seed);
        let case = RandomCollection::new(&mut rng, Scale::Large);
        let reader = case.store.collection.reader();
        let whole = Query::new(all()).order_by(asc("wide")).skip(5);
        let mut visited = Vec::new();
        let visit = |hit| {
            visited.push(hit);
            ControlFlow::Continue(())
        };
        reader.for_each(&whole, visit).unwrap();
        assert_same(&visited, &case.model.search(&whole), "a visit of all documents");
        let field = reader.schema().field("wide").unwrap().0;
        for (p, part) in reader.set.partitions.iter().enumerate() {
            let meta = reader.set.local(p, field).map(|field| part.meta(field));
            listed |= meta.is_some_and(|meta| meta.has_lists() && !meta.is_scanned());
            scanned |= meta.is_some_and(|meta| meta.is_scanned());
        }
        let pool = &case.spec.sources.last().unwrap().pool;
        for _ in 0..100 {
            let (low, high) = (rng.below(pool.len()), rng.below(pool.len()));
            let (low, high) = (low.min(high), low.max(high));
            let range = between("wide", pool[low].clone(), pool[high].clone());
            let filter = match rng.below(3) {
                0 => range,
                1 => not(range),
                _ => and([range, not(eq("wide", pool[low].clone()))]),
            };
            let query = Query::new(or([filter.clone(), not(all())])).with_count();
            let _context = Context { seed, case: &case, query: &query, text: query.to_string() };
            let expected = case.model.search(&query);
            assert_same(&reader.search(&query).unwrap().hits, &expected, "hits");
            assert_same(&reader.count(&filter).unwrap(), &(expected.len() as u64), "count");
        }
    }
    assert!(listed && scanned, "both forms must occur: lists {listed}, scans {scanned}");
}

/// Checks what needs no query: sizes, names, the schema, `verify`.
fn check_metadata(case: &RandomCollection, reader: &Reader) {
    let model = &case.model;
    assert_eq!(reader.len(), model.docs.len() as u64);
    assert_eq!(reader.is_empty(), model.docs.is_empty());
    let parts = reader.partitions();
    assert_eq!(
        parts.iter().map(|p| &p.name).collect::<Vec<_>>(),
        model.names.iter().collect::<Vec<_>>()
    );
    for (i, part) in (0..).zip(&parts) {
        let documents = model.hits.iter().filter(|hit| hit.partition == i).count();
        assert_eq!(part.documents as usize, documents, "{}", part.name);
    }
    for (i, field) in model.fields.iter().enumerate() {
        match reader.schema().field(&field.name) {
            Some((_, found)) => assert_eq!((found.ty, found.roles), (field.ty, field.roles)),
            None => assert!(model.docs.iter().all(|doc| doc.values[i].is_empty()), "{field:?}"),
        }
    }
    reader.verify().unwrap();
}

/// Asserts that both are equal, or equal but for NaN.
#[track_caller]
fn assert_same<T: PartialEq + Debug>(got: &T, expected: &T, what: &str) {
    let same = got == expected || format!("{got:?}") == format!("{expected:?}");
    assert!(same, "{what}: the engine returns\n{got:?}\nbut the model\n{expected:?}");
}

struct QueryCheck<'a> {
    case: &'a RandomCollection,
    reader: &'a Reader,
    generator: &'a QueryGenerator<'a>,
    query: &'a Query,
}

impl QueryCheck<'_> {
    /// Runs one check with the query. Returns its kind.
    fn run(&self, rng: &mut Rng) -> &'static str {
        let (reader, model) = (self.reader, &self.case.model);
        let filter = &self.query.filter;
        match rng.below(15) {
            0 | 1 => {
                let expected = model.matching(filter).len() as u64;
                assert_same(&reader.count(filter).unwrap(), &expected, "count");
                "count"
            }
            2 | 3 => {
                self.check_page(self.query);
                "search"
            }
            4 => {
                let mut query = self.query.clone();
                query.after = self.some_token(rng);
                self.check_page(&query);
                "search after"
            }
            5 => {
                let stop = if rng.below(2) == 0 { rng.below(30) } else { usize::MAX - 1 };
                self.check_visit(stop);
                "for each"
            }
            6 | 7 => self.check_facets(rng),
            8 => {
                let Some(field) = self.generator.one_field(rng) else { return "nothing" };
                let got = reader.aggregate(filter, &field.name).unwrap();
                assert_same(&got, &model.aggregate(filter, &field.name), &field.name);
                "aggregate"
            }
            9 => {
                let Some(by) = self.generator.group_by(rng) else { return "nothing" };
                let got = reader.group_by(filter, &by).unwrap();
                assert_same(&got, &model.group_by(filter, &by), &format!("{by:?}"));
                "group by"
            }
            10 => {
                self.check_documents(rng);
                "documents"
            }
            11 => {
                self.check_text();
                "text"
            }
            12 => {
                let explain = reader.explain(self.query).unwrap();
                let matches = model.matching(filter).len() as u64;
                assert_same(&explain.matches, &self.query.count.then_some(matches), "explain");
                assert_same(&explain.hits, &(model.search(self.query).len() as u64), "explain");
                assert!(
                    explain.partitions_pruned <= explain.partitions && !explain.plan.is_empty()
                );
                "explain"
            }
            13 => self.check_without_filter(rng),
            _ => self.check_pages(rng),
        }
    }

    fn check_page(&self, query: &Query) {
        let page = self.reader.search(query).unwrap();
        assert_same(&page.hits, &self.case.model.search(query), &query.to_string());
        let count = self.case.model.matching(&query.filter).len() as u64;
        assert_same(&page.count, &query.count.then_some(count), "count of the search");
    }

    /// The page token of some document, which need not match, or one that no document has.
    fn some_token(&self, rng: &mut Rng) -> Option<PageToken> {
        let model = &self.case.model;
        if model.hits.is_empty() {
            return None;
        }
        let hit = *rng.pick(&model.hits);
        let mut token = self.reader.page_token(self.query, hit).unwrap();
        assert_same(&token, &model.page_token(self.query, hit), "page token");
        token = PageToken::parse(&token.to_string()).unwrap();
        match rng.below(6) {
            0 => token.partition = rng.text(),
            1 => token.doc = rng.next() as u32,
            2 => {
                let other = model.page_token(self.query, *rng.pick(&model.hits));
                token.keys.iter_mut().zip(other.keys).take(1).for_each(|(key, k)| *key = k);
            }
            _ => {}
        }
        Some(token)
    }

    fn check_visit(&self, stop: usize) {
        let mut seen = Vec::new();
        let visit = |hit: Hit| {
            seen.push(hit);
            if seen.len() > stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        self.reader.for_each(self.query, visit).unwrap();
        let mut expected = self.case.model.search(self.query);
        expected.truncate(stop + 1);
        assert_same(&seen, &expected, "for_each");
    }

    fn check_facets(&self, rng: &mut Rng) -> &'static str {
        let disjunctive = rng.below(2) == 0;
        let count = 1 + rng.below(4);
        let facets = (0..count).filter_map(|i| self.generator.facet(rng, disjunctive || i == 2));
        let facets: Vec<_> = facets.collect();
        let (filter, model) = (&self.query.filter, &self.case.model);
        let got = self.reader.facets(filter, &facets).unwrap();
        let expected: Vec<_> = facets.iter().map(|facet| model.facet(filter, facet)).collect();
        assert_same(&got, &expected, &format!("{facets:?}"));
        if disjunctive { "disjunctive facets" } else { "facets" }
    }

    /// Payloads and values of some documents.
    fn check_documents(&self, rng: &mut Rng) {
        let model = &self.case.model;
        for _ in 0..20.min(model.hits.len()) {
            let hit = *rng.pick(&model.hits);
            let doc = &model.docs[model.index(hit)];
            assert_same(&&*self.reader.payload(hit).unwrap(), &&doc.payload[..], "payload");
            for field in &self.generator.readable {
                let expected = &doc.values[model.field(&field.name)];
                let got = self.reader.values(hit, &field.name).unwrap();
                assert_same(&got, expected, &field.name);
                let got = self.reader.value(hit, &field.name).unwrap();
                assert_same(&got.as_ref(), &expected.first(), &field.name);
            }
        }
        self.check_numbers(rng);
    }

    /// Reading a field of many hits at once gives the values of each hit.
    fn check_numbers(&self, rng: &mut Rng) {
        let hits: Vec<Hit> = self.case.model.hits.iter().copied().take(rng.below(40)).collect();
        for field in &self.generator.readable {
            let mut reader = self.reader.field(&field.name).unwrap();
            let expected: Vec<_> = hits.iter().map(|&hit| reader.value(hit).unwrap()).collect();
            let mut got = Vec::new();
            match field.ty {
                Type::U64 => reader.each_u64(&hits, |v| got.push(v.map(Value::U64))).unwrap(),
                Type::I64 => reader.each_i64(&hits, |v| got.push(v.map(Value::I64))).unwrap(),
                Type::Timestamp => {
                    reader.each_i64(&hits, |v| got.push(v.map(Value::Timestamp))).unwrap();
                }
                _ => {
                    assert!(reader.each_u64(&hits, |_| ()).is_err());
                    continue;
                }
            }
            assert_same(&got, &expected, &field.name);
        }
    }

    /// The first documents of an order, without a filter.
    fn check_without_filter(&self, rng: &mut Rng) -> &'static str {
        for _ in 0..3 {
            let (skip, limit) = (rng.below(8) as u64, Some(rng.below(30) as u64));
            let query =
                Query { filter: Filter::All, after: None, skip, limit, ..self.query.clone() };
            self.check_page(&query);
        }
        "first documents"
    }

    /// A query that was printed and parsed gives the same page.
    fn check_text(&self) {
        let mut query = parse_query(&self.query.to_string(), Some(self.reader.schema())).unwrap();
        query.count = self.query.count;
        self.check_page(&query);
    }

    /// Pages by skip or by page token give all matches in order, each once.
    fn check_pages(&self, rng: &mut Rng) -> &'static str {
        let by_token = rng.below(2) == 0;
        let whole = Query { skip: 0, limit: None, ..self.query.clone() };
        let expected = self.case.model.search(&whole);
        let size = 1 + expected.len().div_ceil(1 + rng.below(6));
        let mut page = Query { count: false, ..whole.limit(size as u64) };
        let mut seen = Vec::new();
        loop {
            let hits = self.reader.search(&page).unwrap().hits;
            let Some(last) = hits.last() else { break };
            if by_token {
                page.after = Some(self.reader.page_token(&page, *last).unwrap());
            } else {
                page.skip += hits.len() as u64;
            }
            seen.extend(hits);
            assert!(seen.len() <= expected.len(), "pages overlap");
        }
        assert_same(&seen, &expected, "all pages");
        if by_token { "pages by page token" } else { "pages by skip" }
    }
}
