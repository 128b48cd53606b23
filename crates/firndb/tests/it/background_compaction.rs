//! Partitions are compacted in the background and published, and a reader of the catalog switches
//! to the new versions while threads query it: no answer changes.

use super::TestDir;
use firndb::catalog::{Catalog, PublishOptions, ReaderOptions};
use firndb::search::query::{all, desc, eq};
use firndb::search::{
    Document, Field, MergePolicy, PartitionBuilder, Query, Reader, Roles, Schema, Type,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const PARTITIONS: u64 = 40;
const DOCUMENTS: u64 = 30;

fn partition(p: u64) -> PartitionBuilder {
    let fields = [
        Field::new("number", Type::U64, Roles::FULL),
        Field::new("kind", Type::String, Roles::FULL),
    ];
    let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap());
    for n in 0..DOCUMENTS {
        let kind = format!("k{}", (p * 7 + n) % 5);
        // Few distinct numbers, so that orders have many ties.
        let document = Document::new().set("number", (p * n) % 11).set("kind", kind.as_str());
        builder.add(&document.payload(format!("{p} {n}"))).unwrap();
    }
    builder
}

/// Counts, and the payloads of documents in the order of queries, including ties.
fn answers(reader: &Reader) -> (Vec<u64>, Vec<Vec<Vec<u8>>>) {
    let filters = [all(), eq("kind", "k3"), eq("number", 4u64)];
    let counts = filters.iter().map(|filter| reader.count(filter).unwrap()).collect();
    let pages = filters.iter().flat_map(|filter| {
        let query = Query::new(filter.clone()).limit(PARTITIONS * DOCUMENTS);
        let queries = [query.clone(), query.order_by(desc("number")).skip(3)];
        queries.map(|query| {
            let hits = reader.search(&query).unwrap().hits;
            hits.iter().map(|hit| reader.payload(*hit).unwrap().into_owned()).collect()
        })
    });
    (counts, pages.collect())
}

/// Merges partitions at once, to about a sixth of their number.
fn policy() -> MergePolicy {
    MergePolicy::default().unchanged_for(Duration::ZERO).most_documents(200).at_least(3)
}

/// Stops the query threads when the main thread ends or panics.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn background_compaction_changes_no_answer_of_a_catalog_reader() {
    let temp = TestDir::new();
    let names: Vec<String> = (0..PARTITIONS).map(|p| format!("p{p:03}")).collect();
    let parts = names.iter().zip(0..).map(|(name, p)| (name.as_str(), partition(p)));
    let (collection, _) = temp.collection(parts);
    let catalog = Catalog::create(temp.path("catalog")).unwrap();
    let publish = || {
        let options = PublishOptions::default();
        catalog.publish_if_changed("docs", temp.path("collection"), &options).unwrap()
    };
    assert!(publish().is_some());
    let options = ReaderOptions::default();
    let reader = catalog.reader("docs", temp.path("cache"), options).unwrap();
    let watch = reader.watch(Duration::from_millis(2), |outcome| assert!(outcome.is_ok()));
    let expected = answers(reader.current().collection().unwrap());
    assert_eq!(expected.0[0], PARTITIONS * DOCUMENTS);

    let (done, queries) = (AtomicBool::new(false), AtomicU64::new(0));
    let seen = std::thread::scope(|scope| {
        let _stop = StopOnDrop(&done);
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    let now = reader.current();
                    assert!(answers(now.collection().unwrap()) == expected, "an answer changed");
                    queries.fetch_add(1, Relaxed);
                }
            });
        }
        // Compaction runs only once it is started.
        let merged = Arc::new(AtomicU64::new(0));
        let count = merged.clone();
        let collection = Arc::new(collection);
        let merging = collection.compact_every(policy(), Duration::from_millis(1), move |merge| {
            merge.unwrap();
            count.fetch_add(1, Relaxed);
        });
        let (start, mut seen) = (Instant::now(), vec![PARTITIONS as usize]);
        while seen.last().is_some_and(|parts| *parts > 10) {
            publish();
            let parts = reader.current().collection().unwrap().partitions().len();
            seen.push(parts);
            if start.elapsed() > Duration::from_secs(120) {
                done.store(true, Relaxed);
                panic!("{} merges, {parts} partitions", merged.load(Relaxed));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(merging);
        // Wait for some queries of the merged partitions.
        let target = queries.load(Relaxed) + 10;
        while queries.load(Relaxed) < target && start.elapsed() < Duration::from_secs(120) {
            std::thread::sleep(Duration::from_millis(1));
        }
        done.store(true, Relaxed);
        seen
    });
    drop(watch);
    assert!(queries.load(Relaxed) > 10);
    assert!(seen.is_sorted_by(|a, b| a >= b), "{seen:?}");
    let stats = reader.stats();
    assert!(stats.swaps > 0 && stats.failures == 0, "{stats:?}");
    // A merge is published once: the next publication sends nothing.
    publish();
    assert!(publish().is_none());
    reader.refresh().unwrap();
    reader.current().collection().unwrap().verify().unwrap();
    assert!(answers(reader.current().collection().unwrap()) == expected);
}
