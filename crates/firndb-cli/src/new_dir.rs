//! New directories: filled under a temporary name, and renamed when they are complete. So an
//! interrupted command removes only what it created itself, never a directory that another program
//! has filled meanwhile.

use crate::interrupt;
use crate::target::is_in_store;
use firndb::{Error, Result};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What an interrupted command says about a directory that it fills.
pub struct Sentences {
    /// While the directory has its temporary name, which a signal removes.
    pub absent: &'static str,
    /// While an existing empty directory is filled in place. It stays.
    pub unfinished: &'static str,
    /// Afterwards.
    pub complete: &'static str,
}

/// Calls `fill` with an empty directory that becomes `dir`.
///
/// If `dir` is missing, this is a new directory next to it, `DIR.PURPOSE-PROCESS`, which is renamed
/// at the end and removed if `fill` fails or a signal arrives. An empty `dir` is filled in place,
/// because it can be a mount point. So is one whose parent is missing, or which is inside a store,
/// as `fill` refuses.
pub fn fill<T, E: From<Error>>(
    dir: &Path,
    purpose: &str,
    sentences: &Sentences,
    fill: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<T, E> {
    let filled = match is_staged(dir) {
        true => {
            interrupt::says(sentences.absent);
            fill_staged(dir, purpose, fill)
        }
        false => {
            interrupt::says(sentences.unfinished);
            fill(dir)
        }
    };
    if filled.is_ok() {
        interrupt::says(sentences.complete);
    }
    filled
}

/// Whether a directory is created next to this path first.
fn is_staged(dir: &Path) -> bool {
    let is_missing = fs::symlink_metadata(dir).is_err_and(|e| e.kind() == ErrorKind::NotFound);
    is_missing && dir.file_name().is_some() && parent_of(dir).is_dir() && !is_in_store(dir)
}

/// [`fill`] in a new directory next to `dir`, which is missing or empty.
pub fn fill_staged<T, E: From<Error>>(
    dir: &Path,
    purpose: &str,
    fill: impl FnOnce(&Path) -> Result<T, E>,
) -> Result<T, E> {
    let (staged, temporary) = interrupt::created(|| create(dir, purpose))?;
    let filled = fill(&staged).and_then(|filled| {
        // Replaces an empty directory, and nothing else.
        fs::rename(&staged, dir).map_err(|e| Error::io("name the directory", dir, e))?;
        let parent = parent_of(dir);
        let synced = File::open(parent).and_then(|parent| parent.sync_all());
        synced.map_err(|e| Error::io("sync", parent, e))?;
        Ok(filled)
    });
    drop(temporary);
    if filled.is_err() {
        // Report the first error.
        let _ = fs::remove_dir_all(&staged);
    }
    filled
}

/// Creates the directory, always a new one: what an interrupted command left is never resumed.
pub fn create(dir: &Path, purpose: &str) -> Result<PathBuf> {
    let mut name = staged_name(dir, purpose)?;
    name.push(std::process::id().to_string());
    loop {
        let staged = dir.with_file_name(&name);
        match fs::create_dir(&staged) {
            Ok(()) => return Ok(staged),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => name.push("-"),
            Err(e) => return Err(Error::io("make", &staged, e)),
        }
    }
}

/// Temporary directories that killed commands left.
pub fn leftovers(dir: &Path, purpose: &str) -> Vec<PathBuf> {
    let Ok(name) = staged_name(dir, purpose) else { return Vec::new() };
    let entries = fs::read_dir(parent_of(dir)).into_iter().flatten().flatten();
    let is_staged = |entry: &fs::DirEntry| {
        entry.file_name().as_encoded_bytes().starts_with(name.as_encoded_bytes())
    };
    entries.filter(is_staged).map(|entry| entry.path()).collect()
}

/// Prefix of the names of these directories.
fn staged_name(dir: &Path, purpose: &str) -> Result<OsString> {
    let name = dir.file_name().ok_or_else(|| Error::invalid("name a directory").in_file(dir))?;
    let mut name = name.to_os_string();
    name.push(format!(".{purpose}-"));
    Ok(name)
}

pub fn parent_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("firn-new-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir(&dir).unwrap();
        dir
    }

    const SENTENCES: Sentences = Sentences { absent: "", unfinished: "", complete: "" };

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_directory_of_another_program_is_never_touched() {
        let place = place("other");
        let dir = place.join("d");
        // Another program creates the directory while this one is at work.
        let failed: Result<()> = fill(&dir, "test", &SENTENCES, |staged| {
            assert_ne!(staged, dir);
            fs::write(staged.join("mine"), "").unwrap();
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("theirs"), "precious").unwrap();
            Ok(())
        });
        assert!(failed.is_err());
        assert_eq!(fs::read_to_string(dir.join("theirs")).unwrap(), "precious");
        assert_eq!((names(&place), names(&dir)), (vec!["d".to_string()], vec!["theirs".into()]));
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_missing_directory_appears_complete_and_an_empty_one_is_filled_in_place() {
        let place = place("complete");
        let (new, empty) = (place.join("new"), place.join("empty"));
        fs::create_dir(&empty).unwrap();
        for dir in [&new, &empty] {
            let at: Result<PathBuf> = fill(dir, "test", &SENTENCES, |at| {
                fs::write(at.join("file"), "").unwrap();
                Ok(at.to_path_buf())
            });
            assert_eq!(at.unwrap() == **dir, *dir == empty);
            assert_eq!(names(dir), ["file"]);
        }
        let failed: Result<()> =
            fill(&place.join("bad"), "test", &SENTENCES, |_| Err(Error::invalid("no")));
        assert!(failed.is_err() && names(&place).len() == 2);
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn what_killed_commands_left_is_found_and_never_resumed() {
        let place = place("left");
        let dir = place.join("s");
        let made: Vec<PathBuf> = (0..3).map(|_| create(&dir, "import").unwrap()).collect();
        let mut found = leftovers(&dir, "import");
        found.sort();
        assert_eq!(found, made);
        fs::remove_dir_all(place).unwrap();
    }
}
