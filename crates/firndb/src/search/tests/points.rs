//! Points of two fields: every kind of query of a window gives the answers of a scan over the rows,
//! and damage is reported.

use super::verify::{Template, open};
use super::{merge_all, store};
use crate::disk::{Disk, DiskRef, SimDisk};
use crate::search::format::{Ordered, part, section};
use crate::search::model::query::{and, asc, between, eq, exists, gte, is_in, lt, not, or};
use crate::search::testing::Rng;
use crate::search::{
    Document, Facet, Field, Filter, GroupBy, Number, PartitionBuilder, Query, Reader, Roles,
    Schema, Type, Value,
};
use crate::{ErrorKind, Result};
use std::path::Path;

const SEED: u64 = 0x9015_EED5;
/// A rare kind.
const RARE: u64 = 77;

/// Whether a row satisfies a filter.
type Holds = Box<dyn Fn(&Row) -> bool>;

/// Two coordinates, of which the second may be missing, and a kind.
type Row = (i64, Option<i64>, u64);

/// A schema with additional roles of `lat`. `lon` is stored.
fn schema(lat: Roles) -> Schema {
    let fields = [
        Field::new("kind", Type::U64, Roles::FULL),
        Field::new("lat", Type::I64, Roles::FILTERABLE.with(lat)),
        Field::new("lon", Type::I64, Roles::FILTERABLE.with(Roles::STORED)).nullable(),
    ];
    Schema::new(fields).unwrap().point("lat", "lon").unwrap()
}

/// Rows around three places, and some at random coordinates.
fn rows(rng: &mut Rng, count: usize) -> Vec<Row> {
    let row = |rng: &mut Rng| {
        let kind = if rng.below(500) == 0 { RARE } else { rng.below(9) as u64 };
        let (a, b) = *rng.pick(&[(100, 900), (500, 500), (520, 510)]);
        let mut near = |v: i64| v + rng.below(60) as i64 - 30;
        let (lat, lon) = (near(a), near(b));
        match rng.below(20) {
            0 => (rng.below(1000) as i64, None, kind),
            1 => (rng.below(1000) as i64, Some(rng.below(1000) as i64), kind),
            _ => (lat, Some(lon), kind),
        }
    };
    (0..count).map(|_| row(rng)).collect()
}

fn builder(rows: &[Row]) -> PartitionBuilder {
    builder_of(schema(Roles::default()), rows)
}

fn builder_of(schema: Schema, rows: &[Row]) -> PartitionBuilder {
    let mut builder = PartitionBuilder::new(schema);
    for (lat, lon, kind) in rows {
        let document = Document::new().set("lat", *lat).set("kind", *kind);
        builder.add(&lon.iter().fold(document, |document, lon| document.set("lon", *lon))).unwrap();
    }
    builder
}

fn bytes(builder: PartitionBuilder) -> Vec<u8> {
    let (disk, path) = (SimDisk::new(), Path::new("/points"));
    builder.write_on(&(disk.clone() as DiskRef), path).unwrap();
    disk.map(path).unwrap().to_vec()
}

fn reader(bytes: &[u8]) -> Result<Reader> {
    let (disk, path) = (SimDisk::new(), Path::new("/points"));
    disk.write_raw(path, bytes);
    Reader::open_files_on(&*disk, &[path])
}

/// Some windows, alone and with other conditions, and which rows satisfy each.
fn filters(rng: &mut Rng) -> Vec<(Filter, Holds)> {
    let range = |rng: &mut Rng| {
        let (middle, half) = (rng.below(1000) as i64, *rng.pick(&[0, 5, 40, 300, 2000]));
        (middle - half, middle + half)
    };
    let (a, b) = (range(rng), range(rng));
    let window = || and([between("lat", a.0, a.1), between("lon", b.0, b.1)]);
    let in_lat = move |row: &Row| (a.0..=a.1).contains(&row.0);
    let in_lon = move |row: &Row| row.1.is_some_and(|lon| (b.0..=b.1).contains(&lon));
    let inside = move |row: &Row| in_lat(row) && in_lon(row);
    vec![
        (window(), Box::new(inside)),
        (between("lat", a.0, a.1), Box::new(in_lat)),
        (not(between("lon", b.0, b.1)), Box::new(move |row| !in_lon(row))),
        (not(window()), Box::new(move |row| !inside(row))),
        (and([window(), eq("kind", 3u64)]), Box::new(move |row| inside(row) && row.2 == 3)),
        (and([eq("kind", RARE), window()]), Box::new(move |row| inside(row) && row.2 == RARE)),
        (
            and([gte("lat", a.0), lt("kind", 5u64), exists("lon"), lt("lat", a.1)]),
            Box::new(move |row| (a.0..a.1).contains(&row.0) && row.2 < 5 && row.1.is_some()),
        ),
        (
            or([window(), is_in("lat", [a.0, a.1, 500])]),
            Box::new(move |row| inside(row) || [a.0, a.1, 500].contains(&row.0)),
        ),
        (and([window(), not(eq("lon", 500))]), {
            Box::new(move |row| inside(row) && row.1 != Some(500))
        }),
        (eq("lon", b.0), Box::new(move |row| row.1 == Some(b.0))),
    ]
}

