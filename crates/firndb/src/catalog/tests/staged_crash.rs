//! Power loss and failing calls at every operation of staging and of publishing staged files: all
//! versions that exist afterwards are complete, what was acknowledged exists, and the next
//! publication succeeds.

use super::staged::{clean_all, publish_staged, stage, stage_shard};
use super::*;
use crate::catalog::Staged;
use crate::catalog::stage::staged_objects;

const SEED: u64 = 20_261_129;
const SHARDS: usize = 4;

/// A catalog with a version of two tables of four shards, whose shards 1 and 2 are staged anew; the
/// list of the next version; and a table that is not staged yet.
fn base() -> (Arc<SimDisk>, Vec<Staged>) {
    let disk = SimDisk::new();
    let mut staged: Vec<Staged> = (0..SHARDS).map(|shard| stage_shard(&disk, shard, 1)).collect();
    publish_staged(&disk, &staged).unwrap();
    clean_all(&catalog(&disk)).unwrap();
    for shard in [1, 2] {
        staged[shard] = stage_shard(&disk, shard, 2);
    }
    make_table(&disk, 1);
    (disk.fork(), staged)
}

/// Checks that staged files are complete: those in the list, and all others by their names.
fn judge_staged(disk: &Arc<SimDisk>, acknowledged: &[&Staged]) -> std::result::Result<(), String> {
    let objects = staged_objects(&catalog(disk), "words").map_err(|e| e.to_string())?;
    for (object, _) in &objects {
        let bytes = disk.map(&Path::new(CATALOG).join(object)).map_err(|e| e.to_string())?;
        if !object.ends_with(blake3::hash(&bytes).to_hex().as_str()) {
            return Err(format!("{object} is damaged"));
        }
    }
    let is_there = |staged: &&&Staged| objects.iter().any(|(object, _)| object == staged.object());
    match acknowledged.iter().find(|staged| !is_there(staged)) {
        Some(staged) => Err(format!("{} is lost", staged.object())),
        None => Ok(()),
    }
}

/// Publishing goes on after a crash, and a clean-up removes the leftovers.
fn goes_on(disk: &Arc<SimDisk>, list: &[Staged]) -> std::result::Result<(), String> {
    let again = || -> Result<()> {
        let newest = publish_staged(disk, list)?.version;
        assert!(newest.files.iter().zip(list).all(|(file, staged)| file.blake3 == staged.blake3()));
        clean_all(&catalog(disk))?;
        for (folder, expected) in [("files", SHARDS), ("versions", 1), ("staged", 0)] {
            let names = disk.list(&Path::new(CATALOG).join("words").join(folder))?;
            assert_eq!(names.len(), expected, "leftovers among {names:?}");
        }
        Ok(())
    };
    again().map_err(|e| format!("going on fails: {e:?}"))?;
    check_all(disk, "words").map(drop)
}

fn judge_publish(
    disk: &Arc<SimDisk>,
    list: &[Staged],
    is_done: bool,
) -> std::result::Result<(), String> {
    let numbers = check_all(disk, "words")?;
    judge_staged(disk, &[&list[1], &list[2]])?;
    match &numbers[..] {
        [1, 2] => Ok(()),
        [1] if !is_done => Ok(()),
        _ => Err(format!("acknowledged: {is_done}: versions {numbers:?}")),
    }
}

fn judge_stage(
    disk: &Arc<SimDisk>,
    list: &[Staged],
    done: &Result<Staged>,
) -> std::result::Result<(), String> {
    let mut acknowledged = vec![&list[1], &list[2]];
    acknowledged.extend(done.as_ref().ok());
    judge_staged(disk, &acknowledged)?;
    let numbers = check_all(disk, "words")?;
    if numbers == [1] { Ok(()) } else { Err(format!("versions {numbers:?}")) }
}

#[test]
fn power_loss_while_publishing_leaves_complete_versions() {
    let (base, list) = base();
    let mut damage = None;
    let images = base.each_crash(
        SEED,
        16,
        |disk| publish_staged(&disk, &list),
        |label, done, image| {
            let wrong = judge_publish(&image, &list, done.is_ok());
            let wrong = wrong.and_then(|()| goes_on(&image, &list));
            damage = damage.take().or(wrong.err().map(|wrong| format!("{label}: {wrong}")));
        },
    );
    println!("seed {SEED}, {images} images");
    assert_eq!(damage, None);
    assert!(images > 20, "{images} images prove little");
}

#[test]
fn power_loss_while_staging_loses_nothing_acknowledged() {
    let (base, list) = base();
    let mut damage = None;
    let images = base.each_crash(
        SEED,
        16,
        |disk| stage(&disk, Path::new(TABLE)),
        |label, done, image| {
            let wrong = judge_stage(&image, &list, done).and_then(|()| goes_on(&image, &list));
            damage = damage.take().or(wrong.err().map(|wrong| format!("{label}: {wrong}")));
        },
    );
    println!("seed {SEED}, {images} images");
    assert_eq!(damage, None);
    assert!(images > 10, "{images} images prove little");
}

#[test]
fn failed_calls_are_reported_and_harmless() {
    let (base, list) = base();
    let mut failures = 0;
    base.each_fault(
        |disk| publish_staged(&disk, &list),
        |label, done, disk| {
            failures += usize::from(done.is_err());
            let fine = judge_publish(&disk, &list, done.is_ok());
            assert_eq!(fine, Ok(()), "{label}: {done:?}");
            for (cut, image) in disk.images(SEED, 4) {
                assert_eq!(judge_publish(&image, &list, done.is_ok()), Ok(()), "{label}, {cut}");
            }
            assert_eq!(goes_on(&disk, &list), Ok(()), "{label}");
        },
    );
    assert!(failures > 5, "{failures} faults of a publication were reported");
    failures = 0;
    base.each_fault(
        |disk| stage(&disk, Path::new(TABLE)),
        |label, done, disk| {
            failures += usize::from(done.is_err());
            assert_eq!(judge_stage(&disk, &list, done), Ok(()), "{label}: {done:?}");
            for (cut, image) in disk.images(SEED, 4) {
                assert_eq!(judge_stage(&image, &list, done), Ok(()), "{label}, {cut}");
            }
            assert_eq!(goes_on(&disk, &list), Ok(()), "{label}");
        },
    );
    assert!(failures > 5, "{failures} faults of staging were reported");
}

/// Confirms that the tests detect a catalog that omits a sync.
#[test]
fn the_harness_detects_missing_syncs() {
    let (base, list) = base();
    let damaged = |lie: fn(&str, &Path) -> bool| {
        let mut damage = [false; 2];
        base.each_crash(
            SEED,
            16,
            |disk| {
                disk.lie_about(lie);
                publish_staged(&disk, &list)
            },
            |_, done, image| damage[0] |= judge_publish(&image, &list, done.is_ok()).is_err(),
        );
        base.each_crash(
            SEED,
            16,
            |disk| {
                disk.lie_about(lie);
                stage(&disk, Path::new(TABLE))
            },
            |_, done, image| damage[1] |= judge_stage(&image, &list, done).is_err(),
        );
        damage
    };
    assert_eq!(damaged(|_, _| false), [false, false]);
    let files = damaged(|verb, path| verb == "sync_dir" && path.ends_with("words/files"));
    assert_eq!(files, [true, false]);
    let staged = damaged(|verb, path| verb == "sync_dir" && path.ends_with("words/staged"));
    assert_eq!(staged, [false, true]);
}
