//! Checks of the paths that commands write to.
//!
//! A command never replaces files that are not FirnDB's. It writes a temporary file and renames it,
//! which would replace any file of that name; so commands check the path before they start.

use firndb::{Error, ErrorKind, Result, recognize};
use std::fs;
use std::io;
use std::path::Path;

/// What a command writes into a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A table. With --force it replaces a table, and no other file.
    Table,
    /// Rows. With --force they replace a regular file, but none of FirnDB's.
    Rows,
}

/// How many parent directories of a file are checked.
const LEVELS: usize = 3;

/// `AlreadyExists` unless a command may write this file: the path is free or, with `force`, has a
/// file that such content may replace. Directories, links, pipes and devices are never replaced,
/// and no file is written into the directory of a store.
pub fn check_file(path: &Path, content: Content, force: bool) -> Result<()> {
    let refused =
        |message: String| Err(Error::new(ErrorKind::AlreadyExists, message).in_file(path));
    let found = match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return check_outside(path),
        found => found.map_err(|e| Error::io("look at", path, e))?,
    };
    if path.is_dir() {
        return refused("this is a directory; name a file".to_string());
    }
    if found.is_symlink() {
        return refused("this is a symbolic link, which is not replaced; name a file".to_string());
    }
    if !found.is_file() {
        return refused("this is not a regular file, and is not replaced".to_string());
    }
    if !force {
        return refused("the file exists; use --force to replace it".to_string());
    }
    match (content, recognize(path)?) {
        (Content::Table, Some("table" | "approximate table")) | (Content::Rows, None) => {}
        (Content::Table, None) => {
            let message = "this file is not a table, and --force replaces tables only; name \
                           another one, or remove it";
            return refused(message.to_string());
        }
        (_, Some(kind)) => {
            return refused(format!(
                "this file is a {kind} of FirnDB, which is not replaced; name another one"
            ));
        }
    }
    check_outside(path)
}

/// `AlreadyExists` if the file would be inside a store's directory.
fn check_outside(path: &Path) -> Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    // If the directory is missing, creating the file reports it.
    let Ok(parent) = parent.unwrap_or(Path::new(".")).canonicalize() else { return Ok(()) };
    for dir in parent.ancestors().take(LEVELS) {
        if let Ok(Some(kind)) = recognize(dir) {
            let message = format!(
                "{} is a {kind}, in which only FirnDB has files; name another directory",
                dir.display()
            );
            return Err(Error::new(ErrorKind::AlreadyExists, message).in_file(path));
        }
    }
    Ok(())
}

/// Whether this path is inside a store's directory.
pub fn is_in_store(path: &Path) -> bool {
    check_outside(path).is_err()
}

/// Whether a new store may be created here: the path is missing, or an empty directory.
pub fn is_free(dir: &Path) -> Result<bool> {
    match fs::read_dir(dir) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => Ok(false),
        // A dangling link counts as occupied.
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(fs::symlink_metadata(dir).is_err()),
        Err(e) => Err(Error::io("open", dir, e)),
    }
}

/// `AlreadyExists` unless [`is_free`].
pub fn check_new(dir: &Path) -> Result<()> {
    if is_free(dir)? {
        return Ok(());
    }
    let message = "there is something already; name a new directory";
    Err(Error::new(ErrorKind::AlreadyExists, message).in_file(dir))
}
