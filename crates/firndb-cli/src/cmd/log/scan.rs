//! `firn log scan`: prints records as a table or as lines.

use super::writer::entry_writer;
use super::{open_to_read, unescape};
use crate::cmd::formats::FileFormat;
use crate::cmd::table::Form;
use crate::failure::Result;
use crate::output::{Out, STDOUT, from_hex};
use firndb_ingest::RecordWriterOptions;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Print records.
///
/// Print records, in their order on disk.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the store.
    #[arg(value_name = "STORE")]
    dir: PathBuf,
    /// Maximum number of records printed.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print records whose keys have this prefix, which is in hexadecimal digits with --hex. All
    /// records are read.
    #[arg(long, value_name = "TEXT")]
    prefix: Option<OsString>,
    /// Print keys alone.
    #[arg(long)]
    keys_only: bool,
    /// Format of the records; --json is short for jsonl.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    /// Separator of key and value in text; \t, \n, \0, \\ and \xHH are understood.
    #[arg(short, long, default_value = "\\t", value_name = "TEXT", value_parser = unescape)]
    separator: std::vec::Vec<u8>,
    /// Print keys and values in hexadecimal digits.
    #[arg(long)]
    hex: bool,
}

impl Args {
    /// The arguments that print keys alone.
    pub fn keys(dir: &Path, limit: Option<u64>, prefix: Option<OsString>, hex: bool) -> Args {
        let (format, separator) = (Form::Text, b"\t".to_vec());
        Args { dir: dir.to_path_buf(), limit, prefix, keys_only: true, format, separator, hex }
    }
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let store = open_to_read(&args.dir)?;
    let format = if json { FileFormat::Jsonl } else { args.format.format() };
    let options = RecordWriterOptions::default()
        .separator(args.separator.clone())
        .hex(args.hex)
        .exact(false)
        .keys_only(args.keys_only);
    let mut records = entry_writer(Out::new(), STDOUT.as_ref(), format, options)?;
    let prefix = match &args.prefix {
        None => Vec::new(),
        Some(prefix) if args.hex => from_hex(&prefix.to_string_lossy())?,
        Some(prefix) => prefix.as_bytes().to_vec(),
    };
    let mut left = args.limit.unwrap_or(u64::MAX);
    let snapshot = store.snapshot();
    let mut all = snapshot.iter();
    while left > 0 {
        let shown = all.next_entry_with(|entry| match entry.key.starts_with(&prefix) {
            true => records.write(entry).map(|()| true),
            false => Ok(false),
        });
        match shown {
            None => break,
            Some(shown) => left -= u64::from(shown??),
        }
    }
    let (out, _) = records.finish()?;
    Ok(out.finish()?)
}
