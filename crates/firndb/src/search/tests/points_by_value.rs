//! Points that hold values: queries give the answers of a scan over the rows, most of them without
//! deriving keys; the writer chooses this form where it is smaller; damage and inconsistencies are
//! reported.

use super::verify::{Template, open};
use super::{merge_all, store, with_each_plan};
use crate::bytes::int::Encoder;
use crate::disk::{Disk, DiskRef, SimDisk};
use crate::search::format::{FieldMeta, global, part, section};
use crate::search::model::query::{
    and, asc, between, eq, exists, gt, gte, is_in, lt, lte, not, or,
};
use crate::search::model::value::{Key, key_to_i64};
use crate::search::partition::Partition;
use crate::search::testing::{FORCED, Forced, Rng};
use crate::search::{
    Document, Facet, Field, Filter, GroupBy, PartitionBuilder, Query, Reader, Roles, Schema, Type,
    Value,
};
use crate::{ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SEED: u64 = 0x91AC_E500;
/// Numbers of the fields in the schema.
const LAT: usize = 1;
const LON: usize = 2;

/// Two coordinates, both of which may be missing, and a kind.
type Row = (Option<i64>, Option<i64>, u64);
type Holds = Box<dyn Fn(&Row) -> bool>;

fn schema() -> Schema {
    schema_of(Type::I64, Roles::default())
}

/// A schema with this type of both coordinates, and additional roles of `lat`.
fn schema_of(ty: Type, lat: Roles) -> Schema {
    let fields = [
        Field::new("kind", Type::U64, Roles::FULL),
        Field::new("lat", ty, Roles::FILTERABLE.with(lat)).nullable(),
        Field::new("lon", ty, Roles::FILTERABLE).nullable(),
    ];
    Schema::new(fields).unwrap().point("lat", "lon").unwrap()
}

/// Rows around three places, some without a coordinate, and two with the bounds of both fields.
fn rows(rng: &mut Rng, count: usize) -> Vec<Row> {
    let row = |i: usize, rng: &mut Rng| {
        let (a, b) = *rng.pick(&[(-4_000, 9_000), (0, 0), (300, -200)]);
        let mut near = |v: i64| v + rng.below(3_000) as i64 - 1_500;
        let (lat, lon) = (near(a), near(b));
        let kind = rng.below(9) as u64;
        match (i, rng.below(20)) {
            (0, _) => (Some(-9_000), Some(20_000), kind),
            (1, _) => (Some(15_000), Some(-10_000), kind),
            (_, 0) => (Some(lat), None, kind),
            (_, 1) => (None, Some(lon), kind),
            (_, 2) => (None, None, kind),
            _ => (Some(lat), Some(lon), kind),
        }
    };
    (0..count).map(|i| row(i, rng)).collect()
}

fn builder(schema: Schema, rows: &[Row]) -> PartitionBuilder {
    let mut builder = PartitionBuilder::new(schema);
    for (lat, lon, kind) in rows {
        let mut document = Document::new().set("kind", *kind);
        for (name, value) in [("lat", lat), ("lon", lon)] {
            document = value.iter().fold(document, |document, value| document.set(name, *value));
        }
        builder.add(&document).unwrap();
    }
    builder
}

fn bytes(builder: PartitionBuilder) -> Vec<u8> {
    let (disk, path) = (SimDisk::new(), Path::new("/places"));
    builder.write_on(&(disk.clone() as DiskRef), path).unwrap();
    disk.map(path).unwrap().to_vec()
}

fn reader(files: &[&[u8]]) -> Result<Reader> {
    let disk = SimDisk::new();
    let paths: Vec<PathBuf> = (0..files.len()).map(|i| PathBuf::from(format!("/{i}"))).collect();
    paths.iter().zip(files).for_each(|(path, file)| disk.write_raw(path, file));
    Reader::open_files_on(&*disk, &paths.iter().map(PathBuf::as_path).collect::<Vec<_>>())
}

/// Whether the points of the first partition hold values.
fn by_value(reader: &Reader) -> bool {
    let metas = [LAT, LON].map(|field| *reader.set.partitions[0].meta(field));
    assert_eq!(metas[0].values().is_some(), metas[1].values().is_some());
    metas[0].values().is_some()
}

/// Whether the keys of a coordinate were derived in some partition.
fn has_derived_keys(reader: &Reader) -> bool {
    reader.set.partitions.iter().any(|part| part.is_derived(LAT) || part.is_derived(LON))
}

/// Conditions that need no derived keys, and which rows satisfy each.
fn filters(rng: &mut Rng, rows: &[Row]) -> Vec<(Filter, Holds)> {
    let edges = [-10_000i64, -9_001, -9_000, -8_999, 0, 14_999, 15_000, 20_000, 20_001, i64::MAX];
    let mut range = || {
        let half = *rng.pick(&[0, 5, 400, 3_000, 40_000]);
        let middle = rng.below(16_000) as i64 - 6_000;
        let (low, high) = (*rng.pick(&edges), *rng.pick(&edges));
        *rng.pick(&[(middle - half, middle + half), (low.min(high), low.max(high))])
    };
    let (a, b) = (range(), range());
    let one = *rng.pick(rows);
    let window = || and([between("lat", a.0, a.1), between("lon", b.0, b.1)]);
    let within = |v: Option<i64>, r: (i64, i64)| v.is_some_and(|v| (r.0..=r.1).contains(&v));
    let inside = move |row: &Row| within(row.0, a) && within(row.1, b);
    let (lat, lon) = (one.0.unwrap_or(-77), one.1.unwrap_or(4_444));
    vec![
        (window(), Box::new(inside)),
        (between("lat", a.0, a.1), Box::new(move |row| within(row.0, a))),
        (not(between("lon", b.0, b.1)), Box::new(move |row| !within(row.1, b))),
        (not(window()), Box::new(move |row| !inside(row))),
        (eq("lat", lat), Box::new(move |row| row.0 == Some(lat))),
        (not(eq("lon", lon)), Box::new(move |row| row.1 != Some(lon))),
        (exists("lat"), Box::new(|row| row.0.is_some())),
        (not(exists("lon")), Box::new(|row| row.1.is_none())),
        (and([exists("lat"), exists("lon")]), Box::new(|row| row.0.is_some() && row.1.is_some())),
        (and([window(), eq("kind", 3u64)]), Box::new(move |row| inside(row) && row.2 == 3)),
        (
            and([eq("lat", lat), not(eq("lon", lon)), lt("kind", 6u64)]),
            Box::new(move |row| row.0 == Some(lat) && row.1 != Some(lon) && row.2 < 6),
        ),
        (
            and([gt("lat", a.0), lt("lat", a.1), not(gte("lon", b.0)), not(eq("lat", lat))]),
            Box::new(move |row| {
                let lat_fits = row.0.is_some_and(|v| a.0 < v && v < a.1 && v != lat);
                lat_fits && row.1.is_none_or(|v| v < b.0)
            }),
        ),
        (
            or([window(), and([lte("lat", a.0), eq("kind", 1u64)]), eq("lon", lon)]),
            Box::new(move |row| {
                let below = row.0.is_some_and(|v| v <= a.0) && row.2 == 1;
                inside(row) || below || row.1 == Some(lon)
            }),
        ),
    ]
}

/// Conditions on several values, which need derived keys.
fn filters_by_keys(rng: &mut Rng, rows: &[Row]) -> Vec<(Filter, Holds)> {
    let few: Vec<i64> = (0..4).filter_map(|_| rng.pick(rows).0).chain([-77, 15_000]).collect();
    let [a, b, c] = [few.clone(), few.clone(), few.clone()];
    let has = |few: &[i64], row: &Row| row.0.is_some_and(|v| few.contains(&v));
    vec![
        (is_in("lat", few.clone()), Box::new(move |row| has(&a, row))),
        (not(is_in("lat", few.clone())), Box::new(move |row| !has(&b, row))),
        (
            and([is_in("lat", few), between("lon", -900, 9_900), gt("lat", -8_000)]),
            Box::new(move |row| {
                let lon = row.1.is_some_and(|v| (-900..=9_900).contains(&v));
                has(&c, row) && lon && row.0 > Some(-8_000)
            }),
        ),
    ]
}

fn check_queries(reader: &Reader, rows: &[Row], queries: Vec<(Filter, Holds)>) {
    for (filter, holds) in queries {
        let expected: Vec<usize> = (0..rows.len()).filter(|&i| holds(&rows[i])).collect();
        let mut by_kind = expected.clone();
        by_kind.sort_by_key(|&i| rows[i].2);
        with_each_plan(|plan| {
            assert_eq!(reader.count(&filter).unwrap(), expected.len() as u64, "{filter}, {plan}");
            let query = Query::new(filter.clone()).limit(40);
            let found = |query: &Query| {
                let hits = reader.search(query).unwrap().hits;
                hits.into_iter().map(|hit| hit.doc as usize).collect::<Vec<_>>()
            };
            assert_eq!(found(&query), expected[..expected.len().min(40)], "{filter}, {plan}");
            let (query, first) = (query.order_by(asc("kind")), by_kind.len().min(40));
            assert_eq!(found(&query), by_kind[..first], "{filter}, {plan}");
        });
        reader.explain(&Query::new(filter)).unwrap();
    }
}

#[test]
fn every_query_matches_a_scan_of_the_rows() {
    println!("seed {SEED:#x}");
    let mut rng = Rng(SEED);
    // The first partition is small: the form has to be forced.
    for count in [900, 12_000] {
        let rows = rows(&mut rng, count);
        FORCED.set(Forced { forms: true, ..Forced::default() });
        let reader = reader(&[&bytes(builder(schema(), &rows))]).unwrap();
        FORCED.set(Forced::default());
        assert!(by_value(&reader));
        for _ in 0..25 {
            check_queries(&reader, &rows, filters(&mut rng, &rows));
        }
        assert!(!has_derived_keys(&reader), "no condition on several values so far");
        for _ in 0..5 {
            check_queries(&reader, &rows, filters_by_keys(&mut rng, &rows));
            check_queries(&reader, &rows, filters(&mut rng, &rows));
        }
        assert!(has_derived_keys(&reader));
        reader.verify().unwrap();
    }
}

#[test]
fn facets_and_groups_match_a_scan_of_the_rows() {
    let mut rng = Rng(SEED + 1);
    let rows = rows(&mut rng, 9_000);
    let reader = reader(&[&bytes(builder(schema(), &rows))]).unwrap();
    let some = between("lat", -300, 700);
    let in_some = |row: &Row| row.0.is_some_and(|lat| (-300..=700).contains(&lat));
    for (filter, holds) in
        [(Filter::All, Box::new(|_: &Row| true) as Holds), (some, Box::new(in_some))]
    {
        let inside = || rows.iter().filter(|row| holds(row));
        for (field, of) in [("lat", (|row| row.0) as fn(&Row) -> Option<i64>), ("lon", |row| row.1)]
        {
            let facet = Facet { field: field.into(), top: usize::MAX, disjunctive: false };
            let counts = reader.facets(&filter, &[facet]).unwrap().remove(0);
            let mut expected = BTreeMap::<i64, u64>::new();
            inside().filter_map(of).for_each(|v| *expected.entry(v).or_default() += 1);
            assert_eq!(counts.distinct, expected.len() as u64);
            assert_eq!(counts.missing, inside().filter(|row| of(row).is_none()).count() as u64);
            for (value, count) in counts.values {
                let Value::I64(value) = value else { panic!("{value:?}") };
                assert_eq!(expected.remove(&value), Some(count), "{value}");
            }
            let all = reader.aggregate(&filter, field).unwrap();
            assert_eq!(all.min, inside().filter_map(of).min().map(Value::from));
            assert_eq!(all.max, inside().filter_map(of).max().map(Value::from));
            assert_eq!(all.count, inside().filter_map(of).count() as u64);
        }
        let by = GroupBy { fields: vec!["kind".into()], aggregates: vec!["lon".into()] };
        for group in reader.group_by(&filter, &by).unwrap() {
            let of = || inside().filter(|row| group.key[0] == Some(row.2.into()));
            assert_eq!(group.count, of().count() as u64);
            assert_eq!(
                group.aggregates[0].max,
                of().filter_map(|row| row.1).max().map(Value::from)
            );
        }
    }
}

#[test]
fn queries_of_several_partitions_derive_no_keys() {
    let mut rng = Rng(SEED + 2);
    let parts: Vec<Vec<Row>> = (0..5).map(|_| rows(&mut rng, 4_500)).collect();
    let files: Vec<Vec<u8>> = parts.iter().map(|rows| bytes(builder(schema(), rows))).collect();
    let files: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
    // Bundles would derive keys.
    let reader = reader(&files).unwrap().with_bundle_limit(0);
    assert!(by_value(&reader));
    reader.warm().unwrap();
    let everything = parts.concat();
    for (filter, holds) in filters(&mut rng, &everything) {
        let expected = everything.iter().filter(|row| holds(row)).count() as u64;
        assert_eq!(reader.count(&filter).unwrap(), expected, "{filter}");
        reader.search(&Query::new(filter).limit(10)).unwrap();
    }
    let zones = reader.set.statistics.zones(&reader.set, LAT).unwrap();
    for p in 0..5 {
        let Some((Key::Fixed(low), Key::Fixed(high))) = zones.bounds(p) else { panic!("{p}") };
        assert_eq!([low, high].map(|key| key_to_i64(*key)), [-9_000, 15_000]);
    }
    assert!(!has_derived_keys(&reader));
    let missing = everything.iter().filter(|row| row.0.is_none()).count() as u64;
    let facet = Facet { field: "lat".into(), top: 1, disjunctive: false };
    assert_eq!(reader.facets(&Filter::All, &[facet]).unwrap()[0].missing, missing);
    assert!(has_derived_keys(&reader));
}

/// Few keys with wide gaps, which take more bytes in every leaf than once in the dictionary.
fn far_apart(row: &Row) -> Row {
    let apart = |v: i64| v.rem_euclid(300) << 18;
    (row.0.map(apart), row.1.map(apart), row.2)
}

#[test]
fn points_hold_values_where_that_takes_fewer_bytes() {
    let mut rng = Rng(SEED + 3);
    let rows = rows(&mut rng, 5_000);
    let of = |schema: Schema, row: fn(&Row) -> Row| {
        let rows: Vec<Row> = rows.iter().map(row).collect();
        let file = bytes(builder(schema, &rows));
        let reader = reader(&[&file]).unwrap();
        reader.verify().unwrap();
        assert!(reader.set.partitions[0].meta(LAT).in_points);
        (by_value(&reader), file.len())
    };
    let (values, small) = of(schema(), |row| *row);
    assert!(values);
    let (stored, large) = of(schema_of(Type::I64, Roles::STORED), |row| *row);
    assert!(!stored && small < large);
    assert!(!of(schema_of(Type::F64, Roles::default()), |row| *row).0, "too far apart");
    assert!(!of(schema(), |row| (row.0.map(|v| v << 20), row.1, row.2)).0, "too far apart");
    assert!(!of(schema(), far_apart).0, "no gain");
    assert!(!of(schema(), |row| (row.0.map(|v| v % 100), row.1, row.2)).0, "few keys");
}

#[test]
fn a_merged_partition_equals_one_built_at_once() {
    let mut rng = Rng(SEED + 4);
    let parts = [rows(&mut rng, 900), rows(&mut rng, 5_000), rows(&mut rng, 4_400)];
    let store = store();
    let builders = parts.each_ref().map(|rows| builder(schema(), rows));
    let [reader, merged] = merge_all(&store, builders);
    let forms: Vec<_> = reader.set.partitions.iter().map(|part| part.meta(LAT).values()).collect();
    assert_eq!([0, 1, 2].map(|p| forms[p].is_some()), [false, true, true]);
    let whole = bytes(builder(schema(), &parts.concat()));
    let file = store.disk.map(merged.set.partitions[0].file.path()).unwrap();
    assert!(by_value(&merged) && file.to_vec() == whole);
}

/// Points of a bundle hold values even where those of a file would not. The bundle of the next set
/// is derived from it without keys.
#[test]
fn points_of_bundles_hold_values() {
    let mut rng = Rng(SEED + 6);
    for change_row in [(|row| *row) as fn(&Row) -> Row, far_apart] {
        let mut parts: Vec<Vec<Row>> = (0..12)
            .map(|_| rows(&mut rng, 500).iter().map(change_row).collect::<Vec<_>>())
            .collect();
        let store = store();
        let put = |changed: &[usize], parts: &[Vec<Row>]| {
            let mut change = store.collection.change().unwrap();
            for &p in changed {
                change.put(&format!("p{p:02}"), builder(schema(), &parts[p])).unwrap();
            }
            change.commit().unwrap()
        };
        let mut reader = put(&(0..12).collect::<Vec<_>>(), &parts);
        let mut before: Option<Arc<Partition>> = None;
        for round in 0..4 {
            reader.warm().unwrap();
            let bundles = |reader: &Reader| -> Vec<Arc<Partition>> {
                let view = reader.set.bundles.current().unwrap();
                view.bundles().map(|(_, bundle)| bundle.part.clone()).collect()
            };
            let [bundle] = &bundles(&reader)[..] else { panic!("not one bundle") };
            let has_derived_keys = |part: &Partition| part.is_derived(LAT) || part.is_derived(LON);
            assert!(bundle.documents == 6_000 && bundle.meta(LAT).values().is_some());
            let again = super::open(&store.disk).unwrap().reader();
            again.warm().unwrap();
            assert!(bundles(&again)[0].file.map()[..] == bundle.file.map()[..], "round {round}");
            assert!(
                !before.is_some_and(|part| has_derived_keys(&part)),
                "the next bundle derived keys from it"
            );
            let plain = super::open(&store.disk).unwrap().reader().with_bundle_limit(0);
            let everything = parts.concat();
            let queries = filters(&mut rng, &everything);
            for (filter, holds) in queries {
                let expected = everything.iter().filter(|row| holds(row)).count() as u64;
                with_each_plan(|plan| {
                    assert_eq!(reader.count(&filter).unwrap(), expected, "{filter}, {plan}");
                });
                let query = Query::new(filter).order_by(asc("kind")).limit(40);
                assert_eq!(reader.search(&query).unwrap(), plain.search(&query).unwrap());
            }
            assert!(!has_derived_keys(bundle), "round {round}");
            before = Some(bundle.clone());
            for (filter, _) in filters_by_keys(&mut rng, &everything) {
                assert_eq!(again.count(&filter).unwrap(), plain.count(&filter).unwrap());
            }
            let facets = [Facet { field: "lon".into(), top: 9, disjunctive: false }];
            let counted = |reader: &Reader| reader.facets(&Filter::All, &facets).unwrap();
            assert_eq!(counted(&again), counted(&plain));
            assert!(has_derived_keys(&bundles(&again)[0]) && plain.bundle_memory() == 0);
            let p = rng.below(12);
            parts[p] = rows(&mut rng, 500).iter().map(change_row).collect();
            reader = put(&[p], &parts);
        }
    }
}

/// A partition in which two rows have the bounds of both fields, and every row has a `lat`.
fn template() -> Template {
    let mut rows = rows(&mut Rng(SEED + 5), 5_000);
    rows.iter_mut().for_each(|row| row.0 = row.0.or(Some(12)));
    let template = Template(bytes(builder(schema(), &rows)));
    open(&template.0).unwrap().verify().unwrap();
    template
}

#[track_caller]
fn caught(forged: Vec<u8>, word: &str) {
    super::verify::caught(forged, &[word]);
}

#[test]
fn wrong_values_are_caught() {
    let template = template();
    let points = section(LAT, part::POINTS);
    let meta = |edit: fn(&mut FieldMeta)| template.meta(|_, metas| edit(&mut metas[LAT]));
    caught(meta(|m| m.span += 1), "its values go from");
    caught(meta(|m| m.span -= 1), "the meta data of the field say");
    caught(meta(|m| m.distinct -= 1), "the meta data of the field say");
    caught(meta(|m| (m.present, m.postings) = (4_999, 4_999)), "");
    caught(template.meta(|_, metas| metas[LON].span += 1), "");
    let heads = 8 + 24 * 2;
    let end = heads + 8 * 79;
    caught(template.section(points, |b| b[8] ^= 1), "its group has other bounds");
    caught(template.section(points, |b| b.truncate(b.len() - 8)), "do not end");
    let mut rng = Rng(SEED);
    let (mut found, mut passed, size) = (0, 0, std::cell::Cell::new(0));
    template.section(points, |bytes| size.set(bytes.len()));
    let queries = filters(&mut rng, &[(Some(5), Some(6), 1)]);
    for at in (0..end + 700).chain((end..size.get()).step_by(61)) {
        for flip in [1, 0x80, 0xFF] {
            let forged = template.section(points, |bytes| bytes[at] ^= flip);
            match open(&forged).and_then(|part| part.verify()) {
                Ok(()) => passed += 1,
                Err(error) => found += u32::from(error.kind() == ErrorKind::Corrupt),
            }
            // The answer is unspecified but possible.
            if let Ok(reader) = reader(&[&forged]) {
                for (filter, _) in &queries {
                    assert!(reader.count(filter).unwrap_or(0) <= 5_120, "byte {at}");
                }
                let facet = Facet { field: "lon".into(), top: 5, disjunctive: false };
                let _ = reader.facets(&Filter::All, &[facet]);
            }
        }
    }
    // A changed value that stays within the bounds of its group passes: nothing contradicts it.
    assert!(found > 3_000 && passed < found, "{found} found, {passed} passed");
}

#[test]
fn impossible_metadata_is_refused() {
    let template = template();
    let meta = |edit: fn(&mut [FieldMeta])| template.meta(|_, metas| edit(metas));
    caught(meta(|m| m[LAT].span = 0), "part of no point");
    caught(meta(|m| m[LON].span = 0), "part of no point");
    caught(meta(|m| (m[LAT].span, m[LON].span) = (0, 0)), "");
    caught(meta(|m| m[LAT].column_bits = Some(9)), "cannot be");
    caught(meta(|m| m[LAT].special_forms = 1), "cannot be");
    caught(meta(|m| m[LAT].present -= 1), "cannot be");
    caught(meta(|m| m[LAT].distinct = 0), "cannot be");
    caught(meta(|m| m[LAT].span = 1 << 27), "cannot be");
    caught(meta(|m| m[LAT].span = 3), "cannot be");
    caught(meta(|m| m[LAT].least = u64::MAX - 9), "cannot be");
    caught(template.meta(|schema, _| schema.points.clear()), "part of no point");
    // The meta section ends with the least key and the span of the last field.
    let ends = |least: u64, span: u32| {
        template.section(global::META, |bytes| {
            let mut end = Encoder::default();
            end.u64(least);
            end.u32(span);
            bytes.truncate(bytes.len() - 12);
            bytes.extend(end.0);
        })
    };
    for (least, span) in [(0, 0), (7, u32::MAX), (u64::MAX, 5_000), (u64::MAX - 4_998, 5_000)] {
        caught(ends(least, span), "cannot be");
    }
    caught(template.section(global::META, |bytes| bytes.truncate(bytes.len() - 1)), "ends in");
    // Keys in the file could contradict the values in the points.
    let apart: Vec<Row> = rows(&mut Rng(SEED), 5_000).iter().map(far_apart).collect();
    let apart = Template(bytes(builder(schema(), &apart)));
    caught(
        apart.meta(|_, metas| {
            for meta in &mut metas[LAT..=LON] {
                assert!(meta.in_points && meta.span == 0);
                (meta.least, meta.span) = (1 << 63, 100_000_000);
            }
        }),
        "has keys beside its values",
    );
    let gone = template.forge(|id, bytes| (id != section(LAT, part::POINTS)).then_some(bytes));
    caught(gone.clone(), "");
    let reader = reader(&[&gone]).unwrap();
    assert_eq!(reader.count(&between("lat", 1, 2)).unwrap_err().kind(), ErrorKind::Corrupt);
}
