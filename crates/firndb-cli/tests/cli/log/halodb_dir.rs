//! Writes directories as HaloDB does: records in rolling data files, index files, tombstones, files
//! written by compaction, META. Keeps a model of their content.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A directory and the model of its content.
pub struct HaloDir {
    dir: PathBuf,
    /// Version of the entries: 0 for HaloDB, 1 for HaloDB Revive.
    pub version: u8,
    /// Size at which a data file is full.
    pub file_bytes: usize,
    sequence: i64,
    next_file: u64,
    data: Writing,
    tombstones: Writing,
    /// Data files with their records: offset, sequence, key, value.
    files: Vec<(PathBuf, Vec<Record>)>,
    /// Key -> sequence and value, `None` if it was deleted.
    pub model: BTreeMap<Vec<u8>, (i64, Option<Vec<u8>>)>,
    /// Every key and value that was ever put.
    pub history: BTreeSet<(Vec<u8>, Vec<u8>)>,
}

/// A file that is being written.
#[derive(Default)]
struct Writing {
    path: PathBuf,
    bytes: Vec<u8>,
    index: Vec<u8>,
}

#[derive(Clone)]
struct Record {
    offset: usize,
    sequence: i64,
    key: Vec<u8>,
    value: Vec<u8>,
}

/// The bytes of a record of version 0.
pub fn record(key: &[u8], value: &[u8], sequence: i64) -> Vec<u8> {
    record_of(0, key, value, sequence)
}

/// The bytes of a record.
pub fn record_of(version: u8, key: &[u8], value: &[u8], sequence: i64) -> Vec<u8> {
    let mut rest = vec![version];
    rest.extend(key_length(version, key));
    rest.extend((value.len() as i32).to_be_bytes());
    rest.extend(sequence.to_be_bytes());
    rest.extend([key, value].concat());
    with_checksum(rest)
}

fn index_entry(version: u8, key: &[u8], size: usize, offset: usize, sequence: i64) -> Vec<u8> {
    let mut rest = vec![version];
    rest.extend(key_length(version, key));
    rest.extend((size as i32).to_be_bytes());
    rest.extend((offset as i32).to_be_bytes());
    rest.extend(sequence.to_be_bytes());
    rest.extend(key);
    with_checksum(rest)
}

fn tombstone(version: u8, key: &[u8], sequence: i64) -> Vec<u8> {
    let mut rest = vec![version];
    rest.extend(sequence.to_be_bytes());
    rest.extend(key_length(version, key));
    rest.extend(key);
    with_checksum(rest)
}

/// The field with a key's length.
fn key_length(version: u8, key: &[u8]) -> Vec<u8> {
    match version {
        0 => vec![key.len() as u8],
        _ => (key.len() as i32).to_be_bytes().to_vec(),
    }
}

fn with_checksum(rest: Vec<u8>) -> Vec<u8> {
    [&crc32fast::hash(&rest).to_be_bytes()[..], &rest].concat()
}

