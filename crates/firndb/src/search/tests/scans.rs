//! Keys that are found in the column only, in fields with few keys and in scanned fields: every
//! kind of query gives the answers of a scan over the rows, with every plan and instruction set,
//! and damage is reported.

use super::{damage_every_byte, merge_all, special_forms, store, with_each_plan};
use crate::disk::{Disk, DiskRef, SimDisk};
use crate::search::codec::postings::build::IN_COLUMN;
use crate::search::model::query::{
    OrderBy, and, asc, between, desc, eq, exists, gte, is_in, lt, not, or,
};
use crate::search::simd::kernels::tests::with_each_version;
use crate::search::testing::{FORCED, Forced, Rng};
use crate::search::{
    Document, Facet, Field, Filter, GroupBy, Hit, PartitionBuilder, Query, Reader, Roles, Schema,
    Type, Value,
};
use std::path::Path;

const SEED: u64 = 0x5CA_5EED;
const DOCUMENTS: usize = 9_000;

/// One of nine kinds, of which one is rare and one forms a run; a shade that may be missing; a
/// year; and a number that is different in every document. Two more fields follow from the number:
/// a price with many values, which may be missing, and about half of it.
type Row = (u64, Option<i64>, i64, u64);

fn price(row: &Row) -> Option<i64> {
    (!row.3.is_multiple_of(13)).then_some((row.3 % 4_001) as i64 - 1_000)
}

fn half(row: &Row) -> u64 {
    row.3 % 4_001 / 2
}

/// Whether a row satisfies a filter.
type Holds = Box<dyn Fn(&Row) -> bool>;

const RARE: u64 = 7;
const RUN: u64 = 8;

fn rows(rng: &mut Rng, count: usize) -> Vec<Row> {
    let row = |i: usize| {
        let kind = match i {
            100..900 => RUN,
            _ if i % 1_777 == 5 => RARE,
            _ => rng.below(7) as u64,
        };
        let shade = (rng.below(11) > 0).then(|| (rng.below(14) * rng.below(14)) as i64 - 20);
        let year = 2020 - (rng.below(60) * rng.below(60) / 60) as i64;
        (kind, shade, year, (i * 7_919 % 100_003) as u64)
    };
    (0..count).map(row).collect()
}

fn builder(rows: &[Row]) -> PartitionBuilder {
    let fields = [
        Field::new("kind", Type::U64, Roles::FILTERABLE),
        Field::new("shade", Type::I64, Roles::FULL).nullable(),
        Field::new("year", Type::I64, Roles::FULL),
        Field::new("number", Type::U64, Roles::FULL),
        Field::new("price", Type::I64, Roles::FULL).nullable().scanned(),
        Field::new("half", Type::U64, Roles::FILTERABLE).scanned(),
    ];
    let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap());
    for row in rows {
        let (kind, shade, year, number) = row;
        let document = Document::new().set("kind", *kind).set("year", *year).set("number", *number);
        let document = shade.iter().fold(document, |document, shade| document.set("shade", *shade));
        let document = document.set("half", half(row));
        let document =
            price(row).iter().fold(document, |document, price| document.set("price", *price));
        builder.add(&document).unwrap();
    }
    builder
}

fn bytes(builder: PartitionBuilder) -> Vec<u8> {
    let (disk, path) = (SimDisk::new(), Path::new("/scans"));
    builder.write_on(&(disk.clone() as DiskRef), path).unwrap();
    disk.map(path).unwrap().to_vec()
}

fn reader(bytes: &[u8]) -> crate::Result<Reader> {
    let (disk, path) = (SimDisk::new(), Path::new("/scans"));
    disk.write_raw(path, bytes);
    Reader::open_files_on(&*disk, &[path])
}

/// The ordinals of the keys of a field that are found in its column.
fn scanned(reader: &Reader, field: usize) -> Vec<u32> {
    let all = special_forms(reader, field).into_iter();
    all.filter(|(_, form)| *form == IN_COLUMN).map(|(ord, _)| ord).collect()
}

