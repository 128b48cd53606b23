//! Tests of single operations of the indexer.

use super::*;
use crate::indexer::Removals;
use crate::{Error, ErrorKind};

fn two_feeds(disk: &Arc<SimDisk>) -> Indexer {
    let mut indexer = open_as(disk, Partitioning::by_field("group")).unwrap();
    let a = feed([("k1", "red", 1), ("k2", "red", 1), ("k3", "blue", 1), ("k4", "green", 1)]);
    let applied = indexer.apply("a", items(&a)).unwrap();
    assert_eq!((applied.added, applied.dirty.len()), (4, 3));
    assert_eq!(indexer.publish().unwrap().rebuilt, ["blue", "green", "red"]);
    indexer
}

#[test]
fn a_feed_adds_updates_removes_and_dirties_only_changed_partitions() {
    let disk = SimDisk::new();
    let mut indexer = two_feeds(&disk);
    let before = disk.files();
    let a = feed([("k1", "red", 2), ("k2", "red", 1), ("k3", "blue", 1), ("k5", "red", 1)]);
    let applied = indexer.apply("a", items(&a)).unwrap();
    let counts = (applied.added, applied.updated, applied.removed, applied.unchanged);
    assert_eq!(counts, (1, 1, 1, 2));
    assert_eq!(applied.dirty, ["green", "red"]);
    assert_eq!(indexer.status().unwrap().dirty, ["green", "red"]);
    let done = indexer.publish().unwrap();
    assert_eq!((done.rebuilt, done.removed), (vec!["red".to_string()], vec!["green".to_string()]));
    assert_eq!((done.documents, done.version), (3, indexer.collection().version()));
    let expected = [("blue", 1), ("red", 3)].map(|(name, n)| (name.to_string(), n));
    let sizes = published(&indexer).into_iter().map(|(name, feed)| (name, feed.len()));
    assert_eq!(sizes.collect::<Vec<_>>(), expected);
    let is_blue = |path: &&std::path::PathBuf| path.to_string_lossy().contains("/blue.");
    let blue = before.keys().find(is_blue).unwrap();
    assert_eq!(disk.files().get(blue), before.get(blue), "blue was not touched");
    let again = indexer.apply("a", items(&a)).unwrap();
    assert_eq!((again.unchanged, again.dirty.len()), (4, 0));
    assert_eq!(indexer.publish().unwrap().rebuilt.len(), 0);
}

#[test]
fn the_document_of_the_smallest_source_is_published() {
    let disk = SimDisk::new();
    let mut indexer = two_feeds(&disk);
    // The document of a source later in the alphabet is hidden by that of `a`...
    let applied = indexer.apply("b", items(&feed([("k1", "red", 7), ("k9", "red", 7)]))).unwrap();
    assert_eq!((applied.added, applied.dirty), (2, vec!["red".to_string()]));
    indexer.publish().unwrap();
    assert_eq!(published(&indexer)["red"]["k1"], doc("red", 1));
    let applied = change(&mut indexer, "b", &[("k1", Some(doc("red", 8)))]).unwrap();
    assert_eq!((applied.updated, applied.dirty.len()), (1, 0));
    // ... until the latter is removed.
    assert!(indexer.delete("a", "k1").unwrap());
    indexer.publish().unwrap();
    assert_eq!(published(&indexer)["red"]["k1"], doc("red", 8));
    // The document of a source earlier in the alphabet replaces them, whenever it is added.
    assert!(indexer.upsert("A", "k9", &document("k9", &doc("blue", 9))).unwrap());
    assert_eq!(indexer.publish().unwrap().rebuilt, ["blue", "red"]);
    let content = published(&indexer);
    assert_eq!(content["blue"]["k9"], doc("blue", 9));
    assert!(!content["red"].contains_key("k9"));
    let sources = indexer.status().unwrap().sources;
    assert_eq!(sources, [("A", 1), ("a", 3), ("b", 2)].map(|(s, n)| (s.to_string(), n)));
}

#[test]
fn upsert_and_delete_report_whether_they_changed_anything() {
    let disk = SimDisk::new();
    let mut indexer = two_feeds(&disk);
    assert!(!indexer.upsert("a", "k1", &document("k1", &doc("red", 1))).unwrap());
    assert!(!indexer.delete("b", "k1").unwrap());
    assert!(!indexer.delete("a", "k8").unwrap());
    assert_eq!(indexer.status().unwrap().dirty.len(), 0);
    assert!(indexer.upsert("a", "k8", &document("k8", &doc("red", 1))).unwrap());
    assert!(indexer.delete("a", "k8").unwrap());
    assert_eq!(indexer.status().unwrap().dirty, ["red"]);
}

