//! Commands on catalogs. This file holds what several of them share: versions as JSON, labels.

mod diff;
mod gc;
mod ls;
mod pin;
mod location;
mod publish;
mod pull;
mod rollback;
mod show;
mod stage;
mod verify;
mod watch;

use crate::failure::Result;
use clap::Subcommand;
use firndb::catalog::{Catalog as Store, Published, Version};
use firndb::redact;
use firndb::search::timestamp_to_text;
use serde_json::{Map, Value as Json, json};

pub use location::CatalogLocation;
pub use publish::publish;

/// Commands on catalogs.
#[derive(Subcommand)]
pub enum Catalog {
    /// List names, or the versions of a name.
    Ls(ls::Args),
    /// Show a version: what it is, where it comes from, its files.
    Show(show::Args),
    /// Show what changed between two versions.
    Diff(diff::Args),
    /// Publish a table or a collection as the next version of a name.
    Publish(publish::Args),
    /// Store a table or a shard of one for a later version.
    Stage(stage::Args),
    /// Publish the files of an old version as the next version.
    Rollback(rollback::Args),
    /// Protect a version from `gc`, or stop protecting it.
    Pin(pin::Args),
    /// Remove versions past their retention, and the files that only they name.
    Gc(gc::Args),
    /// Write a version's table or collection into a directory.
    Pull(pull::Args),
    /// Check every byte of a version.
    Verify(verify::Args),
    /// Keep the newest version in a directory and report each new one.
    Watch(watch::Args),
}

impl Catalog {
    pub fn run(&self, json: bool) -> Result<()> {
        match self {
            Catalog::Ls(args) => ls::run(args, json),
            Catalog::Show(args) => show::run(args, json),
            Catalog::Diff(args) => diff::run(args, json),
            Catalog::Publish(args) => publish::run(args, json),
            Catalog::Stage(args) => stage::run(args),
            Catalog::Rollback(args) => rollback::run(args, json),
            Catalog::Pin(args) => pin::run(args, json),
            Catalog::Gc(args) => gc::run(args, json),
            Catalog::Pull(args) => pull::run(args, json),
            Catalog::Verify(args) => verify::run(args, json),
            Catalog::Watch(args) => watch::run(args, json),
        }
    }
}

/// The version that a command works on.
#[derive(clap::Args)]
struct Which {
    #[command(flatten)]
    catalog: CatalogLocation,
    /// The name it was published under.
    name: String,
    /// Number of the version; the newest if it is left out.
    #[arg(value_name = "VERSION")]
    number: Option<u64>,
}

impl Which {
    fn version(&self) -> firndb::Result<(Store, Version)> {
        version(&self.catalog, &self.name, self.number)
    }
}

/// Opens a version by number, or the newest.
fn version(
    catalog: &CatalogLocation,
    name: &str,
    number: Option<u64>,
) -> firndb::Result<(Store, Version)> {
    let store = catalog.open()?;
    let version = match number {
        Some(number) => store.version(name, number)?,
        None => store.newest(name)?,
    };
    Ok((store, version))
}

/// Parses `NAME=TEXT`.
fn label(text: &str) -> std::result::Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=TEXT")?;
    Ok((name.to_string(), value.to_string()))
}

/// A version as JSON, without its files and without credentials in URLs of its labels.
fn to_json(version: &Version) -> Json {
    let labels: Map<String, Json> =
        version.labels.iter().map(|(name, text)| (name.clone(), redact(text).into())).collect();
    json!({
        "name": version.name,
        "version": version.number,
        "id": version.id,
        "parent": version.parent,
        "restores": version.restores,
        "time": timestamp_to_text(version.time),
        "kind": version.kind.name(),
        "statistics": version.statistics,
        "labels": labels,
        "files": version.files.len(),
        "bytes": version.bytes(),
    })
}

/// The result of a publication as JSON.
fn published_to_json(published: &Published) -> Json {
    let mut shown = to_json(&published.version);
    shown["files_sent"] = published.files_sent.into();
    shown["bytes_sent"] = published.bytes_sent.into();
    shown["files_repaired"] = published.files_repaired.into();
    shown
}
