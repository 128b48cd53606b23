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
use crate::search::collection::relations::joined;
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

/// The file by which those who change a collection keep each other away.
pub(crate) const LOCK: &str = "lock";
/// Partitions that a collection may have. Each is a map, of which Linux gives a process 65,530
/// (`vm.max_map_count`): enough for a set and for one that replaces all of it.
pub const MAX_PARTITIONS: usize = if cfg!(test) { 9_000 } else { 32_000 };
const EXTENSION: &str = ".part.firn";
/// Bytes of a partition's name at most.
pub(crate) const MAX_NAME: usize = 100;

/// A directory of partitions that are queried together. One process changes it at a time; any
/// number read it.
pub struct Collection {
    pub(crate) disk: DiskRef,
    pub(crate) dir: PathBuf,
    place: RwLock<Arc<OpenDir>>,
    /// Held while a change is under way in this process. The content id of the last set that was
    /// made here, if it left nothing in the directory that is not of it.
    changing: Mutex<Option<u128>>,
}

impl Collection {
    /// `InvalidArgument` if the collection belongs to an index: then [`Collection::change`] is
    /// refused, and so is everything that begins with it.
    pub fn check_changeable(&self) -> Result<()> {
        owner::check_changeable(&self.place().disk, &self.dir)
    }

    /// Marks the collection as that of an index. `Locked` if another process changes it.
    pub(crate) fn mark(&self) -> Result<()> {
        owner::mark(&self.place().disk, &self.dir)
    }

    /// Opens the newest set of a collection.
    pub fn open(dir: impl AsRef<Path>) -> Result<Collection> {
        Self::open_on(disk::os(), dir.as_ref())
    }

    pub(crate) fn open_on(disk: DiskRef, dir: &Path) -> Result<Collection> {
        let place = Arc::new(OpenDir::newest(&disk, dir, None)?);
        let (dir, place) = (dir.to_path_buf(), RwLock::new(place));
        Ok(Collection { disk, dir, place, changing: Mutex::new(None) })
    }

    pub(crate) fn place(&self) -> Arc<OpenDir> {
        self.place.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The current set. It stays as it is, whatever happens to the collection.
    pub fn reader(&self) -> Reader {
        self.place().set.reader.clone()
    }

    /// The number of the current set: it grows by 1 with each change. A collection that was put in
    /// the place of this one has numbers of its own.
    pub fn version(&self) -> u64 {
        self.place().set.number
    }

    /// The content id of the current set.
    pub(crate) fn content(&self) -> u128 {
        self.place().set.content
    }

    /// Looks for another set: a newer one, which another process may have published, or that of a
    /// collection whose directory was moved to this path. True if there was one; then
    /// [`Collection::reader`] has it. Files that were put into the directory itself count as well,
    /// but `Failed` if the newest set there is older than the one that is open now: open the
    /// collection anew. An error leaves the handle as it was.
    pub fn refresh(&self) -> Result<bool> {
        let before = self.place();
        let Some(next) = before.next(&self.disk, &self.dir)? else { return Ok(false) };
        let is_other = next.set.content != before.set.content;
        let is_other = is_other || next.set.number != before.set.number;
        self.swap(&before, next);
        Ok(is_other)
    }

    /// When the file of a partition was written.
    pub(crate) fn written(&self, part: &Partition) -> Result<SystemTime> {
        self.disk.modified(part.file.path())
    }

    /// Makes `next` the current set, which was found by somebody who had `before`, unless another
    /// thread knows better.
    fn swap(&self, before: &Arc<OpenDir>, next: OpenDir) -> Arc<OpenDir> {
        let next = Arc::new(next);
        let mut place = self.place.write().unwrap_or_else(PoisonError::into_inner);
        let is_newer = next.is_beside(&place) && next.set.number > place.set.number;
        let old = match is_newer || Arc::ptr_eq(&place, before) {
            true => std::mem::replace(&mut *place, next.clone()),
            false => next.clone(),
        };
        drop(place);
        drop(old); // Nobody waits for the old set to be freed.
        next
    }

    /// Starts a change of the newest set in the directory that the path names now. `Locked` if one
    /// is under way in another process; in this one it waits for its turn. `InvalidArgument` if the
    /// collection belongs to an index, which alone changes it ([`Collection::check_changeable`]).
    /// `Failed` if a copy was restored over the files in the directory whose newest set is older
    /// than the current one: open the collection anew.
    pub fn change(&self) -> Result<Change<'_>> {
        let turn = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut place = self.place();
        if !place.is_there()? {
            let next = OpenDir::newest(&self.disk, &self.dir, Some(&place.set))?;
            place = self.swap(&place, next);
        }
        owner::check_changeable(&place.disk, &self.dir)?;
        self.begin(turn, place)
    }

