//! Bundles: they are built once queries have earned the credit for them, give the answers of their
//! partitions, and are carried over when other partitions change.

use super::{Store, open, store};
use crate::search::cache::bundle_view::Bundle;
use crate::search::model::query::{all, and, asc, between, desc, eq, exists, gte, is_in, not};
use crate::search::plan::Plan;
use crate::search::stats::{SearchSet, Statistics};
use crate::search::testing::{FORCED, Forced, Rng};
use crate::search::{
    Collection, Document, Facet, Field, Filter, GroupBy, OrderBy, PartitionBuilder, Query, Reader,
    Roles, Schema, Type,
};

const SEED: u64 = 0xB0_0D1E;
/// Too many documents for a bundle: the partitions before and after it get separate bundles.
const LARGE: usize = 32_800;

/// Orders of documents: none, one with many ties, and the same as a second field.
pub(super) fn orders() -> [Vec<OrderBy>; 3] {
    [vec![], vec![desc("rank")], vec![asc("number"), desc("rank")]]
}

pub(super) fn builder(rng: &mut Rng, documents: usize, order: &[OrderBy]) -> PartitionBuilder {
    let fields = [
        Field::new("number", Type::U64, Roles::FULL).nullable(),
        Field::new("rank", Type::I64, Roles::FULL),
        Field::new("share", Type::F64, Roles::FULL),
        Field::new("word", Type::String, Roles::FILTERABLE).multi(),
    ];
    let schema = Schema::new(fields).unwrap().order_by(order.to_vec()).unwrap();
    let mut builder = PartitionBuilder::new(schema);
    for _ in 0..documents {
        let mut document = Document::new()
            .set("rank", rng.below(300) as i64 - 100)
            .set("share", rng.below(1000) as f64 / 7.0)
            .payload(rng.next().to_string());
        if rng.below(8) > 0 {
            document.push("number", rng.below(60) as u64);
        }
        if documents < LARGE {
            (0..rng.below(3)).for_each(|_| document.push("word", format!("w{}", rng.below(30))));
        }
        builder.add(&document).unwrap();
    }
    builder
}

/// Twelve small partitions, a large one, and twelve more small ones, some of them empty.
pub(super) fn collection(rng: &mut Rng, order: &[OrderBy]) -> Store {
    let store = store();
    let mut change = store.collection.change().unwrap();
    for p in 0..12 {
        let (before, after) = (rng.below(60), if p % 5 == 0 { 0 } else { rng.below(60) });
        change.put(&format!("a{p:02}"), builder(rng, before, order)).unwrap();
        change.put(&format!("c{p:02}"), builder(rng, after, order)).unwrap();
    }
    change.put("b", builder(rng, LARGE, order)).unwrap();
    change.commit().unwrap();
    store
}

fn some_filter(rng: &mut Rng) -> Filter {
    let low = rng.below(60) as u64;
    let number = between("number", low, low + rng.below(20) as u64);
    match rng.below(6) {
        0 => all(),
        1 => and([number, exists("word")]),
        2 => not(eq("word", format!("w{}", rng.below(30)))),
        3 => is_in("word", [format!("w{}", rng.below(30)), "w3".to_string()]),
        4 => and([gte("rank", rng.below(300) as i64), not(number)]),
        _ => number,
    }
}

/// Compares the answers of both readers, sometimes with the plans of large partitions.
pub(super) fn compare(rng: &mut Rng, bundled: &Reader, plain: &Reader) {
    let list = *rng.pick(&[None, Some(true), Some(false)]);
    FORCED.set(Forced { large: rng.below(2) == 0, list, ..Forced::default() });
    compare_as_forced(rng, bundled, plain);
    FORCED.set(Forced::default());
}

/// Compares one random query, its next pages by page token, and the facets, groups and aggregates
/// of its filter.
fn compare_as_forced(rng: &mut Rng, bundled: &Reader, plain: &Reader) {
    let filter = some_filter(rng);
    assert_eq!(bundled.count(&filter).unwrap(), plain.count(&filter).unwrap(), "{filter:?}");
    let mut query = Query::new(filter.clone()).limit(1 + rng.below(40) as u64).with_count();
    query = match rng.below(9) {
        0 => query,
        1 => Query { count: false, ..query },
        2 => query.order_by(asc("number")),
        3 => query.order_by(desc("number")).order_by(asc("rank")),
        4 => query.order_by(asc("number")).order_by(desc("rank")),
        5 => query.order_by(desc("rank")).order_by(asc("number")),
        6 => query.order_by(asc("rank")),
        7 => query.order_by(asc("share")).order_by(desc("rank")),
        _ => query.order_by(desc("rank")),
    };
    for _ in 0..4 {
        let page = bundled.search(&query).unwrap();
        assert_eq!(page, plain.search(&query).unwrap(), "{query}");
        let Some(&last) = page.hits.last() else { break };
        query.after = Some(bundled.page_token(&query, last).unwrap());
    }
    let facet = Facet { field: "word".into(), top: 5, disjunctive: rng.below(2) == 0 };
    let facets = [facet];
    assert_eq!(
        bundled.facets(&filter, &facets).unwrap(),
        plain.facets(&filter, &facets).unwrap(),
        "{filter:?}"
    );
    let by = GroupBy { fields: vec!["word".into()], aggregates: vec!["rank".into()] };
    let groups = bundled.group_by(&filter, &by).unwrap();
    assert_eq!(groups, plain.group_by(&filter, &by).unwrap(), "{filter:?}");
    let share = bundled.aggregate(&filter, "share").unwrap();
    assert_eq!(share, plain.aggregate(&filter, "share").unwrap(), "{filter:?}");
}

