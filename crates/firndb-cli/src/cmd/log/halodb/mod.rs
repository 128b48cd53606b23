//! Imports a HaloDB directory into a LogStore, in two passes over its files.
//!
//! 1. Every record and tombstone is read and checked. The newest of each key is noted, by sequence
//!    number; nothing is written yet, so a damaged directory leaves no trace.
//! 2. The newest records are put, in the order of the files. A new store is filled under another
//!    name beside its own and renamed when it is whole and durable.

mod format;
mod newest;
mod survey;

use firndb::log::LogStore;
use firndb::{Error, ErrorKind, Result};
use format::Kind;
use newest::{Keys, LOST, Newest, changed};
use std::path::Path;
use survey::{Dropped, Source, Survey};

/// What was found in a directory.
#[derive(Default)]
pub struct Found {
    pub files: u64,
    pub bytes: u64,
    pub records: u64,
    pub tombstones: u64,
    /// Keys that have a value.
    pub live: u64,
    /// Keys that were deleted.
    pub deleted: u64,
    /// HaloDB did not close the directory.
    pub is_unclean: bool,
    pub dropped: Vec<Dropped>,
    /// Keys whose newest record is among what was dropped.
    pub lost: Vec<Vec<u8>>,
}

/// A directory whose newest records are known.
pub struct Import {
    survey: Survey,
    keys: Keys,
    pub found: Found,
}

impl Import {
    /// The first pass. `progress` is told of bytes that were read.
    pub fn new(dir: &Path, progress: impl Fn(u64)) -> Result<Import> {
        let survey = Survey::new(dir)?;
        let files = survey.files.iter().map(|file| (file.path.clone(), file.kind)).collect();
        let mut keys = Keys::new(files, u64::MAX);
        let mut found = Found {
            files: survey.files.len() as u64,
            bytes: survey.files.iter().map(|file| file.bytes).sum(),
            is_unclean: survey.is_unclean(),
            ..Found::default()
        };
        for (number, file) in (0..).zip(&survey.files) {
            let mut damage = Vec::new();
            let note = |offset: u64, entry: &format::Entry| {
                match file.kind {
                    Kind::Tombstones => found.tombstones += 1,
                    _ => found.records += 1,
                }
                progress(entry.length);
                let sequence = entry.sequence;
                keys.add(entry.key, Newest { sequence, file: number, offset: offset as u32 })
            };
            file.scan(note, |dropped| {
                damage.push(dropped);
                Ok(())
            })?;
            for dropped in damage.iter().filter(|dropped| !dropped.is_torn) {
                for record in &dropped.records {
                    let sequence = record.sequence;
                    keys.add(&record.key, Newest { sequence, file: LOST, offset: 0 })?;
                }
            }
            found.dropped.append(&mut damage);
        }
        (found.live, found.deleted) = keys.counts();
        found.lost = keys.lost().into_iter().map(<[u8]>::to_vec).collect();
        Ok(Import { survey, keys, found })
    }

    /// `Corrupt` if more is missing than what a crash leaves at the end of the newest files.
    pub fn check(&self) -> Result<()> {
        let mut damage = self.found.dropped.iter().filter(|dropped| !dropped.is_torn);
        let Some(first) = damage.next() else { return Ok(()) };
        if let Some(version) = first.version.filter(|_| first.offset == 0) {
            let message = format!(
                "the first record is of version {version}, or damaged; the import knows version 0"
            );
            let error = Error::new(ErrorKind::UnsupportedVersion, message);
            return Err(error.at(0).in_file(&first.path));
        }
        let more = match damage.count() {
            0 => String::new(),
            more => format!(" ({more} more such places)"),
        };
        let message = format!(
            "{} bytes are no whole record{more}; nothing was imported. \
             --on-error skip imports the rest",
            first.bytes
        );
        Err(Error::corrupt(message).at(first.offset).in_file(&first.path))
    }

    /// The second pass: puts the newest records.
    pub fn fill(&self, store: &LogStore, progress: impl Fn(u64)) -> Result<()> {
        let mut put = 0;
        let is_data = |file: &&Source| file.kind != Kind::Tombstones;
        // In the order of the first pass.
        let mut known = self.found.dropped.iter().filter(|d| d.kind != Kind::Tombstones);
        for (number, file) in (0..).zip(self.survey.files.iter().take_while(is_data)) {
            let each = |offset: u64, entry: &format::Entry| {
                progress(entry.length);
                if !self.keys.is_newest(entry.key, number, offset as u32) {
                    return Ok(());
                }
                put += 1;
                store.put(entry.key, entry.value.unwrap_or_default())
            };
            file.scan(each, |dropped| match known.next() == Some(&dropped) {
                true => Ok(()),
                false => Err(changed(&file.path)),
            })?;
        }
        if put == self.found.live {
            return Ok(());
        }
        let message = "the directory changed while it was read; close HaloDB, then try again";
        Err(Error::new(ErrorKind::Failed, message))
    }
}