    /// [`Collection::change`] by the index that the collection belongs to. `Failed` if another
    /// directory was moved to its path: that belongs to another index, or is a copy.
    pub(crate) fn change_as_owner(&self) -> Result<Change<'_>> {
        let turn = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let place = self.place();
        place.disk.check_held()?;
        self.begin(turn, place)
    }

    fn begin<'a>(
        &'a self,
        mut turn: MutexGuard<'a, Option<u128>>,
        mut place: Arc<OpenDir>,
    ) -> Result<Change<'a>> {
        let lock = place.disk.lock(&self.dir.join(LOCK))?;
        // Forgotten until `commit` knows better: a change that is cut short leaves files.
        let tidy = turn.take() == Some(place.set.content);
        let next = place.next_locked(&self.dir)?;
        let tidy = tidy && next.is_none();
        if let Some(next) = next {
            place = self.swap(&place, next);
        }
        Ok(Change {
            collection: self,
            members: place.set.members.clone(),
            opened: BTreeMap::new(),
            staged: Vec::new(),
            tidy,
            place,
            lock,
            turn,
        })
    }

    /// Removes what the set does not name: older sets, replaced partitions, leftovers of changes
    /// that were cut off.
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

/// A change of a collection: all of it becomes visible at `commit`, or nothing.
pub struct Change<'a> {
    pub(crate) collection: &'a Collection,
    /// In the order of their names.
    pub(crate) members: Vec<Arc<Member>>,
    opened: BTreeMap<String, Arc<Partition>>,
    /// Partition files that this change published.
    staged: Vec<String>,
    /// The directory has nothing but what the current set names and what was staged.
    tidy: bool,
    /// What there was before; all files are read and written in its directory.
    pub(crate) place: Arc<OpenDir>,
    lock: Box<dyn Lock>,
    turn: MutexGuard<'a, Option<u128>>,
}

/// The place of a name among members, or where it belongs.
pub(crate) fn place(members: &[Arc<Member>], name: &str) -> std::result::Result<usize, usize> {
    members.binary_search_by(|m| m.name.as_str().cmp(name))
}

