//! One suite of behaviour for the real disk, the portable disk and the simulated one, then the
//! guarantees of `publish` under faults and power cuts, then the proof that these tests catch a
//! broken `publish`.

use crate::disk::publish::create_anew;
use crate::disk::*;
use crate::{Error, ErrorKind, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const SEED: u64 = 20_260_801;

/// A temporary directory that is removed when dropped.
pub(super) struct TempDir(pub(super) PathBuf);

impl TempDir {
    pub(super) fn new() -> TempDir {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("firndb-disk-{}-{n}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        TempDir(dir)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a test on all disks.
fn on_each(test: impl Fn(&dyn Disk, &Path)) {
    for disk in [os(), portable()] {
        let temp = TempDir::new();
        test(&*disk, &temp.0.join("store"));
        let held = disk.hold(&temp.0).unwrap();
        test(&*held, &temp.0.join("held"));
    }
    test(&*SimDisk::new(), Path::new("/tmp/store"));
}

fn kind<T>(result: Result<T>) -> ErrorKind {
    match result {
        Ok(_) => panic!("this call should have failed"),
        Err(e) => {
            assert!(e.file().is_some(), "the error must name a file: {e}");
            e.kind()
        }
    }
}

fn put(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<()> {
    publish(disk, path, |file| bytes.chunks(700).try_for_each(|part| file.append(part)))
}

#[test]
fn files_grow_and_are_mapped() {
    on_each(|disk, dir| {
        assert_eq!(kind(disk.create(&dir.join("a"))), ErrorKind::NotFound);
        disk.create_dir_all(dir).unwrap();
        disk.create_dir_all(dir).unwrap();
        let spill = dir.join("spill");
        let mut file = disk.create(&spill).unwrap();
        assert_eq!(kind(disk.create(&spill)), ErrorKind::AlreadyExists);
        assert!(disk.map(&spill).unwrap().is_empty());
        file.append(b"snow").unwrap();
        file.append(b"").unwrap();
        file.append(b"fall").unwrap();
        file.sync().unwrap();
        let map = disk.map(&spill).unwrap();
        let clone = map.clone();
        drop((file, map));
        disk.remove(&spill).unwrap();
        assert_eq!(&*clone, b"snowfall", "a map outlives the name of its file");
        assert_eq!(kind(disk.map(&spill)), ErrorKind::NotFound);
        assert_eq!(kind(disk.remove(&spill)), ErrorKind::NotFound);
        assert_eq!(kind(disk.map(dir)), ErrorKind::Io, "a directory is not a file");
    });
}

#[test]
fn append_maps_are_filled_reopened_and_synced_in_every_mode() {
    on_each(|disk, dir| {
        disk.create_dir_all(dir).unwrap();
        for (name, mode) in
            [("auto", AppendMode::Auto), ("map", AppendMode::Map), ("write", AppendMode::Write)]
        {
            let path = dir.join(name);
            let (map, mut writer) = disk.create_append_map(&path, 300_000, mode).unwrap();
            assert_eq!(kind(disk.create_append_map(&path, 10, mode)), ErrorKind::AlreadyExists);
            assert_eq!((map.capacity(), map.end(), writer.room()), (300_000, 0, 300_000));
            assert_ne!(map.mode(), AppendMode::Auto);
            writer.append(&[b"snow", b"fall"]).unwrap();
            writer.append(&[&[7; 200_000]]).unwrap();
            assert_eq!(&map.filled()[..9], b"snowfall\x07");
            map.sync(0, map.end()).unwrap();
            assert_eq!(kind(writer.append(&[&[7; 100_000]])), ErrorKind::Failed);
            drop((map, writer));

            assert_eq!(disk.look(&path).unwrap(), Entry::File(300_000));
            let (map, mut writer) = disk.open_append_map(&path, 200_008, mode).unwrap();
            writer.append(&[b"ice"]).unwrap();
            map.sync(200_008, map.end()).unwrap();
            map.close();
            assert_eq!(&map.filled()[200_007..], b"\x07ice");
            let file = disk.map(&path).unwrap();
            assert!(file[..200_011] == *map.filled() && file[200_011..].iter().all(|&b| b == 0));
        }
    });
}

/// Without `fallocate` a filler is written in full, and segments are appended with `pwrite`.
#[test]
#[cfg(unix)]
fn the_portable_disk_writes_fillers_and_selects_the_write_mode() {
    use std::os::unix::fs::MetadataExt;
    let temp = TempDir::new();
    let path = temp.0.join("filler");
    portable().create_filler(&path, 300_000).unwrap();
    let found = fs::metadata(&path).unwrap();
    assert_eq!(found.len(), 300_000);
    assert!(found.blocks() * 512 >= 300_000, "{} blocks", found.blocks());
    assert_eq!(kind(portable().create_filler(&path, 1)), ErrorKind::AlreadyExists);
    assert_eq!(portable().append_mode(&path).unwrap(), AppendMode::Write);
    let segment = temp.0.join("segment");
    let (map, _) = portable().create_append_map(&segment, 5000, AppendMode::Auto).unwrap();
    assert_eq!(map.mode(), AppendMode::Write);
}

#[test]
#[cfg(target_os = "linux")]
fn opening_a_pipe_fails_without_waiting() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let dir = TempDir::new();
    let pipe = dir.0.join("pipe");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    for error in [os().map(&pipe).err().unwrap(), os().open(&pipe).err().unwrap()] {
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
}

#[test]
fn names_are_listed_renamed_and_removed() {
    on_each(|disk, dir| {
        assert_eq!(kind(disk.list(dir)), ErrorKind::NotFound);
        assert_eq!(kind(disk.sync_dir(dir)), ErrorKind::NotFound);
        disk.create_dir_all(&dir.join("nested/deeper")).unwrap();
        assert!(disk.list(dir).unwrap().is_empty(), "directories are not listed");
        for name in ["b", "a10", "a9"] {
            disk.create(&dir.join(name)).unwrap().append(name.as_bytes()).unwrap();
        }
        disk.create(&dir.join("nested/c")).unwrap();
        assert_eq!(disk.list(dir).unwrap(), ["a10", "a9", "b"]);
        disk.rename(&dir.join("a9"), &dir.join("b")).unwrap();
        assert_eq!(disk.list(dir).unwrap(), ["a10", "b"]);
        assert_eq!(&*disk.map(&dir.join("b")).unwrap(), b"a9");
        assert_eq!(kind(disk.rename(&dir.join("a9"), &dir.join("b"))), ErrorKind::NotFound);
        disk.sync_dir(dir).unwrap();
        assert_eq!(disk.list_dirs(dir).unwrap(), ["nested"]);
        assert_eq!(disk.list_dirs(&dir.join("nested")).unwrap(), ["deeper"]);
        assert_eq!(kind(disk.list_dirs(&dir.join("missing"))), ErrorKind::NotFound);
    });
}

#[test]
fn a_file_written_by_another_handle_is_synced() {
    on_each(|disk, dir| {
        disk.create_dir_all(dir).unwrap();
        assert_eq!(kind(disk.sync_file(&dir.join("a"))), ErrorKind::NotFound);
        disk.create(&dir.join("a")).unwrap().append(b"snow").unwrap();
        disk.sync_file(&dir.join("a")).unwrap();
        disk.sync_dir(dir).unwrap();
    });
    let disk = SimDisk::new();
    disk.create(Path::new("/a")).unwrap().append(b"snow").unwrap();
    disk.sync_file(Path::new("/a")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    for (label, image) in disk.images(SEED, 20) {
        assert_eq!(&*image.map(Path::new("/a")).unwrap(), b"snow", "{label}");
    }
}

#[test]
fn a_lock_has_one_holder() {
    on_each(|disk, dir| {
        disk.create_dir_all(dir).unwrap();
        let path = dir.join("lock");
        let held = disk.lock(&path).unwrap();
        let refused = disk.lock(&path).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Locked);
        assert!(refused.message().contains("close it"), "{refused}");
        drop(held);
        drop(disk.lock(&path).unwrap());
        assert_eq!(disk.list(dir).unwrap(), ["lock"], "the lock file stays");

        let growing = disk.create(&dir.join("growing")).unwrap();
        assert_eq!(kind(disk.lock(&dir.join("growing"))), ErrorKind::Locked);
        drop(growing);
        drop(disk.lock(&dir.join("growing")).unwrap());
    });
}

#[test]
fn publish_is_all_or_nothing() {
    on_each(|disk, dir| {
        disk.create_dir_all(dir).unwrap();
        let path = dir.join("file");
        assert_eq!(publish(disk, &path, |file| file.append(b"old").map(|()| 3)).unwrap(), 3);
        let failed: Result<()> = publish(disk, &path, |file| {
            file.append(b"half")?;
            assert_eq!(kind(put(disk, &path, b"rival")), ErrorKind::Locked);
            Err(Error::invalid("no more").in_file(&path))
        });
        assert_eq!(kind(failed), ErrorKind::InvalidArgument);
        assert_eq!(&*disk.map(&path).unwrap(), b"old");
        assert_eq!(disk.list(dir).unwrap(), ["file"], "no temporary file is left");

        drop(disk.create(&dir.join(".file.firndb-tmp")).unwrap()); // As a crash would leave it.
        drop(disk.create(&dir.join(".file.tmp")).unwrap()); // Not a temporary file of FirnDB.
        put(disk, &path, b"new").unwrap();
        assert_eq!(&*disk.map(&path).unwrap(), b"new");
        assert_eq!(disk.list(dir).unwrap(), [".file.tmp", "file"]);
        assert!(is_temporary(".file.firndb-tmp"));
        assert!(![".file.tmp", "file.firndb-tmp", "file"].into_iter().any(is_temporary));
        assert_eq!(kind(put(disk, &dir.join(".."), b"x")), ErrorKind::InvalidArgument);
    });
}

/// A symbolic link at the name of the temporary file is left alone.
#[test]
fn a_link_at_the_name_of_a_temporary_file_is_not_followed() {
    let temp = TempDir::new();
    let (path, link) = (temp.0.join("file"), temp.0.join(".file.firndb-tmp"));
    for target in [temp.0.join("missing"), temp.0.join("there")] {
        fs::write(temp.0.join("there"), b"unrelated").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let refused = put(&*os(), &path, b"x").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
        assert_eq!(refused.file(), Some(&*link));
        assert_eq!(fs::read_link(&link).unwrap(), target);
        fs::remove_file(&link).unwrap();
    }
    assert_eq!(fs::read(temp.0.join("there")).unwrap(), b"unrelated");
    assert_eq!(os().list(&temp.0).unwrap(), ["there"]);
}

#[test]
fn unnamed_files_are_read_back_and_disappear_with_their_handles() {
    on_each(|disk, dir| {
        assert_eq!(kind(disk.create_unnamed(dir)), ErrorKind::NotFound);
        disk.create_dir_all(dir).unwrap();
        let (mut append, read) = disk.create_unnamed(dir).unwrap();
        append.append(b"snow").unwrap();
        append.append(b"fall").unwrap();
        assert!(disk.list(dir).unwrap().is_empty());
        let mut bytes = [0; 5];
        read.read_at(1, &mut bytes).unwrap();
        assert_eq!((&bytes, read.len().unwrap()), (b"nowfa", 8));
        assert_eq!(kind(read.read_at(4, &mut bytes)), ErrorKind::Corrupt);
        let map = read.map().unwrap();
        drop((append, read));
        assert_eq!(&*map, b"snowfall");
    });
    // They occupy space while they are open.
    let disk = SimDisk::new();
    disk.limit(1024);
    let (mut append, read) = disk.create_unnamed(Path::new("/")).unwrap();
    append.append(&[7; 1000]).unwrap();
    let full = disk.create(Path::new("/a")).unwrap().append(&[7; 30]);
    assert_eq!(kind(full), ErrorKind::Io);
    assert_eq!(disk.files().len(), 2);
    drop((append, read));
    disk.create(Path::new("/b")).unwrap().append(&[7; 30]).unwrap();
    assert_eq!(disk.files().len(), 2);
}

#[test]
fn concurrent_publishers_never_publish_a_partial_file() {
    const THREADS: u8 = 6;
    const ROUNDS: usize = 50;
    let temp = TempDir::new();
    let path = temp.0.join("file");
    let won = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for id in 0..THREADS {
            let (path, won) = (&path, &won);
            scope.spawn(move || {
                for _ in 0..ROUNDS {
                    match put(&*os(), path, &[id; 3000]) {
                        Ok(()) => {
                            won.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(e) => assert_eq!(e.kind(), ErrorKind::Locked, "{e}"),
                    }
                    if let Ok(bytes) = fs::read(path) {
                        assert_eq!(bytes, [bytes[0]; 3000]);
                    }
                }
            });
        }
    });
    assert!(won.into_inner() > 0);
    assert_eq!(os().list(&temp.0).unwrap(), ["file"]);
}

#[test]
fn only_regular_files_are_listed_and_mapped() {
    let temp = TempDir::new();
    fs::write(temp.0.join("file"), b"x").unwrap();
    std::os::unix::fs::symlink("file", temp.0.join("link")).unwrap();
    assert_eq!(os().list(&temp.0).unwrap(), ["file"]);
    assert_eq!(kind(os().map(Path::new("/dev/zero"))), ErrorKind::Io);
}

#[test]
fn a_failed_append_or_sync_is_never_repeated() {
    for (n, fault, left) in [(2, Fault::Short, 5), (2, Fault::Io, 4), (3, Fault::Io, 7)] {
        let disk = SimDisk::new();
        let path = Path::new("file");
        let mut file = disk.create(path).unwrap();
        disk.fail_at(n, fault);
        file.append(b"firn").unwrap();
        let failed = file.append(b"ice").and_then(|()| file.sync());
        assert_eq!(kind(failed), ErrorKind::Io);
        let ops = disk.ops();
        assert_eq!(kind(file.sync()), ErrorKind::Failed);
        assert_eq!(kind(file.append(b"more")), ErrorKind::Failed);
        assert_eq!(disk.ops(), ops, "nothing reached the disk");
        assert_eq!(disk.files()[path].len(), left, "operation {n}, {fault:?}");
    }
}

type Publish = fn(&dyn Disk, &Path, &[u8]) -> Result<()>;

const OLD: &[u8] = &[b'o'; 2000];
const NEW: &[u8] = &[b'n'; 3000];

fn published() -> (Arc<SimDisk>, PathBuf) {
    let disk = SimDisk::new();
    let path = PathBuf::from("/store/file");
    disk.create_dir_all(parent(&path)).unwrap();
    put(&*disk, &path, OLD).unwrap();
    (disk.fork(), path)
}

/// Describes the damage of the file, if any. `done` is the result of the publish.
fn judge(disk: &SimDisk, path: &Path, done: &Result<()>) -> Option<String> {
    match disk.files().get(path) {
        Some(bytes) if bytes == NEW => None,
        Some(bytes) if bytes == OLD && done.is_err() => None,
        Some(bytes) if bytes == OLD => Some("the acknowledged content is lost".into()),
        Some(bytes) => Some(format!("half a file of {} bytes", bytes.len())),
        None => Some("the file is gone".into()),
    }
}

/// The first damage when the power is cut at any operation of this publish.
fn first_crash_damage(publish: Publish) -> Option<String> {
    let (base, path) = published();
    let mut damage = None;
    let images = base.each_crash(
        SEED,
        60,
        |disk| publish(&*disk, &path, NEW),
        |label, done, image| {
            let wrong = judge(&image, &path, done).or_else(|| {
                // Leftovers of the crash must not prevent the next publish.
                let again = put(&*image, &path, NEW);
                again.and_then(|()| image.list(parent(&path))).map_or_else(
                    |e| Some(format!("cannot publish again: {e}")),
                    |names| (names != ["file"]).then(|| format!("leftovers: {names:?}")),
                )
            });
            damage = damage.take().or(wrong.map(|wrong| format!("{label}: {wrong}")));
        },
    );
    println!("seed {SEED}: {images} images, damage: {damage:?}");
    assert!(images > 20, "{images} images prove little");
    damage
}

/// The first damage when any operation of this publish fails, also with a power cut right after.
fn first_fault_damage(publish: Publish) -> Option<String> {
    let (base, path) = published();
    let mut damage = None;
    let runs = base.each_fault(
        |disk| publish(&*disk, &path, NEW),
        |label, done, disk| {
            let images = disk.images(SEED, 60);
            for (cut, image) in [("running".to_string(), disk)].into_iter().chain(images) {
                let wrong = judge(&image, &path, done).map(|w| format!("{label}, {cut}: {w}"));
                damage = damage.take().or(wrong);
            }
        },
    );
    println!("seed {SEED}: {runs} runs, damage: {damage:?}");
    assert!(runs >= 30, "{runs} runs prove little");
    damage
}

#[test]
fn publish_survives_a_power_cut_at_every_operation() {
    assert_eq!(first_crash_damage(put), None);
}

#[test]
fn publish_survives_a_failure_of_every_operation() {
    assert_eq!(first_fault_damage(put), None);
}

#[test]
fn publish_returns_an_error_if_the_new_file_is_not_visible() {
    let (base, path) = published();
    base.each_fault(
        |disk| put(&*disk, &path, NEW),
        |label, done, disk| {
            let new = disk.files()[&path] == NEW;
            assert!(new || done.is_err(), "{label}: no error, but the old file is still there");
        },
    );
}

/// `publish` step by step, so that mutants can omit or reorder steps.
fn by_hand(disk: &dyn Disk, path: &Path, steps: &[&str]) -> Result<()> {
    let temporary = temporary(path)?;
    let mut file = create_anew(disk, &temporary)?;
    for step in steps {
        match *step {
            "append" => file.append(NEW)?,
            "sync" => file.sync()?,
            "try to sync" => file.sync().unwrap_or(()),
            "rename" => disk.rename(&temporary, path)?,
            "sync_dir" => disk.sync_dir(parent(path))?,
            "remove old" => disk.remove(path)?,
            other => panic!("no step {other}"),
        }
    }
    Ok(())
}

#[test]
fn broken_variants_of_publish_are_caught() {
    let whole: Publish =
        |disk, path, _| by_hand(disk, path, &["append", "sync", "rename", "sync_dir"]);
    assert_eq!(first_crash_damage(whole), None);
    assert_eq!(first_fault_damage(whole), None);

    let broken_by_a_cut: [(&str, Publish); 6] = [
        ("no sync", |d, p, _| by_hand(d, p, &["append", "rename", "sync_dir"])),
        ("no sync_dir", |d, p, _| by_hand(d, p, &["append", "sync", "rename"])),
        ("late sync", |d, p, _| by_hand(d, p, &["append", "rename", "sync", "sync_dir"])),
        ("early sync", |d, p, _| by_hand(d, p, &["sync", "append", "rename", "sync_dir"])),
        ("gap", |d, p, _| by_hand(d, p, &["append", "sync", "remove old", "rename", "sync_dir"])),
        ("in place", |d, p, new| {
            d.remove(p)?;
            let mut file = d.create(p)?;
            file.append(new)?;
            file.sync()?;
            d.sync_dir(parent(p))
        }),
    ];
    for (name, publish) in broken_by_a_cut {
        assert!(first_crash_damage(publish).is_some(), "not caught: {name}");
    }
    let ignores_errors: Publish =
        |d, p, _| by_hand(d, p, &["append", "try to sync", "rename", "sync_dir"]);
    assert_eq!(first_crash_damage(ignores_errors), None, "only a failing sync shows it");
    assert!(first_fault_damage(ignores_errors).is_some(), "not caught: a failed sync ignored");
}

#[test]
fn a_part_of_a_map_outlives_the_map() {
    let dir = TempDir::new();
    let (path, bytes) = (dir.0.join("f"), (0..200u8).collect::<Vec<_>>());
    fs::write(&path, &bytes).unwrap();
    let mut slab = Slab::new(bytes.len()).unwrap();
    slab.copy_from_slice(&bytes);
    let mapped = os().map(&path).unwrap();
    for map in [mapped, Map::from_vec(bytes.clone()), slab.freeze().unwrap()] {
        let part = map.part(20..150).unwrap();
        assert!(map.part(20..201).is_none() && map.part(200..200).unwrap().is_empty());
        assert!(part.part(0..131).is_none(), "a part has no more than itself");
        drop(map);
        let inner = part.clone().part(10..30).unwrap();
        drop(part);
        assert_eq!(*inner, bytes[30..50]);
        std::thread::spawn(move || assert_eq!(inner[3], 33)).join().unwrap();
    }
}
