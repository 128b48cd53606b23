//! `firn catalog verify`: checks every byte of a version, or of the newest version of each name.

use super::{CatalogLocation, version};
use crate::cmd::load::progress_bar;
use crate::failure::Result;
use crate::output::{Out, plural, size, time};
use serde_json::json;
use std::time::Instant;

/// Check every byte of a version. Exit code 0 if all is well, 6 if something is corrupt, 3 if
/// something is missing.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    catalog: CatalogLocation,
    /// The name it was published under; the newest versions of all names if it is left out.
    name: Option<String>,
    /// Number of the version; the newest if it is left out.
    #[arg(value_name = "VERSION")]
    number: Option<u64>,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let names = match &args.name {
        Some(name) => vec![name.clone()],
        None => args.catalog.open()?.names()?,
    };
    let mut out = Out::new();
    for name in &names {
        let start = Instant::now();
        let (store, version) = version(&args.catalog, name, args.number)?;
        let bar = progress_bar(Some(version.bytes()));
        let checked = store.verify(&version, |file| bar.inc(file.bytes));
        bar.finish_and_clear();
        let (checked, number) = (checked?, version.number);
        if json {
            out.json(&json!({
                "name": name,
                "version": number,
                "files": checked.files,
                "file_bytes": checked.bytes,
                "elapsed_seconds": start.elapsed().as_secs_f64(),
            }))?;
        } else {
            out.line(format!(
                "{name}: version {number}, {}, {} checked in {}, all well",
                plural(checked.files, "file"),
                size(checked.bytes),
                time(start.elapsed())
            ))?;
        }
    }
    Ok(out.finish()?)
}
