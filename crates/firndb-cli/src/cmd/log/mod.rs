//! Commands on log stores, and what they share: opening stores and parsing keys.

mod backup;
mod bench;
mod compact;
mod delete;
mod dump;
mod form;
mod freeze;
mod get;
mod import;
mod load;
mod put;
mod repair;
mod restore;
mod scan;
mod stats;
mod verify;

use super::table::{put_bytes, shown_key, unescape};
use crate::failure::Result;
use crate::kinds::{Kind, explain, kind_of};
use crate::output::from_hex;
use crate::target::is_free;
use clap::Subcommand;
use firndb::log::{Expiry, LogStore, Options, WriteOptions};
use firndb::{Error, ErrorKind};
use firndb_ingest::EXPIRES_AT;
use serde_json::{Map, Value as Json};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Commands on log stores.
#[derive(Subcommand)]
pub enum Log {
    /// Set the value of a key; creates the store if it is missing.
    Put(put::Args),
    /// Get the value of a key.
    Get(get::Args),
    /// Remove keys.
    Delete(delete::Args),
    /// Put records from text, CSV, JSON lines, Parquet or Arrow.
    Load(load::Args),
    /// Write all records in a format that `load` reads.
    Dump(dump::Args),
    /// Show records, or keys alone.
    Scan(scan::Args),
    /// Show keys, segments, sizes and how the store was opened.
    Stats(stats::Args),
    /// Rewrite the live records of partly stale segments and remove those segments.
    Compact(compact::Args),
    /// Make a backup of the store, or bring one up to date.
    Backup(backup::Args),
    /// Create a new store from a backup.
    Restore(restore::Args),
    /// Check every byte of a store.
    Verify(verify::Args),
    /// Save what is left of a damaged store into a new one.
    Repair(repair::Args),
    /// Import a directory of HaloDB.
    Import(import::Args),
    /// Write one snapshot of all records into a table.
    Freeze(freeze::Args),
    /// Measure puts, gets and updates in a new store.
    Bench(bench::Args),
}

impl Log {
    pub fn run(&self, json: bool) -> Result<()> {
        match self {
            Log::Put(args) => put::run(args, json),
            Log::Get(args) => get::run(args, json),
            Log::Delete(args) => delete::run(args, json),
            Log::Load(args) => load::run(args, json),
            Log::Dump(args) => dump::run(args, json),
            Log::Scan(args) => scan::run(args, json),
            Log::Stats(args) => stats::run(args, json),
            Log::Compact(args) => compact::run(args, json),
            Log::Backup(args) => backup::run(args, json),
            Log::Restore(args) => restore::run(args, json),
            Log::Verify(args) => verify::run(args, json),
            Log::Repair(args) => repair::run(args, json),
            Log::Import(args) => import::run(args, json),
            Log::Freeze(args) => freeze::run(args, json),
            Log::Bench(args) => bench::run(args, json),
        }
    }
}

/// Opens a store for reading, while another program may be writing to it.
fn open_to_read(dir: &Path) -> firndb::Result<LogStore> {
    LogStore::open_read_only(dir).map_err(|e| explain(e, dir, &[Kind::Log]))
}

/// Opens an existing store for writing.
fn open_to_write(dir: &Path) -> firndb::Result<LogStore> {
    open_with(dir, existing())
}

fn existing() -> Options {
    Options::new().create(false)
}

/// Opens a store for writing. Creates it if the directory is free or holds an unfinished creation.
fn open_or_create(dir: &Path) -> firndb::Result<LogStore> {
    if is_free(dir)? || is_begun(dir)? {
        return open_with(dir, Options::default());
    }
    open_with(dir, existing()).map_err(|e| match e.kind() {
        ErrorKind::NotFound => occupied(dir),
        // Another store: nothing is put there.
        ErrorKind::InvalidArgument if kind_of(dir) != Kind::Log => {
            explain(occupied(dir), dir, &[Kind::Log])
        }
        _ => e,
    })
}