impl Change<'_> {
    /// Adds a partition, or replaces the one of this name and its continuations
    /// ([`Change::extend`]).
    ///
    /// A name has 1 to 100 characters of `A-Z a-z 0-9 . _ -` and does not begin with a dot.
    /// `AlreadyExists` if the name is that of a continuation, or if documents of this name were
    /// merged with others: they would be there twice, or others would be lost. `InvalidArgument` if
    /// it were one of more than [`MAX_PARTITIONS`].
    pub fn put(&mut self, name: &str, builder: PartitionBuilder) -> Result<()> {
        self.put_built(name, builder.finish()?)
    }

    /// [`Change::put`] of a partition that is ready to be written.
    pub(crate) fn put_built(&mut self, name: &str, built: Built) -> Result<()> {
        self.check_put(name)?;
        self.put_part(name, Relation::default(), |out| built.write(out))?;
        self.drop_continuations(name);
        Ok(())
    }

    /// [`Change::put`] of a copy of a partition file.
    pub fn put_file(&mut self, name: &str, file: impl AsRef<Path>) -> Result<()> {
        self.check_put(name)?;
        self.copy(name, Relation::default(), file.as_ref())?;
        self.drop_continuations(name);
        Ok(())
    }

    pub(crate) fn copy(&mut self, name: &str, relation: Relation, file: &Path) -> Result<()> {
        let part = Partition::open(&*self.place.disk, file, None)?;
        verify::partition(&part)?;
        self.put_part(name, relation, |out| {
            part.file.copy_to(out)?;
            Ok(part.file.content())
        })
    }

    /// Joins partitions, and their continuations, into one called `into`, without the documents
    /// they were built from: the result is the partition that a builder makes of their documents in
    /// the order of `names`. It takes the place of `names`, which stay taken until it is replaced
    /// or removed. A partition called `into` that is not among them is `AlreadyExists`, a name that
    /// is there twice, or a continuation without its partition, `InvalidArgument`.
    pub fn merge(&mut self, names: &[&str], into: &str) -> Result<()> {
        let mut seen = HashSet::with_capacity(names.len());
        if let Some(twice) = names.iter().find(|name| !seen.insert(**name)) {
            return Err(Error::invalid(format!("partition `{twice}` is to be merged twice")));
        }
        let all = self.with_continuations(names);
        self.check_whole(&all, into)?;
        self.merge_alone(&all, into)
    }

    /// [`Change::merge`] of these partitions, which are all different, and of no continuations.
    pub(crate) fn merge_alone(&mut self, names: &[String], into: &str) -> Result<()> {
        if !names.iter().any(|name| name == into) && place(&self.members, into).is_ok() {
            let message = format!(
                "there is a partition `{into}`, which is not to be merged; choose another name"
            );
            return Err(Error::new(ErrorKind::AlreadyExists, message).in_file(&self.collection.dir));
        }
        self.check_into(into, names)?;
        let mut parts = Vec::with_capacity(names.len());
        for name in names {
            parts.push(self.open(name)?);
        }
        let merged = merge::merge(&parts)?;
        let places = names.iter().filter_map(|name| place(&self.members, name).ok());
        let relation = joined(places.map(|at| &self.members[at]), into);
        self.put_part(into, relation, |out| merged.write(out))?;
        for name in names.iter().filter(|name| *name != into) {
            if let Ok(at) = place(&self.members, name) {
                self.members.remove(at);
            }
        }
        Ok(())
    }

    /// Removes a partition with its continuations. After the last one the collection keeps its
    /// schema until others come. `AlreadyExists` if it is a continuation, or if it has documents of
    /// other names that were merged into it.
    pub fn remove(&mut self, name: &str) -> Result<()> {
        self.check_remove(name)?;
        if let Ok(at) = place(&self.members, name) {
            self.members.remove(at);
        }
        self.drop_continuations(name);
        Ok(())
    }

    /// Removes all partitions, also those that were put before in this change.
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

    pub(crate) fn open(&mut self, name: &str) -> Result<Arc<Partition>> {
        let at = place(&self.members, name).map_err(|_| self.no_partition(name))?;
        if let Some(part) = self.opened.get(name) {
            return Ok(part.clone());
        }
        // What this change did not publish is of the current set.
        match place(&self.place.set.members, name) {
            Ok(old) => Ok(self.place.set.reader.set.partitions[old].clone()),
            Err(_) => {
                let member = &self.members[at];
                let path = manifest::path(&self.collection.dir, member);
                current::open_member(&self.place.disk, &path, member, None)
            }
        }
    }

    /// Publishes a partition file and takes it for `name`.
    pub(crate) fn put_part(
        &mut self,
        name: &str,
        relation: Relation,
        write: impl FnOnce(&mut dyn disk::Append) -> Result<u128>,
    ) -> Result<()> {
        check_name(name)?;
        if self.members.len() >= MAX_PARTITIONS && place(&self.members, name).is_err() {
            return Err(Error::invalid(format!(
                "a collection has at most {MAX_PARTITIONS} partitions, and `{name}` would be one \
                 more: put the documents into fewer"
            ))
            .in_file(&self.collection.dir));
        }
        let (disk, dir) = (&self.place.disk, &self.collection.dir);
        let file_of = |content: &u128| format!("{name}.{content:032x}{EXTENSION}");
        let content =
            disk::stage(&**disk, &dir.join(name), write, |content| dir.join(file_of(content)))?;
        let file = file_of(&content);
        self.staged.push(file.clone());
        let like = place(&self.place.set.members, name).map_or(0, |at| at);
        let like = self.place.set.reader.set.partitions.get(like).map(|part| &**part);
        let part = Partition::open(&**disk, &dir.join(&file), like)?;
        let (documents, bytes) = (part.documents, part.file.len());
        let member = Member { name: name.to_string(), file, documents, bytes, content, relation };
        self.take(Arc::new(member), Arc::new(part));
        Ok(())
    }

    /// Takes a partition whose file is in the directory, for its name.
    pub(crate) fn take(&mut self, member: Arc<Member>, part: Arc<Partition>) {
        self.opened.insert(member.name.clone(), part);
        match place(&self.members, &member.name) {
            Ok(at) => self.members[at] = member,
            Err(at) => self.members.insert(at, member),
        }
    }

    /// Makes the change: when it returns, the new set is durable and is what readers get. After an
    /// error nothing is changed. (If the error came from the last step, making the new set's name
    /// durable, the next opening finds either the old set or the new one, whole.) `Failed` if the
    /// directory was moved or replaced since the change began.
    pub fn commit(self) -> Result<Reader> {
        self.commit_with(|_| Ok(()))
    }

    /// [`Change::commit`], with a step in between: `before` is given the content id of the new set
    /// once all but its name is written. If it fails, nothing is changed. It is not called if
    /// nothing changes.
    pub(crate) fn commit_with(mut self, before: impl FnOnce(u128) -> Result<()>) -> Result<Reader> {
        let (collection, place) = (self.collection, self.place.clone());
        let (disk, dir) = (&place.disk, &collection.dir);
        let members = std::mem::take(&mut self.members);
        self.lock.check()?;
        if members == place.set.members {
            return Ok(place.set.reader.clone());
        }
        let (number, locate) = (place.set.number + 1, |file: &str| dir.join(file));
        let opened = &self.opened;
        // Contradicting schemas are found here, before anything is published.
        // It lasts when the last partition goes.
        let schema = place.set.reader.set.schema.clone();
        let next = Members { number, content: 0, members, schema, opened };
        let mut next = OpenSet::of(disk, next, &locate, Some(&place.set))?;
        // The names of the new partitions must be durable before the set that names them.
        disk.sync_dir(dir)?;
        let schema = next.reader.schema();
        next.content =
            manifest::publish(&**disk, (dir, number), &next.members, schema, |content| {
                before(content)?;
                self.lock.check()
            })?;
        // The new set is published either way; what cannot be removed now goes with a later change.
        *self.turn = self.clean(&next).ok().map(|()| next.content);
        let next = collection.swap(&place, OpenDir { disk: disk.clone(), set: next });
        Ok(next.set.reader.clone())
    }

    /// Removes what this change made superfluous; everything that `next` does not name if there may
    /// be more of it.
    fn clean(&self, next: &OpenSet) -> Result<()> {
        if !self.tidy {
            return self.collection.clean(&self.place.disk, next);
        }
        let named: HashSet<&str> = next.members.iter().map(|m| m.file.as_str()).collect();
        let same = |(i, old): &(usize, &Arc<Member>)| {
            next.members.get(*i).is_some_and(|new| Arc::ptr_eq(old, new))
        };
        let old = self.place.set.members.iter().enumerate().filter(|pair| !same(pair));
        let files = old.map(|(_, old)| &old.file).chain(&self.staged);
        let gone: HashSet<&String> = files.filter(|file| !named.contains(file.as_str())).collect();
        let set = manifest::file_name(self.place.set.number);
        for file in gone.into_iter().chain([&set]) {
            self.place.disk.remove(&self.collection.dir.join(file))?;
        }
        Ok(())
    }
}

/// Whether a file of this name is one that a change writes: `NAME.CONTENT.part.firn`.
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
