//! The simulated disk: its state, its faults, and what a test can do to it.

use crate::disk::paths::parent;
use crate::disk::traits::FileId;
use crate::{Error, Result};
use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// How an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// EIO without any effect. A failed sync loses the bytes that it should have saved.
    Io,
    /// ENOSPC for operations that need space; the others succeed.
    NoSpace,
    /// `NoSpace`, but an append writes the first half of its bytes.
    Short,
    /// EIO; a failed sync also drops the unsaved bytes from memory, so that a running process reads
    /// what is on disk.
    Dropped,
}

/// See the documentation of [`crate::disk::sim`].
#[derive(Debug)]
pub(crate) struct SimDisk {
    pub(super) state: Arc<Mutex<State>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// The names that a running process sees.
    pub(super) names: Names,
    /// The names that survive power loss; any of `pending` may be added.
    pub(super) durable: Names,
    /// Changes of names that are not durable, oldest first.
    pub(super) pending: Vec<Change>,
    /// Files by number. Removed files stay here.
    pub(super) files: Vec<Content>,
    /// Open files that never had a name, by the name that tests use. They do not survive power
    /// loss.
    pub(super) unnamed: BTreeMap<PathBuf, usize>,
    /// Numbers of the files that are locked, by a lock or an `Append`.
    pub(super) locks: HashSet<usize>,
    pub(super) log: Vec<String>,
    cut: Option<usize>,
    pub(super) faults: Option<Faults>,
    lie: Option<Lie>,
    /// Size of the disk in bytes.
    pub(super) space: Option<usize>,
    /// Space is allocated by the write that needs it and is never reserved, as on copy-on-write
    /// file systems.
    pub(super) is_sparse: bool,
    /// Directories on separate devices, to which and from which no hard link is possible.
    pub(super) mounts: Vec<PathBuf>,
    /// Current paths of the directories of `Disk::hold`, by the number of the call.
    pub(super) held: Vec<PathBuf>,
    /// Directories that another process renames before an operation, in this order.
    pub(super) moves: Option<(usize, Vec<(PathBuf, PathBuf)>)>,
}

/// Space is allocated in blocks of this many bytes.
const BLOCK: usize = 512;

/// Selects the calls (by verb and path) that report success without doing anything.
type Lie = fn(&str, &Path) -> bool;

pub(super) type Names = BTreeMap<PathBuf, Node>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Dir,
    File(usize),
}

/// One atomic change of a directory that sets or removes names.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) names: Vec<(PathBuf, Option<Node>)>,
    /// A `sync_dir` of this change failed, and no later one makes it durable.
    doomed: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    /// Length of the part that survives power loss.
    pub(super) synced: usize,
    /// Length of an append map, which is filled with zeros after `bytes`.
    pub(super) capacity: usize,
    /// The part of `capacity` that survives power loss.
    pub(super) reserved: usize,
    /// Only `bytes` takes space, and not `capacity`.
    pub(super) is_sparse: bool,
    /// A sync failed, and the kernel marked the unwritten rest clean.
    pub(super) doomed: bool,
    /// Lengths after each append since the last sync: any sector may be on disk in the state after
    /// any of them.
    pub(super) marks: Vec<usize>,
    /// The durable content of the ranges that were rewritten since, unless it is zeros: a reopened
    /// append map may have non-zero bytes after its end.
    pub(super) under: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(super) struct Faults {
    from: usize,
    forever: bool,
    pub(super) fault: Fault,
}

impl SimDisk {
    /// An empty disk; `/` and `.` exist.
    pub(crate) fn new() -> Arc<SimDisk> {
        SimDisk::with(State::default())
    }

    pub(super) fn with(state: State) -> Arc<SimDisk> {
        Arc::new(SimDisk { state: Arc::new(Mutex::new(state)) })
    }

    /// An independent copy with the same bytes and names, synced and unsynced, without locks and
    /// faults, whose operations are counted from 0.
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

    /// Limits the free space to this many bytes; files are rounded up to [`BLOCK`]. Also applies to
    /// forks and to images after power loss.
    pub(crate) fn limit(&self, free: usize) {
        let mut state = self.state();
        state.space = Some(state.used() + free);
    }

    /// Disables the reservation of space, as on file systems without it or with copy-on-write. A
    /// store into a map without space panics, where a real disk would kill the process.
    pub(crate) fn reserve_nothing(&self) {
        self.state().is_sparse = true;
    }

