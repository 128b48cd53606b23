//! Creating, opening, changing, locking and refreshing collections; limits of a builder; damaged
//! files.

use super::{TestDir, names, refused};
use firndb::ErrorKind;
use firndb::search::query::{all, asc, desc, eq};
use firndb::search::{
    Collection, Document, Field, GroupBy, Hit, PartitionBuilder, Query, Reader, Roles, Schema,
    Type, Value,
};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A partition of `count` documents whose field `version` is `version`.
fn version(version: u64, count: u64) -> PartitionBuilder {
    let fields = ["version", "n"].map(|name| Field::new(name, Type::U64, Roles::FULL));
    let mut builder = PartitionBuilder::new(Schema::new(fields).unwrap());
    for n in 0..count {
        let document = Document::new().set("version", version).set("n", n);
        builder.add(&document.payload(format!("{n} of version {version}"))).unwrap();
    }
    builder
}

/// Commits one partition.
fn put(collection: &Collection, name: &str, builder: PartitionBuilder) -> Reader {
    let mut change = collection.change().unwrap();
    change.put(name, builder).unwrap();
    change.commit().unwrap()
}

#[test]
fn create_refuses_an_existing_collection_and_open_a_missing_one() {
    let temp = TestDir::new();
    let dir = temp.path("deep/down");
    refused(Collection::open(&dir), ErrorKind::NotFound, &[]);
    refused(Collection::open(&temp.0), ErrorKind::NotFound, &["no collection"]);
    Collection::create(&dir).unwrap();
    let again =
        refused(Collection::create(&dir), ErrorKind::AlreadyExists, &["a collection already"]);
    assert_eq!(again.file(), Some(&*dir));
    let collection = Collection::open(&dir).unwrap();
    assert!(collection.reader().is_empty());
    let other = temp.path("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("letter.txt"), "dear").unwrap();
    refused(Collection::create(&other), ErrorKind::AlreadyExists, &["letter.txt"]);
    assert_eq!(fs::read(other.join("letter.txt")).unwrap(), b"dear");
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1, "a lock was left in the directory");
}

#[test]
fn inspect_shows_the_fields_of_an_emptied_collection() {
    let temp = TestDir::new();
    let (collection, _) = temp.collection([("a", version(1, 10))]);
    let mut change = collection.change().unwrap();
    change.remove("a").unwrap();
    change.commit().unwrap();
    let dir = temp.path("collection");
    let set = names(&dir).into_iter().find(|name| name.starts_with("set-")).unwrap();
    let seen = firndb::inspect(dir.join(set)).unwrap();
    assert_eq!(seen.sections.iter().map(|s| &*s.name).collect::<Vec<_>>(), ["members", "schema"]);
    let fact = ("fields of the partitions that were here", "version, n");
    let facts: Vec<(&str, &str)> = seen.facts.iter().map(|(k, v)| (&**k, &**v)).collect();
    assert!(facts.contains(&fact) && facts.contains(&("partitions", "0")), "{facts:?}");
    assert_eq!(firndb::verify(&dir, |_, _| {}).unwrap().files, 1);
}

#[test]
fn a_handle_sees_the_commits_of_another_after_a_refresh() {
    let temp = TestDir::new();
    let (one, _) = temp.collection([("a", version(1, 10))]);
    let two = Collection::open(temp.path("collection")).unwrap();
    assert!(!two.refresh().unwrap());
    put(&one, "a", version(2, 20));
    assert_eq!(two.reader().len(), 10);
    assert!(two.refresh().unwrap());
    assert_eq!((two.reader().len(), two.version()), (20, one.version()));
    // A change begins with the newest set, even without a refresh.
    put(&one, "b", version(3, 5));
    let reader = put(&two, "c", version(4, 1));
    assert_eq!(reader.len(), 26);
}

#[test]
fn a_reader_keeps_replaced_and_removed_partitions() {
    let temp = TestDir::new();
    let (collection, kept) = temp.collection([("a", version(1, 500)), ("b", version(1, 30))]);
    let before = names(&temp.path("collection"));
    let mut change = collection.change().unwrap();
    change.put("a", version(2, 7)).unwrap();
    change.remove("b").unwrap();
    let now = change.commit().unwrap();
    assert_eq!((now.len(), now.partitions().len()), (7, 1));
    let after = names(&temp.path("collection"));
    let parts = |names: &[String]| names.iter().filter(|n| n.ends_with(".part.firn")).count();
    assert_eq!((parts(&before), parts(&after)), (2, 1), "files that no set lists are removed");
    assert_eq!(kept.count(&eq("version", 1u64)).unwrap(), 530);
    assert_eq!(&*kept.payload(Hit { partition: 0, doc: 499 }).unwrap(), b"499 of version 1");
    kept.verify().unwrap();
}

