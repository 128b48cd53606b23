//! Files that are staged on several machines, and published from one.

use super::race::interrupted;
use super::sharded::count;
use super::*;
use crate::ErrorKind;
use crate::catalog::clean::clean_at;
use crate::catalog::stage::staged_objects;
use crate::catalog::{CleanOptions, ReaderOptions, StageOptions, Staged, VersionKind};
use crate::table::{ApproximateBuilder, ApproximateOptions};
use std::path::PathBuf;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

const SHARDS: usize = 4;

/// The file of a shard on the machine that builds it.
fn path(shard: usize) -> PathBuf {
    format!("/machine-{shard}/part.table").into()
}

pub(super) fn stage(disk: &Arc<SimDisk>, path: &Path) -> Result<Staged> {
    catalog(disk).stage("words", path, &StageOptions::new())
}

/// Builds and stages a shard, and sends its text.
pub(super) fn stage_shard(disk: &Arc<SimDisk>, shard: usize, version: u32) -> Staged {
    make_shard(disk, &path(shard), (shard, SHARDS), version);
    stage(disk, &path(shard)).unwrap().to_string().parse().unwrap()
}

fn stage_all(disk: &Arc<SimDisk>, version: u32) -> Vec<Staged> {
    (0..SHARDS).map(|shard| stage_shard(disk, shard, version)).collect()
}

pub(super) fn publish_staged(disk: &Arc<SimDisk>, staged: &[Staged]) -> Result<Published> {
    catalog(disk).publish_staged("words", staged, &PublishOptions::default())
}

/// Removes everything that a clean-up may remove.
pub(super) fn clean_all(catalog: &Catalog) -> Result<crate::catalog::Cleaned> {
    let options = CleanOptions { keep: 1, grace: Duration::ZERO, dry_run: false };
    clean_at(catalog, "words", &options, i64::MAX)
}

#[test]
fn several_machines_stage_and_one_publishes() {
    let disk = SimDisk::new();
    // Each thread is a machine with handles of its own; only text passes between them.
    let lines: Vec<String> = std::thread::scope(|scope| {
        let machine = |machine: usize| {
            let disk = &disk;
            scope.spawn(move || {
                let shards = [2 * machine, 2 * machine + 1];
                shards.map(|shard| stage_shard(disk, shard, 1).to_string())
            })
        };
        let machines: Vec<_> = (0..SHARDS / 2).map(machine).collect();
        machines.into_iter().flat_map(|machine| machine.join().unwrap()).collect()
    });
    let mut staged: Vec<Staged> = lines.iter().map(|line| line.parse().unwrap()).collect();
    let first = publish_staged(&disk, &staged).unwrap();
    assert_eq!(first.version.kind, VersionKind::ShardedTable);
    assert_eq!(first.version.statistics["records"], u64::from(KEYS));
    assert_eq!(first.version.statistics["shards"], SHARDS as u64);
    assert_eq!((first.files_sent, first.version.files.len()), (SHARDS as u64, SHARDS));
    let cache = Path::new("/cache");
    let reader = catalog(&disk).reader("words", cache, ReaderOptions::default()).unwrap();
    assert_eq!(count(&reader, 1), KEYS);

    // The next version has one new shard. The staged objects of the others are gone.
    let cleaned = clean_all(&catalog(&disk)).unwrap();
    assert_eq!((cleaned.staged, cleaned.versions.len()), (SHARDS as u64, 0));
    staged[1] = stage_shard(&disk, 1, 2);
    let second = publish_staged(&disk, &staged).unwrap();
    assert_eq!((second.files_sent, second.version.parent), (1, Some(1)));
    assert!(reader.refresh().unwrap());
    assert_eq!(reader.stats().files, SHARDS as u64 + 1);
    let of_shard = reader.current().sharded_table().unwrap().shards()[1].len() as u32;
    assert_eq!((count(&reader, 2), count(&reader, 1)), (of_shard, KEYS - of_shard));
    assert_eq!(check_all(&disk, "words").unwrap(), [1, 2]);
    // The version does not depend on staged objects.
    clean_all(&catalog(&disk)).unwrap();
    assert_eq!(check_all(&disk, "words").unwrap(), [2]);
    reader.current().sharded_table().unwrap().verify().unwrap();
}

