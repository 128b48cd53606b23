//! Bitsets and divided lists of single-valued and multi-valued fields: every kind of query gives
//! the answers of a scan over the rows, with every plan and instruction set, before and after a
//! merge.

use super::{merge_all, special_forms, store, with_each_plan};
use crate::search::codec::slices::ELIAS_FANO;
use crate::search::model::query::{and, asc, between, eq, is_in, not, or};
use crate::search::testing::{Rng, reader_of};
use crate::search::{
    Document, Facet, Field, Filter, PartitionBuilder, Query, Reader, Roles, Schema, Type, Value,
};
use std::cmp::Reverse;

const SEED: u64 = 0xB17_5E75;
const DOCUMENTS: usize = 9_000;

/// Tags, a place, a number, a day. Documents are in the order of days.
type Row = (Vec<u64>, u64, u64, i64);

/// Whether a row satisfies a filter.
type Holds = Box<dyn Fn(&Row) -> bool>;

/// Tag `i` is in one of `SHARES[i]` documents: four tags get bitsets, two get lists.
const SHARES: [usize; 6] = [2, 6, 9, 12, 60, 400];
/// A tag that most documents of one short range have, and few others.
const CROWDED: u64 = 6;

/// `count` rows, the first of which follows `before` others.
fn rows(rng: &mut Rng, before: usize, count: usize) -> Vec<Row> {
    let row = |i: usize| {
        let mut tags: Vec<u64> =
            (0..6).filter(|&tag| rng.below(SHARES[tag as usize]) == 0).collect();
        let crowd = if (3_000..3_900).contains(&i) { 2 } else { 200 };
        tags.extend((rng.below(crowd) == 0).then_some(CROWDED));
        // The first of 300 places has a ninth of all documents.
        let place = if rng.below(9) == 0 { 0 } else { rng.below(300) as u64 };
        (tags, place, (i * 7_919 % 100_003) as u64, (before + i) as i64 / 7)
    };
    (0..count).map(row).collect()
}

fn builder(rows: &[Row]) -> PartitionBuilder {
    let fields = [
        Field::new("tags", Type::U64, Roles::FILTERABLE).multi().nullable(),
        Field::new("place", Type::U64, Roles::FILTERABLE),
        Field::new("number", Type::U64, Roles::FULL),
        Field::new("day", Type::I64, Roles::FULL),
    ];
    let schema = Schema::new(fields).unwrap().order_by([asc("day")]).unwrap();
    let mut builder = PartitionBuilder::new(schema);
    for (tags, place, number, day) in rows {
        let mut document =
            Document::new().set("place", *place).set("number", *number).set("day", *day);
        tags.iter().for_each(|tag| document.push("tags", *tag));
        builder.add(&document).unwrap();
    }
    builder
}

