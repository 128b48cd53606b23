//! Directories of HaloDB 0.5 and of its successor HaloDB Revive (closed ones, and snapshots).
//!
//! A directory is read in two passes.
//!
//! 1. [`HaloDb::open`] reads and checks every record and tombstone (`scan`), and keeps the location
//!    of the newest of each key, by sequence number (`newest`). Then it compares the index files
//!    with the entries found: a record that an index lists and no data file contains is lost,
//!    unless there is a newer one of its key. The [`Report`] lists what is damaged or lost.
//! 2. [`HaloDb::records`] reads the newest records in the order of the files.

mod directory;
mod format;
mod newest;
mod report;
mod scan;

pub use report::{Cause, Dropped, FileKind, KeyList, Lost, Report, Shutdown, State};

use directory::{DataFile, Directory};
use firndb::Result;
use firndb::log::LogStore;
use format::Window;
use newest::{Location, NewestEntries, changed};
use scan::{Entry, scan};
use std::fmt;
use std::path::Path;

/// A directory of HaloDB whose files were checked.
///
/// While it is open, HaloDB cannot open the directory. Memory: 20 to 40 bytes per key.
pub struct HaloDb {
    directory: Directory,
    /// Offsets of the newest records, for each of the files.
    offsets: Vec<Vec<u32>>,
    report: Report,
}

impl HaloDb {
    /// Opens a directory and reads all of its files.
    ///
    /// # Errors
    ///
    /// `NotFound` if there are no files of HaloDB, `Locked` if HaloDB has the directory open,
    /// `UnsupportedVersion` if a file is of an unknown version, `Corrupt` if there are more than
    /// 10,000 damaged ranges. Fewer are not an error: see [`HaloDb::report`].
    pub fn open(dir: impl AsRef<Path>) -> Result<HaloDb> {
        HaloDb::open_with(dir, |_| ())
    }

    /// [`HaloDb::open`], which calls `progress` with the bytes of each entry that it reads.
    ///
    /// # Errors
    ///
    /// As [`HaloDb::open`].
    pub fn open_with(dir: impl AsRef<Path>, progress: impl Fn(u64)) -> Result<HaloDb> {
        let directory = Directory::open(dir.as_ref())?;
        let files = directory.files.iter().map(|file| (file.path.clone(), file.kind)).collect();
        let numbered = || (0..).zip(&directory.files);
        let entries = numbered().filter(|(_, file)| file.kind != FileKind::Index);
        let mut pass = FirstPass {
            newest: NewestEntries::new(files, u64::MAX),
            ends: Vec::new(),
            report: Report {
                state: directory.state,
                files: entries.clone().count() as u64,
                bytes: entries.map(|(_, file)| file.bytes).sum(),
                records: 0,
                tombstones: 0,
                live: 0,
                deleted: 0,
                dropped: Vec::new(),
                index_damage: Vec::new(),
                lost: Vec::new(),
                torn: KeyList::default(),
            },
        };
        for (number, file) in numbered().filter(|(_, file)| file.kind != FileKind::Index) {
            pass.read(&directory.files, number, file, &progress)?;
        }
        for (number, file) in numbered().filter(|(_, file)| file.kind == FileKind::Index) {
            pass.compare(&directory.files, number, file)?;
        }
        let (offsets, report) = pass.finish(&directory.files)?;
        Ok(HaloDb { directory, offsets, report })
    }

    /// The findings: counts, damage, lost records.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Iterates the live records: the newest record of each key that is neither deleted nor lost,
    /// each key once. They are read in the order of the files.
    pub fn records(&self) -> Records<'_> {
        Records { halodb: self, file: 0, next: 0, window: None, is_checked: false }
    }

    /// Puts all live records into a store, and calls `progress` with the bytes of each.
    ///
    /// # Errors
    ///
    /// As [`Records::next_record`] and [`LogStore::put`]. Records before the error are in the
    /// store.
    pub fn import_into(&self, store: &LogStore, progress: impl Fn(u64)) -> Result<()> {
        let mut records = self.records();
        while let Some((key, value)) = records.next_record()? {
            store.put(key, value)?;
            progress((key.len() + value.len()) as u64);
        }
        Ok(())
    }
}

impl fmt::Debug for HaloDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HaloDb").field("report", &self.report).finish_non_exhaustive()
    }
}

/// The live records of a directory. As an iterator it yields copies; [`Records::next_record`] does
/// not copy.
pub struct Records<'a> {
    halodb: &'a HaloDb,
    /// Index of the current file.
    file: usize,
    /// Index of the next offset in the current file.
    next: usize,
    window: Option<Window>,
    /// Whether the directory has been compared with its state at opening.
    is_checked: bool,
}