#[test]
fn one_staged_file_is_a_table() {
    let disk = SimDisk::new();
    make_table(&disk, 1);
    let staged = stage(&disk, Path::new(TABLE)).unwrap();
    assert_eq!((staged.records(), staged.kind()), (20, VersionKind::Table));
    let mine = publish_staged(&disk, &[staged]).unwrap().version;
    assert_eq!((mine.kind, &mine.files[0].name[..]), (VersionKind::Table, "words.table"));
    // A version like that of `publish`.
    let other = publish(&disk, "words", TABLE).unwrap();
    assert_eq!((other.files_sent, &other.version.files), (0, &mine.files));
    assert_eq!(other.version.statistics, mine.statistics);

    let options =
        ApproximateOptions { value_width: 1, threads: 1, ..ApproximateOptions::default() };
    let path = Path::new("/words.approx");
    let mut builder = ApproximateBuilder::create_on(disk.clone(), path, options).unwrap();
    builder.add([1], [2]).unwrap();
    builder.finish().unwrap();
    let approximate: Staged = stage(&disk, path).unwrap().to_string().parse().unwrap();
    let version = publish_staged(&disk, std::slice::from_ref(&approximate)).unwrap().version;
    assert_eq!(version.kind, VersionKind::ApproximateTable);
    refused(&disk, &[approximate.clone(), approximate], "a shard is a table");
}

/// Publishing is refused, with this in the message, and changes nothing.
fn refused(disk: &Arc<SimDisk>, staged: &[Staged], message: &str) {
    let before = disk.files();
    let error = publish_staged(disk, staged).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(error.message().contains(message), "{message}: {error}");
    assert!(disk.files() == before, "{message}: files were changed");
}

#[test]
fn lists_that_are_no_table_are_refused() {
    let disk = SimDisk::new();
    make_collection(&disk);
    let staged = stage_all(&disk, 1);
    refused(&disk, &[], "0 staged files");
    let swapped = [0, 2, 1, 3].map(|shard: usize| staged[shard].clone());
    refused(&disk, &swapped, "belong to shards 2 to 2 of 4");
    refused(&disk, &staged[..3], "of 3");
    refused(&disk, &[&staged[..], &staged[..1]].concat(), "of 5");
    let mut others = staged.clone();
    others[3].schema = Some("\"long\"".to_string());
    refused(&disk, &others, "staged file 3 (`part.table`): its value schema");
    let mut others = staged.clone();
    others[0].name = "other".to_string();
    refused(&disk, &others, "staged for `other`");
    let mut others = staged.clone();
    for one in &mut others {
        one.statistics.insert("records".into(), u64::MAX);
    }
    refused(&disk, &others, "overflows");

    let collection = stage(&disk, Path::new(COLLECTION)).unwrap_err();
    assert_eq!(collection.kind(), ErrorKind::InvalidArgument);
    assert!(collection.message().contains("from one machine"), "{collection}");
    let missing = stage(&disk, Path::new("/missing")).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    publish_staged(&disk, &staged).unwrap();
}

