//! Compaction changes no answer, also while other threads query the collection and other handles
//! change it.

use super::{Store, open, store};
use crate::search::model::query::{all, asc, desc, eq, lt};
use crate::search::testing::Rng;
use crate::search::{
    Collection, Document, Facet, Field, Merge, MergePolicy, PartitionBuilder, Query, Reader, Roles,
    Schema, Type,
};
use crate::{ErrorKind, Result};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

const SEED: u64 = 0xC0_4AC7;

fn fields() -> Schema {
    let schema = Schema::new([
        Field::new("id", Type::U64, Roles::FULL),
        Field::new("rank", Type::I64, Roles::FULL).nullable(),
        Field::new("word", Type::String, Roles::FILTERABLE.with(Roles::STORED)).multi(),
    ]);
    schema.unwrap()
}

/// Documents with these ids and few distinct ranks, so that orders have ties.
fn builder(schema: &Schema, rng: &mut Rng, ids: std::ops::Range<u64>) -> PartitionBuilder {
    let mut builder = PartitionBuilder::new(schema.clone());
    for id in ids {
        let mut document = Document::new().set("id", id).payload(format!("document {id}"));
        if rng.below(9) > 0 {
            document.push("rank", rng.below(4) as i64);
        }
        (0..rng.below(3)).for_each(|_| document.push("word", format!("w{}", rng.below(6))));
        builder.add(&document).unwrap();
    }
    builder
}

/// Partitions of 0 to 12 documents, some of 60.
fn collection(schema: &Schema, rng: &mut Rng, partitions: u64) -> Store {
    let store = store();
    let mut change = store.collection.change().unwrap();
    let mut next = 0;
    for p in 0..partitions {
        let documents = if rng.below(8) == 0 { 60 } else { rng.below(13) as u64 };
        change.put(&format!("p{p:03}"), builder(schema, rng, next..next + documents)).unwrap();
        next += documents;
    }
    change.commit().unwrap();
    store
}

fn policy() -> MergePolicy {
    MergePolicy { small: 50, most_documents: 100, at_least: 3, ..MergePolicy::default() }
}

/// The answers of a reader: all documents in several orders, pages by page token, counts, facets.
fn answers(reader: &Reader) -> Result<Vec<String>> {
    let mut answers = Vec::new();
    let queries = [
        Query::new(all()),
        Query::new(lt("rank", 2)).order_by(asc("rank")),
        Query::new(all()).order_by(desc("rank")).limit(40).with_count(),
        Query::new(eq("word", "w1")).order_by(desc("rank")).order_by(asc("id")),
    ];
    for mut query in queries {
        for _ in 0..3 {
            let page = reader.search(&query)?;
            let payloads = page.hits.iter().map(|hit| reader.payload(*hit));
            let payloads = payloads.collect::<Result<Vec<_>>>()?;
            answers.push(format!("{:?} {:?}", page.count, payloads));
            let Some(last) = page.hits.get(page.hits.len() / 2) else { break };
            query.after = Some(reader.page_token(&query, *last)?);
        }
    }
    let facet = Facet { field: "word".into(), top: 9, disjunctive: false };
    answers.push(format!("{:?}", reader.facets(&lt("rank", 3), &[facet])?));
    Ok(answers)
}

#[test]
fn compaction_changes_no_answer() {
    println!("seed {SEED:#x}");
    let mut rng = Rng(SEED);
    for round in 0..12 {
        let Store { disk, collection } = collection(&fields(), &mut rng, 40);
        let before = answers(&collection.reader()).unwrap();
        let planned = collection.compact_plan(&policy()).unwrap();
        let mut merges = Vec::new();
        collection.compact(&policy(), |merge| merges.push(merge.clone())).unwrap();
        assert_eq!(planned, merges);
        assert!(!merges.is_empty());
        for reader in [collection.reader(), open(&disk).unwrap().reader()] {
            reader.verify().unwrap();
            assert_eq!(answers(&reader).unwrap(), before, "round {round}");
            let mut left = 40;
            for Merge { from, into, documents } in &merges {
                left = left + 1 - from.len();
                let parts = reader.partitions();
                let part = parts.iter().find(|part| part.name == *into).unwrap();
                assert_eq!(u64::from(part.documents), *documents);
                assert!(*documents <= 100);
            }
            assert_eq!(reader.partitions().len(), left);
        }
        // Compaction reaches its end within a few rounds.
        let mut rounds = 0;
        while !collection.compact_plan(&policy()).unwrap().is_empty() {
            collection.compact(&policy(), |_| ()).unwrap();
            rounds += 1;
        }
        assert!(rounds < 6);
        assert_eq!(answers(&collection.reader()).unwrap(), before);
    }
}