#[test]
fn every_query_of_a_window_matches_a_scan_of_the_rows() {
    println!("seed {SEED:#x}");
    let mut rng = Rng(SEED);
    let rows = rows(&mut rng, 30_000);
    for lat in [Roles::default(), Roles::STORED] {
        let reader = reader(&bytes(builder_of(schema(lat), &rows))).unwrap();
        check_queries(&mut rng, &rows, &reader);
    }
}

fn check_queries(rng: &mut Rng, rows: &[Row], reader: &Reader) {
    let metas = [0, 1, 2].map(|field| *reader.set.partitions[0].meta(field));
    assert_eq!(metas.map(|meta| meta.in_points), [false, true, true]);
    assert!(metas.iter().all(|meta| meta.ordered == Ordered::No));
    reader.verify().unwrap();
    let mut windows = 0;
    for _ in 0..40 {
        for (filter, holds) in filters(rng) {
            let expected: Vec<usize> = (0..rows.len()).filter(|&i| holds(&rows[i])).collect();
            assert_eq!(reader.count(&filter).unwrap(), expected.len() as u64, "{filter}");
            let query = Query::new(filter.clone()).limit(40);
            let hits = reader.search(&query).unwrap().hits;
            let docs = hits.iter().map(|hit| hit.doc as usize);
            assert!(docs.eq(expected.iter().take(40).copied()), "{filter}");
            let mut by_kind = expected.clone();
            by_kind.sort_by_key(|&i| rows[i].2);
            let hits = reader.search(&query.order_by(asc("kind"))).unwrap().hits;
            let docs = hits.iter().map(|hit| hit.doc as usize);
            assert!(docs.eq(by_kind.into_iter().take(40)), "{filter}");
            let explained = reader.explain(&Query::new(filter)).unwrap().to_string();
            windows += u32::from(explained.contains("both ranges of a point"));
        }
    }
    assert!(windows > 100, "{windows}");
}

#[test]
fn facets_and_groups_of_points_match_a_scan_of_the_rows() {
    let mut rng = Rng(SEED + 1);
    let rows = rows(&mut rng, 12_000);
    let reader = reader(&bytes(builder(&rows))).unwrap();
    let filter = and([between("lat", 480, 540), between("lon", 490, 530)]);
    let inside = || {
        let holds = |row: &&Row| {
            (480..=540).contains(&row.0) && row.1.is_some_and(|lon| (490..=530).contains(&lon))
        };
        rows.iter().filter(holds)
    };
    let facet = Facet { field: "lat".into(), top: 1000, disjunctive: false };
    let counts = reader.facets(&filter, &[facet]).unwrap().remove(0);
    for lat in 480..=540i64 {
        let found = counts.values.iter().find(|(value, _)| *value == lat.into());
        let expected = inside().filter(|row| row.0 == lat).count() as u64;
        assert_eq!(found.map_or(0, |(_, count)| *count), expected, "{lat}");
    }
    let by = GroupBy { fields: vec!["kind".into()], aggregates: vec!["lat".into()] };
    let groups = reader.group_by(&filter, &by).unwrap();
    assert!(groups.len() >= 9);
    for group in groups {
        let of = || inside().filter(|row| group.key[0] == Some(row.2.into())).map(|row| row.0);
        let expected = of().count() as u64;
        assert_eq!((group.count, group.aggregates[0].count), (expected, expected));
        assert_eq!(group.aggregates[0].min, of().min().map(Value::from));
        let total: i64 = of().sum();
        assert_eq!(group.aggregates[0].sum, Some(Number::Int(total.into())));
    }
}

#[test]
fn a_merged_partition_with_points_equals_one_built_at_once() {
    let mut rng = Rng(SEED + 2);
    // Two partitions are too small for points, the merged one has them.
    let parts = [rows(&mut rng, 900), rows(&mut rng, 5_000), rows(&mut rng, 4_000)];
    let store = store();
    let [reader, merged] = merge_all(&store, parts.each_ref().map(|rows| builder(rows)));
    let points = |reader: &Reader| -> Vec<bool> {
        reader.set.partitions.iter().map(|part| part.meta(1).in_points).collect()
    };
    assert_eq!(points(&reader), [false, true, false]);
    let queries = filters(&mut rng);
    let counts = |reader: &Reader| -> Vec<u64> {
        queries.iter().map(|(filter, _)| reader.count(filter).unwrap()).collect()
    };
    let before = counts(&reader);
    assert_eq!((points(&merged), counts(&merged)), (vec![true], before));
    let whole = bytes(builder(&parts.concat()));
    let file = store.disk.map(merged.set.partitions[0].file.path()).unwrap();
    assert!(file.to_vec() == whole, "bytes of a merge");
}