/// Some filters, and which rows satisfy each.
fn filters(rng: &mut Rng) -> Vec<(Filter, Holds)> {
    let (kind, other) = (rng.below(9) as u64, rng.below(9) as u64);
    let shade = rng.below(190) as i64 - 20;
    let (low, high) = (1961 + rng.below(50) as i64, 1980 + rng.below(41) as i64);
    let limit = rng.below(100_003) as u64;
    let years = move |row: &Row| (low..=high).contains(&row.2);
    let (cheap, dear) = (rng.below(3_000) as i64 - 1_000, rng.below(3_000) as i64);
    let some = [cheap, cheap + 1, dear, dear + 7, 2_999];
    let prices = move |row: &Row| price(row).is_some_and(|price| (cheap..=dear).contains(&price));
    let mut filters: Vec<(Filter, Holds)> = vec![
        (eq("kind", kind), Box::new(move |row| row.0 == kind)),
        (eq("kind", RARE), Box::new(move |row| row.0 == RARE)),
        (
            is_in("kind", [kind, other, RARE]),
            Box::new(move |row| [kind, other, RARE].contains(&row.0)),
        ),
        (not(eq("shade", shade)), Box::new(move |row| row.1 != Some(shade))),
        (not(exists("shade")), Box::new(move |row| row.1.is_none())),
        (between("year", low, high), Box::new(years)),
        (and([eq("kind", kind), between("year", low, high)]), {
            Box::new(move |row| row.0 == kind && years(row))
        }),
        (and([not(eq("kind", kind)), not(between("year", low, high))]), {
            Box::new(move |row| row.0 != kind && !years(row))
        }),
        (and([gte("shade", shade), is_in("kind", [kind, RUN]), lt("number", limit)]), {
            Box::new(move |row| {
                row.1.is_some_and(|own| own >= shade)
                    && [kind, RUN].contains(&row.0)
                    && row.3 < limit
            })
        }),
        (or([eq("kind", other), gte("year", high), and([eq("shade", shade), lt("year", low)])]), {
            Box::new(move |row| {
                row.0 == other || row.2 >= high || row.1 == Some(shade) && row.2 < low
            })
        }),
        (and([lt("number", limit), eq("kind", kind), not(eq("shade", shade))]), {
            Box::new(move |row| row.3 < limit && row.0 == kind && row.1 != Some(shade))
        }),
    ];
    let scanned: [(Filter, Holds); 8] = [
        (eq("price", cheap), Box::new(move |row| price(row) == Some(cheap))),
        (between("price", cheap, dear), Box::new(prices)),
        (not(between("price", cheap, dear)), Box::new(move |row| !prices(row))),
        (is_in("price", some), {
            Box::new(move |row| price(row).is_some_and(|price| some.contains(&price)))
        }),
        (and([not(is_in("price", some)), gte("half", 900u64)]), {
            Box::new(move |row| !price(row).is_some_and(|p| some.contains(&p)) && half(row) >= 900)
        }),
        (and([eq("kind", kind), between("price", cheap, dear), lt("half", dear as u64)]), {
            Box::new(move |row| row.0 == kind && prices(row) && half(row) < dear as u64)
        }),
        (or([between("price", cheap, dear), lt("half", 20u64), eq("year", high)]), {
            Box::new(move |row| prices(row) || half(row) < 20 || row.2 == high)
        }),
        (not(exists("price")), Box::new(move |row| price(row).is_none())),
    ];
    filters.extend(scanned);
    filters
}

/// Values and their counts: most frequent first, ties by value.
fn ranked(values: impl Iterator<Item = Value>) -> Vec<(Value, u64)> {
    let mut counts: Vec<(Value, u64)> = Vec::new();
    for value in values {
        match counts.iter_mut().find(|(known, _)| *known == value) {
            Some((_, count)) => *count += 1,
            None => counts.push((value, 1)),
        }
    }
    let number = |value: &Value| match value {
        Value::I64(number) => *number,
        Value::U64(number) => *number as i64,
        other => panic!("{other:?}"),
    };
    counts.sort_by_key(|(value, count)| (std::cmp::Reverse(*count), number(value)));
    counts
}

