//! Builds from files and from Arrow data: what `firn table build` does.

use crate::build::arrow::Batches;
use crate::build::bad_rows::BadRows;
use crate::build::run::{Reporters, interruptible};
use crate::error::Result;
use crate::table::build::{Build, Report, Spec};
use firndb::{Error, ErrorKind};
use firndb_ingest::{
    DataFiles, Format, Input, Progress, RecordOptions, RecordReader, ValueColumn, expand,
    origin_name,
};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// The name of Arrow data in messages.
const SOURCE: &str = "source";

/// Builds a table from files.
pub fn from_files(
    build: &Build<'_>,
    paths: &[PathBuf],
    bad_rows: BadRows,
) -> firndb::Result<Report> {
    let inputs = expand(paths, DataFiles::Records)?;
    let options = build.record_options()?;
    let (table, exists) = (build.path, build.path.exists());
    let is_itself = |input: &Input| match input {
        Input::File(path) => exists && path.canonicalize().ok() == table.canonicalize().ok(),
        Input::Stdin => false,
    };
    if inputs.iter().any(is_itself) {
        return Err(Error::invalid("the table would replace its own input").in_file(table));
    }
    let sizes: Option<Vec<u64>> = inputs.iter().map(Input::size).collect();
    build.job.reading.set_total(sizes.map(|sizes| sizes.iter().sum()));
    let reader = RecordReader::new(&inputs, options).map_err(in_python)?;
    build.read(reader, inputs.iter().map(Input::name).collect(), bad_rows)
}

/// Builds a table from an object with Arrow capsules.
pub fn from_arrow(
    py: Python<'_>,
    build: &Build<'_>,
    source: &Bound<'_, PyAny>,
    reporters: &Reporters,
    bad_rows: BadRows,
) -> Result<Report> {
    let options = build.record_options()?;
    let Some((batches, released)) = Batches::import(source)? else {
        return Err(PyTypeError::new_err("the source has no Arrow capsules").into());
    };
    // Tables have a length, streams do not.
    build.job.reading.set_total(source.len().ok().map(|rows| rows as u64));
    let schema = batches.schema().clone();
    let result = interruptible(py, build.job, reporters, || {
        let reader = RecordReader::from_batches(SOURCE, schema, batches, options);
        build.read(reader.map_err(in_python)?, vec![SOURCE.to_string()], bad_rows)
    });
    py.detach(|| released.wait());
    result
}

impl Build<'_> {
    fn record_options(&self) -> firndb::Result<RecordOptions> {
        let spec = self.spec;
        let values: Vec<ValueColumn> = spec.value_columns()?;
        if let ([ValueColumn { name, ty: Some(_), .. }], false) = (&values[..], spec.record) {
            return Err(Error::invalid(format!(
                "a single column is a value as it is, without a type; pass value='{name}', or add \
                 record=True"
            )));
        }
        let separator = spec.separator.clone();
        if separator.as_ref().is_some_and(|bytes| bytes.is_empty() || bytes.contains(&b'\n')) {
            let message = "a separator has at least one byte, and no newline: it ends a record";
            return Err(Error::invalid(message));
        }
        let meter = Arc::clone(&self.job.reading);
        Ok(RecordOptions::default()
            .format(format_of(spec)?)
            .require_text(separator.is_some())
            .separator(separator.unwrap_or_else(|| b" ".to_vec()))
            .dialect(spec.dialect.dialect()?)
            .keys(spec.keys.iter().cloned())
            .row_number(spec.row_number)
            .values(values)
            .record(spec.record)
            .progress(Progress::new(move |more| meter.add(more)))
            .cancel(self.job.cancel.clone()))
    }

    /// Reads all records and writes the table.
    fn read(
        &self,
        mut reader: RecordReader,
        names: Vec<String>,
        mut bad_rows: BadRows,
    ) -> firndb::Result<Report> {
        let mut sink = self.sink(reader.schema())?;
        sink.name_origins(move |origin| origin_name(origin, &names));
        let mut rows = 0;
        while let Some(batch) = reader.next_batch().map_err(in_python)? {
            for bad in batch.bad_rows() {
                rows += 1;
                bad_rows.take(in_python_text(bad))?;
            }
            for (origin, key, value) in batch.iter() {
                rows += 1;
                match sink.add_from(origin, key, value) {
                    Err(e) if e.kind() == ErrorKind::InvalidArgument => bad_rows.take(e)?,
                    added => added?,
                }
            }
        }
        // A column with a requested type may still be missing or misspelled.
        let absent = if rows > bad_rows.skipped { reader.absent_columns() } else { &[] };
        let absent = absent.to_vec();
        drop(reader);
        Ok(Report { built: self.finish(sink)?, rows, bad_rows, absent })
    }
}

impl Spec {
    pub fn value_columns(&self) -> firndb::Result<Vec<ValueColumn>> {
        let columns = self.values.iter().map(|text| ValueColumn::parse(text));
        columns.collect::<std::result::Result<_, _>>().map_err(Error::invalid)
    }
}

fn format_of(spec: &Spec) -> firndb::Result<Format> {
    const FORMATS: [Format; 8] = [
        Format::Auto,
        Format::Text,
        Format::Csv,
        Format::Tsv,
        Format::JsonLines,
        Format::Parquet,
        Format::Arrow,
        Format::Avro,
    ];
    let Some(name) = spec.format.as_deref() else { return Ok(Format::Auto) };
    FORMATS.into_iter().find(|format| format.name() == name).ok_or_else(|| {
        let names: Vec<&str> = FORMATS.iter().map(|format| format.name()).collect();
        Error::invalid(format!("format is '{name}'; it is one of {}", names.join(", ")))
    })
}

/// Options of the command line that messages name, and what they are in Python.
const OPTIONS: [(&str, &str); 13] = [
    ("--value NAME:string", "value='NAME:string'"),
    ("--format text", "format='text'"),
    ("--format", "format="),
    ("--key", "key="),
    ("--value", "value="),
    ("--record", "record=True"),
    ("--delimiter", "delimiter="),
    ("--quote none", "quote=None"),
    ("--ragged fill", "ragged='fill'"),
    ("--encoding", "encoding="),
    ("--max-row", "max_row="),
    ("with -s", "with separator="),
    ("-s divides", "separator= divides"),
];

/// An error whose message names options as they are in Python.
fn in_python(error: Error) -> Error {
    match error.kind() {
        ErrorKind::InvalidArgument if error.file().is_none() => {
            Error::invalid(in_python_text(error.message()))
        }
        _ => error,
    }
}

fn in_python_text(message: &str) -> String {
    let mut text = message.to_string();
    for (option, argument) in OPTIONS {
        // Options are words of their own; a name in the data may contain the letters.
        for before in [' ', '('] {
            text = text.replace(&format!("{before}{option}"), &format!("{before}{argument}"));
        }
    }
    text
}
