//! A disk in memory that behaves as badly as a real one may.
//!
//! It keeps two views: what a running process sees, and what would survive a power cut. Bytes reach
//! the second by `sync`, names by `sync_dir`, and nothing else does. Every call is an operation
//! with a running number, counted from 0. A test can fail any one of them ([`Fault`]), or cut the
//! power before it and then look at the states the disk may be in after the reboot
//! ([`SimDisk::images`]). The sweeps of `sim/sweep.rs` do this for all numbers in turn:
//!
//! ```text
//! let base = SimDisk::new();                      // prepare what is there before
//! base.each_crash(SEED, 20, |disk| workload(disk), |label, acknowledged, image| ...);
//! ```

mod disk;
mod held;
mod image;
mod sweep;
mod append_map;
mod tests;

use super::{FileId, parent};
use crate::{Error, Result};
use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// EIO, and the operation had no effect. A sync that fails loses what it should have saved.
    Io,
    /// ENOSPC, for operations that need space; the others succeed.
    NoSpace,
    /// As `NoSpace`, but an append leaves the first half of its bytes in the file.
    Short,
    /// EIO; a sync that fails also drops from memory what it should have saved, so that a running
    /// process reads what is on disk.
    Dropped,
}

/// See the head of this file. Clones of the `Arc` are the same disk.
#[derive(Debug)]
pub(crate) struct SimDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// What a running process sees.
    names: Names,
    /// The names that survive a power cut; `pending` may follow.
    durable: Names,
    /// Changes of names that no `sync_dir` has made durable, oldest first.
    pending: Vec<Change>,
    /// Files by number; a file without a name stays here, unseen.
    files: Vec<Content>,
    /// The files that never had a name, as long as they are open, and what tests call them. A
    /// power cut leaves nothing of them.
    unnamed: BTreeMap<PathBuf, usize>,
    /// Numbers of the files that a lock or an `Append` holds.
    locks: HashSet<usize>,
    log: Vec<String>,
    cut: Option<usize>,
    faults: Option<Faults>,
    lie: Option<Lie>,
    /// Bytes that fit on the disk.
    space: Option<usize>,
    /// Space is not reserved but taken by the write that needs it, and a write may be elsewhere
    /// than what it replaces.
    is_sparse: bool,
    /// Directories on devices of their own: no hard link leads into them or out.
    mounts: Vec<PathBuf>,
    /// Where the directories of `Disk::hold` are now, by the number of the call.
    held: Vec<PathBuf>,
    /// Directories that another process moves before an operation, in this order.
    moves: Option<(usize, Vec<(PathBuf, PathBuf)>)>,
}

/// Files take space in pieces of so many bytes.
const BLOCK: usize = 512;

/// Which calls (verb and path) claim success without doing anything.
type Lie = fn(&str, &Path) -> bool;

type Names = BTreeMap<PathBuf, Node>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    Dir,
    File(usize),
}

/// One atomic change of a directory: every name in it is set, or taken away.
#[derive(Clone, Debug)]
struct Change {
    names: Vec<(PathBuf, Option<Node>)>,
    /// A `sync_dir` failed on it: no later one makes it durable.
    doomed: bool,
}

#[derive(Clone, Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    /// Length of the part that survives a power cut.
    synced: usize,
    /// Length of an append map; its file is zeros behind `bytes`.
    capacity: usize,
    /// As much of `capacity` as survives a power cut.
    reserved: usize,
    /// `capacity` takes no space: only `bytes` does.
    is_sparse: bool,
    /// A sync failed: the kernel forgot that the rest was never written.
    doomed: bool,
    /// Lengths after the appends that no sync followed: a sector may be on disk as it was then.
    marks: Vec<usize>,
    /// What is on disk in the place of bytes that are not durable, as far as it is not zeros: a
    /// append map that is opened again may have something behind its end.
    under: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Faults {
    from: usize,
    forever: bool,
    fault: Fault,
}

impl SimDisk {
    /// An empty disk; `/` and `.` exist.
    pub(crate) fn new() -> Arc<SimDisk> {
        SimDisk::with(State::default())
    }

