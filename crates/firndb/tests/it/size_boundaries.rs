//! Numbers of documents at which structures or plans change: a word of a bitset (64), small and
//! large partitions (4,096), chunks (65,536). On both sides of each, queries give the answers of a
//! scan over the numbers.

use super::TestDir;
use firndb::search::query::{all, and, asc, between, desc, eq, exists, gte, lt, not, or};
use firndb::search::{Document, Facet, Filter, Hit, PartitionBuilder, Query, Reader, Schema};

/// The values follow from the number of the document: `up` is the number, `mixed` has many values
/// in no order, `few` has three values, `some` is missing in four of five documents, `tags` is
/// multi-valued.
const FIELDS: &str = "[fields]
    up = 'u64 full'
    mixed = 'u64 full'
    few = 'string filterable'
    some = 'i64 full nullable'
    tags = 'u64 filterable multi'
";

fn mixed(n: u64) -> u64 {
    n * 7_919 % 1_009
}

fn few(n: u64) -> &'static str {
    ["north", "south", "west"][(n * n % 7) as usize % 3]
}

fn some(n: u64) -> Option<i64> {
    (n % 5 == 2).then_some(500 - n as i64 % 1_000)
}

fn tags(n: u64) -> impl Iterator<Item = u64> {
    (0..n % 3).map(move |i| (n + i) % 11)
}

fn build(size: u64) -> PartitionBuilder {
    let mut builder = PartitionBuilder::new(Schema::from_toml(FIELDS).unwrap());
    for n in 0..size {
        let mut document = Document::new().set("up", n).set("mixed", mixed(n)).set("few", few(n));
        if let Some(value) = some(n) {
            document.push("some", value);
        }
        tags(n).for_each(|tag| document.push("tags", tag));
        builder.add(&document.payload(n.to_le_bytes())).unwrap();
    }
    builder
}

/// A filter, and the same condition as a function of the document's number.
type Case = (Filter, fn(u64) -> bool);

fn cases() -> Vec<Case> {
    vec![
        (all(), |_| true),
        (not(all()), |_| false),
        (eq("few", "west"), |n| few(n) == "west"),
        (not(eq("few", "west")), |n| few(n) != "west"),
        (eq("mixed", 77u64), |n| mixed(n) == 77),
        (lt("mixed", 900u64), |n| mixed(n) < 900),
        (between("mixed", 100u64, 800u64), |n| (100..=800).contains(&mixed(n))),
        (gte("up", 60u64), |n| n >= 60),
        (eq("up", 4_095u64), |n| n == 4_095),
        (exists("some"), |n| some(n).is_some()),
        (not(exists("some")), |n| some(n).is_none()),
        (lt("some", 0i64), |n| some(n).is_some_and(|v| v < 0)),
        (eq("tags", 5u64), |n| tags(n).any(|tag| tag == 5)),
        (and([eq("few", "north"), lt("mixed", 500u64)]), |n| few(n) == "north" && mixed(n) < 500),
        (and([eq("few", "south"), not(exists("some")), gte("mixed", 10u64)]), |n| {
            few(n) == "south" && some(n).is_none() && mixed(n) >= 10
        }),
        (or([eq("mixed", 3u64), eq("tags", 0u64), lt("up", 3u64)]), |n| {
            mixed(n) == 3 || tags(n).any(|tag| tag == 0) || n < 3
        }),
    ]
}

fn docs(reader: &Reader, query: &Query) -> Vec<u64> {
    reader.search(query).unwrap().hits.into_iter().map(|hit| hit.doc.into()).collect()
}

fn check(size: u64) {
    let temp = TestDir::new();
    let (_, reader) = temp.collection([("p", build(size))]);
    reader.verify().unwrap();
    for (filter, holds) in cases() {
        let label = format!("{size} documents, {filter}");
        let expected: Vec<u64> = (0..size).filter(|&n| holds(n)).collect();
        assert_eq!(reader.count(&filter).unwrap(), expected.len() as u64, "{label}");
        assert!(docs(&reader, &Query::new(filter.clone())) == expected, "{label}");
        let by_mixed = |n: &u64| (mixed(*n), *n);
        let mut ordered = expected.clone();
        ordered.sort_by_key(by_mixed);
        ordered.truncate(20);
        let query = Query::new(filter.clone()).order_by(asc("mixed")).limit(20);
        assert_eq!(docs(&reader, &query), ordered, "{label}");
        let mut ordered = expected.clone();
        // Documents without a value are last.
        ordered.sort_by_key(|&n| (some(n).is_none(), some(n).map(|v| -v), -(n as i64)));
        ordered.truncate(30);
        let query = Query::new(filter.clone()).order_by(desc("some")).order_by(desc("up"));
        assert_eq!(docs(&reader, &query.limit(30)), ordered, "{label}");
        let facet = Facet::new("few").top(3);
        let counts = reader.facets(&filter, &[facet]).unwrap().remove(0);
        for (value, count) in counts.values {
            let same = expected.iter().filter(|&&n| value == few(n).into()).count();
            assert_eq!(count, same as u64, "{label}, {value}");
        }
        let sum: u64 = expected.iter().map(|&n| mixed(n)).sum();
        let got = reader.aggregate(&filter, "mixed").unwrap().sum;
        assert_eq!(got.map_or(0.0, |sum| sum.as_f64()), sum as f64, "{label}");
    }
    for doc in [0, size / 2, size - 1] {
        let hit = Hit { partition: 0, doc: doc as u32 };
        assert_eq!(&*reader.payload(hit).unwrap(), doc.to_le_bytes());
        assert_eq!(reader.value(hit, "mixed").unwrap(), Some(mixed(doc).into()));
    }
}

#[test]
fn answers_are_correct_around_the_size_of_a_bitset_word() {
    [1, 63, 64, 65, 127, 128, 129].into_iter().for_each(check);
}

#[test]
fn answers_are_correct_around_the_size_of_small_partitions() {
    [4_095, 4_096, 4_097].into_iter().for_each(check);
}

#[test]
fn answers_are_correct_around_the_size_of_a_chunk() {
    [65_535, 65_536, 65_537].into_iter().for_each(check);
}
