//! Creating, opening, changing, locking and refreshing collections; limits of a builder; files that
//! are damaged.

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
fn a_collection_is_created_once_and_opened_where_there_is_one() {
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
    assert_eq!(fs::read_dir(&other).unwrap().count(), 1, "a lock was left behind");
}

#[test]
fn an_emptied_collection_tells_what_it_held() {
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
fn a_handle_sees_the_commits_of_another_when_it_refreshes() {
    let temp = TestDir::new();
    let (one, _) = temp.collection([("a", version(1, 10))]);
    let two = Collection::open(temp.path("collection")).unwrap();
    assert!(!two.refresh().unwrap());
    put(&one, "a", version(2, 20));
    assert_eq!(two.reader().len(), 10);
    assert!(two.refresh().unwrap());
    assert_eq!((two.reader().len(), two.version()), (20, one.version()));
    // A change begins with the newest set, refreshed or not.
    put(&one, "b", version(3, 5));
    let reader = put(&two, "c", version(4, 1));
    assert_eq!(reader.len(), 26);
}

#[test]
fn a_reader_keeps_what_was_replaced_and_removed() {
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
    assert_eq!((parts(&before), parts(&after)), (2, 1), "what nobody names is removed");
    assert_eq!(kept.count(&eq("version", 1u64)).unwrap(), 530);
    assert_eq!(&*kept.payload(Hit { partition: 0, doc: 499 }).unwrap(), b"499 of version 1");
    kept.verify().unwrap();
}

#[test]
fn merged_partitions_are_one_with_the_documents_of_all() {
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
fn a_schema_that_contradicts_is_refused_at_commit_and_nothing_changes() {
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
    // The partitions that came to nothing go with the next change.
    put(&collection, "a", version(2, 3));
    assert_eq!(names(&temp.path("collection")).len(), before.len());
}

#[test]
fn a_change_that_is_dropped_leaves_everything_as_it_was() {
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
fn in_one_process_a_change_waits_for_its_turn() {
    let temp = TestDir::new();
    let (collection, _) = temp.collection([("a", version(1, 3))]);
    let first = collection.change().unwrap();
    let (began, turn) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let change = collection.change().unwrap();
            began.send(()).unwrap();
            change.commit().unwrap();
        });
        assert!(turn.recv_timeout(Duration::from_millis(100)).is_err(), "two changes at once");
        drop(first);
        turn.recv_timeout(Duration::from_secs(60)).unwrap();
    });
    // A second handle has no turn to wait for.
    let other = Collection::open(temp.path("collection")).unwrap();
    let _change = collection.change().unwrap();
    refused(other.change(), ErrorKind::Locked, &["writing"]);
}

/// Names the collection to [`hold_a_change`].
const HELD: &str = "FIRNDB_TEST_HELD";

/// The other process of the test below: begins a change, says so, ends with its standard input.
#[test]
#[ignore = "started by a_change_in_another_process_locks"]
fn hold_a_change() {
    let dir = std::env::var_os(HELD).unwrap();
    let collection = Collection::open(Path::new(&dir)).unwrap();
    let _change = collection.change().unwrap();
    println!("\nlocked");
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// The other process, once it has the lock, and its output, which must stay open.
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
fn a_change_in_another_process_locks_until_it_ends_in_whatever_way() {
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
        assert!(added < 1_000_000, "a mebibyte without end");
    };
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("memory limit") && added > 1_000, "{added}: {error}");
    // What was taken is whole.
    let temp = TestDir::new();
    let (_, reader) = temp.collection([("a", builder)]);
    assert_eq!(reader.len(), added);
    assert_eq!(reader.count(&eq("n", added - 1)).unwrap(), 1);
}

/// Mode and length of the files of a folder that this process has open and that have no name.
fn unnamed_files(folder: &Path) -> Vec<(u32, u64)> {
    use std::os::unix::fs::MetadataExt;
    let (folder, mut found) = (folder.canonicalize().unwrap(), Vec::new());
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    for file in open.map(|entry| entry.path()) {
        let is_there = |target: PathBuf| target.parent() == Some(&*folder);
        if fs::read_link(&file).is_ok_and(is_there)
            && let Ok(meta) = fs::metadata(&file)
            && meta.nlink() == 0
        {
            found.push((meta.mode() & 0o7777, meta.len()));
        }
    }
    // Each has two handles.
    found.dedup();
    found
}