fn check_queries(rng: &mut Rng, rows: &[Row], reader: &Reader, at: &str) {
    for (filter, holds) in filters(rng) {
        let at = format!("{at}: {filter}");
        let expected: Vec<usize> = (0..rows.len()).filter(|&i| holds(&rows[i])).collect();
        assert_eq!(reader.count(&filter).unwrap(), expected.len() as u64, "{at}");
        let page = |query: Query| -> Vec<usize> {
            let hits = reader.search(&query.limit(30)).unwrap().hits;
            hits.iter().map(|hit| hit.doc as usize).collect()
        };
        let query = Query::new(filter.clone());
        assert!(page(query.clone()).iter().eq(expected.iter().take(30)), "{at}");
        let mut ordered = expected.clone();
        ordered.sort_by_key(|&i| rows[i].2);
        assert!(
            page(query.clone().order_by(asc("year"))).iter().eq(ordered.iter().take(30)),
            "{at}"
        );
        // Documents without a shade come last in both directions.
        ordered.clone_from(&expected);
        ordered.sort_by_key(|&i| (rows[i].1.is_none(), std::cmp::Reverse(rows[i].1), rows[i].3));
        let by_shade = query.order_by(desc("shade")).order_by(asc("number"));
        assert!(page(by_shade).iter().eq(ordered.iter().take(30)), "{at}");
        // Pages beyond the keys at both ends, which have lists, and a count of all matches.
        ordered.clone_from(&expected);
        ordered.sort_by_key(|&i| (price(&rows[i]).is_none(), price(&rows[i])));
        let by_price = Query::new(filter.clone()).order_by(asc("price"));
        assert!(page(by_price.clone()).iter().eq(ordered.iter().take(30)), "{at}");
        let skip = rng.below(1_000) as u64;
        let rest = ordered.iter().skip(skip as usize).take(30);
        let found = reader.search(&by_price.skip(skip).limit(30).with_count()).unwrap();
        assert!(found.hits.iter().map(|hit| hit.doc as usize).eq(rest.copied()), "{at}, {skip}");
        assert_eq!(found.count, Some(expected.len() as u64), "{at}");
        ordered.sort_by_key(|&i| (price(&rows[i]).is_none(), std::cmp::Reverse(price(&rows[i]))));
        let by_price = Query::new(filter.clone()).order_by(desc("price"));
        assert!(page(by_price).iter().eq(ordered.iter().take(30)), "{at}");
        let facet = |field: &str| Facet { field: field.into(), top: 400, disjunctive: false };
        let fields = [facet("kind"), facet("shade"), facet("half")];
        let counts = reader.facets(&filter, &fields).unwrap();
        let kinds = expected.iter().map(|&i| Value::from(rows[i].0));
        assert_eq!(counts[0].values, ranked(kinds), "{at}");
        let shades = expected.iter().filter_map(|&i| rows[i].1);
        let missing = expected.len() - shades.clone().count();
        assert_eq!(counts[1].values, ranked(shades.map(Value::from)), "{at}");
        assert_eq!(counts[1].missing, missing as u64, "{at}");
        let halves = ranked(expected.iter().map(|&i| Value::from(half(&rows[i]))));
        assert!(counts[2].values.iter().eq(halves.iter().take(400)), "{at}");
        let by = GroupBy { fields: vec!["shade".into()], aggregates: vec!["year".into()] };
        let groups = reader.group_by(&filter, &by).unwrap();
        assert_eq!(groups.iter().map(|group| group.count).sum::<u64>(), expected.len() as u64);
    }
}

