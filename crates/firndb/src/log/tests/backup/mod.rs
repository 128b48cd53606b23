//! Backups: target directories, interruptions, and restores.

mod interrupted;
mod places;
mod restored;

use super::{Map, content, open, options};
use crate::disk::{Disk, DiskRef, SimDisk};
use crate::log::{LogStore, Options};
use crate::{ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BACKUP: &str = "/backup";
/// On another device.
const FAR: &str = "/far/backup";

fn keys() -> Vec<Vec<u8>> {
    (0..40).map(|n| vec![n]).collect()
}

fn open_at(disk: &Arc<SimDisk>, dir: &str) -> Result<LogStore> {
    LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(dir), options())
}

fn read_at(disk: &Arc<SimDisk>, dir: &str) -> Result<LogStore> {
    let options = Options { read_only: true, create: false, ..options() };
    LogStore::open_on(Arc::clone(disk) as DiskRef, Path::new(dir), options)
}

/// Verifies the store in a directory and returns its content.
fn held(disk: &Arc<SimDisk>, dir: &str) -> Result<Map> {
    let store = read_at(disk, dir)?;
    store.verify()?;
    content(&store, &keys())
}

/// The result of an interrupted run must be complete, or be refused by an opening and not have been
/// acknowledged. Returns the kind of the error if it was refused.
fn refused(found: Result<Map>, model: &Map, done: bool, label: &str) -> Option<ErrorKind> {
    match found {
        Ok(found) => {
            assert_eq!(found, *model, "{label}");
            None
        }
        Err(e) => {
            let kinds = [ErrorKind::NotFound, ErrorKind::Corrupt];
            assert!(!done && kinds.contains(&e.kind()), "{label}: {e}");
            Some(e.kind())
        }
    }
}

/// Puts values of this round under about every third key and deletes some; fills several segments.
fn fill(store: &LogStore, round: u8) {
    for (n, key) in keys().iter().enumerate() {
        match (n + usize::from(round)) % 3 {
            0 => assert!(store.delete(key).is_ok()),
            _ => store.put(key, [round; 300]).unwrap(),
        }
    }
}

/// A disk with a store that is open, and a second device.
fn begin() -> (Arc<SimDisk>, LogStore) {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/far")).unwrap();
    disk.mount(Path::new("/far"));
    let store = open(&disk).unwrap();
    fill(&store, 1);
    (disk, store)
}

/// The files below a directory.
fn files_in(disk: &SimDisk, dir: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = disk.files();
    files.retain(|path, _| path.starts_with(dir));
    files
}
