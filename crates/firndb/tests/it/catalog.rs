//! Readers of a catalog: switching versions while threads query, with and without warming, and a
//! moved cache directory.

use super::TestDir;
use firndb::catalog::{Catalog, CleanOptions, Generation, PublishOptions, ReaderOptions};
use firndb::search::query::{all, desc, eq, lte};
use firndb::search::{Document, Field, PartitionBuilder, Query, Reader, Roles, Schema, Type};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const PARTITIONS: u64 = 8;
const DOCUMENTS: u64 = 40;

fn partition(round: u64) -> PartitionBuilder {
    let round_field = Field::new("round", Type::U64, Roles::FULL);
    let mut builder = PartitionBuilder::new(Schema::new([round_field]).unwrap());
    for n in 0..DOCUMENTS {
        let document = Document::new().set("round", round);
        builder.add(&document.payload(format!("{round} {n}"))).unwrap();
    }
    builder
}

/// The numbers of mappings and of open files of this process in a directory; 0 on other systems
/// than Linux.
fn open_handles(dir: &Path) -> (usize, usize) {
    let dir = dir.to_str().unwrap();
    if cfg!(not(target_os = "linux")) {
        return (0, 0);
    }
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let maps = maps.lines().filter(|line| line.contains(dir)).count();
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let open = open.filter_map(|fd| fs::read_link(fd.path()).ok());
    (maps, open.filter(|path| path.starts_with(dir)).count())
}

fn files(dir: &Path) -> usize {
    fs::read_dir(dir).unwrap().count()
}

/// Asserts that all answers are of one complete version.
fn check(version: &Generation) {
    let round: u64 = version.version().labels["round"].parse().unwrap();
    let docs = version.collection().unwrap();
    assert_eq!(docs.count(&all()).unwrap(), PARTITIONS * DOCUMENTS);
    let newest = if round == 0 { PARTITIONS } else { 1 };
    let found = docs.count(&eq("round", round)).unwrap();
    assert_eq!(found, newest * DOCUMENTS, "round {round}");
    assert_eq!(docs.count(&eq("round", round + 1)).unwrap(), 0);
}

/// A reader whose cache directory was moved keeps its version, and does not touch a new directory
/// of the same name.
#[test]
fn a_reader_does_not_write_into_a_directory_that_replaced_its_cache() {
    let temp = TestDir::new();
    let (collection, _) = temp.collection([("a", partition(0))]);
    let catalog = Catalog::create(temp.path("catalog")).unwrap();
    let publish = || {
        catalog.publish("docs", temp.path("collection"), &PublishOptions::default()).unwrap();
    };
    publish();
    let open = |dir: &Path| catalog.reader("docs", dir, ReaderOptions::default());
    let (cache, moved) = (temp.path("cache"), temp.path("moved"));
    let reader = open(&cache).unwrap();
    fs::rename(&cache, &moved).unwrap();
    // Another reader creates its cache under the same name, with the same version.
    let other = open(&cache).unwrap();
    fs::write(cache.join(format!("{}.firn", "ab".repeat(32))), "mine").unwrap();
    let before = files(&cache);
    let mut change = collection.change().unwrap();
    change.put("a", partition(1)).unwrap();
    change.commit().unwrap();
    publish();
    assert_eq!(reader.refresh().unwrap_err().kind(), firndb::ErrorKind::Failed);
    assert_eq!((files(&cache), reader.stats().version), (before, 1));
    assert_eq!(reader.current().collection().unwrap().count(&all()).unwrap(), DOCUMENTS);
    assert!(other.refresh().unwrap());
    // A dropped reader releases its directory, even while a version of it is still in use.
    let current = other.current();
    drop(other);
    drop(open(&cache).unwrap());
    assert_eq!(current.version().number, 2);
    drop(reader);
    assert_eq!(open(&moved).unwrap().current().version().number, 2);
}

/// Runs a query on a version that was warmed. Asserts that all partitions are in bundles and that
/// the query has built none. Returns the memory of the bundles.
fn query_warm(docs: &Reader, query: &Query) -> u64 {
    let before = docs.bundle_memory();
    assert!(before > 0, "the version was not warmed");
    let page = docs.search(query).unwrap();
    assert_eq!(page.count, Some(PARTITIONS * DOCUMENTS));
    let explained = docs.explain(query).unwrap().to_string();
    let all = format!("{PARTITIONS} small partitions searched as 1 bundle");
    assert!(explained.contains(&all), "{explained}");
    assert_eq!(docs.bundle_memory(), before, "a query has built a bundle");
    before
}