fn filters(rng: &mut Rng, rows: &[Row]) -> Vec<(Filter, Holds)> {
    let [a, b, c] = [(); 3].map(|()| rng.below(7) as u64);
    let (place, limit) = (rng.below(4) as u64, rng.below(100_003) as u64);
    let (number, day) = (rows[rng.below(rows.len())].2, rng.below(1_200) as i64);
    let days = (day, day + rng.below(300) as i64);
    let in_days = move |row: &Row| (days.0..=days.1).contains(&row.3);
    let tag = |tag: u64| move |row: &Row| row.0.contains(&tag);
    let (has_a, has_b, has_c) = (tag(a), tag(b), tag(c));
    vec![
        (eq("tags", a), Box::new(has_a)),
        (not(eq("tags", a)), Box::new(move |row| !has_a(row))),
        (is_in("tags", [a, b]), Box::new(move |row| has_a(row) || has_b(row))),
        (between("tags", a.min(b), a.max(b)), {
            Box::new(move |row| row.0.iter().any(|tag| (a.min(b)..=a.max(b)).contains(tag)))
        }),
        (and([eq("tags", a), eq("tags", b)]), Box::new(move |row| has_a(row) && has_b(row))),
        (and([eq("tags", a), not(eq("tags", b)), not(eq("tags", c))]), {
            Box::new(move |row| has_a(row) && !has_b(row) && !has_c(row))
        }),
        (or([eq("tags", a), and([eq("tags", b), eq("place", 0u64)])]), {
            Box::new(move |row| has_a(row) || has_b(row) && row.1 == 0)
        }),
        (and([eq("tags", a), between("number", limit, limit + 9_000)]), {
            Box::new(move |row| has_a(row) && (limit..=limit + 9_000).contains(&row.2))
        }),
        (and([eq("tags", a), eq("number", number)]), {
            Box::new(move |row| has_a(row) && row.2 == number)
        }),
        (and([eq("tags", a), between("day", days.0, days.1)]), {
            Box::new(move |row| has_a(row) && in_days(row))
        }),
        (and([eq("tags", a), not(eq("tags", b)), between("day", days.0, days.1)]), {
            Box::new(move |row| has_a(row) && !has_b(row) && in_days(row))
        }),
        (and([eq("place", place + 1), between("day", days.0, days.1)]), {
            Box::new(move |row| row.1 == place + 1 && in_days(row))
        }),
        (eq("place", place), Box::new(move |row| row.1 == place)),
        (and([eq("place", place), eq("tags", a)]), {
            Box::new(move |row| row.1 == place && has_a(row))
        }),
        (between("place", place, 40 + place), {
            Box::new(move |row| (place..=40 + place).contains(&row.1))
        }),
        (and([not(eq("place", 0u64)), is_in("tags", [b, c])]), {
            Box::new(move |row| row.1 != 0 && (has_b(row) || has_c(row)))
        }),
    ]
}

fn check_queries(rng: &mut Rng, rows: &[Row], reader: &Reader, at: &str) {
    for (filter, holds) in filters(rng, rows) {
        let at = format!("{at}: {filter}");
        let expected: Vec<usize> = (0..rows.len()).filter(|&i| holds(&rows[i])).collect();
        assert_eq!(reader.count(&filter).unwrap(), expected.len() as u64, "{at}");
        let page = |query: Query| -> Vec<usize> {
            let hits = reader.search(&query).unwrap().hits;
            hits.iter().map(|hit| hit.doc as usize).collect()
        };
        assert!(page(Query::new(filter.clone()).limit(20)).iter().eq(expected.iter().take(20)));
        let all = page(Query::new(filter.clone()).limit(rows.len() as u64));
        assert!(all == expected, "{at}");
        let mut ordered = expected.clone();
        ordered.sort_by_key(|&i| rows[i].2);
        let query = Query::new(filter.clone()).order_by(asc("number")).limit(20);
        assert!(page(query).iter().eq(ordered.iter().take(20)), "{at}");
        let query = Query::new(filter.clone()).limit(7);
        if let Some(last) = reader.search(&query).unwrap().hits.last() {
            let after = query.clone().after(reader.page_token(&query, *last).unwrap());
            assert!(page(after).iter().eq(expected.iter().skip(7).take(7)), "{at}, after");
        }
        let facet = Facet { field: "tags".into(), top: 10, disjunctive: false };
        let counts = reader.facets(&filter, &[facet]).unwrap();
        let with = |tag: u64| expected.iter().filter(|&&i| rows[i].0.contains(&tag)).count() as u64;
        let mut tags: Vec<(u64, u64)> = (0..7).map(|tag| (tag, with(tag))).collect();
        tags.retain(|(_, count)| *count > 0);
        tags.sort_by_key(|(tag, count)| (Reverse(*count), *tag));
        let tags: Vec<(Value, u64)> =
            tags.into_iter().map(|(tag, count)| (Value::U64(tag), count)).collect();
        assert_eq!(counts[0].values, tags, "{at}");
        let missing = expected.iter().filter(|&&i| rows[i].0.is_empty()).count();
        assert_eq!(counts[0].missing, missing as u64, "{at}");
    }
}