#[test]
fn a_merged_partition_has_the_documents_of_all() {
    let temp = TestDir::new();
    let (collection, _) = temp.collection([("a", version(1, 50)), ("b", version(2, 30))]);
    let mut change = collection.change().unwrap();
    refused(change.merge(&["a", "c"], "all"), ErrorKind::NotFound, &["`c`"]);
    change.merge(&["b", "a"], "all").unwrap();
    let reader = change.commit().unwrap();
    let parts: Vec<String> = reader.partitions().into_iter().map(|part| part.name).collect();
    assert_eq!((parts, reader.len()), (vec!["all".to_string()], 80));
    assert_eq!(reader.count(&eq("version", 2u64)).unwrap(), 30);
    let hit = Hit { partition: 0, doc: 30 };
    assert_eq!(&*reader.payload(hit).unwrap(), b"0 of version 1", "in the order of the names");
    reader.verify().unwrap();
}

#[test]
fn a_contradicting_schema_is_refused_at_commit_without_a_change() {
    let temp = TestDir::new();
    let (collection, _) = temp.collection([("a", version(1, 3))]);
    let (before, number) = (names(&temp.path("collection")), collection.version());
    let clash = Schema::new([Field::new("n", Type::String, Roles::FULL).nullable()]).unwrap();
    let mut change = collection.change().unwrap();
    change.put("z", PartitionBuilder::new(clash)).unwrap();
    change.put("b", version(1, 4)).unwrap();
    refused(change.commit(), ErrorKind::InvalidArgument, &["`n`", "`z`"]);
    assert_eq!((collection.reader().len(), collection.version()), (3, number));
    assert_eq!(Collection::open(temp.path("collection")).unwrap().reader().len(), 3);
    // The next change removes the partitions of the refused one.
    put(&collection, "a", version(2, 3));
    assert_eq!(names(&temp.path("collection")).len(), before.len());
}

#[test]
fn a_dropped_change_has_no_effect() {
    let temp = TestDir::new();
    let (collection, _) = temp.collection([("a", version(1, 3))]);
    let mut change = collection.change().unwrap();
    change.put("a", version(2, 9)).unwrap();
    drop(change);
    assert_eq!(collection.reader().count(&eq("version", 1u64)).unwrap(), 3);
    let unchanged = collection.change().unwrap().commit().unwrap();
    assert_eq!((unchanged.len(), collection.version()), (3, 2), "no new set for no change");
}

#[test]
fn changes_of_one_handle_wait_for_each_other() {
    let temp = TestDir::new();
    let (collection, _) = temp.collection([("a", version(1, 3))]);
    let first = collection.change().unwrap();
    let (started, starts) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let change = collection.change().unwrap();
            started.send(()).unwrap();
            change.commit().unwrap();
        });
        assert!(starts.recv_timeout(Duration::from_millis(100)).is_err(), "two changes at once");
        drop(first);
        starts.recv_timeout(Duration::from_secs(60)).unwrap();
    });
    // A change of a second handle does not wait.
    let other = Collection::open(temp.path("collection")).unwrap();
    let _change = collection.change().unwrap();
    refused(other.change(), ErrorKind::Locked, &["writing"]);
}

/// The environment variable that passes the collection to [`hold_a_change`].
const HELD: &str = "FIRNDB_TEST_HELD";

/// The other process of the test below: begins a change, reports it, and ends with its standard
/// input.
#[test]
#[ignore = "started by a_change_in_another_process_holds_the_lock_until_it_ends"]
fn hold_a_change() {
    let dir = std::env::var_os(HELD).unwrap();
    let collection = Collection::open(Path::new(&dir)).unwrap();
    let _change = collection.change().unwrap();
    println!("\nlocked");
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Starts the other process and waits until it has the lock. Returns it, and its output, which must
/// stay open.
fn other_process(dir: &Path) -> (Child, impl BufRead) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["changes::hold_a_change", "--exact", "--ignored", "--nocapture"])
        .env(HELD, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let locked = output.by_ref().lines().map_while(Result::ok).any(|line| line == "locked");
    assert!(locked, "the other process did not get the lock");
    (child, output)
}

#[test]
fn a_change_in_another_process_holds_the_lock_until_it_ends() {
    let temp = TestDir::new();
    let (collection, _) = temp.collection([("a", version(1, 3))]);
    let dir = temp.path("collection");
    for killed in [false, true] {
        let (mut child, _output) = other_process(&dir);
        let error = refused(collection.change(), ErrorKind::Locked, &["writing"]);
        assert_eq!(error.file(), Some(&*dir.join("lock")));
        assert_eq!(collection.reader().count(&all()).unwrap(), 3, "readers need no lock");
        if killed {
            child.kill().unwrap();
        } else {
            child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
        }
        child.wait().unwrap();
        collection.change().unwrap();
    }
}

