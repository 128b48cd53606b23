//! Publishing a version, and rolling back to an old one.

use super::format::{Version, VersionFile, VersionKind, encode, file_object, version_object};
use super::origin::Content;
use super::source::{self, ATTEMPTS, Source, SourceFile};
use super::{Catalog, check_name, newest, no_version, pins, pull};
use crate::{Error, ErrorKind, Result};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Most labels of a version.
const MAX_LABELS: usize = 100;

/// Longest name or text of a label in bytes.
const MAX_LABEL: usize = 4096;

/// How a version is published.
///
/// ```
/// use firndb::catalog::{Catalog, PublishOptions};
/// use std::path::Path;
///
/// /// Publishes a table or collection with a label, and shows how much is sent.
/// fn publish(catalog: &Catalog, path: &Path) -> firndb::Result<u64> {
///     let progress = |done, total| println!("{done} of {total} bytes");
///     let options = PublishOptions::new().label("source", "nightly build").progress(&progress);
///     Ok(catalog.publish("offers", path, &options)?.version.number)
/// }
/// ```
#[derive(Default)]
#[non_exhaustive]
pub struct PublishOptions<'a> {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) progress: Option<&'a dyn Fn(u64, u64)>,
    pub(crate) verify: bool,
}

impl<'a> PublishOptions<'a> {
    /// The default options: no labels.
    pub fn new() -> PublishOptions<'a> {
        PublishOptions::default()
    }

    /// Adds a name and a text to the manifest: at most 100, of at most 4096 bytes each.
    pub fn label(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.labels.insert(name.into(), text.into());
        self
    }

    /// Sets all names and texts: see [`PublishOptions::label`].
    pub fn labels(mut self, labels: BTreeMap<String, String>) -> Self {
        self.labels = labels;
        self
    }

    /// Calls `progress` repeatedly with the bytes sent so far and the bytes to send in total.
    /// Counts only files that the parent version does not have, or that are damaged in the catalog.
    pub fn progress(mut self, progress: &'a dyn Fn(u64, u64)) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Also reads the files that the parent version has in the catalog, and stores the damaged ones
    /// again. Otherwise a stored file of the right length is assumed to be intact. The same applies
    /// to staged files, which are not published if they are damaged.
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = verify;
        self
    }
}

/// The result of publishing a version.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Published {
    /// The new version.
    pub version: Version,
    /// Files that the parent version does not have.
    pub files_sent: u64,
    /// Bytes of these files. Files of the same file system are linked, not copied.
    pub bytes_sent: u64,
    /// Files that the parent version has, but that were missing or damaged in the catalog. They
    /// were stored again, for this version and its successors.
    pub files_repaired: u64,
}

/// See [`Catalog::publish`].
pub(super) fn publish(
    catalog: &Catalog,
    name: &str,
    path: &Path,
    options: &PublishOptions<'_>,
) -> Result<Published> {
    span!(INFO, "firndb.catalog.publish", name = name);
    check_name(name)?;
    check_labels(&options.labels)?;
    let mut attempt = 0;
    loop {
        attempt += 1;
        let source = source::examine(&catalog.disk, path)?;
        match publish_source(catalog, name, &source, options) {
            // A collection that is changed concurrently loses the files that its new set lacks.
            Err(e)
                if e.kind() == ErrorKind::NotFound
                    && attempt < ATTEMPTS
                    && source.files.iter().any(|file| e.file() == Some(&file.path)) => {}
            done => return done,
        }
    }
}

/// See [`Catalog::publish_if_changed`].
pub(super) fn publish_if_changed(
    catalog: &Catalog,
    name: &str,
    path: &Path,
    options: &PublishOptions<'_>,
) -> Result<Option<Published>> {
    check_name(name)?;
    let source = source::examine(&catalog.disk, path)?;
    let same = find_parent(catalog, name)?.filter(|newest| {
        let (old, new) = (newest.files.iter(), source.files.iter());
        let content = |file: &SourceFile| format!("{:032x}", file.content);
        let is_same_kind = newest.kind == source.kind;
        is_same_kind
            && old
                .map(|file| (&file.name, file.content.clone()))
                .eq(new.map(|file| (&file.name, content(file))))
    });
    let is_published = match same {
        Some(newest) => pins::is_intact(catalog, &newest)?,
        None => false,
    };
    if is_published { Ok(None) } else { publish(catalog, name, path, options).map(Some) }
}

