//! Invalid arguments are refused: unknown names, literals of wrong types, roles that a field does
//! not have, impossible changes. Cancelled queries fail. An empty collection answers queries.

use super::{Store, create, open, store};
use crate::search::model::query::{all, and, asc, between, eq, exists, gt, is_in, not, prefix};
use crate::search::{
    Aggregate, Document, Facet, Field, Filter, GroupBy, Hit, PartitionBuilder, Payload, Query,
    Reader, Roles, Schema, Type, Value,
};
use crate::{ErrorKind, Result};
use std::fmt::Debug;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

fn schema() -> Schema {
    let stored = Field::new("stored", Type::String, Roles::STORED).nullable();
    let sorted = Field::new("sorted", Type::I64, Roles::SORTABLE).nullable();
    let tags = Field::new("tags", Type::String, Roles::FILTERABLE).multi();
    let rest = [
        ("n", Type::I64),
        ("flag", Type::Bool),
        ("text", Type::String),
        ("raw", Type::Bytes),
        ("time", Type::Timestamp),
        ("ratio", Type::F64),
    ];
    let rest = rest.map(|(name, ty)| Field::new(name, ty, Roles::FULL).nullable());
    Schema::new([stored, sorted, tags].into_iter().chain(rest)).unwrap()
}

/// A collection of one partition of 50 documents.
fn filled() -> Store {
    let store = store();
    let mut builder = PartitionBuilder::new(schema());
    for n in 0..50i64 {
        builder.add(&Document::new().set("n", n).set("text", format!("t{n}"))).unwrap();
    }
    let mut change = store.collection.change().unwrap();
    change.put("a", builder).unwrap();
    change.commit().unwrap();
    store
}

/// Asserts that the call fails with this kind of error, in a message with the word.
#[track_caller]
fn refused<T: Debug>(result: Result<T>, kind: ErrorKind, word: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.message().contains(word), "no `{word}` in: {error}");
}

#[track_caller]
fn invalid<T: Debug>(result: Result<T>, word: &str) {
    refused(result, ErrorKind::InvalidArgument, word);
}

/// Asserts that every kind of query refuses the filter.
#[track_caller]
fn bad_filter(reader: &Reader, filter: Filter, word: &str) {
    let nested = and([eq("n", 1i64), not(filter.clone())]);
    let by = GroupBy { fields: vec!["n".into()], aggregates: Vec::new() };
    for filter in [filter, nested] {
        invalid(reader.count(&filter), word);
        invalid(reader.search(&Query::new(filter.clone())), word);
        invalid(reader.facets(&filter, &[facet("tags")]), word);
        invalid(reader.aggregate(&filter, "n"), word);
        invalid(reader.group_by(&filter, &by), word);
    }
}

fn facet(field: &str) -> Facet {
    Facet { field: field.into(), top: 3, disjunctive: false }
}

#[test]
fn invalid_queries_are_refused() {
    let reader = filled().collection.reader();
    for (filter, word) in [
        (eq("nope", 1i64), "nope"),
        (exists("nope"), "nope"),
        (eq("stored", "x"), "stored"),
        (exists("sorted"), "sorted"),
        (eq("n", "1"), "`n`"),
        (eq("n", true), "`n`"),
        (gt("flag", 0i64), "`flag`"),
        (eq("text", 1i64), "`text`"),
        (eq("text", vec![1u8]), "`text`"),
        (eq("raw", 1.5), "`raw`"),
        (eq("time", 5i64), "`time`"),
        (eq("time", "yesterday"), "yesterday"),
        (gt("ratio", f64::NAN), "NaN"),
        (between("n", 1i64, "2"), "`n`"),
        (is_in("tags", [Value::from("x"), Value::from(1i64)]), "`tags`"),
        (prefix("n", "1"), "prefix"),
        (prefix("text", 1i64), "`text`"),
    ] {
        bad_filter(&reader, filter, word);
    }
    for order in ["nope", "stored", "tags"] {
        invalid(reader.search(&Query::new(all()).order_by(asc(order))), order);
    }
    invalid(reader.facets(&all(), &[facet("sorted")]), "sorted");
    invalid(reader.facets(&all(), &[facet("n"), facet("nope")]), "nope");
    invalid(reader.aggregate(&all(), "nope"), "nope");
    let three = GroupBy { fields: vec!["n".into(); 3], aggregates: Vec::new() };
    invalid(reader.group_by(&all(), &three), "two");
    let token = reader.page_token(&Query::new(all()), Hit { partition: 0, doc: 3 }).unwrap();
    invalid(reader.search(&Query::new(all()).order_by(asc("n")).after(token)), "page token");
    for hit in [Hit { partition: 0, doc: 50 }, Hit { partition: 1, doc: 0 }] {
        invalid(reader.payload(hit), "there is no");
        invalid(reader.values(hit, "n"), "there is no");
        invalid(reader.page_token(&Query::new(all()).order_by(asc("n")), hit), "there is no");
    }
    invalid(reader.value(Hit { partition: 0, doc: 0 }, "tags"), "tags");
}