#[test]
fn documents_beyond_the_memory_limit_are_refused() {
    let mut builder = version(1, 0).memory_limit(1 << 20);
    let mut added = 0u64;
    let error = loop {
        let document = Document::new().set("version", added).set("n", added);
        match builder.add(&document) {
            Ok(()) => added += 1,
            Err(error) => break error,
        }
        assert!(added < 1_000_000, "the limit of 1 MiB has no effect");
    };
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("memory limit") && added > 1_000, "{added}: {error}");
    // The accepted documents are complete.
    let temp = TestDir::new();
    let (_, reader) = temp.collection([("a", builder)]);
    assert_eq!(reader.len(), added);
    assert_eq!(reader.count(&eq("n", added - 1)).unwrap(), 1);
}

/// Mode and length of the unnamed files of a directory that this process has open.
fn unnamed_files(dir: &Path) -> Vec<(u32, u64)> {
    use std::os::unix::fs::MetadataExt;
    let (dir, mut found) = (dir.canonicalize().unwrap(), Vec::new());
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    for file in open.map(|entry| entry.path()) {
        let is_there = |target: PathBuf| target.parent() == Some(&*dir);
        if fs::read_link(&file).is_ok_and(is_there)
            && let Ok(meta) = fs::metadata(&file)
            && meta.nlink() == 0
        {
            found.push((meta.mode() & 0o7777, meta.len()));
        }
    }
    // Each file has two handles.
    found.dedup();
    found
}

#[test]
fn payloads_beyond_a_quarter_of_the_limit_spill_into_an_unnamed_file() {
    let temp = TestDir::new();
    let dir = temp.path("spill");
    fs::create_dir(&dir).unwrap();
    let field = Field::new("n", Type::U64, Roles::FULL);
    let payload = |n: u64| vec![n as u8; (n * 37 % 3_000) as usize];
    let build = || {
        let schema = Schema::new([field.clone()]).unwrap();
        let mut builder = PartitionBuilder::new(schema).memory_limit(1 << 20).temp_dir(&dir);
        for n in 0..2_000 {
            builder.add(&Document::new().set("n", n).payload(payload(n))).unwrap();
        }
        builder
    };
    let builder = build();
    assert!(names(&dir).is_empty(), "the spill file has a name");
    if cfg!(target_os = "linux") {
        let spilled = unnamed_files(&dir);
        assert!(matches!(spilled[..], [(0o600, len)] if len > 2 << 20), "{spilled:?}");
    }
    let (_, reader) = temp.collection([("a", builder)]);
    assert!(unnamed_files(&dir).is_empty(), "the spill file is left after the build");
    for hit in reader.search(&Query::new(all())).unwrap().hits {
        assert_eq!(&*reader.payload(hit).unwrap(), &payload(hit.doc.into())[..]);
    }
    drop(build());
    assert!(unnamed_files(&dir).is_empty(), "the spill file is left after a dropped builder");
    assert!(names(&dir).is_empty());
}

#[test]
fn verify_finds_a_damaged_byte_and_names_the_file() {
    let temp = TestDir::new();
    let (_, reader) = temp.collection([("a", version(1, 300)), ("b", version(2, 40))]);
    let dir = temp.path("collection");
    let mut checked = Vec::new();
    let report = firndb::verify(&dir, |path, bytes| checked.push((path.to_path_buf(), bytes)));
    let report = report.unwrap();
    assert_eq!((report.files, report.bytes), (3, checked.iter().map(|(_, bytes)| bytes).sum()));
    drop(reader);
    let victim = names(&dir).into_iter().find(|name| name.starts_with("b.")).unwrap();
    let mut bytes = fs::read(dir.join(&victim)).unwrap();
    bytes[100] ^= 0x10;
    // As a new file, since published files are never modified.
    fs::remove_file(dir.join(&victim)).unwrap();
    fs::write(dir.join(&victim), &bytes).unwrap();
    let error = refused(firndb::verify(&dir, |_, _| {}), ErrorKind::Corrupt, &["checksum"]);
    assert_eq!(error.file(), Some(&*dir.join(&victim)));
    assert!(error.offset().is_some());
    let (other, file) = (Collection::create(temp.path("other")).unwrap(), dir.join(&victim));
    let put = other.change().unwrap().put_file("copy", &file);
    refused(put, ErrorKind::Corrupt, &["checksum"]);
    fs::remove_file(&file).unwrap();
    refused(firndb::verify(&dir, |_, _| {}), ErrorKind::NotFound, &[]);
    refused(Collection::open(&dir), ErrorKind::Corrupt, &["missing"]);
}

