//! Queries of every kind; which are refused, and with which messages; deadlines and cancellation.

use super::{TestDir, refused};
use firndb::search::query::{all, and, asc, desc, eq, exists, gt, gte, is_in, lt, not};
use firndb::search::{
    Collection, Document, Facet, Field, GroupBy, Hit, PageToken, PartitionBuilder, Query, Reader,
    Roles, Schema, Type, Value, parse_query,
};
use firndb::{ErrorKind, Result};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const FIELDS: &str = "[fields]
    number = 'u64 full'
    color = 'string filterable'
    tags = 'string filterable stored multi'
    rank = 'i64 sortable nullable'
    note = 'string stored nullable'
";

const COLORS: [&str; 3] = ["red", "green", "blue"];

/// A partition of `count` documents with the numbers from `first` on.
fn numbers(first: u64, count: u64) -> PartitionBuilder {
    let mut builder = PartitionBuilder::new(Schema::from_toml(FIELDS).unwrap());
    for n in first..first + count {
        let mut document = Document::new()
            .set("number", n)
            .set("color", COLORS[n as usize % 3])
            .payload(format!("number {n}"));
        if n.is_multiple_of(2) {
            document.push("rank", 50 - n as i64 % 100);
        }
        for (tag, every) in [("even", 2), ("fourth", 4)] {
            if n.is_multiple_of(every) {
                document.push("tags", tag);
            }
        }
        builder.add(&document).unwrap();
    }
    builder
}

/// Two partitions with the numbers below 150.
fn small(temp: &TestDir) -> (Collection, Reader) {
    temp.collection([("a", numbers(0, 100)), ("b", numbers(100, 50))])
}

fn number(reader: &Reader, hit: Hit) -> u64 {
    match reader.value(hit, "number").unwrap() {
        Some(Value::U64(n)) => n,
        other => panic!("{other:?}"),
    }
}

fn found(reader: &Reader, query: &Query) -> Vec<u64> {
    let hits = reader.search(query).unwrap().hits;
    hits.into_iter().map(|hit| number(reader, hit)).collect()
}

#[test]
fn a_query_filters_orders_counts_and_pages() {
    let temp = TestDir::new();
    let (_, reader) = small(&temp);
    let query = Query::new(and([eq("color", "green"), gte("number", 90u64)]));
    assert_eq!(found(&reader, &query.clone().limit(3)), [91, 94, 97]);
    let last = query.order_by(desc("number")).skip(1).limit(2).with_count();
    assert_eq!(found(&reader, &last), [145, 142]);
    assert_eq!(reader.search(&last).unwrap().count, Some(20));
    // Documents without a rank come last in either direction.
    let ranked = Query::new(lt("number", 6u64));
    assert_eq!(found(&reader, &ranked.clone().order_by(asc("rank"))), [4, 2, 0, 1, 3, 5]);
    assert_eq!(found(&reader, &ranked.order_by(desc("rank"))), [0, 2, 4, 1, 3, 5]);
}

#[test]
fn pages_by_cursor_give_every_match_once() {
    let temp = TestDir::new();
    let (_, reader) = small(&temp);
    let query = Query::new(not(eq("color", "red"))).order_by(asc("rank")).limit(7);
    let whole = found(&reader, &query.clone().limit(u64::MAX));
    let (mut pages, mut next) = (Vec::new(), query.clone());
    loop {
        let hits = reader.search(&next).unwrap().hits;
        pages.extend(hits.iter().map(|&hit| number(&reader, hit)));
        let Some(&last) = hits.last() else { break };
        // The page token is converted to text and back, as between requests.
        let token = reader.page_token(&query, last).unwrap().to_string();
        next = query.clone().after(PageToken::parse(&token).unwrap());
    }
    assert_eq!((pages.len(), pages), (100, whole));
}

