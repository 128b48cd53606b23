//! Parents of paths, symbolic links, and the temporary names of files that are being written.

use crate::disk::traits::{Disk, Entry};
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// Follows a path whose last component is a symbolic link.
pub(crate) fn follow(disk: &dyn Disk, path: &Path) -> Result<PathBuf> {
    match disk.look(path)? {
        Entry::Link => disk.resolve(path),
        _ => Ok(path.to_path_buf()),
    }
}

/// The directory of `path`; `.` for a bare file name.
pub(crate) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    }
}

/// Suffix of the name of a file that is being written.
const TEMPORARY: &str = ".firndb-tmp";

/// The temporary name of `path`: `.NAME.firndb-tmp` in the same directory.
pub(crate) fn temporary(path: &Path) -> Result<PathBuf> {
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
        Error::invalid("cannot write here: the path must end in a UTF-8 file name").in_file(path)
    })?;
    Ok(path.with_file_name(format!(".{name}{TEMPORARY}")))
}

/// The final name of a file with this temporary name; `None` if it is not a temporary name.
pub(crate) fn written_as(name: &str) -> Option<&str> {
    name.strip_prefix('.')?.strip_suffix(TEMPORARY)
}

/// Whether this is the temporary name of a file of [`publish`] or [`stage`], or of a leftover.
pub(crate) fn is_temporary(name: &str) -> bool {
    written_as(name).is_some()
}
