//! `firn catalog verify`: checks every byte of a version.

use super::Which;
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
    which: Which,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    let (store, version) = args.which.version()?;
    let bar = progress_bar(Some(version.bytes()));
    let checked = store.verify(&version, |file| bar.inc(file.bytes));
    bar.finish_and_clear();
    let checked = checked?;
    let mut out = Out::new();
    if json {
        let (number, files, bytes) = (version.number, checked.files, checked.bytes);
        out.json(&json!({
            "name": args.which.name, "version": number, "files": files, "bytes": bytes,
        }))?;
    } else {
        out.line(format!(
            "{}: version {}, {}, {} checked in {}, all well",
            args.which.name,
            version.number,
            plural(checked.files, "file"),
            size(checked.bytes),
            time(start.elapsed())
        ))?;
    }
    Ok(out.finish()?)
}