fn publish_source(
    catalog: &Catalog,
    name: &str,
    source: &Source,
    options: &PublishOptions<'_>,
) -> Result<Published> {
    let parent = find_parent(catalog, name)?;
    source.check_shards(&catalog.disk, parent.as_ref())?;
    let parent_files = ParentFiles::of(parent.as_ref());
    let known: Vec<_> = source.files.iter().map(|file| parent_files.by_content(file)).collect();
    let stored = check_stored(catalog, parent.as_ref(), &known, options.verify)?;
    let mut version = next_version(name, parent.as_ref(), &options.labels);
    (version.kind, version.schema) = (source.kind, source.schema.clone());
    version.statistics = source.statistics.clone();
    let number = version.number;
    let (mut new, mut files_repaired) = (Vec::new(), 0);
    for (file, stored) in source.files.iter().zip(&stored) {
        let (blake3, since) = match stored {
            Stored::Intact(known) => (known.blake3.clone(), known.since),
            Stored::Damaged | Stored::No => (file.hash_checked(&catalog.disk)?, number),
        };
        let (name, bytes) = (file.name.clone(), file.bytes);
        let content = format!("{:032x}", file.content);
        version.files.push(VersionFile { name, bytes, content, blake3, since });
        files_repaired += u64::from(matches!(stored, Stored::Damaged));
        if since == number {
            new.push(file);
        }
    }
    store(catalog, &version, &new, options)?;
    Ok(Published { files_repaired, ..commit(catalog, version)? })
}

/// A version that follows `parent`, without contents yet.
pub(super) fn next_version(
    name: &str,
    parent: Option<&Version>,
    labels: &BTreeMap<String, String>,
) -> Version {
    Version {
        name: name.to_string(),
        number: parent.map_or(1, |parent| parent.number + 1),
        id: unique_id(),
        parent: parent.map(|parent| parent.number),
        parent_id: parent.map(|parent| parent.id.clone()),
        restores: None,
        time: now(),
        kind: VersionKind::Table,
        schema: None,
        statistics: BTreeMap::new(),
        labels: labels.clone(),
        files: Vec::new(),
    }
}

/// Checks which of these files of the parent version the catalog has.
pub(super) fn check_stored<'a>(
    catalog: &Catalog,
    parent: Option<&'a Version>,
    files: &[Option<&'a VersionFile>],
    verify: bool,
) -> Result<Vec<Stored<'a>>> {
    let Some(parent) = parent else { return Ok(files.iter().map(|_| Stored::No).collect()) };
    let objects = files.iter().flatten().map(|file| (parent.object(file), file.bytes));
    let mut are_intact = catalog.origin.are_intact(&objects.collect::<Vec<_>>())?.into_iter();
    let mut stored = Vec::with_capacity(files.len());
    for file in files {
        let Some(file) = *file else {
            stored.push(Stored::No);
            continue;
        };
        let is_intact = are_intact.next() == Some(true)
            && match verify.then(|| pull::verify_file(catalog, parent, file)) {
                None | Some(Ok(())) => true,
                Some(Err(e)) if [ErrorKind::Corrupt, ErrorKind::NotFound].contains(&e.kind()) => {
                    false
                }
                Some(Err(e)) => return Err(e),
            };
        stored.push(if is_intact { Stored::Intact(file) } else { Stored::Damaged });
    }
    Ok(stored)
}

