//! Builds several partitions within bounded memory. What exceeds the limit is written to files in a
//! temporary folder and becomes further partitions.

use firndb::search::{Change, Document, MAX_DOCUMENTS, PartitionBuilder, Schema};
use firndb::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Maximum number of partitions of one build: each has its own dictionaries.
const MAX_PARTITIONS: usize = 4096;

/// Documents between two checks of the memory in use.
const INTERVAL: usize = 256;

/// The partitions of one build, by name, within bounded memory: those that exceed the limit are
/// written to a temporary folder, which is removed when this is dropped.
///
/// ```
/// use firndb::search::{Collection, Document, Schema};
/// use firndb_ingest::Parts;
/// # let dir = std::env::temp_dir().join(format!("firndb-doc-parts-{}", std::process::id()));
///
/// let schema = Schema::from_toml("[fields]\nid = 'u64 full'")?;
/// let mut parts = Parts::new(&schema, 1 << 30, &dir);
/// for id in 0..10u64 {
///     let name = if id % 2 == 0 { "even" } else { "odd" };
///     parts.add(name, &Document::new().set("id", id))?;
/// }
/// let collection = Collection::create(&dir)?;
/// let mut change = collection.change()?;
/// parts.put_all(&mut change, || Ok(()))?;
/// assert_eq!(change.commit()?.partitions().len(), 2);
/// # std::fs::remove_dir_all(dir).unwrap();
/// # Ok::<(), firndb::Error>(())
/// ```
pub struct Parts {
    schema: Schema,
    memory: usize,
    /// Maximum number of documents of a partition.
    most: u32,
    open: BTreeMap<String, PartitionBuilder>,
    /// Partitions already written to files; of each name the first, and those that continue it.
    written: Vec<(String, PathBuf)>,
    folder: Folder,
    /// Documents, and bytes of their payloads, since the last check of the memory in use.
    since: (usize, usize),
}

impl Parts {
    /// Partitions of `schema` within `memory` bytes in total; files are written next to
    /// `collection`.
    pub fn new(schema: &Schema, memory: usize, collection: &Path) -> Parts {
        Parts {
            schema: schema.clone(),
            memory,
            most: MAX_DOCUMENTS,
            open: BTreeMap::new(),
            written: Vec::new(),
            folder: Folder::next_to(collection),
            since: (0, 0),
        }
    }

    /// Writes files to a folder in `dir`, instead of one next to the collection.
    pub fn temp_dir(mut self, dir: &Path) -> Parts {
        self.folder = Folder::next_to(&dir.join("partitions"));
        self
    }

    /// The folder of partitions that exceed the limit. It exists once there are some; its name is
    /// random.
    pub fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// Whether no document was added.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty() && self.written.is_empty()
    }

    /// Adds a document to the partition of this name.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if this document does not fit; it is not added, and others can be.
    /// `Failed` if there are more than 4,096 partitions; `Io`.
    pub fn add(&mut self, name: &str, document: &Document) -> Result<()> {
        if self.open.get(name).is_some_and(|builder| builder.len() == self.most) {
            self.write_out(name)?;
        }
        if let Some(builder) = self.open.get_mut(name) {
            builder.add(document)?;
        } else {
            if self.open.len() + self.written.len() >= MAX_PARTITIONS {
                let message = format!(
                    "more than {MAX_PARTITIONS} partitions; choose a field of fewer values or \
                     allow more memory"
                );
                return Err(Error::new(ErrorKind::Failed, message));
            }
            // This type enforces the limit, over all partitions together.
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
            self.write_out(&name)?;
        }
        Ok(())
    }

    /// Writes a partition to a file; later documents of its name start a further partition.
    fn write_out(&mut self, name: &str) -> Result<()> {
        if let Some(builder) = self.open.remove(name) {
            let file = self.folder.path()?.join(self.written.len().to_string());
            builder.write(&file)?;
            self.written.push((name.to_string(), file));
        }
        Ok(())
    }

    /// Adds all partitions to a change, replacing those of the same names. Partitions that exceeded
    /// the limit are continued by further ones. Calls `check` before each partition: its error ends
    /// the call.
    ///
    /// # Errors
    ///
    /// As [`Change::put`] and [`Change::extend`]; that of `check`.
    pub fn put_all<E: From<Error>>(
        mut self,
        change: &mut Change,
        mut check: impl FnMut() -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut put = BTreeSet::new();
        for (name, file) in &self.written {
            check()?;
            match put.insert(name.clone()) {
                true => change.put_file(name, file)?,
                false => _ = change.extend_file(name, file)?,
            }
        }
        for (name, builder) in std::mem::take(&mut self.open) {
            check()?;
            match put.insert(name.clone()) {
                true => change.put(&name, builder)?,
                false => _ = change.extend(&name, builder)?,
            }
        }
        Ok(())
    }

    /// Fails if a partition to be written has one of these names.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if one of these names is that of a partition to be written.
    pub fn check_new(&self, names: &[&str]) -> Result<()> {
        let mut new = self.written.iter().map(|(name, _)| name).chain(self.open.keys());
        match new.find(|name| names.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(Error::new(
                ErrorKind::AlreadyExists,
                format!("there is a partition {name} already; choose another name"),
            )),
        }
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.open.keys().collect();
        f.debug_struct("Parts").field("open", &names).field("written", &self.written).finish()
    }
}

