//! What partitions have to do with each other: continuations and merged names.
//!
//! A name stands for documents that are replaced and removed together. They are in the partition of
//! that name and in its continuations (`NAME.2`, `NAME.3`, ...), into which went what did not fit;
//! so whoever replaces the name replaces them, too. After a merge the documents of several names
//! are in one partition, which cannot be taken apart. The set keeps these names: to put one of them
//! again would double its documents, and to replace a partition under one of them would lose those
//! of the others. Both are refused.

use crate::search::build::builder::PartitionBuilder;
use crate::search::collection::{Change, Collection, current, place};
use crate::search::format::manifest::Member;
use crate::search::format::manifest::Relation;
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

impl Member {
    /// The names whose documents are in it.
    fn origins(&self) -> impl Iterator<Item = &str> {
        let Relation { of, merged } = &self.relation;
        let own = if of.is_empty() { &self.name } else { of };
        let own = merged.is_empty().then_some(&**own);
        merged.iter().map(String::as_str).chain(own)
    }
}

/// What becomes of the relations of partitions that are merged into one of this name.
pub(crate) fn joined<'a>(
    members: impl Iterator<Item = &'a Arc<Member>> + Clone,
    into: &str,
) -> Relation {
    let origins: BTreeSet<&str> = members.clone().flat_map(|m| m.origins()).collect();
    let is_one = origins.len() == 1;
    if is_one && origins.contains(into) {
        return Relation::default(); // The name is whole again, or a larger part of it.
    }
    let still = members.into_iter().find(|m| m.name == into && !m.relation.of.is_empty());
    match still {
        Some(part) if is_one => part.relation.clone(),
        _ => Relation { of: String::new(), merged: origins.into_iter().map(Into::into).collect() },
    }
}

