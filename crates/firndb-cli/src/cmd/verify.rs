//! `firn verify`: checks every byte of a store or of a file, whatever it is.

use super::load::progress_bar;
use crate::failure::Result;
use crate::kinds::{Kind, explain, kind_of, refuse_foreign};
use crate::output::{Out, plural, size, time};
use firndb::Error;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Check every byte. Exit code 0 if all is well, 6 if something is corrupt.
#[derive(clap::Args)]
pub struct Args {
    /// A file, or the directory of a collection, of a log store or of an index.
    pub path: PathBuf,
}

/// Verifies a path if it is of one of these kinds; a damaged file may be of any kind.
pub fn run_on(args: &Args, kinds: &[Kind], json: bool) -> Result<()> {
    let found = kind_of(&args.path);
    if !kinds.contains(&found) && !matches!(found, Kind::Damaged | Kind::Missing) {
        return Err(explain(other(&args.path), &args.path, kinds).into());
    }
    run(args, json)
}

fn other(path: &Path) -> Error {
    Error::invalid("this is a directory that holds no store of this kind").in_file(path)
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    refuse_foreign(&args.path)?;
    if kind_of(&args.path) == Kind::Log {
        return super::log::verify(&args.path, json);
    }
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
        out.json(&json!({
            "files": report.files,
            "file_bytes": report.bytes,
            "records": report.records,
            "elapsed_seconds": start.elapsed().as_secs_f64(),
        }))?;
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