/// A temporary folder for partition files, created on first use and removed at the end. Folders of
/// killed processes are removed by the next build into the same collection.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// Held while the folder is in use, once it is created.
    lock: Option<File>,
    /// The process that removes the folder: a forked child has a copy of this.
    process: u32,
}

/// The file in a folder that the owning process has locked.
const LOCK: &str = "lock";
/// Hexadecimal digits at the end of a folder's name.
const DIGITS: usize = 16;

impl Folder {
    fn next_to(collection: &Path) -> Folder {
        let name = collection.file_name().unwrap_or_default().to_string_lossy();
        let prefix = format!(".{name}.firn-");
        remove_leftovers(collection, &prefix);
        // The name is random, so no other user can create the folder in advance to read what is
        // written there or to redirect it by a symbolic link.
        let random = RandomState::new().hash_one(0u8);
        let name = format!("{prefix}{}-{random:0DIGITS$x}", std::process::id());
        let path = collection.with_file_name(name);
        Folder { path, lock: None, process: std::process::id() }
    }

    fn path(&mut self) -> Result<&Path> {
        if self.lock.is_none() {
            let parent = self.path.parent().unwrap_or(Path::new(""));
            let made = fs::create_dir_all(parent).and_then(|()| {
                DirBuilder::new().mode(0o700).create(&self.path)?;
                let lock = File::create_new(self.path.join(LOCK))?;
                lock.lock()?;
                Ok(lock)
            });
            self.lock = Some(made.map_err(|e| Error::io("create", &self.path, e))?);
        }
        Ok(&self.path)
    }
}

/// Removes the folders of processes that have ended. What cannot be removed does no harm.
fn remove_leftovers(collection: &Path, prefix: &str) {
    let parent = collection.parent().filter(|parent| !parent.as_os_str().is_empty());
    let entries = fs::read_dir(parent.unwrap_or(Path::new("."))).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| process_of(name.strip_prefix(prefix)?));
        if id.is_some_and(is_gone) && !is_locked(&entry.path().join(LOCK)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The process id in the name of a folder, after the common prefix.
fn process_of(rest: &str) -> Option<u32> {
    let (id, random) = rest.split_once('-')?;
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_random = random.len() == DIGITS && random.bytes().all(is_digit);
    id.parse().ok().filter(|_| is_random)
}

/// Whether this machine has no process of this id. On a shared directory the process may run on
/// another machine; there, and where the system has no process list, only the lock protects it.
fn is_gone(id: u32) -> bool {
    let processes = Path::new("/proc");
    !processes.join("self").exists() || !processes.join(id.to_string()).exists()
}

fn is_locked(path: &Path) -> bool {
    match File::open(path) {
        Ok(file) => file.try_lock().is_err(),
        Err(_) => false,
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.lock.is_some() && self.process == std::process::id() {
            // What cannot be removed only wastes space.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firndb::search::Collection;

    #[test]
    fn folders_are_private_and_have_unpredictable_names() {
        use std::os::unix::fs::PermissionsExt;
        let collection =
            std::env::temp_dir().join(format!("firndb-folder-{}/c", std::process::id()));
        let mut folders = [Folder::next_to(&collection), Folder::next_to(&collection)];
        assert_ne!(folders[0].path, folders[1].path);
        for folder in &mut folders {
            let made = folder.path().unwrap().to_path_buf();
            assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o700);
            let name = made.file_name().unwrap().to_str().unwrap();
            let process = process_of(name.strip_prefix(".c.firn-").unwrap());
            assert_eq!(process, Some(std::process::id()));
        }
        // An existing folder of the same name is not taken over.
        let mut third = Folder::next_to(&collection);
        third.path = folders[0].path.clone();
        assert_eq!(third.path().unwrap_err().kind(), ErrorKind::AlreadyExists);
        drop(folders);
        fs::remove_dir(collection.parent().unwrap()).unwrap();
    }

    #[test]
    fn documents_over_the_limit_go_to_the_next_partition() {
        let dir = std::env::temp_dir().join(format!("firndb-parts-{}", std::process::id()));
        let schema = Schema::from_toml("[fields]\nid = \"u64 full\"\n").unwrap();
        let mut parts = Parts::new(&schema, 1 << 30, &dir);
        parts.most = 3;
        for id in 0..7u64 {
            parts.add("main", &Document::new().set("id", id)).unwrap();
        }
        let collection = Collection::create(&dir).unwrap();
        let mut change = collection.change().unwrap();
        assert_eq!(parts.check_new(&["main"]).unwrap_err().kind(), ErrorKind::AlreadyExists);
        parts.check_new(&["main.2"]).unwrap();
        parts.put_all(&mut change, || Ok::<(), Error>(())).unwrap();
        assert_eq!(change.names(), ["main", "main.2", "main.3"]);
        assert_eq!(change.commit().unwrap().len(), 7);
        fs::remove_dir_all(&dir).unwrap();
    }
}