#[test]
fn the_last_document_of_a_repeated_key_is_used() {
    let disk = SimDisk::new();
    let mut indexer = two_feeds(&disk);
    let versions = [2, 3, 1].map(|v| Ok(("k1", document("k1", &doc("red", v)))));
    let applied = indexer.apply("a", versions).unwrap();
    assert_eq!((applied.updated, applied.repeated, applied.removed), (1, 2, 3));
    indexer.publish().unwrap();
    assert_eq!(published(&indexer), Content::from([("red".into(), feed([("k1", "red", 1)]))]));
}

#[test]
fn an_invalid_feed_changes_nothing() {
    let disk = SimDisk::new();
    let mut indexer = two_feeds(&disk);
    let before = published(&indexer);
    let many: Feed = (0..30).map(|n| (format!("n{n}"), doc("red", n))).collect();
    let bad = Document::new().set("group", "red");
    let cases: [(Result<(String, Document)>, &str); 4] = [
        (Ok(("x".into(), bad)), "document `x`: field `version` is missing"),
        (Ok((String::new(), Document::new())), "a key has 0 bytes"),
        (Ok(("y".into(), Document::new().set("versio", 1i64))), "fields are `version`"),
        (Err(Error::invalid("row 31 cannot be read")), "row 31"),
    ];
    for (case, message) in cases {
        let error = indexer.apply("a", items(&many).chain([case])).unwrap_err();
        assert!(error.message().contains(message), "{error}");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(indexer.status().unwrap().dirty.len(), 0);
    indexer.publish().unwrap();
    assert_eq!(published(&indexer), before);
    // A rejected document can be skipped, and an unfinished feed changes nothing.
    let mut feed = indexer.feed("a").unwrap();
    feed.add("k1", &document("k1", &doc("red", 1))).unwrap();
    feed.add("x", &Document::new()).unwrap_err();
    feed.add("k2", &document("k2", &doc("red", 2))).unwrap();
    drop(feed);
    assert_eq!(indexer.status().unwrap().dirty.len(), 0);
    let mut feed = indexer.feed("a").unwrap();
    feed.add("x", &Document::new()).unwrap_err();
    feed.add("k2", &document("k2", &doc("red", 2))).unwrap();
    assert_eq!(feed.finish().unwrap().removed, 3);
    assert!(indexer.apply("", items(&many)).unwrap_err().message().contains("0 bytes"));
}

#[test]
fn an_index_opens_only_with_its_schema_and_partitioning() {
    let disk = SimDisk::new();
    assert_eq!(open(&disk).err().unwrap().kind(), ErrorKind::NotFound);
    two_feeds(&disk).close().unwrap();
    let other = Indexer::open_on(
        disk.clone() as DiskRef,
        Path::new(DIR),
        Some((Schema::default(), Partitioning::by_hash(3))),
        options(),
    );
    assert!(other.err().unwrap().message().contains("another schema"));
    let error = open_as(&disk, Partitioning::by_hash(3)).err().unwrap();
    assert!(error.message().contains("repartition"), "{error}");
    let indexer = open_as(&disk, Partitioning::by_field("group")).unwrap();
    assert_eq!(open(&disk).err().unwrap().kind(), ErrorKind::Locked);
    assert_eq!(indexer.status().unwrap().documents, 4);
}

#[test]
fn repartitions_and_rebuilds_a_lost_collection() {
    let disk = SimDisk::new();
    let mut indexer = two_feeds(&disk);
    let a: Feed = published(&indexer).into_values().flatten().collect();
    let sources = BTreeMap::from([("a".to_string(), a)]);
    for partitioning in [Partitioning::by_hash(7), Partitioning::by_field_and_hash("group", 2)] {
        let before = published(&indexer);
        indexer.repartition(partitioning.clone()).unwrap();
        assert_eq!(published(&indexer), before, "what is published serves on");
        indexer.publish().unwrap();
        assert_eq!(published(&indexer), expected(&sources, &partitioning));
    }
    let partitioning = indexer.partitioning().clone();
    drop(indexer);
    for path in disk.files().into_keys().filter(|path| path.starts_with("/index/collection")) {
        crate::disk::Disk::remove(&*disk, &path).unwrap();
    }
    let mut indexer = open(&disk).unwrap();
    assert_eq!(published(&indexer).len(), 0);
    indexer.publish().unwrap();
    assert_eq!(published(&indexer), expected(&sources, &partitioning));
}

#[test]
fn several_threads_produce_the_same_files_as_one() {
    let many: Feed = (0..200).map(|n| (format!("n{n}"), doc(&format!("g{}", n % 5), n))).collect();
    let files = |threads| {
        let disk = SimDisk::new();
        let wanted = Some((schema(), Partitioning::by_hash(16)));
        let options = Options { threads, ..options() };
        let dir = Path::new(DIR);
        let mut indexer = Indexer::open_on(disk.clone() as DiskRef, dir, wanted, options).unwrap();
        indexer.apply("a", items(&many)).unwrap();
        assert_eq!(indexer.publish().unwrap().documents, 200);
        let is_part = |path: &Path| path.to_string_lossy().ends_with(".part.firn");
        let parts = disk.files().into_iter().filter(|(path, _)| is_part(path));
        parts.collect::<Vec<_>>()
    };
    let one = files(1);
    assert_eq!(one.len(), 16);
    assert_eq!(one, files(5));
}

#[test]
fn a_partition_over_the_memory_limit_fails_and_stays_dirty() {
    let disk = SimDisk::new();
    drop(two_feeds(&disk));
    let (dir, options) = (Path::new(DIR), Options { memory: 1, ..options() });
    let mut indexer = Indexer::open_on(disk.clone() as DiskRef, dir, None, options).unwrap();
    indexer.delete("a", "k1").unwrap();
    let error = indexer.publish().unwrap_err();
    assert!(error.message().starts_with("partition `red`: "), "{error}");
    assert_eq!(indexer.status().unwrap().dirty, ["red"]);
}

#[test]
fn too_many_partitions_are_rejected_before_any_is_written() {
    let disk = SimDisk::new();
    let mut indexer = open_as(&disk, Partitioning::by_field("group")).unwrap();
    let groups = crate::search::MAX_PARTITIONS + 1;
    let many: Feed = (0..groups).map(|n| (format!("n{n}"), doc(&format!("g{n}"), 1))).collect();
    indexer.apply("a", items(&many)).unwrap();
    let before = disk.files();
    let error = indexer.publish().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("index rebuild --partitions"), "{error}");
    assert_eq!(disk.files(), before);
    // Empty partitions do not count.
    indexer.delete("a", "n0").unwrap();
    indexer.repartition(Partitioning::by_hash(4)).unwrap();
    assert_eq!(indexer.publish().unwrap().documents as usize, groups - 1);
}

