//! Imports a directory of HaloDB, or of its successor HaloDB Revive, into a LogStore, in two passes
//! over its files.
//!
//! 1. Every record and tombstone is read and checked (`scan`). The newest of each key is noted, by
//!    sequence number (`Keys::add`). Then the index files are compared with what was found: a
//!    record that an index lists and no file has is lost, unless something newer of its key is
//!    there. Nothing is written yet: the caller sees in `Found` what is damaged or lost, and
//!    decides.
//! 2. The newest records are put, in the order of the files (`Import::fill`).

mod format;
mod newest;
mod scan;
mod survey;

pub use format::Kind;
pub use scan::{Cause, Dropped};
pub use survey::{State, Stop};

use firndb::Result;
use firndb::log::LogStore;
use format::Window;
use newest::{Keys, Place, changed};
use scan::{Entry, scan};
use std::path::{Path, PathBuf};
use survey::{Source, Survey};

/// Lost keys that are named; all are counted.
const NAMED_MAX: usize = 1000;

/// What was found in a directory.
pub struct Found {
    pub state: State,
    pub files: u64,
    pub bytes: u64,
    pub records: u64,
    pub tombstones: u64,
    /// Keys that have a value.
    pub live: u64,
    /// Keys that were deleted.
    pub deleted: u64,
    /// Bytes of data and tombstone files that are no whole entries, and damage of an index file
    /// whose data file is missing.
    pub dropped: Vec<Dropped>,
    /// Damage of index files that have their data files. It costs no record.
    pub index_damage: Vec<Dropped>,
    /// Data files of which records are lost that are the newest of their keys.
    pub lost: Vec<Lost>,
    /// Records that the index lists in the torn ends of the newest files. Older versions of their
    /// keys are imported, as HaloDB has them after a crash.
    pub torn: Names,
}

/// Records that an index file lists and that are in no file.
pub struct Lost {
    /// The data file.
    pub data: PathBuf,
    pub index: PathBuf,
    pub is_data_there: bool,
    pub keys: Names,
}

/// Keys, the first of them by name.
#[derive(Default)]
pub struct Names {
    pub count: u64,
    pub named: Vec<Vec<u8>>,
}

impl Found {
    /// Keys whose newest record is lost.
    pub fn lost_keys(&self) -> u64 {
        self.lost.iter().map(|lost| lost.keys.count).sum()
    }

    /// Whether something is missing that no crash explains, or nothing could be read at all.
    pub fn is_incomplete(&self) -> bool {
        let is_torn = |dropped: &Dropped| dropped.cause == Cause::Torn;
        let is_unreadable = self.records + self.tombstones == 0 && !self.dropped.is_empty();
        !self.lost.is_empty() || !self.dropped.iter().all(is_torn) || is_unreadable
    }
}

/// A directory whose newest records are known.
pub struct Import {
    survey: Survey,
    /// Offsets of the newest records, for each of the files.
    places: Vec<Vec<u32>>,
    pub found: Found,
}

impl Import {
    /// The first pass. `progress` is told of bytes that were read. `NotFound` if there are no files
    /// of HaloDB, `Locked` if it has the directory open, `UnsupportedVersion` if a file is of an
    /// unknown version. Memory: 20 to 40 bytes per key.
    pub fn new(dir: &Path, progress: impl Fn(u64)) -> Result<Import> {
        let survey = Survey::new(dir)?;
        let files = survey.files.iter().map(|file| (file.path.clone(), file.kind)).collect();
        let sources = || (0..).zip(&survey.files);
        let bytes = sources().filter(|(_, file)| file.kind != Kind::Index);
        let mut pass = Pass {
            keys: Keys::new(files, u64::MAX),
            ends: Vec::new(),
            found: Found {
                state: survey.state,
                files: bytes.clone().count() as u64,
                bytes: bytes.map(|(_, file)| file.bytes).sum(),
                records: 0,
                tombstones: 0,
                live: 0,
                deleted: 0,
                dropped: Vec::new(),
                index_damage: Vec::new(),
                lost: Vec::new(),
                torn: Names::default(),
            },
        };
        for (number, file) in sources().filter(|(_, file)| file.kind != Kind::Index) {
            pass.read(&survey.files, number, file, &progress)?;
        }
        for (number, file) in sources().filter(|(_, file)| file.kind == Kind::Index) {
            pass.compare(&survey.files, number, file)?;
        }
        let (places, found) = pass.finish(&survey.files)?;
        Ok(Import { survey, places, found })
    }