/// Neighbouring partitions whose documents would interleave are not merged, because that would
/// change the order of ties.
#[test]
fn ordered_partitions_are_merged_only_if_they_follow_each_other_in_their_order() {
    println!("seed {SEED:#x}");
    let mut rng = Rng(SEED + 1);
    let by_rank = fields().order_by([desc("rank")]).unwrap();
    let store = collection(&by_rank, &mut rng, 30);
    let before = answers(&store.collection.reader()).unwrap();
    store.collection.compact(&policy(), |_| ()).unwrap();
    assert_eq!(answers(&store.collection.reader()).unwrap(), before);

    // Ids ascend from partition to partition, so these can be merged.
    let by_id = fields().order_by([asc("id")]).unwrap();
    let store = collection(&by_id, &mut rng, 30);
    let before = answers(&store.collection.reader()).unwrap();
    let mut merges = 0;
    store.collection.compact(&policy(), |_| merges += 1).unwrap();
    assert!(merges > 0);
    assert_eq!(answers(&store.collection.reader()).unwrap(), before);

    let by_id = fields().order_by([desc("id")]).unwrap();
    let store = collection(&by_id, &mut rng, 30);
    assert_eq!(store.collection.compact_plan(&policy()).unwrap(), []);
}

#[test]
fn concurrent_readers_see_unchanged_answers_during_compaction() {
    println!("seed {SEED:#x}");
    let mut rng = Rng(SEED + 2);
    let Store { disk, collection } = collection(&fields(), &mut rng, 60);
    let expected = answers(&collection.reader()).unwrap();
    let (done, rounds) = (&AtomicBool::new(false), &AtomicUsize::new(0));
    let query = |reading: Collection, warm: bool| {
        let mut sets = 1;
        while !done.load(Ordering::Relaxed) {
            sets += usize::from(reading.refresh().unwrap());
            let reader = reading.reader();
            if warm {
                reader.warm().unwrap();
            }
            assert_eq!(answers(&reader).unwrap(), expected);
            rounds.fetch_add(1, Ordering::Relaxed);
        }
        sets
    };
    let query = &query;
    thread::scope(|scope| {
        // Opened here, because a thread may start after the first merge.
        let others = [false, true].map(|warm| {
            let reading = open(&disk).unwrap();
            scope.spawn(move || query(reading, warm))
        });
        let mut merges = 0;
        while !collection.compact_plan(&policy()).unwrap().is_empty() {
            let merged = collection.compact(&policy(), |_| {
                merges += 1;
                // Wait until the readers have queried this set, or one has failed.
                let before = rounds.load(Ordering::Relaxed);
                while rounds.load(Ordering::Relaxed) < before + 3
                    && others.iter().all(|other| !other.is_finished())
                {
                    thread::yield_now();
                }
            });
            merged.unwrap();
        }
        done.store(true, Ordering::Relaxed);
        let sets: usize = others.map(|other| other.join().unwrap()).iter().sum();
        println!("{merges} merges, {rounds:?} rounds of queries, {sets} sets seen");
        assert!(merges > 3 && sets > merges);
    });
}

