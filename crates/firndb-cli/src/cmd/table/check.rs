//! `--verify-input`: reads the inputs again, and looks up each record in the table.

use super::build::Work;
use super::builder::Built;
use super::{open_any, shown_key};
use crate::failure::Result;
use crate::output::{plural, thousands};
use firndb::table::{Access, MAX_KEY, MAX_VALUE};
use firndb::{Error, ErrorKind};
use firndb_ingest::origin_name;
use std::path::Path;

/// Compares every record of the inputs with the table that was built from them.
///
/// Of several records with one key the table keeps one: the others, which the build counted, may
/// have other values.
pub fn run(path: &Path, work: &Work, report: &Built) -> Result<()> {
    let table = open_any(path, Access::Map)?;
    let (mut reader, bar) = work.read()?;
    let (mut records, mut replaced) = (0, 0);
    let mut compare = || -> firndb::Result<()> {
        while let Some(batch) = reader.next_batch()? {
            let fits = |(_, key, value): &(u64, &[u8], &[u8])| {
                key.len() <= MAX_KEY && value.len() <= MAX_VALUE
            };
            let wanted: Vec<_> = batch.iter().filter(fits).collect();
            let keys: Vec<&[u8]> = wanted.iter().map(|(_, key, _)| *key).collect();
            table.read_many(&keys, |i, found| {
                let (origin, key, value) = wanted[i];
                records += 1;
                let position =
                    || format!("{}: {}", origin_name(origin, &work.names), shown_key(key));
                match found {
                    Some(found) if found == value => {}
                    Some(_) if replaced < report.duplicates => replaced += 1,
                    Some(_) => return Err(wrong(path, &position(), "has another value")),
                    None => return Err(wrong(path, &position(), "is not there")),
                }
                Ok(())
            })?;
            bar.set_message(format!("{} compared", thousands(records)));
        }
        Ok(())
    };
    let compared = compare();
    bar.finish_and_clear();
    compared?;
    if records != report.records + report.duplicates {
        let message = format!(
            "the inputs have {} now, and had {} when the table was built",
            plural(records, "record"),
            thousands(report.records + report.duplicates)
        );
        return Err(Error::new(ErrorKind::Failed, message).in_file(path).into());
    }
    Ok(())
}

fn wrong(path: &Path, position: &str, what: &str) -> Error {
    let message =
        format!("{position} {what} in the table; build it again unless the input changed");
    Error::new(ErrorKind::Corrupt, message).in_file(path)
}
