//! The mark of a collection that belongs to an index.
//!
//! An index makes its collection from its log, so what others change there is lost, or stays wrong,
//! with the next publication. The file `owned-by-index` in the directory of the collection says
//! that; what is in it is a note for people. The index makes it when it opens its collection, and
//! nobody removes it: a copy of the directory has it, too, until somebody who wants to change the
//! copy removes it there. It is not part of a set, so what a catalog gives away is free.

use crate::disk::{self, Entry};
use crate::search::collection::current;
use crate::search::collection::place::Place;
use crate::search::collection::{Change, Collection, LOCK};
use crate::{Error, ErrorKind, Result};

/// The name of the mark.
pub(crate) const MARK: &str = "owned-by-index";

const NOTE: &str = "This collection is made by an index, and must not be changed by anything else.
In a copy that is to be changed, remove this file.
";

/// The directory beside the collection of an index in which its log is.
const LOG: &str = "log";

impl Collection {
    /// `InvalidArgument` if the collection belongs to an index: then [`Collection::change`] is
    /// refused, and so is everything that begins with it.
    pub fn check_changeable(&self) -> Result<()> {
        self.check_changeable_at(&self.place())
    }

    pub(crate) fn check_changeable_at(&self, place: &Place) -> Result<()> {
        match place.disk.look(&self.dir.join(MARK)) {
            Ok(Entry::File(_)) => Err(self.is_owned()),
            Ok(_) => Ok(()),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e),
        }
    }

    fn is_owned(&self) -> Error {
        let real = self.disk.resolve(&self.dir).unwrap_or_else(|_| self.dir.clone());
        let index = disk::parent(&real);
        let message = match self.disk.look(&index.join(LOG)) {
            Ok(Entry::Dir) => format!(
                "this is the collection of the index `{}`, which makes it from its feeds, and \
                 nobody else may change it: `firn index apply` changes documents, `firn index \
                 rebuild DIR --partitions N` the number of partitions",
                index.display()
            ),
            _ => format!(
                "this is the collection of an index, or a copy of one: change it by `firn index \
                 apply`; if it is a copy, remove the file `{MARK}` in it first"
            ),
        };
        Error::invalid(message).in_file(&self.dir)
    }

    /// Marks the collection as that of an index, if it is not marked. `Locked` if somebody changes
    /// it.
    pub(crate) fn mark(&self) -> Result<()> {
        let (disk, mark) = (&self.place().disk, self.dir.join(MARK));
        match disk.look(&mark) {
            Ok(Entry::File(_)) => return Ok(()),
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        // A change that ends now would take the file that is being written for a leftover.
        let _lock = disk.lock(&self.dir.join(LOCK))?;
        disk::publish(&**disk, &mark, |out| out.append(NOTE.as_bytes()))
    }
}

impl Change<'_> {
    /// Makes the set that of another collection, whose files get a second name in this directory,
    /// or are copied where no hard link is possible. Nobody may change the other one meanwhile.
    pub(crate) fn link_all(&mut self, from: &Collection) -> Result<()> {
        let source = from.place();
        self.clear();
        for member in &source.set.members {
            let (file, to) = (from.dir.join(&member.file), self.collection.dir.join(&member.file));
            let disk = self.place.disk.clone();
            let opened = match disk.link(&file, &to) {
                Ok(()) => current::open_member(&disk, &to, member, None),
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                    current::open_member(&disk, &to, member, None)
                }
                Err(e) => Err(e),
            };
            match opened {
                Ok(part) => self.take(member.clone(), part),
                // No link can be made, or what is there is damaged.
                Err(_) => self.copy(&member.name, member.relation.clone(), &file)?,
            }
        }
        Ok(())
    }
}
