//! The simulated disk loses everything that a real one may lose, and nothing else.

use crate::disk::paths::parent;
use crate::disk::sim::state::{Fault, SimDisk};
use crate::disk::traits::{Append, Disk};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

const SEED: u64 = 7;
const MANY: usize = 500;

/// A disk with an empty, durable directory `/d`.
fn disk() -> Arc<SimDisk> {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/d")).unwrap();
    disk
}

/// Creates a file with synced bytes, but without syncing its name.
fn synced(disk: &SimDisk, path: &str, bytes: &[u8]) -> Box<dyn Append> {
    let mut file = disk.create(Path::new(path)).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
    file
}

/// The set of values of `look` over all images.
fn seen<T: Ord>(disk: &SimDisk, look: impl Fn(&SimDisk) -> T) -> BTreeSet<T> {
    disk.images(SEED, MANY).iter().map(|(_, image)| look(image)).collect()
}

fn has(disk: &SimDisk, path: &str) -> bool {
    disk.files().contains_key(Path::new(path))
}

#[test]
fn synced_bytes_under_a_durable_name_are_in_every_image() {
    let disk = disk();
    let mut file = synced(&disk, "/d/a", &[1; 700]);
    disk.sync_dir(Path::new("/d")).unwrap();
    file.append(&[2; 2000]).unwrap();
    let tails = seen(&disk, |image| {
        let bytes = image.files()[Path::new("/d/a")].clone();
        assert_eq!(bytes[..700], [1; 700]);
        assert!(bytes.len() % 512 == 0 || [700, 2700].contains(&bytes.len()), "torn in a sector");
        bytes[700..].to_vec()
    });
    let full = |byte| tails.contains(&vec![byte; 2000]);
    assert!(tails.contains(&vec![]) && full(2) && full(0), "dropped, kept, zeros");
    assert!(tails.iter().any(|t| !t.is_empty() && t.len() < 2000 && t.iter().all(|&b| b == 2)));
    assert!(tails.iter().any(|t| t.ends_with(&[2]) && t.contains(&0)), "a hole");
    assert!(tails.iter().any(|t| t.iter().any(|&b| b > 2)), "garbage");
}

#[test]
fn a_name_is_durable_only_after_a_sync_of_its_directory() {
    let disk = disk();
    drop(synced(&disk, "/d/a", b"a"));
    assert_eq!(seen(&disk, |i| has(i, "/d/a")), BTreeSet::from([false, true]));
    disk.sync_dir(Path::new("/d")).unwrap();
    assert_eq!(seen(&disk, |i| has(i, "/d/a")), BTreeSet::from([true]));
    assert_eq!(disk.images(SEED, MANY).len(), 1, "nothing is left to lose");
}

#[test]
fn a_rename_is_atomic() {
    let disk = disk();
    drop((synced(&disk, "/d/new", b"new"), synced(&disk, "/d/file", b"old")));
    disk.sync_dir(Path::new("/d")).unwrap();
    disk.rename(Path::new("/d/new"), Path::new("/d/file")).unwrap();
    let states = seen(&disk, |i| (i.files()[Path::new("/d/file")].clone(), has(i, "/d/new")));
    assert_eq!(states, BTreeSet::from([(b"new".to_vec(), false), (b"old".to_vec(), true)]));
}

#[test]
fn changes_of_different_names_are_reordered_and_those_of_one_name_are_not() {
    let disk = disk();
    drop((synced(&disk, "/d/old", b""), synced(&disk, "/d/tmp", b"")));
    disk.sync_dir(Path::new("/d")).unwrap();
    disk.rename(Path::new("/d/tmp"), Path::new("/d/new")).unwrap();
    disk.remove(Path::new("/d/old")).unwrap();
    drop(synced(&disk, "/d/tmp", b"again"));
    let states = seen(&disk, |i| (has(i, "/d/old"), has(i, "/d/new")));
    let all = [(false, false), (false, true), (true, false), (true, true)];
    assert_eq!(states, BTreeSet::from(all), "the removal may overtake the rename");
    for (label, image) in disk.images(SEED, MANY) {
        let files = image.files();
        let again = files.get(Path::new("/d/tmp")).is_some_and(|bytes| bytes == b"again");
        assert!(!again || has(&image, "/d/new"), "{label}: a name overtook itself");
    }
}

