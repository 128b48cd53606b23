//! Fields within others, models within makes: every question is answered document by document,
//! with every plan and instruction set, and damage is found.

use super::verify::{Victim, caught, open};
use super::{damage_every_byte, merge_all, store, with_each_plan};
use crate::ErrorKind;
use crate::disk::{Disk, SimDisk};
use crate::search::format::{part, section};
use crate::search::model::query::{and, asc, between, eq, exists, gt, is_in, lt, not, or, prefix};
use crate::search::simd::kernels::tests::with_each_version;
use crate::search::testing::{FORCED, Forced, Rng};
use crate::search::{
    Document, Facet, FacetCounts, Field, Filter, GroupBy, Hit, PartitionBuilder, Query, Reader,
    Roles, Schema, Type,
};
use std::collections::BTreeMap;
use std::path::Path;

const SEED: u64 = 0x117_417;
const MAKE: usize = 0;
const MODEL: usize = 1;

/// A make of 40, one of its up to 20 models, and a number that is another one in every document.
type Row = (usize, usize, u64);
type Holds = Box<dyn Fn(&Row) -> bool>;

fn make(row: &Row) -> String {
    format!("m{:02}", row.0)
}

fn model(row: &Row) -> String {
    format!("m{:02} {:02}", row.0, row.1)
}

fn rows(rng: &mut Rng, count: usize) -> Vec<Row> {
    let row = |i: usize| {
        let make = rng.below(40) * rng.below(41) / 40;
        (make, rng.below(1 + (make * 7 + 5) % 20), (i * 7_919 % 100_003) as u64)
    };
    (0..count).map(row).collect()
}

fn builder(rows: &[Row]) -> PartitionBuilder {
    let fields = [
        Field::new("make", Type::String, Roles::FILTERABLE),
        Field::new("model", Type::String, Roles::FILTERABLE.with(Roles::STORED)).scanned(),
        Field::new("number", Type::U64, Roles::FULL),
    ];
    let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap());
    for row in rows {
        let document = Document::new().set("make", make(row)).set("model", model(row));
        builder.add(&document.set("number", row.2)).unwrap();
    }
    builder
}

fn reader(bytes: &[u8]) -> crate::Result<Reader> {
    let (disk, path) = (SimDisk::new(), Path::new("/within"));
    disk.write_raw(path, bytes);
    Reader::open_files_on(&*disk, &[path])
}

/// Some filters, and which rows satisfy each.
fn filters(rng: &mut Rng, rows: &[Row]) -> Vec<(Filter, Holds)> {
    let mut one = || rows[rng.below(rows.len())];
    let (a, b, few) = (one(), one(), [one(), one(), one()]);
    let many: Vec<String> = (0..60).map(|_| model(&one())).collect();
    let (low, high) =
        if model(&a) < model(&b) { (model(&a), model(&b)) } else { (model(&b), model(&a)) };
    let limit = one().2;
    let (is_a, low_of) = (move |row: &Row| (row.0, row.1) == (a.0, a.1), low.clone());
    let (is_few, in_many) = (few.map(|row| model(&row)), many.clone());
    let inside = move |row: &Row| (low_of.as_str()..=high.as_str()).contains(&model(row).as_str());
    let (inside, high) =
        (std::rc::Rc::new(inside), [model(&a), model(&b)].into_iter().max().unwrap());
    let outside = inside.clone();
    vec![
        (eq("model", model(&a)), Box::new(is_a)),
        (not(eq("model", model(&a))), Box::new(move |row| !is_a(row))),
        (is_in("model", is_few.clone()), Box::new(move |row| is_few.contains(&model(row)))),
        (not(is_in("model", many.clone())), {
            Box::new(move |row| !in_many.contains(&model(row)))
        }),
        (and([is_in("model", many.clone()), lt("number", limit)]), {
            Box::new(move |row| many.contains(&model(row)) && row.2 < limit)
        }),
        (between("model", low.clone(), high.clone()), Box::new(move |row| inside(row))),
        (not(between("model", low, high)), Box::new(move |row| !outside(row))),
        (
            prefix("model", format!("{} 1", make(&a))),
            Box::new(move |row| row.0 == a.0 && row.1 >= 10),
        ),
        (and([eq("make", make(&a)), gt("model", model(&a))]), {
            Box::new(move |row| row.0 == a.0 && row.1 > a.1)
        }),
        (and([eq("make", make(&b)), not(eq("model", model(&b))), lt("number", limit)]), {
            Box::new(move |row| row.0 == b.0 && row.1 != b.1 && row.2 < limit)
        }),
        (or([eq("model", model(&a)), eq("make", make(&b)), eq("number", limit)]), {
            Box::new(move |row| is_a(row) || row.0 == b.0 || row.2 == limit)
        }),
        (and([exists("model"), lt("number", limit)]), Box::new(move |row| row.2 < limit)),
    ]
}

