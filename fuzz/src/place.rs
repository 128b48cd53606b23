//! Directories for the files of the targets, and the golden files that they start from.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// The directory of this process, in `FIRNDB_FUZZ_SCRATCH`; the caller that sets the variable
/// removes it (libFuzzer ends processes without running destructors).
pub fn scratch() -> &'static Path {
    static SCRATCH: LazyLock<PathBuf> = LazyLock::new(|| {
        let parent = std::env::var_os("FIRNDB_FUZZ_SCRATCH").map(PathBuf::from);
        let parent = parent.unwrap_or_else(std::env::temp_dir);
        let dir = parent.join(format!("firndb-fuzz-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("the scratch directory can be made");
        dir
    });
    &SCRATCH
}

/// An empty directory of this name.
pub fn empty_dir(name: &str) -> PathBuf {
    let dir = scratch().join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("a directory in scratch can be made");
    dir
}

/// Creates a new file of this name with these bytes, so that maps of an earlier one stay valid.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = scratch().join(name);
    let _ = fs::remove_file(&path);
    fs::write(&path, bytes).expect("a file in scratch can be written");
    path
}

/// The folder of golden files.
pub fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/firndb/tests/golden/v1")
}

/// Names and contents of the files in a golden folder.
pub fn golden_files(folder: &str) -> Vec<(String, Vec<u8>)> {
    let entries = golden().join(folder).read_dir().expect("the golden files are there");
    let paths = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file());
    let mut files: Vec<_> = paths
        .map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            (name, fs::read(&path).expect("a golden file can be read"))
        })
        .collect();
    files.sort();
    files
}
