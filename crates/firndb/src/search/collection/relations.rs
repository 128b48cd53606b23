//! The relations of partitions: continuations and merged names.
//!
//! A name identifies documents that are replaced and removed together. They are in the partition of
//! that name and in its continuations (`NAME.2`, `NAME.3`, ...), which have the documents that did
//! not fit. Replacing the name replaces its continuations, too. A merge puts documents of several
//! names into one partition that cannot be split again. The set records these names: putting one of
//! them again would duplicate its documents, and replacing the merged partition under one of them
//! would lose the documents of the others. Both are refused.

use crate::search::build::builder::PartitionBuilder;
use crate::search::collection::{Change, Collection, current, position};
use crate::search::format::manifest::Member;
use crate::search::format::manifest::Relation;
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

impl Member {
    /// The names whose documents are in the partition.
    fn base_names(&self) -> impl Iterator<Item = &str> {
        let Relation { of, merged } = &self.relation;
        let own = if of.is_empty() { &self.name } else { of };
        let own = merged.is_empty().then_some(&**own);
        merged.iter().map(String::as_str).chain(own)
    }
}

/// The relation of the partition `into` that results from merging `members`.
pub(crate) fn merged_relation<'a>(
    members: impl Iterator<Item = &'a Arc<Member>> + Clone,
    into: &str,
) -> Relation {
    let base_names: BTreeSet<&str> = members.clone().flat_map(|m| m.base_names()).collect();
    let is_one = base_names.len() == 1;
    if is_one && base_names.contains(into) {
        return Relation::default(); // All documents are of this one name.
    }
    let continuation = members.into_iter().find(|m| m.name == into && !m.relation.of.is_empty());
    match continuation {
        Some(part) if is_one => part.relation.clone(),
        _ => {
            Relation { of: String::new(), merged: base_names.into_iter().map(Into::into).collect() }
        }
    }
}

/// The first few names, for an error message.
fn list_names(names: &[String]) -> String {
    let more = if names.len() > 5 { ", ..." } else { "" };
    format!("`{}`{more}", names[..names.len().min(5)].join("`, `"))
}

