//! Whether a build may write a file.

use firndb::{Error, ErrorKind, Result, recognize};
use std::io;
use std::path::Path;

/// How many parent directories of a file are checked.
const LEVELS: usize = 3;

/// `AlreadyExists` unless a table may be written here: the path is free or, with `overwrite`, has a
/// table. Other files, directories, links, pipes and devices are never replaced, and no file is
/// written into the directory of a store.
pub fn check_table(path: &Path, overwrite: bool) -> Result<()> {
    let refused = |message: &str| {
        Err(Error::new(ErrorKind::AlreadyExists, message.to_string()).in_file(path))
    };
    match std::fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(Error::io("look at", path, e)),
        Ok(found) if found.is_symlink() => {
            return refused("this is a symbolic link, which is not replaced; name a file");
        }
        Ok(_) if path.is_dir() => return refused("this is a directory; name a file"),
        Ok(found) if !found.is_file() => {
            return refused("this is not a regular file, and is not replaced");
        }
        Ok(_) if !overwrite => {
            return refused("the file exists; pass overwrite=True to replace a table");
        }
        Ok(_) => match recognize(path)? {
            Some("table" | "approximate table") => {}
            _ => {
                return refused(
                    "this file is not a table, and overwrite=True replaces tables only; name \
                     another file, or remove it",
                );
            }
        },
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