    /// Puts a directory and everything in it on a separate device, also for forks and images.
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

    /// Makes operation `n` fail.
    pub(crate) fn fail_at(&self, n: usize, fault: Fault) {
        self.state().faults = Some(Faults { from: n, forever: false, fault });
    }

    /// Makes operation `n` and all later ones fail, until [`SimDisk::heal`].
    pub(crate) fn fail_from(&self, n: usize, fault: Fault) {
        self.state().faults = Some(Faults { from: n, forever: true, fault });
    }

    /// Ends all faults. Data lost by failed syncs stays lost.
    pub(crate) fn heal(&self) {
        self.state().faults = None;
    }

    /// Cuts the power before operation `n`: it and all later operations fail without effect.
    pub(crate) fn crash_at(&self, n: usize) {
        self.state().cut = Some(n);
    }

    /// Ends the process that did everything so far; at the cut, if there was one. Its locks are
    /// released, nothing that it wrote is lost, and other processes continue.
    pub(crate) fn end_process(&self) {
        let mut state = self.state();
        state.cut = state.cut.filter(|&cut| state.log.len() < cut);
        state.locks.clear();
    }

    /// Makes the syncs that `lie` selects by verb and path report success and do nothing, as if the
    /// program had left them out.
    pub(crate) fn lie_about(&self, lie: fn(&str, &Path) -> bool) {
        self.state().lie = Some(lie);
    }

