//! Power cuts and failing calls at every operation of every kind of change: afterwards the
//! collection has the complete old set or the complete new one, and the next change works.

use super::{DIR, Store, create, open, store};
use crate::disk::envelope::{Envelope, Kind, kind_of};
use crate::disk::{Append, Disk, DiskRef, Map, SimDisk, publish};
use crate::search::codec::slices::ELIAS_FANO;
use crate::search::model::query::all;
use crate::search::testing::{FORCED, Forced};
use crate::search::{Collection, Document, Field, MergePolicy, PartitionBuilder, Query, Reader};
use crate::search::{Roles, Schema, Type, Value};
use crate::{ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SEED: u64 = 20_260_802;

/// The whole content of a collection: partitions with the values and payloads of their documents.
type Dump = BTreeMap<String, Vec<(Vec<Value>, Vec<u8>)>>;

fn dump(reader: &Reader) -> Result<Dump> {
    reader.verify()?;
    let mut dump: Dump =
        reader.partitions().into_iter().map(|part| (part.name, Vec::new())).collect();
    let names: Vec<String> = reader.partitions().into_iter().map(|part| part.name).collect();
    for hit in reader.search(&Query::new(all()))?.hits {
        let values = [reader.values(hit, "version")?, reader.values(hit, "word")?].concat();
        let payload = reader.payload(hit)?.into_owned();
        dump.get_mut(&names[hit.partition as usize]).unwrap().push((values, payload));
    }
    Ok(dump)
}

fn builder(version: i64, documents: i64) -> PartitionBuilder {
    let version_field = Field::new("version", Type::I64, Roles::FULL);
    let word = Field::new("word", Type::String, Roles::FILTERABLE.with(Roles::STORED)).multi();
    let mut builder = PartitionBuilder::new(Schema::new([version_field, word]).unwrap());
    for n in 0..documents {
        let document = Document::new().set("version", version).set("word", format!("w{}", n % 3));
        builder.add(&document.payload(format!("{version} {n}"))).unwrap();
    }
    builder
}

/// The number of words that have lists in [`large_forms`].
const WORDS: u32 = 20;

/// A partition with a bitset and divided lists, if the forms of large partitions are forced.
fn large_forms() -> PartitionBuilder {
    let mut builder = builder(2, 0);
    for n in 0..2_000u32 {
        let mut document = Document::new().set("version", 2i64);
        document.push("word", format!("w{:02}", n % WORDS));
        if n % 36 < 4 {
            document.push("word", "wide");
        }
        builder.add(&document.payload(format!("2 {n}"))).unwrap();
    }
    builder
}

/// A change of the collection of [`base`].
type Work = fn(&DiskRef, &Collection) -> Result<()>;

const FILE: &str = "/elsewhere/part.firn";

/// Every kind of change.
const WORKS: [(&str, Work); 9] = [
    ("add", |_, collection| {
        let mut change = collection.change()?;
        change.put("c", builder(2, 5))?;
        change.commit().map(drop)
    }),
    ("add large forms", |_, collection| {
        let mut change = collection.change()?;
        FORCED.set(Forced { forms: true, ..Forced::default() });
        let put = change.put("c", large_forms());
        FORCED.set(Forced::default());
        put?;
        let reader = change.commit()?;
        let words = reader.schema().field("word").unwrap().0;
        let part = reader.set.partitions.last().unwrap();
        let bitset = part.postings(words)?.range(WORDS, WORDS + 1);
        assert!(part.postings(words)?.bitset(&bitset).is_some());
        assert_eq!(part.meta(words).slice_bits, ELIAS_FANO);
        Ok(())
    }),
    ("replace", |_, collection| {
        let mut change = collection.change()?;
        change.put("a", builder(2, 3))?;
        change.commit().map(drop)
    }),
    ("remove", |_, collection| {
        let mut change = collection.change()?;
        change.remove("a")?;
        change.commit().map(drop)
    }),
    ("merge", |_, collection| {
        let mut change = collection.change()?;
        change.merge(&["a", "b"], "ab")?;
        change.commit().map(drop)
    }),
    ("compact", |_, collection| {
        let policy = MergePolicy { at_least: 2, ..MergePolicy::default() };
        let mut merges = 0;
        collection.compact(&policy, |_| merges += 1)?;
        assert_eq!(merges, 1);
        Ok(())
    }),
    ("put a file", |_, collection| {
        let mut change = collection.change()?;
        change.put_file("a", Path::new(FILE))?;
        change.commit().map(drop)
    }),
    ("write a file", |disk, _| {
        builder(3, 9).write_on(disk, Path::new("/elsewhere/other.firn")).map(drop)
    }),
    ("all at once", |_, collection| {
        let mut change = collection.change()?;
        change.put("a", builder(2, 3))?;
        change.put("d", builder(2, 1))?;
        change.remove("b")?;
        change.put_file("e", Path::new(FILE))?;
        change.commit().map(drop)
    }),
];

/// A disk with a collection of two partitions and a stand-alone file.
fn base() -> Arc<SimDisk> {
    let Store { disk, collection } = store();
    disk.create_dir_all(Path::new("/elsewhere")).unwrap();
    builder(7, 4).write_on(&(disk.clone() as DiskRef), Path::new(FILE)).unwrap();
    let mut change = collection.change().unwrap();
    change.put("a", builder(1, 6)).unwrap();
    change.put("b", builder(1, 6)).unwrap();
    change.commit().unwrap();
    drop(collection);
    disk.fork()
}

/// Opens the collection and changes it. A reader from before the change must keep its set.
fn run(disk: Arc<SimDisk>, work: Work) -> Result<()> {
    let collection = open(&disk)?;
    let reader = collection.reader();
    let result = work(&(disk.clone() as DiskRef), &collection);
    let names = dump(&reader).map(|dump| dump.into_keys().collect::<Vec<_>>());
    assert_eq!(names.unwrap(), ["a", "b"], "an old reader lost its set");
    result
}

/// The content of the collection before and after a change.
struct Expected {
    old: Option<Dump>,
    new: Dump,
}

impl Expected {
    fn of(base: &SimDisk, work: Work) -> Expected {
        let disk = base.fork();
        let old = dump(&open(&disk).unwrap().reader()).unwrap();
        run(disk.clone(), work).unwrap();
        Expected { old: Some(old), new: dump(&open(&disk).unwrap().reader()).unwrap() }
    }

    /// Returns what is wrong with this disk, if anything. `done`: the change was acknowledged.
    fn check(&self, disk: &Arc<SimDisk>, done: bool) -> std::result::Result<(), String> {
        incomplete_file(disk)
            .map_or(Ok(()), |path| Err(format!("an incomplete file: {}", path.display())))?;
        let found = open(disk).and_then(|collection| dump(&collection.reader()));
        let found = match (found, &self.old) {
            (Ok(found), _) => found,
            (Err(e), None) if !done && e.kind() == ErrorKind::NotFound => return Ok(()),
            (Err(e), _) => return Err(format!("cannot read the collection: {e:?}")),
        };
        let old = self.old.as_ref().is_some_and(|old| *old == found) && !done;
        // A collection may already exist, empty, while it is being created.
        let empty = self.old.is_none() && found.is_empty() && !done;
        match found == self.new || old || empty {
            true => Ok(()),
            false => Err(format!("acknowledged: {done}, found {:?}", found.keys())),
        }
    }
}

/// A file that has its final name but is not complete.
fn incomplete_file(disk: &SimDisk) -> Option<PathBuf> {
    let whole = |path: &Path, bytes: &Vec<u8>| {
        let (kind, _) = kind_of(bytes)?;
        let kind = Kind::from_code(kind).unwrap();
        Envelope::open(Map::from_vec(bytes.clone()), path, kind)?.verify()
    };
    let is_temporary = |path: &Path| path.to_string_lossy().ends_with(".firndb-tmp");
    let mut files = disk.files().into_iter().filter(|(_, bytes)| !bytes.is_empty());
    files.find(|(p, bytes)| !is_temporary(p) && whole(p, bytes).is_err()).map(|(p, _)| p)
}

/// The leftovers of a crash or a fault do not prevent the next change, which removes them.
fn next_change_works(disk: &Arc<SimDisk>) -> std::result::Result<(), String> {
    let attempt = || -> Result<(Dump, Dump)> {
        let collection = open(disk)?;
        let before = dump(&collection.reader())?;
        let mut change = collection.change()?;
        change.put("later", builder(9, 2))?;
        change.commit()?;
        Ok((before, dump(&open(disk)?.reader())?))
    };
    let (before, after) = attempt().map_err(|e| format!("the next change fails: {e:?}"))?;
    let same = before.iter().all(|(name, docs)| after.get(name) == Some(docs));
    if !same || after.len() != before.len() + usize::from(!before.contains_key("later")) {
        return Err("the next change lost something".into());
    }
    let files: Vec<PathBuf> = disk.files().into_keys().filter(|p| p.starts_with(DIR)).collect();
    let kinds = |kind: Kind| {
        let all = disk.files();
        let is = |path: &&PathBuf| kind_of(&all[*path]).is_ok_and(|found| found.0 == kind as u32);
        files.iter().filter(is).count()
    };
    let tidy = kinds(Kind::Partition) == after.len()
        && files.iter().all(|path| !path.to_string_lossy().ends_with(".firndb-tmp"));
    if tidy { Ok(()) } else { Err(format!("leftovers among {files:?}")) }
}

/// The first damage that a power cut during the work causes.
fn first_crash_damage(
    base: &SimDisk,
    expected: &Expected,
    work: &dyn Fn(Arc<SimDisk>) -> Result<()>,
) -> Option<String> {
    let mut damage = None;
    let images = base.each_crash(SEED, 20, work, |label, done, image| {
        let wrong = expected.check(&image, done.is_ok()).and_then(|()| match open(&image) {
            Err(_) if expected.old.is_none() => Ok(()),
            _ => next_change_works(&image),
        });
        damage = damage.take().or(wrong.err().map(|wrong| format!("{label}: {wrong}")));
    });
    println!("seed {SEED}: {images} images, damage: {damage:?}");
    assert!(images > 20, "only {images} images");
    damage
}

#[test]
fn a_power_cut_during_a_change_leaves_the_old_set_or_the_new_one() {
    let base = base();
    for (name, work) in WORKS {
        let expected = Expected::of(&base, work);
        // Without the reader of `run`, which cannot be read after the power cut.
        let work = |disk: Arc<SimDisk>| {
            let collection = open(&disk)?;
            work(&(disk as DiskRef), &collection)
        };
        assert_eq!(first_crash_damage(&base, &expected, &work), None, "{name}");
    }
}

fn build(disk: Arc<SimDisk>) -> Result<()> {
    let collection = create(&disk)?;
    let mut change = collection.change()?;
    change.put("a", builder(1, 6))?;
    change.put("b", builder(1, 2))?;
    change.commit().map(drop)
}

#[test]
fn a_power_cut_during_creation_leaves_a_complete_collection_or_none() {
    let disk = SimDisk::new();
    build(disk.clone()).unwrap();
    let new = dump(&open(&disk).unwrap().reader()).unwrap();
    let expected = Expected { old: None, new };
    assert_eq!(first_crash_damage(&SimDisk::new(), &expected, &build), None);
}

/// Creates a collection, fails in its first change after one partition was put, and withdraws the
/// collection.
fn build_and_withdraw(disk: Arc<SimDisk>) -> Result<()> {
    let collection = create(&disk)?;
    let mut change = collection.change()?;
    change.put("a", builder(1, 6))?;
    assert!(change.put("not/a name", builder(1, 2)).is_err());
    drop(change);
    assert!(collection.withdraw()?);
    Ok(())
}

/// Checks that afterwards the collection does not exist, or exists and is empty, and that it can be
/// built.
fn can_be_built(disk: Arc<SimDisk>, is_withdrawn: bool) -> std::result::Result<(), String> {
    let empty = open(&disk).map(|collection| collection.reader().is_empty());
    match empty {
        Ok(true) if !is_withdrawn => next_change_works(&disk),
        Err(e) if e.kind() == ErrorKind::NotFound => {
            build(disk).map_err(|e| format!("cannot be built: {e:?}"))
        }
        other => Err(format!("withdrawn: {is_withdrawn}, found {other:?}")),
    }
}

#[test]
fn a_withdrawn_collection_can_be_built_again() {
    let images = SimDisk::new().each_crash(SEED, 20, build_and_withdraw, |label, done, image| {
        assert_eq!(can_be_built(image, done.is_ok()), Ok(()), "{label}");
    });
    let faults = SimDisk::new().each_fault(build_and_withdraw, |label, done, disk| {
        assert_eq!(can_be_built(disk, done.is_ok()), Ok(()), "{label}");
    });
    println!("seed {SEED}: {images} images, {faults} faults");
    assert!(images > 20 && faults > 20);
}

#[test]
fn a_failed_call_is_reported_and_leaves_the_old_set_or_the_new_one() {
    let base = base();
    for (name, work) in WORKS {
        let expected = Expected::of(&base, work);
        let mut failures = 0;
        let attempt = |disk: Arc<SimDisk>| {
            let collection = open(&disk)?;
            work(&(disk as DiskRef), &collection)
        };
        let runs = base.each_fault(attempt, |label, done, disk| {
            let check = |wrong: std::result::Result<(), String>, what: &str| {
                assert_eq!(wrong, Ok(()), "{name}, {label}, {what}; the change: {done:?}");
            };
            failures += usize::from(done.is_err());
            check(expected.check(&disk, done.is_ok()), "without a crash");
            for (cut, image) in disk.images(SEED, 6) {
                check(expected.check(&image, done.is_ok()), &cut);
            }
            let found = dump(&open(&disk).unwrap().reader()).unwrap();
            if Some(&found) == expected.old.as_ref() {
                run(disk.clone(), work).unwrap_or_else(|e| panic!("{name}, {label}, retry: {e}"));
                check(expected.check(&disk, true), "after the retry");
            }
            check(next_change_works(&disk), "the next change");
        });
        println!("{name}: {runs} runs, {failures} reported");
        assert!(failures > 5, "{name}: {failures} of {runs} faults were reported");
    }
}

/// The files that a change adds and removes, for tests that publish them step by step.
struct Steps {
    partitions: Vec<(PathBuf, Vec<u8>)>,
    set: (PathBuf, Vec<u8>),
    removed: Vec<PathBuf>,
}

impl Steps {
    fn of(base: &SimDisk, work: Work) -> Steps {
        let disk = base.fork();
        run(disk.clone(), work).unwrap();
        let (old, new) = (base.files(), disk.files());
        let added = new.iter().filter(|(path, bytes)| old.get(*path) != Some(*bytes));
        let added = added.map(|(path, bytes)| (path.clone(), bytes.clone()));
        let is_set = |(_, bytes): &(PathBuf, Vec<u8>)| {
            kind_of(bytes).is_ok_and(|(kind, _)| kind == Kind::PartitionSet as u32)
        };
        let (mut sets, partitions): (Vec<_>, Vec<_>) = added.partition(is_set);
        let removed = old.into_keys().filter(|path| !new.contains_key(path)).collect();
        assert_eq!((sets.len(), partitions.len()), (1, 2));
        Steps { partitions, set: sets.remove(0), removed }
    }

    fn put_partitions(&self, disk: &SimDisk) -> Result<()> {
        self.partitions.iter().try_for_each(|file| put(disk, file))
    }

    fn remove_old(&self, disk: &SimDisk) -> Result<()> {
        self.removed.iter().try_for_each(|path| disk.remove(path))
    }
}

fn put(disk: &SimDisk, (path, bytes): &(PathBuf, Vec<u8>)) -> Result<()> {
    publish(disk, path, |out: &mut dyn Append| out.append(bytes))
}

/// The tests above detect a commit with its steps in the wrong order or without syncs.
#[test]
fn a_broken_commit_is_caught() {
    let base = base();
    let work: Work = |_, collection| {
        let mut change = collection.change()?;
        change.put("a", builder(2, 3))?;
        change.put("b", builder(2, 1))?;
        change.commit().map(drop)
    };
    let (expected, steps) = (Expected::of(&base, work), Steps::of(&base, work));
    assert!(!steps.removed.is_empty());
    let damage = |work: &dyn Fn(&SimDisk) -> Result<()>| {
        first_crash_damage(&base, &expected, &|disk| work(&disk))
    };
    let right = damage(&|disk| {
        steps.put_partitions(disk)?;
        put(disk, &steps.set)?;
        steps.remove_old(disk)
    });
    assert_eq!(right, None);
    let set_first = damage(&|disk| {
        put(disk, &steps.set)?;
        steps.put_partitions(disk)?;
        steps.remove_old(disk)
    });
    let remove_first = damage(&|disk| {
        steps.put_partitions(disk)?;
        steps.remove_old(disk)?;
        put(disk, &steps.set)
    });
    let no_sync = damage(&|disk| {
        for (path, bytes) in &steps.partitions {
            disk.create(path)?.append(bytes)?;
        }
        put(disk, &steps.set)?;
        steps.remove_old(disk)
    });
    for (name, found) in
        [("set first", set_first), ("remove first", remove_first), ("no sync", no_sync)]
    {
        assert!(found.is_some(), "not caught: {name}");
    }
}
