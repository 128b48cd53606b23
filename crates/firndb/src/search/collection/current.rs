//! A set of a collection, opened: which partitions it has, and the reader over them.
//!
//! What the set before has open is used again, and what the two have in common is shared. So the
//! cost of opening the next set is that of what changed and of reading the set file, some
//! nanoseconds a partition. Where the files are is for the caller to say: in the directory of a
//! collection, or wherever a catalog's reader keeps them.

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

/// A set that was opened.
pub(crate) struct OpenSet {
    pub(crate) number: u64,
    /// The content id of its file: sets of the same number may differ, sets of the same content id
    /// are the same.
    pub(crate) content: u128,
    /// In the order of their names, as the partitions of the reader.
    pub(crate) members: Vec<Arc<Member>>,
    pub(crate) reader: Reader,
}

/// What a set is to be made of, and which of it is open already, by name.
pub(crate) struct Members<'a> {
    pub(crate) number: u64,
    pub(crate) content: u128,
    pub(crate) members: Vec<Arc<Member>>,
    /// Of the set if it has no members.
    pub(crate) schema: Arc<Schema>,
    pub(crate) opened: &'a BTreeMap<String, Arc<Partition>>,
}

/// Where the partition file of a name is.
pub(crate) type Locate<'a> = &'a dyn Fn(&str) -> PathBuf;

impl OpenSet {
    /// Opens the set in the file `set`.
    pub(crate) fn open(
        disk: &DiskRef,
        number: u64,
        set: &Path,
        locate: Locate,
        before: Option<&OpenSet>,
    ) -> Result<OpenSet> {
        let known = before.map_or(&[][..], |before| &before.members);
        let SetFile { members, schema, content } = manifest::read_whole(&**disk, set, known)?;
        let (schema, opened) = (Arc::new(schema), &BTreeMap::new());
        let set = Members { number, content, members, schema, opened };
        OpenSet::of(disk, set, locate, before)
    }

    /// Puts a set together.
    pub(crate) fn of(
        disk: &DiskRef,
        set: Members,
        locate: Locate,
        before: Option<&OpenSet>,
    ) -> Result<OpenSet> {
        let Members { number, content, members, schema, opened } = set;
        let partitions = open_all(disk, locate, &members, before, opened)?;
        let set = match members.is_empty() {
            true => {
                let set = CachedSet::empty(schema);
                before.inspect(|old| set.bundles.set_limit(old.reader.set.bundles.limit()));
                set
            }
            false => {
                let names: Vec<&str> = members.iter().map(|member| &*member.name).collect();
                match before {
                    Some(before) => before.reader.set.next(&names, partitions)?,
                    None => {
                        let names = names.iter().map(|name| name.to_string());
                        CachedSet::new(names.zip(partitions).collect())?
                    }
                }
            }
        };
        Ok(OpenSet { number, content, members, reader: Reader::new(set) })
    }

    /// The name of the set's own file.
    pub(crate) fn file_name(&self) -> String {
        manifest::file_name(self.number)
    }
}

/// The number of the newest set in a directory.
pub(crate) fn newest_number(disk: &DiskRef, dir: &Path) -> Result<u64> {
    let numbers = manifest::numbers(&**disk, dir)?;
    let none = || Error::new(ErrorKind::NotFound, "there is no collection here").in_file(dir);
    numbers.last().copied().ok_or_else(none)
}

/// Opens the newest set in a directory.
pub(crate) fn newest(disk: &DiskRef, dir: &Path) -> Result<OpenSet> {
    load(disk, dir, newest_number(disk, dir)?, None)
}

/// Opens set `newest_seen`, or the newest if that is gone, using again what `before` has open.
pub(crate) fn load(
    disk: &DiskRef,
    dir: &Path,
    newest_seen: u64,
    before: Option<&OpenSet>,
) -> Result<OpenSet> {
    let (mut number, mut tried) = (newest_seen, None);
    loop {
        let (set, locate) = (dir.join(manifest::file_name(number)), |file: &str| dir.join(file));
        match OpenSet::open(disk, number, &set, &locate, before).map_err(in_its_place) {
            // Another process may have published a newer set and cleaned this one up meanwhile.
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

/// A file of another kind under the name of a set or a partition of it is damage, not a wrong
/// argument.
fn in_its_place(error: Error) -> Error {
    match (error.kind(), error.file()) {
        (ErrorKind::InvalidArgument, Some(file)) => Error::corrupt(error.message()).in_file(file),
        _ => error,
    }
}

/// Opens the partitions of a set, but for those that `before` or `opened` has.
fn open_all(
    disk: &DiskRef,
    locate: Locate,
    members: &[Arc<Member>],
    before: Option<&OpenSet>,
    opened: &BTreeMap<String, Arc<Partition>>,
) -> Result<Vec<Arc<Partition>>> {
    let known = before.map_or(&[][..], |before| &before.members);
    let mut partitions: Vec<Arc<Partition>> = Vec::with_capacity(members.len());
    let mut at = 0;
    for member in members {
        while known.get(at).is_some_and(|m| !Arc::ptr_eq(m, member) && m.name < member.name) {
            at += 1;
        }
        let old = before.filter(|_| known.get(at).is_some_and(|m| m.name == member.name));
        let old = old.map(|before| &before.reader.set.partitions[at]);
        let part = match (old, opened.get(&member.name)) {
            (Some(old), _) if known[at] == *member => old.clone(),
            (_, Some(new)) => new.clone(),
            (old, None) => {
                let like = old.or(partitions.last()).map(|part| &**part);
                open_member(disk, &locate(&member.file), member, like)?
            }
        };
        partitions.push(part);
    }
    Ok(partitions)
}

/// Opens the partition file `path` of a member; `like` is one that may have the same schema.
pub(crate) fn open_member(
    disk: &DiskRef,
    path: &Path,
    member: &Member,
    like: Option<&Partition>,
) -> Result<Arc<Partition>> {
    let part = Partition::open(&**disk, path, like)?;
    if part.file.content() != member.content || part.documents != member.documents {
        let message =
            format!("this is not the file that the set names for partition `{}`", member.name);
        return Err(Error::corrupt(message).in_file(path));
    }
    Ok(Arc::new(part))
}