#[test]
fn invalid_documents_and_changes_are_refused() {
    let needed = Field::new("id", Type::U64, Roles::FULL);
    let mut builder = PartitionBuilder::new(Schema::new([needed]).unwrap());
    let before = Document::new().set("id", 1u64);
    builder.add(&before).unwrap();
    for (document, word) in [
        (Document::new(), "missing"),
        (Document::new().set("id", -1i64), "id"),
        (Document::new().set("id", 1.5), "id"),
        (Document::new().set("id", 1u64).set("id", 2u64), "two values"),
        (Document::new().set("id", 1u64).set("nope", 1u64), "nope"),
    ] {
        invalid(builder.add(&document), word);
    }
    assert_eq!(builder.len(), 1, "refused documents are not added");

    let Store { disk, collection } = filled();
    refused(create(&disk).map(|_| ()), ErrorKind::AlreadyExists, "a collection already");
    let other = open(&disk).unwrap();
    let mut change = collection.change().unwrap();
    refused(other.change().map(|_| ()), ErrorKind::Locked, "writing");
    for name in ["", ".a", "a/b", "a b", &"x".repeat(101)] {
        invalid(change.put(name, PartitionBuilder::new(schema())), "name");
    }
    refused(change.remove("nope"), ErrorKind::NotFound, "nope");
    refused(change.merge(&["a", "nope"], "b"), ErrorKind::NotFound, "nope");
    invalid(change.merge(&[], "b"), "nothing");
    change.put("b", builder).unwrap(); // the field names do not clash
    drop(change);
    assert_eq!(collection.reader().partitions().len(), 1, "an uncommitted change is not visible");

    let clash = Schema::new([Field::new("n", Type::String, Roles::FULL)]).unwrap();
    let mut change = collection.change().unwrap();
    change.put("z", PartitionBuilder::new(clash)).unwrap();
    invalid(change.commit().map(|_| ()), "`n`");
    assert_eq!(collection.reader().partitions().len(), 1);
    assert!(!other.refresh().unwrap());
    let mut change = other.change().unwrap();
    change.put("b", PartitionBuilder::new(schema())).unwrap();
    change.commit().unwrap();
    assert!(collection.refresh().unwrap(), "a refresh shows another handle's change");
    assert_eq!(collection.reader().partitions().len(), 2);
}

#[test]
fn a_merge_refuses_repeated_partitions_and_the_name_of_another() {
    let store = store();
    let mut change = store.collection.change().unwrap();
    for name in ["a", "b", "c"] {
        let mut builder = PartitionBuilder::new(schema());
        builder.add(&Document::new().set("n", 1i64)).unwrap();
        change.put(name, builder).unwrap();
    }
    refused(change.merge(&["a", "b"], "c"), ErrorKind::AlreadyExists, "`c`");
    invalid(change.merge(&["a", "b", "a"], "d"), "`a`");
    change.merge(&["a", "b"], "b").unwrap();
    let reader = change.commit().unwrap();
    let names: Vec<String> = reader.partitions().into_iter().map(|part| part.name).collect();
    assert_eq!((names, reader.len()), (vec!["b".to_string(), "c".to_string()], 3));
}

