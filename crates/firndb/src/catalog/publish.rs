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
    /// files that the version before did not have, or that were damaged.
    pub progress: Option<&'a dyn Fn(u64, u64)>,
    /// Reads the files that the version before has in the catalog, too, and stores those once more
    /// whose bytes are damaged. Without it, files of the right length are relied on.
    pub verify: bool,
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
    /// Files that the version before has, too, but that were missing or damaged in the catalog:
    /// they were stored once more, for this version and those that follow.
    pub files_repaired: u64,
}

impl Catalog {
    /// Publishes the table in the file `path`, or the collection in the directory `path`, as the
    /// next version of `name`. Symbolic links are followed: what is published is the files that
    /// they lead to, under the names of the links. When it returns, the version is durable and is
    /// what readers get; after an error or a crash it is not there, or (if the error is `Io`) it
    /// may be, whole. `InvalidArgument` if `path` is neither a regular file nor a directory.
    ///
    /// Files that the newest version has are neither read nor sent again, unless they are missing
    /// in the catalog or have another length there; all others are checked, every byte, before
    /// they are sent and once more as they are in the catalog. A file that is
    /// replaced meanwhile is looked at again. On the catalog's own file system files are
    /// hard-linked: as everything that FirnDB has published they must never be overwritten in
    /// place.
    ///
    /// Any number of publishers may try at the same time: the first wins, the others get
    /// `AlreadyExists`, have changed nothing, and may call again. So does a publisher that was so
    /// slow that newer versions were published, and the one before its own was cleaned away.
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
    /// files, and the catalog has all of them.
    pub fn publish_if_changed(
        &self,
        name: &str,
        path: impl AsRef<Path>,
        options: &PublishOptions<'_>,
    ) -> Result<Option<Published>> {
        let path = path.as_ref();
        check_name(name)?;
        let source = source::look(&self.disk, path)?;
        let newest = self.parent(name)?.filter(|newest| {
            let (old, new) = (newest.files.iter(), source.files.iter());
            let content = |file: &SourceFile| format!("{:032x}", file.content);
            old.map(|file| (&file.name, file.content.clone()))
                .eq(new.map(|file| (&file.name, content(file))))
        });
        let is_newest = match newest {
            Some(newest) => self.is_intact(&newest)?,
            None => false,
        };
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
        let before = Before::of(parent.as_ref());
        let known: Vec<_> = source.files.iter().map(|file| before.by_content(file)).collect();
        let known = self.intact(parent.as_ref(), &known, options.verify)?;
        let mut version = Version {
            name: name.to_string(),
            number,
            id: unique(),
            parent: parent.as_ref().map(|parent| parent.number),
            parent_id: parent.as_ref().map(|parent| parent.id.clone()),
            restores: None,
            time: now(),
            kind: source.kind,
            schema: source.schema.clone(),
            statistics: source.statistics.clone(),
            labels: options.labels.clone(),
            files: Vec::with_capacity(source.files.len()),
        };
        let (mut new, mut files_repaired) = (Vec::new(), 0);
        for (file, known) in source.files.iter().zip(&known) {
            let (blake3, since) = match known {
                Known::Intact(known) => (known.blake3.clone(), known.since),
                Known::Damaged | Known::New => (file.fingerprint(&self.disk)?, number),
            };
            let (name, bytes) = (file.name.clone(), file.bytes);
            let content = format!("{:032x}", file.content);
            version.files.push(VersionFile { name, bytes, content, blake3, since });
            files_repaired += u64::from(matches!(known, Known::Damaged));
            if since == number {
                new.push(file);
            }
        }
        self.store(&version, &new, options)?;
        Ok(Published { files_repaired, ..self.commit(version)? })
    }

