//! Commands on indexes. This file holds what several of them share: opening and publishing.

mod apply;
mod backup;
mod init;
mod key;
mod list;
mod rebuild;
mod status;

use crate::cmd::catalog::CatalogLocation;
use crate::failure::Result;
use crate::interrupt;
use crate::kinds::{Kind, explain};
use crate::output::{plural, size, time};
use clap::Subcommand;
use firndb::catalog;
use firndb::indexer::{Indexer, Options, Partitioning, Publication};
use firndb::{Error, ErrorKind};
use serde_json::{Value as Json, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// Commands on indexes.
#[derive(Subcommand)]
pub enum Index {
    Init(init::Args),
    Apply(apply::Args),
    #[command(visible_alias = "status")]
    Stats(status::Args),
    #[command(visible_alias = "ls")]
    List(list::Args),
    /// Print the published documents as CSV, TSV or JSON lines.
    Scan(crate::cmd::scan::Args),
    /// Write the published documents into a file.
    #[command(visible_alias = "dump")]
    Export(crate::cmd::export::Args),
    /// Check every byte of the log and of the collection.
    Verify(crate::cmd::verify::Args),
    Rebuild(rebuild::Args),
    Backup(backup::Args),
}

impl Index {
    pub fn run(&self, json: bool) -> Result<()> {
        match self {
            Index::Init(args) => init::run(args, json),
            Index::Apply(args) => apply::run(args, json),
            Index::Stats(args) => status::run(args, json),
            Index::List(args) => list::run(args, json),
            Index::Scan(args) => crate::cmd::scan::run(args, json),
            Index::Export(args) => crate::cmd::export::run(args, json),
            Index::Verify(args) => crate::cmd::verify::run_on(args, &[Kind::Index], json),
            Index::Rebuild(args) => rebuild::run(args, json),
            Index::Backup(args) => backup::run(args, json),
        }
    }
}

/// How documents are assigned to partitions.
#[derive(clap::Args)]
struct Division {
    /// Divide documents by the hash of their keys into this many partitions (for each value of
    /// --partition-by, if it is given).
    #[arg(long, value_name = "N")]
    partitions: Option<u32>,
    /// Divide documents by the value of this field.
    #[arg(long, value_name = "FIELD")]
    partition_by: Option<String>,
}

impl Division {
    /// `None` if neither argument is given.
    fn partitioning(&self) -> Option<Partitioning> {
        match (&self.partition_by, self.partitions) {
            (None, None) => None,
            (None, Some(n)) => Some(Partitioning::by_hash(n)),
            (Some(field), None) => Some(Partitioning::by_field(field)),
            (Some(field), Some(n)) => Some(Partitioning::by_field_and_hash(field, n)),
        }
    }
}

/// Opens an existing index, and reports if its collection has to be rebuilt.
fn open(dir: &Path, memory: usize) -> firndb::Result<Indexer> {
    let opened = Indexer::open_existing(dir, Options::new().memory_limit(memory));
    let indexer = opened.map_err(|e| match e.kind() {
        ErrorKind::NotFound => {
            let message = "there is no index here; `firn index init` makes one";
            explain(Error::new(ErrorKind::NotFound, message).in_file(dir), dir, &[Kind::Index])
        }
        ErrorKind::Locked => {
            let message = "another program has this index open: wait until it is done (the \
                           collection in it can be queried meanwhile)";
            Error::new(ErrorKind::Locked, message).in_file(dir)
        }
        _ => e,
    })?;
    if indexer.is_remade() {
        eprintln!(
            "firn: {}: the collection is missing, or is not the one that this index published \
             last: all of it is made again with the next publish",
            dir.display()
        );
    }
    Ok(indexer)
}

/// Describes a partitioning.
fn in_words(partitioning: &Partitioning) -> String {
    let parts = partitioning.partitions().map(|n| format!("hash into {n}"));
    let field = partitioning.field().map(|field| format!("field `{field}`"));
    [field, parts].into_iter().flatten().collect::<Vec<_>>().join(" and by ")
}

/// The result of a publication, and its duration.
struct Done {
    published: Publication,
    version: Option<catalog::Published>,
    took: Duration,
}

/// Publishes what changed, then publishes to `CATALOG NAME` if that is given.
fn publish(indexer: &mut Indexer, to: &[String]) -> firndb::Result<Done> {
    let start = Instant::now();
    let _step = interrupt::step();
    let (published, version) = match to {
        [location, name] => indexer.publish_to(&CatalogLocation::new(location).create()?, name)?,
        _ => (indexer.publish()?, None),
    };
    interrupt::says("the changes are applied and published");
    Ok(Done { published, version, took: start.elapsed() })
}

impl Done {
    fn to_json(&self) -> Json {
        json!({
            "version": self.published.version,
            "rebuilt": self.published.rebuilt,
            "removed": self.published.removed,
            "documents": self.published.documents,
            "built_bytes": self.published.bytes,
            "catalog_version": self.version.as_ref().map(|published| published.version.number),
            "elapsed_seconds": self.took.as_secs_f64(),
        })
    }

    fn to_text(&self) -> String {
        let set = self.set_to_text();
        match &self.version {
            None => set,
            Some(published) => format!(
                "{set}\n{}: version {}, {} of {} new.",
                published.version.name,
                published.version.number,
                size(published.bytes_sent),
                size(published.version.bytes())
            ),
        }
    }

    fn set_to_text(&self) -> String {
        let Publication { version, rebuilt, removed, documents, bytes, .. } = &self.published;
        if rebuilt.is_empty() && removed.is_empty() {
            return "Nothing to publish.".to_string();
        }
        let gone = match removed.len() {
            0 => String::new(),
            n => format!(", {} removed", plural(n as u64, "partition")),
        };
        format!(
            "Published set {version}: {} rebuilt ({}, {}){gone}, in {}.",
            plural(rebuilt.len() as u64, "partition"),
            plural(*documents, "document"),
            size(*bytes),
            time(self.took)
        )
    }
}