/// A reader of the newest set without bundles.
pub(super) fn plain(disk: &std::sync::Arc<crate::disk::SimDisk>) -> Reader {
    open(disk).unwrap().reader().with_bundle_limit(0)
}

#[test]
fn bundles_are_built_once_queries_have_earned_credit() {
    println!("seed {SEED:#x}");
    let mut rng = Rng(SEED);
    for order in orders() {
        let Store { collection, disk } = collection(&mut rng, &order);
        let (reader, plain) = (collection.reader(), plain(&disk));
        let query = Query::new(between("number", 10u64, 20u64)).order_by(asc("rank"));
        let explained = |reader: &Reader| reader.explain(&query).unwrap().to_string();
        let pages = |reader: &Reader| reader.search(&query).unwrap();
        let before = pages(&reader);
        assert_eq!(reader.bundle_memory(), 0, "one query does not earn a bundle");
        assert!(!explained(&reader).contains("bundles"));
        (0..200).for_each(|_| assert_eq!(pages(&reader), before));
        let two_fields = reader.bundle_memory();
        assert!(two_fields > 0);
        let text = explained(&reader);
        assert!(text.contains("24 small partitions searched as 2 bundles"), "{text}");
        (0..50).for_each(|_| compare(&mut rng, &reader, &plain));
        reader.warm().unwrap();
        assert!(reader.bundle_memory() > two_fields, "the other fields are added");
        (0..300).for_each(|_| compare(&mut rng, &reader, &plain));
        assert_eq!(plain.bundle_memory(), 0);
        assert!(!explained(&plain).contains("bundles"));
    }
}

/// For each bundle whether its documents are in another order than in their partitions.
fn reordered(reader: &Reader) -> Vec<bool> {
    let view = reader.set.bundles.current();
    view.iter().flat_map(|view| view.bundles()).map(|(_, b)| b.part.origins.is_some()).collect()
}

#[test]
fn bundles_are_sorted_once_queries_use_their_order() {
    println!("seed {SEED:#x}");
    let mut rng = Rng(SEED + 4);
    for (order, expected) in orders().into_iter().zip([false, true, true]) {
        let Store { collection, disk } = collection(&mut rng, &order);
        let (reader, plain) = (collection.reader(), plain(&disk));
        let check = |query: &Query| {
            assert_eq!(reader.search(query).unwrap(), plain.search(query).unwrap(), "{query}");
        };
        let by_share = Query::new(all()).order_by(asc("share")).limit(3).with_count();
        let by_share = Query { filter: exists("word"), ..by_share };
        (0..300).for_each(|_| check(&by_share));
        assert_eq!(reordered(&reader), [false, false], "no query has used the order");
        // From here on queries use all fields of the order, so the bundles are rebuilt.
        let by_rank = by_share.clone().order_by(asc("number")).order_by(asc("rank"));
        (0..500).for_each(|_| check(&by_rank));
        assert_eq!(reordered(&reader), [expected; 2]);
        check(&by_share);
        (0..50).for_each(|_| compare(&mut rng, &reader, &plain));
    }
}

#[test]
fn bundles_of_unchanged_partitions_are_carried_over() {
    println!("seed {SEED:#x}");
    let mut rng = Rng(SEED + 1);
    for order in orders() {
        carry_over(&mut rng, &order);
    }
}

fn carry_over(rng: &mut Rng, order: &[OrderBy]) {
    let Store { collection, disk } = collection(rng, order);
    let reading: Collection = open(&disk).unwrap();
    reading.reader().warm().unwrap();
    let mut incomplete = 0;
    for round in 0..30 {
        let mut change = collection.change().unwrap();
        let small = rng.below(60);
        let name = format!("a{:02}", rng.below(12));
        match round % 3 {
            0 => change.put(&name, builder(rng, small, order)).unwrap(),
            1 => change.put(&format!("{name}-x"), builder(rng, small, order)).unwrap(),
            _ => change.remove(&name).unwrap_or(()), // it may be removed already
        }
        change.commit().unwrap();
        let changed = reading.refresh().unwrap();
        let (reader, plain) = (reading.reader(), plain(&disk));
        let bundles =
            |reader: &Reader| reader.set.bundles.current().map_or(0, |view| view.bundles().count());
        assert_eq!(bundles(&reader), if changed { 1 } else { 2 }, "round {round}");
        assert!(reader.bundle_memory() > 0);
        if let Some(view) = reader.set.bundles.current().filter(|view| view.miss_credit > 0) {
            let mut fields = 0..reader.set.schema.fields.len();
            assert!(fields.all(|field| reader.set.statistics.is_made(field)));
            assert_same_statistics(rng, &view.set);
            incomplete += 1;
        }
        (0..8).for_each(|_| compare(rng, &reader, &plain));
        reader.warm().unwrap();
        assert_eq!(bundles(&reader), 2, "round {round}");
        (0..8).for_each(|_| compare(rng, &reader, &plain));
    }
    assert!(incomplete > 20);
}