#[test]
fn facets_groups_aggregates_values_and_payloads_agree() {
    let temp = TestDir::new();
    let (_, reader) = small(&temp);
    let facet = |field: &str, disjunctive| {
        let mut facet = Facet::new(field).top(2);
        facet.disjunctive = disjunctive;
        facet
    };
    let red = eq("color", "red");
    let counts = reader.facets(&red, &[facet("tags", false), facet("color", true)]).unwrap();
    assert_eq!(counts[0].values, [("even".into(), 25), ("fourth".into(), 13)]);
    assert_eq!((counts[0].distinct, counts[0].missing), (2, 25));
    assert_eq!(counts[1].values, [("blue".into(), 50), ("green".into(), 50)]);
    let by = GroupBy::new(["color"]).aggregates(["number"]);
    let groups = reader.group_by(&exists("tags"), &by).unwrap();
    let sizes: Vec<u64> = groups.iter().map(|group| group.count).collect();
    assert_eq!(sizes, [25, 25, 25]);
    let all_sum = reader.aggregate(&all(), "number").unwrap().sum.unwrap().as_f64();
    assert_eq!(all_sum, 150.0 * 149.0 / 2.0);
    let hit = reader.search(&Query::new(eq("number", 104u64))).unwrap().hits[0];
    assert_eq!(&*reader.payload(hit).unwrap(), b"number 104");
    assert_eq!(reader.payloads(&[hit, hit]).unwrap(), [&b"number 104"[..]; 2]);
    for wrong in [Hit { partition: 2, ..hit }, Hit { doc: 150, ..hit }] {
        assert_eq!(reader.payloads(&[hit, wrong]).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(reader.values(hit, "tags").unwrap(), ["even".into(), "fourth".into()]);
    assert_eq!(reader.value(hit, "rank").unwrap(), Some(Value::I64(46)));
    assert_eq!(reader.value(hit, "note").unwrap(), None);
}

#[test]
fn explain_shows_the_plan_and_its_cost() {
    let temp = TestDir::new();
    let (_, reader) = small(&temp);
    let query = "color = 'red' and number < 30 order by rank limit 5";
    let query = parse_query(query, Some(reader.schema())).unwrap();
    let explain = reader.explain(&query).unwrap();
    assert_eq!((explain.hits, explain.partitions), (5, 2));
    assert!(explain.docs_touched + explain.bytes_touched > 0);
    let text = explain.to_string();
    assert!(text.contains("color") && text.contains("order: rank"), "{text}");
}

/// The counts are right in small and in large partitions: they grow with the list of a value.
#[test]
fn explain_counts_in_small_and_in_large_partitions() {
    let fields = [("tenth", 10), ("thousandth", 1000)];
    for documents in [1000u64, 4096, 5000, 70_000] {
        let temp = TestDir::new();
        let schema = fields.map(|(name, _)| Field::new(name, Type::U64, Roles::FULL));
        let mut builder = PartitionBuilder::new(Schema::new(schema).unwrap());
        for n in 0..documents {
            let n = n * 7919 % documents;
            let set = |d: Document, &(name, of): &(&str, u64)| d.set(name, n % of);
            builder.add(&fields.iter().fold(Document::new(), set)).unwrap();
        }
        let (_, reader) = temp.collection([("a", builder)]);
        let explain = |filter| {
            let explain = reader.explain(&Query::new(filter).limit(1_000_000)).unwrap();
            assert_eq!(explain.partitions_pruned, 0);
            let text = explain.to_string();
            let ways = ["walked", "combined bitsets", "combined small bitsets"];
            assert!(ways.iter().any(|way| text.contains(way)), "{text}");
            (
                explain.hits,
                explain.docs_touched + explain.list_entries_touched,
                explain.bytes_touched,
            )
        };
        let (hits, touched, bytes) = explain(eq("thousandth", 3u64));
        assert_eq!(touched, hits, "of {documents}");
        assert!(bytes >= 4 * hits && bytes <= 8 * hits + documents, "{bytes} bytes of {documents}");
        let (hits, touched, bytes) = explain(is_in("tenth", [1u64, 2]));
        let least = if documents < 5000 { hits } else { 0 };
        assert!(touched >= least && touched <= documents, "{touched} of {documents}");
        assert!(bytes >= documents / 8 && bytes <= 8 * documents, "{bytes} bytes of {documents}");
        let both = and([eq("thousandth", 3u64), eq("tenth", 3u64)]);
        let (one, touched, _) = explain(both);
        assert!(one > 0 && touched >= one && touched <= documents / 4, "{touched} of {documents}");
    }
}

#[test]
fn an_unknown_field_is_refused_with_the_candidates_closest_first() {
    let temp = TestDir::new();
    let (_, reader) = small(&temp);
    let kind = ErrorKind::InvalidArgument;
    let error = refused(reader.count(&eq("colour", "red")), kind, &["`colour`", "`color`"]);
    let at = |name: &str| error.message().find(name).unwrap();
    assert!(at("`color`") < at("`number`"), "{error}");
    refused(reader.search(&Query::new(all()).order_by(asc("rnk"))), kind, &["`rnk`", "`rank`"]);
    let facet = Facet::new("tag").top(1);
    refused(reader.facets(&all(), &[facet]), kind, &["`tag`", "`tags`"]);
    let hit = Hit { partition: 0, doc: 0 };
    refused(reader.value(hit, "notes"), kind, &["`notes`", "`note`"]);
    let mut builder = numbers(0, 1);
    let document = Document::new().set("number", 1u64).set("colr", "red");
    refused(builder.add(&document), kind, &["`colr`", "`color`"]);
}

#[test]
fn a_value_of_a_wrong_type_is_refused_and_both_types_are_named() {
    let temp = TestDir::new();
    let (_, reader) = small(&temp);
    let kind = ErrorKind::InvalidArgument;
    refused(reader.count(&eq("number", "7")), kind, &["`number`", "u64", "string"]);
    refused(reader.count(&gt("color", 7i64)), kind, &["`color`", "string", "i64"]);
    let error = refused(parse_query("color = 7", Some(reader.schema())), kind, &["`color`"]);
    assert_eq!(error.span(), Some((8, 9)), "the error has the span in the text");
    let mut builder = numbers(0, 1);
    let document = Document::new().set("number", "seven").set("color", "red");
    refused(builder.add(&document), kind, &["`number`", "u64", "'seven'"]);
    // Numbers convert where nothing is lost.
    assert_eq!(reader.count(&eq("number", 7.0)).unwrap(), 1);
    assert_eq!(reader.count(&lt("number", 7.5)).unwrap(), 8);
}

#[test]
fn a_use_that_a_field_has_no_role_for_is_refused() {
    let temp = TestDir::new();
    let (_, reader) = small(&temp);
    let kind = ErrorKind::InvalidArgument;
    refused(reader.count(&gt("rank", 0i64)), kind, &["`rank`", "filterable"]);
    refused(reader.count(&exists("note")), kind, &["`note`", "filterable"]);
    let by = |field| reader.search(&Query::new(all()).order_by(asc(field)));
    refused(by("color"), kind, &["`color`", "sortable"]);
    refused(by("tags"), kind, &["`tags`", "sortable"]);
    let hit = Hit { partition: 0, doc: 0 };
    refused(reader.value(hit, "color"), kind, &["`color`", "stored"]);
    let multi_sortable = "[fields]\ntags = 'string full multi'";
    refused(Schema::from_toml(multi_sortable), kind, &["`tags`"]);
}

#[test]
fn a_deadline_and_a_flag_cancel_the_queries_of_their_reader() {
    let temp = TestDir::new();
    let (_, reader) = small(&temp);
    let run = |reader: &Reader| -> [Result<()>; 5] {
        let query = Query::new(gt("number", 9u64)).order_by(asc("rank"));
        let by = GroupBy::new(["color"]);
        [
            reader.count(&query.filter).map(|_| ()),
            reader.search(&query).map(|_| ()),
            reader.group_by(&all(), &by).map(|_| ()),
            reader.explain(&query).map(|_| ()),
            reader.for_each(&query, |_| ControlFlow::Continue(())),
        ]
    };
    let flag = Arc::new(AtomicBool::new(false));
    let expired = reader.with_deadline(Instant::now());
    let in_time = reader.with_deadline(Instant::now() + Duration::from_secs(600));
    let flagged = reader.with_cancel(flag.clone());
    assert!(run(&in_time).iter().chain(&run(&flagged)).all(|answer| answer.is_ok()));
    flag.store(true, Ordering::Relaxed);
    for answer in run(&expired).into_iter().chain(run(&flagged)) {
        refused(answer, ErrorKind::Cancelled, &["query"]);
    }
    assert!(run(&reader).iter().all(|answer| answer.is_ok()), "the original reader has no limit");
}

#[test]
fn for_each_stops_when_the_callback_or_the_flag_says_so() {
    let temp = TestDir::new();
    let (_, reader) = temp.collection([("a", numbers(0, 70_000)), ("b", numbers(70_000, 70_000))]);
    let query = Query::new(all()).order_by(desc("number"));
    let mut seen = Vec::new();
    let stop_at =
        |n: u64| if n == 139_990 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let visit = |hit| {
        seen.push(number(&reader, hit));
        stop_at(seen[seen.len() - 1])
    };
    reader.for_each(&query, visit).unwrap();
    assert!(seen.iter().copied().eq((139_990..140_000).rev()), "{seen:?}");

    let mut next = 140_000;
    let visit = |hit| {
        next -= 1;
        assert_eq!(number(&reader, hit), next);
        ControlFlow::Continue(())
    };
    reader.for_each(&query, visit).unwrap();
    assert_eq!(next, 0, "every document once, in order");

    let (mut count, flag) = (0u64, Arc::new(AtomicBool::new(false)));
    let raise = |_| {
        count += 1;
        flag.store(true, Ordering::Relaxed);
        ControlFlow::Continue(())
    };
    let cancelled = reader.with_cancel(flag.clone()).for_each(&query, raise);
    refused(cancelled, ErrorKind::Cancelled, &["cancelled"]);
    assert!(count < 140_000, "the flag was seen after {count} documents");

    let limited = query.skip(5).limit(9);
    let mut hits = Vec::new();
    let collect = |hit| {
        hits.push(number(&reader, hit));
        ControlFlow::Continue(())
    };
    reader.for_each(&limited, collect).unwrap();
    assert_eq!(hits, found(&reader, &limited));
    assert_eq!((hits.len(), hits[0]), (9, 139_994));
}

#[test]
fn a_dynamic_schema_follows_the_documents() {
    let temp = TestDir::new();
    let mut builder = PartitionBuilder::new(Schema::dynamic(Roles::FULL));
    builder.add(&Document::new().set("a", 1i64)).unwrap();
    builder.add(&Document::new().set("b", "x").set("a", 2i64)).unwrap();
    let wrong = builder.add(&Document::new().set("a", "text").set("c", 1i64));
    refused(wrong, ErrorKind::InvalidArgument, &["`a`"]);
    assert_eq!(builder.schema().fields().len(), 2, "a refused document adds no field");
    let (_, reader) = temp.collection([("p", builder)]);
    assert_eq!(reader.count(&not(exists("b"))).unwrap(), 1);
    assert_eq!(found_b(&reader), [Some("x".into()), None]);
}

fn found_b(reader: &Reader) -> Vec<Option<Value>> {
    let hits = reader.search(&Query::new(all()).order_by(desc("a"))).unwrap().hits;
    hits.into_iter().map(|hit| reader.value(hit, "b").unwrap()).collect()
}
