//! The calls of [`Disk`] on the simulated disk, with the same steps and errors as the real one.

use crate::disk::append_map::{AppendMap, AppendMapWriter, AppendMode};
use crate::disk::map::Map;
use crate::disk::paths::parent;
use crate::disk::poison::Poison;
use crate::disk::sim::append_map::append_map;
use crate::disk::sim::held_dir::hold_dir;
use crate::disk::sim::state::{Content, Fault, Faults, Node, SimDisk, State, is_root};
use crate::disk::traits::{
    Append, Disk, DiskRef, Entry, FileId, Lock, ReadAt, cut, locked, replaced,
};
use crate::{Error, Result};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::SystemTime;

impl Disk for SimDisk {
    fn hold(self: Arc<Self>, dir: &Path) -> Result<DiskRef> {
        hold_dir(self, dir)
    }

    fn check_held(&self) -> Result<()> {
        Ok(())
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        // The same steps as on the real disk, each of which is an operation.
        let mut state = self.state();
        let mut missing = Vec::new();
        let mut next = dir;
        while !is_root(next) && !state.names.contains_key(next) {
            missing.push(next);
            next = parent(next);
        }
        state.sync_dir(parent(next))?;
        for dir in missing.into_iter().rev() {
            state.step("create_dir", dir)?;
            state.change("create_dir", vec![(dir.to_path_buf(), Some(Node::Dir))])?;
            state.sync_dir(parent(dir))?;
        }
        Ok(())
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.names(dir, |node| matches!(node, Node::File(_)))
    }

    fn list_dirs(&self, dir: &Path) -> Result<Vec<String>> {
        self.names(dir, |node| *node == Node::Dir)
    }

    /// Always empty: this disk has only files and directories.
    fn list_others(&self, dir: &Path) -> Result<Vec<String>> {
        self.names(dir, |_| false)
    }

    fn identity(&self, path: &Path) -> Result<FileId> {
        let mut state = self.state();
        state.step("look at", path)?;
        state.identity(path)
    }

    fn lineage(&self, dir: &Path) -> Result<Vec<FileId>> {
        let mut state = self.state();
        state.step("look at", dir)?;
        dir.ancestors().filter(|dir| *dir != Path::new("")).map(|dir| state.identity(dir)).collect()
    }

    fn look(&self, path: &Path) -> Result<Entry> {
        let mut state = self.state();
        state.step("open", path)?;
        match state.names.get(path) {
            Some(Node::File(id)) => Ok(Entry::File(state.files[*id].length() as u64)),
            _ if state.is_dir(path) => Ok(Entry::Dir),
            _ => Err(Error::io("find", path, io::ErrorKind::NotFound.into())),
        }
    }

    /// This disk has no symbolic links.
    fn resolve(&self, path: &Path) -> Result<PathBuf> {
        self.look(path).map(|_| path.to_path_buf())
    }

    /// Always the epoch: this disk has no clock.
    fn modified(&self, path: &Path) -> Result<SystemTime> {
        let mut state = self.state();
        state.step("modified", path)?;
        state.file("look at", path).map(|_| SystemTime::UNIX_EPOCH)
    }

    fn create(&self, path: &Path) -> Result<Box<dyn Append>> {
        let mut state = self.state();
        state.step("create", path)?;
        if state.names.contains_key(path) {
            return Err(Error::io("create", path, io::ErrorKind::AlreadyExists.into()));
        }
        let id = state.create("create", path)?;
        let lock = FileLock::take(&self.state, &mut state, id, path)?;
        Ok(Box::new(Poison::new(
            SimAppend { held: Held::Lock(lock), path: path.into() },
            path.into(),
        )))
    }

    fn create_unnamed(&self, dir: &Path) -> Result<(Box<dyn Append>, Box<dyn ReadAt>)> {
        let mut state = self.state();
        state.step("create_unnamed", dir)?;
        if !state.is_dir(dir) {
            return Err(Error::io("create", dir, io::ErrorKind::NotFound.into()));
        }
        let id = state.files.len();
        state.files.push(Content::default());
        let path = dir.join(format!("(unnamed file {id})"));
        state.unnamed.insert(path.clone(), id);
        let open = Arc::new(Open { state: Arc::clone(&self.state), id, path: path.clone() });
        let append = SimAppend { held: Held::Open(Arc::clone(&open)), path: path.clone() };
        let read =
            SimFile { state: Arc::clone(&self.state), id, path: path.clone(), _open: Some(open) };
        Ok((Box::new(Poison::new(append, path)), Box::new(read)))
    }

