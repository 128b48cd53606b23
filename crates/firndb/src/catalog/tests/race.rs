//! Publishers, clean-ups and pins between each other's calls. Whatever happens between two calls of
//! one of them, an acknowledged version follows its parent, every existing version is complete, and
//! an acknowledged pin holds.

use super::*;
use crate::catalog::clean::clean_at;
use crate::catalog::format::{leaving_dir, pin_object, version_object};
use crate::catalog::local::LocalOrigin;
use crate::catalog::{CleanOptions, Content, Origin};
use crate::{Error, ErrorKind};
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

type Hook = Box<dyn FnOnce() + Send>;

/// An origin that runs a hook, or kills the process, just before call `at`.
struct Between {
    inner: LocalOrigin,
    calls: AtomicUsize,
    at: usize,
    hook: Mutex<Option<Hook>>,
    is_killed: bool,
}

impl fmt::Debug for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Between {
    fn new(disk: &Arc<SimDisk>, at: usize) -> Between {
        let inner = LocalOrigin::new(disk.clone() as DiskRef, Path::new(CATALOG));
        let (calls, hook) = (AtomicUsize::new(0), Mutex::new(None));
        Between { inner, calls, at, hook, is_killed: false }
    }

    fn step(&self) -> Result<()> {
        let call = self.calls.fetch_add(1, Relaxed);
        if call == self.at
            && let Some(hook) = self.hook.lock().unwrap().take()
        {
            hook();
        }
        match self.is_killed && call >= self.at {
            true => Err(Error::new(ErrorKind::Io, "killed")),
            false => Ok(()),
        }
    }
}

