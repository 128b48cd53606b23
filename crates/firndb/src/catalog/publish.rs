//! Publishing a version, and going back to an old one.

use super::format::{Version, VersionFile, encode, file_object, version_object};
use super::origin::Content;
use super::source::{self, Source, SourceFile};
use super::{Catalog, check_name, no_version};
use crate::{Error, ErrorKind, Result};
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// How often a collection may be changed while it is being published.
pub(super) const ATTEMPTS: u32 = 16;

/// Labels of a version.
const MAX_LABELS: usize = 100;

/// The longest name or text of a label in bytes.
const MAX_LABEL: usize = 4096;

/// What a publisher can say.
#[derive(Default)]
pub struct PublishOptions<'a> {
    /// Names and texts for the manifest: at most 100, of at most 4096 bytes each.
    pub labels: BTreeMap<String, String>,
    /// Is told now and then how many bytes were sent, and how many are to be sent in all: those of
    /// files that the version before did not have.
    pub progress: Option<&'a dyn Fn(u64, u64)>,
}

/// A version that was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The new version.
    pub version: Version,
    /// Files of it that the version before did not have.
    pub files_sent: u64,
    /// Their bytes. From the same file system they are linked, not copied.
    pub bytes_sent: u64,
}

impl Catalog {
    /// Publishes the table in the file `path`, or the collection in the directory `path`, as the
    /// next version of `name`. Symbolic links are followed: what is published is the files that
    /// they lead to, under the names of the links. When it returns, the version is durable and is
    /// what readers get; after an error or a crash it is not there, or (if the error is `Io`) it
    /// may be, whole. `InvalidArgument` if `path` is neither a regular file nor a directory.
    ///
    /// Files that the newest version has are neither read nor sent again; all others are checked,
    /// every byte, before they are sent and once more as they are in the catalog. A file that is
    /// replaced meanwhile is looked at again. On the catalog's own file system files are
    /// hard-linked: as everything that FirnDB has published they must never be overwritten in
    /// place.
    ///
    /// Any number of publishers may try at the same time: the first wins, the others get
    /// `AlreadyExists`, have changed nothing, and may call again.
    pub fn publish(
        &self,
        name: &str,
        path: impl AsRef<Path>,
        options: &PublishOptions<'_>,
    ) -> Result<Published> {
        let path = path.as_ref();
        check_name(name)?;
        check_labels(&options.labels)?;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let source = source::look(&self.disk, path)?;
            match self.publish_source(name, &source, options) {
                // A collection that is changed meanwhile loses files that its newer set lacks.
                Err(e)
                    if e.kind() == ErrorKind::NotFound
                        && attempt < ATTEMPTS
                        && source.files.iter().any(|file| e.file() == Some(&file.path)) => {}
                done => return done,
            }
        }
    }

    /// [`Catalog::publish`] if the newest version is something else; `None` if it has these very
    /// files.
    pub fn publish_if_changed(
        &self,
        name: &str,
        path: impl AsRef<Path>,
        options: &PublishOptions<'_>,
    ) -> Result<Option<Published>> {
        let path = path.as_ref();
        check_name(name)?;
        let source = source::look(&self.disk, path)?;
        let is_newest = self.parent(name)?.is_some_and(|newest| {
            let (old, new) = (newest.files.iter(), source.files.iter());
            let content = |file: &SourceFile| format!("{:032x}", file.content);
            old.map(|file| (&file.name, file.content.clone()))
                .eq(new.map(|file| (&file.name, content(file))))
        });
        if is_newest { Ok(None) } else { self.publish(name, path, options).map(Some) }
    }

    fn publish_source(
        &self,
        name: &str,
        source: &Source,
        options: &PublishOptions<'_>,
    ) -> Result<Published> {
        let parent = self.parent(name)?;
        let number = parent.as_ref().map_or(1, |parent| parent.number + 1);
        let known = Known::of(parent.as_ref());
        let mut files = Vec::with_capacity(source.files.len());
        let mut bytes = 0;
        for file in &source.files {
            let known = match known.by_content(file) {
                Some((object, known)) if self.origin.is_intact(&object, known.bytes)? => {
                    Some(known)
                }
                _ => None,
            };
            let blake3 = match known {
                Some(known) => known.blake3.clone(),
                None => file.fingerprint(&self.disk)?,
            };
            let since = known.map_or(number, |known| known.since);
            let content = format!("{:032x}", file.content);
            let name_of_file = file.name.clone();
            let entry =
                VersionFile { name: name_of_file, bytes: file.bytes, content, blake3, since };
            bytes += if known.is_none() { file.bytes } else { 0 };
            files.push(entry);
        }
        let new = files.iter().zip(&source.files).filter(|(entry, _)| entry.since == number);
        let new = new.map(|(entry, file)| {
            let VersionFile { bytes, ref blake3, .. } = *entry;
            (file_object(name, entry), Content::File { path: &file.path, bytes, blake3 })
        });
        let new: Vec<(String, Content<'_>)> = new.collect();
        let sent = Cell::new(0);
        let progress = |more| {
            sent.set(sent.get() + more);
            options.progress.iter().for_each(|progress| progress(sent.get(), bytes));
        };
        self.origin.store(&new, &progress)?;
        let version = Version {
            name: name.to_string(),
            number,
            id: unique(),
            parent: parent.map(|parent| parent.number),
            restores: None,
            time: now(),
            kind: source.kind,
            schema: source.schema.clone(),
            statistics: source.statistics.clone(),
            labels: options.labels.clone(),
            files,
        };
        self.commit(version)
    }

    /// Publishes the files of an old version as the next one: what was newest stays in the history,
    /// and readers go on to the new number. Nothing is sent; files that the newest version lacks
    /// are copied within the catalog.
    pub fn rollback(&self, name: &str, to: u64, options: &PublishOptions<'_>) -> Result<Published> {
        check_labels(&options.labels)?;
        let old = self.version(name, to)?;
        let parent = self.parent(name)?.ok_or_else(|| no_version(name))?;
        let number = parent.number + 1;
        let known = Known::of(Some(&parent));
        let mut files = old.files.clone();
        let mut new = Vec::new();
        for file in &mut files {
            match known.by_hash(file) {
                Some(known) if self.origin.is_intact(&parent.object(known), known.bytes)? => {
                    file.since = known.since;
                }
                // Under a new number: what the old version names may be cleaned away meanwhile.
                _ => {
                    let (from, bytes) = (old.object(file), file.bytes);
                    file.since = number;
                    new.push((file_object(name, file), Content::Object { from, bytes }));
                }
            }
        }
        self.origin.store(&new, &|_| ())?;
        self.commit(Version {
            number,
            id: unique(),
            parent: Some(parent.number),
            restores: Some(to),
            time: now(),
            labels: options.labels.clone(),
            files,
            ..old
        })
    }

    fn parent(&self, name: &str) -> Result<Option<Version>> {
        let number = self.newest_number(name)?;
        number.map(|number| self.version(name, number)).transpose()
    }

    /// Creates the manifest: this makes the version. Its files are there.
    pub(super) fn commit(&self, version: Version) -> Result<Published> {
        let (name, number) = (version.name.clone(), version.number);
        let text = encode(&version);
        let created = self.origin.create(&version_object(&name, number), text.as_bytes());
        match created {
            Ok(()) => {}
            // Of an attempt that the store repeated, the second finds the first.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                if self.version(&name, number)? != version {
                    let message = format!(
                        "somebody else has published version {number} of `{name}` meanwhile; \
                         nothing was changed: look at it, and publish again to follow it"
                    );
                    return Err(Error::new(ErrorKind::AlreadyExists, message));
                }
            }
            Err(e) => return Err(e),
        }
        let _ = self.point(&name, number); // The version is there, with the hint or without it.
        let sent = version.files.iter().filter(|file| file.since == number);
        // Two files of a version may be equal.
        let sent: BTreeMap<&str, u64> = sent.map(|f| (f.blake3.as_str(), f.bytes)).collect();
        let (files_sent, bytes_sent) = (sent.len() as u64, sent.values().sum());
        Ok(Published { version, files_sent, bytes_sent })
    }
}

