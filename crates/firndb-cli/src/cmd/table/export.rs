//! `firn table export`: writes all records into a file.

use super::writer::{Options, RecordsOf, write_batches};
use super::{Source, shown_of, unescape};
use crate::cmd::formats::{Exported, Target};
use crate::failure::Result;
use crate::output::{plural, report_export};
use std::ops::ControlFlow;
use std::time::Instant;

/// Write all records into a file.
///
/// For example: firn table export users.firn -o users.csv
///
/// The order is that of the file. A record that would not come back from the format is an error.
/// Values of rows become columns; in Parquet, Arrow and Avro other keys and values are binary
/// columns.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    target: Target,
    /// Separator of key and value in text; \t, \n, \0, \\ and \xHH are understood.
    #[arg(short, long, default_value = "\\t", value_name = "TEXT", value_parser = unescape)]
    separator: std::vec::Vec<u8>,
}

/// Records between two updates of the bar.
const STEP: u64 = 1 << 14;

pub fn run(args: &Args, json: bool) -> Result<()> {
    let start = Instant::now();
    let format = args.target.check()?;
    let table = args.source.open()?;
    let shown = shown_of(&table)?;
    let Exported { counts: records, file_bytes } = args.target.write(|sink, bar| {
        let progress = |records: u64| bar.set_message(plural(records, "record"));
        if format.is_batches() && shown.record_type().is_none() {
            return write_batches(&table, format, sink, progress);
        }
        let separator = args.separator.clone();
        let options = Options { format, separator, keys_only: false, exact: true };
        let mut writer = RecordsOf::new(sink, args.target.path(), options, &shown)?;
        let (mut records, mut failed) = (0, Ok(()));
        table.scan(0, 1, |key, value| {
            records += 1;
            if records % STEP == 0 {
                progress(records);
            }
            failed = writer.write(key, value);
            match failed {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        failed?;
        Ok((writer.finish()?, records))
    })?;
    report_export(args.target.path(), "records", records, file_bytes, start, json)
}
