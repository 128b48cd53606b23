//! A collection: a directory of partitions of which whole sets are published and swapped.
//!
//! A change:
//! 1. `Change::put` writes and syncs a partition file; its name holds its content id.
//! 2. `Change::commit` syncs the directory, then publishes the next set file: the change is made.
//! 3. `Change::clean` removes what the change made superfluous; when something else may be left
//!    over, everything that the current set does not name. Readers that still have these files
//!    mapped go on undisturbed.
//!
//! Opening is in `current.rs`, creating in `create.rs`.

use super::builder::{Built, PartitionBuilder};
use super::current::{self, Current, Members};
use super::manifest::{self, Member};
use super::merge;
use super::partition::Partition;
use super::reader::Reader;
use crate::disk::{self, DiskRef, Lock};
use crate::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::SystemTime;

/// The file by which those who change a collection keep each other away.
pub(super) const LOCK: &str = "lock";
const EXTENSION: &str = ".part.firn";
/// Bytes of a partition's name at most.
pub(super) const MAX_NAME: usize = 100;

/// A directory of partitions that are queried together. One process changes it at a time; any
/// number read it.
pub struct Collection {
    pub(super) disk: DiskRef,
    pub(super) dir: PathBuf,
    current: RwLock<Arc<Current>>,
    /// Held while a change is under way in this process. The number of the last set that was made
    /// here, if it left nothing in the directory that is not of it.
    changing: Mutex<Option<u64>>,
}

/// A partition of a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionInfo {
    /// Its name.
    pub name: String,
    /// Its documents.
    pub documents: u32,
    /// The size of its file in bytes.
    pub bytes: u64,
}

impl Collection {
    /// Opens the newest set of a collection.
    pub fn open(dir: impl AsRef<Path>) -> Result<Collection> {
        Self::open_on(disk::os(), dir.as_ref())
    }

    pub(crate) fn open_on(disk: DiskRef, dir: &Path) -> Result<Collection> {
        let current = current::newest(&disk, dir)?;
        let (dir, current) = (dir.to_path_buf(), RwLock::new(Arc::new(current)));
        Ok(Collection { disk, dir, current, changing: Mutex::new(None) })
    }

    fn current(&self) -> Arc<Current> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The current set. It stays as it is, whatever happens to the collection.
    pub fn reader(&self) -> Reader {
        self.current().reader.clone()
    }

    /// The number of the current set: it grows by 1 with each change.
    pub fn version(&self) -> u64 {
        self.current().number
    }

    /// Looks for a newer set, which another process may have published; true if there was one.
    /// `Failed` if the directory has only older ones: see [`Collection::change`].
    pub fn refresh(&self) -> Result<bool> {
        let current = self.current();
        let newest = match self.next_sets(current.number)? {
            Some(number) => number,
            // Whoever copies a collection may leave numbers out.
            None => current::newest_number(&self.disk, &self.dir)?,
        };
        self.load(&current, newest)
    }

    fn load(&self, current: &Current, newest: u64) -> Result<bool> {
        if newest == current.number {
            return Ok(false);
        }
        let next = current::load(&self.disk, &self.dir, newest, Some(current))?;
        if next.number < current.number {
            let message = format!(
                "the newest set here is number {}, but number {} is open: older files were put in \
                 the place of newer ones; open the collection anew",
                next.number, current.number
            );
            return Err(Error::new(ErrorKind::Failed, message).in_file(&self.dir));
        }
        self.swap(next);
        Ok(true)
    }

    /// The last of the sets that follow set `number` without a gap: asking for a file is cheaper
    /// than listing a directory of many.
    fn next_sets(&self, number: u64) -> Result<Option<u64>> {
        let mut last = None;
        for next in number + 1.. {
            match self.disk.map(&self.dir.join(manifest::file_name(next))) {
                Ok(_) => last = Some(next),
                Err(e) if e.kind() == ErrorKind::NotFound => break,
                Err(e) => return Err(e),
            }
        }
        Ok(last)
    }

    /// When the file of a partition was written.
    pub(super) fn written(&self, part: &Partition) -> Result<SystemTime> {
        self.disk.modified(part.file.path())
    }

    fn swap(&self, next: Current) {
        let mut next = Arc::new(next);
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if next.number >= current.number {
            std::mem::swap(&mut *current, &mut next);
        }
        drop(current); // Nobody waits for the old set to be freed.
    }