    fn reopen(&self, path: &Path) -> Result<Box<dyn Append>> {
        let mut state = self.state();
        state.step("open", path)?;
        let id = state.file("open", path)?;
        let lock = FileLock::take(&self.state, &mut state, id, path)?;
        Ok(Box::new(Poison::new(
            SimAppend { held: Held::Lock(lock), path: path.into() },
            path.into(),
        )))
    }

    fn map(&self, path: &Path) -> Result<Map> {
        let mut state = self.state();
        state.step("map", path)?;
        let id = state.file("map", path)?;
        Ok(Map::from_vec(state.files[id].whole()))
    }

    fn open(&self, path: &Path) -> Result<Box<dyn ReadAt>> {
        let mut state = self.state();
        state.step("open", path)?;
        let id = state.file("open", path)?;
        Ok(Box::new(SimFile { state: Arc::clone(&self.state), id, path: path.into(), _open: None }))
    }

    fn create_append_map(
        &self,
        path: &Path,
        capacity: usize,
        mode: AppendMode,
    ) -> Result<(Arc<AppendMap>, AppendMapWriter)> {
        let mut state = self.state();
        state.step("create_append_map", path)?;
        if state.names.contains_key(path) {
            return Err(Error::io("create_append_map", path, io::ErrorKind::AlreadyExists.into()));
        }
        let is_sparse = state.is_sparse;
        state.fit("create_append_map", path, 0, if is_sparse { 0 } else { capacity })?;
        let id = state.create("create_append_map", path)?;
        state.files[id].capacity = capacity;
        state.files[id].is_sparse = is_sparse;
        append_map(&self.state, &state, id, 0, mode, path)
    }

    fn append_mode(&self, _: &Path) -> Result<AppendMode> {
        Ok(if self.state().is_sparse { AppendMode::Write } else { AppendMode::Map })
    }

    fn create_filler(&self, path: &Path, length: u64) -> Result<()> {
        let mut state = self.state();
        state.step("create_filler", path)?;
        if state.names.contains_key(path) {
            return Err(Error::io("create_filler", path, io::ErrorKind::AlreadyExists.into()));
        }
        state.fit("create_filler", path, 0, length as usize)?;
        let id = state.create("create_filler", path)?;
        state.files[id].capacity = length as usize;
        Ok(())
    }

    fn open_append_map(
        &self,
        path: &Path,
        end: usize,
        mode: AppendMode,
    ) -> Result<(Arc<AppendMap>, AppendMapWriter)> {
        let mut state = self.state();
        state.step("open", path)?;
        let id = state.file("open", path)?;
        let file = &mut state.files[id];
        let whole = file.whole();
        file.capacity = whole.len();
        let used = whole.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
        file.under.resize(used, 0);
        if end < used {
            file.under[end..].copy_from_slice(&whole[end..used]);
        }
        file.bytes = whole;
        file.bytes.resize(end, 0);
        file.synced = file.synced.min(end);
        file.marks.retain(|&mark| mark <= end);
        append_map(&self.state, &state, id, end, mode, path)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = self.state();
        state.step("link", from)?;
        let id = state.file("link", from)?;
        if state.names.contains_key(to) {
            return Err(Error::io("link", to, io::ErrorKind::AlreadyExists.into()));
        }
        if state.device(from) != state.device(to) {
            return Err(Error::io("link", from, io::ErrorKind::CrossesDevices.into()));
        }
        state.change("link", vec![(to.into(), Some(Node::File(id)))])
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = self.state();
        state.step("rename", from)?;
        if parent(from) != parent(to) {
            return Err(Error::invalid("a rename stays in its directory").in_file(from));
        }
        let id = state.file("rename", from)?;
        if state.is_dir(to) {
            return Err(Error::io("rename", to, io::ErrorKind::IsADirectory.into()));
        }
        state.change("rename", vec![(from.into(), None), (to.into(), Some(Node::File(id)))])
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut state = self.state();
        state.step("remove", path)?;
        state.file("remove", path)?;
        state.change("remove", vec![(path.into(), None)])
    }