#[test]
fn every_query_matches_a_scan_of_the_rows() {
    println!("seed {SEED:#x}");
    let mut rng = Rng(SEED);
    let rows = rows(&mut rng, DOCUMENTS);
    let reader = reader(&bytes(builder(&rows))).unwrap();
    reader.verify().unwrap();
    assert_eq!(
        scanned(&reader, 0),
        [0, 1, 2, 3, 4, 5, 6],
        "the rare kind and the run have other forms"
    );
    assert!(scanned(&reader, 1).len() > 20 && scanned(&reader, 2).len() > 40);
    assert_eq!(scanned(&reader, 3), [0; 0]);
    let metas = [4, 5].map(|field| *reader.set.partitions[0].meta(field));
    assert_eq!(
        metas[1].scanned,
        (0, metas[1].distinct),
        "a field that is not sortable has no lists at the ends"
    );
    let (first, end) = metas[0].scanned;
    assert!(first > 50 && end < metas[0].distinct - 50, "{first} to {end} are scanned");
    with_each_plan(|at| (0..20).for_each(|_| check_queries(&mut rng, &rows, &reader, at)));
}

/// The first keys of an order may have no match. Each batch of keys takes a pass over the column.
#[test]
fn an_ordered_search_takes_few_passes() {
    let mut rng = Rng(SEED + 3);
    let count = 220_000;
    // Only the last 50 of 200 years have documents of kind 3.
    let row = |i: usize| {
        let year = i as i64 * 200 / count as i64;
        (if year >= 150 { 3 } else { rng.below(3) as u64 }, None, year, i as u64)
    };
    let rows: Vec<Row> = (0..count).map(row).collect();
    let mut mixed = rows.clone();
    (1..count).rev().for_each(|i| mixed.swap(i, rng.below(i + 1)));
    let reader = reader(&bytes(builder(&mixed))).unwrap();
    assert_eq!(scanned(&reader, 2).len(), 200);
    let query = Query::new(eq("kind", 3u64)).order_by(asc("year")).limit(10);
    with_each_version(|version| {
        let years: Vec<i64> = {
            let hits = reader.search(&query).unwrap().hits;
            hits.iter().map(|hit| mixed[hit.doc as usize].2).collect()
        };
        assert_eq!(years, [150; 10], "{version}");
        let (touched, pass) = (reader.explain(&query).unwrap().bytes_touched, count as u64 / 8);
        assert!(touched < 60 * pass, "{version}: {touched} bytes");
    });
}

#[test]
fn the_cost_of_postings_depends_on_their_form() {
    let mut rng = Rng(SEED + 4);
    let reader = reader(&bytes(builder(&rows(&mut rng, DOCUMENTS)))).unwrap();
    let postings = reader.set.partitions[0].postings(0).unwrap();
    assert_eq!(postings.work(0, 7), (0, 0), "in the column");
    assert_eq!(postings.work(RARE as u32, RARE as u32 + 1).1, 0, "a list");
    assert_eq!(postings.work(RUN as u32, RUN as u32 + 1), (1, 800 / 64), "a run of 800 documents");
}

/// A pass over the column of `half` costs more than checking the documents of a rare kind, though
/// these are more than the scan would find.
#[test]
fn a_list_leads_though_a_scan_would_find_fewer_documents() {
    let mut rng = Rng(SEED + 5);
    let rows = rows(&mut rng, 150_000);
    let reader = reader(&bytes(builder(&rows))).unwrap();
    let with = |half: u64| rows.iter().filter(move |row| self::half(row) == half);
    let rare = rows.iter().filter(|row| row.0 == RARE).count();
    let half = (0..2_001).find(|&half| {
        let count = with(half).count();
        count > 0 && count < rare && with(half).any(|row| row.0 == RARE)
    });
    let half = half.unwrap();
    let expected = with(half).filter(|row| row.0 == RARE).count();
    with_each_version(|version| {
        let query = Query::new(and([eq("half", half), eq("kind", RARE)])).limit(1_000);
        assert_eq!(reader.search(&query).unwrap().hits.len(), expected, "{version}");
        let explained = reader.explain(&query).unwrap();
        assert_eq!(explained.docs_touched, rare as u64, "{version}: only those of the kind");
    });
}

