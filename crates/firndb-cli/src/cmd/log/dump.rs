//! `firn log dump`: all records, as they are at one moment, in a form that `firn log load` reads.

use super::form::{Form, Records, Sink, Style};
use super::{open_to_read, unescape};
use crate::cmd::load::progress_bar;
use crate::failure::Result;
use crate::output::{Out, plural, size, thousands, time};
use crate::target::{Content, check_file};
use firndb::Error;
use firndb::log::LogStore;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Write all records: firn log dump users -o users.jsonl.zst. Times to live are not written.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the store.
    #[arg(value_name = "STORE")]
    dir: PathBuf,
    /// The file to write, compressed if its name ends in .gz or .zst. Default: standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Form of the records. JSON lines hold every record; text and CSV do with --hex.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    /// Stands between key and value in text; \t, \n, \0, \\ and \xHH are understood.
    #[arg(short, long, default_value = "\\t", value_name = "TEXT", value_parser = unescape)]
    separator: std::vec::Vec<u8>,
    /// Write keys and values in hexadecimal digits; give --hex to `load` too for text and CSV.
    #[arg(long)]
    hex: bool,
    /// Replace a regular file of this name, unless it is a file of FirnDB: that is never replaced,
    /// nor are directories, links, pipes and devices.
    #[arg(long)]
    force: bool,
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    if args.separator.is_empty() {
        return Err(Error::invalid("a separator has at least one byte").into());
    }
    let style = Style {
        form: args.format.of(args.output.as_deref()),
        separator: args.separator.clone(),
        hex: args.hex,
        is_exact: true,
        keys_only: false,
    };
    let Some(path) = &args.output else {
        let store = open_to_read(&args.dir)?;
        write_all(&store, Records::new(Sink::Out(Out::new()), None, style)?, |_, _| ())?;
        return Ok(());
    };
    check_file(path, Content::Rows, args.force)?;
    let store = open_to_read(&args.dir)?;
    let (records, bytes) = to_file(&store, path, style)?;
    let file = path.metadata().map_err(|e| Error::io("read", path, e))?.len();
    let mut out = Out::new();
    if json {
        out.json(&json!({
            "records": records,
            "bytes": bytes,
            "file_bytes": file,
            "seconds": start.elapsed().as_secs_f64(),
        }))?;
    } else {
        let rate = records as f64 / start.elapsed().as_secs_f64().max(1e-9);
        out.line(format!(
            "{}: {}, {}, written in {} ({} a second)",
            path.display(),
            plural(records, "record"),
            size(file),
            time(start.elapsed()),
            thousands(rate as u64)
        ))?;
    }
    Ok(out.finish()?)
}

/// Writes a file under another name, and names it when it is whole.
fn to_file(store: &LogStore, path: &Path, style: Style) -> firndb::Result<(u64, u64)> {
    let mut name = path.as_os_str().to_os_string();
    name.push(format!(".part-{}", std::process::id()));
    let part = PathBuf::from(name);
    check_file(&part, Content::Rows, false)?; // What is there is not ours to remove.
    let bar = progress_bar(None);
    let written = Sink::file(&part, path)
        .and_then(|sink| Records::new(sink, Some(path.to_path_buf()), style))
        .and_then(|to| {
            write_all(store, to, |records, bytes| {
                let rate = records as f64 / bar.elapsed().as_secs_f64().max(1e-9);
                let (records, rate) = (thousands(records), thousands(rate as u64));
                bar.set_position(bytes);
                bar.set_message(format!("{records} records, {rate} a second"));
            })
        })
        .and_then(|done| {
            std::fs::rename(&part, path).map_err(|e| Error::io("name the file", path, e))?;
            Ok(done)
        });
    bar.finish_and_clear();
    if written.is_err() {
        // The failure is the news.
        let _ = std::fs::remove_file(&part);
    }
    written
}

/// Records that pass between two calls of `progress`.
const STEP: u64 = 1 << 14;

/// Writes all records. Returns how many they are, and the bytes of their keys and values.
fn write_all(
    store: &LogStore,
    mut to: Records,
    progress: impl Fn(u64, u64),
) -> firndb::Result<(u64, u64)> {
    let (mut records, mut bytes) = (0, 0);
    let snapshot = store.snapshot();
    let mut all = snapshot.iter();
    let mut write = |key: &[u8], value: &[u8]| {
        records += 1;
        bytes += (key.len() + value.len()) as u64;
        if records % STEP == 0 {
            progress(records, bytes);
        }
        to.write(key, value)
    };
    while let Some(written) = all.next_with(&mut write) {
        written??;
    }
    to.finish()?;
    Ok((records, bytes))
}
