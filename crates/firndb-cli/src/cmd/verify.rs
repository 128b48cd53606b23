//! `firn verify`: checks every byte of a file, of a collection's current partitions, of a log
//! store, or of an index.

use super::load::progress_bar;
use crate::failure::Result;
use crate::kinds::refuse_foreign;
use crate::output::{Out, plural, size, time};
use serde_json::json;
use std::path::PathBuf;
use std::time::Instant;

/// Check every byte. Exit code 0 if all is well, 6 if something is corrupt.
#[derive(clap::Args)]
pub struct Args {
    /// A file, or the directory of a collection, of a log store or of an index.
    pub path: PathBuf,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    refuse_foreign(&args.path)?;
    let start = Instant::now();
    let bar = progress_bar(None);
    let report = firndb::verify(&args.path, |file, bytes| {
        bar.inc(bytes);
        bar.set_message(file.display().to_string());
    });
    bar.finish_and_clear();
    let report = report?;
    let mut out = Out::new();
    if json {
        out.json(&json!({ "files": report.files, "bytes": report.bytes }))?;
    } else {
        out.line(format!(
            "{}: {}, {} checked in {}, all well",
            args.path.display(),
            plural(report.files, "file"),
            size(report.bytes),
            time(start.elapsed())
        ))?;
    }
    Ok(out.finish()?)
}