impl HaloDir {
    pub fn new(dir: &Path) -> HaloDir {
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("LOCK"), b"").unwrap();
        let mut made = HaloDir {
            dir: dir.to_path_buf(),
            version: 0,
            file_bytes: 1 << 10,
            sequence: 100,
            next_file: 1_600_000_000,
            data: Writing::default(),
            tombstones: Writing::default(),
            files: Vec::new(),
            model: BTreeMap::new(),
            history: BTreeSet::new(),
        };
        made.meta(false);
        made
    }

    /// Writes META as for an open or a closed directory.
    pub fn meta(&mut self, is_open: bool) {
        let mut rest = vec![0, if is_open { 255 } else { 0 }];
        rest.extend(self.sequence.to_be_bytes());
        rest.push(0);
        rest.extend((self.file_bytes as i32).to_be_bytes());
        fs::write(self.dir.join("META"), with_checksum(rest)).unwrap();
    }

    fn new_file(&mut self, extension: &str) -> PathBuf {
        self.next_file += 1;
        self.dir.join(format!("{}.{extension}", self.next_file))
    }

    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.sequence += 1;
        if self.data.bytes.is_empty() || self.data.bytes.len() >= self.file_bytes {
            self.roll();
        }
        let record = Record {
            offset: self.data.bytes.len(),
            sequence: self.sequence,
            key: key.to_vec(),
            value: value.to_vec(),
        };
        self.data.append(self.version, &record);
        let current = self.files.iter_mut().find(|(path, _)| *path == self.data.path);
        current.unwrap().1.push(record);
        self.model.insert(key.to_vec(), (self.sequence, Some(value.to_vec())));
        self.history.insert((key.to_vec(), value.to_vec()));
    }

    /// Starts a new data file.
    pub fn roll(&mut self) {
        let path = self.new_file("data");
        self.data = Writing { path: path.clone(), ..Writing::default() };
        self.files.push((path, Vec::new()));
    }

    pub fn delete(&mut self, key: &[u8]) {
        let is_there = self.model.get(key).is_some_and(|(_, value)| value.is_some());
        if !is_there {
            return;
        }
        self.sequence += 1;
        if self.tombstones.bytes.is_empty() || self.tombstones.bytes.len() >= self.file_bytes / 4 {
            let path = self.new_file("tombstone");
            self.tombstones = Writing { path, ..Writing::default() };
        }
        self.tombstones.bytes.extend(tombstone(self.version, key, self.sequence));
        fs::write(&self.tombstones.path, &self.tombstones.bytes).unwrap();
        self.model.insert(key.to_vec(), (self.sequence, None));
    }

    /// Compacts a closed data file: its current records move to a new file with their old sequence
    /// numbers, after newer ones of other keys. With `crash` the old file is left.
    pub fn compact(&mut self, number: usize, crash: bool) {
        let is_current = |path: &PathBuf| *path == self.data.path;
        let Some((old, records)) = self.files.get(number).filter(|(p, _)| !is_current(p)).cloned()
        else {
            return;
        };
        let path = self.new_file("datac");
        let mut copy = Writing { path: path.clone(), ..Writing::default() };
        let mut copied = Vec::new();
        for record in records {
            let newest = self.model.get(&record.key);
            if newest.is_some_and(|(sequence, _)| *sequence == record.sequence) {
                let record = Record { offset: copy.bytes.len(), ..record };
                copy.append(self.version, &record);
                copied.push(record);
            }
        }
        if !copied.is_empty() {
            self.files.push((path, copied));
        }
        if !crash {
            fs::remove_file(&old).unwrap();
            fs::remove_file(old.with_extension("index")).unwrap();
            self.files.retain(|(path, _)| *path != old);
        }
    }

    /// The data file being written.
    pub fn newest_data(&self) -> PathBuf {
        self.data.path.clone()
    }

    /// The newest tombstone file.
    pub fn newest_tombstones(&self) -> PathBuf {
        self.tombstones.path.clone()
    }

    /// Number of data files that are left.
    pub fn data_files(&self) -> usize {
        self.files.len()
    }

    /// A data file, and the offset and length of its record of this key.
    pub fn location_of(&self, key: &[u8]) -> (PathBuf, usize, usize) {
        let newest = self.model[key].0;
        let places = self
            .files
            .iter()
            .flat_map(|(path, records)| records.iter().map(move |record| (path, record)));
        let is_it = |(_, r): &(&PathBuf, &Record)| r.key == key && r.sequence == newest;
        let (path, r) = places.rev().find(is_it).unwrap();
        let head = if self.version == 0 { 18 } else { 21 };
        (path.clone(), r.offset, head + r.key.len() + r.value.len())
    }

    /// Keys and values that a reader must find.
    pub fn content(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let live = self.model.iter();
        live.filter_map(|(key, (_, value))| Some((key.clone(), value.clone()?))).collect()
    }
}

impl Writing {
    fn append(&mut self, version: u8, record: &Record) {
        let Record { offset, sequence, key, value } = record;
        let bytes = record_of(version, key, value, *sequence);
        self.index.extend(index_entry(version, key, bytes.len(), *offset, *sequence));
        self.bytes.extend(bytes);
        fs::write(&self.path, &self.bytes).unwrap();
        fs::write(self.path.with_extension("index"), &self.index).unwrap();
    }
}

/// Appends bytes to a file.
pub fn append(path: &Path, bytes: &[u8]) {
    let mut all = fs::read(path).unwrap();
    all.extend_from_slice(bytes);
    fs::write(path, all).unwrap();
}

/// Flips a bit of a file.
pub fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 1;
    fs::write(path, bytes).unwrap();
}