#[test]
fn payloads_beyond_a_quarter_of_the_limit_wait_in_a_file_without_a_name() {
    let temp = TestDir::new();
    let folder = temp.path("spill");
    fs::create_dir(&folder).unwrap();
    let field = Field::new("n", Type::U64, Roles::FULL);
    let payload = |n: u64| vec![n as u8; (n * 37 % 3_000) as usize];
    let build = || {
        let schema = Schema::new([field.clone()]).unwrap();
        let mut builder = PartitionBuilder::new(schema).memory_limit(1 << 20).spill_to(&folder);
        for n in 0..2_000 {
            builder.add(&Document::new().set("n", n).payload(payload(n))).unwrap();
        }
        builder
    };
    let builder = build();
    assert!(names(&folder).is_empty(), "others could open it");
    if cfg!(target_os = "linux") {
        let spilled = unnamed_files(&folder);
        assert!(matches!(spilled[..], [(0o600, len)] if len > 2 << 20), "{spilled:?}");
    }
    let (_, reader) = temp.collection([("a", builder)]);
    assert!(unnamed_files(&folder).is_empty(), "the file goes with the builder");
    for hit in reader.search(&Query::new(all())).unwrap().hits {
        assert_eq!(&*reader.payload(hit).unwrap(), &payload(hit.doc.into())[..]);
    }
    drop(build());
    assert!(unnamed_files(&folder).is_empty(), "also if nothing was written");
    assert!(names(&folder).is_empty());
}

#[test]
fn verify_finds_a_damaged_byte_and_names_the_file() {
    let temp = TestDir::new();
    let (_, reader) = temp.collection([("a", version(1, 300)), ("b", version(2, 40))]);
    let dir = temp.path("collection");
    let mut told = Vec::new();
    let report = firndb::verify(&dir, |path, bytes| told.push((path.to_path_buf(), bytes)));
    let report = report.unwrap();
    assert_eq!((report.files, report.bytes), (3, told.iter().map(|(_, bytes)| bytes).sum()));
    drop(reader);
    let victim = names(&dir).into_iter().find(|name| name.starts_with("b.")).unwrap();
    let mut bytes = fs::read(dir.join(&victim)).unwrap();
    bytes[100] ^= 0x10;
    // A file of its own: published files are never written to.
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
fn a_collection_that_is_changed_meanwhile_is_verified_all_the_same() {
    let temp = TestDir::new();
    let dir = temp.path("collection");
    let (collection, _) = temp.collection([("a", version(1, 10)), ("b", version(1, 10))]);
    // From the first file that is checked on: everything it names is replaced before it is looked
    // at.
    let mut changes = 0;
    let report = firndb::verify(&dir, |_, _| {
        changes += 1;
        if changes <= 20 {
            put(&collection, ["a", "b"][changes % 2], version(changes as u64 + 1, 10));
        }
    });
    assert_eq!(report.unwrap().files, 3);
    assert!(changes > 20, "verify saw {changes} files");
    // A file that is really missing is told, and not waited for.
    let file = names(&dir).into_iter().find(|name| name.starts_with("a.")).unwrap();
    fs::remove_file(dir.join(file)).unwrap();
    refused(firndb::verify(&dir, |_, _| {}), ErrorKind::NotFound, &[]);
}

/// Changes the collection of `FIRNDB_KILL` over and over, and tells each version that is durable.
#[test]
#[ignore = "a child of a_killed_writer_leaves_the_last_set_or_the_next"]
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

/// The one version of all documents; `None` if there are several.
fn version_of(reader: &Reader) -> Option<u64> {
    let by = GroupBy { fields: vec!["version".into()], aggregates: Vec::new() };
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
fn a_killed_writer_leaves_the_last_set_or_the_next() {
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
        let mut told = |line: std::io::Result<String>| {
            if let Some(number) = line.unwrap().strip_prefix("durable ") {
                durable = number.parse().unwrap();
            }
        };
        // After some commits, at a moment that differs from round to round.
        lines.by_ref().take(4).for_each(&mut told);
        thread::sleep(Duration::from_micros(round * 347 % 5_000));
        child.kill().unwrap();
        child.wait().unwrap();
        lines.for_each(&mut told);
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
fn an_order_by_a_field_that_no_document_brings_goes_on_with_the_next() {
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