#[test]
fn corrupt_files_are_not_staged() {
    let disk = SimDisk::new();
    make_table(&disk, 1);
    let mut bytes = disk.files()[Path::new(TABLE)].clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    disk.write_raw(Path::new(TABLE), &bytes);
    assert_eq!(stage(&disk, Path::new(TABLE)).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(staged_objects(&catalog(&disk), "words").unwrap(), []);
}

#[test]
fn empty_shards_share_an_object() {
    let disk = SimDisk::new();
    let options = BuildOptions { threads: 1, ..BuildOptions::default() };
    let empty = Path::new("/empty.table");
    TableBuilder::create_on(disk.clone() as DiskRef, empty, options).unwrap().finish().unwrap();
    let staged = stage(&disk, empty).unwrap();
    let version = publish_staged(&disk, &vec![staged.clone(); 3]).unwrap().version;
    assert_eq!((version.files.len(), version.statistics["records"]), (3, 0));
    assert_eq!(check_all(&disk, "words").unwrap(), [1]);
    let mut other = staged.clone();
    other.file.content = "0".repeat(32);
    refused(&SimDisk::new(), &[staged, other], "of one BLAKE3 differ");
}

#[test]
fn damaged_staged_objects_reach_no_reader() {
    let disk = SimDisk::new();
    let staged = stage_all(&disk, 1);
    let object = Path::new(CATALOG).join(staged[2].object());
    let whole = disk.files()[&object].clone();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    // Not through the hard link, which would damage the source, too.
    let replace = |bytes: &[u8]| {
        disk.remove(&object).unwrap();
        disk.write_raw(&object, bytes);
    };
    replace(&damaged);
    let options = PublishOptions::new().verify(true);
    let verified = catalog(&disk).publish_staged("words", &staged, &options).unwrap_err();
    assert_eq!(verified.kind(), ErrorKind::Corrupt);
    assert_eq!(verified.file(), Some(Path::new(staged[2].object())));
    replace(&whole[1..]);
    let truncated = publish_staged(&disk, &staged).unwrap_err();
    assert_eq!(truncated.kind(), ErrorKind::NotFound);
    assert_eq!(truncated.file(), Some(Path::new(staged[2].object())));
    assert_eq!(check_all(&disk, "words").unwrap(), [0u64; 0]);
    // Without `verify` the damage is published, and readers refuse it.
    replace(&damaged);
    publish_staged(&disk, &staged).unwrap();
    let open = || catalog(&disk).reader("words", Path::new("/cache"), ReaderOptions::default());
    assert_eq!(open().err().unwrap().kind(), ErrorKind::Corrupt);
    // Publishing the same with `verify` repairs the version.
    replace(&whole);
    let repaired = catalog(&disk).publish_staged("words", &staged, &options).unwrap();
    assert_eq!((repaired.files_repaired, repaired.files_sent), (1, 1));
    assert_eq!(count(&open().unwrap(), 1), KEYS);
}

#[test]
fn clean_removes_old_staged_files() {
    let disk = SimDisk::new();
    let staged = stage_all(&disk, 1);
    let catalog = catalog(&disk);
    assert_eq!(catalog.newest("words").unwrap_err().kind(), ErrorKind::NotFound);
    let times: Vec<i64> =
        staged_objects(&catalog, "words").unwrap().into_iter().map(|(_, time)| time).collect();
    let newest = *times.iter().max().unwrap();
    let second = |n: u64| i64::try_from(n * 1_000_000).unwrap();
    let options = CleanOptions { keep: 1, grace: Duration::from_secs(60), dry_run: false };
    let clean = |options: &CleanOptions, now| clean_at(&catalog, "words", options, now).unwrap();
    // The name has no version yet. Clocks of other machines may be late or early.
    for now in [newest, newest - second(1000), i64::MIN] {
        assert_eq!(clean(&options, now).staged, 0);
    }
    let later = newest + second(61);
    let said = clean(&CleanOptions { dry_run: true, ..options.clone() }, later);
    assert_eq!((said.staged, staged_objects(&catalog, "words").unwrap().len()), (4, 4));
    let foreign = Path::new(CATALOG).join("words/staged/notes.txt");
    disk.write_raw(&foreign, b"mine");
    publish_staged(&disk, &staged).unwrap();
    assert_eq!(clean(&options, later).staged, 4);
    assert_eq!(disk.list(foreign.parent().unwrap()).unwrap(), ["notes.txt"]);
    assert_eq!(check_all(&disk, "words").unwrap(), [1]);

    let gone = stage_shard(&disk, 0, 2);
    clean_all(&catalog).unwrap();
    let mut list = staged;
    list[0] = gone.clone();
    let error = publish_staged(&disk, &list).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert_eq!(error.file(), Some(Path::new(gone.object())));
    assert_eq!(check_all(&disk, "words").unwrap(), [1]);
    // A name without versions and without staged files does not exist.
    assert_eq!(
        clean_at(&catalog, "none", &options, later).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

/// A clean-up before any call of a publication: the publication fails and names a staged object, or
/// its version is complete.
#[test]
fn a_clean_up_and_a_publication_exclude_each_other() {
    let base = SimDisk::new();
    publish_staged(&base, &stage_all(&base, 1)).unwrap();
    let staged = stage_all(&base, 2);
    let base = base.fork();
    let (mut lost, mut done) = (0, 0);
    for at in 0.. {
        let disk = base.fork();
        let other = disk.clone();
        let clean = move || drop(clean_all(&catalog(&other)).unwrap());
        let options = PublishOptions::default();
        let (published, calls) = interrupted(&disk, at, clean, |catalog| {
            catalog.publish_staged("words", &staged, &options)
        });
        let numbers = check_all(&disk, "words").unwrap();
        match published {
            Ok(published) => {
                assert!(published.version.number == 2 && numbers.contains(&2), "call {at}");
                done += 1;
            }
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::NotFound, "call {at}: {e:?}");
                let object = e.file().unwrap().to_str().unwrap();
                assert!(staged.iter().any(|one| one.object() == object), "call {at}: {e:?}");
                assert_eq!(numbers, [1], "call {at}");
                lost += 1;
            }
        }
        if calls <= at {
            break;
        }
    }
    assert!(lost > 2 && done > 1, "{lost} lost, {done} published");
}

#[test]
fn of_two_publishers_of_staged_files_one_succeeds() {
    let base = SimDisk::new();
    let staged = stage_all(&base, 1);
    let base = base.fork();
    let (mut overtaken, mut won) = (0, 0);
    for at in 0.. {
        let disk = base.fork();
        let (other, list) = (disk.clone(), staged.clone());
        let rival = move || drop(publish_staged(&other, &list).unwrap());
        let options = PublishOptions::default();
        let (published, calls) = interrupted(&disk, at, rival, |catalog| {
            catalog.publish_staged("words", &staged, &options)
        });
        let numbers = check_all(&disk, "words").unwrap();
        match published {
            Ok(published) => {
                assert!(numbers.contains(&published.version.number));
                won += 1;
            }
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::AlreadyExists, "call {at}: {e:?}");
                overtaken += 1;
            }
        }
        if calls <= at {
            break;
        }
    }
    assert!(overtaken > 0 && won > 0, "{overtaken} overtaken, {won} won");
}