#[test]
fn a_run_of_changed_partitions_is_not_merged() {
    println!("seed {SEED:#x}");
    let mut rng = Rng(SEED + 3);
    let Store { disk, collection } = collection(&fields(), &mut rng, 80);
    let other = open(&disk).unwrap();
    let stale = collection.runs(&policy()).unwrap();
    let gone = &stale[0].merge.from[1];
    let mut change = other.change().unwrap();
    change.remove(gone).unwrap();
    change.commit().unwrap();
    assert!(!collection.merge_run(&stale[0]).unwrap(), "one of its partitions was removed");
    assert!(collection.merge_run(&stale[1]).unwrap());
    let last = stale[2].merge.from.last().unwrap();
    let mut change = other.change().unwrap();
    change.put(last, builder(&fields(), &mut rng, 0..0)).unwrap();
    change.put(&format!("{last}-"), builder(&fields(), &mut rng, 0..0)).unwrap();
    change.commit().unwrap();
    assert!(!collection.merge_run(&stale[2]).unwrap(), "one of its partitions was replaced");
    assert_eq!(answers(&collection.reader()).unwrap(), answers(&other.reader()).unwrap());

    let change = other.change().unwrap();
    if !collection.compact_plan(&policy()).unwrap().is_empty() {
        let locked = collection.compact(&policy(), |_| ()).unwrap_err();
        assert_eq!(locked.kind(), ErrorKind::Locked);
    }
    drop(change);
}

#[test]
fn a_background_thread_merges_new_partitions() {
    println!("seed {SEED:#x}");
    let mut rng = Rng(SEED + 4);
    let Store { disk, collection } = collection(&fields(), &mut rng, 20);
    let collection = Arc::new(collection);
    let (send, merges) = mpsc::channel();
    let thread = collection.compact_every(policy(), Duration::from_millis(1), move |outcome| {
        let _ = send.send(outcome.cloned().map_err(|error| error.to_string()));
    });
    let first = merges.recv().unwrap().unwrap();
    assert!(first.from.len() >= 3);
    // Another handle adds partitions. It retries while the thread holds the lock.
    let other = open(&disk).unwrap();
    let mut change = loop {
        match other.change() {
            Err(e) if e.kind() == ErrorKind::Locked => thread::yield_now(),
            change => break change.unwrap(),
        }
    };
    for p in 0..4 {
        change.put(&format!("q{p}"), builder(&fields(), &mut rng, p..p + 3)).unwrap();
    }
    change.commit().unwrap();
    let of_new = |merge: &Merge| merge.from.iter().any(|name| name.starts_with('q'));
    while !merges.recv().unwrap().is_ok_and(|merge| of_new(&merge)) {}
    drop(thread);
    assert!(merges.iter().count() < 100, "the thread ends when its handle is dropped");
}

/// A partition of one document with 2,100 fields, which no partition of another number has.
fn wide(number: u64) -> PartitionBuilder {
    let mut builder = PartitionBuilder::new(Schema::dynamic(Roles::STORED));
    let fields = (0..2100u64).map(|i| (format!("f{}", number * 2100 + i), i));
    let document = fields.fold(Document::new(), |doc, (name, value)| doc.set(name, value));
    builder.add(&document).unwrap();
    builder
}

#[test]
fn a_merge_beyond_the_limit_of_fields_is_refused() {
    let Store { disk, collection } = store();
    let mut change = collection.change().unwrap();
    for (number, name) in (0..).zip(["a", "b"]) {
        change.put(name, wide(number)).unwrap();
    }
    let before = disk.files();
    let error = change.merge(&["a", "b"], "ab").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("4096 fields"), "{error}");
    assert_eq!(disk.files(), before, "nothing is written");
}

#[test]
fn a_run_that_cannot_be_merged_does_not_block_others() {
    let Store { collection, .. } = store();
    let mut change = collection.change().unwrap();
    for (number, name) in (0..).zip(["a1", "a2", "a3"]) {
        change.put(name, wide(number)).unwrap();
    }
    for name in ["b1", "b2", "b3"] {
        let schema = Schema::new([Field::new("id", Type::U64, Roles::STORED)]).unwrap();
        let mut builder = PartitionBuilder::new(schema);
        builder.add(&Document::new().set("id", 1u64)).unwrap();
        change.put(name, builder).unwrap();
    }
    change.commit().unwrap();
    let mut merged = Vec::new();
    let error = collection.compact(&policy(), |merge| merged.push(merge.into.clone()));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(merged, ["b1.to.b3"]);
}