/// Some names for a message.
fn some(names: &[String]) -> String {
    let more = if names.len() > 5 { ", ..." } else { "" };
    format!("`{}`{more}", names[..names.len().min(5)].join("`, `"))
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

    /// Adds a partition that continues another one of this change or of the collection, and returns
    /// its name: the first of `NAME.2`, `NAME.3`, ... that is free. It is replaced and removed
    /// with that one. `NotFound` if there is no partition `name`.
    pub fn extend(&mut self, name: &str, builder: PartitionBuilder) -> Result<String> {
        let further = self.further(name)?;
        let built = builder.finish()?;
        self.put_part(&further, of(name), |out| built.write(out))?;
        Ok(further)
    }

    /// [`Change::extend`] by a copy of a partition file.
    pub fn extend_file(&mut self, name: &str, file: impl AsRef<Path>) -> Result<String> {
        let further = self.further(name)?;
        self.copy(&further, of(name), file.as_ref())?;
        Ok(further)
    }

    /// The name of the next continuation.
    fn further(&self, name: &str) -> Result<String> {
        place(&self.members, name).map_err(|_| self.no_partition(name))?;
        let is_free =
            |name: &String| place(&self.members, name).is_err() && self.merged_into(name).is_none();
        let mut names = (2..).map(|number| format!("{name}.{number}"));
        Ok(names.find(is_free).unwrap_or_default())
    }

    /// The partition into which the documents of a name were merged.
    fn merged_into(&self, name: &str) -> Option<&Arc<Member>> {
        let has = |m: &&Arc<Member>| m.relation.merged.iter().any(|merged| merged == name);
        self.members.iter().find(has)
    }

    /// `AlreadyExists` unless documents may be put under this name, in the place of those that it
    /// stands for.
    pub(crate) fn check_put(&self, name: &str) -> Result<()> {
        let refused = |message: String| {
            Err(Error::new(ErrorKind::AlreadyExists, message).in_file(&self.collection.dir))
        };
        self.check_base(name, "replace")?;
        match self.merged_into(name) {
            Some(m) if m.name == name => refused(others_in(m)),
            Some(m) => refused(format!(
                "the documents of partition `{name}` were merged into `{}`, with those of {}: to \
                 put `{name}` again would double them; replace or remove `{}` first, or all \
                 partitions",
                m.name,
                some(&m.relation.merged),
                m.name
            )),
            None => Ok(()),
        }
    }

    /// `AlreadyExists` if this is the name of a continuation, which does not stand for itself.
    fn check_base(&self, name: &str, verb: &str) -> Result<()> {
        let there = place(&self.members, name).ok().map(|at| &self.members[at]);
        let Some(base) = there.map(|m| &m.relation.of).filter(|of| !of.is_empty()) else {
            return Ok(());
        };
        let message = format!(
            "partition `{name}` has documents of `{base}` that did not fit into that: {verb} \
             `{base}`, or name another partition"
        );
        Err(Error::new(ErrorKind::AlreadyExists, message).in_file(&self.collection.dir))
    }

    /// An error unless the partitions of this name may be removed.
    pub(crate) fn check_remove(&self, name: &str) -> Result<()> {
        self.check_base(name, "remove")?;
        let is_here = |m: &&Arc<Member>| m.name == name || m.relation.of == name;
        let here = self.members.iter().find(is_here);
        match (here, self.merged_into(name)) {
            (_, Some(m)) if m.name == name => {
                Err(Error::new(ErrorKind::AlreadyExists, others_in(m))
                    .in_file(&self.collection.dir))
            }
            (None, Some(m)) => {
                let message = format!(
                    "there is no partition `{name}` any more: its documents were merged into \
                     `{}`, with those of {}",
                    m.name,
                    some(&m.relation.merged)
                );
                Err(Error::new(ErrorKind::NotFound, message).in_file(&self.collection.dir))
            }
            (None, None) => Err(self.no_partition(name)),
            (Some(_), _) => Ok(()),
        }
    }

    /// `AlreadyExists` if partitions merged into one of this name would take a name that others
    /// have documents of.
    pub(crate) fn check_into(&self, into: &str, names: &[String]) -> Result<()> {
        match self.merged_into(into) {
            Some(m) if !names.contains(&m.name) => {
                let message = format!(
                    "the documents of a partition `{into}` were merged into `{}`; choose another \
                     name",
                    m.name
                );
                Err(Error::new(ErrorKind::AlreadyExists, message).in_file(&self.collection.dir))
            }
            _ => Ok(()),
        }
    }

    /// `InvalidArgument` if partitions are to be merged that have some documents of a name, while
    /// others of it stay elsewhere: a name is replaced and removed as a whole.
    pub(crate) fn check_whole(&self, names: &[String], into: &str) -> Result<()> {
        let is_named = |m: &&Arc<Member>| names.contains(&m.name);
        let relation = joined(self.members.iter().filter(is_named), into);
        let others = self.members.iter().filter(|m| !is_named(m));
        let mut split = others.flat_map(|m| m.origins().map(move |name| (m, name)));
        match split.find(|(_, name)| relation.merged.iter().any(|merged| merged == name)) {
            None => Ok(()),
            Some((m, name)) => Err(Error::invalid(format!(
                "partition `{}` has documents of `{name}`, too: merge all of `{name}`, or none",
                m.name
            ))
            .in_file(&self.collection.dir)),
        }
    }

    /// Removes the continuations of a name.
    pub(crate) fn drop_continuations(&mut self, name: &str) {
        self.members.retain(|m| m.relation.of != name);
    }

    /// These names, each followed by its continuations that are not among them.
    pub(crate) fn with_continuations(&self, names: &[&str]) -> Vec<String> {
        let mut all = Vec::with_capacity(names.len());
        for name in names {
            all.push(name.to_string());
            let parts = self.members.iter().filter(|m| m.relation.of == *name);
            let parts = parts.filter(|m| !names.contains(&m.name.as_str()));
            all.extend(parts.map(|m| m.name.clone()));
        }
        all
    }
}

/// The relation of a continuation.
fn of(name: &str) -> Relation {
    Relation { of: name.to_string(), merged: Vec::new() }
}

fn others_in(m: &Member) -> String {
    format!(
        "partition `{0}` has the documents of {1}, which were merged: those of the others would be \
         lost with it. If they may go, give it another name first (merge `{0}` alone into another \
         name), and then remove it",
        m.name,
        some(&m.relation.merged)
    )
}
