//! Partitions under construction, within bounded memory: what does not fit is written to files
//! beside the collection and becomes further partitions.

use firndb::search::{Change, Document, PartitionBuilder, Schema};
use firndb::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Partitions that one build may make: each has dictionaries of its own.
const MAX_PARTITIONS: usize = 4096;

/// Documents between two looks at the memory in use.
const INTERVAL: usize = 256;

/// The partitions of one build, by name.
pub struct Parts {
    schema: Schema,
    memory: usize,
    open: BTreeMap<String, PartitionBuilder>,
    /// Partitions that are in files already.
    written: Vec<(String, PathBuf)>,
    used: BTreeSet<String>,
    folder: Folder,
    /// Documents, and bytes of their payloads, since the last look at the memory in use.
    since: (usize, usize),
}

impl Parts {
    /// Partitions of `schema` that take `memory` bytes together; files wait beside `collection`.
    pub fn new(schema: &Schema, memory: usize, collection: &Path) -> Parts {
        Parts {
            schema: schema.clone(),
            memory,
            open: BTreeMap::new(),
            written: Vec::new(),
            used: BTreeSet::new(),
            folder: Folder::beside(collection),
            since: (0, 0),
        }
    }

    /// Adds a document to the partition of this name. An `InvalidArgument` concerns the document
    /// alone.
    pub fn add(&mut self, name: &str, document: &Document) -> Result<()> {
        if let Some(builder) = self.open.get_mut(name) {
            builder.add(document)?;
        } else {
            if self.open.len() + self.written.len() >= MAX_PARTITIONS {
                let message = format!(
                    "more than {MAX_PARTITIONS} partitions; choose a field of fewer values or \
                     give more --memory"
                );
                return Err(Error::new(ErrorKind::Failed, message));
            }
            // The limit is kept here, for all partitions together.
            let mut builder = PartitionBuilder::new(self.schema.clone()).memory_limit(usize::MAX);
            builder.add(document)?;
            self.open.insert(name.to_string(), builder);
        }
        self.since.0 += 1;
        self.since.1 += document.payload_bytes().len();
        if self.since.0 >= INTERVAL || self.since.1 >= self.memory / 16 {
            self.since = (0, 0);
            self.shrink()?;
        }
        Ok(())
    }

    /// Writes the largest partitions to files until the rest fits.
    fn shrink(&mut self) -> Result<()> {
        let mut total: usize = self.open.values().map(PartitionBuilder::memory).sum();
        while total > self.memory {
            let sizes = self.open.iter().map(|(name, builder)| (builder.memory(), name));
            let Some((size, name)) = sizes.max().map(|(size, name)| (size, name.clone())) else {
                return Ok(());
            };
            total -= size;
            if let Some(builder) = self.open.remove(&name) {
                let file = self.folder.path()?.join(self.written.len().to_string());
                builder.write(&file)?;
                let name = self.free_name(&name);
                self.written.push((name, file));
            }
        }
        Ok(())
    }

    /// `name`, or if there is such a partition already `name.2`, `name.3`, ...
    fn free_name(&mut self, name: &str) -> String {
        let numbered = (2..).map(|number| format!("{name}.{number}"));
        let mut names = std::iter::once(name.to_string()).chain(numbered);
        let free = names.find(|name| !self.used.contains(name)).unwrap_or_default();
        self.used.insert(free.clone());
        free
    }

    /// Puts all partitions into a change and returns their names. A name is refused if `taken` has
    /// it.
    pub fn put_all(mut self, change: &mut Change, taken: &[String]) -> Result<Vec<String>> {
        let check = |name: &String| match taken.contains(name) {
            false => Ok(()),
            true => Err(Error::new(
                ErrorKind::AlreadyExists,
                format!("there is a partition {name} already; choose another name, or --update"),
            )),
        };
        let open = std::mem::take(&mut self.open);
        let open: Vec<_> = open.into_iter().map(|(name, b)| (self.free_name(&name), b)).collect();
        self.used.iter().try_for_each(check)?;
        for (name, file) in &self.written {
            change.put_file(name, file)?;
        }
        for (name, builder) in open {
            change.put(&name, builder)?;
        }
        Ok(self.used.into_iter().collect())
    }
}

/// A folder for files on their way into the collection: made when it is needed, removed at the end.
struct Folder {
    path: PathBuf,
    made: bool,
}

impl Folder {
    fn beside(collection: &Path) -> Folder {
        let name = collection.file_name().unwrap_or_default().to_string_lossy();
        let name = format!(".{name}.firn-{}", std::process::id());
        Folder { path: collection.with_file_name(name), made: false }
    }

    fn path(&mut self) -> Result<&Path> {
        if !self.made {
            fs::create_dir_all(&self.path).map_err(|e| Error::io("create", &self.path, e))?;
            self.made = true;
        }
        Ok(&self.path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.made {
            // What cannot be removed is a waste of space and nothing worse.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