    /// Starts a change. `Locked` if one is under way in another process; in this one it waits for
    /// its turn. `InvalidArgument` if the collection belongs to an index, which alone changes it
    /// ([`Collection::check_changeable`]). `Failed` if a copy was restored over the directory whose
    /// newest set is older than the current one: open the collection anew.
    pub fn change(&self) -> Result<Change<'_>> {
        self.check_changeable()?;
        self.change_as_owner()
    }

    /// [`Collection::change`] by the index that the collection belongs to, if it belongs to one.
    pub(crate) fn change_as_owner(&self) -> Result<Change<'_>> {
        let mut turn = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let lock = self.disk.lock(&self.dir.join(LOCK))?;
        self.catch_up()?;
        let current = self.current();
        // Forgotten until `commit` knows better: a change that is cut short leaves files.
        let tidy = turn.take() == Some(current.number);
        Ok(Change {
            collection: self,
            members: current.members.clone(),
            opened: BTreeMap::new(),
            staged: Vec::new(),
            tidy,
            current,
            _lock: lock,
            turn,
        })
    }

    /// Opens the newest set. The caller has the lock, so nobody publishes or removes a set: sets
    /// are removed in ascending order, so the newest is the one at which a row of numbers ends that
    /// begins with one that is there.
    fn catch_up(&self) -> Result<()> {
        let current = self.current();
        let newest = match self.next_sets(current.number)? {
            Some(number) => number,
            None => match self.disk.map(&self.dir.join(manifest::file_name(current.number))) {
                Ok(_) => return Ok(()),
                Err(_) => current::newest_number(&self.disk, &self.dir)?,
            },
        };
        self.load(&current, newest).map(|_| ())
    }

    /// Removes what the set does not name: older sets, replaced partitions, leftovers of changes
    /// that were cut off.
    pub(super) fn clean(&self, current: &Current) -> Result<()> {
        let named: HashSet<&str> = current.members.iter().map(|m| m.file.as_str()).collect();
        for name in self.disk.list(&self.dir)? {
            let old_set = manifest::number(&name).is_some_and(|n| n < current.number);
            let partition = name.ends_with(EXTENSION) || disk::is_temporary(&name);
            if old_set || (partition && !named.contains(name.as_str())) {
                self.disk.remove(&self.dir.join(&name))?;
            }
        }
        Ok(())
    }
}

/// A change of a collection: all of it becomes visible at `commit`, or nothing.
pub struct Change<'a> {
    collection: &'a Collection,
    /// In the order of their names.
    members: Vec<Arc<Member>>,
    opened: BTreeMap<String, Arc<Partition>>,
    /// Partition files that this change published.
    staged: Vec<String>,
    /// The directory has nothing but what the current set names and what was staged.
    tidy: bool,
    pub(super) current: Arc<Current>,
    _lock: Box<dyn Lock>,
    turn: MutexGuard<'a, Option<u64>>,
}

/// The place of a name among members, or where it belongs.
fn place(members: &[Arc<Member>], name: &str) -> std::result::Result<usize, usize> {
    members.binary_search_by(|m| m.name.as_str().cmp(name))
}