fn open_with(dir: &Path, options: Options) -> firndb::Result<LogStore> {
    LogStore::open_with(dir, options).map_err(|e| match e.kind() {
        ErrorKind::Locked => {
            let message = "another program has this store open for writing: wait until it closes \
                           the store; `get`, `scan`, `dump` and `stats` work meanwhile";
            Error::new(ErrorKind::Locked, message).in_file(dir)
        }
        _ => explain(e, dir, &[Kind::Log]),
    })
}

/// Whether a directory holds only what an interrupted creation leaves, for example on a full disk:
/// the lock, and a first segment of zero bytes. Any other content may be data, damaged or of
/// another program, and must stay.
fn is_begun(dir: &Path) -> firndb::Result<bool> {
    const LEFT: [&str; 2] = ["lock", "segment-00000000000000000001.log"];
    // A first segment is much smaller.
    const SEGMENT_MAX: u64 = 64 << 20;
    let entries = match std::fs::read_dir(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => return Ok(false),
        entries => entries.map_err(|e| Error::io("open", dir, e))?,
    };
    for entry in entries {
        let entry = entry.map_err(|e| Error::io("read", dir, e))?;
        let name = entry.file_name();
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let metadata = entry.metadata().map_err(|e| Error::io("look at", &entry.path(), e))?;
        if !is_file || !LEFT.iter().any(|left| name == *left) || metadata.len() > SEGMENT_MAX {
            return Ok(false);
        }
        let bytes = std::fs::read(entry.path()).map_err(|e| Error::io("read", &entry.path(), e))?;
        if name == "lock" && !bytes.is_empty() || bytes.iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn occupied(dir: &Path) -> Error {
    let message = "the directory is not empty and holds no log store; name another one";
    Error::new(ErrorKind::AlreadyExists, message).in_file(dir)
}

/// How keys are given.
#[derive(clap::Args)]
struct KeyForm {
    /// Keys are given in hexadecimal digits, two per byte.
    #[arg(long)]
    hex: bool,
    /// The key is the content of this file, byte by byte.
    #[arg(long, value_name = "FILE", conflicts_with = "hex")]
    file: Option<PathBuf>,
}

impl KeyForm {
    /// Parses the key in an argument.
    fn key(&self, text: &OsStr) -> firndb::Result<Vec<u8>> {
        match self.hex {
            true => from_hex(&text.to_string_lossy()),
            false => Ok(text.as_bytes().to_vec()),
        }
    }

    /// Reads the key from the file, if one is named.
    fn of_file(&self) -> Option<firndb::Result<Vec<u8>>> {
        let path = self.file.as_ref()?;
        Some(std::fs::read(path).map_err(|e| Error::io("read", path, e)))
    }
}

/// How records are written.
#[derive(clap::Args)]
struct Writing {
    /// Return when the records survive a power cut, not only a crash of the process.
    #[arg(long)]
    sync: bool,
    /// Records expire after this time, for example 90s, 15m, 12h or 7d; then they count as deleted.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    ttl: Option<Duration>,
}

impl Writing {
    fn options(&self) -> WriteOptions {
        let options = if self.sync { WriteOptions::sync() } else { WriteOptions::default() };
        self.ttl.map_or(options, |ttl| options.ttl(ttl))
    }
}

/// Parses a time such as `500ms`, `90s`, `15m`, `12h` or `7d`.
fn parse_time(text: &str) -> std::result::Result<Duration, String> {
    let wrong = || format!("`{text}` is not a time; write for example 90s, 15m, 12h or 7d");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit: u64 = match &text[digits..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).map(Duration::from_millis).ok_or_else(wrong)
}

/// Adds the expiry time of a record, if it has one.
fn put_expiry(object: &mut Map<String, Json>, expiry: Expiry) {
    if let Some(time) = expiry.millis() {
        object.insert(EXPIRES_AT.to_string(), Json::from(time));
    }
}

/// The error for a missing key.
fn no_key(dir: &Path, key: &[u8]) -> Error {
    let message = format!("there is no key {}", shown_key(key));
    Error::new(ErrorKind::NotFound, message).in_file(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(parse_time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_time("7d"), Ok(Duration::from_secs(7 * 86_400)));
        for wrong in ["", "5", "h", "-1s", "1w", "99999999999999999d"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }
}
