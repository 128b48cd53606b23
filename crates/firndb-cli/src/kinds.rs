//! What a path is: a store of FirnDB, of another engine, or something else. Commands detect it, and
//! errors name the command that fits.

use clap::CommandFactory;
use firndb::{Error, ErrorKind, recognize};
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;

/// What a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Table,
    Approximate,
    Log,
    Collection,
    Index,
    Catalog,
    /// A partition file, which is queried like a collection.
    Partition,
    /// Another file of FirnDB, such as a log segment.
    Internal(&'static str),
    /// A file whose beginning is damaged, or that was cut off there.
    Damaged,
    /// A database of another engine.
    Foreign(Engine),
    /// A file that is not FirnDB's.
    OtherFile,
    /// A directory that is not FirnDB's.
    OtherDirectory,
    Missing,
}

/// Another storage engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    HaloDb,
    Bsdb,
    RocksDb,
    Lmdb,
}

/// The last bytes of an immutable file of FirnDB.
const MAGIC: &[u8; 8] = b"FIRNDB1\n";

/// The kind of a path. Reads a few bytes of a file, or the names in a directory.
pub fn kind_of(path: &Path) -> Kind {
    let Ok(found) = fs::metadata(path) else { return Kind::Missing };
    // Pipes and devices are not opened: that could wait for a writer.
    if !found.is_dir() && !found.is_file() {
        return Kind::OtherFile;
    }
    match recognize(path).ok().flatten() {
        Some("table") => Kind::Table,
        Some("approximate table") => Kind::Approximate,
        Some("log store") => Kind::Log,
        Some("collection") => Kind::Collection,
        Some("index") => Kind::Index,
        Some("partition") => Kind::Partition,
        Some(name) => Kind::Internal(name),
        None if found.is_dir() => of_directory(path),
        None if is_damaged(path, found.len()) => Kind::Damaged,
        None if path.extension().is_some_and(|end| end == "mdb") => Kind::Foreign(Engine::Lmdb),
        None => Kind::OtherFile,
    }
}

/// Whether a file ends like one of FirnDB, or was cut off within its first bytes.
fn is_damaged(path: &Path, len: u64) -> bool {
    let mut last = [0; MAGIC.len()];
    if len < 12 {
        return fs::read(path).is_ok_and(|all| MAGIC.starts_with(&all) || all.starts_with(MAGIC));
    }
    let at = len.checked_sub(MAGIC.len() as u64);
    let read = at.zip(File::open(path).ok()).map(|(at, file)| file.read_exact_at(&mut last, at));
    read.is_some_and(|read| read.is_ok()) && last == *MAGIC
}

fn of_directory(dir: &Path) -> Kind {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names: Vec<OsString> = entries.map(|entry| entry.file_name()).collect();
    let names: Vec<&str> = names.iter().filter_map(|name| name.to_str()).collect();
    let has = |name: &str| names.contains(&name);
    let is_halodb = |name: &&str| {
        let (number, end) = name.split_once('.').unwrap_or_default();
        ["data", "datac", "index", "tombstone"].contains(&end)
            && number.len() >= 9
            && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    if names.iter().any(|name| has_versions(&dir.join(name))) {
        return Kind::Catalog;
    }
    let engine = if names.iter().any(is_halodb) {
        Engine::HaloDb
    } else if has("config.properties") && names.iter().any(|name| name.starts_with("kv.db")) {
        Engine::Bsdb
    } else if has("CURRENT") && names.iter().any(|name| name.starts_with("MANIFEST-")) {
        Engine::RocksDb
    } else if has("data.mdb") {
        Engine::Lmdb
    } else {
        return Kind::OtherDirectory;
    };
    Kind::Foreign(engine)
}

/// Whether this is the folder of a name in a catalog.
fn has_versions(folder: &Path) -> bool {
    let entries = fs::read_dir(folder.join("versions")).into_iter().flatten().flatten();
    let is_manifest = |name: &OsString| {
        let number = name.to_str().and_then(|name| name.strip_suffix(".json"));
        number.is_some_and(|n| n.len() == 20 && n.bytes().all(|byte| byte.is_ascii_digit()))
    };
    entries.map(|entry| entry.file_name()).any(|name| is_manifest(&name))
}

impl Engine {
    pub fn name(self) -> &'static str {
        match self {
            Engine::HaloDb => "HaloDB",
            Engine::Bsdb => "BSDB",
            Engine::RocksDb => "RocksDB",
            Engine::Lmdb => "LMDB",
        }
    }
}

