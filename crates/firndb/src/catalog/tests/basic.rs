//! Publishing, history, rollback, pins and clean-up.

use super::*;
use crate::ErrorKind;
use crate::catalog::clean::clean_at;
use crate::catalog::publish::commit;
use crate::catalog::{Change, CleanOptions, Content, PublishOptions, VersionKind};
use crate::disk::HookDisk;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

fn kind<T: std::fmt::Debug>(result: Result<T>) -> ErrorKind {
    result.unwrap_err().kind()
}

fn objects(disk: &SimDisk, folder: &str) -> usize {
    disk.list(&Path::new(CATALOG).join(folder)).unwrap().len()
}

const SECOND: i64 = 1_000_000;

#[test]
fn publishes_only_changed_files() {
    let disk = SimDisk::new();
    make_collection(&disk);
    let first = publish(&disk, "docs", COLLECTION).unwrap();
    assert_eq!((first.version.number, first.version.parent), (1, None));
    assert_eq!(first.version.kind, VersionKind::Collection);
    assert_eq!(first.files_sent, 4, "three partitions and a set");
    assert_eq!(first.bytes_sent, first.version.bytes());
    assert_eq!(first.version.statistics["documents"], 12);
    assert!(first.version.schema.as_ref().unwrap().contains("version"));

    replace(&disk, "b", 2);
    let before = disk.ops();
    let second = publish(&disk, "docs", COLLECTION).unwrap();
    assert_eq!((second.files_sent, second.version.parent), (2, Some(1)));
    let log = disk.log().split_off(before);
    let count = |what: &str| log.iter().filter(|line| line.contains(what)).count();
    assert_eq!(count("link /collection/"), 2, "hard links of what changed, and nothing else");
    assert_eq!(count(": append"), 2, "the manifest and the hint alone are written");

    let diff = first.version.diff(&second.version);
    let names: Vec<&str> = diff.changes.iter().map(|change| change.name.as_str()).collect();
    assert_eq!((names, diff.files_kept), (vec!["b", "set"], 2));
    assert_eq!(diff.bytes_new, second.bytes_sent);
    assert_eq!(check_all(&disk, "docs").unwrap(), [1, 2]);
    assert_eq!(catalog(&disk).names().unwrap(), ["docs"]);
    assert_eq!(catalog(&disk).newest("docs").unwrap(), second.version);
}

#[test]
fn diff_lists_added_and_removed_parts() {
    let disk = SimDisk::new();
    make_collection(&disk);
    let before = publish(&disk, "docs", COLLECTION).unwrap().version;
    let mut after = before.clone();
    let gone = after.files.remove(0);
    let bytes = gone.bytes;
    after.files.push(crate::catalog::VersionFile { name: "z".into(), ..gone });
    let diff = before.diff(&after);
    let change = |name: &str, before, after| Change { name: name.to_string(), before, after };
    assert_eq!(diff.changes, [change("a", Some(bytes), None), change("z", None, Some(bytes))]);
}

/// Publishes a collection in which a partition is replaced just before the n-th access to one of
/// its files, counted from 0. Also returns the number of accesses.
fn publish_restless(
    is_replaced: impl Fn(u32) -> bool + Send + Sync + 'static,
) -> (Arc<SimDisk>, Result<Published>, u32) {
    let disk = SimDisk::new();
    make_collection(&disk);
    let (looks, changed) = (Arc::new(AtomicU32::new(0)), disk.clone());
    let look = looks.clone();
    let before = move |path: &Path| {
        if path.starts_with(COLLECTION) {
            let look = look.fetch_add(1, Relaxed);
            if is_replaced(look) {
                replace(&changed, "b", 2 + i64::from(look));
            }
        }
    };
    let hook_disk = Arc::new(HookDisk { disk: disk.clone(), before }) as DiskRef;
    let catalog = Catalog::open_on(hook_disk, Path::new(CATALOG));
    let published = catalog.publish("docs", Path::new(COLLECTION), &PublishOptions::default());
    (disk, published, looks.load(Relaxed))
}

#[test]
fn a_collection_changed_during_publication_is_examined_again() {
    let (_, published, looks) = publish_restless(|_| false);
    assert!(published.is_ok() && looks > 4, "{looks} looks at a set and three partitions");
    let mut more = 0;
    for n in 0..looks {
        let (disk, published, again) = publish_restless(move |look| look == n);
        assert_eq!(published.unwrap().version.number, 1, "replaced before look {n}");
        assert_eq!(check_all(&disk, "docs").unwrap(), [1], "replaced before look {n}");
        more += u32::from(again > looks);
    }
    assert!(more > 1, "it looked again in {more} cases");
    let (disk, published, _) = publish_restless(|look| look < 15);
    assert_eq!(published.unwrap().version.number, 1, "replaced again and again");
    assert_eq!(check_all(&disk, "docs").unwrap(), [1]);
}