impl Change<'_> {
    /// Adds a partition, or replaces the one of this name.
    ///
    /// A name has 1 to 100 characters of `A-Z a-z 0-9 . _ -` and does not begin with a dot.
    pub fn put(&mut self, name: &str, builder: PartitionBuilder) -> Result<()> {
        self.put_built(name, builder.finish()?)
    }

    /// [`Change::put`] of a partition that is ready to be written.
    pub(crate) fn put_built(&mut self, name: &str, built: Built) -> Result<()> {
        self.put_with(name, |out| built.write(out))
    }

    /// Adds or replaces a partition by a copy of a partition file.
    pub fn put_file(&mut self, name: &str, file: impl AsRef<Path>) -> Result<()> {
        let part = Partition::open(&*self.collection.disk, file.as_ref(), None)?;
        part.verify()?;
        self.put_with(name, |out| {
            part.file.copy_to(out)?;
            Ok(part.file.content())
        })
    }

    /// Joins partitions into one called `into`, without the documents they were built from: the
    /// result is the partition that a builder makes of their documents in the order of `names`. It
    /// takes the place of `names`. A partition called `into` that is not among them is
    /// `AlreadyExists`, a name that is there twice `InvalidArgument`.
    pub fn merge(&mut self, names: &[&str], into: &str) -> Result<()> {
        let mut seen = HashSet::with_capacity(names.len());
        if let Some(twice) = names.iter().find(|name| !seen.insert(**name)) {
            return Err(Error::invalid(format!("partition `{twice}` is to be merged twice")));
        }
        if !seen.contains(into) && place(&self.members, into).is_ok() {
            let message = format!(
                "there is a partition `{into}`, which is not to be merged; choose another name"
            );
            return Err(Error::new(ErrorKind::AlreadyExists, message).in_file(&self.collection.dir));
        }
        let mut parts = Vec::with_capacity(names.len());
        for name in names {
            parts.push(self.open(name)?);
        }
        let merged = merge::merge(&parts)?;
        self.put_with(into, |out| merged.write(out))?;
        for name in names.iter().filter(|name| **name != into) {
            if let Ok(at) = place(&self.members, name) {
                self.members.remove(at);
            }
        }
        Ok(())
    }

    /// Removes a partition. After the last one the collection keeps its schema until others come.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        let place = place(&self.members, name).map_err(|_| self.no_partition(name))?;
        self.members.remove(place);
        Ok(())
    }

    fn no_partition(&self, name: &str) -> Error {
        Error::new(ErrorKind::NotFound, format!("there is no partition `{name}`"))
            .in_file(&self.collection.dir)
    }

    /// The names of all partitions, ascending.
    pub(super) fn names(&self) -> Vec<&str> {
        self.members.iter().map(|member| &*member.name).collect()
    }

    pub(super) fn open(&mut self, name: &str) -> Result<Arc<Partition>> {
        let at = place(&self.members, name).map_err(|_| self.no_partition(name))?;
        if let Some(part) = self.opened.get(name) {
            return Ok(part.clone());
        }
        // What this change did not publish is of the current set.
        match place(&self.current.members, name) {
            Ok(old) => Ok(self.current.reader.set.partitions[old].clone()),
            Err(_) => {
                let member = &self.members[at];
                let path = manifest::path(&self.collection.dir, member);
                current::open_member(&self.collection.disk, &path, member, None)
            }
        }
    }

    /// Publishes a partition file and takes it for `name`.
    fn put_with(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut dyn disk::Append) -> Result<u128>,
    ) -> Result<()> {
        check_name(name)?;
        let (disk, dir) = (&self.collection.disk, &self.collection.dir);
        let file_of = |content: &u128| format!("{name}.{content:032x}{EXTENSION}");
        let content =
            disk::stage(&**disk, &dir.join(name), write, |content| dir.join(file_of(content)))?;
        let file = file_of(&content);
        self.staged.push(file.clone());
        let like = place(&self.current.members, name).map_or(0, |at| at);
        let like = self.current.reader.set.partitions.get(like).map(|part| &**part);
        let part = Partition::open(&**disk, &dir.join(&file), like)?;
        let (documents, bytes) = (part.documents, part.file.len());
        let member = Arc::new(Member { name: name.to_string(), file, documents, bytes, content });
        self.opened.insert(name.to_string(), Arc::new(part));
        match place(&self.members, name) {
            Ok(at) => self.members[at] = member,
            Err(at) => self.members.insert(at, member),
        }
        Ok(())
    }

    /// Makes the change: when it returns, the new set is durable and is what readers get. After an
    /// error nothing is changed. (If the error came from the last step, making the new set's name
    /// durable, the next opening finds either the old set or the new one, whole.)
    pub fn commit(mut self) -> Result<Reader> {
        let collection = self.collection;
        let (disk, dir) = (&collection.disk, &collection.dir);
        let members = std::mem::take(&mut self.members);
        if members == self.current.members {
            return Ok(self.current.reader.clone());
        }
        let before = Some(&*self.current);
        let (number, locate) = (self.current.number + 1, |file: &str| dir.join(file));
        let opened = &self.opened;
        // Contradicting schemas are found here, before anything is published.
        // It lasts when the last partition goes.
        let schema = self.current.reader.set.schema.clone();
        let next = Members { number, members, schema, opened };
        let next = Current::of(disk, next, &locate, before)?;
        // The names of the new partitions must be durable before the set that names them.
        disk.sync_dir(dir)?;
        manifest::publish(&**disk, dir, number, &next.members, next.reader.schema())?;
        let reader = next.reader.clone();
        // The new set is published either way; what cannot be removed now goes with a later change.
        *self.turn = self.clean(&next).ok().map(|()| number);
        collection.swap(next);
        Ok(reader)
    }

    /// Removes what this change made superfluous; everything that `next` does not name if there may
    /// be more of it.
    fn clean(&self, next: &Current) -> Result<()> {
        if !self.tidy {
            return self.collection.clean(next);
        }
        let named: HashSet<&str> = next.members.iter().map(|m| m.file.as_str()).collect();
        let same = |(i, old): &(usize, &Arc<Member>)| {
            next.members.get(*i).is_some_and(|new| Arc::ptr_eq(old, new))
        };
        let old = self.current.members.iter().enumerate().filter(|pair| !same(pair));
        let files = old.map(|(_, old)| &old.file).chain(&self.staged);
        let gone: HashSet<&String> = files.filter(|file| !named.contains(file.as_str())).collect();
        let set = manifest::file_name(self.current.number);
        for file in gone.into_iter().chain([&set]) {
            self.collection.disk.remove(&self.collection.dir.join(file))?;
        }
        Ok(())
    }
}

fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !name.is_empty()
        && name.len() <= MAX_NAME
        && name.chars().all(plain)
        && !name.starts_with('.')
    {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "`{name}` cannot be a partition's name: use 1 to 100 characters of \
         A-Z a-z 0-9 . _ -, not a dot first"
    )))
}