fn ask(rng: &mut Rng, rows: &[Row], reader: &Reader, at: &str) {
    for (filter, holds) in filters(rng, rows) {
        let at = format!("{at}: {filter}");
        let expected: Vec<usize> = (0..rows.len()).filter(|&i| holds(&rows[i])).collect();
        assert_eq!(reader.count(&filter).unwrap(), expected.len() as u64, "{at}");
        let page = |query: Query| reader.search(&query.limit(20)).unwrap().hits;
        let hits = page(Query::new(filter.clone()));
        assert!(
            hits.iter().map(|hit| hit.doc as usize).eq(expected.iter().copied().take(20)),
            "{at}"
        );
        for hit in hits {
            let value = reader.value(hit, "model").unwrap();
            assert_eq!(value, Some(model(&rows[hit.doc as usize]).into()), "{at}");
        }
        let mut ordered = expected.clone();
        ordered.sort_by_key(|&i| rows[i].2);
        let hits = page(Query::new(filter.clone()).order_by(asc("number")));
        assert!(hits.iter().map(|hit| hit.doc as usize).eq(ordered.into_iter().take(20)), "{at}");
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        expected.iter().for_each(|&i| *counts.entry(model(&rows[i])).or_default() += 1);
        let facet = Facet { field: "model".into(), top: 1_000, disjunctive: false };
        let found = reader.facets(&filter, &[facet]).unwrap().remove(0).values;
        let found = found.into_iter().map(|(value, count)| (value.to_string(), count));
        let found: BTreeMap<String, u64> = found.collect();
        assert!(found.values().eq(counts.values()), "{at}");
        let by = GroupBy { fields: vec!["model".into()], aggregates: Vec::new() };
        let groups = reader.group_by(&filter, &by).unwrap();
        assert_eq!((groups.len(), found.len()), (counts.len(), counts.len()), "{at}");
    }
}

#[test]
fn every_question_is_answered_document_by_document() {
    println!("seed {SEED:#x}");
    let mut rng = Rng(SEED);
    let rows = rows(&mut rng, 9_000);
    let reader = reader(&Victim::of_builder(builder(&rows)).0).unwrap();
    reader.verify().unwrap();
    let meta = *reader.set.partitions[0].meta(MODEL);
    assert_eq!((meta.within, meta.column_bits), (Some(MAKE as u32), Some(5)));
    with_each_plan(|at| (0..20).for_each(|_| ask(&mut rng, &rows, &reader, at)));
}

#[test]
fn merged_partitions_are_those_built_at_once() {
    let mut rng = Rng(SEED + 1);
    // The first is too small for it.
    let parts = [rows(&mut rng, 700), rows(&mut rng, 6_000), rows(&mut rng, 5_000)];
    let store = store();
    let [reader, merged] = merge_all(&store, parts.each_ref().map(|rows| builder(rows)));
    let within = |reader: &Reader, p: usize| reader.set.partitions[p].meta(MODEL).within.is_some();
    assert!(!within(&reader, 0) && within(&reader, 1) && within(&merged, 0));
    let whole = Victim::of_builder(builder(&parts.concat())).0;
    let file = store.disk.map(merged.set.partitions[0].file.path()).unwrap();
    assert!(file.to_vec() == whole, "a merged partition has other bytes than one built at once");
    ask(&mut rng, &parts.concat(), &merged, "merged");
}