#[test]
fn a_lost_directory_loses_its_files() {
    let disk = disk();
    disk.fail_at(disk.ops() + 2, Fault::Io); // The sync of `/d` after `create_dir /d/e`.
    assert!(disk.create_dir_all(Path::new("/d/e")).is_err());
    drop(synced(&disk, "/d/e/a", b"a"));
    disk.sync_dir(Path::new("/d/e")).unwrap();
    assert_eq!(seen(&disk, |i| has(i, "/d/e/a")), BTreeSet::from([false, true]));
    let (_, lost) = disk.images(SEED, MANY).remove(1);
    assert!(lost.list(Path::new("/d/e")).is_err());
}

#[test]
fn data_lost_by_a_failed_sync_stays_lost() {
    let disk = disk();
    let mut file = synced(&disk, "/d/a", b"safe");
    file.append(b"lost").unwrap();
    disk.fail_at(disk.ops(), Fault::Io);
    assert!(file.sync().is_err());
    assert_eq!(disk.files()[Path::new("/d/a")], b"safelost", "the page cache still has it");
    disk.fail_at(disk.ops(), Fault::Io);
    assert!(disk.sync_dir(Path::new("/d")).is_err());
    disk.sync_dir(Path::new("/d")).unwrap();
    let states = seen(&disk, |i| i.files().get(Path::new("/d/a")).cloned());
    assert!(states.contains(&None), "a later sync_dir does not repair a failed one");
    assert!(states.contains(&Some(b"safe".to_vec())));
    assert!(!states.contains(&Some(b"safelost".to_vec())));
}

#[test]
fn operations_after_a_power_cut_have_no_effect() {
    let disk = disk();
    let mut file = synced(&disk, "/d/a", b"a");
    let held = disk.lock(Path::new("/d/lock")).unwrap();
    disk.crash_at(disk.ops() + 1);
    file.append(b"b").unwrap();
    let before = (disk.files(), disk.ops());
    let refused = [
        file.append(b"c"),
        disk.create_dir_all(Path::new("/d/e")),
        disk.create(Path::new("/d/b")).map(drop),
        disk.remove(Path::new("/d/a")),
        disk.sync_dir(Path::new("/d")),
        disk.map(Path::new("/d/a")).map(drop),
        disk.list(Path::new("/d")).map(drop),
    ];
    for result in refused {
        assert!(result.unwrap_err().message().contains("power cut"));
    }
    assert_eq!((disk.files(), disk.ops()), before);
    for (_, image) in disk.images(SEED, MANY) {
        drop(image.lock(Path::new("/d/lock")).unwrap()); // A reboot releases it.
    }
    drop(held);
}

#[test]
fn a_full_disk_refuses_operations_that_need_space() {
    let disk = disk();
    let mut file = synced(&disk, "/d/a", b"a");
    disk.fail_from(disk.ops(), Fault::Short);
    assert!(file.append(b"1234").is_err());
    assert!(disk.create(Path::new("/d/b")).is_err());
    assert_eq!(&*disk.map(Path::new("/d/a")).unwrap(), b"a12");
    disk.remove(Path::new("/d/a")).unwrap();
    assert!(disk.list(Path::new("/d")).unwrap().is_empty());
}

#[test]
fn images_depend_on_the_seed_and_forks_are_independent() {
    let disk = disk();
    synced(&disk, "/d/a", b"a").append(&[3; 5000]).unwrap();
    let look = |seed| -> Vec<_> {
        disk.images(seed, 40).into_iter().map(|(label, image)| (label, image.files())).collect()
    };
    assert_eq!(look(1), look(1));
    assert_ne!(look(1), look(2));
    let all: BTreeSet<_> = look(1).into_iter().map(|(_, files)| files).collect();
    assert_eq!(all.len(), 40, "all different");

    let fork = disk.fork();
    fork.write_raw(Path::new("/x/y/raw"), b"raw");
    assert_eq!(fork.images(SEED, MANY).last().unwrap().1.files()[Path::new("/x/y/raw")], b"raw");
    assert_eq!((fork.ops(), has(&disk, "/x/y/raw")), (0, false));
    assert!(fork.list(parent(Path::new("/x/y/raw"))).is_ok());
}
