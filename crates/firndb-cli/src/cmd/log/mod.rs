//! Commands on log stores, and what they share: opening stores and parsing keys.

mod backup;
mod bench;
mod compact;
mod delete;
mod export;
mod freeze;
mod get;
mod import;
mod list;
mod load;
mod mget;
mod options;
mod put;
mod repair;
mod restore;
mod scan;
mod stats;
mod verify;
mod writer;

use super::load::parse_time;
use super::table::{put_bytes, shown_key, unescape};
use crate::failure::Result;
use crate::kinds::{Kind, explain, kind_of};
use crate::target::is_free;
use clap::Subcommand;
use firndb::log::{Expiry, LogStore, Options, WriteOptions};
use firndb::{Error, ErrorKind};
use firndb_ingest::EXPIRES_AT;
use serde_json::{Map, Value as Json};
use std::path::Path;
use std::time::Duration;

use options::StoreOptions;

pub use import::{Args as ImportArgs, run as import};
pub use verify::verify;

/// Commands on log stores.
#[derive(Subcommand)]
pub enum Log {
    #[command(visible_alias = "set")]
    Put(put::Args),
    Get(get::Args),
    Mget(mget::Args),
    #[command(visible_aliases = ["rm", "del"])]
    Delete(delete::Args),
    Load(load::Args),
    Scan(scan::Args),
    #[command(visible_alias = "ls")]
    List(list::Args),
    #[command(visible_alias = "dump")]
    Export(export::Args),
    Stats(stats::Args),
    Compact(compact::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    /// Check every byte of a store.
    Verify(super::verify::Args),
    Repair(repair::Args),
    Import(import::Args),
    Freeze(freeze::Args),
    Bench(bench::Args),
}

impl Log {
    pub fn run(&self, json: bool) -> Result<()> {
        match self {
            Log::Put(args) => put::run(args, json),
            Log::Get(args) => get::run(args, json),
            Log::Mget(args) => mget::run(args, json),
            Log::Delete(args) => delete::run(args, json),
            Log::Load(args) => load::run(args, json),
            Log::Scan(args) => scan::run(args, json),
            Log::List(args) => list::run(args, json),
            Log::Export(args) => export::run(args, json),
            Log::Stats(args) => stats::run(args, json),
            Log::Compact(args) => compact::run(args, json),
            Log::Backup(args) => backup::run(args, json),
            Log::Restore(args) => restore::run(args, json),
            Log::Verify(args) => super::verify::run_on(args, &[Kind::Log], json),
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
fn open_or_create(dir: &Path, options: &StoreOptions) -> firndb::Result<LogStore> {
    if is_free(dir)? || is_begun(dir)? {
        return open_with(dir, options.apply(Options::default()));
    }
    open_with(dir, options.apply(existing())).map_err(|e| match e.kind() {
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
                           the store; `get`, `scan`, `export` and `stats` work meanwhile";
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
