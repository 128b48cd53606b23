//! The commands, and what they share: opening collections and parsing queries.

pub mod build;
pub mod catalog;
pub mod compact;
pub mod completions;
pub mod count;
pub mod demo;
pub mod detect;
pub mod dialect;
pub mod explain;
pub mod export;
pub mod external;
pub mod facets;
pub mod formats;
pub mod group;
pub mod index;
pub mod inspect;
pub mod keys;
pub mod keys_wanted;
pub mod load;
pub mod log;
pub mod man;
pub mod merge;
pub mod partitions;
pub mod query;
pub mod remove;
pub mod replace;
pub mod rows_batch;
pub mod scan;
pub mod stats;
pub mod table;
pub mod verify;

use crate::failure::{Failure, Result};
use crate::kinds::{Kind, explain, kind_of};
use clap::Subcommand;
use firndb::search::{Collection, Filter, Query, Reader, Schema, parse_filter, parse_query};
use firndb::{Error, ErrorKind};
use std::path::{Path, PathBuf};

/// Commands on collections.
#[derive(Subcommand)]
pub enum Search {
    Build(build::Args),
    Query(query::Args),
    Count(count::Args),
    Explain(explain::Args),
    Facets(facets::Args),
    Group(group::Args),
    Stats(stats::Args),
    #[command(visible_aliases = ["ls", "partitions"])]
    List(partitions::Args),
    /// Check every byte of a collection.
    Verify(verify::Args),
    Merge(merge::Args),
    Compact(compact::Args),
    Replace(replace::Args),
    #[command(visible_alias = "rm")]
    Remove(remove::Args),
    Scan(scan::Args),
    #[command(visible_alias = "dump")]
    Export(export::Args),
}

impl Search {
    pub fn run(&self, json: bool) -> Result<()> {
        match self {
            Search::Build(args) => build::run(args, json),
            Search::Query(args) => query::run(args, json),
            Search::Count(args) => count::run(args, json),
            Search::Explain(args) => explain::run(args, json),
            Search::Facets(args) => facets::run(args, json),
            Search::Group(args) => group::run(args, json),
            Search::Stats(args) => stats::run(args, json),
            Search::List(args) => partitions::run(args, json),
            Search::Verify(args) => {
                verify::run_on(args, &[Kind::Collection, Kind::Partition], json)
            }
            Search::Merge(args) => merge::run(args, json),
            Search::Compact(args) => compact::run(args, json),
            Search::Replace(args) => replace::run(args, json),
            Search::Remove(args) => remove::run(args, json),
            Search::Scan(args) => scan::run(args, json),
            Search::Export(args) => export::run(args, json),
        }
    }
}

/// A short description of the condition language, below the help of commands that take one.
pub const CONDITIONS: &str = "\
Conditions:
  FIELD = VALUE              also != < <= > >=; several values: true if one of them matches
  FIELD between A and B      both ends included
  FIELD in (A, B, ...)       not in, not between, not prefix likewise
  FIELD prefix 'abc'         texts that begin with abc; like 'abc%' is the same
  exists FIELD               is not null; `is null` for the others
  FIELD                      a bool field that is true
  not C, C and C, C or C     `and` binds closer than `or`; parentheses as usual
Texts stand in single quotes, numbers and true/false do not; times: '2013-07-01T10:00:00Z'.
See docs/search.md for the rest.";

/// Opens a collection, that of an index, or a stand-alone partition file, for reading with all
/// processors.
pub fn open(path: &Path) -> firndb::Result<Reader> {
    if kind_of(path) == Kind::Index {
        return open(&path.join(COLLECTION));
    }
    let reader = match path.is_file() {
        true => Reader::open_files(&[path])
            .map_err(|e| explain(e, path, &[Kind::Partition, Kind::Collection]))?,
        false => open_collection(path)?.reader(),
    };
    Ok(reader.with_threads(std::thread::available_parallelism().map_or(1, usize::from)))
}

/// The collection in the directory of an index.
pub const COLLECTION: &str = "collection";

/// Opens a collection.
pub fn open_collection(dir: &Path) -> firndb::Result<Collection> {
    Collection::open(dir).map_err(|e| explain(e, dir, &[Kind::Collection]))
}

/// A query or a condition in a file.
#[derive(clap::Args)]
pub struct QueryFile {
    /// Read the query or the condition from this file, or from standard input if it is `-`: the
    /// arguments of a command have a limited size.
    #[arg(long, value_name = "FILE")]
    query_file: Option<PathBuf>,
}

impl QueryFile {
    /// The text in the file, else in the arguments.
    pub fn text(&self, words: &[String]) -> firndb::Result<String> {
        let Some(path) = &self.query_file else { return Ok(words.join(" ")) };
        if !words.is_empty() {
            let message = "the query is in the arguments and in --query-file; leave one out";
            return Err(Error::invalid(message));
        }
        let text = match path.as_os_str() == "-" {
            true => std::io::read_to_string(std::io::stdin()),
            false => std::fs::read_to_string(path),
        };
        text.map(|text| text.trim().to_string()).map_err(|e| match e.kind() {
            std::io::ErrorKind::InvalidData => {
                Error::invalid("the query is not valid UTF-8").in_file(path)
            }
            _ => Error::io("read", path, e),
        })
    }
}

/// Parses a query; an empty text matches every document.
pub fn query_of(text: &str, schema: &Schema) -> Result<Query> {
    parse_query(text, Some(schema)).map_err(|error| Failure::in_text(error, text))
}

/// Parses a condition; an empty text matches every document.
pub fn filter_of(text: &str, schema: &Schema) -> Result<Filter> {
    parse_filter(text, Some(schema)).map_err(|error| Failure::in_text(error, text))
}

/// Fails unless the collection has partitions of all these names.
pub fn require_partitions(reader: &Reader, names: &[String]) -> firndb::Result<()> {
    let partitions = reader.partitions();
    match names.iter().find(|name| partitions.iter().all(|p| p.name != **name)) {
        None => Ok(()),
        Some(name) => {
            let known: Vec<&str> = partitions.iter().take(12).map(|p| p.name.as_str()).collect();
            let more = if partitions.len() > 12 { ", ..." } else { "" };
            Err(Error::new(
                ErrorKind::NotFound,
                format!("there is no partition {name}; partitions are {}{more}", known.join(", ")),
            ))
        }
    }
}