#[rustfmt::skip]
impl Origin for Between {
    fn create(&self, object: &str, bytes: &[u8]) -> Result<()> {
        self.step()?;
        self.inner.create(object, bytes)
    }
    fn store(&self, objects: &[(String, Content<'_>)], progress: &dyn Fn(u64)) -> Result<()> {
        self.step()?;
        self.inner.store(objects, progress)
    }
    fn hint(&self, object: &str, bytes: &[u8]) -> Result<()> {
        self.step()?;
        self.inner.hint(object, bytes)
    }
    fn read(&self, object: &str, offset: u64, len: usize) -> Result<Vec<u8>> {
        self.step()?;
        self.inner.read(object, offset, len)
    }
    fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.step()?;
        self.inner.list(folder)
    }
    fn list_folders(&self, folder: &str) -> Result<Vec<String>> {
        self.step()?;
        self.inner.list_folders(folder)
    }
    fn remove(&self, objects: &[String]) -> Result<()> {
        self.step()?;
        self.inner.remove(objects)
    }
    fn are_intact(&self, objects: &[(String, u64)]) -> Result<Vec<bool>> {
        self.step()?;
        self.inner.are_intact(objects)
    }
    fn sweep(&self, folder: &str) -> Result<()> {
        self.step()?;
        self.inner.sweep(folder)
    }
}

/// Runs `work` with `hook` before call `at`. Also returns the number of calls.
pub(super) fn interrupted<T>(
    disk: &Arc<SimDisk>,
    at: usize,
    hook: impl FnOnce() + Send + 'static,
    work: impl FnOnce(&Catalog) -> T,
) -> (T, usize) {
    let between = Between { hook: Mutex::new(Some(Box::new(hook))), ..Between::new(disk, at) };
    let between = Arc::new(between);
    let catalog = Catalog { origin: between.clone(), disk: disk.clone() as DiskRef };
    let outcome = work(&catalog);
    (outcome, between.calls.load(Relaxed))
}

/// Runs `work` until it is killed before call `at`. Returns whether it finished before that.
fn killed<T>(disk: &Arc<SimDisk>, at: usize, work: impl FnOnce(&Catalog) -> Result<T>) -> bool {
    let between = Arc::new(Between { is_killed: true, ..Between::new(disk, at) });
    let catalog = Catalog { origin: between.clone(), disk: disk.clone() as DiskRef };
    let _ = work(&catalog);
    between.calls.load(Relaxed) <= at
}

fn clean(catalog: &Catalog) -> Result<()> {
    let options = CleanOptions { keep: 1, grace: Duration::ZERO, dry_run: false };
    clean_at(catalog, "docs", &options, i64::MAX).map(drop)
}

/// A catalog with `versions` versions of a collection, and a newer unpublished state of it.
fn base(versions: i64) -> Arc<SimDisk> {
    let disk = SimDisk::new();
    make_collection(&disk);
    for version in 1..=versions {
        replace(&disk, "a", version);
        publish(&disk, "docs", COLLECTION).unwrap();
    }
    replace(&disk, "b", 9);
    make_table(&disk, 1);
    disk.fork()
}

type Others = fn(&Arc<SimDisk>);

/// What other processes do while a publisher is suspended. They publish other content.
const OTHERS: [(&str, Others); 5] = [
    ("a clean-up", |disk| clean(&catalog(disk)).unwrap()),
    ("a publisher", |disk| drop(publish(disk, "docs", TABLE).unwrap())),
    ("a publisher and a clean-up", |disk| {
        publish(disk, "docs", TABLE).unwrap();
        clean(&catalog(disk)).unwrap();
    }),
    ("two publishers and a clean-up", |disk| {
        publish(disk, "docs", TABLE).unwrap();
        make_table(disk, 2);
        publish(disk, "docs", TABLE).unwrap();
        clean(&catalog(disk)).unwrap();
    }),
    ("publishers, a pin and clean-ups", |disk| {
        let pinned = publish(disk, "docs", TABLE).unwrap().version.number;
        catalog(disk).pin("docs", pinned, "").unwrap();
        for version in 3..6 {
            make_table(disk, version);
            publish(disk, "docs", TABLE).unwrap();
            clean(&catalog(disk)).unwrap();
        }
    }),
];

/// Checks the catalog after a publisher has ended. `seen` is the id of the newest version at the
/// time when the other processes began.
fn judge(
    disk: &Arc<SimDisk>,
    done: &Result<Published>,
    seen: &str,
) -> std::result::Result<(), String> {
    let numbers = check_all(disk, "docs")?;
    let catalog = catalog(disk);
    for pin in catalog.pins("docs").unwrap() {
        if !numbers.contains(&pin) {
            return Err(format!("version {pin} is pinned and lost"));
        }
    }
    match done {
        Ok(published) => {
            let Version { number, id, .. } = &published.version;
            let is_there = catalog.version("docs", *number).is_ok_and(|there| there.id == *id);
            let next = catalog.version("docs", number + 1).ok();
            let is_followed = next.is_some_and(|next| next.parent_id.as_ref() == Some(id));
            let is_newest = is_there && numbers.last() == Some(number);
            if is_newest || is_followed || id == seen {
                return Ok(());
            }
            Err(format!("version {number} was acknowledged, and is not among {numbers:?}"))
        }
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(format!("{e:?}")),
    }
}

#[test]
fn an_overtaken_publisher_gets_an_error() {
    type Work = fn(&Catalog) -> Result<Published>;
    let works: [(&str, Work); 2] = [
        ("publish", |catalog| catalog.publish("docs", COLLECTION, &PublishOptions::default())),
        ("rollback", |catalog| catalog.rollback("docs", 2, &PublishOptions::default())),
    ];
    let base = base(2);
    for ((work_name, work), (name, others)) in
        works.iter().flat_map(|work| OTHERS.iter().map(move |others| (work, others)))
    {
        let (mut at, mut outcomes) = (0, [0, 0]);
        loop {
            let disk = base.fork();
            let seen = Arc::new(Mutex::new(String::new()));
            let (meanwhile, newest) = (disk.clone(), seen.clone());
            let hook = move || {
                *newest.lock().unwrap() = catalog(&meanwhile).newest("docs").unwrap().id;
                others(&meanwhile);
            };
            let (done, calls) = interrupted(&disk, at, hook, work);
            let seen = seen.lock().unwrap();
            if calls <= at {
                break;
            }
            let label = format!("{work_name}, {name}, before call {at}");
            // A rollback fails if its version is removed concurrently.
            if done.as_ref().is_err_and(|e| e.kind() == ErrorKind::NotFound) {
                assert_eq!(*work_name, "rollback", "{label}");
                assert!(check_all(&disk, "docs").is_ok(), "{label}");
            } else {
                assert_eq!(judge(&disk, &done, &seen), Ok(()), "{label}");
            }
            outcomes[usize::from(done.is_err())] += 1;
            // The next publication succeeds.
            let next = publish(&disk, "docs", COLLECTION).unwrap();
            assert_eq!(judge(&disk, &Ok(next), ""), Ok(()), "{label}, and the next");
            at += 1;
        }
        println!("{work_name}, {name}: {outcomes:?}");
        assert!(outcomes[0] > 1 && (*name == "a clean-up" || outcomes[1] > 1), "{outcomes:?}");
    }
}

/// A publisher that is killed after it was overtaken leaves a version that was never the newest.
/// The next clean-up removes it, however many versions are kept.
#[test]
fn a_version_with_a_reused_number_is_removed() {
    let disk = base(5);
    let stale = catalog(&disk).version("docs", 3).unwrap();
    clean(&catalog(&disk)).unwrap();
    publish(&disk, "docs", COLLECTION).unwrap();
    let mut stray = catalog(&disk).version("docs", 5).unwrap();
    (stray.number, stray.id, stray.files) = (5, "0".repeat(32), stale.files);
    let object = version_object("docs", 5);
    disk.remove(&Path::new(CATALOG).join(&object)).unwrap();
    catalog(&disk).origin.create(&object, stray.manifest().as_bytes()).unwrap();
    assert!(check_all(&disk, "docs").is_err(), "its files are gone");
    catalog(&disk).clean("docs", &CleanOptions::default()).unwrap();
    assert_eq!(check_all(&disk, "docs").unwrap(), [6]);
}

/// Pins version 1. Returns whether that was acknowledged.
fn pin(catalog: &Catalog) -> bool {
    match catalog.pin("docs", 1, "mine") {
        Ok(()) => true,
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::NotFound, "{e}");
            false
        }
    }
}