    fn with(state: State) -> Arc<SimDisk> {
        Arc::new(SimDisk { state: Arc::new(Mutex::new(state)) })
    }

    /// The same bytes and names, synced and not, on a disk of its own: no locks, no faults, and
    /// operations counted from 0.
    pub(crate) fn fork(&self) -> Arc<SimDisk> {
        let State { names, durable, pending, files, space, is_sparse, mounts, .. } =
            self.state().clone();
        SimDisk::with(State {
            names,
            durable,
            pending,
            files,
            space,
            is_sparse,
            mounts,
            ..State::default()
        })
    }

    /// From now on this many bytes more fit on the disk, files rounded up to [`BLOCK`]; so too on
    /// its forks, and on what a power cut leaves of it.
    pub(crate) fn limit(&self, free: usize) {
        let mut state = self.state();
        state.space = Some(state.used() + free);
    }

    /// From now on nothing reserves space, as on file systems that cannot, or that write elsewhere
    /// whatever they write. A store into a map for which there is no space is a panic here, for
    /// there it ends the process.
    pub(crate) fn reserve_nothing(&self) {
        self.state().is_sparse = true;
    }

    /// From now on a directory, and all that is in it, is on a device of its own; so too on forks,
    /// and on what a power cut leaves.
    pub(crate) fn mount(&self, dir: &Path) {
        self.state().mounts.push(dir.to_path_buf());
    }

    /// Number of operations so far.
    pub(crate) fn ops(&self) -> usize {
        self.state().log.len()
    }

    /// The operations so far, one line each.
    pub(crate) fn log(&self) -> Vec<String> {
        self.state().log.clone()
    }

    /// Operation `n` fails.
    pub(crate) fn fail_at(&self, n: usize, fault: Fault) {
        self.state().faults = Some(Faults { from: n, forever: false, fault });
    }

    /// Operation `n` and all after it fail, until [`SimDisk::heal`].
    pub(crate) fn fail_from(&self, n: usize, fault: Fault) {
        self.state().faults = Some(Faults { from: n, forever: true, fault });
    }

    /// No operation fails any more. What failed syncs lost stays lost.
    pub(crate) fn heal(&self) {
        self.state().faults = None;
    }

    /// The power goes before operation `n`: the `n` operations before it happened, nothing after.
    pub(crate) fn crash_at(&self, n: usize) {
        self.state().cut = Some(n);
    }

    /// From now on the syncs of which `lie` says so, by verb and path, claim success and do
    /// nothing, as if the program had left them out.
    pub(crate) fn lie_about(&self, lie: fn(&str, &Path) -> bool) {
        self.state().lie = Some(lie);
    }

