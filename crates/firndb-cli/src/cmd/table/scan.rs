//! `firn table scan`: prints records of a table as text, CSV, TSV or JSON lines.

use super::writer::{Options, RecordsOf};
use super::{Shown, Source, shown_of, unescape};
use crate::cmd::formats::FileFormat;
use crate::cmd::keys_wanted::KeysWanted;
use crate::failure::Result;
use crate::output::{Out, STDOUT};
use clap::ValueEnum;
use firndb::table::{Range, Table};
use std::ops::ControlFlow;

/// Print records.
///
/// Print records, in the order of the file. That is the order of the hashes of their keys or, in a
/// table built with --order key, the order of the keys. Only such a table has ranges of keys:
/// firn table scan orders.firn --prefix 2026-11 --reverse --limit 10
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    wanted: KeysWanted,
    /// --prefix, --from and --to are in hexadecimal digits.
    #[arg(long)]
    hex: bool,
    /// Maximum number of records printed.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Print keys alone.
    #[arg(long)]
    keys_only: bool,
    /// Format of the records; --json is short for jsonl.
    #[arg(long, value_enum, default_value_t)]
    format: Form,
    /// Separator of key and value in text; \t, \n, \0, \\ and \xHH are understood.
    #[arg(short, long, default_value = "\\t", value_name = "TEXT", value_parser = unescape)]
    separator: std::vec::Vec<u8>,
}

/// How printed records look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// KEY, separator, VALUE and a newline.
    #[default]
    Text,
    /// A header line, then one row per record: the columns of the table's rows, or `key,value`.
    Csv,
    /// The same, separated by tabs.
    Tsv,
    /// One JSON object per line.
    Jsonl,
}

impl Form {
    pub fn format(self) -> FileFormat {
        match self {
            Form::Text => FileFormat::Text,
            Form::Csv => FileFormat::Csv,
            Form::Tsv => FileFormat::Tsv,
            Form::Jsonl => FileFormat::Jsonl,
        }
    }
}

pub fn run(args: &Args, json: bool) -> Result<()> {
    let table = args.source.open()?;
    let shown = shown_of(&table)?;
    let options = Options {
        format: if json { FileFormat::Jsonl } else { args.format.format() },
        separator: args.separator.clone(),
        keys_only: args.keys_only,
        exact: false,
    };
    print(&table, &shown, options, (&args.wanted, args.hex), args.limit)
}

/// Prints the first of the wanted records, whose bounds are hexadecimal digits if `hex` is set.
pub fn print(
    table: &Table,
    shown: &Shown,
    options: Options,
    (wanted, hex): (&KeysWanted, bool),
    limit: Option<u64>,
) -> Result<()> {
    if wanted.is_all() {
        return print_all(table, shown, options, limit);
    }
    let mut range = table.range(wanted.range(hex)?)?;
    if wanted.reverse {
        range = range.reversed();
    }
    print_range(range, shown, options, limit)
}

/// Prints the first records of a range.
fn print_range(
    mut range: Range,
    shown: &Shown,
    options: Options,
    limit: Option<u64>,
) -> Result<()> {
    let mut writer = RecordsOf::new(Out::new(), STDOUT.as_ref(), options, shown)?;
    for _ in 0..limit.unwrap_or(u64::MAX) {
        let Some(written) = range.next_with(|key, value| writer.write(key, value)) else { break };
        written??;
    }
    Ok(writer.finish()?.finish()?)
}

/// Prints the first records.
fn print_all(table: &Table, shown: &Shown, options: Options, limit: Option<u64>) -> Result<()> {
    let mut writer = RecordsOf::new(Out::new(), STDOUT.as_ref(), options, shown)?;
    let mut left = limit.unwrap_or(u64::MAX);
    let mut failed = Ok(());
    if left > 0 {
        table.scan(0, 1, |key, value| {
            failed = writer.write(key, value);
            left -= 1;
            match failed.is_err() || left == 0 {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
    }
    failed?;
    Ok(writer.finish()?.finish()?)
}