impl Change<'_> {
    /// Replaces all partitions by those of another collection. Hard-links its files into this
    /// directory, or copies them where no link is possible. The other collection must not change
    /// meanwhile.
    pub(crate) fn link_all(&mut self, from: &Collection) -> Result<()> {
        let source = from.open_dir();
        self.clear();
        for member in &source.set.members {
            let (file, to) = (from.dir.join(&member.file), self.collection.dir.join(&member.file));
            let disk = self.base.disk.clone();
            let opened = match disk.link(&file, &to) {
                Ok(()) => current::open_member(&disk, &to, member, None),
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                    current::open_member(&disk, &to, member, None)
                }
                Err(e) => Err(e),
            };
            match opened {
                Ok(part) => self.insert(member.clone(), part),
                // The file cannot be linked, or the one in this directory is damaged.
                Err(_) => self.copy(&member.name, member.relation.clone(), &file)?,
            }
        }
        Ok(())
    }

    /// Adds a continuation of a partition of this change or of the collection, and returns its
    /// name: the first free one of `NAME.2`, `NAME.3`, ... It is replaced and removed together with
    /// the partition. `NotFound` if there is no partition `name`.
    pub fn extend(&mut self, name: &str, builder: PartitionBuilder) -> Result<String> {
        let continuation = self.next_continuation(name)?;
        let built = builder.finish()?;
        self.put_part(&continuation, continuation_of(name), |out| built.write(out))?;
        Ok(continuation)
    }

    /// [`Change::extend`] with a copy of a partition file. The file is verified first.
    pub fn extend_file(&mut self, name: &str, file: impl AsRef<Path>) -> Result<String> {
        let continuation = self.next_continuation(name)?;
        self.copy(&continuation, continuation_of(name), file.as_ref())?;
        Ok(continuation)
    }

    /// The name of the next continuation.
    fn next_continuation(&self, name: &str) -> Result<String> {
        position(&self.members, name).map_err(|_| self.no_partition(name))?;
        let is_free = |name: &String| {
            position(&self.members, name).is_err() && self.merged_into(name).is_none()
        };
        let mut names = (2..).map(|number| format!("{name}.{number}"));
        Ok(names.find(is_free).unwrap_or_default())
    }

    /// The partition that the documents of a name were merged into.
    fn merged_into(&self, name: &str) -> Option<&Arc<Member>> {
        let has = |m: &&Arc<Member>| m.relation.merged.iter().any(|merged| merged == name);
        self.members.iter().find(has)
    }

    /// Fails with `AlreadyExists` if the documents of this name cannot be replaced on their own.
    pub(crate) fn check_put(&self, name: &str) -> Result<()> {
        let refused = |message: String| {
            Err(Error::new(ErrorKind::AlreadyExists, message).in_file(&self.collection.dir))
        };
        self.check_not_continuation(name, "replace")?;
        match self.merged_into(name) {
            Some(m) if m.name == name => refused(merged_names_message(m)),
            Some(m) => refused(format!(
                "the documents of partition `{name}` were merged into `{}`, with those of {}: to \
                 put `{name}` again would double them; replace or remove `{}` first, or all \
                 partitions",
                m.name,
                list_names(&m.relation.merged),
                m.name
            )),
            None => Ok(()),
        }
    }

    /// Fails with `AlreadyExists` if this is the name of a continuation.
    fn check_not_continuation(&self, name: &str, verb: &str) -> Result<()> {
        let member = position(&self.members, name).ok().map(|at| &self.members[at]);
        let Some(base) = member.map(|m| &m.relation.of).filter(|of| !of.is_empty()) else {
            return Ok(());
        };
        let message = format!(
            "partition `{name}` has documents of `{base}` that did not fit into that: {verb} \
             `{base}`, or name another partition"
        );
        Err(Error::new(ErrorKind::AlreadyExists, message).in_file(&self.collection.dir))
    }

    /// Fails unless the partitions of this name can be removed.
    pub(crate) fn check_remove(&self, name: &str) -> Result<()> {
        self.check_not_continuation(name, "remove")?;
        let is_here = |m: &&Arc<Member>| m.name == name || m.relation.of == name;
        let found = self.members.iter().find(is_here);
        match (found, self.merged_into(name)) {
            (_, Some(m)) if m.name == name => {
                Err(Error::new(ErrorKind::AlreadyExists, merged_names_message(m))
                    .in_file(&self.collection.dir))
            }
            (None, Some(m)) => {
                let message = format!(
                    "there is no partition `{name}` any more: its documents were merged into \
                     `{}`, with those of {}",
                    m.name,
                    list_names(&m.relation.merged)
                );
                Err(Error::new(ErrorKind::NotFound, message).in_file(&self.collection.dir))
            }
            (None, None) => Err(self.no_partition(name)),
            (Some(_), _) => Ok(()),
        }
    }

    /// Fails with `AlreadyExists` if documents of the name `into` were merged into a partition that
    /// is not among `names`.
    pub(crate) fn check_merge_target(&self, into: &str, names: &[String]) -> Result<()> {
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

    /// Fails with `InvalidArgument` if merging `names` would separate documents of one name: a name
    /// is replaced and removed as a whole.
    pub(crate) fn check_merges_whole_names(&self, names: &[String], into: &str) -> Result<()> {
        let is_named = |m: &&Arc<Member>| names.contains(&m.name);
        let relation = merged_relation(self.members.iter().filter(is_named), into);
        let others = self.members.iter().filter(|m| !is_named(m));
        let mut split = others.flat_map(|m| m.base_names().map(move |name| (m, name)));
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

    /// The names, each followed by its continuations that are not among them.
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
fn continuation_of(name: &str) -> Relation {
    Relation { of: name.to_string(), merged: Vec::new() }
}

/// The error message for replacing or removing a partition that has documents of merged names.
fn merged_names_message(m: &Member) -> String {
    format!(
        "partition `{0}` has the documents of {1}, which were merged: those of the others would be \
         lost with it. If they may go, give it another name first (merge `{0}` alone into another \
         name), and then remove it",
        m.name,
        list_names(&m.relation.merged)
    )
}
