//! `firn catalog gc`: removes versions past their retention, and the files only they named.

use super::CatalogLocation;
use crate::cmd::load::parse_time;
use crate::failure::Result;
use crate::interrupt;
use crate::output::{Out, plural, size};
use firndb::ErrorKind;
use firndb::catalog::CleanOptions;
use serde_json::json;
use std::time::Duration;

/// Remove versions past their retention, and the files that only they name.
///
/// Remove versions that are neither among the newest nor pinned nor young, files that no other
/// version names, and staged files that are not young. Publishers and readers may go on meanwhile.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    catalog: CatalogLocation,
    /// Names to clean; all if none is given.
    names: Vec<String>,
    /// How many of the newest versions to keep.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = at_least_1)]
    keep: usize,
    /// How long a version is kept after the next one came, for readers that are fetching it, and a
    /// staged file after it was staged.
    #[arg(long, default_value = "1d", value_name = "TIME", value_parser = parse_time)]
    grace: Duration,
    /// Only report what would be removed.
    #[arg(long)]
    dry_run: bool,
}

fn at_least_1(text: &str) -> std::result::Result<usize, String> {
    text.parse().ok().filter(|&n| n > 0).ok_or_else(|| "it is a number from 1 on".to_string())
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let store = args.catalog.open()?;
    let names = if args.names.is_empty() { store.names()? } else { args.names.clone() };
    let options = CleanOptions::new().keep(args.keep).grace(args.grace).dry_run(args.dry_run);
    let mut out = Out::new();
    for name in &names {
        interrupt::says("what was removed is reported above; running the command again goes on");
        interrupt::check()?;
        let step = interrupt::step();
        let cleaned = match store.clean(name, &options) {
            // A folder without a version: its staged files are gone, or are still being stored.
            Err(e) if e.kind() == ErrorKind::NotFound && args.names.is_empty() => continue,
            cleaned => cleaned?,
        };
        drop(step);
        if json {
            out.json(&json!({
                "name": name,
                "versions": cleaned.versions,
                "files": cleaned.files,
                "removed_bytes": cleaned.bytes,
                "staged": cleaned.staged,
                "dry_run": args.dry_run,
            }))?;
        } else {
            out.line(format!(
                "{name}: {}, {} ({}) and {} {}",
                plural(cleaned.versions.len() as u64, "version"),
                plural(cleaned.files, "file"),
                size(cleaned.bytes),
                plural(cleaned.staged, "staged file"),
                if args.dry_run { "would be removed" } else { "removed" }
            ))?;
        }
    }
    Ok(out.finish()?)
}