/// Checks that an acknowledged pin holds, and that a rejected one is gone.
fn judge_pin(disk: &Arc<SimDisk>, is_pinned: bool, label: &str) {
    for round in 0..2 {
        let there = check_all(disk, "docs").unwrap_or_else(|e| panic!("{label}: {e}"));
        assert!(!is_pinned || there.contains(&1), "{label}, round {round}: {there:?}");
        assert!(there.contains(&3), "{label}: {there:?}");
        assert_eq!(catalog(disk).pins("docs").unwrap().is_empty(), !is_pinned, "{label}");
        clean(&catalog(disk)).unwrap();
    }
    assert_eq!(check_all(disk, "docs").unwrap().contains(&1), is_pinned, "{label}");
    let marks = catalog(disk).origin.list(&leaving_dir("docs")).unwrap();
    assert!(is_pinned || marks.is_empty(), "{label}: {marks:?}");
}

#[test]
fn a_pin_during_clean_ups_holds_or_fails() {
    let base = base(3);
    let mut pinned = [0, 0];
    // A clean-up during another, and a pin during that; also in the reverse order.
    let mut outer = 0;
    loop {
        let (mut inner, mut is_last) = (0, false);
        loop {
            let disk = base.fork();
            let held = Arc::new(Mutex::new(None));
            let (second, keeps) = (disk.clone(), held.clone());
            let hook = move || {
                let (third, keeps) = (second.clone(), keeps.clone());
                let hook = move || *keeps.lock().unwrap() = Some(pin(&catalog(&third)));
                interrupted(&second, inner, hook, |catalog| clean(catalog).unwrap());
            };
            let ((), calls) = interrupted(&disk, outer, hook, |catalog| clean(catalog).unwrap());
            is_last |= calls <= outer;
            let Some(is_pinned) = *held.lock().unwrap() else { break };
            judge_pin(&disk, is_pinned, &format!("clean-ups, before call {outer} and {inner}"));
            pinned[usize::from(is_pinned)] += 1;
            inner += 1;
        }
        if is_last {
            break;
        }
        outer += 1;
    }
    println!("refused and acknowledged: {pinned:?}");
    assert!(pinned[0] > 20 && pinned[1] > 20, "{pinned:?}");
}