/// With `warm(true)` from the first query on; by default after each switch, once queries have built
/// bundles.
#[test]
fn queries_after_a_switch_build_no_bundles() {
    for warm in [Some(true), None] {
        let temp = TestDir::new();
        let names: Vec<String> = (0..PARTITIONS).map(|p| format!("p{p}")).collect();
        let (collection, _) = temp.collection(names.iter().map(|n| (n.as_str(), partition(0))));
        let catalog = Catalog::create(temp.path("catalog")).unwrap();
        let publish = || {
            let options = PublishOptions::default();
            catalog.publish("docs", temp.path("collection"), &options).unwrap().version.number
        };
        publish();
        let options = ReaderOptions::new().warm(warm);
        let reader = catalog.reader("docs", temp.path("cache"), options).unwrap();
        let query = Query::new(lte("round", 1_000u64)).order_by(desc("round")).with_count();
        if warm.is_none() {
            let current = reader.current();
            let docs = current.collection().unwrap();
            (0..200).for_each(|_| drop(docs.search(&query).unwrap()));
        }
        let watch = reader.watch(Duration::from_millis(2), |_| ());
        let (done, queries) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let work = || {
                while !done.load(Relaxed) {
                    query_warm(reader.current().collection().unwrap(), &query);
                    queries.fetch_add(1, Relaxed);
                }
            };
            let threads = [scope.spawn(work), scope.spawn(work)];
            for round in 1..=40 {
                let mut change = collection.change().unwrap();
                change.put(&names[(round % PARTITIONS) as usize], partition(round)).unwrap();
                change.commit().unwrap();
                let published = publish();
                let deadline = Instant::now() + Duration::from_secs(60);
                let is_open = || reader.current().version().number == published;
                let all_run = || threads.iter().all(|thread| !thread.is_finished());
                while !is_open() && all_run() && Instant::now() < deadline {
                    std::thread::sleep(Duration::from_millis(1));
                }
                if !is_open() || !all_run() {
                    done.store(true, Relaxed);
                    panic!("version {published} was not opened in time, or a query failed");
                }
            }
            done.store(true, Relaxed);
        });
        drop(watch);
        let stats = reader.stats();
        assert_eq!((stats.swaps, stats.failures), (40, 0), "{stats:?}");
        assert!(queries.load(Relaxed) > 40);
    }
}

/// `FIRNDB_SWAPS` is the number of swaps: 10,080 is one per minute for a week.
#[test]
fn swapping_versions_fails_no_query_and_leaks_nothing() {
    let swaps = std::env::var("FIRNDB_SWAPS").map_or(300, |n| n.parse::<u64>().unwrap());
    let first: Vec<(String, PartitionBuilder)> =
        (0..PARTITIONS).map(|p| (format!("p{p}"), partition(0))).collect();
    let temp = TestDir::new();
    let (collection, _) =
        temp.collection(first.iter().map(|(name, _)| (name.as_str(), partition(0))));
    let catalog = Catalog::create(temp.path("catalog")).unwrap();
    let publish = |round: u64| {
        let labels = [("round".to_string(), round.to_string())].into();
        let options = PublishOptions::new().labels(labels);
        catalog.publish("docs", temp.path("collection"), &options).unwrap()
    };
    publish(0);
    let cache = temp.path("cache");
    let reader = catalog.reader("docs", &cache, ReaderOptions::default()).unwrap();
    let failures = std::sync::Arc::new(AtomicU64::new(0));
    let failed = failures.clone();
    let watch = reader.watch(Duration::from_millis(2), move |outcome| {
        if let Err(error) = outcome {
            println!("a refresh failed: {error}");
            failed.fetch_add(1, Relaxed);
        }
    });
    let (done, queries) = (AtomicBool::new(false), AtomicU64::new(0));
    let baseline = open_handles(&temp.0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    check(&reader.current());
                    queries.fetch_add(1, Relaxed);
                    std::thread::yield_now();
                }
            });
        }
        let clean = CleanOptions::new().keep(2).grace(Duration::ZERO);
        for round in 1..=swaps {
            let mut change = collection.change().unwrap();
            change.put(&format!("p{}", round % PARTITIONS), partition(round)).unwrap();
            change.commit().unwrap();
            let published = publish(round);
            assert_eq!(published.files_sent, 2, "a partition and the set");
            let deadline = Instant::now() + Duration::from_secs(60);
            while reader.current().version().number != published.version.number {
                if Instant::now() > deadline {
                    done.store(true, Relaxed);
                    panic!("version {} was not opened in time", published.version.number);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            if round % 20 == 0 {
                catalog.clean("docs", &clean).unwrap();
            }
        }
        catalog.clean("docs", &clean).unwrap();
        done.store(true, Relaxed);
    });
    drop(watch);
    let stats = reader.stats();
    println!("{} queries, {stats:?}", queries.load(Relaxed));
    assert_eq!((stats.swaps, stats.failures, failures.load(Relaxed)), (swaps, 0, 0));
    assert!(queries.load(Relaxed) > swaps);
    assert_eq!(open_handles(&temp.0), baseline, "mappings and open files");
    assert_eq!(files(&cache) as u64, PARTITIONS + 1 + 3, "files, the manifest, the mark, the lock");
    assert_eq!(files(&temp.path("catalog/docs/versions")), 2);
    assert!(files(&temp.path("catalog/docs/files")) as u64 <= PARTITIONS + 3);
}