    fn sync_file(&self, path: &Path) -> Result<()> {
        let mut state = self.state();
        let failed = state.begin("sync", path)?;
        let id = state.file("sync", path)?;
        state.sync_content(id, path, failed)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.state().sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>> {
        let mut state = self.state();
        state.step("lock", path)?;
        let id = match state.names.get(path) {
            None => state.create("lock", path)?,
            Some(_) => state.file("lock", path)?,
        };
        let held = FileLock::take(&self.state, &mut state, id, path)?;
        Ok(Box::new(SimLock { held, path: path.into() }))
    }
}

impl SimDisk {
    fn names(&self, dir: &Path, is_wanted: impl Fn(&Node) -> bool) -> Result<Vec<String>> {
        let mut state = self.state();
        state.step("list", dir)?;
        if !state.is_dir(dir) {
            let is_file = state.names.contains_key(dir);
            let kind = if is_file { io::ErrorKind::NotADirectory } else { io::ErrorKind::NotFound };
            return Err(Error::io("list", dir, kind.into()));
        }
        let inside = |path: &Path| parent(path) == dir && !is_root(path);
        let wanted = state.names.iter().filter(|(path, node)| is_wanted(node) && inside(path));
        let names = wanted.filter_map(|(path, _)| path.file_name()?.to_str());
        let mut names: Vec<String> = names.map(String::from).collect();
        names.sort_unstable();
        Ok(names)
    }
}

struct SimFile {
    state: Arc<Mutex<State>>,
    id: usize,
    path: PathBuf,
    /// Keeps a file without a name.
    _open: Option<Arc<Open>>,
}

impl ReadAt for SimFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let mut state = self.state.lock().unwrap();
        state.step("read", &self.path)?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let whole = state.files[self.id].whole();
        let there = whole.get(start..start.saturating_add(bytes.len()));
        bytes.copy_from_slice(there.ok_or_else(|| cut(&self.path, offset, bytes.len()))?);
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.state.lock().unwrap().files[self.id].length() as u64)
    }

    fn map(&self) -> Result<Map> {
        let mut state = self.state.lock().unwrap();
        state.step("map", &self.path)?;
        Ok(Map::from_vec(state.files[self.id].whole()))
    }
}

struct SimLock {
    held: FileLock,
    path: PathBuf,
}

impl Lock for SimLock {
    fn check(&self) -> Result<()> {
        match self.held.state.lock().unwrap().names.get(&self.path) {
            Some(Node::File(id)) if *id == self.held.id => Ok(()),
            _ => Err(replaced(&self.path)),
        }
    }
}

/// Holds a file's lock until dropped.
struct FileLock {
    state: Arc<Mutex<State>>,
    id: usize,
}

impl FileLock {
    fn take(
        all: &Arc<Mutex<State>>,
        state: &mut State,
        id: usize,
        path: &Path,
    ) -> Result<FileLock> {
        if !state.locks.insert(id) {
            return Err(locked(path));
        }
        Ok(FileLock { state: Arc::clone(all), id })
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        self.state.lock().unwrap().locks.remove(&self.id);
    }
}

/// Keeps a file without a name until dropped.
struct Open {
    state: Arc<Mutex<State>>,
    id: usize,
    path: PathBuf,
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.state.lock().unwrap();
        state.unnamed.remove(&self.path);
        state.files[self.id] = Content::default();
    }
}

/// What keeps the file of an [`Append`].
enum Held {
    Lock(FileLock),
    Open(Arc<Open>),
}

struct SimAppend {
    held: Held,
    path: PathBuf,
}

impl SimAppend {
    /// The state of the disk and the number of the file.
    fn file(&self) -> (MutexGuard<'_, State>, usize) {
        let (state, id) = match &self.held {
            Held::Lock(lock) => (&lock.state, lock.id),
            Held::Open(open) => (&open.state, open.id),
        };
        (state.lock().unwrap(), id)
    }
}

impl Append for SimAppend {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let (mut state, id) = self.file();
        let failed = state.begin("append", &self.path)?;
        let old = state.files[id].length();
        state.fit("append", &self.path, old, old + bytes.len())?;
        let short = matches!(&state.faults, Some(Faults { fault: Fault::Short, .. }));
        let taken = match failed {
            None => bytes.len(),
            Some(_) if short => bytes.len() / 2,
            Some(_) => 0,
        };
        state.files[id].append(&bytes[..taken]);
        failed.map_or(Ok(()), Err)
    }

    fn sync(&mut self) -> Result<()> {
        let (mut state, id) = self.file();
        let failed = state.begin("sync", &self.path)?;
        state.sync_content(id, &self.path, failed)
    }
}