fn sample() -> Staged {
    let blake3 = "0a".repeat(32);
    Staged {
        name: "words".to_string(),
        object: format!("words/staged/{:020}-{blake3}", 1_785_000_000_123_456u64),
        kind: VersionKind::Table,
        schema: Some("\"l\u{f6}ng\"".to_string()),
        statistics: [("records".to_string(), 3), ("key_bytes".to_string(), 12)].into(),
        shard_hashes: Some((1, u64::MAX)),
        file: crate::catalog::VersionFile {
            name: "part 1.table".to_string(),
            bytes: 4321,
            content: "0b".repeat(16),
            blake3,
            since: 0,
        },
    }
}

/// The text of the sample: a line of format 1, which all releases read.
const GOLDEN: &str = include_str!("../../../tests/golden/v1/staged.json");

#[test]
fn the_text_of_format_1_is_stable() {
    assert_eq!(format!("{}\n", sample()), GOLDEN);
    assert_eq!(GOLDEN.parse::<Staged>().unwrap(), sample());
    let bare = Staged { schema: None, shard_hashes: None, ..sample() };
    assert_eq!(bare.to_string().parse::<Staged>().unwrap(), bare);
}

#[test]
fn damaged_texts_are_corrupt() {
    let line = sample().to_string();
    for at in 0..line.len() {
        assert_eq!(line[..at].parse::<Staged>().unwrap_err().kind(), ErrorKind::Corrupt);
        for bit in [1, 0x10] {
            let mut bytes = line.clone().into_bytes();
            bytes[at] ^= bit;
            let damaged = String::from_utf8(bytes).unwrap().parse::<Staged>();
            // A space at an end of the line would not matter, but no damage makes one there.
            assert_eq!(damaged.unwrap_err().kind(), ErrorKind::Corrupt, "byte {at}");
        }
    }
}

/// The sample with a replacement in its text and a matching checksum.
fn forged(from: &str, to: &str) -> Result<Staged> {
    let line = sample().to_string();
    assert!(line.contains(from), "{from}");
    let line = line.replacen(from, to, 1);
    let (body, _) = line.rsplit_once(", \"checksum\": \"").unwrap();
    format!("{body}, \"checksum\": \"{:016x}\"}}", xxh3_64(body.as_bytes())).parse()
}

#[test]
fn forged_texts_are_refused() {
    let newer = forged("\"format\": 1", "\"format\": 2").unwrap_err();
    assert_eq!(newer.kind(), ErrorKind::UnsupportedVersion);
    let hash = "0a".repeat(32);
    for (from, to) in [
        ("words/staged/", "other/staged/"),
        ("words/staged/", "words/files/"),
        ("words/staged/", "words/staged/../"),
        ("words/staged/0", "words/staged/"),
        (&format!("{hash}\", \"file\"")[..], &format!("{}\", \"file\"", "0c".repeat(32))[..]),
        (&format!("\"blake3\": \"{hash}"), &format!("\"blake3\": \"{}", "0c".repeat(32))),
        ("\"name\": \"words\"", "\"name\": \"../words\""),
        ("part 1.table", "../part.table"),
        ("part 1.table", ".table"),
        ("\"bytes\": 4321", "\"bytes\": -1"),
        ("\"kind\": \"table\"", "\"kind\": \"collection\""),
        ("\"kind\": \"table\"", "\"kind\": \"sharded table\""),
        ("\"records\": 3", "\"records\": \"3\""),
        ("0000000000000001", "000000000000000x"),
        ("[\"0000000000000001\", \"ffffffffffffffff\"]", "[\"0000000000000001\"]"),
        ("[\"0000000000000001\", \"ffff", "[\"ffffffffffffffff\", \"0000"),
        ("\"schema\"", "\"scheme\""),
        ("\"statistics\": {", &format!("\"statistics\": {}{{", "[".repeat(100_000))),
    ] {
        let forged = forged(from, to).unwrap_err();
        assert_eq!(forged.kind(), ErrorKind::Corrupt, "{from}: {forged}");
    }
    for text in ["", "{}", "null", "\u{0}", ", \"checksum\": \"", "a table"] {
        assert_eq!(text.parse::<Staged>().unwrap_err().kind(), ErrorKind::Corrupt, "{text}");
    }
}
