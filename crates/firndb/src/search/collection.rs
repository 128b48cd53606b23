//! A collection: a directory of partitions of which whole sets are published and swapped.
//!
//! A change:
//! 1. `Change::put` writes and syncs a partition file; its name holds its content id.
//! 2. `Change::commit` syncs the directory, then publishes the next set file: the change is made.
//! 3. `Collection::clean` removes the files that the current set does not name; readers that still
//!    have them mapped go on undisturbed.
//!
//! Opening: `load` reads the newest set and opens its partitions; those that the set before has
//! open are used again.

use super::builder::PartitionBuilder;
use super::manifest::{self, Member};
use super::merge;
use super::partition::Partition;
use super::reader::Reader;
use super::set::Set;
use crate::disk::{self, DiskRef};
use crate::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

const LOCK: &str = "lock";
const EXTENSION: &str = ".part.firn";

/// A directory of partitions that are queried together. One process changes it at a time; any
/// number read it.
pub struct Collection {
    disk: DiskRef,
    dir: PathBuf,
    current: RwLock<Arc<Current>>,
    /// Held while a change is under way in this process.
    changing: Mutex<()>,
}

/// A set that was opened.
struct Current {
    number: u64,
    members: Vec<Member>,
    reader: Reader,
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
    /// Creates an empty collection in a directory that is new or empty.
    pub fn create(dir: &Path) -> Result<Collection> {
        Self::create_on(disk::os(), dir)
    }

    /// Opens the newest set of a collection.
    pub fn open(dir: &Path) -> Result<Collection> {
        Self::open_on(disk::os(), dir)
    }

    pub(crate) fn create_on(disk: DiskRef, dir: &Path) -> Result<Collection> {
        disk.create_dir_all(dir)?;
        let lock = disk.lock(&dir.join(LOCK))?;
        let names = disk.list(dir)?;
        if let Some(name) = names.iter().find(|name| *name != LOCK && !name.starts_with('.')) {
            let message =
                format!("the directory is not empty: it has `{name}`; choose another one");
            return Err(Error::new(ErrorKind::AlreadyExists, message).in_file(dir));
        }
        manifest::publish(&*disk, dir, 1, &[])?;
        drop(lock);
        Self::open_on(disk, dir)
    }

    pub(crate) fn open_on(disk: DiskRef, dir: &Path) -> Result<Collection> {
        let current = load(&disk, dir, newest(&disk, dir)?, None)?;
        let (dir, current) = (dir.to_path_buf(), RwLock::new(Arc::new(current)));
        Ok(Collection { disk, dir, current, changing: Mutex::new(()) })
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
    pub fn refresh(&self) -> Result<bool> {
        let current = self.current();
        let newest = newest(&self.disk, &self.dir)?;
        if newest == current.number {
            return Ok(false);
        }
        let next = load(&self.disk, &self.dir, newest, Some(&current))?;
        self.swap(next);
        Ok(true)
    }

    fn swap(&self, next: Current) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if next.number >= current.number {
            *current = Arc::new(next);
        }
    }

    /// Starts a change. `Locked` if one is under way in another process; in this one it waits for
    /// its turn.
    pub fn change(&self) -> Result<Change<'_>> {
        let turn = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let lock = self.disk.lock(&self.dir.join(LOCK))?;
        self.refresh()?;
        let current = self.current();
        let members = current.members.iter().map(|m| (m.name.clone(), m.clone())).collect();
        Ok(Change {
            collection: self,
            members,
            opened: BTreeMap::new(),
            current,
            _lock: lock,
            _turn: turn,
        })
    }

    /// Removes what the set does not name: older sets, replaced partitions, leftovers of changes
    /// that were cut off.
    fn clean(&self, current: &Current) -> Result<()> {
        let named: HashSet<&str> = current.members.iter().map(|m| m.file.as_str()).collect();
        for name in self.disk.list(&self.dir)? {
            let old_set = manifest::number(&name).is_some_and(|n| n < current.number);
            let partition = name.ends_with(EXTENSION) || name.ends_with(".tmp");
            if old_set || (partition && !named.contains(name.as_str())) {
                self.disk.remove(&self.dir.join(&name))?;
            }
        }
        Ok(())
    }
}

