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
mod stats;
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
    #[command(visible_alias = "ls")]
    List(ls::Args),
    Stats(stats::Args),
    Show(show::Args),
    Diff(diff::Args),
    Publish(publish::Args),
    Stage(stage::Args),
    Rollback(rollback::Args),
    Pin(pin::Args),
    Gc(gc::Args),
    Pull(pull::Args),
    /// Check every byte of a version.
    Verify(verify::Args),
    Watch(watch::Args),
}

impl Catalog {
    pub fn run(&self, json: bool) -> Result<()> {
        match self {
            Catalog::List(args) => ls::run(args, json),
            Catalog::Stats(args) => stats::run(args, json),
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
        "published_at": timestamp_to_text(version.time),
        "kind": version.kind.name(),
        "statistics": version.statistics,
        "labels": labels,
        "files": version.files.len(),
        "size_bytes": version.bytes(),
    })
}

/// The result of a publication as JSON.
fn published_to_json(published: &Published) -> Json {
    let mut shown = to_json(&published.version);
    shown["sent_files"] = published.files_sent.into();
    shown["sent_bytes"] = published.bytes_sent.into();
    shown["repaired_files"] = published.files_repaired.into();
    shown
}