impl Records<'_> {
    /// Key and value of the next record; `None` after the last.
    ///
    /// # Errors
    ///
    /// `Corrupt` or `Failed` if the files changed since the directory was opened; `Io`.
    pub fn next_record(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let HaloDb { directory, offsets, .. } = self.halodb;
        while let Some(file) = directory.files.get(self.file) {
            if file.kind.is_data() && self.next < offsets[self.file].len() {
                break;
            }
            (self.file, self.next, self.window) = (self.file + 1, 0, None);
        }
        let Some(file) = directory.files.get(self.file) else {
            if !std::mem::replace(&mut self.is_checked, true) {
                directory.check_unchanged()?;
            }
            return Ok(None);
        };
        let offset = offsets[self.file][self.next];
        self.next += 1;
        let window = match self.window.take() {
            Some(window) => window,
            None => Window::open(&file.path)?,
        };
        let record = self.window.insert(window).record(offset.into())?;
        record.ok_or_else(|| changed(&file.path)).map(Some)
    }
}

impl Iterator for Records<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.next_record().transpose()?;
        Some(record.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }
}

impl fmt::Debug for Records<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").field("file", &self.file).finish_non_exhaustive()
    }
}

/// The first pass.
struct FirstPass {
    newest: NewestEntries,
    /// The end of the last intact entry of each file.
    ends: Vec<u64>,
    report: Report,
}

impl FirstPass {
    /// Adds the entries of a data or tombstone file.
    fn read(
        &mut self,
        files: &[DataFile],
        number: u32,
        file: &DataFile,
        progress: &impl Fn(u64),
    ) -> Result<()> {
        let FirstPass { newest, report, .. } = self;
        let is_index = |f: &&DataFile| f.kind == FileKind::Index && f.number == file.number;
        let index = files.iter().find(is_index).filter(|_| file.kind.is_data());
        let Report { dropped, records, tombstones, .. } = report;
        let add = |offset: u64, entry: &Entry| {
            match file.kind {
                FileKind::Tombstones => *tombstones += 1,
                _ => *records += 1,
            }
            progress(entry.length);
            let location = Location { file: number, offset: offset as u32 };
            newest.add(entry.key, entry.sequence, location)
        };
        let end = scan(file, index, dropped, add)?;
        self.ends.push(end);
        Ok(())
    }

    /// Compares an index file with the entries of the other files.
    fn compare(&mut self, files: &[DataFile], number: u32, index: &DataFile) -> Result<()> {
        let FirstPass { newest, report, ends } = self;
        let is_data = |f: &&DataFile| f.kind.is_data() && f.number == index.number;
        let data = files.iter().position(|file| is_data(&file));
        let torn_from = data.filter(|&data| files[data].may_be_torn).map(|data| ends[data]);
        let holes = data.map_or(0..0, |data| {
            let path = &files[data].path;
            let first = report.dropped.iter().position(|dropped| dropped.path == *path);
            let count = report.dropped.iter().filter(|dropped| dropped.path == *path).count();
            first.map_or(0..0, |first| first..first + count)
        });
        let Report { dropped, torn, .. } = report;
        let holes = &mut dropped[holes];
        let mut damage = Vec::new();
        scan(index, None, &mut damage, |offset, entry| {
            let record = u64::from(entry.record);
            if let Some(hole) = holes.partition_point(|hole| hole.offset <= record).checked_sub(1) {
                let is_in = record < holes[hole].offset + holes[hole].bytes;
                holes[hole].listed += u64::from(is_in);
            }
            let location = data.map(|data| Location { file: data as u32, offset: entry.record });
            if newest.has(entry.key, entry.sequence, location)? {
                return Ok(());
            }
            if torn_from.is_some_and(|end| record >= end) {
                torn.add(entry.key);
                return Ok(());
            }
            let location = Location { file: number, offset: offset as u32 };
            newest.add(entry.key, entry.sequence, location)
        })?;
        match data {
            Some(_) => self.report.index_damage.append(&mut damage),
            None => self.report.dropped.append(&mut damage),
        }
        Ok(())
    }

    fn finish(mut self, files: &[DataFile]) -> Result<(Vec<Vec<u32>>, Report)> {
        let offsets = self.newest.into_offsets();
        for (file, offsets) in files.iter().zip(&offsets) {
            match file.kind {
                FileKind::Data | FileKind::Compacted => self.report.live += offsets.len() as u64,
                FileKind::Tombstones => self.report.deleted += offsets.len() as u64,
                FileKind::Index if offsets.is_empty() => {}
                FileKind::Index => self.report.lost.push(lost(files, file, offsets)?),
            }
        }
        Ok((offsets, self.report))
    }
}

/// The records at `offsets` of an index file, which are lost.
fn lost(files: &[DataFile], index: &DataFile, offsets: &[u32]) -> Result<Lost> {
    let data = files.iter().find(|f| f.kind.is_data() && f.number == index.number);
    let mut window = Window::open(&index.path)?;
    let mut keys = KeyList::of(offsets.len() as u64);
    for &offset in offsets {
        if keys.is_full() {
            break;
        }
        let Some((_, key)) = window.key(FileKind::Index, offset.into())? else {
            return Err(changed(&index.path));
        };
        keys.sample.push(key.to_vec());
    }
    let path = data.map_or_else(|| index.path.with_extension("data"), |data| data.path.clone());
    Ok(Lost::new(path, index.path.clone(), data.is_some(), keys))
}