fn newest(disk: &DiskRef, dir: &Path) -> Result<u64> {
    let numbers = manifest::numbers(&**disk, dir)?;
    let none = || Error::new(ErrorKind::NotFound, "there is no collection here").in_file(dir);
    numbers.last().copied().ok_or_else(none)
}

/// Opens set `newest_seen`, or the newest if that is gone, using again what `before` has open.
fn load(disk: &DiskRef, dir: &Path, newest_seen: u64, before: Option<&Current>) -> Result<Current> {
    let (mut number, mut tried) = (newest_seen, None);
    loop {
        match load_number(disk, dir, number, before).map_err(in_its_place) {
            // Another process may have published a newer set and cleaned this one up meanwhile.
            Err(e) if e.kind() == ErrorKind::NotFound && tried != Some(number) => {
                tried = Some(number);
                number = newest(disk, dir)?;
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let message = format!("a file of set {number} is missing: {}", e.message());
                return Err(Error::corrupt(message).in_file(e.file().unwrap_or(dir)));
            }
            done => return done,
        }
    }
}

/// A file of another kind under the name of a set or a partition of it is damage, not a wrong
/// argument.
fn in_its_place(error: Error) -> Error {
    match (error.kind(), error.file()) {
        (ErrorKind::InvalidArgument, Some(file)) => Error::corrupt(error.message()).in_file(file),
        _ => error,
    }
}

fn load_number(
    disk: &DiskRef,
    dir: &Path,
    number: u64,
    before: Option<&Current>,
) -> Result<Current> {
    let members = manifest::read(&**disk, &dir.join(manifest::file_name(number)))?;
    let mut named: Vec<(String, Arc<Partition>)> = Vec::with_capacity(members.len());
    for member in &members {
        let like = named.last().map(|(_, part)| part.clone());
        let part = match before.and_then(|before| before.open_partition(member)) {
            Some(part) => part,
            None => open_member(disk, dir, member, like.as_deref())?,
        };
        named.push((member.name.clone(), part));
    }
    let set = match before {
        Some(before) => before.changed_into(named)?,
        None => Set::new(named)?,
    };
    Ok(Current { number, members, reader: Reader::new(set) })
}

fn open_member(
    disk: &DiskRef,
    dir: &Path,
    member: &Member,
    like: Option<&Partition>,
) -> Result<Arc<Partition>> {
    let path = manifest::path(dir, member);
    let part = Partition::open(&**disk, &path, like)?;
    if part.file.content() != member.content || part.documents != member.documents {
        let message =
            format!("this is not the file that the set names for partition `{}`", member.name);
        return Err(Error::corrupt(message).in_file(&path));
    }
    Ok(Arc::new(part))
}

impl Current {
    fn open_partition(&self, member: &Member) -> Option<Arc<Partition>> {
        // Members stand in the order of their names.
        let i = self.members.binary_search_by(|m| m.name.cmp(&member.name)).ok()?;
        if self.members[i] != *member {
            return None;
        }
        Some(self.reader.set.partitions[i].clone())
    }

    /// The set of these partitions; if one was replaced the catalogues are carried over.
    fn changed_into(&self, named: Vec<(String, Arc<Partition>)>) -> Result<Set> {
        let set = &self.reader.set;
        let same_names = named.iter().map(|(name, _)| name).eq(&set.names);
        let mut changed = named
            .iter()
            .zip(&set.partitions)
            .enumerate()
            .filter(|(_, ((_, new), old))| !Arc::ptr_eq(new, old));
        match (same_names, changed.next(), changed.next()) {
            (true, Some((p, ((_, part), _))), None) => set.replace(p, part.clone()),
            _ => Set::new(named),
        }
    }
}

/// A change of a collection: all of it becomes visible at `commit`, or nothing.
pub struct Change<'a> {
    collection: &'a Collection,
    members: BTreeMap<String, Member>,
    opened: BTreeMap<String, Arc<Partition>>,
    current: Arc<Current>,
    _lock: Box<dyn Send + Sync>,
    _turn: MutexGuard<'a, ()>,
}