#[test]
fn invalid_zstd_levels_are_refused_with_the_first_document() {
    for level in [i32::MIN, 0, 20] {
        let form = Payload::Zstd { level, dictionary: false };
        let mut builder = PartitionBuilder::new(schema().payload(form));
        invalid(builder.add(&Document::new().set("n", 1i64)), &format!("{level}; use 1 to 19"));
        assert!(builder.is_empty());
        invalid(builder.finish().map(|_| ()), "use 1 to 19");
    }
    for level in [1, 19] {
        let form = Payload::Zstd { level, dictionary: false };
        let mut builder = PartitionBuilder::new(schema().payload(form));
        builder.add(&Document::new().set("n", 1i64)).unwrap();
    }
}

#[test]
fn cancelled_queries_fail_with_cancelled() {
    let reader = filled().collection.reader();
    let late = reader.with_deadline(Instant::now() - Duration::from_millis(1));
    let flag = Arc::new(AtomicBool::new(false));
    let flagged = reader.with_cancel(flag.clone());
    let in_time = reader.with_deadline(Instant::now() + Duration::from_secs(3600));
    assert_eq!(flagged.count(&gt("n", 9i64)).unwrap(), 40);
    assert_eq!(in_time.count(&gt("n", 9i64)).unwrap(), 40);
    flag.store(true, std::sync::atomic::Ordering::Relaxed);
    for reader in [late, flagged] {
        let query = Query::new(gt("n", 9i64)).order_by(asc("text"));
        refused(reader.count(&query.filter), ErrorKind::Cancelled, "quer");
        refused(reader.search(&query), ErrorKind::Cancelled, "quer");
        refused(reader.facets(&all(), &[facet("n")]), ErrorKind::Cancelled, "quer");
        refused(reader.aggregate(&all(), "n"), ErrorKind::Cancelled, "quer");
        let visit = |_| ControlFlow::Continue(());
        refused(reader.for_each(&query, visit), ErrorKind::Cancelled, "quer");
    }
    assert_eq!(reader.count(&all()).unwrap(), 50, "the original reader has no limit");
}

#[test]
fn an_empty_collection_answers_queries() {
    let store = store();
    let reader = open(&store.disk).unwrap().reader();
    assert!(reader.is_empty() && reader.partitions().is_empty());
    assert_eq!(reader.count(&all()).unwrap(), 0);
    let page = reader.search(&Query::new(not(all())).with_count()).unwrap();
    assert_eq!((page.hits, page.count), (Vec::new(), Some(0)));
    invalid(reader.count(&eq("n", 1i64)), "no field");

    let mut change = store.collection.change().unwrap();
    change.put("none", PartitionBuilder::new(schema())).unwrap();
    let reader = change.commit().unwrap();
    assert_eq!(reader.count(&not(exists("n"))).unwrap(), 0);
    let nothing = Aggregate { count: 0, min: None, max: None, sum: None, avg: None };
    assert_eq!(reader.aggregate(&all(), "n").unwrap(), nothing);
    assert!(reader.search(&Query::new(all()).order_by(asc("n"))).unwrap().hits.is_empty());
    let by = GroupBy { fields: vec!["n".into()], aggregates: Vec::new() };
    assert!(reader.group_by(&all(), &by).unwrap().is_empty());
}

#[test]
fn missing_fields_count_towards_the_memory_limit() {
    let field = |n: usize| Field::new(format!("f{n}"), Type::I64, Roles::FULL).nullable();
    let limit = 4 << 20;
    let schema = Schema::new((0..100).map(field)).unwrap();
    let mut builder = PartitionBuilder::new(schema).memory_limit(limit);
    let first = (0..100).fold(Document::new(), |document, n| document.set(format!("f{n}"), 7i64));
    builder.add(&first).unwrap();
    let more = (0..limit).take_while(|_| builder.add(&Document::new()).is_ok()).count();
    // Writing the partition takes 4 bytes per field and document.
    assert!((limit / 800..limit / 400).contains(&more), "{more} documents");
}