#[test]
fn a_clean_up_during_a_pin_removes_or_keeps_the_version() {
    let base = base(3);
    let (mut at, mut pinned) = (0, [0, 0]);
    loop {
        let disk = base.fork();
        let meanwhile = disk.clone();
        let hook = move || clean(&catalog(&meanwhile)).unwrap();
        let (is_pinned, calls) = interrupted(&disk, at, hook, pin);
        if calls <= at {
            break;
        }
        judge_pin(&disk, is_pinned, &format!("a pin, before call {at}"));
        pinned[usize::from(is_pinned)] += 1;
        at += 1;
    }
    assert!(pinned[0] > 0 && pinned[1] > 1, "{pinned:?}");
}

/// Kills clean-ups and pins at every call. What was acknowledged before or after must hold.
#[test]
fn killed_operations_leave_pins_consistent() {
    let base = base(3);
    for is_pinned_first in [false, true] {
        for at in 0.. {
            let disk = base.fork();
            let first = is_pinned_first && pin(&catalog(&disk));
            let is_whole = killed(&disk, at, clean);
            let is_pinned = first || pin(&catalog(&disk));
            judge_pin(&disk, is_pinned, &format!("killed before call {at}"));
            if is_whole {
                break;
            }
        }
    }
    for at in 0.. {
        let disk = base.fork();
        let is_whole = killed(&disk, at, |catalog| catalog.pin("docs", 1, ""));
        // The pin was not acknowledged. If it exists nevertheless, it can be removed.
        clean(&catalog(&disk)).unwrap();
        check_all(&disk, "docs").unwrap();
        catalog(&disk).unpin("docs", 1).unwrap();
        judge_pin(&disk, false, &format!("killed before call {at}"));
        assert!(!disk.files().contains_key(&Path::new(CATALOG).join(pin_object("docs", 1))));
        if is_whole {
            break;
        }
    }
}

/// A clean-up between any two calls of another succeeds.
#[test]
fn concurrent_clean_ups_succeed() {
    let base = base(4);
    for at in 0.. {
        let disk = base.fork();
        let meanwhile = disk.clone();
        let hook = move || {
            publish(&meanwhile, "docs", COLLECTION).unwrap();
            publish(&meanwhile, "docs", TABLE).unwrap();
            clean(&catalog(&meanwhile)).unwrap();
        };
        let options = CleanOptions { keep: 1, grace: Duration::ZERO, dry_run: false };
        let (done, calls) = interrupted(&disk, at, hook, |c| c.clean("docs", &options).map(drop));
        assert!(done.is_ok(), "before call {at}: {done:?}");
        if calls <= at {
            break;
        }
        assert_eq!(check_all(&disk, "docs").unwrap().last(), Some(&6), "before call {at}");
    }
}

/// A publisher that verifies finds and repairs corruption that leaves the length intact.
#[test]
fn a_verifying_publisher_repairs_corrupt_objects() {
    let disk = SimDisk::new();
    make_collection(&disk);
    let first = publish(&disk, "docs", COLLECTION).unwrap().version;
    let path = Path::new(CATALOG).join(first.object(&first.files[1]));
    let mut bytes = disk.files()[&path].clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    disk.write_raw(&path, &bytes);
    let again = |verify| {
        let options = PublishOptions { verify, ..PublishOptions::default() };
        catalog(&disk).publish("docs", COLLECTION, &options).unwrap()
    };
    let relied_on = again(false);
    assert_eq!((relied_on.files_sent, relied_on.files_repaired), (0, 0));
    assert!(check(&disk, &relied_on.version).is_err());
    let repaired = again(true);
    assert_eq!((repaired.files_sent, repaired.files_repaired), (1, 1));
    assert_eq!(check(&disk, &repaired.version), Ok(()));
    assert_eq!(again(true).files_repaired, 0);
    // An unchanged collection is published if the catalog lacks one of its files.
    let options = PublishOptions::default();
    let unless_there = || catalog(&disk).publish_if_changed("docs", COLLECTION, &options).unwrap();
    assert_eq!(unless_there(), None);
    let newest = catalog(&disk).newest("docs").unwrap();
    disk.remove(&Path::new(CATALOG).join(newest.object(&newest.files[0]))).unwrap();
    assert_eq!(unless_there().unwrap().files_repaired, 1);
    assert_eq!(check(&disk, &catalog(&disk).newest("docs").unwrap()), Ok(()));
}