#[test]
fn publishes_tables() {
    let disk = SimDisk::new();
    make_table(&disk, 1);
    let first = publish(&disk, "words", TABLE).unwrap();
    assert_eq!(first.version.kind, VersionKind::Table);
    assert_eq!((first.version.statistics["records"], first.files_sent), (20, 1));
    let again = publish(&disk, "words", TABLE).unwrap();
    assert_eq!((again.version.number, again.files_sent), (2, 0));
    make_table(&disk, 2);
    assert_eq!(publish(&disk, "words", TABLE).unwrap().files_sent, 1);
    assert_eq!(check_all(&disk, "words").unwrap(), [1, 2, 3]);
}

#[test]
fn one_of_two_publishers_succeeds() {
    let disk = SimDisk::new();
    make_table(&disk, 1);
    let version = publish(&disk, "words", TABLE).unwrap().version;
    let other = Version { number: 2, id: "0".repeat(32), ..version.clone() };
    let mine = Version { id: "1".repeat(32), ..other.clone() };
    commit(&catalog(&disk), other.clone()).unwrap();
    let refused = commit(&catalog(&disk), mine).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    assert!(refused.message().contains("publish again"), "{refused}");
    assert_eq!(catalog(&disk).newest("words").unwrap(), other);
    // If the origin repeats a call, the winner must not fail because of its own manifest.
    commit(&catalog(&disk), other).unwrap();
    assert_eq!(publish(&disk, "words", TABLE).unwrap().version.number, 3);
}

#[test]
fn rollback_republishes_an_old_version() {
    let disk = SimDisk::new();
    make_collection(&disk);
    let first = publish(&disk, "docs", COLLECTION).unwrap().version;
    replace(&disk, "a", 2);
    publish(&disk, "docs", COLLECTION).unwrap();
    let back = catalog(&disk).rollback("docs", 1, &PublishOptions::default()).unwrap().version;
    assert_eq!((back.number, back.parent, back.restores), (3, Some(2), Some(1)));
    assert!(first.diff(&back).changes.is_empty());
    // Files shared with the parent refer to its objects; the others are new objects.
    assert_eq!(back.files.iter().filter(|file| file.since == 3).count(), 2);
    let options = CleanOptions { keep: 1, grace: Duration::ZERO, dry_run: false };
    assert_eq!(catalog(&disk).clean("docs", &options).unwrap().versions, [1, 2]);
    assert_eq!(check_all(&disk, "docs").unwrap(), [3]);
    let missing = catalog(&disk).rollback("docs", 1, &PublishOptions::default());
    assert_eq!(kind(missing), ErrorKind::NotFound);
}

#[test]
fn clean_keeps_newest_pinned_and_young_versions() {
    let disk = SimDisk::new();
    make_collection(&disk);
    for version in 2..8 {
        replace(&disk, "a", version);
        publish(&disk, "docs", COLLECTION).unwrap();
    }
    let catalog = catalog(&disk);
    let now = catalog.newest("docs").unwrap().time;
    let grace = Duration::from_secs(60);
    let options = CleanOptions { keep: 2, grace, dry_run: true };
    catalog.pin("docs", 2, "a customer looks at it").unwrap();
    assert_eq!(kind(catalog.pin("docs", 2, "again")), ErrorKind::AlreadyExists);
    assert_eq!(kind(catalog.pin("docs", 9, "no such")), ErrorKind::NotFound);
    assert_eq!(catalog.pins("docs").unwrap(), [2]);
    // The clock of the clean-up stands still or is in the past: every version is young.
    for past in [now, now - 1000 * SECOND, i64::MIN] {
        assert_eq!(clean_at(&catalog, "docs", &options, past).unwrap().versions, [0u64; 0]);
    }
    let later = now + 61 * SECOND;
    let said = clean_at(&catalog, "docs", &options, later).unwrap();
    assert_eq!((&said.versions[..], said.files), (&[1, 3, 4][..], 6), "a partition and a set each");
    assert_eq!(check_all(&disk, "docs").unwrap(), [1, 2, 3, 4, 5, 6], "it was only said");
    let done = CleanOptions { dry_run: false, ..options };
    assert_eq!(clean_at(&catalog, "docs", &done, later).unwrap(), said);
    assert_eq!(check_all(&disk, "docs").unwrap(), [2, 5, 6]);
    assert_eq!(objects(&disk, "docs/files"), 2 + 3 * 2);
    catalog.unpin("docs", 2).unwrap();
    catalog.unpin("docs", 2).unwrap();
    // A clock that jumps ahead does not affect the newest versions.
    assert_eq!(clean_at(&catalog, "docs", &done, i64::MAX).unwrap().versions, [2]);
    assert_eq!(check_all(&disk, "docs").unwrap(), [5, 6]);
}