#[test]
fn a_merged_partition_has_the_points_of_all_schemas() {
    let mut rng = Rng(SEED + 4);
    let parts = [rows(&mut rng, 5_000), rows(&mut rng, 5_000)];
    let without = Schema { points: Vec::new(), ..schema(Roles::default()) };
    for names in [["a", "b"], ["b", "a"]] {
        let store = store();
        let mut change = store.collection.change().unwrap();
        change.put(names[0], builder(&parts[0])).unwrap();
        change.put(names[1], builder_of(without.clone(), &parts[1])).unwrap();
        let reader = change.commit().unwrap();
        assert_eq!(reader.schema().points().collect::<Vec<_>>(), [["lat", "lon"]]);
        let queries = filters(&mut rng);
        let mut change = store.collection.change().unwrap();
        change.merge(&["a", "b"], "a").unwrap();
        let merged = change.commit().unwrap();
        assert!(merged.set.partitions[0].meta(1).in_points, "{names:?}");
        for (filter, holds) in queries {
            let expected = parts.iter().flatten().filter(|row| holds(row)).count() as u64;
            assert_eq!(reader.count(&filter).unwrap(), expected, "{filter}");
            assert_eq!(merged.count(&filter).unwrap(), expected, "{filter}");
        }
    }
}

#[test]
fn inconsistent_points_are_caught() {
    let rows = rows(&mut Rng(SEED + 3), 5_000);
    let template = Template(bytes(builder(&rows)));
    open(&template.0).unwrap().verify().unwrap();
    let points = section(1, part::POINTS);
    let heads = 8 + 24 * 2;
    let end = heads + 8 * 79;
    let caught = |forged: Vec<u8>, word: &str| {
        let error = open(&forged).and_then(|part| part.verify()).expect_err(word);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.message().contains(word), "no `{word}` in: {error}");
    };
    caught(template.section(points, |b| b[8] ^= 1), "its group has other bounds");
    caught(template.section(points, |b| b[8 + 24 + 16] ^= 1), "its group has other bounds");
    caught(template.section(points, |b| b[heads] ^= 1), "documents, its offsets say");
    caught(template.section(points, |b| b.truncate(b.len() - 8)), "do not end");
    caught(template.section(points, |b| b.truncate(90)), "points say 5000 documents");
    caught(template.section(points, |b| b[0] ^= 1), "");
    caught(template.section(points, |b| b[end] ^= 1), "");
    // Both fields must be marked as parts of the point.
    caught(template.meta(|_, metas| metas[1].in_points = false), "field `lon` is part of no point");
    caught(template.meta(|_, metas| metas[2].in_points = false), "field `lat` is part of no point");
    caught(template.meta(|schema, _| schema.points.clear()), "part of no point");
    // Every byte of the heads, and some of the leaves. Documents that are swapped within a leaf
    // pass, because `lat` has no column to compare with.
    let (mut found, mut passed, size) = (0, 0, std::cell::Cell::new(0));
    template.section(points, |bytes| size.set(bytes.len()));
    for at in (0..end + 700).chain((end..size.get()).step_by(61)) {
        for flip in [1, 0x80, 0xFF] {
            let forged = template.section(points, |bytes| bytes[at] ^= flip);
            match open(&forged).and_then(|part| part.verify()) {
                Ok(()) => passed += 1,
                Err(error) => found += u32::from(error.kind() == ErrorKind::Corrupt),
            }
            // The answer is unspecified but possible.
            if let Ok(reader) = reader(&forged) {
                for (filter, _) in filters(&mut Rng(SEED)) {
                    assert!(reader.count(&filter).unwrap_or(0) <= 5000, "byte {at}");
                }
            }
        }
    }
    assert!(found > 4000 && passed < 20, "{found} found, {passed} passed");
}

#[test]
fn a_point_of_unsuitable_fields_is_refused() {
    let field = |name, ty, roles| Field::new(name, ty, roles);
    let fields = [
        field("a", Type::F64, Roles::FILTERABLE),
        field("b", Type::Timestamp, Roles::FILTERABLE),
        field("word", Type::String, Roles::FILTERABLE),
        field("many", Type::I64, Roles::FILTERABLE).multi(),
        field("kept", Type::I64, Roles::STORED),
        field("order", Type::I64, Roles::FULL),
    ];
    let schema = || Schema::new(fields.clone()).unwrap();
    for (first, second, word) in [
        ("a", "a", "both parts"),
        ("a", "word", "no number"),
        ("many", "a", "several values"),
        ("a", "kept", "not filterable"),
        ("order", "a", "sortable"),
        ("a", "c", "there is no field `c`"),
    ] {
        let error = schema().point(first, second).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains(word), "no `{word}` in: {error}");
    }
    let again = schema().point("b", "a").unwrap().point("a", "b").unwrap_err();
    assert!(again.message().contains("another point"), "{again}");
}
