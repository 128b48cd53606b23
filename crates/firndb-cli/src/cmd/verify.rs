//! `firn verify`: checks every byte of a file, of a collection's current partitions, of a log
//! store, or of an index.

use super::load::progress_bar;
use crate::failure::Result;
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
        let (files, bytes, records) = (report.files, report.bytes, report.records);
        out.json(&json!({ "files": files, "bytes": bytes, "records": records }))?;
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