#[test]
fn clean_keeps_files_of_a_publication_in_progress() {
    let disk = SimDisk::new();
    make_table(&disk, 1);
    let version = publish(&disk, "words", TABLE).unwrap().version;
    let catalog = catalog(&disk);
    let content = || Content::File {
        path: Path::new(TABLE),
        bytes: version.bytes(),
        blake3: &version.files[0].blake3,
    };
    let object = |number: u64| format!("words/files/{number:020}-{}", "ab".repeat(32));
    catalog.origin.store(&[(object(2), content()), (object(1), content())], &|_| ()).unwrap();
    let options = CleanOptions { keep: 1, grace: Duration::ZERO, dry_run: false };
    let cleaned = clean_at(&catalog, "words", &options, i64::MAX).unwrap();
    assert_eq!((cleaned.files, cleaned.bytes), (1, 0), "of version 1, and named by none");
    assert!(catalog.origin.read(&object(2), 0, 1).is_ok(), "somebody is publishing version 2");
    assert_eq!(check_all(&disk, "words").unwrap(), [1]);
}

#[test]
fn invalid_names_and_sources_are_rejected() {
    let disk = SimDisk::new();
    make_collection(&disk);
    let catalog = catalog(&disk);
    for name in ["", ".a", "a/b", "..", &"x".repeat(101)] {
        assert_eq!(kind(publish(&disk, name, COLLECTION)), ErrorKind::InvalidArgument);
    }
    assert_eq!(kind(catalog.newest("docs")), ErrorKind::NotFound);
    assert_eq!(kind(catalog.versions("docs")), ErrorKind::NotFound);
    assert_eq!(kind(catalog.clean("docs", &CleanOptions::default())), ErrorKind::NotFound);
    assert_eq!(kind(publish(&disk, "docs", "/missing")), ErrorKind::NotFound);
    disk.write_raw(Path::new("/note.txt"), &[7; 300]);
    assert_eq!(kind(publish(&disk, "docs", "/note.txt")), ErrorKind::Corrupt);
    let part = disk.list(Path::new(COLLECTION)).unwrap().remove(0);
    let alone = publish(&disk, "docs", &format!("{COLLECTION}/{part}")).unwrap_err();
    assert!(alone.message().contains("directory of a collection"), "{alone}");
    let labels = BTreeMap::from([("why".to_string(), "x".repeat(4097))]);
    let options = PublishOptions { labels, ..PublishOptions::default() };
    let refused = catalog.publish("docs", Path::new(COLLECTION), &options);
    assert_eq!(kind(refused), ErrorKind::InvalidArgument);
    assert_eq!(catalog.names().unwrap(), [""; 0]);
}

#[test]
fn corrupt_files_are_not_published() {
    let disk = SimDisk::new();
    make_table(&disk, 1);
    publish(&disk, "words", TABLE).unwrap();
    make_table(&disk, 2);
    let mut bytes = disk.files()[Path::new(TABLE)].clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    disk.write_raw(Path::new(TABLE), &bytes);
    assert_eq!(kind(publish(&disk, "words", TABLE)), ErrorKind::Corrupt);
    assert_eq!(check_all(&disk, "words").unwrap(), [1]);
}

#[test]
fn verify_reads_every_byte() {
    let disk = SimDisk::new();
    make_table(&disk, 1);
    let version = publish(&disk, "words", TABLE).unwrap().version;
    let mut told = 0;
    let report = catalog(&disk).verify(&version, |_| told += 1).unwrap();
    assert_eq!((report.files, report.bytes, told), (1, version.bytes(), 1));
    let object = Path::new(CATALOG).join(version.object(&version.files[0]));
    let whole = disk.files()[&object].clone();
    let mut damaged = whole.clone();
    *damaged.last_mut().unwrap() ^= 1;
    for bad in [&damaged[..], &whole[1..], &[&whole[..], b"x"].concat()] {
        disk.write_raw(&object, bad);
        assert_eq!(kind(catalog(&disk).verify(&version, |_| ())), ErrorKind::Corrupt);
    }
    disk.remove(&object).unwrap();
    assert_eq!(kind(catalog(&disk).verify(&version, |_| ())), ErrorKind::NotFound);
}