#[test]
fn wrong_fields_within_others_are_caught() {
    let mut rng = Rng(SEED + 2);
    let rows = rows(&mut rng, 5_000);
    let built = Victim::of_builder(builder(&rows));
    let metas = built.fields();
    let bits = |field: usize| metas[field].column_bits.unwrap();
    let packed = |field: usize, edit: &dyn Fn(&mut Vec<u32>)| {
        built.packed(section(field, part::COLUMN), bits(field), 5_000, edit)
    };
    let firsts = |edit: &dyn Fn(&mut Vec<u8>)| built.section(section(MODEL, part::FIRSTS), edit);
    let last = rows.iter().position(|row| row.1 > 0 && (row.0 * 7 + 5) % 20 == row.1).unwrap();
    caught(packed(MODEL, &|v| v[last] += 1), &["`model`", &format!("document {last} has no key")]);
    caught(packed(MODEL, &|v| v[last] -= 1), &["`model`", "sums say"]);
    caught(packed(MAKE, &|v| v[3] = 50), &["`m"]);
    caught(firsts(&|v| v[4] += 1), &["`model`"]);
    caught(firsts(&|v| v[0] += 1), &["`model`", "do not divide"]);
    caught(firsts(&|v| v.truncate(v.len() - 4)), &["`model`", "firsts"]);
    let meta = |edit: &dyn Fn(&mut crate::search::format::FieldMeta)| {
        built.meta(|_, metas| edit(&mut metas[MODEL]))
    };
    for outer in [MODEL as u32, 2, 3, u32::MAX] {
        caught(meta(&|meta| meta.within = Some(outer)), &["`model`", "cannot be within"]);
    }
    caught(meta(&|meta| meta.present -= 1), &["`model`", "cannot be within"]);
    caught(meta(&|meta| meta.scanned.0 = 1), &["`model`", "cannot be within"]);
    caught(meta(&|meta| meta.within = None), &["not called for"]);
    caught(built.meta(|_, metas| metas[MAKE].column_bits = None), &["`model`", "cannot be within"]);
    assert!(open(&built.0).unwrap().verify().is_ok());
}

#[test]
fn every_byte_damaged_is_found_or_does_not_matter() {
    let mut rng = Rng(SEED + 3);
    // Each model once, in the order of none.
    let all = (0..40).flat_map(|make| (0..1 + (make * 7 + 5) % 20).map(move |model| (make, model)));
    let rows = all.zip(0..).map(|(of, i)| (of.0, of.1, i * 7_919 % 10_007));
    let mut rows: Vec<Row> = rows.collect();
    rows.sort_by_key(|row| row.2);
    FORCED.set(Forced { forms: true, ..Forced::default() });
    let whole = Victim::of_builder(builder(&rows)).0;
    FORCED.set(Forced { large: true, ..Forced::default() });
    let right = reader(&whole).unwrap();
    assert!(right.set.partitions[0].meta(MODEL).within.is_some());
    let mut questions = filters(&mut rng, &rows);
    questions.truncate(7);
    damage_every_byte(&whole, reader, questions.len(), |reader, i| answer(reader, &questions[i].0));
    FORCED.set(Forced::default());
}

type Answer = (u64, Vec<Hit>, Vec<FacetCounts>);

fn answer(reader: &Reader, filter: &Filter) -> crate::Result<Answer> {
    let hits = reader.search(&Query::new(filter.clone()).limit(10))?.hits;
    let facet = Facet { field: "model".into(), top: 5, disjunctive: false };
    Ok((reader.count(filter)?, hits, reader.facets(filter, &[facet])?))
}

/// Whatever the firsts and the numbers are, if their checksums fit: no panic, and no document that
/// there is not.
#[test]
fn forged_fields_within_others_can_be_asked() {
    let mut rng = Rng(SEED + 4);
    let rows = rows(&mut rng, 5_000);
    let built = Victim::of_builder(builder(&rows));
    let parts = [(MODEL, part::FIRSTS), (MODEL, part::COLUMN), (MAKE, part::COLUMN)];
    let mut answered = 0;
    for round in 0..60 {
        let (field, part) = parts[round % 3];
        let bytes: Vec<u8> = (0..97).map(|_| rng.next() as u8).collect();
        let forged = built.section(section(field, part), |old| match round / 3 % 3 {
            0 => old.iter_mut().zip(bytes.iter().cycle()).for_each(|(old, new)| *old = *new),
            1 => old.fill(0xFF),
            _ => old.reverse(),
        });
        assert!(open(&forged).unwrap().verify().is_err());
        let reader = reader(&forged).unwrap();
        for (filter, _) in filters(&mut rng, &rows) {
            with_each_version(|version| match answer(&reader, &filter) {
                Ok((_, hits, _)) => {
                    assert!(hits.iter().all(|hit| hit.doc < 5_000), "{version}: {filter}");
                    answered += 1;
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{version}: {error}"),
            });
        }
    }
    assert!(answered > 100, "{answered} answered");
}
