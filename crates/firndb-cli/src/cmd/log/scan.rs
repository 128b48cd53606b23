//! `firn log scan`: prints records as a table or as lines.

use super::writer::entry_writer;
use super::{open_to_read, unescape};
use crate::cmd::formats::FileFormat;
use crate::cmd::keys_wanted::KeysWanted;
use crate::cmd::table::Form;
use crate::failure::Result;
use crate::output::{Out, STDOUT};
use firndb::Error;
use firndb_ingest::RecordWriterOptions;
use std::path::{Path, PathBuf};

/// Print records.
///
/// Print records. Those of an ordered store come in the byte order of their keys, and only the
/// wanted ones are read. Those of other stores come in their order on disk; with --prefix all are
/// read, and the others are left out.
///
/// For example: firn log scan orders --from order/2026-11 --to order/2026-12
#[derive(clap::Args)]
pub struct Args {
    /// Directory of the store.
    #[arg(value_name = "STORE")]
    dir: PathBuf,
    /// Maximum number of records printed.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    #[command(flatten)]
    wanted: KeysWanted,
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
    pub fn keys(dir: &Path, limit: Option<u64>, wanted: KeysWanted, hex: bool) -> Args {
        let (format, separator) = (Form::Text, b"\t".to_vec());
        Args { dir: dir.to_path_buf(), limit, wanted, keys_only: true, format, separator, hex }
    }
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let range = args.wanted.range(args.hex)?;
    let store = open_to_read(&args.dir)?;
    if args.wanted.needs_order() && !store.is_ordered() {
        let message = "--from, --to and --reverse need an ordered store, which this one is not: \
                       write it to a file with `firn log export`, and load the file into a new \
                       store with `firn log load --ordered`";
        return Err(Error::invalid(message).in_file(&args.dir).into());
    }
    let format = if json { FileFormat::Jsonl } else { args.format.format() };
    let options = RecordWriterOptions::default()
        .separator(args.separator.clone())
        .hex(args.hex)
        .exact(false)
        .keys_only(args.keys_only);
    let mut records = entry_writer(Out::new(), STDOUT.as_ref(), format, options)?;
    let mut left = args.limit.unwrap_or(u64::MAX);
    let snapshot = store.snapshot();
    if store.is_ordered() {
        let mut all = snapshot.range(range)?;
        if args.wanted.reverse {
            all = all.reversed();
        }
        while left > 0
            && let Some(written) = all.next_entry_with(|entry| records.write(entry))
        {
            written??;
            left -= 1;
        }
    } else {
        let mut all = snapshot.iter();
        while left > 0
            && let Some(shown) = all.next_entry_with(|entry| match range.contains(entry.key) {
                true => records.write(entry).map(|()| true),
                false => Ok(false),
            })
        {
            left -= u64::from(shown??);
        }
    }
    let (out, _) = records.finish()?;
    Ok(out.finish()?)
}
