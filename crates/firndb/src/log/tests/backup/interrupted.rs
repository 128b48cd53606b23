//! Power cuts and failing calls at every operation of a backup.

use super::{BACKUP, FAR, begin, fill, held, keys, open_at, refused};
use crate::ErrorKind;
use crate::disk::SimDisk;
use crate::log::tests::{DIR, Map, content, open};
use std::path::Path;
use std::sync::Arc;

const SEED: u64 = 48;

/// The content of a backup before and after an update, and the disk before the update.
struct Second {
    base: Arc<SimDisk>,
    first: Map,
    second: Map,
}

/// The second backup has additional segments, and lacks those that compaction removed.
fn second(to: &str) -> Second {
    let (disk, store) = begin();
    let first = content(&store, &keys()).unwrap();
    store.backup(to).unwrap();
    fill(&store, 2);
    store.compact(0.1).unwrap();
    fill(&store, 3);
    let second = content(&store, &keys()).unwrap();
    store.close().unwrap();
    // A power cut before this loses everything anyway.
    (disk.images(SEED, 1)).into_iter().for_each(|(_, image)| drop(held(&image, to).unwrap()));
    Second { base: disk.fork(), first, second }
}

/// Makes the backup. Returns whether it succeeded.
fn back_up(disk: &Arc<SimDisk>, to: &str) -> bool {
    open(disk).and_then(|store| store.backup(to)).is_ok()
}

/// The result is usable: it can be written to, and it can be updated.
fn check_use(label: &str, disk: &Arc<SimDisk>, to: &str, found: &Map, newest: &Map) {
    let again = disk.fork();
    let store = open(&again).unwrap_or_else(|e| panic!("{label}: {e}"));
    store.backup(to).unwrap_or_else(|e| panic!("{label}, once more: {e}"));
    assert_eq!(held(&again, to).unwrap(), *newest, "{label}, once more");
    let copy = open_at(disk, to).unwrap_or_else(|e| panic!("{label}, to write: {e}"));
    assert_eq!(content(&copy, &keys()).unwrap(), *found, "{label}, to write");
    copy.put(b"written", b"since").unwrap();
    copy.close().unwrap();
    let copy = open_at(disk, to).unwrap();
    assert_eq!(copy.get(b"written").unwrap().as_deref(), Some(&b"since"[..]), "{label}");
    assert_eq!(copy.len(), found.len() as u64 + 1, "{label}");
}

#[test]
fn a_power_cut_during_the_second_backup_leaves_the_first_or_the_second() {
    for to in [BACKUP, FAR] {
        let Second { base, first, second } = second(to);
        let mut seen = [0; 2];
        let images = base.each_crash(
            SEED,
            12,
            |disk| back_up(&disk, to),
            |label, &done, image| {
                let label = format!("{to}: {label}");
                let found = held(&image, to).unwrap_or_else(|e| panic!("{label}: {e}"));
                let is_second = found == second;
                assert!(is_second || found == first, "{label}: {found:?}");
                assert!(is_second || !done, "{label}: the old one after success");
                seen[usize::from(is_second)] += 1;
                check_use(&label, &image, to, &found, &second);
            },
        );
        assert!(seen[0] > 50 && seen[1] > 20 && images > 100, "{seen:?} of {images}");
    }
}

#[test]
fn a_failing_call_during_the_second_backup_leaves_the_first_or_the_second() {
    for to in [BACKUP, FAR] {
        let Second { base, first, second } = second(to);
        let mut failed = 0;
        base.each_fault(
            |disk| back_up(&disk, to),
            |label, &done, disk| {
                let label = format!("{to}: {label}");
                let mut images = disk.images(SEED, 3);
                images.push(("healed".to_string(), disk.fork()));
                for (cut, image) in images {
                    let label = format!("{label}, {cut}");
                    let found = held(&image, to).unwrap_or_else(|e| panic!("{label}: {e}"));
                    assert!(found == second || found == first && !done, "{label}: {found:?}");
                }
                failed += usize::from(!done);
                if disk.images(SEED, 1).len() == 1 {
                    let found = held(&disk, to).unwrap();
                    check_use(&label, &disk, to, &found, &second);
                }
            },
        );
        assert!(failed > 50, "{failed} backups failed");
    }
}

#[test]
fn an_interrupted_first_backup_is_not_a_store_and_can_be_repeated() {
    for to in [BACKUP, FAR] {
        let (disk, store) = begin();
        let model = content(&store, &keys()).unwrap();
        store.close().unwrap();
        let mut whole = 0;
        disk.each_crash(
            SEED,
            12,
            |disk| back_up(&disk, to),
            |label, &done, image| {
                let before = super::files_in(&image, to);
                match refused(held(&image, to), &model, done, label) {
                    None => whole += 1,
                    Some(ErrorKind::Corrupt) => {
                        assert!(open_at(&image.fork(), to).is_err(), "{label}");
                        assert_eq!(super::files_in(&image, to), before, "{label}");
                    }
                    Some(_) => {}
                }
                let store = open(&image).unwrap();
                store.backup(to).unwrap_or_else(|e| panic!("{to}: {label}, once more: {e}"));
                assert_eq!(held(&image, to).unwrap(), model, "{label}");
            },
        );
        assert!(whole > 10, "{whole}");
    }
}

#[test]
fn a_reader_of_a_backup_can_be_refreshed_after_an_update() {
    let (disk, store) = begin();
    store.backup(BACKUP).unwrap();
    let reader = super::read_at(&disk, BACKUP).unwrap();
    for round in 2..6 {
        fill(&store, round);
        store.compact(0.1).unwrap();
        store.backup(BACKUP).unwrap();
        reader.refresh().unwrap();
        let model = content(&store, &keys()).unwrap();
        assert_eq!(content(&reader, &keys()).unwrap(), model);
    }
    assert_eq!(held(&disk, DIR).unwrap(), held(&disk, BACKUP).unwrap());
    assert!(Path::new(BACKUP) != Path::new(DIR));
}