    /// The second pass: puts the newest records. `Corrupt` or `Failed` if the files changed since
    /// the first.
    pub fn fill(&self, store: &LogStore, progress: impl Fn(u64)) -> Result<()> {
        for (file, offsets) in self.survey.files.iter().zip(&self.places) {
            if !file.kind.is_data() || offsets.is_empty() {
                continue;
            }
            let mut window = Window::open(&file.path)?;
            for &offset in offsets {
                let Some((key, value)) = window.record(offset.into())? else {
                    return Err(changed(&file.path));
                };
                store.put(key, value)?;
                progress((key.len() + value.len()) as u64);
            }
        }
        self.survey.check_unchanged()
    }
}

/// The first pass.
struct Pass {
    keys: Keys,
    /// Where the last whole entry of each file ends.
    ends: Vec<u64>,
    found: Found,
}

impl Pass {
    /// Notes the entries of a data or tombstone file.
    fn read(
        &mut self,
        files: &[Source],
        number: u32,
        file: &Source,
        progress: &impl Fn(u64),
    ) -> Result<()> {
        let Pass { keys, found, .. } = self;
        let is_index = |f: &&Source| f.kind == Kind::Index && f.number == file.number;
        let index = files.iter().find(is_index).filter(|_| file.kind.is_data());
        let Found { dropped, records, tombstones, .. } = found;
        let note = |offset: u64, entry: &Entry| {
            match file.kind {
                Kind::Tombstones => *tombstones += 1,
                _ => *records += 1,
            }
            progress(entry.length);
            keys.add(entry.key, entry.sequence, Place { file: number, offset: offset as u32 })
        };
        let end = scan(file, index, dropped, note)?;
        self.ends.push(end);
        Ok(())
    }

    /// Compares an index file with what was read.
    fn compare(&mut self, files: &[Source], number: u32, index: &Source) -> Result<()> {
        let Pass { keys, found, ends } = self;
        let is_data = |f: &&Source| f.kind.is_data() && f.number == index.number;
        let data = files.iter().position(|file| is_data(&file));
        let torn_from = data.filter(|&data| files[data].may_be_torn).map(|data| ends[data]);
        let holes = data.map_or(0..0, |data| {
            let path = &files[data].path;
            let first = found.dropped.iter().position(|dropped| dropped.path == *path);
            let count = found.dropped.iter().filter(|dropped| dropped.path == *path).count();
            first.map_or(0..0, |first| first..first + count)
        });
        let Found { dropped, torn, .. } = found;
        let holes = &mut dropped[holes];
        let mut damage = Vec::new();
        scan(index, None, &mut damage, |offset, entry| {
            let record = u64::from(entry.record);
            if let Some(hole) = holes.partition_point(|hole| hole.offset <= record).checked_sub(1) {
                let is_in = record < holes[hole].offset + holes[hole].bytes;
                holes[hole].listed += u64::from(is_in);
            }
            let place = data.map(|data| Place { file: data as u32, offset: entry.record });
            if keys.has(entry.key, entry.sequence, place)? {
                return Ok(());
            }
            if torn_from.is_some_and(|end| record >= end) {
                torn.note(entry.key);
                return Ok(());
            }
            keys.add(entry.key, entry.sequence, Place { file: number, offset: offset as u32 })
        })?;
        match data {
            Some(_) => self.found.index_damage.append(&mut damage),
            None => self.found.dropped.append(&mut damage),
        }
        Ok(())
    }

    fn finish(mut self, files: &[Source]) -> Result<(Vec<Vec<u32>>, Found)> {
        let places = self.keys.into_places();
        for (file, offsets) in files.iter().zip(&places) {
            match file.kind {
                Kind::Data | Kind::Compacted => self.found.live += offsets.len() as u64,
                Kind::Tombstones => self.found.deleted += offsets.len() as u64,
                Kind::Index if offsets.is_empty() => {}
                Kind::Index => self.found.lost.push(lost(files, file, offsets)?),
            }
        }
        Ok((places, self.found))
    }
}

/// What is lost of the records that an index lists.
fn lost(files: &[Source], index: &Source, offsets: &[u32]) -> Result<Lost> {
    let data = files.iter().find(|f| f.kind.is_data() && f.number == index.number);
    let mut window = Window::open(&index.path)?;
    let mut keys = Names { count: offsets.len() as u64, named: Vec::new() };
    for &offset in offsets.iter().take(NAMED_MAX) {
        let Some((_, key)) = window.key(Kind::Index, offset.into())? else {
            return Err(changed(&index.path));
        };
        keys.named.push(key.to_vec());
    }
    Ok(Lost {
        data: data.map_or_else(|| index.path.with_extension("data"), |data| data.path.clone()),
        index: index.path.clone(),
        is_data_there: data.is_some(),
        keys,
    })
}

impl Names {
    fn note(&mut self, key: &[u8]) {
        self.count += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(key.to_vec());
        }
    }
}
