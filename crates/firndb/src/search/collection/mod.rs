//! A collection: a directory of partition files and of set files, each of which names all
//! partitions of one version. A change writes and syncs partition files, atomically publishes the
//! next set file, and then removes the files that it replaced. Readers that have those mapped are
//! not affected.
//!
//! This file has `Collection` and `Change`. `create` creates a collection, `current` opens sets,
//! `open_dir` detects newer sets and moved directories, `owner` protects the collection of an
//! index, `relations` tracks continuations and merged names, `compact` merges small partitions.

pub(crate) mod compact;
pub(crate) mod create;
pub(crate) mod current;
pub(crate) mod owner;
pub(crate) mod open_dir;
mod relations;

use crate::disk::{self, DiskRef, Lock};
use crate::search::build::builder::{Built, PartitionBuilder};
use crate::search::build::merge;
use crate::search::collection::current::{Members, OpenSet};
use crate::search::collection::open_dir::OpenDir;
use crate::search::collection::relations::merged_relation;
use crate::search::format::manifest::Relation;
use crate::search::format::manifest::{self, Member};
use crate::search::partition::Partition;
use crate::search::partition::verify;
use crate::search::reader::Reader;
use crate::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::SystemTime;

/// The file that is locked during a change.
pub(crate) const LOCK: &str = "lock";
/// The maximum number of partitions of a collection. Each is a memory map, and Linux allows a
/// process 65,530 maps (`vm.max_map_count`): enough for a set and for one that replaces all of it.
pub const MAX_PARTITIONS: usize = if cfg!(test) { 9_000 } else { 32_000 };
const EXTENSION: &str = ".part.firn";
/// The maximum length of a partition name in bytes.
pub(crate) const MAX_NAME: usize = 100;

/// A directory of partitions that are queried together. One process changes it at a time; any
/// number of processes read it.
pub struct Collection {
    pub(crate) disk: DiskRef,
    pub(crate) dir: PathBuf,
    open_dir: RwLock<Arc<OpenDir>>,
    /// Locked during a change in this process. The value is the content id of the last set that
    /// this handle published, if the directory has no file that this set does not name.
    changing: Mutex<Option<u128>>,
}

impl Collection {
    /// Fails with `InvalidArgument` if the collection belongs to an index: then
    /// [`Collection::change`] and everything that uses it fails.
    pub fn check_changeable(&self) -> Result<()> {
        owner::check_changeable(&self.open_dir().disk, &self.dir)
    }

    /// Marks the collection as owned by an index. `Locked` if another process is changing it.
    pub(crate) fn mark(&self) -> Result<()> {
        owner::mark(&self.open_dir().disk, &self.dir)
    }

    /// Opens the newest set of a collection. `NotFound` if the directory has none.
    pub fn open(dir: impl AsRef<Path>) -> Result<Collection> {
        Self::open_on(disk::os(), dir.as_ref())
    }

    pub(crate) fn open_on(disk: DiskRef, dir: &Path) -> Result<Collection> {
        span!(INFO, "firndb.search.open", dir = %dir.display());
        let open_dir = Arc::new(OpenDir::newest(&disk, dir, None)?);
        let (dir, open_dir) = (dir.to_path_buf(), RwLock::new(open_dir));
        Ok(Collection { disk, dir, open_dir, changing: Mutex::new(None) })
    }