/// The number of keys of a field that have a bitset.
fn bitsets(reader: &Reader, field: usize) -> usize {
    special_forms(reader, field).iter().filter(|(_, form)| *form == 0).count()
}

#[test]
fn every_query_matches_a_scan_of_the_rows() {
    println!("seed {SEED:#x}");
    let mut rng = Rng(SEED);
    let rows = rows(&mut rng, 0, DOCUMENTS);
    let reader = reader_of([builder(&rows)]);
    reader.verify().unwrap();
    assert_eq!((bitsets(&reader, 0), bitsets(&reader, 1)), (4, 1), "three tags have lists");
    let bits = [0, 1].map(|field| reader.set.partitions[0].meta(field).slice_bits);
    assert_eq!(bits, [ELIAS_FANO, 14], "lists of places are short");
    with_each_plan(|at| (0..20).for_each(|_| check_queries(&mut rng, &rows, &reader, at)));
}

#[test]
fn a_merged_partition_equals_one_built_at_once() {
    let mut rng = Rng(SEED + 1);
    // The first partition is too small for divided lists.
    let parts = [(0, 900), (900, 5_000), (5_900, 4_500)].map(|(from, n)| rows(&mut rng, from, n));
    let [_, merged] = merge_all(&store(), parts.each_ref().map(|rows| builder(rows)));
    let whole = reader_of([builder(&parts.concat())]);
    let bytes = |reader: &Reader| reader.set.partitions[0].file.content();
    assert_eq!(bytes(&merged), bytes(&whole), "bytes of a merge");
    check_queries(&mut rng, &parts.concat(), &merged, "merged");
}

/// Ranges over whole and over divided lists, in a partition of several chunks.
#[test]
fn ranges_over_whole_and_divided_lists_match_a_scan_of_the_rows() {
    const DOCUMENTS: i64 = 70_000;
    let place = |doc: i64| doc * 7919 % DOCUMENTS;
    let fields = [
        Field::new("place", Type::I64, Roles::FILTERABLE),
        Field::new("kind", Type::I64, Roles::FILTERABLE),
        Field::new("places", Type::I64, Roles::FILTERABLE).multi(),
    ];
    let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap());
    for doc in 0..DOCUMENTS {
        let mut document = Document::new().set("place", place(doc)).set("kind", doc % 900);
        (0..doc % 3).for_each(|i| document.push("places", place(doc + i)));
        builder.add(&document).unwrap();
    }
    let store = store();
    let mut change = store.collection.change().unwrap();
    change.put("p", builder).unwrap();
    let reader = change.commit().unwrap();
    reader.verify().unwrap();
    let part = &reader.set.partitions[0];
    let bits = [0, 1, 2].map(|field| part.meta(field).slice_bits);
    assert_eq!(bits, [17, ELIAS_FANO, 17], "long lists are divided");
    let ranges = [(0, 9), (100, 30_000), (4_375, 65_000), (17, DOCUMENTS), (39_000, DOCUMENTS)];
    for (low, high) in ranges {
        let range = between("place", low, high);
        let inside = |doc: &i64| (low..=high).contains(&place(*doc));
        assert_eq!(reader.count(&range).unwrap(), (0..DOCUMENTS).filter(inside).count() as u64);
        let both = and([range, between("kind", 100i64, 600i64)]);
        let kind = |doc: &i64| (100..=600).contains(&(doc % 900));
        let expected = (0..DOCUMENTS).filter(inside).filter(kind).count() as u64;
        assert_eq!(reader.count(&both).unwrap(), expected);
        let page = Query::new(and([both, not(eq("kind", 300i64))])).limit(5);
        let wanted = (0..DOCUMENTS).filter(inside).filter(kind).filter(|doc| doc % 900 != 300);
        let hits = reader.search(&page).unwrap().hits;
        assert!(hits.iter().map(|hit| i64::from(hit.doc)).eq(wanted.take(5)));
    }
}