impl Kind {
    /// With its article, as in "this is a table".
    pub fn noun(self) -> String {
        match self {
            Kind::Table => "a table".to_string(),
            Kind::Approximate => "an approximate table".to_string(),
            Kind::Log => "a log store".to_string(),
            Kind::Collection => "a collection".to_string(),
            Kind::Index => "an index".to_string(),
            Kind::Catalog => "a catalog".to_string(),
            Kind::Partition => "a partition of a collection".to_string(),
            Kind::Internal(name) => format!("a {name} of FirnDB"),
            Kind::Damaged => "a damaged file of FirnDB".to_string(),
            Kind::Foreign(engine) => format!("a database of {}", engine.name()),
            Kind::OtherFile => "not a file of FirnDB".to_string(),
            Kind::OtherDirectory => "a directory that holds no store of FirnDB".to_string(),
            Kind::Missing => "missing".to_string(),
        }
    }

    /// The commands for this kind of store.
    pub fn group(self) -> Option<&'static str> {
        match self {
            Kind::Table | Kind::Approximate => Some("table"),
            Kind::Log => Some("log"),
            Kind::Collection | Kind::Partition => Some("search"),
            Kind::Index => Some("index"),
            Kind::Catalog => Some("catalog"),
            _ => None,
        }
    }

    /// What to do with it, as the end of a sentence. `verb` is what was tried.
    pub fn advice(self, path: &Path, verb: &str) -> String {
        let path = path.display();
        if let Kind::Foreign(engine) = self {
            return match engine {
                Engine::HaloDb => format!("`firn import {path} -o STORE` makes a log store of it"),
                _ => format!(
                    "`firn import` does not read {} yet: export its records to CSV or JSON \
                     lines, which `firn log load` and `firn table build` read",
                    engine.name()
                ),
            };
        }
        let Some(group) = self.group() else {
            return "name a store of FirnDB".to_string();
        };
        let verb = if has_command(group, verb) { verb } else { "stats" };
        format!("use `firn {group} {verb} {path}`")
    }
}

/// Whether a group of commands has this one.
pub fn has_command(group: &str, verb: &str) -> bool {
    let all = crate::Cli::command();
    all.find_subcommand(group).is_some_and(|group| group.find_subcommand(verb).is_some())
}

/// The command that runs.
static VERB: OnceLock<String> = OnceLock::new();

/// Sets the name of the command that runs, for [`explain`].
pub fn set_verb(verb: &str) {
    let _ = VERB.set(verb.to_string());
}

/// The error of a command that needs `wanted` at `path`: if something else is there, it says what,
/// and which command fits.
pub fn explain(error: Error, path: &Path, wanted: &[Kind]) -> Error {
    let found = kind_of(path);
    let is_kept = wanted.contains(&found)
        || matches!(found, Kind::Missing | Kind::OtherDirectory | Kind::Damaged)
        || error.kind() == ErrorKind::Locked;
    if is_kept {
        return error;
    }
    let verb = VERB.get().map_or("stats", String::as_str);
    let message = format!("this is {}; {}", found.noun(), found.advice(path, verb));
    let kind = match error.kind() {
        ErrorKind::AlreadyExists => ErrorKind::AlreadyExists,
        _ => ErrorKind::InvalidArgument,
    };
    Error::new(kind, message).in_file(path)
}

/// `InvalidArgument` for what is not FirnDB's. A damaged file passes: reading it reports the
/// damage.
pub fn refuse_foreign(path: &Path) -> firndb::Result<()> {
    match kind_of(path) {
        found @ (Kind::OtherFile | Kind::OtherDirectory | Kind::Foreign(_)) => {
            let message = format!("this is {}; {}", found.noun(), found.advice(path, "stats"));
            Err(Error::invalid(message).in_file(path))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_of_other_engines_are_recognized() {
        let dir = std::env::temp_dir().join(format!("firn-kinds-{}", std::process::id()));
        let cases: [(&[&str], Kind); 6] = [
            (&["META", "1795872640.data"], Kind::Foreign(Engine::HaloDb)),
            (&["config.properties", "kv.db.0", "index.db"], Kind::Foreign(Engine::Bsdb)),
            (&["CURRENT", "MANIFEST-000005", "000004.log"], Kind::Foreign(Engine::RocksDb)),
            (&["data.mdb", "lock.mdb"], Kind::Foreign(Engine::Lmdb)),
            (&["letter.data", "CURRENT"], Kind::OtherDirectory),
            (&["words/versions/00000000000000000001.json"], Kind::Catalog),
        ];
        for (files, wanted) in cases {
            for file in files {
                fs::create_dir_all(dir.join(file).parent().unwrap()).unwrap();
                fs::write(dir.join(file), "").unwrap();
            }
            assert_eq!(kind_of(&dir), wanted, "{files:?}");
            fs::remove_dir_all(&dir).unwrap();
        }
        assert_eq!(kind_of(&dir), Kind::Missing);
    }
}
