//! Opens sets of a collection: their members, and a reader over their partitions.
//!
//! Opening the next set reuses the open partitions of the previous one and shares what both have in
//! common, so its cost is that of the changed partitions plus reading the set file, a few
//! nanoseconds per partition. The caller locates the files: in the directory of a collection, or
//! where a catalog reader stores them.

use crate::disk::DiskRef;
use crate::search::cache::cached_set::CachedSet;
use crate::search::format::manifest::{self, Member, SetFile};
use crate::search::model::schema::Schema;
use crate::search::partition::Partition;
use crate::search::reader::Reader;
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open set.
pub(crate) struct OpenSet {
    pub(crate) number: u64,
    /// The content id of the set file. Sets of the same number may differ; sets of the same content
    /// id are identical.
    pub(crate) content: u128,
    /// In the order of their names, like the partitions of the reader.
    pub(crate) members: Vec<Arc<Member>>,
    pub(crate) reader: Reader,
}

/// The contents of a set to open.
pub(crate) struct Members<'a> {
    pub(crate) number: u64,
    pub(crate) content: u128,
    pub(crate) members: Vec<Arc<Member>>,
    /// The schema of the set if it has no members.
    pub(crate) schema: Arc<Schema>,
    /// Partitions that are open already, by name.
    pub(crate) opened: &'a BTreeMap<String, Arc<Partition>>,
}

/// Returns the path of a partition file, given its file name.
pub(crate) type Locate<'a> = &'a dyn Fn(&str) -> PathBuf;

impl OpenSet {
    /// Opens set `number` from the file `set`.
    pub(crate) fn open(
        disk: &DiskRef,
        number: u64,
        set: &Path,
        locate: Locate,
        previous: Option<&OpenSet>,
    ) -> Result<OpenSet> {
        let known = previous.map_or(&[][..], |previous| &previous.members);
        let SetFile { members, schema, content } = manifest::read_whole(&**disk, set, known)?;
        let (schema, opened) = (Arc::new(schema), &BTreeMap::new());
        let set = Members { number, content, members, schema, opened };
        OpenSet::of(disk, set, locate, previous)
    }

    /// Opens a set with the given contents.
    pub(crate) fn of(
        disk: &DiskRef,
        set: Members,
        locate: Locate,
        previous: Option<&OpenSet>,
    ) -> Result<OpenSet> {
        let Members { number, content, members, schema, opened } = set;
        let partitions = open_all(disk, locate, &members, previous, opened)?;
        let set = match members.is_empty() {
            true => CachedSet::empty(schema),
            false => {
                let names: Vec<&str> = members.iter().map(|member| &*member.name).collect();
                match previous {
                    Some(previous) => previous.reader.set.next(&names, partitions)?,
                    None => {
                        let names = names.iter().map(|name| name.to_string());
                        CachedSet::new(names.zip(partitions).collect())?
                    }
                }
            }
        };
        Ok(OpenSet { number, content, members, reader: Reader::new(set) })
    }

    /// The name of the set file.
    pub(crate) fn file_name(&self) -> String {
        manifest::file_name(self.number)
    }
}

/// The number of the newest set in a directory. `NotFound` if there is none.
pub(crate) fn newest_number(disk: &DiskRef, dir: &Path) -> Result<u64> {
    let numbers = manifest::numbers(&**disk, dir)?;
    let none = || Error::new(ErrorKind::NotFound, "there is no collection here").in_file(dir);
    numbers.last().copied().ok_or_else(none)
}

/// Opens the newest set in a directory.
pub(crate) fn newest(disk: &DiskRef, dir: &Path) -> Result<OpenSet> {
    load(disk, dir, newest_number(disk, dir)?, None)
}

/// Opens set `newest_seen`, or the newest one if that is gone. Reuses the open partitions of
/// `previous`.
pub(crate) fn load(
    disk: &DiskRef,
    dir: &Path,
    newest_seen: u64,
    previous: Option<&OpenSet>,
) -> Result<OpenSet> {
    let (mut number, mut tried) = (newest_seen, None);
    loop {
        let (set, locate) = (dir.join(manifest::file_name(number)), |file: &str| dir.join(file));
        match OpenSet::open(disk, number, &set, &locate, previous).map_err(wrong_kind_as_corrupt) {
            // Another process may have published a newer set and removed this one.
            Err(e) if e.kind() == ErrorKind::NotFound && tried != Some(number) => {
                tried = Some(number);
                number = newest_number(disk, dir)?;
            }
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let message = format!("a file of set {number} is missing: {}", e.message());
                return Err(Error::corrupt(message).in_file(e.file().unwrap_or(dir)));
            }
            done => return done,
        }
    }
}

/// A set or partition file of the wrong kind is corruption, not an invalid argument of the caller.
fn wrong_kind_as_corrupt(error: Error) -> Error {
    match (error.kind(), error.file()) {
        (ErrorKind::InvalidArgument, Some(file)) => Error::corrupt(error.message()).in_file(file),
        _ => error,
    }
}

/// Opens the partitions of a set, except those that `previous` or `opened` has.
fn open_all(
    disk: &DiskRef,
    locate: Locate,
    members: &[Arc<Member>],
    previous: Option<&OpenSet>,
    opened: &BTreeMap<String, Arc<Partition>>,
) -> Result<Vec<Arc<Partition>>> {
    let known = previous.map_or(&[][..], |previous| &previous.members);
    let mut partitions: Vec<Arc<Partition>> = Vec::with_capacity(members.len());
    let mut at = 0;
    for member in members {
        while known.get(at).is_some_and(|m| !Arc::ptr_eq(m, member) && m.name < member.name) {
            at += 1;
        }
        let old = previous.filter(|_| known.get(at).is_some_and(|m| m.name == member.name));
        let old = old.map(|previous| &previous.reader.set.partitions[at]);
        let part = match (old, opened.get(&member.name)) {
            (Some(old), _) if known[at] == *member => old.clone(),
            (_, Some(new)) => new.clone(),
            (old, None) => {
                let similar = old.or(partitions.last()).map(|part| &**part);
                open_member(disk, &locate(&member.file), member, similar)?
            }
        };
        partitions.push(part);
    }
    Ok(partitions)
}

/// Opens the partition file `path` of a member. `similar` is a partition that may have the same
/// schema, which is then shared.
pub(crate) fn open_member(
    disk: &DiskRef,
    path: &Path,
    member: &Member,
    similar: Option<&Partition>,
) -> Result<Arc<Partition>> {
    let part = Partition::open(&**disk, path, similar)?;
    if part.file.content() != member.content || part.documents != member.documents {
        let message =
            format!("this is not the file that the set names for partition `{}`", member.name);
        return Err(Error::corrupt(message).in_file(path));
    }
    Ok(Arc::new(part))
}