    /// Every file and its bytes, as a running process sees them; also those without a name.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.state();
        state.ids().map(|(path, id)| (path.clone(), state.files[id].whole())).collect()
    }

    /// Puts a file there, durably and in no operation: for tests that corrupt or prepare files.
    pub(crate) fn write_raw(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.state();
        let dirs = path.ancestors().skip(1).filter(|dir| !is_root(dir));
        let id = state.files.len();
        let nodes: Vec<_> = dirs.map(|dir| (dir.to_path_buf(), Node::Dir)).collect();
        for (name, node) in nodes.into_iter().chain([(path.to_path_buf(), Node::File(id))]) {
            state.names.insert(name.clone(), node);
            state.durable.insert(name, node);
        }
        // An older change of this name must not come back over it.
        state.pending.retain(|change| change.names.iter().all(|(name, _)| name != path));
        state.files.push(Content {
            bytes: bytes.to_vec(),
            synced: bytes.len(),
            ..Content::default()
        });
    }

    /// Turns a bit of a file, also where it is open; turned twice it is as before.
    pub(crate) fn damage(&self, path: &Path, at: usize) {
        let mut state = self.state();
        let found = state.ids().find(|(name, _)| *name == path).map(|(_, id)| id);
        let id = found.unwrap_or_else(|| panic!("{path:?} is no file"));
        state.files[id].bytes[at] ^= 1 << (at % 8);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl State {
    /// Counts an operation; `Some` if it is to fail.
    fn begin(&mut self, verb: &str, path: &Path) -> Result<Option<Error>> {
        let n = self.log.len();
        if self.cut.is_some_and(|cut| n >= cut) {
            return Err(Error::io(verb, path, io::Error::other("power cut")));
        }
        self.log.push(format!("{n}: {verb} {}", path.display()));
        let hit = |f: &&Faults| if f.forever { n >= f.from } else { n == f.from };
        let Some(Faults { fault, .. }) = self.faults.as_ref().filter(hit) else { return Ok(None) };
        if verb == "store" {
            return Ok(None); // Copying into memory cannot fail.
        }
        let error = match fault {
            Fault::Io | Fault::Dropped => io::Error::other("simulated EIO"),
            _ if matches!(verb, "list" | "look" | "map" | "open" | "read" | "remove") => {
                return Ok(None);
            }
            _ => io::Error::from(io::ErrorKind::StorageFull),
        };
        Ok(Some(Error::io(verb, path, error)))
    }

    /// The files that have a name, or that are open and never had one.
    fn ids(&self) -> impl Iterator<Item = (&PathBuf, usize)> {
        let named = self.names.iter().filter_map(|(path, node)| match node {
            Node::File(id) => Some((path, *id)),
            Node::Dir => None,
        });
        named.chain(self.unnamed.iter().map(|(path, id)| (path, *id)))
    }

    /// Bytes that all files take.
    fn used(&self) -> usize {
        let ids: HashSet<usize> = self.ids().map(|(_, id)| id).collect(); // Links count once.
        ids.into_iter().map(|id| self.files[id].taken().next_multiple_of(BLOCK)).sum()
    }

    /// An error if a file of `length` bytes does not fit that has `old` bytes now.
    fn fit(&self, verb: &str, path: &Path, old: usize, length: usize) -> Result<()> {
        let more = length.next_multiple_of(BLOCK) - old.next_multiple_of(BLOCK);
        match self.space {
            Some(space) if more > 0 && self.used() + more > space => {
                Err(Error::io(verb, path, io::ErrorKind::StorageFull.into()))
            }
            _ => Ok(()),
        }
    }

    /// Whether this sync is one that claims success and does nothing.
    fn is_lie(&self, verb: &str, path: &Path) -> bool {
        self.lie.is_some_and(|lie| lie(verb, path))
    }

    /// Counts an operation that has no effect when it fails.
    fn step(&mut self, verb: &str, path: &Path) -> Result<()> {
        self.begin(verb, path)?.map_or(Ok(()), Err)
    }

    fn is_dir(&self, path: &Path) -> bool {
        is_root(path) || self.names.get(path) == Some(&Node::Dir)
    }

    /// The number of the file `path`.
    fn file(&self, verb: &str, path: &Path) -> Result<usize> {
        match self.names.get(path) {
            Some(Node::File(id)) => Ok(*id),
            Some(Node::Dir) => Err(Error::io(verb, path, io::ErrorKind::IsADirectory.into())),
            None => Err(Error::io(verb, path, io::ErrorKind::NotFound.into())),
        }
    }

    /// The device that a path is on.
    fn device(&self, path: &Path) -> u64 {
        let mount = self.mounts.iter().rposition(|mount| path.starts_with(mount));
        mount.map_or(0, |n| n as u64 + 1)
    }

    fn identity(&self, path: &Path) -> Result<FileId> {
        let inode = match self.names.get(path) {
            Some(Node::File(id)) => *id as u64,
            _ if self.is_dir(path) => {
                let mut hasher = DefaultHasher::new();
                path.hash(&mut hasher);
                hasher.finish() | 1 << 63
            }
            _ => return Err(Error::io("look at", path, io::ErrorKind::NotFound.into())),
        };
        Ok(FileId { device: self.device(path), inode })
    }

    /// Changes names as a running process sees them; a `sync_dir` makes it durable.
    fn change(&mut self, verb: &str, names: Vec<(PathBuf, Option<Node>)>) -> Result<()> {
        for (path, _) in &names {
            if !self.is_dir(parent(path)) {
                return Err(Error::io(verb, path, io::ErrorKind::NotFound.into()));
            }
        }
        let change = Change { names, doomed: false };
        change.apply(&mut self.names);
        self.pending.push(change);
        Ok(())
    }

    fn create(&mut self, verb: &str, path: &Path) -> Result<usize> {
        let id = self.files.len();
        self.change(verb, vec![(path.to_path_buf(), Some(Node::File(id)))])?;
        self.files.push(Content::default());
        Ok(id)
    }

    /// Makes the bytes of a file durable, unless the call is one that `failed`.
    fn sync_content(&mut self, id: usize, path: &Path, failed: Option<Error>) -> Result<()> {
        let is_lie = self.is_lie("sync", path);
        let file = &mut self.files[id];
        if let Some(error) = failed {
            file.doomed = true;
            return Err(error);
        }
        if !file.doomed && !is_lie {
            file.settle(usize::MAX);
        }
        Ok(())
    }

    fn sync_dir(&mut self, dir: &Path) -> Result<()> {
        let failed = self.begin("sync_dir", dir)?;
        if !self.is_dir(dir) {
            return Err(Error::io("sync_dir", dir, io::ErrorKind::NotFound.into()));
        }
        if failed.is_none() && self.is_lie("sync_dir", dir) {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        if let Some(error) = failed {
            let doom =
                |change: Change| Change { doomed: change.doomed || change.is_in(dir), ..change };
            self.pending = pending.into_iter().map(doom).collect();
            return Err(error);
        }
        self.pending = settle(&mut self.durable, pending, |_, c| c.is_in(dir) && !c.doomed);
        Ok(())
    }
}

impl Content {
    /// Adds bytes at the end.
    fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.marks.push(self.bytes.len());
    }

    /// Writes bytes at a place up to the end: what was there is replaced.
    fn write(&mut self, bytes: &[u8], at: usize) {
        let common = bytes.len().min(self.bytes.len() - at);
        self.bytes[at..at + common].copy_from_slice(&bytes[..common]);
        self.append(&bytes[common..]);
    }

    /// Bytes of the disk that it takes.
    fn taken(&self) -> usize {
        if self.is_sparse { self.bytes.len() } else { self.length() }
    }

    /// Everything up to `to` is durable now.
    fn settle(&mut self, to: usize) {
        self.synced = self.synced.max(to.min(self.bytes.len()));
        self.marks.retain(|&mark| mark > self.synced);
    }

    /// Length of the file as a running process sees it.
    fn length(&self) -> usize {
        self.bytes.len().max(self.capacity)
    }

    /// The file as a running process sees it.
    fn whole(&self) -> Vec<u8> {
        let mut whole = self.bytes.clone();
        whole.extend_from_slice(self.under.get(whole.len()..).unwrap_or(&[]));
        whole.resize(self.length(), 0);
        whole
    }
}

impl Change {
    fn is_in(&self, dir: &Path) -> bool {
        self.names.iter().all(|(name, _)| parent(name) == dir)
    }

    fn apply(&self, names: &mut Names) {
        for (name, node) in &self.names {
            match node {
                Some(node) => names.insert(name.clone(), *node),
                None => names.remove(name),
            };
        }
    }
}

/// Applies the changes that `keep` wants, in order, and returns the others.
///
/// File systems may reorder changes of different names, never changes of one name: what shares a
/// name with a change left behind stays behind with it.
fn settle(
    names: &mut Names,
    changes: Vec<Change>,
    keep: impl Fn(usize, &Change) -> bool,
) -> Vec<Change> {
    let mut behind = Vec::new();
    let mut stuck = HashSet::new();
    for (n, change) in changes.into_iter().enumerate() {
        if keep(n, &change) && !change.names.iter().any(|(name, _)| stuck.contains(name)) {
            change.apply(names);
        } else {
            stuck.extend(change.names.iter().map(|(name, _)| name.clone()));
            behind.push(change);
        }
    }
    behind
}

fn is_root(path: &Path) -> bool {
    [Path::new("/"), Path::new("."), Path::new("")].contains(&path)
}