    /// The current set and its directory.
    pub(crate) fn open_dir(&self) -> Arc<OpenDir> {
        self.open_dir.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A reader of the current set. Later changes of the collection do not affect it.
    pub fn reader(&self) -> Reader {
        self.open_dir().set.reader.clone()
    }

    /// The number of the current set. Each change increments it. If another collection is moved to
    /// this path, its numbers are unrelated.
    pub fn version(&self) -> u64 {
        self.open_dir().set.number
    }

    /// The content id of the current set.
    pub(crate) fn content(&self) -> u128 {
        self.open_dir().set.content
    }

    /// Switches to a newer set, which another process may have published, or to the set of another
    /// collection that was moved to this path. Returns true if the set changed; then
    /// [`Collection::reader`] returns the new one.
    ///
    /// Files that were copied into the directory count, too. `Failed` if the newest set there is
    /// older than the open one: open the collection again. An error leaves this handle unchanged.
    pub fn refresh(&self) -> Result<bool> {
        self.refresh_with(|_| Ok(()))
    }

    /// [`Collection::refresh`] that calls `prepare` with a reader of the newer set before it
    /// switches. An error of `prepare` leaves this handle unchanged. A server warms the new set
    /// there, so that no query has to:
    ///
    /// ```
    /// use firndb::search::Collection;
    ///
    /// fn refresh(collection: &Collection) -> firndb::Result<bool> {
    ///     let before = collection.reader();
    ///     collection.refresh_with(|new| new.warm_like(&before)) // or `new.warm()`
    /// }
    /// ```
    ///
    /// Changes that this handle commits are not prepared: they are visible at once. A program that
    /// also changes the collection can change it through another handle.
    pub fn refresh_with(&self, prepare: impl FnOnce(&Reader) -> Result<()>) -> Result<bool> {
        let before = self.open_dir();
        let Some(next) = before.newer(&self.disk, &self.dir)? else { return Ok(false) };
        prepare(&next.set.reader)?;
        let is_other = next.set.content != before.set.content;
        let is_other = is_other || next.set.number != before.set.number;
        self.swap(&before, next);
        Ok(is_other)
    }

    /// When the file of a partition was written.
    pub(crate) fn written(&self, part: &Partition) -> Result<SystemTime> {
        self.disk.modified(part.file.path())
    }

    /// Makes `next`, which was opened while `before` was current, the current set, unless another
    /// thread has installed a newer one. Returns `next`.
    fn swap(&self, before: &Arc<OpenDir>, next: OpenDir) -> Arc<OpenDir> {
        let next = Arc::new(next);
        let mut open_dir = self.open_dir.write().unwrap_or_else(PoisonError::into_inner);
        let is_newer = next.is_same_dir(&open_dir) && next.set.number > open_dir.set.number;
        let old = match is_newer || Arc::ptr_eq(&open_dir, before) {
            true => std::mem::replace(&mut *open_dir, next.clone()),
            false => next.clone(),
        };
        drop(open_dir);
        drop(old); // Frees the old set after the lock is released.
        next
    }

    /// Starts a change of the newest set in the directory at the path. Blocks while this process
    /// runs another change. `Locked` if another process is changing the collection.
    /// `InvalidArgument` if the collection belongs to an index, which alone may change it
    /// ([`Collection::check_changeable`]). `Failed` if an older copy was restored over the files in
    /// the directory: open the collection again.
    pub fn change(&self) -> Result<Change<'_>> {
        let guard = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut open_dir = self.open_dir();
        if !open_dir.is_at_path()? {
            let next = OpenDir::newest(&self.disk, &self.dir, Some(&open_dir.set))?;
            open_dir = self.swap(&open_dir, next);
        }
        owner::check_changeable(&open_dir.disk, &self.dir)?;
        self.begin(guard, open_dir)
    }

    /// [`Collection::change`] for the index that owns the collection. `Failed` if another directory
    /// was moved to the path: it is a copy, or belongs to another index.
    pub(crate) fn change_as_owner(&self) -> Result<Change<'_>> {
        let guard = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let open_dir = self.open_dir();
        open_dir.disk.check_held()?;
        self.begin(guard, open_dir)
    }

    /// Takes the lock file, switches to the newest set and starts a change of it.
    fn begin<'a>(
        &'a self,
        mut guard: MutexGuard<'a, Option<u128>>,
        mut open_dir: Arc<OpenDir>,
    ) -> Result<Change<'a>> {
        let lock = open_dir.disk.lock(&self.dir.join(LOCK))?;
        // Reset until `commit` sets it: a change that is abandoned leaves files.
        let is_clean = guard.take() == Some(open_dir.set.content);
        let next = open_dir.newer_locked(&self.dir)?;
        let is_clean = is_clean && next.is_none();
        if let Some(next) = next {
            open_dir = self.swap(&open_dir, next);
        }
        Ok(Change {
            collection: self,
            members: open_dir.set.members.clone(),
            opened: BTreeMap::new(),
            staged: Vec::new(),
            is_clean,
            base: open_dir,
            lock,
            guard,
        })
    }

    /// Removes the files that the set does not name: older sets, replaced partitions, and leftovers
    /// of interrupted changes.
    pub(crate) fn clean(&self, disk: &DiskRef, current: &OpenSet) -> Result<()> {
        let named: HashSet<&str> = current.members.iter().map(|m| m.file.as_str()).collect();
        for name in disk.list(&self.dir)? {
            let old_set = manifest::number(&name).is_some_and(|n| n < current.number);
            let partition = is_partition_file(&name) || disk::is_temporary(&name);
            if old_set || (partition && !named.contains(name.as_str())) {
                disk.remove(&self.dir.join(&name))?;
            }
        }
        Ok(())
    }
}