/// The files of the version before.
struct Known<'a> {
    version: Option<&'a Version>,
    files: HashMap<(u64, &'a str), &'a VersionFile>,
}

impl<'a> Known<'a> {
    fn of(version: Option<&'a Version>) -> Known<'a> {
        let files = version.iter().flat_map(|version| &version.files);
        let files = files.map(|file| ((file.bytes, file.content.as_str()), file)).collect();
        Known { version, files }
    }

    /// A file of this content, and its object.
    fn by_content(&self, file: &SourceFile) -> Option<(String, &'a VersionFile)> {
        let content = format!("{:032x}", file.content);
        let known = *self.files.get(&(file.bytes, content.as_str()))?;
        Some((self.version?.object(known), known))
    }

    fn by_hash(&self, file: &VersionFile) -> Option<&'a VersionFile> {
        let known = self.files.get(&(file.bytes, file.content.as_str()));
        known.filter(|known| known.blake3 == file.blake3).copied()
    }
}

fn check_labels(labels: &BTreeMap<String, String>) -> Result<()> {
    let fits = |text: &String| text.len() <= MAX_LABEL;
    if labels.len() > MAX_LABELS || !labels.iter().all(|(name, text)| fits(name) && fits(text)) {
        return Err(Error::invalid(format!(
            "a version has at most {MAX_LABELS} labels, of names and texts of at most \
             {MAX_LABEL} bytes"
        )));
    }
    Ok(())
}

/// 32 hexadecimal digits that nobody else has.
fn unique() -> String {
    let half = || RandomState::new().hash_one((std::process::id(), SystemTime::now()));
    format!("{:016x}{:016x}", half(), half())
}

/// Microseconds since 1970.
pub(super) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