/// Stores the new files of a version that does not exist yet.
fn store(
    catalog: &Catalog,
    version: &Version,
    files: &[&SourceFile],
    options: &PublishOptions<'_>,
) -> Result<()> {
    let new = version.files.iter().filter(|entry| entry.since == version.number);
    let objects = new.zip(files).map(|(entry, file)| {
        let VersionFile { bytes, ref blake3, .. } = *entry;
        (version.object(entry), Content::File { path: &file.path, bytes, blake3 })
    });
    let objects: Vec<(String, Content<'_>)> = objects.collect();
    let bytes = files.iter().map(|file| file.bytes).sum();
    let sent = Cell::new(0);
    let progress = |more| {
        sent.set(sent.get() + more);
        options.progress.iter().for_each(|progress| progress(sent.get(), bytes));
    };
    catalog.origin.store(&objects, &progress)
}

/// See [`Catalog::rollback`].
pub(super) fn rollback(
    catalog: &Catalog,
    name: &str,
    to: u64,
    options: &PublishOptions<'_>,
) -> Result<Published> {
    check_labels(&options.labels)?;
    let old = catalog.version(name, to)?;
    let parent = find_parent(catalog, name)?.ok_or_else(|| no_version(name))?;
    let number = parent.number + 1;
    let parent_files = ParentFiles::of(Some(&parent));
    let mut files = old.files.clone();
    let mut new = Vec::new();
    let known = files.iter().filter_map(|file| parent_files.by_hash(file));
    let known: Vec<_> = known.map(|known| (parent.object(known), known.bytes)).collect();
    let mut are_intact = catalog.origin.are_intact(&known)?.into_iter();
    for file in &mut files {
        match parent_files.by_hash(file) {
            Some(known) if are_intact.next() == Some(true) => file.since = known.since,
            // Stored under the new number: a clean-up may remove the object of the old version.
            _ => {
                let (from, bytes) = (old.object(file), file.bytes);
                file.since = number;
                new.push((file_object(name, file), Content::Object { from, bytes }));
            }
        }
    }
    catalog.origin.store(&new, &|_| ())?;
    let version = Version {
        number,
        id: unique_id(),
        parent: Some(parent.number),
        parent_id: Some(parent.id.clone()),
        restores: Some(to),
        time: now(),
        labels: options.labels.clone(),
        files,
        ..old
    };
    commit(catalog, version)
}

/// The newest version, which becomes the parent of the next one.
pub(super) fn find_parent(catalog: &Catalog, name: &str) -> Result<Option<Version>> {
    let find = || Ok(newest::newest_number(catalog, name)?.unwrap_or(0));
    newest::read_newest(catalog, name, find)
}

/// Creates the manifest, and thereby the version. All of its files are stored.
pub(super) fn commit(catalog: &Catalog, version: Version) -> Result<Published> {
    let (name, number) = (version.name.clone(), version.number);
    let text = encode(&version);
    match catalog.origin.create(&version_object(&name, number), text.as_bytes()) {
        Ok(()) => {}
        // If the origin has retried the request, the manifest may be the one of the first try.
        Err(e) if e.kind() == ErrorKind::AlreadyExists => match catalog.version(&name, number) {
            Ok(existing) if existing == version => {}
            // Newer versions may have been published and this one removed since.
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => return Err(overtaken(&version)),
        },
        Err(e) => return Err(e),
    }
    check_successor(catalog, &version)?;
    let _ = newest::write_hint(catalog, &name, number); // The version exists without it, too.
    let sent = version.files.iter().filter(|file| file.since == number);
    // Counted by hash, because two files of a version may be equal.
    let sent: BTreeMap<&str, u64> = sent.map(|f| (f.blake3.as_str(), f.bytes)).collect();
    let (files_sent, bytes_sent) = (sent.len() as u64, sent.values().sum());
    Ok(Published { version, files_sent, bytes_sent, files_repaired: 0 })
}

/// `AlreadyExists` if a version that was just created reuses the number of a removed version. Then
/// there are newer versions that do not descend from it, and files that it lists may be gone, so
/// its manifest is removed.
fn check_successor(catalog: &Catalog, version: &Version) -> Result<()> {
    let Version { name, number, id, .. } = version;
    if newest::newest_number(catalog, name)?.is_none_or(|newest| newest <= *number) {
        return Ok(());
    }
    let next = match catalog.version(name, number.saturating_add(1)) {
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        next => Some(next?),
    };
    if next.is_some_and(|next| next.parent_id.as_ref() == Some(id)) {
        return Ok(());
    }
    let is_own = match catalog.version(name, *number) {
        Err(e) if e.kind() == ErrorKind::NotFound => false,
        existing => existing?.id == *id,
    };
    // If it was pinned in the meantime, it is complete and stays.
    if is_own && pins::remove_unpinned(catalog, name, &[*number])?.is_empty() {
        return Ok(());
    }
    Err(overtaken(version))
}

/// The error of a publisher that was too slow.
fn overtaken(version: &Version) -> Error {
    let Version { name, number, .. } = version;
    let message = format!(
        "another publisher has published version {number} of `{name}` meanwhile; nothing was \
         changed: look at the newest version, and publish again to follow it"
    );
    Error::new(ErrorKind::AlreadyExists, message)
}

/// Whether the catalog has a file that is to be published.
pub(super) enum Stored<'a> {
    /// The parent version does not have the file.
    No,
    /// The parent version has the file, and its object is intact.
    Intact(&'a VersionFile),
    /// The parent version has the file, but its object is missing or damaged.
    Damaged,
}

/// The files of the parent version, by length and content id.
pub(super) struct ParentFiles<'a> {
    files: HashMap<(u64, &'a str), &'a VersionFile>,
}

impl<'a> ParentFiles<'a> {
    pub(super) fn of(parent: Option<&'a Version>) -> ParentFiles<'a> {
        let files = parent.iter().flat_map(|version| &version.files);
        let files = files.map(|file| ((file.bytes, file.content.as_str()), file)).collect();
        ParentFiles { files }
    }

    fn by_content(&self, file: &SourceFile) -> Option<&'a VersionFile> {
        let content = format!("{:032x}", file.content);
        self.files.get(&(file.bytes, content.as_str())).copied()
    }

    pub(super) fn by_hash(&self, file: &VersionFile) -> Option<&'a VersionFile> {
        let known = self.files.get(&(file.bytes, file.content.as_str()));
        known.filter(|known| known.blake3 == file.blake3).copied()
    }
}

pub(super) fn check_labels(labels: &BTreeMap<String, String>) -> Result<()> {
    let fits = |text: &String| text.len() <= MAX_LABEL;
    if labels.len() > MAX_LABELS || !labels.iter().all(|(name, text)| fits(name) && fits(text)) {
        return Err(Error::invalid(format!(
            "a version has at most {MAX_LABELS} labels, of names and texts of at most \
             {MAX_LABEL} bytes"
        )));
    }
    Ok(())
}

/// A random id of 32 hexadecimal digits.
fn unique_id() -> String {
    let half = || RandomState::new().hash_one((std::process::id(), SystemTime::now()));
    format!("{:016x}{:016x}", half(), half())
}

/// Microseconds since 1970.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