    /// All files and their bytes as a running process sees them, including unnamed ones.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let state = self.state();
        state.ids().map(|(path, id)| (path.clone(), state.files[id].whole())).collect()
    }

    /// Writes a file durably without counting an operation, for tests that prepare or corrupt
    /// files.
    pub(crate) fn write_raw(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.state();
        let dirs = path.ancestors().skip(1).filter(|dir| !is_root(dir));
        let id = state.files.len();
        let nodes: Vec<_> = dirs.map(|dir| (dir.to_path_buf(), Node::Dir)).collect();
        for (name, node) in nodes.into_iter().chain([(path.to_path_buf(), Node::File(id))]) {
            state.names.insert(name.clone(), node);
            state.durable.insert(name, node);
        }
        // An older pending change of this name must not replace it.
        state.pending.retain(|change| change.names.iter().all(|(name, _)| name != path));
        state.files.push(Content {
            bytes: bytes.to_vec(),
            synced: bytes.len(),
            ..Content::default()
        });
    }

    /// Flips one bit of a file, even if it is open; a second call restores it.
    pub(crate) fn damage(&self, path: &Path, at: usize) {
        let mut state = self.state();
        let found = state.ids().find(|(name, _)| *name == path).map(|(_, id)| id);
        let id = found.unwrap_or_else(|| panic!("{path:?} is no file"));
        state.files[id].bytes[at] ^= 1 << (at % 8);
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl State {
    /// Counts an operation; returns the error if it is to fail.
    pub(super) fn begin(&mut self, verb: &str, path: &Path) -> Result<Option<Error>> {
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

    /// The files that have a name or are open without one.
    pub(super) fn ids(&self) -> impl Iterator<Item = (&PathBuf, usize)> {
        let named = self.names.iter().filter_map(|(path, node)| match node {
            Node::File(id) => Some((path, *id)),
            Node::Dir => None,
        });
        named.chain(self.unnamed.iter().map(|(path, id)| (path, *id)))
    }

    /// Bytes that all files occupy.
    pub(super) fn used(&self) -> usize {
        let ids: HashSet<usize> = self.ids().map(|(_, id)| id).collect(); // Links count once.
        ids.into_iter().map(|id| self.files[id].taken().next_multiple_of(BLOCK)).sum()
    }

    /// Returns an error if a file does not fit that grows from `old` to `length` bytes.
    pub(super) fn fit(&self, verb: &str, path: &Path, old: usize, length: usize) -> Result<()> {
        let more = length.next_multiple_of(BLOCK) - old.next_multiple_of(BLOCK);
        match self.space {
            Some(space) if more > 0 && self.used() + more > space => {
                Err(Error::io(verb, path, io::ErrorKind::StorageFull.into()))
            }
            _ => Ok(()),
        }
    }

    /// Whether this sync reports success without doing anything.
    pub(super) fn is_lie(&self, verb: &str, path: &Path) -> bool {
        self.lie.is_some_and(|lie| lie(verb, path))
    }

    /// Counts an operation that has no effect if it fails.
    pub(super) fn step(&mut self, verb: &str, path: &Path) -> Result<()> {
        self.begin(verb, path)?.map_or(Ok(()), Err)
    }

    pub(super) fn is_dir(&self, path: &Path) -> bool {
        is_root(path) || self.names.get(path) == Some(&Node::Dir)
    }

    /// The number of the file `path`.
    pub(super) fn file(&self, verb: &str, path: &Path) -> Result<usize> {
        match self.names.get(path) {
            Some(Node::File(id)) => Ok(*id),
            Some(Node::Dir) => Err(Error::io(verb, path, io::ErrorKind::IsADirectory.into())),
            None => Err(Error::io(verb, path, io::ErrorKind::NotFound.into())),
        }
    }

    /// The device of a path.
    pub(super) fn device(&self, path: &Path) -> u64 {
        let mount = self.mounts.iter().rposition(|mount| path.starts_with(mount));
        mount.map_or(0, |n| n as u64 + 1)
    }

    pub(super) fn identity(&self, path: &Path) -> Result<FileId> {
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

    /// Changes names as a running process sees them; `sync_dir` makes the change durable.
    pub(super) fn change(&mut self, verb: &str, names: Vec<(PathBuf, Option<Node>)>) -> Result<()> {
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

    pub(super) fn create(&mut self, verb: &str, path: &Path) -> Result<usize> {
        let id = self.files.len();
        self.change(verb, vec![(path.to_path_buf(), Some(Node::File(id)))])?;
        self.files.push(Content::default());
        Ok(id)
    }

    /// Makes the bytes of a file durable, or loses them if the call `failed`.
    pub(super) fn sync_content(
        &mut self,
        id: usize,
        path: &Path,
        failed: Option<Error>,
    ) -> Result<()> {
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

    pub(super) fn sync_dir(&mut self, dir: &Path) -> Result<()> {
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
    /// Appends bytes.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.marks.push(self.bytes.len());
    }

    /// Writes bytes at an offset up to the end, replacing the bytes there.
    pub(super) fn write(&mut self, bytes: &[u8], at: usize) {
        let common = bytes.len().min(self.bytes.len() - at);
        self.bytes[at..at + common].copy_from_slice(&bytes[..common]);
        self.append(&bytes[common..]);
    }

    /// Bytes of the disk that the file occupies.
    pub(super) fn taken(&self) -> usize {
        if self.is_sparse { self.bytes.len() } else { self.length() }
    }

    /// Marks everything up to `to` durable.
    pub(super) fn settle(&mut self, to: usize) {
        self.synced = self.synced.max(to.min(self.bytes.len()));
        self.marks.retain(|&mark| mark > self.synced);
    }

    /// Length of the file as a running process sees it.
    pub(super) fn length(&self) -> usize {
        self.bytes.len().max(self.capacity)
    }

    /// The file as a running process sees it.
    pub(super) fn whole(&self) -> Vec<u8> {
        let mut whole = self.bytes.clone();
        whole.extend_from_slice(self.under.get(whole.len()..).unwrap_or(&[]));
        whole.resize(self.length(), 0);
        whole
    }
}

impl Change {
    pub(super) fn is_in(&self, dir: &Path) -> bool {
        self.names.iter().all(|(name, _)| parent(name) == dir)
    }

    pub(super) fn apply(&self, names: &mut Names) {
        for (name, node) in &self.names {
            match node {
                Some(node) => names.insert(name.clone(), *node),
                None => names.remove(name),
            };
        }
    }
}

/// Applies the changes that `keep` selects, in order, and returns the others.
///
/// File systems may reorder changes of different names, but never changes of the same name: a
/// change that shares a name with a skipped one is skipped as well.
pub(super) fn settle(
    names: &mut Names,
    changes: Vec<Change>,
    keep: impl Fn(usize, &Change) -> bool,
) -> Vec<Change> {
    let mut skipped = Vec::new();
    let mut stuck = HashSet::new();
    for (n, change) in changes.into_iter().enumerate() {
        if keep(n, &change) && !change.names.iter().any(|(name, _)| stuck.contains(name)) {
            change.apply(names);
        } else {
            stuck.extend(change.names.iter().map(|(name, _)| name.clone()));
            skipped.push(change);
        }
    }
    skipped
}

pub(super) fn is_root(path: &Path) -> bool {
    [Path::new("/"), Path::new("."), Path::new("")].contains(&path)
}