    /// Which files of the version before can be relied on.
    fn intact<'a>(
        &self,
        parent: Option<&'a Version>,
        files: &[Option<&'a VersionFile>],
        verify: bool,
    ) -> Result<Vec<Known<'a>>> {
        let Some(parent) = parent else { return Ok(files.iter().map(|_| Known::New).collect()) };
        let objects = files.iter().flatten().map(|file| (parent.object(file), file.bytes));
        let mut are_intact = self.origin.are_intact(&objects.collect::<Vec<_>>())?.into_iter();
        let mut found = Vec::with_capacity(files.len());
        for file in files {
            let Some(file) = *file else {
                found.push(Known::New);
                continue;
            };
            let is_intact = are_intact.next() == Some(true)
                && match verify.then(|| self.check_object(parent, file)) {
                    None | Some(Ok(())) => true,
                    Some(Err(e))
                        if [ErrorKind::Corrupt, ErrorKind::NotFound].contains(&e.kind()) =>
                    {
                        false
                    }
                    Some(Err(e)) => return Err(e),
                };
            found.push(if is_intact { Known::Intact(file) } else { Known::Damaged });
        }
        Ok(found)
    }

    /// Stores files of a version that is to be made.
    fn store(
        &self,
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
        self.origin.store(&objects, &progress)
    }

    /// Publishes the files of an old version as the next one: what was newest stays in the history,
    /// and readers go on to the new number. Nothing is sent; files that the newest version lacks
    /// are copied within the catalog.
    pub fn rollback(&self, name: &str, to: u64, options: &PublishOptions<'_>) -> Result<Published> {
        check_labels(&options.labels)?;
        let old = self.version(name, to)?;
        let parent = self.parent(name)?.ok_or_else(|| no_version(name))?;
        let number = parent.number + 1;
        let before = Before::of(Some(&parent));
        let mut files = old.files.clone();
        let mut new = Vec::new();
        let there = files.iter().filter_map(|file| before.by_hash(file));
        let there: Vec<_> = there.map(|known| (parent.object(known), known.bytes)).collect();
        let mut are_intact = self.origin.are_intact(&there)?.into_iter();
        for file in &mut files {
            match before.by_hash(file) {
                Some(known) if are_intact.next() == Some(true) => file.since = known.since,
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
            parent_id: Some(parent.id.clone()),
            restores: Some(to),
            time: now(),
            labels: options.labels.clone(),
            files,
            ..old
        })
    }

    fn parent(&self, name: &str) -> Result<Option<Version>> {
        self.newest_of(name, || Ok(self.newest_number(name)?.unwrap_or(0)))
    }

    /// Whether all files of a version are in the catalog in their full length.
    pub(super) fn is_intact(&self, version: &Version) -> Result<bool> {
        let objects = version.files.iter().map(|file| (version.object(file), file.bytes));
        let are_intact = self.origin.are_intact(&objects.collect::<Vec<_>>())?;
        Ok(are_intact.iter().all(|&is_intact| is_intact))
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
                match self.version(&name, number) {
                    Ok(there) if there == version => {}
                    // It may have been cleaned away since, because of newer ones.
                    Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                    _ => return Err(overtaken(&version)),
                }
            }
            Err(e) => return Err(e),
        }
        self.settle(&version)?;
        let _ = self.point(&name, number); // The version is there, with the hint or without it.
        let sent = version.files.iter().filter(|file| file.since == number);
        // Two files of a version may be equal.
        let sent: BTreeMap<&str, u64> = sent.map(|f| (f.blake3.as_str(), f.bytes)).collect();
        let (files_sent, bytes_sent) = (sent.len() as u64, sent.values().sum());
        Ok(Published { version, files_sent, bytes_sent, files_repaired: 0 })
    }

    /// `AlreadyExists` if a version that was just created takes the number of one that was cleaned
    /// away. There are newer ones then, which do not follow it, and files that it names may be
    /// gone: it is withdrawn.
    fn settle(&self, version: &Version) -> Result<()> {
        let Version { name, number, id, .. } = version;
        if self.newest_number(name)?.is_none_or(|newest| newest <= *number) {
            return Ok(());
        }
        let next = match self.version(name, number.saturating_add(1)) {
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            next => Some(next?),
        };
        if next.is_some_and(|next| next.parent_id.as_ref() == Some(id)) {
            return Ok(());
        }
        let is_own = match self.version(name, *number) {
            Err(e) if e.kind() == ErrorKind::NotFound => false,
            there => there?.id == *id,
        };
        // One that somebody has pinned meanwhile is whole, and stays.
        if is_own && self.withdraw(name, &[*number])?.is_empty() {
            return Ok(());
        }
        Err(overtaken(version))
    }
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

/// What is known of a file that is to be published.
enum Known<'a> {
    /// The version before does not have it.
    New,
    /// The version before has it, and so has the catalog.
    Intact(&'a VersionFile),
    /// The version before has it, but it is missing in the catalog or damaged.
    Damaged,
}

/// The files of the version before.
struct Before<'a> {
    files: HashMap<(u64, &'a str), &'a VersionFile>,
}

impl<'a> Before<'a> {
    fn of(version: Option<&'a Version>) -> Before<'a> {
        let files = version.iter().flat_map(|version| &version.files);
        let files = files.map(|file| ((file.bytes, file.content.as_str()), file)).collect();
        Before { files }
    }

    fn by_content(&self, file: &SourceFile) -> Option<&'a VersionFile> {
        let content = format!("{:032x}", file.content);
        self.files.get(&(file.bytes, content.as_str())).copied()
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