#[test]
fn an_owned_feed_does_what_a_feed_does_and_returns_the_index() {
    let disk = SimDisk::new();
    let indexer = two_feeds(&disk);
    let Err(not_begun) = indexer.into_feed("") else { panic!("a source needs a name") };
    assert_eq!(not_begun.error.kind(), ErrorKind::InvalidArgument);
    let add = |indexer: Indexer, n| {
        let mut feed = indexer.into_feed("a").unwrap_or_else(|e| panic!("{}", e.error));
        for (key, group) in [("k1", "red"), ("k6", "blue")] {
            feed.add(key, &document(key, &doc(group, n))).unwrap();
        }
        feed
    };
    let mut indexer = add(not_begun.index, 2).discard();
    assert!(indexer.status().unwrap().dirty.is_empty());
    let mut feed = add(indexer, 2);
    assert!(feed.add("", &Document::new()).is_err(), "the feed can be continued");
    feed.left_out(1);
    let (back, refused) = feed.finish();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let (back, applied) = add(back, 2).removals(Removals::All).finish();
    let applied = applied.unwrap();
    assert_eq!((applied.added, applied.updated, applied.removed), (1, 1, 3));
    let mut changes = back.into_changes("a").unwrap_or_else(|e| panic!("{}", e.error));
    changes.remove("k1").unwrap();
    let (back, applied) = changes.finish();
    assert_eq!(
        (applied.unwrap().removed, back.status().unwrap().sources),
        (1, vec![("a".to_string(), 1)])
    );
    indexer = back;
    indexer.publish().unwrap();
    assert_eq!(published(&indexer)["blue"]["k6"], doc("blue", 2));
}