#[test]
fn verify_succeeds_while_the_collection_changes() {
    let temp = TestDir::new();
    let dir = temp.path("collection");
    let (collection, _) = temp.collection([("a", version(1, 10)), ("b", version(1, 10))]);
    // After each checked file a change replaces a partition, so that verify has to begin again with
    // the newest set.
    let mut changes = 0;
    let report = firndb::verify(&dir, |_, _| {
        changes += 1;
        if changes <= 20 {
            put(&collection, ["a", "b"][changes % 2], version(changes as u64 + 1, 10));
        }
    });
    assert_eq!(report.unwrap().files, 3);
    assert!(changes > 20, "verify saw {changes} files");
    // A file that is missing from the newest set is an error, not a reason to retry.
    let file = names(&dir).into_iter().find(|name| name.starts_with("a.")).unwrap();
    fs::remove_file(dir.join(file)).unwrap();
    refused(firndb::verify(&dir, |_, _| {}), ErrorKind::NotFound, &[]);
}

/// Commits one version after another to the collection `FIRNDB_KILL`, and prints each durable one.
#[test]
#[ignore = "started by a_killed_writer_leaves_the_last_durable_set_or_the_next"]
fn write_until_killed() {
    let collection = Collection::open(Path::new(&std::env::var("FIRNDB_KILL").unwrap())).unwrap();
    let first = version_of(&collection.reader()).unwrap();
    for number in first + 1.. {
        let mut change = collection.change().unwrap();
        for name in ["a", "b", "c"] {
            change.put(name, version(number, 20 + number % 5)).unwrap();
        }
        change.commit().unwrap();
        println!("durable {number}");
    }
}

/// The version of all documents, or `None` if there are several.
fn version_of(reader: &Reader) -> Option<u64> {
    let by = GroupBy::new(["version"]);
    let groups = reader.group_by(&all(), &by).unwrap();
    match &groups[..] {
        [group] if group.count == reader.len() => match group.key[0] {
            Some(Value::U64(number)) => Some(number),
            _ => None,
        },
        _ => None,
    }
}

#[test]
fn a_killed_writer_leaves_the_last_durable_set_or_the_next() {
    const ROUNDS: u64 = 32;
    let temp = TestDir::new();
    let dir = temp.path("collection");
    drop(temp.collection(["a", "b", "c"].map(|name| (name, version(1, 20)))));
    let mut durable = 1;
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["changes::write_until_killed", "--exact", "--ignored", "--nocapture"])
            .env("FIRNDB_KILL", &dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut read_line = |line: std::io::Result<String>| {
            if let Some(number) = line.unwrap().strip_prefix("durable ") {
                durable = number.parse().unwrap();
            }
        };
        // Kill after some commits, at a different time in each round.
        lines.by_ref().take(4).for_each(&mut read_line);
        thread::sleep(Duration::from_micros(round * 347 % 5_000));
        child.kill().unwrap();
        child.wait().unwrap();
        lines.for_each(&mut read_line);
        firndb::verify(&dir, |_, _| {}).unwrap();
        let collection = Collection::open(&dir).unwrap();
        let found = version_of(&collection.reader());
        let next = [durable, durable + 1].map(Some);
        assert!(next.contains(&found), "round {round}: {found:?} after {durable}");
        durable = found.unwrap();
    }
    assert!(durable > ROUNDS, "{durable} changes in {ROUNDS} rounds");
    let (collection, number) = (Collection::open(&dir).unwrap(), durable + 1);
    put(&collection, "a", version(number, 1));
    let names = names(&dir);
    assert_eq!(names.len(), 5, "leftovers of killed writers: {names:?}");
}

#[test]
fn an_order_skips_a_field_that_no_document_has() {
    let temp = TestDir::new();
    let order = || [asc("absent"), desc("n")];
    let schema = || Schema::dynamic(Roles::FULL).order_by(order()).unwrap();
    let build = |with: bool| {
        let mut builder = PartitionBuilder::new(schema());
        for n in [3u64, 9, 1] {
            let mut document = Document::new().set("n", n);
            if with {
                document.push("absent", 10 - n);
            }
            builder.add(&document).unwrap();
        }
        builder
    };
    let (_, reader) = temp.collection([("a", build(false)), ("b", build(true))]);
    reader.verify().unwrap();
    let read = |query: &Query| -> Vec<Value> {
        let hits = reader.search(query).unwrap().hits;
        hits.into_iter().map(|hit| reader.value(hit, "n").unwrap().unwrap()).collect()
    };
    let numbers = |numbers: [u64; 6]| numbers.map(Value::from).to_vec();
    assert_eq!(read(&Query::new(all())), numbers([9, 3, 1, 9, 3, 1]));
    let ordered = order().into_iter().fold(Query::new(all()), Query::order_by);
    assert_eq!(read(&ordered), numbers([9, 3, 1, 9, 3, 1]));
    assert_eq!(read(&Query::new(all()).order_by(asc("n"))), numbers([1, 1, 3, 3, 9, 9]));
}