/// The statistics that a view without one of its bundles derives from the set below are those that
/// it would compute itself.
fn assert_same_statistics(rng: &mut Rng, set: &SearchSet) {
    let own = Statistics::new(set.schema.fields.len(), set.partitions.len());
    assert!(set.statistics.is_above());
    for _ in 0..20 {
        let (low, word) = (rng.below(70) as u64, |n: usize| format!("w{n}"));
        let filter = match rng.below(5) {
            0 => is_in("word", (0..rng.below(4)).map(|_| word(rng.below(40))).collect::<Vec<_>>()),
            1 => eq("rank", rng.below(320) as i64 - 110),
            2 => between("number", low, low + rng.below(9) as u64),
            3 => gte("rank", rng.below(320) as i64 - 110),
            _ => exists("number"),
        };
        let plan = Plan::new(&filter, &set.schema).unwrap();
        for leaf in &plan.leaves {
            let known = |statistics: &Statistics| {
                let known = statistics.known(set, leaf).unwrap().unwrap();
                let partitions = 0..set.partitions.len();
                let each =
                    partitions.map(|p| (known.absent(p), known.ordinals(p).map(<[_]>::to_vec)));
                (each.collect::<Vec<_>>(), known.total)
            };
            assert_eq!(known(&set.statistics), known(&own), "{leaf:?}");
        }
    }
}

/// Copying from a bundle of the previous set gives the bytes of a merge of the partitions.
#[test]
fn a_bundle_derived_from_another_has_the_same_bytes() {
    println!("seed {SEED:#x}");
    let mut rng = Rng(SEED + 3);
    for order in orders() {
        derive_bundles(&mut rng, &order);
    }
}

fn derive_bundles(rng: &mut Rng, order: &[OrderBy]) {
    let store = store();
    let mut before: Option<Bundle> = None;
    for round in 0..60 {
        let mut change = store.collection.change().unwrap();
        for _ in 0..1 + rng.below(3) {
            let name = format!("p{}", rng.below(20));
            let documents = rng.below(60);
            match rng.below(4) {
                0 if round > 5 => change.remove(&name).unwrap_or(()), // it may be removed already
                _ => change.put(&name, builder(rng, documents, order)).unwrap(),
            }
        }
        let set = change.commit().unwrap().set;
        let all = 0..set.partitions.len();
        // In some rounds a field is wanted that the previous bundle lacks, and in some a field of
        // the order is not wanted, which changes the order of the documents.
        let wanted = (0..4).map(|field| field < 2 + round % 3 && (field != 1 || round % 7 > 0));
        let wanted: Vec<bool> = wanted.collect();
        let merged = Bundle::new(&set, all.clone(), &wanted, None).unwrap();
        let derived = Bundle::new(&set, all, &wanted, before.as_ref()).unwrap();
        assert_eq!(derived.part.file.content(), merged.part.file.content(), "round {round}");
        assert_eq!(derived.part.origins, merged.part.origins, "round {round}");
        before = Some(derived);
    }
}

#[test]
fn bundles_stay_within_their_limit() {
    println!("seed {SEED:#x}");
    let mut rng = Rng(SEED + 2);
    let Store { collection, disk } = collection(&mut rng, &orders()[1]);
    let (reader, plain) = (collection.reader().with_bundle_limit(1), plain(&disk));
    plain.warm().unwrap();
    assert_eq!(plain.bundle_memory(), 0);
    reader.warm().unwrap();
    let first = reader.bundle_memory();
    assert!(first > 0, "a bundle that was started below the limit is finished");
    (0..100).for_each(|_| compare(&mut rng, &reader, &plain));
    assert_eq!(reader.bundle_memory(), first);
    // Another handle has its own limit, and shares the bundles.
    let other = collection.reader().with_bundle_limit(1 << 30);
    other.warm().unwrap();
    let all = reader.bundle_memory();
    assert!(all > first);
    assert_eq!(other.bundle_memory(), all);
    reader.with_bundle_limit(0).warm().unwrap();
    assert_eq!(reader.bundle_memory(), all, "existing bundles are kept");
    (0..100).for_each(|_| compare(&mut rng, &reader, &plain));
}