impl Change<'_> {
    /// Adds a partition, or replaces the one of this name.
    ///
    /// A name has 1 to 100 characters of `A-Z a-z 0-9 . _ -` and does not begin with a dot.
    pub fn put(&mut self, name: &str, builder: PartitionBuilder) -> Result<()> {
        let built = builder.finish()?;
        self.put_with(name, |out| built.write(out))
    }

    /// Adds or replaces a partition by a copy of a partition file.
    pub fn put_file(&mut self, name: &str, file: &Path) -> Result<()> {
        let part = Partition::open(&*self.collection.disk, file, None)?;
        part.verify()?;
        self.put_with(name, |out| {
            part.file.copy_to(out)?;
            Ok(part.file.content())
        })
    }

    /// Joins partitions into one called `into`, without the documents they were built from: the
    /// result is the partition that a builder makes of their documents in the order of `names`. It
    /// takes the place of `names`.
    pub fn merge(&mut self, names: &[&str], into: &str) -> Result<()> {
        let mut parts = Vec::with_capacity(names.len());
        for name in names {
            parts.push(self.open(name)?);
        }
        let merged = merge::merge(&parts)?;
        self.put_with(into, |out| merged.write(out))?;
        for name in names.iter().filter(|name| **name != into) {
            self.members.remove(*name);
        }
        Ok(())
    }

    /// Removes a partition.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        self.members.remove(name).map(|_| ()).ok_or_else(|| self.no_partition(name))
    }

    fn no_partition(&self, name: &str) -> Error {
        Error::new(ErrorKind::NotFound, format!("there is no partition `{name}`"))
            .in_file(&self.collection.dir)
    }

    fn open(&mut self, name: &str) -> Result<Arc<Partition>> {
        let member = self.members.get(name).ok_or_else(|| self.no_partition(name))?;
        if let Some(part) = self.opened.get(name) {
            return Ok(part.clone());
        }
        match self.current.open_partition(member) {
            Some(part) => Ok(part),
            None => open_member(&self.collection.disk, &self.collection.dir, member, None),
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
        let part = Partition::open(&**disk, &dir.join(&file), None)?;
        let member = Member {
            name: name.to_string(),
            file,
            documents: part.documents,
            bytes: part.file.len(),
            content,
        };
        self.opened.insert(name.to_string(), Arc::new(part));
        self.members.insert(name.to_string(), member);
        Ok(())
    }

    /// Makes the change: when it returns, the new set is durable and is what readers get. After an
    /// error nothing is changed. (If the error came from the last step, making the new set's name
    /// durable, the next opening finds either the old set or the new one, whole.)
    pub fn commit(self) -> Result<Reader> {
        let collection = self.collection;
        let members: Vec<Member> = self.members.values().cloned().collect();
        if members == self.current.members {
            return Ok(self.current.reader.clone());
        }
        let mut named = Vec::with_capacity(members.len());
        for member in &members {
            let open = self.opened.get(&member.name).cloned();
            let open = open.or_else(|| self.current.open_partition(member));
            let part = match open {
                Some(part) => part,
                None => open_member(&collection.disk, &collection.dir, member, None)?,
            };
            named.push((member.name.clone(), part));
        }
        // Contradicting schemas are found here, before anything is published.
        let set = self.current.changed_into(named)?;
        let number = self.current.number + 1;
        // The names of the new partitions must be durable before the set that names them.
        collection.disk.sync_dir(&collection.dir)?;
        manifest::publish(&*collection.disk, &collection.dir, number, &members)?;
        let next = Current { number, members, reader: Reader::new(set) };
        let reader = next.reader.clone();
        // The new set is published either way; what cannot be removed now goes with a later change.
        let _ = collection.clean(&next);
        collection.swap(next);
        Ok(reader)
    }
}

fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if !name.is_empty() && name.len() <= 100 && name.chars().all(plain) && !name.starts_with('.') {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "`{name}` cannot be a partition's name: use 1 to 100 characters of \
         A-Z a-z 0-9 . _ -, not a dot first"
    )))
}