/// Partitions may declare a field as scanned or not.
#[test]
fn scanned_and_other_fields_can_be_queried_and_merged_together() {
    let store = store();
    let part = |scanned: bool, from: i64| {
        let price = Field::new("price", Type::I64, Roles::FULL);
        let price = if scanned { price.scanned() } else { price };
        let mut builder = PartitionBuilder::new(Schema::new([price]).unwrap());
        for n in from..from + 5_000 {
            builder.add(&Document::new().set("price", n * 7_919 % 6_007)).unwrap();
        }
        builder
    };
    let mut change = store.collection.change().unwrap();
    change.put("a", part(false, 0)).unwrap();
    change.put("b", part(true, 5_000)).unwrap();
    let reader = change.commit().unwrap();
    assert!(reader.schema().fields()[0].scanned);
    let filter = between("price", 100i64, 500i64);
    let count = reader.count(&filter).unwrap();
    assert_eq!(
        count,
        (0..10_000).filter(|n| (100..=500).contains(&(n * 7_919 % 6_007))).count() as u64
    );
    let mut change = store.collection.change().unwrap();
    change.merge(&["a", "b"], "a").unwrap();
    let merged = change.commit().unwrap();
    assert_eq!((merged.partitions().len(), merged.count(&filter).unwrap()), (1, count));
    assert!(merged.set.partitions[0].meta(0).is_scanned());
    merged.verify().unwrap();
}

#[test]
fn a_merged_partition_equals_one_built_at_once() {
    let mut rng = Rng(SEED + 1);
    // The first partition is too small to be scanned.
    let parts = [rows(&mut rng, 700), rows(&mut rng, 6_000), rows(&mut rng, 5_000)];
    let store = store();
    let [reader, merged] = merge_all(&store, parts.each_ref().map(|rows| builder(rows)));
    assert!(scanned(&reader, 0).is_empty());
    let whole = bytes(builder(&parts.concat()));
    let file = store.disk.map(merged.set.partitions[0].file.path()).unwrap();
    assert!(file.to_vec() == whole, "bytes of a merge");
    check_queries(&mut rng, &parts.concat(), &merged, "merged");
}

#[test]
fn a_damaged_byte_gives_an_error_or_correct_answers() {
    let mut rng = Rng(SEED + 2);
    let rows = rows(&mut rng, 330);
    FORCED.set(Forced { forms: true, ..Forced::default() });
    let whole = bytes(builder(&rows));
    FORCED.set(Forced { large: true, ..Forced::default() });
    let right = reader(&whole).unwrap();
    assert!(!scanned(&right, 0).is_empty());
    let meta = right.set.partitions[0].meta(4);
    assert!(0 < meta.scanned.0 && meta.scanned.1 < meta.distinct, "lists at both ends");
    let queries = filters(&mut rng);
    let page = |reader: &Reader, order: OrderBy| {
        let query = Query::new(lt("number", 90_000u64)).order_by(order).limit(10);
        let first = reader.search(&query)?.hits;
        let after =
            reader.page_token(&query, *first.last().unwrap_or(&Hit { partition: 0, doc: 0 }))?;
        let far = query.clone().skip(250);
        Ok::<_, crate::Error>([
            first,
            reader.search(&query.after(after))?.hits,
            reader.search(&far)?.hits,
        ])
    };
    // Counts first, then pages in both directions.
    let query = |reader: &Reader, number: usize| {
        Ok(match queries.get(number) {
            Some((filter, _)) => (reader.count(filter)?, Vec::new()),
            None => (0, vec![page(reader, asc("price"))?, page(reader, desc("price"))?]),
        })
    };
    damage_every_byte(&whole, reader, queries.len() + 1, query);
    FORCED.set(Forced::default());
}