/// A change of a collection. `commit` makes all of it visible; dropping it makes none of it
/// visible.
pub struct Change<'a> {
    pub(crate) collection: &'a Collection,
    /// The members of the next set, in the order of their names.
    pub(crate) members: Vec<Arc<Member>>,
    /// Partitions that this change opened, by name.
    opened: BTreeMap<String, Arc<Partition>>,
    /// The files of partitions that this change wrote.
    staged: Vec<String>,
    /// Whether the directory has only files of the base set and of this change.
    is_clean: bool,
    /// The set that this change starts from, and the directory in which it reads and writes.
    pub(crate) base: Arc<OpenDir>,
    lock: Box<dyn Lock>,
    guard: MutexGuard<'a, Option<u128>>,
}

/// The position of a name among the members, or where to insert it.
pub(crate) fn position(members: &[Arc<Member>], name: &str) -> std::result::Result<usize, usize> {
    members.binary_search_by(|m| m.name.as_str().cmp(name))
}

impl Change<'_> {
    /// Adds a partition, or replaces the one of this name and its continuations
    /// ([`Change::extend`]).
    ///
    /// A name has 1 to 100 characters of `A-Z a-z 0-9 . _ -` and does not start with a dot.
    /// `AlreadyExists` if the name is that of a continuation, or if documents of this name were
    /// merged with others: putting it would duplicate them, or lose the others. `InvalidArgument`
    /// if the collection would have more than [`MAX_PARTITIONS`] partitions.
    pub fn put(&mut self, name: &str, builder: PartitionBuilder) -> Result<()> {
        self.put_built(name, builder.finish()?)
    }

    /// [`Change::put`] of a partition that is already built.
    pub(crate) fn put_built(&mut self, name: &str, built: Built) -> Result<()> {
        self.check_put(name)?;
        self.put_part(name, Relation::default(), |out| built.write(out))?;
        self.drop_continuations(name);
        Ok(())
    }

    /// [`Change::put`] of a copy of a partition file. The file is verified first.
    pub fn put_file(&mut self, name: &str, file: impl AsRef<Path>) -> Result<()> {
        self.check_put(name)?;
        self.copy(name, Relation::default(), file.as_ref())?;
        self.drop_continuations(name);
        Ok(())
    }

    /// Verifies the partition file `file` and copies it to the partition `name`.
    pub(crate) fn copy(&mut self, name: &str, relation: Relation, file: &Path) -> Result<()> {
        let part = Partition::open(&*self.base.disk, file, None)?;
        verify::partition(&part)?;
        self.put_part(name, relation, |out| {
            part.file.copy_to(out)?;
            Ok(part.file.content())
        })
    }

    /// Merges partitions, with their continuations, into one called `into`. The source documents
    /// are not needed: the result is identical to the partition that a builder makes of the
    /// documents in the order of `names`.
    ///
    /// The new partition replaces `names`. These names stay reserved until it is replaced or
    /// removed. `AlreadyExists` if a partition `into` exists that is not among `names`.
    /// `InvalidArgument` if a name is repeated, or if a continuation is named without its
    /// partition.
    pub fn merge(&mut self, names: &[&str], into: &str) -> Result<()> {
        let mut seen = HashSet::with_capacity(names.len());
        if let Some(twice) = names.iter().find(|name| !seen.insert(**name)) {
            return Err(Error::invalid(format!("partition `{twice}` is to be merged twice")));
        }
        let all = self.with_continuations(names);
        self.check_merges_whole_names(&all, into)?;
        self.merge_exactly(&all, into)
    }

    /// [`Change::merge`] of exactly these partitions, without their continuations. Names are
    /// distinct.
    pub(crate) fn merge_exactly(&mut self, names: &[String], into: &str) -> Result<()> {
        if !names.iter().any(|name| name == into) && position(&self.members, into).is_ok() {
            let message = format!(
                "there is a partition `{into}`, which is not to be merged; choose another name"
            );
            return Err(Error::new(ErrorKind::AlreadyExists, message).in_file(&self.collection.dir));
        }
        self.check_merge_target(into, names)?;
        let mut parts = Vec::with_capacity(names.len());
        for name in names {
            parts.push(self.open(name)?);
        }
        let merged = merge::merge(&parts)?;
        let positions = names.iter().filter_map(|name| position(&self.members, name).ok());
        let relation = merged_relation(positions.map(|at| &self.members[at]), into);
        self.put_part(into, relation, |out| merged.write(out))?;
        for name in names.iter().filter(|name| *name != into) {
            if let Ok(at) = position(&self.members, name) {
                self.members.remove(at);
            }
        }
        Ok(())
    }

    /// Removes a partition and its continuations. A collection whose last partition is removed
    /// keeps its schema until another one is put. `AlreadyExists` if it is a continuation, or if
    /// documents of other names were merged into it.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        self.check_remove(name)?;
        if let Ok(at) = position(&self.members, name) {
            self.members.remove(at);
        }
        self.drop_continuations(name);
        Ok(())
    }

    /// Removes all partitions, including those that this change put.
    pub fn clear(&mut self) {
        self.members.clear();
    }

    pub(crate) fn no_partition(&self, name: &str) -> Error {
        Error::new(ErrorKind::NotFound, format!("there is no partition `{name}`"))
            .in_file(&self.collection.dir)
    }

    /// The names of all partitions, ascending.
    pub fn names(&self) -> Vec<&str> {
        self.members.iter().map(|member| &*member.name).collect()
    }

    /// Opens a partition of this change. `NotFound` if there is none of this name.
    pub(crate) fn open(&mut self, name: &str) -> Result<Arc<Partition>> {
        let at = position(&self.members, name).map_err(|_| self.no_partition(name))?;
        if let Some(part) = self.opened.get(name) {
            return Ok(part.clone());
        }
        // A partition that this change did not put is in the base set and open there.
        match position(&self.base.set.members, name) {
            Ok(old) => Ok(self.base.set.reader.set.partitions[old].clone()),
            Err(_) => {
                let member = &self.members[at];
                let path = manifest::path(&self.collection.dir, member);
                current::open_member(&self.base.disk, &path, member, None)
            }
        }
    }

    /// Writes a partition file and makes it the partition `name`.
    pub(crate) fn put_part(
        &mut self,
        name: &str,
        relation: Relation,
        write: impl FnOnce(&mut dyn disk::Append) -> Result<u128>,
    ) -> Result<()> {
        check_name(name)?;
        if self.members.len() >= MAX_PARTITIONS && position(&self.members, name).is_err() {
            return Err(Error::invalid(format!(
                "a collection has at most {MAX_PARTITIONS} partitions, and `{name}` would be one \
                 more: put the documents into fewer"
            ))
            .in_file(&self.collection.dir));
        }
        let (disk, dir) = (&self.base.disk, &self.collection.dir);
        let file_of = |content: &u128| format!("{name}.{content:032x}{EXTENSION}");
        let content =
            disk::stage(&**disk, &dir.join(name), write, |content| dir.join(file_of(content)))?;
        let file = file_of(&content);
        self.staged.push(file.clone());
        let similar = position(&self.base.set.members, name).map_or(0, |at| at);
        let similar = self.base.set.reader.set.partitions.get(similar).map(|part| &**part);
        let part = Partition::open(&**disk, &dir.join(&file), similar)?;
        let (documents, bytes) = (part.documents, part.file.len());
        let member = Member { name: name.to_string(), file, documents, bytes, content, relation };
        self.insert(Arc::new(member), Arc::new(part));
        Ok(())
    }

    /// Adds or replaces the member of a partition whose file is in the directory.
    pub(crate) fn insert(&mut self, member: Arc<Member>, part: Arc<Partition>) {
        self.opened.insert(member.name.clone(), part);
        match position(&self.members, &member.name) {
            Ok(at) => self.members[at] = member,
            Err(at) => self.members.insert(at, member),
        }
    }

    /// Publishes the change. Returns once the new set is durable; new readers of this collection
    /// use it. After an error nothing is changed, with one exception: if the error came from the
    /// last step, syncing the name of the new set, the next open finds either the old set or the
    /// complete new one. `Failed` if the directory was moved or replaced since the change began.
    pub fn commit(self) -> Result<Reader> {
        span!(INFO, "firndb.search.commit");
        self.commit_with(|_| Ok(()))
    }

    /// [`Change::commit`] with a hook: calls `before` with the content id of the new set once
    /// everything but its name is written. If `before` fails, nothing is changed. It is not called
    /// if the change is empty.
    pub(crate) fn commit_with(mut self, before: impl FnOnce(u128) -> Result<()>) -> Result<Reader> {
        let (collection, base) = (self.collection, self.base.clone());
        let (disk, dir) = (&base.disk, &collection.dir);
        let members = std::mem::take(&mut self.members);
        self.lock.check()?;
        if members == base.set.members {
            return Ok(base.set.reader.clone());
        }
        let (number, locate) = (base.set.number + 1, |file: &str| dir.join(file));
        let opened = &self.opened;
        // Conflicting schemas are detected here, before anything is published. An empty set keeps
        // the schema of the set before.
        let schema = base.set.reader.set.schema.clone();
        let next = Members { number, content: 0, members, schema, opened };
        let mut next = OpenSet::of(disk, next, &locate, Some(&base.set))?;
        // The names of new partition files must be durable before the set that names them.
        disk.sync_dir(dir)?;
        let schema = next.reader.schema();
        next.content =
            manifest::publish(&**disk, (dir, number), &next.members, schema, |content| {
                before(content)?;
                self.lock.check()
            })?;
        // An error of the clean-up is not an error of the change: a later change removes what is
        // left.
        *self.guard = self.clean(&next).ok().map(|()| next.content);
        let next = collection.swap(&base, OpenDir { disk: disk.clone(), set: next });
        Ok(next.set.reader.clone())
    }

    /// Removes the files that this change replaced. If the directory may have other leftovers,
    /// removes every file that `next` does not name.
    fn clean(&self, next: &OpenSet) -> Result<()> {
        if !self.is_clean {
            return self.collection.clean(&self.base.disk, next);
        }
        let named: HashSet<&str> = next.members.iter().map(|m| m.file.as_str()).collect();
        let same = |(i, old): &(usize, &Arc<Member>)| {
            next.members.get(*i).is_some_and(|new| Arc::ptr_eq(old, new))
        };
        let old = self.base.set.members.iter().enumerate().filter(|pair| !same(pair));
        let files = old.map(|(_, old)| &old.file).chain(&self.staged);
        let gone: HashSet<&String> = files.filter(|file| !named.contains(file.as_str())).collect();
        let set = manifest::file_name(self.base.set.number);
        for file in gone.into_iter().chain([&set]) {
            self.base.disk.remove(&self.collection.dir.join(file))?;
        }
        Ok(())
    }
}

/// Whether a change writes files of this name: `NAME.CONTENT.part.firn`.
fn is_partition_file(file: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    file.strip_suffix(EXTENSION)
        .and_then(|rest| rest.rsplit_once('.'))
        .is_some_and(|(_, content)| content.len() == 32 && content.bytes().all(is_digit))
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
