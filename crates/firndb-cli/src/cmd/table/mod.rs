//! Commands on tables, and what they share: opening tables, parsing keys, printing values.

mod bench;
mod build;
mod builder;
mod check;
mod export;
mod get;
mod layout;
mod list;
mod mget;
mod scan;
mod stats;
mod writer;

pub use builder::AnyBuilder;
pub use layout::{Approximation, Layout};
pub use scan::Form;

use super::verify;
use crate::failure::Result;
use crate::interrupt;
use crate::kinds::{Kind, explain, kind_of};
use crate::output::from_hex;
use clap::{Subcommand, ValueEnum};
use firndb::Error;
use firndb::table::{self, Access, ApproximateTable};
pub use firndb_ingest::Shown;
pub use firndb_ingest::value::{put_bytes, shown_key};
use serde_json::{Map, Value as Json};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Commands on tables.
#[derive(Subcommand)]
pub enum Table {
    Build(Box<build::Args>),
    Get(get::Args),
    Mget(mget::Args),
    Scan(scan::Args),
    #[command(visible_alias = "ls")]
    List(list::Args),
    #[command(visible_alias = "dump")]
    Export(export::Args),
    Stats(stats::Args),
    /// Check every byte of a table.
    Verify(verify::Args),
    Bench(bench::Args),
}

impl Table {
    pub fn run(&self, json: bool) -> Result<()> {
        match self {
            Table::Build(args) => build::run(args, json),
            Table::Get(args) => get::run(args, json),
            Table::Mget(args) => mget::run(args, json),
            Table::Scan(args) => scan::run(args, json),
            Table::List(args) => list::run(args, json),
            Table::Export(args) => export::run(args, json),
            Table::Stats(args) => stats::run(args, json),
            Table::Verify(args) => verify::run_on(args, &[Kind::Table, Kind::Approximate], json),
            Table::Bench(args) => bench::run(args, json),
        }
    }
}

/// The table that a command reads.
#[derive(clap::Args)]
pub struct Source {
    /// The table.
    #[arg(value_name = "TABLE")]
    path: PathBuf,
    /// How blocks are read: from a map, by reads, by reads past the page cache, or all at once.
    #[arg(long, value_enum, default_value_t)]
    access: How,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum How {
    #[default]
    Map,
    Buffered,
    Direct,
    Resident,
}

impl Source {
    fn access(&self) -> Access {
        match self.access {
            How::Map => Access::Map,
            How::Buffered => Access::Buffered,
            How::Direct => Access::Direct,
            How::Resident => Access::Resident,
        }
    }

    /// Opens a table with keys.
    fn open(&self) -> firndb::Result<table::Table> {
        if kind_of(&self.path) == Kind::Approximate {
            let message = "this is an approximate table, which does not store its keys; `get`, \
                           `mget`, `stats` and `verify` work";
            return Err(Error::invalid(message).in_file(&self.path));
        }
        open(&self.path, self.access())
    }

    /// Opens a table of either kind.
    fn open_any(&self) -> firndb::Result<AnyTable> {
        open_any(&self.path, self.access())
    }
}

/// Opens a table of either kind.
fn open_any(path: &Path, access: Access) -> firndb::Result<AnyTable> {
    Ok(match kind_of(path) {
        Kind::Approximate => {
            AnyTable::Approximate(Box::new(ApproximateTable::open_with(path, access)?))
        }
        _ => AnyTable::Exact(Box::new(open(path, access)?)),
    })
}

/// A table of either kind.
enum AnyTable {
    Exact(Box<table::Table>),
    /// Its keys are not stored: an absent key may be found.
    Approximate(Box<ApproximateTable>),
}

impl AnyTable {
    fn shown(&self) -> firndb::Result<Shown> {
        match self {
            AnyTable::Exact(table) => shown_of(table),
            AnyTable::Approximate(_) => Ok(Shown::bytes()),
        }
    }

    fn get(&self, key: &[u8]) -> firndb::Result<Option<Vec<u8>>> {
        Ok(match self {
            AnyTable::Exact(table) => table.get(key)?.map(|value| value.to_vec()),
            AnyTable::Approximate(table) => table.get(key)?.map(|value| value.to_vec()),
        })
    }

    /// Passes the values of many keys to `take`, with the number of the key.
    fn read_many(
        &self,
        keys: &[impl AsRef<[u8]>],
        mut take: impl FnMut(usize, Option<&[u8]>) -> firndb::Result<()>,
    ) -> firndb::Result<()> {
        match self {
            AnyTable::Exact(table) => table.read_many(keys, take),
            AnyTable::Approximate(table) => {
                let values = table.get_many(keys)?;
                let mut values = values.iter().enumerate();
                values.try_for_each(|(i, value)| take(i, value.as_deref()))
            }
        }
    }
}

fn open(path: &Path, access: Access) -> firndb::Result<table::Table> {
    if path.is_dir() {
        let message = "this is a directory; name a table, which is a file";
        return Err(explain(Error::invalid(message).in_file(path), path, &[]));
    }
    table::Table::open_with(path, access).map_err(|e| explain(e, path, &[Kind::Table]))
}

/// For the progress of a build, which a signal ends.
pub fn continue_unless_stopped() -> ControlFlow<()> {
    match interrupt::is_stopped() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

/// How the values of a table are shown, by its schema. Values under a schema that is not an Avro
/// schema are shown as bytes, with a note on standard error, since a program may store any text as
/// the schema.
fn shown_of(table: &table::Table) -> firndb::Result<Shown> {
    Ok(Shown::new(table.value_schema()?).unwrap_or_else(|reason| {
        let path = table.path().display();
        eprintln!("note: {path}: values are shown as bytes: their schema: {reason}");
        Shown::bytes()
    }))
}

/// The JSON object for a requested key: `found` and, if it is present, its value.
fn answer(shown: &Shown, key: &[u8], value: Option<&[u8]>) -> firndb::Result<Json> {
    let mut object = Map::new();
    put_bytes(&mut object, "key", key);
    object.insert("found".to_string(), Json::from(value.is_some()));
    if let Some(value) = value {
        shown.json(key, value, &mut object)?;
    }
    Ok(Json::Object(object))
}

/// The bytes of an argument after resolving `\t`, `\n`, `\0`, `\\` and `\xHH`.
pub fn unescape(text: &str) -> std::result::Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next() {
            Some(b't') => b'\t',
            Some(b'n') => b'\n',
            Some(b'0') => 0,
            Some(b'\\') => b'\\',
            Some(b'x') => {
                let pair: Vec<u8> = rest.by_ref().take(2).collect();
                match from_hex(&String::from_utf8_lossy(&pair)).as_deref() {
                    Ok([byte]) => *byte,
                    _ => return Err("write two hexadecimal digits after \\x".to_string()),
                }
            }
            _ => return Err("after \\ comes t, n, 0, \\ or x and two digits".to_string()),
        });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_in_arguments_are_resolved() {
        assert_eq!(unescape("a\\t\\x1f\\\\"), Ok(b"a\t\x1f\\".to_vec()));
        assert!(unescape("\\q").is_err() && unescape("\\x1").is_err() && unescape("\\").is_err());
    }
}
